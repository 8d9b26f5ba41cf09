"""Where things are in the cluster's memory. The names are those of Apache Kafka in its ZooKeeper days."""

from typing import Final
from urllib.parse import quote, unquote

CLUSTER_ID: Final = "/cluster/id"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
BROKERS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"
DELETED_TOPICS: Final = "/admin/delete_topics"
TOPIC_CONFIGS: Final = "/config/topics"
BROKER_CONFIGS: Final = "/config/brokers"
GROUP_CONFIGS: Final = "/config/groups"
ALL_BROKERS: Final = "<default>"
"""The entity under `/config/brokers` that speaks for every broker."""
CONFIG_CHANGES: Final = "/config/changes"
CONFIG_CHANGE: Final = f"{CONFIG_CHANGES}/config_change_"
"""Followed by a number: an entity whose configs were written."""
ISR_CHANGES: Final = "/isr_change_notification"
ISR_CHANGE: Final = f"{ISR_CHANGES}/isr_change_"
"""Followed by a number: partitions whose leader has changed who is in sync."""
LOG_DIR_EVENTS: Final = "/log_dir_event_notification"
LOG_DIR_EVENT: Final = f"{LOG_DIR_EVENTS}/log_dir_event_"
"""Followed by a number: a broker one of whose log dirs has failed."""
SECRETS: Final = ("/config/users", BROKER_CONFIGS)
"""Where passwords may be, of users and of brokers: closed to other readers of ZooKeeper too, if anything is."""
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"

ROOTS: Final = (
    "/cluster",
    BROKERS,
    TOPICS,
    DELETED_TOPICS,
    TOPIC_CONFIGS,
    BROKER_CONFIGS,
    GROUP_CONFIGS,
    CONFIG_CHANGES,
    ISR_CHANGES,
    LOG_DIR_EVENTS,
)
"""What must be there before anything else can be."""


def broker(broker_id: int) -> str:
    """Where a live broker says that it is there."""
    return f"{BROKERS}/{broker_id}"


def topic(name: str) -> str:
    """Where a topic's id and the brokers of its partitions are."""
    return f"{TOPICS}/{name}"


def partitions(topic_name: str) -> str:
    """The parent of a topic's partitions."""
    return f"{TOPICS}/{topic_name}/partitions"


def partition(topic_name: str, index: int) -> str:
    """The parent of a partition's state."""
    return f"{TOPICS}/{topic_name}/partitions/{index}"


def partition_state(topic_name: str, index: int) -> str:
    """Where a partition's leader, epoch and in-sync replicas are."""
    return f"{TOPICS}/{topic_name}/partitions/{index}/state"


def deleted_topic(name: str) -> str:
    """Where it says that a topic is to be deleted."""
    return f"{DELETED_TOPICS}/{name}"


def topic_config(name: str) -> str:
    """Where a topic's overrides are."""
    return f"{TOPIC_CONFIGS}/{name}"


def broker_config(entity: str) -> str:
    """Where the dynamic configs of a broker (its id as text), or of ALL_BROKERS, are."""
    return f"{BROKER_CONFIGS}/{entity}"


def group_config(name: str) -> str:
    """Where a group's overrides are. A group may have any name, a node may not: it is spelled as in an URL."""
    return f"{GROUP_CONFIGS}/{quote(name, safe='').replace('.', '%2E')}"


def group_of_config(node: str) -> str:
    """Return the group that a node's name, or an entity of a config change, stands for."""
    return unquote(node)
