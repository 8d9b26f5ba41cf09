"""Whatever is done to a log, in whatever order, it is a list of batches that survives restarts."""

import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from highwater.protocol.records.compression import Codec
from highwater.storage.log_config import LogConfig
from highwater.storage.producer_state import ProducedBatch, ProducerState
from highwater.testing.log_bench import NOW_MS, LogBench, a_batch

PLAIN = -1
IDEMPOTENT = (1, 2)
TRANSACTIONAL = (3, 4)


@dataclass(frozen=True)
class Batch:
    """What the list knows of a batch; a marker is one with `commits` set."""

    base_offset: int
    times: tuple[int, ...]
    values: tuple[bytes, ...]
    leader_epoch: int
    producer_id: int = PLAIN
    sequence: int = -1
    commits: bool | None = None

    @property
    def last_offset(self) -> int:
        return self.base_offset + len(self.times) - 1

    @property
    def is_marker(self) -> bool:
        return self.commits is not None


def expected_producers(history: list[Batch]) -> dict[int, ProducerState]:
    states: dict[int, ProducerState] = {}
    for batch in history:
        if batch.producer_id == PLAIN:
            continue
        before = states.get(batch.producer_id, ProducerState(batch.producer_id, 0, (), 0))
        if batch.is_marker:
            states[batch.producer_id] = ProducerState(batch.producer_id, 0, before.batches, batch.times[-1], 0, -1)
            continue
        size = len(batch.times)
        produced = ProducedBatch(batch.sequence + size - 1, batch.last_offset, size - 1, max(batch.times))
        first = before.transaction_first_offset
        if batch.producer_id in TRANSACTIONAL and first < 0:
            first = batch.base_offset
        states[batch.producer_id] = ProducerState(
            batch.producer_id, 0, (*before.batches, produced)[-5:], max(batch.times), before.coordinator_epoch, first
        )
    return states


def expected_aborted(history: list[Batch]) -> list[tuple[int, int, int]]:
    """Return (producer id, first offset, marker offset) of every aborted transaction."""
    open_since: dict[int, int] = {}
    aborted = []
    for batch in history:
        if batch.is_marker:
            first = open_since.pop(batch.producer_id, None)
            if first is not None and not batch.commits:
                aborted.append((batch.producer_id, first, batch.last_offset))
        elif batch.producer_id in TRANSACTIONAL:
            open_since.setdefault(batch.producer_id, batch.base_offset)
    return aborted


