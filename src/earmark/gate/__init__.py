"""Turns features into scores, and scores into rates."""
