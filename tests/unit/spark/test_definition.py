"""What a pipeline file may say, and how its mistakes are told."""

import re
from pathlib import Path

import pytest

from highwater_spark.definition import load as load_module
from highwater_spark.definition.columns import UnknownType, check_type
from highwater_spark.definition.load import load
from highwater_spark.definition.model import JsonFormat, Mode, Pipeline, TableSink, TextFormat, TopicSink
from highwater_spark.errors import PipelineFileError

GOOD = """\
name: activity
kafka:
  bootstrap: ${BROKERS:-localhost:9092}
sources:
  views:
    topic: page-views
    event_time: at
    watermark: 10 minutes
    parse:
      json:
        user: string not null
        page: string
        at: timestamp
transforms:
  counts:
    sql: |
      SELECT page, count(*) AS views
      FROM views GROUP BY page
sinks:
  counts:
    from: counts
    topic: counts
    key: page
    mode: update
  history:
    from: views
    table: tables/views
    partition_by: day(at)
trigger: 5 seconds
"""


def loaded(tmp_path: Path, text: str, **environment: str) -> Pipeline:
    path = tmp_path / "p.yaml"
    path.write_text(text)
    return load(path, environment=environment)


def mistakes(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(PipelineFileError) as failure:
        loaded(tmp_path, text)
    return [line.removeprefix(f"{tmp_path}/") for line in str(failure.value).splitlines()]


def test_a_file_becomes_a_pipeline(tmp_path: Path) -> None:
    pipeline = loaded(tmp_path, GOOD)
    [source] = pipeline.sources
    counts, history = pipeline.sinks
    assert isinstance(source.parse, JsonFormat)
    assert [(column.name, column.type, column.required) for column in source.parse.columns] == [
        ("user", "string", True),
        ("page", "string", False),
        ("at", "timestamp", False),
    ]
    assert isinstance(counts, TopicSink)
    assert (counts.topics, counts.key, counts.mode) == (("counts",), "page", Mode.UPDATE)
    assert isinstance(history, TableSink)
    assert (history.partition_by, history.file_bytes) == (("day(at)",), 32 << 20)
    assert (pipeline.dead_letters, pipeline.checkpoint) == ("activity.dead-letters", "checkpoints/activity")


def test_the_environment_fills_in(tmp_path: Path) -> None:
    assert loaded(tmp_path, GOOD).kafka.bootstrap == "localhost:9092"
    assert loaded(tmp_path, GOOD, BROKERS="b:1").kafka.bootstrap == "b:1"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("trigger:", "triger:", "p.yaml:29: the file has no 'triger'; did you mean 'trigger'?"),
        ("name: activity\n", "", "p.yaml:1: the file needs 'name'"),
        ("name: activity", "name: 'my pipeline'", "p.yaml:1: 'my pipeline' cannot be a name; use letters"),
        ("at: timestamp", "at: tiemstamp", "p.yaml:13: no column type 'tiemstamp'; did you mean 'timestamp'?"),
        ("event_time: at", "event_time: att", "p.yaml:7: no column 'att'; did you mean 'at'?"),
        ("    event_time: at\n", "", "a watermark needs 'event_time'"),
        ("watermark: 10 minutes", "watermark: 10 min", "p.yaml:8: '10 min' is not a time such as"),
        ("from: counts", "from: count", "p.yaml:21: no source or transform 'count'; did you mean 'counts'?"),
        ("mode: update", "mode: updates", "p.yaml:24: 'mode' cannot be 'updates'; did you mean 'update'?"),
        ("topic: counts", "topic: a b", "p.yaml:22: 'a b' cannot be a topic name"),
        ("topic: counts", "topic: page-views", "topic 'page-views' is also read, by source 'views'"),
        ("topic: counts", "topic: counts.{page}", "'counts.{page}' is named by the rows: list the topics"),
        ("partition_by: day(at)", "partition_by: week(at)", "'week(at)' must be a column, or year, month, day"),
        ("    table: tables/views\n", "", "p.yaml:26: sink 'history' needs 'topic' or 'table'"),
        ("      json:", "      jsonn:", "needs 'json' or 'text'"),
        ("localhost:9092}", "x}}", None),
        ("${BROKERS:-localhost:9092}", "${BROKERS}", "p.yaml:3: the environment has no BROKERS; set it"),
        ("user: string not null", "user: string\n        user: int", "p.yaml:12: 'user' is given twice"),
        ("user: string", "kafka: string", "p.yaml:11: 'kafka' is taken"),
        ("trigger: 5 seconds", "dead_letters: counts", "the dead-letter topic 'counts' must be a topic of its own"),
        ("  counts:\n    sql", "  views:\n    sql", "there is a source or transform 'views' already"),
        ("sql: |", "sql: [", "not YAML: "),
    ],
)
def test_a_mistake_is_told_with_its_line_and_what_was_meant(
    tmp_path: Path, before: str, after: str, said: str | None
) -> None:
    assert before in GOOD
    text = GOOD.replace(before, after, 1)
    if said is None:
        assert loaded(tmp_path, text).kafka.bootstrap == "x}"
        return
    assert any(said in line for line in mistakes(tmp_path, text)), mistakes(tmp_path, text)


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = GOOD.replace("at: timestamp", "at: time").replace("mode: update", "mode: all")
    assert [line.split(" ")[0] for line in mistakes(tmp_path, text)] == ["p.yaml:13:", "p.yaml:24:"]


