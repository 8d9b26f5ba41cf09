"""Tests may be coroutines, each on a loop of its own and not for ever, and may run Apache Kafka's own tools."""

import asyncio
import inspect
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from highwater.testing.java import JavaClients
from highwater.testing.waiting import PATIENCE_SECONDS

COROUTINE_TEST_SECONDS = 60


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**arguments), COROUTINE_TEST_SECONDS))
    return True


@pytest.fixture(scope="session")
def java() -> Callable[..., str]:
    """Run one of Apache Kafka's command-line tools and return what it printed."""
    jars = _kafka_jars()
    start = ("java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", f"{jars}/*")

    def run(main_class: str, *arguments: str, stdin: str = "", fails: bool = False) -> str:
        done = subprocess.run(
            [*start, main_class, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=4 * PATIENCE_SECONDS,
            check=False,
        )
        assert (done.returncode != 0) == fails, (
            f"{main_class} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        )
        return done.stdout

    return run


@pytest.fixture(scope="session")
def java_clients() -> Iterator[JavaClients]:
    """A JVM in which tests make as many Java clients as they like."""
    with JavaClients(_kafka_jars()) as clients:
        yield clients


def _kafka_jars() -> Path:
    jars = Path(__file__).parents[1] / ".tools" / "kafka"
    assert any(jars.glob("kafka-tools-*.jar")), "Kafka's tools are missing: run `make setup`"
    return jars


@pytest.fixture(scope="session")
def java_program(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[str]]:
    """Compile one of our own Java programs and return the command that runs it, to which its arguments are added."""

    def compile_program(source: Path, *jar_sets: str) -> list[str]:
        tools = Path(__file__).parents[1] / ".tools"
        missing = [name for name in jar_sets if not any((tools / name).glob("*.jar"))]
        assert not missing, f"jars are missing ({', '.join(missing)}): run `make setup`"
        classes = tmp_path_factory.mktemp("classes")
        class_path = ":".join([str(classes), *(f"{tools / name}/*" for name in jar_sets)])
        subprocess.run(["javac", "-cp", class_path, "-d", str(classes), str(source)], check=True, timeout=120)
        return ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", class_path, source.stem]

    return compile_program
