"""Compaction keeps what idempotence and transactions need, and nothing else of them."""

from dataclasses import replace
from pathlib import Path

import pytest

from highwater.storage.log_config import LogConfig
from highwater.testing.log_bench import NOW_MS, LogBench, a_batch

DAY_MS = 24 * 60 * 60 * 1000
ALL = 2**40
CONFIG = LogConfig(compact=True, delete=False, segment_bytes=500, index_interval_bytes=0, delete_retention_ms=DAY_MS)


class Keyed:
    """A log of keyed records, written by several producers."""

    def __init__(self, folder: Path) -> None:
        self.bench = LogBench(folder, CONFIG)
        self.sequences: dict[int, int] = {}

    def write(self, key: bytes, value: bytes, *, producer_id: int = -1, transactional: bool = False) -> int:
        sequence = self.sequences.get(producer_id, 0)
        self.sequences[producer_id] = sequence + 1
        batch = a_batch(value, keys=[key], producer_id=producer_id, sequence=sequence, transactional=transactional)
        return self.bench.append(batch).base_offset

    def roll(self) -> None:
        self.bench.log.config = replace(CONFIG, segment_ms=0)
        self.bench.append(a_batch(b"", keys=[b"filler"], timestamps=[NOW_MS + 60_000 + self.bench.log.log_end_offset]))
        self.bench.log.config = CONFIG

    def compact(self) -> None:
        self.roll()
        self.bench.compact()

    def pairs(self) -> dict[bytes | None, bytes | None]:
        return {record.key: record.value for record in self.bench.records() if record.key != b"filler"}

    def markers(self) -> int:
        headers = [header for segment in self.bench.log.segments for _, header in segment.headers()]
        return sum(header.is_control and header.record_count > 0 for header in headers)


@pytest.fixture
def log(tmp_path: Path) -> Keyed:
    return Keyed(tmp_path / "t-0")


def test_the_sequence_of_a_producer_is_known_although_its_records_are_gone(log: Keyed) -> None:
    """After a restart without snapshots the log alone must say which sequence comes next."""
    for number in range(12):
        log.write(b"k", b"%d" % number, producer_id=7)
    for _ in range(12):
        log.write(b"k", b"later")
    states = [(state.producer_id, state.last_sequence, state.last_offset) for state in log.bench.log.producers]
    log.compact()
    assert log.pairs() == {b"k": b"later"}
    shells = [
        header for segment in log.bench.log.segments for _, header in segment.headers() if header.record_count == 0
    ]
    assert (7, 11) in [(shell.producer_id, shell.last_sequence) for shell in shells]
    for path in log.bench.folder.glob("*.snapshot"):
        path.unlink()
    log.bench.open(clean=False)
    assert [(s.producer_id, s.last_sequence, s.last_offset) for s in log.bench.log.producers] == states
    log.write(b"k", b"next", producer_id=7)


def test_a_shell_goes_when_its_producer_is_forgotten(log: Keyed) -> None:
    for _ in range(3):
        log.write(b"k", b"1", producer_id=7)
    for number in range(30):
        log.write(b"k", b"%d" % number)
    log.compact()
    log.bench.log.remove_expired_producers(NOW_MS + 10**10)
    log.compact()
    producers = {header.producer_id for segment in log.bench.log.segments for _, header in segment.headers()}
    assert producers == {-1}


def test_records_of_aborted_transactions_go_and_hide_nothing(log: Keyed) -> None:
    log.write(b"a", b"committed", producer_id=1, transactional=True)
    log.bench.end_transaction(1, commit=True)
    log.write(b"a", b"aborted", producer_id=2, transactional=True)
    log.write(b"b", b"aborted", producer_id=2, transactional=True)
    log.bench.end_transaction(2, commit=False)
    log.write(b"c", b"plain")
    log.compact()
    assert log.pairs() == {b"a": b"committed", b"c": b"plain"}


