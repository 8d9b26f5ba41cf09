"""The stores that the contract is tested on."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

from highwater.coordination.embedded import FILE_NAME, EmbeddedCoordination
from highwater.coordination.port import Coordination

OpenSession: TypeAlias = Callable[[], AbstractAsyncContextManager[Coordination]]


@pytest.fixture(params=["embedded"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> OpenSession:
    """Open a session on one store; opened again, it is a new session on the same store."""
    assert request.param == "embedded"

    @asynccontextmanager
    async def embedded() -> AsyncIterator[Coordination]:
        store = EmbeddedCoordination.open(tmp_path / FILE_NAME)
        try:
            yield store
        finally:
            await store.close()

    return embedded
