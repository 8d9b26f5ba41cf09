"""Changed configs reach every broker: whoever wrote them leaves a note, and everybody reads it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from highwater.config.settings import replication
from highwater.controller.events import UncleanElectionChanged
from highwater.coordination import paths, records
from highwater.coordination.port import CoordinationError
from highwater.model.errors import KafkaError
from highwater.model.log_events import EventLog

if TYPE_CHECKING:
    from highwater.broker.config_admin import ConfigAdmin
    from highwater.broker.controller_driver import ControllerDriver
    from highwater.coordination.port import Coordination

events = EventLog("broker")

KEPT_NOTES: Final = 1000
"""Older ones go: every broker has long read them, and one that starts reads the configs themselves."""
_PAUSE_AFTER_TROUBLE_S: Final = 1.0


class ConfigNews:
    """Reads notes in their order and puts what they speak of in force."""

    def __init__(self, store: Coordination, config_admin: ConfigAdmin, driver: ControllerDriver) -> None:
        self._store = store
        self._config_admin = config_admin
        self._driver = driver
        self._last_read = ""
        self._attention = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Follow notes from now on; what they said before is in the configs that were read at start."""
        self._store.watch_children(paths.CONFIG_CHANGES, self._attention.set)
        self._last_read = max(await self._store.children(paths.CONFIG_CHANGES), default="")
        await self._config_admin.start()
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Follow no longer."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self._attention.wait()
            self._attention.clear()
            try:
                await self._read_new()
            except KafkaError as error:
                events.info("config_news_troubled", reason=str(error))
                self._attention.set()
                await asyncio.sleep(_PAUSE_AFTER_TROUBLE_S)

    async def _read_new(self) -> None:
        names = await self._store.children(paths.CONFIG_CHANGES)
        new = [f"{paths.CONFIG_CHANGES}/{name}" for name in names if name > self._last_read]
        nodes = await self._store.read_many(new)
        entities = [
            records.decode_config_change(path, node.data)
            for path, node in zip(new, nodes, strict=True)
            if node is not None
        ]
        for entity in dict.fromkeys(entities):
            await self._read_again(entity)
        self._last_read = max(names, default=self._last_read)
        if self._driver.is_active:
            await self._remove(names[:-KEPT_NOTES])

    async def _read_again(self, entity: str) -> None:
        kind, _, name = entity.partition("/")
        if kind == "brokers":
            await self._config_admin.start()
        elif kind == "groups":
            await self._config_admin.groups.read_again(paths.group_of_config(name))
        elif kind == "topics":
            settings = await self._config_admin.read_topic_again(name)
            if settings is not None and self._driver.is_active and name in self._driver.core.topics:
                allowed = settings[replication.UNCLEAN_LEADER_ELECTION_ENABLE]
                if self._driver.core.topics[name].allows_unclean is not allowed:
                    await self._driver.happens(UncleanElectionChanged(name, allowed))

    async def _remove(self, names: list[str]) -> None:
        for name in names:
            try:
                await self._store.delete(f"{paths.CONFIG_CHANGES}/{name}")
            except CoordinationError:
                return  # another time
