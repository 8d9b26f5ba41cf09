"""Append, read, reopen: what a log is for."""

from pathlib import Path

from highwater.protocol.records.batch import iter_batches
from highwater.protocol.records.record import build_batch, numbered, read_records
from highwater.storage.files import OsFiles
from highwater.storage.log import Log
from highwater.storage.log_config import LogConfig

NOW_MS = 1_700_000_000_000


def a_log(folder: Path, config: LogConfig | None = None, *, clean: bool = True) -> Log:
    return Log.open(OsFiles(), folder, config or LogConfig(), now_ms=NOW_MS, clean=clean)


def a_batch(*values: bytes, timestamp_ms: int = NOW_MS) -> memoryview:
    return memoryview(build_batch(numbered([(None, value) for value in values], timestamp_ms=timestamp_ms)))


def values_of(data: bytes) -> list[bytes | None]:
    return [
        record.value
        for position, header in iter_batches(data)
        for record in read_records(data[position : position + header.size])
    ]


def test_what_was_staged_is_read_after_it_was_written_and_not_before(tmp_path: Path) -> None:
    log = a_log(tmp_path / "t-0")
    first = log.stage(a_batch(b"a", b"b"), leader_epoch=0, now_ms=NOW_MS)
    second = log.stage(a_batch(b"c"), leader_epoch=0, now_ms=NOW_MS)
    assert (first.base_offset, first.last_offset, second.base_offset) == (0, 1, 2)
    assert log.log_end_offset == 0
    assert log.read(0, max_bytes=1000, up_to=10) is None
    log.write_staged()
    assert log.log_end_offset == 3
    region = log.read(0, max_bytes=1000, up_to=3)
    assert region is not None
    assert values_of(region.read()) == [b"a", b"b", b"c"]


def test_a_log_is_the_same_after_it_was_closed_and_opened(tmp_path: Path) -> None:
    for clean in (True, False):
        folder = tmp_path / f"{clean}-0"
        log = a_log(folder, LogConfig(segment_bytes=1000, index_interval_bytes=100))
        for number in range(50):
            log.stage(a_batch(b"%d" % number), leader_epoch=number // 10, now_ms=NOW_MS)
            log.write_staged()
        if clean:
            log.close()
        again = a_log(folder, clean=clean)
        assert again.log_end_offset == 50
        assert len(again.segments) > 3
        assert again.report.notes == []
        assert [entry.epoch for entry in again.leader_epochs.entries] == [0, 1, 2, 3, 4]
        for number in range(50):
            region = again.read(number, max_bytes=1, up_to=50)
            assert region is not None
            assert values_of(region.read()) == [b"%d" % number]
