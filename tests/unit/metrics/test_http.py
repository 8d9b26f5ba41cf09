"""The metrics listener, spoken to over a real socket."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from highwater.metrics.declared import LOG_SIZE_BYTES, SENT_BYTES
from highwater.metrics.http import MetricsServer
from highwater.metrics.registry import Registry


async def ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        writer.write_eof()
        return await reader.read()
    except ConnectionError:  # cut off with bytes unread
        return b""
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


def serve(registry: Registry, body: Callable[[int], Awaitable[None]]) -> None:
    async def run() -> None:
        server = MetricsServer(registry)
        port = await server.start("127.0.0.1", 0)
        try:
            await body(port)
        finally:
            await server.close()

    asyncio.run(asyncio.wait_for(run(), 20))


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", b"200 OK"),
        (b"GET /metrics?debug=1 HTTP/1.0\r\n\r\n", b"200 OK"),
        (b"GET / HTTP/1.1\r\n\r\n", b"404 Not Found"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405 Method Not Allowed"),
        (b"\x00\x00\x00\x2b\r\n\r\n", b"400 Bad Request"),
        (b"GET /metrics", b"400 Bad Request"),
        (b"", b"400 Bad Request"),
    ],
)
def test_only_a_get_of_metrics_is_served(request_bytes: bytes, status: bytes) -> None:
    registry = Registry()
    registry.cell(SENT_BYTES).value = 42

    async def body(port: int) -> None:
        answer = await ask(port, request_bytes)
        assert answer.startswith(b"HTTP/1.1 " + status)
        assert (b"highwater_network_sent_bytes_total 42\n" in answer) == (status == b"200 OK")

    serve(registry, body)


def test_ten_thousand_partitions_arrive_whole() -> None:
    registry = Registry()
    registry.ask(LOG_SIZE_BYTES, lambda: ((("orders", str(index)), index) for index in range(10_000)))

    async def body(port: int) -> None:
        answer = await ask(port, b"GET /metrics HTTP/1.1\r\n\r\n")
        assert answer.count(b"\nhighwater_log_size_bytes{") == 10_000
        assert answer.endswith(b'{topic="orders",partition="9999"} 9999\n')

    serve(registry, body)


def test_a_request_that_does_not_end_is_cut_off() -> None:
    async def body(port: int) -> None:
        assert await ask(port, b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 100_000) == b""

    serve(Registry(), body)


def test_connections_are_bounded() -> None:
    """Eight may hang; a ninth is cut off at once, and served once the eight are gone."""
    scrape = b"GET /metrics HTTP/1.1\r\n\r\n"

    async def body(port: int) -> None:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(8)]
        while await ask(port, scrape):  # until the server has seen all eight
            pass
        for _, writer in silent:
            writer.close()
            await writer.wait_closed()
        while not await ask(port, scrape):
            pass

    serve(Registry(), body)
