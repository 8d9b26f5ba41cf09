"""One set of options for two kinds of client: librdkafka, which we use, and Java's, which Spark uses."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from highwater_spark.definition.model import Kafka
from highwater_spark.errors import SetupError

_SAME: Final = ("security.protocol", "sasl.mechanism")
_PEM: Final = {
    "ssl.ca.location": ("ssl.truststore", "certificates"),
    "ssl.certificate.location": ("ssl.keystore", "certificate.chain"),
    "ssl.key.location": ("ssl.keystore", "key"),
}
_LOGIN_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def librdkafka_settings(kafka: Kafka) -> dict[str, Any]:
    """Return the settings for confluent-kafka's clients; librdkafka's own log lines would spoil the display."""
    return {"bootstrap.servers": kafka.bootstrap, "log_level": 0, **kafka.options}


def spark_options(kafka: Kafka) -> dict[str, str]:
    """Return the options for Spark's source and sink.

    Certificates are passed by content, so that executors on other machines need no files.
    """
    java = {name: kafka.options[name] for name in _SAME if name in kafka.options}
    for option, (store, part) in _PEM.items():
        if option in kafka.options:
            java[f"{store}.type"] = "PEM"
            java[f"{store}.{part}"] = _content(option, kafka.options)
    if "sasl.username" in kafka.options:
        java["sasl.jaas.config"] = _login(kafka.options)
    return {f"kafka.{name}": value for name, value in {"bootstrap.servers": kafka.bootstrap, **java}.items()}


def _content(option: str, options: Mapping[str, str]) -> str:
    try:
        return Path(options[option]).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"{option}: {options[option]} cannot be read as PEM: {error}") from error


def _login(options: Mapping[str, str]) -> str:
    mechanism = options.get("sasl.mechanism", "PLAIN")
    module = _LOGIN_MODULES.get(mechanism)
    if module is None:
        raise SetupError(f"sasl.mechanism {mechanism!r} is not one of {', '.join(_LOGIN_MODULES)}")

    def quoted(name: str) -> str:
        return '"' + options.get(name, "").replace("\\", "\\\\").replace('"', '\\"') + '"'

    return f"{module} required username={quoted('sasl.username')} password={quoted('sasl.password')};"
