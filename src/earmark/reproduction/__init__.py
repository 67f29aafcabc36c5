"""The paper's tables and figures, made again from what is at hand, beside its own numbers."""
