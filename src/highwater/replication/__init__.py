"""The replication rules, free of I/O."""
