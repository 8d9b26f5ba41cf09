"""The cluster's memory as one server that forgets nothing: a tree with versions, sessions and ephemeral nodes.

It is what an ensemble of ZooKeepers looks like from outside. It may be away for a while, as one that elects a leader;
what fails otherwise is the way to it; see `coordination.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from highwater.coordination.port import (
    ANY_VERSION,
    BadVersion,
    Check,
    Create,
    Delete,
    NoChildrenOfEphemerals,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Write,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from highwater.coordination.port import Operation, Outcome


@dataclass(slots=True)
class _Stored:
    data: bytes
    created: int
    modified: int
    owner: int
    """The session that an ephemeral node goes with; 0: it stays."""
    version: int = 0
    sequence: int = 0
    """How many children were numbered."""


class Store:
    """The tree. Every change is atomic; those who watch are told of it in order."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Stored] = {"/": _Stored(b"", 0, 0, 0)}
        self._children: dict[str, set[str]] = {"/": set()}
        self._transactions = 0
        self.sessions: set[int] = set()
        self.is_away = False
        """Whether the ensemble has no leader: it does nothing for anybody, and no session ends."""
        self.returned_at = 0.0
        """When it had a leader again, who gives every session its whole timeout."""
        self._last_session = 0
        self.on_change: list[Callable[[str, str], None]] = []
        """Called with ("node" or "children", path) for every change, after it."""

    def come_back(self, now: float) -> None:
        """Serve again."""
        self.is_away, self.returned_at = False, now

    # Sessions -------------------------------------------------------------------------------------------------------

    def open_session(self) -> int:
        """Begin a session."""
        self._last_session += 1
        self.sessions.add(self._last_session)
        return self._last_session

    def is_open(self, session: int) -> bool:
        """Return whether a session still lives."""
        return session in self.sessions

    def end_session(self, session: int) -> None:
        """End a session, and take its ephemeral nodes away."""
        if session in self.sessions:
            self.sessions.discard(session)
            for path in sorted(path for path, node in self._nodes.items() if node.owner == session):
                self.multi(0, [Delete(path)])

    def owner_of(self, path: str) -> int | None:
        """Return the session that an ephemeral node goes with, if there is one."""
        stored = self._nodes.get(path)
        return stored.owner if stored is not None and stored.owner else None

    # Reading --------------------------------------------------------------------------------------------------------

    def read(self, path: str) -> Node:
        """Return a node. NoNode."""
        stored = self._found(path)
        return Node(stored.data, stored.version, stored.created, stored.modified, stored.owner != 0)

    def find(self, path: str) -> Node | None:
        """Return a node, if there is one."""
        return self.read(path) if path in self._nodes else None

    def children(self, path: str) -> list[str]:
        """Return the names right below, sorted. NoNode."""
        self._found(path)
        return sorted(self._children[path])

    def _found(self, path: str) -> _Stored:
        stored = self._nodes.get(path)
        if stored is None:
            raise NoNode(path)
        return stored

    # Changing -------------------------------------------------------------------------------------------------------

    def multi(self, session: int, operations: Sequence[Operation]) -> list[Outcome]:
        """Do all operations or none; tell those who watch."""
        undo: list[Callable[[], None]] = []
        changed: dict[tuple[str, str], None] = {}
        self._transactions += 1
        try:
            outcomes = [self._apply(session, operation, undo, changed) for operation in operations]
        except Exception:
            for action in reversed(undo):
                action()
            raise
        for kind, path in changed:
            for told in self.on_change:
                told(kind, path)
        return outcomes

    def _apply(
        self, session: int, operation: Operation, undo: list[Callable[[], None]], changed: dict[tuple[str, str], None]
    ) -> Outcome:
        match operation:
            case Create():
                return self._create(session, operation, undo, changed)
            case Write(path, data, version):
                stored = self._checked(path, version)
                before = stored.data, stored.version, stored.modified
                undo.append(lambda: _restore(stored, *before))
                stored.data, stored.version, stored.modified = data, stored.version + 1, self._transactions
                changed["node", path] = None
                return stored.version
            case Delete(path, version):
                self._delete(path, version, undo, changed)
            case Check(path, version):
                self._checked(path, version)
        return None

    def _checked(self, path: str, version: int) -> _Stored:
        stored = self._found(path)
        if version not in {ANY_VERSION, stored.version}:
            raise BadVersion(path)
        return stored

    def _create(
        self, session: int, wanted: Create, undo: list[Callable[[], None]], changed: dict[tuple[str, str], None]
    ) -> str:
        parent_path, _, name = wanted.path.rpartition("/")
        parent_path = parent_path or "/"
        parent = self._found(parent_path)
        if parent.owner:
            raise NoChildrenOfEphemerals(parent_path)
        if wanted.sequence:
            name = f"{name}{parent.sequence:010d}"
            parent.sequence += 1
        path = f"{parent_path.rstrip('/')}/{name}"
        if path in self._nodes:
            raise NodeExists(path)
        self._put(
            path, _Stored(wanted.data, self._transactions, self._transactions, session if wanted.ephemeral else 0)
        )
        undo.append(lambda: self._take(path))
        changed["node", path] = changed["children", parent_path] = None
        return path

    def _delete(
        self, path: str, version: int, undo: list[Callable[[], None]], changed: dict[tuple[str, str], None]
    ) -> None:
        stored = self._checked(path, version)
        if self._children[path]:
            raise NotEmpty(path)
        self._take(path)
        undo.append(lambda: self._put(path, stored))
        parent = path.rpartition("/")[0] or "/"
        changed["node", path] = changed["children", parent] = changed["children", path] = None

    def _put(self, path: str, stored: _Stored) -> None:
        parent, _, name = path.rpartition("/")
        self._nodes[path] = stored
        self._children.setdefault(path, set())
        self._children[parent or "/"].add(name)

    def _take(self, path: str) -> None:
        parent, _, name = path.rpartition("/")
        del self._nodes[path], self._children[path]
        self._children[parent or "/"].discard(name)


def _restore(stored: _Stored, data: bytes, version: int, modified: int) -> None:
    stored.data, stored.version, stored.modified = data, version, modified
