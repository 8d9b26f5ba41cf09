"""`highwater group`: who reads what, how far they are, and moving them elsewhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from highwater.cli import group_reset
from highwater.cli.cluster import REQUEST_TIMEOUT_SECONDS, Cluster, answers
from highwater.cli.group_client import all_groups, descriptions, progress_of, require_groups, state_text
from highwater.cli.group_progress import Place, Progress, Verdict, judge, total_lag, unmoved
from highwater.cli.options import AsJson, ClusterOption, Yes
from highwater.cli.output import confirm, console, counted, say, show_json, show_table

if TYPE_CHECKING:
    from confluent_kafka.admin import ConsumerGroupDescription

groups = typer.Typer(no_args_is_help=True, help="List, describe, delete and reset consumer groups.")

LOOK_AGAIN_SECONDS: Final = 0.5
STYLES: Final = {
    Verdict.KEEPING_UP: "green",
    Verdict.SLOW: "yellow",
    Verdict.STUCK: "red",
    Verdict.GONE: "bright_black",
}

Groups = Annotated[list[str], typer.Argument(metavar="GROUP...", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    groups.command("reset-offsets")(group_reset.reset_offsets)
    app.add_typer(groups, name="group")


@groups.command("list")
def list_groups(*, cluster: ClusterOption, as_json: AsJson = False) -> None:
    """List groups and their state."""
    rows = [
        {"group": name, "state": state_text(group), "type": str(group.type.name).lower()}
        for name, group in all_groups(cluster).items()
    ]
    if as_json:
        show_json(rows)
    elif rows:
        show_table(["GROUP", "STATE", "TYPE"], [list(row.values()) for row in rows])
    else:
        say("no groups yet; `highwater consume TOPIC --group NAME` makes one")


@groups.command()
def describe(
    names: Annotated[list[str] | None, typer.Argument(metavar="[GROUP...]", show_default=False)] = None,
    *,
    cluster: ClusterOption,
    patience: Annotated[
        float,
        typer.Option("--patience", min=0, help="Seconds to watch a group that lags before it is called stuck."),
    ] = 6.0,
    as_json: AsJson = False,
) -> None:
    """Describe groups: members, offsets, lag, and a verdict: keeping up, slow, stuck or gone."""
    require_groups(cluster, names or ())
    wanted = names or list(all_groups(cluster))
    described = descriptions(cluster, wanted) if wanted else {}
    views = [_view(cluster, described[name], patience) for name in wanted]
    if as_json:
        show_json(views)
        return
    if not views:
        say("no groups yet")
    for view in views:
        _show(view)


@groups.command()
def delete(names: Groups, *, cluster: ClusterOption, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete groups that have no members, with their offsets."""
    require_groups(cluster, names)
    confirm(f"Delete {', '.join(names)} and where {'they are' if len(names) > 1 else 'it is'} in its topics?", yes=yes)
    answers(cluster.admin.delete_consumer_groups(list(names), request_timeout=REQUEST_TIMEOUT_SECONDS))
    if as_json:
        show_json([{"group": name, "outcome": "deleted"} for name in names])
    else:
        for name in names:
            say(f"deleted {name}")


def _view(cluster: Cluster, group: ConsumerGroupDescription, patience: float) -> dict[str, Any]:
    owners: dict[Place, str] = {
        (place.topic, place.partition): f"{member.client_id}@{member.host.lstrip('/')}"
        for member in group.members
        for place in member.assignment.topic_partitions
    }
    before, after = _two_looks(cluster, group.group_id, owners, patience if group.members else 0)
    verdict = judge(before, after, members=len(group.members))
    return {
        "group": group.group_id,
        "state": state_text(group),
        "assignor": group.partition_assignor or None,
        "coordinator": group.coordinator.id,
        "members": [
            {"id": member.member_id, "client": member.client_id, "host": member.host.lstrip("/")}
            for member in group.members
        ],
        "lag": total_lag(after),
        "verdict": verdict.value,
        "partitions": [
            {
                "topic": topic,
                "partition": partition,
                "committed": progress.committed,
                "latest": progress.latest,
                "lag": progress.lag,
                "member": owners.get((topic, partition)),
            }
            for (topic, partition), progress in sorted(after.items())
        ],
    }


def _two_looks(
    cluster: Cluster, group: str, owners: dict[Place, str], patience: float
) -> tuple[dict[Place, Progress], dict[Place, Progress]]:
    """Look at the offsets, and again until everything that lags has moved or patience ends."""
    before = after = progress_of(cluster, group, owners)
    deadline = time.monotonic() + patience
    if unmoved(before, after) and patience:
        with console(stderr=True).status(f"watching {group} commit (up to {patience:g} s)"):
            while unmoved(before, after) and time.monotonic() < deadline:
                time.sleep(LOOK_AGAIN_SECONDS)
                after = progress_of(cluster, group, owners)
    return before, after


def _show(view: dict[str, Any]) -> None:
    out = console()
    verdict = Verdict(view["verdict"])
    out.print(
        f"[bold]{view['group']}[/]  {view['state']}  {counted(len(view['members']), 'member')}  "
        f"lag {view['lag']:,}  [{STYLES[verdict]}]{verdict.value}[/]"
    )
    show_table(
        ["TOPIC", "PARTITION", "COMMITTED", "LATEST", "LAG", "MEMBER"],
        [list(partition.values()) for partition in view["partitions"]],
    )
