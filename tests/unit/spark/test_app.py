"""The commands as a user types them, as far as they need neither Spark nor a broker."""

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from highwater_spark import java, session
from highwater_spark.app import app
from highwater_spark.run.lock import only_run

PIPELINE = "name: p\nsources: {a: {topic: t}}\nsinks: {out: {from: a, topic: o}}\ncheckpoint: checkpoint\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text(PIPELINE)
    return tmp_path


def told(*arguments: str) -> tuple[int, str]:
    outcome = CliRunner().invoke(app, list(arguments))
    return outcome.exit_code, outcome.output


def test_the_list_has_the_shipped_and_ones_own_also_those_with_mistakes(here: Path) -> None:
    (here / "pipelines").mkdir()
    (here / "pipelines" / "mine.yaml").write_text(PIPELINE.replace("name: p", "name: mine\ndescription: does it"))
    (here / "pipelines" / "bad.yaml").write_text("nam: bad\n")
    code, shown = told("list")
    assert code == 0
    for part in ("activity", "logs", "mine", "does it", "has mistakes"):
        assert part in shown


def test_a_mistake_is_lines_and_not_a_traceback(here: Path) -> None:
    (here / "p.yaml").write_text(PIPELINE.replace("topic: t", "topc: t"))
    code, shown = told("validate", "p.yaml", "--quick")
    assert code == 1
    assert "p.yaml:2: source 'a' has no 'topc'; did you mean 'topic'?" in shown
    assert "Traceback" not in shown
    assert told("run", "activty") == (1, "no pipeline 'activty'; did you mean 'activity'?\n")


def test_a_picture_is_shown_or_drawn(here: Path) -> None:
    assert "p.dead-letters" in told("explain", "p.yaml")[1]
    assert told("explain", "p.yaml", "-o", "p.svg") == (0, "drawn: p.svg\n")
    assert (here / "p.svg").read_text().startswith("<svg")


def test_a_second_run_is_refused_before_spark_starts(here: Path) -> None:
    with only_run(str(here / "checkpoint"), "p"):
        code, shown = told("run", "p.yaml")
    assert code == 1
    assert "pipeline 'p' is already running: process" in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "p.yaml", "--to", "ot=x"], "--to ot: no such sink; did you mean 'out'?"),
        (["run", "p.yaml", "--to", "out"], "--to out: write NAME=VALUE"),
        (["run", "p.yaml", "--from-time", "noon"], "'noon' is not a time: write 2026-01-31T10:00"),
        (["run", "p.yaml", "--full-refresh", "--until-time", "1h"], "--full-refresh is for the pipeline itself"),
        (["run", "p.yaml", "--jars", "nowhere"], "--jars: no jar at nowhere"),
        (["generate", "activty"], "no generator 'activty'; did you mean 'activity'?"),
        (["dead-letters", "replay", "p.yaml"], "say which dead letters: --all, --stage"),
        (["dead-letters", "show", "p.yaml", "--at", "3"], "--at 3: write PARTITION:OFFSET"),
    ],
)
@pytest.mark.usefixtures("here")
def test_what_cannot_be_meant_is_told_in_a_line(arguments: list[str], said: str) -> None:
    code, shown = told(*arguments)
    assert code == 1
    assert said in shown.splitlines()[-1]


@pytest.mark.parametrize(
    ("version", "said"),
    [(None, "needs Java 17 or 21, and none was found: install one"), ("11.0.2", "found only Java 11 in ")],
)
def test_java_that_is_missing_or_too_old_is_told_in_a_line(
    here: Path, monkeypatch: pytest.MonkeyPatch, version: str | None, said: str
) -> None:
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)  # other tests may have one
    monkeypatch.setattr(java, "USUAL_PLACES", ())
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("JAVA_HOME", str(here / "java"))
    if version is not None:
        (here / "java" / "bin").mkdir(parents=True)
        (here / "java" / "bin" / "java").touch(mode=0o755)
        (here / "java" / "release").write_text(f'JAVA_VERSION="{version}"\n')
    code, shown = told("run", "p.yaml")
    assert code == 1
    assert said in shown.splitlines()[-1]
    assert "Traceback" not in shown


@pytest.mark.usefixtures("here")
def test_what_spark_throws_where_nobody_expected_it_is_a_line_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise AnalysisException(
            "[SOME_CLASS] The disk is on fire. SQLSTATE: 42000\n\tat a.b(C.scala:1)\n\tat d.e(F.java:2)"
        )

    monkeypatch.setattr(session, "session", fail)
    assert told("validate", "p.yaml") == (1, "Spark: The disk is on fire (spark.log in the checkpoint has more)\n")
