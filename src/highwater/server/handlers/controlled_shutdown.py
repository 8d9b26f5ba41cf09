"""ControlledShutdown (key 7), versions 1-3, between brokers: a broker asks the controller to be relieved.

Answered when what others could lead is led by them and every broker knows, or with what is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from highwater.model.ids import BrokerId
from highwater.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from highwater.server.between_brokers import controller_of

if TYPE_CHECKING:
    from highwater.server.request_context import RequestContext

PATIENCE_S: Final = 5.0


async def handle(context: RequestContext, request: ControlledShutdownRequest) -> ControlledShutdownResponse:
    """Relieve the broker."""
    controller = controller_of(context)
    remaining = await controller.shut_down(BrokerId(request.broker_id), request.broker_epoch)
    await controller.everybody_knows(PATIENCE_S)
    return ControlledShutdownResponse(
        remaining_partitions=[
            RemainingPartition(topic_name=name.topic, partition_index=name.partition) for name in remaining
        ]
    )
