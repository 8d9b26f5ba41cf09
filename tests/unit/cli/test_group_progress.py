"""The verdict on a group."""

from highwater.cli.group_progress import Place, Progress, Verdict, judge, total_lag, unmoved

P0: Place = ("orders", 0)
P1: Place = ("orders", 1)


def test_a_group_without_members_is_gone_even_without_lag() -> None:
    look = {P0: Progress(5, 5)}
    assert judge(look, look, members=0) is Verdict.GONE


def test_a_group_without_lag_keeps_up() -> None:
    look = {P0: Progress(5, 5)}
    assert judge(look, look, members=1) is Verdict.KEEPING_UP


def test_a_partition_that_lags_and_does_not_move_makes_the_group_stuck() -> None:
    before = {P0: Progress(5, 9), P1: Progress(1, 9)}
    after = {P0: Progress(9, 9), P1: Progress(1, 9)}
    assert unmoved(before, after) == [P1]
    assert judge(before, after, members=2) is Verdict.STUCK


def test_a_group_that_moves_but_loses_ground_is_slow() -> None:
    assert judge({P0: Progress(0, 10)}, {P0: Progress(5, 100)}, members=1) is Verdict.SLOW


def test_a_group_that_catches_up_keeps_up() -> None:
    assert judge({P0: Progress(0, 100)}, {P0: Progress(60, 110)}, members=1) is Verdict.KEEPING_UP


def test_a_partition_never_committed_has_no_lag_and_is_worth_another_look() -> None:
    look = {P0: Progress(None, 10)}
    assert total_lag(look) == 0
    assert unmoved(look, look) == [P0]
    assert judge(look, look, members=1) is Verdict.KEEPING_UP


def test_an_empty_partition_is_never_waited_for() -> None:
    look = {P0: Progress(None, 0)}
    assert unmoved(look, look) == []
