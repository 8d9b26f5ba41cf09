"""Keys go where the Java client and librdkafka would send them."""

import zlib

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater_spark.exactly_once.partitioners import PARTITIONERS, crc32, murmur2
from highwater_spark.exactly_once.slots import numbers_for, spark_hash

keys_of_any_length = st.lists(st.binary(max_size=30) | st.none(), min_size=1, max_size=100)


def murmur2_of(key: bytes) -> int:
    """Compute the hash one key at a time, from its published description."""
    mask = 0xFFFFFFFF
    h = 0x9747B28C ^ len(key)
    for start in range(0, len(key) & ~3, 4):
        k = int.from_bytes(key[start : start + 4], "little") * 0x5BD1E995 & mask
        k = (k ^ k >> 24) * 0x5BD1E995 & mask
        h = (h * 0x5BD1E995 & mask) ^ k
    tail = key[len(key) & ~3 :]
    if tail:
        h = (h ^ int.from_bytes(tail, "little")) * 0x5BD1E995 & mask
    h = (h ^ h >> 13) * 0x5BD1E995 & mask
    return h ^ h >> 15


def test_murmur2_is_that_of_the_java_client() -> None:
    """Source of the values: the test of `Utils.murmur2` in Apache Kafka."""
    known = {
        b"21": -973932308,
        b"foobar": -790332482,
        b"a-little-bit-long-string": -985981536,
        b"a-little-bit-longer-string": -1486304829,
        b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
        b"abc": 479470107,
    }
    assert murmur2(pa.array(list(known))).astype(np.int32).tolist() == list(known.values())


@given(keys_of_any_length)
@settings(deadline=None)
def test_columns_are_hashed_as_single_keys_are(keys: list[bytes | None]) -> None:
    column = pa.array([b"", *keys], pa.binary())[1:]  # a slice: its buffers begin elsewhere
    for found, expected in ((murmur2(column), murmur2_of), (crc32(column), zlib.crc32)):
        for one, key in zip(found.tolist(), keys, strict=True):
            assert key is None or one == expected(key)


def test_partitions_are_counted_from_the_hash() -> None:
    keys, counts = pa.array([b"21", b"abc"]), np.array([7, 3])
    assert PARTITIONERS["murmur2"](keys, counts).tolist() == [(-973932308 & 0x7FFFFFFF) % 7, 479470107 % 3]
    assert PARTITIONERS["crc32"](keys, counts).tolist() == [zlib.crc32(b"21") % 7, zlib.crc32(b"abc") % 3]


def test_every_task_has_a_number_that_spark_sends_to_it() -> None:
    """The values of `hash` are those that Spark 4.0 returns for `SELECT hash(0), hash(1), hash(2)`."""
    assert [spark_hash(number) for number in (0, 1, 2)] == [933211791, -559580957, 1765031574]
    for tasks in (1, 2, 3, 7, 64):
        assert [spark_hash(number) % tasks for number in numbers_for(tasks)] == list(range(tasks))
