"""Moves between log dirs that a stop interrupted: afterwards every partition lies in one log dir.

A move ends in three renames: the old log is set aside, the copy gets its name, what was set aside is deleted. Whatever
of it is on the disk, one of the two is whole.
"""

from collections.abc import Sequence

from highwater.storage.log_dir import LogDir


def settle_moves(log_dirs: Sequence[LogDir]) -> list[str]:
    """Finish or take back what is in between; return a sentence for each. Raises StorageError, OSError."""
    readable = [log_dir for log_dir in log_dirs if log_dir.is_readable]
    notes: list[str] = []
    for log_dir in readable:
        for name, folder in list(log_dir.moved_away.items()):
            if any(other.holds(name) for other in readable):
                log_dir.remove_detached(folder)
                notes.append(f"{name} has moved away from {log_dir.path}")
            elif len(readable) == len(log_dirs):
                log_dir.restore(name, folder)
                notes.append(f"{name} did not leave {log_dir.path}")
            del log_dir.moved_away[name]
    for number, log_dir in enumerate(readable):
        for other in readable[number + 1 :]:
            for name in sorted(log_dir.partitions & other.partitions):
                older = min((log_dir, other), key=lambda holder: holder.extent(name))
                older.remove_detached(older.detach(name))
                notes.append(f"{name} was in two log dirs, and stays in one: not in {older.path}")
    return notes
