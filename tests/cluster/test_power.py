"""All three nodes lose their power at once, at random moments under load, again and again: what was acknowledged stands.

LQ_POWER_ROUNDS is the number of rounds (6). A round that fails names its seed and what each power loss did."""

import os
import time

from layers import LayeredCase
from ledger import Ledger
from load import Load, verdict

import lqserver

ROUNDS = int(os.environ.get("LQ_POWER_ROUNDS") or (100 if os.environ.get("LQ_LONG") else 6))
MIX = "hot=8,churn=8,long=4,dying=2,burst=2,cancel=3,stranger=3"
GO_ON_SECONDS = 0.3


class PowerCase(LayeredCase):
    seconds = 120 if ROUNDS <= 6 else 3600

    def setUp(self):
        super().setUp()
        self.ledger = Ledger(self.cluster.nodes.values(), self.random.getrandbits(64))

    def round(self, mode="random", skips=False):
        """Returns (what the ledger found, the case of the judge, what the power losses did)."""
        nodes = list(self.cluster.nodes.values())
        load = Load(self.cluster.folder, nodes, MIX, self.random.getrandbits(32))
        fault = load.fault("power", *nodes)  # all along: this is about what is lost, not about what is late
        try:
            load.wait_flowing()
            for node in nodes:
                node.layer.skip_syncs(skips)
            self.ledger.begin()
            load.wait_flowing(1)
            time.sleep(self.random.random() * 0.6)  # the random moment
            story = self.lose_power(nodes, mode)
            self.ledger.end()
            for node in nodes:
                node.start()
            self.cluster.wait_ready()
            load.healed(fault)
            found = self.ledger.faults(self.random.choice(nodes))
            time.sleep(GO_ON_SECONDS)
            load.end()
        finally:
            load.kill()
        return found, load.judge(), story

    def lose_power(self, nodes, mode):
        for node in nodes:
            node.process.kill()  # all of them before the first is waited for
        for node in nodes:
            node.kill()
        return [node.layer.power_loss(self.random.getrandbits(32), mode) for node in nodes]


class PowerLoss(PowerCase):
    def test_what_was_acknowledged_stands(self):
        for number in range(ROUNDS):
            found, case, story = self.round()
            told = "round %d: %s" % (number, "; ".join(story))
            self.assertEqual(found, [], told)
            if case.violations:
                self.fail("%s\n%s" % (told, verdict(case)))
            self.assertGreater(case.checked["one holder"], 0)
            for node in self.cluster.nodes.values():
                node.check_log()


class WithoutSyncs(PowerCase):
    def test_it_is_found_out(self):
        """A test that does not see this could not see anything."""
        found, case, story = self.round("nothing", skips=True)
        self.assertTrue(any("and is free" in text for text in found), story)
        self.assertTrue(case.violations, story)
