"""librdkafka's admin client: topics, partitions, settings, offsets and records are managed from outside."""

import json
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    OffsetSpec,
    ResourceType,
)
from confluent_kafka.admin import (
    NewTopic as TopicAsked,
)

from highwater.testing.waiting import PATIENCE_SECONDS, wait_until

NewTopic = Callable[..., str]
LAST_MS = int(time.time() * 1000)
FIRST_MS = LAST_MS - 1_000_000


def only(futures: dict[Any, Future[Any]]) -> Any:
    """The outcome of a call about one thing."""
    (future,) = futures.values()
    return future.result(PATIENCE_SECONDS)


def refusal(futures: dict[Any, Future[Any]]) -> int:
    """The error code by which a call about one thing was refused."""
    with pytest.raises(KafkaException) as refused:
        only(futures)
    code: int = refused.value.args[0].code()
    return code


def described(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    """Every setting of a topic or a broker."""
    settings: dict[str, ConfigEntry] = only(admin.describe_configs([ConfigResource(kind, name)]))
    return settings


def changed(kind: ResourceType, name: str, *changes: tuple[str, str | None, AlterConfigOpType]) -> ConfigResource:
    """A resource with the incremental changes asked of it."""
    entries = [ConfigEntry(key, value, incremental_operation=operation) for key, value, operation in changes]
    return ConfigResource(kind, name, incremental_configs=entries)


class TestTopics:
    def test_a_created_topic_is_listed_and_described_with_its_id(self, admin: AdminClient, new_topic: NewTopic) -> None:
        topic = new_topic(partitions=3)
        assert sorted(admin.list_topics(timeout=PATIENCE_SECONDS).topics[topic].partitions) == [0, 1, 2]
        description = only(admin.describe_topics(TopicCollection([topic])))
        assert len(str(description.topic_id)) == 22
        assert [partition.id for partition in description.partitions] == [0, 1, 2]
        for partition in description.partitions:
            assert [node.id for node in partition.replicas] == [partition.leader.id]
            assert [node.id for node in partition.isr] == [partition.leader.id]

    def test_a_topic_made_again_gets_another_id(self, admin: AdminClient, topic: str) -> None:
        first = str(only(admin.describe_topics(TopicCollection([topic]))).topic_id)
        only(admin.delete_topics([topic]))
        wait_until(lambda: topic not in admin.list_topics(timeout=PATIENCE_SECONDS).topics)
        only(admin.create_topics([TopicAsked(topic, 1, 1)]))
        assert str(only(admin.describe_topics(TopicCollection([topic]))).topic_id) != first

    def test_a_deleted_topics_records_are_gone_when_it_is_made_again(
        self, admin: AdminClient, topic: str, producer: Producer
    ) -> None:
        producer.produce(topic, b"old")
        producer.flush(PATIENCE_SECONDS)
        only(admin.delete_topics([topic]))
        only(admin.create_topics([TopicAsked(topic, 1, 1)]))
        ends = only(admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.latest()}))
        assert ends.offset == 0

    def test_a_topic_that_exists_cannot_be_created(self, admin: AdminClient, topic: str) -> None:
        assert refusal(admin.create_topics([TopicAsked(topic, 1, 1)])) == KafkaError.TOPIC_ALREADY_EXISTS

    @pytest.mark.parametrize(
        ("asked", "code"),
        [
            (TopicAsked("bad name!", 1, 1), KafkaError.TOPIC_EXCEPTION),
            (TopicAsked("x" * 250, 1, 1), KafkaError.TOPIC_EXCEPTION),
            (TopicAsked("..", 1, 1), KafkaError.TOPIC_EXCEPTION),
            (TopicAsked("too-many-replicas", 1, 9), KafkaError.INVALID_REPLICATION_FACTOR),
            (TopicAsked("bad-setting", 1, 1, config={"no.such.setting": "1"}), KafkaError.INVALID_CONFIG),
            (TopicAsked("bad-value", 1, 1, config={"retention.ms": "soon"}), KafkaError.INVALID_CONFIG),
            (TopicAsked("bad-policy", 1, 1, config={"cleanup.policy": "hoard"}), KafkaError.INVALID_CONFIG),
        ],
        ids=lambda asked: asked.topic[:20] if isinstance(asked, TopicAsked) else "",
    )
    def test_a_topic_that_cannot_be_is_refused(self, admin: AdminClient, asked: TopicAsked, code: int) -> None:
        assert refusal(admin.create_topics([asked])) == code
        assert asked.topic not in admin.list_topics(timeout=PATIENCE_SECONDS).topics

    def test_one_bad_topic_does_not_spoil_the_rest(self, admin: AdminClient, topic_name: str) -> None:
        futures = admin.create_topics([TopicAsked(topic_name, 1, 1), TopicAsked("bad name!", 1, 1)])
        assert futures[topic_name].result(PATIENCE_SECONDS) is None
        assert futures["bad name!"].exception(PATIENCE_SECONDS) is not None

    def test_validate_only_changes_nothing(self, admin: AdminClient, topic: str, topic_name: str) -> None:
        only(admin.create_topics([TopicAsked(topic_name, 1, 1)], validate_only=True))
        only(admin.create_partitions([NewPartitions(topic, 5)], validate_only=True))
        topics = admin.list_topics(timeout=PATIENCE_SECONDS).topics
        assert topic_name not in topics
        assert len(topics[topic].partitions) == 1

    def test_a_topic_with_no_count_given_gets_the_brokers_default(self, admin: AdminClient, topic_name: str) -> None:
        only(admin.create_topics([TopicAsked(topic_name, -1, -1)]))
        assert len(admin.list_topics(timeout=PATIENCE_SECONDS).topics[topic_name].partitions) == 1

    def test_deleting_an_unknown_topic_says_so(self, admin: AdminClient, topic_name: str) -> None:
        assert refusal(admin.delete_topics([topic_name])) == KafkaError.UNKNOWN_TOPIC_OR_PART

    def test_partitions_are_added_and_never_taken_away(
        self, admin: AdminClient, topic: str, producer: Producer, read: Callable[..., list[Any]]
    ) -> None:
        only(admin.create_partitions([NewPartitions(topic, 4)]))
        assert len(admin.list_topics(timeout=PATIENCE_SECONDS).topics[topic].partitions) == 4
        producer.produce(topic, b"in the last one", partition=3)
        producer.flush(PATIENCE_SECONDS)
        assert read(topic, 1, partition=3)[0].value() == b"in the last one"
        for count in (4, 2):
            assert refusal(admin.create_partitions([NewPartitions(topic, count)])) == KafkaError.INVALID_PARTITIONS

    def test_partitions_of_an_unknown_topic_cannot_be_added(self, admin: AdminClient, topic_name: str) -> None:
        asked = NewPartitions(topic_name, 4)
        assert refusal(admin.create_partitions([asked])) == KafkaError.UNKNOWN_TOPIC_OR_PART


