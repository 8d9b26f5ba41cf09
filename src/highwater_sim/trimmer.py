"""An administrator who deletes the older records of a partition, all the time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from highwater.model.errors import KafkaError
from highwater.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from highwater_history.history import Trim
from highwater_sim.client import LATEST, Client, check

if TYPE_CHECKING:
    from highwater_history.history import Place

TIMEOUT_MS: Final = 2000


class Trimmer(Client):
    """Asks the leader; that it does not get an answer is no news."""

    async def run(self, place: Place, *, pause_s: float) -> None:
        """Delete something for ever."""
        start = 0
        while True:
            await self.rest(pause_s)
            try:
                end = await self.offset_of(place, LATEST)
                start = self.random.randint(start, max(start, end))
                await self._delete(place, before=start)
            except KafkaError:
                self.forget_leader(place)

    async def _delete(self, place: Place, *, before: int) -> None:
        trim = Trim(self.name, self.now, place, before)
        self.history.add(trim)
        partition = DeleteRecordsPartition(partition_index=place.partition, offset=before)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=place.topic, partitions=[partition])], timeout_ms=TIMEOUT_MS
        )
        leader, _ = await self.leader_of(place)
        answer = await self.ask(leader, request, DeleteRecordsResponse, version=2)
        check(answer.topics[0].partitions[0].error_code)
        trim.outcome, trim.done_at = "ok", self.now
