"""A process that checks logs after a crash: one batch after another, which several processes do faster than one.

    python -m highwater.storage.recovery_worker

Jobs come in on the standard input, one report for each goes out on the standard output; see `recovery_messages.py`.
A log that was checked is closed and flushed as by a clean stop, so that the broker may believe it.
"""

import pickle
import sys
from typing import BinaryIO, Final

from highwater.model.errors import KafkaError
from highwater.storage.files import OsFiles
from highwater.storage.log import Log
from highwater.storage.recovery_messages import LENGTH, RecoveryJob, RecoveryOutcome, encode

_SET_PARENT_DEATH_SIGNAL: Final = 1


def recover(job: RecoveryJob) -> RecoveryOutcome:
    """Check a log, cut it where it is damaged, and leave it as a clean stop does."""
    try:
        log = Log.open(
            OsFiles(),
            job.folder,
            job.config,
            now_ms=job.now_ms,
            clean=False,
            recovery_point=job.recovery_point,
            log_start_offset=job.log_start_offset,
            first_dirty_offset=job.first_dirty_offset,
        )
        log.close().run()
    except (KafkaError, OSError) as error:
        return RecoveryOutcome(failure=str(error))
    return RecoveryOutcome(log.report.checked_bytes, tuple(log.report.notes))


def work(incoming: BinaryIO, outgoing: BinaryIO) -> None:
    """Carry out jobs until no more come."""
    while head := incoming.read(LENGTH.size):
        job: RecoveryJob = pickle.loads(incoming.read(LENGTH.unpack(head)[0]))  # noqa: S301 - our own parent wrote it
        outgoing.write(encode(recover(job)))
        outgoing.flush()


def main() -> None:
    """Work, and never outlive the broker: a new one may be checking the same log by then."""
    import ctypes
    import signal

    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    work(sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main()
