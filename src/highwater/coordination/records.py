"""What nodes hold, as JSON: Apache Kafka's own shapes, so that its tools and ours read each other's clusters."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import BrokerId, TopicId, TopicPartition, topic_id_from_text, topic_id_text


class BadRecord(KafkaError):
    """A node does not hold what it should: damaged, or written by another program."""

    code = ErrorCode.UNKNOWN_SERVER_ERROR


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """`/brokers/topics/<topic>`: its id, and the brokers that hold each partition, the preferred leader first."""

    topic_id: TopicId
    replicas: Mapping[int, tuple[BrokerId, ...]]
    adding: Mapping[int, tuple[BrokerId, ...]] = field(default_factory=dict)
    removing: Mapping[int, tuple[BrokerId, ...]] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Return the node's data."""
        return _json(
            {
                "version": 3,
                "topic_id": topic_id_text(self.topic_id),
                "partitions": self.replicas,
                "adding_replicas": self.adding,
                "removing_replicas": self.removing,
            }
        )

    @classmethod
    def decode(cls, path: str, data: bytes) -> "TopicRecord":
        """Read the node's data."""
        with _reading(path):
            value = json.loads(data)
            return cls(
                topic_id_from_text(value["topic_id"]),
                _broker_lists(value["partitions"]),
                _broker_lists(value.get("adding_replicas", {})),
                _broker_lists(value.get("removing_replicas", {})),
            )


class PartitionStateRecord(NamedTuple):
    """`/brokers/topics/<topic>/partitions/<p>/state`: who leads since when, and who is in sync."""

    leader: BrokerId
    leader_epoch: int
    isr: tuple[BrokerId, ...]
    controller_epoch: int

    def encode(self) -> bytes:
        """Return the node's data."""
        return _json(
            {
                "controller_epoch": self.controller_epoch,
                "leader": self.leader,
                "version": 1,
                "leader_epoch": self.leader_epoch,
                "isr": self.isr,
            }
        )

    @classmethod
    def decode(cls, path: str, data: bytes) -> "PartitionStateRecord":
        """Read the node's data."""
        with _reading(path):
            value = json.loads(data)
            return cls(
                BrokerId(int(value["leader"])),
                int(value["leader_epoch"]),
                tuple(BrokerId(int(broker)) for broker in value["isr"]),
                int(value["controller_epoch"]),
            )


class ListenerAddress(NamedTuple):
    """Where one listener of a broker is reached."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class BrokerRecord:
    """`/brokers/ids/<id>`: where a live broker is reached."""

    listeners: Mapping[str, ListenerAddress]
    security_protocols: Mapping[str, str]
    rack: str | None
    started_ms: int

    def address(self, listener: str) -> ListenerAddress:
        """Return where it is reached by this listener, or by whatever it has."""
        return self.listeners.get(listener) or next(iter(self.listeners.values()))

    def encode(self) -> bytes:
        """Return the node's data."""
        # Clients from before 0.10 knew one plain address; the fields stay, and are empty when there is none.
        plain = next((self.listeners[name] for name in self.listeners if self._is_plain(name)), None)
        return _json(
            {
                "version": 5,
                "host": plain.host if plain else None,
                "port": plain.port if plain else -1,
                "jmx_port": -1,
                "timestamp": str(self.started_ms),
                "endpoints": [f"{name}://{_host(at.host)}:{at.port}" for name, at in self.listeners.items()],
                "listener_security_protocol_map": self.security_protocols,
                "rack": self.rack,
                "features": {},
            }
        )

    def _is_plain(self, listener: str) -> bool:
        return self.security_protocols.get(listener) == "PLAINTEXT"

    @classmethod
    def decode(cls, path: str, data: bytes) -> "BrokerRecord":
        """Read the node's data."""
        with _reading(path):
            value = json.loads(data)
            listeners: dict[str, ListenerAddress] = {}
            for endpoint in value["endpoints"]:
                name, _, address = endpoint.partition("://")
                host, _, port = address.rpartition(":")
                listeners[name] = ListenerAddress(host.strip("[]"), int(port))
            return cls(
                listeners, dict(value["listener_security_protocol_map"]), value.get("rack"), int(value["timestamp"])
            )


