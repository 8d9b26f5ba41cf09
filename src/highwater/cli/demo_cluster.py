"""The demo's cluster: three brokers on a real ZooKeeper, one killed while a producer writes, and nothing is lost."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from highwater.cli.demo_pipeline import show_kills
from highwater.cli.failures import CommandFailed
from highwater.testing.broker import BrokerFailed
from highwater.testing.cluster import ClusterProcesses
from highwater.testing.zookeeper import ZooKeeperFailed

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message
    from rich.console import Console

TOPIC: Final = "ledger"
_PAUSE_SECONDS: Final = 0.001
_ANSWER_SECONDS: Final = 30.0


def show_cluster(out: Console, seconds: float, *, with_pipeline: bool) -> None:
    """Kill the leader half-way through; fail unless every acknowledged record is there, once and in order."""
    try:
        with ClusterProcesses(3, {"min.insync.replicas": 2}) as cluster:
            _show(out, cluster, seconds)
            if with_pipeline:
                for broker in cluster.brokers.values():
                    if not broker.is_running:
                        broker.start()
                show_kills(out, cluster)
    except ZooKeeperFailed as failure:
        out.print(f"[yellow]-[/] no cluster is shown: {str(failure).splitlines()[0]}")
    except BrokerFailed as failure:
        raise CommandFailed(f"a broker of the cluster failed: {' '.join(str(failure).split())}") from None


def _show(out: Console, cluster: ClusterProcesses, seconds: float) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, 1, 3)])[TOPIC].result(_ANSWER_SECONDS)
    leader = admin.list_topics(TOPIC, timeout=_ANSWER_SECONDS).topics[TOPIC].partitions[0].leader
    out.print(f"[green]✓[/] three brokers and a ZooKeeper ready; broker {leader} leads topic {TOPIC}, with 3 replicas")
    writer = _Writer(cluster.bootstrap_servers)
    writer.start()
    time.sleep(seconds / 2)
    cluster.brokers[leader].kill()
    acknowledged = len(writer.acknowledged_at)
    time.sleep(seconds / 2)
    writer.finish()
    if writer.failures or len(writer.acknowledged_at) == acknowledged:
        raise CommandFailed(f"writes failed: {', '.join(writer.failures) or 'none was acknowledged after the kill'}")
    waited_s = max(after - before for before, after in pairwise(writer.acknowledged_at))
    new_leader = admin.list_topics(TOPIC, timeout=_ANSWER_SECONDS).topics[TOPIC].partitions[0].leader
    out.print(
        f"[green]✓[/] broker {leader} killed (kill -9) while a producer wrote; broker {new_leader} leads, and the "
        f"longest wait for an acknowledgement was {waited_s * 1000:.0f} ms"
    )
    _check(cluster, writer)
    out.print(f"[green]✓[/] {writer.count:,} records acknowledged by acks=all: every one is there, once, in order")


class _Writer:
    """Writes numbers in order with acks=all, and remembers when each was acknowledged."""

    def __init__(self, bootstrap_servers: str) -> None:
        from confluent_kafka import Producer

        self._producer = Producer(
            {"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "linger.ms": 1, "log_level": 0}
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.acknowledged_at: list[float] = []
        self.failures: list[str] = []
        self.count = 0

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        self._stop.set()
        self._thread.join()
        if self._producer.flush(_ANSWER_SECONDS):
            self.failures.append("some writes have no outcome")

    def _run(self) -> None:
        while not self._stop.wait(_PAUSE_SECONDS):
            self._producer.produce(TOPIC, b"%d" % self.count, on_delivery=self._delivered)
            self.count += 1
            self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.acknowledged_at.append(time.monotonic())
        else:
            self.failures.append(str(error))


def _check(cluster: ClusterProcesses, writer: _Writer) -> None:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "demo", "log_level": 0})
    consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
    deadline = time.monotonic() + _ANSWER_SECONDS
    read: list[bytes | None] = []
    try:
        while len(read) < writer.count and time.monotonic() < deadline:
            read += [message.value() for message in consumer.consume(1000, 0.1) if message.error() is None]
    finally:
        consumer.close()
    if read != [b"%d" % number for number in range(writer.count)]:
        raise CommandFailed(f"{writer.count:,} records were acknowledged, and what was read differs")
