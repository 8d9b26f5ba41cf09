"""Put a compacted segment in the place of the old ones, such that a crash at any moment leaves the one or the others.

1. The indexes of the new segment get the names `.index.swap` and so on; nobody looks at them.
2. Its batches get the name `.log.swap`: from here on the new segment stands.
3. The old segments get names that end with `.deleted`.
4. The new files lose `.swap`, the batches last.
5. The folder is synced, and then the old files may go.

All but the last step are renames in one folder, which a journaling file system makes durable in their order: after a
power cut the first few of them have happened. So nothing waits for the disk before the end, and that on a thread.

A start that finds a `.log.swap` does 3 and 4 again. Which segments are old is told by the offsets that it covers:
compaction always keeps the last batch, as an empty one if need be.
"""

from pathlib import Path
from typing import Final

from highwater.storage import batch_scan
from highwater.storage.errors import DamagedSegment
from highwater.storage.files import Files, rename_if_there
from highwater.storage.offset_index import OffsetIndex
from highwater.storage.segment import LOG_SUFFIX
from highwater.storage.time_index import TimeIndex
from highwater.storage.txn_index import TransactionIndex

FOLDER: Final = ".compaction"
"""Beside the segments: what compaction has written and nobody has put in place yet."""

SWAP_SUFFIX: Final = ".swap"
_INDEX_SUFFIXES: Final = (OffsetIndex.suffix, TimeIndex.suffix, TransactionIndex.suffix)
_SEGMENT_SUFFIXES: Final = (*_INDEX_SUFFIXES, LOG_SUFFIX)


def commit(files: Files, folder: Path, base_offset: int) -> None:
    """Let the new segment stand (steps 1 and 2)."""
    for suffix in _SEGMENT_SUFFIXES:
        written = folder / FOLDER / f"{base_offset:020d}{suffix}"
        rename_if_there(files, written, folder / f"{base_offset:020d}{suffix}{SWAP_SUFFIX}")


def finish(files: Files, folder: Path, base_offset: int) -> None:
    """Give the new segment its final names (step 4)."""
    for suffix in _SEGMENT_SUFFIXES:
        path = folder / f"{base_offset:020d}{suffix}"
        rename_if_there(files, path.with_name(path.name + SWAP_SUFFIX), path)


def complete_after_crash(files: Files, folder: Path) -> list[str]:
    """Finish the swap that a crash interrupted, if it was committed, and forget it if not; say what was done."""
    names = [entry.name for entry in files.list(folder)]
    notes = []
    for name in names:
        if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            base_offset = int(name[:20])
            end_offset = _end_offset(files, folder / name, base_offset)
            _remove_segments(files, folder, names, base_offset, end_offset)
            finish(files, folder, base_offset)
            files.sync_folder(folder)
            notes.append(f"{folder / name} was about to take its place after compaction, and did")
        elif name == FOLDER:
            remove_written(files, folder)
    for entry in files.list(folder):
        if entry.name.endswith(SWAP_SUFFIX):
            files.remove(folder / entry.name)
    return notes


def remove_written(files: Files, folder: Path) -> None:
    """Remove what compaction has written and nobody will put in place."""
    if files.exists(folder / FOLDER):
        for entry in files.list(folder / FOLDER):
            files.remove(folder / FOLDER / entry.name)
        files.remove_folder(folder / FOLDER)


def _end_offset(files: Files, path: Path, base_offset: int) -> int:
    file = files.open(path)
    end_offset = base_offset + 1
    try:
        for _, header in batch_scan.headers(file, 0, file.size(), chunk_bytes=batch_scan.LOOKUP_CHUNK_BYTES):
            end_offset = header.next_offset
    except DamagedSegment:
        pass  # What the good batches do not cover is kept; recovery deals with the rest.
    return end_offset


def _remove_segments(files: Files, folder: Path, names: list[str], first: int, end: int) -> None:
    for name in names:
        stem, suffix = name[:20], name[20:]
        if suffix in _SEGMENT_SUFFIXES and stem.isdecimal() and first <= int(stem) < end:
            files.remove(folder / name)
