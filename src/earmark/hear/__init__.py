"""Turns sound into features on one clock."""