class LogAgainstList(RuleBasedStateMachine):
    """The log, and the list that it should be; `history` also holds what retention has deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.history: list[Batch] = []
        self.start = 0
        self.leader_epoch = 0
        self.flushed = 0

    def teardown(self) -> None:
        shutil.rmtree(self.root)

    @initialize(
        segment_bytes=st.integers(300, 3000),
        index_interval_bytes=st.sampled_from([0, 100, 1000]),
        segment_index_bytes=st.sampled_from([60, 1000, 10_000]),
    )
    def open_the_first_time(self, segment_bytes: int, index_interval_bytes: int, segment_index_bytes: int) -> None:
        config = LogConfig(
            segment_bytes=segment_bytes,
            segment_ms=1000,
            segment_index_bytes=segment_index_bytes,
            index_interval_bytes=index_interval_bytes,
            retention_ms=-1,
        )
        self.bench = LogBench(self.root / "t-0", config)

    @property
    def end(self) -> int:
        return self.history[-1].last_offset + 1 if self.history else self.start

    def next_sequence(self, producer_id: int) -> int:
        state = expected_producers(self.history).get(producer_id)
        return state.last_sequence + 1 if state is not None else 0

    # What may happen

    @rule(
        batches=st.lists(
            st.tuples(
                st.sampled_from([PLAIN, *IDEMPOTENT, *TRANSACTIONAL]),
                st.lists(st.integers(0, 3000), min_size=1, max_size=3),
                st.binary(max_size=150),
                st.sampled_from([Codec.NONE, Codec.GZIP]),
            ),
            min_size=1,
            max_size=4,
        )
    )
    def append_together(self, batches: list[tuple[int, list[int], bytes, Codec]]) -> None:
        for producer_id, delays, value, codec in batches:
            times = tuple(NOW_MS + delay for delay in delays)
            values = tuple(value + b"%d" % number for number in range(len(times)))
            sequence = self.next_sequence(producer_id) if producer_id != PLAIN else -1
            sent = a_batch(
                *values,
                timestamps=list(times),
                producer_id=producer_id,
                sequence=sequence,
                transactional=producer_id in TRANSACTIONAL,
                codec=codec,
            )
            staged = self.bench.log.stage(memoryview(sent), leader_epoch=self.leader_epoch, now_ms=NOW_MS)
            assert (staged.base_offset, staged.duplicate) == (self.end, False)
            self.history.append(Batch(self.end, times, values, self.leader_epoch, producer_id, sequence))
        self.bench.log.write_staged()

    @rule(producer_id=st.sampled_from(TRANSACTIONAL), commits=st.booleans())
    def end_a_transaction(self, producer_id: int, *, commits: bool) -> None:
        staged = self.bench.end_transaction(producer_id, commit=commits, leader_epoch=self.leader_epoch)
        assert staged.base_offset == self.end
        self.history.append(Batch(self.end, (NOW_MS,), (b"",), self.leader_epoch, producer_id, commits=commits))

    @precondition(lambda self: any(batch.producer_id in IDEMPOTENT for batch in self.history))
    @rule(data=st.data())
    def repeat_one_of_the_last_five(self, data: st.DataObject) -> None:
        states = expected_producers(self.history)
        producer_id = data.draw(st.sampled_from([known for known in IDEMPOTENT if known in states]))
        repeated = data.draw(st.sampled_from(states[producer_id].batches))
        count = repeated.offset_delta + 1
        sent = a_batch(*[b"again"] * count, producer_id=producer_id, sequence=repeated.first_sequence)
        staged = self.bench.append(sent, leader_epoch=self.leader_epoch)
        assert staged.duplicate
        assert (staged.base_offset, staged.last_offset) == (repeated.first_offset, repeated.last_offset)

    @rule()
    def elect_a_leader(self) -> None:
        self.leader_epoch += 1

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(max(0, self.start - 3), self.end + 1))
        if offset < self.bench.log.segments[0].base_offset:
            self.history, self.start = [], offset
        else:
            self.history = [batch for batch in self.history if batch.last_offset < offset]
            cut = self.history[-1].last_offset + 1 if self.history else 0
            self.start = min(self.start, max(cut, self.bench.log.segments[0].base_offset))
        self.bench.log.truncate_to(offset, now_ms=NOW_MS)
        self.flushed = min(self.flushed, self.end)

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        self.start = data.draw(st.integers(self.start, self.end))
        self.bench.log.delete_records_before(self.start)

    @rule(keep_bytes=st.integers(0, 5000))
    def retain(self, keep_bytes: int) -> None:
        self.bench.log.config = replace(self.bench.config, retention_bytes=keep_bytes)
        for segment in self.bench.log.apply_retention(NOW_MS, high_watermark=self.end):
            segment.remove()
        self.start = max(self.start, self.bench.log.segments[0].base_offset)

    @rule()
    def flush(self) -> None:
        self.bench.log.flush()
        self.flushed = self.end

    @rule()
    def stop_and_start(self) -> None:
        self.bench.log.close()
        self.bench.open(clean=True, log_start_offset=self.start)
        assert self.bench.log.report.notes == []

    @rule(garbage=st.binary(max_size=200), share=st.floats(0, 1))
    def crash_and_start(self, garbage: bytes, share: float) -> None:
        path = self.bench.log.segments.active.path
        path.write_bytes(path.read_bytes()[: self.bench.log.segments.active.size] + garbage)
        self.bench.open(clean=False, recovery_point=int(self.flushed * share), log_start_offset=self.start)
        assert self.bench.log.report.cut_bytes == len(garbage)

    # What must always hold

    @invariant()
    def it_is_the_list(self) -> None:
        if not hasattr(self, "bench"):
            return
        log = self.bench.log
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        kept = [
            (batch.base_offset + number, time, batch.values[number])
            for batch in self.history
            for number, time in enumerate(batch.times)
            if not batch.is_marker and batch.base_offset + number >= self.start
        ]
        markers = {batch.base_offset for batch in self.history if batch.is_marker}
        found = [(r.offset, r.timestamp, r.value) for r in self.bench.records() if r.offset not in markers]
        assert found == kept
        for time in (NOW_MS, NOW_MS + 1500):
            by_time = log.offset_for_timestamp(time)
            expected = next((offset for offset, timestamp, _ in kept if timestamp >= time), None)
            expected_marker = min((offset for offset in markers if offset >= self.start), default=None)
            if time == NOW_MS and expected_marker is not None:
                expected = min(expected_marker, expected if expected is not None else expected_marker)
            assert (by_time.offset if by_time is not None else None) == expected

    @invariant()
    def it_knows_its_producers(self) -> None:
        if not hasattr(self, "bench"):
            return
        log, states = self.bench.log, expected_producers(self.history)
        found = {state.producer_id: state for state in log.producers}
        assert {key: replace_markers(state) for key, state in found.items()} == {
            key: replace_markers(state) for key, state in states.items()
        }
        unstable = min(
            (s.transaction_first_offset for s in states.values() if s.has_open_transaction), default=self.end
        )
        assert log.last_stable_offset(self.end) == min(self.end, max(unstable, self.start))
        aborted = [
            (a.producer_id, a.first_offset, a.last_offset) for a in log.aborted_transactions(self.start, self.end)
        ]
        assert aborted == sorted(
            (entry for entry in expected_aborted(self.history) if entry[2] >= self.start), key=lambda entry: entry[1]
        )

    @invariant()
    def it_knows_its_leaders(self) -> None:
        if not hasattr(self, "bench"):
            return
        epochs = self.bench.log.leader_epochs
        for batch in self.history:
            if batch.base_offset >= self.start:
                assert epochs.epoch_at(batch.base_offset) == batch.leader_epoch


def replace_markers(state: ProducerState) -> tuple[object, ...]:
    """Leave out when the last batch was sent: a snapshot has one time for the producer, not one for each batch."""
    return (
        state.epoch,
        tuple((batch.last_sequence, batch.last_offset, batch.offset_delta) for batch in state.batches),
        state.last_timestamp,
        state.transaction_first_offset,
    )


TestLogAgainstList = LogAgainstList.TestCase
TestLogAgainstList.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
