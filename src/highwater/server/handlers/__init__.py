"""One API per file: no state, no policy."""
