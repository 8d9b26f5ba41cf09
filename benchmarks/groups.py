"""Lines about groups: commits, rebalances, and what a member costs while nothing happens."""

import selectors
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Final, TypeVar

from benchmarks.brokers import Broker, BrokerFailed
from benchmarks.generator import Load
from benchmarks.measuring import Arena, Metric, Target
from benchmarks.process_stats import memory
from benchmarks.raw_clients import CPU_PER_REQUEST, RATE, run
from benchmarks.topics import scratch_topic
from highwater.model.errors import ErrorCode
from highwater.protocol import codec
from highwater.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from highwater.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from highwater.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from highwater.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from highwater.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from highwater.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from highwater.testing.wire import WireClient, frame

MANY_GROUPS: Final = 100
IDLE_MEMBERS: Final = 1_000
MEMBERS_PER_GROUP: Final = 100
SESSION_TIMEOUT_MS: Final = 600_000
REBALANCES_PER_ROUND: Final = 10
WARM_UP_REQUESTS: Final = 10_000
"""Before each line about rebalances: what a JVM has compiled for writing and reading is not what groups need."""
SETTLE_SECONDS: Final = 3.0
LOAD_TIMEOUT_SECONDS: Final = 60.0
JOIN_VERSION: Final = 5
SYNC_VERSION: Final = 3
ANSWER_HEAD_BYTES: Final = 8
"""The length and the correlation id."""
RECEIVE_BYTES: Final = 1 << 16
GENERATION_MARK: Final = 0x7B1D2C3F
"""In the place of a generation that is not known yet."""

ResponseT = TypeVar("ResponseT", JoinGroupResponse, SyncGroupResponse)


# Commits ------------------------------------------------------------------------------------------------------------


def commits_of_one_group(arena: Arena) -> list[Metric]:
    """One group commits one offset after the other, each when the last is acknowledged."""
    return _commits(arena, 1)


def commits_of_many_groups(arena: Arena) -> list[Metric]:
    """A hundred groups do so at the same time."""
    return _commits(arena, MANY_GROUPS)


def _commits(arena: Arena, groups: int) -> list[Metric]:
    metrics = [Metric(RATE, "/s", Target(at_least=1.0)), Metric(CPU_PER_REQUEST, "µs", Target())]

    def measure(broker: Broker) -> Mapping[str, float]:
        with scratch_topic(broker, 1) as topic:
            await_coordinators(broker, [f"{topic}-group-{number}" for number in range(groups)])
            load = Load(
                bootstrap=broker.bootstrap,
                topic=topic,
                kind="commit",
                batch_bytes=0,
                connections=groups,
                in_flight=1,
                warm_up_seconds=arena.effort.warm_up_seconds,
                seconds=arena.effort.seconds,
            )
            return run(load, broker)

    return arena.alternate(metrics, measure)


# Rebalances ---------------------------------------------------------------------------------------------------------


def rebalance_of_one(arena: Arena) -> list[Metric]:
    """A group of one member rejoins."""
    return _rebalances(arena, 1)


def rebalance_of_fifty(arena: Arena) -> list[Metric]:
    """A group of fifty members rejoins."""
    return _rebalances(arena, 50)


def rebalance_of_five_hundred(arena: Arena) -> list[Metric]:
    """A group of five hundred members rejoins."""
    return _rebalances(arena, 500)


