"""Real brokers, clusters and faults for tests: a pytest plugin and what stands behind it."""
