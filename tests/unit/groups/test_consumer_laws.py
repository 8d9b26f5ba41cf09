"""What holds in a consumer group whatever its members do, and whenever its coordinator dies."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.groups.consumer.group import ConsumerGroup
from highwater.groups.consumer.states import ConsumerGroupState
from highwater.model.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.groups.conftest import ConsumerStage

NAMES = ("ana", "ben", "cem", "dan")

names = st.sampled_from(NAMES)
actions = st.one_of(
    st.tuples(st.just("join"), names, st.sampled_from([("leaves",), ("water",), ("leaves", "water")])),
    st.tuples(st.just("beat"), names),
    st.tuples(st.just("beat"), names),
    st.tuples(st.just("beat_all")),
    st.tuples(st.just("hear"), names),
    st.tuples(st.just("lose_answer"), names),
    st.tuples(st.just("leave"), names),
    st.tuples(st.just("vanish"), names),
    st.tuples(st.just("grow"), st.sampled_from(["leaves", "water"])),
    st.tuples(st.just("wait"), st.sampled_from([1, 5_000, 20_000, 46_000])),
    st.tuples(st.just("crash")),
)


class Play:
    """A stage whose actors do whatever they are told, and a check after every move."""

    def __init__(self, stage: ConsumerStage) -> None:
        self.stage = stage
        stage.topics.put("leaves", 4)
        stage.topics.put("water", 3)
        self._sizes = {"leaves": 4, "water": 3}

    def do(self, action: str, *arguments: object) -> None:
        try:
            getattr(self, f"_{action}")(*arguments)
        except KafkaError:
            # Whoever is refused gives up all it had, as clients do, and may join again.
            name = str(arguments[0])
            for known in (self.stage.owned, self.stage.told, self.stage.epochs):
                known.pop(name, None)
        self._check()

    def settle(self) -> None:
        """Let the members that are left report until everybody has what they should have."""
        self.stage.wait(1)
        for _ in range(30):
            self._beat_all()
            group = self.stage.shard.groups.get("tea")
            if not isinstance(group, ConsumerGroup) or group.state is ConsumerGroupState.EMPTY:
                return
            if group.state is ConsumerGroupState.STABLE:
                self._check_complete(group)
                return
            self.stage.wait(5_000)
        raise AssertionError(f"still {self.stage.group.state} after every timeout")

    # Moves

    def _join(self, name: str, topics: tuple[str, ...]) -> None:
        self.stage.join(name, *topics)

    def _beat(self, name: str) -> None:
        if name in self.stage.epochs:
            self.stage.beat(name)

    def _beat_all(self) -> None:
        for name in NAMES:
            self.do("beat", name)

    def _hear(self, name: str) -> None:
        """Report without giving anything up: the application is busy."""
        if name in self.stage.epochs:
            self.stage.hear(name)

    def _lose_answer(self, name: str) -> None:
        """Report, and never get the answer; the next report says everything again."""
        if name in self.stage.epochs:
            self.stage.report(name, topic_partitions=self.stage._as_messages(name))

    def _leave(self, name: str) -> None:
        if name in self.stage.epochs:
            self.stage.leave(name)

    def _vanish(self, name: str) -> None:
        """Die without a word: what it had is nobody's, and the coordinator does not know."""
        for known in (self.stage.owned, self.stage.told, self.stage.epochs):
            known.pop(name, None)

    def _grow(self, topic: str) -> None:
        self._sizes[topic] += 1
        self.stage.topics.put(topic, self._sizes[topic])

    def _wait(self, delay_ms: int) -> None:
        self.stage.wait(delay_ms)

    def _crash(self) -> None:
        self.stage.crash()

    # Laws

    def _check(self) -> None:
        group = self.stage.shard.groups.get("tea")
        if not isinstance(group, ConsumerGroup):
            return
        alive = {name: owned for name, owned in self.stage.owned.items() if name in group.members}
        owners = Counter(
            (topic, partition)
            for owned in alive.values()
            for topic, partitions in owned.items()
            for partition in partitions
        )
        assert all(count == 1 for count in owners.values()), f"two owners: {owners.most_common(1)}"
        assert group.target_epoch <= group.epoch
        assert all(member.epoch <= group.target_epoch for member in group.members.values())
        again = self.stage.replayed().groups["tea"]
        assert isinstance(again, ConsumerGroup)
        assert _durable(again) == _durable(group), "replay gives the same group"

    @staticmethod
    def _check_complete(group: ConsumerGroup) -> None:
        for member_id, member in group.members.items():
            assert member.assigned == group.target_of(member_id)
            assert not member.revoking


def _durable(group: ConsumerGroup) -> object:
    """Return what a group must not forget."""
    members = {
        member_id: (member.subscription, member.epoch, member.state, member.assigned, member.revoking)
        for member_id, member in group.members.items()
    }
    targets = {member_id: group.target_of(member_id) for member_id in group.members}
    return group.epoch, group.target_epoch, group.metadata_hash, members, targets, group.owners, group.static_members


@settings(max_examples=150, deadline=None)
@given(history=st.lists(actions, min_size=10, max_size=40))
def test_a_group_keeps_its_laws_and_always_comes_to_rest(
    history: list[tuple[str, ...]], new_consumer_stage: Callable[[], ConsumerStage]
) -> None:
    play = Play(new_consumer_stage())
    play.do("join", "ana", ("leaves",))
    for action in history:
        play.do(*action)
    play.settle()
