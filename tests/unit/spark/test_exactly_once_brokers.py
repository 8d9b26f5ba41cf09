"""Which broker is asked about the cluster."""

from highwater.protocol.messages.metadata import MetadataRequest, MetadataResponse
from highwater.protocol.schema import Message
from highwater_spark.exactly_once.brokers import Brokers, ResponseT
from highwater_spark.exactly_once.connection import Address, Disconnected
from highwater_spark.exactly_once.security import Security

A, B, C = ("127.0.0.1", 1), ("127.0.0.1", 2), ("127.0.0.1", 3)


class Watched(Brokers):
    """Three brokers, some of which are down; it is remembered who was asked."""

    def __init__(self, *down: Address) -> None:
        super().__init__("127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", Security(), 1.0)
        self.asked: list[Address] = []
        self._down = down

    def call(self, address: Address, request: Message, response: type[ResponseT], version: int) -> ResponseT:  # noqa: ARG002
        self.asked.append(address)
        if address in self._down:
            raise Disconnected("down")
        return response()


def ask(brokers: Brokers, times: int) -> None:
    for _ in range(times):
        brokers.call_any(MetadataRequest(topics=[]), MetadataResponse, 9)


def test_the_broker_that_was_asked_last_is_not_asked_again_while_there_are_others() -> None:
    brokers = Watched()
    ask(brokers, 4)
    assert all(one != other for one, other in zip(brokers.asked, brokers.asked[1:], strict=False)), brokers.asked


def test_one_that_is_left_is_asked_again() -> None:
    brokers = Watched(A, B)
    ask(brokers, 2)
    assert brokers.asked[-1] == C
    assert brokers.asked.count(C) == 2
