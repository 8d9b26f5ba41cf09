"""Who gets a transactional id, and who is kept out by that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import ProducerId, TopicPartition
from highwater.transactions.init_producer import Asked
from highwater.transactions.states import State
from highwater.transactions.transaction import Producer

if TYPE_CHECKING:
    from tests.unit.transactions.conftest import Coordinator

LEAVES = TopicPartition("leaves", 0)


def test_every_instance_gets_the_next_epoch_of_one_id(coordinator: Coordinator) -> None:
    assert [coordinator.init().epoch for _ in range(3)] == [0, 1, 2]
    assert coordinator.tea.state is State.EMPTY
    assert coordinator.tea.producer.id == 100


def test_an_open_transaction_is_aborted_before_the_next_instance_begins(coordinator: Coordinator) -> None:
    """The epoch rises twice: once to fence, once to be given out."""
    first = coordinator.init()
    coordinator.add(first, LEAVES)
    fenced = coordinator.try_init(Asked("tea", 60_000))
    assert fenced.state is State.PREPARE_ABORT
    assert fenced.producer == Producer(first.id, 1)
    assert fenced.partitions == {LEAVES}
    with pytest.raises(KafkaError) as refused:
        coordinator.try_init(Asked("tea", 60_000))
    assert refused.value.code is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.complete()
    assert coordinator.init() == Producer(first.id, 2)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_out_of_bounds_is_refused(coordinator: Coordinator, timeout_ms: int) -> None:
    with pytest.raises(KafkaError) as refused:
        coordinator.init(timeout_ms=timeout_ms)
    assert refused.value.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert coordinator.shard.transactions == {}


# Going on after an error (KIP-360) ----------------------------------------------------------------------------------


def test_a_producer_goes_on_with_the_next_epoch_after_an_error(coordinator: Coordinator) -> None:
    first = coordinator.init()
    assert coordinator.init(expected=first) == Producer(first.id, 1)


def test_asking_twice_gives_the_same_epoch(coordinator: Coordinator) -> None:
    """The answer was lost; a second bump would make the client miss one."""
    first = coordinator.init()
    second = coordinator.init(expected=first)
    assert coordinator.init(expected=first) == second


def test_a_zombie_cannot_go_on(coordinator: Coordinator) -> None:
    zombie = coordinator.init()
    coordinator.init()
    with pytest.raises(KafkaError) as refused:
        coordinator.init(expected=zombie)
    assert refused.value.code is ErrorCode.PRODUCER_FENCED


def test_a_producer_of_another_id_cannot_go_on(coordinator: Coordinator) -> None:
    coordinator.init()
    with pytest.raises(KafkaError) as refused:
        coordinator.init(expected=Producer(ProducerId(7), 0))
    assert refused.value.code is ErrorCode.PRODUCER_FENCED


def test_a_producer_whose_id_was_forgotten_starts_anew(coordinator: Coordinator) -> None:
    assert coordinator.init(expected=Producer(ProducerId(7), 3)).epoch == 0


# The end of the epochs ----------------------------------------------------------------------------------------------


def test_the_last_epoch_given_out_is_one_below_the_largest(coordinator: Coordinator) -> None:
    coordinator.init()
    coordinator.set_epoch(32765)
    assert coordinator.init() == Producer(ProducerId(100), 32766)


@pytest.mark.parametrize("used_up", [32766, 32767])
def test_used_up_epochs_bring_a_new_producer_id(coordinator: Coordinator, used_up: int) -> None:
    coordinator.init()
    coordinator.set_epoch(used_up)
    assert coordinator.init() == Producer(ProducerId(101), 0)
    assert coordinator.tea.previous_producer_id == 100


def test_fencing_at_the_last_epoch_uses_the_one_that_was_kept_for_it(coordinator: Coordinator) -> None:
    coordinator.init()
    last = coordinator.set_epoch(32766)
    coordinator.add(last, LEAVES)
    assert coordinator.try_init(Asked("tea", 60_000)).producer == Producer(last.id, 32767)
    coordinator.complete()
    assert coordinator.init() == Producer(ProducerId(101), 0)


def test_a_lost_answer_about_a_new_id_is_given_again(coordinator: Coordinator) -> None:
    coordinator.init()
    last = coordinator.set_epoch(32766)
    rotated = coordinator.init(expected=last)
    assert rotated == Producer(ProducerId(101), 0)
    assert coordinator.init(expected=last) == rotated


def test_an_old_epoch_of_a_used_up_id_is_fenced(coordinator: Coordinator) -> None:
    coordinator.init()
    last = coordinator.set_epoch(32766)
    with pytest.raises(KafkaError) as refused:
        coordinator.init(expected=Producer(last.id, 5))
    assert refused.value.code is ErrorCode.PRODUCER_FENCED
