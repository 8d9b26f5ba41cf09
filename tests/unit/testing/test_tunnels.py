"""A proxy that ends leaves no connection open, whatever its clients are doing just then."""

import contextlib
import gc
import socket
import warnings
from collections.abc import Iterator

import pytest

from highwater.testing.network import Network
from highwater.testing.ports import HOST
from highwater.testing.proxy import LossyProxy
from highwater.testing.waiting import PATIENCE_SECONDS

ROUNDS = 30
CLIENTS = 10


@pytest.fixture
def server() -> Iterator[tuple[str, int]]:
    """A server that accepts and says nothing."""
    with socket.create_server((HOST, 0), backlog=ROUNDS * CLIENTS) as listening:
        yield listening.getsockname()


@pytest.fixture
def unclosed() -> Iterator[list[str]]:
    """What has been left open until now, as Python's collector says."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        left_open: list[str] = []
        yield left_open
        gc.collect()
        left_open += [str(warning.message) for warning in caught]
    assert left_open == []


def clients_that_come_and_go(port: int) -> list[socket.socket]:
    """Connect many; every second one hangs up at once."""
    clients = [socket.create_connection((HOST, port)) for _ in range(CLIENTS)]
    for client in clients[::2]:
        client.close()
    return clients[1::2]


def await_hang_up(client: socket.socket) -> None:
    with client:
        client.settimeout(PATIENCE_SECONDS)
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""


@pytest.mark.usefixtures("unclosed")
def test_a_proxy_that_loses_answers_leaves_no_connection_open(server: tuple[str, int]) -> None:
    for _ in range(ROUNDS):
        with LossyProxy(f"{HOST}:{server[1]}") as proxy:
            left = clients_that_come_and_go(int(proxy.bootstrap.rpartition(":")[2]))
        for client in left:
            await_hang_up(client)


@pytest.mark.usefixtures("unclosed")
@pytest.mark.parametrize("is_cut", [False, True])
def test_a_network_leaves_no_connection_open(server: tuple[str, int], *, is_cut: bool) -> None:
    for _ in range(ROUNDS):
        with Network() as network:
            port = network.stand_before(server, "server", asked_by="client")
            if is_cut:
                network.cut("client", "server")
            left = clients_that_come_and_go(port)
        for client in left:
            await_hang_up(client)
