"""The cluster's memory, as the rest of the broker sees it: a tree of small nodes with versions, watches and a session.

The shape is ZooKeeper's, because the cluster's records are (see `paths.py`); a single broker keeps the same tree in a
file (`embedded.py`). One contract test runs against every implementation.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, Protocol, TypeAlias

from highwater.model.errors import ErrorCode, KafkaError

ANY_VERSION: Final = -1


class Node(NamedTuple):
    """What a node held when it was read."""

    data: bytes
    version: int
    """0 when made, +1 with every write."""
    created: int
    """Grows over the whole store with every node made, so that a node that was made anew can be told apart."""
    modified: int
    """When it was last written, on the scale of `created`: what came first of a write here and a node made there."""
    is_ephemeral: bool


class CoordinationError(KafkaError):
    """The cluster's memory refused or failed."""

    says = "the cluster's memory failed:"

    def __init__(self, path: str) -> None:
        super().__init__(f"{self.says} {path}")
        self.path = path


class NoNode(CoordinationError):
    """What should be read or changed is not there."""

    says = "there is no node at"


class NodeExists(CoordinationError):
    """What should be made is there already."""

    says = "there is a node already at"


class BadVersion(CoordinationError):
    """Somebody else has written in the meantime."""

    says = "somebody else has written to"


class NotEmpty(CoordinationError):
    """A node with others below it cannot go."""

    says = "there are nodes below"


class NoChildrenOfEphemerals(CoordinationError):
    """A node that goes with its session can have nothing below it."""

    says = "nothing can be below the ephemeral node"


class StoreFailed(CoordinationError):
    """An operating fault: the store cannot be read or written."""

    says = "the cluster's memory cannot be used:"
    code = ErrorCode.KAFKA_STORAGE_ERROR


class Disconnected(CoordinationError):
    """The store does not answer; whether it did what was asked is not known."""

    says = "the cluster's memory does not answer, and may or may not have changed"
    code = ErrorCode.REQUEST_TIMED_OUT


@dataclass(frozen=True, slots=True)
class Create:
    """Make a node; with `sequence`, ten digits that only grow are added to its name."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequence: bool = False


@dataclass(frozen=True, slots=True)
class Write:
    """Replace a node's data, if its version is still the one given."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    """Take a node away, if its version is still the one given."""

    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    """Do nothing, but let the others only happen if the node's version is still the one given."""

    path: str
    version: int = ANY_VERSION


Operation: TypeAlias = Create | Write | Delete | Check
Outcome: TypeAlias = str | int | None
"""The path that a Create made, the version that a Write made, nothing for the others."""


class SessionState(Enum):
    """How we stand with the store. Ephemeral nodes live exactly as long as the session does."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"  # the session may or may not be alive: do nothing that needs it
    LOST = "lost"  # it is gone, and our ephemeral nodes with it


class Coordination(Protocol):
    """The store. Every call may raise StoreFailed or Disconnected besides the errors it names."""

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False) -> str:
        """Make a node and return its path. NodeExists, NoNode (the parent's), NoChildrenOfEphemerals."""
        ...

    async def read(self, path: str) -> Node:
        """Return the node. NoNode."""
        ...

    async def read_many(self, paths: Sequence[str]) -> list[Node | None]:
        """Return the nodes, in this order; None where there is none. Many at once cost far less than one by one."""
        ...

    async def write(self, path: str, data: bytes, *, version: int = ANY_VERSION) -> int:
        """Replace the node's data and return the new version. NoNode, BadVersion."""
        ...

    async def delete(self, path: str, *, version: int = ANY_VERSION) -> None:
        """Take the node away. NoNode, BadVersion, NotEmpty."""
        ...

    async def exists(self, path: str) -> bool:
        """Return whether there is such a node."""
        ...

    async def children(self, path: str) -> list[str]:
        """Return the names (not paths) right below, sorted. NoNode."""
        ...

    async def multi(self, operations: Sequence[Operation]) -> list[Outcome]:
        """Do all of them, or none: the first that fails raises its own error."""
        ...

    def watch_node(self, path: str, on_change: Callable[[], None]) -> Callable[[], None]:
        """Call `on_change` after the node was made, written or taken away, until the returned function is called.

        Changes that follow each other quickly may be told once, and a new session tells everything once more: a watcher
        reads again what it needs, and finds what is true now.
        """
        ...

    def watch_children(self, path: str, on_change: Callable[[], None]) -> Callable[[], None]:
        """Like `watch_node`, for nodes that come or go right below."""
        ...

    def on_session(self, on_state: Callable[[SessionState], None]) -> None:
        """Call `on_state` whenever how we stand with the store changes."""
        ...

    async def close(self) -> None:
        """End the session: our ephemeral nodes go."""
        ...


async def ensure(store: Coordination, path: str) -> None:
    """Make the node at `path`, and those above it, unless they are there."""
    for depth in range(2, path.count("/") + 2):
        try:
            await store.create("/".join(path.split("/")[:depth]))
        except NodeExists:
            continue
