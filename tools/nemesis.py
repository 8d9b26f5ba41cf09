"""`make nemesis`: a cluster is broken at random while real clients write and read, for ten minutes or as long as asked.

python tools/nemesis.py --seconds 600 --seed 1
"""

import argparse
import random
import sys
import time

from confluent_kafka.admin import AdminClient, NewTopic

from highwater.testing import skewed_clock
from highwater.testing.cluster import ClusterProcesses
from highwater.testing.nemesis import FAULTS, SETTINGS, Nemesis
from highwater.testing.network import Network
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until
from highwater.testing.workload import Workload

TOPIC = "ledger"
PARTITIONS = 6


def main() -> None:
    """Break things until the time is up; exit 1 if anything is wrong with what clients saw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))  # noqa: S311 - not a secret
    options = parser.parse_args()
    print(f"nemesis: {options.seconds:g} s with seed {options.seed}", flush=True)
    wrong = run(options.seconds, random.Random(options.seed))  # noqa: S311 - a seed must replay
    for line in wrong:
        print(f"  {line}")
    sys.exit(bool(wrong))


def run(seconds: float, dice: random.Random) -> list[str]:
    """Return what is wrong in the end."""
    with Network() as network, ClusterProcesses(3, SETTINGS, module=skewed_clock.MODULE, network=network) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(PATIENCE_SECONDS)
        with Workload(cluster.bootstrap_servers, TOPIC, PARTITIONS) as workload:
            nemesis = Nemesis(cluster, network, TOPIC, dice=dice, while_broken=workload.go_on)
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline and not workload.failures:
                workload.go_on()
                fault, began = dice.choice(FAULTS), time.monotonic()
                getattr(nemesis, fault)()
                acknowledged = workload.acknowledged
                print(f"{fault:35}{time.monotonic() - began:6.1f} s{acknowledged:10} acknowledged", flush=True)
            violations = workload.finish()
            wrong = [*workload.failures, *map(str, violations)]
        wait_until(nemesis.logs_are_equal, "all replicas hold the same bytes")
        for line in workload.begun_anew:
            print(f"not the brokers': {line}")
        print(f"{workload.acknowledged} writes acknowledged, {len(wrong)} things wrong")
    return wrong


if __name__ == "__main__":
    main()
