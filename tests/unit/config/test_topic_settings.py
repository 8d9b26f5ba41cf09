"""What a topic may override, and how it is shown."""

import pytest

from highwater.config.broker_config import BrokerConfig
from highwater.config.catalogue import TOPIC_SETTINGS
from highwater.config.entries import ConfigSource
from highwater.config.settings.log import LOG_CLEANUP_POLICY, LOG_SEGMENT_BYTES
from highwater.config.settings.replication import LEADER_REPLICATION_THROTTLED_REPLICAS
from highwater.config.topic_settings import TopicSettings, check_topic_configs
from highwater.model.errors import ErrorCode, KafkaError


def test_a_topic_wins_over_the_broker_and_follows_it_elsewhere() -> None:
    broker = BrokerConfig({"log.segment.bytes": "1000"})
    topic = TopicSettings.resolve(broker, {"cleanup.policy": "compact,delete"})
    assert topic[LOG_CLEANUP_POLICY] == ("compact", "delete")
    assert topic[LOG_SEGMENT_BYTES] == 1000
    broker.apply_dynamic(this_broker={}, all_brokers={"log.segment.bytes": "2000"})
    assert topic[LOG_SEGMENT_BYTES] == 2000


def test_every_default_is_listed_with_its_source_and_synonyms() -> None:
    topic = TopicSettings.resolve(BrokerConfig({"log.segment.bytes": "1000"}), {"segment.bytes": "500"})
    entries = {entry.name: entry for entry in topic.describe()}
    assert set(entries) == set(TOPIC_SETTINGS)
    segment_bytes = entries["segment.bytes"]
    assert segment_bytes.value == "500"
    assert [(s.name, s.value, s.source) for s in segment_bytes.synonyms] == [
        ("segment.bytes", "500", ConfigSource.TOPIC),
        ("log.segment.bytes", "1000", ConfigSource.STATIC_BROKER),
        ("log.segment.bytes", str(2**30), ConfigSource.DEFAULT),
    ]
    assert entries["retention.ms"].source is ConfigSource.DEFAULT
    assert entries["leader.replication.throttled.replicas"].value == ""


def test_a_setting_that_brokers_do_not_have() -> None:
    topic = TopicSettings.resolve(BrokerConfig(), {"leader.replication.throttled.replicas": "0:1,1:2"})
    assert topic[LEADER_REPLICATION_THROTTLED_REPLICAS] == ("0:1", "1:2")


def test_stored_configs_that_no_longer_make_sense_are_left_out() -> None:
    topic = TopicSettings.resolve(BrokerConfig(), {"segment.bytes": "x", "remote.storage.enable": "true"})
    assert topic[LOG_SEGMENT_BYTES] == 2**30


@pytest.mark.parametrize(
    ("configs", "says"),
    [
        ({"segment.byte": "1"}, "did you mean segment.bytes?"),
        ({"log.segment.bytes": "1"}, "is not a topic setting"),
        ({"segment.bytes": "many"}, "a number of bytes from 14 up"),
        ({"segment.bytes": None}, "needs a value"),
        ({"cleanup.policy": "compact,forget"}, "each one of delete, compact"),
        ({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}, "must not be above"),
    ],
)
def test_bad_topic_configs_are_refused_with_a_reason(configs: dict[str, str | None], says: str) -> None:
    with pytest.raises(KafkaError, match=says) as caught:
        check_topic_configs(configs)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_good_topic_configs_are_kept_as_given() -> None:
    assert check_topic_configs({"retention.ms": "-1"}) == {"retention.ms": "-1"}
