"""The records of `__consumer_offsets`, in Kafka's own formats.

A key opens with a number that says what kind of record it is; a value opens with the version it is written in. Where
versions differ we write the newest that is not flexible (offset commits 3, group metadata 3): Kafka 4.1 reads them as
well as its own, and so do the monitoring tools that were never taught the flexible ones.
"""

from collections.abc import Mapping
from struct import Struct
from typing import Final, NamedTuple

from highwater.model.errors import MalformedFrame
from highwater.protocol import codec
from highwater.protocol.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from highwater.protocol.messages.group_metadata_records import GroupMetadataKey, GroupMetadataValue
from highwater.protocol.messages.offset_records import OffsetCommitKey, OffsetCommitValue
from highwater.protocol.schema import Message

_KIND: Final = Struct(">h")


class GroupRecord(NamedTuple):
    """What is said about what; without a value it is a tombstone: nothing is to be said about it any more."""

    key: Message
    value: Message | None


class _Kind(NamedTuple):
    key: type[Message]
    value: type[Message]
    value_version: int


_KINDS: Final = (
    _Kind(OffsetCommitKey, OffsetCommitValue, 3),
    _Kind(GroupMetadataKey, GroupMetadataValue, 3),
    _Kind(ConsumerGroupMetadataKey, ConsumerGroupMetadataValue, 0),
    _Kind(ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue, 0),
    _Kind(ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue, 0),
    _Kind(ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue, 0),
    _Kind(ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue, 0),
    _Kind(ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue, 0),
    _Kind(ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue, 0),
)
_BY_KEY: Final[Mapping[type[Message], _Kind]] = {kind.key: kind for kind in _KINDS}
_BY_NUMBER: Final[Mapping[int | None, _Kind]] = {
    0: _BY_KEY[OffsetCommitKey],  # As written before Kafka 0.9; the key is the same.
    **{kind.key.API_KEY: kind for kind in _KINDS},
}
_OFFSET_WITH_EXPIRY_VERSION: Final = 1
"""The only version with a place for a retention time that the client asked for."""


def encode(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """Return the key and the value as they are written to the log."""
    kind = _BY_KEY[type(record.key)]
    key = _KIND.pack(kind.key.API_KEY) + codec.encode(record.key, 0)
    value = record.value
    if value is None:
        return key, None
    version = kind.value_version
    if isinstance(value, OffsetCommitValue) and value.expire_timestamp >= 0:
        version = _OFFSET_WITH_EXPIRY_VERSION
    return key, _KIND.pack(version) + codec.encode(value, version)


def decode(key: bytes, value: bytes | None) -> GroupRecord | None:
    """Return the record, or None for a kind that only a newer broker knows: that one is left as it is."""
    kind = _BY_NUMBER.get(_leading_number(key))
    if kind is None:
        return None
    decoded_key = codec.decode(kind.key, 0, memoryview(key)[_KIND.size :])
    if value is None:
        return GroupRecord(decoded_key, None)
    version = _leading_number(value)
    return GroupRecord(decoded_key, codec.decode(kind.value, version, memoryview(value)[_KIND.size :]))


def _leading_number(data: bytes) -> int:
    if len(data) < _KIND.size:
        raise MalformedFrame(f"a group record of {len(data)} bytes is cut short")
    number: int = _KIND.unpack_from(data)[0]
    return number


def offset_deleted(group_id: str, topic: str, partition: int) -> GroupRecord:
    """Return the tombstone of a committed offset."""
    return GroupRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)


def group_deleted(group_id: str) -> GroupRecord:
    """Return the tombstone of a classic group."""
    return GroupRecord(GroupMetadataKey(group=group_id), None)
