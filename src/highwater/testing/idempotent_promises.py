"""What an idempotent librdkafka client can still promise of its writes: it says in its log when it gives up its epoch.

Its thread for a new leader can overtake what its thread for the old one has to send again (its issue 4953, seen there
with Apache Kafka). The new leader refuses the gap, as it must; the client then begins anew with the next producer epoch
and sends all it has under way, of which the old leader may have kept some. No broker can tell these from new records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from highwater_history.history import Send

TELLS_OF_EPOCHS: Final = {"debug": "eos", "log_level": 7}
"""The settings by which librdkafka tells its logger."""
_GIVES_UP_ITS_EPOCH: Final = "epoch bump"
_FOR_A_GAP_OF_ITS_OWN: Final = "skipped sequence numbers"


class IdempotentPromises:
    """A client's logger, which marks what the client had under way when it gave up its epoch.

    librdkafka's log is told by `poll`, in order with what became of the writes, and so in one thread with them.
    """

    def __init__(self, client: str) -> None:
        self.client = client
        self.broken_by_itself: list[str] = []
        self.broken_by_brokers: list[str] = []
        """For any other reason: a broker forgot the producer, or a write was never answered."""
        self._under_way: dict[str, Send] = {}

    def has_begun(self, send: Send) -> None:
        """Note that the client has this to send."""
        self._under_way[send.value] = send

    def has_ended(self, send: Send) -> None:
        """Note that the client knows what became of it."""
        del self._under_way[send.value]

    def log(self, _level: int, text: str, *arguments: object) -> None:
        """Hear a line of the client's log."""
        line = text % arguments
        if _GIVES_UP_ITS_EPOCH not in line:
            return
        broken = self.broken_by_itself if _FOR_A_GAP_OF_ITS_OWN in line else self.broken_by_brokers
        broken.append(f"{self.client}: {line}")
        for send in self._under_way.values():
            send.is_sent_anew = True
