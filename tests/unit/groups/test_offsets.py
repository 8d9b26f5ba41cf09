"""Committed offsets: who may commit, what is kept, and when it goes."""

from collections.abc import Iterable

import pytest

from highwater.groups.classic.states import GroupState
from highwater.groups.consumer.topics import TopicsView
from highwater.groups.offset_commits import Committer, check_commit, commit_record
from highwater.groups.records import GroupRecord
from highwater.groups.removal import (
    check_group_deletion,
    check_offset_deletion,
    deletion_of_group,
    deletion_of_topics,
    expired,
)
from highwater.groups.settings import GroupSettings
from highwater.groups.shard import GroupShard
from highwater.groups.subscription import subscribed_topics
from highwater.model.errors import ErrorCode
from highwater.model.ids import NO_PRODUCER_ID, ProducerId, TopicPartition
from highwater.protocol import codec
from highwater.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from highwater.protocol.messages.group_metadata_records import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from highwater.protocol.messages.offset_commit import OffsetCommitRequestPartition
from highwater.protocol.messages.offset_records import OffsetCommitValue

NOW_MS = 1_000_000_000
WEEK_MS = 7 * 24 * 3_600_000
STRANGER = Committer("tea", "", None, -1)
MEMBER = Committer("tea", "ana-1", None, 4)


class Shard:
    """A shard with one group."""

    def __init__(self, topics: TopicsView) -> None:
        self.core = GroupShard(GroupSettings(), topics)

    def apply(self, records: Iterable[GroupRecord], producer_id: ProducerId = NO_PRODUCER_ID) -> int:
        count = 0
        for record in tuple(records):
            self.core.apply(record, now_ms=NOW_MS, producer_id=producer_id)
            count += 1
        return count

    def commit(
        self,
        topic: str,
        offset: int,
        *,
        at_ms: int = NOW_MS,
        retention_ms: int = -1,
        producer_id: ProducerId = NO_PRODUCER_ID,
    ) -> None:
        asked = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        self.apply([commit_record("tea", topic, asked, wall_ms=at_ms, retention_ms=retention_ms)], producer_id)

    def offset(self, topic: str) -> int | None:
        committed = self.core.offsets_of("tea").get(topic, 0)
        return None if committed is None else committed.offset

    def members(
        self, *, topics: tuple[str, ...] = ("leaves",), protocol_type: str = "consumer", since_ms: int = 0
    ) -> None:
        """Make a group with one member that reads `topics`; an empty one if there are none."""
        subscription = b"\x00\x01" + codec.encode(ConsumerProtocolSubscription(topics=list(topics)), 1)
        value = GroupMetadataValue(
            protocol_type=protocol_type,
            generation=4,
            protocol="range",
            leader="ana-1",
            current_state_timestamp=since_ms,
            members=[MemberMetadata(member_id="ana-1", session_timeout=10_000, subscription=subscription)]
            if topics
            else [],
        )
        self.apply([GroupRecord(GroupMetadataKey(group="tea"), value)])

    def expire(self, now_ms: int) -> int:
        return self.apply(expired(self.core, wall_ms=now_ms))


@pytest.fixture
def shard(no_topics: TopicsView) -> Shard:
    return Shard(no_topics)


# Who may commit


def test_offsets_alone_make_a_group(shard: Shard) -> None:
    assert check_commit(shard.core, STRANGER, now_ms=NOW_MS) is ErrorCode.NONE
    shard.commit("leaves", 5)
    assert shard.core.groups["tea"].state is GroupState.EMPTY


@pytest.mark.parametrize(
    ("committer", "expected"),
    [
        (MEMBER, ErrorCode.NONE),
        (MEMBER._replace(generation=3), ErrorCode.ILLEGAL_GENERATION),
        (MEMBER._replace(member_id="ben-1"), ErrorCode.UNKNOWN_MEMBER_ID),
        (MEMBER._replace(instance_id="seat"), ErrorCode.UNKNOWN_MEMBER_ID),
        (STRANGER, ErrorCode.UNKNOWN_MEMBER_ID),
        (STRANGER._replace(is_transactional=True), ErrorCode.NONE),
    ],
)
def test_a_group_with_members_takes_commits_from_its_members_only(
    shard: Shard, committer: Committer, expected: ErrorCode
) -> None:
    shard.members()
    assert check_commit(shard.core, committer, now_ms=NOW_MS) is expected


