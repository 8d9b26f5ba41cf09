"""Batches as real clients write them."""

from collections.abc import Callable

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

AClientBatch = Callable[..., bytearray]


def _aiokafka_batch(values: int = 3, *, producer_id: int = -1, base_sequence: int = -1) -> bytearray:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=base_sequence,
        batch_size=1 << 20,
    )
    for index in range(values):
        builder.append(index, 1_000 + index, b"key", b"value", [])
    return bytearray(builder.build())


@pytest.fixture
def a_batch() -> AClientBatch:
    """Make a batch of so many records, with timestamps 1000, 1001 and so on, as aiokafka writes it."""
    return _aiokafka_batch
