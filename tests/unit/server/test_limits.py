"""How many connections may be open, and what the kernel is told about them."""

import asyncio
import socket
from typing import cast

from highwater.config.broker_config import BrokerConfig
from highwater.metrics.registry import Registry
from highwater.server.acceptor import SocketAcceptor
from highwater.server.connection import Connection
from highwater.server.listener import Connections
from highwater.server.server_metrics import ServerMetrics


def connections_with(**settings: str) -> tuple[Connections, BrokerConfig]:
    config = BrokerConfig(
        {name.replace("_", "."): value for name, value in settings.items()} | {"connections.max.idle.ms": "-1"}
    )
    return Connections(asyncio.get_running_loop(), ServerMetrics(Registry()), config), config


def opened(connections: Connections, host: str) -> Connection:
    connection = cast("Connection", object())
    connections.add(connection, host, "PLAINTEXT")
    return connection


async def test_the_limit_counts_open_connections_only() -> None:
    connections, _ = connections_with(max_connections="2")
    first = opened(connections, "10.0.0.1")
    opened(connections, "10.0.0.2")
    assert not connections.room_for("10.0.0.3")
    connections.discard(first)
    assert connections.room_for("10.0.0.3")


async def test_one_address_can_be_held_shorter_or_longer_than_the_others() -> None:
    connections, _ = connections_with(max_connections_per_ip="1", max_connections_per_ip_overrides="10.0.0.2:2")
    for host in ("10.0.0.1", "10.0.0.2"):
        opened(connections, host)
    assert not connections.room_for("10.0.0.1")
    assert connections.room_for("10.0.0.2")


async def test_a_limit_that_changes_while_the_broker_runs_is_in_force_at_once() -> None:
    connections, config = connections_with()
    opened(connections, "10.0.0.1")
    assert connections.room_for("10.0.0.1")
    config.apply_dynamic(this_broker={}, all_brokers={"max.connections": "1"})
    assert not connections.room_for("10.0.0.1")


async def test_the_kernel_keeps_its_own_buffer_sizes_unless_told() -> None:
    async def receive_buffer_bytes(**settings: str) -> int:
        _, config = connections_with(**settings)
        acceptor = SocketAcceptor(asyncio.get_running_loop(), config)
        acceptor.bind("127.0.0.1", 0)
        assert acceptor._socket is not None
        size = acceptor._socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        acceptor.close()
        return size

    with socket.socket() as untouched:
        assert await receive_buffer_bytes() == untouched.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    assert await receive_buffer_bytes(socket_receive_buffer_bytes="20000") == 40_000  # Linux doubles it
