"""`highwater serve`: run a broker in the foreground."""

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command, so that it is listed and has its help; `main` runs it without coming here."""
    app.command("serve")(serve)


def serve(
    file: Annotated[
        Path | None, typer.Argument(metavar="[server.properties]", show_default=False, help="A Kafka settings file.")
    ] = None,
    *,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting that overrides the file; may be repeated."),
    ] = None,
    log_level: Annotated[
        str, typer.Option("--log-level", metavar="LEVEL", help="debug, info, warning or error: what it logs to stderr.")
    ] = "warning",
) -> int:
    """Run a broker in the foreground; it says "ready" and its address, and stops on Ctrl-C or SIGTERM."""
    from highwater.app import serve as broker

    arguments = [str(file)] if file else []
    for setting in settings or ():
        arguments += ["--set", setting]
    arguments += ["--log-level", log_level]
    return broker.main(arguments)
