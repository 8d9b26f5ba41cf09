"""A connection with a scripted peer: order of answers, waits that hold nobody up, back-pressure, bad frames."""

import asyncio
import struct
from collections.abc import Callable
from typing import Any

import pytest

from highwater.metrics.registry import Registry
from highwater.model.errors import MalformedFrame
from highwater.protocol import codec, headers
from highwater.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from highwater.protocol.schema import Message
from highwater.server import connection as connection_module
from highwater.server.api_table import API_BY_KEY, Route
from highwater.server.connection import Connection
from highwater.server.inbox import SharedBuffer
from highwater.server.server_metrics import ServerMetrics
from highwater.storage.file_region import FileRegion
from highwater.storage.files import File
from highwater.testing.waiting import wait_until

API_VERSIONS = 18


class ScriptedPeer:
    """A transport whose other end is the test."""

    peer = "test:1"

    def __init__(self) -> None:
        self.incoming = bytearray()
        self.outgoing = bytearray()
        self.room = 1 << 30
        self.sends = 0
        self.is_broken = False
        self.on_readable: Callable[[], None] | None = None
        self.on_writable: Callable[[], None] | None = None
        self.closed = False

    def receive_into(self, buffer: memoryview) -> int:
        count = min(len(buffer), len(self.incoming))
        buffer[:count] = self.incoming[:count]
        del self.incoming[:count]
        return count

    def send(self, data: bytes | bytearray | memoryview, *, more: bool) -> int:
        del more
        if self.is_broken:
            raise ConnectionResetError
        if not self.room:
            raise BlockingIOError
        self.sends += 1
        sent = min(self.room, len(data))
        self.room -= sent
        self.outgoing += data[:sent]
        return sent

    def send_file(self, file: File, position: int, length: int) -> int:
        raise AssertionError((file, position, length))

    def watch_readable(self, callback: Callable[[], None] | None) -> None:
        self.on_readable = callback

    def watch_writable(self, callback: Callable[[], None] | None) -> None:
        self.on_writable = callback

    def is_dead(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def deliver(self, data: bytes) -> None:
        self.incoming += data
        while self.incoming and self.on_readable and not self.closed:
            self.on_readable()

    def answers(self) -> list[int]:
        """Return the correlation ids of the whole answers received so far."""
        received, position = [], 0
        while position + 8 <= len(self.outgoing):
            size, correlation_id = struct.unpack_from(">ii", self.outgoing, position)
            received.append(correlation_id)
            position += 4 + size
        return received


class QuietAppends:
    staged: tuple[()] = ()
    to_wake: tuple[()] = ()


class QuietRecompression:
    is_full = False


class BrokerWithoutData:
    disk_threads = None  # asyncio's own
    appends = QuietAppends()
    recompression = QuietRecompression()
    partitions = topics = authorizer = now_ms = None  # the requests of these tests ask for nothing of it


class Held:
    """A deferred answer that the test releases."""

    def __init__(self) -> None:
        self.answer: Callable[[Message], None] | None = None
        self.cancelled = False

    def start(self, answer: Callable[[Message], None]) -> None:
        self.answer = answer

    def cancel(self) -> None:
        self.cancelled = True


def request(correlation_id: int, *, api_key: int = API_VERSIONS, version: int = 0) -> bytes:
    header = headers.request_header(headers.RequestHeader(api_key, version, correlation_id, "me"))
    frame = header + codec.encode(ApiVersionsRequest(), 0)
    return struct.pack(">i", len(frame)) + frame


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the list of what the handler returns next: a response, a deferred, or an error to raise."""
    results: list[Any] = []

    def handle(_context: object, _request: object) -> object:
        result = results.pop(0) if results else ApiVersionsResponse()
        if isinstance(result, Exception):
            raise result
        return result

    found = Route(API_BY_KEY[API_VERSIONS], 0)
    found.handle = handle
    monkeypatch.setattr(
        connection_module, "route", lambda key, version: found if (key, version) == (API_VERSIONS, 0) else None
    )
    return results


class Scene:
    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.peer = ScriptedPeer()
        self.closed: list[Connection] = []
        self.connection = Connection(
            self.peer,
            broker=BrokerWithoutData(),  # type: ignore[arg-type]
            loop=self.loop,
            shared_buffer=SharedBuffer(4096),
            max_frame_bytes=1000,
            listener_name="PLAINTEXT",
            metrics=ServerMetrics(Registry()),
            on_close=self.closed.append,
        )

    def take_a_turn(self) -> None:
        """Let the loop do what is due."""
        self.loop.run_until_complete(asyncio.sleep(0))


@pytest.fixture
def scene() -> Any:
    scene = Scene()
    yield scene
    scene.loop.close()


def test_answers_keep_the_order_of_requests_even_when_the_first_one_waits(scene: Scene, handler: list[Any]) -> None:
    held = Held()
    handler[:] = [held, ApiVersionsResponse()]
    scene.peer.deliver(request(1) + request(2))
    assert scene.peer.answers() == []
    assert held.answer is not None
    held.answer(ApiVersionsResponse())
    scene.take_a_turn()
    assert scene.peer.answers() == [1, 2]


def test_a_request_that_waits_does_not_hold_up_the_next_one(scene: Scene, handler: list[Any]) -> None:
    first, second = Held(), Held()
    handler[:] = [first, second]
    scene.peer.deliver(request(1) + request(2))
    assert second.answer is not None, "the second request has begun although the first one waits"
    second.answer(ApiVersionsResponse())
    assert first.answer is not None
    first.answer(ApiVersionsResponse())
    scene.take_a_turn()
    assert scene.peer.answers() == [1, 2]


def release(held: Held, response: Any = None) -> None:
    """Give the answer that was held back."""
    assert held.answer is not None
    held.answer(response or ApiVersionsResponse())


def test_answers_that_become_ready_together_leave_together(scene: Scene, handler: list[Any]) -> None:
    waiting = [Held(), Held(), Held()]
    handler[:] = waiting
    scene.peer.deliver(request(1) + request(2) + request(3))
    for held in waiting:
        release(held)
    scene.take_a_turn()
    assert scene.peer.answers() == [1, 2, 3]
    assert scene.peer.sends == 1


@pytest.fixture
def due(scene: Scene, handler: list[Any]) -> list[Held]:
    """Two requests that wait; the answer to the first is ready, and leaves with the next turn of the loop."""
    waiting = [Held(), Held()]
    handler[:] = waiting
    scene.peer.deliver(request(1) + request(2))
    release(waiting[0])
    assert scene.peer.answers() == []
    return waiting


@pytest.mark.usefixtures("due")
def test_a_connection_that_closes_sends_what_is_ready_first(scene: Scene) -> None:
    scene.connection.close("the broker stops")
    assert scene.peer.answers() == [1]
    assert scene.peer.closed
    scene.take_a_turn()
    assert scene.closed == [scene.connection]


@pytest.mark.usefixtures("due")
def test_a_connection_that_breaks_when_answers_are_due_closes_once(scene: Scene) -> None:
    scene.peer.is_broken = True
    scene.connection.close("the peer has finished")
    assert scene.peer.answers() == []
    assert scene.closed == [scene.connection]


def test_no_answer_overtakes_one_that_cannot_be_made(scene: Scene, handler: list[Any]) -> None:
    waiting = [Held(), Held()]
    handler[:] = waiting
    scene.peer.deliver(request(1) + request(2))
    release(waiting[0], "no answer at all")
    release(waiting[1])
    scene.peer.deliver(request(3))
    assert scene.peer.answers() == []
    assert scene.closed == [scene.connection]


def test_a_peer_that_does_not_read_is_not_read_from(scene: Scene, handler: list[Any]) -> None:
    handler[:] = []
    scene.peer.room = 0
    for number in range(connection_module.MAX_WAITING_ANSWERS * 300):
        if scene.peer.on_readable is None:
            break
        scene.peer.deliver(request(number))
    assert scene.peer.on_readable is None, "reading has stopped"
    scene.peer.room = 1 << 30
    while scene.peer.on_writable is not None:
        scene.peer.on_writable()
    assert scene.peer.on_readable is not None, "reading goes on once the answers are gone"


def test_a_peer_whose_batches_wait_is_not_read_from_while_too_many_do(
    scene: Scene, handler: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches to be compressed anew are held in memory."""
    held = Held()
    handler[:] = [held]
    monkeypatch.setattr(BrokerWithoutData.recompression, "is_full", True)
    scene.peer.deliver(request(1))
    assert scene.peer.on_readable is None, "reading has stopped"
    assert held.answer is not None
    held.answer(ApiVersionsResponse())
    assert scene.peer.on_readable is not None, "nothing of this peer waits any more"


def test_a_bad_frame_closes_the_connection_after_the_answers_before_it(scene: Scene, handler: list[Any]) -> None:
    handler[:] = [ApiVersionsResponse(), MalformedFrame("no")]
    scene.peer.deliver(request(1) + struct.pack(">i", -5) + b"garbage")
    assert scene.peer.answers() == [1]
    assert scene.peer.closed
    assert scene.closed == [scene.connection]


def test_a_version_of_api_versions_that_we_do_not_know_is_answered_in_version_0(
    scene: Scene, handler: list[Any]
) -> None:
    handler[:] = []
    scene.peer.deliver(request(7, version=99))
    assert scene.peer.answers() == [7]
    assert not scene.peer.closed


def test_an_unknown_api_closes_the_connection(scene: Scene, handler: list[Any]) -> None:
    handler[:] = []
    scene.peer.deliver(request(1, api_key=999))
    assert scene.peer.closed


def test_a_bug_in_a_handler_costs_its_connection_only(scene: Scene, handler: list[Any]) -> None:
    handler[:] = [ZeroDivisionError()]
    scene.peer.deliver(request(1))
    assert scene.peer.closed


class MadFile:
    """A cold file; who reads it meets a bug."""

    def read_without_waiting(self, position: int, length: int) -> None:
        del position, length

    def read(self, position: int, length: int) -> bytes:
        raise ZeroDivisionError((position, length))


def test_a_bug_while_old_data_is_read_costs_its_connection_only(scene: Scene, handler: list[Any]) -> None:
    del handler
    scene.connection._outbox.put(FileRegion(MadFile(), 0, 10))  # type: ignore[arg-type]
    scene.peer.deliver(request(1))

    def closes() -> bool:
        scene.loop.run_until_complete(asyncio.sleep(0))
        return scene.peer.closed

    wait_until(closes, "the connection is closed")
    assert scene.closed == [scene.connection]


def test_what_a_closed_connection_waits_for_is_cancelled(scene: Scene, handler: list[Any]) -> None:
    held = Held()
    handler[:] = [held]
    scene.peer.deliver(request(1))
    scene.connection.close("test")
    assert held.cancelled
