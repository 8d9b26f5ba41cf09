"""Settings of single consumer groups: checked, written down, then in force with each member's next heartbeat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.broker.stored_configs import change_configs
from highwater.config.catalogue import GROUP_SETTINGS
from highwater.config.edits import edited
from highwater.config.group_settings import GroupOverrides, check_group_configs
from highwater.config.settings import groups
from highwater.coordination import paths, records
from highwater.groups.settings import ConsumerTiming
from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.log_events import EventLog

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from highwater.broker.changes import Changes
    from highwater.config.broker_config import BrokerConfig
    from highwater.config.edits import Edit
    from highwater.config.entries import ConfigEntry
    from highwater.coordination.port import Coordination

events = EventLog("groups")


class GroupConfigs:
    """The groups that have settings of their own; a group need not exist to be given some."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        store: Coordination,
        changes: Changes,
        tells_others: bool = False,
    ) -> None:
        """With `tells_others`, every change leaves a note for the other brokers."""
        self._config = config
        self._store = store
        self._changes = changes
        self._tells_others = tells_others
        self._configs: dict[str, dict[str, str]] = {}
        self.timings: dict[str, ConsumerTiming] = {}
        """Of the groups that have their own; the coordinator looks here at every heartbeat."""

    async def start(self) -> None:
        """Put the configs that were stored in force."""
        names = [paths.group_of_config(node) for node in await self._store.children(paths.GROUP_CONFIGS)]
        for name in {*names, *self._configs}:
            await self.read_again(name)

    async def read_again(self, name: str) -> None:
        """Put a group's configs in force as they are stored, perhaps by another broker."""
        path = paths.group_config(name)
        (node,) = await self._store.read_many([path])
        self._put_in_force(name, {} if node is None else records.decode_configs(path, node.data))

    def __iter__(self) -> Iterator[str]:
        """Return the groups that have settings of their own."""
        return iter(sorted(self._configs))

    def describe(self, name: str, keys: Collection[str] | None) -> list[ConfigEntry]:
        """Return a group's settings, those named by `keys` or all."""
        _check_name(name)
        return GroupOverrides(self._config, self._configs.get(name, {})).describe(keys)

    async def replace(self, name: str, configs: Mapping[str, str | None], *, validate_only: bool) -> None:
        """Give a group exactly these settings."""
        await self._changes.run(self._replace(name, configs, validate_only=validate_only))

    async def edit(self, name: str, edits: Sequence[Edit], *, validate_only: bool) -> None:
        """Change some of a group's settings."""
        await self._changes.run(self._edit(name, edits, validate_only=validate_only))

    async def _replace(self, name: str, configs: Mapping[str, str | None], *, validate_only: bool) -> None:
        checked = check_group_configs(self._config, configs)
        await self._change(name, lambda _: checked, validate_only=validate_only)

    async def _edit(self, name: str, edits: Sequence[Edit], *, validate_only: bool) -> None:
        def change(stored: dict[str, str]) -> dict[str, str]:
            shown = edited(stored, edits, known=GROUP_SETTINGS, in_force=lambda s: s.parse.show(self._config[s]))
            return check_group_configs(self._config, shown)

        await self._change(name, change, validate_only=validate_only)

    async def _change(
        self, name: str, change: Callable[[dict[str, str]], dict[str, str]], *, validate_only: bool
    ) -> None:
        _check_name(name)
        if validate_only:
            change(self._configs.get(name, {}))
            return
        path = paths.group_config(name)
        configs = await change_configs(self._store, path, change, may_create=True, tells_others=self._tells_others)
        self._put_in_force(name, configs)

    def _put_in_force(self, name: str, configs: dict[str, str]) -> None:
        if configs == self._configs.get(name, {}):
            return
        if configs:
            self._configs[name] = configs
            settings = GroupOverrides(self._config, configs)
            self.timings[name] = ConsumerTiming(
                session_timeout_ms=settings[groups.GROUP_CONSUMER_SESSION_TIMEOUT_MS],
                heartbeat_interval_ms=settings[groups.GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS],
            )
        else:
            self._configs.pop(name, None)
            self.timings.pop(name, None)
        events.info("group_configured", group=name, configs=configs)


def _check_name(name: str) -> None:
    if not name:
        raise KafkaError("name a group: there are no settings for all of them", code=ErrorCode.INVALID_REQUEST)
