"""Whole pipelines, from records in to records and tables out, on real Spark and a real broker."""

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from confluent_kafka import Message
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import NewTopic as NewKafkaTopic
from pyspark.sql import SparkSession

from highwater_spark.definition.model import Pipeline
from highwater_spark.errors import ClusterError, PipelineFileError, RunFailed, SetupError, StateError
from highwater_spark.flow.headers import Header
from highwater_spark.flow.plan import RECORDS, plan_of
from highwater_spark.flow.sources import Stretch
from highwater_spark.kafka.dead_letters import Choice, DeadLetters, Replayed, send_back
from highwater_spark.run import quarantine
from highwater_spark.run.progress import Silent, Snapshot
from highwater_spark.run.replay import parse_offsets, replay, retargeted
from highwater_spark.run.runner import Runner, RunOptions

NewTopic = Callable[..., str]
Send = Callable[..., None]
Read = Callable[..., list[Message]]
APipeline = Callable[..., Pipeline]

PATIENCE_SECONDS = 30.0
NOON_MS = 1_769_860_800_000  # of 2026-01-31

ORDERS = """
name: orders
sources:
  orders:
    topic: <source>
    parse:
      json:
        id: int not null
        price: int
        pieces: int
        country: string
        at: timestamp
    require: price > 0
    event_time: at
    watermark: 1 minute
transforms:
  priced:
    sql: |
      SELECT id, country, price DIV pieces AS piece_price, at FROM orders
  by_country:
    sql: |
      SELECT window.start AS minute, country, sum(price) AS price
      FROM orders GROUP BY window(at, '1 minute'), country
sinks:
  priced:
    from: priced
    topic: <out>.{country}
    topics: [<out>.at, <out>.ch]
    key: id
  totals:
    from: by_country
    topic: <out>.totals
    key: country
    mode: update
  history:
    from: orders
    table: <folder>/history
    partition_by: day(at)
dead_letters: <out>.dead
checkpoint: <folder>/checkpoint
"""


def order(number: int, country: str = "at", **changed: object) -> str:
    fields = {"id": number, "price": 10 * number, "pieces": 2, "country": country, "at": "2026-01-31T12:00:30Z"}
    return json.dumps(fields | changed)


def run(spark: SparkSession, pipeline: Pipeline, *, full_refresh: bool = False) -> Snapshot:
    return Runner(spark, pipeline, RunOptions(once=True, full_refresh=full_refresh)).run()


def values(messages: list[Message]) -> list[dict[str, object]]:
    return [json.loads(message.value() or b"") for message in messages]


def headers_of(message: Message) -> dict[str, str]:
    return {str(header[0]): bytes(header[1] or b"").decode() for header in message.headers() or ()}  # type: ignore[arg-type]


@pytest.fixture
def names(new_topic: NewTopic) -> dict[str, str]:
    source = new_topic(partitions=2)
    return {"source": source, "out": f"out-{source}"}


