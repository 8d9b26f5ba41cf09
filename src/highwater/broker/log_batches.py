"""Reading a coordinator's log from its beginning, while the loop goes on with its other work."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from highwater.protocol.records.batch import iter_batches

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from highwater.protocol.records.batch import BatchHeader
    from highwater.storage.log import Log


async def batches_of(log: Log, *, chunk_bytes: int) -> AsyncIterator[tuple[memoryview, BatchHeader]]:
    """Return every batch; the disk is read on a thread, a chunk at a time."""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        region = log.read(offset, max_bytes=chunk_bytes, up_to=log.log_end_offset)
        if region is None:
            break
        chunk = memoryview(await asyncio.to_thread(region.read))
        for position, header in iter_batches(chunk):
            yield chunk[position : position + header.size], header
            offset = header.next_offset
