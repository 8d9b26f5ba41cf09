"""What the token says about a micro-batch: done, new, or that nobody can know."""

import pytest

from highwater_spark.errors import ExactlyOnceRefused, SetupError
from highwater_spark.exactly_once.brokers import addresses_of
from highwater_spark.exactly_once.security import security_of
from highwater_spark.exactly_once.token import Token, Verdict, token_of, verdict

PARTITIONS = {"a": 3, "b": 1}
LAST = Token(number=5, query="q", batch=7, partitions=PARTITIONS)


def judged(
    token: Token | None,
    query: str = "q",
    batch: int = 8,
    *,
    partitions: dict[str, int] = PARTITIONS,
    is_untried: bool = False,
    take_over: bool = False,
) -> Verdict:
    return verdict(token, query=query, batch=batch, partitions=partitions, is_untried=is_untried, take_over=take_over)


def test_a_token_is_read_as_it_was_written() -> None:
    assert token_of(LAST.entries()) == LAST


def test_the_newest_entry_counts() -> None:
    """A topic that the sink no longer wrote to for a while keeps an old entry."""
    older = Token(number=2, query="old", batch=40, partitions={"c": 2})
    found = token_of(older.entries() | LAST.entries())
    assert found is not None
    assert (found.number, found.query, found.batch) == (5, "q", 7)


def test_nothing_committed_is_no_token() -> None:
    assert token_of({"a": (-1, ""), "b": (-1, "")}) is None


def test_somebody_elses_offset_is_not_taken_for_a_token() -> None:
    with pytest.raises(ExactlyOnceRefused, match="'a' is 'mine', which this sink did not write"):
        token_of({"a": (3, "mine")})


def test_a_micro_batch_that_is_there_is_done_even_for_one_who_takes_over() -> None:
    assert judged(LAST, batch=7) is Verdict.DONE
    assert judged(LAST, batch=7, take_over=True) is Verdict.DONE


def test_the_next_one_is_new() -> None:
    assert judged(LAST) is Verdict.NEW
    assert judged(LAST, batch=12) is Verdict.NEW  # micro-batches without rows are not written by every job
    assert judged(None, batch=0) is Verdict.NEW


def test_a_new_topic_is_welcome() -> None:
    assert judged(LAST, partitions=PARTITIONS | {"new": 4}) is Verdict.NEW


@pytest.mark.parametrize(
    ("token", "query", "batch", "partitions", "said"),
    [
        (LAST, "q", 6, PARTITIONS, "the checkpoint is at micro-batch 6, and 7 is already in the topics"),
        (LAST, "other", 0, PARTITIONS, "was of another query"),
        (None, "q", 1, PARTITIONS, "nothing says whether micro-batch 1 is already in the topics"),
        (LAST, "q", 8, {"a": 4, "b": 1}, "topic 'a' has 4 partitions and had 3"),
    ],
)
def test_what_cannot_be_known_is_refused_unless_it_is_taken_over(
    token: Token | None, query: str, batch: int, partitions: dict[str, int], said: str
) -> None:
    with pytest.raises(ExactlyOnceRefused, match=said) as refusal:
        judged(token, query, batch, partitions=partitions)
    assert "\n" not in str(refusal.value)
    assert judged(token, query, batch, partitions=partitions, take_over=True) is Verdict.NEW


def test_a_missing_token_is_harmless_for_what_was_never_tried() -> None:
    assert judged(None, batch=9, is_untried=True) is Verdict.NEW


def test_settings_that_cannot_be_are_told() -> None:
    with pytest.raises(SetupError, match=r"unknown setting 'sasl\.user'; did you mean 'sasl\.username'"):
        security_of({"sasl.user": "ann"})
    with pytest.raises(SetupError, match=r"security\.protocol 'TLS' is not one of PLAINTEXT, SSL"):
        security_of({"security.protocol": "tls"})
    with pytest.raises(SetupError, match=r"sasl\.mechanism 'GSSAPI' is not one of PLAIN"):
        security_of({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"})
    with pytest.raises(SetupError, match="'broker:kafka' is not host:port"):
        addresses_of("one:9092,broker:kafka")
    assert addresses_of("one, two:1,[::1]:2") == (("one", 9092), ("two", 1), ("::1", 2))
