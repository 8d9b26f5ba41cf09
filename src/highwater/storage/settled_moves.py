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
    for name in sorted({name for log_dir in readable for name in log_dir.moved_away}):
        aside = [(log_dir, folder) for log_dir in readable for folder in log_dir.moved_away.pop(name, ())]
        if not any(log_dir.holds(name) for log_dir in readable):
            if len(readable) < len(log_dirs):
                continue
            # One that moved there and back in a short time was set aside by each move: the last one has everything.
            newest = max(aside, key=lambda item: item[0].extent(name, item[1]))
            aside.remove(newest)
            newest[0].restore(name, newest[1])
            notes.append(f"{name} did not leave {newest[0].path}")
        for log_dir, folder in aside:
            log_dir.remove_detached(folder)
            notes.append(f"{name} has moved away from {log_dir.path}")
    for number, log_dir in enumerate(readable):
        for other in readable[number + 1 :]:
            for name in sorted(log_dir.partitions & other.partitions):
                older = min((log_dir, other), key=lambda holder: holder.extent(name))
                older.remove_detached(older.detach(name))
                notes.append(f"{name} was in two log dirs, and stays in one: not in {older.path}")
    return notes
