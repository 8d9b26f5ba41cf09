"""The column types that a schema may name, checked without Spark so that a typo is found at once."""

import re
from collections.abc import Iterator
from typing import Final

from highwater_spark.definition.model import EPOCH_MS
from highwater_spark.errors import did_you_mean

SIMPLE_TYPES: Final = frozenset(
    (
        *("boolean", "byte", "tinyint", "short", "smallint", "int", "integer", "long", "bigint"),
        *("float", "real", "double", "decimal", "numeric", "string", "binary", "variant"),
        *("date", "timestamp", "timestamp_ltz", "timestamp_ntz"),
    )
)
_TOKEN: Final = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*|`[^`]+`|\d+|[<>(),:])")
_NOT_NULL: Final = re.compile(r"\s+not\s+null\s*$", re.IGNORECASE)


class UnknownType(ValueError):
    """A text is not a column type; the message says where it stops being one."""


def split_not_null(text: str) -> tuple[str, bool]:
    """Return the type in "string not null", and whether it must be there."""
    bare = _NOT_NULL.sub("", text)
    return bare.strip(), bare != text


def check_type(text: str) -> None:
    """Raise `UnknownType` unless the text is a type that Spark knows."""
    tokens = _Tokens(text)
    if text.strip().lower() == EPOCH_MS:
        return  # ours, and only for a whole column
    _check(tokens)
    if (left := tokens.peek()) is not None:
        raise UnknownType(f"{text!r} goes on after the type, with {left!r}")


class _Tokens:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._split())
        self._next = 0

    def _split(self) -> Iterator[str]:
        at = 0
        end = len(self._text.rstrip())
        while at < end:
            found = _TOKEN.match(self._text, at)
            if found is None:
                raise UnknownType(f"{self._text!r} is not a type: {self._text[at:].strip()!r} is out of place")
            yield found[1]
            at = found.end()

    def peek(self) -> str | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def take(self, wanted: str | None = None) -> str:
        token = self.peek()
        if token is None or (wanted is not None and token != wanted):
            missing = f"{wanted!r} is missing" if wanted else "it is not complete"
            raise UnknownType(f"{self._text!r} is not a type: {missing}")
        self._next += 1
        return token


def _check(tokens: _Tokens) -> None:
    name = tokens.take().lower()
    match name:
        case "array":
            tokens.take("<")
            _check(tokens)
            tokens.take(">")
        case "map":
            tokens.take("<")
            _check(tokens)
            tokens.take(",")
            _check(tokens)
            tokens.take(">")
        case "struct":
            _check_struct(tokens)
        case _ if name in SIMPLE_TYPES:
            if tokens.peek() == "(":
                _check_numbers(tokens)
        case _:
            raise UnknownType(
                f"no column type {name!r}{did_you_mean(name, SIMPLE_TYPES | {'array', 'map', 'struct', EPOCH_MS})}"
            )


def _check_struct(tokens: _Tokens) -> None:
    tokens.take("<")
    while True:
        tokens.take()
        if tokens.peek() == ":":
            tokens.take()
        _check(tokens)
        if tokens.peek() != ",":
            tokens.take(">")
            return
        tokens.take(",")


def _check_numbers(tokens: _Tokens) -> None:
    tokens.take("(")
    while tokens.take() != ")":
        pass