def test_a_marker_stays_until_its_records_are_gone_and_its_time_is_over(log: Keyed) -> None:
    log.write(b"a", b"aborted", producer_id=2, transactional=True)
    log.bench.end_transaction(2, commit=False)
    log.write(b"a", b"plain", producer_id=2)
    log.compact()
    assert log.markers() == 1
    assert len(log.bench.log.aborted_transactions(0, ALL)) == 1
    log.compact()
    assert log.markers() == 1
    assert log.bench.log.aborted_transactions(0, ALL) == []
    log.bench.now_ms += DAY_MS
    log.compact()
    assert log.markers() == 0


def test_the_marker_of_a_committed_transaction_stays_as_long_as_one_of_its_records(log: Keyed) -> None:
    log.write(b"a", b"1", producer_id=1, transactional=True)
    log.write(b"b", b"1", producer_id=1, transactional=True)
    log.bench.end_transaction(1, commit=True)
    log.write(b"a", b"2", producer_id=1)
    for _ in range(3):
        log.compact()
        log.bench.now_ms += DAY_MS
    assert log.markers() == 1
    assert log.pairs() == {b"a": b"2", b"b": b"1"}
    log.write(b"b", b"2")
    for _ in range(3):
        log.compact()
        log.bench.now_ms += DAY_MS
    assert log.markers() == 0


def test_the_epoch_of_a_producer_that_only_has_a_marker_is_kept(log: Keyed) -> None:
    log.bench.end_transaction(5, commit=False, epoch=3)
    for _ in range(4):
        log.compact()
        log.bench.now_ms += DAY_MS
    for path in log.bench.folder.glob("*.snapshot"):
        path.unlink()
    log.bench.open(clean=False)
    assert [(state.producer_id, state.epoch) for state in log.bench.log.producers] == [(5, 3)]


def test_an_open_transaction_holds_compaction_back(log: Keyed) -> None:
    for number in range(20):
        log.write(b"a", b"%d" % number)
    first = log.write(b"b", b"open", producer_id=1, transactional=True)
    for number in range(20):
        log.write(b"a", b"%d" % number)
    log.compact()
    assert log.bench.log.first_dirty_offset <= first
    values = [record.value for record in log.bench.records() if record.key == b"a" and record.offset > first]
    assert values == [b"%d" % number for number in range(20)]
    log.bench.end_transaction(1, commit=True)
    log.compact()
    assert log.pairs() == {b"a": b"19", b"b": b"open"}


def test_an_aborted_transaction_over_many_segments_is_removed_from_all(log: Keyed) -> None:
    for number in range(20):
        log.write(b"a%d" % number, b"aborted" * 10, producer_id=1, transactional=True)
        log.write(b"p%d" % number, b"plain", producer_id=2)
    log.bench.end_transaction(1, commit=False)
    log.compact()
    assert log.pairs() == {b"p%d" % number: b"plain" for number in range(20)}
    assert len(log.bench.log.aborted_transactions(0, ALL)) == 1


def test_a_transaction_that_is_aborted_in_a_later_segment_hides_nothing(log: Keyed) -> None:
    """Before, only the transaction indexes of the compacted segments were looked at: 'a' was lost."""
    log.write(b"a", b"kept")
    log.write(b"a", b"aborted", producer_id=1, transactional=True)
    log.roll()
    log.bench.end_transaction(1, commit=False)
    log.bench.compact()
    assert log.pairs() == {b"a": b"kept"}
    log.write(b"b", b"plain", producer_id=1)
    for _ in range(3):
        log.compact()
        log.bench.now_ms += DAY_MS
    assert log.pairs() == {b"a": b"kept", b"b": b"plain"}
    assert log.bench.log.aborted_transactions(0, ALL) == []
    assert log.markers() == 0


def test_a_shell_of_a_transaction_keeps_its_marker(log: Keyed) -> None:
    """Read again without it, the log would have a transaction that never ends."""
    log.write(b"a", b"1", producer_id=1, transactional=True)
    log.bench.end_transaction(1, commit=True)
    log.write(b"a", b"2")
    for _ in range(4):
        log.compact()
        log.bench.now_ms += DAY_MS
    for path in log.bench.folder.glob("*.snapshot"):
        path.unlink()
    log.bench.open(clean=False)
    end = log.bench.log.log_end_offset
    assert log.bench.log.last_stable_offset(end) == end
    assert [state.last_sequence for state in log.bench.log.producers] == [0]
