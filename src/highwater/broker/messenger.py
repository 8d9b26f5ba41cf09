"""What the controller has to tell one broker: gathered while the broker is busy, told in its newest form until heard.

What is to be told is kept as names, never as requests. However long a broker does not answer, no more waits for it than
there are partitions, and what it hears in the end is what is true then.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

from highwater.broker.peer import PeerSilent
from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import BrokerId, TopicPartition
from highwater.model.log_events import EventLog
from highwater.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from highwater.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from highwater.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from highwater.broker.controller_news import ControllerNews
    from highwater.broker.peer import Peer
    from highwater.broker.roles import Roles

events = EventLog("broker")

LEADER_AND_ISR_VERSION: Final = 6
STOP_REPLICA_VERSION: Final = 3
UPDATE_METADATA_VERSION: Final = 8
_PARTITIONS_AT_ONCE: Final = 2000
_FOR_GOOD: Final = frozenset({ErrorCode.STALE_CONTROLLER_EPOCH, ErrorCode.STALE_BROKER_EPOCH})
"""Answers after which there is nothing to tell any more: to anybody, or to this registration."""
_FIRST_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 1.0


class Listener(Protocol):
    """A broker that can be told things."""

    async def lead_and_follow(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        """Tell whom to lead and to follow."""

    async def stop(self, request: StopReplicaRequest) -> StopReplicaResponse:
        """Tell what to delete."""

    async def learn(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        """Tell what clients may ask."""


class RemoteListener:
    """Another broker; this broker itself is told by its `Roles` directly."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    async def lead_and_follow(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        """Tell whom to lead and to follow."""
        return await self._peer.ask(request, LeaderAndIsrResponse, version=LEADER_AND_ISR_VERSION)

    async def stop(self, request: StopReplicaRequest) -> StopReplicaResponse:
        """Tell what to delete."""
        return await self._peer.ask(request, StopReplicaResponse, version=STOP_REPLICA_VERSION)

    async def learn(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        """Tell what clients may ask."""
        return await self._peer.ask(request, UpdateMetadataResponse, version=UPDATE_METADATA_VERSION)


class Reports(Protocol):
    """Who wants to know what brokers answered."""

    def replicas_stopped(self, broker: BrokerId, registration: int, names: frozenset[TopicPartition]) -> None:
        """A broker has deleted its replicas."""

    def replicas_failed(self, broker: BrokerId, registration: int, names: frozenset[TopicPartition]) -> None:
        """A broker cannot serve its replicas."""

    def replicas_served(self, broker: BrokerId, registration: int, names: frozenset[TopicPartition]) -> None:
        """A broker leads or follows as it was told."""

    def deposed(self) -> None:
        """A broker has heard of a newer controller."""

    def not_heard(self) -> None:
        """A broker does not answer."""


class Messenger:
    """Tells one registration of one broker."""

    def __init__(
        self,
        broker: BrokerId,
        registration: int,
        listener: Listener | Roles,
        news: ControllerNews,
        reports: Reports,
    ) -> None:
        self._broker = broker
        self.registration = registration
        self._listener = listener
        self._news = news
        self._reports = reports
        self._roles: set[TopicPartition] = set()
        self._stops: set[TopicPartition] = set()
        self._metadata: set[TopicPartition] | None = set()  # None: everything
        self._tells_metadata = False
        self._has_news = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self.is_heard = True
        """Whether the broker answered when it was last told something."""
        self._task: asyncio.Task[None] | None = None

    def start(self, spawn: Callable[..., asyncio.Task[None]]) -> None:
        """Begin to tell."""
        self._task = spawn(self._run())

    def close(self) -> None:
        """Tell nothing any more; who waits for it to be told waits no longer."""
        if self._task is not None:
            self._task.cancel()
        self._is_idle.set()

    # What there is to tell ------------------------------------------------------------------------------------------

    def tell_roles(self, names: Iterable[TopicPartition]) -> None:
        """Tell whom to lead and to follow in these partitions."""
        self._roles.update(names)
        self._stops.difference_update(names)
        self._wake()

    def tell_stops(self, names: Iterable[TopicPartition]) -> None:
        """Tell that these replicas shall be deleted."""
        self._stops.update(names)
        self._roles.difference_update(names)
        self._wake()

    def tell_metadata(self, names: Iterable[TopicPartition]) -> None:
        """Tell what clients may ask about these partitions, and who is alive."""
        if self._metadata is not None:
            self._metadata.update(names)
        self._tells_metadata = True
        self._wake()

    def tell_everything(self) -> None:
        """Tell what clients may ask about all partitions, and who is alive."""
        self._metadata = None
        self._tells_metadata = True
        self._wake()

    @property
    def has_told(self) -> bool:
        """Whether the broker has heard everything."""
        return self._is_idle.is_set()

    async def told(self) -> None:
        """Return once the broker has heard everything, or is gone."""
        await self._is_idle.wait()

    def _wake(self) -> None:
        self._has_news.set()
        self._is_idle.clear()

    # Telling --------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            await self._has_news.wait()
            self._has_news.clear()
            try:
                await self._tell()
            except KafkaError as error:
                if error.code in _FOR_GOOD:
                    self._refused_for_good(error)
                    return
                events.info("broker_not_told", broker=self._broker, reason=str(error), code=error.code.name)
                if isinstance(error, PeerSilent):
                    self.is_heard = False
                    self._reports.not_heard()
                self._has_news.set()
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                continue
            pause_s = _FIRST_PAUSE_S
            self.is_heard = True
            if not self._has_news.is_set():
                self._is_idle.set()

    def _refused_for_good(self, error: KafkaError) -> None:
        events.warning("broker_refused", broker=self._broker, reason=str(error), code=error.code.name)
        if error.code is ErrorCode.STALE_CONTROLLER_EPOCH:
            self._reports.deposed()
        self._is_idle.set()

    async def _tell(self) -> None:
        """Tell roles, then metadata, then what to delete; what could not be told, for whatever reason, stays.

        What comes up in the meantime is told in a round of its own: what brokers already know does not wait for it.
        """
        while self._roles or self._tells_metadata:
            metadata, self._metadata = self._metadata, set()
            tells_metadata, self._tells_metadata = self._tells_metadata, False
            try:
                await self._tell_the_roles(sorted(self._roles))
                if tells_metadata:
                    answer = await self._listener.learn(self._news.metadata(self.registration, metadata))
                    _check(answer.error_code)
            except KafkaError:
                self._tells_metadata = self._tells_metadata or tells_metadata
                self._metadata = None if metadata is None or self._metadata is None else self._metadata | metadata
                raise
        while self._stops:
            names = sorted(self._stops)[:_PARTITIONS_AT_ONCE]
            stopping = self._news.stops(self.registration, names)
            with _kept_if_untold(self._stops, names):
                self._stopped(await self._listener.stop(stopping))

    async def _tell_the_roles(self, names: list[TopicPartition]) -> None:
        for start in range(0, len(names), _PARTITIONS_AT_ONCE):
            piece = [name for name in names[start : start + _PARTITIONS_AT_ONCE] if name in self._roles]
            if not piece:
                continue  # they are to be deleted by now
            request = self._news.roles(self._broker, self.registration, piece)
            with _kept_if_untold(self._roles, piece):
                self._roles_taken(await self._listener.lead_and_follow(request), request)

    def _roles_taken(self, response: LeaderAndIsrResponse, request: LeaderAndIsrRequest) -> None:
        _check(response.error_code)
        topic_names = {topic.topic_id: topic.topic_name for topic in request.topic_states}
        answers: dict[int, set[TopicPartition]] = {ErrorCode.NONE: set(), ErrorCode.KAFKA_STORAGE_ERROR: set()}
        for topic in response.topics:
            for answer in topic.partition_errors:
                if answer.error_code in answers:
                    answers[answer.error_code].add(TopicPartition(topic_names[topic.topic_id], answer.partition_index))
        if served := answers[ErrorCode.NONE]:
            self._reports.replicas_served(self._broker, self.registration, frozenset(served))
        if failed := answers[ErrorCode.KAFKA_STORAGE_ERROR]:
            self._reports.replicas_failed(self._broker, self.registration, frozenset(failed))

    def _stopped(self, response: StopReplicaResponse) -> None:
        _check(response.error_code)
        stopped = frozenset(
            TopicPartition(answer.topic_name, answer.partition_index)
            for answer in response.partition_errors
            if answer.error_code == ErrorCode.NONE
        )
        if stopped:
            self._reports.replicas_stopped(self._broker, self.registration, stopped)


@contextmanager
def _kept_if_untold(waiting: set[TopicPartition], names: list[TopicPartition]) -> Iterator[None]:
    """Take names out of what waits to be told, and put them back if the broker did not take them."""
    waiting.difference_update(names)
    try:
        yield
    except KafkaError:
        waiting.update(names)
        raise


def _check(error_code: int) -> None:
    if error_code != ErrorCode.NONE:
        code = ErrorCode(error_code)
        raise KafkaError(f"the broker answers {code.name}", code=code)
