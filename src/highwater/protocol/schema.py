"""How a message is declared: fields with version ranges, as the attributes of a slotted class.

    class FetchTopic(Struct):
        topic: str = string(versions="0-12")
        topic_id: bytes = uuid(versions="13+")
        partitions: list[FetchPartition] = array(FetchPartition)

    class FetchRequest(Message, key=1, versions="4-18", flexible="12+"):
        ...

One class serves every version of a message: a field that a version does not have keeps its default when that version
is read, and is left out when it is written. `codec` turns a declaration and a version into functions.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Protocol, dataclass_transform

from highwater.model.ids import NO_TOPIC_ID

HIGHEST_VERSION: Final = 32767
"""Versions are 16-bit integers on the wire."""

NEVER: Final = range(0)

ELEMENT_BUDGET: Final = 100_000
"""How many array elements and tagged fields one message may hold, unless it says otherwise. Reading 100,000 of them
takes some 50 ms; without a limit, a frame of 100 MiB could hold the event loop for half a minute."""


def version_range(text: str) -> range:
    """Return the versions that `text` names: "3", "3-13", "9+" or "none"."""
    if text == "none":
        return NEVER
    if text.endswith("+"):
        return range(int(text[:-1]), HIGHEST_VERSION + 1)
    lowest, _, highest = text.partition("-")
    return range(int(lowest), int(highest or lowest) + 1)


class Region(Protocol):
    """Bytes that lie elsewhere, such as in a segment file, and are sent from there."""

    def __len__(self) -> int: ...


Part = bytes | bytearray | memoryview | Region
"""A piece of an encoded message: pieces follow each other on the wire."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A value of fixed size: one code of the `struct` module."""

    code: str
    size: int


@dataclass(frozen=True, slots=True)
class Text:
    """A UTF-8 string after its length."""


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes after their length; `in_place` ones (record batches) are neither copied in nor out."""

    in_place: bool = False


@dataclass(frozen=True, slots=True)
class Nested:
    """Another struct's fields, in line."""

    struct: "type[Struct]"


@dataclass(frozen=True, slots=True)
class Array:
    """A count, then that many elements."""

    element: "Fixed | Text | Blob | Nested"


Kind = Fixed | Text | Blob | Nested | Array


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its kind, and in which versions it exists, may be null, or travels as a tagged field."""

    kind: Kind
    versions: range
    nullable: range
    tag: int | None
    default: Any
    name: str = ""

    def fresh_default(self) -> Any:
        """Return the default, never a list or struct that another message could share."""
        return self.default() if callable(self.default) else self.default


def _field(kind: Kind, default: Any, *, versions: str, nullable: str = "none", tag: int | None) -> Any:
    # Any, so that a declaration reads `acks: int = int16()` and still type-checks.
    return Field(kind, version_range(versions), version_range(nullable), tag, default)


def _fixed(code: str, size: int, zero: Any) -> Callable[..., Any]:
    kind = Fixed(code, size)

    def declare(*, versions: str = "0+", default: Any = zero, tag: int | None = None) -> Any:
        return _field(kind, default, versions=versions, tag=tag)

    return declare


boolean: Final = _fixed("?", 1, zero=False)
int8: Final = _fixed("b", 1, zero=0)
int16: Final = _fixed("h", 2, zero=0)
uint16: Final = _fixed("H", 2, zero=0)
int32: Final = _fixed("i", 4, zero=0)
int64: Final = _fixed("q", 8, zero=0)
float64: Final = _fixed("d", 8, zero=0.0)
uuid: Final = _fixed("16s", 16, zero=NO_TOPIC_ID)


def string(*, versions: str = "0+", nullable: str = "none", default: str | None = "", tag: int | None = None) -> Any:
    """Declare a string."""
    return _field(Text(), default, versions=versions, nullable=nullable, tag=tag)


def blob(*, versions: str = "0+", nullable: str = "none", default: bytes | None = b"", tag: int | None = None) -> Any:
    """Declare opaque bytes, copied out of the frame that they came in."""
    return _field(Blob(), default, versions=versions, nullable=nullable, tag=tag)


def record_batches(*, versions: str = "0+", nullable: str = "none") -> Any:
    """Declare record batches: read as a view of the frame, written from anything that has a length."""
    return _field(Blob(in_place=True), None, versions=versions, nullable=nullable, tag=None)


def struct(cls: "type[Struct]", *, versions: str = "0+", nullable: str = "none", tag: int | None = None) -> Any:
    """Declare a struct within a struct; a nullable or tagged one is None when it is absent."""
    default = cls if tag is None and nullable == "none" else None
    return _field(Nested(cls), default, versions=versions, nullable=nullable, tag=tag)


def array(
    element: Callable[..., Any],
    *,
    versions: str = "0+",
    nullable: str = "none",
    default: Callable[[], list[Any]] | None = list,
    tag: int | None = None,
) -> Any:
    """Declare an array of `element`: a struct class, or one of the functions above, as in `array(int32)`."""
    kind = Nested(element) if isinstance(element, type) else element().kind
    return _field(Array(kind), default, versions=versions, nullable=nullable, tag=tag)


@dataclass_transform(kw_only_default=True)
class _StructMeta(type):
    """Turns declared fields into slots, and keeps their declarations in `FIELDS`."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **arguments: Any) -> "_StructMeta":
        fields = tuple(replace(field, name=key) for key, field in namespace.items() if isinstance(field, Field))
        body = {key: value for key, value in namespace.items() if not isinstance(value, Field)}
        body |= {"__slots__": tuple(field.name for field in fields), "FIELDS": fields}
        return super().__new__(mcs, name, bases, body, **arguments)


