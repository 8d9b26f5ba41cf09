"""The `highwater` command as a user types it, against a running cluster."""

import contextlib
import io
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from highwater.cli.commands import run
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until


class Cli:
    """Runs `highwater` commands against one cluster."""

    def __init__(self, bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        monkeypatch.setenv("HIGHWATER_BOOTSTRAP", bootstrap)

    def __call__(self, *arguments: str, stdin: bytes = b"", code: int = 0) -> str:
        """Run a command, expect an exit code, and return what a program would read: stdout."""
        return self.both(*arguments, stdin=stdin, code=code)[0]

    def json(self, *arguments: str, stdin: bytes = b"") -> Any:
        """Run a command with --json and return the document it writes."""
        return json.loads(self(*arguments, "--json", stdin=stdin))

    def error(self, *arguments: str, stdin: bytes = b"", code: int = 1) -> str:
        """Run a command that must fail and return its one line of stderr."""
        lines = self.both(*arguments, stdin=stdin, code=code)[1].splitlines()
        assert len(lines) == 1, lines
        return lines[0]

    def both(self, *arguments: str, stdin: bytes, code: int) -> tuple[str, str]:
        """Run a command in this process, which is faster than starting one, and return stdout and stderr."""
        with (
            tempfile.TemporaryFile("w+", encoding="utf-8", errors="surrogateescape") as out,
            tempfile.TemporaryFile("w+", encoding="utf-8") as err,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            self._monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
            outcome = run(arguments)
            out.seek(0)
            err.seek(0)
            said = out.read(), err.read()
        assert outcome == code, (arguments, outcome, said)
        return said

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command that goes on until it is stopped."""
        command = [sys.executable, "-m", "highwater", *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.fixture
def cli(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> Cli:
    return Cli(bootstrap, monkeypatch)


def test_a_topic_is_created_listed_described_altered_and_deleted(cli: Cli, topic_name: str) -> None:
    assert cli.json("topic", "create", topic_name, "--partitions", "3", "--set", "retention.ms=86400000") == [
        {"topic": topic_name, "outcome": "created"}
    ]
    assert {"topic": topic_name, "partitions": 3, "replication_factor": 1} in cli.json("topic", "list")

    [described] = cli.json("topic", "describe", topic_name)
    assert described["settings"] == {"retention.ms": "86400000"}
    assert len(described["id"]) == 22
    [leader] = {partition["leader"] for partition in described["partitions"]}
    assert described["partitions"] == [
        {"partition": number, "leader": leader, "replicas": [leader], "isr": [leader]} for number in range(3)
    ]

    cli("topic", "alter", topic_name, "--partitions", "5", "--unset", "retention.ms", "--set", "segment.ms=3600000")
    [described] = cli.json("topic", "describe", topic_name)
    assert described["settings"] == {"segment.ms": "3600000"}
    assert len(described["partitions"]) == 5

    assert cli.json("topic", "delete", topic_name, "--yes") == [{"topic": topic_name, "outcome": "deleted"}]
    wait_until(lambda: topic_name not in {row["topic"] for row in cli.json("topic", "list")}, "the topic's end")


def test_a_dry_run_creates_nothing(cli: Cli, topic_name: str) -> None:
    cli("topic", "create", topic_name, "--dry-run")
    assert topic_name not in {row["topic"] for row in cli.json("topic", "list")}


def test_a_topic_that_exists_is_an_error_unless_it_may(cli: Cli, topic: str) -> None:
    assert "TOPIC_ALREADY_EXISTS" in cli.error("topic", "create", topic)
    assert cli.json("topic", "create", topic, "--if-missing") == [{"topic": topic, "outcome": "exists"}]


def test_only_partitions_in_trouble_are_shown_on_demand(cli: Cli, topic: str) -> None:
    assert cli.json("topic", "describe", topic, "--under-replicated-partitions") == []
    assert cli.json("topic", "describe", topic, "--unavailable-partitions") == []


def test_people_get_tables(cli: Cli, topic: str) -> None:
    listed = cli("topic", "list").splitlines()
    assert listed[0].split() == ["TOPIC", "PARTITIONS", "REPLICAS"]
    assert [topic, "1", "1"] in [line.split() for line in listed]
    assert "PARTITION  LEADER  REPLICAS  IN SYNC" in cli("topic", "describe", topic)


def test_partitions_are_never_removed(cli: Cli, new_topic: Callable[..., str]) -> None:
    name = new_topic(partitions=3)
    assert "has 3 partitions already; partitions can be added, never removed" in cli.error(
        "topic", "alter", name, "--partitions", "2"
    )


def test_an_unknown_topic_is_told_with_the_name_that_was_meant(cli: Cli, topic: str) -> None:
    wrong = topic[:-1]
    for command in (["topic", "describe"], ["consume"], ["produce"], ["offsets"], ["config", "describe", "topic"]):
        told = cli.error(*command, wrong)
        assert f"there is no topic {wrong!r}; did you mean" in told
        assert repr(topic) in told


def test_lines_become_records_and_records_become_lines(cli: Cli, topic: str) -> None:
    cli("produce", topic, stdin=b"one\ntwo\nthree without an end of line")
    assert cli("consume", topic, "--exit-at-end") == "one\ntwo\nthree without an end of line\n"


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["1", "all"])
def test_records_arrive_with_every_compression_and_acks(cli: Cli, topic: str, compression: str, acks: str) -> None:
    lines = b"".join(b"line %d\n" % number for number in range(200))
    cli("produce", topic, "--compression", compression, "--acks", acks, stdin=lines)
    assert cli("consume", topic, "--exit-at-end").encode() == lines


def test_keys_headers_and_nulls_make_the_round_trip(cli: Cli, topic: str) -> None:
    written = cli.json(
        "produce", topic, "--key-separator", ":", "--header", "source=shell", "--null", "NULL",
        stdin=b"a:1\nb:NULL\nc:x:y\n",
    )  # fmt: skip
    assert written["records"] == 3
    assert written["partitions"] == [{"partition": 0, "records": 3, "last_offset": 2}]

    records = [json.loads(line) for line in cli("consume", topic, "--exit-at-end", "--json").splitlines()]
    assert [(record["offset"], record["key"], record["value"], record["headers"]) for record in records] == [
        (0, "a", "1", [["source", "shell"]]),
        (1, "b", None, [["source", "shell"]]),
        (2, "c", "x:y", [["source", "shell"]]),
    ]
    assert cli("consume", topic, "--exit-at-end", "--key-separator", "=").splitlines() == ["a=1", "b=", "c=x:y"]


def test_a_topic_is_copied_by_a_pipe_of_json(cli: Cli, new_topic: Callable[..., str]) -> None:
    source, copy = new_topic(), new_topic()
    cli("produce", source, "--key", "k", stdin=b"text\n\xff\xfe\x00\n")
    cli("produce", copy, "--json-lines", stdin=cli("consume", source, "--exit-at-end", "--json").encode())

    def content(name: str) -> list[tuple[Any, Any]]:
        lines = cli("consume", name, "--exit-at-end", "--json").splitlines()
        return [(record["key"], record["value"]) for record in map(json.loads, lines)]

    assert content(copy) == content(source) == [("k", "text"), ("k", {"base64": "//4A"})]


def test_a_line_that_cannot_be_a_record_is_named(cli: Cli, topic: str) -> None:
    told = cli.error("produce", topic, "--key-separator", ":", stdin=b"a:1\noops\n")
    assert "line 2 has no key separator ':'; the lines before it were sent" in told
    assert "line 1 is not a record like" in cli.error("produce", topic, "--json-lines", stdin=b"{]\n")


def test_a_partition_is_chosen_by_hand(cli: Cli, new_topic: Callable[..., str]) -> None:
    name = new_topic(partitions=3)
    cli("produce", name, "--partition", "2", stdin=b"here\n")
    assert cli("consume", name, "--partition", "2", "--exit-at-end") == "here\n"
    assert cli("consume", name, "--partition", "0", "--partition", "1", "--exit-at-end") == ""
    assert "has no partition 7; it has 0 to 2" in cli.error("consume", name, "--partition", "7")


def test_reading_starts_where_it_is_told(cli: Cli, topic: str) -> None:
    cli("produce", topic, stdin=b"0\n1\n2\n3\n")

    def read(start: str) -> list[str]:
        return cli("consume", topic, f"--from={start}", "--exit-at-end").split()

    assert read("earliest") == ["0", "1", "2", "3"]
    assert read("2") == ["2", "3"]
    assert read("-1") == ["3"]
    assert read("latest") == []
    assert read("1h") == ["0", "1", "2", "3"]
    assert read("2035-01-01T00:00Z") == []


def test_reading_stops_after_so_many(cli: Cli, topic: str) -> None:
    cli("produce", topic, stdin=b"0\n1\n2\n3\n")
    assert cli("consume", topic, "--max-messages", "3").split() == ["0", "1", "2"]


def test_following_shows_what_comes_later_and_ends_with_its_reader(cli: Cli, topic: str) -> None:
    """`highwater consume ... | head -1` must end when head does, even if no other record comes."""
    reading = cli.start("consume", topic)
    assert reading.stdout is not None
    assert reading.stderr is not None
    cli("produce", topic, stdin=b"late\n")
    assert reading.stdout.readline() == b"late\n"
    reading.stdout.close()
    assert reading.wait(PATIENCE_SECONDS) == 0
    assert reading.stderr.read() == b""
    reading.stderr.close()


def test_offsets_are_shown_and_found_by_time(cli: Cli, topic: str) -> None:
    cli("produce", topic, stdin=b"0\n1\n2\n")
    assert cli.json("offsets", topic) == [{"partition": 0, "earliest": 0, "latest": 3, "span": 3}]
    assert cli.json("offsets", topic, "--at", "1h")[0]["at"] == 0
    assert cli.json("offsets", topic, "--at", "2035-01-01T00:00Z")[0]["at"] == 3


def test_the_oldest_records_are_deleted(cli: Cli, topic: str) -> None:
    cli("produce", topic, stdin=b"0\n1\n2\n3\n")
    assert "add --yes" in cli.error("records", "delete", topic, "--before", "3", code=2)
    assert cli.json("records", "delete", topic, "--before", "3", "--yes") == [{"partition": 0, "earliest": 0, "now": 3}]
    assert cli("consume", topic, "--exit-at-end") == "3\n"


def test_settings_are_shown_and_changed(cli: Cli, topic: str) -> None:
    cli("config", "alter", "topic", topic, "--set", "max.message.bytes=2000", "--set", "cleanup.policy=compact")
    shown = {entry["name"]: entry for entry in cli.json("config", "describe", "topic", topic)}
    assert shown["max.message.bytes"]["value"] == "2000"
    assert shown["cleanup.policy"]["source"] == "dynamic topic config"
    assert "retention.ms" not in shown
    assert "retention.ms" in {entry["name"] for entry in cli.json("config", "describe", "topic", topic, "--all")}

    cli("config", "alter", "topic", topic, "--unset", "max.message.bytes")
    assert "max.message.bytes" not in {entry["name"] for entry in cli.json("config", "describe", "topic", topic)}


def test_the_settings_of_a_group_are_shown_and_changed(cli: Cli, topic_name: str) -> None:
    cli("config", "alter", "group", topic_name, "--set", "consumer.heartbeat.interval.ms=9000")
    [shown] = cli.json("config", "describe", "group", topic_name)
    assert (shown["name"], shown["value"]) == ("consumer.heartbeat.interval.ms", "9000")
    assert "group.consumer.max.heartbeat" in cli.error(
        "config", "alter", "group", topic_name, "--set", "consumer.heartbeat.interval.ms=15001"
    )
    cli("config", "alter", "group", topic_name, "--unset", "consumer.heartbeat.interval.ms")
    left = cli.json("config", "describe", "group", topic_name)
    assert all(setting["source"] == "static broker config" for setting in left)  # what test brokers have for all groups
    assert shown["source"] != "static broker config"


def test_a_setting_that_makes_no_sense_is_refused(cli: Cli, topic: str) -> None:
    assert "INVALID_CONFIG" in cli.error("config", "alter", "topic", topic, "--set", "retention.ms=soon")
    assert "INVALID_CONFIG" in cli.error("config", "alter", "topic", topic, "--set", "retention.mss=1")


def test_the_settings_of_a_broker_are_shown(cli: Cli, topic: str) -> None:
    [described] = cli.json("topic", "describe", topic)
    broker = str(described["partitions"][0]["leader"])
    shown = {entry["name"] for entry in cli.json("config", "describe", "broker", broker)}
    assert {"listeners", "log.dirs"} <= shown
    assert "there is no broker '77'" in cli.error("config", "describe", "broker", "77")


def test_performance_is_measured(cli: Cli, topic: str) -> None:
    written = cli.json("perf", "produce", topic, "--records", "2000", "--size", "50")
    assert written["records"] == 2000
    assert written["records_per_second"] > 0
    assert 0 < written["latency_ms"]["p50"] <= written["latency_ms"]["max"]
    read = cli.json("perf", "consume", topic)
    assert read["records"] == 2000
    assert "2,000 records in" in cli("perf", "consume", topic)


def test_an_empty_topic_has_no_reading_speed(cli: Cli, topic: str) -> None:
    assert "holds nothing to read" in cli.error("perf", "consume", topic)


def test_a_record_that_is_too_large_is_told(cli: Cli, topic: str) -> None:
    assert "max.message.bytes set the limit" in cli.error("produce", topic, stdin=b"x" * 3_000_000)


def test_a_client_setting_that_does_not_exist_is_told(cli: Cli, topic: str) -> None:
    assert 'No such configuration property: "linger"' in cli.error("perf", "produce", topic, "-X", "linger=5")


def test_a_group_reads_on_where_it_stopped(cli: Cli, topic: str) -> None:
    group = f"group-of-{topic}"
    cli("produce", topic, stdin=b"0\n1\n")
    assert cli("consume", topic, "--group", group, "--exit-at-end").split() == ["0", "1"]
    cli("produce", topic, stdin=b"2\n")
    assert cli("consume", topic, "--group", group, "--exit-at-end").split() == ["2"]


def test_a_group_is_listed_described_moved_and_deleted(cli: Cli, topic: str) -> None:
    group = f"group-of-{topic}"
    cli("produce", topic, stdin=b"0\n1\n2\n3\n")
    cli("consume", topic, "--group", group, "--max-messages", "3")
    assert group in {row["group"] for row in cli.json("group", "list")}

    [described] = cli.json("group", "describe", group)
    assert (described["state"], described["members"], described["lag"]) == ("empty", [], 1)
    assert described["verdict"] == "gone"
    assert described["partitions"] == [
        {"topic": topic, "partition": 0, "committed": 3, "latest": 4, "lag": 1, "member": None}
    ]

    move = ["group", "reset-offsets", group, "--shift=-2"]
    assert cli.json(*move) == {
        "group": group,
        "executed": False,
        "offsets": [{"topic": topic, "partition": 0, "from": 3, "to": 1}],
    }
    assert cli.json("group", "describe", group)[0]["lag"] == 1, "a dry run changes nothing"
    cli(*move, "--execute")
    assert cli("consume", topic, "--group", group, "--exit-at-end").split() == ["1", "2", "3"]
    cli("group", "reset-offsets", group, "--topic", topic, "--to", "earliest", "--execute")
    assert cli.json("group", "describe", group)[0]["lag"] == 4

    cli("group", "delete", group, "--yes")
    assert group not in {row["group"] for row in cli.json("group", "list")}
    assert f"there is no group {group!r}" in cli.error("group", "describe", group)


def test_a_group_is_moved_to_a_place_a_time_or_so_many_from_the_end(cli: Cli, topic: str, producer: Producer) -> None:
    """One record a minute, the first an hour ago."""
    group = f"group-of-{topic}"
    first_ms = int(time.time() * 1000) - 3_600_000
    for number in range(5):
        producer.produce(topic, b"x", timestamp=first_ms + 60_000 * number)
    producer.flush(PATIENCE_SECONDS)
    moment = datetime.fromtimestamp(first_ms / 1000 + 90, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for place, expected in (("latest", 5), ("2", 2), ("-1", 4), (moment, 2), ("3570s", 1), ("earliest", 0)):
        moved = cli.json("group", "reset-offsets", group, "--topic", topic, f"--to={place}", "--execute")
        assert [offset["to"] for offset in moved["offsets"]] == [expected], place
        [described] = cli.json("group", "describe", group)
        assert described["partitions"][0]["committed"] == expected, place


def test_a_group_at_work_keeps_up_and_cannot_be_moved(cli: Cli, topic: str) -> None:
    group = f"group-of-{topic}"
    cli("produce", topic, stdin=b"0\n1\n")
    with cli.start("consume", topic, "--group", group) as reading:
        assert reading.stdout is not None
        assert reading.stdout.readline() == b"0\n"
        [described] = cli.json("group", "describe", group, "--patience", "20")
        assert (described["state"], len(described["members"]), described["verdict"]) == ("stable", 1, "keeping up")
        assert described["partitions"][0]["member"].startswith("highwater-cli@")
        assert "stop them first" in cli.error("group", "reset-offsets", group, "--to", "earliest", "--execute")
        assert "stop its members first" in cli.error("group", "delete", group, "--yes")
        reading.terminate()


def test_a_group_whose_member_commits_nothing_is_stuck(cli: Cli, bootstrap: str, topic: str) -> None:
    cli("produce", topic, stdin=b"0\n1\n")
    member = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "enable.auto.commit": False})
    member.subscribe([topic])
    wait_until(lambda: member.poll(0.1) is not None or member.assignment() != [], "the group has its partition")
    member.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    [described] = cli.json("group", "describe", topic, "--patience", "1")
    assert (described["lag"], described["verdict"]) == (1, "stuck")
    member.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    [described] = cli.json("group", "describe", topic, "--patience", "1")
    member.close()
    assert (described["lag"], described["verdict"]) == (0, "keeping up")
