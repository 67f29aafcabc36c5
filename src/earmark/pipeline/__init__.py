"""The order of the stages, and the only place that knows it: one screen a verb."""
