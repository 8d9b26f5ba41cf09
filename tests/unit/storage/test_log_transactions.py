"""Transactions as a log sees them: the last stable offset, markers, the aborted ones (KIP-98)."""

from pathlib import Path

import pytest

from highwater.storage.errors import InvalidProducerEpoch, InvalidTransactionState, TransactionCoordinatorFenced
from highwater.storage.files import File, OsFiles
from highwater.storage.log_config import LogConfig
from highwater.storage.txn_index import AbortedTransaction
from highwater.testing.log_bench import LogBench, a_batch

ALL = 2**40


class Writer:
    """A transactional producer that counts its sequences."""

    def __init__(self, bench: LogBench, producer_id: int) -> None:
        self.bench = bench
        self.producer_id = producer_id
        self.sequence = 0

    def write(self, count: int = 1) -> int:
        batch = a_batch(*[b"v"] * count, producer_id=self.producer_id, sequence=self.sequence, transactional=True)
        self.sequence += count
        return self.bench.append(batch).base_offset

    def end(self, *, commit: bool) -> int:
        return self.bench.end_transaction(self.producer_id, commit=commit).base_offset


def test_the_last_stable_offset_stops_at_the_first_open_transaction(bench: LogBench) -> None:
    one, two = Writer(bench, 1), Writer(bench, 2)
    bench.append_values(b"plain")
    assert bench.log.last_stable_offset(1) == 1
    one.write(2)
    two.write()
    bench.append_values(b"plain")
    assert bench.log.last_stable_offset(5) == 1
    one.end(commit=True)
    assert bench.log.last_stable_offset(6) == 3
    two.end(commit=False)
    assert bench.log.last_stable_offset(7) == 7


def test_a_transaction_is_not_stable_before_its_marker_is_replicated(bench: LogBench) -> None:
    one = Writer(bench, 1)
    one.write()
    one.end(commit=True)
    assert bench.log.last_stable_offset(1) == 0
    assert bench.log.last_stable_offset(2) == 2


def test_the_last_stable_offset_never_passes_the_high_watermark(bench: LogBench) -> None:
    bench.append_values(b"a", b"b", b"c")
    assert bench.log.last_stable_offset(2) == 2


def test_aborted_transactions_are_found_by_the_offsets_they_cover(bench: LogBench) -> None:
    one, two, three = (Writer(bench, producer_id) for producer_id in (1, 2, 3))
    one.write()  # 0
    two.write()  # 1
    three.write()  # 2
    two.end(commit=False)  # 3
    one.end(commit=False)  # 4
    three.end(commit=True)  # 5
    one.write()  # 6
    one.end(commit=False)  # 7
    assert bench.log.aborted_transactions(0, ALL) == [
        AbortedTransaction(1, first_offset=0, last_offset=4, last_stable_offset=2),
        AbortedTransaction(2, first_offset=1, last_offset=3, last_stable_offset=0),
        AbortedTransaction(1, first_offset=6, last_offset=7, last_stable_offset=8),
    ]
    assert [found.producer_id for found in bench.log.aborted_transactions(4, 6)] == [1]
    assert [found.first_offset for found in bench.log.aborted_transactions(5, 7)] == [6]
    assert bench.log.aborted_transactions(5, 6) == []


def test_a_marker_without_records_aborts_nothing(bench: LogBench) -> None:
    Writer(bench, 1).end(commit=False)
    assert bench.log.aborted_transactions(0, ALL) == []
    assert bench.log.last_stable_offset(1) == 1


def test_a_batch_outside_of_the_open_transaction_is_refused(bench: LogBench) -> None:
    Writer(bench, 1).write()
    with pytest.raises(InvalidTransactionState, match="open since offset 0"):
        bench.append(a_batch(b"v", producer_id=1, sequence=1))


def test_a_marker_of_a_replaced_coordinator_is_refused(bench: LogBench) -> None:
    one = Writer(bench, 1)
    one.write()
    bench.end_transaction(1, commit=True, coordinator_epoch=5)
    one.write()
    with pytest.raises(TransactionCoordinatorFenced):
        bench.end_transaction(1, commit=False, coordinator_epoch=4)
    assert bench.log.last_stable_offset(3) == 2


def test_a_marker_of_an_older_producer_epoch_is_refused(bench: LogBench) -> None:
    bench.append(a_batch(b"v", producer_id=1, epoch=2, transactional=True))
    with pytest.raises(InvalidProducerEpoch):
        bench.end_transaction(1, commit=True, epoch=1)


def test_a_marker_with_a_raised_epoch_fences_the_producer(bench: LogBench) -> None:
    """A timed-out transaction is aborted with the next epoch, so that its producer can write no more."""
    one = Writer(bench, 1)
    one.write()
    bench.end_transaction(1, commit=False, epoch=1)
    with pytest.raises(InvalidProducerEpoch):
        one.write()
    bench.append(a_batch(b"v", producer_id=1, epoch=1, transactional=True))


def test_sequences_go_on_over_markers(bench: LogBench) -> None:
    one = Writer(bench, 1)
    one.write(3)
    one.end(commit=True)
    assert one.write() == 4


