"""Everything outside its own memory that a broker touches, in one value: swap it, and the broker lives elsewhere.

The event loop is the other half: time, timers and outgoing connections are the loop's. `highwater_sim` swaps both, and
nothing else.
"""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from highwater.app.disk_threads import DiskThreads
from highwater.app.wall_clock import wall_clock_ms
from highwater.broker.compaction_worker import WorkerProcess
from highwater.config.settings import node
from highwater.server.acceptor import SocketAcceptor
from highwater.storage.files import OsFiles

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Awaitable, Callable
    from concurrent.futures import Executor

    from highwater.broker.compaction_worker import CompactionWorker
    from highwater.config.broker_config import BrokerConfig
    from highwater.coordination.port import Coordination
    from highwater.server.acceptor import Acceptor
    from highwater.storage.compaction.messages import Job
    from highwater.storage.files import Files

DISK_THREADS: Final = 2
"""Threads for what waits for the disk: fsync, removal, cold reads. More would only fight for the interpreter, but those
that hang do not count."""
CODEC_THREADS: Final = 2
"""Threads that compress batches anew; the codecs let go of the interpreter. None runs before it is needed."""


def _disk_threads() -> Executor:
    return DiskThreads(DISK_THREADS)


def _codec_threads() -> Executor:
    return ThreadPoolExecutor(CODEC_THREADS, thread_name_prefix="codec")


async def _connect_to_zookeeper(config: BrokerConfig) -> Coordination:
    """Open a session on the configured ZooKeeper. StoreFailed if it does not answer."""
    from highwater.coordination.zookeeper import ZooKeeperCoordination

    address = config[node.ZOOKEEPER_CONNECT]
    assert address is not None, "asked for only with zookeeper.connect"
    user, password = config[node.ZOOKEEPER_DIGEST_USERNAME], config[node.ZOOKEEPER_DIGEST_PASSWORD]
    return await ZooKeeperCoordination.connect(
        address,
        session_timeout_ms=config[node.ZOOKEEPER_SESSION_TIMEOUT_MS],
        connection_timeout_ms=config[node.ZOOKEEPER_CONNECTION_TIMEOUT_MS],
        digest=None if user is None or password is None else (user, password),
        closes_to_others=config[node.ZOOKEEPER_SET_ACL],
    )


@dataclass(frozen=True, slots=True)
class World:
    """The machine that a broker runs on, and the memory of its cluster. The default is the real one."""

    files: Files = field(default_factory=OsFiles)
    disk_threads: Executor = field(default_factory=_disk_threads)
    codec_threads: Executor = field(default_factory=_codec_threads)
    new_acceptor: Callable[[AbstractEventLoop, BrokerConfig], Acceptor] = SocketAcceptor
    connect_to_cluster: Callable[[BrokerConfig], Awaitable[Coordination]] = _connect_to_zookeeper
    start_compaction: Callable[[Job], Awaitable[CompactionWorker]] = WorkerProcess.start
    now_ms: Callable[[], int] = wall_clock_ms
    """The wall clock, which may jump."""
    random_bytes: Callable[[int], bytes] = secrets.token_bytes
