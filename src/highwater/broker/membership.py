"""This broker as a member of its cluster: registered while it lives, and ready to be the controller.

One loop keeps both true. Whatever happens (the session ends, a node goes, a controller steps down), it looks again at
what is there and does what is missing.
"""

from __future__ import annotations

import asyncio
import functools
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from highwater.broker.peer import Peer
from highwater.broker.process_end import ProcessWatch
from highwater.coordination import paths, records
from highwater.coordination.port import (
    BadVersion,
    CoordinationError,
    Create,
    Delete,
    NodeExists,
    NoNode,
    SessionState,
    Write,
)
from highwater.coordination.records import BrokerRecord
from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import BrokerId
from highwater.model.log_events import EventLog
from highwater.protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from highwater.broker.cluster import Cluster
    from highwater.broker.controller_driver import ControllerDriver
    from highwater.broker.roles import Roles
    from highwater.coordination.port import Coordination, Node
    from highwater.coordination.records import ListenerAddress

events = EventLog("broker")

SHUTDOWN_ATTEMPTS: Final = 3
_SHUTDOWN_VERSION: Final = 3
_PAUSE_AFTER_TROUBLE_S: Final = 0.5
_PEER_TIMEOUT_S: Final = 10.0
_PAUSE_BETWEEN_SHUTDOWN_ATTEMPTS_S: Final = 0.5
_HAND_OVER_S: Final = 30.0
"""How long a broker that is asked to stop waits for others to lead in its place."""
_CUT_OFF_HAND_OVER_S: Final = 5.0
"""The same without a connection to the cluster's memory: the controller may have one, and is quick then."""
_FAREWELL_S: Final = 2.0
"""How long it tries to take its registration away, which would go by itself later."""


class IdTaken(KafkaError):
    """Another broker has our id."""


