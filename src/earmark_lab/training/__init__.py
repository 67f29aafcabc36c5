"""Fits the gate in PyTorch, calibrates it, exports it, and proves the export equal."""
