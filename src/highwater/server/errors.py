"""What can go wrong between the broker and one peer."""


class FileCutShort(OSError):
    """A file range that was promised to a peer is no longer all there."""
