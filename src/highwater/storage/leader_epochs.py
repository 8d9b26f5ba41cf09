"""Which leader wrote from which offset on: the leader epochs of one log, and their checkpoint file (KIP-101)."""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from highwater.storage import checkpoints
from highwater.storage.files import Files

FILE_NAME: Final = "leader-epoch-checkpoint"
NO_EPOCH: Final = -1
NO_OFFSET: Final = -1


class EpochStart(NamedTuple):
    """A leader epoch and the first offset that was written in it."""

    epoch: int
    start_offset: int


class LeaderEpochs:
    """Epochs and their start offsets, both rising. A change is in the file at once, on the disk with the next flush.

    But for an epoch that has begun and has no records yet: it is written with its first batch. A start would forget it
    anyway, and a broker that becomes the leader of a thousand partitions has no time for a thousand files.
    """

    __slots__ = ("_entries", "_files", "_folder", "is_unsynced", "latest", "recorded")

    def __init__(self, files: Files, folder: Path, entries: list[EpochStart] | None = None) -> None:
        self._files = files
        self._folder = folder
        self._entries = entries or []
        self.is_unsynced = False
        self.latest = self._entries[-1].epoch if self._entries else NO_EPOCH
        self.recorded = self.latest
        """The latest epoch in the file; `latest` is newer while that has no records."""

    @classmethod
    def load(cls, files: Files, folder: Path) -> "LeaderEpochs":
        """Read the checkpoint file. Raises DamagedCheckpoint; the batches of the log hold the same knowledge."""
        entries = []
        for line in checkpoints.read_lines(files, folder / FILE_NAME):
            try:
                epoch, start_offset = map(int, line.split(" "))
            except ValueError:
                raise checkpoints.DamagedCheckpoint(f"{folder / FILE_NAME} is damaged at {line!r}") from None
            entries.append(EpochStart(epoch, start_offset))
        if any(a.epoch >= b.epoch or a.start_offset > b.start_offset for a, b in pairwise(entries)):
            raise checkpoints.DamagedCheckpoint(f"{folder / FILE_NAME} is damaged: its epochs do not rise")
        return cls(files, folder, entries)

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        """All that is known, oldest first."""
        return tuple(self._entries)

    @property
    def earliest(self) -> EpochStart | None:
        """The oldest entry."""
        return self._entries[0] if self._entries else None

    @property
    def oldest(self) -> int:
        """The oldest epoch that is known; -1 without any."""
        return self._entries[0].epoch if self._entries else NO_EPOCH

    def begin(self, epoch: int, log_end_offset: int) -> None:
        """Know that the next batch will be one of `epoch`; `assign` that one when it comes."""
        if epoch != self.latest:
            self._entries = _with(self._entries, epoch, log_end_offset)
            self.latest = epoch

    def assign(self, epoch: int, start_offset: int) -> None:
        """Learn that `epoch` writes from `start_offset` on. What contradicts it is forgotten: the log is the truth."""
        self.assign_all([(epoch, start_offset)])

    def assign_all(self, starts: Iterable[tuple[int, int]]) -> None:
        """Learn of several epochs, or of none of them if the file cannot be written."""
        entries, latest = self._entries, self.latest
        for epoch, start_offset in starts:
            if epoch != latest:
                entries, latest = _with(entries, epoch, start_offset), epoch
        if latest != self.recorded or entries is not self._entries:
            self._replace(entries)

    def end_offset(self, epoch: int, *, log_end_offset: int) -> tuple[int, int]:
        """Return the largest known epoch at or below `epoch`, and where it ends: at the start of the next one.

        (-1, -1) when `epoch` is newer than all we know, or older: then nothing can be said.
        """
        if epoch == self.latest:
            return epoch, log_end_offset
        number = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        if epoch == NO_EPOCH or number == len(self._entries):
            return NO_EPOCH, NO_OFFSET
        following = self._entries[number]
        if number == 0:
            # Older than the oldest we know: the asker's records of that epoch end where ours begin.
            return epoch, following.start_offset
        return self._entries[number - 1].epoch, following.start_offset

    def epoch_at(self, offset: int) -> int:
        """Return the epoch that wrote `offset`, or -1."""
        number = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        return self._entries[number - 1].epoch if number else NO_EPOCH

    def cut_end(self, log_end_offset: int) -> None:
        """Forget the epochs that start at or after the end of a truncated log."""
        kept = [entry for entry in self._entries if entry.start_offset < log_end_offset]
        if len(kept) < len(self._entries):
            self._replace(kept)

    def forget_after(self, epoch: int) -> None:
        """Forget the epochs that are newer."""
        self._replace([entry for entry in self._entries if entry.epoch <= epoch])

    def cut_start(self, log_start_offset: int) -> None:
        """Forget the epochs that end before the log starts; the one that covers the start begins there from now on."""
        covering = bisect_right(self._entries, log_start_offset, key=lambda entry: entry.start_offset) - 1
        if covering > 0 or (covering == 0 and self._entries[0].start_offset < log_start_offset):
            start = EpochStart(self._entries[covering].epoch, log_start_offset)
            self._replace([start, *self._entries[covering + 1 :]])

    def clear(self) -> None:
        """Forget everything."""
        if self._entries:
            self._replace([])

    def _replace(self, entries: list[EpochStart]) -> None:
        lines = [f"{epoch} {start_offset}" for epoch, start_offset in entries]
        checkpoints.write_lines(self._files, self._folder / FILE_NAME, lines, sync=False)
        self._entries = entries
        self.is_unsynced = True
        self.latest = self.recorded = entries[-1].epoch if entries else NO_EPOCH


def _with(entries: list[EpochStart], epoch: int, start_offset: int) -> list[EpochStart]:
    """Return entries with one more, and without those that contradict it."""
    kept = [entry for entry in entries if entry.epoch < epoch and entry.start_offset < start_offset]
    return [*kept, EpochStart(epoch, start_offset)]
