"""Settings of topics and brokers change while they run: checked, written down, then in force."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from highwater.broker.group_configs import GroupConfigs
from highwater.broker.stored_configs import change_configs
from highwater.config.broker_config import check_dynamic
from highwater.config.catalogue import BROKER_SETTINGS, TOPIC_SETTINGS
from highwater.config.edits import edited
from highwater.config.entries import ConfigEntry, ConfigSource, Synonym
from highwater.config.settings import transactions
from highwater.config.topic_settings import TopicSettings, check_topic_configs
from highwater.coordination import paths, records
from highwater.coordination.port import NoNode
from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import BrokerId, TopicPartition
from highwater.model.log_events import EventLog

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from highwater.broker.changes import Changes
    from highwater.broker.serve_alone import LocalReplicas
    from highwater.broker.topics import Topic, Topics
    from highwater.config.broker_config import BrokerConfig
    from highwater.config.edits import Edit
    from highwater.config.setting import Setting
    from highwater.coordination.port import Coordination

    Change = Callable[[dict[str, str]], dict[str, str]]

events = EventLog("broker")

EVERY_BROKER: Final = ""
"""The name by which clients speak of all brokers' settings at once."""
_LOGS_FOLLOW: Final = frozenset({*TOPIC_SETTINGS.values(), transactions.PRODUCER_ID_EXPIRATION_MS})


