"""The command line: `python -m highwater_spark ...`, which `highwater pipeline ...` is as well.

Nothing of Spark is imported before a command needs it: `list`, `explain` and `--help` answer at once.
"""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from highwater_spark.errors import PipelineError, PipelineFileError

if TYPE_CHECKING:
    from highwater_spark.definition.model import Pipeline
    from highwater_spark.flow.sources import Stretch
    from highwater_spark.run.progress import Display, Snapshot

app: Final = typer.Typer(
    name="pipeline",
    help="Data pipelines on Spark: from topics, through SQL or Python, to topics and tables.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
dead_letters_app: Final = typer.Typer(
    help="Records that could not be used: look at them, and send them back after a fix.", no_args_is_help=True
)
app.add_typer(dead_letters_app, name="dead-letters")

PIPE_WIDTH: Final = 240
_SPARK_MODULES: Final = ("pyspark", "py4j")

WhichPipeline = Annotated[str, typer.Argument(metavar="FILE|NAME", help="A pipeline file, or the name of a known one.")]
Bootstrap = Annotated[
    str | None,
    typer.Option("--bootstrap", "-b", metavar="HOST:PORT", help="Brokers to use instead of the file's."),
]
Master = Annotated[
    str | None, typer.Option("--master", help="Where Spark runs: local[*], spark://..., yarn, k8s://...")
]
Jars = Annotated[
    list[Path] | None,
    typer.Option(
        "--jars", help="Jars or folders of jars to use instead of downloading the connector; may be repeated."
    ),
]
Conf = Annotated[
    list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark; may be repeated.")
]


@contextmanager
def _told() -> Iterator[None]:
    """Turn what the user can mend into lines on the terminal and exit code 1."""
    try:
        yield
    except PipelineError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in _SPARK_MODULES:
            raise  # a mistake of ours, which must not be hidden
        from highwater_spark.run.failures import one_line

        typer.echo(f"Spark: {one_line(error)} (spark.log in the checkpoint has more)", err=True)
        raise typer.Exit(1) from error


def _loaded(which: str, bootstrap: str | None = None) -> "Pipeline":
    from highwater_spark.definition.load import load
    from highwater_spark.shipped.catalog import find_pipeline

    return load(find_pipeline(which), bootstrap=bootstrap)


@app.command("list")
def list_pipelines() -> None:
    """List the pipelines that can be run by name: those shipped, and your own in ./pipelines."""
    from highwater_spark.shipped.catalog import known_pipelines

    table = Table("name", "what it does", box=None)
    table.add_column("file", overflow="fold")
    for name, path in known_pipelines().items():
        try:
            about = _loaded(str(path)).description
        except PipelineFileError as error:
            about = f"[red]has mistakes: {str(error).splitlines()[0].rpartition('.yaml:')[2]}[/]"
        table.add_row(name, about, str(path))
    _console().print(table)


@app.command()
def validate(
    which: WhichPipeline,
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Only what can be known without starting Spark.")] = False,
    jars: Jars = None,
) -> None:
    """Check a pipeline without running it: the file, the SQL, the columns. No broker is needed."""
    with _told():
        pipeline = _loaded(which)
        if quick:
            typer.echo(f"{pipeline.path}: right as far as can be known without Spark")
            return
        from highwater_spark.flow.plan import plan_of
        from highwater_spark.session import session

        plan = plan_of(session(app_name=pipeline.name, jars=jars, log_file=_log_file(pipeline)), pipeline)
        typer.echo(f"{pipeline.path}: right")
        for query in plan.queries:
            sinks = ", ".join(f"{sink.name} ({sink.target})" for sink in query.sinks)
            typer.echo(f"  query {query.name}: {sinks or 'dead letters'}")


@app.command()
def explain(
    which: WhichPipeline,
    *,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Draw into a file: .svg, .mmd (Mermaid) or .dot.")
    ] = None,
) -> None:
    """Show what a pipeline reads, does and writes, as a picture."""
    with _told():
        from highwater_spark.definition.explain import as_tree, graph_of, write_picture

        graph = graph_of(_loaded(which))
        if output is None:
            _console().print(as_tree(graph))
        else:
            write_picture(graph, output)
            typer.echo(f"drawn: {output}")


