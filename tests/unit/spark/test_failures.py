"""What a failure means: wait, look at the data, or stop with a line that says what would help."""

import pytest
from pyspark.errors import AnalysisException, PythonException, StreamingQueryException

from highwater_spark.errors import StateError
from highwater_spark.run.failures import Kind, failure_of, one_line

QUERY = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: {} SQLSTATE: XXKST"


@pytest.mark.parametrize(
    "told",
    [
        "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment",
        "Timeout of 60000ms expired before the position for partition lines-0 could be determined",
        "Topic lines not present in metadata after 60000 ms.",
        "Expiring 3 record(s) for lines-0:120001 ms has passed since batch creation",
        "org.apache.kafka.common.errors.DisconnectException",
    ],
)
def test_a_broker_that_is_away_is_worth_waiting_for(told: str) -> None:
    assert failure_of(StreamingQueryException(QUERY.format(told))).kind is Kind.BROKER_AWAY


@pytest.mark.parametrize(
    ("told", "advice"),
    [
        ("[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] Some data may have been lost", "on_data_loss: continue"),
        ("[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match", "--full-refresh"),
        ("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log", "another run uses the same checkpoint"),
        ("org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized", "the brokers refuse us"),
        ("org.apache.kafka.common.errors.UnknownTopicOrPartitionException", "was deleted while it ran"),
    ],
)
def test_what_no_restart_can_help_is_told_with_what_would(told: str, advice: str) -> None:
    failure = failure_of(StreamingQueryException(QUERY.format(told)))
    assert failure.kind is Kind.FATAL
    assert advice in failure.text


def test_our_own_errors_keep_their_words() -> None:
    assert failure_of(StateError("the table is not ours")).text == "the table is not ours"


def test_java_stacks_and_advice_about_switches_are_left_out() -> None:
    error = AnalysisException(
        "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide`. If necessary set x\n\tat a.b(C.scala:1)"
    )
    assert one_line(error) == "Division by zero. Use `try_divide`"
    assert failure_of(error).kind is Kind.OTHER


def test_of_a_python_traceback_the_last_line_is_told() -> None:
    error = PythonException(
        "An exception was thrown\nTraceback (most recent call last):\n  File x\nValueError: no such unit\n"
    )
    assert one_line(error) == "ValueError: no such unit"


def test_endless_texts_are_cut() -> None:
    assert len(one_line(ValueError("x" * 5000))) == 300
