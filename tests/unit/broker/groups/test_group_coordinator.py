"""Groups on a real log: what is answered is written, and what is written comes back."""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING, Any

import pytest

from highwater.broker.shards import RELOAD_DELAY_S
from highwater.groups.classic.group import ClassicGroup
from highwater.groups.classic.states import GroupState
from highwater.groups.offset_commits import Committer
from highwater.groups.removal import deletion_of_group
from highwater.model.errors import ErrorCode, KafkaError, StorageError
from highwater.protocol.messages.heartbeat import HeartbeatRequest
from highwater.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from highwater.protocol.messages.leave_group import MemberIdentity
from highwater.protocol.messages.offset_commit import OffsetCommitRequestPartition
from highwater.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.broker.groups.conftest import Fixture

    Run = Callable[..., None]

ALONE = Committer("tea", "", None, -1)


def a_join(member_id: str = "", **fields: Any) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="tea",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        **fields,
    )


async def join(fixture: Fixture, request: JoinGroupRequest) -> JoinGroupResponse:
    shard = fixture.coordinator.shard_of("tea")
    waited = shard.join(request, version=9, client_id="client", client_host="/127.0.0.1")
    response: JoinGroupResponse = await fixture.answer(waited)
    return response


async def a_stable_member(fixture: Fixture, assignment: bytes = b"all") -> str:
    """Return the id of the only member of a stable group."""
    given = await join(fixture, a_join())
    joined = await join(fixture, a_join(given.member_id))
    request = SyncGroupRequest(
        group_id="tea",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assignment)],
    )
    synced = await fixture.answer(fixture.coordinator.shard_of("tea").sync(request, version=4))
    assert synced.assignment == assignment
    return joined.member_id


def heartbeat(fixture: Fixture, member_id: str, generation: int = 1) -> ErrorCode:
    request = HeartbeatRequest(group_id="tea", member_id=member_id, generation_id=generation)
    return fixture.coordinator.shard_of("tea").heartbeat(request)


def commit(fixture: Fixture, offset: int, *, metadata: str = "") -> list[list[ErrorCode]]:
    asked = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=metadata)
    return fixture.coordinator.shard_of("tea").commit(ALONE, [("leaves", [asked])], retention_ms=-1)


async def settled(fixture: Fixture) -> None:
    """Wait until everything decided so far is committed."""
    done: asyncio.Future[KafkaError | None] = fixture.loop.create_future()
    fixture.coordinator.shard_of("tea").journal.when_committed(done.set_result)
    assert await done is None


def committed_offset(fixture: Fixture) -> int | None:
    committed = fixture.coordinator.shard_of("tea").core.offsets_of("tea").get("leaves", 0)
    return None if committed is None else committed.offset


def test_a_member_joins_syncs_and_stays(run: Run) -> None:
    async def scenario(fixture: Fixture) -> None:
        member_id = await a_stable_member(fixture)
        assert member_id.startswith("client-")
        for _ in range(5):
            await asyncio.sleep(5)
            assert heartbeat(fixture, member_id) is ErrorCode.NONE

    run(scenario)


def test_a_silent_member_is_gone_when_its_session_ends(run: Run) -> None:
    async def scenario(fixture: Fixture) -> None:
        member_id = await a_stable_member(fixture)
        await asyncio.sleep(9.9)
        assert fixture.coordinator.shard_of("tea").core.groups["tea"].state is GroupState.STABLE
        await asyncio.sleep(0.2)
        assert fixture.coordinator.shard_of("tea").core.groups["tea"].state is GroupState.EMPTY
        assert heartbeat(fixture, member_id) is ErrorCode.UNKNOWN_MEMBER_ID

    run(scenario)


def test_after_a_crash_the_member_carries_on(run: Run) -> None:
    async def scenario(fixture: Fixture) -> None:
        member_id = await a_stable_member(fixture, b"0 1 2")
        await fixture.restart()
        assert heartbeat(fixture, member_id) is ErrorCode.NONE
        request = SyncGroupRequest(group_id="tea", generation_id=1, member_id=member_id)
        synced = await fixture.answer(fixture.coordinator.shard_of("tea").sync(request, version=4))
        assert synced.assignment == b"0 1 2"

    run(scenario)


