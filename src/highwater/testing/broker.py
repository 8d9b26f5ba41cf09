"""A real broker as a child process: on a free port, with a data dir of its own, gone without a trace.

with BrokerProcess({"num.partitions": 3}) as broker:
    client = Producer({"bootstrap.servers": broker.bootstrap_servers})
"""

import atexit
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from highwater.testing.ports import HOST, free_port, is_free
from highwater.testing.with_block import WithBlock

READY_TIMEOUT_SECONDS: Final = 30.0
STOP_TIMEOUT_SECONDS: Final = 30.0
_PAUSE_SECONDS: Final = 0.005
_PORT_ATTEMPTS: Final = 10
_LOG_TAIL_LINES: Final = 20

TEST_DEFAULTS: Final[Mapping[str, object]] = {
    "group.initial.rebalance.delay.ms": 0,  # a test's group is complete when it starts
    "group.consumer.heartbeat.interval.ms": 500,  # members hear of a rebalance when they report
    "group.consumer.min.heartbeat.interval.ms": 500,
}


class BrokerFailed(Exception):
    """The broker did not become ready or did not stop; the text holds the end of its log."""


class BrokerProcess(WithBlock):
    """A broker that can be started, stopped, killed and started again on the same port and data."""

    host: Final = HOST

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        directory: Path | None = None,
        port: int = 0,
        log_level: str = "warning",
        module: str = "highwater",
    ) -> None:
        """Keep everything in `directory`, or in a temporary one; a `port` of 0 is chosen at the first start.

        `module` is what runs: `highwater.testing.failing_disk` is a broker whose disks fail when they are told to.
        """
        self._module = module
        self.settings: dict[str, object] = {**TEST_DEFAULTS, **(settings or {})}
        self.port = port
        self._log_level = log_level
        self._is_temporary = directory is None
        self._root = Path(tempfile.mkdtemp(prefix="highwater-")) if directory is None else directory.absolute()
        self._root.mkdir(parents=True, exist_ok=True)
        self.data_dir = self._root / "data"
        self.log_file = self._root / "broker.log"
        self._process: subprocess.Popen[bytes] | None = None
        _left_over.add(self)

    @property
    def bootstrap_servers(self) -> str:
        """The address that clients take."""
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        assert self._process is not None, "the broker is not running"
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How the process ended; None while it runs, and before it has run."""
        return None if self._process is None else self._process.poll()

    @property
    def is_running(self) -> bool:
        """Whether the process is alive."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start the broker and return when it answers; the first start finds a free port."""
        assert not self.is_running, "the broker is running already"
        if self.port:
            self._launch(self.port)
            return self
        for _ in range(_PORT_ATTEMPTS):
            port = free_port()
            try:
                self._launch(port)
            except BrokerFailed:
                if is_free(port):
                    raise  # it had another reason
            else:
                self.port = port
                return self
        raise BrokerFailed(f"no free port in {_PORT_ATTEMPTS} attempts")

    def stop(self) -> int:
        """Stop the broker as an operator does (SIGTERM) and return its exit code."""
        assert self._process is not None, "the broker is not running"
        self._process.terminate()
        try:
            return self._process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerFailed(f"the broker did not stop in {STOP_TIMEOUT_SECONDS:g} s\n{self._log_tail()}") from None

    def kill(self) -> None:
        """End the broker as a crash does (SIGKILL); what it wrote to the page cache survives."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def pause(self) -> None:
        """Freeze the process (SIGSTOP), as a long stall would."""
        assert self._process is not None, "the broker is not running"
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a frozen process go on (SIGCONT)."""
        assert self._process is not None, "the broker is not running"
        self._process.send_signal(signal.SIGCONT)

    def remove(self) -> None:
        """End the broker, whatever state it is in, and remove all that it wrote, unless its directory was given."""
        self.kill()
        if self._is_temporary:
            shutil.rmtree(self._root, ignore_errors=True)
        _left_over.discard(self)

    def _launch(self, port: int) -> None:
        address = {"listeners": f"PLAINTEXT://{self.host}:{port}", "log.dirs": self.data_dir}
        command = [sys.executable, "-m", self._module, "serve", "--log-level", self._log_level]
        for name, value in {**address, **self.settings}.items():
            command += ["--set", f"{name}={_as_text(value)}"]
        with self.log_file.open("ab") as log:
            seen = log.tell()
            # A process group of its own: Ctrl-C is for us, and we stop the broker in our own time.
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._root, process_group=0
            )
        self._await_ready(port, seen)

    def _await_ready(self, port: int, seen: int) -> None:
        assert self._process is not None
        deadline = time.monotonic() + READY_TIMEOUT_SECONDS
        ready = re.compile(rb"\bready\b.*:%d\b" % port)
        while not ready.search(self.log_file.read_bytes(), seen):
            if self._process.poll() is not None:
                raise BrokerFailed(f"the broker ended with {self._process.returncode}\n{self._log_tail()}")
            if time.monotonic() > deadline:
                self.kill()
                raise BrokerFailed(f"the broker was not ready in {READY_TIMEOUT_SECONDS:g} s\n{self._log_tail()}")
            time.sleep(_PAUSE_SECONDS)

    def _log_tail(self) -> str:
        lines = self.log_file.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-_LOG_TAIL_LINES:])


_left_over: Final[weakref.WeakSet[BrokerProcess]] = weakref.WeakSet()


@atexit.register
def _remove_left_over() -> None:
    for broker in list(_left_over):
        broker.remove()


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
