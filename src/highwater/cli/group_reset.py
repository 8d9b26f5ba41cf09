"""`highwater group reset-offsets`: move a group to another place; shows what it would do unless told to do it."""

from typing import Annotated, Any

import typer

from highwater.cli.cluster import REQUEST_TIMEOUT_SECONDS, Cluster, answers
from highwater.cli.failures import CommandFailed, meaning
from highwater.cli.group_client import committed_offsets, descriptions, require_groups, state_text
from highwater.cli.group_progress import Place
from highwater.cli.options import AsJson, ClusterOption, Partitions
from highwater.cli.output import counted, say, show_json, show_table
from highwater.cli.positions import HELP, Position, offsets_at, parse_position, spans


def reset_offsets(
    group: Annotated[str, typer.Argument(metavar="GROUP", show_default=False)],
    *,
    cluster: ClusterOption,
    topics: Annotated[
        list[str] | None, typer.Option("--topic", "-t", help="Only this topic; may be repeated. Else all it has read.")
    ] = None,
    partitions: Partitions = None,
    to: Annotated[
        Position | None,
        typer.Option("--to", parser=parse_position, metavar="POSITION", help=f"Where to: {HELP}."),
    ] = None,
    shift: Annotated[
        int | None, typer.Option("--shift", help="So many records forward, or back if negative (--shift=-100).")
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Do it; without this, only show what would be done.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Move a group's offsets. Its members must be stopped."""
    if (to is None) == (shift is None):
        raise typer.BadParameter("say where to: either --to or --shift")
    if partitions and len(topics or ()) != 1:
        raise typer.BadParameter("--partition needs exactly one --topic")
    if not topics:
        require_groups(cluster, [group])
    committed = committed_offsets(cluster, group)
    moves: dict[Place, int] = {}
    for topic in topics or sorted({topic for topic, _ in committed}):
        moves |= _moves(cluster, topic, partitions, committed, to=to, shift=shift)
    if not moves:
        raise CommandFailed(f"group {group!r} has committed nothing; name the topics with --topic")
    if execute:
        _commit(cluster, group, moves)
    _tell(group, committed, moves, execute=execute, as_json=as_json)


def _moves(
    cluster: Cluster,
    topic: str,
    partitions: list[int] | None,
    committed: dict[Place, int],
    *,
    to: Position | None,
    shift: int | None,
) -> dict[Place, int]:
    """Return the new offset of each partition of a topic, never outside of what the partition holds."""
    held = spans(cluster, topic, cluster.partitions_of(topic, partitions))
    if to is not None:
        return {(topic, partition): offset for partition, offset in offsets_at(cluster, to, topic, held).items()}
    assert shift is not None
    return {
        (topic, partition): span.nearest(committed[topic, partition] + shift)
        for partition, span in held.items()
        if (topic, partition) in committed
    }


def _commit(cluster: Cluster, group: str, moves: dict[Place, int]) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

    places = [TopicPartition(topic, partition, offset) for (topic, partition), offset in moves.items()]
    asked = [ConsumerGroupTopicPartitions(group, places)]
    futures = cluster.admin.alter_consumer_group_offsets(asked, request_timeout=REQUEST_TIMEOUT_SECONDS)
    try:
        outcome = answers(futures)[group]
    except KafkaException:
        _require_no_members(cluster, group)
        raise
    refused = [place for place in outcome.topic_partitions or () if place.error is not None]
    if refused:
        _require_no_members(cluster, group)
        raise CommandFailed(f"{refused[0].topic}-{refused[0].partition}: {meaning(refused[0].error)}")


def _require_no_members(cluster: Cluster, group: str) -> None:
    described = descriptions(cluster, [group])[group]
    if members := len(described.members):
        raise CommandFailed(
            f"group {group!r} is {state_text(described)} with {counted(members, 'member')}; stop them first"
        )


def _tell(group: str, committed: dict[Place, int], moves: dict[Place, int], *, execute: bool, as_json: bool) -> None:
    rows: list[dict[str, Any]] = [
        {"topic": topic, "partition": partition, "from": committed.get((topic, partition)), "to": offset}
        for (topic, partition), offset in sorted(moves.items())
    ]
    if as_json:
        show_json({"group": group, "executed": execute, "offsets": rows})
        return
    show_table(["TOPIC", "PARTITION", "FROM", "TO"], [list(row.values()) for row in rows])
    say(f"moved {group}" if execute else "nothing was changed; add --execute to do it")
