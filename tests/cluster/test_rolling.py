"""A rolling restart under load: all three nodes, one after the other, in an orderly way."""

import os
import signal

from clustercase import ClusterCase
from load import Load, verdict

MIX = "hot=12,churn=12,poll=4,long=4,burst=4,cancel=4,stranger=4"
LATE_MS = 5000  # this is not about slow disks
ROUNDS = 20 if os.environ.get("LQ_LONG") else 1


class Rolling(ClusterCase):
    seconds = 120 * ROUNDS

    def restart(self, load, node):
        """SIGTERM, and again ready. What is excused is what its own clients see of it."""
        fault = load.fault("stop", node)
        node.stop(signal.SIGTERM)
        node.start().wait_ready()
        load.healed(fault)
        load.wait_flowing()

    def judged(self, load):
        case = load.judge(late_ms=LATE_MS)
        self.assertFalse(case.violations, verdict(case))
        return case

    def test_rolling_restart(self):
        """Who is at a node that is up loses neither connection nor request; the others are told (E 6) and go elsewhere."""
        nodes = list(self.cluster.nodes.values())
        for _ in range(ROUNDS):
            load = Load(self.cluster.folder, nodes, MIX, self.random.getrandbits(32))
            try:
                load.wait_flowing()
                for node in self.random.sample(nodes, len(nodes)):
                    self.restart(load, node)
                load.event("calm", within_s=2)
                load.end()
            finally:
                load.kill()
            case = self.judged(load)
            self.assertGreater(case.checked["connections"], 44, "nobody went elsewhere")
            closed = [c for c in case.history.connections.values() if c.error is not None]
            self.assertTrue(closed and all(c.error["code"] == 6 for c in closed), closed)

    def test_leader_first(self):
        """Each time the one that leads: the hand-over, three times in a row."""
        load = Load(self.cluster.folder, self.cluster.nodes.values(), MIX, self.random.getrandbits(32))
        try:
            load.wait_flowing()
            for _ in range(3):
                self.restart(load, self.cluster.wait_for_leader())
            load.end()
        finally:
            load.kill()
        self.judged(load)
