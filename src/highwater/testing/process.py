"""What a broker's process holds: memory and open files, as the kernel counts them."""

from pathlib import Path

_KIB = 1024


def resident_bytes(pid: int) -> int:
    """Return the memory that the process holds now."""
    return _status(pid, "VmRSS")


def peak_resident_bytes(pid: int) -> int:
    """Return the most memory that the process has ever held."""
    return _status(pid, "VmHWM")


def open_files(pid: int) -> int:
    """Return how many files, sockets and pipes the process has open."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def _status(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * _KIB
    raise ProcessLookupError(f"process {pid} has ended")
