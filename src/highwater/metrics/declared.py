"""Every metric, declared once. The metrics page of the docs is made from this file."""

from typing import Final

from highwater.metrics.metric import Kind, Metric

COMPILED: Final = Metric(
    "highwater_compiled",
    Kind.GAUGE,
    "1 if the hot path runs compiled (`highwater compile`), 0 if it runs in plain Python.",
)

REQUESTS: Final = Metric(
    "highwater_requests_total",
    Kind.COUNTER,
    "Requests answered, by API.",
    ("api",),
)

REQUEST_ERRORS: Final = Metric(
    "highwater_request_errors_total",
    Kind.COUNTER,
    "Requests whose answer was an error as a whole (errors of single partitions are not counted), by API.",
    ("api",),
)

REQUEST_SECONDS: Final = Metric(
    "highwater_request_seconds",
    Kind.HISTOGRAM,
    "Time from the arrival of a request's last byte until its answer is ready to leave, waiting included, by API.",
    ("api",),
)

RECEIVED_BYTES: Final = Metric(
    "highwater_network_received_bytes_total",
    Kind.COUNTER,
    "Bytes received from clients and brokers.",
)

SENT_BYTES: Final = Metric(
    "highwater_network_sent_bytes_total",
    Kind.COUNTER,
    "Bytes sent to clients and brokers.",
)

CONNECTIONS: Final = Metric(
    "highwater_connections",
    Kind.GAUGE,
    "Connections open now, by listener.",
    ("listener",),
)

CONNECTIONS_ACCEPTED: Final = Metric(
    "highwater_connections_accepted_total",
    Kind.COUNTER,
    "Connections accepted, by listener.",
    ("listener",),
)

CONNECTIONS_CLOSED_FOR_CAUSE: Final = Metric(
    "highwater_connections_closed_for_cause_total",
    Kind.COUNTER,
    "Connections that the broker closed, by reason: malformed, oversized, idle, over the limit.",
    ("reason",),
)

WAITING_REQUESTS: Final = Metric(
    "highwater_purgatory_requests",
    Kind.GAUGE,
    "Requests that wait for something to happen (records to arrive, replicas to catch up), by API.",
    ("api",),
)

FETCH_SESSIONS: Final = Metric(
    "highwater_fetch_sessions",
    Kind.GAUGE,
    "Incremental fetch sessions remembered.",
)

APPENDED_BYTES: Final = Metric(
    "highwater_log_appended_bytes_total",
    Kind.COUNTER,
    "Bytes of record batches appended.",
)

APPENDED_BATCHES: Final = Metric(
    "highwater_log_appended_batches_total",
    Kind.COUNTER,
    "Record batches appended.",
)

RECOMPRESSED_BATCHES: Final = Metric(
    "highwater_recompressed_batches_total",
    Kind.COUNTER,
    "Record batches that were compressed anew because their topic's `compression.type` asks for another codec.",
)

LOG_FLUSHES: Final = Metric(
    "highwater_log_flushes_total",
    Kind.COUNTER,
    "Times that a log was forced to disk because `flush.messages` asked for it; one serves all who wait.",
)

LOG_SIZE_BYTES: Final = Metric(
    "highwater_log_size_bytes",
    Kind.GAUGE,
    "Bytes of a partition's log on this broker.",
    ("topic", "partition"),
)

LOG_START_OFFSET: Final = Metric(
    "highwater_log_start_offset",
    Kind.GAUGE,
    "The first offset that a partition's log holds.",
    ("topic", "partition"),
)

LOG_END_OFFSET: Final = Metric(
    "highwater_log_end_offset",
    Kind.GAUGE,
    "The offset that a partition's next record will get.",
    ("topic", "partition"),
)

PARTITIONS: Final = Metric(
    "highwater_partitions",
    Kind.GAUGE,
    "Partition replicas on this broker.",
)

LEADER_PARTITIONS: Final = Metric(
    "highwater_leader_partitions",
    Kind.GAUGE,
    "Partitions that this broker leads.",
)

UNDER_REPLICATED_PARTITIONS: Final = Metric(
    "highwater_under_replicated_partitions",
    Kind.GAUGE,
    "Partitions led by this broker that have fewer replicas in sync than replicas. Watch this one first.",
)

ISR_SHRINKS: Final = Metric(
    "highwater_isr_shrinks_total",
    Kind.COUNTER,
    "How often this broker, as a leader, took replicas that lag out of those in sync.",
)

ISR_EXPANSIONS: Final = Metric(
    "highwater_isr_expansions_total",
    Kind.COUNTER,
    "How often this broker, as a leader, took replicas that caught up back in.",
)