@app.command()
def run(
    which: WhichPipeline,
    *,
    bootstrap: Bootstrap = None,
    master: Master = None,
    once: Annotated[bool, typer.Option("--once", help="Process all that is there now, then stop.")] = False,
    full_refresh: Annotated[
        bool, typer.Option("--full-refresh", help="Forget the checkpoint, empty the tables, start from the beginning.")
    ] = False,
    from_offset: Annotated[
        list[str] | None,
        typer.Option("--from-offset", metavar="[[TOPIC:]PARTITION:]OFFSET", help="Replay from here; may be repeated."),
    ] = None,
    until_offset: Annotated[
        list[str] | None,
        typer.Option("--until-offset", metavar="[[TOPIC:]PARTITION:]OFFSET", help="Replay up to here, exclusive."),
    ] = None,
    from_time: Annotated[
        str | None, typer.Option("--from-time", metavar="TIME", help="Replay from 2026-01-31T10:00, or from 2h ago.")
    ] = None,
    until_time: Annotated[str | None, typer.Option("--until-time", metavar="TIME", help="Replay up to then.")] = None,
    to: Annotated[
        list[str] | None,
        typer.Option("--to", metavar="SINK=TARGET", help="Replay only this sink, into another topic or table."),
    ] = None,
    wait: Annotated[float, typer.Option("--wait", help="Seconds to wait for a broker that is away.")] = 600.0,
    jars: Jars = None,
    conf: Conf = None,
) -> None:
    """Run a pipeline until it is stopped; or --once; or over a stretch of the past, beside the running one.

    A replay (--from-..., --until-..., --to) keeps no state and touches none: windows come out complete, and the running
    pipeline does not notice. With --full-refresh, --from-... is where the pipeline itself begins again.
    """
    with _told():
        from highwater_spark.run.replay import retargeted

        pipeline = retargeted(_loaded(which, bootstrap), _pairs(to, "--to"))
        stretch = _stretch(pipeline, from_offset, until_offset, from_time, until_time)
        settings = _pairs(conf, "--conf")
        if full_refresh and any((until_offset, until_time, to)):
            raise PipelineError("--full-refresh is for the pipeline itself; a replay has --until-... and --to")
        if not full_refresh and any((from_offset, until_offset, from_time, until_time, to)):
            _replay(pipeline, stretch, master, jars, settings)
        else:
            options = RunChoices(once=once, full_refresh=full_refresh, start=stretch, wait=wait)
            _run(pipeline, master, jars, settings, options)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChoices:
    """What the user chose for a run."""

    once: bool
    full_refresh: bool
    start: "Stretch"
    wait: float


def _run(
    pipeline: "Pipeline", master: str | None, jars: list[Path] | None, settings: dict[str, str], chosen: RunChoices
) -> None:
    from highwater_spark.run.lock import only_run

    stop = threading.Event()
    _stop_on_signals(stop)
    with only_run(pipeline.checkpoint, pipeline.name), _display() as display:
        display.say(f"{pipeline.name}: starting Spark on {master or 'local[*]'}{_first_time(jars)}")
        from highwater_spark.run.runner import Runner, RunOptions
        from highwater_spark.session import session

        spark = session(app_name=pipeline.name, master=master, jars=jars, conf=settings, log_file=_log_file(pipeline))
        options = RunOptions(
            once=chosen.once,
            full_refresh=chosen.full_refresh,
            start=chosen.start,
            patience_seconds=chosen.wait,
            stop=stop,
        )
        snapshot = Runner(spark, pipeline, options, display).run()
    _sum_up(snapshot)


def _first_time(jars: list[Path] | None) -> str:
    """Say why the first start takes longer, where it does."""
    from highwater_spark import connector

    return "" if connector.local_jars(jars) else " (the first start downloads the Kafka connector)"


