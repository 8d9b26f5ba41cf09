"""`highwater cluster`: a cluster on this machine, to try things on, and to see what happens when its brokers die."""

from __future__ import annotations

import json
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from highwater.cli.cluster import REQUEST_TIMEOUT_SECONDS
from highwater.cli.failures import CommandFailed
from highwater.cli.options import AsJson, ClusterOption, Settings, key_values
from highwater.cli.output import say, show_json, show_table
from highwater.testing.broker import BrokerFailed, BrokerProcess
from highwater.testing.zookeeper import ZooKeeperFailed, ZooKeeperProcess

STATE_FILE: Final = "cluster.json"
DEFAULT_DIRECTORY: Final = Path("highwater-cluster")
LOOK_SECONDS: Final = 0.2
"""How often `up` looks for brokers that ended and for requests to start one again."""

cluster_app = typer.Typer(no_args_is_help=True, help="Run a cluster on this machine, look at it, and break it.")

Directory = Annotated[
    Path, typer.Option("--dir", help="Where the cluster keeps its data, its logs and its process ids.")
]
BrokerNumber = Annotated[int, typer.Argument(metavar="ID", show_default=False, help="The broker's number.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    app.add_typer(cluster_app, name="cluster")


@cluster_app.command()
def up(
    *,
    brokers: Annotated[int, typer.Option("--brokers", "-n", min=1, max=100, help="How many brokers.")] = 3,
    base_port: Annotated[
        int, typer.Option("--base-port", min=1, max=65000, help="The first broker's port; the others follow.")
    ] = 9092,
    directory: Directory = DEFAULT_DIRECTORY,
    zookeeper: Annotated[
        str | None,
        typer.Option("--zookeeper", metavar="HOST:PORT", help="Use this ZooKeeper instead of starting one."),
    ] = None,
    settings: Settings = None,
) -> None:
    """Start a ZooKeeper and brokers 1 to N, and run them until Ctrl-C; a broker that dies does not end the others."""
    factor = min(brokers, 3)
    common: dict[str, object] = {
        "default.replication.factor": factor,
        "offsets.topic.replication.factor": factor,
        "transaction.state.log.replication.factor": factor,
        **key_values(settings, option="--set"),
    }
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    server = None if zookeeper else ZooKeeperProcess(directory / "zookeeper")
    run = _Run(directory, common, brokers, base_port)
    try:
        run.start(zookeeper if server is None else server.start().address)
        run.watch(stop)
        run.stop()
    except (BrokerFailed, ZooKeeperFailed) as failure:
        raise CommandFailed(" ".join(str(failure).split())) from None
    finally:
        run.kill()
        if server is not None:
            server.kill()
        (directory / STATE_FILE).unlink(missing_ok=True)


@cluster_app.command()
def status(*, cluster: ClusterOption, as_json: AsJson = False) -> None:
    """Show the controller, and each partition's leader, epoch, replicas, in-sync set and high watermark."""
    metadata = cluster.admin.list_topics(timeout=REQUEST_TIMEOUT_SECONDS)
    rows = []
    for name, topic in sorted(metadata.topics.items()):
        for index, partition in sorted(topic.partitions.items()):
            missing = sorted(set(partition.replicas) - set(partition.isrs))
            rows.append((name, index, partition.leader, list(partition.replicas), list(partition.isrs), missing))
    watermarks = _high_watermarks(cluster.admin, [(row[0], row[1]) for row in rows if row[2] >= 0])
    columns = ("topic", "partition", "leader", "replicas", "in sync", "out of sync", "high watermark")
    rows_shown = [(*row, watermarks.get((row[0], row[1]))) for row in rows]
    if as_json:
        show_json(
            {
                "controller": metadata.controller_id,
                "brokers": {broker.id: f"{broker.host}:{broker.port}" for broker in metadata.brokers.values()},
                "partitions": [dict(zip(columns, row, strict=True)) for row in rows_shown],
            }
        )
        return
    show_table(
        ("broker", "address", "controller"),
        [
            (broker.id, f"{broker.host}:{broker.port}", "yes" if broker.id == metadata.controller_id else "")
            for _, broker in sorted(metadata.brokers.items())
        ],
    )
    if rows_shown:
        show_table(columns, rows_shown)


@cluster_app.command()
def kill(broker: BrokerNumber, *, directory: Directory = DEFAULT_DIRECTORY) -> None:
    """Kill a broker of a running `cluster up`, as a crash would (SIGKILL)."""
    _signal(directory, broker, signal.SIGKILL)


@cluster_app.command()
def pause(broker: BrokerNumber, *, directory: Directory = DEFAULT_DIRECTORY) -> None:
    """Freeze a broker, as a long stall would (SIGSTOP)."""
    _signal(directory, broker, signal.SIGSTOP)


@cluster_app.command()
def resume(broker: BrokerNumber, *, directory: Directory = DEFAULT_DIRECTORY) -> None:
    """Let a frozen broker go on (SIGCONT)."""
    _signal(directory, broker, signal.SIGCONT)


@cluster_app.command()
def start(broker: BrokerNumber, *, directory: Directory = DEFAULT_DIRECTORY) -> None:
    """Start a broker again that was killed."""
    if _process_id(directory, broker) is not None:
        raise CommandFailed(f"broker {broker} is running")
    _request(directory, broker).touch()


class _Run:
    """The brokers of one `cluster up`."""

    def __init__(self, directory: Path, settings: dict[str, object], count: int, base_port: int) -> None:
        self._directory = directory
        self._brokers = {
            number: BrokerProcess(
                {**settings, "broker.id": number}, directory=directory / f"broker-{number}", port=base_port + number - 1
            )
            for number in range(1, count + 1)
        }
        self._ended: set[int] = set()

    def start(self, zookeeper: str | None) -> None:
        for broker in self._brokers.values():
            broker.settings["zookeeper.connect"] = zookeeper
        with ThreadPoolExecutor(len(self._brokers)) as starters:
            list(starters.map(BrokerProcess.start, self._brokers.values()))
        for number in self._brokers:
            self._tell_ready(number)
        self._write_state()

    def watch(self, stop: threading.Event) -> None:
        """Say when a broker ends, and start those that are asked for, until `stop`."""
        while not stop.wait(LOOK_SECONDS):
            for number, broker in self._brokers.items():
                if not broker.is_running and number not in self._ended:
                    self._ended.add(number)
                    self._write_state()
                    say(f"broker {number} ended with {broker.exit_code}; `highwater cluster start {number}` starts it")
                request = _request(self._directory, number)
                if request.exists():
                    request.unlink()
                    self._start_again(number, broker)

    def stop(self) -> None:
        for number, broker in self._brokers.items():
            if broker.is_running:
                broker.stop()
                say(f"broker {number} stopped")

    def kill(self) -> None:
        """Leave nothing running, whatever went wrong."""
        for broker in self._brokers.values():
            broker.kill()

    def _start_again(self, number: int, broker: BrokerProcess) -> None:
        try:
            broker.start()
        except BrokerFailed as failure:
            say(f"broker {number} did not start: {' '.join(str(failure).split())}")
            return
        self._ended.discard(number)
        self._tell_ready(number)
        self._write_state()

    def _tell_ready(self, number: int) -> None:
        print(f"highwater ready {self._brokers[number].bootstrap_servers} broker.id={number}", flush=True)

    def _write_state(self) -> None:
        running = {number: broker.pid for number, broker in self._brokers.items() if broker.is_running}
        file = self._directory / STATE_FILE
        file.with_suffix(".new").write_text(json.dumps({"running": running}), encoding="utf-8")
        file.with_suffix(".new").replace(file)


def _high_watermarks(admin: Any, names: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import OffsetSpec

    if not names:
        return {}
    asked = {TopicPartition(*name): OffsetSpec.latest() for name in names}
    futures = admin.list_offsets(asked, request_timeout=REQUEST_TIMEOUT_SECONDS)
    return {(asked.topic, asked.partition): future.result().offset for asked, future in futures.items()}


def _signal(directory: Path, broker: int, number: signal.Signals) -> None:
    process_id = _process_id(directory, broker)
    if process_id is None:
        raise CommandFailed(f"broker {broker} is not running")
    os.kill(process_id, number)


def _process_id(directory: Path, broker: int) -> int | None:
    try:
        running: dict[str, int] = json.loads((directory / STATE_FILE).read_text(encoding="utf-8"))["running"]
    except FileNotFoundError:
        raise CommandFailed(f"no cluster runs in {directory}; `highwater cluster up` starts one") from None
    return running.get(str(broker))


def _request(directory: Path, broker: int) -> Path:
    """Where it says that a broker shall be started again."""
    return directory / f"start-{broker}"
