"""A sound log passes; each kind of damage is found, and told with its place."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from highwater.protocol.records.batch import HEADER, patch_checksum, read_header
from highwater.protocol.records.control import Marker, MarkerType, build_marker
from highwater.protocol.records.record import build_batch, numbered
from highwater.storage.checkpoints import RECOVERY_POINTS
from highwater.storage.files import OsFiles, ReadOnlyFiles
from highwater.storage.log import Log
from highwater.storage.log_config import LogConfig
from highwater.storage.log_dir import CLEAN_STOP_MARKER
from highwater.storage.verify.finding import Finding
from highwater.storage.verify.log_dir import Verifier

PARTITION = "events-0"
NOW_MS = 1_700_000_000_000


def place(batch: bytearray, offset: int, epoch: int) -> bytearray:
    header = read_header(batch)
    HEADER.pack_into(batch, 0, *header._replace(base_offset=offset, leader_epoch=epoch))
    return batch


def write_log(log_dir: Path, *, batches: int = 40, stop: bool = True) -> Path:
    """Write a partition of several small segments, two leader epochs and an aborted transaction; return its folder."""
    folder = log_dir / PARTITION
    folder.mkdir(parents=True)
    config = LogConfig(segment_bytes=1_500, index_interval_bytes=200)
    log = Log.open(OsFiles(), folder, config, now_ms=NOW_MS, clean=True)
    offset = 0
    for number in range(batches):
        epoch = 3 if number < batches // 2 else 5
        records = numbered([(b"key", b"value")] * 2, timestamp_ms=NOW_MS + number * 10)
        log.append_as_follower(memoryview(place(build_batch(records), offset, epoch)), now_ms=NOW_MS)
        log.write_staged()
        offset += 2
    transaction = build_batch(
        numbered([(b"k", b"v")], timestamp_ms=NOW_MS + 1_000),
        producer_id=9,
        producer_epoch=1,
        base_sequence=0,
        is_transactional=True,
    )
    abort = build_marker(Marker(MarkerType.ABORT, 2), producer_id=9, producer_epoch=1, timestamp_ms=NOW_MS + 1_001)
    for batch in (transaction, abort):
        log.append_as_follower(memoryview(place(batch, offset, 5)), now_ms=NOW_MS)
        log.write_staged()
        offset += 1
    if stop:
        log.close()
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A sound partition in a log dir that was stopped cleanly."""
    (tmp_path / CLEAN_STOP_MARKER).touch()
    return write_log(tmp_path)


def findings(path: Path) -> list[Finding]:
    return list(Verifier(ReadOnlyFiles()).check(path))


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def change(path: Path, edit: Callable[[bytearray], object]) -> None:
    content = bytearray(path.read_bytes())
    edit(content)
    path.write_bytes(content)


def overwrite(position: int, data: bytes) -> Callable[[bytearray], object]:
    def edit(content: bytearray) -> None:
        content[position : position + len(data)] = data

    return edit


def test_a_sound_partition_passes_in_every_way_to_name_it(folder: Path) -> None:
    assert len(segments(folder)) > 2
    assert any(index.stat().st_size for index in folder.glob("*.index"))
    assert any(index.stat().st_size for index in folder.glob("*.txnindex"))
    for path in (folder, folder.parent, *segments(folder)):
        verifier = Verifier(ReadOnlyFiles())
        assert list(verifier.check(path)) == []
        assert verifier.batches > 0
    verifier = Verifier(ReadOnlyFiles())
    assert list(verifier.check(folder.parent)) == []
    assert (verifier.partitions, verifier.segments, verifier.batches) == (1, len(segments(folder)), 42)
    assert verifier.size_bytes == sum(path.stat().st_size for path in segments(folder))


def test_the_files_of_a_broker_that_was_killed_pass(tmp_path: Path) -> None:
    """Indexes are then still as long as they may become, and nothing was completed."""
    folder = write_log(tmp_path, stop=False)
    assert max(path.stat().st_size for path in folder.glob("*.index")) > 1_000_000
    for path in (folder, folder.parent, *segments(folder)):
        assert findings(path) == []