def test_records_become_rows_records_and_dead_letters_exactly_where_they_belong(
    spark: SparkSession, a_pipeline: APipeline, names: dict[str, str], send: Send, read_topic: Read, tmp_path: Path
) -> None:
    """One run through everything: parse, require, route, aggregate, table; then a second one from the checkpoint."""
    pipeline = a_pipeline(ORDERS, **names)
    source, out = names["source"], names["out"]
    send(source, [order(1), order(2, "ch"), order(3)], partition=0, key="k")
    send(source, ["no json", order(4, price="ten"), order(5, price=-5), order(6, "fr"), None], partition=1)

    first = run(spark, pipeline)

    assert sorted(value["id"] for value in values(read_topic(f"{out}.at"))) == [1, 3]  # type: ignore[type-var]
    [swiss] = read_topic(f"{out}.ch")
    assert (swiss.key(), json.loads(swiss.value() or b"")["piece_price"]) == (b"2", 10)
    totals = {value["country"]: value["price"] for value in values(read_topic(f"{out}.totals"))}
    assert totals == {"at": 40, "ch": 20, "fr": 60}
    assert sorted(pd.read_parquet(tmp_path / "history")["id"]) == [1, 2, 3, 6]
    letters = {
        (headers_of(letter).get(Header.PARTITION), headers_of(letter).get(Header.OFFSET)): letter
        for letter in read_topic(f"{out}.dead")
    }
    told = {
        place: (headers_of(found)[Header.STAGE], headers_of(found)[Header.ERROR]) for place, found in letters.items()
    }
    assert told == {
        ("1", "0"): ("parse", "the value is not a JSON object"),
        ("1", "1"): ("parse", "'price' is no int: ten"),
        ("1", "2"): ("require", "not so: price > 0"),
        ("1", "4"): ("parse", "the record has no value"),
        (None, None): ("route", f"sink 'priced' does not declare the topic {out}.fr"),
    }
    assert letters["1", "0"].value() == b"no json"
    assert headers_of(letters["1", "0"])[Header.TOPIC] == source
    assert first.rows_out == {"priced": 3, "totals": 3, "history": 4, "dead letters": 5}

    send(source, [order(7)])
    second = run(spark, pipeline)

    assert second.rows_out["priced"] == 1
    assert sorted(pd.read_parquet(tmp_path / "history")["id"]) == [1, 2, 3, 6, 7]
    assert {value["country"]: value["price"] for value in values(read_topic(f"{out}.totals"))}["at"] == 110


def test_a_record_that_a_transform_cannot_take_is_set_aside_and_can_be_sent_back(
    spark: SparkSession, a_pipeline: APipeline, names: dict[str, str], send: Send, read_topic: Read
) -> None:
    pipeline = a_pipeline(ORDERS, **names)
    send(names["source"], [order(1), order(2, pieces=0), order(3)], partition=0, headers={"trace": b"t-1"})

    snapshot = run(spark, pipeline)

    assert {value["id"] for value in values(read_topic(f"{names['out']}.at"))} == {1, 3}
    assert snapshot.dead_letters == 1
    [letter] = DeadLetters(pipeline.kafka, pipeline.dead_letters)
    assert (letter.topic, letter.source_partition, letter.source_offset) == (names["source"], 0, 1)
    assert (letter.stage, letter.headers) == ("transform", (("trace", b"t-1"),))
    assert "Division by zero" in letter.error

    def back(stage: str, *, again: bool = False) -> Replayed:
        return send_back(pipeline.kafka, pipeline.dead_letters, Choice(stage=stage), again=again)

    assert back("parse") == Replayed(chosen=0, sent=0)
    assert back("transform") == Replayed(chosen=1, sent=1)
    assert back("transform") == Replayed(chosen=1, sent=0), "it was sent back, and says so"
    returned = read_topic(names["source"])[-1]
    assert (returned.partition(), returned.offset(), returned.value()) == (0, 3, order(2, pieces=0).encode())
    assert headers_of(returned) == {"trace": "t-1", "__highwater.replays": "1"}
    mended = a_pipeline(ORDERS.replace("price DIV pieces", "try_divide(price, pieces)"), **names)
    run(spark, mended)
    assert {value["id"] for value in values(read_topic(f"{names['out']}.at"))} == {1, 2, 3}

    replayed = replay(spark, pipeline, Stretch(), Silent())
    assert (replayed.rows_out["priced"], replayed.dead_letters) == (2, 2), (
        "a replay does not stop at such a record either"
    )


