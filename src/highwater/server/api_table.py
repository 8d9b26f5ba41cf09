"""Every API on one page: its key, name, versions and handler.

ApiVersions and the protocol page of the docs are made from this table, so neither can drift from the code. A handler's
module is imported when its first request arrives: a broker that nobody asks for an API does not hold its code.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from highwater.protocol import codec, headers, messages

FETCH: Final = 1


class Api:
    """One API that we serve."""

    __slots__ = ("advertised_from", "between_brokers", "handler_module", "key", "name", "versions")

    def __init__(
        self,
        key: int,
        name: str,
        versions: range,
        handler_module: str,
        *,
        advertised_from: int | None = None,
        between_brokers: bool = False,
    ) -> None:
        self.key = key
        self.name = name
        self.versions = versions
        self.handler_module = handler_module
        self.advertised_from = versions.start if advertised_from is None else advertised_from
        self.between_brokers = between_brokers

    @property
    def latest_version(self) -> int:
        """The highest version that we serve."""
        return self.versions.stop - 1

    def handler(self) -> Callable[..., Any]:
        """Import and return the function that answers this API."""
        module = import_module(f"highwater.server.handlers.{self.handler_module}")
        return module.handle  # type: ignore[no-any-return]


API_TABLE: Final = (
    # Advertised from 0: librdkafka stops compressing when Produce starts at 3 (KAFKA-18659); 0 to 2 are refused.
    Api(0, "Produce", range(3, 14), "produce", advertised_from=0),
    Api(1, "Fetch", range(4, 19), "fetch"),
    Api(2, "ListOffsets", range(1, 11), "list_offsets"),
    Api(3, "Metadata", range(14), "metadata"),
    Api(4, "LeaderAndIsr", range(5, 8), "leader_and_isr", between_brokers=True),
    Api(5, "StopReplica", range(3, 5), "stop_replica", between_brokers=True),
    Api(6, "UpdateMetadata", range(7, 9), "update_metadata", between_brokers=True),
    Api(7, "ControlledShutdown", range(1, 4), "controlled_shutdown", between_brokers=True),
    Api(8, "OffsetCommit", range(2, 11), "offset_commit"),
    Api(9, "OffsetFetch", range(1, 11), "offset_fetch"),
    Api(10, "FindCoordinator", range(7), "find_coordinator"),
    Api(11, "JoinGroup", range(10), "join_group"),
    Api(12, "Heartbeat", range(5), "heartbeat"),
    Api(13, "LeaveGroup", range(6), "leave_group"),
    Api(14, "SyncGroup", range(6), "sync_group"),
    Api(15, "DescribeGroups", range(7), "describe_groups"),
    Api(16, "ListGroups", range(6), "list_groups"),
    Api(18, "ApiVersions", range(5), "api_versions"),
    Api(19, "CreateTopics", range(2, 8), "create_topics"),
    Api(20, "DeleteTopics", range(1, 7), "delete_topics"),
    Api(21, "DeleteRecords", range(3), "delete_records"),
    Api(22, "InitProducerId", range(7), "init_producer_id"),
    Api(23, "OffsetForLeaderEpoch", range(2, 5), "offset_for_leader_epoch"),
    Api(24, "AddPartitionsToTxn", range(6), "add_partitions_to_txn"),
    Api(25, "AddOffsetsToTxn", range(5), "add_offsets_to_txn"),
    Api(26, "EndTxn", range(6), "end_txn"),
    Api(27, "WriteTxnMarkers", range(1, 2), "write_txn_markers"),
    Api(28, "TxnOffsetCommit", range(6), "txn_offset_commit"),
    Api(32, "DescribeConfigs", range(1, 5), "describe_configs"),
    Api(33, "AlterConfigs", range(3), "alter_configs"),
    Api(34, "AlterReplicaLogDirs", range(1, 3), "alter_replica_log_dirs"),
    Api(35, "DescribeLogDirs", range(1, 5), "describe_log_dirs"),
    Api(37, "CreatePartitions", range(4), "create_partitions"),
    Api(42, "DeleteGroups", range(3), "delete_groups"),
    Api(43, "ElectLeaders", range(3), "elect_leaders"),
    Api(44, "IncrementalAlterConfigs", range(2), "incremental_alter_configs"),
    Api(45, "AlterPartitionReassignments", range(2), "alter_partition_reassignments"),
    Api(46, "ListPartitionReassignments", range(1), "list_partition_reassignments"),
    Api(47, "OffsetDelete", range(1), "offset_delete"),
    Api(57, "UpdateFeatures", range(3), "update_features"),
    Api(60, "DescribeCluster", range(3), "describe_cluster"),
    Api(61, "DescribeProducers", range(1), "describe_producers"),
    Api(65, "DescribeTransactions", range(1), "describe_transactions"),
    Api(66, "ListTransactions", range(3), "list_transactions"),
    Api(68, "ConsumerGroupHeartbeat", range(2), "consumer_group_heartbeat"),
    Api(69, "ConsumerGroupDescribe", range(2), "consumer_group_describe"),
    Api(74, "ListConfigResources", range(2), "list_config_resources"),
    Api(75, "DescribeTopicPartitions", range(1), "describe_topic_partitions"),
)

API_BY_KEY: Final = {api.key: api for api in API_TABLE}


class Route:
    """How to read, answer and write one API in one version: everything a request needs, looked up once."""

    __slots__ = (
        "api",
        "decode",
        "encode",
        "flexible_request",
        "flexible_response",
        "handle",
        "may_carry_records",
        "response_class",
        "version",
    )

    def __init__(self, api: Api, version: int) -> None:
        self.api = api
        self.version = version
        self.decode = codec.decoder(messages.request_class(api.key), version)
        self.response_class = messages.response_class(api.key)
        self.encode = codec.encoder(self.response_class, version)
        self.flexible_request = headers.request_has_tagged_fields(api.key, version)
        self.flexible_response = headers.response_has_tagged_fields(api.key, version)
        self.handle = api.handler()
        self.may_carry_records = api.key == FETCH


_ROUTES: Final[dict[int, Route]] = {}


def route(api_key: int, version: int) -> Route | None:
    """Return how to serve this API in this version, or None if we do not."""
    found = _ROUTES.get(api_key << 16 | version)
    if found is None:
        api = API_BY_KEY.get(api_key)
        if api is None or version not in api.versions:
            return None
        found = _ROUTES[api_key << 16 | version] = Route(api, version)
    return found
