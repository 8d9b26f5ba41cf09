"""Check the files of one partition together."""

import re
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

from highwater.storage import snapshot
from highwater.storage.checkpoints import DamagedCheckpoint
from highwater.storage.files import Files
from highwater.storage.leader_epochs import FILE_NAME as LEADER_EPOCHS
from highwater.storage.leader_epochs import LeaderEpochs
from highwater.storage.verify.finding import Finding
from highwater.storage.verify.segment import Walk, check_segment

SEGMENT_NAME: Final = re.compile(r"\d{20}\.log")
SNAPSHOT_NAME: Final = re.compile(r"\d{20}\.snapshot")


def check_partition(files: Files, folder: Path, *, may_end_torn: bool) -> Generator[Finding, None, Walk]:
    """Yield what is wrong with a partition's files; return how far its batches go."""
    names = [entry.name for entry in files.list(folder)]
    try:
        epochs = LeaderEpochs.load(files, folder)
    except DamagedCheckpoint as error:
        yield Finding(folder / LEADER_EPOCHS, error.message)
        epochs = LeaderEpochs(files, folder)
    walk = Walk(epochs)
    segments = [folder / name for name in names if SEGMENT_NAME.fullmatch(name)]
    for segment in segments:
        yield from check_segment(files, segment, walk, may_end_torn=may_end_torn and segment == segments[-1])
    for name in names:
        if SNAPSHOT_NAME.fullmatch(name):
            yield from check_snapshot(files, folder / name, log_end_offset=walk.next_offset)
    return walk


def check_snapshot(files: Files, path: Path, *, log_end_offset: int) -> Iterator[Finding]:
    """Yield what is wrong with a producer snapshot."""
    taken_at = int(path.stem)
    if taken_at > log_end_offset:
        yield Finding(path, f"was taken beyond the end of the log, {log_end_offset}", offset=taken_at)
    try:
        states = snapshot.read(files, path)
    except snapshot.DamagedSnapshot as error:
        yield Finding(path, error.message)
        return
    for state in states:
        if state.last_offset >= taken_at:
            yield Finding(
                path, f"producer {state.producer_id} has a batch from after the snapshot", offset=state.last_offset
            )
