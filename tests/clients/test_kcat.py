"""kcat: the tool that people reach for first."""

import json
import shutil
import subprocess
from collections.abc import Callable

import pytest

from highwater.testing.waiting import PATIENCE_SECONDS

Kcat = Callable[..., str]


@pytest.fixture
def kcat(bootstrap: str) -> Kcat:
    """Run kcat against the broker and return what it printed."""
    assert shutil.which("kcat"), "kcat is missing: run `make setup`"

    def run(*arguments: str, stdin: str = "") -> str:
        command = ["kcat", "-b", bootstrap, *arguments]
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=2 * PATIENCE_SECONDS, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_kcat_produces_it_consumes(kcat: Kcat, topic: str, codec: str) -> None:
    kcat("-P", "-t", topic, "-p", "0", "-K", ":", "-z", codec, stdin="one:1\ntwo:2\nthree:3\n")
    assert kcat("-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%o %k=%s\n") == "0 one=1\n1 two=2\n2 three=3\n"


def test_headers_and_empty_values_survive(kcat: Kcat, topic: str) -> None:
    kcat("-P", "-t", topic, "-K", ":", "-Z", "-H", "trace=7", "-H", "span=8", stdin="gone:\n")
    (record,) = [json.loads(line) for line in kcat("-C", "-t", topic, "-o", "beginning", "-e", "-q", "-J").splitlines()]
    assert record["headers"] == ["trace", "7", "span", "8"]
    assert (record["key"], record["payload"]) == ("gone", None)


def test_the_last_records_are_found_from_the_end(kcat: Kcat, topic: str) -> None:
    kcat("-P", "-t", topic, stdin="".join(f"{number}\n" for number in range(100)))
    assert kcat("-C", "-t", topic, "-p", "0", "-o", "-2", "-e", "-q") == "98\n99\n"


def test_metadata_lists_the_broker_and_the_topic(kcat: Kcat, topic: str, bootstrap: str) -> None:
    shown = json.loads(kcat("-L", "-J"))
    assert [broker["name"] for broker in shown["brokers"]] == [bootstrap]
    (found,) = [entry for entry in shown["topics"] if entry["topic"] == topic]
    (partition,) = found["partitions"]
    leader = partition["leader"]
    assert (partition["replicas"], partition["isrs"]) == ([{"id": leader}], [{"id": leader}])


def test_a_query_by_time_finds_the_offset(kcat: Kcat, topic: str) -> None:
    kcat("-P", "-t", topic, stdin="only\n")
    assert f"{topic} [0] offset 0" in kcat("-Q", "-t", f"{topic}:0:1")
    assert f"{topic} [0] offset 1" in kcat("-Q", "-t", f"{topic}:0:-1")
