"""Fetches from one leader for the partitions that follow it, over one connection, by the ordinary Fetch API.

What comes is appended as it came. Every fetch names the leader epoch that the follower knows and the epoch of its own
last record, so the first answer after a change of leader cuts the log back to what both have, before anything is
appended to it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from highwater.broker.fetch_session_client import FetchSessionClient, PartitionKey, Wanted
from highwater.broker.peer import Peer, PeerGone, PeerHungUp, PeerRefused
from highwater.model.errors import ErrorCode, KafkaError, MalformedFrame, StorageError
from highwater.model.ids import LeaderEpoch, Offset, TopicId
from highwater.model.log_events import EventLog
from highwater.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData, ReplicaState
from highwater.replication.truncation import EpochEnd

if TYPE_CHECKING:
    from asyncio import Task, TimerHandle
    from collections.abc import Callable

    from highwater.broker.partition import Partition
    from highwater.broker.replication_throttles import ReplicationThrottles
    from highwater.coordination.records import ListenerAddress
    from highwater.model.ids import BrokerId

events = EventLog("replication")

FETCH_VERSION: Final = 16
FIRST_PAUSE_S: Final = 0.02
GATHERING_S: Final = 0.01
"""How long partitions are gathered that come while a fetch waits at the leader, before the next one asks for them."""
MOST_UNDER_WAY: Final = 2
_NOTHING: Final = memoryview(b"")
_NOT_HEARD_YET: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Answers while one of two brokers has heard of a change by the controller and the other has not."""
_STRANGE_AFTER_S: Final = 0.5
""" ... which is over within moments. A thousand partitions whose leader died would be a thousand lines, of no use to
anybody, from brokers that have more urgent things to do."""


class FetcherSettings(NamedTuple):
    """How a follower fetches; see the settings `replica.fetch.*`."""

    min_bytes: int
    max_wait_ms: int
    partition_max_bytes: int
    response_max_bytes: int
    longest_pause_s: float
    timeout_s: float


class Leaders(Protocol):
    """What is known of other brokers."""

    def address_of(self, broker: BrokerId) -> ListenerAddress | None:
        """Return where a broker is reached, if it is alive."""

    def seems_gone(self, broker: BrokerId, gone: bool, /) -> None:  # noqa: FBT001 - a fact, not a switch
        """Know that a broker hung up and nobody listens at its address, or that this is not so."""


class Disk(Protocol):
    """What becomes of a partition's files."""

    def fail(self, partition: Partition, reason: str) -> None:
        """Serve the partition no longer."""

    async def sync(self, partition: Partition) -> None:
        """Return when what is written is on the disk."""


class _Followed:
    """One partition that this fetcher fetches for."""

    __slots__ = ("partition", "pause_s", "resume_at")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.pause_s = 0.0
        self.resume_at = 0.0

    def wanted(self, max_bytes: int) -> Wanted:
        """Return what to ask for."""
        log = self.partition.log
        return Wanted(
            log.log_end_offset,
            self.partition.leader_epoch,
            log.leader_epochs.latest,
            log.log_start_offset,
            max_bytes,
        )


class _UnderWay(NamedTuple):
    """A fetch that is not answered yet."""

    request: int
    response: Task[FetchResponse]


