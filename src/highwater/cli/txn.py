"""`highwater txn`: which transactions there are, which hang, and how to end one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from highwater.cli.cluster import REQUEST_TIMEOUT_SECONDS
from highwater.cli.failures import CommandFailed
from highwater.cli.options import AsJson, ClusterOption, Yes
from highwater.cli.output import confirm, console, say, show_json, show_table, time_text
from highwater.cli.txn_client import (
    DECIDED,
    FINISHED,
    OpenTransaction,
    abort_hanging,
    abort_open,
    all_transactions,
    described,
    hanging_transactions,
    open_transactions,
)

if TYPE_CHECKING:
    from highwater.cli.cluster import Cluster
    from highwater.cli.txn_client import Described

transactions = typer.Typer(no_args_is_help=True, help="List, describe and abort transactions, and find hanging ones.")

ASK_AGAIN_SECONDS: Final = 0.1
MINUTE_MS: Final = 60_000

Ids = Annotated[list[str], typer.Argument(metavar="ID...", show_default=False, help="Transactional ids.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    app.add_typer(transactions, name="txn")


@transactions.command("list")
def list_transactions(
    *,
    cluster: ClusterOption,
    states: Annotated[
        list[str] | None, typer.Option("--state", help="Only those in this state, such as Ongoing; may be repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List transactional ids and the state of their last transaction."""
    wanted = {state.lower() for state in states or ()}
    rows = [each._asdict() for each in all_transactions(cluster) if not wanted or each.state.lower() in wanted]
    if as_json:
        show_json(rows)
    elif rows:
        show_table(["TRANSACTIONAL ID", "STATE", "PRODUCER ID", "COORDINATOR"], [list(row.values()) for row in rows])
    else:
        say("no transactional ids" + (" in such a state" if wanted else " yet"))


@transactions.command()
def describe(names: Ids, *, cluster: ClusterOption, as_json: AsJson = False) -> None:
    """Describe transactional ids: producer, state, since when, and the partitions of what is open or not told yet."""
    found = described(cluster, names)
    if as_json:
        show_json([_view(each) for each in found])
        return
    for each in found:
        console().print(
            f"[bold]{each.transactional_id}[/]  {each.state}  producer {each.producer_id} of epoch "
            f"{each.producer_epoch}  coordinator {each.coordinator}  timeout {each.timeout_ms} ms"
            + (f"  since {time_text(each.started_at_ms)}" if each.started_at_ms >= 0 else "")
        )
        if each.partitions:
            if each.state in DECIDED:
                say("its outcome is decided, and these partitions have not been told yet:")
            show_table(["TOPIC", "PARTITION"], each.partitions)


@transactions.command("find-hanging")
def find_hanging(
    *,
    cluster: ClusterOption,
    topic: Annotated[str | None, typer.Option("--topic", "-t", help="Look at this topic only.")] = None,
    minutes: Annotated[
        float,
        typer.Option("--minutes", min=0, help="How long nothing was written: the brokers' transaction.max.timeout.ms."),
    ] = 15.0,
    as_json: AsJson = False,
) -> None:
    """Find transactions that hold readers back and that no coordinator will end."""
    if topic is not None:
        cluster.topic(topic)
    written_before_ms = int(time.time() * 1000 - minutes * MINUTE_MS)
    found = hanging_transactions(cluster, None if topic is None else [topic], written_before_ms=written_before_ms)
    rows = [_hanging_view(each) for each in found]
    if as_json:
        show_json(rows)
    elif rows:
        show_table(
            ["TOPIC", "PARTITION", "START OFFSET", "PRODUCER ID", "EPOCH", "LAST WRITTEN"],
            [list(row.values()) for row in rows],
        )
        say("`highwater txn abort --hanging TOPIC PARTITION START-OFFSET` ends one")
    else:
        say("no transaction hangs")


@transactions.command()
def abort(
    name: Annotated[
        str | None, typer.Argument(metavar="[ID]", show_default=False, help="The transactional id to take away.")
    ] = None,
    *,
    cluster: ClusterOption,
    hanging: Annotated[
        tuple[str, int, int] | None,
        typer.Option("--hanging", metavar="TOPIC PARTITION START-OFFSET", help="End one that `find-hanging` shows."),
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Abort the open transaction of an id, whose producer is fenced; or one that hangs in a partition."""
    if (name is None) == (hanging is None):
        raise typer.BadParameter("name a transactional id or one that hangs, not both", param_hint="'ID' / '--hanging'")
    if hanging is not None:
        outcome = _abort_hanging(cluster, *hanging, yes=yes)
    else:
        assert name is not None, "one of the two is there"
        outcome = _abort_open(cluster, name, yes=yes)
    if as_json:
        show_json({"aborted": outcome})
    else:
        say(f"aborted {outcome}")


def _abort_hanging(cluster: Cluster, topic: str, partition: int, start_offset: int, *, yes: bool) -> str:
    cluster.partitions_of(topic, [partition])
    found = [
        each
        for each in open_transactions(cluster, [topic])
        if (each.partition.partition, each.start_offset) == (partition, start_offset)
    ]
    if not found:
        raise CommandFailed(f"no transaction is open in {topic}-{partition} since offset {start_offset}")
    confirm(f"End the transaction of producer {found[0].producer_id} in {topic}-{partition}?", yes=yes)
    abort_hanging(cluster, found[0])
    return f"{topic}-{partition}@{start_offset}"


def _abort_open(cluster: Cluster, name: str, *, yes: bool) -> str:
    (known,) = described(cluster, [name])
    if known.state in FINISHED:
        raise CommandFailed(f"{name} has no transaction open: it is in {known.state}")
    confirm(f"Abort the transaction of {name} and fence its producer?", yes=yes)
    deadline = time.monotonic() + REQUEST_TIMEOUT_SECONDS
    while not abort_open(cluster, name, known.timeout_ms):
        if time.monotonic() > deadline:
            raise CommandFailed(f"{name} is being ended, and some partition has no leader for its marker")
        time.sleep(ASK_AGAIN_SECONDS)
    return name


def _view(found: Described) -> dict[str, Any]:
    view = found._asdict()
    view["started_at_ms"] = found.started_at_ms if found.started_at_ms >= 0 else None
    view["partitions"] = [partition._asdict() for partition in found.partitions]
    return view


def _hanging_view(found: OpenTransaction) -> dict[str, Any]:
    return {
        "topic": found.partition.topic,
        "partition": found.partition.partition,
        "start_offset": found.start_offset,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "last_written": time_text(found.last_written_ms),
    }
