"""BenchmarkResults as tables, figures and pages."""
