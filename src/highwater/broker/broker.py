"""One broker as its handlers see it: every part by its name, built and wired by the composition root."""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.config.settings import network

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable
    from concurrent.futures import Executor

    from highwater.broker.appends import Appends
    from highwater.broker.fetch_sessions import FetchSessions
    from highwater.broker.partitions import Partitions
    from highwater.broker.replicas import Replicas
    from highwater.broker.topics import Topics
    from highwater.config.broker_config import BrokerConfig
    from highwater.metrics.registry import Registry
    from highwater.security.authorizer import Authorizer


class Broker:
    """The parts of a running broker. It decides nothing: each part owns its own state."""

    __slots__ = (
        "appends",
        "authorizer",
        "config",
        "disk_threads",
        "fetch_max_bytes",
        "fetch_sessions",
        "loop",
        "metrics",
        "now_ms",
        "partitions",
        "replicas",
        "topics",
    )

    def __init__(
        self,
        *,
        loop: AbstractEventLoop,
        config: BrokerConfig,
        disk_threads: Executor,
        now_ms: Callable[[], int],
        metrics: Registry,
        authorizer: Authorizer,
        topics: Topics,
        partitions: Partitions,
        replicas: Replicas,
        appends: Appends,
        fetch_sessions: FetchSessions,
    ) -> None:
        self.loop = loop
        self.config = config
        self.disk_threads = disk_threads
        self.now_ms = now_ms
        self.metrics = metrics
        self.authorizer = authorizer
        self.topics = topics
        self.partitions = partitions
        self.replicas = replicas
        self.appends = appends
        self.fetch_sessions = fetch_sessions
        self.fetch_max_bytes = config[network.FETCH_MAX_BYTES]
