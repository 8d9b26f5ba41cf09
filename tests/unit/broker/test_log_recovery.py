"""How many logs are checked at once after a crash; that real processes check them well is in `tests/clients`."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from highwater.broker.log_recovery import WORTH_A_PROCESS_BYTES, recover_logs
from highwater.broker.recovery_process import ProcessEnded
from highwater.config.broker_config import BrokerConfig
from highwater.model.ids import TopicPartition
from highwater.storage.files import OsFiles
from highwater.storage.log_dir import LogDir
from highwater.storage.recovery_messages import RecoveryJob, RecoveryOutcome
from highwater.testing.waiting import PATIENCE_SECONDS

LOGS = 5


class Checkers:
    """Checkers none of which ends before as many are at work as there should be."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.at_work: Counter[Path] = Counter()
        self.most_at_once: Counter[Path] = Counter()
        self.enough = asyncio.Event()
        self.checked: list[Path] = []
        self.closed = 0

    async def start(self) -> "Checkers":
        return self

    async def check(self, job: RecoveryJob) -> RecoveryOutcome:
        log_dir = job.folder.parent
        self.at_work[log_dir] += 1
        self.most_at_once |= self.at_work
        if self.at_work.total() == self.expected:
            self.enough.set()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self.enough.wait()
        self.at_work[log_dir] -= 1
        self.checked.append(job.folder)
        return RecoveryOutcome(job.unchecked_bytes)

    async def close(self) -> None:
        self.closed += 1


def crashed_log_dir(path: Path) -> LogDir:
    """Return a log dir with logs that are large by their names only."""
    for number in range(LOGS):
        folder = path / f"orders-{number}"
        folder.mkdir(parents=True)
        with (folder / "00000000000000000000.log").open("wb") as segment:
            segment.truncate(WORTH_A_PROCESS_BYTES)
    return LogDir.open(OsFiles(), path)


@pytest.mark.parametrize("threads", [1, 3])
async def test_as_many_logs_of_each_log_dir_are_checked_at_once_as_the_setting_says(
    tmp_path: Path, threads: int
) -> None:
    log_dirs = [crashed_log_dir(tmp_path / name) for name in "ab"]
    checkers = Checkers(expected=threads * len(log_dirs))
    config = BrokerConfig({"num.recovery.threads.per.data.dir": str(threads)})
    await recover_logs(log_dirs, config=config, now_ms=lambda: 0, start_checker=checkers.start)
    assert checkers.most_at_once == {log_dir.path: threads for log_dir in log_dirs}
    assert len(set(checkers.checked)) == len(checkers.checked) == LOGS * len(log_dirs)
    assert checkers.closed == threads * len(log_dirs)


async def test_no_more_are_started_than_there_are_logs(tmp_path: Path) -> None:
    checkers = Checkers(expected=LOGS)
    config = BrokerConfig({"num.recovery.threads.per.data.dir": "64"})
    await recover_logs([crashed_log_dir(tmp_path)], config=config, now_ms=lambda: 0, start_checker=checkers.start)
    assert checkers.closed == LOGS


async def test_what_a_process_that_ended_has_not_checked_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dying(Checkers):
        async def check(self, job: RecoveryJob) -> RecoveryOutcome:
            if self.checked:
                raise ProcessEnded
            return await super().check(job)

    log_dir = crashed_log_dir(tmp_path)
    believed: list[TopicPartition] = []
    monkeypatch.setattr(log_dir, "recovered", believed.append)
    checkers = Dying(expected=1)
    config = BrokerConfig({"num.recovery.threads.per.data.dir": "1"})
    await recover_logs([log_dir], config=config, now_ms=lambda: 0, start_checker=checkers.start)
    assert [str(name) for name in believed] == [folder.name for folder in checkers.checked]
    assert len(believed) == checkers.closed == 1
