"""`highwater config`: settings of topics, brokers and groups, where they come from, and changing them at run time."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from highwater.cli.cluster import REQUEST_TIMEOUT_SECONDS, Cluster, answers
from highwater.cli.failures import no_such
from highwater.cli.options import AsJson, ClusterOption, Settings, key_values
from highwater.cli.output import say, show_json, show_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from confluent_kafka.admin import ConfigEntry, ConfigResource

configs = typer.Typer(no_args_is_help=True, help="Show and change the settings of topics, brokers and consumer groups.")


class Kind(StrEnum):
    """What a setting belongs to."""

    TOPIC = "topic"
    BROKER = "broker"
    GROUP = "group"


_OWN_SOURCE = {
    Kind.TOPIC: "dynamic topic config",
    Kind.BROKER: "dynamic broker config",
    Kind.GROUP: "group config",
}
KindArgument = Annotated[Kind, typer.Argument(metavar="topic|broker|group", show_default=False)]
NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", show_default=False, help="A topic, a broker's number, or a consumer group.")
]


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    app.add_typer(configs, name="config")


@configs.command()
def describe(
    kind: KindArgument,
    name: NameArgument,
    *,
    cluster: ClusterOption,
    everything: Annotated[bool, typer.Option("--all", help="With the settings that are at their defaults.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the settings of a topic, a broker or a consumer group, and where each value comes from."""
    _require_known(cluster, kind, name)
    entries = sorted(_entries(cluster, kind, [name])[name].values(), key=lambda entry: entry.name)
    shown = [entry for entry in entries if everything or not _is_default(entry)]
    if as_json:
        show_json([_as_document(entry) for entry in shown])
    elif shown:
        rows = [(entry.name, _value(entry), _source(entry), bool(entry.is_read_only)) for entry in shown]
        show_table(["SETTING", "VALUE", "FROM", "READ ONLY"], rows)
    else:
        say(f"every setting of {kind.value} {name} is at its default; --all shows them")


@configs.command()
def alter(
    kind: KindArgument,
    name: NameArgument,
    *,
    cluster: ClusterOption,
    settings: Settings = None,
    unset: Annotated[list[str] | None, typer.Option("--unset", metavar="KEY", help="Back to the default.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only let the broker check the change.")] = False,
    as_json: AsJson = False,
) -> None:
    """Change settings of a topic, a broker or a consumer group while it runs."""
    if not settings and not unset:
        raise typer.BadParameter("say what to change: --set or --unset")
    _require_known(cluster, kind, name)
    change_settings(cluster, kind, name, key_values(settings, option="--set"), unset or [], dry_run=dry_run)
    if as_json:
        show_json(
            {"kind": kind.value, "name": name, "settings": settings_of(cluster, kind, [name])[name], "dry_run": dry_run}
        )
    else:
        say(f"{kind.value} {name}: the change is valid" if dry_run else f"altered {kind.value} {name}")


def settings_of(cluster: Cluster, kind: str, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the settings that were made for these very topics, brokers or groups, by their name."""
    own = _OWN_SOURCE[Kind(kind)]
    return {
        name: {entry.name: _value(entry) for entry in entries.values() if _source(entry) == own}
        for name, entries in _entries(cluster, Kind(kind), names).items()
    }


def change_settings(
    cluster: Cluster, kind: str, name: str, change: dict[str, str], unset: list[str], *, dry_run: bool = False
) -> None:
    """Set and unset settings in one request, which is done whole or not at all."""
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry

    changes = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in change.items()
    ] + [ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE) for key in unset]
    resource = _resource(Kind(kind), name, changes)
    answers(
        cluster.admin.incremental_alter_configs(
            [resource], validate_only=dry_run, request_timeout=REQUEST_TIMEOUT_SECONDS
        )
    )


def _resource(kind: Kind, name: str, changes: list[ConfigEntry] | None = None) -> ConfigResource:
    from confluent_kafka.admin import ConfigResource, ResourceType

    return ConfigResource(ResourceType[kind.name], name, incremental_configs=changes)


def _entries(cluster: Cluster, kind: Kind, names: Sequence[str]) -> dict[str, dict[str, ConfigEntry]]:
    resources = [_resource(kind, name) for name in names]
    found = answers(cluster.admin.describe_configs(resources, request_timeout=REQUEST_TIMEOUT_SECONDS))
    return {resource.name: entries for resource, entries in found.items()}


def _require_known(cluster: Cluster, kind: Kind, name: str) -> None:
    if kind is Kind.TOPIC:
        cluster.topic(name)
        return
    if kind is Kind.GROUP:
        return  # one that does not exist yet may be given settings too
    brokers = {str(broker) for broker in cluster.admin.list_topics(timeout=REQUEST_TIMEOUT_SECONDS).brokers}
    if name not in brokers:
        raise no_such("broker", name, (), f"there is {', '.join(sorted(brokers))}")


def _is_default(entry: ConfigEntry) -> bool:
    return bool(entry.is_default) or _source(entry) == "default config"


def _value(entry: ConfigEntry) -> str:
    return "(hidden)" if entry.is_sensitive else str(entry.value)


def _source(entry: ConfigEntry) -> str:
    from confluent_kafka.admin import ConfigSource

    return ConfigSource(entry.source).name.lower().replace("_", " ")


def _as_document(entry: ConfigEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "value": None if entry.is_sensitive else entry.value,
        "source": _source(entry),
        "read_only": bool(entry.is_read_only),
        "sensitive": bool(entry.is_sensitive),
    }
