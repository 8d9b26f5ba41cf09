"""The acts of the demo that need Spark: a data pipeline on one broker, and one on a cluster that is being killed."""

import importlib.util
import tempfile
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from highwater.cli.failures import CommandFailed
from highwater.testing.cluster import ClusterProcesses


def show_pipeline(out: Console, bootstrap: str, seconds: float) -> None:
    """Run the activity pipeline and check its totals."""

    def act(folder: Path) -> None:
        from highwater_spark.shipped.demo import run_demo

        run_demo(out, bootstrap, folder, seconds=seconds)

    _show(out, act)


def show_kills(out: Console, cluster: ClusterProcesses) -> None:
    """Run a pipeline on a cluster, kill a broker and the driver, and check that the totals are exact."""

    def kill_leader(topic: str) -> int:
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        leader = admin.list_topics(topic, timeout=30).topics[topic].partitions[0].leader
        cluster.brokers[leader].kill()
        return leader

    def act(folder: Path) -> None:
        from highwater_spark.shipped.demo_kills import run_under_kills

        run_under_kills(out, cluster.bootstrap_servers, folder, kill_leader)

    _show(out, act)


def _show(out: Console, act: Callable[[Path], None]) -> None:
    """Play an act in a folder of its own; what it needs and does not find is told in a line."""
    if importlib.util.find_spec("pyspark") is None:
        out.print("[yellow]![/] no pipeline shown: pip install 'highwater-broker\\[spark]' brings what it needs")
        return
    from highwater_spark.errors import PipelineError, SetupError

    with tempfile.TemporaryDirectory(prefix="highwater-demo-") as folder:
        try:
            act(Path(folder))
        except SetupError as missing:
            out.print(f"[yellow]![/] no pipeline shown: {missing}")
        except PipelineError as failure:
            raise CommandFailed(f"the demo's pipeline failed: {failure}") from None
