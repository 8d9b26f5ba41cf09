"""Fixtures for tests that need a real broker."""
