"""Producer ids: each given out once in the life of the cluster, in blocks of a thousand."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from highwater.coordination import paths
from highwater.coordination.port import BadVersion, NodeExists, NoNode
from highwater.coordination.records import ProducerIdBlock
from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import BrokerId, ProducerId

if TYPE_CHECKING:
    from highwater.coordination.port import Coordination

BLOCK_SIZE: Final = 1000
MAX_PRODUCER_ID: Final = 2**63 - 1
_ATTEMPTS: Final = 10
"""Other brokers take blocks too; one of all who try at once succeeds, so that ten failures mean something else."""


class ProducerIds:
    """Gives out producer ids. A block is taken by a conditional write before its first id is used.

    Ids that a broker had taken and not given out when it stopped are lost; there are nine quintillion.
    """

    def __init__(self, store: Coordination, broker_id: BrokerId) -> None:
        self._store = store
        self._broker_id = broker_id
        self._next = 0
        self._last = -1
        self._taking = asyncio.Lock()

    async def take(self) -> ProducerId:
        """Return an id that nobody has, or ever had."""
        async with self._taking:
            if self._next > self._last:
                block = await self._take_block()
                self._next, self._last = block.first, block.last
            taken = ProducerId(self._next)
            self._next += 1
            return taken

    async def _take_block(self) -> ProducerIdBlock:
        for _ in range(_ATTEMPTS):
            try:
                return await self._try_block()
            except (BadVersion, NodeExists):
                continue
        raise KafkaError("other brokers keep taking producer ids; try again", code=ErrorCode.COORDINATOR_NOT_AVAILABLE)

    async def _try_block(self) -> ProducerIdBlock:
        path = paths.PRODUCER_ID_BLOCK
        try:
            node = await self._store.read(path)
        except NoNode:
            block = ProducerIdBlock(self._broker_id, 0, BLOCK_SIZE - 1)
            await self._store.create(path, block.encode())
            return block
        first = ProducerIdBlock.decode(path, node.data).last + 1
        assert first <= MAX_PRODUCER_ID - BLOCK_SIZE, "producer ids have run out"
        block = ProducerIdBlock(self._broker_id, first, first + BLOCK_SIZE - 1)
        await self._store.write(path, block.encode(), version=node.version)
        return block
