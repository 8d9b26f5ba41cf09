"""An answer lost after the append makes the client retry; only idempotence keeps it from writing twice (E3)."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from highwater.testing.idempotent_promises import TELLS_OF_EPOCHS, IdempotentPromises
from highwater.testing.plugin import BrokerFactory
from highwater.testing.proxy import LossyProxy
from highwater.testing.waiting import PATIENCE_SECONDS
from highwater_history.history import ALL, Place, Send

PRODUCE = 0
Read = Callable[..., list[Message]]


@pytest.fixture
def proxy(bootstrap: str) -> Iterator[LossyProxy]:
    with LossyProxy(bootstrap) as running:
        yield running


def copies(admin: AdminClient, topic: str) -> int:
    """How many records the partition holds."""
    partition = TopicPartition(topic, 0)
    end = admin.list_offsets({partition: OffsetSpec.latest()})[partition].result(PATIENCE_SECONDS)
    return int(end.offset)


@pytest.mark.parametrize(("idempotent", "expected"), [(True, 1), (False, 2)])
def test_librdkafka_leaves_one_copy_only_with_idempotence(
    proxy: LossyProxy, admin: AdminClient, topic: str, *, idempotent: bool, expected: int
) -> None:
    outcomes: list[object] = []
    producer = Producer({"bootstrap.servers": proxy.bootstrap, "enable.idempotence": idempotent})
    lost = proxy.lose_next_answer(PRODUCE)
    producer.produce(topic, b"once", on_delivery=lambda error, _: outcomes.append(error))
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert lost.is_set()
    assert outcomes == [None]
    assert copies(admin, topic) == expected


@pytest.mark.parametrize(("idempotent", "expected"), [(True, 1), (False, 2)])
def test_aiokafka_leaves_one_copy_only_with_idempotence(
    proxy: LossyProxy, admin: AdminClient, topic: str, *, idempotent: bool, expected: int
) -> None:
    async def work() -> None:
        async with AIOKafkaProducer(bootstrap_servers=proxy.bootstrap, enable_idempotence=idempotent) as producer:
            lost = proxy.lose_next_answer(PRODUCE)
            await producer.send_and_wait(topic, b"once")
            assert lost.is_set()

    asyncio.run(asyncio.wait_for(work(), PATIENCE_SECONDS))
    assert copies(admin, topic) == expected


def test_a_pipelining_producer_keeps_order_and_count_over_many_losses(
    proxy: LossyProxy, topic: str, read: Read
) -> None:
    """Five batches are in flight when one answer is lost: the retried ones must be told from new ones, in order."""
    producer = Producer({"bootstrap.servers": proxy.bootstrap, "enable.idempotence": True, "batch.num.messages": 10})
    for round_number in range(5):
        lost = proxy.lose_next_answer(PRODUCE)
        for number in range(200):
            producer.produce(topic, str(round_number * 200 + number).encode())
        assert producer.flush(PATIENCE_SECONDS) == 0
        assert lost.is_set()
    assert [int(record.value() or b"") for record in read(topic, 1_000)] == list(range(1_000))


def test_librdkafka_tells_its_logger_that_it_gives_up_its_epoch(start_broker: BrokerFactory) -> None:
    """What is never answered is the simplest reason; runs against broken clusters must know when a client does so."""
    broker, promises = start_broker(), IdempotentPromises("writer")
    settings: dict[str, Any] = {"enable.idempotence": True, "message.timeout.ms": 1_500, **TELLS_OF_EPOCHS}
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **settings}, logger=promises)
    producer.produce("t", b"answered")
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert promises.broken_by_brokers == []
    send = Send("writer", 0.0, Place("t", 0), "unanswered", acks=ALL)
    promises.has_begun(send)
    broker.pause()
    producer.produce("t", b"unanswered")
    assert producer.flush(PATIENCE_SECONDS) == 0
    broker.resume()
    producer.poll(0)
    assert any("timed out" in line for line in promises.broken_by_brokers), promises.broken_by_brokers
    assert send.is_sent_anew
    assert promises.broken_by_itself == []
