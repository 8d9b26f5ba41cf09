"""Damaged requests of every API against a running broker: it answers or hangs up, and never stumbles.

A short run is part of the suite. A long one, with another seed:
`HIGHWATER_FUZZ_FRAMES=1000000 HIGHWATER_FUZZ_SEED=7 pytest tests/clients/test_live_fuzz.py`
"""

import os
import socket
from random import Random
from typing import Final

import pytest

from highwater.testing.broker import BrokerProcess
from highwater.testing.frames import every_request, framed, mutated, random_request
from highwater.testing.plugin import BrokerFactory
from highwater.testing.process import peak_resident_bytes
from highwater.testing.waiting import PATIENCE_SECONDS

FRAMES: Final = int(os.environ.get("HIGHWATER_FUZZ_FRAMES", "4000"))
SEED: Final = int(os.environ.get("HIGHWATER_FUZZ_SEED", "1"))
UNDAMAGED_SHARE: Final = 0.2
"""Requests that are sound in form and random in content reach further than damaged ones."""

MEMORY_LIMIT_BYTES: Final = 300 << 20
FRAMES_PER_SECOND_AT_LEAST: Final = 100


def exchange(broker: BrokerProcess, request: bytes) -> None:
    """Send one request on a connection of its own and wait until the broker is done with it."""
    with socket.create_connection((broker.host, broker.port), PATIENCE_SECONDS) as client:
        try:
            client.sendall(framed(request))
            client.shutdown(socket.SHUT_WR)
            while client.recv(65536):
                pass
        except (ConnectionResetError, BrokenPipeError):
            pass  # it hung up before it had read everything


class Watch:
    """Follows a broker's log and process while it is being fuzzed."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        self._seen = 0

    def assert_unharmed(self, number: int) -> None:
        """The process lives within its memory, and no handler met anything that it had not expected."""
        so_far = f"seed {SEED}, up to frame {number}"
        with self._broker.log_file.open(encoding="utf-8", errors="replace") as log:
            log.seek(self._seen)
            new_lines = log.read()
            self._seen = log.tell()
        before, stumble, after = new_lines.partition("Traceback")
        assert not stumble, f"{so_far}: {before[-300:]}{stumble}{after[:3000]}"
        assert self._broker.is_running, f"{so_far}: the broker is gone: {new_lines[-2000:]}"
        assert peak_resident_bytes(self._broker.pid) < MEMORY_LIMIT_BYTES


@pytest.mark.timeout(300 + FRAMES / FRAMES_PER_SECOND_AT_LEAST)
def test_no_request_however_damaged_makes_the_broker_stumble(start_broker: BrokerFactory) -> None:
    broker = start_broker()
    watch = Watch(broker)
    kinds = list(every_request())
    for number in range(FRAMES):
        random = Random(f"{SEED}-{number}")
        api_key, version = random.choice(kinds)
        request = random_request(api_key, version, random)
        if random.random() > UNDAMAGED_SHARE:
            request = mutated(request, random)
        try:
            exchange(broker, request)
        except OSError as error:
            pytest.fail(f"seed {SEED}, frame {number} (API {api_key} v{version}): {error!r}\n{request.hex()}")
        if number % 1_000 == 999:
            watch.assert_unharmed(number)
    watch.assert_unharmed(FRAMES)