def test_a_generation_of_no_group_is_refused_in_words_the_client_knows(shard: Shard) -> None:
    assert check_commit(shard.core, MEMBER, now_ms=NOW_MS) is ErrorCode.GROUP_ID_NOT_FOUND
    older = MEMBER._replace(knows_member_epochs=False)
    assert check_commit(shard.core, older, now_ms=NOW_MS) is ErrorCode.ILLEGAL_GENERATION


def test_a_member_without_an_assignment_yet_is_asked_to_wait(shard: Shard) -> None:
    shard.members()
    shard.core.classic_group("tea").state = GroupState.COMPLETING_REBALANCE
    assert check_commit(shard.core, MEMBER, now_ms=NOW_MS) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_that_commits_is_alive(shard: Shard) -> None:
    shard.members()
    check_commit(shard.core, MEMBER, now_ms=NOW_MS + 9_000)
    assert shard.core.groups["tea"].members["ana-1"].expires_at_ms == NOW_MS + 19_000


# What is kept


def test_the_last_commit_counts(shard: Shard) -> None:
    shard.commit("leaves", 5)
    shard.commit("leaves", 3)
    assert shard.offset("leaves") == 3


def test_a_transactions_offsets_count_from_its_end(shard: Shard) -> None:
    producer = ProducerId(9)
    shard.commit("leaves", 5)
    shard.commit("leaves", 8, producer_id=producer)
    assert shard.offset("leaves") == 5
    assert shard.core.offsets_of("tea").is_pending("leaves", 0)
    shard.core.end_transaction(producer, committed=True)
    assert shard.offset("leaves") == 8
    assert not shard.core.offsets_of("tea").has_pending


def test_an_aborted_transactions_offsets_never_count(shard: Shard) -> None:
    shard.commit("leaves", 8, producer_id=ProducerId(9))
    shard.core.end_transaction(ProducerId(9), committed=False)
    assert shard.offset("leaves") is None


def test_a_commit_after_a_transactions_outlives_its_end(shard: Shard) -> None:
    shard.commit("leaves", 8, producer_id=ProducerId(9))
    shard.commit("leaves", 11)
    shard.core.end_transaction(ProducerId(9), committed=True)
    assert shard.offset("leaves") == 11


# When it goes


def test_a_group_that_is_deleted_takes_the_offsets_of_open_transactions_along(shard: Shard) -> None:
    """They came back with the transaction's commit, and with them the group."""
    shard.commit("leaves", 5)
    shard.commit("water", 8, producer_id=ProducerId(9))
    shard.apply(deletion_of_group(shard.core, "tea"))
    shard.core.end_transaction(ProducerId(9), committed=True)
    assert "tea" not in shard.core.groups
    assert shard.core.offsets == {}


def test_a_topic_that_is_deleted_takes_the_offsets_of_open_transactions_along(shard: Shard) -> None:
    shard.commit("leaves", 5)
    shard.commit("water", 8, producer_id=ProducerId(9))
    shard.apply(deletion_of_topics(shard.core, ["water"]))
    shard.core.end_transaction(ProducerId(9), committed=True)
    assert (shard.offset("leaves"), shard.offset("water")) == (5, None)


def test_a_groups_deletion_takes_everything(shard: Shard) -> None:
    shard.commit("leaves", 5)
    shard.commit("water", 6)
    assert check_group_deletion(shard.core, "tea") is ErrorCode.NONE
    assert shard.apply(deletion_of_group(shard.core, "tea")) == 3
    assert (shard.core.groups, shard.core.offsets) == ({}, {})
    assert check_group_deletion(shard.core, "tea") is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_with_members_cannot_be_deleted(shard: Shard) -> None:
    shard.members()
    assert check_group_deletion(shard.core, "tea") is ErrorCode.NON_EMPTY_GROUP


