"""The headers of a dead letter; Kafka Connect's names where they fit, so that its tools understand them."""

from typing import Final


class Header:
    """Names of headers."""

    PREFIX: Final = "__connect.errors."
    TOPIC: Final = "__connect.errors.topic"
    PARTITION: Final = "__connect.errors.partition"
    OFFSET: Final = "__connect.errors.offset"
    TIMESTAMP: Final = "__connect.errors.timestamp"
    PIPELINE: Final = "__connect.errors.connector.name"
    SOURCE: Final = "__connect.errors.task.id"
    STAGE: Final = "__connect.errors.stage"
    ERROR: Final = "__connect.errors.exception.message"
