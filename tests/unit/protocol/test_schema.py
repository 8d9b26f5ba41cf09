"""How declared messages behave as Python objects."""

import pytest

from highwater.protocol.schema import Message, Struct, array, int16, int32, string, struct, version_range


class Point(Struct):
    x: int = int32()
    y: int = int32(default=-1)


class Drawing(Message, key=9, versions="1-4", flexible="3+"):
    name: str | None = string(nullable="0+", default=None)
    points: list[Point] = array(Point)
    origin: Point = struct(Point)
    colour: int = int16(versions="2+", default=7)


def test_a_field_that_is_not_given_has_its_declared_default() -> None:
    drawing = Drawing()
    assert (drawing.name, drawing.points, drawing.colour) == (None, [], 7)
    assert drawing.origin == Point(x=0, y=-1)


def test_lists_and_structs_are_never_shared_between_messages() -> None:
    first, second = Drawing(), Drawing()
    first.points.append(Point())
    first.origin.x = 5
    assert second == Drawing()


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        Point(z=1)  # type: ignore[call-arg]


def test_a_misspelt_attribute_is_refused() -> None:
    with pytest.raises(AttributeError):
        Drawing().nmae = "x"  # type: ignore[attr-defined]


def test_messages_are_equal_when_all_their_fields_are() -> None:
    assert Drawing(points=[Point(x=1)]) == Drawing(points=[Point(x=1)])
    assert Drawing(points=[Point(x=1)]) != Drawing(points=[Point(x=2)])
    assert Point() != Drawing()


def test_a_message_shows_its_fields() -> None:
    assert repr(Point(x=3)) == "Point(x=3, y=-1)"


def test_a_message_knows_its_key_and_versions() -> None:
    assert (Drawing.API_KEY, Drawing.IS_RESPONSE) == (9, False)
    assert range(1, 5) == Drawing.VERSIONS
    assert 2 not in Drawing.FLEXIBLE
    assert 4 in Drawing.FLEXIBLE


@pytest.mark.parametrize(
    ("text", "versions"),
    [("3", range(3, 4)), ("3-13", range(3, 14)), ("9+", range(9, 32768)), ("none", range(0))],
)
def test_version_ranges_read_as_kafka_writes_them(text: str, versions: range) -> None:
    assert version_range(text) == versions
