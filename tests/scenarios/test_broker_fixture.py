"""The broker that users get for their own tests: real, quick, and gone without a trace."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from highwater.testing.broker import BrokerFailed, BrokerProcess
from highwater.testing.plugin import BrokerFactory
from highwater.testing.waiting import PATIENCE_SECONDS

SOMEBODYS_TESTS = """
import pytest
@pytest.fixture(scope="session")
def highwater_broker_settings():
    return {"num.partitions": 2}

def test_settings_of_the_project(highwater_session_broker):
    assert highwater_session_broker.settings["num.partitions"] == 2

@pytest.mark.highwater(num_partitions=3)
def test_settings_of_one_test(highwater_broker):
    assert highwater_broker.settings["num.partitions"] == 3
    print("data in", highwater_broker.data_dir, "pid", highwater_broker.pid)

def test_two_brokers_are_two(highwater_broker_factory):
    one, other = highwater_broker_factory(), highwater_broker_factory({"broker.id": 7})
    assert one.port != other.port
    assert one.data_dir != other.data_dir
"""


def topics(broker: BrokerProcess) -> set[str]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    return set(admin.list_topics(timeout=PATIENCE_SECONDS).topics)


def make_topic(broker: BrokerProcess, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(PATIENCE_SECONDS)


def test_somebody_elses_project_gets_brokers_from_fixtures(tmp_path: Path) -> None:
    (tmp_path / "test_theirs.py").write_text(SOMEBODYS_TESTS, encoding="utf-8")
    outcome = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-rP",
            "-W",
            "error",
            "--strict-markers",
            "-p",
            "no:cacheprovider",
            tmp_path,
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
        check=False,
    )
    assert "3 passed" in outcome.stdout, outcome.stdout + outcome.stderr
    [told] = [line for line in outcome.stdout.splitlines() if line.startswith("data in")]
    _, _, data_dir, _, pid = told.split()
    assert not Path(data_dir).parent.exists()
    assert not Path("/proc", pid).exists()


def test_a_broker_is_up_within_its_block_and_leaves_nothing_behind() -> None:
    with BrokerProcess() as broker:
        assert topics(broker) == set()
        assert broker.data_dir.is_dir()
        pid, folder, port = broker.pid, broker.data_dir.parent, broker.port
    assert not folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((broker.host, port), timeout=1)


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_broker_comes_back_with_its_topics_at_the_same_address(highwater_broker: BrokerProcess, how: str) -> None:
    make_topic(highwater_broker, "kept")
    address = highwater_broker.bootstrap_servers
    if how == "stop":
        assert highwater_broker.stop() == 0
    else:
        highwater_broker.kill()
    assert not highwater_broker.is_running
    highwater_broker.start()
    assert highwater_broker.bootstrap_servers == address
    assert topics(highwater_broker) == {"kept"}


def test_a_paused_broker_answers_when_it_is_resumed(highwater_broker: BrokerProcess) -> None:
    highwater_broker.pause()
    with socket.create_connection((highwater_broker.host, highwater_broker.port), timeout=PATIENCE_SECONDS):
        highwater_broker.resume()
        assert topics(highwater_broker) == set()


def test_a_bad_setting_is_reported_with_the_brokers_own_words(highwater_broker_factory: BrokerFactory) -> None:
    with pytest.raises(BrokerFailed, match=r"ended with 1\n.*num\.partitions") as failed:
        highwater_broker_factory(num_partitions="many")
    assert "Traceback" not in str(failed.value)


def test_a_port_that_is_taken_is_reported(highwater_broker: BrokerProcess) -> None:
    other = BrokerProcess({"broker.id": 1})
    other.port = highwater_broker.port
    try:
        with pytest.raises(BrokerFailed, match="ended with 1") as failed:
            other.start()
        assert str(highwater_broker.port) in str(failed.value)
        assert "Traceback" not in str(failed.value)
    finally:
        other.remove()
