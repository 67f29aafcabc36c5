"""Readers of annotation files."""
