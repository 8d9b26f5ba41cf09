"""`highwater dump` as a user meets it: what it shows, and how it ends."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from highwater.cli.commands import run
from highwater.protocol import codec
from highwater.protocol.messages.group_metadata_records import GroupMetadataKey
from highwater.protocol.messages.offset_records import OffsetCommitKey, OffsetCommitValue
from highwater.protocol.messages.transaction_records import TransactionLogKey, TransactionLogValue
from highwater.protocol.records.batch import HEADER, patch_checksum, read_header
from highwater.protocol.records.compression import Codec
from highwater.protocol.records.control import Marker, MarkerType, build_marker
from highwater.protocol.records.record import Record, build_batch, numbered
from highwater.storage import snapshot
from highwater.storage.files import OsFiles
from highwater.storage.producer_state import ProducedBatch, ProducerState

TIME_MS = 1_700_000_000_000
TIME = "2023-11-14T22:13:20.000Z"


def write_segment(folder: Path, *batches: bytearray, base_offset: int = 0) -> Path:
    """Write batches one after another, with offsets that follow each other."""
    folder.mkdir(parents=True, exist_ok=True)
    offset, content = base_offset, bytearray()
    for batch in batches:
        header = read_header(batch)
        HEADER.pack_into(batch, 0, *header._replace(base_offset=offset, leader_epoch=4))
        offset += header.last_offset_delta + 1
        content += batch
    path = folder / f"{base_offset:020d}.log"
    path.write_bytes(content)
    return path


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    records = [
        Record(0, TIME_MS, b"k\n1", "é".encode(), (("trace", b"7"), ("none", None))),
        Record(1, TIME_MS, None, b"\xff\x00"),
    ]
    return write_segment(
        tmp_path / "events-0",
        build_batch(records, codec=Codec.ZSTD, producer_id=77, producer_epoch=2, base_sequence=40),
        build_marker(Marker(MarkerType.ABORT, 6), producer_id=77, producer_epoch=2, timestamp_ms=TIME_MS),
    )


def documents(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_segment_is_a_line_for_each_batch(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = read_header(segment.read_bytes()).size
    assert run(["dump", str(segment)]) == 0
    title, first, second = capsys.readouterr().out.splitlines()
    assert title == str(segment)
    assert f"offsets 0-1  2 records  {size} bytes  zstd  CreateTime {TIME}  leader epoch 4" in first
    assert "producer 77 epoch 2  sequence 40-41  crc 0x" in first
    assert f"{size}  offsets 2-2  1 record  78 bytes  none" in second
    assert "transactional  control" in second


def test_print_data_adds_a_line_for_each_record(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dump", "--print-data", str(segment)]) == 0
    _, _, first, second, _, marker = capsys.readouterr().out.splitlines()
    assert first.strip() == f"0  {TIME}  key k\\n1  value é  trace=7  none=null"
    assert second.strip() == f"1  {TIME}  key null  value base64:/wA="
    assert marker.strip() == f"2  {TIME}  ABORT by coordinator epoch 6"


def test_json_is_one_document_a_line(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dump", "--print-data", "--json", str(segment)]) == 0
    batch, first, second, control, marker = documents(capsys)
    assert {document["file"] for document in (batch, first, second, control, marker)} == {str(segment)}
    assert (batch["type"], batch["position"], batch["base_offset"], batch["last_offset"]) == ("batch", 0, 0, 1)
    assert (batch["codec"], batch["is_valid"], batch["producer_id"]) == ("zstd", True, 77)
    assert first["headers"] == [["trace", "7"], ["none", None]]
    assert second["value"] == {"base64": "/wA="}
    assert (marker["marker"], marker["coordinator_epoch"]) == ("ABORT", 6)


def test_a_batch_with_a_wrong_checksum_is_shown_as_damaged(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = bytearray(segment.read_bytes())
    content[65] ^= 1
    segment.write_bytes(content)
    assert run(["dump", "--print-data", str(segment)]) == 0
    _, first, unreadable, *_ = capsys.readouterr().out.splitlines()
    assert first.endswith("DAMAGED")
    assert "unreadable records: zstd data is damaged" in unreadable


def test_a_timestamp_beyond_the_calendar_is_shown_as_a_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    far = write_segment(tmp_path / "t-0", build_batch(numbered([(None, b"v")], timestamp_ms=2**62)))
    assert run(["dump", "--print-data", str(far)]) == 0
    assert f"CreateTime {2**62}" in capsys.readouterr().out


def test_what_comes_before_damage_is_shown_and_the_damage_is_one_line(
    segment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with segment.open("ab") as file:
        file.write(b"garbage")
    assert run(["dump", str(segment)]) == 1
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 3
    (line,) = captured.err.splitlines()
    assert f"{segment} is damaged at byte" in line


def test_indexes_are_shown_entry_by_entry(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "events-0"
    folder.mkdir()
    (folder / f"{100:020d}.index").write_bytes(struct.pack(">IIII", 5, 4096, 0, 0))
    (folder / f"{100:020d}.timeindex").write_bytes(struct.pack(">qIqI", TIME_MS, 5, 0, 0))
    (folder / f"{100:020d}.txnindex").write_bytes(struct.pack(">hqqqq", 0, 9, 101, 104, 99))
    assert run(["dump", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1::2] == [
        "  offset 105  position 4096",
        f"  {TIME} ({TIME_MS})  offset 105",
        "  producer id 9  first offset 101  last offset 104  last stable offset 99",
    ]


def test_snapshots_and_checkpoints_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = ProducerState(9, 1, (ProducedBatch(4, 80, 4, TIME_MS),), TIME_MS, 3, 76)
    snapshot.write(OsFiles(), tmp_path / f"{81:020d}.snapshot", [state])
    (tmp_path / "leader-epoch-checkpoint").write_text("0\n2\n3 0\n5 40\n")
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n1\nmy-topic 2 81\n")
    assert run(["dump", "--json", str(tmp_path)]) == 0
    producer, first_epoch, second_epoch, offset = documents(capsys)
    assert (producer["producer_id"], producer["last_sequence"], producer["transaction_first_offset"]) == (9, 4, 76)
    assert producer["batches"] == [{"first_sequence": 0, "last_sequence": 4, "first_offset": 76, "last_offset": 80}]
    assert [(epoch["epoch"], epoch["start_offset"]) for epoch in (first_epoch, second_epoch)] == [(3, 0), (5, 40)]
    assert (offset["topic"], offset["partition"], offset["offset"]) == ("my-topic", 2, 81)
    assert run(["dump", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    for line in ("transaction open from offset 76", "epoch 5  from offset 40", "my-topic-2  81"):
        assert line in text


OFFSET = OffsetCommitValue(offset=42, leader_epoch=7, metadata="note", commit_timestamp=TIME_MS)


@pytest.fixture
def committed() -> list[tuple[bytes | None, bytes | None]]:
    key = struct.pack(">h", 1) + codec.encode(OffsetCommitKey(group="billing", topic="events", partition=3), 0)
    group = struct.pack(">h", 2) + codec.encode(GroupMetadataKey(group="billing"), 0)
    return [
        (key, struct.pack(">h", 3) + codec.encode(OFFSET, 3)),
        (key, None),
        (group, None),
        (b"\x00\x63unknown", b"v"),
        (key[:-1], b"v"),
    ]


def test_committed_offsets_are_decoded_by_the_name_of_their_folder(
    tmp_path: Path, committed: list[tuple[bytes | None, bytes | None]], capsys: pytest.CaptureFixture[str]
) -> None:
    batch = build_batch(numbered(committed, timestamp_ms=TIME_MS))
    path = write_segment(tmp_path / "__consumer_offsets-17", batch)
    assert run(["dump", "--print-data", str(path)]) == 0
    lines = [line.split("  ", 3)[-1].split("Z  ")[-1] for line in capsys.readouterr().out.splitlines()[2:]]
    offset = f"offset=42, leader_epoch=7, metadata='note', commit_timestamp={TIME_MS}"
    assert lines[0] == f"[billing,events,3]::OffsetAndMetadata({offset})"
    assert lines[1:3] == ["[billing,events,3]::null", "[billing]::null"]
    assert lines[3].startswith("key \\x00cunknown")
    assert lines[4].endswith("value v")


def test_a_decoder_can_be_asked_for_wherever_the_file_is(
    tmp_path: Path, committed: list[tuple[bytes | None, bytes | None]], capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_segment(tmp_path / "copied", build_batch(numbered(committed[:1], timestamp_ms=TIME_MS)))
    assert run(["dump", "--json", "--offsets-decoder", str(path)]) == 0
    _, record = documents(capsys)
    assert record["decoded"]["kind"] == "OffsetAndMetadata"
    assert record["decoded"]["key"] == {"group": "billing", "topic": "events", "partition": 3}
    assert record["decoded"]["value"] == {
        "offset": 42,
        "leader_epoch": 7,
        "metadata": "note",
        "commit_timestamp": TIME_MS,
    }
    assert run(["dump", "--print-data", str(path)]) == 0
    assert "OffsetAndMetadata" not in capsys.readouterr().out


def test_the_transaction_log_is_decoded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = struct.pack(">h", 0) + codec.encode(TransactionLogKey(transactional_id="orders-1"), 0)
    value = struct.pack(">h", 0) + codec.encode(TransactionLogValue(producer_id=9, transaction_status=1), 0)
    batch = build_batch(numbered([(key, value)], timestamp_ms=TIME_MS))
    path = write_segment(tmp_path / "t-0", batch)
    assert run(["dump", "--transaction-log-decoder", str(path)]) == 0
    assert "[orders-1]::TransactionMetadata(producer_id=9" in capsys.readouterr().out


def test_verify_is_silent_about_a_sound_log(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dump", "--verify", str(segment.parent)]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"partitions 1, segments 1, batches 2, bytes {segment.stat().st_size}, faults 0\n"


def test_verify_tells_each_fault_in_a_line_and_ends_with_1(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = bytearray(segment.read_bytes())
    second = read_header(content).size
    content[-1] ^= 1
    segment.write_bytes(content)
    for path in (segment, segment.parent, segment.parent.parent):
        assert run(["dump", "--verify", str(path)]) == 1
        (line,) = capsys.readouterr().out.splitlines()
        assert line.startswith(f"{segment}: byte {second}, offset 2: record batch has checksum")
    assert run(["dump", "--verify", "--json", str(segment)]) == 1
    fault, summary = documents(capsys)
    assert (fault["type"], fault["file"], fault["position"], fault["offset"]) == ("fault", str(segment), second, 2)
    assert (summary["type"], summary["faults"]) == ("summary", 1)


def test_an_unfinished_append_after_a_crash_is_told_and_no_fault(
    segment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with segment.open("ab") as file:
        file.write(segment.read_bytes()[:30])
    assert run(["dump", "--verify", str(segment.parent)]) == 0
    assert "the next start cuts it off" in capsys.readouterr().out


def test_index_sanity_looks_at_the_index_alone(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = segment.with_suffix(".index")
    index.write_bytes(struct.pack(">IIII", 1, 100, 2, 200))
    assert run(["dump", "--index-sanity", str(segment.parent)]) == 0
    assert capsys.readouterr().out == f"{index}: sane\n"
    index.write_bytes(struct.pack(">IIII", 1, 100, 2, 50))
    assert run(["dump", "--index-sanity", str(index)]) == 1
    assert capsys.readouterr().out.startswith(f"{index}: byte 8, offset 2: entry 1 points to byte 50")


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["{}/absent.log"], "is not a file of a log; known are *.log"),
        (["{}/00000000000000000000.log"], "does not exist"),
        (["--verify", "{}"], "there is no segment in"),
        (["--verify", "{}/absent"], "No such file or directory"),
        (["--index-sanity", "{}"], "is not an index; known are *.index"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_do(
    tmp_path: Path, arguments: list[str], advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["dump", *(argument.format(tmp_path) for argument in arguments)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert advice in line


def test_a_log_that_says_it_has_records_and_has_none_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    batch = build_batch(numbered([(None, b"v")], timestamp_ms=TIME_MS))
    HEADER.pack_into(batch, 0, *read_header(batch)._replace(record_count=5, last_offset_delta=4))
    patch_checksum(batch)
    path = write_segment(tmp_path / "t-0", batch)
    assert run(["dump", "--print-data", str(path)]) == 0
    assert "unreadable records: batch states 5 records" in capsys.readouterr().out
