"""The library in front of a cluster that is hurt: nobody is told what is not so. LQ_LIBRARY_SECONDS says for how long."""

import os
import time

from librarycase import LibraryCase
from load import verdict

SECONDS = int(os.environ.get("LQ_LIBRARY_SECONDS") or (600 if os.environ.get("LQ_LONG") else 25))
GRACE_MS = 3000  # what a fault may still cost a caller when it is over: the margin for an answer, and another connection
LATE_MS = 5000  # slow disks are not looked for


class Faults(LibraryCase):
    seconds = SECONDS + 120

    def kill(self, load, node):
        """One node, and back again."""
        fault = load.fault("kill", node)
        node.kill()
        time.sleep(self.random.random())
        node.start().wait_ready()
        load.healed(fault)

    def freeze(self, load, node):
        fault = load.fault("freeze", node)
        node.freeze()
        time.sleep(0.2 + self.random.random() * 9 * (self.random.random() < 0.4))
        node.thaw()
        load.healed(fault)

    def cut(self, load, node):
        """Connections to one node, or to all."""
        for relay in self.random.choice(([self.relays[node.id]], self.relays.values())):
            fault = load.fault("cut", node)
            relay.cut()
            load.healed(fault)

    def stall(self, load, node):
        """The network to one node, or to all: what is on its way arrives late."""
        seconds = 0.1 + self.random.random() * 3
        fault = load.fault("stall", node)
        for relay in self.random.choice(([self.relays[node.id]], self.relays.values())):
            relay.stall(seconds)
        time.sleep(seconds)
        load.healed(fault)

    def hurt(self, load, until):
        nodes = list(self.cluster.nodes.values())
        acts = (self.kill, self.freeze, self.cut, self.stall)
        while time.monotonic() < until:
            self.random.choice(acts)(load, self.random.choice(nodes))
            time.sleep(self.random.random() * 2)

    def test_nobody_is_told_what_is_not_so(self):
        load = self.work()
        try:
            load.wait_flowing()
            self.hurt(load, time.monotonic() + SECONDS)
            self.cluster.wait_ready()
            time.sleep(GRACE_MS / 1000)
            load.event("calm", within_s=6)  # a wait of 8 s may be over then
            load.wait_flowing()
            load.end()
        finally:
            load.kill()
        case = load.judge(grace_ms=GRACE_MS, late_ms=LATE_MS)
        if case.violations:
            self.fail("%s\nhistory: %s" % (verdict(case), load.keep("/tmp/lq-library-history")))
        for rule in ("one holder", "certain leases", "T", "R and K", "connections"):
            self.assertGreater(case.checked[rule], 0, rule)