def test_looking_changes_nothing(folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.iterdir()}
    findings(folder.parent)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_a_flipped_bit_is_found_and_the_batches_after_it_are_still_checked(folder: Path) -> None:
    second = segments(folder)[1]
    size = read_header(second.read_bytes()).size
    for number in (0, 2):
        change(second, overwrite(number * size + 70, b"\xff"))
    first, third = findings(folder)
    assert "checksum" in first.problem
    assert (first.file, first.position, first.offset) == (second, 0, int(second.stem))
    assert (third.position, third.offset) == (2 * size, int(second.stem) + 4)


def test_bytes_that_are_no_batch_are_told_once(folder: Path) -> None:
    second = segments(folder)[1]
    size = read_header(second.read_bytes()).size
    change(second, overwrite(size, bytes(100)))
    (finding,) = findings(folder)
    assert (finding.file, finding.position, finding.offset) == (second, size, int(second.stem) + 2)


def test_an_offset_that_goes_back_is_found(folder: Path) -> None:
    second = segments(folder)[1]
    size = read_header(second.read_bytes()).size
    change(second, overwrite(size, struct.pack(">q", int(second.stem))))
    problems = [finding.problem for finding in findings(second)]
    assert any("the log is at" in problem for problem in problems)


def test_a_segment_that_overlaps_the_one_before_is_found(folder: Path) -> None:
    second = segments(folder)[1]
    second.rename(second.with_name(f"{int(second.stem) - 1:020d}.log"))
    assert any("begins before the end" in finding.problem for finding in findings(folder))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"record_count": 9}, "states 9 records for 2 offsets"),
        ({"leader_epoch": 0}, "leader epoch 0, the checkpoint of epochs says 3"),
        ({"leader_epoch": 9}, "leader epoch 9, the checkpoint of epochs says 3"),
        ({"attributes": 7}, "codec 7, which does not exist"),
    ],
    ids=str,
)
def test_a_header_that_contradicts_itself_or_the_log_is_found(
    folder: Path, fields: dict[str, int], problem: str
) -> None:
    def edit(content: bytearray) -> None:
        HEADER.pack_into(content, 0, *read_header(content)._replace(**fields))
        patch_checksum(content)

    change(segments(folder)[0], edit)
    assert any(problem in finding.problem for finding in findings(folder))


@pytest.mark.parametrize(
    ("suffix", "entry", "problem"),
    [
        (".index", struct.pack(">II", 1, 3), "into the middle of a batch"),
        (".index", struct.pack(">II", 0, 0), "names a batch that ends with offset"),
        (".timeindex", struct.pack(">qI", NOW_MS + 7, 1), "names a batch whose largest timestamp is"),
    ],
    ids=["between batches", "wrong offset", "wrong timestamp"],
)
def test_an_index_entry_that_is_not_true_is_found(folder: Path, suffix: str, entry: bytes, problem: str) -> None:
    index = segments(folder)[0].with_suffix(suffix)
    change(index, overwrite(0, entry))
    for path in (folder, index):
        (finding,) = findings(path)
        assert problem in finding.problem
        assert (finding.file, finding.position) == (index, 0)


@pytest.mark.parametrize(
    ("suffix", "entry", "problem"),
    [
        (".index", struct.pack(">II", 999, 99_999), "beyond the end of the log"),
        (".timeindex", struct.pack(">qI", NOW_MS * 2, 999), "beyond the end of the log"),
        (".txnindex", struct.pack(">hqqqq", 0, 9, 5, 6, 6), "ends where there is no marker"),
        (".txnindex", struct.pack(">hqqqq", 0, 9, 7, 6, 6), "begins at offset 7, after its end"),
        (".index", b"abc", "3 bytes that are no entry"),
    ],
    ids=["offset", "timestamp", "transaction", "transaction back to front", "half an entry"],
)
def test_an_index_entry_too_many_is_found(folder: Path, suffix: str, entry: bytes, problem: str) -> None:
    index = segments(folder)[0].with_suffix(suffix)
    with index.open("ab") as file:
        file.write(entry)
    found = findings(folder)
    assert any(problem in finding.problem for finding in found)
    assert {finding.file for finding in found} == {index}


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_entries_that_do_not_rise_are_found(folder: Path, suffix: str) -> None:
    index = segments(folder)[0].with_suffix(suffix)
    entry_bytes = {".index": 8, ".timeindex": 12}[suffix]
    content = index.read_bytes()
    index.write_bytes(content[:entry_bytes] + content)
    (finding,) = findings(folder)
    assert "entry 1" in finding.problem
    assert finding.position == entry_bytes


