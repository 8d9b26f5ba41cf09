"""Settings as data: names, types, bounds, defaults and documentation."""
