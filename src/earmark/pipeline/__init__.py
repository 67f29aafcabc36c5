"""The commands as sequences of stages; no other package knows the order of the stages."""