def test_single_offsets_can_be_deleted_of_consumers_and_of_nobody_else(shard: Shard) -> None:
    assert check_offset_deletion(shard.core, "tea") is ErrorCode.GROUP_ID_NOT_FOUND
    shard.members()
    assert check_offset_deletion(shard.core, "tea") is ErrorCode.NONE
    assert shard.core.groups["tea"].is_subscribed_to("leaves")
    assert not shard.core.groups["tea"].is_subscribed_to("water")
    shard.members(protocol_type="connect")
    assert check_offset_deletion(shard.core, "tea") is ErrorCode.NON_EMPTY_GROUP


def test_a_topics_deletion_takes_its_offsets(shard: Shard) -> None:
    shard.commit("leaves", 5)
    shard.commit("water", 6)
    assert shard.apply(deletion_of_topics(shard.core, ["leaves", "never-read"])) == 1
    assert (shard.offset("leaves"), shard.offset("water")) == (None, 6)


def test_offsets_without_members_expire_each_from_its_commit(shard: Shard) -> None:
    shard.commit("leaves", 5)
    shard.commit("water", 6, at_ms=NOW_MS + 1_000)
    assert shard.expire(NOW_MS + WEEK_MS - 1) == 0
    assert shard.expire(NOW_MS + WEEK_MS) == 1
    assert shard.expire(NOW_MS + WEEK_MS + 1_000) == 2, "the last offset, and the group with it"
    assert shard.core.groups == {}


def test_an_empty_groups_offsets_expire_together_from_when_it_became_empty(shard: Shard) -> None:
    shard.members(topics=(), since_ms=NOW_MS + 5_000)
    shard.commit("leaves", 5)
    assert shard.expire(NOW_MS + WEEK_MS) == 0
    assert shard.expire(NOW_MS + 5_000 + WEEK_MS) == 2


def test_what_a_live_group_reads_never_expires(shard: Shard) -> None:
    """KIP-211: a topic may be silent for longer than offsets are kept."""
    shard.members(topics=("leaves",))
    shard.commit("leaves", 5)
    shard.commit("water", 6)
    assert shard.expire(NOW_MS + WEEK_MS) == 1
    assert (shard.offset("leaves"), shard.offset("water")) == (5, None)


def test_what_cannot_be_understood_never_expires(shard: Shard) -> None:
    shard.members(protocol_type="connect")
    shard.commit("leaves", 5)
    assert shard.expire(NOW_MS + WEEK_MS) == 0


def test_a_client_may_ask_for_a_shorter_life(shard: Shard) -> None:
    shard.commit("leaves", 5, retention_ms=1_000)
    assert shard.expire(NOW_MS + 999) == 0
    assert shard.expire(NOW_MS + 1_000) == 2


def test_a_client_that_asks_for_eternity_gets_the_end_of_time() -> None:
    """The sum with the clock did not fit into the record, which cost the client its connection."""
    asked = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    record = commit_record("tea", "leaves", asked, wall_ms=NOW_MS, retention_ms=2**63 - 1)
    assert isinstance(record.value, OffsetCommitValue)
    assert record.value.expire_timestamp == 2**63 - 1


def test_offsets_in_a_transaction_do_not_expire(shard: Shard) -> None:
    shard.commit("leaves", 5)
    shard.commit("leaves", 6, producer_id=ProducerId(9))
    assert shard.expire(NOW_MS + WEEK_MS) == 0


def test_subscriptions_are_read_as_far_as_they_can_be() -> None:
    plain = b"\x00\x00" + codec.encode(ConsumerProtocolSubscription(topics=["a"]), 0)
    newer = b"\x00\x07" + codec.encode(ConsumerProtocolSubscription(topics=["b"]), 3) + b"more"
    assert subscribed_topics([plain, newer]) == frozenset({"a", "b"})
    assert subscribed_topics([]) == frozenset()
    for opaque in (b"", b"\x00", b"\xff\xff", b"\x00\x00\x7f\xff\xff\xff"):
        assert subscribed_topics([plain, opaque]) is None


def test_deleting_an_offset_ends_what_transactions_wanted_of_it(shard: Shard) -> None:
    shard.commit("leaves", 6, producer_id=ProducerId(9))
    offsets = shard.core.offsets_of("tea")
    offsets.delete(TopicPartition("leaves", 0))
    assert not offsets
