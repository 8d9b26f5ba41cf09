"""Arrow columns become the same records that a reader of the wire format finds, in batches of the size asked for."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.protocol.records.batch import read_header
from highwater.protocol.records.compression import Codec
from highwater.protocol.records.record import Record, read_records
from highwater_spark.exactly_once.brokers import Target
from highwater_spark.exactly_once.encoding import Columns, Payload, encode
from highwater_spark.exactly_once.security import Security
from highwater_spark.exactly_once.tasks import Owner, Report, SendTask
from highwater_spark.exactly_once.transaction import Identity
from highwater_spark.exactly_once.varints import varints, widths

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
Row = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]] | None]

contents = st.none() | st.binary(max_size=40) | st.sampled_from([b"x" * 63, b"x" * 64, b"x" * 8191, b"x" * 8192])
headers = st.none() | st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=70)), max_size=3)
rows = st.lists(st.tuples(contents, contents, headers), min_size=1, max_size=200)


def columns_of(records: list[Row], *, with_headers: bool = True) -> Columns:
    lists = [None if found is None else [{"key": k, "value": v} for k, v in found] for _, _, found in records]
    return Columns(
        pa.array([key for key, _, _ in records], pa.binary()),
        pa.array([value for _, value, _ in records], pa.binary()),
        pa.array(lists, HEADERS) if with_headers else None,
    )


def batch_of(payload: Payload, codec: Codec = Codec.NONE) -> bytearray:
    """Put a header before a payload, as a task does."""
    target = Target("t", 0)
    task = SendTask(
        bootstrap="",
        security=Security(),
        patience_seconds=1,
        identity=Identity("id", 7, 3),
        targets=(target,),
        codec=codec,
    )
    return Owner(task, 0, Report(0, 0, 0))._batch(payload, sequence=5, now_ms=1_700_000_000_000)


def read_back(payloads: list[Payload], codec: Codec = Codec.NONE) -> list[Record]:
    return [record for payload in payloads for record in read_records(batch_of(payload, codec))]


@given(rows, st.integers(1, 20_000), st.lists(st.integers(1, 5), max_size=2))
@settings(max_examples=150, deadline=None)
def test_what_is_encoded_is_what_a_reader_finds(records: list[Row], batch_bytes: int, cuts: list[int]) -> None:
    payloads = encode(columns_of(records), batch_bytes=batch_bytes, first_cuts=tuple(cuts))
    found = read_back(payloads)
    assert [(one.key, one.value, one.headers) for one in found] == [
        (key, value, tuple(given or ())) for key, value, given in records
    ]
    assert sum(payload.count for payload in payloads) == len(records)
    for payload, cut in zip(payloads, cuts, strict=False):
        assert payload.count <= cut
    assert all(payload.count == 1 or len(payload.data) <= batch_bytes for payload in payloads)


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_can_be_read(codec: Codec) -> None:
    records: list[Row] = [(b"k%d" % number, b"value" * number, None) for number in range(300)]
    payloads = encode(columns_of(records, with_headers=False), batch_bytes=10_000)
    assert [one.value for one in read_back(payloads, codec)] == [value for _, value, _ in records]


def test_a_batch_says_whose_it_is() -> None:
    [payload] = encode(columns_of([(None, b"a", None), (None, b"b", None)]), batch_bytes=1000)
    header = read_header(batch_of(payload))
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.record_count) == (7, 3, 5, 2)


def test_nothing_becomes_nothing() -> None:
    assert encode(columns_of([]), batch_bytes=1000) == []


@given(st.lists(st.integers(-1, 2**31 - 1), max_size=30))
def test_varints_have_the_bytes_that_are_counted_for_them(numbers: list[int]) -> None:
    column = np.array(numbers, np.int64)
    assert [len(found.as_py()) for found in varints(column)] == widths(column).tolist()
