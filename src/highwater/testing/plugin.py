"""Fixtures for tests that need a real broker, in any project that has Highwater installed.

    def test_orders_arrive(highwater_broker):                      # a broker for this test alone
        Producer({"bootstrap.servers": highwater_broker.bootstrap_servers})

    @pytest.mark.highwater(num_partitions=3)                       # with settings: Kafka's names, `_` for `.`
    def test_three_partitions(highwater_broker): ...

    def test_restart(highwater_broker_factory):                    # several, or when the settings are computed
        broker = highwater_broker_factory(log_flush_interval_messages=1)

    def test_a_leader_dies(highwater_cluster):                     # three brokers and a real ZooKeeper (needs Java)
        highwater_cluster.brokers[1].kill()

`highwater_cluster_factory(count, **settings)` starts other clusters. `highwater_session_broker` is one broker for the
whole run: faster, when tests can share. Settings for all brokers of a project come from a `highwater_broker_settings`
fixture in its own conftest.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping

import pytest

from highwater.testing.broker import BrokerProcess
from highwater.testing.cluster import ClusterProcesses

BrokerFactory = Callable[..., BrokerProcess]
ClusterFactory = Callable[..., ClusterProcesses]


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", "highwater(**settings): settings of the test's broker, `_` for `.`")


@pytest.fixture(scope="session")
def highwater_broker_settings() -> Mapping[str, object]:
    """Settings of every broker that the fixtures start; a project overrides this fixture."""
    return {}


@pytest.fixture(scope="session")
def highwater_session_broker(highwater_broker_settings: Mapping[str, object]) -> Iterator[BrokerProcess]:
    """One running broker for the whole run."""
    with BrokerProcess(highwater_broker_settings) as broker:
        yield broker


@pytest.fixture
def highwater_broker_factory(highwater_broker_settings: Mapping[str, object]) -> Iterator[BrokerFactory]:
    """Start brokers that live as long as the test: `factory(num_partitions=3)` or `factory({"num.partitions": 3})`."""
    with contextlib.ExitStack() as brokers:

        def start(settings: Mapping[str, object] | None = None, /, **named: object) -> BrokerProcess:
            merged = {**highwater_broker_settings, **(settings or {}), **_dotted(named)}
            return brokers.enter_context(BrokerProcess(merged))

        yield start


@pytest.fixture
def highwater_broker(request: pytest.FixtureRequest, highwater_broker_factory: BrokerFactory) -> BrokerProcess:
    """A running broker for this test alone, with the settings of its `highwater` marker."""
    return highwater_broker_factory(_marked(request))


@pytest.fixture
def highwater_cluster_factory(highwater_broker_settings: Mapping[str, object]) -> Iterator[ClusterFactory]:
    """Start clusters that live as long as the test: `factory(3, min_insync_replicas=2)`."""
    with contextlib.ExitStack() as clusters:

        def start(count: int = 3, settings: Mapping[str, object] | None = None, /, **named: object) -> ClusterProcesses:
            merged = {**highwater_broker_settings, **(settings or {}), **_dotted(named)}
            return clusters.enter_context(ClusterProcesses(count, merged))

        yield start


@pytest.fixture
def highwater_cluster(request: pytest.FixtureRequest, highwater_cluster_factory: ClusterFactory) -> ClusterProcesses:
    """Three running brokers for this test alone, with the settings of its `highwater` marker."""
    return highwater_cluster_factory(3, _marked(request))


def _marked(request: pytest.FixtureRequest) -> dict[str, object]:
    settings: dict[str, object] = {}
    for marker in reversed(list(request.node.iter_markers("highwater"))):
        settings |= _dotted(marker.kwargs)  # the closest marker comes last and wins
    return settings


def _dotted(named: Mapping[str, object]) -> dict[str, object]:
    return {name.replace("_", "."): value for name, value in named.items()}
