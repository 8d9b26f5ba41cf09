"""The controller at work: reads and writes the cluster's memory, tells the brokers, and asks its core what to do.

One event at a time, each to its end. Whenever the cluster's memory fails or another controller was elected, it steps
down: the next one, perhaps itself, reads everything anew and needs to know nothing of what was half done.
"""

from __future__ import annotations

import asyncio
import functools
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from highwater.broker.controller_news import ControllerNews
from highwater.broker.controller_office import Office
from highwater.broker.controller_store import ControllerStore, Deposed
from highwater.broker.messenger import Messenger, RemoteListener
from highwater.broker.peer import Peer
from highwater.broker.process_end import ProcessWatch, has_ended
from highwater.config.settings import replication
from highwater.controller.controller import Controller, returned
from highwater.controller.events import (
    BalanceDue,
    BrokersChanged,
    Effect,
    Event,
    FinishDeletion,
    IsrNoticed,
    LogDirsFailed,
    ReplicasFailed,
    ReplicasServed,
    ReplicasStopped,
    ShutdownAsked,
    WriteAssignments,
    WriteStates,
)
from highwater.coordination import paths
from highwater.coordination.port import CoordinationError, NodeExists, NoNode
from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import BrokerId, TopicPartition
from highwater.model.log_events import EventLog

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping

    from highwater.broker.roles import Roles
    from highwater.config.broker_config import BrokerConfig
    from highwater.coordination.port import Coordination, Operation
    from highwater.coordination.records import BrokerRecord

events = EventLog("controller")

_GLANCE_S: Final = 0.3
"""How long a new controller waits for each broker to show that somebody listens; all are asked at once."""
_MAKE_WAY_S: Final = 5.0
"""How long a controller that was not heard lets others run for the office before it does so again."""


