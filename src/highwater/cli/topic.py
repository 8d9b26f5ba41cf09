"""`highwater topic`: create, list, describe, alter and delete topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from highwater.cli.cluster import REQUEST_TIMEOUT_SECONDS, Cluster, answers
from highwater.cli.config import change_settings, settings_of
from highwater.cli.failures import CommandFailed, meaning, no_such
from highwater.cli.options import AsJson, ClusterOption, Settings, Yes, key_values
from highwater.cli.output import confirm, console, counted, say, show_json, show_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from concurrent.futures import Future

    from confluent_kafka import Node, TopicPartitionInfo
    from confluent_kafka.admin import TopicDescription

URL_SAFE: Final = str.maketrans("+/", "-_")  # Kafka's tools show topic ids in this alphabet, librdkafka in the other

topics = typer.Typer(no_args_is_help=True, help="Create, list, describe, alter and delete topics.")

Names = Annotated[list[str], typer.Argument(metavar="TOPIC...", show_default=False)]
OptionalNames = Annotated[list[str] | None, typer.Argument(metavar="[TOPIC...]", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    app.add_typer(topics, name="topic")


@topics.command()
def create(
    names: Names,
    *,
    cluster: ClusterOption,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-n", min=1, help="How many; the broker's num.partitions if not given."),
    ] = None,
    replication_factor: Annotated[
        int | None, typer.Option("--replication-factor", "-r", min=1, help="The broker's default if not given.")
    ] = None,
    settings: Settings = None,
    if_missing: Annotated[bool, typer.Option("--if-missing", help="A topic that exists is no error.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only let the broker check the request.")] = False,
    as_json: AsJson = False,
) -> None:
    """Create topics."""
    from confluent_kafka.admin import NewTopic

    config = key_values(settings, option="--set")
    wanted = [
        NewTopic(name, num_partitions=partitions or -1, replication_factor=replication_factor or -1, config=config)
        for name in names
    ]
    futures = cluster.admin.create_topics(wanted, validate_only=dry_run, request_timeout=REQUEST_TIMEOUT_SECONDS)
    allowed = {"TOPIC_ALREADY_EXISTS"} if if_missing else set()
    _settle(futures, "would be created" if dry_run else "created", allowed=allowed, as_json=as_json)


@topics.command("list")
def list_topics(
    *,
    cluster: ClusterOption,
    internal: Annotated[
        bool, typer.Option("--internal", help="With the topics that brokers keep for themselves.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List topics."""
    rows = [
        {
            "topic": name,
            "partitions": len(topic.partitions),
            "replication_factor": max((len(partition.replicas) for partition in topic.partitions.values()), default=0),
        }
        for name, topic in sorted(cluster.topics().items())
        if internal or not name.startswith("__")
    ]
    if as_json:
        show_json(rows)
    elif rows:
        show_table(["TOPIC", "PARTITIONS", "REPLICAS"], [list(row.values()) for row in rows])
    else:
        say("no topics yet; `highwater topic create NAME` makes one")


@topics.command()
def describe(
    names: OptionalNames = None,
    *,
    cluster: ClusterOption,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated-partitions", help="Only partitions with replicas out of sync.")
    ] = False,
    unavailable: Annotated[
        bool, typer.Option("--unavailable-partitions", help="Only partitions without a leader.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Describe topics: leaders, replicas, in-sync replicas and the settings that differ from the defaults."""
    found = _descriptions(cluster, names)
    settings = settings_of(cluster, "topic", [topic.name for topic in found]) if found else {}
    documents = [_as_document(topic, settings[topic.name]) for topic in found]
    if under_replicated or unavailable:
        documents = list(_in_trouble(documents, under_replicated=under_replicated, unavailable=unavailable))
    if as_json:
        show_json(documents)
        return
    if not documents:
        say("no such partitions" if under_replicated or unavailable else "no topics yet")
    for document in documents:
        _show_description(document)


@topics.command()
def alter(
    name: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)],
    *,
    cluster: ClusterOption,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-n", min=1, help="Raise the number of partitions to this.")
    ] = None,
    settings: Settings = None,
    unset: Annotated[list[str] | None, typer.Option("--unset", metavar="KEY", help="Back to the default.")] = None,
    as_json: AsJson = False,
) -> None:
    """Add partitions to a topic, change its settings, or both."""
    from confluent_kafka.admin import NewPartitions

    if partitions is None and not settings and not unset:
        raise typer.BadParameter("say what to change: --partitions, --set or --unset")
    now = len(cluster.topic(name).partitions)
    if partitions is not None and partitions < now:
        raise CommandFailed(
            f"topic {name!r} has {counted(now, 'partition')} already; partitions can be added, never removed"
        )
    if settings or unset:
        change_settings(cluster, "topic", name, key_values(settings, option="--set"), unset or [])
    if partitions is not None and partitions > now:
        answers(cluster.admin.create_partitions([NewPartitions(name, partitions)]))
    if as_json:
        show_json(
            {
                "topic": name,
                "partitions": max(partitions or 0, now),
                "settings": settings_of(cluster, "topic", [name])[name],
            }
        )
    else:
        say(f"altered {name}")


