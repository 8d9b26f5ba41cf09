"""Topics come, grow and go."""

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

import pytest

from highwater.broker.serve_alone import ServeAlone
from highwater.broker.topic_rules import NewTopic
from highwater.config.settings.log import LOG_CLEANUP_POLICY
from highwater.config.settings.replication import MIN_INSYNC_REPLICAS
from highwater.coordination import paths
from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import BrokerId, TopicPartition

StartAdmin: TypeAlias = Callable[..., AbstractAsyncContextManager[Any]]


async def test_a_topic_is_written_down_served_and_known(start_admin: StartAdmin) -> None:
    async with start_admin() as admin:
        topic = await admin.topic_admin.create(NewTopic("orders", 2, 1, configs={"cleanup.policy": "compact"}))
        assert admin.topics.get("orders") is topic
        assert admin.topics.with_id(topic.id) is topic
        assert admin.topics.name_of(topic.id) == "orders"
        assert list(admin.replicas.served) == [TopicPartition("orders", 0), TopicPartition("orders", 1)]
        assert topic.settings[LOG_CLEANUP_POLICY] == ("compact",)
        node = json.loads((await admin.store.read("/brokers/topics/orders")).data)
        assert node["partitions"] == {"0": [0], "1": [0]}
        state = json.loads((await admin.store.read("/brokers/topics/orders/partitions/1/state")).data)
        assert state == {"controller_epoch": 1, "leader": 0, "version": 1, "leader_epoch": 0, "isr": [0]}
        configs = json.loads((await admin.store.read("/config/topics/orders")).data)
        assert configs == {"version": 1, "config": {"cleanup.policy": "compact"}}


async def test_topics_ids_and_configs_are_there_after_a_restart(start_admin: StartAdmin) -> None:
    async with start_admin() as admin:
        before = await admin.topic_admin.create(NewTopic("orders", 3, 1, configs={"cleanup.policy": "compact"}))
        cluster_id = admin.cluster.id
    async with start_admin() as admin:
        after = admin.topics.get("orders")
        assert after.id == before.id
        assert after.configs == {"cleanup.policy": "compact"}
        assert len(admin.replicas.served) == 3
        assert admin.cluster.id == cluster_id
        assert admin.cluster.controller_epoch == 2


async def test_validate_only_changes_nothing(start_admin: StartAdmin) -> None:
    async with start_admin() as admin:
        planned = await admin.topic_admin.create(NewTopic("orders", 2), validate_only=True)
        assert len(planned.partitions) == 2
        await admin.topic_admin.create(NewTopic("there", 1))
        await admin.topic_admin.grow("there", 5, None, validate_only=True)
        assert [topic.name for topic in admin.topics] == ["there"]
        assert len(admin.replicas.served) == 1
        assert await admin.store.children(paths.TOPICS) == ["there"]


