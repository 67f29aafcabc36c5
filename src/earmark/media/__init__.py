"""Opens a file; gives sound and frames at times."""
