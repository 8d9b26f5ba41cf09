"""Options that several commands share, so that they read and behave the same everywhere."""

from typing import Annotated, Final

import typer

from highwater.cli.cluster import Cluster

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"

ClusterOption = Annotated[
    Cluster,
    typer.Option(
        "--bootstrap",
        "-b",
        parser=Cluster,
        metavar="HOST:PORT",
        envvar="HIGHWATER_BOOTSTRAP",
        default_factory=lambda: DEFAULT_BOOTSTRAP,
        show_default=DEFAULT_BOOTSTRAP,
        help="A broker of the cluster, or several, separated by commas.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON for programs instead of text for people.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]
TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False, help="The topic's name.")]
Partitions = Annotated[
    list[int] | None, typer.Option("--partition", "-p", min=0, help="Only this partition; may be repeated.")
]
ClientSettings = Annotated[
    list[str] | None,
    typer.Option("--setting", "-X", metavar="KEY=VALUE", help="A setting of the client library; may be repeated."),
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting and its value; may be repeated.")
]


def key_values(pairs: list[str] | None, *, option: str) -> dict[str, str]:
    """Return `key=value` options as a mapping."""
    mapping = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint=f"'{option}'")
        mapping[key.strip()] = value.strip()
    return mapping
