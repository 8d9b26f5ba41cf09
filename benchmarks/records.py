"""How fast batches are checked, taken apart and put together, in the pure-Python code that brokers run.

python benchmarks/records.py

Beside the reader stands aiokafka's, which is compiled C: what a compiled module of ours could come near to.
"""

import gc
import time
from collections.abc import Callable

from aiokafka.record.default_records import DefaultRecordBatch

from highwater.protocol.records.compression import Codec
from highwater.protocol.records.record import Record, build_batch, read_records, recompress
from highwater.protocol.records.validate import check_produced

ROUNDS = 20
ROUND_SECONDS = 0.05


def seconds(call: Callable[[], object]) -> float:
    """Return the time of one call in the least disturbed of several rounds."""
    call()
    started = time.perf_counter()
    call()
    calls = max(1, int(ROUND_SECONDS / (time.perf_counter() - started)))
    rounds = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for _ in range(calls):
            call()
        rounds.append((time.perf_counter() - started) / calls)
    return min(rounds)


def shapes() -> dict[str, list[Record]]:
    """Return batches as producers send them at their default size of 16 KB, and a large one."""

    def records(count: int, value_bytes: int, *, headers: bool = False) -> list[Record]:
        extra = (("trace", b"0123456789abcdef"),) if headers else ()
        return [
            Record(index, 1_700_000_000_000 + index, b"key-%05d" % index, b"value " * (value_bytes // 6), extra)
            for index in range(count)
        ]

    return {
        "160 x 100 B": records(160, 100),
        "160 x 100 B with a header": records(160, 100, headers=True),
        "16 x 1 KB": records(16, 1_024),
        "10,000 x 100 B": records(10_000, 100),
    }


def time_check(name: str, batch: bytearray) -> None:
    """Time what every produced batch goes through."""
    view = memoryview(batch)
    took = seconds(lambda: check_produced(view, max_message_bytes=1 << 30))
    print(f"check {name:<34} {took * 1e6:8.1f} us")


def time_records(name: str, records: list[Record]) -> None:
    """Time the record-level reader and writer."""
    batch = bytes(build_batch(records))
    read = len(records) / seconds(lambda: read_records(batch)) / 1e6
    compiled = len(records) / seconds(lambda: list(DefaultRecordBatch(batch))) / 1e6
    written = len(records) / seconds(lambda: build_batch(records)) / 1e6
    print(f"read  {name:<34} {read:8.2f} M records/s   aiokafka, compiled {compiled:6.2f}")
    print(f"write {name:<34} {written:8.2f} M records/s")


def time_codecs(records: list[Record]) -> None:
    """Time every codec on one batch, in both directions."""
    plain = build_batch(records)
    for codec in Codec:
        batch = recompress(plain, codec)
        squeeze = len(plain) / seconds(lambda codec=codec: recompress(plain, codec)) / 1e6  # type: ignore[misc]
        expand = len(plain) / seconds(lambda batch=batch: recompress(batch, Codec.NONE)) / 1e6  # type: ignore[misc]
        ratio = len(plain) / len(batch)
        name = codec.name.lower()
        print(f"codec {name:<34} {squeeze:8.0f} MB/s in, {expand:8.0f} MB/s out, {ratio:5.1f} : 1")


def main() -> None:
    """Run everything, in about half a minute."""
    gc.disable()
    for name, records in shapes().items():
        time_check(name, build_batch(records))
        time_records(name, records)
    time_codecs(shapes()["10,000 x 100 B"])


if __name__ == "__main__":
    main()
