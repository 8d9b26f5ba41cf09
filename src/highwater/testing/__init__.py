"""A pytest plugin: a real broker as a fixture."""