def test_committed_offsets_survive_a_crash(run: Run) -> None:
    async def scenario(fixture: Fixture) -> None:
        for offset in range(100):
            assert commit(fixture, offset, metadata=f"at {offset}") == [[ErrorCode.NONE]]
        await settled(fixture)
        await fixture.restart()
        assert committed_offset(fixture) == 99

    run(scenario)


def test_what_one_turn_decides_is_one_batch(run: Run) -> None:
    async def scenario(fixture: Fixture) -> None:
        for offset in range(100):
            commit(fixture, offset)
        await settled(fixture)
        region = fixture.log.read(0, max_bytes=1 << 20, up_to=fixture.log.log_end_offset)
        assert region is not None
        assert len(region) < 100 * 61, "there is no room for a hundred batch headers"

    run(scenario)


def test_an_oversized_commit_changes_nothing(run: Run) -> None:
    async def scenario(fixture: Fixture) -> None:
        asked = [
            OffsetCommitRequestPartition(partition_index=index, committed_offset=1, committed_metadata="x" * 4_000)
            for index in range(400)
        ]
        shard = fixture.coordinator.shard_of("tea")
        with pytest.raises(KafkaError) as refused:
            shard.commit(ALONE, [("leaves", asked)], retention_ms=-1)
        assert refused.value.code is ErrorCode.INVALID_COMMIT_OFFSET_SIZE
        assert committed_offset(fixture) is None

    run(scenario)


def test_a_large_deletion_takes_several_batches(run: Run) -> None:
    async def scenario(fixture: Fixture) -> None:
        shard = fixture.coordinator.shard_of("tea")
        for topic in ("a" * 249, "b" * 249):
            asked = [OffsetCommitRequestPartition(partition_index=index, committed_offset=1) for index in range(3_000)]
            shard.commit(ALONE, [(topic, asked)], retention_ms=-1)
        await settled(fixture)
        assert shard.write(deletion_of_group(shard.core, "tea")) == 6_001
        await settled(fixture)
        await fixture.restart()
        assert fixture.coordinator.shard_of("tea").core.groups == {}

    run(scenario)


def test_an_empty_group_is_remembered_as_empty(run: Run) -> None:
    async def scenario(fixture: Fixture) -> None:
        member_id = await a_stable_member(fixture)
        fixture.coordinator.shard_of("tea").leave("tea", [MemberIdentity(member_id=member_id)])
        await settled(fixture)
        await fixture.restart()
        group = fixture.coordinator.shard_of("tea").core.groups["tea"]
        assert isinstance(group, ClassicGroup)
        assert (group.state, group.generation, group.protocol_type) == (GroupState.EMPTY, 2, "consumer")

    run(scenario)


def test_offsets_expire_and_stay_expired(run: Run) -> None:
    async def scenario(fixture: Fixture) -> None:
        commit(fixture, 5)
        await settled(fixture)
        await asyncio.sleep(3_600 + 600)
        assert committed_offset(fixture) is None
        await fixture.restart()
        assert fixture.coordinator.shard_of("tea").core.groups == {}

    run(scenario, offsets_retention_minutes=60)


def test_offsets_of_a_deleted_topic_go_with_it(run: Run) -> None:
    async def scenario(fixture: Fixture) -> None:
        leaves = fixture.add_topic("leaves")
        commit(fixture, 5)
        fixture.topics.remove(leaves)
        await settled(fixture)
        assert committed_offset(fixture) is None
        await fixture.restart()
        assert committed_offset(fixture) is None

    run(scenario)


def test_while_groups_load_members_are_asked_to_wait(run: Run) -> None:
    async def scenario(fixture: Fixture) -> None:
        commit(fixture, 5)
        await settled(fixture)
        fixture.coordinator.close()
        fixture.start()
        with pytest.raises(KafkaError) as refused:
            fixture.coordinator.shard_of("tea")
        assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await fixture.ready()
        assert committed_offset(fixture) == 5

    run(scenario)


