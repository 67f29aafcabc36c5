"""Rules that spend a budget of calls."""
