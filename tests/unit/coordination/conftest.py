"""The stores that the contract is tested on."""

import inspect
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
from highwater_sim.cluster import Cluster
from highwater_sim.coordination import SimCoordination

OpenSession: TypeAlias = Callable[[], AbstractAsyncContextManager[Coordination]]

SESSION_TIMEOUT_MS = 10_000
_roots = itertools.count()


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[ZooKeeperProcess]:
    """One real ZooKeeper for the whole run; each test has a root of its own in it."""
    with ZooKeeperProcess() as server:
        yield server


@pytest.fixture
def simulation() -> Iterator[Cluster]:
    """A simulated network with a simulated store, and no brokers."""
    cluster = Cluster(seed=1, brokers=0)
    yield cluster
    cluster.dispose()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test on a simulated store in virtual time."""
    cluster = pyfuncitem.funcargs.get("simulation") or getattr(pyfuncitem.funcargs.get("session"), "simulation", None)
    if not isinstance(cluster, Cluster) or not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    test = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
    cluster.run_until_done(cluster.spawn(test), within_s=600)
    assert not cluster.bugs
    return True


class SimulatedSessions:
    """Opens sessions on one simulated store."""

    def __init__(self, simulation: Cluster) -> None:
        self.simulation = simulation

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[Coordination]:
        cluster = self.simulation
        store = SimCoordination(cluster.store, cluster.network, cluster.client_loop, session_timeout_s=6)
        try:
            yield store
        finally:
            await store.close()


@pytest.fixture(params=["embedded", "simulated", "zookeeper"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> OpenSession:
    """Open a session on one store; opened again, it is a new session on the same store."""
    if request.param == "simulated":
        return SimulatedSessions(request.getfixturevalue("simulation"))
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
