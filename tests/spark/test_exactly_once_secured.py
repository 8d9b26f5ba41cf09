"""The exactly-once sink, driver and tasks, logs in to Apache Kafka by every way that it offers."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from benchmarks.brokers import ApacheKafka, free_port
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from cryptography.hazmat.primitives import serialization
from pyspark.sql import SparkSession

from highwater_spark.errors import ClusterError
from highwater_spark.exactly_once import ExactlyOnceSink

USER, PASSWORD = "alice", "not told to others"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
RECORDS = 100
LOGIN_MODULES = "org.apache.kafka.common.security"


class SecuredKafka(ApacheKafka):
    """Apache Kafka with a listener for each protocol that clients know."""

    format_options = tuple(
        option
        for mechanism in MECHANISMS[1:]
        for option in ("--add-scram", f"{mechanism}=[name={USER},password={PASSWORD}]")
    )

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        directory.mkdir(parents=True, exist_ok=True)
        self.listeners = {name: f"127.0.0.1:{free_port()}" for name in ("SASL_PLAINTEXT", "SASL_SSL", "SSL")}
        authority = trustme.CA()
        self.authority, self.client, self.keystore = (directory / name for name in ("ca.pem", "client.pem", "key.pem"))
        authority.cert_pem.write_to_path(self.authority)
        authority.issue_cert("a-client").private_key_and_cert_chain_pem.write_to_path(self.client)
        write_keystore(authority.issue_cert("127.0.0.1"), self.keystore)

    def settings(self) -> dict[str, object]:
        settings = dict(super().settings())
        secured = ",".join(f"{name}://{address}" for name, address in self.listeners.items())
        for key in ("listeners", "advertised.listeners"):
            settings[key] = f"{settings[key]},{secured}"
        settings |= {
            "listener.security.protocol.map": ",".join(
                f"{name}:{'PLAINTEXT' if name == 'CONTROLLER' else name}"
                for name in ("PLAINTEXT", "CONTROLLER", *self.listeners)
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.keystore,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.authority,
            "listener.name.ssl.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        }
        for listener in ("sasl_plaintext", "sasl_ssl"):
            jaas = f"listener.name.{listener}.%s.sasl.jaas.config"
            plain = f'{LOGIN_MODULES}.plain.PlainLoginModule required user_plain="{PASSWORD}";'
            settings[jaas % "plain"] = plain
            for mechanism in MECHANISMS[1:]:
                settings[jaas % mechanism.lower()] = f"{LOGIN_MODULES}.scram.ScramLoginModule required;"
        return settings


def write_keystore(certificate: trustme.LeafCert, path: Path) -> None:
    """Write a key and its certificate as Java reads them: the key by PKCS 8."""
    key = serialization.load_pem_private_key(certificate.private_key_pem.bytes(), None)
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    chain = b"".join(blob.bytes() for blob in certificate.cert_chain_pems)
    path.write_bytes(key.private_bytes(encoding, form, serialization.NoEncryption()) + chain)


@pytest.fixture(scope="module")
def kafka() -> Iterator[SecuredKafka]:
    with tempfile.TemporaryDirectory(prefix="secured-kafka-") as folder, SecuredKafka(Path(folder) / "kafka") as kafka:
        yield kafka


def committed(kafka: SecuredKafka, topic: str) -> list[bytes | None]:
    """Return what a read_committed reader finds, by the listener that asks for nothing."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "unused", "enable.partition.eof": True})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = []
        while (message := consumer.poll(60)) is not None and message.error() is None:
            found.append(message.value())
        return found
    finally:
        consumer.close()


def settings_for(kafka: SecuredKafka, protocol: str, mechanism: str | None) -> dict[str, str]:
    settings = {"security.protocol": protocol}
    if protocol.endswith("SSL"):
        settings["ssl.ca.location"] = str(kafka.authority)
    if mechanism is None:
        settings |= {"ssl.certificate.location": str(kafka.client), "ssl.key.location": str(kafka.client)}
    else:
        user = "plain" if mechanism == "PLAIN" else USER
        settings |= {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": PASSWORD}
    return settings


@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [
        *(("SASL_PLAINTEXT", mechanism) for mechanism in MECHANISMS),
        ("SASL_SSL", "SCRAM-SHA-512"),
        ("SSL", None),
    ],
)
def test_micro_batches_are_written_over_a_secured_listener(
    spark: SparkSession, kafka: SecuredKafka, protocol: str, mechanism: str | None
) -> None:
    topic = f"{protocol}-{mechanism}".lower()
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
    settings = settings_for(kafka, protocol, mechanism)
    sink = ExactlyOnceSink(kafka.listeners[protocol], sink_id=topic, topics=[topic], settings=settings)
    rows = spark.range(RECORDS).selectExpr("cast(id as string) AS value")
    for batch in (0, 0, 1):
        sink.write(rows, query="q", batch=batch)
    assert sorted(committed(kafka, topic), key=lambda value: int(value or b"")) == [
        b"%d" % (number // 2) for number in range(2 * RECORDS)
    ]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_told_in_a_line(spark: SparkSession, kafka: SecuredKafka, mechanism: str) -> None:
    wrong = {**settings_for(kafka, "SASL_PLAINTEXT", mechanism), "sasl.password": "guessed"}
    address = kafka.listeners["SASL_PLAINTEXT"]
    sink = ExactlyOnceSink(address, sink_id="any", topics=["any"], settings=wrong)
    with pytest.raises(ClusterError, match=f"^{address} refuses us: .*[Ii]nvalid (credentials|username or password)"):
        sink.write(spark.range(1).selectExpr("'v' AS value"), query="q", batch=0)