def test_an_entry_in_the_transaction_index_needs_an_abort_of_its_producer(folder: Path) -> None:
    (index,) = (path for path in folder.glob("*.txnindex") if path.stat().st_size)
    change(index, overwrite(2, struct.pack(">q", 8)))
    (finding,) = findings(folder)
    assert "producer 8 does not end at an abort marker of this producer" in finding.problem


def test_epochs_of_before_the_log_start_are_not_asked_for(folder: Path) -> None:
    """Deleting records moves the start of the first epoch that is kept, and not the batch it falls into."""
    (folder / "leader-epoch-checkpoint").write_text("0\n2\n3 11\n5 40\n")
    assert findings(folder) == []


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_zeros_after_the_entries_are_an_index_in_use(folder: Path, suffix: str) -> None:
    """A broker makes an index as long as it may become, and trims it when it stops."""
    with segments(folder)[-1].with_suffix(suffix).open("ab") as file:
        file.write(bytes(24 * 100_000))
    assert findings(folder) == []


@pytest.mark.parametrize("cut", [20, -1], ids=["inside the header", "inside the records"])
def test_an_unfinished_append_is_a_fault_only_after_a_clean_stop(folder: Path, cut: int) -> None:
    last = segments(folder)[-1]
    size = last.stat().st_size
    batch = place(build_batch(numbered([(b"k", b"v")], timestamp_ms=NOW_MS)), 82, 5)
    change(last, lambda content: content.extend(batch[:cut]))
    for path in (folder, folder.parent):
        (finding,) = findings(path)
        assert (finding.position, finding.offset, finding.is_repaired_on_start) == (size, 82, False)
    (folder.parent / CLEAN_STOP_MARKER).unlink()
    for path in (folder, folder.parent):
        (finding,) = findings(path)
        assert (finding.position, finding.offset, finding.is_repaired_on_start) == (size, 82, True)


def test_damage_inside_the_last_segment_is_a_fault_after_any_stop(folder: Path) -> None:
    (folder.parent / CLEAN_STOP_MARKER).unlink()
    change(segments(folder)[-1], lambda content: content.extend(bytes(100)))
    (finding,) = findings(folder)
    assert not finding.is_repaired_on_start


def test_a_damaged_snapshot_is_found(folder: Path) -> None:
    (snapshot, *_) = sorted(folder.glob("*.snapshot"), reverse=True)
    change(snapshot, overwrite(20, b"\xff"))
    (finding,) = findings(folder)
    assert (finding.file, "checksum" in finding.problem) == (snapshot, True)


def test_a_snapshot_from_beyond_the_end_is_found(folder: Path) -> None:
    (snapshot, *_) = sorted(folder.glob("*.snapshot"), reverse=True)
    later = snapshot.rename(folder / f"{1000:020d}.snapshot")
    (finding,) = findings(folder)
    assert (finding.file, finding.offset) == (later, 1000)


def test_a_damaged_checkpoint_of_epochs_is_found(folder: Path) -> None:
    (folder / "leader-epoch-checkpoint").write_text("0\n7\n3 0\n")
    (finding,) = findings(folder)
    assert finding.file == folder / "leader-epoch-checkpoint"


@pytest.mark.parametrize(("content", "problem"), [("0\n1\nevents 0 83\n", "ends before"), ("0\n9\n", "is damaged")])
def test_checkpoints_of_the_log_dir_are_compared_with_the_logs(folder: Path, content: str, problem: str) -> None:
    checkpoint = folder.parent / RECOVERY_POINTS
    checkpoint.write_text("0\n2\nevents 0 82\ngone 3 1000\n")
    assert findings(folder.parent) == []
    checkpoint.write_text(content)
    (finding,) = findings(folder.parent)
    assert finding.file == checkpoint
    assert problem in finding.problem
