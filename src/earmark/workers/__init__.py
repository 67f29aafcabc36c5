"""Runs a one-recording function over many recordings, on this machine or on a Ray cluster."""
