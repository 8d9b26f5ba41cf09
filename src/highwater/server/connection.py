"""One client's connection: frames in arrival order, answers in arrival order, waits that hold nobody up.

A turn is one readable event. All frames that have arrived are handled, then everything they appended is written with
one system call per partition, then the answers leave joined in one send, then waiting fetches are woken. A request that
has to wait keeps its place in the order of answers and lets the next request begin; Apache Kafka would mute the
connection.
"""

from __future__ import annotations

from asyncio import Future, Task
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from highwater.model.errors import KafkaError, MalformedFrame
from highwater.model.log_events import EventLog
from highwater.protocol import headers
from highwater.protocol.schema import Message
from highwater.security.authorizer import ANONYMOUS
from highwater.server.answers import Answer, Deferred
from highwater.server.api_table import API_BY_KEY, Route, route
from highwater.server.errors import FileUnreadable
from highwater.server.inbox import Inbox, SharedBuffer
from highwater.server.outbox import Outbox
from highwater.server.request_context import RequestContext

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from highwater.broker.broker import Broker
    from highwater.server.server_metrics import ServerMetrics
    from highwater.server.transport import Transport

events = EventLog("server")

MAX_HELD_BYTES: Final = 4 * 1024 * 1024
"""Answers held in memory for a peer that does not read; above this its requests are not read either."""

MAX_WAITING_ANSWERS: Final = 1000
"""Requests of one connection that may be under way at once."""

REQUESTS_PER_TURN: Final = 500
"""Twenty thousand of the smallest requests fit into one receive; their answers must not all be in memory at once."""

_REQUEST_HEAD: Final = Struct(">hhih")
_API_VERSIONS_KEY: Final = 18