class ControllerDriver:
    """The office of the controller on this broker; empty unless this broker was elected."""

    def __init__(
        self, broker_id: BrokerId, config: BrokerConfig, *, store: Coordination, roles: Roles, listener: str
    ) -> None:
        self._broker_id = broker_id
        self._config = config
        self._coordination = store
        self._roles = roles
        self._listener = listener
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._office: Office | None = None
        self.on_step_down: Callable[[], None] = lambda: None
        """Called when this controller gave up by itself: somebody has to be elected."""
        self.makes_way_until = 0.0
        """Until when, on the loop's clock, another broker shall be elected, because we were not heard."""

    # In and out of office -------------------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller."""
        return self._office is not None

    @property
    def core(self) -> Controller:
        """What the controller knows. NOT_CONTROLLER if it is another broker."""
        return self._require_office().core

    def fence(self) -> list[Operation]:
        """Return what makes a change of the cluster's memory fail once another controller was elected."""
        return [self._require_office().store.fence]

    async def take_office(self, epoch: int, epoch_version: int) -> None:
        """Begin as the controller that was elected with `epoch`: read everything, repair it, tell everybody."""
        async with self._turn:
            store = ControllerStore(self._coordination, self._config, epoch=epoch, epoch_version=epoch_version)
            office = Office(store)
            office.stop_watching += [
                self._coordination.watch_children(paths.BROKERS, self._brokers_may_have_changed),
                self._coordination.watch_children(paths.ISR_CHANGES, self._leaders_gave_notice),
                self._coordination.watch_children(paths.LOG_DIR_EVENTS, self._a_log_dir_may_have_failed),
            ]
            self._office = office
            try:
                await self._take_ended_off_the_list(store)
                took_over, addresses = await store.load()
                office.news = ControllerNews(
                    self._broker_id, epoch, office.core, office.addresses, listener=self._listener
                )
                self._meet(office, took_over.brokers, addresses)
                await self._carry_out(office, office.core.step(took_over))
            except BaseException:
                self._leave(office)
                raise
        events.info("controller_elected", broker=self._broker_id, epoch=epoch)
        self._spawn(self._look_at_notices())
        self._spawn(self._look_at_log_dirs())
        if self._config[replication.AUTO_LEADER_REBALANCE_ENABLE]:
            office.balancing = self._spawn(self._balance_now_and_then(office))

    def resign(self) -> None:
        """Leave the office at once: what is under way is not told any more."""
        if self._office is not None:
            self._leave(self._office)

    async def close(self) -> None:
        """Leave the office and end everything that runs in it."""
        self.resign()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _leave(self, office: Office) -> None:
        if self._office is office:
            self._office = None
            events.info("controller_resigned", broker=self._broker_id, epoch=office.store.epoch)
        office.close()

    def _step_down(self, office: Office, reason: KafkaError) -> None:
        if self._office is office:
            events.warning("controller_steps_down", broker=self._broker_id, reason=str(reason))
            self._leave(office)
            self.on_step_down()

    def _require_office(self) -> Office:
        if self._office is None or self._office.news is None:
            raise KafkaError("this broker is not the controller", code=ErrorCode.NOT_CONTROLLER)
        return self._office

    # Events ---------------------------------------------------------------------------------------------------------

    async def happens(self, event: Event) -> None:
        """Let the core decide about an event, and do what it wants. NOT_CONTROLLER if we are not it (any more).

        What was begun is done to its end, even if the client that asked for it hangs up: what is decided and not
        written, or written and not told, nobody would look at again.
        """
        task = asyncio.get_running_loop().create_task(self._in_turn(event))
        self._tasks.add(task)
        task.add_done_callback(self._answered)
        await asyncio.shield(task)

    async def _in_turn(self, event: Event) -> None:
        async with self._turn:
            office = self._require_office()
            await self._do(office, event)

    def _answered(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and isinstance(task.exception(), KafkaError):
            self._tasks.discard(task)  # whoever asked has the error, or no longer wants it
        else:
            self._done(task)

    @asynccontextmanager
    async def decision(self) -> AsyncIterator[Callable[[Event], Awaitable[None]]]:
        """Write down what an administrator wants, and pass it to the core with what is yielded.

        Nothing else is decided in between: a core that does not know all of a topic would write over the rest of it.
        Nor does it stay in office if it is not known what was written. NOT_CONTROLLER if we are not it (any more).
        """
        async with self._turn:
            office = self._require_office()
            try:
                yield functools.partial(self._do, office)
            except NodeExists:
                raise
            except CoordinationError as error:
                raise self._stepped_down(office, error) from error

    async def _do(self, office: Office, event: Event) -> None:
        try:
            await self._carry_out(office, office.core.step(event))
        except (CoordinationError, Deposed) as error:
            raise self._stepped_down(office, error) from error

    def _stepped_down(self, office: Office, reason: KafkaError) -> KafkaError:
        self._step_down(office, reason)
        return KafkaError(f"this controller stepped down: {reason}", code=ErrorCode.NOT_CONTROLLER)

    async def everybody_knows(self, timeout_s: float) -> None:
        """Wait until every live broker has heard what there is to tell, or for this long."""
        office = self._require_office()
        waits = [messenger.told() for messenger in office.messengers.values()]
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*waits)
        except TimeoutError:
            events.info("brokers_slow_to_hear", waited_s=timeout_s)

    async def shut_down(self, broker: BrokerId, registration: int) -> list[TopicPartition]:
        """Relieve a broker that wants to stop; return what it still leads although others could.

        `registration` is -1 in versions of the request that do not name it: then it is about who is there now.
        """
        office = self._require_office()
        if registration == -1:
            registration = office.core.brokers.get(broker, registration)
        await self.happens(ShutdownAsked(broker, registration))
        if office.core.brokers.get(broker) != registration:  # it may be so only since we waited for our turn
            raise KafkaError(f"broker {broker} has registered again since", code=ErrorCode.STALE_BROKER_EPOCH)
        return office.core.led_by(broker)

    def replicas_stopped(self, broker: BrokerId, registration: int, names: frozenset[TopicPartition]) -> None:
        """Go on with what waited for replicas to be deleted."""
        self._spawn(self._happens_quietly(ReplicasStopped(broker, registration, names)))

    def replicas_failed(self, broker: BrokerId, registration: int, names: frozenset[TopicPartition]) -> None:
        """Let others lead what a broker cannot serve."""
        self._spawn(self._happens_quietly(ReplicasFailed(broker, registration, names)))

    def replicas_served(self, broker: BrokerId, registration: int, names: frozenset[TopicPartition]) -> None:
        """Count on a broker again where it serves what it could not serve before: in another log dir, perhaps."""
        office = self._office
        if office is not None and (mended := office.core.broken_on(broker, names)):
            self._spawn(self._happens_quietly(ReplicasServed(broker, registration, mended)))

    def deposed(self) -> None:
        """Step down: a broker has heard of a newer controller."""
        if self._office is not None:
            self._step_down(self._office, Deposed("a broker has heard of a newer controller"))

    def not_heard(self) -> None:
        """Make way for a controller that is heard, if with us less than half of the brokers are left that hear us.

        They would go on as they were told last, and partitions that are meant to move would be led by nobody. Who is
        cut off from half of the cluster or less stays: the other side would be no better off.
        """
        office = self._office
        if office is not None:
            heard = sum(messenger.is_heard for messenger in office.messengers.values())
            if 2 * heard < len(office.messengers):
                self.makes_way_until = asyncio.get_running_loop().time() + _MAKE_WAY_S
                self._step_down(
                    office, KafkaError(f"{heard} of {len(office.messengers)} brokers hear it, itself included")
                )

    async def _happens_quietly(self, event: Event) -> None:
        try:
            await self.happens(event)
        except KafkaError as error:
            events.info("event_dropped", controller_event=type(event).__name__, reason=str(error))

    async def _balance_now_and_then(self, office: Office) -> None:
        while self._office is office:
            await asyncio.sleep(self._config[replication.LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS])
            if all(messenger.has_told for messenger in office.messengers.values()):  # nobody needs to be moved now
                tolerated = self._config[replication.LEADER_IMBALANCE_PER_BROKER_PERCENTAGE]
                await self._happens_quietly(BalanceDue(tolerated))

    # Effects --------------------------------------------------------------------------------------------------------

    async def _carry_out(self, office: Office, effects: list[Effect]) -> None:
        """Do what the core wants, in its order. What is written is fed back, and told, before anything else happens."""
        await self._do_all(office, effects)
        self._watch_moves(office)

    async def _do_all(self, office: Office, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case WriteStates(changes):
                    async with aclosing(office.store.write_states(changes)) as pieces:
                        async for written in pieces:
                            await self._do_all(office, office.core.step(written))
                case WriteAssignments(topics):
                    for name in topics:
                        await office.store.write_assignment(office.core.topics[name])
                case FinishDeletion(name):
                    await office.store.finish_deletion(name)
                    office.deleted(name)
                case telling:
                    office.tell(telling)

    def _watch_moves(self, office: Office) -> None:
        """Look at partitions that move as soon as their replicas catch up: notices of leaders come seconds later."""
        moving = {name for name, _ in office.core.moving()}
        for name in office.watched_moves.keys() - moving:
            office.watched_moves.pop(name)()
        for name in moving - office.watched_moves.keys():
            look = functools.partial(self._move_may_have_arrived, office, name)
            office.watched_moves[name] = self._coordination.watch_node(paths.partition_state(*name), look)
            look()

    def _move_may_have_arrived(self, office: Office, name: TopicPartition) -> None:
        self._spawn(self._look_at_move(office, name))

    async def _look_at_move(self, office: Office, name: TopicPartition) -> None:
        async with self._turn:
            if self._office is not office or name not in office.watched_moves:
                return
            try:
                states = await office.store.states([name])
                if states != office.known_states(states):
                    await self._carry_out(office, office.core.step(IsrNoticed(states)))
            except (CoordinationError, Deposed) as error:
                self._step_down(office, error)

    def when_deleted(self, topic: str) -> asyncio.Future[None]:
        """Return what is done once a topic's last replica is gone and it is forgotten."""
        return self._require_office().when_deleted(topic)

    # Brokers and notices --------------------------------------------------------------------------------------------

    def _brokers_may_have_changed(self) -> None:
        self._spawn(self._look_at_brokers())

    def _leaders_gave_notice(self) -> None:
        self._spawn(self._look_at_notices())

    def _a_log_dir_may_have_failed(self) -> None:
        self._spawn(self._look_at_log_dirs())

    async def _look_at_log_dirs(self) -> None:
        async with self._turn:
            office = self._office
            if office is None or office.news is None:
                return
            try:
                notices, brokers = await office.store.log_dir_events()
                if brokers:
                    events.warning("log_dirs_failed", brokers=",".join(map(str, sorted(brokers))))
                    await self._carry_out(office, office.core.step(LogDirsFailed(brokers)))
                await office.store.forget(notices)
            except (CoordinationError, Deposed) as error:
                self._step_down(office, error)

    async def _look_at_brokers(self) -> None:
        async with self._turn:
            office = self._office
            if office is None or office.news is None:
                return
            try:
                registrations, addresses = await office.store.brokers()
                back = returned(office.core.brokers, registrations)
                if back:
                    survivors = {broker: number for broker, number in registrations.items() if broker not in back}
                    self._meet(office, survivors, addresses)
                    await self._carry_out(office, office.core.step(BrokersChanged(survivors)))
                if registrations != office.core.brokers:
                    self._meet(office, registrations, addresses)
                    await self._carry_out(office, office.core.step(BrokersChanged(registrations)))
            except (CoordinationError, Deposed) as error:
                self._step_down(office, error)

    async def _look_at_notices(self) -> None:
        async with self._turn:
            office = self._office
            if office is None or office.news is None:
                return
            try:
                notices, names = await office.store.isr_notices()
                known = [name for name in names if office.core.find(name) is not None]
                if known:
                    await self._carry_out(office, office.core.step(IsrNoticed(await office.store.states(known))))
                await office.store.forget(notices)
            except (CoordinationError, Deposed) as error:
                self._step_down(office, error)

    def _meet(
        self, office: Office, registrations: Mapping[BrokerId, int], addresses: Mapping[BrokerId, BrokerRecord]
    ) -> None:
        """Have a messenger for each live registration, and none for others."""
        assert office.news is not None
        for broker, messenger in list(office.messengers.items()):
            if registrations.get(broker) != messenger.registration:
                office.part_with(broker)
        office.addresses.clear()
        office.addresses.update({broker: addresses[broker] for broker in registrations})
        for broker, registration in registrations.items():
            if broker in office.messengers:
                continue
            listener: Roles | RemoteListener = self._roles
            if broker != self._broker_id:
                peer = Peer(
                    office.news.address_of(broker),
                    client_id=f"controller-{self._broker_id}",
                    timeout_s=self._config[replication.CONTROLLER_SOCKET_TIMEOUT_MS] / 1000,
                )
                office.peers[broker] = peer
                on_end = functools.partial(self._process_ended, office, broker, peer)
                ProcessWatch(peer, on_end, self._spawn).start()
                listener = RemoteListener(peer)
            office.messengers[broker] = Messenger(broker, registration, listener, office.news, self)
            office.messengers[broker].start(self._spawn)

    async def _process_ended(self, office: Office, broker: BrokerId, peer: Peer) -> None:
        """Take a broker off the list whose process has ended, without waiting for its session to expire.

        Should the broker be alive after all, it finds its registration gone and registers again. Nothing is lost by
        being wrong: a new leader comes from those in sync, has a new epoch, and writes of the old one can no longer be
        committed.
        """
        if self._office is not office or office.peers.get(broker) is not peer:
            return
        await self._take_off_the_list(broker, office.core.brokers.get(broker))

    async def _take_ended_off_the_list(self, store: ControllerStore) -> None:
        """Begin without brokers that have ended and are not missed yet.

        Otherwise one that was in sync, died with its leader and is back sooner would not be trusted (it has bounced),
        in favour of a leader that is gone.
        """
        registrations, addresses = await store.brokers()
        others = [broker for broker in registrations if broker != self._broker_id]
        ended = await asyncio.gather(*(self._has_ended(addresses[broker]) for broker in others))
        for broker, is_gone in zip(others, ended, strict=True):
            if is_gone:
                await self._take_off_the_list(broker, registrations[broker])

    async def _has_ended(self, record: BrokerRecord) -> bool:
        peer = Peer(record.address(self._listener), client_id=f"controller-{self._broker_id}", timeout_s=_GLANCE_S)
        try:
            return await has_ended(peer)
        finally:
            peer.close()

    async def _take_off_the_list(self, broker: BrokerId, registration: int | None) -> None:
        events.warning("broker_process_ended", broker=broker)
        try:
            node = await self._coordination.read(paths.broker(broker))
            if node.created == registration:
                await self._coordination.delete(paths.broker(broker))
        except NoNode:
            return
        except CoordinationError as error:
            events.info("dead_broker_not_removed", broker=broker, reason=str(error))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            events.error("controller_task_failed", cause=error)
            if self._office is not None:
                self._step_down(self._office, KafkaError(f"internal error: {error!r}"))
