"""What holds after every step of every history: elections, zombies, crashes, messages that come late or never."""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.model.errors import KafkaError
from highwater.model.ids import LeaderEpoch, Offset
from highwater.testing.replica_group import MAX_LAG_MS, FetchAnswer, FetchAsked, ReplicaGroup, Written

NAMES = ("A", "B", "C")


class Histories:
    """A group of three, the messages that are under way, and what any leader has ever called committed."""

    def __init__(self) -> None:
        self.group = ReplicaGroup(*NAMES, agrees_late=True)
        self.group.elect("A")
        self.asked: list[tuple[str, FetchAsked]] = []
        self.answered: list[tuple[str, FetchAnswer]] = []
        self.committed: list[Written] = []
        self.watermarks: dict[tuple[str, LeaderEpoch], Offset] = {}
        self.steps: dict[str, Callable[[str, str], None]] = {
            "write": lambda name, _: self._allowed(lambda: self.group.write("x", to=name)),
            "fetch": lambda name, _: self._allowed(lambda: self.group.fetch(name)),
            "ask": lambda name, other: self.asked.append((other, self.group.ask(name))),
            "answer": lambda _, __: self._answer(),
            "apply": lambda _, __: self._apply(),
            "elect": self._elect,
            "tell": lambda name, _: self.group.tell(name),
            "crash": lambda name, _: self.group.crash(name),
            "restart": self._restart,
            "shrink": lambda name, _: self._shrink(name),
            "agree": lambda _, __: self._agree(),
            "wait": lambda _, __: self._wait(),
        }

    def step(self, kind: str, name: str, other: str) -> None:
        self.steps[kind](name, other)
        self.check()

    @staticmethod
    def _allowed(action: Callable[[], object]) -> None:
        try:
            action()
        except KafkaError:
            return  # refused, as it should be

    def _answer(self) -> None:
        if self.asked:
            leader, asked = self.asked.pop(0)
            follower = NAMES[asked.follower]
            self._allowed(lambda: self.answered.append((follower, self.group.answer(leader, asked))))

    def _apply(self) -> None:
        if self.answered:
            follower, answer = self.answered.pop()
            self.group.apply(follower, answer)

    def _elect(self, name: str, other: str) -> None:
        if name in self.group.electable():
            self.group.elect(name, tell=[name, other])

    def _restart(self, name: str, _: str) -> None:
        if not self.group[name].is_alive:
            self.group.restart(name)

    def _shrink(self, name: str) -> None:
        leading = self.group[name].leading
        if leading is not None:
            self.group.propose(leading.propose_shrinking(now_ms=self.group.now_ms))

    def _agree(self) -> None:
        if self.group.proposed:
            self.group.commit(self.group.proposed.pop(0))

    def _wait(self) -> None:
        self.group.now_ms += MAX_LAG_MS // 2 + 1

    def check(self) -> None:
        group = self.group
        assert group.leader in group.isr, "LeaderInIsr"
        for name in NAMES:
            self._check_leader(name)
        for broker in group.isr:
            assert group.replicas[broker].log[: len(self.committed)] == self.committed, "StrongIsr"

    def _check_leader(self, name: str) -> None:
        replica = self.group[name]
        if replica.leading is None:
            return
        watermark = replica.high_watermark
        assert watermark >= self.watermarks.get((name, replica.epoch), 0), "a leader's watermark never moves back"
        self.watermarks[name, replica.epoch] = watermark
        visible = replica.log[:watermark]
        shorter = min(len(visible), len(self.committed))
        assert visible[:shorter] == self.committed[:shorter], "what was committed once stays"
        self.committed = max(self.committed, visible, key=len)


OFTEN = ("write", "fetch", "fetch", "fetch", "wait", "shrink", "agree")
kinds = st.sampled_from([*sorted(Histories().steps), *OFTEN])
steps = st.tuples(kinds, st.sampled_from(NAMES), st.sampled_from(NAMES))


@given(st.lists(steps, max_size=120))
@settings(max_examples=400, deadline=None)
def test_what_is_committed_is_on_every_replica_that_may_lead(history: list[tuple[str, str, str]]) -> None:
    run = Histories()
    for step in history:
        run.step(*step)


@given(st.lists(steps, max_size=60))
@settings(max_examples=100, deadline=None)
def test_logs_agree_once_the_faults_stop(history: list[tuple[str, str, str]]) -> None:
    run = Histories()
    for step in history:
        run.step(*step)
    group = run.group
    for name in NAMES:
        run._restart(name, "")
    group.proposed.clear()
    group.elect(group.electable()[0])
    for name in NAMES:
        while group[name].leading is None and group[name].id not in group.isr:
            group.catch_up(name)
            run._agree()
    for name in NAMES:
        if group[name].leading is None:
            group.catch_up(name)
    assert group["A"].log == group["B"].log == group["C"].log
    assert group["A"].log[: len(run.committed)] == run.committed
    assert set(group.isr) == set(group.replicas), "and all are in sync again"