class Membership:
    """Registers this broker and runs for controller, from `join` to `leave`."""

    def __init__(
        self,
        broker_id: BrokerId,
        record: BrokerRecord,
        *,
        store: Coordination,
        cluster: Cluster,
        roles: Roles,
        driver: ControllerDriver,
        listener: str,
        session_timeout_s: float,
        now_ms: Callable[[], int],
    ) -> None:
        self._broker_id = broker_id
        self._record = record
        self._store = store
        self._cluster = cluster
        self._roles = roles
        self._driver = driver
        self._listener = listener
        self._session_timeout_s = session_timeout_s
        self._now_ms = now_ms
        self._attention = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._watched_office: tuple[int, Peer] | None = None
        """The controller's node, by when it was made, and the connection to its process."""
        self._is_connected = True

    async def join(self) -> None:
        """Register, and see to it that there is a controller. IdTaken if another broker has our id."""
        await self._ensure_registered()
        self._store.on_session(self._session_changed)
        self._driver.on_step_down = self._attention.set
        self._store.watch_node(paths.CONTROLLER, self._attention.set)
        self._store.watch_node(paths.broker(self._broker_id), self._attention.set)
        self._attention.set()
        self._spawn(self._keep_true())

    async def leave(self, *, moves_leaders: bool) -> None:
        """Let others lead what we lead, as far as they can, and be a member no more."""
        self._roles.is_leaving = True
        if moves_leaders:
            try:
                async with asyncio.timeout(_HAND_OVER_S if self._is_connected else _CUT_OFF_HAND_OVER_S):
                    await self._hand_over()
            except TimeoutError:
                events.warning("leaders_not_moved", is_connected=self._is_connected)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._watch_over(None)
        await self._driver.close()
        with suppress(CoordinationError, TimeoutError):
            # Before our address goes: a broker that is registered and refuses connections counts as dead.
            async with asyncio.timeout(_FAREWELL_S):
                await self._store.delete(paths.broker(self._broker_id))

    # What should be true --------------------------------------------------------------------------------------------

    async def _keep_true(self) -> None:
        while True:
            await self._attention.wait()
            self._attention.clear()
            try:
                await self._ensure_registered()
                await self._ensure_controller()
            except (CoordinationError, KafkaError) as error:
                events.info("membership_troubled", reason=str(error))
                self._attention.set()
                await asyncio.sleep(_PAUSE_AFTER_TROUBLE_S)

    async def _ensure_registered(self) -> None:
        path = paths.broker(self._broker_id)
        deadline = asyncio.get_running_loop().time() + self._session_timeout_s
        while True:
            try:
                there = await self._store.read(path)
            except NoNode:
                with suppress(NodeExists):
                    await self._store.create(path, self._record.encode(), ephemeral=True)
                    self._roles.registration = (await self._store.read(path)).created
                    events.info("broker_registered", broker=self._broker_id, registration=self._roles.registration)
                    return
                continue
            if there.created == self._roles.registration:
                return
            await self._make_way(path, there.data, deadline)

    async def _make_way(self, path: str, data: bytes, deadline: float) -> None:
        """Deal with a registration under our id that is not ours."""
        other = BrokerRecord.decode(path, data)
        if other.listeners == self._record.listeners:
            # We hold its address, so that no process can be behind it: it is what a killed broker left.
            with suppress(NoNode):
                await self._store.delete(path)
            return
        if asyncio.get_running_loop().time() > deadline:
            where = ", ".join(f"{at.host}:{at.port}" for at in other.listeners.values())
            raise IdTaken(f"broker {self._broker_id} is registered at {where}: give this one another broker.id")
        await asyncio.sleep(_PAUSE_AFTER_TROUBLE_S)

    async def _ensure_controller(self) -> None:
        try:
            node = await self._store.read(paths.CONTROLLER)
        except NoNode:
            self._driver.resign()
            if not self._roles.is_leaving and not self._makes_way():
                await self._run_for_office()
            return
        controller = records.decode_controller(paths.CONTROLLER, node.data)
        if controller != self._broker_id:
            self._driver.resign()
            await self._watch_over_controller(controller, node.created)
        elif not self._driver.is_active:
            # Ours, of a time before we were killed or stepped down.
            with suppress(NoNode):
                await self._store.delete(paths.CONTROLLER)
            self._attention.set()

    def _makes_way(self) -> bool:
        """Return whether another shall be elected, and look again when it is our turn."""
        loop = asyncio.get_running_loop()
        if loop.time() >= self._driver.makes_way_until:
            return False
        loop.call_at(self._driver.makes_way_until, self._attention.set)
        return True

    async def _run_for_office(self) -> None:
        """Take the office if it is free: the node and the next epoch in one transaction, so that one only succeeds."""
        with suppress(NodeExists):
            await self._store.create(paths.CONTROLLER_EPOCH, b"0")
        node = await self._store.read(paths.CONTROLLER_EPOCH)
        epoch = int(node.data) + 1
        try:
            _, version = await self._store.multi(
                [
                    Create(
                        paths.CONTROLLER, records.encode_controller(self._broker_id, self._now_ms()), ephemeral=True
                    ),
                    Write(paths.CONTROLLER_EPOCH, b"%d" % epoch, node.version),
                ]
            )
        except (NodeExists, BadVersion):
            self._attention.set()  # another was faster: look who
            return
        assert isinstance(version, int), "a Write tells its version"
        self._watch_over(None)
        await self._driver.take_office(epoch, version)

    def _session_changed(self, state: SessionState) -> None:
        events.info("session_changed", state=state.value)
        self._is_connected = state is SessionState.CONNECTED
        if state is SessionState.LOST:
            self._driver.resign()
            self._roles.forget()
        elif state is SessionState.CONNECTED:
            self._attention.set()

    # The controller's process may end -------------------------------------------------------------------------------

    async def _watch_over_controller(self, controller: BrokerId, created: int) -> None:
        if self._watched_office is not None and self._watched_office[0] == created:
            return
        (registered,) = await self._store.read_many([paths.broker(controller)])
        address = await self._address_of(controller)
        if address is None:
            return
        peer = Peer(address, client_id=f"broker-{self._broker_id}", timeout_s=_PEER_TIMEOUT_S)
        self._watch_over((created, peer))
        nodes = {paths.CONTROLLER: created, paths.broker(controller): -1 if registered is None else registered.created}
        ProcessWatch(peer, functools.partial(self._controller_ended, controller, peer, nodes), self._spawn).start()

    def _watch_over(self, office: tuple[int, Peer] | None) -> None:
        if self._watched_office is not None:
            self._watched_office[1].close()
        self._watched_office = office

    async def _controller_ended(self, controller: BrokerId, peer: Peer, created: Mapping[str, int]) -> None:
        """Free the office when the controller's process has ended, without waiting for its session to expire.

        Its registration goes with it, so that the next controller finds it gone and elects other leaders at once. See
        `ControllerDriver._process_ended`: wrong, it costs an election; an old controller cannot write any more.
        """
        if self._watched_office is None or self._watched_office[1] is not peer:
            return
        self._watch_over(None)
        self._cluster.seem_gone.add(controller)
        try:
            nodes = await self._store.read_many(list(created))
            left = [Delete(path) for path, node in zip(created, nodes, strict=True) if _is(node, created[path])]
            events.warning("controller_process_ended", broker=controller)
            await self._store.multi(left)
        except NoNode:
            return
        except CoordinationError as error:
            events.info("dead_controller_not_removed", reason=str(error))
            self._attention.set()

    async def _address_of(self, broker: BrokerId) -> ListenerAddress | None:
        try:
            node = await self._store.read(paths.broker(broker))
        except NoNode:
            return self._last_address_of(broker)
        return self._ours_of(BrokerRecord.decode(paths.broker(broker), node.data).listeners)

    def _last_address_of(self, broker: BrokerId) -> ListenerAddress | None:
        """Return the address that the controller has told us, without asking the cluster's memory."""
        known = self._cluster.brokers.get(broker)
        return None if known is None else self._ours_of(known.listeners)

    def _ours_of(self, listeners: Mapping[str, ListenerAddress]) -> ListenerAddress | None:
        return listeners.get(self._listener) or next(iter(listeners.values()), None)

    # Leaving --------------------------------------------------------------------------------------------------------

    async def _hand_over(self) -> None:
        """Ask the controller, perhaps ourselves, to let others lead; try again a few times, then go anyway."""
        for _ in range(SHUTDOWN_ATTEMPTS):
            try:
                remaining = await self._ask_for_shutdown()
            except KafkaError as error:
                events.info("shutdown_not_prepared", reason=str(error))
                remaining = -1
            if remaining == 0:
                return
            await asyncio.sleep(_PAUSE_BETWEEN_SHUTDOWN_ATTEMPTS_S)

    async def _ask_for_shutdown(self) -> int:
        """Return how many partitions we still lead that others could lead."""
        if self._driver.is_active:
            remaining = await self._driver.shut_down(self._broker_id, self._roles.registration)
            await self._driver.everybody_knows(_PEER_TIMEOUT_S)
            return len(remaining)
        controller = self._cluster.controller_id
        address = self._last_address_of(controller) or await self._address_of(controller)
        if address is None:
            raise KafkaError("there is no controller", code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        peer = Peer(address, client_id=f"broker-{self._broker_id}", timeout_s=_PEER_TIMEOUT_S)
        try:
            request = ControlledShutdownRequest(broker_id=self._broker_id, broker_epoch=self._roles.registration)
            response = await peer.ask(request, ControlledShutdownResponse, version=_SHUTDOWN_VERSION)
        finally:
            peer.close()
        if response.error_code != ErrorCode.NONE:
            raise KafkaError("the controller refuses", code=ErrorCode(response.error_code))
        return len(response.remaining_partitions)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            events.error("membership_task_failed", cause=error)


def _is(node: Node | None, created: int) -> bool:
    """Return whether this is the node that was made then, and not another in its place."""
    return node is not None and node.created == created
