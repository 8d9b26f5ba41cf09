"""Group records are Kafka's own, byte for byte."""

import pytest

from highwater.groups.records import GroupRecord, decode, encode, group_deleted, offset_deleted
from highwater.model.errors import MalformedFrame
from highwater.protocol.messages.group_metadata_records import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from highwater.protocol.messages.offset_records import OffsetCommitKey, OffsetCommitValue

COMMIT = GroupRecord(
    OffsetCommitKey(group="tea", topic="leaves", partition=3),
    OffsetCommitValue(offset=42, leader_epoch=7, metadata="note", commit_timestamp=1_000),
)


def test_an_offset_commit_is_written_as_kafka_writes_it() -> None:
    key, value = encode(COMMIT)
    assert key == b"\x00\x01" + b"\x00\x03tea" + b"\x00\x06leaves" + b"\x00\x00\x00\x03"
    assert value == (
        b"\x00\x03" + (42).to_bytes(8, "big") + (7).to_bytes(4, "big") + b"\x00\x04note" + (1_000).to_bytes(8, "big")
    )


def test_a_retention_time_of_the_clients_own_needs_the_version_that_has_it() -> None:
    record = GroupRecord(COMMIT.key, OffsetCommitValue(offset=1, commit_timestamp=10, expire_timestamp=20))
    key, value = encode(record)
    assert value is not None
    assert value[:2] == b"\x00\x01"
    decoded = decode(key, value)
    assert decoded is not None
    assert isinstance(decoded.value, OffsetCommitValue)
    assert decoded.value.expire_timestamp == 20


@pytest.mark.parametrize(
    "record",
    [
        COMMIT,
        GroupRecord(
            GroupMetadataKey(group="tea"),
            GroupMetadataValue(
                protocol_type="consumer",
                generation=4,
                protocol="range",
                leader="ana-1",
                current_state_timestamp=5,
                members=[
                    MemberMetadata(
                        member_id="ana-1",
                        client_id="ana",
                        client_host="/127.0.0.1",
                        rebalance_timeout=60_000,
                        session_timeout=10_000,
                        subscription=b"wants",
                        assignment=b"gets",
                    )
                ],
            ),
        ),
        offset_deleted("tea", "leaves", 3),
        group_deleted("tea"),
    ],
)
def test_a_record_survives_the_log(record: GroupRecord) -> None:
    assert decode(*encode(record)) == record


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_an_offset_commit_is_read(version: int) -> None:
    from highwater.protocol import codec

    key, _ = encode(COMMIT)
    value = version.to_bytes(2, "big") + codec.encode(OffsetCommitValue(offset=9, metadata="m"), version)
    decoded = decode(key, value)
    assert decoded is not None
    assert isinstance(decoded.value, OffsetCommitValue)
    assert (decoded.value.offset, decoded.value.metadata) == (9, "m")


def test_the_keys_of_long_ago_are_read() -> None:
    key, value = encode(COMMIT)
    assert decode(b"\x00\x00" + key[2:], value) == COMMIT


def test_a_kind_from_the_future_is_left_alone() -> None:
    assert decode(b"\x7f\x00whatever", b"\x00\x00") is None


@pytest.mark.parametrize(("key", "value"), [(b"", None), (b"\x00", None), (b"\x00\x01\x00\x09cut", None)])
def test_a_damaged_record_is_told_apart(key: bytes, value: bytes | None) -> None:
    with pytest.raises(MalformedFrame):
        decode(key, value)