def _rebalances(arena: Arena, members: int) -> list[Metric]:
    """From the moment the last member has asked to join until every member has its assignment."""
    metric = Metric("last join to stable", "ms", Target(at_most=1.0))
    with ExitStack() as stack:
        groups = {
            broker.name: stack.enter_context(a_group(broker, f"rebalance-{members}", members))
            for broker in arena.brokers
        }
        for group in groups.values():
            for _ in range(arena.effort.scaled(WARM_UP_REQUESTS) // (2 * members)):
                group.rebalance()

        def measure(broker: Broker) -> Mapping[str, float]:
            times = [groups[broker.name].rebalance() for _ in range(REBALANCES_PER_ROUND)]
            return {metric.name: sorted(times)[len(times) // 2] * 1e3}

        return arena.alternate([metric], measure)


class RawGroup:
    """A classic group whose members are bare connections; what they send is made beforehand."""

    def __init__(self, name: str, clients: list[WireClient]) -> None:
        self._name = name
        self._clients = clients
        self._generation = -1
        self._selector = selectors.DefaultSelector()
        for client in clients:
            self._selector.register(client.socket, selectors.EVENT_READ, client.socket)
        self._ids = [client.call(self._join(""), JoinGroupResponse, JOIN_VERSION).member_id for client in clients]
        self._joins = [frame(self._join(each), JOIN_VERSION) for each in self._ids]
        for client, join in zip(clients, self._joins, strict=True):
            client.send_bytes(join)
        joined = self._answers(JoinGroupResponse, JOIN_VERSION)
        self._leader = self._ids.index(joined.leader)
        self._syncs = [self._sync_frames(number) for number in range(len(clients))]
        self._sync(joined.generation_id)

    def rebalance(self) -> float:
        """Let everybody join and sync again; return the seconds from the last join to the last assignment."""
        self._clients[self._leader].send_bytes(self._joins[self._leader])
        others = [number for number in range(len(self._clients)) if number != self._leader]
        if others:
            self._await_rebalance(others[0])
        for number in others:
            self._clients[number].send_bytes(self._joins[number])
        started = time.perf_counter()
        self._sync(self._answers(JoinGroupResponse, JOIN_VERSION).generation_id)
        return time.perf_counter() - started

    def leave(self) -> None:
        """Leave an empty group behind."""
        leavers = [MemberIdentity(member_id=each) for each in self._ids]
        self._clients[0].call(LeaveGroupRequest(group_id=self._name, members=leavers), LeaveGroupResponse, 4)
        self._selector.close()

    def _sync(self, generation: int) -> None:
        self._generation = generation
        for client, (before, after) in zip(self._clients, self._syncs, strict=True):
            client.send_bytes(before + generation.to_bytes(4, "big") + after)
        self._answers(SyncGroupResponse, SYNC_VERSION)

    def _await_rebalance(self, number: int) -> None:
        """Wait until the leader's request to rejoin has reached the group."""
        beat = HeartbeatRequest(group_id=self._name, generation_id=self._generation, member_id=self._ids[number])
        while self._clients[number].call(beat, HeartbeatResponse, 3).error_code != ErrorCode.REBALANCE_IN_PROGRESS:
            time.sleep(0.001)

    def _answers(self, response: type[ResponseT], version: int) -> ResponseT:
        """Take in everybody's answer; return the longest, which is the leader's if there is a difference."""
        longest = b""
        left = len(self._clients)
        while left:
            for key, _ in self._selector.select():
                longest = max(longest, _receive(key.data), key=len)
                left -= 1
        answer = codec.decode(response, version, longest[ANSWER_HEAD_BYTES:])
        _check(answer.error_code)
        return answer

    def _join(self, member_id: str) -> JoinGroupRequest:
        subscription = b"\x00\x01" + codec.encode(ConsumerProtocolSubscription(topics=["orders"]), 1)
        return JoinGroupRequest(
            group_id=self._name,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=SESSION_TIMEOUT_MS,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
        )

    def _sync_frames(self, number: int) -> tuple[bytes, bytes]:
        """Return a SyncGroup in two parts, with the generation to be put between them."""
        assignments = [SyncGroupRequestAssignment(member_id=each, assignment=bytes(40)) for each in self._ids]
        request = SyncGroupRequest(
            group_id=self._name,
            generation_id=GENERATION_MARK,
            member_id=self._ids[number],
            assignments=assignments if number == self._leader else [],
        )
        before, mark, after = frame(request, SYNC_VERSION).partition(GENERATION_MARK.to_bytes(4, "big"))
        assert mark
        return before, after


@contextmanager
def a_group(broker: Broker, name: str, members: int) -> Iterator[RawGroup]:
    """Make a stable group, and let it leave at the end."""
    await_coordinators(broker, [name])
    with ExitStack() as stack:
        clients = [
            stack.enter_context(WireClient(broker.bootstrap, timeout_seconds=LOAD_TIMEOUT_SECONDS))
            for _ in range(members)
        ]
        group = RawGroup(name, clients)
        yield group
        group.leave()


def await_coordinators(broker: Broker, groups: list[str]) -> None:
    """Wait until the broker coordinates these groups."""
    deadline = time.monotonic() + LOAD_TIMEOUT_SECONDS
    with WireClient(broker.bootstrap) as client:
        for group in groups:
            while True:
                client.call(FindCoordinatorRequest(key=group), FindCoordinatorResponse, 1)
                beat = HeartbeatRequest(group_id=group, member_id="nobody")
                if client.call(beat, HeartbeatResponse, 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                    break
                if time.monotonic() > deadline:
                    raise BrokerFailed(f"{broker.name} does not coordinate {group}, see {broker.log_file}")
                time.sleep(0.01)


def _receive(connection: socket.socket) -> bytes:
    """Return one answer, its length included; most come with one system call, so that it is not us who are slow."""
    answer = connection.recv(RECEIVE_BYTES)
    while len(answer) < ANSWER_HEAD_BYTES or len(answer) < 4 + int.from_bytes(answer[:4], "big"):
        more = connection.recv(RECEIVE_BYTES)
        if not more:
            raise BrokerFailed("a broker ended a member's connection")
        answer += more
    return answer


def _check(error_code: int) -> None:
    if error_code:
        raise BrokerFailed(f"a group request was refused: {ErrorCode(error_code).name}")


# Memory -------------------------------------------------------------------------------------------------------------


def memory_of_idle_members(arena: Arena) -> list[Metric]:
    """What one more idle member costs, connection included, over a thousand of them in ten groups.

    Every turn has a fresh broker: what members leave behind must not be there for the next to move into.
    """
    metric = Metric("PSS per member", "kB", Target(at_most=1 / 2))
    members = max(1, arena.effort.scaled(IDLE_MEMBERS) // MEMBERS_PER_GROUP) * MEMBERS_PER_GROUP

    def measure(running: Broker) -> Mapping[str, float]:
        directory = arena.directory / f"members-{running.name.replace(' ', '-')}"
        with type(running)(directory) as broker:
            return {metric.name: _growth(broker, members) / members / 1e3}

    return arena.alternate([metric], measure)


def _growth(broker: Broker, members: int) -> int:
    """Return by how much a broker grows when so many members are there and do nothing."""
    with ExitStack() as stack:
        stack.enter_context(a_group(broker, "first", 1))
        time.sleep(SETTLE_SECONDS)
        before = memory(broker.pid)
        for number in range(members // MEMBERS_PER_GROUP):
            stack.enter_context(a_group(broker, f"idle-{number}", MEMBERS_PER_GROUP))
        time.sleep(SETTLE_SECONDS)
        return memory(broker.pid).pss_bytes - before.pss_bytes
