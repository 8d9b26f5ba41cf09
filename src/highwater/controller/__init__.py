"""The controller's decisions, free of I/O."""
