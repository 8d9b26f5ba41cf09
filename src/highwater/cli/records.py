"""`highwater records`: delete the oldest records of a topic."""

from typing import Annotated, Final

import typer

from highwater.cli.cluster import REQUEST_TIMEOUT_SECONDS, answers
from highwater.cli.options import AsJson, ClusterOption, Partitions, TopicArgument, Yes
from highwater.cli.output import confirm, counted, say, show_json, show_table
from highwater.cli.positions import HELP, Position, offsets_at, parse_position, spans

REPLICAS_TIMEOUT_SECONDS: Final = 10
"""How long the broker waits for other replicas: shorter than we wait for its answer, which says so."""
records = typer.Typer(no_args_is_help=True, help="Delete the oldest records of a topic.")


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    app.add_typer(records, name="records")


@records.command()
def delete(
    topic: TopicArgument,
    *,
    cluster: ClusterOption,
    before: Annotated[
        Position,
        typer.Option("--before", parser=parse_position, metavar="POSITION", help=f"Up to this place: {HELP}."),
    ],
    partitions: Partitions = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete the records before a place in each partition; `--before latest` empties the topic."""
    from confluent_kafka import TopicPartition

    held = spans(cluster, topic, cluster.partitions_of(topic, partitions))
    ends = offsets_at(cluster, before, topic, held)
    count = sum(end - held[partition].earliest for partition, end in ends.items())
    if count:
        confirm(f"Delete up to {counted(count, 'record')} of {topic}?", yes=yes)
    asked = [TopicPartition(topic, partition, end) for partition, end in ends.items()]
    timeouts = {"request_timeout": REQUEST_TIMEOUT_SECONDS, "operation_timeout": REPLICAS_TIMEOUT_SECONDS}
    done = answers(cluster.admin.delete_records(asked, **timeouts))
    rows = [
        {"partition": place.partition, "earliest": held[place.partition].earliest, "now": outcome.low_watermark}
        for place, outcome in sorted(done.items())
    ]
    if as_json:
        show_json(rows)
        return
    show_table(["PARTITION", "EARLIEST WAS", "EARLIEST IS"], [list(row.values()) for row in rows])
    say(f"deleted up to {counted(count, 'record')} of {topic}")
