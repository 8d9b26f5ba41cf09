"""Questions to other brokers, gathered while requests are under way."""

import asyncio

from highwater.broker.gathered_requests import GatheredRequests
from highwater.broker.peer import PeerGone
from highwater.model.errors import KafkaError
from highwater.model.ids import BrokerId

ONE, TWO = BrokerId(1), BrokerId(2)


class Brokers:
    """Other brokers, which answer when they are let."""

    def __init__(self, *, most_in_one: int = 10, most_under_way: int = 1) -> None:
        self.sent: list[tuple[BrokerId, list[str]]] = []
        self.answers: list[asyncio.Future[list[str]]] = []
        self.told: list[str | KafkaError] = []
        self.requests: GatheredRequests[str, str] = GatheredRequests(
            asyncio.get_running_loop(), self._send, most_in_one=most_in_one, most_under_way=most_under_way
        )

    async def _send(self, broker: BrokerId, questions: list[str]) -> list[str]:
        self.sent.append((broker, questions))
        self.answers.append(asyncio.get_running_loop().create_future())
        return await self.answers[-1]

    def ask(self, *questions: str, broker: BrokerId = ONE) -> None:
        for question in questions:
            self.requests.ask(broker, question, self.told.append)

    async def answer(self, number: int) -> None:
        self.answers[number].set_result([question.upper() for question in self.sent[number][1]])
        await turns()


async def turns() -> None:
    """Let everything happen that can."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_what_is_asked_in_one_turn_is_one_request_for_each_broker() -> None:
    brokers = Brokers()
    brokers.ask("a", "b")
    brokers.ask("c", broker=TWO)
    await turns()
    assert brokers.sent == [(ONE, ["a", "b"]), (TWO, ["c"])]
    await brokers.answer(0)
    assert brokers.told == ["A", "B"]


async def test_what_comes_while_a_request_is_under_way_goes_with_the_next() -> None:
    brokers = Brokers()
    brokers.ask("a")
    await turns()
    brokers.ask("b", "c")
    await turns()
    assert brokers.sent == [(ONE, ["a"])]
    await brokers.answer(0)
    assert brokers.sent[1:] == [(ONE, ["b", "c"])]


async def test_no_request_is_longer_than_allowed_and_several_may_be_under_way() -> None:
    brokers = Brokers(most_in_one=2, most_under_way=2)
    brokers.ask("a", "b", "c", "d", "e")
    await turns()
    assert brokers.sent == [(ONE, ["a", "b"]), (ONE, ["c", "d"])]
    await brokers.answer(1)
    assert brokers.sent[2:] == [(ONE, ["e"])]


async def test_a_question_that_comes_up_with_the_last_answer_is_asked() -> None:
    """It was left lying: the task that had just ended still counted as one that would take it along."""
    brokers = Brokers()
    brokers.ask("a")
    await turns()
    told = brokers.told.append

    def ask_again(_: str | KafkaError) -> None:
        asyncio.get_running_loop().call_soon(brokers.requests.ask, ONE, "c", told)

    brokers.requests.ask(ONE, "b", ask_again)
    await brokers.answer(0)
    await brokers.answer(1)
    assert brokers.sent[2:] == [(ONE, ["c"])]


async def test_everybody_is_told_when_a_broker_is_gone_and_the_next_is_asked_anew() -> None:
    brokers = Brokers()
    brokers.ask("a", "b")
    await turns()
    gone = PeerGone("it hung up")
    brokers.answers[0].set_exception(gone)
    await turns()
    assert brokers.told == [gone, gone]
    brokers.ask("c")
    await turns()
    await brokers.answer(1)
    assert brokers.told[2:] == ["C"]


async def test_nobody_is_told_anything_after_the_end() -> None:
    brokers = Brokers()
    brokers.ask("a")
    await turns()
    brokers.ask("b")
    brokers.requests.close()
    await turns()
    assert brokers.sent == [(ONE, ["a"])]
    assert brokers.told == []
