"""A classic group on stage: members by name, time by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from highwater.groups import membership
from highwater.groups.changes import Changes
from highwater.groups.classic import heartbeat, join, leave, sync, timeouts
from highwater.groups.classic.group import ClassicGroup
from highwater.groups.classic.outcome import Outcome
from highwater.groups.classic.snapshot import restore, snapshot
from highwater.groups.consumer.group import ConsumerGroup
from highwater.groups.consumer.heartbeat import Reporter
from highwater.groups.consumer.topics import TopicInfo
from highwater.groups.settings import GroupSettings
from highwater.groups.shard import GroupShard
from highwater.model.errors import ErrorCode
from highwater.model.ids import TopicId
from highwater.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from highwater.protocol.messages.group_metadata_records import GroupMetadataValue
from highwater.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from highwater.protocol.messages.leave_group import MemberIdentity
from highwater.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from highwater.groups.causes import CauseKind
    from highwater.groups.records import GroupRecord

SESSION_MS = 10_000
REBALANCE_MS = 60_000


class Stage:
    """A group, a clock, and for everybody the last answer they got.

    A request's ticket is its sender's name, so `answer("ana")` is what Ana was told last.
    """

    def __init__(self) -> None:
        self.settings = GroupSettings()
        self.now_ms = 1_000_000
        self.group = ClassicGroup("tea")
        self.ids: dict[str, str] = {}
        self.causes: list[CauseKind] = []
        self.dropped: list[str] = []
        self.stored: list[GroupMetadataValue] = []
        self._answers: dict[str, Any] = {}
        self._ids_given = 0

    def set(self, **settings: Any) -> None:
        self.settings = replace(self.settings, **settings)

    # What members do

    def join(
        self,
        name: str,
        *,
        member_id: str | None = None,
        instance: str | None = None,
        protocols: tuple[str, ...] = ("range",),
        protocol_type: str = "consumer",
        metadata: bytes = b"",
        version: int = 9,
        reason: str | None = None,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
    ) -> None:
        """Send one JoinGroup, with the id that `name` has learnt so far unless told otherwise."""
        self._ids_given += 1
        request = JoinGroupRequest(
            group_id="tea",
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=self.ids.get(name, "") if member_id is None else member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=each, metadata=metadata) for each in protocols],
            reason=reason,
        )
        fresh_id = f"{name}-{self._ids_given}"
        joiner = join.Joiner(request, version, f"client-{name}", "/127.0.0.1", fresh_id, name)
        outcome = Outcome()
        join.Joining(self.group, joiner, settings=self.settings, now_ms=self.now_ms, outcome=outcome).run()
        self._take(outcome)

    def enter(self, *names: str, **offer: Any) -> None:
        """Join as clients do: ask for an id, then join with it; the answer waits for the others."""
        for name in names:
            self.join(name, **offer)
            if self._answers.get(name) is not None and self.error(name) is ErrorCode.MEMBER_ID_REQUIRED:
                self.join(name, **offer)

    def sync(
        self, name: str, assignments: dict[str, bytes] | None = None, *, generation: int | None = None, **fields: Any
    ) -> None:
        """Send one SyncGroup; assignments are by name."""
        request = SyncGroupRequest(
            group_id="tea",
            generation_id=self.group.generation if generation is None else generation,
            member_id=self.ids.get(name, ""),
            assignments=[
                SyncGroupRequestAssignment(member_id=self.ids[who], assignment=what)
                for who, what in (assignments or {}).items()
            ],
            **fields,
        )
        outcome = Outcome()
        self._answers.pop(name, None)
        sync.sync(
            self.group, sync.Syncer(request, 4, name), settings=self.settings, now_ms=self.now_ms, outcome=outcome
        )
        self._take(outcome)

    def heartbeat(self, name: str, *, generation: int | None = None, instance: str | None = None) -> ErrorCode:
        return heartbeat.heartbeat(
            self.group,
            member_id=self.ids.get(name, name),
            instance_id=instance,
            generation=self.group.generation if generation is None else generation,
            now_ms=self.now_ms,
        )

    def leave(self, *names: str, instance: str | None = None) -> list[ErrorCode]:
        outcome = Outcome()
        leavers = [MemberIdentity(member_id=self.ids.get(name, name)) for name in names]
        if instance is not None:
            leavers.append(MemberIdentity(member_id="", group_instance_id=instance))
        answers = leave.leave(self.group, leavers, settings=self.settings, now_ms=self.now_ms, outcome=outcome)
        self._take(outcome)
        return [ErrorCode(answer.error_code) for answer in answers]

    # What time and crashes do

    def wait(self, delay_ms: int) -> None:
        """Let time pass; whatever falls due on the way happens when it is due."""
        until_ms = self.now_ms + delay_ms
        while self.group.wake_at_ms <= until_ms:
            self.now_ms = max(self.now_ms, self.group.wake_at_ms)
            outcome = Outcome()
            timeouts.tick(self.group, settings=self.settings, now_ms=self.now_ms, outcome=outcome)
            self._take(outcome)
            assert self.group.wake_at_ms > self.now_ms, "a tick must do what was due"
        self.now_ms = until_ms

    def crash(self) -> None:
        """Start again from what was stored last; whoever waits gets no answer."""
        self.group = restore("tea", self.stored[-1], now_ms=self.now_ms) if self.stored else ClassicGroup("tea")

    # Shortcuts

    def assemble(self, *names: str, **offer: Any) -> None:
        """Bring a stable group of `names` about; the first one leads."""
        self.enter(*names, **offer)
        self.wait(self.settings.initial_rebalance_delay_ms * 2)
        leader = self.leader()
        for name in names:
            if name != leader:
                self.sync(name)
        self.sync(leader, {name: f"for {name}".encode() for name in names})

    def leader(self) -> str:
        return next(name for name, member_id in self.ids.items() if member_id == self.group.leader)

    def joined(self, name: str) -> JoinGroupResponse:
        """Return the last answer of `name`, a successful join."""
        answer = self._answers[name]
        assert isinstance(answer, JoinGroupResponse), answer
        assert answer.error_code == ErrorCode.NONE, answer
        return answer

    def assignment(self, name: str) -> bytes:
        answer = self._answers[name]
        assert isinstance(answer, SyncGroupResponse), answer
        assert answer.error_code == ErrorCode.NONE, answer
        return answer.assignment

    def error(self, name: str) -> ErrorCode:
        return ErrorCode(self._answers[name].error_code)

    def waits(self, name: str) -> bool:
        """Whether the last request of `name` is still unanswered."""
        return any(name in {each.join_ticket, each.sync_ticket} for each in self.group.members.values())

    def _take(self, outcome: Outcome) -> None:
        for ticket, response in outcome.answers:
            assert isinstance(ticket, str)
            self._answers[ticket] = response
            if isinstance(response, JoinGroupResponse) and response.member_id:
                self.ids[ticket] = response.member_id
        self.causes.extend(cause.kind for cause in outcome.causes)
        self.dropped.extend(outcome.dropped)
        if outcome.must_store:
            value = snapshot(self.group, wall_ms=self.now_ms).value
            assert isinstance(value, GroupMetadataValue)
            self.stored.append(value)


@pytest.fixture
def stage() -> Stage:
    return Stage()


class FakeTopics:
    """Topics by name, with as many partitions as a test says."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicInfo] = {}
        self.version = 0

    def put(self, name: str, partitions: int, *, racks: tuple[frozenset[str], ...] = ()) -> None:
        self._topics[name] = TopicInfo(name, topic_id(name), partitions, racks)
        self.version += 1

    def remove(self, name: str) -> None:
        del self._topics[name]
        self.version += 1

    def named(self, name: str) -> TopicInfo | None:
        return self._topics.get(name)

    def name_of(self, topic_id: TopicId) -> str | None:
        return next((topic.name for topic in self._topics.values() if topic.id == topic_id), None)

    def names(self) -> list[str]:
        return list(self._topics)