async def test_counts_left_to_the_broker(start_admin: StartAdmin) -> None:
    async with start_admin(num_partitions="4") as admin:
        topic = await admin.topic_admin.create(NewTopic("orders"))
        assert [partition.replicas for partition in topic.partitions] == [(0,)] * 4


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (NewTopic(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("a" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("naïve"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("a\n"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("there"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (NewTopic("page_views"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("a", 0), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("a", -2), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("a", 2**31 - 1), ErrorCode.POLICY_VIOLATION),
        (NewTopic("a", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("a", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("a", 1, assignments={0: [0]}), ErrorCode.INVALID_REQUEST),
        (NewTopic("a", assignments={1: [0]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("a", assignments={0: [0], 2: [0]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("a", assignments={0: []}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("a", assignments={0: [0, 0]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("a", assignments={0: [7]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("a", configs={"segment.byte": "1"}), ErrorCode.INVALID_CONFIG),
        (NewTopic("a", configs={"segment.bytes": None}), ErrorCode.INVALID_CONFIG),
    ],
)
async def test_what_cannot_be_is_refused_with_a_sentence(
    start_admin: StartAdmin, wanted: NewTopic, code: ErrorCode
) -> None:
    async with start_admin() as admin:
        await admin.topic_admin.create(NewTopic("there"))
        await admin.topic_admin.create(NewTopic("page.views"))
        with pytest.raises(KafkaError) as caught:
            await admin.topic_admin.create(wanted)
        assert caught.value.code is code
        assert caught.value.message
        assert len(admin.topics) == 2


async def test_a_topic_with_chosen_brokers(start_admin: StartAdmin) -> None:
    async with start_admin() as admin:
        topic = await admin.topic_admin.create(NewTopic("orders", assignments={1: [0], 0: [0]}))
        assert len(topic.partitions) == 2


async def test_a_topic_grows_and_never_shrinks(start_admin: StartAdmin) -> None:
    async with start_admin() as admin:
        await admin.topic_admin.create(NewTopic("orders", 2))
        await admin.topic_admin.grow("orders", 4, None)
        await admin.topic_admin.grow("orders", 5, [[0]])
        assert len(admin.replicas.served) == 5
        for total, assignments, code in (
            (5, None, ErrorCode.INVALID_PARTITIONS),
            (2, None, ErrorCode.INVALID_PARTITIONS),
            (7, [[0]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            (6, [[9]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            (2**31 - 1, None, ErrorCode.POLICY_VIOLATION),
        ):
            with pytest.raises(KafkaError) as caught:
                await admin.topic_admin.grow("orders", total, assignments)
            assert caught.value.code is code
    async with start_admin() as admin:
        assert len(admin.topics.get("orders").partitions) == 5


async def test_a_deleted_topic_leaves_nothing_and_can_be_made_anew(start_admin: StartAdmin) -> None:
    async with start_admin() as admin:
        first = await admin.topic_admin.create(NewTopic("orders", 2))
        await admin.topic_admin.delete("orders")
        assert len(admin.topics) == 0
        assert admin.topics.name_of(first.id) is None
        assert admin.replicas.served == {}
        for parent in (paths.TOPICS, paths.TOPIC_CONFIGS, paths.DELETED_TOPICS):
            assert await admin.store.children(parent) == []
        second = await admin.topic_admin.create(NewTopic("orders", 1))
        assert second.id != first.id


async def test_deleting_what_is_not_there_or_must_not_go(start_admin: StartAdmin) -> None:
    async with start_admin(delete_topic_enable="false") as admin:
        await admin.topic_admin.create(NewTopic("orders"))
        with pytest.raises(KafkaError) as caught:
            await admin.topic_admin.delete("orders")
        assert caught.value.code is ErrorCode.TOPIC_DELETION_DISABLED
    async with start_admin() as admin:
        with pytest.raises(KafkaError) as caught:
            await admin.topic_admin.delete("nothing")
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_deletion_that_was_decided_is_finished_after_a_crash(start_admin: StartAdmin) -> None:
    """The decision is written first: a broker that dies in between must not bring the topic back."""
    async with start_admin() as admin:
        await admin.topic_admin.create(NewTopic("orders", 2))
        await admin.store.create(paths.deleted_topic("orders"))
        await admin.store.delete(paths.partition_state("orders", 1))
        await admin.store.delete(paths.partition("orders", 1))
    async with start_admin() as admin:
        assert len(admin.topics) == 0
        assert sorted(admin.replicas.dropped) == [TopicPartition("orders", 0), TopicPartition("orders", 1)]
        assert await admin.store.children(paths.TOPICS) == []
        assert await admin.store.children(paths.DELETED_TOPICS) == []


async def test_states_that_a_crash_kept_from_being_written_are_completed(start_admin: StartAdmin) -> None:
    async with start_admin() as admin:
        await admin.topic_admin.create(NewTopic("orders", 3))
        await admin.store.delete(paths.partition_state("orders", 2))
        await admin.store.delete(paths.partition("orders", 2))
    async with start_admin() as admin:
        assert len(admin.topics.get("orders").partitions) == 3
        assert await admin.store.exists(paths.partition_state("orders", 2))


async def test_a_topic_larger_than_one_write(start_admin: StartAdmin) -> None:
    async with start_admin() as admin:
        await admin.topic_admin.create(NewTopic("wide", 1200))
        await admin.topic_admin.grow("wide", 1300, None)
        assert len(await admin.store.children(paths.partitions("wide"))) == 1300
    async with start_admin() as admin:
        assert len(admin.replicas.served) == 1300
        await admin.topic_admin.delete("wide")
        assert await admin.store.children(paths.TOPICS) == []


async def test_many_who_want_the_same_topic_get_one(start_admin: StartAdmin) -> None:
    async with start_admin() as admin:
        made = await asyncio.gather(*(admin.topic_admin.create_automatically("orders") for _ in range(10)))
        assert len({id(topic) for topic in made}) == 1
        outcomes = await asyncio.gather(
            *(admin.topic_admin.create(NewTopic("views")) for _ in range(5)), return_exceptions=True
        )
        assert [type(outcome).__name__ for outcome in outcomes].count("Topic") == 1
        assert all(o.code is ErrorCode.TOPIC_ALREADY_EXISTS for o in outcomes if isinstance(o, KafkaError))


async def test_internal_topics_are_made_as_their_owners_need_them(start_admin: StartAdmin) -> None:
    """A cluster of one makes one replica, whatever the defaults for a real cluster say."""
    async with start_admin() as admin:
        offsets = await admin.topic_admin.create_automatically("__consumer_offsets")
        assert len(offsets.partitions) == 50
        assert offsets.settings[LOG_CLEANUP_POLICY] == ("compact",)
        transactions = await admin.topic_admin.create_automatically("__transaction_state")
        assert transactions.settings[MIN_INSYNC_REPLICAS] == 1
        assert offsets.is_internal


async def test_a_client_that_hangs_up_leaves_no_half_made_topic(start_admin: StartAdmin) -> None:
    """Before changes were shielded, a topic could be written down and not served until a restart."""
    async with start_admin() as admin:
        asker = asyncio.create_task(admin.topic_admin.create(NewTopic("orders", 50)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        asker.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asker
        await admin.changes.finish()
        assert len(admin.replicas.served) == len(admin.topics.get("orders").partitions) == 50


async def test_who_does_not_decide_says_who_does_or_that_nobody_does(
    start_admin: StartAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with start_admin() as admin:
        monkeypatch.setattr(ServeAlone, "may_decide", False)
        with pytest.raises(KafkaError, match="there is no controller right now"):
            await admin.topic_admin.create(NewTopic("orders"))
        admin.cluster.controller_id = BrokerId(7)
        with pytest.raises(KafkaError, match="broker 7 is the controller: ask there"):
            await admin.topic_admin.create(NewTopic("orders"))