def _replay(
    pipeline: "Pipeline", stretch: "Stretch", master: str | None, jars: list[Path] | None, settings: dict[str, str]
) -> None:
    with _display() as display:
        display.say(f"{pipeline.name}: starting Spark on {master or 'local[*]'}{_first_time(jars)}")
        from highwater_spark.run.replay import replay
        from highwater_spark.session import session

        spark = session(app_name=pipeline.name, master=master, jars=jars, conf=settings, log_file=_log_file(pipeline))
        snapshot = replay(spark, pipeline, stretch, display)
    _sum_up(snapshot)


def _stretch(
    pipeline: "Pipeline",
    from_offset: list[str] | None,
    until_offset: list[str] | None,
    from_time: str | None,
    until_time: str | None,
) -> "Stretch":
    from highwater_spark.flow.sources import EARLIEST, LATEST, Stretch
    from highwater_spark.run.moments import parse_time
    from highwater_spark.run.replay import parse_offsets

    return Stretch(
        from_offsets=parse_offsets(from_offset or [], pipeline, otherwise=EARLIEST),
        until_offsets=parse_offsets(until_offset or [], pipeline, otherwise=LATEST),
        from_time_ms=parse_time(from_time) if from_time else None,
        until_time_ms=parse_time(until_time) if until_time else None,
    )


@app.command()
def generate(
    name: Annotated[str, typer.Argument(metavar="NAME", help="activity or logs")],
    *,
    bootstrap: Annotated[
        str, typer.Option("--bootstrap", "-b", metavar="HOST:PORT", envvar="HIGHWATER_BOOTSTRAP", help="Brokers.")
    ] = "127.0.0.1:9092",
    rate: Annotated[float, typer.Option("--rate", min=0.1, max=1_000_000, help="Events a second.")] = 100.0,
    seconds: Annotated[float | None, typer.Option("--seconds", help="For how long; else until it is stopped.")] = None,
    events: Annotated[int | None, typer.Option("--events", min=1, help="How many; else until it is stopped.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="The same seed gives the same events.")] = None,
) -> None:
    """Send realistic events for a shipped pipeline, at a chosen rate."""
    with _told():
        from highwater_spark.definition.model import Kafka
        from highwater_spark.shipped.generators import Sender, generator_named

        stop = threading.Event()
        _stop_on_signals(stop)
        sender = Sender(Kafka(bootstrap=bootstrap, options={}), generator_named(name), rate=rate, seed=seed)
        sender.prepare()
        typer.echo(f"sending {rate:g} events a second to {bootstrap}; Ctrl-C stops")
        ledger = sender.run(stop, events=events, seconds=seconds)
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(ledger.sent.items()))
        typer.echo(f"{ledger.total:,} events sent and acknowledged: {kinds or 'none'}")


Stage = Annotated[str | None, typer.Option("--stage", help="Only those that failed here: parse, require, transform.")]
ErrorText = Annotated[str | None, typer.Option("--error", metavar="TEXT", help="Only those with this in the error.")]
FromTopic = Annotated[str | None, typer.Option("--topic", help="Only those that came from this topic.")]
Since = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help="Only those dead since then: 15m, or a time.")
]
Places = Annotated[
    list[str] | None,
    typer.Option("--at", metavar="PARTITION:OFFSET", help="Only this one, as `show` names it; may be repeated."),
]


@dead_letters_app.command()
def show(
    which: WhichPipeline,
    *,
    bootstrap: Bootstrap = None,
    stage: Stage = None,
    error: ErrorText = None,
    topic: FromTopic = None,
    since: Since = None,
    at: Places = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="The last so many.")] = 20,
) -> None:
    """Show the dead letters of a pipeline: where each came from, what is wrong with it, and what it says."""
    with _told():
        from collections import deque

        from highwater_spark.kafka.dead_letters import DeadLetters

        pipeline = _loaded(which, bootstrap)
        letters = DeadLetters(pipeline.kafka, pipeline.dead_letters)
        table = Table("at", "came from", "stage", "error", "sent back", "value")
        found = deque(filter(_choice(stage, error, topic, since, at), letters), maxlen=limit)
        for letter in found:
            origin = f"{letter.topic}-{letter.source_partition}@{letter.source_offset}" if letter.topic else "-"
            value = (letter.value or b"").decode(errors="replace")
            place = f"{letter.partition}:{letter.offset}"
            back = "yes" if (letter.partition, letter.offset) in letters.sent_back else ""
            if letter.replays:
                back = f"{back} (and {letter.replays} times before)".strip()
            table.add_row(place, origin, letter.stage, letter.error, back, value[:120])
        _console().print(table if found else f"no dead letters in {pipeline.dead_letters}")


