"""Every message of the wire, one file per API, imported when it is first asked for.

The facts (fields, versions, defaults) are those of Apache Kafka 4.1's own message definitions; LeaderAndIsr,
StopReplica, UpdateMetadata and ControlledShutdown are from 3.9, the last release that had them.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Final

from highwater.model.errors import ErrorCode, KafkaError
from highwater.protocol.schema import Message

API_NAMES: Final[Mapping[int, str]] = {
    0: "Produce",
    1: "Fetch",
    2: "ListOffsets",
    3: "Metadata",
    4: "LeaderAndIsr",
    5: "StopReplica",
    6: "UpdateMetadata",
    7: "ControlledShutdown",
    8: "OffsetCommit",
    9: "OffsetFetch",
    10: "FindCoordinator",
    11: "JoinGroup",
    12: "Heartbeat",
    13: "LeaveGroup",
    14: "SyncGroup",
    15: "DescribeGroups",
    16: "ListGroups",
    17: "SaslHandshake",
    18: "ApiVersions",
    19: "CreateTopics",
    20: "DeleteTopics",
    21: "DeleteRecords",
    22: "InitProducerId",
    23: "OffsetForLeaderEpoch",
    24: "AddPartitionsToTxn",
    25: "AddOffsetsToTxn",
    26: "EndTxn",
    27: "WriteTxnMarkers",
    28: "TxnOffsetCommit",
    29: "DescribeAcls",
    30: "CreateAcls",
    31: "DeleteAcls",
    32: "DescribeConfigs",
    33: "AlterConfigs",
    34: "AlterReplicaLogDirs",
    35: "DescribeLogDirs",
    36: "SaslAuthenticate",
    37: "CreatePartitions",
    42: "DeleteGroups",
    43: "ElectLeaders",
    44: "IncrementalAlterConfigs",
    45: "AlterPartitionReassignments",
    46: "ListPartitionReassignments",
    47: "OffsetDelete",
    48: "DescribeClientQuotas",
    49: "AlterClientQuotas",
    50: "DescribeUserScramCredentials",
    51: "AlterUserScramCredentials",
    57: "UpdateFeatures",
    60: "DescribeCluster",
    61: "DescribeProducers",
    65: "DescribeTransactions",
    66: "ListTransactions",
    68: "ConsumerGroupHeartbeat",
    69: "ConsumerGroupDescribe",
    74: "ListConfigResources",
    75: "DescribeTopicPartitions",
}


@cache
def request_class(api_key: int) -> type[Message]:
    """Return the request of an API."""
    return _message_class(api_key, "Request")


@cache
def response_class(api_key: int) -> type[Message]:
    """Return the response of an API."""
    return _message_class(api_key, "Response")


def _message_class(api_key: int, suffix: str) -> type[Message]:
    name = API_NAMES.get(api_key)
    if name is None:
        raise KafkaError(f"there is no API with key {api_key}", code=ErrorCode.UNSUPPORTED_VERSION)
    module = import_module(f"{__name__}.{_snake_case(name)}")
    cls: type[Message] = getattr(module, name + suffix)
    return cls


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