class TestCluster:
    def test_the_cluster_has_an_id_a_controller_and_its_broker(self, admin: AdminClient, bootstrap: str) -> None:
        cluster = admin.describe_cluster().result(PATIENCE_SECONDS)
        assert len(cluster.cluster_id) == 22
        assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [bootstrap]
        assert cluster.controller.id in {node.id for node in cluster.nodes}

    def test_metadata_names_the_same_cluster(self, admin: AdminClient) -> None:
        cluster = admin.describe_cluster().result(PATIENCE_SECONDS)
        metadata = admin.list_topics(timeout=PATIENCE_SECONDS)
        assert metadata.cluster_id == cluster.cluster_id
        assert sorted(metadata.brokers) == [node.id for node in cluster.nodes]


class TestSettings:
    def test_a_new_topic_shows_every_default_and_where_it_comes_from(self, admin: AdminClient, topic: str) -> None:
        settings = described(admin, ResourceType.TOPIC, topic)
        defaults = {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "max.message.bytes": "1048588",
            "message.timestamp.type": "CreateTime",
            "retention.ms": "604800000",
            "retention.bytes": "-1",
            "segment.bytes": "1073741824",
            "segment.ms": "604800000",
            "index.interval.bytes": "4096",
            "segment.index.bytes": "10485760",
            "unclean.leader.election.enable": "false",
        }
        assert {name: settings[name].value for name in defaults} == defaults
        for name in defaults:
            assert ConfigSource(settings[name].source) == ConfigSource.DEFAULT_CONFIG, name
            assert settings[name].is_default
            assert not settings[name].is_read_only
            assert not settings[name].is_sensitive

    def test_a_setting_given_at_creation_is_the_topics_own(self, admin: AdminClient, new_topic: NewTopic) -> None:
        topic = new_topic(config={"retention.ms": "3600000"})
        retention = described(admin, ResourceType.TOPIC, topic)["retention.ms"]
        assert retention.value == "3600000"
        assert ConfigSource(retention.source) == ConfigSource.DYNAMIC_TOPIC_CONFIG
        assert not retention.is_default

    def test_synonyms_name_the_brokers_setting_behind_the_topics(self, admin: AdminClient, new_topic: NewTopic) -> None:
        topic = new_topic(config={"segment.bytes": "1048576"})
        synonyms = described(admin, ResourceType.TOPIC, topic)["segment.bytes"].synonyms
        assert [(entry.name, entry.value) for entry in synonyms.values()] == [
            ("segment.bytes", "1048576"),
            ("log.segment.bytes", "1073741824"),
        ]

    def test_changes_are_set_and_deleted_one_by_one(self, admin: AdminClient, new_topic: NewTopic) -> None:
        topic = new_topic(config={"retention.ms": "1000000", "segment.ms": "2000000"})
        change = changed(
            ResourceType.TOPIC,
            topic,
            ("retention.ms", "3000000", AlterConfigOpType.SET),
            ("segment.ms", None, AlterConfigOpType.DELETE),
        )
        only(admin.incremental_alter_configs([change]))
        settings = described(admin, ResourceType.TOPIC, topic)
        assert settings["retention.ms"].value == "3000000"
        assert settings["segment.ms"].value == "604800000"
        assert ConfigSource(settings["segment.ms"].source) == ConfigSource.DEFAULT_CONFIG

    def test_a_list_can_be_appended_to_and_subtracted_from(self, admin: AdminClient, new_topic: NewTopic) -> None:
        topic = new_topic(config={"cleanup.policy": "delete"})
        add = changed(ResourceType.TOPIC, topic, ("cleanup.policy", "compact", AlterConfigOpType.APPEND))
        only(admin.incremental_alter_configs([add]))
        assert described(admin, ResourceType.TOPIC, topic)["cleanup.policy"].value == "delete,compact"
        take = changed(ResourceType.TOPIC, topic, ("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT))
        only(admin.incremental_alter_configs([take]))
        assert described(admin, ResourceType.TOPIC, topic)["cleanup.policy"].value == "compact"

    def test_only_a_list_can_be_appended_to(self, admin: AdminClient, topic: str) -> None:
        change = changed(ResourceType.TOPIC, topic, ("retention.ms", "1", AlterConfigOpType.APPEND))
        assert refusal(admin.incremental_alter_configs([change])) == KafkaError.INVALID_CONFIG

    @pytest.mark.parametrize(("name", "value"), [("retention.ms", "never"), ("no.such.setting", "1")])
    def test_a_bad_change_is_refused_whole(self, admin: AdminClient, topic: str, name: str, value: str) -> None:
        change = changed(
            ResourceType.TOPIC,
            topic,
            ("segment.bytes", "2097152", AlterConfigOpType.SET),
            (name, value, AlterConfigOpType.SET),
        )
        assert refusal(admin.incremental_alter_configs([change])) == KafkaError.INVALID_CONFIG
        assert described(admin, ResourceType.TOPIC, topic)["segment.bytes"].value == "1073741824"

    def test_validate_only_judges_a_change_and_does_not_make_it(self, admin: AdminClient, topic: str) -> None:
        good = changed(ResourceType.TOPIC, topic, ("retention.ms", "5000", AlterConfigOpType.SET))
        only(admin.incremental_alter_configs([good], validate_only=True))
        assert described(admin, ResourceType.TOPIC, topic)["retention.ms"].value == "604800000"
        bad = changed(ResourceType.TOPIC, topic, ("retention.ms", "soon", AlterConfigOpType.SET))
        assert refusal(admin.incremental_alter_configs([bad], validate_only=True)) == KafkaError.INVALID_CONFIG

    def test_the_older_call_replaces_all_settings_of_a_topic(self, admin: AdminClient, new_topic: NewTopic) -> None:
        topic = new_topic(config={"retention.ms": "1000000"})
        replacement = ConfigResource(ResourceType.TOPIC, topic, set_config={"segment.ms": "2000000"})
        with pytest.deprecated_call():
            futures = admin.alter_configs([replacement])
        only(futures)
        settings = described(admin, ResourceType.TOPIC, topic)
        assert settings["segment.ms"].value == "2000000"
        assert settings["retention.ms"].value == "604800000"

    def test_settings_of_an_unknown_topic_are_an_error(self, admin: AdminClient, topic_name: str) -> None:
        resource = ConfigResource(ResourceType.TOPIC, topic_name)
        assert refusal(admin.describe_configs([resource])) == KafkaError.UNKNOWN_TOPIC_OR_PART

    def test_a_changed_limit_counts_at_once(self, admin: AdminClient, topic: str, bootstrap: str) -> None:
        lower = changed(ResourceType.TOPIC, topic, ("max.message.bytes", "500", AlterConfigOpType.SET))
        only(admin.incremental_alter_configs([lower]))
        failures: list[Any] = []
        producer = Producer({"bootstrap.servers": bootstrap})
        producer.produce(topic, b"x" * 1_000, on_delivery=lambda error, _: failures.append(error))
        assert producer.flush(PATIENCE_SECONDS) == 0
        assert [error.code() for error in failures] == [KafkaError.MSG_SIZE_TOO_LARGE]

    def test_a_broker_shows_its_settings_and_which_are_read_only(self, admin: AdminClient) -> None:
        (broker_id,) = admin.list_topics(timeout=PATIENCE_SECONDS).brokers
        settings = described(admin, ResourceType.BROKER, str(broker_id))
        assert settings["log.retention.hours"].value == "168"
        assert settings["auto.create.topics.enable"].value == "true"
        assert settings["log.dirs"].is_read_only
        assert ConfigSource(settings["log.dirs"].source) == ConfigSource.STATIC_BROKER_CONFIG

    def test_a_brokers_setting_changes_what_its_topics_inherit(self, admin: AdminClient, topic: str) -> None:
        """The topic shows the dynamic setting of its broker as the source, and loses it again."""
        (broker_id,) = admin.list_topics(timeout=PATIENCE_SECONDS).brokers

        def change(value: str | None, operation: AlterConfigOpType) -> None:
            setting = ("log.index.interval.bytes", value, operation)
            only(admin.incremental_alter_configs([changed(ResourceType.BROKER, str(broker_id), setting)]))

        def inherited() -> tuple[str | None, ConfigSource]:
            entry = described(admin, ResourceType.TOPIC, topic)["index.interval.bytes"]
            return entry.value, ConfigSource(entry.source)

        change("8192", AlterConfigOpType.SET)
        wait_until(lambda: inherited() == ("8192", ConfigSource.DYNAMIC_BROKER_CONFIG))
        change(None, AlterConfigOpType.DELETE)
        wait_until(lambda: inherited() == ("4096", ConfigSource.DEFAULT_CONFIG))

    def test_a_read_only_setting_of_a_broker_cannot_be_changed(self, admin: AdminClient) -> None:
        (broker_id,) = admin.list_topics(timeout=PATIENCE_SECONDS).brokers
        change = changed(ResourceType.BROKER, str(broker_id), ("log.dirs", "/tmp", AlterConfigOpType.SET))
        assert refusal(admin.incremental_alter_configs([change])) == KafkaError.INVALID_REQUEST


class TestOffsets:
    @pytest.fixture
    def filled(self, producer: Producer, topic: str) -> str:
        """Ten records; the fifth has the largest timestamp."""
        for number in range(10):
            stamp = LAST_MS if number == 5 else FIRST_MS + number
            producer.produce(topic, json.dumps(number).encode(), timestamp=stamp)
        producer.flush(PATIENCE_SECONDS)
        return topic

    @pytest.mark.parametrize(
        ("spec", "offset"),
        [
            (OffsetSpec.earliest(), 0),
            (OffsetSpec.latest(), 10),
            (OffsetSpec.max_timestamp(), 5),
            (OffsetSpec.for_timestamp(FIRST_MS + 3), 3),
            (OffsetSpec.for_timestamp(FIRST_MS + 100), 5),
            (OffsetSpec.for_timestamp(LAST_MS + 1), -1),
        ],
        ids=["earliest", "latest", "largest timestamp", "exact", "first after", "none"],
    )
    def test_offsets_are_found_by_what_is_asked(
        self, admin: AdminClient, filled: str, spec: OffsetSpec, offset: int
    ) -> None:
        assert only(admin.list_offsets({TopicPartition(filled, 0): spec})).offset == offset

    def test_deleted_records_move_the_start_and_stay_deleted(
        self, admin: AdminClient, filled: str, read: Callable[..., list[Any]]
    ) -> None:
        deleted = only(admin.delete_records([TopicPartition(filled, 0, 4)]))
        assert deleted.low_watermark == 4
        assert only(admin.list_offsets({TopicPartition(filled, 0): OffsetSpec.earliest()})).offset == 4
        rest = read(filled, 6, offset=0, config={"auto.offset.reset": "earliest"})
        assert [record.offset() for record in rest] == [4, 5, 6, 7, 8, 9]

    def test_all_records_can_be_deleted_and_the_next_offset_stays(
        self, admin: AdminClient, filled: str, producer: Producer
    ) -> None:
        """Minus one means up to the high watermark; offsets are never given out twice."""
        assert only(admin.delete_records([TopicPartition(filled, 0, -1)])).low_watermark == 10
        offsets: list[int | None] = []
        producer.produce(filled, b"next", on_delivery=lambda _, record: offsets.append(record.offset()))
        producer.flush(PATIENCE_SECONDS)
        assert offsets == [10]

    def test_records_beyond_the_end_cannot_be_deleted(self, admin: AdminClient, filled: str) -> None:
        futures = admin.delete_records([TopicPartition(filled, 0, 11)])
        assert refusal(futures) == KafkaError.OFFSET_OUT_OF_RANGE
