"""What the controller has to tell a broker is told until the broker takes it, or there is nobody to take it."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from highwater.broker.messenger import Messenger
from highwater.broker.peer import PeerGone, PeerSilent
from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import BrokerId, TopicPartition
from highwater.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from highwater.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from highwater.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


class News:
    """Requests that are as empty as those that a broker gets which holds nothing; what they name is remembered."""

    def __init__(self) -> None:
        self.named: list[TopicPartition] = []

    def roles(self, broker: BrokerId, registration: int, names: Iterable[TopicPartition]) -> LeaderAndIsrRequest:
        del broker
        self.named = list(names)
        return LeaderAndIsrRequest(broker_epoch=registration)

    def stops(self, registration: int, names: Iterable[TopicPartition]) -> StopReplicaRequest:
        self.named = list(names)
        return StopReplicaRequest(broker_epoch=registration)

    def metadata(self, registration: int, names: Iterable[TopicPartition] | None) -> UpdateMetadataRequest:
        self.named = sorted(names or ())
        return UpdateMetadataRequest(broker_epoch=registration)


@dataclass
class MoodyBroker:
    """Answers with one error after the other, and then with none."""

    news: News
    answers: list[ErrorCode | KafkaError] = field(default_factory=list)
    took: list[tuple[str, list[TopicPartition]]] = field(default_factory=list)
    asked: int = 0

    def _answer(self, what: str) -> int:
        self.asked += 1
        if self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, KafkaError):
                raise answer
            return answer
        self.took.append((what, self.news.named))
        return 0

    async def lead_and_follow(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        assert request.broker_epoch == 7
        return LeaderAndIsrResponse(error_code=self._answer("roles"))

    async def stop(self, request: StopReplicaRequest) -> StopReplicaResponse:
        assert request.broker_epoch == 7
        return StopReplicaResponse(error_code=self._answer("stops"))

    async def learn(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        assert request.broker_epoch == 7
        return UpdateMetadataResponse(error_code=self._answer("metadata"))


class Office:
    """Remembers whether it was told that its time is over, and how often that it was not heard."""

    def __init__(self) -> None:
        self.is_deposed = False
        self.times_not_heard = 0

    def deposed(self) -> None:
        self.is_deposed = True

    def not_heard(self) -> None:
        self.times_not_heard += 1

    def replicas_stopped(self, broker: BrokerId, registration: int, names: frozenset[TopicPartition]) -> None:
        raise AssertionError(f"no answer names {names} of broker {broker}, {registration}")

    def replicas_failed(self, broker: BrokerId, registration: int, names: frozenset[TopicPartition]) -> None:
        raise AssertionError(f"no answer names {names} of broker {broker}, {registration}")

    def replicas_served(self, broker: BrokerId, registration: int, names: frozenset[TopicPartition]) -> None:
        raise AssertionError(f"no answer names {names} of broker {broker}, {registration}")


def told(tell: Callable[[Messenger], None], *answers: ErrorCode | KafkaError) -> tuple[MoodyBroker, Office]:
    """Tell a broker something, wait until it has heard it, and return what it took."""
    news, office = News(), Office()
    broker = MoodyBroker(news, list(answers))

    async def run() -> None:
        messenger = Messenger(BrokerId(3), 7, broker, news, office)  # type: ignore[arg-type]  # as much of it as is used
        tell(messenger)
        tasks: list[asyncio.Task[None]] = []

        def spawn(work: Any) -> asyncio.Task[None]:
            tasks.append(asyncio.ensure_future(work))
            return tasks[-1]

        messenger.start(spawn)
        await asyncio.wait_for(messenger.told(), 10)
        messenger.close()

    asyncio.run(run())
    return broker, office


@pytest.mark.parametrize("hindrance", [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_SERVER_ERROR, PeerGone("gone")])
@pytest.mark.parametrize(
    ("what", "tell"),
    [
        ("roles", lambda messenger: messenger.tell_roles([A0, A1])),
        ("stops", lambda messenger: messenger.tell_stops([A0, A1])),
        ("metadata", lambda messenger: messenger.tell_metadata([A0, A1])),
    ],
)
def test_a_broker_that_cannot_take_its_orders_now_is_told_again(
    what: str, tell: Callable[[Messenger], None], hindrance: ErrorCode | KafkaError
) -> None:
    """Found by the simulator: a broker that was cut off from ZooKeeper for a moment was told nothing ever after."""
    broker, office = told(tell, hindrance, hindrance)
    assert broker.took == [(what, sorted([A0, A1]))]
    assert broker.asked == 3
    assert not office.is_deposed


def test_only_a_broker_that_does_not_answer_in_time_has_not_heard() -> None:
    _, office = told(lambda messenger: messenger.tell_roles([A0]), PeerSilent("no answer"), PeerGone("it hung up"))
    assert office.times_not_heard == 1


@pytest.mark.parametrize("answer", [ErrorCode.STALE_CONTROLLER_EPOCH, ErrorCode.STALE_BROKER_EPOCH])
def test_a_broker_that_obeys_another_or_is_there_anew_is_told_nothing_more(answer: ErrorCode) -> None:
    broker, office = told(lambda messenger: messenger.tell_roles([A0]), answer)
    assert broker.took == []
    assert broker.asked == 1
    assert office.is_deposed is (answer is ErrorCode.STALE_CONTROLLER_EPOCH)
