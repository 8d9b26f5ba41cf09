"""One partition's log on disk, synchronous: segments, indexes, recovery, retention, producer state."""
