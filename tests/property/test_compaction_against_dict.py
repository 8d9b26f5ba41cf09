"""Whatever is written and however often it is compacted, a reader from the beginning ends up with the same table."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from highwater.protocol.records.compression import Codec
from highwater.protocol.records.record import Record
from highwater.storage.log_config import LogConfig
from highwater.testing.log_bench import LogBench, a_batch

PLAIN, IDEMPOTENT, TRANSACTIONAL = -1, 1, 2
RETENTION_MS = 1000

values = st.none() | st.binary(max_size=40)
changes = st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c", b"d" * 70]), values), min_size=1, max_size=3)


class CompactionAgainstDict(RuleBasedStateMachine):
    """Everything that was ever written, in order, beside the log that keeps less and less of it."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        config = LogConfig(
            compact=True,
            delete=False,
            segment_bytes=500,
            segment_index_bytes=1000,
            index_interval_bytes=100,
            delete_retention_ms=RETENTION_MS,
            segment_ms=10_000,
        )
        self.bench = LogBench(self.root / "t-0", config)
        self.written: dict[int, Record] = {}
        self.open_transaction: list[int] = []
        self.aborted: set[int] = set()
        self.sequences = {IDEMPOTENT: 0, TRANSACTIONAL: 0}

    def teardown(self) -> None:
        shutil.rmtree(self.root)

    @rule(
        producer_id=st.sampled_from([PLAIN, IDEMPOTENT, TRANSACTIONAL]),
        found=changes,
        codec=st.sampled_from([Codec.NONE, Codec.LZ4]),
    )
    def write(self, producer_id: int, found: list[tuple[bytes, bytes | None]], codec: Codec) -> None:
        base_offset = self.bench.log.log_end_offset
        sent = a_batch(
            *[value for _, value in found],
            keys=[key for key, _ in found],
            timestamps=[self.bench.now_ms] * len(found),
            producer_id=producer_id,
            sequence=self.sequences.get(producer_id, 0),
            transactional=producer_id == TRANSACTIONAL,
            codec=codec,
        )
        assert self.bench.append(sent).base_offset == base_offset
        if producer_id in self.sequences:
            self.sequences[producer_id] += len(found)
        for number, (key, value) in enumerate(found):
            offset = base_offset + number
            self.written[offset] = Record(offset, self.bench.now_ms, key, value)
            if producer_id == TRANSACTIONAL:
                self.open_transaction.append(offset)

    @rule(commit=st.booleans())
    def end_transaction(self, *, commit: bool) -> None:
        self.bench.end_transaction(TRANSACTIONAL, commit=commit)
        if not commit:
            self.aborted.update(self.open_transaction)
        self.open_transaction.clear()

    @rule()
    def roll(self) -> None:
        """Let the next batch begin a segment."""
        self.bench.now_ms += 20_000

    @rule(memory_bytes=st.sampled_from([300, 700, 100_000]))
    def compact(self, memory_bytes: int) -> None:
        before = self.bench.log.first_dirty_offset
        self.bench.compact(memory_bytes=memory_bytes)
        assert self.bench.log.first_dirty_offset >= before

    @rule(milliseconds=st.sampled_from([1, RETENTION_MS - 1, RETENTION_MS]))
    def wait(self, milliseconds: int) -> None:
        self.bench.now_ms += milliseconds

    @rule(clean=st.booleans())
    def restart(self, *, clean: bool) -> None:
        if clean:
            self.bench.log.close()
        first_dirty_offset = self.bench.log.first_dirty_offset
        self.bench.open(clean=clean)
        self.bench.log.first_dirty_offset = first_dirty_offset
        assert self.bench.log.report.notes == []

    @invariant()
    def a_reader_ends_up_with_the_same_table(self) -> None:
        end = self.bench.log.log_end_offset
        stable = self.bench.log.last_stable_offset(end)
        assert stable == (self.open_transaction[0] if self.open_transaction else end)
        records = self.bench.records()
        assert all(self.written[record.offset] == record for record in records)
        hidden = self.aborted | {offset for offset in self.written if offset >= stable}
        assert self.table(records, hidden) == self.table(list(self.written.values()), hidden)

    @staticmethod
    def table(records: list[Record], hidden: set[int]) -> dict[bytes | None, bytes]:
        found: dict[bytes | None, bytes | None] = {}
        for record in records:
            if record.offset not in hidden:
                found[record.key] = record.value
        return {key: value for key, value in found.items() if value is not None}

    @invariant()
    def aborted_records_that_are_there_are_told(self) -> None:
        log = self.bench.log
        told = log.aborted_transactions(0, log.log_end_offset)
        for record in self.bench.records():
            if record.offset in self.aborted:
                assert any(aborted.first_offset <= record.offset <= aborted.last_offset for aborted in told)

    @invariant()
    def producers_go_on_where_they_were(self) -> None:
        states = {state.producer_id: state.last_sequence for state in self.bench.log.producers}
        for producer_id, sequence in self.sequences.items():
            if sequence:
                assert states[producer_id] == sequence - 1


TestCompactionAgainstDict = CompactionAgainstDict.TestCase
TestCompactionAgainstDict.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
