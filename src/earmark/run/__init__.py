"""The run's memory: every recording, pick, call and answer, in one SQLite database."""
