"""All settings, by name: the modules of `settings/` put together."""

from types import MappingProxyType
from typing import Any, Final

from highwater.config.setting import Setting
from highwater.config.settings import compaction, groups, log, network, node, replication, security, transactions

THEMES: Final = (node, network, log, compaction, replication, groups, transactions, security)


def settings_of(theme: object) -> tuple[Setting[Any], ...]:
    """Return the settings that a module declares, in its order."""
    return tuple(value for value in vars(theme).values() if isinstance(value, Setting))


_ALL: Final = tuple(setting for theme in THEMES for setting in settings_of(theme))

BROKER_SETTINGS: Final = MappingProxyType({setting.name: setting for setting in _ALL if not setting.topic_only})
"""What a properties file may carry, and DescribeConfigs shows for a broker."""

TOPIC_SETTINGS: Final = MappingProxyType({setting.topic_name: setting for setting in _ALL if setting.topic_name})
"""What a topic may override, by the topic's own name for it."""

GROUP_SETTINGS: Final = MappingProxyType({setting.group_name: setting for setting in _ALL if setting.group_name})
"""What a consumer group may override, by the group's own name for it."""


def nearest(name: str, known: MappingProxyType[str, Setting[Any]]) -> str | None:
    """Return the known name that `name` was probably meant to be."""
    from difflib import get_close_matches  # rarely needed

    return next(iter(get_close_matches(name, known, n=1, cutoff=0.8)), None)
