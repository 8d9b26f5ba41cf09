"""A real ZooKeeper as a child process, from the jars that PySpark's wheel carries.

with ZooKeeperProcess() as zookeeper:
    broker = BrokerProcess({"zookeeper.connect": zookeeper.address})
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final, Self

from highwater.testing.ports import free_port
from highwater.testing.with_block import WithBlock

HOST: Final = "127.0.0.1"
READY_TIMEOUT_SECONDS: Final = 30.0
_PAUSE_SECONDS: Final = 0.05
_TICK_MS: Final = 500
_JARS: Final = ("zookeeper*", "netty*", "slf4j*", "log4j*", "metrics-core*", "snappy*")
_SETTINGS: Final = """\
dataDir={data}
clientPortAddress={host}
clientPort={port}
tickTime={tick_ms}
minSessionTimeout={min_session_ms}
maxSessionTimeout=60000
admin.enableServer=false
maxClientCnxns=0
4lw.commands.whitelist=ruok,srvr,mntr
"""


class ZooKeeperFailed(Exception):
    """ZooKeeper cannot be started here; the text says why."""


class ZooKeeperProcess(WithBlock):
    """One ZooKeeper server that can be started, killed, paused and started again on the same port and data."""

    def __init__(self, directory: Path | None = None, *, port: int = 0) -> None:
        self._temporary = directory is None
        self._root = (
            Path(tempfile.mkdtemp(prefix="highwater-zookeeper-")) if directory is None else directory.absolute()
        )
        self.port = port
        self.log_file = self._root / "zookeeper.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """What `zookeeper.connect` takes; a `/path` may follow."""
        return f"{HOST}:{self.port}"

    @property
    def is_running(self) -> bool:
        """Whether the process is alive."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start the server and return when it answers."""
        self.port = self.port or free_port()
        self._root.mkdir(parents=True, exist_ok=True)
        settings = self._root / "zoo.cfg"
        settings.write_text(
            _SETTINGS.format(
                data=self._root / "data", host=HOST, port=self.port, tick_ms=_TICK_MS, min_session_ms=2 * _TICK_MS
            )
        )
        command = [
            _java(),
            "-Xmx256m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            # An fsync for every write makes a test no more honest: no test cuts this machine's power.
            "-Dzookeeper.forceSync=no",
            "-Dlog4j2.level=WARN",
            "-cp",
            os.pathsep.join(_class_path()),
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(settings),
        ]
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._root, process_group=0
            )
        self._await_ready()
        return self

    def kill(self) -> None:
        """End the server as a crash does (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def pause(self) -> None:
        """Freeze the server (SIGSTOP)."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a frozen server go on (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def remove(self) -> None:
        """End the server and remove what it wrote, unless its directory was given."""
        self.kill()
        if self._temporary:
            shutil.rmtree(self._root, ignore_errors=True)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None, "ZooKeeper is not running"
        self._process.send_signal(number)

    def _await_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + READY_TIMEOUT_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                log = self.log_file.read_text(encoding="utf-8", errors="replace").splitlines()
                raise ZooKeeperFailed("\n".join(["ZooKeeper did not become ready", *log[-20:]]))
            time.sleep(_PAUSE_SECONDS)

    def _answers(self) -> bool:
        try:
            with socket.create_connection((HOST, self.port), timeout=1) as connection:
                connection.sendall(b"srvr")
                return connection.recv(9) == b"Zookeeper"
        except OSError:
            return False


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=None if home is None else f"{home}/bin")
    if found is None:
        raise ZooKeeperFailed("ZooKeeper needs Java 17 or later: no `java` on the PATH or under JAVA_HOME")
    return found


def _class_path() -> list[str]:
    spark = importlib.util.find_spec("pyspark")
    if spark is None or spark.origin is None:
        raise ZooKeeperFailed("ZooKeeper's jars come with PySpark: pip install 'highwater-broker[spark]'")
    jars = Path(spark.origin).parent / "jars"
    return [str(jar) for pattern in _JARS for jar in sorted(jars.glob(f"{pattern}.jar"))]
