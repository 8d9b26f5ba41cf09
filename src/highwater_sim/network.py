"""An in-memory network: hosts with addresses, connections with delay, cuts and partitions.

A connection is two pipes, one each way; what is sent into a pipe arrives in order, after a delay of its own. Between
two hosts each direction can be blocked: then nothing arrives until it is open again, as with packets that are sent
again and again. A process that ends closes its connections; a host that loses power says nothing, and whoever goes on
sending learns of it when the host is back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from highwater_sim.ends import KERNEL_BUFFER_BYTES, BrokerEnd, ProtocolEnd

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable

    from highwater.config.broker_config import BrokerConfig
    from highwater.server.transport import Transport
    from highwater_sim.ends import End
    from highwater_sim.loop import SimLoop
    from highwater_sim.scheduler import Scheduler

RETRANSMISSION_S: Final = (0.0, 0.2)
"""How long after a block is gone the first bytes arrive."""


class Network:
    """All hosts, and which of them cannot hear which."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.hosts: dict[str, Host] = {}
        self.blocked: set[tuple[str, str]] = set()
        """(from, to): nothing arrives."""
        self.delay_s = (0.00005, 0.001)
        """How long bytes are under way, at least and at most."""
        self.connections: list[Connection] = []

    def host(self, name: str) -> Host:
        """Add a host."""
        host = self.hosts[name] = Host(self, name)
        return host

    def block(self, sender: str, receiver: str) -> None:
        """Let nothing arrive in one direction."""
        self.blocked.add((sender, receiver))

    def heal(self) -> None:
        """Let everything through again."""
        self.blocked.clear()
        for connection in list(self.connections):
            for pipe in connection.pipes:
                pipe.flow()

    def can_reach(self, sender: str, receiver: str) -> bool:
        """Return whether bytes from one host arrive at another."""
        return (sender, receiver) not in self.blocked and self.hosts[receiver].has_power

    def delay(self) -> float:
        """Return how long the next bytes are under way."""
        return self.scheduler.between(*self.delay_s)


