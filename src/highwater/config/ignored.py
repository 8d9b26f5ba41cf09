"""Settings of Apache Kafka that files may carry and that mean nothing here, each with the reason."""

from typing import Final

_ONE_LOOP: Final = "one event loop does the work of all threads"
_NO_QUEUE: Final = "a request is handled as it arrives, and a connection whose answers pile up is not read"
_KRAFT: Final = "the cluster's memory is ZooKeeper or the embedded store, not KRaft"
_JVM_METRICS: Final = "metrics leave in Prometheus format, see metrics.listener"
_NO_TIERED_STORAGE: Final = "there is no tiered storage"
_NO_CLASSES: Final = "Java classes cannot be loaded"
_NO_SHARE_OR_STREAMS: Final = "share groups and streams groups are not served"
_PURGATORY: Final = "what no longer waits is forgotten at once"
_OTHER_SASL: Final = "only PLAIN and SCRAM are served"

BY_NAME: Final = {
    "alter.config.policy.class.name": _NO_CLASSES,
    "background.threads": _ONE_LOOP,
    "broker.heartbeat.interval.ms": _KRAFT,
    "broker.session.timeout.ms": "see zookeeper.session.timeout.ms",
    "client.quota.callback.class": _NO_CLASSES,
    "create.topic.policy.class.name": _NO_CLASSES,
    "delete.records.purgatory.purge.interval.requests": _PURGATORY,
    "early.start.listeners": _KRAFT,
    "fetch.purgatory.purge.interval.requests": _PURGATORY,
    "group.coordinator.threads": _ONE_LOOP,
    "initial.broker.registration.timeout.ms": _KRAFT,
    "inter.broker.protocol.version": "brokers of one cluster run one release",
    "log.cleaner.io.buffer.load.factor": "the memory is bounded by log.cleaner.dedupe.buffer.size alone",
    "log.dir.failure.timeout.ms": _KRAFT,
    "log.message.format.version": "record batches are always of format 2",
    "metadata.log.dir": _KRAFT,
    "metadata.max.idle.interval.ms": _KRAFT,
    "metric.reporters": _JVM_METRICS,
    "num.io.threads": _ONE_LOOP,
    "num.network.threads": _ONE_LOOP,
    "num.replica.alter.log.dirs.threads": _ONE_LOOP,
    "principal.builder.class": _NO_CLASSES,
    "process.roles": _KRAFT,
    "producer.id.expiration.check.interval.ms": "producers expire when log.retention.check.interval.ms says",
    "producer.purgatory.purge.interval.requests": _PURGATORY,
    "queued.max.request.bytes": _NO_QUEUE,
    "queued.max.requests": _NO_QUEUE,
    "security.providers": _NO_CLASSES,
    "ssl.engine.factory.class": _NO_CLASSES,
    "ssl.keystore.password": "PEM files have no store password, see ssl.key.password",
    "ssl.truststore.password": "PEM files have no store password",
    "telemetry.max.bytes": "clients do not send telemetry here",
}

BY_PREFIX: Final = {
    "controller.performance.": _KRAFT,
    "controller.quorum.": _KRAFT,
    "delegation.token.": "delegation tokens are not served",
    "group.share.": _NO_SHARE_OR_STREAMS,
    "group.streams.": _NO_SHARE_OR_STREAMS,
    "kafka.metrics.": _JVM_METRICS,
    "metadata.log.": _KRAFT,
    "metadata.max.retention.": _KRAFT,
    "metrics.": _JVM_METRICS,
    "remote.": _NO_TIERED_STORAGE,
    "log.local.retention.": _NO_TIERED_STORAGE,
    "sasl.kerberos.": _OTHER_SASL,
    "sasl.login.": _OTHER_SASL,
    "sasl.oauthbearer.": _OTHER_SASL,
    "share.coordinator.": _NO_SHARE_OR_STREAMS,
}


def why_ignored(name: str) -> str | None:
    """Return why `name`, a setting of Apache Kafka's, has no effect here; None if it is no such setting."""
    if reason := BY_NAME.get(name):
        return reason
    return next((reason for prefix, reason in BY_PREFIX.items() if name.startswith(prefix)), None)
