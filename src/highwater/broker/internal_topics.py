"""The topics in which the broker keeps its own state, as they are made on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.broker.topic_rules import NewTopic
from highwater.broker.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from highwater.config.settings import groups, node, transactions

if TYPE_CHECKING:
    from highwater.config.broker_config import BrokerConfig


def internal_topic(name: str, config: BrokerConfig) -> NewTopic:
    """Return how an internal topic is made.

    Apache Kafka insists on three replicas unless told otherwise. A broker without ZooKeeper is a cluster of one by
    definition, so that it makes one replica; in a real cluster the settings are kept, and too few brokers is an error.
    """
    is_alone = config[node.ZOOKEEPER_CONNECT] is None
    configs = {"cleanup.policy": "compact", "compression.type": "producer"}
    if name == OFFSETS_TOPIC:
        partitions = config[groups.OFFSETS_TOPIC_NUM_PARTITIONS]
        replicas = config[groups.OFFSETS_TOPIC_REPLICATION_FACTOR]
        configs["segment.bytes"] = str(config[groups.OFFSETS_TOPIC_SEGMENT_BYTES])
    else:
        assert name == TRANSACTIONS_TOPIC, f"{name} is not an internal topic"
        partitions = config[transactions.TRANSACTION_STATE_LOG_NUM_PARTITIONS]
        replicas = config[transactions.TRANSACTION_STATE_LOG_REPLICATION_FACTOR]
        configs["segment.bytes"] = str(config[transactions.TRANSACTION_STATE_LOG_SEGMENT_BYTES])
        in_sync = min(config[transactions.TRANSACTION_STATE_LOG_MIN_ISR], replicas)
        configs["min.insync.replicas"] = "1" if is_alone else str(in_sync)
        configs["unclean.leader.election.enable"] = "false"
    return NewTopic(name, partition_count=partitions, replication_factor=1 if is_alone else replicas, configs=configs)