OFFLINE_PARTITIONS: Final = Metric(
    "highwater_offline_partitions",
    Kind.GAUGE,
    "Partitions of this broker whose log dir has failed.",
)

OFFLINE_LOG_DIRS: Final = Metric(
    "highwater_offline_log_dirs",
    Kind.GAUGE,
    "Log dirs of this broker whose disk has failed.",
)

FULL_LOG_DIRS: Final = Metric(
    "highwater_full_log_dirs",
    Kind.GAUGE,
    "Log dirs that take nothing from producers because their disk has less room than `log.dirs.min.free.bytes`.",
)

ACTIVE_CONTROLLERS: Final = Metric(
    "highwater_active_controllers",
    Kind.GAUGE,
    "1 on the broker that is the controller, 0 elsewhere; the sum over the cluster should be 1.",
)

COMPACTION_ROUNDS: Final = Metric(
    "highwater_log_compaction_rounds_total",
    Kind.COUNTER,
    "Rounds of compaction that were finished.",
)

UNCLEANABLE_PARTITIONS: Final = Metric(
    "highwater_uncleanable_partitions",
    Kind.GAUGE,
    "Partitions that cannot be compacted: their log is damaged or their disk failed. Anything but 0 needs a look.",
)

GROUPS: Final = Metric(
    "highwater_groups",
    Kind.GAUGE,
    "Consumer groups that this broker coordinates, by state.",
    ("state",),
)

GROUP_LAG: Final = Metric(
    "highwater_group_lag",
    Kind.GAUGE,
    "Records between what a group has committed and the high watermark; told by its coordinator, for partitions that "
    "it has a replica of.",
    ("group", "topic", "partition"),
)

GROUP_REBALANCES: Final = Metric(
    "highwater_group_rebalances_total",
    Kind.COUNTER,
    "Rebalances of consumer groups, by cause; the log names the group and the members.",
    ("cause",),
)

GROUP_MEMBERS_DROPPED: Final = Metric(
    "highwater_group_members_dropped_total",
    Kind.COUNTER,
    "Members that a rebalance went on without, because they did not rejoin in time.",
)

GROUP_OFFSETS_COMMITTED: Final = Metric(
    "highwater_group_offsets_committed_total",
    Kind.COUNTER,
    "Offsets committed by consumer groups.",
)

GROUP_RECORDS_EXPIRED: Final = Metric(
    "highwater_group_records_expired_total",
    Kind.COUNTER,
    "Committed offsets, and groups without anything left, that went because nobody needed them for the retention time.",
)

TRANSACTIONS: Final = Metric(
    "highwater_transactions",
    Kind.GAUGE,
    "Transactional ids that this broker coordinates, by the state of their transaction.",
    ("state",),
)

TRANSACTIONS_ENDED: Final = Metric(
    "highwater_transactions_ended_total",
    Kind.COUNTER,
    "Transactions whose markers are in every partition, by outcome.",
    ("outcome",),
)

TRANSACTIONS_TIMED_OUT: Final = Metric(
    "highwater_transactions_timed_out_total",
    Kind.COUNTER,
    "Transactions that were aborted because they were open for longer than their timeout.",
)

TRANSACTION_MARKERS_LEFT: Final = Metric(
    "highwater_transaction_markers_left",
    Kind.GAUGE,
    "Partitions that have not got the marker of a decided transaction yet; one that stays here has no leader.",
)

TRANSACTION_MARKERS_DELAYED: Final = Metric(
    "highwater_transaction_markers_delayed_total",
    Kind.COUNTER,
    "Attempts to bring a marker to a partition that failed, and are made again after a pause.",
)

LOOP_LAG_SECONDS: Final = Metric(
    "highwater_loop_lag_seconds",
    Kind.HISTOGRAM,
    "How late the event loop ran a timer: what everything else had to wait as well.",
)

RESIDENT_MEMORY_BYTES: Final = Metric(
    "process_resident_memory_bytes",
    Kind.GAUGE,
    "Memory of the broker process that is in RAM.",
)

CPU_SECONDS: Final = Metric(
    "process_cpu_seconds_total",
    Kind.COUNTER,
    "User and system CPU time of the broker process.",
)

OPEN_FILES: Final = Metric(
    "process_open_fds",
    Kind.GAUGE,
    "Open file descriptors of the broker process.",
)

METRICS: Final = tuple(value for value in tuple(globals().values()) if isinstance(value, Metric))
"""All of the above, in this order."""
