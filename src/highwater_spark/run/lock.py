"""One run of a pipeline at a time, on one machine: a file that the operating system unlocks when its holder dies."""

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from highwater_spark.errors import StateError


@contextmanager
def only_run(checkpoint: str, pipeline: str) -> Iterator[None]:
    """Hold the pipeline's checkpoint, or say who does.

    A checkpoint on a remote file system has no such lock; there Spark itself stops the second run, at its first
    micro-batch.
    """
    if "://" in checkpoint and not checkpoint.startswith("file://"):
        yield
        return
    folder = Path(checkpoint.removeprefix("file://"))
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StateError(f"pipeline {pipeline!r} is already running: {_holder(folder)} holds {folder}") from error
        file.truncate(0)
        json.dump({"pid": os.getpid(), "host": socket.gethostname()}, file)
        file.flush()
        yield


def _holder(folder: Path) -> str:
    try:
        holder = json.loads((folder / "lock").read_text(encoding="utf-8"))
        return f"process {holder['pid']} on {holder['host']}"
    except (OSError, ValueError, KeyError):
        return "another process"
