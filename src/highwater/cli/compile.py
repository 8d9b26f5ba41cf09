"""`highwater compile`: the hot path in C, where there is a C compiler."""

from typing import Annotated

import typer

from highwater.cli.failures import CommandFailed
from highwater.cli.output import console
from highwater.compiled.building import CannotCompile, build
from highwater.compiled.loading import is_up_to_date
from highwater.compiled.modules import HOT_MODULES


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("compile")(compile_hot_path)


def compile_hot_path(
    *,
    optional: Annotated[
        bool, typer.Option("--optional", help="End with success where it cannot be done: it is only slower then.")
    ] = False,
) -> int:
    """Compile the modules that every request passes through: the next `serve` needs about half the processor time."""
    out = console()
    if is_up_to_date():
        out.print(f"{len(HOT_MODULES)} modules are compiled already")
        return 0
    out.print(f"compiling {len(HOT_MODULES)} modules, a minute or two")
    try:
        build()
    except CannotCompile as error:
        if not optional:
            raise CommandFailed(str(error)) from None
        out.print(f"not compiled, so brokers run in plain Python, at about half the speed: {error}")
        return 0
    out.print("done: `highwater serve` uses them from now on")
    return 0
