"""Drives the cores and does the I/O: partitions, log dirs, topics, long polls, groups."""
