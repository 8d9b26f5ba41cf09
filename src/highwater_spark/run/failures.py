"""Why a query ended, in one line, and whether it makes sense to wait, to look at the data, or to stop."""

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from pyspark.errors import PySparkException, PythonException

from highwater_spark.errors import BrokerAway, PipelineError

_MAX_TEXT: Final = 300


class Kind(Enum):
    """What to do about a failure."""

    BROKER_AWAY = auto()  # wait for it, then go on
    FATAL = auto()  # no restart can help: say what would
    OTHER = auto()  # perhaps a record that a transform cannot take, perhaps bad luck


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure of a query."""

    kind: Kind
    text: str


_AWAY: Final = re.compile(
    r"Timed out waiting for a node assignment|Timeout expired while fetching topic metadata|No resolvable bootstrap"
    r"|DisconnectException|NetworkException|not present in metadata after|Expiring \d+ record|LeaderNotAvailable"
    r"|NotLeaderOrFollower|timed out at .* after \d+ attempt|Call\(callName=|Timeout of \d+ms expired before"
)
_LOST: Final = (
    "records were deleted before they were read (retention, or the topic was made anew): "
    "`on_data_loss: continue` at the source goes on without them"
)
_FATAL: Final = (
    (
        re.compile(r"KAFKA_DATA_LOSS|[Dd]ata may have been (lost|missed)|OffsetOutOfRange|offset was changed from"),
        _LOST,
    ),
    (
        re.compile(r"UnknownTopicOrPartition|UNKNOWN_TOPIC_OR_PARTITION"),
        "a topic that the pipeline uses was deleted while it ran",
    ),
    (
        re.compile(r"CONCURRENT_STREAM_LOG_UPDATE|concurrently using|ConcurrentModificationException"),
        "another run uses the same checkpoint",
    ),
    (
        re.compile(r"STATE_STORE_\w*SCHEMA|StateSchemaNotCompatible|Provided schema doesn't match"),
        "the transform has changed and no longer fits what it remembers: --full-refresh starts anew",
    ),
    (
        re.compile(r"TopicAuthorization|GroupAuthorization|ClusterAuthorization|SaslAuthentication|SslAuthentication"),
        "the brokers refuse us: check the user, the password and the rights under `kafka: options:`",
    ),
)


def failure_of(error: BaseException) -> Failure:
    """Classify what ended a query."""
    if isinstance(error, BrokerAway):
        return Failure(Kind.BROKER_AWAY, str(error))
    if isinstance(error, PipelineError):
        return Failure(Kind.FATAL, str(error))
    told = str(error)
    for pattern, advice in _FATAL:
        if pattern.search(told):
            return Failure(Kind.FATAL, advice)
    return Failure(Kind.BROKER_AWAY if _AWAY.search(told) else Kind.OTHER, one_line(error))


def one_line(error: BaseException) -> str:
    """Return the sentence of an error that says the most."""
    told = str(error)
    if isinstance(error, PythonException) or "Traceback (most recent call last)" in told:
        raised = [line for line in told.splitlines() if re.match(r"[\w.]+(Error|Exception|Warning|Exit)\b", line)]
        told = raised[-1] if raised else told
    elif isinstance(error, PySparkException):
        told = told.split("terminated with exception:", maxsplit=1)[-1]
        for tail in ("SQLSTATE", "If necessary set", "\n\tat ", "\n== SQL"):
            told = told.split(tail, maxsplit=1)[0]
    else:
        told = f"{type(error).__name__}: {told}"
    told = " ".join(re.sub(r"\[[A-Z0-9_.]+\]\s*", "", told).split()).rstrip(" ;.")
    return told if len(told) <= _MAX_TEXT else told[: _MAX_TEXT - 3] + "..."
