"""Asks a vision model about the picked windows: prompts, frames, clients, retries, allowance."""
