"""Turns words on a command line into calls of the library."""
