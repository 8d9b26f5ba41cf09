"""One process's session on the store: requests and answers that take time, watches that come late, expiry.

As in ZooKeeper, requests of one client are carried out in order, and a client hears of a change before it reads it.
When the way to the store is blocked, what was asked stays unanswered; whoever is silent for the session's timeout has
lost the session, and learns so when it is heard again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final, TypeVar

from highwater.coordination.port import (
    ANY_VERSION,
    CoordinationError,
    Create,
    Delete,
    Disconnected,
    Node,
    Operation,
    Outcome,
    SessionState,
    Write,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from highwater_sim.loop import SimLoop
    from highwater_sim.network import Network
    from highwater_sim.store import Store

STORE_HOST: Final = "zookeeper"
RECONNECT_S: Final = (0.05, 1.0)
_LOOKS_EVERY_S: Final = 0.5

AnswerT = TypeVar("AnswerT")


class SimCoordination:
    """The port's implementation in a simulated process."""

    def __init__(self, store: Store, network: Network, loop: SimLoop, *, session_timeout_s: float) -> None:
        self._store = store
        self._network = network
        self._scheduler = network.scheduler
        self._loop = loop
        self._timeout_s = session_timeout_s
        self._session = store.open_session()
        self._state = SessionState.CONNECTED
        self._heard_at = self._scheduler.now
        self._is_closed = False
        self._is_broken = False
        """Something was lost on the way, in one direction or the other: the connection has to be made anew."""
        self._last_request = self._last_answer = 0.0
        self._waiting: deque[_Request] = deque()
        """Asked and not answered, in order; those at the end may not have been sent."""
        self._watchers: dict[tuple[str, str], list[Callable[[], None]]] = {}
        self._session_watchers: list[Callable[[SessionState], None]] = []
        store.on_change.append(self._changed)
        self._keep_in_touch()

    # The port -------------------------------------------------------------------------------------------------------

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False) -> str:
        """Make a node and return its path."""
        (made,) = await self.multi([Create(path, data, ephemeral, sequence)])
        assert isinstance(made, str)
        return made

    async def read(self, path: str) -> Node:
        """Return the node."""
        return await self._ask(path, lambda: self._store.read(path))

    async def read_many(self, paths: Sequence[str]) -> list[Node | None]:
        """Return the nodes, in this order."""
        return list(await asyncio.gather(*map(self._find, paths)))

    async def _find(self, path: str) -> Node | None:
        return await self._ask(path, lambda: self._store.find(path))

    async def write(self, path: str, data: bytes, *, version: int = ANY_VERSION) -> int:
        """Replace the node's data and return the new version."""
        (written,) = await self.multi([Write(path, data, version)])
        assert isinstance(written, int)
        return written

    async def delete(self, path: str, *, version: int = ANY_VERSION) -> None:
        """Take the node away."""
        await self.multi([Delete(path, version)])

    async def exists(self, path: str) -> bool:
        """Return whether there is such a node."""
        return await self._find(path) is not None

    async def children(self, path: str) -> list[str]:
        """Return the names right below, sorted."""
        return await self._ask(path, lambda: self._store.children(path))

    async def multi(self, operations: Sequence[Operation]) -> list[Outcome]:
        """Do all of them, or none."""
        if not operations:
            return []
        return await self._ask(operations[0].path, lambda: self._store.multi(self._session, operations))

    def watch_node(self, path: str, on_change: Callable[[], None]) -> Callable[[], None]:
        """Call `on_change` after the node was made, written or taken away."""
        return self._watch("node", path, on_change)

    def watch_children(self, path: str, on_change: Callable[[], None]) -> Callable[[], None]:
        """Call `on_change` after nodes came or went right below."""
        return self._watch("children", path, on_change)

    def on_session(self, on_state: Callable[[SessionState], None]) -> None:
        """Keep `on_state`, which is told of every change of the session."""
        self._session_watchers.append(on_state)

    async def close(self) -> None:
        """End the session: our ephemeral nodes go, at once if the store hears of it."""
        self._is_closed = True
        self._stop_listening()
        if self._can_reach_store:
            self._store.end_session(self._session)
        else:
            self._expire()
        self._watchers.clear()
        self._become(SessionState.LOST)

    def _watch(self, kind: str, path: str, on_change: Callable[[], None]) -> Callable[[], None]:
        watchers = self._watchers.setdefault((kind, path), [])
        watchers.append(on_change)

        def stop() -> None:
            if on_change in watchers:
                watchers.remove(on_change)

        return stop

    # Requests and answers -------------------------------------------------------------------------------------------

    async def _ask(self, path: str, act: Callable[[], AnswerT]) -> AnswerT:
        if self._is_closed:
            raise Disconnected(path)
        request = _Request(path, act, self._loop.create_future())
        self._waiting.append(request)
        if self._state is SessionState.CONNECTED:
            self._send(request)
        try:
            async with asyncio.timeout(self._timeout_s):
                answer: AnswerT = await request.answered
                return answer
        except TimeoutError as error:
            raise Disconnected(path) from error

    def _send(self, request: _Request) -> None:
        request.is_sent = True
        self._last_request = max(self._last_request, self._scheduler.now + self._network.delay())
        self._scheduler.at(self._last_request, lambda: self._arrived(request))

    def _arrived(self, request: _Request) -> None:
        """Carry a request out, if it arrives, and answer."""
        if request.answered.done():
            return
        if not self._can_reach_store or not self._store.is_open(self._session):
            self._is_broken = True
            return
        try:
            outcome, error = request.act(), None
        except CoordinationError as refusal:
            outcome, error = None, refusal
        self._tell(lambda: self._answered(request, outcome, error))

    def _answered(self, request: _Request, outcome: Any, error: CoordinationError | None) -> None:
        if request in self._waiting:
            self._waiting.remove(request)
        if not request.answered.done():
            if error is None:
                request.answered.set_result(outcome)
            else:
                request.answered.set_exception(error)

    def _tell(self, action: Callable[[], None]) -> None:
        """Have something done in the process when word of it arrives, in order."""
        session = self._session
        self._last_answer = max(self._last_answer, self._scheduler.now + self._network.delay())

        def arrive() -> None:
            if session != self._session or self._state is not SessionState.CONNECTED:
                return
            if self._can_hear:
                self._loop.call_soon(action)
            else:
                self._is_broken = True

        self._scheduler.at(self._last_answer, arrive)

    def _changed(self, kind: str, path: str) -> None:
        if (kind, path) in self._watchers:
            self._tell(lambda: self._tell_watchers(kind, path))

    def _tell_watchers(self, kind: str, path: str) -> None:
        for on_change in list(self._watchers.get((kind, path), ())):
            on_change()

    # The session ----------------------------------------------------------------------------------------------------

    @property
    def _can_reach_store(self) -> bool:
        return not self._store.is_away and self._network.can_reach(self._loop.host.name, STORE_HOST)

    @property
    def _can_be_heard(self) -> bool:
        return not self._loop.is_dead and not self._loop.is_paused and self._can_reach_store

    @property
    def _can_hear(self) -> bool:
        return (
            not self._loop.is_dead
            and not self._store.is_away
            and self._network.can_reach(STORE_HOST, self._loop.host.name)
        )

    def _keep_in_touch(self) -> None:
        """Beat now and then; after a silence as long as the session's timeout, the store ends the session."""
        if self._is_closed:
            return
        if self._can_be_heard and self._can_hear:
            if self._is_broken:
                self._lost_touch()
            else:
                self._reached()
        elif self._is_overdue:
            self._store.end_session(self._session)
        elif self._state is SessionState.CONNECTED and not self._loop.is_paused:
            self._lost_touch()
        if self._loop.is_dead and not self._store.is_open(self._session):
            self._stop_listening()
            return
        pause = (
            self._scheduler.between(0.1, 0.3) * self._timeout_s
            if self._state is SessionState.CONNECTED
            else (self._scheduler.between(*RECONNECT_S))
        )
        self._scheduler.after(min(pause, 1.0), self._keep_in_touch)

    @property
    def _is_overdue(self) -> bool:
        """Whether the store has heard nothing of us for the session's timeout, and was there to notice."""
        since = max(self._heard_at, self._store.returned_at)
        return not self._store.is_away and self._scheduler.now - since >= self._timeout_s

    def _expire(self) -> None:
        """End a session that nobody keeps alive any more, when it is overdue."""
        if self._is_overdue:
            self._store.end_session(self._session)
        elif self._store.is_open(self._session):
            self._scheduler.after(_LOOKS_EVERY_S, self._expire)

    def _reached(self) -> None:
        """Be heard: find out whether the session lives, and go on with it or with a new one."""
        if self._is_closed:
            return
        if not self._store.is_open(self._session):
            self._fail_waiting(keep_unsent=False)
            self._loop.call_soon(self._become, SessionState.LOST)
            self._session = self._store.open_session()
            self._loop.call_soon(self._connected)
        elif self._state is not SessionState.CONNECTED:
            self._loop.call_soon(self._connected)
        self._heard_at = self._scheduler.now

    def _connected(self) -> None:
        if self._is_closed or self._state is SessionState.CONNECTED:
            return
        self._become(SessionState.CONNECTED)
        for request in [request for request in self._waiting if not request.is_sent]:
            self._send(request)
        for watchers in list(self._watchers.values()):
            for on_change in list(watchers):
                on_change()

    def _lost_touch(self) -> None:
        self._is_broken = False
        self._fail_waiting(keep_unsent=True)
        self._loop.call_soon(self._become, SessionState.SUSPENDED)

    def _fail_waiting(self, *, keep_unsent: bool) -> None:
        """Answer what was sent and not answered: nobody knows what became of it."""
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            if keep_unsent and not request.is_sent:
                self._waiting.append(request)
            else:
                self._loop.call_soon(self._answered, request, None, Disconnected(request.path))

    def _become(self, state: SessionState) -> None:
        if state is not self._state:
            self._state = state
            for on_state in list(self._session_watchers):
                on_state(state)

    def _stop_listening(self) -> None:
        if self._changed in self._store.on_change:
            self._store.on_change.remove(self._changed)


class _Request:
    """One thing asked of the store."""

    __slots__ = ("act", "answered", "is_sent", "path")

    def __init__(self, path: str, act: Callable[[], Any], answered: asyncio.Future[Any]) -> None:
        self.path = path
        self.act = act
        self.answered = answered
        self.is_sent = False
