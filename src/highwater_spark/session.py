"""A Spark session that can talk to Kafka: finds Java, brings the connector, keeps Spark's log out of the terminal."""

import atexit
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from highwater_spark import connector
from highwater_spark.errors import SetupError
from highwater_spark.java import find_java

SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"  # spark-submit started the JVM, and this process from it
SESSION_DEFAULTS: Final[Mapping[str, str]] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # the default, INT96, is Spark's alone
    "spark.speculation": "false",  # two attempts of one task would write twice
}
_STACK_LOGGERS: Final = (  # they print each error as pages of stack, which we tell in a line
    "SQLQueryContextLogger",
    "DataFrameQueryContextLogger",
    "py4j.clientserver",
)
LITTER: Final = "artifacts"  # an empty folder that Spark 4.0 leaves where it was started
EXIT_SECONDS: Final = 10.0
SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"
LOCAL_DEFAULTS: Final[Mapping[str, str]] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    SHUFFLE_PARTITIONS: "4",  # the default of 200 is for clusters; a micro-batch would be all overhead
}


def session(
    *,
    app_name: str = "highwater",
    master: str | None = None,
    jars: Sequence[Path] | None = None,
    conf: Mapping[str, str] | None = None,
    log_file: Path | None = None,
) -> SparkSession:
    """Return the running session, or start one on `master` (default: `local[*]`) with the Kafka connector.

    `jars` are files or folders to use instead of downloading the connector. `log_file` receives what Spark would
    otherwise print on the terminal.
    """
    if jars is not None:
        connector.local_jars(jars)  # what cannot be meant is told, also where a session that runs already is used
    running = SparkSession.getActiveSession()
    with _own_interrupt_handler():
        if running is None:
            running = _submitted(app_name, conf or {}) if SUBMITTED in os.environ else None
        if running is None:
            running = _started(_settings(app_name, master or "local[*]", jars, conf or {}), log_file)
    for name in _STACK_LOGGERS:
        logging.getLogger(name).disabled = True
    for name, value in SESSION_DEFAULTS.items():
        if name.startswith("spark.sql.") and not (conf and name in conf):
            running.conf.set(name, value)
    _check_connector(running)
    return running


@contextmanager
def _own_interrupt_handler() -> Iterator[None]:
    """Keep the handler of Ctrl-C that the caller has set: PySpark would put its own in that place.

    That one calls the JVM from wherever the program is, in the midst of another call too, where its error is lost.
    """
    handler = signal.getsignal(signal.SIGINT)
    yield
    if handler not in (None, signal.default_int_handler) and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)


def _submitted(app_name: str, conf: Mapping[str, str]) -> SparkSession:
    """Return the session of `spark-submit`, whose own options stand; its log of every step is for who asks for it."""
    builder = SparkSession.builder.appName(app_name)
    for name, value in conf.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    stated = made.sparkContext.getConf()
    if not stated.contains("spark.log.level"):
        made.sparkContext.setLogLevel("WARN")
    if stated.get("spark.master", "").startswith("local") and not stated.contains(SHUFFLE_PARTITIONS):
        made.conf.set(SHUFFLE_PARTITIONS, LOCAL_DEFAULTS[SHUFFLE_PARTITIONS])
    return made


def _settings(app_name: str, master: str, jars: Sequence[Path] | None, conf: Mapping[str, str]) -> SparkConf:
    settings = SparkConf().setAppName(app_name).setMaster(master)
    is_local = master.startswith("local")
    defaults = {**SESSION_DEFAULTS, **(LOCAL_DEFAULTS if is_local else {"spark.ui.showConsoleProgress": "false"})}
    for name, value in {**defaults, **conf}.items():
        settings.set(name, value)
    if found := connector.local_jars(jars):
        _append(settings, "spark.jars", ",".join(str(jar.resolve()) for jar in found))
    elif connector.package().rsplit(":", 1)[0] not in settings.get("spark.jars.packages", ""):
        _append(settings, "spark.jars.packages", connector.package())
        _append(settings, "spark.jars.excludes", ",".join(connector.CARRIED))
    return settings


def _append(settings: SparkConf, name: str, value: str) -> None:
    before = settings.get(name, "")
    settings.set(name, f"{before},{value}" if before else value)


def _started(settings: SparkConf, log_file: Path | None) -> SparkSession:
    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # tasks run in the Python that holds our packages
    log: IO[bytes] | None = None
    outputs: dict[str, Any] = {}
    if log_file is not None:
        log_file.parent.mkdir(parents=True, exist_ok=True)
        log = log_file.open("ab")
        outputs = {"stdout": log, "stderr": log}
    litter = Path(LITTER).absolute()
    was_there = litter.exists()
    try:
        gateway = launch_gateway(settings, outputs)  # type: ignore[no-untyped-call]
        context = SparkContext(conf=settings, gateway=gateway)
    except (PySparkRuntimeError, Py4JError) as error:
        raise SetupError(_why_spark_did_not_start(settings, error, log_file)) from error
    finally:
        if log is not None:
            log.close()  # the JVM has its own handle
    if not was_there:
        atexit.register(_tidy_up, context, gateway.proc, litter)
    return SparkSession(context)


def _tidy_up(context: SparkContext, jvm: subprocess.Popen[bytes], litter: Path) -> None:
    """Let the JVM end, which empties its folder, and remove that."""
    counters = getattr(context, "_accumulatorServer", None)
    if counters is not None:
        counters.handle_error = lambda *_: None  # PySpark would print a traceback when the JVM hangs up
    assert jvm.stdin is not None, "the JVM ends when its input does"
    jvm.stdin.close()
    with suppress(subprocess.TimeoutExpired, OSError):
        jvm.wait(EXIT_SECONDS)
        litter.rmdir()


def _why_spark_did_not_start(settings: SparkConf, error: Exception, log_file: Path | None) -> str:
    told = log_file.read_text(encoding="utf-8", errors="replace") if log_file is not None else ""
    if "unresolved dependency" in told or "UNRESOLVED DEPENDENCIES" in told:
        packages = settings.get("spark.jars.packages", "")
        return (
            f"cannot download {packages}: without a network, put the connector and what it needs in a folder "
            f"and name it with --jars or {connector.JARS_VARIABLE}"
        )
    said = str(error)
    cause = next((line.strip() for line in said.splitlines() if "Exception:" in line or "Could not" in line), "")
    cause = cause or next((line.strip() for line in said.splitlines() if line.strip()), type(error).__name__)
    where = f" (more in {log_file})" if log_file is not None else ""
    return f"Spark did not start on {settings.get('spark.master', '')}: {cause}{where}"


def _check_connector(running: SparkSession) -> None:
    """Say at once that the connector is missing; Spark would say so at the first read, in a page of Java."""
    jvm = running.sparkContext._jvm  # noqa: SLF001 - the only way to ask what is on the class path
    assert jvm is not None, "a running session has a JVM"
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        jvm.java.lang.Class.forName(connector.SOURCE_CLASS, False, loader)
    except Py4JError as error:
        raise SetupError(
            f"Spark's Kafka connector is not loaded: start with --packages {connector.package()}"
        ) from error
