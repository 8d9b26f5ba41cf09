"""Transactions that somebody else coordinates: never timed out, kept, and ended by whoever has the id (KIP-939)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import TopicPartition
from highwater.transactions.init_producer import Asked
from highwater.transactions.shard import TransactionSettings
from highwater.transactions.states import State
from highwater.transactions.transaction import MAX_EPOCH, Producer

if TYPE_CHECKING:
    from tests.unit.transactions.conftest import Coordinator

LEAVES, WATER = TopicPartition("leaves", 0), TopicPartition("water", 0)
BEGIN = Asked("tea", 60_000, in_two_phases=True)
KEEP = Asked("tea", 60_000, in_two_phases=True, keeps_open=True)
YEAR_MS = 365 * 24 * 3_600_000


@pytest.fixture
def allowing(coordinator: Coordinator) -> Coordinator:
    coordinator.shard.settings = TransactionSettings(allows_two_phases=True)
    return coordinator


def opened(coordinator: Coordinator) -> Producer:
    producer = coordinator.try_init(BEGIN).producer
    coordinator.add(producer, LEAVES, version=2)
    return producer


@pytest.mark.parametrize("asked", [BEGIN, KEEP, KEEP._replace(in_two_phases=False)])
def test_it_must_be_allowed(coordinator: Coordinator, asked: Asked) -> None:
    with pytest.raises(KafkaError) as refused:
        coordinator.try_init(asked)
    assert refused.value.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_it_never_times_out(allowing: Coordinator) -> None:
    opened(allowing)
    allowing.now_ms += YEAR_MS
    assert allowing.abort_timed_out() == []


@pytest.mark.parametrize("commits", [True, False])
def test_whoever_has_the_id_finds_it_open_and_ends_it(allowing: Coordinator, *, commits: bool) -> None:
    first = opened(allowing)
    holders = [allowing.try_init(KEEP).holder for _ in range(3)]
    assert holders == [Producer(first.id, first.epoch + number) for number in (1, 2, 3)]
    assert allowing.tea.producer == first, "the outside coordinator knows the transaction by who began it"
    assert allowing.replayed()["tea"].holder == holders[-1]
    following = allowing.end(holders[-1], commits=commits, raises_epoch=True)
    assert allowing.tea.producer == Producer(first.id, first.epoch + 4), "markers are above all epochs before"
    assert allowing.tea.partitions == {LEAVES}
    assert allowing.complete().producer == following
    allowing.add(following, WATER, version=2)
    assert allowing.tea.state is State.ONGOING


def test_nobody_but_the_holder_may_do_anything_and_the_holder_may_only_end_it(allowing: Coordinator) -> None:
    first = opened(allowing)
    holder = allowing.try_init(KEEP).holder
    for producer, code in ((first, ErrorCode.PRODUCER_FENCED), (holder, ErrorCode.INVALID_TXN_STATE)):
        with pytest.raises(KafkaError) as refused:
            allowing.add(producer, WATER, version=2)
        assert refused.value.code is code
    with pytest.raises(KafkaError) as refused:
        allowing.end(first, commits=True, raises_epoch=True)
    assert refused.value.code is ErrorCode.PRODUCER_FENCED


def test_without_asking_to_keep_it_what_is_open_is_aborted(allowing: Coordinator) -> None:
    first = opened(allowing)
    holder = allowing.try_init(KEEP).holder
    assert allowing.try_init(BEGIN).state is State.PREPARE_ABORT
    assert allowing.tea.producer == Producer(first.id, holder.epoch + 1)


def test_with_nothing_open_keeping_is_like_beginning(allowing: Coordinator) -> None:
    decided = allowing.try_init(KEEP)
    assert decided.state is State.EMPTY
    assert not decided.is_kept


@pytest.mark.parametrize("epoch", [MAX_EPOCH - 2, MAX_EPOCH - 1])
def test_epochs_run_out_while_it_is_kept(allowing: Coordinator, epoch: int) -> None:
    opened(allowing)
    first = allowing.set_epoch(epoch)
    holder = allowing.try_init(KEEP).holder
    assert (holder.id == first.id) == (epoch == MAX_EPOCH - 2)
    following = allowing.end(holder, commits=True, raises_epoch=True)
    assert allowing.tea.producer == Producer(first.id, MAX_EPOCH), "the markers are of who began it"
    assert allowing.complete().producer == following
    assert following.id != first.id
    assert following != holder


def test_the_very_last_epoch_is_nobodys_to_act_with(allowing: Coordinator) -> None:
    """Only markers have it; a client that sends it is not who it says it is."""
    opened(allowing)
    forged = allowing.set_epoch(MAX_EPOCH)
    with pytest.raises(KafkaError) as refused:
        allowing.end(forged, commits=True, raises_epoch=True)
    assert refused.value.code is ErrorCode.PRODUCER_FENCED
