"""The cluster's memory in ZooKeeper, through `kazoo`, whose threads stop at this file.

kazoo answers on threads of its own; every answer and event is handed to the event loop at once. Requests are not waited
for one by one: they leave as they are made, and ZooKeeper answers them in order, so that many at a time cost little
more than one.

Watches are one-shot in ZooKeeper. One that fired is set again before its watchers are told: what they then read is
either the newest, or will be told. Watches do not survive a broken connection, so that every connection sets all of
them again and tells everybody to look.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from kazoo import exceptions as faults
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import EventType, KazooState
from kazoo.retry import KazooRetry
from kazoo.security import READ_ACL_UNSAFE, make_digest_acl

from highwater.coordination.paths import SECRETS
from highwater.coordination.port import (
    ANY_VERSION,
    BadVersion,
    Check,
    CoordinationError,
    Create,
    Delete,
    Disconnected,
    NoChildrenOfEphemerals,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Outcome,
    SessionState,
    StoreFailed,
    Write,
)

if TYPE_CHECKING:
    from kazoo.interfaces import IAsyncResult
    from kazoo.protocol.states import WatchedEvent, ZnodeStat
    from kazoo.security import ACL

_SESSION_OF: Final = {
    KazooState.CONNECTED: SessionState.CONNECTED,
    KazooState.SUSPENDED: SessionState.SUSPENDED,
    KazooState.LOST: SessionState.LOST,
}
_ERRORS: Final[dict[type[Exception], type[CoordinationError]]] = {
    faults.NoNodeError: NoNode,
    faults.NodeExistsError: NodeExists,
    faults.BadVersionError: BadVersion,
    faults.NotEmptyError: NotEmpty,
    faults.NoChildrenForEphemeralsError: NoChildrenOfEphemerals,
    faults.ConnectionLoss: Disconnected,
    faults.ConnectionClosedError: Disconnected,
    faults.SessionExpiredError: Disconnected,
    faults.OperationTimeoutError: Disconnected,
}
_RECONNECT_DELAY_S: Final = 0.05
_RECONNECT_MAX_DELAY_S: Final = 1.0
_RECONNECT_MAX_SESSION_SHARE: Final = 0.125
"""kazoo waits two thirds of a session for a server that accepts and says nothing; the next must be asked in time."""
_IN_FLIGHT: Final = 1000
"""Reads sent before their answers are waited for."""
_ASKED_IN_VAIN: Final = 100
"""Questions that may wait for a lost connection to come back.

