"""Reads `.properties` files as Java does: comments, continuations, escapes, three kinds of separator."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_SEPARATOR: Final = re.compile(r"(?:\\.|[^\\=: \t\f])*")
_AROUND_SEPARATOR: Final = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROL: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_MAX_FILE_BYTES: Final = 1024 * 1024


class ConfigError(Exception):
    """A setting or its file is wrong: one line that says where, what, and what may stand there."""


class Property(NamedTuple):
    """One `key=value` and the line it starts on."""

    key: str
    value: str
    line: int


def read_properties(path: Path) -> list[Property]:
    """Return the properties of the file at `path`, in order."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    if len(content) > _MAX_FILE_BYTES:
        raise ConfigError(f"{path}: larger than {_MAX_FILE_BYTES} bytes, which no settings file is")
    try:
        return list(parse_properties(content.decode("utf-8")))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: not UTF-8 text") from error
    except _BadLine as error:
        raise ConfigError(f"{path}:{error.line}: {error}") from error


class _BadLine(ValueError):
    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def parse_properties(content: str) -> Iterator[Property]:
    """Yield the properties in `content`, in order."""
    for logical_line, number in _logical_lines(content):
        key_end = _end(_SEPARATOR, logical_line, 0)
        value_start = _end(_AROUND_SEPARATOR, logical_line, key_end)
        try:
            yield Property(_unescape(logical_line[:key_end]), _unescape(logical_line[value_start:]), number)
        except ValueError as error:
            raise _BadLine(str(error), number) from None


def _logical_lines(content: str) -> Iterator[tuple[str, int]]:
    """Yield lines without comments, with those that end in an odd number of backslashes joined to the next."""
    pending, started_at = "", 0
    for number, raw_line in enumerate(re.split(r"\r\n|\r|\n", content), start=1):
        line = raw_line.lstrip(" \t\f")
        if not pending:
            if not line or line[0] in "#!":
                continue
            started_at = number
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending += line[:-1]
            continue
        yield pending + line, started_at
        pending = ""
    if pending:
        yield pending, started_at


def _end(pattern: re.Pattern[str], line: str, start: int) -> int:
    match = pattern.match(line, start)
    assert match is not None, "both patterns match the empty string"
    return match.end()


def _unescape(escaped: str) -> str:
    def replace(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] == "u":
            if len(code) != 5:
                raise ValueError("\\u must be followed by four hexadecimal digits")
            return chr(int(code[1:], 16))
        return _CONTROL.get(code, code)

    return _ESCAPE.sub(replace, escaped)
