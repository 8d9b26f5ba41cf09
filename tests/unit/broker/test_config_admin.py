"""Settings change while the broker runs."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

import pytest

from highwater.broker.topic_rules import NewTopic
from highwater.config.edits import Edit, EditKind
from highwater.config.entries import ConfigSource
from highwater.config.settings.log import LOG_CLEANUP_POLICY, LOG_RETENTION_MS, LOG_SEGMENT_BYTES
from highwater.config.settings.network import MAX_CONNECTIONS
from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import TopicPartition

StartAdmin: TypeAlias = Callable[..., AbstractAsyncContextManager[Any]]


def set_to(name: str, value: str) -> Edit:
    return Edit(name, EditKind.SET, value)


async def test_a_topic_is_edited_step_by_step_and_its_logs_follow(start_admin: StartAdmin) -> None:
    async with start_admin() as admin:
        await admin.topic_admin.create(NewTopic("orders", 2, configs={"segment.bytes": "1000"}))
        await admin.config_admin.edit_topic(
            "orders",
            [set_to("retention.ms", "5"), Edit("segment.bytes", EditKind.DELETE, None)],
            validate_only=False,
        )
        topic = admin.topics.get("orders")
        assert topic.configs == {"retention.ms": "5"}
        assert topic.settings[LOG_RETENTION_MS] == 5
        assert admin.replicas.served[TopicPartition("orders", 1)][LOG_SEGMENT_BYTES] == 2**30
    async with start_admin() as admin:
        assert admin.topics.get("orders").configs == {"retention.ms": "5"}


async def test_replacing_a_topics_configs_forgets_the_others(start_admin: StartAdmin) -> None:
    async with start_admin() as admin:
        await admin.topic_admin.create(NewTopic("orders", configs={"segment.bytes": "1000"}))
        await admin.config_admin.replace_topic("orders", {"retention.ms": "5"}, validate_only=False)
        assert admin.topics.get("orders").configs == {"retention.ms": "5"}


async def test_lists_are_appended_to_and_subtracted_from(start_admin: StartAdmin) -> None:
    async with start_admin() as admin:
        await admin.topic_admin.create(NewTopic("orders"))

        async def edit(kind: EditKind, value: str) -> tuple[str, ...]:
            await admin.config_admin.edit_topic("orders", [Edit("cleanup.policy", kind, value)], validate_only=False)
            policy: tuple[str, ...] = admin.topics.get("orders").settings[LOG_CLEANUP_POLICY]
            return policy

        assert await edit(EditKind.APPEND, "compact") == ("delete", "compact")
        assert await edit(EditKind.APPEND, "compact") == ("delete", "compact")
        assert await edit(EditKind.SUBTRACT, "delete") == ("compact",)


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (Edit("retention.ms", EditKind.APPEND, "5"), ErrorCode.INVALID_CONFIG),
        (Edit("no.such", EditKind.SUBTRACT, "5"), ErrorCode.INVALID_CONFIG),
        (Edit("cleanup.policy", EditKind.SUBTRACT, "delete"), ErrorCode.INVALID_CONFIG),
        (Edit("retention.ms", EditKind.SET, None), ErrorCode.INVALID_REQUEST),
        (Edit("retention.ms", EditKind.SET, "soon"), ErrorCode.INVALID_CONFIG),
        (Edit("broker.id", EditKind.SET, "5"), ErrorCode.INVALID_CONFIG),
    ],
)
async def test_edits_that_make_no_sense_change_nothing(start_admin: StartAdmin, edit: Edit, code: ErrorCode) -> None:
    async with start_admin() as admin:
        await admin.topic_admin.create(NewTopic("orders"))
        with pytest.raises(KafkaError) as caught:
            await admin.config_admin.edit_topic("orders", [set_to("segment.bytes", "99"), edit], validate_only=False)
        assert caught.value.code is code
        assert admin.topics.get("orders").configs == {}


async def test_validate_only_changes_nothing(start_admin: StartAdmin) -> None:
    async with start_admin() as admin:
        await admin.topic_admin.create(NewTopic("orders"))
        await admin.config_admin.replace_topic("orders", {"retention.ms": "5"}, validate_only=True)
        await admin.config_admin.edit_broker("0", [set_to("max.connections", "5")], validate_only=True)
        assert admin.topics.get("orders").configs == {}
        assert admin.config[MAX_CONNECTIONS] == 2**31 - 1


async def test_a_brokers_settings_change_and_stay_changed(start_admin: StartAdmin) -> None:
    async with start_admin() as admin:
        await admin.config_admin.edit_broker("", [set_to("max.connections", "20")], validate_only=False)
        assert admin.config[MAX_CONNECTIONS] == 20
        await admin.config_admin.edit_broker("0", [set_to("max.connections", "30")], validate_only=False)
        assert admin.config[MAX_CONNECTIONS] == 30
    async with start_admin() as admin:
        assert admin.config[MAX_CONNECTIONS] == 30
        await admin.config_admin.replace_broker("0", {}, validate_only=False)
        assert admin.config[MAX_CONNECTIONS] == 20
        (entry,) = admin.config_admin.describe_broker("", None)
        assert (entry.name, entry.value, entry.source) == ("max.connections", "20", ConfigSource.DYNAMIC_DEFAULT_BROKER)
        assert admin.config_admin.describe_broker("", ["log.dirs"]) == []
        (entry,) = admin.config_admin.describe_broker("0", ["max.connections"])
        assert entry.value == "20"


async def test_logs_follow_a_broker_setting_that_their_topic_leaves_alone(start_admin: StartAdmin) -> None:
    async with start_admin() as admin:
        await admin.topic_admin.create(NewTopic("orders"))
        await admin.config_admin.edit_broker("", [set_to("max.connections", "20")], validate_only=False)
        assert admin.replicas.reconfigured == []
        await admin.config_admin.edit_broker("", [set_to("log.segment.bytes", "5000")], validate_only=False)
        assert admin.replicas.reconfigured == [TopicPartition("orders", 0)]
        assert admin.replicas.served[TopicPartition("orders", 0)][LOG_SEGMENT_BYTES] == 5000


async def test_another_brokers_settings_are_that_brokers_business(start_admin: StartAdmin) -> None:
    async with start_admin() as admin:
        with pytest.raises(KafkaError, match="this is broker 0") as caught:
            admin.config_admin.describe_broker("7", None)
        assert caught.value.code is ErrorCode.INVALID_REQUEST
        with pytest.raises(KafkaError, match="there is no topic"):
            admin.config_admin.describe_topic("nothing", None)