def topic_id(name: str) -> TopicId:
    return TopicId(name.encode().ljust(16, b"."))


@pytest.fixture
def no_topics() -> FakeTopics:
    return FakeTopics()


@pytest.fixture(scope="session")
def new_stage() -> Callable[[], Stage]:
    """Make stages: for tests that need one for every example."""
    return Stage


class ConsumerStage:
    """A consumer group on a real shard: members by name, time by hand, every record kept."""

    def __init__(self) -> None:
        self.topics = FakeTopics()
        self.settings = GroupSettings()
        self.now_ms = 1_000_000
        self.shard = GroupShard(self.settings, self.topics)
        self.log: list[GroupRecord] = []
        self.causes: list[CauseKind] = []
        self.epochs: dict[str, int] = {}
        self.owned: dict[str, dict[str, frozenset[int]]] = {}
        """What each member has, by topic name: at once what it is told to, until it acts on it what it is not."""
        self.told: dict[str, dict[str, frozenset[int]]] = {}

    def set(self, **settings: Any) -> None:
        self.settings = self.shard.settings = replace(self.settings, **settings)

    @property
    def group(self) -> ConsumerGroup:
        group = self.shard.groups["tea"]
        assert isinstance(group, ConsumerGroup), group
        return group

    # What members do

    def report(self, name: str, *, epoch: int | None = None, version: int = 1, **fields: Any) -> Any:
        """Send one heartbeat as it is told, and return the answer."""
        request = ConsumerGroupHeartbeatRequest(
            group_id="tea", member_id=name, member_epoch=self.epochs.get(name, 0) if epoch is None else epoch, **fields
        )
        reporter = Reporter(request, version, f"client-{name}", "/127.0.0.1", "fresh-id")
        changes = Changes(self.shard, now_ms=self.now_ms, wall_ms=self.now_ms)
        outcome = Outcome()
        try:
            return membership.report(self.shard, reporter, changes, outcome)
        finally:
            self.take(changes, outcome)

    def join(
        self, name: str, *topics: str, regex: str | None = None, rebalance_ms: int = 60_000, **fields: Any
    ) -> None:
        """Join, owning nothing."""
        self.owned[name] = {}
        self.told[name] = {}
        answer = self.report(
            name,
            epoch=0,
            rebalance_timeout_ms=rebalance_ms,
            subscribed_topic_names=list(topics) if topics or regex is None else None,
            subscribed_topic_regex=regex,
            topic_partitions=[],
            **fields,
        )
        self._learn(name, answer)

    def beat(self, *names: str) -> None:
        """Let members give up what they were told to, report what they have, and take what they are told."""
        for name in names:
            self.owned[name] = self.told[name]
            self.hear(name)

    def hear(self, name: str, **fields: Any) -> None:
        """Let a member report what it has and hear what it should have."""
        self._learn(name, self.report(name, topic_partitions=self._as_messages(name), **fields))

    def leave(self, name: str, *, epoch: int = -1, instance: str | None = None) -> None:
        self.report(name, epoch=epoch, instance_id=instance)
        for known in (self.owned, self.told, self.epochs):
            known.pop(name, None)

    def settle(self, *names: str) -> None:
        """Let members report until there is nothing new for anybody."""
        for _ in range(20):
            before = len(self.log)
            self.beat(*names)
            if len(self.log) == before:
                return
        raise AssertionError("the group does not come to rest")

    def shares(self) -> dict[str, int]:
        """Return how many partitions each member believes to have."""
        return {name: sum(len(partitions) for partitions in owned.values()) for name, owned in self.owned.items()}

    # What time and crashes do

    def wait(self, delay_ms: int) -> None:
        until_ms = self.now_ms + delay_ms
        while (group := self.shard.groups.get("tea")) is not None and group.wake_at_ms <= until_ms:
            self.now_ms = max(self.now_ms, group.wake_at_ms)
            changes = Changes(self.shard, now_ms=self.now_ms, wall_ms=self.now_ms)
            outcome = Outcome()
            membership.tick(self.shard, "tea", changes, outcome)
            self.take(changes, outcome)
        self.now_ms = until_ms

    def replayed(self) -> GroupShard:
        """Return the shard that the log alone makes."""
        shard = GroupShard(self.settings, self.topics)
        for record in self.log:
            shard.apply(record, now_ms=self.now_ms)
        return shard

    def crash(self) -> None:
        self.shard = self.replayed()
        if "tea" in self.shard.groups:
            changes = Changes(self.shard, now_ms=self.now_ms, wall_ms=self.now_ms)
            outcome = Outcome()
            membership.take_over(self.shard, "tea", changes, outcome)
            self.take(changes, outcome)

    def take(self, changes: Changes, outcome: Outcome) -> None:
        """Write down what was decided, as the driver does."""
        self.log.extend(changes.records)
        self.causes.extend(cause.kind for cause in (*changes.causes, *outcome.causes))
        group = self.shard.groups.get("tea")
        if outcome.must_store and isinstance(group, ClassicGroup):
            self.log.append(snapshot(group, wall_ms=self.now_ms))

    def _learn(self, name: str, answer: Any) -> None:
        self.epochs[name] = answer.member_epoch
        if answer.assignment is not None:
            self.told[name] = {
                self.topics.name_of(TopicId(entry.topic_id)) or "?": frozenset(entry.partitions)
                for entry in answer.assignment.topic_partitions
            }
            for topic, partitions in self.told[name].items():
                self.owned[name] = {
                    **self.owned[name],
                    topic: self.owned[name].get(topic, frozenset()) | partitions,
                }

    def _as_messages(self, name: str) -> list[TopicPartitions]:
        return [
            TopicPartitions(topic_id=topic_id(topic), partitions=sorted(partitions))
            for topic, partitions in self.owned.get(name, {}).items()
        ]


@pytest.fixture
def consumers() -> ConsumerStage:
    stage = ConsumerStage()
    stage.topics.put("leaves", 6)
    return stage


@pytest.fixture(scope="session")
def new_consumer_stage() -> Callable[[], ConsumerStage]:
    """Make stages: for tests that need one for every example."""
    return ConsumerStage