def test_whoever_waits_when_the_coordinator_moves_is_sent_to_look_for_it(run: Run) -> None:
    async def scenario(fixture: Fixture) -> None:
        given = await join(fixture, a_join())
        shard = fixture.coordinator.shard_of("tea")
        waiting = shard.join(a_join(given.member_id), version=9, client_id="client", client_host="/127.0.0.1")
        fixture.coordinator.resign(0)
        response = await fixture.answer(waiting)
        assert response.error_code == ErrorCode.NOT_COORDINATOR
        with pytest.raises(KafkaError) as refused:
            fixture.coordinator.shard_of("tea")
        assert refused.value.code is ErrorCode.NOT_COORDINATOR

    run(scenario)


def test_after_a_failed_write_memory_is_what_the_log_says(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk: the commit is refused, earlier ones stand, and commits go on when there is room again."""

    async def scenario(fixture: Fixture) -> None:
        commit(fixture, 5)
        await settled(fixture)

        def full() -> None:
            fixture.log.discard_staged()
            raise StorageError(f"write failed: {errno.errorcode[errno.ENOSPC]}")

        with monkeypatch.context() as patch:
            patch.setattr(type(fixture.log), "write_staged", lambda _: full())
            commit(fixture, 6)
            refused: asyncio.Future[KafkaError | None] = fixture.loop.create_future()
            fixture.coordinator.shard_of("tea").journal.when_committed(refused.set_result)
            error = await refused
        assert error is not None
        assert error.code is ErrorCode.NOT_COORDINATOR
        await asyncio.sleep(RELOAD_DELAY_S)
        await fixture.ready()
        assert committed_offset(fixture) == 5
        commit(fixture, 7)
        await settled(fixture)
        assert committed_offset(fixture) == 7

    run(scenario)


def test_a_broker_that_slept_does_not_blame_its_members(run: Run) -> None:
    """A process that was stopped for a minute reads what members sent meanwhile before their sessions count."""

    async def scenario(fixture: Fixture) -> None:
        member_id = await a_stable_member(fixture)
        clock = fixture.loop
        clock._virtual.now += 60  # type: ignore[attr-defined]
        await asyncio.sleep(0.5)
        assert heartbeat(fixture, member_id) is ErrorCode.NONE
        await asyncio.sleep(9)
        assert heartbeat(fixture, member_id) is ErrorCode.NONE

    run(scenario)


def test_five_hundred_members_join_at_once(run: Run) -> None:
    async def scenario(fixture: Fixture) -> None:
        shard = fixture.coordinator.shard_of("tea")
        given = [await join(fixture, a_join()) for _ in range(500)]
        waiting = [
            shard.join(a_join(each.member_id), version=9, client_id="client", client_host="/127.0.0.1")
            for each in given
        ]
        joined = [await fixture.answer(each) for each in waiting]
        assert {each.generation_id for each in joined} == {1}
        leader = next(each for each in joined if each.members)
        assert len(leader.members) == 500
        syncs = [
            shard.sync(
                SyncGroupRequest(
                    group_id="tea",
                    generation_id=1,
                    member_id=each.member_id,
                    assignments=[
                        SyncGroupRequestAssignment(member_id=member.member_id, assignment=member.member_id.encode())
                        for member in each.members
                    ],
                ),
                version=4,
            )
            for each in joined
        ]
        for each, sync in zip(joined, syncs, strict=True):
            assert (await fixture.answer(sync)).assignment == each.member_id.encode()
        await fixture.restart()
        assert len(fixture.coordinator.shard_of("tea").core.groups["tea"].members) == 500

    run(scenario)


def test_every_rebalance_is_counted_by_its_cause(run: Run) -> None:
    async def scenario(fixture: Fixture) -> None:
        member_id = await a_stable_member(fixture)
        fixture.coordinator.shard_of("tea").leave("tea", [MemberIdentity(member_id=member_id)])
        text = "".join(fixture.registry.render())
        assert 'highwater_group_rebalances_total{cause="member_joined"} 1' in text
        assert 'highwater_group_rebalances_total{cause="member_left"} 1' in text

    run(scenario)