class ProducerIdBlock(NamedTuple):
    """`/latest_producer_id_block`: the producer ids that one broker may give out; both ends belong to it."""

    broker: BrokerId
    first: int
    last: int

    def encode(self) -> bytes:
        """Return the node's data."""
        return _json({"version": 1, "broker": self.broker, "block_start": str(self.first), "block_end": str(self.last)})

    @classmethod
    def decode(cls, path: str, data: bytes) -> "ProducerIdBlock":
        """Read the node's data."""
        with _reading(path):
            value = json.loads(data)
            return cls(BrokerId(int(value["broker"])), int(value["block_start"]), int(value["block_end"]))


def encode_configs(configs: Mapping[str, str]) -> bytes:
    """Return the data of a node under `/config`."""
    return _json({"version": 1, "config": configs})


def decode_configs(path: str, data: bytes) -> dict[str, str]:
    """Read the data of a node under `/config`."""
    with _reading(path):
        return {str(name): str(value) for name, value in json.loads(data)["config"].items()}


def encode_cluster_id(cluster_id: str) -> bytes:
    """Return the data of `/cluster/id`."""
    return _json({"version": "1", "id": cluster_id})


def decode_cluster_id(path: str, data: bytes) -> str:
    """Read the data of `/cluster/id`."""
    with _reading(path):
        return str(json.loads(data)["id"])


def encode_controller(broker_id: BrokerId, elected_ms: int) -> bytes:
    """Return the data of `/controller`."""
    return _json({"version": 1, "brokerid": broker_id, "timestamp": str(elected_ms)})


def decode_controller(path: str, data: bytes) -> BrokerId:
    """Read the data of `/controller`."""
    with _reading(path):
        return BrokerId(int(json.loads(data)["brokerid"]))


def encode_isr_change(partitions: Iterable[TopicPartition]) -> bytes:
    """Return the data of `/isr_change_notification/isr_change_<n>`."""
    named = [{"topic": name.topic, "partition": name.partition} for name in partitions]
    return _json({"version": 1, "partitions": named})


def decode_isr_change(path: str, data: bytes) -> list[TopicPartition]:
    """Read the data of `/isr_change_notification/isr_change_<n>`."""
    with _reading(path):
        return [TopicPartition(str(name["topic"]), int(name["partition"])) for name in json.loads(data)["partitions"]]


def encode_log_dir_event(broker_id: BrokerId) -> bytes:
    """Return the data of `/log_dir_event_notification/log_dir_event_<n>`; 1 stands for a log dir that failed."""
    return _json({"version": 1, "broker": broker_id, "event": 1})


def decode_log_dir_event(path: str, data: bytes) -> BrokerId:
    """Read the data of `/log_dir_event_notification/log_dir_event_<n>`."""
    with _reading(path):
        return BrokerId(int(json.loads(data)["broker"]))


def encode_config_change(entity_path: str) -> bytes:
    """Return the data of `/config/changes/config_change_<n>`; the entity is like `topics/orders`."""
    return _json({"version": 2, "entity_path": entity_path})


def decode_config_change(path: str, data: bytes) -> str:
    """Read the data of `/config/changes/config_change_<n>`."""
    with _reading(path):
        return str(json.loads(data)["entity_path"])


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _broker_lists(value: Mapping[str, list[int]]) -> dict[int, tuple[BrokerId, ...]]:
    lists = {int(index): tuple(BrokerId(int(broker)) for broker in brokers) for index, brokers in value.items()}
    return dict(sorted(lists.items()))


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Turn whatever goes wrong while a node is read into a BadRecord that names it."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadRecord(f"{path} holds something unexpected: {type(error).__name__} {error}") from error
