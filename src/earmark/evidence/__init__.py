"""Evidence without a vision model: named sounds, speech, text and objects in frames, level."""
