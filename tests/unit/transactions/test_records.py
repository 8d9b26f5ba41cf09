"""The records of the transaction topic."""

import pytest

from highwater.model.errors import MalformedFrame
from highwater.model.ids import NO_PRODUCER_ID, ProducerId, TopicPartition
from highwater.transactions import records
from highwater.transactions.states import State
from highwater.transactions.transaction import Producer, Transaction

FULL = Transaction(
    "tea",
    Producer(ProducerId(7), 3),
    State.PREPARE_COMMIT,
    timeout_ms=60_000,
    updated_at_ms=2_000,
    started_at_ms=1_000,
    partitions=frozenset({TopicPartition("a", 1), TopicPartition("a", 0), TopicPartition("b", 2)}),
    previous_producer_id=ProducerId(5),
    next_producer_id=ProducerId(9),
    client_version=2,
)


def test_a_transaction_comes_back_from_its_record() -> None:
    assert records.decode(*records.encode("tea", FULL)) == ("tea", FULL)


def test_an_id_that_was_forgotten_is_a_tombstone() -> None:
    key, value = records.encode("tea", None)
    assert value is None
    assert records.decode(key, value) == ("tea", None)


def test_the_record_of_an_older_kafka_is_read() -> None:
    """Value version 0, written out by hand: id 7, epoch 3, 60 s, Ongoing, partition a-0, two timestamps."""
    value = bytes.fromhex(
        "0000 0000000000000007 0003 0000ea60 01 00000001 000161 00000001 00000000 00000000000007d0 00000000000003e8"
    )
    key, _ = records.encode("tea", None)
    read = records.decode(key, value)
    assert read is not None
    _, transaction = read
    assert transaction == Transaction(
        "tea",
        Producer(ProducerId(7), 3),
        State.ONGOING,
        timeout_ms=60_000,
        updated_at_ms=2_000,
        started_at_ms=1_000,
        partitions=frozenset({TopicPartition("a", 0)}),
        previous_producer_id=NO_PRODUCER_ID,
    )


def test_a_kind_that_only_a_newer_broker_knows_is_left_alone() -> None:
    assert records.decode(b"\x00\x09whatever", b"") is None


@pytest.mark.parametrize(("key", "value"), [(b"\x00", None), (records.encode("tea", None)[0], b"\x00")])
def test_a_record_that_is_cut_short_is_an_error(key: bytes, value: bytes | None) -> None:
    with pytest.raises(MalformedFrame):
        records.decode(key, value)


def test_a_state_that_there_is_not_is_an_error() -> None:
    key, value = records.encode("tea", FULL)
    assert value is not None
    damaged = bytearray(value)
    damaged[2 + 8 + 2 + 4] = 77
    with pytest.raises(MalformedFrame, match="state 77"):
        records.decode(key, bytes(damaged))
