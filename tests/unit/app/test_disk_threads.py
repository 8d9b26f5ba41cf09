"""Two tasks at once, and none that waits for one that hangs."""

from collections.abc import Iterator
from concurrent.futures import CancelledError, wait
from contextlib import contextmanager
from threading import Event

import pytest

from highwater.app.disk_threads import DiskThreads
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until

AT_ONCE = 2


class Hanging:
    """Tasks that begin and do not end before they are let go."""

    def __init__(self, threads: DiskThreads) -> None:
        self._threads = threads
        self.begun = 0
        self.let_go = Event()
        self.futures = [threads.submit(self._hang) for _ in range(AT_ONCE)]
        self.wait_for(AT_ONCE)

    def _hang(self) -> str:
        self.begun += 1
        self.let_go.wait()
        return "done"

    def more(self, count: int) -> None:
        self.futures += [self._threads.submit(self._hang) for _ in range(count)]

    def wait_for(self, count: int) -> None:
        wait_until(lambda: self.begun == count, f"{count} tasks have begun")


@contextmanager
def hanging(threads: DiskThreads) -> Iterator[Hanging]:
    tasks = Hanging(threads)
    try:
        yield tasks
    finally:
        tasks.let_go.set()
        threads.shutdown()


def test_a_task_does_not_wait_for_those_that_hang() -> None:
    with hanging(DiskThreads(AT_ONCE, hung_after_s=0.01)) as tasks:
        for number in range(5):
            assert tasks._threads.submit(divmod, number, 2).result(PATIENCE_SECONDS) == divmod(number, 2)
            tasks.more(1)
        tasks.wait_for(AT_ONCE + 5)
    assert {future.result() for future in tasks.futures} == {"done"}


def test_a_task_waits_for_those_that_are_only_busy() -> None:
    with hanging(DiskThreads(AT_ONCE, hung_after_s=3600)) as tasks:
        other = tasks._threads.submit(str, 1)
        tasks.more(3)
        assert not wait([other], 0.05).done
        tasks.let_go.set()
        assert other.result(PATIENCE_SECONDS) == "1"


def test_no_more_threads_are_started_than_the_bound_allows() -> None:
    with hanging(DiskThreads(AT_ONCE, hung_after_s=0.001, most_threads=4)) as tasks:
        tasks.more(6)
        tasks.wait_for(4)
        assert not wait(tasks.futures[4:], 0.05).done
        assert len(tasks._threads._threads) == 4
    assert [future.result() for future in tasks.futures] == ["done"] * 8, "what was given before the end is done"


def test_what_a_task_raises_is_told_to_who_waits_for_it() -> None:
    threads = DiskThreads(AT_ONCE)
    with pytest.raises(ZeroDivisionError):
        threads.submit(divmod, 1, 0).result(PATIENCE_SECONDS)
    threads.shutdown()


def test_what_is_cancelled_is_not_done_and_after_the_end_nothing_is_taken() -> None:
    threads = DiskThreads(AT_ONCE, hung_after_s=3600)
    with hanging(threads) as tasks:
        withdrawn, dropped = threads.submit(str, 1), threads.submit(str, 2)
        assert withdrawn.cancel()
        threads.shutdown(wait=False, cancel_futures=True)
        with pytest.raises(CancelledError):
            dropped.result(PATIENCE_SECONDS)
        with pytest.raises(RuntimeError, match="ended"):
            threads.submit(str, 3)
    assert tasks.begun == AT_ONCE
