"""Nothing in a broker reaches around the seams that the simulator swaps: clocks, chance, sockets, threads, files."""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "highwater"
NOT_SIMULATED = {"cli", "compiled", "testing"}
"""Rooms that no broker runs in."""

WORLDLY = {
    "concurrent",
    "ctypes",
    "fcntl",
    "kazoo",
    "mmap",
    "multiprocessing",
    "os",
    "random",
    "resource",
    "secrets",
    "select",
    "selectors",
    "shutil",
    "signal",
    "socket",
    "sqlite3",
    "ssl",
    "subprocess",
    "tempfile",
    "threading",
    "time",
    "uvloop",
}
"""Modules by which code touches the world."""

ALLOWED = {
    "app/disk_threads.py": {"concurrent", "threading", "time"},  # of the real world
    "app/serve.py": {"signal", "uvloop"},  # the process around a broker
    "app/wall_clock.py": {"time"},  # the real side of a seam
    "app/world.py": {"concurrent", "secrets"},  # the real side of the seams
    "broker/compaction_worker.py": {"concurrent", "subprocess"},  # of the real world
    "coordination/embedded.py": {"concurrent", "sqlite3"},  # of one broker alone
    "coordination/zookeeper.py": {"kazoo"},
    "metrics/process.py": {"os", "resource"},  # what the system says of this process, asked for at a scrape
    "protocol/records/compression.py": {"mmap"},  # as a type of buffer
    "server/acceptor.py": {"socket"},
    "server/transport.py": {"os", "socket"},
    "storage/compaction/worker.py": {"ctypes", "os", "signal", "time"},  # the process that compacts
    "storage/recovery_worker.py": {"ctypes", "signal"},  # the process that checks large logs
    "storage/files.py": {"ctypes", "fcntl", "mmap", "os"},
}
WORLDLY_CALLS = {
    "create_subprocess_exec",
    "create_subprocess_shell",
    "start_server",
    "open_connection",
    "open",
    "input",
}
ALLOWED_CALLS = {
    "broker/recovery_process.py": {"create_subprocess_exec"},  # for logs that are larger than any here
    "metrics/http.py": {"start_server"},
}
NOT_PATHS = {"read_text", "read_bytes", "write_text", "write_bytes", "unlink", "mkdir", "iterdir", "glob", "touch"}
ALLOWED_PATHS = {
    "broker/compaction_worker.py",  # of the real world: what the kernel tells of its process
    "metrics/process.py",
    "protocol/native/__main__.py",  # a part of the compiler, not of a broker
    "storage/files.py",
}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name.split("/")[0] not in NOT_SIMULATED:
            yield name, ast.parse(path.read_text(encoding="utf-8"))


def only_for_types(tree: ast.Module) -> set[ast.AST]:
    """Return what is imported only for a type checker."""
    guarded = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)]
    return {inner for node in guarded for inner in ast.walk(node)}


def imported(tree: ast.Module) -> set[str]:
    ignored, found = only_for_types(tree), set[str]()
    for node in ast.walk(tree):
        if node in ignored:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.add(node.module.partition(".")[0])
    return found


def called(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                yield node.func.id
            elif isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "asyncio":
                yield node.func.attr


def test_only_the_real_side_of_a_seam_imports_what_touches_the_world() -> None:
    found = {name: imported(tree) & WORLDLY for name, tree in modules()}
    assert {name: used for name, used in found.items() if used} == ALLOWED


def test_nothing_else_starts_processes_or_opens_sockets_and_files() -> None:
    found = {name: WORLDLY_CALLS.intersection(called(tree)) for name, tree in modules()}
    assert {name: used for name, used in found.items() if used} == ALLOWED_CALLS


def test_files_are_reached_by_the_storage_port_alone() -> None:
    users = {
        name
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in NOT_PATHS
    }
    assert users == ALLOWED_PATHS
