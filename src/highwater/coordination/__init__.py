"""The cluster's memory: one port, ZooKeeper behind it for a cluster and an embedded store for a broker alone."""
