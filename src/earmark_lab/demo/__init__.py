"""The demo: a scene with known actions, written as a recording."""
