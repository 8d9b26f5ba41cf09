"""The second act of the demo: a data pipeline on Spark, on the same broker."""

import importlib.util
import tempfile
from pathlib import Path

from rich.console import Console

from highwater.cli.failures import CommandFailed


def show_pipeline(out: Console, bootstrap: str, seconds: float) -> None:
    """Run the activity pipeline and check its totals; what it needs and does not find is told in a line."""
    if importlib.util.find_spec("pyspark") is None:
        out.print("[yellow]![/] no pipeline shown: pip install 'highwater-broker\\[spark]' brings what it needs")
        return
    from highwater_spark.errors import PipelineError, SetupError
    from highwater_spark.shipped.demo import run_demo

    with tempfile.TemporaryDirectory(prefix="highwater-demo-") as folder:
        try:
            run_demo(out, bootstrap, Path(folder), seconds=seconds)
        except SetupError as missing:
            out.print(f"[yellow]![/] no pipeline shown: {missing}")
        except PipelineError as failure:
            raise CommandFailed(f"the demo's pipeline failed: {failure}") from None