class Host:
    """One machine's place in the network: its ports and its connections."""

    def __init__(self, network: Network, name: str) -> None:
        self._network = network
        self.name = name
        self.has_power = True
        self.acceptors: dict[int, SimAcceptor] = {}
        self.next_port = 30_000

    async def connect(
        self, loop: SimLoop, protocol_factory: Callable[[], asyncio.BufferedProtocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BufferedProtocol]:
        """Connect to a port of another host, however long it takes; ConnectionRefusedError if nobody listens."""
        network = self._network
        while True:
            await asyncio.sleep(2 * network.delay())
            if network.can_reach(self.name, host) and network.can_reach(host, self.name):
                break
            await asyncio.sleep(network.scheduler.between(0.05, 1.0))  # as a kernel does: ask again
        acceptor = network.hosts[host].acceptors.get(port)
        if acceptor is None or acceptor.welcome is None:
            raise ConnectionRefusedError(f"nobody listens at {host}:{port}")
        protocol = protocol_factory()
        connection = Connection(network, (self.name, loop), (host, acceptor.loop))
        ours, theirs = ProtocolEnd(connection, loop, protocol), BrokerEnd(connection, acceptor.loop, self.name)
        connection.open(ours, theirs)
        acceptor.loop.call_soon(acceptor.welcomes, theirs)
        protocol.connection_made(ours)
        return ours, protocol

    def process_ended(self, loop: SimLoop) -> None:
        """Close what a process had open, as a kernel does."""
        for port, acceptor in list(self.acceptors.items()):
            if acceptor.loop is loop:
                del self.acceptors[port]
        for connection in list(self._network.connections):
            connection.process_ended(loop)

    def power_lost(self, loop: SimLoop | None) -> None:
        """Say nothing to anybody; connections of the process that was there lead nowhere."""
        self.has_power = False
        self.acceptors.clear()
        for connection in list(self._network.connections):
            connection.lost_without_a_word(loop)

    def power_returned(self) -> None:
        """Be there again: what was sent to connections that are no more is answered with a reset."""
        self.has_power = True
        for connection in list(self._network.connections):
            for pipe in connection.pipes:
                pipe.flow()


class Connection:
    """Two ends and a pipe each way."""

    def __init__(self, network: Network, client: tuple[str, SimLoop], server: tuple[str, SimLoop]) -> None:
        self.network = network
        self.hosts = client[0], server[0]
        self.loops = client[1], server[1]
        self.ends: tuple[End, End]
        self.pipes: tuple[Pipe, Pipe]
        self.gone = [False, False]
        """Which of the two processes is there no more."""
        network.connections.append(self)

    def open(self, client: End, server: End) -> None:
        """Join the ends."""
        self.ends = client, server
        self.pipes = Pipe(self, 0), Pipe(self, 1)

    def pipe_from(self, end: End) -> Pipe:
        """Return where an end's bytes go."""
        return self.pipes[0] if end is self.ends[0] else self.pipes[1]

    def pipe_to(self, end: End) -> Pipe:
        """Return where an end's bytes come from."""
        return self.pipes[1] if end is self.ends[0] else self.pipes[0]

    def closed_by(self, end: End) -> None:
        """Tell the other end, behind what was sent to it."""
        side = 0 if end is self.ends[0] else 1
        if not self.gone[side]:
            self.gone[side] = True
            self.pipes[side].put(None)
        self._forget_if_over()

    def process_ended(self, loop: SimLoop) -> None:
        """Close the ends that a process had."""
        for side in (0, 1):
            if self.loops[side] is loop and not self.gone[side]:
                self.closed_by(self.ends[side])

    def lost_without_a_word(self, loop: SimLoop | None) -> None:
        """Note that a process is gone and its host's kernel too, which would have told the other end."""
        for side in (0, 1):
            if self.loops[side] is loop:
                self.gone[side] = True
        self._forget_if_over()

    def reset(self, cut_at: float) -> None:
        """Break the connection: of what is under way only a part arrives."""
        for pipe in self.pipes:
            pipe.cut(cut_at)
        for side in (0, 1):
            if not self.gone[side]:
                self.ends[side].broken(ConnectionResetError(104, "Connection reset by peer"))
        self.gone = [True, True]
        self._forget_if_over()

    def _forget_if_over(self) -> None:
        if all(self.gone) and self in self.network.connections:
            self.network.connections.remove(self)


class Pipe:
    """Bytes on their way from one end to the other."""

    def __init__(self, connection: Connection, side: int) -> None:
        self._connection = connection
        self._side = side
        self._under_way: deque[bytes | None] = deque()  # None: the end
        self._last_arrival = 0.0
        self._arriving = 0
        self.under_way_bytes = 0
        self.room_bytes = KERNEL_BUFFER_BYTES
        self._route = connection.hosts if side == 0 else (connection.hosts[1], connection.hosts[0])

    def put(self, data: bytes | None) -> None:
        """Send bytes, or the end."""
        self._under_way.append(data)
        if data is not None:
            self.under_way_bytes += len(data)
        self._send(self._connection.network.delay())

    def _send(self, delay: float) -> None:
        scheduler = self._connection.network.scheduler
        # Bytes of one connection arrive in order; those of others may overtake them.
        self._last_arrival = max(self._last_arrival, scheduler.now + delay)
        self._arriving += 1
        scheduler.at(self._last_arrival, self._arrive)

    def _arrive(self) -> None:
        self._arriving -= 1
        connection = self._connection
        if not self._under_way or not connection.network.can_reach(*self._route):
            return  # `flow` sends it again
        data = self._under_way.popleft()
        receiver = connection.ends[1 - self._side]
        if connection.gone[1 - self._side]:
            # Nobody is there to take it: the kernel answers with a reset.
            if not connection.gone[self._side]:
                connection.gone[self._side] = True
                connection.ends[self._side].broken(ConnectionResetError(104, "Connection reset by peer"))
            connection._forget_if_over()  # noqa: SLF001 - a connection and its pipes are one thing
        elif data is None:
            receiver.finished()
        else:
            receiver.arrived(data)

    def flow(self) -> None:
        """Send again what could not arrive."""
        scheduler = self._connection.network.scheduler
        while self._arriving < len(self._under_way):
            self._send(scheduler.between(*RETRANSMISSION_S))

    def taken(self, size_bytes: int) -> None:
        """Note that the receiver has taken bytes: there is room again."""
        was_full = self.under_way_bytes >= self.room_bytes
        self.under_way_bytes -= size_bytes
        if was_full and self.under_way_bytes < self.room_bytes:
            self._connection.ends[self._side].has_room()

    def cut(self, at: float) -> None:
        """Let only the first part of what is under way arrive: `at` between 0 and 1."""
        data = b"".join(piece for piece in self._under_way if piece is not None)
        self._under_way.clear()
        arrived = data[: int(len(data) * at)]
        if arrived and not self._connection.gone[1 - self._side]:
            self._connection.ends[1 - self._side].arrived(arrived)


class SimAcceptor:
    """A port of a host, for the broker's listener."""

    def __init__(self, host: Host, loop: AbstractEventLoop, config: BrokerConfig) -> None:
        del config
        self._host = host
        self.loop: SimLoop = loop  # type: ignore[assignment]  # a simulated broker runs on no other
        self.welcome: Callable[[Transport, str], None] | None = None
        self.port = 0

    def bind(self, host: str, port: int) -> None:
        """Take a port."""
        if port in self._host.acceptors:
            raise OSError(98, "Address already in use", f"{host}:{port}")
        self.port = port or self._host.next_port
        self._host.next_port += 1
        self._host.acceptors[self.port] = self

    def start(self, welcome: Callable[[Transport, str], None]) -> None:
        """Listen."""
        self.welcome = welcome

    def welcomes(self, end: BrokerEnd) -> None:
        """Hand a new connection to the listener, unless it has closed by now."""
        if self.welcome is None:
            end.close()
        else:
            self.welcome(end, end.peer_host)

    def close(self) -> None:
        """Listen no more."""
        self.welcome = None
        if self._host.acceptors.get(self.port) is self:
            del self._host.acceptors[self.port]
