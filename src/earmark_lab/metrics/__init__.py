"""Pure functions from references and picks to counts, and tests of significance."""
