"""The two brokers that are compared, each with every default, each with a data dir of its own."""

import base64
import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Final, Self

ROOT: Final = Path(__file__).parents[1]
KAFKA_JARS: Final = ROOT / ".tools" / "kafka"
START_TIMEOUT_SECONDS: Final = 120.0
STOP_TIMEOUT_SECONDS: Final = 120.0

JVM_OPTIONS: Final = (
    *("-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
)
"""What Apache Kafka's own start script gives to the JVM."""


class BrokerFailed(Exception):
    """A broker did not start or stop; the text says where its log is."""


class Broker(ABC):
    """A broker as a child process, which can be stopped and started again on the same data."""

    name: ClassVar[str]

    def __init__(self, directory: Path, overrides: Mapping[str, str] | None = None) -> None:
        """`overrides` are the settings that a line needs to differ from the defaults, on both sides."""
        self.overrides = dict(overrides or {})
        self.directory = directory
        self.port = free_port()
        self.log_file = directory / "broker.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """Where clients connect."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process that is measured."""
        assert self._process is not None, "the broker is not running"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process is alive."""
        return self._process is not None and self._process.poll() is None

    @abstractmethod
    def command(self) -> list[str]:
        """Return the command that runs the broker in the foreground."""

    def prepare(self) -> None:
        """Make the data dir ready for the first start."""
        self.directory.mkdir(parents=True, exist_ok=True)

    def wipe(self) -> None:
        """Forget all data, as if the broker had never run."""
        shutil.rmtree(self.directory)
        self.prepare()

    def launch(self) -> None:
        """Start the process and return at once."""
        assert self._process is None, "the broker is running already"
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0
            )

    def start(self) -> Self:
        """Start the broker and return when its port is open."""
        self.launch()
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not is_open(self.port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise BrokerFailed(f"{self.name} did not start, see {self.log_file}")
            time.sleep(0.05)
        return self

    def stop(self) -> None:
        """Stop the broker as an operator does."""
        assert self._process is not None, "the broker is not running"
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise BrokerFailed(f"{self.name} did not stop, see {self.log_file}") from error
        self._process = None

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Have it do nothing at all: even a broker that nobody asks for anything wakes up now and then."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End the process, whatever state it is in."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        self.prepare()
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


class Highwater(Broker):
    """Ours."""

    name = "Highwater"

    def command(self) -> list[str]:
        """Return the command that runs the broker in the foreground."""
        settings = {"listeners": f"PLAINTEXT://{self.bootstrap}", "log.dirs": self.directory / "data"}
        settings |= self.overrides
        arguments = [argument for key, value in settings.items() for argument in ("--set", f"{key}={value}")]
        return [sys.executable, "-m", "highwater", "serve", *arguments]


class ApacheKafka(Broker):
    """Theirs: broker and controller in one process (KRaft), as its quick start has it."""

    name = "Apache Kafka"
    format_options: tuple[str, ...] = ()  # for what must be there before the first start, such as passwords

    def __init__(
        self,
        directory: Path,
        overrides: Mapping[str, str] | None = None,
        *,
        node_id: int = 1,
        controller: str | None = None,
        voters: str | None = None,
        cluster_id: str | None = None,
    ) -> None:
        """Without the keywords it is a cluster of one."""
        super().__init__(directory, overrides)
        self._node_id = node_id
        self._controller = controller or f"127.0.0.1:{free_port()}"
        self._voters = voters or f"{node_id}@{self._controller}"
        self._cluster_id = cluster_id or new_cluster_id()

    @property
    def _properties_file(self) -> Path:
        return self.directory / "server.properties"

    def settings(self) -> Mapping[str, object]:
        """Return its settings: addresses, and what a cluster of one broker cannot do without."""
        return {
            "process.roles": "broker,controller",
            "node.id": self._node_id,
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{self._controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": self._voters,
            "log.dirs": self.directory / "data",
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            **self.overrides,
        }

    def prepare(self) -> None:
        """Write the settings and format the data dir."""
        if not any(KAFKA_JARS.glob("kafka_*.jar")):
            raise BrokerFailed("Apache Kafka is missing: run `make setup`")
        super().prepare()
        lines = [f"{key}={value}" for key, value in self.settings().items()]
        self._properties_file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        arguments = ("format", "-t", self._cluster_id, "-c", str(self._properties_file), *self.format_options)
        subprocess.run(
            ["java", "-cp", f"{KAFKA_JARS}/*", "kafka.tools.StorageTool", *arguments],
            check=True,
            capture_output=True,
            timeout=START_TIMEOUT_SECONDS,
        )

    def command(self) -> list[str]:
        """Return the command that runs the broker in the foreground."""
        return ["java", *JVM_OPTIONS, "-cp", f"{KAFKA_JARS}/*", "kafka.Kafka", str(self._properties_file)]


def new_cluster_id() -> str:
    """Return a random id as Apache Kafka writes them, and not one that looks like an option."""
    return base64.urlsafe_b64encode(uuid.UUID(int=uuid.uuid4().int >> 1).bytes).decode().rstrip("=")


def free_port() -> int:
    """Return a port below the range that outgoing connections take theirs from."""
    while True:
        port = random.randrange(10_000, 32_768)
        with contextlib.closing(socket.socket()) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port


def is_open(port: int) -> bool:
    """Whether something listens on `port`."""
    with contextlib.closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
