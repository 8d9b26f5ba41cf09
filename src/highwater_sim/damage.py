"""What happens to files at rest: a bit turns over, a file is cut short or lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from highwater.protocol.records.batch import CHECKED_FROM, iter_batches

if TYPE_CHECKING:
    from random import Random

    from highwater_sim.disk import FileNode, SimDisk

CUT: Final = (".index", ".timeindex", ".txnindex", ".snapshot", "leader-epoch-checkpoint")
LOST: Final = (".index", ".timeindex", ".snapshot", "replication-offset-checkpoint", "recovery-point-offset-checkpoint")


class FlippedBit:
    """One bit of a batch, under its checksum: turned over, and put right later if it is still there."""

    def __init__(self, disk: SimDisk, path: str, node: FileNode, position: int, bit: int) -> None:
        self._disk = disk
        self._node = node
        self._position = position
        self._bit = bit
        self.path = path
        node.flip(position, bit)
        self._damaged = self._around()
        disk.has_flipped_bit = True

    def _around(self) -> bytes:
        return bytes(self._node.data[max(0, self._position - CHECKED_FROM) : self._position + 1])

    def repair(self) -> None:
        """Turn it back, unless the batch was cut off or written anew meanwhile."""
        if self._around() == self._damaged:
            self._node.flip(self._position, self._bit)
        self._disk.has_flipped_bit = False


def flip_a_bit(disk: SimDisk, topics: tuple[str, ...], random: Random) -> FlippedBit | None:
    """Turn over a bit of some batch of these topics; None if there is no batch."""
    logs = [
        (path, node) for path, node in disk.files(".log") if node.data and any(f"/{topic}-" in path for topic in topics)
    ]
    if not logs:
        return None
    path, node = random.choice(logs)
    batches = [(at, header.size) for at, header in iter_batches(memoryview(bytes(node.data)))]
    if not batches:
        return None
    at, size = random.choice(batches)
    return FlippedBit(disk, path, node, random.randrange(at + CHECKED_FROM, at + size), random.randrange(8))


def damage_a_file(disk: SimDisk, random: Random) -> str:
    """Cut a file short or lose it, on a disk that no process uses; return what was done."""
    if random.random() < 0.5:
        last_segments = {path.rpartition("/")[0]: (path, node) for path, node in disk.files(".log")}
        found = [*last_segments.values(), *(item for suffix in CUT for item in disk.files(suffix))]
        found = [item for item in found if item[1].data]
        if found:
            path, node = random.choice(found)
            size = random.randrange(len(node.data))
            del node.data[size:]
            node.sync()
            return f"{path} is cut to {size} bytes"
    found = [item for suffix in LOST for item in disk.files(suffix)]
    if not found:
        return "there is nothing to damage"
    path, _ = random.choice(found)
    disk.remove_at_rest(path)
    return f"{path} is lost"
