"""The cluster's memory: one port, an embedded store for a single broker."""
