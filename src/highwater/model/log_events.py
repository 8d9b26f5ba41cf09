"""Log lines as events: `partition_created topic=orders partition=0`, one a line, through the standard library.

A broker is quiet by default: INFO is for what an operator wants to know a year later, and nothing on the path of a
request logs at all.
"""

import logging
from typing import Final

_NEEDS_QUOTES: Final = frozenset(' "=\n\r\t')
_FORMAT: Final = "%(asctime)s.%(msecs)03d %(levelname)s %(message)s"


def set_up_logging(level: str = "INFO") -> None:
    """Send events of `level` and above to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(_FORMAT, datefmt="%Y-%m-%dT%H:%M:%S"))
    root = logging.getLogger("highwater")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False


class EventLog:
    """A logger that writes events; `room` is the part of the broker that speaks."""

    __slots__ = ("_logger",)

    def __init__(self, room: str) -> None:
        self._logger = logging.getLogger(f"highwater.{room}")

    def debug(self, event: str, **fields: object) -> None:
        """Write what helps to find a bug."""
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: object) -> None:
        """Write what an operator wants to know."""
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Write what an operator should look at."""
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, *, cause: BaseException | None = None, **fields: object) -> None:
        """Write what an operator must act upon; with its traceback when a bug is the `cause`."""
        self._write(logging.ERROR, event, fields, cause)

    def _write(self, level: int, event: str, fields: dict[str, object], cause: BaseException | None = None) -> None:
        if self._logger.isEnabledFor(level):
            text = " ".join((event, *(f"{name}={_shown(value)}" for name, value in fields.items())))
            self._logger.log(level, "%s", text, exc_info=cause)


def _shown(value: object) -> str:
    text = str(value)
    if text and _NEEDS_QUOTES.isdisjoint(text) and text.isprintable():
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in escaped) + '"'
