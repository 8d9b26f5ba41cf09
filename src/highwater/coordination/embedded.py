"""The cluster's memory of a single broker: the tree of nodes in one SQLite file.

Durability: write-ahead log with `synchronous=FULL`, so that what a call has acknowledged survives kill -9 and a power
cut. SQLite's own exclusive lock keeps a second broker out. The file is one session's at a time: what was ephemeral in
the last one goes when the next begins.

Statements run on the loop, which takes microseconds; only the commit, which waits for the disk, runs on a thread. So
one lock orders everything: no statement may run on the connection while a commit does.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

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
    Operation,
    Outcome,
    SessionState,
    StoreFailed,
    Write,
)

FILE_NAME: Final = "__highwater_metadata.sqlite"

_APPLICATION_ID: Final = 0x48575452  # "HWTR", so that `file` and we can tell whose it is
_FORMAT: Final = 2
_STATEMENTS_AT_A_TIME: Final = 64
_SCHEMA: Final = """
CREATE TABLE node (
    path TEXT PRIMARY KEY,
    parent TEXT NOT NULL,
    data BLOB NOT NULL,
    version INTEGER NOT NULL,
    created INTEGER NOT NULL,
    ephemeral INTEGER NOT NULL,
    next_sequence INTEGER NOT NULL DEFAULT 0,
    modified INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX node_by_parent ON node (parent, path);
CREATE TABLE clock (now INTEGER NOT NULL);
INSERT INTO clock VALUES (0);
INSERT INTO node VALUES ('/', '', x'', 0, 0, 0, 0, 0);
"""
_SECOND_FORMAT: Final = "ALTER TABLE node ADD COLUMN modified INTEGER NOT NULL DEFAULT 0"


class EmbeddedCoordination:
    """The port's implementation for one broker. Make it with `open`."""

    def __init__(self, path: Path, database: sqlite3.Connection, executor: Executor | None) -> None:
        self._path = path
        self._database = database
        self._executor = executor
        self._lock = asyncio.Lock()
        self._watchers: dict[tuple[str, str], list[Callable[[], None]]] = {}
        self._session_watchers: list[Callable[[SessionState], None]] = []

    @classmethod
    def open(cls, path: Path, executor: Executor | None = None) -> "EmbeddedCoordination":
        """Open the file, or make it; commits run on `executor`, or on the loop's own threads.

        StoreFailed if it is another broker's, another program's, or unreadable.
        """
        try:
            database = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise StoreFailed(f"{path}: {error}") from error
        try:
            _prepare(database)
        except (sqlite3.Error, _NotOurs) as error:
            database.close()
            busy = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY
            raise StoreFailed(f"{path}: {'another broker uses it' if busy else error}") from error
        return cls(path, database, executor)

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False) -> str:
        """Make a node and return its path."""
        (made,) = await self.multi([Create(path, data, ephemeral=ephemeral, sequence=sequence)])
        assert isinstance(made, str), "a Create tells its path"
        return made

    async def read(self, path: str) -> Node:
        """Return the node."""
        async with self._lock:
            return self._node(path)

    async def read_many(self, paths: Sequence[str]) -> list[Node | None]:
        """Return the nodes, in this order; None where there is none."""
        nodes: list[Node | None] = []
        async with self._lock:
            for path in paths:
                nodes.append(self._find(path))
                await self._give_way(len(nodes))
        return nodes

    async def write(self, path: str, data: bytes, *, version: int = ANY_VERSION) -> int:
        """Replace the node's data and return the new version."""
        (written,) = await self.multi([Write(path, data, version)])
        assert isinstance(written, int), "a Write tells its version"
        return written

    async def delete(self, path: str, *, version: int = ANY_VERSION) -> None:
        """Take the node away."""
        await self.multi([Delete(path, version)])

    async def exists(self, path: str) -> bool:
        """Return whether there is such a node."""
        async with self._lock:
            return self._row("SELECT 1 FROM node WHERE path = ?", path) is not None

    async def children(self, path: str) -> list[str]:
        """Return the names right below, sorted."""
        async with self._lock:
            self._node(path)
            with self._faults():
                rows = self._database.execute("SELECT path FROM node WHERE parent = ? ORDER BY path", (path,))
                return [child.rpartition("/")[2] for (child,) in rows]

    async def multi(self, operations: Sequence[Operation]) -> list[Outcome]:
        """Do all of them, or none, and return once they are on disk."""
        changed: set[tuple[str, str]] = set()
        async with self._lock:
            with self._faults():
                self._database.execute("BEGIN")
            try:
                outcomes: list[Outcome] = []
                for operation in operations:
                    outcomes.append(self._apply(operation, changed))
                    await self._give_way(len(outcomes))
                await self._commit(changed)
            finally:
                if self._database.in_transaction:
                    self._database.rollback()
        return outcomes

    def watch_node(self, path: str, on_change: Callable[[], None]) -> Callable[[], None]:
        """Call `on_change` after the node was made, written or taken away."""
        return self._watch(("node", path), on_change)

    def watch_children(self, path: str, on_change: Callable[[], None]) -> Callable[[], None]:
        """Call `on_change` after nodes came or went right below."""
        return self._watch(("children", path), on_change)

    def on_session(self, on_state: Callable[[SessionState], None]) -> None:
        """Keep `on_state`, which is told when the session ends: it is never cut off before."""
        self._session_watchers.append(on_state)

    async def close(self) -> None:
        """End the session and close the file."""
        async with self._lock:
            with self._faults():
                self._database.execute("DELETE FROM node WHERE ephemeral = 1")
                self._database.close()
        self._watchers.clear()
        for on_state in self._session_watchers:
            on_state(SessionState.LOST)

    def _apply(self, operation: Operation, changed: set[tuple[str, str]]) -> Outcome:
        match operation:
            case Create(path, data, ephemeral, sequence):
                return self._create(path, data, ephemeral=ephemeral, sequence=sequence, changed=changed)
            case Write(path, data, version):
                new_version = self._checked(path, version).version + 1
                self._run("UPDATE clock SET now = now + 1")
                self._run(
                    "UPDATE node SET data = ?, version = ?, modified = (SELECT now FROM clock) WHERE path = ?",
                    *(data, new_version, path),
                )
                changed.add(("node", path))
                return new_version
            case Delete(path, version):
                self._checked(path, version)
                if self._row("SELECT 1 FROM node WHERE parent = ? LIMIT 1", path) is not None:
                    raise NotEmpty(path)
                self._run("DELETE FROM node WHERE path = ?", path)
                changed |= {("node", path), ("children", _parent(path))}
                return None
            case Check(path, version):
                self._checked(path, version)
                return None

    def _create(self, path: str, data: bytes, *, ephemeral: bool, sequence: bool, changed: set[tuple[str, str]]) -> str:
        parent = _parent(path)
        if self._node(parent).is_ephemeral:
            raise NoChildrenOfEphemerals(parent)
        if sequence:
            (number,) = self._row("SELECT next_sequence FROM node WHERE path = ?", parent) or (0,)
            self._run("UPDATE node SET next_sequence = next_sequence + 1 WHERE path = ?", parent)
            path = f"{path}{number:010d}"
        if self._row("SELECT 1 FROM node WHERE path = ?", path) is not None:
            raise NodeExists(path)
        self._run("UPDATE clock SET now = now + 1")
        self._run(
            "INSERT INTO node SELECT ?, ?, ?, 0, now, ?, 0, now FROM clock", path, parent, bytes(data), int(ephemeral)
        )
        changed |= {("node", path), ("children", parent)}
        return path

    def _checked(self, path: str, version: int) -> Node:
        node = self._node(path)
        if version not in {ANY_VERSION, node.version}:
            raise BadVersion(path)
        return node

    def _node(self, path: str) -> Node:
        node = self._find(path)
        if node is None:
            raise NoNode(path)
        return node

    def _find(self, path: str) -> Node | None:
        row = self._row("SELECT data, version, created, modified, ephemeral FROM node WHERE path = ?", path)
        if row is None:
            return None
        data, version, created, modified, ephemeral = row
        return Node(data, version, created, modified, bool(ephemeral))

    def _row(self, statement: str, *values: object) -> tuple[Any, ...] | None:
        with self._faults():
            row: tuple[Any, ...] | None = self._database.execute(statement, values).fetchone()
            return row

    def _run(self, statement: str, *values: object) -> None:
        with self._faults():
            self._database.execute(statement, values)

    @staticmethod
    async def _give_way(done: int) -> None:
        """Let the loop do other things now and then; the lock keeps them away from the database."""
        if done % _STATEMENTS_AT_A_TIME == 0:
            await asyncio.sleep(0)

    async def _commit(self, changed: set[tuple[str, str]]) -> None:
        """Commit on a thread and tell who watches; seen through even if whoever asked no longer waits."""
        commit = asyncio.get_running_loop().run_in_executor(self._executor, self._database.commit)
        cancelled: asyncio.CancelledError | None = None
        while not commit.done():
            try:
                await asyncio.shield(commit)
            except asyncio.CancelledError as error:
                cancelled = error
            except sqlite3.Error:
                break
        with self._faults():
            commit.result()
        self._tell(changed)
        if cancelled is not None:
            raise cancelled

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreFailed(f"{self._path}: {error}") from error

    def _watch(self, key: tuple[str, str], on_change: Callable[[], None]) -> Callable[[], None]:
        watchers = self._watchers.setdefault(key, [])
        watchers.append(on_change)

        def stop() -> None:
            if on_change in watchers:
                watchers.remove(on_change)

        return stop

    def _tell(self, changed: set[tuple[str, str]]) -> None:
        loop = asyncio.get_running_loop()
        for key in sorted(changed):
            for on_change in self._watchers.get(key, ()):
                loop.call_soon(on_change)


class _NotOurs(Exception):
    """The file is a database, but not one that this release can read."""


def _prepare(database: sqlite3.Connection) -> None:
    database.execute("PRAGMA locking_mode = EXCLUSIVE")
    (application_id,) = database.execute("PRAGMA application_id").fetchone()
    (version,) = database.execute("PRAGMA user_version").fetchone()
    (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables and application_id != _APPLICATION_ID:
        raise _NotOurs("it is not a Highwater metadata file")
    if tables and not 1 <= version <= _FORMAT:
        raise _NotOurs(f"it has format {version}, and this release reads format {_FORMAT}")
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    if not tables:
        database.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        database.execute(f"PRAGMA user_version = {_FORMAT}")
        database.executescript(f"BEGIN; {_SCHEMA} COMMIT;")
    elif version < _FORMAT:
        database.executescript(f"BEGIN; {_SECOND_FORMAT}; PRAGMA user_version = {_FORMAT}; COMMIT;")
    database.execute("DELETE FROM node WHERE ephemeral = 1")


def _parent(path: str) -> str:
    assert path.startswith("/"), f"{path!r} is not a path"
    assert path != "/", "the root neither comes nor goes"
    return path.rpartition("/")[0] or "/"
