"""Consumers that are told what to read, and the last reading of everything when the faults are over."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from highwater.broker.peer import PeerGone
from highwater.model.errors import ErrorCode, KafkaError
from highwater.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from highwater.protocol.records.batch import checksum, iter_batches
from highwater.protocol.records.control import MarkerType, read_marker
from highwater.protocol.records.record import read_records
from highwater_history.history import Drain, Poll, Seek
from highwater_sim.client import EARLIEST, PAUSE_S, Client

if TYPE_CHECKING:
    from collections.abc import Sequence

    from highwater_history.history import History, Place
    from highwater_sim.cluster import Cluster

FETCH_VERSION: Final = 12
MAX_WAIT_MS: Final = 500
MAX_BYTES: Final = 64 * 1024


class Fetched:
    """What one answer holds: records that a reader may see, and where to go on."""

    def __init__(self, data: PartitionData, position: int, *, only_committed: bool) -> None:
        self.records: list[tuple[int, str]] = []
        self.position = position
        self.leader_epoch = -1
        """Of the last batch; -1 if there is none."""
        self.high_watermark = data.high_watermark
        self.last_stable_offset = data.last_stable_offset
        aborted = sorted((one.first_offset, one.producer_id) for one in data.aborted_transactions or ())
        in_aborted: set[int] = set()
        raw = memoryview(data.records or b"")  # type: ignore[arg-type]  # what is received lies in memory
        for at, header in iter_batches(raw):
            batch = raw[at : at + header.size]
            if checksum(raw, at, header.size) != header.crc:
                # As every real client does: what is damaged is no data.
                raise KafkaError(f"the batch at {header.base_offset} is damaged", code=ErrorCode.CORRUPT_MESSAGE)
            while aborted and aborted[0][0] <= header.last_offset:
                in_aborted.add(aborted.pop(0)[1])
            records = read_records(batch)
            if header.is_control:
                marker = read_marker(records[0])
                if marker is not None and marker.type is MarkerType.ABORT:
                    in_aborted.discard(header.producer_id)
            elif not (only_committed and header.is_transactional and header.producer_id in in_aborted):
                self.records += [
                    (record.offset, (record.value or b"").decode()) for record in records if record.offset >= position
                ]
            self.position = max(self.position, header.next_offset)
            self.leader_epoch = header.leader_epoch


class Consumer(Client):
    """Reads partitions from their beginning, for ever."""

    def __init__(self, cluster: Cluster, name: str, history: History, *, only_committed: bool = False) -> None:
        super().__init__(cluster, name, history)
        self._only_committed = only_committed

    async def run(self, places: Sequence[Place]) -> None:
        """Read all these partitions at once."""
        await asyncio.gather(*(self._read(place) for place in places))

    async def _read(self, place: Place) -> None:
        position = 0
        self.history.add(Seek(self.name, self.now, place, 0, "start"))
        while True:
            try:
                fetched = await self.fetch(place, position)
            except KafkaError as error:
                if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                    position = 0
                    self.history.add(Seek(self.name, self.now, place, 0, "out of range"))
                self.forget_leader(place)
                await asyncio.sleep(PAUSE_S)
                continue
            if fetched.records:
                self.seen(place, position, fetched)
            position = fetched.position

    def seen(self, place: Place, start: int, fetched: Fetched, *, group: str | None = None) -> None:
        """Write down what was read."""
        self.history.add(
            Poll(
                client=self.name,
                at=self.now,
                place=place,
                start=start,
                records=fetched.records,
                high_watermark=fetched.high_watermark,
                only_committed=self._only_committed,
                group=group,
            )
        )

    async def fetch(
        self, place: Place, position: int, *, max_wait_ms: int = MAX_WAIT_MS, only_committed: bool | None = None
    ) -> Fetched:
        """Ask the leader for what comes next. KafkaError if it does not tell."""
        leader, epoch = await self.leader_of(place)
        is_committed = self._only_committed if only_committed is None else only_committed
        wanted = FetchPartition(
            partition=place.partition,
            current_leader_epoch=epoch,
            fetch_offset=position,
            partition_max_bytes=MAX_BYTES,
        )
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            isolation_level=int(is_committed),
            topics=[FetchTopic(topic=place.topic, partitions=[wanted])],
        )
        return Fetched(await self.answer_to(request, leader, place), position, only_committed=is_committed)

    async def answer_to(self, request: FetchRequest, broker: int, place: Place) -> PartitionData:
        """Return what a broker answers for the only partition of a fetch. KafkaError if it refuses."""
        answer = await self.ask(broker, request, FetchResponse, version=FETCH_VERSION)
        if answer.error_code or not answer.responses:
            raise PeerGone(f"the fetch of {place} was refused: {answer.error_code}")
        data = answer.responses[0].partitions[0]
        if data.error_code:
            code = ErrorCode(data.error_code)
            raise KafkaError(f"{place} answers {code.name}", code=code)
        return data

    async def drain(self, place: Place) -> None:
        """Read a partition from its beginning to its end, twice: everything, and what is committed."""
        start = await self._start_of(place)
        seen, end, _ = await self._read_all(place, start, only_committed=False)
        committed, _, stable_end = await self._read_all(place, start, only_committed=True)
        self.history.add(Drain(self.now, place, seen, committed, end, stable_end))

    async def _start_of(self, place: Place) -> int:
        while True:
            try:
                return await self.offset_of(place, EARLIEST)
            except KafkaError:
                self.forget_leader(place)
                await asyncio.sleep(PAUSE_S)

    async def _read_all(
        self, place: Place, position: int, *, only_committed: bool
    ) -> tuple[list[tuple[int, str]], int, int]:
        records = list[tuple[int, str]]()
        while True:
            try:
                fetched = await self.fetch(place, position, max_wait_ms=0, only_committed=only_committed)
            except KafkaError:
                self.forget_leader(place)
                await asyncio.sleep(PAUSE_S)
                continue
            records += fetched.records
            end = fetched.last_stable_offset if only_committed else fetched.high_watermark
            if fetched.position >= end:
                return records, fetched.high_watermark, fetched.last_stable_offset
            if fetched.position == position:
                await asyncio.sleep(PAUSE_S)
            position = fetched.position