class Struct(metaclass=_StructMeta):
    """A group of fields; the constructor takes them by keyword and gives the others their defaults."""

    FIELDS: ClassVar[tuple[Field, ...]]

    def __init__(self, **values: Any) -> None:
        # Each class gets a constructor of its own when its first instance is made: most are only ever decoded.
        cls = type(self)
        cls.__init__ = _compiled_init(cls)  # type: ignore[method-assign]
        cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in self.FIELDS)

    __hash__ = None  # type: ignore[assignment]  # the fields may change

    def __repr__(self) -> str:
        values = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in self.FIELDS)
        return f"{type(self).__name__}({values})"


class Message(Struct):
    """What a frame carries after its header, or a record of an internal topic after its version."""

    API_KEY: ClassVar[int | None]
    IS_RESPONSE: ClassVar[bool]
    VERSIONS: ClassVar[range]
    FLEXIBLE: ClassVar[range]
    ELEMENT_BUDGET: ClassVar[int]

    def __init_subclass__(
        cls,
        *,
        versions: str,
        flexible: str = "none",
        key: int | None = None,
        response: bool = False,
        element_budget: int = ELEMENT_BUDGET,
    ) -> None:
        super().__init_subclass__()
        cls.API_KEY = key
        cls.IS_RESPONSE = response
        cls.VERSIONS = version_range(versions)
        cls.FLEXIBLE = version_range(flexible)
        cls.ELEMENT_BUDGET = element_budget


_FRESH: Final = object()
"""Stands for the default of a field whose every instance needs a list or struct of its own."""


def _compiled_init(cls: type[Struct]) -> Callable[..., None]:
    """Return the constructor that a person would write: one keyword and one assignment for each field."""
    scope: dict[str, Any] = {"FRESH": _FRESH}
    parameters, body = ["self"], []
    if cls.FIELDS:
        parameters.append("*")
    for field in cls.FIELDS:
        name = field.name
        scope[f"DEFAULT_{name}"] = field.default
        if callable(field.default):
            parameters.append(f"{name}=FRESH")
            body.append(f"self.{name} = DEFAULT_{name}() if {name} is FRESH else {name}")
        else:
            parameters.append(f"{name}=DEFAULT_{name}")
            body.append(f"self.{name} = {name}")
    source = f"def __init__({', '.join(parameters)}):\n    " + "\n    ".join(body or ["pass"])
    exec(compile(source, f"<constructor of {cls.__name__}>", "exec"), scope)  # noqa: S102 - our own declarations
    init: Callable[..., None] = scope["__init__"]
    return init


def smallest_size(kind: Kind, version: int, *, flexible: bool, nullable: bool = False) -> int:
    """Return the fewest bytes that a value of `kind` can take: a bound on how many of them a frame can hold."""
    match kind:
        case Fixed(size=size):
            return size
        case Text():
            return 1 if flexible else 2
        case Blob() | Array():
            return 1 if flexible else 4
        case Nested() if nullable:
            return 1
        case Nested(struct=cls):
            fields = (field for field in cls.FIELDS if version in field.versions and field.tag is None)
            sizes = (
                smallest_size(field.kind, version, flexible=flexible, nullable=version in field.nullable)
                for field in fields
            )
            return sum(sizes) + flexible
