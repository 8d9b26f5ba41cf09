"""Questions to other brokers, several in one request: what comes up while requests are under way goes with the next."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from highwater.model.errors import KafkaError
from highwater.model.log_events import EventLog

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task
    from collections.abc import Awaitable, Callable, Sequence

    from highwater.model.ids import BrokerId

QuestionT = TypeVar("QuestionT")
AnswerT = TypeVar("AnswerT")

events = EventLog("broker")


class _Asked(NamedTuple, Generic[QuestionT, AnswerT]):
    question: QuestionT
    tell: Callable[[AnswerT | KafkaError], None]


class GatheredRequests(Generic[QuestionT, AnswerT]):
    """Asks each broker in the order in which questions come up, and tells each asker its answer, or why there is none.

    Nothing is tried again here: whoever asks knows whether the question still stands.
    """

    def __init__(
        self,
        loop: AbstractEventLoop,
        send: Callable[[BrokerId, list[QuestionT]], Awaitable[list[AnswerT]]],
        *,
        most_in_one: int,
        most_under_way: int,
    ) -> None:
        """`send` returns an answer for each question, or raises KafkaError; `most_under_way` counts for each broker."""
        self._loop = loop
        self._send = send
        self._most_in_one = most_in_one
        self._most_under_way = most_under_way
        self._waiting: dict[BrokerId, deque[_Asked[QuestionT, AnswerT]]] = {}
        self._under_way: dict[BrokerId, set[Task[None]]] = {}

    def ask(self, broker: BrokerId, question: QuestionT, tell: Callable[[AnswerT | KafkaError], None]) -> None:
        """Ask with the next request to this broker; `tell` is called once, later."""
        self._waiting.setdefault(broker, deque()).append(_Asked(question, tell))
        tasks = self._under_way.setdefault(broker, set())
        if len(tasks) < self._most_under_way:
            # It begins when the loop turns: by then, all questions of this turn are here.
            tasks.add(self._loop.create_task(self._run(broker)))

    def close(self) -> None:
        """Ask nothing more, and tell nobody."""
        self._waiting.clear()
        for tasks in self._under_way.values():
            for task in list(tasks):
                task.cancel()

    async def _run(self, broker: BrokerId) -> None:
        task = asyncio.current_task()
        assert task is not None, "it runs as a task"
        try:
            await self._ask_all(broker)
        finally:
            # Here and not when the task is seen to be done: whoever asks in between must not rely on it.
            self._under_way[broker].discard(task)

    async def _ask_all(self, broker: BrokerId) -> None:
        waiting = self._waiting.get(broker, ())
        while waiting:
            asked = [waiting.popleft() for _ in range(min(self._most_in_one, len(waiting)))]
            answers: Sequence[AnswerT | KafkaError]
            try:
                answers = await self._send(broker, [each.question for each in asked])
            except KafkaError as error:
                events.info("broker_not_asked", broker=broker, reason=str(error), code=error.code.name)
                answers = [error] * len(asked)
            for each, answer in zip(asked, answers, strict=True):
                each.tell(answer)
