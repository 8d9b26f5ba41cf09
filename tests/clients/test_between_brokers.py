"""What brokers say to each other is neither advertised nor answered by a cluster of one."""

from typing import Any

from highwater.broker.peer import Peer
from highwater.coordination.records import ListenerAddress
from highwater.model.errors import ErrorCode
from highwater.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from highwater.protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from highwater.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from highwater.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from highwater.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from highwater.protocol.schema import Message
from highwater.testing.broker import BrokerProcess

ASKED: list[tuple[Message, type[Any], int]] = [
    (LeaderAndIsrRequest(controller_epoch=9), LeaderAndIsrResponse, 6),
    (StopReplicaRequest(controller_epoch=9), StopReplicaResponse, 3),
    (UpdateMetadataRequest(controller_epoch=9), UpdateMetadataResponse, 8),
    (ControlledShutdownRequest(), ControlledShutdownResponse, 3),
]


async def test_a_cluster_of_one_takes_no_orders(highwater_session_broker: BrokerProcess) -> None:
    address = ListenerAddress(highwater_session_broker.host, highwater_session_broker.port)
    peer = Peer(address, client_id="stranger", timeout_s=10)
    for request, response_class, version in ASKED:
        answer = await peer.ask(request, response_class, version=version)
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    versions = await peer.ask(ApiVersionsRequest(), ApiVersionsResponse, version=3)
    assert not {4, 5, 6, 7} & {api.api_key for api in versions.api_keys}
    peer.close()
