"""Ids, offsets, epochs and errors: the words every room shares."""
