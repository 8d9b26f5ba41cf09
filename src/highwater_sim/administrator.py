"""An administrator who moves, adds, makes, deletes and configures what there is, and elects leaders, all the time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from highwater.coordination import paths
from highwater.coordination.records import decode_controller
from highwater.model.errors import ErrorCode, KafkaError
from highwater.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from highwater.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from highwater.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from highwater.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from highwater.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from highwater.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from highwater_history.history import Fault, Place
from highwater_sim.client import Client

if TYPE_CHECKING:
    from collections.abc import Sequence

    from highwater_history.history import History
    from highwater_sim.cluster import Cluster

SCRATCH: Final = "scratch"
TIMEOUT_MS: Final = 3000
HANGING_UP: Final = 0.3
"""How often it does not wait for the answer."""
SHORT_PATIENCE_S: Final = 0.006
"""A change takes about as long."""
TOPIC_RESOURCE: Final = 2


class Administrator(Client):
    """Changes the cluster now and then; that a change is refused is no news."""

    def __init__(self, cluster: Cluster, name: str, history: History) -> None:
        super().__init__(cluster, name, history)
        self._store = cluster.store
        self._brokers = [machine.broker_id for machine in cluster.machines]

    async def run(self, places: Sequence[Place], *, pause_s: float) -> None:
        """Change something for ever, and do not always wait for the answer."""
        while True:
            await self.rest(pause_s)
            patience_s = self.random.uniform(0, SHORT_PATIENCE_S) if self.random.random() < HANGING_UP else None
            try:
                async with asyncio.timeout(patience_s):
                    await self._change_something(places)
            except KafkaError as error:
                self._note(f"refused: {error}")
            except TimeoutError:
                self._note("hangs up")
                self.hang_up()

    async def _change_something(self, places: Sequence[Place]) -> None:
        match self.random.randrange(5):
            case 0:
                await self._move(self.random.choice(list(places)))
            case 1:
                await self._elect()
            case 2:
                await self.create([CreatableTopic(name=SCRATCH, num_partitions=2, replication_factor=2)])
            case 3:
                await self._configure(self.random.choice([SCRATCH, *{place.topic: None for place in places}]))
            case _:
                await self._delete()

    def _note(self, what: str) -> None:
        self.history.add(Fault(self.now, f"administrator: {what}"))

    def _controller(self) -> int:
        """Return who is the controller; what a client would ask a broker, it reads from the store."""
        node = self._store.find(paths.CONTROLLER)
        return self.any_broker() if node is None else decode_controller(paths.CONTROLLER, node.data)

    async def create(self, topics: list[CreatableTopic]) -> set[str]:
        """Make topics; return those that are there now."""
        request = CreateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS)
        answer = await self.ask(self._controller(), request, CreateTopicsResponse, version=7)
        return {topic.name for topic in answer.topics if topic.error_code in {0, 36}}  # 36: it is there already

    async def add_partition(self, topic: str, count: int) -> Place | None:
        """Give a topic its next partition, so that there are `count`; return it when it is certain that it is there."""
        self._note(f"{topic} shall have {count} partitions")
        wanted = CreatePartitionsTopic(name=topic, count=count, assignments=None)
        request = CreatePartitionsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS)
        answer = await self.ask(self._controller(), request, CreatePartitionsResponse, version=3)
        # That there are as many already says that an earlier attempt was carried out without our hearing of it.
        is_there = answer.results[0].error_code in {ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS}
        return Place(topic, count - 1) if is_there else None

    async def _delete(self) -> None:
        self._note(f"delete {SCRATCH}")
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=SCRATCH)], timeout_ms=TIMEOUT_MS)
        await self.ask(self._controller(), request, DeleteTopicsResponse, version=6)

    async def _configure(self, topic: str) -> None:
        """Give a topic a setting that nobody notices, through any broker."""
        value = str(self.random.randint(1, 10**9))
        self._note(f"{topic} shall have index.interval.bytes={value}")
        setting = AlterableConfig(name="index.interval.bytes", config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[setting])
        request = IncrementalAlterConfigsRequest(resources=[resource])
        await self.ask(self.any_broker(), request, IncrementalAlterConfigsResponse, version=1)

    async def _elect(self) -> None:
        self._note("elect preferred leaders")
        request = ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=TIMEOUT_MS)
        await self.ask(self._controller(), request, ElectLeadersResponse, version=2)

    async def _move(self, place: Place) -> None:
        """Let a partition be on two brokers or more, in another order."""
        replicas = self.random.sample(self._brokers, self.random.randint(2, len(self._brokers)))
        self._note(f"move {place} to {replicas}")
        partition = ReassignablePartition(partition_index=place.partition, replicas=replicas)
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=TIMEOUT_MS, topics=[ReassignableTopic(name=place.topic, partitions=[partition])]
        )
        await self.ask(self._controller(), request, AlterPartitionReassignmentsResponse, version=0)
