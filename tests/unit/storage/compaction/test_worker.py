"""The process that compacts: a job in, groups out, one at a time."""

import io
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from highwater.protocol.records.spans import record_keys
from highwater.storage.compaction import newest_search, worker
from highwater.storage.compaction.compaction import Compaction
from highwater.storage.compaction.messages import GO_ON, LENGTH, STOP, Failed, Finished, Job, Report, encode
from highwater.storage.compaction.plan import CompactedGroup, CompactionPlan
from highwater.storage.compaction.worker import Pacer
from highwater.storage.log_config import LogConfig
from highwater.testing.log_bench import NOW_MS, LogBench, a_batch

UNLIMITED = 1e300


@pytest.fixture
def bench(tmp_path: Path) -> LogBench:
    """A dirty log of several segments."""
    bench = LogBench(tmp_path / "t-0", LogConfig(compact=True, segment_bytes=400))
    for number in range(20):
        bench.append(a_batch(b"%d" % number, keys=[b"k%d" % (number % 3)]))
    return bench


def a_plan(bench: LogBench, batches: int = 20) -> CompactionPlan:
    return bench.log.plan_compaction(high_watermark=batches, now_ms=NOW_MS, memory_bytes=100_000)


def reports(data: bytes) -> Iterator[Report]:
    stream = io.BytesIO(data)
    while head := stream.read(LENGTH.size):
        yield pickle.loads(stream.read(LENGTH.unpack(head)[0]))


def run(bench: LogBench, answers: bytes = GO_ON * 100, *, batches: int = 20) -> list[Report]:
    outgoing = io.BytesIO()
    incoming = io.BytesIO(encode(Job(a_plan(bench, batches), UNLIMITED)) + answers)
    worker.carry_out(worker.read_job(incoming), incoming, outgoing)
    return list(reports(outgoing.getvalue()))


def test_a_process_of_its_own_does_the_job(bench: LogBench) -> None:
    done = subprocess.run(
        [sys.executable, "-m", worker.__name__],
        input=encode(Job(a_plan(bench), UNLIMITED)) + GO_ON * 10,
        capture_output=True,
        check=True,
        timeout=60,
    )
    *groups, finished = reports(done.stdout)
    assert len(groups) > 1
    assert isinstance(finished, Finished)
    assert finished.records_kept < finished.records_read
    assert finished.end_offset == bench.log.segments.active.base_offset


def test_it_stops_when_a_group_could_not_be_put_in_place(bench: LogBench) -> None:
    (only,) = run(bench, STOP)
    assert isinstance(only, CompactedGroup)


def test_it_stops_when_the_broker_is_gone(bench: LogBench) -> None:
    assert len(run(bench, b"")) == 1


def test_it_says_why_it_cannot(bench: LogBench) -> None:
    path = bench.log.segments[0].path
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    (failed,) = run(bench, GO_ON * 10)
    assert isinstance(failed, Failed)
    assert "checksum" in failed.reason


def test_it_keeps_the_processor_only_for_moments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many kernels do not stop in the midst of a system call, and whoever wants the processor waits for its end."""
    bench = LogBench(tmp_path / "t-0", LogConfig(compact=True, segment_bytes=1_000_000))
    for number in range(150):
        bench.append(a_batch(bytes(10_000), keys=[b"k%d" % (number % 70)]))
    sizes: list[int] = []
    read, write = os.pread, os.pwritev

    def counted_read(file: int, size: int, at: int) -> bytes:
        sizes.append(size)
        return read(file, size, at)

    def counted_write(file: int, parts: Sequence[bytes], at: int) -> int:
        sizes.append(sum(map(len, parts)))
        return write(file, parts, at)

    monkeypatch.setattr(os, "pread", counted_read)
    monkeypatch.setattr(os, "pwritev", counted_write)
    finished = run(bench, batches=150)[-1]
    assert isinstance(finished, Finished)
    assert finished.records_read > 90
    assert sum(sizes) > 2_000_000, "it was read twice, and what stays was written"
    assert max(sizes) < 80_000


def test_others_may_go_first_before_the_keys_of_each_batch_are_looked_at(
    bench: LogBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are read many at once."""
    steps: list[str] = []

    def looked_at(payload: bytes, count: int) -> list[bytes | None]:
        steps.append("keys")
        return record_keys(payload, count)

    monkeypatch.setattr(newest_search, "record_keys", looked_at)
    Compaction(bench.files, a_plan(bench), lambda _: steps.append("may go first"))
    assert steps.count("keys") > 10
    assert ("keys", "keys") not in pairwise(steps)


def test_the_pace_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    pacer = Pacer(1000)
    for _ in range(100):
        pacer(100)
    assert clock[0] - 100 == pytest.approx(10, abs=1)


@pytest.mark.parametrize("gives_way", [True, False])
def test_who_gives_way_asks_now_and_then_whether_somebody_waits(
    monkeypatch: pytest.MonkeyPatch, *, gives_way: bool
) -> None:
    clock = [100.0]
    asked_at: list[float] = []
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(os, "sched_yield", lambda: asked_at.append(clock[0]))
    pacer = Pacer(UNLIMITED, gives_way=gives_way)
    for _ in range(1000):
        clock[0] += 0.0001  # for a batch
        pacer(16_384)
    assert len(asked_at) == pytest.approx(400 if gives_way else 0, abs=100)
