"""Writes what was heard, looked at and found: one page, subtitles, edit lists and tables."""
