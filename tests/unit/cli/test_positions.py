"""Places in a topic, as users name them."""

import time

import pytest
import typer

from highwater.cli.positions import EARLIEST, LATEST, Kind, Position, Span, parse_position


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("earliest", EARLIEST),
        ("latest", LATEST),
        ("0", Position(Kind.OFFSET, 0)),
        ("42", Position(Kind.OFFSET, 42)),
        ("-10", Position(Kind.BEFORE_END, 10)),
        ("2025-01-31T12:00:00Z", Position(Kind.TIME, 1738324800000)),
        ("2025-01-31T12:00:00.250+00:00", Position(Kind.TIME, 1738324800250)),
    ],
)
def test_a_position_is_a_word_an_offset_or_a_time(text: str, position: Position) -> None:
    assert parse_position(text) == position


def test_a_duration_means_that_long_ago() -> None:
    before = int(time.time() * 1000)
    position = parse_position("15m")
    after = int(time.time() * 1000)
    assert position.kind is Kind.TIME
    assert before <= position.number + 15 * 60_000 <= after


@pytest.mark.parametrize("text", ["", "first", "1x", "--1", "1.5", "2025-13-01", "9" * 30])
def test_anything_else_is_refused_with_what_would_do(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="earliest, latest, an offset"):
        parse_position(text)


def test_an_offset_outside_of_a_partition_becomes_its_nearest_end() -> None:
    span = Span(earliest=10, latest=20)
    assert [span.nearest(offset) for offset in (0, 10, 15, 20, 99)] == [10, 10, 15, 20, 20]
