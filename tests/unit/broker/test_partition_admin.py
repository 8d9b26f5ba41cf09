"""Elections and moves in a cluster of one: there is nothing to do, and it says so."""

import pytest

from highwater.broker.partition_admin import PartitionAdmin
from highwater.broker.topics import PartitionState, Topic, Topics
from highwater.config.broker_config import BrokerConfig
from highwater.config.topic_settings import TopicSettings
from highwater.controller.events import ElectionKind
from highwater.model.errors import ErrorCode
from highwater.model.ids import BrokerId, LeaderEpoch, TopicId, TopicPartition

A0 = TopicPartition("a", 0)
ME = BrokerId(0)


@pytest.fixture
def admin() -> PartitionAdmin:
    topics = Topics()
    state = PartitionState(replicas=(ME,), leader=ME, leader_epoch=LeaderEpoch(0), isr=(ME,), version=0)
    settings = TopicSettings.resolve(BrokerConfig({}), {})
    topics.put(Topic("a", TopicId(b"a" * 16), [state], {}, settings))
    return PartitionAdmin(topics, None)


@pytest.mark.parametrize("kind", ElectionKind)
async def test_nothing_needs_an_election(admin: PartitionAdmin, kind: ElectionKind) -> None:
    outcomes = await admin.elect(kind, [A0, TopicPartition("a", 1), TopicPartition("b", 0)], timeout_ms=1000)
    assert [refusal and refusal.code for refusal in outcomes.values()] == [
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert await admin.elect(kind, None, timeout_ms=1000) == {}


async def test_a_partition_stays_where_it_is(admin: PartitionAdmin) -> None:
    assert await admin.move({A0: [0]}) == {A0: None}
    outcomes = [
        await admin.move({A0: [0, 1]}),
        await admin.move({A0: None}),
        await admin.move({TopicPartition("a", 7): [0]}),
    ]
    assert [refusal and refusal.code for outcome in outcomes for refusal in outcome.values()] == [
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert admin.moving(None) == []
