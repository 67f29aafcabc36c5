"""Asks whether triage pays: annotations, metrics, statistics and the paper's experiments."""
