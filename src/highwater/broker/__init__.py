"""Drives the cores and does the I/O: partitions, replication, topics, long polls, groups, transactions."""
