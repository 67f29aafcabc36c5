"""The rules that spend a budget of calls, one a file."""
