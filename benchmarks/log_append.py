"""What it costs to append a batch to a log, apart from the network: staging, and writing what was staged.

    python benchmarks/log_append.py [folder]

Microseconds for each batch, the best of several rounds; the file is rewritten in place, so that the page cache is warm.
"""

import sys
import tempfile
import time
from pathlib import Path

from crc32c import crc32c

from highwater.protocol.records.record import build_batch, numbered
from highwater.storage.files import OsFiles
from highwater.storage.log import Log
from highwater.storage.log_config import LogConfig

NOW_MS = 1_700_000_000_000
ROUNDS = 5
BATCHES = 2048


def measure(folder: Path, *, batch_bytes: int, per_write: int, idempotent: bool) -> tuple[float, float]:
    """Return microseconds for each batch to stage it and to write it."""
    log = Log.open(OsFiles(), folder, LogConfig(), now_ms=NOW_MS, clean=True)
    best_stage = best_write = float("inf")
    for _ in range(ROUNDS):
        log.truncate_to(0, now_ms=NOW_MS)
        batches = [a_batch(number, batch_bytes, idempotent=idempotent) for number in range(BATCHES)]
        staging = writing = 0.0
        for start in range(0, BATCHES, per_write):
            began = time.perf_counter()
            for batch in batches[start : start + per_write]:
                log.stage(batch, leader_epoch=0, now_ms=NOW_MS)
            staged = time.perf_counter()
            log.write_staged()
            staging += staged - began
            writing += time.perf_counter() - staged
        best_stage, best_write = min(best_stage, staging), min(best_write, writing)
    log.close()
    return best_stage / BATCHES * 1e6, best_write / BATCHES * 1e6


def a_batch(number: int, batch_bytes: int, *, idempotent: bool) -> memoryview:
    """Return one record of about this size as a batch."""
    return memoryview(
        build_batch(
            numbered([(None, bytes(batch_bytes - 71))], timestamp_ms=NOW_MS),
            producer_id=7 if idempotent else -1,
            producer_epoch=0 if idempotent else -1,
            base_sequence=number if idempotent else -1,
        )
    )


def checksum_cost(batch_bytes: int) -> float:
    """Return microseconds for the checksum of one batch."""
    data = memoryview(bytes(batch_bytes))
    began = time.perf_counter()
    for _ in range(BATCHES):
        crc32c(data[21:])
    return (time.perf_counter() - began) / BATCHES * 1e6


def main() -> None:
    """Print the table."""
    print(f"{'batch':>8} {'per write':>9} {'producer':>10} {'stage us':>9} {'write us':>9} {'checksum us':>11}")
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        for batch_bytes in (200, 16384):
            for per_write in (1, 16):
                for idempotent in (False, True):
                    name = f"{batch_bytes}-{per_write}-{idempotent}-0"
                    stage, write = measure(
                        Path(folder) / name, batch_bytes=batch_bytes, per_write=per_write, idempotent=idempotent
                    )
                    producer = "idempotent" if idempotent else "plain"
                    cost = checksum_cost(batch_bytes)
                    print(f"{batch_bytes:>8} {per_write:>9} {producer:>10} {stage:>9.2f} {write:>9.2f} {cost:>11.2f}")


if __name__ == "__main__":
    main()
