"""Each task encodes and sends the records of the partitions that it alone owns.

Runs on executors, over Arrow batches. What happened is returned as rows: an error raised here would make Spark try the
task again, in a transaction that its first attempt has already written to.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from highwater.protocol.records.batch import MAGIC, NO_LEADER_EPOCH, TRANSACTIONAL, BatchHeader
from highwater.protocol.records.compression import Codec, compress
from highwater.protocol.records.record import assemble
from highwater_spark.errors import BrokerAway, PipelineError
from highwater_spark.exactly_once.brokers import Brokers, Target
from highwater_spark.exactly_once.encoding import Columns, Payload, encode
from highwater_spark.exactly_once.parcels import gathered, unpacked
from highwater_spark.exactly_once.reuse import sparing
from highwater_spark.exactly_once.routing import COMPLAINT, Routing
from highwater_spark.exactly_once.security import Security
from highwater_spark.exactly_once.sending import Sender, SendFailed
from highwater_spark.exactly_once.transaction import Identity

REPORT_SCHEMA: Final = (
    "task int, attempt int, stage int, what string, number int, records bigint, bytes bigint, text string"
)
BATCH_BYTES: Final = 512 << 10
_CUT: Final = 61

TASK, WRITTEN, COUNTED, FAILED, AWAY, REFUSED = "task", "written", "counted", "failed", "away", "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class SendTask:
    """All that a task must know; it is sent to the executors."""

    bootstrap: str
    security: Security
    patience_seconds: float
    identity: Identity
    targets: tuple[Target, ...]
    codec: Codec
    on_send: Callable[[], None] | None = None  # called whenever a task has sent something

    def report(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Send records (see `routing`) and report: one row for the task, one for each partition, label and error."""
        context = TaskContext.get()
        assert context is not None, "this runs in a task"
        report = Report(context.partitionId(), context.attemptNumber(), context.stageId())
        owner = Owner(self, context.taskAttemptId(), report)
        try:
            with Brokers(self.bootstrap, self.security, self.patience_seconds) as brokers:
                sender = Sender(brokers, self.identity.transactional_id, {target.topic for target in self.targets})
                for records in gathered(batches):
                    owner.send(records, sender)
                    if self.on_send is not None:
                        sender.flush()
                        self.on_send()
                sender.flush()
        except SendFailed as error:
            report.add(FAILED, text=str(error))
        except BrokerAway as error:
            report.add(AWAY, text=str(error))
        except PipelineError as error:
            report.add(REFUSED, text=str(error))
        except Exception as error:  # noqa: BLE001 - the driver tells it; see the module's docstring
            report.add(REFUSED, text=f"{type(error).__name__}: {error}")
        owner.tell()
        yield report.rows()


