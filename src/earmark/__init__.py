"""Listens to a whole recording so that a vision model need look at only a little of it."""