def test_a_replay_of_a_stretch_goes_to_another_target_and_touches_no_state(
    spark: SparkSession, a_pipeline: APipeline, names: dict[str, str], send: Send, read_topic: Read, tmp_path: Path
) -> None:
    pipeline = a_pipeline(ORDERS, **names)
    for number in range(6):
        send(names["source"], [order(number + 1)], partition=number % 2, timestamp_ms=NOON_MS + number)
    before = sorted(path.name for path in tmp_path.rglob("*"))

    by_offset = retargeted(pipeline, {"totals": f"{names['out']}.again", "history": str(tmp_path / "again")})
    stretch = Stretch(
        from_offsets=parse_offsets([f"{names['source']}:0:1"], pipeline, otherwise=-2),
        until_offsets=parse_offsets(["2"], pipeline, otherwise=-1),
    )
    replay(spark, by_offset, stretch, Silent())
    assert sorted(pd.read_parquet(tmp_path / "again")["id"]) == [2, 3, 4]
    assert [value["price"] for value in values(read_topic(f"{names['out']}.again"))] == [90]

    by_time = retargeted(pipeline, {"history": str(tmp_path / "by-time")})
    replay(spark, by_time, Stretch(from_time_ms=NOON_MS + 1, until_time_ms=NOON_MS + 4), Silent())
    assert sorted(pd.read_parquet(tmp_path / "by-time")["id"]) == [2, 3, 4]
    assert not (tmp_path / "checkpoint").exists()
    assert set(before) <= {path.name for path in tmp_path.rglob("*")}


def test_a_full_refresh_starts_tables_and_state_anew(
    spark: SparkSession,
    a_pipeline: APipeline,
    names: dict[str, str],
    send: Send,
    admin: AdminClient,
    tmp_path: Path,
) -> None:
    """What no longer fits what a pipeline remembers is refused in one line, and a full refresh is the way out."""
    text = ORDERS.replace("mode: update", "mode: update\n    partitions: 2")
    send(names["source"], [order(1), order(2)])
    run(spark, a_pipeline(text, **names))

    with pytest.raises(StateError, match="belongs to pipeline 'orders', not 'other'"):
        run(spark, a_pipeline(text.replace("name: orders", "name: other"), **names))
    with pytest.raises(StateError, match="column 'country' is string and the pipeline now gives int"):
        run(spark, a_pipeline(text.replace("country: string", "country: int"), **names))
    totals = f"{names['out']}.totals"
    admin.delete_topics([totals])[totals].result(PATIENCE_SECONDS)
    admin.create_topics([NewKafkaTopic(totals, 1, 1)])[totals].result(PATIENCE_SECONDS)
    with pytest.raises(
        StateError, match=r"totals' has 1 partitions and had 2 when this pipeline last ran; --full-refr"
    ):
        run(spark, a_pipeline(text, **names))

    send(names["source"], [order(3)])
    refreshed = run(spark, a_pipeline(text, **names), full_refresh=True)
    assert sorted(pd.read_parquet(tmp_path / "history")["id"]) == [1, 2, 3]
    assert refreshed.rows_out["history"] == 3


