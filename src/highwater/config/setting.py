"""What a setting is: a name, a way to read its value, a default, and a sentence for people."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class WireType(IntEnum):
    """How DescribeConfigs names a value's type. Source: Apache Kafka 4.1, `DescribeConfigsResponse.ConfigType`."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7
    PASSWORD = 9


class Update(Enum):
    """Who may change a setting while the broker runs."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class BadValue(ValueError):
    """A value that a setting cannot take; the text goes on where the setting's name ends: "must be true or false"."""


@dataclass(frozen=True, slots=True)
class Parser(Generic[T]):
    """Reads a value from text and shows it as text again."""

    wire_type: WireType
    allowed: str
    """What may stand there, for people: "an integer from 1 to 9"."""
    read: Callable[[str], T]
    """Raises ValueError on anything that is not `allowed`, BadValue where it can say more."""
    show: Callable[[T], str]

    def __call__(self, text: str) -> T:
        """Return the value that `text` stands for; BadValue says what may stand there."""
        try:
            return self.read(text.strip())
        except BadValue:
            raise
        except ValueError:
            raise BadValue(f"must be {self.allowed}") from None


@dataclass(frozen=True, slots=True)
class Fallback:
    """A coarser setting that speaks when the finer one is silent: `log.retention.hours` for `log.retention.ms`."""

    setting: "Setting[Any]"
    scale: int
    """How many of the finer unit make one of the coarser."""

    def convert(self, value: Any) -> Any:
        """Return the coarser setting's `value` in the finer unit; a negative value means "no limit" in both."""
        return value * self.scale if isinstance(value, int) and value > 0 else value


@dataclass(frozen=True, slots=True, eq=False)
class Setting(Generic[T]):
    """One broker setting. Compared and hashed by identity: there is one object for each name."""

    name: str
    parse: Parser[T]
    default: T
    doc: str
    topic_name: str | None = None
    """The name under which a topic overrides it."""
    group_name: str | None = None
    """The name under which a consumer group overrides it."""
    update: Update = Update.READ_ONLY
    sensitive: bool = False
    """Never shown nor logged: passwords and keys."""
    fallbacks: tuple[Fallback, ...] = ()
    topic_only: bool = False
    """There is no such setting on a broker."""

    def show(self, value: T) -> str | None:
        """Return `value` as a properties file would spell it; None when there is none, or nobody may see it."""
        return None if value is None or self.sensitive else self.parse.show(value)
