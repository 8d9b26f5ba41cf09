"""Lines about the process itself: how soon it is there, and what it holds, idle, loaded and full of topics."""

import time
from collections.abc import Mapping
from typing import Final

from benchmarks.brokers import Broker, BrokerFailed
from benchmarks.frames import batch_of
from benchmarks.generator import run_load
from benchmarks.measuring import Arena, Metric, Target, record
from benchmarks.process_stats import memory
from benchmarks.raw_clients import LARGE_BATCH_BYTES, MANY_CONNECTIONS, MEGABYTE, produce_load
from benchmarks.topics import create_topic, scratch_topic
from highwater.model.errors import ErrorCode
from highwater.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from highwater.protocol.messages.produce import ProduceResponse
from highwater.testing.requests import produce_request
from highwater.testing.wire import ConnectionClosed, WireClient

ANSWER_TIMEOUT_SECONDS: Final = 120.0
PAUSE_SECONDS: Final = 0.002
SETTLE_SECONDS: Final = 3.0
PARTITIONS_AT_START: Final = 1_000
IDLE_PARTITIONS: Final = 10_000
PARTITIONS_PER_TOPIC: Final = 500


def first_write_empty(arena: Arena) -> list[Metric]:
    """From the start of the process on an empty data dir to an acknowledged write to a topic just made."""
    return first_write(arena, 0, Target(at_most=1 / 5))


def first_write_full(arena: Arena) -> list[Metric]:
    """The same with 1,000 partitions there, after a clean stop; the write goes to the last of them."""
    return first_write(arena, arena.effort.scaled(PARTITIONS_AT_START), Target(at_most=1 / 2))


def first_write(arena: Arena, partitions: int, target: Target) -> list[Metric]:
    """Start brokers of their own, over and over, and wait for the first write of each."""
    metric = Metric("seconds", "s", target)
    for running in arena.brokers:
        broker = type(running)(arena.directory / f"start-{running.name.replace(' ', '-')}")
        with broker:
            if partitions:
                create_topic(broker, "first", partitions)
            for number in range(arena.effort.rounds + 1):
                broker.stop()
                if not partitions:
                    broker.wipe()
                started = time.perf_counter()
                broker.launch()
                await_write(broker, partitions)
                seconds = time.perf_counter() - started
                arena.say(f"    {'warm-up' if number == 0 else f'round {number}'}  {broker.name:<13} {seconds:.3f} s")
                if number:
                    record([metric], {"seconds": seconds}, are_ours=running is arena.ours)
    return [metric]


def await_write(broker: Broker, partitions: int) -> None:
    """Try until a write is acknowledged."""
    batch = batch_of(200)
    deadline = time.monotonic() + ANSWER_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        try:
            with WireClient(broker.bootstrap) as client:
                if not partitions:
                    topic = CreatableTopic(name="first", num_partitions=1, replication_factor=1)
                    client.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), CreateTopicsResponse, 5)
                while time.monotonic() < deadline:
                    request = produce_request("first", batch, partition=max(0, partitions - 1))
                    answer = client.call(request, ProduceResponse, 8)
                    if answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE:
                        return
                    time.sleep(PAUSE_SECONDS)
        except (OSError, ConnectionClosed):
            time.sleep(PAUSE_SECONDS)
    raise BrokerFailed(f"{broker.name} acknowledged no write, see {broker.log_file}")


def memory_idle_and_loaded(arena: Arena) -> list[Metric]:
    """A broker fresh from its start, and the same after seconds of 16 KB batches as fast as they go."""
    metrics = [
        Metric("idle RSS", "MB", Target(at_most=1 / 8)),
        Metric("idle PSS", "MB", Target()),
        Metric("loaded RSS", "MB", Target(at_most=1 / 8)),
        Metric("loaded PSS", "MB", Target()),
    ]

    def measure(running: Broker) -> Mapping[str, float]:
        with type(running)(arena.directory / f"memory-{running.name.replace(' ', '-')}") as broker:
            time.sleep(SETTLE_SECONDS)
            idle = memory(broker.pid)
            with scratch_topic(broker, MANY_CONNECTIONS) as topic:
                load = produce_load(arena, broker.bootstrap, topic, LARGE_BATCH_BYTES, MANY_CONNECTIONS, 5)
                run_load(load, on_start=lambda: None)
                loaded = memory(broker.pid)
        return {
            "idle RSS": idle.rss_bytes / MEGABYTE,
            "idle PSS": idle.pss_bytes / MEGABYTE,
            "loaded RSS": loaded.rss_bytes / MEGABYTE,
            "loaded PSS": loaded.pss_bytes / MEGABYTE,
        }

    return arena.alternate(metrics, measure)


def memory_of_idle_partitions(arena: Arena) -> list[Metric]:
    """What one more idle partition costs, over 10,000 of them."""
    metric = Metric("PSS per partition", "kB", Target(at_most=1 / 2))
    topics = arena.effort.scaled(IDLE_PARTITIONS) // PARTITIONS_PER_TOPIC or 1
    for running in arena.brokers:
        with type(running)(arena.directory / f"partitions-{running.name.replace(' ', '-')}") as broker:
            time.sleep(SETTLE_SECONDS)
            before = memory(broker.pid)
            for number in range(topics):
                create_topic(broker, f"idle-{number}", PARTITIONS_PER_TOPIC)
            time.sleep(SETTLE_SECONDS)
            grown = memory(broker.pid).pss_bytes - before.pss_bytes
        each = grown / (topics * PARTITIONS_PER_TOPIC) / 1e3
        arena.say(f"    {broker.name:<13} {each:.1f} kB for each of {topics * PARTITIONS_PER_TOPIC} partitions")
        record([metric], {metric.name: each}, are_ours=running is arena.ours)
    return [metric]
