"""One line of a DescribeConfigs answer: a value, where it comes from, and what else would give it one."""

from dataclasses import dataclass
from enum import IntEnum

from highwater.config.setting import WireType


class ConfigSource(IntEnum):
    """Where a value comes from. Source: Apache Kafka 4.1, `DescribeConfigsResponse.ConfigSource`."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


@dataclass(frozen=True, slots=True)
class Synonym:
    """A name under which, and a place in which, the value was given."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A setting as tools show it."""

    name: str
    value: str | None
    """None for a sensitive value."""
    source: ConfigSource
    wire_type: WireType
    is_read_only: bool
    is_sensitive: bool
    synonyms: tuple[Synonym, ...]
    """Highest first; the first is the one in force."""
    doc: str
