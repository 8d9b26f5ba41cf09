"""Run Apache Kafka in the foreground, to see what it does: `python -m benchmarks.apache_kafka`.

The tests of `tests/clients` run against it with `HIGHWATER_TEST_BOOTSTRAP` set to the address that it prints.
"""

import signal
import tempfile
from pathlib import Path

from benchmarks.brokers import ApacheKafka


def main() -> None:
    """Run until Ctrl-C; the data goes when it ends."""
    with tempfile.TemporaryDirectory(prefix="apache-kafka-") as directory, ApacheKafka(Path(directory) / "1") as broker:
        print(f"HIGHWATER_TEST_BOOTSTRAP={broker.bootstrap}", flush=True)
        signal.sigwait({signal.SIGINT, signal.SIGTERM})


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    main()
