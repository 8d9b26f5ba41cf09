"""Sockets, framing, ordered answers, and the table of every API served."""
