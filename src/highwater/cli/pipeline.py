"""`highwater pipeline ...`: data pipelines on Spark, if that part is installed."""

import importlib.util

import typer

from highwater.cli.failures import CommandFailed


def register(app: typer.Typer) -> None:
    """Add the commands to the app; without the extra, one that says how to get them."""
    if importlib.util.find_spec("pyspark") is None or importlib.util.find_spec("yaml") is None:
        settings = {"ignore_unknown_options": True, "allow_extra_args": True}
        app.command("pipeline", context_settings=settings, help="Data pipelines on Spark (not installed).")(_missing)
        return
    from highwater_spark.app import app as pipelines

    app.add_typer(pipelines, name="pipeline")


def _missing() -> None:
    raise CommandFailed("pipelines need the extra `spark`: pip install 'highwater-broker[spark]'")