class ConfigAdmin:
    """Shows and changes settings. Whatever it refuses is a KafkaError with a sentence for the user."""

    def __init__(
        self,
        broker_id: BrokerId,
        config: BrokerConfig,
        *,
        store: Coordination,
        topics: Topics,
        replicas: LocalReplicas,
        changes: Changes,
        tells_others: bool = False,
    ) -> None:
        """With `tells_others`, every change leaves a note for the other brokers."""
        self._broker_id = broker_id
        self._config = config
        self._store = store
        self._topics = topics
        self._replicas = replicas
        self._changes = changes
        self._tells_others = tells_others
        self.groups = GroupConfigs(config, store=store, changes=changes, tells_others=tells_others)
        self._dynamic: dict[str, dict[str, str]] = {EVERY_BROKER: {}, str(broker_id): {}}
        config.on_change(self._broker_settings_changed)

    async def start(self) -> None:
        """Put the dynamic configs that were stored in force."""
        entity_paths = {name: self._path(name) for name in self._dynamic}
        nodes = await self._store.read_many(list(entity_paths.values()))
        for (name, path), node in zip(entity_paths.items(), nodes, strict=True):
            if node is not None:
                self._dynamic[name] = records.decode_configs(path, node.data)
        self._put_in_force()
        await self.groups.start()

    def describe_topic(self, name: str, keys: Collection[str] | None) -> list[ConfigEntry]:
        """Return a topic's settings, those named by `keys` or all."""
        return self._topic(name).settings.describe(keys)

    def describe_broker(self, name: str, keys: Collection[str] | None) -> list[ConfigEntry]:
        """Return this broker's settings, or those that were set for every broker."""
        self._check_broker(name)
        if name != EVERY_BROKER:
            return self._config.describe(keys)
        entries = self._config.describe(key for key in self._dynamic[EVERY_BROKER] if keys is None or key in keys)
        return [self._as_default(entry) for entry in entries]

    async def replace_topic(self, name: str, configs: Mapping[str, str | None], *, validate_only: bool) -> None:
        """Give a topic exactly these overrides."""
        await self._changes.run(self._replace_topic(name, configs, validate_only=validate_only))

    async def edit_topic(self, name: str, edits: Sequence[Edit], *, validate_only: bool) -> None:
        """Change some of a topic's overrides."""
        await self._changes.run(self._edit_topic(name, edits, validate_only=validate_only))

    async def replace_broker(self, name: str, configs: Mapping[str, str | None], *, validate_only: bool) -> None:
        """Give this broker, or every broker, exactly these dynamic configs."""
        await self._changes.run(self._replace_broker(name, configs, validate_only=validate_only))

    async def edit_broker(self, name: str, edits: Sequence[Edit], *, validate_only: bool) -> None:
        """Change some of the dynamic configs of this broker, or of every broker."""
        await self._changes.run(self._edit_broker(name, edits, validate_only=validate_only))

    async def _replace_topic(self, name: str, configs: Mapping[str, str | None], *, validate_only: bool) -> None:
        checked = check_topic_configs(configs)
        await self._change_topic(name, lambda _: checked, validate_only=validate_only)

    async def _edit_topic(self, name: str, edits: Sequence[Edit], *, validate_only: bool) -> None:
        def change(stored: dict[str, str]) -> dict[str, str]:
            settings = TopicSettings.resolve(self._config, stored)
            shown = edited(stored, edits, known=TOPIC_SETTINGS, in_force=lambda s: s.parse.show(settings[s]))
            return check_topic_configs(shown)

        await self._change_topic(name, change, validate_only=validate_only)

    async def _change_topic(self, name: str, change: Change, *, validate_only: bool) -> None:
        topic = self._topic(name)
        if validate_only:
            change(topic.configs)
            return
        try:
            configs = await change_configs(
                self._store, paths.topic_config(name), change, may_create=False, tells_others=self._tells_others
            )
        except NoNode:
            raise _no_topic(name) from None
        self._put_topic_in_force(topic, configs)

    async def read_topic_again(self, name: str) -> TopicSettings | None:
        """Put a topic's configs in force that another broker has written; return its settings if we know it."""
        topic = self._topics.get(name)
        if topic is None:
            return None
        (node,) = await self._store.read_many([paths.topic_config(name)])
        configs = {} if node is None else records.decode_configs(paths.topic_config(name), node.data)
        self._put_topic_in_force(topic, configs)
        return topic.settings

    def _put_topic_in_force(self, topic: Topic, configs: dict[str, str]) -> None:
        if configs == topic.configs:
            return
        topic.configs = configs
        topic.settings = TopicSettings.resolve(self._config, configs)
        self._reconfigure(topic)
        events.info("topic_configured", topic=topic.name, configs=configs)

    async def _replace_broker(self, name: str, configs: Mapping[str, str | None], *, validate_only: bool) -> None:
        checked = check_dynamic(configs, one_broker=name != EVERY_BROKER)
        await self._change_broker(name, lambda _: checked, validate_only=validate_only)

    async def _edit_broker(self, name: str, edits: Sequence[Edit], *, validate_only: bool) -> None:
        def change(stored: dict[str, str]) -> dict[str, str]:
            shown = edited(stored, edits, known=BROKER_SETTINGS, in_force=lambda s: s.parse.show(self._config[s]))
            return check_dynamic(shown, one_broker=name != EVERY_BROKER)

        await self._change_broker(name, change, validate_only=validate_only)

    async def _change_broker(self, name: str, change: Change, *, validate_only: bool) -> None:
        self._check_broker(name)
        if validate_only:
            change(self._dynamic[name])
            return
        configs = await change_configs(
            self._store, self._path(name), change, may_create=True, tells_others=self._tells_others
        )
        self._dynamic[name] = configs
        self._put_in_force()
        events.info("broker_configured", broker=name or "all", names=",".join(configs))

    def _put_in_force(self) -> None:
        self._config.apply_dynamic(
            this_broker=self._dynamic[str(self._broker_id)], all_brokers=self._dynamic[EVERY_BROKER]
        )

    def _broker_settings_changed(self, changed: frozenset[Setting[Any]]) -> None:
        if not changed.isdisjoint(_LOGS_FOLLOW):
            for topic in self._topics:
                self._reconfigure(topic)

    def _reconfigure(self, topic: Topic) -> None:
        for index in range(len(topic.partitions)):
            self._replicas.reconfigure(TopicPartition(topic.name, index), topic.settings)

    def _topic(self, name: str) -> Topic:
        topic = self._topics.get(name)
        if topic is None:
            raise _no_topic(name)
        return topic

    def _check_broker(self, name: str) -> None:
        if name not in self._dynamic:
            raise KafkaError(
                f"this is broker {self._broker_id}: ask broker {name} itself, or give no id for all brokers",
                code=ErrorCode.INVALID_REQUEST,
            )

    def _as_default(self, entry: ConfigEntry) -> ConfigEntry:
        """Return a setting as it was set for every broker, whatever this one has made of it."""
        setting = BROKER_SETTINGS[entry.name]
        shown = None if setting.sensitive else self._dynamic[EVERY_BROKER][entry.name]
        source = ConfigSource.DYNAMIC_DEFAULT_BROKER
        return replace(entry, value=shown, source=source, synonyms=(Synonym(entry.name, shown, source),))

    @staticmethod
    def _path(name: str) -> str:
        return paths.broker_config(paths.ALL_BROKERS if name == EVERY_BROKER else name)


def _no_topic(name: str) -> KafkaError:
    return KafkaError(f"there is no topic {name}", code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