class ReplicaFetcher:
    """Fetches as long as there is anything to follow."""

    def __init__(
        self,
        me: BrokerId,
        leader: BrokerId,
        settings: FetcherSettings,
        *,
        leaders: Leaders,
        disk: Disk,
        throttles: ReplicationThrottles,
        now_ms: Callable[[], int],
        client_id: str,
    ) -> None:
        self._me = me
        self._leader = leader
        self._settings = settings
        self._leaders = leaders
        self._disk = disk
        self._throttles = throttles
        self._now_ms = now_ms
        self._client_id = client_id
        self._followed: dict[PartitionKey, _Followed] = {}
        self._session = FetchSessionClient()
        self._to_look_at: dict[PartitionKey, None] = {}
        """What may have to be asked for in another way than in the last request; all else costs nothing."""
        self._held_back: dict[PartitionKey, _Followed] = {}
        """What is not asked for at present: it rests after an error, or is throttled."""
        self._is_throttled = False
        self._peer: Peer | None = None
        self._has_work = asyncio.Event()
        self._under_way: deque[_UnderWay] = deque()
        """Fetches that are not answered yet: one, or two if partitions came while the first waits at the leader."""
        self._is_syncing = False
        self._interruption: TimerHandle | None = None
        self._is_interrupted = False
        """Whether it was us who hung up, to ask for more."""
        self._loop = asyncio.get_running_loop()

    def __len__(self) -> int:
        return len(self._followed)

    def add(self, partition: Partition) -> None:
        """Fetch for a partition, in the epoch that it is in, and soon: writers may wait for it."""
        key = partition.topic_id, partition.name.partition
        self._followed[key] = _Followed(partition)
        self._to_look_at[key] = None
        self._has_work.set()
        if self._under_way and self._interruption is None:
            self._interruption = self._loop.call_later(GATHERING_S, self._interrupt)

    def _interrupt(self) -> None:
        """Ask for what has come without waiting for the answer: the leader ends the wait of the fetch before."""
        self._interruption = None
        if not self._under_way or not self._to_look_at:
            return
        if not self._session.has_begun:
            # There is no other way to end the wait of a fetch outside of a session.
            if self._peer is not None and self._session.is_denied:
                self._is_interrupted = True
                self._peer.close()
        elif len(self._under_way) < MOST_UNDER_WAY and not self._is_syncing:
            self._send()
        else:
            self._interruption = self._loop.call_later(GATHERING_S, self._interrupt)

    def remove(self, partition: Partition) -> None:
        """Fetch for it no longer; an answer that is on its way is dropped."""
        key = partition.topic_id, partition.name.partition
        self._followed.pop(key, None)
        self._to_look_at[key] = None

    def close(self) -> None:
        """Hang up."""
        if self._interruption is not None:
            self._interruption.cancel()
        self._start_over()
        if self._peer is not None:
            self._peer.close()

    async def run(self) -> None:
        """Fetch until cancelled. A leader that cannot be reached is asked again after a pause that grows."""
        pause_s = FIRST_PAUSE_S
        while True:
            if not self._followed:
                self._has_work.clear()
            await self._has_work.wait()
            try:
                await self._fetch()
                pause_s = FIRST_PAUSE_S
                continue
            except PeerGone as error:
                if self._is_interrupted:
                    self._hang_up()
                    continue
                self._leaders.seems_gone(self._leader, isinstance(error, PeerRefused | PeerHungUp))
                events.info("leader_not_reached", leader=self._leader, reason=str(error))
            except MalformedFrame as error:
                events.error("bad_answer", leader=self._leader, reason=str(error))
            self._hang_up()
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, self._settings.longest_pause_s)

    def _hang_up(self) -> None:
        self._is_interrupted = False
        self._start_over()
        if self._peer is not None:
            self._peer.close()
            self._peer = None

    def _start_over(self) -> None:
        self._session.start_over()
        while self._under_way:
            response = self._under_way.pop().response
            if not response.cancel() and not response.cancelled():
                response.exception()  # The one before it has failed too, and told why.

    async def _fetch(self) -> None:
        """Ask for all that is followed and not held back, unless that is under way, and act upon the answer."""
        if not self._under_way and not self._send():
            await asyncio.sleep(FIRST_PAUSE_S)
            return
        request, asked = self._under_way[0]
        try:
            response = await asked
        finally:
            if self._under_way:
                self._under_way.popleft()
        if response.error_code:
            events.info("fetch_refused", leader=self._leader, code=response.error_code)
            self._start_over()
            await asyncio.sleep(FIRST_PAUSE_S)
            return
        await self._take(response, request)
        self._session.answered(response.session_id)
        if self._under_way and self._to_look_at:
            self._send()  # what waits at the leader by now does not say what we have, and writers wait to hear that

    def _send(self) -> bool:
        """Send a fetch; return False if there is nothing to ask for, because all is held back."""
        settings = self._settings
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=self._me),
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_max_bytes,
        )
        # The first fetch of a session does not wait for data: only when it is answered can others follow it.
        waits = self._session.has_begun or self._session.is_denied
        number = self._session.add_to(request, *self._changes())
        if not self._session:
            self._session.start_over()
            return False
        request.max_wait_ms = self._max_wait_ms() if waits else 0
        self._under_way.append(_UnderWay(number, self._loop.create_task(self._ask(request))))
        return True

    async def _ask(self, request: FetchRequest) -> FetchResponse:
        peer = self._peer or await self._connected()
        return await peer.ask(request, FetchResponse, version=FETCH_VERSION)

    def _changes(self) -> tuple[dict[PartitionKey, Wanted], list[PartitionKey]]:
        """Return what to ask for in another way than in the last request, and what to ask for no more.

        Only partitions are looked at that an answer told something about, that came or went, or that are held back;
        all of them when everything is asked for anew, or when the throttle has begun or ceased to hold back.
        """
        now, max_bytes = self._loop.time(), self._settings.partition_max_bytes
        was_throttled, self._is_throttled = self._is_throttled, self._throttles.fetches_too_fast
        if not self._session.has_begun or was_throttled is not self._is_throttled:
            self._to_look_at.update(dict.fromkeys(self._followed))
        self._to_look_at.update(dict.fromkeys(self._held_back))
        self._held_back.clear()
        changed: dict[PartitionKey, Wanted] = {}
        unwanted: list[PartitionKey] = []
        for key in self._to_look_at:
            one = self._followed.get(key)
            if one is None:
                unwanted.append(key)
            elif one.resume_at > now or self._throttles.holds_back_fetching(one.partition):
                unwanted.append(key)
                self._held_back[key] = one
            else:
                changed[key] = one.wanted(max_bytes)
        self._to_look_at.clear()
        return changed, unwanted

    def _max_wait_ms(self) -> int:
        """Return how long the leader may wait: not longer than until a partition that rests is to be tried again."""
        now = self._loop.time()
        rests_s = min((one.resume_at - now for one in self._held_back.values() if one.resume_at > now), default=None)
        if rests_s is None:
            return self._settings.max_wait_ms
        return min(self._settings.max_wait_ms, int(rests_s * 1000) + 1)

    async def _connected(self) -> Peer:
        address = self._leaders.address_of(self._leader)
        if address is None:
            raise PeerGone(f"nobody knows where broker {self._leader} is")
        peer = self._peer = Peer(address, client_id=self._client_id, timeout_s=self._settings.timeout_s)
        await peer.connect()
        self._leaders.seems_gone(self._leader, False)
        return peer

    # Answers --------------------------------------------------------------------------------------------------------

    async def _take(self, response: FetchResponse, request: int) -> None:
        max_bytes = self._settings.partition_max_bytes
        to_sync: list[Partition] = []
        for topic in response.responses:
            for data in topic.partitions:
                key = TopicId(topic.topic_id), data.partition_index
                followed, asked = self._followed.get(key), self._session.asked(key, request)
                if followed is None or asked is None:
                    continue  # it was asked again since, and that will be answered too; or it is followed no more
                if followed.wanted(max_bytes) == asked:  # otherwise its leader or its log is not what it was
                    self._take_partition(followed, data)
                    if followed.partition.wants_sync:
                        to_sync.append(followed.partition)
                if followed.resume_at or followed.wanted(max_bytes) != asked:
                    self._to_look_at[key] = None
        # The next fetch tells the leader that we have what we appended: if that promises a sync, it comes first.
        if to_sync:
            self._is_syncing = True
            try:
                await asyncio.gather(*map(self._disk.sync, to_sync))
            finally:
                self._is_syncing = False

    def _take_partition(self, followed: _Followed, data: PartitionData) -> None:
        partition = followed.partition
        try:
            if data.error_code:
                self._take_error(partition, data)
            elif data.diverging_epoch is not None:
                diverging = EpochEnd(
                    LeaderEpoch(data.diverging_epoch.epoch), Offset(max(data.diverging_epoch.end_offset, 0))
                )
                end = partition.truncate_to_leader(diverging, now_ms=self._now_ms())
                events.info("truncated", partition=partition.name, epoch=diverging.epoch, end=end)
            else:
                self._append(partition, data)
        except KafkaError as error:
            if isinstance(error, StorageError) and not partition.log.takes_writes:
                self._disk.fail(partition, str(error))
                return
            followed.pause_s = min(max(2 * followed.pause_s, FIRST_PAUSE_S), self._settings.longest_pause_s)
            followed.resume_at = self._loop.time() + followed.pause_s
            if is_worth_a_line(error.code, followed.pause_s, self._settings.longest_pause_s):
                events.warning(
                    "partition_not_fetched", partition=partition.name, code=error.code.name, reason=str(error)
                )
        else:
            followed.pause_s = followed.resume_at = 0.0

    def _append(self, partition: Partition, data: PartitionData) -> None:
        records = data.records
        assert records is None or isinstance(records, memoryview), "what is received lies in memory"
        if records is not None:
            self._throttles.fetched(partition, len(records))
        partition.append_from_leader(
            records if records is not None else _NOTHING,
            high_watermark=Offset(data.high_watermark),
            log_start_offset=Offset(data.log_start_offset),
            now_ms=self._now_ms(),
        )

    def _take_error(self, partition: Partition, data: PartitionData) -> None:
        """Begin anew where the leader's log starts if all that we have is older; otherwise raise, and rest."""
        code = ErrorCode(data.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE and partition.log.log_end_offset <= data.log_start_offset:
            events.warning("log_restarted", partition=partition.name, at=data.log_start_offset)
            partition.restart_log(Offset(data.log_start_offset), now_ms=self._now_ms())
            return
        raise KafkaError(f"the leader answers {code.name}", code=code)


def is_worth_a_line(code: ErrorCode, pause_s: float, longest_pause_s: float) -> bool:
    """Return whether people should hear of a partition that cannot be fetched and is left alone for `pause_s`."""
    return code not in _NOT_HEARD_YET or pause_s >= min(_STRANGE_AFTER_S, longest_pause_s)
