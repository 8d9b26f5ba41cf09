"""Consumer groups and their offsets, free of I/O."""
