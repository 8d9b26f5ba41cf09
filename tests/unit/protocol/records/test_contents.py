"""The checks that look inside, and control batches."""

import pytest

from highwater.model.errors import ErrorCode, KafkaError
from highwater.protocol.records.batch import read_header
from highwater.protocol.records.compression import Codec
from highwater.protocol.records.contents import check_keys, check_record_timestamps, read_produced_records
from highwater.protocol.records.control import Marker, MarkerType, build_marker, read_marker
from highwater.protocol.records.errors import InvalidRecord, InvalidTimestamp
from highwater.protocol.records.record import Record, assemble, build_batch, read_records
from highwater.protocol.records.validate import check_batch


def test_a_producer_leaves_no_gaps_between_offsets() -> None:
    dense = [Record(0, 1, b"a", None), Record(1, 1, b"b", None)]
    assert read_produced_records(build_batch(dense, codec=Codec.LZ4)) == dense
    with pytest.raises(KafkaError) as refusal:
        read_produced_records(build_batch([dense[0], dense[1]._replace(offset=2)]))
    assert refusal.value.code == ErrorCode.INVALID_RECORD


def test_a_compacted_topic_needs_a_key_in_every_record() -> None:
    check_keys([Record(0, 1, b"", None)])
    with pytest.raises(InvalidRecord) as refusal:
        check_keys([Record(0, 1, b"a", None), Record(1, 1, None, b"v")])
    assert refusal.value.record_index == 1


def test_an_early_record_behind_a_late_one_is_found() -> None:
    records = [Record(0, 1_000, None, None), Record(1, 10, None, None), Record(2, -1, None, None)]
    check_record_timestamps(records, now_ms=1_000, before_max_ms=990, after_max_ms=0)
    with pytest.raises(InvalidTimestamp) as refusal:
        check_record_timestamps(records, now_ms=1_000, before_max_ms=989, after_max_ms=0)
    assert refusal.value.record_index == 1


@pytest.mark.parametrize("marker_type", MarkerType)
def test_a_marker_survives_its_control_batch(marker_type: MarkerType) -> None:
    marker = Marker(marker_type, coordinator_epoch=12)
    batch = build_marker(marker, producer_id=9, producer_epoch=2, timestamp_ms=50)
    header = check_batch(memoryview(batch))
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, -1)
    (record,) = read_records(batch)
    assert read_marker(record) == marker


def test_other_control_records_are_no_markers_and_short_ones_are_invalid() -> None:
    assert read_marker(Record(0, 0, b"\0\0\0\2", b"")) is None
    for key, value in ((None, b"\0" * 6), (b"\0\0\0", b"\0" * 6), (b"\0\0\0\1", b"\0"), (b"\0\0\0\1", None)):
        with pytest.raises(KafkaError) as refusal:
            read_marker(Record(0, 0, key, value))
        assert refusal.value.code == ErrorCode.INVALID_RECORD


def test_the_count_that_a_batch_states_is_not_believed() -> None:
    batch = build_batch([Record(0, 1, b"a", None)])
    header = read_header(batch)
    with pytest.raises(KafkaError) as refusal:
        read_produced_records(assemble(header._replace(last_offset_delta=4), batch[61:]))
    assert refusal.value.code == ErrorCode.INVALID_RECORD
