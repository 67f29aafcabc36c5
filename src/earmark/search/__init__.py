"""Search for moments in runs, by words and by meaning."""
