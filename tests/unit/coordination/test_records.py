"""What nodes hold, compared letter for letter with what Apache Kafka writes."""

from collections.abc import Callable

import pytest

from highwater.coordination import records
from highwater.coordination.records import (
    BadRecord,
    BrokerRecord,
    ListenerAddress,
    PartitionStateRecord,
    ProducerIdBlock,
    TopicRecord,
)
from highwater.model.ids import BrokerId, TopicId

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)


def test_a_topic() -> None:
    record = TopicRecord(TopicId(bytes(range(16))), {0: (ONE, TWO), 1: (TWO, THREE)})
    assert record.encode() == (
        b'{"version":3,"topic_id":"AAECAwQFBgcICQoLDA0ODw","partitions":{"0":[1,2],"1":[2,3]},'
        b'"adding_replicas":{},"removing_replicas":{}}'
    )
    assert TopicRecord.decode("/t", record.encode()) == record


def test_a_topic_under_reassignment_keeps_its_partitions_in_order() -> None:
    data = (
        b'{"removing_replicas":{"1":[2]},"partitions":{"10":[1],"9":[1],"1":[2,3]},"topic_id":'
        b'"AAECAwQFBgcICQoLDA0ODw","adding_replicas":{"1":[3]},"version":3}'
    )
    record = TopicRecord.decode("/t", data)
    assert list(record.replicas) == [1, 9, 10]
    assert (record.adding, record.removing) == ({1: (THREE,)}, {1: (TWO,)})


def test_a_partition_state() -> None:
    record = PartitionStateRecord(leader=ONE, leader_epoch=4, isr=(ONE, THREE), controller_epoch=7)
    assert record.encode() == b'{"controller_epoch":7,"leader":1,"version":1,"leader_epoch":4,"isr":[1,3]}'
    assert PartitionStateRecord.decode("/s", record.encode()) == record


def test_a_broker() -> None:
    record = BrokerRecord(
        listeners={"SSL": ListenerAddress("::1", 9093), "INTERNAL": ListenerAddress("10.0.0.1", 9092)},
        security_protocols={"SSL": "SSL", "INTERNAL": "PLAINTEXT"},
        rack="a",
        started_ms=1700000000000,
    )
    assert record.encode() == (
        b'{"version":5,"host":"10.0.0.1","port":9092,"jmx_port":-1,"timestamp":"1700000000000",'
        b'"endpoints":["SSL://[::1]:9093","INTERNAL://10.0.0.1:9092"],'
        b'"listener_security_protocol_map":{"SSL":"SSL","INTERNAL":"PLAINTEXT"},"rack":"a","features":{}}'
    )
    assert BrokerRecord.decode("/b", record.encode()) == record


def test_a_broker_without_a_plain_listener() -> None:
    record = BrokerRecord({"SSL": ListenerAddress("a", 1)}, {"SSL": "SSL"}, rack=None, started_ms=0)
    assert record.encode().startswith(b'{"version":5,"host":null,"port":-1,')
    assert BrokerRecord.decode("/b", record.encode()) == record


def test_a_block_of_producer_ids() -> None:
    record = ProducerIdBlock(ONE, 1000, 1999)
    assert record.encode() == b'{"version":1,"broker":1,"block_start":"1000","block_end":"1999"}'
    assert ProducerIdBlock.decode("/p", record.encode()) == record


def test_small_ones() -> None:
    assert records.encode_configs({"a": "b"}) == b'{"version":1,"config":{"a":"b"}}'
    assert records.decode_configs("/c", records.encode_configs({"a": "b"})) == {"a": "b"}
    assert records.encode_cluster_id("x") == b'{"version":"1","id":"x"}'
    assert records.decode_cluster_id("/c", records.encode_cluster_id("x")) == "x"
    assert records.encode_controller(ONE, 5) == b'{"version":1,"brokerid":1,"timestamp":"5"}'
    assert records.decode_controller("/c", records.encode_controller(ONE, 5)) == ONE


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"null", b'{"version":1', b"\xff", b'{"config":5}'])
@pytest.mark.parametrize(
    "decode",
    [
        TopicRecord.decode,
        PartitionStateRecord.decode,
        BrokerRecord.decode,
        ProducerIdBlock.decode,
        records.decode_configs,
        records.decode_cluster_id,
        records.decode_controller,
    ],
)
def test_a_damaged_node_is_named(decode: Callable[[str, bytes], object], data: bytes) -> None:
    with pytest.raises(BadRecord, match="/some/node holds something unexpected"):
        decode("/some/node", data)
