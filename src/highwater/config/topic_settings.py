"""A topic's settings: what it overrides, and the broker's values for the rest."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from highwater.config.broker_config import BrokerConfig
from highwater.config.catalogue import TOPIC_SETTINGS, nearest
from highwater.config.entries import ConfigEntry, ConfigSource, Synonym
from highwater.config.setting import BadValue, Setting
from highwater.config.settings import compaction
from highwater.model.errors import ErrorCode, KafkaError

T = TypeVar("T")


class TopicSettings:
    """The value of every setting that a topic may override; `settings[LOG_SEGMENT_BYTES]` is an int.

    It holds the overrides only, so that ten thousand topics cost little; the rest is asked of the broker each time.
    """

    __slots__ = ("_broker", "_overrides")

    def __init__(self, broker: BrokerConfig, overrides: dict[Setting[Any], Any]) -> None:
        self._broker = broker
        self._overrides = overrides

    @classmethod
    def resolve(cls, broker: BrokerConfig, overrides: Mapping[str, str]) -> "TopicSettings":
        """Take the topic's stored configs; those that no longer make sense are left out (see `check_topic_configs`)."""
        parsed: dict[Setting[Any], Any] = {}
        for name, value in overrides.items():
            if (setting := TOPIC_SETTINGS.get(name)) is not None:
                try:
                    parsed[setting] = setting.parse(value)
                except BadValue:
                    continue
        return cls(broker, parsed)

    def __getitem__(self, setting: Setting[T]) -> T:
        """Return the value in force for this topic."""
        assert setting.topic_name is not None, f"{setting.name} is not a topic's to override"
        if setting in self._overrides:
            value: T = self._overrides[setting]
            return value
        return setting.default if setting.topic_only else self._broker[setting]

    def describe(self, names: Iterable[str] | None = None) -> list[ConfigEntry]:
        """Return the named settings (all, for None) as DescribeConfigs shows them for a topic."""
        wanted = TOPIC_SETTINGS if names is None else [name for name in names if name in TOPIC_SETTINGS]
        return [self._entry(name, TOPIC_SETTINGS[name]) for name in wanted]

    def _entry(self, name: str, setting: Setting[Any]) -> ConfigEntry:
        synonyms: tuple[Synonym, ...] = ()
        if setting in self._overrides:
            synonyms = (Synonym(name, setting.show(self._overrides[setting]), ConfigSource.TOPIC),)
        if not setting.topic_only:
            synonyms += self._broker.synonyms(setting)
        return ConfigEntry(
            name=name,
            value=setting.show(self[setting]),
            source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
            wire_type=setting.parse.wire_type,
            is_read_only=False,
            is_sensitive=setting.sensitive,
            synonyms=synonyms,
            doc=setting.doc,
        )


def check_topic_configs(configs: Mapping[str, str | None]) -> dict[str, str]:
    """Return `configs` as they may be stored for a topic; INVALID_CONFIG names the first that may not."""
    parsed: dict[Setting[Any], Any] = {}
    checked: dict[str, str] = {}
    for name, value in configs.items():
        setting = TOPIC_SETTINGS.get(name)
        if setting is None:
            guess = nearest(name, TOPIC_SETTINGS)
            hint = f"; did you mean {guess}?" if guess else ""
            raise KafkaError(f"{name} is not a topic setting{hint}", code=ErrorCode.INVALID_CONFIG)
        if value is None:
            raise KafkaError(f"{name} needs a value", code=ErrorCode.INVALID_CONFIG)
        try:
            parsed[setting] = setting.parse(value)
        except BadValue as error:
            raise KafkaError(f"{name} {error}; it is {value!r}", code=ErrorCode.INVALID_CONFIG) from None
        checked[name] = value
    shortest, longest = compaction.LOG_CLEANER_MIN_COMPACTION_LAG_MS, compaction.LOG_CLEANER_MAX_COMPACTION_LAG_MS
    if parsed.get(shortest, shortest.default) > parsed.get(longest, longest.default):
        raise KafkaError("min.compaction.lag.ms must not be above max.compaction.lag.ms", code=ErrorCode.INVALID_CONFIG)
    return checked
