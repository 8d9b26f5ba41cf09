"""What a broker knows of the others: by the controller's word, and by what it finds out itself."""

import asyncio

from highwater.broker.cluster import STILL_LISTED_S, Cluster, LiveBroker
from highwater.broker.peer import Peer
from highwater.broker.process_end import has_ended
from highwater.coordination.records import ListenerAddress
from highwater.model.ids import BrokerId
from highwater.testing.ports import free_port

ONE, TWO = (
    LiveBroker(BrokerId(number), None, {"PLAINTEXT": ListenerAddress("127.0.0.1", 9000 + number)}) for number in (1, 2)
)


def a_cluster(*brokers: LiveBroker) -> Cluster:
    return Cluster("id", me=ONE.id, controller_id=ONE.id, controller_epoch=1, brokers=brokers)


def listed(cluster: Cluster, now_s: float) -> list[int]:
    return [broker.id for broker, _ in cluster.listed_for("PLAINTEXT", now_s=now_s)]


def test_a_broker_that_is_gone_is_listed_a_little_longer() -> None:
    """librdkafka lost a second when it heard of a new leader and of the old one's absence at the same time."""
    cluster = a_cluster(ONE, TWO)
    cluster.learn([ONE], now_s=100)
    assert [broker.id for broker, _ in cluster.reached_by("PLAINTEXT")] == [1]
    assert listed(cluster, 100) == [1, 2]
    cluster.learn([ONE], now_s=100 + STILL_LISTED_S / 2)
    assert listed(cluster, 100 + STILL_LISTED_S) == [1], "hearing the same again does not prolong it"


def test_a_broker_that_is_back_is_listed_where_it_is_now() -> None:
    cluster = a_cluster(ONE, TWO)
    moved = LiveBroker(TWO.id, "rack", {"PLAINTEXT": ListenerAddress("127.0.0.1", 9999)})
    cluster.learn([ONE], now_s=100)
    cluster.learn([ONE, moved], now_s=100.5)
    assert cluster.listed_for("PLAINTEXT", now_s=100.6)[1] == (moved, moved.listeners["PLAINTEXT"])


def test_the_controllers_word_overrules_what_a_broker_suspects() -> None:
    cluster = a_cluster(ONE, TWO)
    cluster.seem_gone.add(TWO.id)
    cluster.learn([ONE, TWO], now_s=1)
    assert not cluster.seem_gone


async def test_a_process_has_ended_when_nobody_listens_at_its_address() -> None:
    peer = Peer(ListenerAddress("127.0.0.1", free_port()), client_id="broker-1", timeout_s=10)
    assert await has_ended(peer)
    peer.close()


async def test_a_process_that_accepts_connections_has_not_ended() -> None:
    """A process that is stopped accepts them by its kernel, and one that is cut off does not refuse them."""
    listening = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
    host, port = listening.sockets[0].getsockname()
    peer = Peer(ListenerAddress(host, port), client_id="broker-1", timeout_s=10)
    assert not await has_ended(peer)
    peer.close()
    listening.close()
