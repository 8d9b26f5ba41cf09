"""What holds in a classic group whatever its members do, and whenever its coordinator dies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.groups.classic.snapshot import restore
from highwater.groups.classic.states import GroupState
from highwater.model.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.groups.conftest import Stage

    from highwater.groups.classic.group import ClassicGroup

NAMES = ("ana", "ben", "cem", "dan")
REBALANCE_MS = 60_000

names = st.sampled_from(NAMES)
actions = st.one_of(
    st.tuples(st.just("enter"), names),
    st.tuples(st.just("cooperate"), st.sampled_from([1, 3_000])),
    st.tuples(st.just("cooperate"), st.sampled_from([1, 3_000])),
    st.tuples(st.just("join"), names, st.sampled_from([b"", b"changed"])),
    st.tuples(st.just("rejoin_static"), names),
    st.tuples(st.just("sync"), names),
    st.tuples(st.just("heartbeat"), names),
    st.tuples(st.just("leave"), names),
    st.tuples(st.just("forget_id"), names),
    st.tuples(st.just("wait"), st.sampled_from([1, 2_000, 7_000, 30_000])),
    st.tuples(st.just("crash")),
)


class Play:
    """A stage whose actors do whatever they are told, and a check after every move."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._generation = 0

    def do(self, action: str, *arguments: object) -> None:
        getattr(self, f"_{action}")(*arguments)
        self._check()

    def settle(self) -> None:
        """Let whoever is in the group do what a good member does, until nothing is left to be done."""
        for _ in range(50):
            waiting = any(self.stage.waits(name) for name in NAMES)
            if self.stage.group.state is GroupState.STABLE and not waiting:
                return
            self.do("cooperate", 3_000)
            if self.stage.group.state is GroupState.EMPTY:
                return
        raise AssertionError(f"still {self.stage.group.state} after every timeout")

    # Moves

    def _cooperate(self, delay_ms: int) -> None:
        """Let every member do what is asked of it, then let time pass."""
        for name in NAMES:
            if self.stage.waits(name) or not self._is_member(name):
                continue
            if self.stage.group.state is GroupState.PREPARING_REBALANCE:
                self._rejoin(name)
            elif self.stage.group.state is GroupState.COMPLETING_REBALANCE:
                self._sync(name)
            else:
                self._heartbeat(name)
        self.stage.wait(delay_ms)

    def _enter(self, name: str) -> None:
        self.stage.enter(name, instance=self._instance(name))

    def _join(self, name: str, metadata: bytes) -> None:
        self.stage.join(name, metadata=metadata, instance=self._instance(name))

    def _rejoin(self, name: str) -> None:
        self.stage.join(name, instance=self._instance(name))

    def _rejoin_static(self, name: str) -> None:
        """Start the process of a static member anew: it has forgotten its id."""
        if self._instance(name) is not None:
            self.stage.ids.pop(name, None)
            self._rejoin(name)

    def _sync(self, name: str) -> None:
        group = self.stage.group
        leads = self.stage.ids.get(name) == group.leader and group.state is GroupState.COMPLETING_REBALANCE
        present = [each for each in NAMES if self.stage.ids.get(each) in group.members]
        assignments = {each: f"{group.generation} {each}".encode() for each in present} if leads else {}
        self.stage.sync(name, assignments, group_instance_id=self._instance(name))

    def _heartbeat(self, name: str) -> None:
        self.stage.heartbeat(name, instance=self._instance(name))

    def _leave(self, name: str) -> None:
        self.stage.leave(name)

    def _forget_id(self, name: str) -> None:
        """Crash a member: it comes back without an id, and nobody told the group."""
        self.stage.ids.pop(name, None)

    def _wait(self, delay_ms: int) -> None:
        self.stage.wait(delay_ms)

    def _crash(self) -> None:
        self.stage.crash()
        self._generation = self.stage.group.generation

    # Laws

    def _check(self) -> None:
        group = self.stage.group
        assert group.generation >= self._generation, "a generation never goes back"
        self._generation = group.generation
        joining = [member for member in group.members.values() if member.join_ticket is not None]
        syncing = [member for member in group.members.values() if member.sync_ticket is not None]
        assert group.awaiting_joins == len(joining)
        assert not joining or group.state is GroupState.PREPARING_REBALANCE
        assert not syncing or group.state is GroupState.COMPLETING_REBALANCE
        assert (group.state is GroupState.EMPTY) <= (not group.members)
        assert group.leader in {None, *group.members}
        assert set(group.static_members.values()) <= group.members.keys()
        if group.state is GroupState.STABLE:
            self._check_stable(group)

    def _check_stable(self, group: ClassicGroup) -> None:
        owned = [member.assignment for member in group.members.values() if member.assignment]
        assert len(owned) == len(set(owned)), "one owner per partition and generation"
        again = restore("tea", self.stage.stored[-1], now_ms=self.stage.now_ms)
        assert _durable(again) == _durable(group), "replay gives the same group"

    def _is_member(self, name: str) -> bool:
        member_id = self.stage.ids.get(name)
        return member_id in self.stage.group.members or member_id in self.stage.group.pending_joins

    @staticmethod
    def _instance(name: str) -> str | None:
        return "seat" if name == "dan" else None


def _durable(group: ClassicGroup) -> object:
    """Return what a group must not forget."""
    members = {
        member.member_id: (member.instance_id, member.assignment, member.metadata_for(group.protocol))
        for member in group.members.values()
    }
    return group.state, group.generation, group.protocol_type, group.protocol, group.leader, members


@settings(max_examples=150, deadline=None)
@given(history=st.lists(actions, min_size=10, max_size=40))
def test_a_group_keeps_its_laws_and_always_comes_to_rest(
    history: list[tuple[str, ...]], new_stage: Callable[[], Stage]
) -> None:
    play = Play(new_stage())
    play.do("enter", "ana")
    play.do("enter", "dan")
    for action in history:
        play.do(*action)
    play.settle()
    for name in NAMES:
        if play.stage.ids.get(name) in play.stage.group.members:
            assert play.stage.heartbeat(name) in {ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS}
