"""The composition root: the one place that builds and wires a broker."""
