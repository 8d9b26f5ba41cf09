"""The transaction coordinator's decisions, free of I/O."""
