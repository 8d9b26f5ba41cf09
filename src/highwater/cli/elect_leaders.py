"""`highwater elect-leaders`: give partitions back to their preferred leaders, or to whatever replica is left."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from highwater.cli.controller_client import ask_controller
from highwater.cli.failures import CommandFailed
from highwater.cli.options import AsJson, ClusterOption, Partitions, Yes
from highwater.cli.output import confirm, counted, say, show_json
from highwater.model.errors import ErrorCode
from highwater.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions

VERSION: Final = 2


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command("elect-leaders")(elect_leaders)


def elect_leaders(
    topic: Annotated[str | None, typer.Argument(metavar="[TOPIC]", show_default=False)] = None,
    *,
    cluster: ClusterOption,
    partitions: Partitions = None,
    unclean: Annotated[
        bool, typer.Option("--unclean", help="Of partitions without a leader: any live replica. May lose records.")
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Let the preferred replica of each partition lead, of one topic or of all."""
    if partitions and topic is None:
        raise typer.BadParameter("name the topic too", param_hint="'--partition'")
    asked = None
    if topic is not None:
        asked = [TopicPartitions(topic=topic, partitions=cluster.partitions_of(topic, partitions))]
    if unclean:
        confirm("Records that only dead replicas have will be lost. Elect anyway?", yes=yes)
    request = ElectLeadersRequest(election_type=int(unclean), topic_partitions=asked)
    response = ask_controller(cluster, request, ElectLeadersResponse, version=VERSION)
    if response.error_code != ErrorCode.NONE:
        raise CommandFailed(ErrorCode(response.error_code).name)
    results = [
        (f"{answer.topic}-{one.partition_id}", one)
        for answer in response.replica_election_results
        for one in answer.partition_result
    ]
    elected = [name for name, result in results if result.error_code == ErrorCode.NONE]
    failed = {
        name: result.error_message or ErrorCode(result.error_code).name
        for name, result in results
        if result.error_code not in {ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED}
    }
    if as_json:
        show_json({"elected": elected, "failed": failed})
    else:
        say(f"{counted(len(elected), 'partition')} got another leader")
    if failed:
        name, reason = next(iter(failed.items()))
        raise CommandFailed(f"{counted(len(failed), 'partition')} did not: {name}: {reason}")
