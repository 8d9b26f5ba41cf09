"""Counters and gauges declared as data, plain integers until they are scraped."""