@dead_letters_app.command("replay")
def replay_dead_letters(
    which: WhichPipeline,
    *,
    bootstrap: Bootstrap = None,
    every: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    stage: Stage = None,
    error: ErrorText = None,
    topic: FromTopic = None,
    since: Since = None,
    at: Places = None,
    again: Annotated[bool, typer.Option("--again", help="Also those that were sent back before.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be sent back.")] = False,
) -> None:
    """Send chosen dead letters back to the topics they came from, as they came and once, for another try."""
    with _told():
        from highwater_spark.kafka.dead_letters import send_back

        if not (every or any((stage, error, topic, since, at))):
            raise PipelineError("say which dead letters: --all, --stage, --error, --topic, --since or --at")
        pipeline = _loaded(which, bootstrap)
        meant = _choice(stage, error, topic, since, at)
        done = send_back(pipeline.kafka, pipeline.dead_letters, meant, again=again, dry_run=dry_run)
        typer.echo(f"{done.sent} of {done.chosen} dead letters {'would be ' if dry_run else ''}sent back")


def _choice(
    stage: str | None, error: str | None, topic: str | None, since: str | None, at: list[str] | None
) -> Callable[..., bool]:
    from highwater_spark.kafka.dead_letters import Choice
    from highwater_spark.run.moments import parse_time

    places = set()
    for place in at or ():
        partition, _, offset = place.partition(":")
        if not (partition.isdigit() and offset.isdigit()):
            raise PipelineError(f"--at {place}: write PARTITION:OFFSET, as `show` does")
        places.add((int(partition), int(offset)))
    since_ms = parse_time(since) if since else None
    return Choice(stage=stage, error=error, topic=topic, since_ms=since_ms, places=frozenset(places))


def _pairs(texts: list[str] | None, option: str) -> dict[str, str]:
    pairs = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise PipelineError(f"{option} {text}: write NAME=VALUE")
        pairs[name] = value
    return pairs


def _log_file(pipeline: "Pipeline") -> Path | None:
    return None if "://" in pipeline.checkpoint else Path(pipeline.checkpoint) / "spark.log"


@contextmanager
def _display() -> Iterator["Display"]:
    from highwater_spark.run.progress import Lines, Screen

    console = _console()
    if not console.is_terminal:
        yield Lines(console)
        return
    screen = Screen(console)
    try:
        yield screen
    finally:
        screen.close()


def _console() -> Console:
    """Return the terminal, or something wide enough that a program finds whole lines."""
    return Console() if sys.stdout.isatty() else Console(width=PIPE_WIDTH)


def _sum_up(snapshot: "Snapshot") -> None:
    rows = ", ".join(f"{snapshot.rows_out.get(sink.name, 0):,} to {sink.name}" for sink in snapshot.pipeline.sinks)
    typer.echo(
        f"{snapshot.pipeline.name}: done in {snapshot.seconds:.0f} s: {rows}; {snapshot.dead_letters:,} dead letters"
    )
    for query in snapshot.queries:
        if query.unfinished:
            typer.echo(
                f"  {query.name}: {query.unfinished:,} rows are not final yet; they come out when the watermark passes "
                "them (`mode: update` writes every change at once)"
            )


def _stop_on_signals(stop: threading.Event) -> None:
    """The first Ctrl-C or SIGTERM ends the run in good order, a second one at once."""

    def ask(number: int, _frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        signal.signal(number, signal.default_int_handler)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ask)
