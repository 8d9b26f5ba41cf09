"""The cluster that a command talks to: addresses, clients made on demand, and the lookups that all commands share."""

from __future__ import annotations

import functools
import socket
from typing import TYPE_CHECKING, Any, Final, TypeVar

import typer

from highwater.cli.failures import CommandFailed, no_such

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from concurrent.futures import Future

    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient, TopicMetadata

CONNECT_TIMEOUT_SECONDS: Final = 3
REQUEST_TIMEOUT_SECONDS: Final = 15

Asked = TypeVar("Asked")


class Cluster:
    """The brokers behind `--bootstrap`; nothing is contacted before a client is asked for."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._addresses = [parse_address(text.strip()) for text in bootstrap.split(",")]

    def __str__(self) -> str:
        return self.bootstrap

    @functools.cached_property
    def admin(self) -> AdminClient:
        """The client for everything that is neither producing nor consuming."""
        from confluent_kafka.admin import AdminClient

        return AdminClient(self._settings({}))

    def producer(self, settings: Mapping[str, Any]) -> Producer:
        """Return a new producer."""
        from confluent_kafka import Producer

        return Producer(self._settings(settings))

    def consumer(self, settings: Mapping[str, Any]) -> Consumer:
        """Return a new consumer, which commits nothing unless told to."""
        from confluent_kafka import Consumer

        return Consumer(self._settings({"group.id": "highwater-cli", "enable.auto.commit": False, **settings}))

    def topics(self) -> dict[str, TopicMetadata]:
        """Return every topic by name."""
        return dict(self.admin.list_topics(timeout=REQUEST_TIMEOUT_SECONDS).topics)

    def topic(self, name: str) -> TopicMetadata:
        """Return one topic, or fail with the names that come close."""
        topics = self.topics()
        if name not in topics:
            raise no_such("topic", name, topics, f"`highwater topic create {name}` makes it")
        return topics[name]

    def partitions_of(self, topic: str, wanted: Iterable[int] | None = None) -> list[int]:
        """Return the partitions of a topic, or the wanted ones if they exist."""
        there = sorted(self.topic(topic).partitions)
        if not wanted:
            return there
        for partition in wanted:
            if partition not in there:
                raise CommandFailed(f"topic {topic!r} has no partition {partition}; it has 0 to {there[-1]}")
        return sorted(set(wanted))

    def _settings(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        self._require_reachable()
        # librdkafka tells its troubles on stderr by itself; ours arrive as errors of calls, in our own words.
        defaults = {"bootstrap.servers": self.bootstrap, "client.id": "highwater-cli"}
        return {**defaults, "log_level": 0, "error_cb": lambda _: None, **settings}

    def _require_reachable(self) -> None:
        """Fail at once when nothing listens; librdkafka would go on trying until a time-out."""
        reasons = []
        for host, port in self._addresses:
            try:
                socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_SECONDS).close()
            except OSError as error:
                reasons.append(str(error.strerror or error).lower())
            else:
                return
        raise CommandFailed(
            f"no broker answers at {self.bootstrap} ({reasons[0]}); start one with `highwater serve`, "
            "or name another with --bootstrap"
        )


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of `host:port`; the host of an IPv6 address stands in brackets."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise typer.BadParameter(f"{text!r} is not an address like 127.0.0.1:9092")
    return host.strip("[]"), int(port)


def answers(futures: Mapping[Asked, Future[Any]]) -> dict[Asked, Any]:
    """Return what each future brings; the first one that failed is the command's failure."""
    return {asked: future.result(REQUEST_TIMEOUT_SECONDS) for asked, future in futures.items()}
