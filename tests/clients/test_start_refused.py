"""A broker that cannot start says why in one line, exits with 1, and touches no data."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from highwater.testing.plugin import BrokerFactory
from highwater.testing.waiting import PATIENCE_SECONDS


def serve(*arguments: str) -> str:
    """Run `highwater serve`, which must fail; return the one line that it leaves."""
    command = [sys.executable, "-m", "highwater", "serve", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 1, done
    assert "ready" not in done.stdout
    (line,) = done.stderr.splitlines()
    return line


def settings(**values: object) -> list[str]:
    return [part for name, value in values.items() for part in ("--set", f"{name.replace('_', '.')}={value}")]


def test_a_data_dir_in_use_by_another_broker_is_left_alone(start_broker: BrokerFactory) -> None:
    first = start_broker()
    line = serve(*settings(listeners="PLAINTEXT://127.0.0.1:0", log_dirs=first.data_dir))
    assert str(first.data_dir) in line
    assert first.is_running


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = serve(*settings(listeners=f"PLAINTEXT://127.0.0.1:{port}", log_dirs=tmp_path / "data"))
    assert str(port) in line


def test_a_data_dir_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """A file stands where the folder should be: that stops root as well."""
    (tmp_path / "file").write_text("not a folder")
    line = serve(*settings(listeners="PLAINTEXT://127.0.0.1:0", log_dirs=tmp_path / "file" / "data"))
    assert str(tmp_path / "file") in line


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("log.segment.bytes=lots\n", ["server.properties:1", "log.segment.bytes", "lots"]),
        ("\n\nnum.partitions=0\n", ["server.properties:3", "num.partitions"]),
        ("listeners=PLAINTEXT//127.0.0.1\n", ["server.properties:1", "listeners"]),
    ],
    ids=["value", "bounds", "listener"],
)
def test_a_bad_setting_is_named_with_its_line(tmp_path: Path, content: str, words: list[str]) -> None:
    file = tmp_path / "server.properties"
    file.write_text(content)
    line = serve(str(file), *settings(log_dirs=tmp_path / "data"))
    assert all(word in line for word in words), line
    assert not (tmp_path / "data").exists()


def test_a_settings_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "missing.properties" in serve(str(tmp_path / "missing.properties"))


def test_another_brokers_data_is_left_alone(start_broker: BrokerFactory) -> None:
    """With another id the broker would find none of its partitions, and serve nothing in their place."""
    broker = start_broker(broker_id=1)
    broker.stop()
    line = serve(*settings(listeners="PLAINTEXT://127.0.0.1:0", log_dirs=broker.data_dir, broker_id=2))
    assert "holds the data of broker 1, and broker.id is 2" in line


def test_data_whose_metadata_is_gone_is_left_alone(start_broker: BrokerFactory) -> None:
    """A broker that began anew here would hide every topic."""
    broker = start_broker()
    broker.stop()
    (broker.data_dir / "__highwater_metadata.sqlite").unlink()
    line = serve(*settings(listeners="PLAINTEXT://127.0.0.1:0", log_dirs=broker.data_dir))
    assert "__highwater_metadata.sqlite is gone" in line


def test_what_cannot_be_followed_is_refused(tmp_path: Path) -> None:
    """A broker that took the setting and allowed everything would be worse than none."""
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    line = serve(*settings(authorizer_class_name=authorizer, log_dirs=tmp_path / "data"))
    assert "authorizer.class.name cannot be followed" in line
    assert not (tmp_path / "data").exists()
