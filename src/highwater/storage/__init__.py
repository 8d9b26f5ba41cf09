"""One partition's log on disk, synchronous: segments, indexes, recovery, retention, compaction, producer state."""
