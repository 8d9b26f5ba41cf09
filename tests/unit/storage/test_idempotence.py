"""Idempotent producers: duplicates, gaps, epochs, expiry (KIP-98, KIP-360)."""

from dataclasses import replace
from pathlib import Path

import pytest

from highwater.storage.errors import InvalidProducerEpoch, OutOfOrderSequence
from highwater.storage.log_config import LogConfig
from highwater.testing.log_bench import NOW_MS, LogBench, a_batch

MAX_SEQUENCE = 2**31 - 1
DAY_MS = 24 * 60 * 60 * 1000


def produce(bench: LogBench, sequence: int, count: int = 1, *, producer_id: int = 7, epoch: int = 0) -> tuple[int, int]:
    batch = a_batch(*[b"v"] * count, producer_id=producer_id, epoch=epoch, sequence=sequence)
    staged = bench.append(batch)
    return staged.base_offset, staged.last_offset


def test_any_of_the_last_five_batches_is_answered_again_and_not_appended(bench: LogBench) -> None:
    answers = [produce(bench, sequence, 2) for sequence in range(0, 14, 2)]
    assert [produce(bench, sequence, 2) for sequence in range(4, 14, 2)] == answers[2:]
    repeated = bench.log.stage(
        memoryview(a_batch(b"v", b"v", producer_id=7, sequence=4)), leader_epoch=0, now_ms=NOW_MS
    )
    assert repeated.duplicate
    assert bench.log.log_end_offset == 14
    with pytest.raises(OutOfOrderSequence):
        produce(bench, 2, 2)


def test_a_duplicate_of_a_batch_that_is_staged_is_told_too(bench: LogBench) -> None:
    batch = a_batch(b"v", producer_id=7)
    first = bench.log.stage(memoryview(batch), leader_epoch=0, now_ms=NOW_MS)
    again = bench.log.stage(memoryview(a_batch(b"v", producer_id=7)), leader_epoch=0, now_ms=NOW_MS)
    assert not first.duplicate
    assert again.duplicate
    assert again.base_offset == first.base_offset
    bench.log.write_staged()
    assert bench.log.log_end_offset == 1


def test_a_duplicate_gets_the_first_append_time(bench: LogBench) -> None:
    bench.log.config = LogConfig(log_append_time=True)
    bench.append(a_batch(b"v", producer_id=7))
    bench.now_ms += 5
    assert bench.append(a_batch(b"v", producer_id=7)).append_time_ms == NOW_MS


@pytest.mark.parametrize("sequence", [2, 5, 1, MAX_SEQUENCE])
def test_a_gap_is_refused(bench: LogBench, sequence: int) -> None:
    produce(bench, 0, 4)
    with pytest.raises(OutOfOrderSequence, match="expected was 4"):
        produce(bench, sequence)
    assert produce(bench, 4) == (4, 4)


def test_a_batch_of_known_sequences_with_another_end_is_no_duplicate(bench: LogBench) -> None:
    produce(bench, 0, 4)
    with pytest.raises(OutOfOrderSequence):
        produce(bench, 0, 3)


def test_an_unknown_producer_may_begin_at_any_sequence(bench: LogBench) -> None:
    assert produce(bench, 41) == (0, 0)
    assert produce(bench, 42) == (1, 1)


def test_sequences_wrap_to_zero(bench: LogBench) -> None:
    produce(bench, MAX_SEQUENCE - 1, 4)
    (state,) = bench.log.producers
    assert state.last_sequence == 1
    assert produce(bench, MAX_SEQUENCE - 1, 4) == (0, 3)
    assert produce(bench, 2) == (4, 4)
    produce(bench, MAX_SEQUENCE, producer_id=8)
    assert produce(bench, 0, producer_id=8) == (6, 6)


def test_an_older_epoch_is_refused(bench: LogBench) -> None:
    produce(bench, 0, epoch=3)
    with pytest.raises(InvalidProducerEpoch, match="sent epoch 2, the partition has seen epoch 3"):
        produce(bench, 1, epoch=2)


def test_a_new_epoch_begins_at_zero_and_forgets_the_batches_before(bench: LogBench) -> None:
    produce(bench, 0, 5)
    with pytest.raises(OutOfOrderSequence, match="expected was 0"):
        produce(bench, 5, epoch=1)
    assert produce(bench, 0, epoch=1) == (5, 5)
    (state,) = bench.log.producers
    assert (state.epoch, len(state.batches)) == (1, 1)


def test_producers_do_not_mix(bench: LogBench) -> None:
    for producer_id in (1, 2, 3):
        produce(bench, 0, producer_id=producer_id)
    for producer_id in (3, 2, 1):
        produce(bench, 1, producer_id=producer_id)
    assert bench.log.log_end_offset == 6


@pytest.mark.parametrize("clean", [True, False])
def test_the_last_five_batches_are_known_after_a_restart(tmp_path: Path, *, clean: bool) -> None:
    """Kafka's snapshots keep one batch of each producer; a producer with five in flight may retry any of five."""
    size = len(a_batch(b"v", producer_id=7))
    bench = LogBench(tmp_path / "t-0", LogConfig(segment_bytes=3 * size))
    answers = [produce(bench, sequence) for sequence in range(20)]
    states = list(bench.log.producers)
    if clean:
        bench.log.close()
    bench.open(clean=clean, recovery_point=18)
    assert list(bench.log.producers) == states
    assert [produce(bench, sequence) for sequence in range(15, 20)] == answers[15:]
    assert produce(bench, 20) == (20, 20)


def test_a_silent_producer_is_forgotten_when_its_time_is_over(bench: LogBench) -> None:
    bench.log.config = replace(bench.log.config, producer_id_expiration_ms=DAY_MS)
    produce(bench, 0)
    bench.log.remove_expired_producers(NOW_MS + DAY_MS - 1)
    assert len(bench.log.producers) == 1
    bench.log.remove_expired_producers(NOW_MS + DAY_MS)
    assert len(bench.log.producers) == 0
    assert produce(bench, 99) == (1, 1)


def test_a_producer_with_an_open_transaction_is_not_forgotten(bench: LogBench) -> None:
    bench.append(a_batch(b"v", producer_id=7, transactional=True))
    bench.log.remove_expired_producers(NOW_MS + 2 * DAY_MS)
    assert len(bench.log.producers) == 1


def test_what_is_refused_does_not_count(bench: LogBench) -> None:
    produce(bench, 0)
    damaged = a_batch(b"v", producer_id=7, sequence=1)
    damaged[-1] ^= 1
    with pytest.raises(Exception, match="checksum"):
        bench.append(damaged)
    assert produce(bench, 1) == (1, 1)
