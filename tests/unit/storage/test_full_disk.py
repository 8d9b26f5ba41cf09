"""A disk that fails at any step: an append happens or does not, and nothing else is lost."""

import errno
from pathlib import Path

import pytest

from highwater.model.errors import ErrorCode, StorageError
from highwater.storage.log_config import LogConfig
from highwater.testing.faulty_files import FaultyFiles
from highwater.testing.log_bench import NOW_MS, LogBench, a_batch

SIZE = len(a_batch(b"v", producer_id=1))
ROLLING = LogConfig(segment_bytes=3 * SIZE, index_interval_bytes=0)
SPACIOUS = LogConfig(index_interval_bytes=0)


def a_faulty_bench(folder: Path, config: LogConfig) -> tuple[LogBench, FaultyFiles]:
    disk = FaultyFiles()
    bench = LogBench(folder, config, disk)
    for sequence in range(2):
        bench.append(a_batch(b"v", producer_id=1, sequence=sequence))
    return bench, disk


def write_six(bench: LogBench) -> None:
    """Stage what fills the segment, rolls twice, begins an epoch, and opens, aborts and commits transactions."""
    for sequence in range(2, 6):
        batch = a_batch(b"v", producer_id=1, sequence=sequence)
        bench.log.stage(memoryview(batch), leader_epoch=1, now_ms=NOW_MS)
    batch = a_batch(b"v", producer_id=2, transactional=True)
    bench.log.stage(memoryview(batch), leader_epoch=1, now_ms=NOW_MS)
    bench.end_transaction(2, commit=False)


@pytest.mark.parametrize("config", [ROLLING, SPACIOUS])
@pytest.mark.parametrize("reopened", [False, True])
def test_a_write_that_fails_at_any_step_leaves_the_log_as_it_was(
    tmp_path: Path, config: LogConfig, *, reopened: bool
) -> None:
    bench, disk = a_faulty_bench(tmp_path / "counting-0", config)
    before = disk.steps
    write_six(bench)
    assert disk.steps > before + (10 if config is ROLLING else 2)
    for step in range(1, disk.steps - before + 1):
        bench, disk = a_faulty_bench(tmp_path / f"{step}-0", config)
        records, states, epochs = bench.records(), list(bench.log.producers), bench.log.leader_epochs.entries
        disk.fail_at = disk.steps + step
        with pytest.raises(StorageError, match="No space left on device") as failed:
            write_six(bench)
        assert failed.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        if reopened:
            bench.open(clean=False)
        assert bench.records() == records
        assert list(bench.log.producers) == states
        assert bench.log.leader_epochs.entries == epochs
        assert bench.log.log_end_offset == 2
        assert bench.log.last_stable_offset(2) == 2
        assert bench.log.aborted_transactions(0, 100) == []
        write_six(bench)
        assert bench.log.log_end_offset == 8
        assert [record.offset for record in bench.records()] == list(range(7))  # the eighth is a marker
        bench.log.close()
        bench.open()
        assert bench.log.report.notes == []
        assert len(bench.log.aborted_transactions(0, 100)) == 1


def test_a_follower_whose_disk_was_full_still_knows_where_its_epochs_begin(tmp_path: Path) -> None:
    """Found by the simulator: the epochs of refused batches stayed, and the next one took the place of those before.

    The follower then asked its leader about an epoch too old, and cut off what was committed.
    """
    leader = LogBench(tmp_path / "leader-0", SPACIOUS)
    for epoch in (0, 1, 1, 2):
        leader.log.stage(memoryview(a_batch(b"v")), leader_epoch=epoch, now_ms=NOW_MS)
        leader.log.write_staged()
    batches = leader.log.read(0, max_bytes=1 << 20, up_to=4)
    assert batches is not None
    data, size = memoryview(batches.read()), batches.length // 4
    disk = FaultyFiles()
    follower = LogBench(tmp_path / "follower-0", SPACIOUS, disk)
    follower.log.append_as_follower(data[: 2 * size], now_ms=NOW_MS)
    before = disk.steps
    follower.log.append_as_follower(data[2 * size :], now_ms=NOW_MS)
    for step in range(1, disk.steps - before + 1):
        disk = FaultyFiles()
        follower = LogBench(tmp_path / f"follower-{step}", SPACIOUS, disk)
        follower.log.append_as_follower(data[: 2 * size], now_ms=NOW_MS)
        disk.fail_at = disk.steps + step
        with pytest.raises(StorageError):
            follower.log.append_as_follower(data[2 * size :], now_ms=NOW_MS)
        follower.log.append_as_follower(data[2 * size : 3 * size], now_ms=NOW_MS)
        assert follower.log.leader_epochs.entries == ((0, 0), (1, 1))
        follower.open(clean=False)
        assert follower.log.leader_epochs.entries == ((0, 0), (1, 1))


def test_a_write_that_fails_after_a_roll_leaves_no_snapshot_of_it(tmp_path: Path) -> None:
    """Otherwise a later start would know producers from a snapshot of batches that were never written."""
    bench, disk = a_faulty_bench(tmp_path / "counting-0", ROLLING)
    before = disk.steps
    write_six(bench)
    for step in range(1, disk.steps - before + 1):
        bench, disk = a_faulty_bench(tmp_path / f"{step}-0", ROLLING)
        disk.fail_at = disk.steps + step
        with pytest.raises(StorageError):
            write_six(bench)
        for _ in range(10):
            bench.append(a_batch(b"plain"))
        states = list(bench.log.producers)
        bench.open(clean=False, recovery_point=bench.log.log_end_offset)
        assert list(bench.log.producers) == states
        assert [state.last_sequence for state in states] == [1]


