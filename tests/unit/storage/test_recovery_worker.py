"""The process that checks logs after a crash: jobs in, outcomes out."""

import io
import pickle
from pathlib import Path

from highwater.storage import recovery_worker
from highwater.storage.log_config import LogConfig
from highwater.storage.recovery_messages import LENGTH, RecoveryJob, RecoveryOutcome, encode
from highwater.testing.log_bench import NOW_MS, LogBench, a_batch


def outcomes(*jobs: RecoveryJob) -> list[RecoveryOutcome]:
    outgoing = io.BytesIO()
    recovery_worker.work(io.BytesIO(b"".join(map(encode, jobs))), outgoing)
    stream = io.BytesIO(outgoing.getvalue())
    found = []
    while head := stream.read(LENGTH.size):
        found.append(pickle.loads(stream.read(LENGTH.unpack(head)[0])))
    return found


def a_job(folder: Path) -> RecoveryJob:
    return RecoveryJob(folder, LogConfig(), NOW_MS, 0, 0, 0, unchecked_bytes=1)


def test_what_was_checked_can_be_believed(tmp_path: Path) -> None:
    """A crash tears the last batch; after the check, the log opens as after a clean stop, producers and all."""
    bench = LogBench(tmp_path / "t-0", LogConfig())
    for number in range(3):
        bench.append(a_batch(b"v", producer_id=7, sequence=number))
    segment = bench.folder / "00000000000000000000.log"
    segment.write_bytes(segment.read_bytes()[:-1])
    (outcome,) = outcomes(a_job(bench.folder))
    assert outcome.failure is None
    assert [note.rpartition("; ")[2] for note in outcome.notes] == ["cut there, at offset 2"]

    again = LogBench(bench.folder, LogConfig(), clean=True)
    assert again.log.log_end_offset == again.log.recovery_point == 2
    assert again.log.report.checked_bytes == 0
    assert again.append(a_batch(b"v", producer_id=7, sequence=2)).base_offset == 2


def test_a_log_that_cannot_be_checked_does_not_stop_the_others(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    LogBench(tmp_path / "t-0", LogConfig()).append(a_batch(b"v"))
    failed, good = outcomes(a_job(tmp_path / "file"), a_job(tmp_path / "t-0"))
    assert failed.failure is not None
    assert good.failure is None