@topics.command()
def delete(names: Names, *, cluster: ClusterOption, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete topics and all their records."""
    known = cluster.topics()
    for name in names:
        if name not in known:
            raise no_such("topic", name, known, "`highwater topic list` shows all")
    confirm(f"Delete {', '.join(names)} and all records in {'them' if len(names) > 1 else 'it'}?", yes=yes)
    futures = cluster.admin.delete_topics(list(names), request_timeout=REQUEST_TIMEOUT_SECONDS)
    _settle(futures, "deleted", allowed=set(), as_json=as_json)


def _settle(futures: Mapping[str, Future[None]], done: str, *, allowed: set[str], as_json: bool) -> None:
    """Wait for every topic's answer, tell each, and fail if one of them failed."""
    from confluent_kafka import KafkaException

    outcome: dict[str, str] = {}
    failures = []
    for name, future in futures.items():
        try:
            future.result(REQUEST_TIMEOUT_SECONDS)
            outcome[name] = done
        except KafkaException as exception:
            error = exception.args[0]
            outcome[name] = "exists" if error.name() in allowed else meaning(error)
            if error.name() not in allowed:
                failures.append(f"{name}: {meaning(error)}")
    if as_json:
        show_json([{"topic": name, "outcome": text} for name, text in outcome.items()])
    else:
        for name, text in outcome.items():
            if text in {done, "exists"}:
                say(f"{text} {name}" if text == done else f"{name} exists already")
    if failures:
        raise CommandFailed("; ".join(failures))


def _descriptions(cluster: Cluster, names: list[str] | None) -> list[TopicDescription]:
    from confluent_kafka import TopicCollection

    known = cluster.topics()
    for name in names or ():
        if name not in known:
            raise no_such("topic", name, known, "`highwater topic list` shows all")
    wanted = sorted(names or (name for name in known if not name.startswith("__")))
    if not wanted:
        return []
    futures = cluster.admin.describe_topics(TopicCollection(wanted), request_timeout=REQUEST_TIMEOUT_SECONDS)
    return list(answers(futures).values())


def _in_trouble(
    topics: Iterable[dict[str, Any]], *, under_replicated: bool, unavailable: bool
) -> Iterator[dict[str, Any]]:
    """Yield the topics that have partitions in the trouble that is asked for, with only those partitions."""
    for topic in topics:
        partitions = [
            partition
            for partition in topic["partitions"]
            if (under_replicated and len(partition["isr"]) < len(partition["replicas"]))
            or (unavailable and partition["leader"] is None)
        ]
        if partitions:
            yield {**topic, "partitions": partitions}


def _as_document(topic: TopicDescription, settings: dict[str, str]) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "id": str(topic.topic_id).translate(URL_SAFE),
        "internal": topic.is_internal,
        "settings": settings,
        "partitions": [
            {
                "partition": partition.id,
                "leader": _leader(partition),
                "replicas": [node.id for node in partition.replicas],
                "isr": [node.id for node in partition.isr],
            }
            for partition in topic.partitions
        ],
    }


def _leader(partition: TopicPartitionInfo) -> int | None:
    leader: Node | None = partition.leader
    return leader.id if leader is not None and leader.id >= 0 else None


def _show_description(topic: dict[str, Any]) -> None:
    out = console()
    out.print(f"[bold]{topic['topic']}[/]  id {topic['id']}")
    for name, value in topic["settings"].items():
        out.print(f"  {name} = {value}", markup=False)
    show_table(
        ["PARTITION", "LEADER", "REPLICAS", "IN SYNC"],
        [list(partition.values()) for partition in topic["partitions"]],
    )