class Connection:
    """One peer, from accept to close."""

    __slots__ = (
        "_answers",
        "_broker",
        "_client_id",
        "_client_id_bytes",
        "_contexts",
        "_deferred",
        "_in_turn",
        "_inbox",
        "_listener_name",
        "_loop",
        "_metrics",
        "_on_close",
        "_outbox",
        "_reading",
        "_send_is_due",
        "_tasks",
        "_transport",
        "_turn_of_deferred",
        "_writing",
        "closed",
        "last_active_at",
    )

    def __init__(
        self,
        transport: Transport,
        *,
        broker: Broker,
        loop: AbstractEventLoop,
        shared_buffer: SharedBuffer,
        max_frame_bytes: int,
        listener_name: str,
        metrics: ServerMetrics,
        on_close: Callable[[Connection], None],
    ) -> None:
        self._transport = transport
        self._broker = broker
        self._loop = loop
        self._listener_name = listener_name
        self._metrics = metrics
        self._on_close = on_close
        self._inbox = Inbox(shared_buffer, max_frame_bytes=max_frame_bytes)
        self._outbox = Outbox()
        self._answers: deque[Answer] = deque()
        self._deferred: dict[Answer, Deferred] = {}
        self._turn_of_deferred: list[Answer] = []
        self._tasks: set[Task[Any]] = set()
        self._client_id = ""
        self._client_id_bytes = b""
        self._contexts: dict[int, RequestContext] = {}
        self._in_turn = False
        self._reading = True
        self._send_is_due = False
        self._writing = False
        self.closed = False
        self.last_active_at = loop.time()
        transport.watch_readable(self._on_readable)

    # One turn -------------------------------------------------------------------------------------------------------

    def _on_readable(self) -> None:
        try:
            received = self._inbox.receive(self._transport)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.close(f"receive failed: {error.strerror}")
            return
        if not received:
            self.close("the peer has finished")
            return
        self.last_active_at = self._loop.time()
        self._metrics.received.value += received
        fault = ""
        try:
            number = 0
            while (frame := self._inbox.next_frame()) is not None:
                self._take(frame)
                number += 1
                if number == REQUESTS_PER_TURN:
                    number = 0
                    self._finish_turn()
                    if self.closed:
                        return
        except KafkaError as error:
            fault = f"bad request: {error}"
        except Exception as error:  # noqa: BLE001 - a bug of ours costs this connection, not the broker
            events.error("request_failed", cause=error, peer=self._transport.peer)
            fault = f"internal error: {error!r}"
        self._finish_turn()
        if fault:
            self._metrics.closed_for_cause("malformed")
            events.warning("connection_closed", peer=self._transport.peer, reason=fault)
            self.close(fault)

    def _finish_turn(self) -> None:
        """Write what this turn appended, answer, then wake those who wait for it: in this order."""
        appends = self._broker.appends
        if appends.staged:
            appends.write()
        if self._turn_of_deferred:
            self._start_deferred()
        self._send_answers()
        if appends.to_wake:
            appends.wake()

    def _start_deferred(self) -> None:
        """Begin what may wait; those that need not are answered with the rest of this turn."""
        starting, self._turn_of_deferred = self._turn_of_deferred, []
        self._in_turn = True
        for answer in starting:
            deferred = self._deferred.get(answer)
            if deferred is not None:
                deferred.start(partial(self._deferred_answered, answer))
        self._in_turn = False

    def _take(self, frame: memoryview) -> None:
        """Decode one request and hand it to its handler."""
        api_key: int
        version: int
        correlation_id: int
        client_id_length: int
        try:
            api_key, version, correlation_id, client_id_length = _REQUEST_HEAD.unpack_from(frame)
        except Exception as error:
            raise MalformedFrame("a frame too short for a request header") from error
        found = route(api_key, version) if version >= 0 else None
        if found is None:
            self._refuse_version(api_key, version, correlation_id)
            return
        position = 10
        if client_id_length > 0:
            position += client_id_length
            raw = frame[10:position].tobytes()
            if raw != self._client_id_bytes:
                self._learn_client_id(raw, client_id_length)
        if found.flexible_request:
            if position < len(frame) and frame[position] == 0:
                position += 1
            else:
                _, position = headers.read_request_header(frame)
        request, _ = found.decode(frame, position)
        self._dispatch(found, correlation_id, request)

    def _learn_client_id(self, raw: bytes, length: int) -> None:
        if len(raw) < length:
            raise MalformedFrame("a client id that is longer than its frame")
        try:
            self._client_id = str(raw, "utf-8")
        except UnicodeDecodeError as error:
            raise MalformedFrame("a client id that is not UTF-8") from error
        self._client_id_bytes = raw
        self._contexts.clear()

    def _refuse_version(self, api_key: int, version: int, correlation_id: int) -> None:
        """Refuse what we do not serve: ApiVersions is answered in v0 so that the client can try again."""
        if api_key != _API_VERSIONS_KEY:
            name = API_BY_KEY[api_key].name if api_key in API_BY_KEY else "unknown"
            raise MalformedFrame(f"API {api_key} ({name}) is not served in version {version}")
        lowest = route(_API_VERSIONS_KEY, 0)
        assert lowest is not None
        self._dispatch(lowest, correlation_id, None)

    def _dispatch(self, found: Route, correlation_id: int, request: Message | None) -> None:
        context = self._contexts.get(found.version) or self._new_context(found.version)
        try:
            result = found.handle(context, request)
        except KafkaError as error:
            self._metrics.by_api[found.api.key].errors.value += 1
            result = _error_response(found, error)
        if result is None:
            return  # a Produce with acks=0 wants no answer
        answer = Answer(found, correlation_id, received_at=self.last_active_at)
        self._answers.append(answer)
        if type(result) is found.response_class:
            answer.response = result
        elif isinstance(result, Coroutine):
            self._run(found, answer, result)
        else:
            self._deferred[answer] = result
            self._turn_of_deferred.append(answer)
            self._metrics.waiting[found.api.key].value += 1

    def _new_context(self, version: int) -> RequestContext:
        """Return what handlers know of this client in this version; the same for all its requests."""
        context = self._contexts[version] = RequestContext(
            broker=self._broker,
            principal=ANONYMOUS,
            version=version,
            client_id=self._client_id,
            client_host=self._transport.peer,
            listener_name=self._listener_name,
        )
        return context

    # Answers --------------------------------------------------------------------------------------------------------

    def _run(self, found: Route, answer: Answer, work: Coroutine[Any, Any, Message]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(partial(self._task_done, found, answer))

    def _task_done(self, found: Route, answer: Answer, task: Task[Message]) -> None:
        self._tasks.discard(task)
        if self.closed or task.cancelled():
            return
        error = task.exception()
        if error is None:
            answer.response = task.result()
        elif isinstance(error, KafkaError):
            self._metrics.by_api[found.api.key].errors.value += 1
            try:
                answer.response = _error_response(found, error)
            except KafkaError:
                self.close(f"no answer carries this error: {error}")
                return
        else:
            events.error("request_failed", cause=error, api=found.api.name, peer=self._transport.peer)
            self.close(f"internal error: {error!r}")
            return
        self._send_answers()

    def _deferred_answered(self, answer: Answer, response: Message) -> None:
        if self.closed:
            return
        if self._deferred.pop(answer, None) is not None:
            self._metrics.waiting[answer.api_key].value -= 1
        answer.response = response
        if self._in_turn or self._send_is_due or answer is not self._answers[0]:
            return
        if len(self._answers) == 1:
            self._send_answers()
            return
        # What one became ready by, the next ones often do as well: they leave together.
        self._send_is_due = True
        self._loop.call_soon(self._send_due_answers)

    def _send_due_answers(self) -> None:
        if self._send_is_due and not self.closed:
            self._send_answers()

    def _send_answers(self) -> None:
        """Encode the answers whose turn has come, and send."""
        self._send_is_due = False
        answers = self._answers
        now = self._loop.time()
        while answers and answers[0].response is not None:
            answer = answers.popleft()
            try:
                answer.write_to(self._outbox)
            except FileUnreadable as error:
                self._disk_failed(error)
                return
            except Exception as error:  # noqa: BLE001 - a bug of ours costs this connection
                events.error("answer_failed", cause=error, peer=self._transport.peer)
                self.close(f"no answer could be made: {error!r}")
                return
            api = self._metrics.by_api[answer.api_key]
            api.requests.value += 1
            api.latency.observe_us(int((now - answer.received_at) * 1_000_000))
        if self._outbox and not self._writing:
            self._send()
        self._apply_back_pressure()

    def _send(self) -> None:
        outbox = self._outbox
        if outbox.waits_for_disk():
            return
        try:
            self._metrics.sent.value += outbox.send(self._transport)
        except FileUnreadable as error:
            self._disk_failed(error)
            return
        except OSError as error:
            self.close(f"send failed: {error.strerror or error}")
            return
        cold = outbox.cold_head
        if cold is not None:
            self._loop.run_in_executor(self._broker.disk_threads, cold.warm).add_done_callback(self._warmed)
        wants_to_write = bool(outbox) and cold is None
        if wants_to_write is not self._writing:
            self._writing = wants_to_write
            self._transport.watch_writable(self._on_writable if wants_to_write else None)

    def _disk_failed(self, error: FileUnreadable) -> None:
        """Have the log dir taken offline, and let the peer ask again: half an answer may be on its way."""
        self._broker.replicas.reading_failed(error.file, error.error)
        self.close(str(error))

    def _warmed(self, done: Future[None]) -> None:
        """Go on sending after a thread has read what was cold."""
        if self.closed or done.cancelled():
            return
        error = done.exception()
        if error is not None:
            assert self._outbox.cold_head is not None
            if isinstance(error, OSError):
                self._disk_failed(FileUnreadable(self._outbox.cold_head.file, error))
            else:
                self.close(f"reading the log failed: {error!r}")
            return
        self._outbox.head_is_warm()
        self._send()
        self._apply_back_pressure()

    def _on_writable(self) -> None:
        self.last_active_at = self._loop.time()
        self._send()
        self._apply_back_pressure()

    def _apply_back_pressure(self) -> None:
        """Read no further requests from a peer that does not take its answers."""
        if self.closed:
            return
        congested = (
            self._outbox.held_bytes > MAX_HELD_BYTES
            or len(self._answers) > MAX_WAITING_ANSWERS
            or (bool(self._deferred) and self._broker.recompression.is_full)
        )
        if congested is self._reading:
            self._reading = not congested
            self._transport.watch_readable(None if congested else self._on_readable)

    def is_dead(self) -> bool:
        """Return whether the peer is known to be gone."""
        return self._transport.is_dead()

    def close(self, reason: str) -> None:
        """Close the connection and forget everything that it waits for; what is ready to be sent is sent."""
        self._send_due_answers()
        if self.closed:
            return
        self.closed = True
        events.debug("connection_closed", peer=self._transport.peer, reason=reason)
        self._transport.close()
        for answer, deferred in self._deferred.items():
            self._metrics.waiting[answer.api_key].value -= 1
            deferred.cancel()
        self._deferred.clear()
        self._answers.clear()
        for task in self._tasks:
            task.cancel()
        self._on_close(self)


def _error_response(found: Route, error: KafkaError) -> Message:
    """Return the API's response with this error at its top, or raise the error: then the connection is closed."""
    response_class = found.response_class
    if all(field.name != "error_code" for field in response_class.FIELDS):
        raise error
    response = response_class()
    response.error_code = error.code  # type: ignore[attr-defined]
    return response