@pytest.mark.parametrize("ending", ["clean", "crash", "crash above the recovery point"])
def test_transactions_are_known_after_a_restart(tmp_path: Path, ending: str) -> None:
    bench = LogBench(tmp_path / "t-0", LogConfig(segment_bytes=400))
    writers = [Writer(bench, producer_id) for producer_id in range(4)]
    for round_number in range(6):
        for writer in writers[:3]:
            writer.write()
        writers[round_number % 3].end(commit=round_number % 2 == 0)
    writers[3].write()
    assert len(bench.log.segments) >= 5
    end = bench.log.log_end_offset
    aborted, stable = bench.log.aborted_transactions(0, ALL), bench.log.last_stable_offset(end)
    states = {state.producer_id: state for state in bench.log.producers}
    assert len(aborted) == 3
    if ending == "clean":
        bench.log.close()
    bench.open(clean=ending == "clean", recovery_point=end // 2 if ending.endswith("point") else 0)
    assert bench.log.report.notes == []
    assert bench.log.aborted_transactions(0, ALL) == aborted
    assert bench.log.last_stable_offset(end) == stable
    assert {state.producer_id: state for state in bench.log.producers} == states


def test_truncation_takes_markers_back(bench: LogBench) -> None:
    one = Writer(bench, 1)
    one.write(2)
    marker = one.end(commit=False)
    bench.log.truncate_to(marker, now_ms=bench.now_ms)
    assert bench.log.aborted_transactions(0, ALL) == []
    assert bench.log.last_stable_offset(marker) == 0
    one.end(commit=True)
    assert bench.log.last_stable_offset(marker + 1) == marker + 1


def test_a_damaged_transaction_index_is_built_again_after_a_clean_stop(bench: LogBench) -> None:
    one = Writer(bench, 1)
    one.write()
    one.end(commit=False)
    bench.log.close()
    path = next(bench.folder.glob("*.txnindex"))
    for damage in (path.read_bytes()[:-1], b"\xff" * 34):
        path.write_bytes(damage)
        bench.open()
        assert len(bench.log.report.notes) == 1
        assert [found.first_offset for found in bench.log.aborted_transactions(0, ALL)] == [0]
        bench.log.close()


class Observed(OsFiles):
    """Remembers which files were opened by name, and whose names were synced; a flush opens indexes to sync them."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: set[Path] = set()

    def open(self, path: Path) -> File:
        self.opened.add(path)
        return super().open(path)

    def sync_folder(self, path: Path) -> None:
        self.opened.add(path)
        super().sync_folder(path)


@pytest.fixture
def rolled_where_flushed(tmp_path: Path) -> LogBench:
    """A log whose first segment was the last one when it was flushed, and has an aborted transaction."""
    bench = LogBench(tmp_path / "t-0", LogConfig(segment_bytes=200), Observed())
    one = Writer(bench, 1)
    one.write()
    one.end(commit=False)
    bench.log.flush()
    one.write()
    _, active = bench.log.segments
    assert bench.log.recovery_point == active.base_offset
    return bench


def test_the_indexes_of_a_segment_that_was_last_when_it_was_flushed_are_not_believed(
    rolled_where_flushed: LogBench,
) -> None:
    """Found by the simulator: a power cut tore such an index, and nobody checked it."""
    bench = rolled_where_flushed
    torn = next(bench.folder.glob("*.txnindex"))
    torn.write_bytes(torn.read_bytes()[:-1])
    bench.open(clean=False, recovery_point=bench.log.recovery_point)
    assert [found.first_offset for found in bench.log.aborted_transactions(0, ALL)] == [0]


def test_the_next_flush_syncs_the_indexes_that_the_last_one_left_out(rolled_where_flushed: LogBench) -> None:
    files = rolled_where_flushed.files
    assert isinstance(files, Observed)
    files.opened.clear()
    rolled_where_flushed.log.flush()
    assert set(rolled_where_flushed.log.segments[0].index_paths()) <= files.opened


def test_a_clean_stop_syncs_the_indexes_that_every_flush_left_out(tmp_path: Path) -> None:
    """Found by the simulator: the next start believes them, and read what was aborted after a power cut."""
    files = Observed()
    bench = LogBench(tmp_path / "t-0", LogConfig(), files)
    one = Writer(bench, 1)
    one.write()
    one.end(commit=False)
    bench.log.flush()
    assert bench.log.recovery_point == bench.log.log_end_offset
    files.opened.clear()
    bench.log.close().run()
    (segment,) = bench.log.segments
    assert {*segment.index_paths(), bench.folder} <= files.opened


def test_a_flush_that_nobody_waited_for_is_left_to_the_next_one(rolled_where_flushed: LogBench) -> None:
    """A replica may be told to follow another leader while it waits for a thread to sync: then no thread does."""
    bench, files = rolled_where_flushed, rolled_where_flushed.files
    assert isinstance(files, Observed)
    bench.log.finish_flush(bench.log.start_flush())
    files.opened.clear()
    bench.log.flush()
    assert bench.folder in files.opened, "the names of its files"