def test_a_full_disk_refuses_writes_and_serves_reads_until_there_is_space(tmp_path: Path) -> None:
    bench, disk = a_faulty_bench(tmp_path / "t-0", ROLLING)
    disk.is_full = True
    for _ in range(3):
        with pytest.raises(StorageError, match="cannot append to"):
            write_six(bench)
        assert bench.values() == [b"v", b"v"]
    disk.is_full = False
    write_six(bench)
    assert bench.log.log_end_offset == 8


def test_a_log_that_could_not_be_put_right_takes_no_more_writes(tmp_path: Path) -> None:
    bench, disk = a_faulty_bench(tmp_path / "t-0", SPACIOUS)
    disk.fail_at, disk.keeps_failing, disk.error_number = disk.steps, True, errno.EIO
    with pytest.raises(StorageError, match="Input/output error"):
        write_six(bench)
    disk.fail_at = None
    with pytest.raises(StorageError, match="takes no more writes"):
        write_six(bench)
    with pytest.raises(StorageError, match="must check it"):
        bench.log.close()
    assert bench.values() == [b"v", b"v"]
    bench.open(clean=False)
    write_six(bench)
    assert bench.log.log_end_offset == 8


@pytest.mark.parametrize("largest_write", [1, 7, 61, 100, 1000])
def test_a_disk_that_takes_only_a_part_of_a_write_gets_the_rest_too(tmp_path: Path, largest_write: int) -> None:
    disk = FaultyFiles()
    disk.largest_write = largest_write
    bench = LogBench(tmp_path / "t-0", ROLLING, disk)
    for sequence in range(10):
        batch = a_batch(b"v%d" % sequence, producer_id=1, sequence=sequence)
        bench.log.stage(memoryview(batch), leader_epoch=1, now_ms=NOW_MS)
    bench.log.write_staged()
    bench.open(clean=False)
    assert bench.log.report.notes == []
    assert bench.values() == [b"v%d" % number for number in range(10)]


def test_more_batches_than_one_system_call_takes_are_written(bench: LogBench) -> None:
    for number in range(3000):
        bench.log.stage(memoryview(a_batch(b"%d" % number)), leader_epoch=0, now_ms=NOW_MS)
    bench.log.write_staged()
    bench.open(clean=False)
    assert bench.values() == [b"%d" % number for number in range(3000)]


def test_a_flush_that_fails_is_not_tried_again(tmp_path: Path) -> None:
    """After a failed fsync the kernel may have dropped the pages, and the next fsync would succeed (fsyncgate)."""
    bench, disk = a_faulty_bench(tmp_path / "t-0", SPACIOUS)
    disk.fail_at, disk.error_number = disk.steps + 1, errno.EIO
    with pytest.raises(StorageError, match="cannot flush"):
        bench.log.flush()
    assert bench.log.recovery_point == 0
    with pytest.raises(StorageError, match="takes no more writes"):
        write_six(bench)


def test_a_flush_that_nobody_waited_for_breaks_nothing(bench: LogBench) -> None:
    """A stop cancels those who wait for a flush; its end is not known then, and the close flushes again."""
    bench.append_values(b"a")
    bench.log.finish_flush(bench.log.start_flush())
    assert bench.log.recovery_point == 0
    bench.append_values(b"b")
    assert len(bench.log.close()) > 0


def test_a_flush_of_one_segment_is_one_sync(tmp_path: Path) -> None:
    """With `flush.messages=1` every append waits for it."""
    bench, disk = a_faulty_bench(tmp_path / "t-0", SPACIOUS)
    bench.log.flush()
    bench.append(a_batch(b"v"))
    before = disk.steps
    bench.log.flush()
    assert disk.steps == before + 1
    assert bench.log.recovery_point == 3
    bench.log.flush()
    assert disk.steps == before + 1


def test_what_is_written_during_a_flush_is_not_called_flushed(bench: LogBench) -> None:
    bench.append_values(b"a")
    flush = bench.log.start_flush()
    bench.append_values(b"b")
    flush.run()
    bench.log.finish_flush(flush)
    assert bench.log.recovery_point == 1


@pytest.mark.parametrize("action", ["truncate", "restart", "retention", "delete records"])
def test_a_cut_that_fails_says_so_and_the_next_start_finds_a_prefix(tmp_path: Path, action: str) -> None:
    def act(bench: LogBench) -> None:
        if action == "truncate":
            bench.log.truncate_to(2, now_ms=NOW_MS)
        elif action == "restart":
            bench.log.restart_at(2, now_ms=NOW_MS)
        elif action == "retention":
            bench.log.apply_retention(NOW_MS + 10**12, high_watermark=10)
        else:
            bench.log.delete_records_before(5)

    def a_bench(name: str) -> tuple[LogBench, FaultyFiles]:
        disk = FaultyFiles()
        bench = LogBench(tmp_path / name, ROLLING, disk)
        for sequence in range(10):
            bench.append(a_batch(b"v", producer_id=1, sequence=sequence), leader_epoch=sequence)
        return bench, disk

    bench, disk = a_bench("counting-0")
    before = disk.steps
    act(bench)
    for step in range(1, disk.steps - before + 1):
        bench, disk = a_bench(f"{step}-0")
        disk.fail_at = disk.steps + step
        with pytest.raises(StorageError):
            act(bench)
        bench.open(clean=False)
        offsets = [record.offset for record in bench.records()]
        assert offsets == list(range(bench.log.log_start_offset, bench.log.log_end_offset))
        assert bench.log.log_end_offset <= 10
        assert all(entry.start_offset <= bench.log.log_end_offset for entry in bench.log.leader_epochs.entries)