Each leaves a byte in a socket by which kazoo wakes its own thread, and nobody takes it out: when that is full, whoever
asks stands still, the event loop too.
"""


class ZooKeeperCoordination:
    """The port's implementation for a cluster. Make it with `connect`."""

    def __init__(
        self,
        client: KazooClient,
        loop: asyncio.AbstractEventLoop,
        *,
        address: str,
        patience_s: float,
        access: _Access,
    ) -> None:
        self._client = client
        self._access = access
        self._loop = loop
        self._address = address
        self._patience_s = patience_s
        self._watches: dict[tuple[str, str], _Watch] = {}
        self._session_watchers: list[Callable[[SessionState], None]] = []
        self._session_state = SessionState.CONNECTED
        self._asked_in_vain = 0

    @classmethod
    async def connect(
        cls,
        address: str,
        *,
        session_timeout_ms: int,
        connection_timeout_ms: int | None = None,
        digest: tuple[str, str] | None = None,
        closes_to_others: bool = False,
    ) -> ZooKeeperCoordination:
        """Open a session on `host:port,host:port/chroot`. StoreFailed if nobody answers in time.

        `digest` is a user and a password. With `closes_to_others`, only that user may change the nodes that are made;
        everybody may read them, but for those below `paths.SECRETS`.
        """
        loop = asyncio.get_running_loop()
        hosts, slash, chroot = address.partition("/")
        logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # what it has to say is told by our own events
        client = KazooClient(
            hosts,
            timeout=session_timeout_ms / 1000,
            connection_retry=KazooRetry(
                max_tries=-1,
                delay=_RECONNECT_DELAY_S,
                max_delay=min(_RECONNECT_MAX_DELAY_S, session_timeout_ms / 1000 * _RECONNECT_MAX_SESSION_SHARE),
                backoff=2,
            ),
            auth_data=None if digest is None else [("digest", ":".join(digest))],
        )
        timeout_s = (connection_timeout_ms or session_timeout_ms) / 1000
        try:
            await loop.run_in_executor(None, lambda: client.start(timeout=timeout_s))
        except KazooTimeoutError as error:
            raise StoreFailed(f"no ZooKeeper answers at {hosts} within {timeout_s:g} s") from error
        store = cls(
            client,
            loop,
            address=address,
            patience_s=session_timeout_ms / 1000,
            access=_Access(digest if closes_to_others else None),
        )
        client.add_listener(store._on_kazoo_state)
        if slash and chroot.strip("/"):
            root = f"/{chroot.strip('/')}"
            await loop.run_in_executor(None, client.ensure_path, root, store._access.to(root))
            client.chroot = root
        return store

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False) -> str:
        """Make a node and return its path."""
        self._may_ask(path)
        acl = self._access.to(path)
        made: str = await self._answer(
            path, self._client.create_async(path, data, acl, ephemeral=ephemeral, sequence=sequence)
        )
        return made

    async def read(self, path: str) -> Node:
        """Return the node."""
        self._may_ask(path)
        data, stat = await self._answer(path, self._client.get_async(path))
        return _node(data, stat)

    async def read_many(self, paths: Sequence[str]) -> list[Node | None]:
        """Return the nodes, in this order; None where there is none. All questions leave before the first answer.

        On a thread: each question wakes kazoo's thread, and from the loop each would be a struggle for the interpreter
        (a new controller asks a thousand at once, while everybody waits for it).
        """
        if not paths:
            return []
        self._may_ask(paths[0], questions=len(paths))
        return await self._loop.run_in_executor(None, self._read_all, paths)

    async def write(self, path: str, data: bytes, *, version: int = ANY_VERSION) -> int:
        """Replace the node's data and return the new version."""
        self._may_ask(path)
        stat = await self._answer(path, self._client.set_async(path, data, version))
        return int(stat.version)

    async def delete(self, path: str, *, version: int = ANY_VERSION) -> None:
        """Take the node away."""
        self._may_ask(path)
        await self._answer(path, self._client.delete_async(path, version))

    async def exists(self, path: str) -> bool:
        """Return whether there is such a node."""
        self._may_ask(path)
        return await self._answer(path, self._client.exists_async(path)) is not None

    async def children(self, path: str) -> list[str]:
        """Return the names right below, sorted."""
        self._may_ask(path)
        return sorted(await self._answer(path, self._client.get_children_async(path)))

    async def multi(self, operations: Sequence[Operation]) -> list[Outcome]:
        """Do all of them, or none."""
        if not operations:
            return []
        self._may_ask(operations[0].path)
        transaction = self._client.transaction()
        for operation in operations:
            match operation:
                case Create(path, data, ephemeral, sequence):
                    transaction.create(path, data, self._access.to(path), ephemeral=ephemeral, sequence=sequence)
                case Write(path, data, version):
                    transaction.set_data(path, data, version)
                case Delete(path, version):
                    transaction.delete(path, version)
                case Check(path, version):
                    transaction.check(path, version)
        outcomes = await self._answer(operations[0].path, transaction.commit_async())
        for operation, outcome in zip(operations, outcomes, strict=True):
            if isinstance(outcome, Exception) and not isinstance(
                outcome, faults.RolledBackError | faults.RuntimeInconsistency
            ):
                raise self._translated(operation.path, outcome)
        return [_outcome(operation, outcome) for operation, outcome in zip(operations, outcomes, strict=True)]

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
        """End the session: our ephemeral nodes go."""
        self._client.remove_listener(self._on_kazoo_state)
        await self._loop.run_in_executor(None, self._stop_client)
        self._watches.clear()
        self._session_changed(SessionState.LOST)

    def _stop_client(self) -> None:
        self._client.stop()
        self._client.close()

    # Answers --------------------------------------------------------------------------------------------------------

    def _may_ask(self, path: str, *, questions: int = 1) -> None:
        """Refuse what would only wait beside many others for a connection."""
        if self._session_state is not SessionState.CONNECTED:
            if self._asked_in_vain + questions > _ASKED_IN_VAIN:
                raise Disconnected(path)
            self._asked_in_vain += questions

    def _read_all(self, paths: Sequence[str]) -> list[Node | None]:
        nodes: list[Node | None] = []
        for start in range(0, len(paths), _IN_FLIGHT):
            some = paths[start : start + _IN_FLIGHT]
            asked = [self._client.get_async(path) for path in some]
            nodes += [self._found(path, answer) for path, answer in zip(some, asked, strict=True)]
        return nodes

    def _found(self, path: str, asked: IAsyncResult) -> Node | None:
        """Wait on a thread for what kazoo was asked, as long as `_answer` does on the loop."""
        try:
            data, stat = asked.get(timeout=self._patience_s)
        except faults.NoNodeError:
            return None
        except KazooTimeoutError as error:
            raise Disconnected(path) from error
        except Exception as error:
            raise self._translated(path, error) from error
        return _node(data, stat)

    async def _answer(self, path: str, asked: IAsyncResult) -> Any:
        """Wait for what kazoo was asked; not for longer than a session lives, after which nothing is certain."""
        answered: asyncio.Future[None] = self._loop.create_future()
        # Runs on kazoo's thread, which must not be kept waiting: hand over and return.
        asked.rawlink(lambda _: self._loop.call_soon_threadsafe(_settle, answered))
        try:
            async with asyncio.timeout(self._patience_s):
                await answered
        except TimeoutError as error:
            raise Disconnected(path) from error
        if asked.exception is not None:
            raise self._translated(path, asked.exception)
        return asked.value

    def _translated(self, path: str, error: BaseException) -> CoordinationError:
        for kind, ours in _ERRORS.items():
            if isinstance(error, kind):
                return ours(path)
        if isinstance(error, faults.NoAuthError):
            return StoreFailed(
                f"ZooKeeper at {self._address} keeps {path} from us; see zookeeper.digest.username and its password"
            )
        return StoreFailed(f"{path} in ZooKeeper at {self._address}: {type(error).__name__} {error}")

    # Watches and the session ----------------------------------------------------------------------------------------

    def _watch(self, kind: str, path: str, on_change: Callable[[], None]) -> Callable[[], None]:
        watch = self._watches.get((kind, path))
        if watch is None:
            watch = self._watches[kind, path] = _Watch(self._client, self._loop, kind, path)
        if not watch.is_armed:
            watch.arm()
        watchers = watch.watchers
        watchers.append(on_change)

        def stop() -> None:
            if on_change in watchers:
                watchers.remove(on_change)

        return stop

    def _on_kazoo_state(self, state: str) -> None:
        # Runs on kazoo's thread, which must not be kept waiting: hand over and return.
        self._loop.call_soon_threadsafe(self._session_changed, _SESSION_OF[state])

    def _session_changed(self, state: SessionState) -> None:
        if state is self._session_state:
            return
        self._session_state = state
        for on_state in list(self._session_watchers):
            on_state(state)
        if state is SessionState.CONNECTED:
            self._asked_in_vain = 0
            for watch in list(self._watches.values()):
                watch.arm()
                watch.tell()


