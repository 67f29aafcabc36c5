"""Pure functions from references and picks to counts, and what counts are worth."""
