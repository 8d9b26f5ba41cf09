"""What a client says of its producer epoch decides what may be asked of its writes."""

from highwater.testing.idempotent_promises import IdempotentPromises
from highwater_history.history import ALL, Place, Send

DRAINING = "Beginning partition drain in state Assigned for PID{Id:7,Epoch:0} %s for 3 partition(s): %s"
"""The shape of what librdkafka 2.16 says with `debug=eos`."""


def sends(*values: str) -> list[Send]:
    return [Send("w", 0.0, Place("t", 0), value, acks=ALL, is_idempotent=True) for value in values]


def test_what_is_under_way_when_a_client_gives_up_its_epoch_is_sent_anew() -> None:
    promises, (known, open_, later) = IdempotentPromises("w"), sends("known", "open", "later")
    promises.has_begun(known)
    promises.has_begun(open_)
    promises.has_ended(known)
    promises.log(7, DRAINING, "epoch bump", "skipped sequence numbers")
    promises.has_begun(later)
    assert [send.is_sent_anew for send in (known, open_, later)] == [False, True, False]
    assert len(promises.broken_by_itself) == 1
    assert promises.broken_by_brokers == []


def test_an_epoch_given_up_for_another_reason_is_not_the_clients_own_doing() -> None:
    promises = IdempotentPromises("w")
    promises.log(7, DRAINING, "epoch bump", "unknown producer id")
    assert promises.broken_by_itself == []
    assert len(promises.broken_by_brokers) == 1


def test_other_lines_mean_nothing() -> None:
    promises, (send,) = IdempotentPromises("w"), sends("open")
    promises.has_begun(send)
    promises.log(7, "%s", "ledger [1] beginning partition drain: drain before retrying")
    assert not send.is_sent_anew
    assert promises.broken_by_itself == promises.broken_by_brokers == []
