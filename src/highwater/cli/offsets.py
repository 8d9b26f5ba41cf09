"""`highwater offsets`: the earliest and latest offset of each partition, and the one at a time."""

from typing import Annotated, Any

import typer

from highwater.cli.options import AsJson, ClusterOption, Partitions, TopicArgument
from highwater.cli.output import show_json, show_table
from highwater.cli.positions import HELP, Position, offsets_at, parse_position, spans


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command("offsets")(offsets)


def offsets(
    topic: TopicArgument,
    *,
    cluster: ClusterOption,
    partitions: Partitions = None,
    at: Annotated[
        Position | None,
        typer.Option("--at", parser=parse_position, metavar="POSITION", help=f"With the offset at this place: {HELP}."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the offsets of a topic: earliest, latest, and the one at a time."""
    held = spans(cluster, topic, cluster.partitions_of(topic, partitions))
    rows: list[dict[str, Any]] = [
        {"partition": number, "earliest": span.earliest, "latest": span.latest, "span": span.latest - span.earliest}
        for number, span in held.items()
    ]
    if at is not None:
        found = offsets_at(cluster, at, topic, held)
        for row in rows:
            row["at"] = found[row["partition"]]
    if as_json:
        show_json(rows)
    else:
        columns = ["PARTITION", "EARLIEST", "LATEST", "SPAN", *(["AT"] if at is not None else [])]
        show_table(columns, [list(row.values()) for row in rows])
