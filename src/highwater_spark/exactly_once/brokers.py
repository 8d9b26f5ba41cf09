"""The cluster as a producer sees it: who leads a partition, who coordinates a transaction or a group."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from types import TracebackType
from typing import Final, NamedTuple, Self, TypeVar

from highwater.model.errors import ErrorCode
from highwater.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from highwater.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from highwater.protocol.schema import Message
from highwater_spark.errors import ClusterError, SetupError
from highwater_spark.exactly_once.connection import Address, Connection, Disconnected
from highwater_spark.exactly_once.patience import Patience
from highwater_spark.exactly_once.security import Security

ResponseT = TypeVar("ResponseT", bound=Message)

REQUEST_TIMEOUT_SECONDS: Final = 30.0
GROUP: Final = 0  # the kinds of key that FindCoordinator knows
TRANSACTION: Final = 1
_METADATA_VERSION: Final = 9
_FIND_COORDINATOR_VERSION: Final = 3
_DEFAULT_PORT: Final = 9092

MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
BUSY: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)


class Target(NamedTuple):
    """A partition that is written to."""

    topic: str
    partition: int


class Refused(ClusterError):
    """A broker said no, and asking again would not change it."""

    def __init__(self, code: int, what: str) -> None:
        self.code = code
        super().__init__(f"{what}: {name_of(code)}")


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the partitions of some topics are."""

    partitions: dict[str, int]  # how many each topic has
    leaders: dict[Target, Address]  # a partition without a leader is missing


def name_of(code: int) -> str:
    """Return the name of an error code; brokers may be newer than we are."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def addresses_of(bootstrap: str) -> tuple[Address, ...]:
    """Return the addresses in `host:port,host:port`."""
    found = []
    for text in bootstrap.split(","):
        host, colon, port = text.strip().rpartition(":")
        if not colon:
            host, port = text.strip(), str(_DEFAULT_PORT)
        if not host or not port.isdigit():
            raise SetupError(f"bootstrap servers: {text!r} is not host:port")
        found.append((host.strip("[]"), int(port)))
    return tuple(found)


class Brokers:
    """Connections to the brokers of one cluster, each opened when it is first needed."""

    def __init__(self, bootstrap: str, security: Security, patience_seconds: float) -> None:
        self.patience_seconds = patience_seconds
        self._bootstrap = addresses_of(bootstrap)
        self._known: tuple[Address, ...] = ()
        self._asked_last: Address | None = None
        self._security = security
        self._connections: dict[Address, Connection] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def connection(self, address: Address) -> Connection:
        """Return the connection to a broker; raises `Disconnected` if there is no way to have one."""
        if address not in self._connections:
            self._connections[address] = Connection(address, self._security, REQUEST_TIMEOUT_SECONDS)
        return self._connections[address]

    def drop(self, address: Address) -> None:
        """Give up a connection on which something went wrong."""
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()

    def call(self, address: Address, request: Message, response: type[ResponseT], version: int) -> ResponseT:
        """Ask a broker; raises `Disconnected` if no answer comes, and gives up the connection then."""
        try:
            return self.connection(address).call(request, response, version)
        except Disconnected:
            self.drop(address)
            raise

    def call_any(self, request: Message, response: type[ResponseT], version: int) -> ResponseT:
        """Ask whichever broker answers, and another one than the last time if there is one.

        A broker that has lost the cluster still answers, with what was true when it did.
        """
        failure = Disconnected("no broker is known")
        addresses = dict.fromkeys((*self._connections, *self._known, *self._bootstrap))
        for address in sorted(addresses, key=lambda address: address == self._asked_last):
            self._asked_last = address
            try:
                return self.call(address, request, response, version)
            except Disconnected as error:
                failure = error
        raise failure

    def layout(self, topics: Collection[str]) -> Layout:
        """Return where the partitions of topics are now; a topic that is not there is an error."""
        asked = MetadataRequest(
            topics=[MetadataRequestTopic(name=topic) for topic in topics], allow_auto_topic_creation=False
        )
        answer = self.call_any(asked, MetadataResponse, _METADATA_VERSION)
        brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        self._known = tuple(brokers.values())
        partitions: dict[str, int] = {}
        leaders: dict[Target, Address] = {}
        for topic in answer.topics:
            name = topic.name or ""
            if topic.error_code not in {ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE}:
                raise Refused(topic.error_code, f"topic {name!r}")
            partitions[name] = len(topic.partitions)
            for partition in topic.partitions:
                if partition.leader_id in brokers:
                    leaders[Target(name, partition.partition_index)] = brokers[partition.leader_id]
        return Layout(partitions, leaders)


class Coordinator:
    """Whoever coordinates a transactional id or a group, wherever it is at the moment."""

    def __init__(self, brokers: Brokers, key: str, kind: int) -> None:
        self._brokers = brokers
        self._key = key
        self._kind = kind
        self._address: Address | None = None

    def locate(self) -> Address:
        """Return where it is; raises `Disconnected` if nobody can say."""
        if self._address is None:
            asked = FindCoordinatorRequest(key=self._key, key_type=self._kind)
            found = self._brokers.call_any(asked, FindCoordinatorResponse, _FIND_COORDINATOR_VERSION)
            if found.error_code in MOVED | BUSY:
                raise Disconnected(f"the coordinator of {self._key!r}: {name_of(found.error_code)}")
            if found.error_code:
                raise Refused(found.error_code, f"the coordinator of {self._key!r}")
            self._address = (found.host, found.port)
        return self._address

    def ask(
        self, request: Message, response: type[ResponseT], version: int, codes: Callable[[ResponseT], list[int]]
    ) -> ResponseT:
        """Ask until there is an answer that is not "later" or "elsewhere"; raises `Refused` if it is no."""
        patience = Patience(self._brokers.patience_seconds)
        what = type(request).__name__.removesuffix("Request")
        while True:
            try:
                answer = self._brokers.call(self.locate(), request, response, version)
            except Disconnected as error:
                self._address = None
                patience.wait(f"{what} for {self._key!r}: {error}")
                continue
            problems = [code for code in codes(answer) if code]
            if not problems:
                return answer
            final = [code for code in problems if code not in MOVED | BUSY]
            if final:
                raise Refused(final[0], f"{what} for {self._key!r}")
            if any(code in MOVED for code in problems):
                self._address = None
            patience.wait(f"{what} for {self._key!r}: {name_of(problems[0])}")
