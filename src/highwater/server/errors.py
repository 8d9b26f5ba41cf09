"""What can go wrong between the broker and one peer."""

from highwater.storage.files import File


class FileCutShort(OSError):
    """A file range that was promised to a peer is no longer all there."""


class FileUnreadable(Exception):
    """The disk failed while a file was being sent; the peer is not to blame. The cause is the disk's own error."""

    def __init__(self, file: File, error: OSError) -> None:
        super().__init__(f"a segment cannot be read: {error}")
        self.file = file
        self.error = error
