"""The loss of the leader under load, a few times, with loose bounds: failover.py is the measurement."""

import os

from clustercase import ClusterCase
from failover import Run, trouble

LONG = bool(os.environ.get("LQ_LONG"))


class Failover(ClusterCase):
    seconds = 7200 if LONG else 120

    def lose(self, way, runs, freeze_s, most_ms):
        for number in range(runs):
            run = Run(self.cluster, way, freeze_s, self.random.getrandbits(32), self.cluster.folder).run()
            wrong = trouble(run)
            self.assertEqual(wrong, "", "run %d: %s" % (number, wrong))
            self.assertLess(run.ms, most_ms, "run %d" % number)

    def check_logs(self):
        for node in self.cluster.nodes.values():
            node.check_log()


class Killed(Failover):
    def test_kill(self):
        self.lose("kill", 50 if LONG else 5, 0, 1500)
        self.check_logs()


class Frozen(Failover):
    def test_freeze(self):
        self.lose("freeze", 50 if LONG else 2, 10 if LONG else 3, 2500)
        self.check_logs()
