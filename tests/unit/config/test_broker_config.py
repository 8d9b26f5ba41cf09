"""Loading, layering and changing a broker's settings."""

from pathlib import Path

import pytest

from highwater.config.broker_config import BrokerConfig, check_dynamic
from highwater.config.entries import ConfigSource
from highwater.config.listeners import Address
from highwater.config.properties import ConfigError
from highwater.config.settings.log import LOG_FLUSH_INTERVAL_MS, LOG_RETENTION_MS, LOG_SEGMENT_BYTES
from highwater.config.settings.network import MAX_CONNECTIONS, MAX_CONNECTIONS_PER_IP_OVERRIDES
from highwater.config.settings.node import BROKER_ID, LOG_DIRS, NUM_PARTITIONS
from highwater.config.settings.security import SASL_JAAS_CONFIG, SSL_CLIENT_AUTH, SUPER_USERS
from highwater.model.errors import ErrorCode, KafkaError

KAFKA_4_COMBINED_MODE = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL
num.network.threads=3
num.io.threads=8
log.dirs=/srv/a, /srv/b
num.partitions=3
log.retention.hours=24
"""


def written(tmp_path: Path, content: str) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(content)
    return path


def test_defaults_without_a_file() -> None:
    config = BrokerConfig.load(None)
    assert config[LOG_SEGMENT_BYTES] == 2**30
    assert [str(endpoint.advertised) for endpoint in config.endpoints] == ["127.0.0.1:9092"]
    assert config.warnings == ()


def test_a_file_written_for_kraft_works(tmp_path: Path) -> None:
    config = BrokerConfig.load(written(tmp_path, KAFKA_4_COMBINED_MODE))
    assert config[BROKER_ID] == 1
    assert config[LOG_DIRS] == ("/srv/a", "/srv/b")
    assert config[LOG_RETENTION_MS] == 24 * 3_600_000
    assert [endpoint.name for endpoint in config.endpoints] == ["PLAINTEXT"]
    assert config.endpoints[0].advertised == Address("localhost", 9092)
    assert len(config.warnings) == 4
    assert any("num.io.threads has no effect: one event loop" in warning for warning in config.warnings)


def test_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    config = BrokerConfig.load(written(tmp_path, "num.partitions=3\n"), {"num.partitions": "5"})
    assert config[NUM_PARTITIONS] == 5


def test_a_bad_value_says_where_and_what_may_stand_there(tmp_path: Path) -> None:
    path = written(tmp_path, "\nlog.segment.bytes=1GB\n")
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.load(path)
    assert str(caught.value) == (f"{path}:2: log.segment.bytes must be a number of bytes from 14 up; it is '1GB'")
    with pytest.raises(ConfigError, match=r"^--set num\.partitions must be an integer from 1 up; it is '0'$"):
        BrokerConfig.load(None, {"num.partitions": "0"})


def test_a_bad_secret_is_not_repeated() -> None:
    assert "hunter2" not in repr(BrokerConfig({"ssl.key.password": "hunter2"}).describe())


def test_a_misspelt_name_is_a_warning_with_a_guess(tmp_path: Path) -> None:
    """Users bring files with keys of other vendors; Apache Kafka does not refuse them either."""
    config = BrokerConfig.load(written(tmp_path, "log.segment.byte=1\nsome.vendor.thing=1\n"))
    assert config.warnings[0].endswith("log.segment.byte is not a known setting; did you mean log.segment.bytes?")
    assert config.warnings[1].endswith(":2: some.vendor.thing is not a known setting")


@pytest.mark.parametrize(
    ("given", "in_force"),
    [
        ({}, 604_800_000),
        ({"log.retention.hours": "1"}, 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2"}, 120_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2", "log.retention.ms": "3"}, 3),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_the_finer_unit_wins(given: dict[str, str], in_force: int) -> None:
    assert BrokerConfig(given)[LOG_RETENTION_MS] == in_force


def test_the_flush_interval_follows_the_scheduler_interval() -> None:
    assert BrokerConfig({"log.flush.scheduler.interval.ms": "2000"})[LOG_FLUSH_INTERVAL_MS] == 2000


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"broker.id": "1", "node.id": "2"}, "they are one thing"),
        ({"listeners": "INTERNAL://:1"}, "does not say how INTERNAL is secured"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "names listener PLAINTEXT twice"),
        ({"listeners": "PLAINTEXT://:99999"}, "a port from 0 to 65535"),
        ({"listeners": "PLAINTEXT://::1:9092"}, "IPv6 address in brackets"),
        ({"listeners": "9092"}, "must be NAME://host:port"),
        ({"listeners": " "}, "at least one listener"),
        ({"advertised.listeners": "SSL://a:1"}, "names SSL, which listeners does not have"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "an address that clients can connect to"),
        ({"controller.listener.names": "PLAINTEXT"}, "no listener for clients"),
        ({"inter.broker.listener.name": "SSL"}, "which listeners does not have"),
        ({"listener.security.protocol.map": "A:NOPE"}, "one of PLAINTEXT, SSL"),
        ({"listener.name.plaintext.log.dirs": "a"}, "cannot be set for one listener"),
        ({"log.dirs": " , "}, "must not be empty"),
        ({"auto.create.topics.enable": "yes"}, "true or false"),
        ({"log.cleaner.min.cleanable.ratio": "nan"}, "a number from 0 to 1"),
        ({"num.partitions": "1_0"}, "an integer from 1 up"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(given: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        BrokerConfig(given)
    assert "\n" not in str(caught.value)


def test_a_listener_on_every_address_is_advertised_as_loopback() -> None:
    """Some clients resolve localhost to ::1 first."""
    config = BrokerConfig({"listeners": "PLAINTEXT://0.0.0.0:0,SSL://[::1]:9093"})
    assert [str(endpoint.advertised) for endpoint in config.endpoints] == ["127.0.0.1:0", "[::1]:9093"]
    assert str(config.endpoints[0].bound_to(1234).advertised) == "127.0.0.1:1234"


def test_the_endpoint_between_brokers() -> None:
    listeners = {"listeners": "SSL://a:1,PLAINTEXT://b:2"}
    assert BrokerConfig(listeners).inter_broker_endpoint.name == "PLAINTEXT"
    assert BrokerConfig(listeners | {"inter.broker.listener.name": "ssl"}).inter_broker_endpoint.uses_tls


def test_a_listener_may_have_its_own_security_settings() -> None:
    config = BrokerConfig(
        {
            "ssl.client.auth": "none",
            "listener.name.internal.ssl.client.auth": "required",
            "listener.name.internal.scram-sha-256.sasl.jaas.config": "secret",
        }
    )
    assert config.for_listener("INTERNAL", SSL_CLIENT_AUTH) == "required"
    assert config.for_listener("EXTERNAL", SSL_CLIENT_AUTH) == "none"
    assert config.for_listener("INTERNAL", SASL_JAAS_CONFIG, mechanism="SCRAM-SHA-256") == "secret"


def test_lists_and_maps() -> None:
    config = BrokerConfig(
        {"max.connections.per.ip.overrides": "10.0.0.1:5,::1:6", "super.users": "User:a;User:CN=b,O=c"}
    )
    assert config[MAX_CONNECTIONS_PER_IP_OVERRIDES] == {"10.0.0.1": 5, "::1": 6}
    assert config[SUPER_USERS] == ("User:a", "User:CN=b,O=c")


def test_dynamic_configs_win_and_those_who_care_are_told() -> None:
    config = BrokerConfig({"max.connections": "10"})
    told: list[object] = []
    config.on_change(told.append)
    config.apply_dynamic(this_broker={"max.connections": "30"}, all_brokers={"max.connections": "20"})
    assert config[MAX_CONNECTIONS] == 30
    sources = [(synonym.value, synonym.source) for synonym in config.synonyms(MAX_CONNECTIONS)]
    assert sources == [
        ("30", ConfigSource.DYNAMIC_BROKER),
        ("20", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("10", ConfigSource.STATIC_BROKER),
        (str(2**31 - 1), ConfigSource.DEFAULT),
    ]
    config.apply_dynamic(this_broker={}, all_brokers={})
    assert config[MAX_CONNECTIONS] == 10
    assert told == [frozenset({MAX_CONNECTIONS})] * 2


def test_dynamic_configs_stored_by_another_release_do_not_stop_the_broker() -> None:
    config = BrokerConfig()
    config.apply_dynamic(this_broker={"max.connections": "many", "unheard.of": "1", "broker.id": "9"}, all_brokers={})
    assert config[MAX_CONNECTIONS] == 2**31 - 1
    assert config[BROKER_ID] == 0


@pytest.mark.parametrize(
    ("configs", "code"),
    [
        ({"broker.id": "2"}, ErrorCode.INVALID_REQUEST),
        ({"follower.replication.throttled.rate": "5"}, ErrorCode.INVALID_REQUEST),
        ({"max.connections": "-5"}, ErrorCode.INVALID_CONFIG),
        ({"max.conections": "5"}, ErrorCode.INVALID_CONFIG),
    ],
)
def test_dynamic_configs_are_checked_before_they_are_stored(configs: dict[str, str], code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as caught:
        check_dynamic(configs, one_broker=False)
    assert caught.value.code is code


def test_describing_one_setting() -> None:
    (entry,) = BrokerConfig({"log.retention.hours": "1"}).describe(["log.retention.ms", "no.such"])
    assert entry.value == "3600000"
    assert entry.source is ConfigSource.STATIC_BROKER
    assert [(s.name, s.value) for s in entry.synonyms] == [("log.retention.hours", "1"), ("log.retention.hours", "168")]
    assert not entry.is_read_only
