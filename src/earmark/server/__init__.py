"""Serves runs to browsers and programs: REST, media by ranges, live progress, corrections."""
