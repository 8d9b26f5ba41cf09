"""`highwater balance`: plan an even cluster, show the plan, and carry it out, throttled if asked."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Final

import typer

from highwater.cli.cluster import REQUEST_TIMEOUT_SECONDS
from highwater.cli.elect_leaders import elect_leaders
from highwater.cli.failures import CommandFailed
from highwater.cli.moves import begin_moves, lift_throttle, moves_under_way, throttle_moves
from highwater.cli.options import AsJson, ClusterOption, Yes
from highwater.cli.output import confirm, counted, say, show_json, show_table
from highwater.controller.even_plan import even_plan
from highwater.model.ids import BrokerId, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from highwater.cli.cluster import Cluster

    Placement = Mapping[TopicPartition, Sequence[BrokerId]]

LOOK_SECONDS: Final = 1.0
"""How often a move is looked at that is waited for."""


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command("balance")(balance)


def balance(
    *,
    cluster: ClusterOption,
    brokers: Annotated[
        str | None,
        typer.Option("--brokers", metavar="1,2,3", help="Use only these, and empty the others; all live if not given."),
    ] = None,
    throttle: Annotated[
        int | None,
        typer.Option("--throttle", metavar="BYTES", min=1, help="Move at most this much a second on each broker."),
    ] = None,
    plan_only: Annotated[bool, typer.Option("--plan", help="Only show the plan.")] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Make the cluster even: as many replicas and as many leaders on each broker, by moving as little as can be.

    It shows what it would do, asks, does it, waits until all has moved, and lifts the throttle again.
    """
    _finish_earlier_moves(cluster, plan_only=plan_only)
    placed = _placed(cluster)
    racks = _racks(cluster)
    used = _used(brokers, racks)
    if crowded := next((name for name, replicas in placed.items() if len(replicas) > len(used)), None):
        raise CommandFailed(
            f"{crowded} has {len(placed[crowded])} replicas, too many for {counted(len(used), 'broker')}"
        )
    plan = even_plan(placed, used, racks)
    if as_json:
        _show_as_json(plan)
        return
    if not plan:
        say("the cluster is even")
        return
    _show(placed, plan, sorted({*racks, *used}))
    if plan_only:
        return
    moved = sum(len(set(replicas) - set(placed[name])) for name, replicas in plan.items())
    confirm(f"Move {counted(moved, 'replica')} and change {counted(len(plan), 'partition')}?", yes=yes)
    _carry_out(cluster, placed, plan, throttle)


def _finish_earlier_moves(cluster: Cluster, *, plan_only: bool) -> None:
    moves = moves_under_way(cluster)
    if moves and plan_only:
        raise CommandFailed(f"{counted(len(moves), 'partition')} move already; `highwater reassign --show` shows them")
    if moves:
        say(f"{counted(len(moves), 'partition')} move already")
        _wait(cluster)
        lift_throttle(cluster, {move.topic for move in moves})


def _placed(cluster: Cluster) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    return {
        TopicPartition(name, index): tuple(map(BrokerId, partition.replicas))
        for name, topic in cluster.topics().items()
        for index, partition in topic.partitions.items()
    }


def _racks(cluster: Cluster) -> dict[BrokerId, str | None]:
    """Return the live brokers, and where they stand."""
    described = cluster.admin.describe_cluster(request_timeout=REQUEST_TIMEOUT_SECONDS).result(REQUEST_TIMEOUT_SECONDS)
    return {BrokerId(node.id): node.rack for node in described.nodes}


def _used(asked: str | None, live: Iterable[BrokerId]) -> list[BrokerId]:
    if asked is None:
        return sorted(live)
    try:
        used = sorted({BrokerId(int(number)) for number in asked.split(",")})
    except ValueError:
        raise typer.BadParameter(f"{asked!r} is not a list like 1,2,3", param_hint="'--brokers'") from None
    if strangers := [broker for broker in used if broker not in live]:
        raise CommandFailed(f"broker {strangers[0]} is not alive")
    return used


def _show(placed: Placement, plan: Placement, brokers: Sequence[BrokerId]) -> None:
    show_table(
        ("topic", "partition", "replicas", "shall be"),
        [(*name, list(placed[name]), list(replicas)) for name, replicas in plan.items()],
    )
    after = {**placed, **plan}
    held, held_then = _replicas(placed), _replicas(after)
    led, led_then = _leaders(placed), _leaders(after)
    show_table(
        ("broker", "replicas", "shall be", "preferred leader of", "shall be"),
        [(broker, held[broker], held_then[broker], led[broker], led_then[broker]) for broker in brokers],
    )


def _show_as_json(plan: Placement) -> None:
    """Write the plan as Apache Kafka's own tool takes it."""
    partitions = [
        {"topic": name.topic, "partition": name.partition, "replicas": list(replicas)}
        for name, replicas in plan.items()
    ]
    show_json({"version": 1, "partitions": partitions})


def _replicas(placed: Placement) -> Counter[BrokerId]:
    return Counter(broker for replicas in placed.values() for broker in replicas)


def _leaders(placed: Placement) -> Counter[BrokerId]:
    return Counter(replicas[0] for replicas in placed.values())


def _carry_out(cluster: Cluster, placed: Placement, plan: Placement, throttle: int | None) -> None:
    topics = sorted({name.topic for name in plan})
    if throttle is not None:
        throttle_moves(cluster, placed, plan, throttle)
    begin_moves(cluster, plan)
    try:
        _wait(cluster)
    except KeyboardInterrupt:
        say("the moves go on; `highwater balance` waits for them and lifts the throttle")
        raise
    if throttle is not None:
        lift_throttle(cluster, topics)
    elect_leaders(cluster=cluster)
    say("the cluster is even")


def _wait(cluster: Cluster) -> None:
    """Return when nothing is being moved any more."""
    left = 0
    while moves := moves_under_way(cluster):
        if len(moves) != left:
            left = len(moves)
            say(f"{counted(left, 'partition')} to go")
        time.sleep(LOOK_SECONDS)
