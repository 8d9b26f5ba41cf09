"""Realistic events for the shipped pipelines, at a chosen rate, with a ledger of what was sent."""

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from confluent_kafka import KafkaException, Producer

from highwater_spark.definition.model import Kafka
from highwater_spark.errors import ClusterError, PipelineError, did_you_mean
from highwater_spark.kafka.clients import librdkafka_settings
from highwater_spark.kafka.cluster import Cluster

PARTITIONS: Final = 4
BURST_SECONDS: Final = 0.02
FLUSH_SECONDS: Final = 30.0
USERS: Final = 5_000
PAGES: Final = (
    *("/", "/search", "/cart", "/checkout", "/account", "/help", "/deals"),
    *(f"/products/{number}" for number in range(1, 200)),
)
WORDS: Final = ("boots", "lamp", "red", "desk", "mug", "tent", "cheap", "wool", "bike", "chair", "light", "blue")
SERVICES: Final = ("checkout", "payment", "search", "catalog", "login")
MESSAGES: Final = {
    "DEBUG": "cache miss for key {n}",
    "INFO": "request served, took {n} ms",
    "WARN": "slow answer from the database, took {n} ms",
    "ERROR": "request failed: upstream timed out, took {n} ms",
}


@dataclass(frozen=True, slots=True)
class Event:
    """One record to send; `kind` is what the ledger counts it as."""

    topic: str
    key: str
    value: str
    kind: str


EventStream = Callable[[random.Random, Callable[[], float]], Iterator[Event]]


@dataclass(frozen=True, slots=True)
class Generator:
    """A source of events."""

    topics: tuple[str, ...]
    events: EventStream


@dataclass(slots=True)
class Ledger:
    """What was sent and acknowledged, by kind."""

    sent: Counter[str] = field(default_factory=Counter)
    failed: int = 0

    @property
    def total(self) -> int:
        """All events."""
        return self.sent.total()


def activity(rng: random.Random, now: Callable[[], float]) -> Iterator[Event]:
    """People on a site: few pages and people make most of the traffic; some events are late, a few are broken."""
    while True:
        user = f"user-{_few_are_many(rng, USERS)}"
        at = _iso(now() - (rng.uniform(1, 15) if rng.random() < 0.05 else 0))
        fate = rng.random()
        if fate < 0.002:
            yield Event("page-views", user, '{"user_id": "' + user, "broken")
        elif fate < 0.12:
            query = " ".join(rng.sample(WORDS, rng.randint(1, 3)))
            event = {"user_id": user, "query": query, "results": rng.randint(0, 300), "searched_at": at}
            yield Event("searches", user, json.dumps(event), "searches")
        else:
            page, referrer = PAGES[_few_are_many(rng, len(PAGES))], rng.choice((None, "/", "https://search.example/"))
            event = {"user_id": user, "page": page, "referrer": referrer, "viewed_at": at}
            yield Event("page-views", user, json.dumps(event), "views")


def logs(rng: random.Random, now: Callable[[], float]) -> Iterator[Event]:
    """Services that log: mostly well, and each in turn badly for some seconds; a few lines are broken."""
    while True:
        moment = now()
        service = rng.choice(SERVICES)
        is_ill = SERVICES[int(moment / 20) % len(SERVICES)] == service
        levels, weights = ("DEBUG", "INFO", "WARN", "ERROR"), ((10, 50, 10, 30) if is_ill else (20, 70, 8, 2))
        level = rng.choices(levels, weights)[0]
        host = f"{service}-{rng.randint(1, 4)}"
        if rng.random() < 0.002:
            yield Event("service-logs", host, f"Traceback (most recent call last): in {service}", "broken")
            continue
        message = MESSAGES[level].format(n=int(rng.lognormvariate(3, 1)))
        line = f"{_iso(moment)} {level} {service} {host} [{rng.getrandbits(32):08x}] {message}"
        yield Event("service-logs", host, line, level.lower())


GENERATORS: Final[Mapping[str, Generator]] = {
    "activity": Generator(("page-views", "searches"), activity),
    "logs": Generator(("service-logs",), logs),
}


def generator_named(name: str) -> Generator:
    """Return a generator by the name of its pipeline."""
    if name not in GENERATORS:
        hint = did_you_mean(name, GENERATORS) or f"; there are {', '.join(GENERATORS)}"
        raise PipelineError(f"no generator {name!r}{hint}")
    return GENERATORS[name]


class Sender:
    """Sends events at a steady rate until it is told to stop or has sent enough."""

    def __init__(self, kafka: Kafka, generator: Generator, *, rate: float, seed: int | None = None) -> None:
        self.ledger = Ledger()
        self._kafka = kafka
        self._generator = generator
        self._rate = rate
        self._random = random.Random(seed)  # noqa: S311 - a simulation, not a secret
        self._producer = Producer(librdkafka_settings(kafka) | {"linger.ms": 5, "acks": "all"})

    def prepare(self) -> None:
        """Create the topics if they are not there."""
        Cluster(self._kafka).create_topics(dict.fromkeys(self._generator.topics, PARTITIONS))

    def run(self, stop: threading.Event, *, events: int | None = None, seconds: float | None = None) -> Ledger:
        """Send until `stop`, or so many events, or for so long; return once all are acknowledged."""
        started = time.monotonic()
        stream = self._generator.events(self._random, time.time)
        sent = 0
        while not stop.is_set():
            passed = time.monotonic() - started
            if seconds is not None and passed >= seconds:
                break
            due = int(self._rate * passed)
            if events is not None:
                due = min(due, events)
            for _ in range(due - sent):
                self._send(next(stream))
            sent = max(sent, due)
            if events is not None and sent >= events:
                break
            self._producer.poll(0)
            stop.wait(BURST_SECONDS)
        if self._producer.flush(FLUSH_SECONDS) or self.ledger.failed:
            raise ClusterError(f"{len(self._producer) + self.ledger.failed} events were not acknowledged")
        return self.ledger

    def _send(self, event: Event) -> None:
        while True:
            try:
                self._producer.produce(
                    event.topic, event.value, event.key, on_delivery=lambda error, _: self._count(event.kind, error)
                )
            except BufferError:
                self._producer.poll(0.1)  # the broker is slower than the rate: wait for room
            except KafkaException as error:
                raise ClusterError(f"{event.topic}: {error.args[0].str()}") from error
            else:
                return

    def _count(self, kind: str, error: object | None) -> None:
        if error is None:
            self.ledger.sent[kind] += 1
        else:
            self.ledger.failed += 1


def _few_are_many(rng: random.Random, count: int) -> int:
    """Return a number below `count`; small ones come much more often."""
    return min(count - 1, int(rng.paretovariate(0.9)) - 1)


def _iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
