"""One broker as its handlers see it: every part by its name, built and wired by the composition root."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable
    from concurrent.futures import Executor

    from highwater.broker.appends import Appends
    from highwater.broker.cluster import Cluster
    from highwater.broker.config_admin import ConfigAdmin
    from highwater.broker.controller_driver import ControllerDriver
    from highwater.broker.fetch_sessions import FetchSessions
    from highwater.broker.group_coordinator import GroupCoordinator
    from highwater.broker.marker_writer import MarkerWriter
    from highwater.broker.partition_admin import PartitionAdmin
    from highwater.broker.partitions import Partitions
    from highwater.broker.producer_ids import ProducerIds
    from highwater.broker.recompression import Recompression
    from highwater.broker.replicas import Replicas
    from highwater.broker.replication_throttles import ReplicationThrottles
    from highwater.broker.roles import Roles
    from highwater.broker.topic_admin import TopicAdmin
    from highwater.broker.topics import Topics
    from highwater.broker.transaction_coordinator import TransactionCoordinator
    from highwater.broker.transaction_gate import TransactionGate
    from highwater.config.broker_config import BrokerConfig
    from highwater.metrics.registry import Registry
    from highwater.model.ids import BrokerId
    from highwater.security.authorizer import Authorizer


@dataclass(slots=True, kw_only=True, eq=False)
class Broker:
    """The parts of a running broker. It decides nothing: each part owns its own state."""

    id: BrokerId
    loop: AbstractEventLoop
    disk_threads: Executor
    now_ms: Callable[[], int]
    config: BrokerConfig
    metrics: Registry
    authorizer: Authorizer
    cluster: Cluster
    topics: Topics
    topic_admin: TopicAdmin
    config_admin: ConfigAdmin
    producer_ids: ProducerIds
    partitions: Partitions
    replicas: Replicas
    replication_throttles: ReplicationThrottles
    appends: Appends
    recompression: Recompression
    fetch_sessions: FetchSessions
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    transaction_gate: TransactionGate
    markers: MarkerWriter
    fetch_max_bytes: int
    reads_from_followers: bool
    """Whether consumers may be sent to a replica that is closer to them than the leader."""
    partition_admin: PartitionAdmin
    roles: Roles | None
    """What the controller told us; None in a cluster of one."""
    controller: ControllerDriver | None
    """The office of the controller, ours or not; None in a cluster of one."""
