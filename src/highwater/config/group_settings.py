"""A consumer group's own settings: what it overrides, and the broker's values for the rest."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from highwater.config.broker_config import BrokerConfig
from highwater.config.catalogue import GROUP_SETTINGS, nearest
from highwater.config.entries import ConfigEntry, ConfigSource, Synonym
from highwater.config.setting import BadValue, Setting
from highwater.config.settings import groups
from highwater.model.errors import ErrorCode, KafkaError

T = TypeVar("T")

_BOUNDS: Final[Mapping[Setting[int], tuple[Setting[int], Setting[int]]]] = {
    groups.GROUP_CONSUMER_SESSION_TIMEOUT_MS: (
        groups.GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS,
        groups.GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS,
    ),
    groups.GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS: (
        groups.GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS,
        groups.GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS,
    ),
}
"""What the broker allows a group to ask for: at least, and at most."""


class GroupOverrides:
    """The value of every setting that a group may override."""

    __slots__ = ("_broker", "_overrides")

    def __init__(self, broker: BrokerConfig, configs: Mapping[str, str]) -> None:
        """Take the group's stored configs; those that no longer make sense are left out (see `check_group_configs`)."""
        self._broker = broker
        self._overrides: dict[Setting[Any], Any] = {}
        for name, value in configs.items():
            if (setting := GROUP_SETTINGS.get(name)) is not None:
                try:
                    self._overrides[setting] = setting.parse(value)
                except BadValue:
                    continue

    def __getitem__(self, setting: Setting[T]) -> T:
        """Return the value in force for this group."""
        value: T = self._overrides.get(setting, self._broker[setting])
        return value

    def describe(self, names: Iterable[str] | None = None) -> list[ConfigEntry]:
        """Return the named settings (all, for None) as DescribeConfigs shows them for a group."""
        wanted = GROUP_SETTINGS if names is None else [name for name in names if name in GROUP_SETTINGS]
        return [self._entry(name, GROUP_SETTINGS[name]) for name in wanted]

    def _entry(self, name: str, setting: Setting[Any]) -> ConfigEntry:
        synonyms = self._broker.synonyms(setting)
        if setting in self._overrides:
            synonyms = (Synonym(name, setting.show(self._overrides[setting]), ConfigSource.GROUP), *synonyms)
        return ConfigEntry(
            name=name,
            value=setting.show(self[setting]),
            source=synonyms[0].source,
            wire_type=setting.parse.wire_type,
            is_read_only=False,
            is_sensitive=setting.sensitive,
            synonyms=synonyms,
            doc=setting.doc,
        )


def check_group_configs(broker: BrokerConfig, configs: Mapping[str, str | None]) -> dict[str, str]:
    """Return `configs` as they may be stored for a group; INVALID_CONFIG names the first that may not."""
    checked: dict[str, str] = {}
    for name, value in configs.items():
        setting = GROUP_SETTINGS.get(name)
        if setting is None:
            guess = nearest(name, GROUP_SETTINGS)
            raise _refusal(f"{name} is not a group setting" + (f"; did you mean {guess}?" if guess else ""))
        if value is None:
            raise _refusal(f"{name} needs a value")
        try:
            parsed = setting.parse(value)
        except BadValue as error:
            raise _refusal(f"{name} {error}; it is {value!r}") from None
        least, most = _BOUNDS[setting]
        if not broker[least] <= parsed <= broker[most]:
            raise _refusal(f"{name} must be from {broker[least]} ({least.name}) to {broker[most]} ({most.name})")
        checked[name] = value
    settings = GroupOverrides(broker, checked)
    if settings[groups.GROUP_CONSUMER_SESSION_TIMEOUT_MS] <= settings[groups.GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS]:
        raise _refusal("consumer.session.timeout.ms must be above consumer.heartbeat.interval.ms")
    return checked


def _refusal(reason: str) -> KafkaError:
    return KafkaError(reason, code=ErrorCode.INVALID_CONFIG)
