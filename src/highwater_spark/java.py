"""Finding a Java that Spark can run on."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from highwater_spark.errors import SetupError

OLDEST: Final = 17  # Spark 4 is compiled for it
NEWEST: Final = 23  # Java 24 removed the security manager calls that the Hadoop client in Spark 4.0 makes at start
PROBE_TIMEOUT_SECONDS: Final = 20
USUAL_PLACES: Final = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/.sdkman/candidates/java/*",
)


@dataclass(frozen=True, slots=True)
class Java:
    """One Java installation."""

    home: Path
    major: int

    @property
    def fits(self) -> bool:
        """Whether Spark runs on it."""
        return OLDEST <= self.major <= NEWEST


def find_java(environment: Mapping[str, str] | None = None, places: Iterable[str] | None = None) -> Java:
    """Return the first Java that fits: `JAVA_HOME`, then the one on the PATH, then the usual places."""
    environment = os.environ if environment is None else environment
    seen: list[Java] = []
    for home in _candidates(environment, USUAL_PLACES if places is None else places):
        java = _examine(home)
        if java is None or java in seen:
            continue
        if java.fits:
            return java
        seen.append(java)
    if not seen:
        raise SetupError("Spark needs Java 17 or 21, and none was found: install one (Debian: openjdk-17-jre-headless)")
    found = ", ".join(f"Java {java.major} in {java.home}" for java in seen)
    raise SetupError(f"Spark needs Java 17 or 21, found only {found}: install one, or point JAVA_HOME at it")


def _candidates(environment: Mapping[str, str], places: Iterable[str]) -> Iterator[Path]:
    if java_home := environment.get("JAVA_HOME"):
        yield Path(java_home)
    if on_path := shutil.which("java", path=environment.get("PATH", os.defpath)):
        yield Path(on_path).resolve().parent.parent
    for pattern in places:
        expanded = Path(pattern).expanduser()
        yield from sorted(
            path.resolve() for path in Path(expanded.anchor).glob(str(expanded.relative_to(expanded.anchor)))
        )


def _examine(home: Path) -> Java | None:
    """Return what is in a folder; the `release` file says it for free, otherwise `java -version` does."""
    executable = home / "bin" / "java"
    if not executable.is_file():
        return None
    release = home / "release"
    told = release.read_text(encoding="utf-8", errors="replace") if release.is_file() else ""
    stated = re.search(r'^JAVA_VERSION="([^"]+)"', told, re.MULTILINE)
    version = stated[1] if stated else _asked_version(executable)
    major = _major(version)
    return None if major is None else Java(home, major)


def _asked_version(executable: Path) -> str:
    try:
        answer = subprocess.run(  # noqa: S603 - the executable is the Java we were pointed at
            [executable, "-version"], capture_output=True, text=True, timeout=PROBE_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    stated = re.search(r'version "([^"]+)"', answer.stderr + answer.stdout)
    return stated[1] if stated else ""


def _major(version: str) -> int | None:
    """Return 17 for 17.0.15, and 8 for 1.8.0_392, as Java counted before 9."""
    numbers = re.match(r"(?:1\.)?(\d+)", version)
    return int(numbers[1]) if numbers else None