class _Watch:
    """One path that is watched: set again whenever it has fired."""

    def __init__(self, client: KazooClient, loop: asyncio.AbstractEventLoop, kind: str, path: str) -> None:
        self._client = client
        self._loop = loop
        self._kind = kind
        self._path = path
        self.watchers: list[Callable[[], None]] = []
        self.is_armed = False

    def arm(self) -> None:
        """Ask ZooKeeper to tell of the next change. Once for each path, however often it is asked."""
        self.is_armed = True
        if self._kind == "node":
            self._client.exists_async(self._path, watch=self._on_event)
        else:
            self._client.get_children_async(self._path, watch=self._on_event).rawlink(self._on_children)

    def tell(self) -> None:
        """Tell everybody who watches to look again."""
        for on_change in list(self.watchers):
            on_change()

    def _on_children(self, asked: IAsyncResult) -> None:
        if isinstance(asked.exception, faults.NoNodeError):
            # Nothing can be watched below what is not there: wait for it to be made first.
            self._client.exists_async(self._path, watch=self._on_event)

    def _on_event(self, event: WatchedEvent) -> None:
        # Runs on kazoo's thread, which must not be kept waiting: hand over and return.
        if event.type != EventType.NONE:
            self._loop.call_soon_threadsafe(self._fired)

    def _fired(self) -> None:
        self.is_armed = False
        if self.watchers:
            self.arm()
            self.tell()


class _Access:
    """Who may do what with the nodes that we make."""

    def __init__(self, owner: tuple[str, str] | None) -> None:
        """With no owner, everybody may do everything."""
        self._secret = None if owner is None else [make_digest_acl(*owner, all=True)]
        self._open = None if self._secret is None else [*self._secret, *READ_ACL_UNSAFE]

    def to(self, path: str) -> list[ACL] | None:
        """Return the access list of a new node; None is ZooKeeper's own, open to all."""
        return self._secret if path.startswith(SECRETS) else self._open


def _settle(answered: asyncio.Future[None]) -> None:
    if not answered.done():
        answered.set_result(None)


def _node(data: bytes | None, stat: ZnodeStat) -> Node:
    return Node(data or b"", stat.version, stat.czxid, stat.mzxid, stat.ephemeralOwner != 0)


def _outcome(operation: Operation, outcome: Any) -> Outcome:
    match operation:
        case Create():
            return str(outcome)
        case Write():
            return int(outcome.version)
        case _:
            return None
