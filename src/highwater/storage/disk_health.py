"""How the disk of one log dir does: told of every error by the logs on it, asked by those who want to write."""

import errno
from collections.abc import Callable
from typing import Final

DISK_FAILURES: Final = frozenset(
    {errno.EIO, errno.EROFS, errno.ENODEV, errno.ENXIO, errno.EUCLEAN, errno.ESTALE, errno.EREMOTEIO}
)
"""Errors after which nothing on this disk can be relied upon; a full one (ENOSPC, EDQUOT) is not among them."""


def is_disk_failure(error: OSError) -> bool:
    """Say whether an error is one of the disk itself."""
    return error.errno in DISK_FAILURES


class DiskHealth:
    """One for each log dir. A failure is for good: only a restart of the broker looks again."""

    __slots__ = ("failure", "on_failure", "refusal")

    def __init__(self) -> None:
        self.failure: str | None = None
        """What went wrong, once something has."""
        self.refusal: str | None = None
        """Why producers may not write here now: it has failed, or there is little room."""
        self.on_failure: Callable[[], None] = lambda: None
        """Called once, on the thread that met the error."""

    def noticed(self, error: OSError) -> None:
        """Take note of an error; any thread may call this."""
        if self.failure is None and is_disk_failure(error):
            self.fail(error.strerror or str(error))

    def fail(self, reason: str) -> None:
        """Use this disk no more."""
        self.failure = reason
        self.refusal = f"its disk failed: {reason}"
        self.on_failure()

    def room_is_short(self, refusal: str | None) -> None:
        """Refuse producers for this reason, or no longer with None; what has failed stays refused."""
        if self.failure is None:
            self.refusal = refusal
