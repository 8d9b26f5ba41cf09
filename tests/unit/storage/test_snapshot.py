"""Producer snapshots: Kafka's format, with the earlier batches behind it."""

import struct
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.storage import snapshot
from highwater.storage.files import OsFiles
from highwater.storage.producer_state import ProducedBatch, ProducerState

FILES = OsFiles()
ENTRY = struct.Struct(">qhiqiqiq")

batches = st.builds(
    ProducedBatch,
    last_sequence=st.integers(0, 2**31 - 1),
    last_offset=st.integers(0, 2**63 - 1),
    offset_delta=st.integers(0, 2**31 - 1),
    timestamp=st.integers(-1, 2**63 - 1),
)
states = st.builds(
    ProducerState,
    producer_id=st.integers(0, 2**63 - 1),
    epoch=st.integers(0, 2**15 - 1),
    batches=st.lists(batches, max_size=5).map(tuple),
    last_timestamp=st.integers(-1, 2**63 - 1),
    coordinator_epoch=st.integers(-1, 2**31 - 1),
    transaction_first_offset=st.integers(-1, 2**63 - 1),
)


def with_the_producers_time(state: ProducerState) -> ProducerState:
    """The format has one time for a producer and its last batch."""
    if not state.batches:
        return state
    *earlier, last = state.batches
    return state._replace(batches=(*earlier, last._replace(timestamp=state.last_timestamp)))


@settings(deadline=None)
@given(st.lists(states, max_size=5, unique_by=lambda state: state.producer_id))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, known: list[ProducerState]) -> None:
    path = snapshot.path_of(tmp_path_factory.getbasetemp(), 7)
    snapshot.write(FILES, path, known)
    assert snapshot.read(FILES, path) == [with_the_producers_time(state) for state in known]


def test_the_layout_is_kafkas(tmp_path: Path) -> None:
    path = snapshot.path_of(tmp_path, 42)
    last = ProducedBatch(last_sequence=9, last_offset=41, offset_delta=3, timestamp=1000)
    snapshot.write(FILES, path, [ProducerState(7, 2, (last,), 1000, 5, 30)])
    body = struct.pack(">i", 1) + ENTRY.pack(7, 2, 9, 41, 3, 1000, 5, 30)
    assert path.name == "00000000000000000042.snapshot"
    assert path.read_bytes() == struct.pack(">hI", 1, crc32c(body)) + body


def test_a_snapshot_of_kafka_knows_the_last_batch_of_each_producer(tmp_path: Path) -> None:
    path = snapshot.path_of(tmp_path, 1)
    entries = ENTRY.pack(7, 2, 9, 41, 3, 1000, 5, -1) + ENTRY.pack(8, 0, -1, -1, 0, 2000, 1, -1)
    body = struct.pack(">i", 2) + entries
    path.write_bytes(struct.pack(">hI", 1, crc32c(body)) + body)
    first, second = snapshot.read(FILES, path)
    assert (first.producer_id, first.last_sequence, first.last_offset) == (7, 9, 41)
    assert (second.producer_id, second.batches, second.coordinator_epoch) == (8, (), 1)


def test_damage_anywhere_is_noticed(tmp_path: Path) -> None:
    path = snapshot.path_of(tmp_path, 1)
    known = [ProducerState(7, 2, tuple(ProducedBatch(n, n, 0, 5) for n in range(5)), 5)]
    snapshot.write(FILES, path, known)
    whole = path.read_bytes()
    for position in range(len(whole)):
        path.write_bytes(whole[:position])
        with pytest.raises(snapshot.DamagedSnapshot):
            snapshot.read(FILES, path)
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x40]) + whole[position + 1 :])
        with pytest.raises(snapshot.DamagedSnapshot):
            snapshot.read(FILES, path)
