"""The stores that the contract is tested on."""

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

from highwater.coordination.embedded import FILE_NAME, EmbeddedCoordination
from highwater.coordination.port import Coordination
from highwater.coordination.zookeeper import ZooKeeperCoordination
from highwater.testing.zookeeper import ZooKeeperProcess

OpenSession: TypeAlias = Callable[[], AbstractAsyncContextManager[Coordination]]

SESSION_TIMEOUT_MS = 10_000
_roots = itertools.count()


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[ZooKeeperProcess]:
    """One real ZooKeeper for the whole run; each test has a root of its own in it."""
    with ZooKeeperProcess() as server:
        yield server


@pytest.fixture(params=["embedded", "zookeeper"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> OpenSession:
    """Open a session on one store; opened again, it is a new session on the same store."""
    if request.param == "embedded":
        return lambda: _embedded(tmp_path / FILE_NAME)
    server: ZooKeeperProcess = request.getfixturevalue("zookeeper")
    address = f"{server.address}/test/{next(_roots)}"
    return lambda: _zookeeper(address)


@asynccontextmanager
async def _embedded(path: Path) -> AsyncIterator[Coordination]:
    store = EmbeddedCoordination.open(path)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def _zookeeper(address: str) -> AsyncIterator[Coordination]:
    store = await ZooKeeperCoordination.connect(address, session_timeout_ms=SESSION_TIMEOUT_MS)
    try:
        yield store
    finally:
        await store.close()
