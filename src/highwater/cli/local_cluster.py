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

from highwater.cli.cluster import REQUEST_TIMEOUT_SECONDS, Cluster
from highwater.cli.cluster_status import replica_statuses
from highwater.cli.failures import CommandFailed
from highwater.cli.options import AsJson, ClusterOption, Settings, key_values
from highwater.cli.output import counted, say, show_json, show_table
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
def status(
    *,
    cluster: ClusterOption,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="The directory of a `cluster up`, instead of --bootstrap.")
    ] = None,
    behind: Annotated[
        bool, typer.Option("--under-replicated", help="Only partitions that lack an in-sync replica.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the controller, each partition's leader and in-sync set, and how far every replica is, as it says itself."""
    if directory is not None:
        cluster = Cluster(_state(directory)["bootstrap"])
    metadata = cluster.admin.list_topics(timeout=REQUEST_TIMEOUT_SECONDS)
    replicas = replica_statuses(metadata)
    lacking = {(replica.topic, replica.partition) for replica in replicas if not replica.in_sync}
    shown = [replica for replica in replicas if not behind or (replica.topic, replica.partition) in lacking]
    brokers = sorted(metadata.brokers.items())
    if as_json:
        show_json(
            {
                "controller": metadata.controller_id,
                "brokers": {number: f"{broker.host}:{broker.port}" for number, broker in brokers},
                "under_replicated": [f"{topic}-{index}" for topic, index in sorted(lacking)],
                "replicas": [replica._asdict() for replica in shown],
            }
        )
        return
    show_table(
        ("broker", "address", "controller", "leads", "follows"),
        [
            (
                number,
                f"{broker.host}:{broker.port}",
                "yes" if number == metadata.controller_id else "",
                sum(replica.broker == number and replica.role == "leader" for replica in replicas),
                sum(replica.broker == number and replica.role == "follower" for replica in replicas),
            )
            for number, broker in brokers
        ],
    )
    if shown:
        columns = ("topic", "partition", "broker", "role", "in sync", "log end", "high watermark", "epoch")
        show_table(columns, [(*replica[:4], "yes" if replica.in_sync else "NO", *replica[5:]) for replica in shown])
    say(f"{counted(len(lacking), 'partition')} under-replicated")


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
        addresses = ",".join(broker.bootstrap_servers for broker in self._brokers.values())
        state = json.dumps({"running": running, "bootstrap": addresses})
        file.with_suffix(".new").write_text(state, encoding="utf-8")
        file.with_suffix(".new").replace(file)


def _signal(directory: Path, broker: int, number: signal.Signals) -> None:
    process_id = _process_id(directory, broker)
    if process_id is None:
        raise CommandFailed(f"broker {broker} is not running")
    os.kill(process_id, number)


def _process_id(directory: Path, broker: int) -> int | None:
    running: dict[str, int] = _state(directory)["running"]
    return running.get(str(broker))


def _state(directory: Path) -> dict[str, Any]:
    """Return what `up` says of its brokers: their processes and addresses."""
    try:
        state: dict[str, Any] = json.loads((directory / STATE_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CommandFailed(f"no cluster runs in {directory}; `highwater cluster up` starts one") from None
    return state


def _request(directory: Path, broker: int) -> Path:
    """Where it says that a broker shall be started again."""
    return directory / f"start-{broker}"