class TestPlans:
    def test_sinks_without_memory_share_one_query(self, spark: SparkSession, a_pipeline: APipeline) -> None:
        plan = plan_of(spark, a_pipeline(ORDERS, source="in", out="out"))
        assert [(query.name, [sink.name for sink in query.sinks]) for query in plan.queries] == [
            (RECORDS, ["priced", "history"]),
            ("by_country-update", ["totals"]),
        ]

    @pytest.mark.parametrize(
        ("before", "after", "said"),
        [
            ("country, price DIV", "contry, price DIV", ":19: transform 'priced': .*`contry` cannot be resolved"),
            (
                "FROM orders GROUP",
                "FROM order GROUP",
                ":23: transform 'by_country': no source or earlier transform 'order'; did you mean 'orders'",
            ),
            ("SELECT id,", "SELEC id,", ":19: transform 'priced': Syntax error at or near"),
            ("require: price > 0", "require: prize > 0", ":5: source 'orders': .*`prize` cannot be resolved"),
            ("key: id", "key: idd", ":26: sink 'priced': .*`idd` cannot be resolved"),
            ("event_time: at", "event_time: id", "source 'orders': .*(timestamp|TIMESTAMP)"),
            (
                "partition_by: day(at)",
                "partition_by: day(country)",
                "day\\(country\\) needs a time, 'country' is string",
            ),
            ("partition_by: day(at)", "partition_by: contry", "no column 'contry'; did you mean 'country'"),
            ("mode: update", "mode: complete", None),
            ("SELECT window.start AS minute,", "SELECT row_number() OVER (ORDER BY at) AS n,", "sink 'totals': "),
        ],
    )
    def test_what_spark_does_not_accept_is_told_with_its_line(
        self, spark: SparkSession, a_pipeline: APipeline, before: str, after: str, said: str | None
    ) -> None:
        assert before in ORDERS
        text = ORDERS.replace(before, after, 1)
        if "row_number" in after:
            text = text.replace("FROM orders GROUP BY window(at, '1 minute'), country", "FROM orders").replace(
                "country, sum(price) AS price", "country"
            )
        pipeline = a_pipeline(text, source="in", out="out")
        if said is None:
            plan_of(spark, pipeline)
            return
        with pytest.raises(PipelineFileError, match=said) as failure:
            plan_of(spark, pipeline)
        assert "\n" not in str(failure.value)

    def test_a_python_function_takes_and_returns_frames(
        self, spark: SparkSession, a_pipeline: APipeline, tmp_path: Path
    ) -> None:
        (tmp_path / "functions.py").write_text(
            "from pyspark.sql import functions as F\n"
            "def doubled(orders):\n    return orders.withColumn('price', 2 * F.col('price'))\n"
            "def broken(orders):\n    return orders.select('prize')\n"
            "def nothing(orders):\n    pass\n"
        )
        text = ORDERS.replace(
            "    sql: |\n      SELECT id, country, price DIV pieces AS piece_price, at FROM orders\n",
            "    python: functions.py:<function>\n    inputs: orders\n",
        )
        assert (
            "price" in plan_of(spark, a_pipeline(text, source="i", out="o", function="doubled")).views["priced"].columns
        )
        for function, said in (
            ("broken", "`prize` cannot be resolved"),
            ("nothing", "it returned NoneType, not a DataFrame"),
            ("doubld", "no 'doubld' in functions.py; did you mean 'doubled'?"),
        ):
            with pytest.raises(PipelineFileError) as failure:
                plan_of(spark, a_pipeline(text, source="i", out="o", function=function))
            assert said in str(failure.value)


class TestRefusals:
    """Each ends with one line that says what is wrong, before any record is read."""

    def test_a_source_topic_that_is_not_there(
        self, spark: SparkSession, a_pipeline: APipeline, names: dict[str, str]
    ) -> None:
        pipeline = a_pipeline(ORDERS, source=names["source"] + "x", out=names["out"])
        with pytest.raises(ClusterError, match=rf"no topic '{names['source']}x' on .*did you mean '{names['source']}'"):
            run(spark, pipeline)

    def test_a_checkpoint_folder_that_holds_something_else(
        self, spark: SparkSession, a_pipeline: APipeline, names: dict[str, str], tmp_path: Path
    ) -> None:
        (tmp_path / "checkpoint" / "letters").mkdir(parents=True)
        with pytest.raises(StateError, match="it holds 'letters', which no pipeline put there"):
            run(spark, a_pipeline(ORDERS, **names))

    def test_a_table_format_whose_jar_is_not_there(
        self, spark: SparkSession, a_pipeline: APipeline, names: dict[str, str]
    ) -> None:
        for name in ("delta", "iceberg"):
            text = ORDERS.replace("partition_by: day(at)", f"format: {name}")
            with pytest.raises(SetupError, match=f"sink 'history': {name} is not loaded: add its jar by --conf"):
                run(spark, a_pipeline(text, **names))

    def test_a_transform_that_fails_on_everything(
        self,
        spark: SparkSession,
        a_pipeline: APipeline,
        names: dict[str, str],
        send: Send,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(quarantine, "MAX_PER_BATCH", 3)
        send(names["source"], [order(number, pieces=0) for number in range(1, 9)], partition=0)
        with pytest.raises(RunFailed, match="more than 3 records of a micro-batch fail in a transform"):
            run(spark, a_pipeline(ORDERS, **names))
