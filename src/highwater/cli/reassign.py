"""`highwater reassign`: move partitions to other brokers, give them more or fewer replicas, or see how far that is."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Annotated

import typer

from highwater.cli.cluster import REQUEST_TIMEOUT_SECONDS
from highwater.cli.failures import CommandFailed
from highwater.cli.moves import Move, begin_moves, moves_under_way
from highwater.cli.options import AsJson, ClusterOption, Partitions, Yes
from highwater.cli.output import confirm, counted, say, show_json, show_table
from highwater.controller.placement import place
from highwater.model.ids import BrokerId, TopicPartition

if TYPE_CHECKING:
    from confluent_kafka.admin import TopicMetadata

    from highwater.cli.cluster import Cluster


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command("reassign")(reassign)


def reassign(
    topics: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC...]", show_default=False)] = None,
    *,
    cluster: ClusterOption,
    brokers: Annotated[
        str | None, typer.Option("--brokers", metavar="1,2,3", help="Spread over these; all live ones if not given.")
    ] = None,
    replicas: Annotated[
        str | None, typer.Option("--replicas", metavar="2,3", help="Exactly these, the preferred leader first.")
    ] = None,
    replication_factor: Annotated[
        int | None, typer.Option("--replication-factor", "-r", min=1, help="How many replicas; as before if not given.")
    ] = None,
    partitions: Partitions = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Call off the moves of these topics.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Only show the moves that are under way.")] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Plan an even spread of topics over brokers, show the plan, and carry it out; or show or cancel moves."""
    if show:
        _show(cluster, as_json=as_json)
        return
    if not topics:
        raise typer.BadParameter("which topics?", param_hint="'TOPIC...'")
    plan: dict[TopicPartition, list[int] | None] = {}
    for name in topics:
        indexes = cluster.partitions_of(name, partitions)
        if cancel:
            plan |= {TopicPartition(name, index): None for index in indexes}
        else:
            plan |= _plan(cluster, name, indexes, brokers, replicas, replication_factor)
    if not cancel:
        show_table(("topic", "partition", "replicas"), [(*name, target) for name, target in plan.items()])
        confirm(f"Move {counted(len(plan), 'partition')}?", yes=yes)
    begin_moves(cluster, plan)
    done = "called off" if cancel else "began"
    say(f"{done} {counted(len(plan), 'move')}; `highwater reassign --show` shows what is under way")


def _plan(
    cluster: Cluster,
    name: str,
    indexes: list[int],
    brokers: str | None,
    replicas: str | None,
    replication_factor: int | None,
) -> dict[TopicPartition, list[int] | None]:
    if replicas is not None:
        return {TopicPartition(name, index): _numbers(replicas, "--replicas") for index in indexes}
    topic: TopicMetadata = cluster.topic(name)
    live = cluster.admin.list_topics(timeout=REQUEST_TIMEOUT_SECONDS).brokers
    over = sorted(live) if brokers is None else _numbers(brokers, "--brokers")
    factor = replication_factor or len(topic.partitions[0].replicas)
    if factor > len(over):
        raise CommandFailed(f"{factor} replicas need as many brokers, and there are {len(over)}")
    start = random.randrange(len(over))  # noqa: S311 - not a secret
    placed = place(
        [BrokerId(broker) for broker in over],
        first_partition=0,
        partition_count=max(indexes) + 1,
        replication_factor=factor,
        start=start,
        shift=start,
    )
    return {TopicPartition(name, index): list(placed[index]) for index in indexes}


def _show(cluster: Cluster, *, as_json: bool) -> None:
    moves = moves_under_way(cluster)
    if as_json:
        show_json([move._asdict() for move in moves])
    elif moves:
        show_table(Move._fields, moves)
    else:
        say("nothing is being moved")


def _numbers(text: str, option: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a list of broker ids like 1,2,3", param_hint=f"'{option}'") from None
