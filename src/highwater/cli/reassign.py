"""`highwater reassign`: move partitions to other brokers, give them more or fewer replicas, or see how far that is."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Annotated, Final

import typer

from highwater.cli.cluster import REQUEST_TIMEOUT_SECONDS
from highwater.cli.controller_client import ask_controller
from highwater.cli.failures import CommandFailed
from highwater.cli.options import AsJson, ClusterOption, Partitions, Yes
from highwater.cli.output import confirm, counted, say, show_json, show_table
from highwater.controller.placement import place
from highwater.model.errors import ErrorCode
from highwater.model.ids import BrokerId
from highwater.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from highwater.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from confluent_kafka.admin import TopicMetadata

    from highwater.cli.cluster import Cluster

ALTER_VERSION: Final = 0
LIST_VERSION: Final = 0
COLUMNS: Final = ("topic", "partition", "replicas", "adding", "removing")


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
    plan: dict[tuple[str, int], list[int] | None] = {}
    for name in topics:
        indexes = cluster.partitions_of(name, partitions)
        if cancel:
            plan |= {(name, index): None for index in indexes}
        else:
            plan |= _plan(cluster, name, indexes, brokers, replicas, replication_factor)
    if not cancel:
        show_table(("topic", "partition", "replicas"), [(*name, target) for name, target in plan.items()])
        confirm(f"Move {counted(len(plan), 'partition')}?", yes=yes)
    _carry_out(cluster, plan)
    done = "called off" if cancel else "began"
    say(f"{done} {counted(len(plan), 'move')}; `highwater reassign --show` shows what is under way")


def _plan(
    cluster: Cluster,
    name: str,
    indexes: list[int],
    brokers: str | None,
    replicas: str | None,
    replication_factor: int | None,
) -> dict[tuple[str, int], list[int] | None]:
    if replicas is not None:
        return {(name, index): _numbers(replicas, "--replicas") for index in indexes}
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
    return {(name, index): list(placed[index]) for index in indexes}


def _carry_out(cluster: Cluster, plan: dict[tuple[str, int], list[int] | None]) -> None:
    by_topic: dict[str, ReassignableTopic] = {}
    for (name, index), target in plan.items():
        topic = by_topic.setdefault(name, ReassignableTopic(name=name))
        topic.partitions.append(ReassignablePartition(partition_index=index, replicas=target))
    request = AlterPartitionReassignmentsRequest(topics=list(by_topic.values()))
    response = ask_controller(cluster, request, AlterPartitionReassignmentsResponse, version=ALTER_VERSION)
    if response.error_code != ErrorCode.NONE:
        raise CommandFailed(response.error_message or ErrorCode(response.error_code).name)
    for answer in response.responses:
        for partition in answer.partitions:
            if partition.error_code != ErrorCode.NONE:
                raise CommandFailed(f"{answer.name}-{partition.partition_index}: {partition.error_message}")


def _show(cluster: Cluster, *, as_json: bool) -> None:
    request = ListPartitionReassignmentsRequest(topics=None)
    response = ask_controller(cluster, request, ListPartitionReassignmentsResponse, version=LIST_VERSION)
    if response.error_code != ErrorCode.NONE:
        raise CommandFailed(response.error_message or ErrorCode(response.error_code).name)
    rows = [
        (topic.name, move.partition_index, move.replicas, move.adding_replicas, move.removing_replicas)
        for topic in response.topics
        for move in topic.partitions
    ]
    if as_json:
        show_json([dict(zip(COLUMNS, row, strict=True)) for row in rows])
    elif rows:
        show_table(COLUMNS, rows)
    else:
        say("nothing is being moved")


def _numbers(text: str, option: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a list of broker ids like 1,2,3", param_hint=f"'{option}'") from None
