"""Idempotent producers and transactions."""

from typing import Final

from highwater.config.parsers import INT32_MAX, boolean, byte_count, integer, milliseconds
from highwater.config.setting import Setting, Update
from highwater.config.settings.log import DAY_MS, HOUR_MS, MINUTE_MS, MiB

PRODUCER_ID_EXPIRATION_MS: Final = Setting(
    name="producer.id.expiration.ms",
    parse=milliseconds(at_least=1, at_most=INT32_MAX),
    default=DAY_MS,
    update=Update.CLUSTER_WIDE,
    doc="Forget what an idempotent producer last wrote to a partition after this long without a write.",
)

TRANSACTION_MAX_TIMEOUT_MS: Final = Setting(
    name="transaction.max.timeout.ms",
    parse=milliseconds(at_least=1, at_most=INT32_MAX),
    default=15 * MINUTE_MS,
    doc="The longest transaction timeout that a producer may ask for. An open transaction holds back every reader of "
    "committed records on its partitions.",
)

TRANSACTIONAL_ID_EXPIRATION_MS: Final = Setting(
    name="transactional.id.expiration.ms",
    parse=milliseconds(at_least=1, at_most=INT32_MAX),
    default=7 * DAY_MS,
    doc="Forget a transactional id after this long without a transaction.",
)

TRANSACTION_TWO_PHASE_COMMIT_ENABLE: Final = Setting(
    name="transaction.two.phase.commit.enable",
    parse=boolean(),
    default=False,
    doc="Let producers take part in transactions that somebody else coordinates, a database for instance: theirs never "
    "time out, and whoever has the transactional id later finds them open and ends them (KIP-939).",
)

TRANSACTION_STATE_LOG_NUM_PARTITIONS: Final = Setting(
    name="transaction.state.log.num.partitions",
    parse=integer(at_least=1),
    default=50,
    doc="The partitions of the transaction topic. Do not change it once the topic exists.",
)

TRANSACTION_STATE_LOG_REPLICATION_FACTOR: Final = Setting(
    name="transaction.state.log.replication.factor",
    parse=integer(at_least=1, at_most=2**15 - 1),
    default=3,
    doc="The replicas of each partition of the transaction topic. A broker without zookeeper.connect is a cluster of "
    "one and makes one replica.",
)

TRANSACTION_STATE_LOG_MIN_ISR: Final = Setting(
    name="transaction.state.log.min.isr",
    parse=integer(at_least=1),
    default=2,
    doc="min.insync.replicas of the transaction topic; never more than it has replicas.",
)

TRANSACTION_STATE_LOG_SEGMENT_BYTES: Final = Setting(
    name="transaction.state.log.segment.bytes",
    parse=byte_count(at_least=1),
    default=100 * MiB,
    doc="The segment size of the transaction topic; smaller ones are compacted and loaded sooner.",
)

TRANSACTION_STATE_LOG_LOAD_BUFFER_SIZE: Final = Setting(
    name="transaction.state.log.load.buffer.size",
    parse=byte_count(at_least=1),
    default=5 * MiB,
    doc="How much of the transaction topic is read at once when transactions are loaded.",
)

TRANSACTION_ABORT_TIMED_OUT_CLEANUP_INTERVAL_MS: Final = Setting(
    name="transaction.abort.timed.out.transaction.cleanup.interval.ms",
    parse=milliseconds(at_least=1, at_most=INT32_MAX),
    default=10_000,
    doc="How often to look for transactions that have been open for too long, and abort them.",
)

TRANSACTION_REMOVE_EXPIRED_CLEANUP_INTERVAL_MS: Final = Setting(
    name="transaction.remove.expired.transaction.cleanup.interval.ms",
    parse=milliseconds(at_least=1, at_most=INT32_MAX),
    default=HOUR_MS,
    doc="How often to look for transactional ids that may be forgotten.",
)

TRANSACTION_PARTITION_VERIFICATION_ENABLE: Final = Setting(
    name="transaction.partition.verification.enable",
    parse=boolean(),
    default=True,
    update=Update.CLUSTER_WIDE,
    doc="Ask the coordinator whether a transaction is open before the first of its batches is appended, so that a late "
    "one cannot leave a transaction hanging.",
)

TRANSACTION_VERSION_LEVEL: Final = Setting(
    name="transaction.version",
    parse=integer(at_least=1, at_most=2),
    default=2,
    update=Update.CLUSTER_WIDE,
    doc="How clients that know both ways do transactions. 2: every transaction has a producer epoch of its own and a "
    "write itself adds its partition, so that nothing late can get into the next one (KIP-890). 1: as before that. "
    "Apache Kafka keeps this level beside its settings; `kafka-features.sh` changes it here too.",
)

ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MS: Final = Setting(
    name="add.partitions.to.txn.retry.backoff.ms",
    parse=milliseconds(at_least=1, at_most=INT32_MAX),
    default=20,
    doc="How often to ask a coordinator on another broker whether a producer's last transaction is complete, so that "
    "the next one may write.",
)

ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MAX_MS: Final = Setting(
    name="add.partitions.to.txn.retry.backoff.max.ms",
    parse=milliseconds(at_least=0, at_most=INT32_MAX),
    default=100,
    doc="How long a write waits for the producer's last transaction to be complete before the client is told to try "
    "again.",
)
