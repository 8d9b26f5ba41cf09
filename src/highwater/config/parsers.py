"""The kinds of value a setting may take, each with its bounds."""

from collections.abc import Mapping
from typing import Final, TypeVar

from highwater.config.setting import BadValue, Parser, WireType

T = TypeVar("T")

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1


def integer(*, at_least: int = -(2**31), at_most: int = INT32_MAX, unit: str = "") -> Parser[int]:
    """A whole number within bounds; 64 bits wide when a bound says so."""
    wide = at_most > INT32_MAX
    lowest = f"from {at_least} " if at_least > -(2**31) else ""
    highest = f"up to {at_most}" if at_most not in {INT32_MAX, INT64_MAX} else "up"
    what = f"a number of {unit}" if unit else "an integer"
    allowed = f"{what} {lowest}{highest}" if lowest or highest != "up" else what

    def read(text: str) -> int:
        value = int(text) if text.isascii() and "_" not in text else None
        if value is None or not at_least <= value <= at_most:
            raise ValueError
        return value

    return Parser(WireType.LONG if wide else WireType.INT, allowed, read, str)


def byte_count(*, at_least: int = 0, at_most: int = INT32_MAX) -> Parser[int]:
    """A size in bytes."""
    return integer(at_least=at_least, at_most=at_most, unit="bytes")


def milliseconds(*, at_least: int = 0, at_most: int = INT64_MAX) -> Parser[int]:
    """A time span in milliseconds."""
    return integer(at_least=at_least, at_most=at_most, unit="milliseconds")


def fraction(*, at_least: float = 0.0, at_most: float = 1.0) -> Parser[float]:
    """A number with a fractional part, within bounds."""

    def read(text: str) -> float:
        value = float(text)
        if not at_least <= value <= at_most:  # also refuses "nan"
            raise ValueError
        return value

    return Parser(WireType.DOUBLE, f"a number from {at_least:g} to {at_most:g}", read, repr)


def boolean() -> Parser[bool]:
    """Yes or no, spelled `true` or `false`."""
    words = {"true": True, "false": False}

    def read(text: str) -> bool:
        if text.lower() not in words:
            raise ValueError
        return words[text.lower()]

    return Parser(WireType.BOOLEAN, "true or false", read, lambda value: "true" if value else "false")


def text() -> Parser[str]:
    """Any text."""
    return Parser(WireType.STRING, "text", str, str)


def secret() -> Parser[str]:
    """Text that is never shown."""
    return Parser(WireType.PASSWORD, "text", str, lambda _: "[hidden]")


def choice(*words: str) -> Parser[str]:
    """One of a few words."""
    known = {word.lower(): word for word in words}

    def read(given: str) -> str:
        if given.lower() not in known:
            raise ValueError
        return known[given.lower()]

    return Parser(WireType.STRING, "one of " + ", ".join(words), read, str)


def word_list(
    *, of: Parser[str] | None = None, at_least_one: bool = False, separator: str = ","
) -> Parser[tuple[str, ...]]:
    """Words with a separator between, each as `of` allows; order is kept and repeats are dropped."""
    item = of or text()
    allowed = f"a list separated by {separator!r}" + (f", each {item.allowed}" if of else "")

    def read(given: str) -> tuple[str, ...]:
        try:
            words = tuple(dict.fromkeys(item(word) for word in given.split(separator) if word.strip()))
        except ValueError:
            raise BadValue(f"must be {allowed}") from None
        if at_least_one and not words:
            raise BadValue("must not be empty")
        return words

    return Parser(WireType.LIST, allowed, read, separator.join)


def _pairs_of(values: Parser[T]) -> Parser[Mapping[str, T]]:
    allowed = f"name:value pairs separated by commas, each value {values.allowed}"

    def read(given: str) -> Mapping[str, T]:
        pairs: dict[str, T] = {}
        for pair in filter(None, (piece.strip() for piece in given.split(","))):
            name, colon, value = pair.rpartition(":")
            if not colon or not name.strip():
                raise ValueError
            try:
                pairs[name.strip()] = values(value)
            except ValueError:
                raise BadValue(f"must be {allowed}") from None
        return pairs

    def show(pairs: Mapping[str, T]) -> str:
        return ",".join(f"{name}:{values.show(value)}" for name, value in pairs.items())

    return Parser(WireType.STRING, allowed, read, show)


def word_map(*, values: Parser[str]) -> Parser[Mapping[str, str]]:
    """Pairs `name:word` separated by commas."""
    return _pairs_of(values)


def number_map(*, at_least: int) -> Parser[Mapping[str, int]]:
    """Pairs `name:number` separated by commas."""
    return _pairs_of(integer(at_least=at_least))


def optional(parser: Parser[T]) -> Parser[T | None]:
    """Like `parser`, or nothing at all: an empty value means "not set"."""

    def read(given: str) -> T | None:
        return parser(given) if given else None

    def show(value: T | None) -> str:
        return "" if value is None else parser.show(value)

    return Parser(parser.wire_type, parser.allowed, read, show)
