"""What can be said without a vision model: named sounds, words for the level, objects."""
