"""Compaction: of each key the newest record stays, and offsets never change."""
