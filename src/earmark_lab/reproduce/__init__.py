"""The paper's tables and figures, recomputed from the available data, beside its own numbers."""