def test_a_missing_file_and_an_empty_one_are_told(tmp_path: Path) -> None:
    with pytest.raises(PipelineFileError, match="no such file"):
        load(tmp_path / "absent.yaml")
    assert mistakes(tmp_path, "") == ["p.yaml:1: a pipeline file is a mapping that starts with `name: ...`"]


def test_a_pattern_gives_a_column_for_each_named_group(tmp_path: Path) -> None:
    """Java's group names allow no underscore, so Spark is given numbers instead of names."""
    text = GOOD.replace(
        "json:\n        user: string not null\n        page: string\n        at: timestamp",
        "text:\n        pattern: '(?P<at>\\S+) (x|y) (?<took_ms>\\d+)ms'\n        types: {at: timestamp}",
    )
    [source] = loaded(tmp_path, text).sources
    assert isinstance(source.parse, TextFormat)
    assert source.parse.pattern == r"(\S+) (x|y) (\d+)ms"
    assert [(column.name, column.type) for column in source.parse.columns] == [
        ("at", "timestamp"),
        ("took_ms", "string"),
    ]
    assert source.parse.groups == (1, 3)


def test_a_pattern_that_is_wrong_is_told(tmp_path: Path) -> None:
    def with_pattern(pattern: str, types: str = "at: timestamp") -> str:
        return GOOD.replace(
            "json:\n        user: string not null\n        page: string\n        at: timestamp",
            f"text:\n        pattern: '{pattern}'\n        types: {{{types}}}",
        )

    assert "p.yaml:11: the pattern is not a regular expression" in mistakes(tmp_path, with_pattern("(?P<at>"))[1]
    assert mistakes(tmp_path, with_pattern("(?P<at>.*)", "at: timestamp, att: int")) == [
        "p.yaml:12: the pattern has no group 'att'; did you mean 'at'?"
    ]


@pytest.mark.parametrize(
    "good", ["decimal(10, 2)", "array<struct<a: int, b: map<string, double>>>", "STRUCT<`a b` int>"]
)
def test_types_of_any_depth_are_known(good: str) -> None:
    check_type(good)


@pytest.mark.parametrize(
    "bad", ["", "array<int", "array<>", "map<int>", "struct<a: innt>", "int int", "int;", "decimal(1"]
)
def test_what_is_no_type_is_refused(bad: str) -> None:
    with pytest.raises(UnknownType):
        check_type(bad)


def test_every_key_of_the_file_is_documented() -> None:
    """The loader asks for its keys by name; each must be in the reference."""
    source = Path(load_module.__file__).read_text()
    asked = set(re.findall(r'(?:text|texts|number|choice|section|sections|scalar)\("(\w+)"', source))
    asked |= set(re.findall(r'_interval\(\w+, "(\w+)"\)', source))
    assert len(asked) > 25, "the search itself must not go blind"
    reference = (Path(__file__).parents[3] / "docs" / "pipelines.md").read_text()
    assert [key for key in sorted(asked) if f"`{key}`" not in reference] == []