@dataclass(frozen=True, slots=True)
class UnpackAndSend:
    """After the shuffle: sends what is in the parcels of a task."""

    sending: SendTask

    @sparing
    def __call__(self, parcels: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Send the records of all parcels."""
        return self.sending.report(unpacked(parcels))


@dataclass(frozen=True, slots=True)
class RouteAndSend:
    """Both sides of the shuffle in one, where one task owns everything."""

    routing: Routing
    sending: SendTask

    @sparing
    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Route and send all records."""
        return self.sending.report(self.routing(batches))


class Report:
    """The rows that a task returns."""

    def __init__(self, task: int, attempt: int, stage: int) -> None:
        self._who = (task, attempt, stage)
        self._rows: list[tuple[str, int, int, int, str | None]] = [(TASK, 0, 0, 0, None)]

    def add(self, what: str, number: int = 0, records: int = 0, size: int = 0, text: str | None = None) -> None:
        """Add a row."""
        self._rows.append((what, number, records, size, text))

    def rows(self) -> pa.RecordBatch:
        """Return all rows, by `REPORT_SCHEMA`."""
        whats, numbers, records, sizes, texts = zip(*self._rows, strict=True)
        same = [pa.array([part] * len(self._rows), pa.int32()) for part in self._who]
        told = [
            pa.array(whats),
            pa.array(numbers, pa.int32()),
            pa.array(records, pa.int64()),
            pa.array(sizes, pa.int64()),
            pa.array(texts, pa.string()),
        ]
        return pa.RecordBatch.from_arrays(
            [*same, *told], ["task", "attempt", "stage", "what", "number", "records", "bytes", "text"]
        )


class Owner:
    """The partitions that a task writes to, and how far each is."""

    def __init__(self, task: SendTask, attempt_id: int, report: Report) -> None:
        self._task = task
        self._report = report
        # Two attempts of a task, or two tasks that both believe to own a partition, must not be taken for one: they cut
        # the first batches differently, so the second meets a sequence number that does not fit, instead of being told
        # that its records are there already.
        self._first_cuts = (1 + attempt_id % _CUT, 1 + attempt_id // _CUT % _CUT)
        self._records: dict[int, int] = {}  # written so far, by number of the target
        self._bytes: dict[int, int] = {}  # the same, before compression
        self._counts: dict[int, int] = {}  # rows, by number of the label
        self._cuts_left: dict[int, tuple[int, ...]] = {}

    def send(self, rows: pa.Table, sender: Sender) -> None:
        """Encode and send rows of any number of targets."""
        targets = rows.column("target").to_numpy()
        complaints = np.flatnonzero(targets == COMPLAINT)
        if len(complaints):
            said = rows.column("value")[int(complaints[0])].as_py().decode(errors="replace")
            raise PipelineError(
                f"{len(complaints)} records name a topic or partition that the sink does not have: {said}"
            )
        for label, count in enumerate(np.bincount(targets // len(self._task.targets))):
            self._counts[label] = self._counts.get(label, 0) + int(count)
        targets = targets % len(self._task.targets)
        columns = _columns(rows)
        order = np.argsort(targets, kind="stable")
        boundaries = np.flatnonzero(np.diff(targets[order])) + 1
        for chosen in np.split(order, boundaries):
            self._send(int(targets[chosen[0]]), columns.take(chosen), sender)

    def _send(self, number: int, columns: Columns, sender: Sender) -> None:
        cuts = self._cuts_left.get(number, self._first_cuts)
        now_ms = time.time_ns() // 1_000_000
        payloads = encode(columns, batch_bytes=BATCH_BYTES, first_cuts=cuts)
        self._cuts_left[number] = cuts[len(payloads) :]
        for payload in payloads:
            sequence = self._records.get(number, 0)
            sender.send(self._task.targets[number], self._batch(payload, sequence, now_ms))
            self._records[number] = sequence + payload.count
            self._bytes[number] = self._bytes.get(number, 0) + len(payload.data)

    def _batch(self, payload: Payload, sequence: int, now_ms: int) -> bytearray:
        header = BatchHeader(
            base_offset=0,
            batch_length=0,
            leader_epoch=NO_LEADER_EPOCH,
            magic=MAGIC,
            crc=0,
            attributes=self._task.codec | TRANSACTIONAL,
            last_offset_delta=payload.count - 1,
            base_timestamp=now_ms,
            max_timestamp=now_ms,
            producer_id=self._task.identity.producer_id,
            producer_epoch=self._task.identity.epoch,
            base_sequence=sequence & 0x7FFF_FFFF,
            record_count=payload.count,
        )
        data = payload.data if self._task.codec is Codec.NONE else compress(self._task.codec, payload.data)
        return assemble(header, data)

    def tell(self) -> None:
        """Report how many records went where."""
        for number, records in self._records.items():
            self._report.add(WRITTEN, number, records, self._bytes[number])
        for label, rows in self._counts.items():
            self._report.add(COUNTED, label, rows)


def _columns(rows: pa.Table) -> Columns:
    def one(name: str) -> pa.Array:
        column = rows.column(name)
        return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)

    return Columns(one("key"), one("value"), one("headers") if "headers" in rows.column_names else None)
