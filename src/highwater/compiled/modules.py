"""Which modules are worth compiling: those that every Produce, Fetch and compacted record passes through.

All of them or none are in use, because compiled modules call each other without looking names up. Left out on purpose:
what is pickled, what awaits, what is generated at run time (the codec), and errors, because a compiled class loses a
class attribute that it sets anew for one of Python's.
"""

from typing import Final

HOT_MODULES: Final = (
    "highwater.broker.appends",
    "highwater.broker.delayed_fetch",
    "highwater.broker.delayed_produce",
    "highwater.broker.fetch_interest",
    "highwater.broker.fetch_sessions",
    "highwater.broker.partition",
    "highwater.broker.partitions",
    "highwater.broker.replica_fetch",
    "highwater.metrics.registry",
    "highwater.protocol.records.batch",
    "highwater.protocol.records.contents",
    "highwater.protocol.records.record",
    "highwater.protocol.records.spans",
    "highwater.protocol.records.validate",
    "highwater.replication.high_watermark",
    "highwater.replication.leader",
    "highwater.replication.truncation",
    "highwater.server.answers",
    "highwater.server.api_table",
    "highwater.server.connection",
    "highwater.server.handlers.fetch",
    "highwater.server.handlers.produce",
    "highwater.server.inbox",
    "highwater.server.outbox",
    "highwater.server.request_context",
    "highwater.server.transport",
    "highwater.storage.batch_scan",
    "highwater.storage.compaction.aborted_records",
    "highwater.storage.compaction.batch_filter",
    "highwater.storage.compaction.compaction",
    "highwater.storage.compaction.offset_map",
    "highwater.storage.file_region",
    "highwater.storage.index_file",
    "highwater.storage.leader_epochs",
    "highwater.storage.log",
    "highwater.storage.offset_index",
    "highwater.storage.producer_state",
    "highwater.storage.recovery",
    "highwater.storage.replay",
    "highwater.storage.segment",
    "highwater.storage.segments",
    "highwater.storage.stored_log",
    "highwater.storage.time_index",
    "highwater.storage.transactions",
)
