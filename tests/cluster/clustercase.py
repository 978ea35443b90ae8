"""The ground of the tests here: a cluster per class, or per test, and the small steps that tests of clusters take."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from lqcluster import Cluster, wait_until  # noqa: E402  (also finds the two below)

import lqcase  # noqa: E402
import lqwire  # noqa: E402


class ClusterCase(lqcase.LoquetCase):
    """`self.cluster` is of three nodes, ready, new for each test. Connections name their node."""

    starts_server = False
    n_nodes = 3
    options = ()

    def setUp(self):
        super().setUp()
        self.cluster = Cluster(self.n_nodes, self.options, self.prepare)
        self.addCleanup(self.cluster.kill)
        self.addCleanup(self.tell_story)
        self.cluster.start()

    def prepare(self, node):
        """May change a node before its first start."""

    def tell_story(self):
        """The logs, if the test failed."""
        outcome = getattr(self, "_outcome", None)
        if outcome is not None and not outcome.success:
            for node in self.cluster.nodes.values():
                lqcase.notes.append("after %s, node %d%s" % (self.id(), node.id, node.story(25)))

    def to(self, node, **kwargs):
        c = lqwire.Connection(node.client, **kwargs)
        self.addCleanup(c.close)
        return c

    def held(self, node, key):
        """Whether an attempt through that node says that the key is held; what it is granted is given back."""
        with lqwire.Connection(node.client) as c:
            owner = self.owner()
            answer = c.acquire(key, owner)
            if answer.op == "A":
                self.assertReleased(c, key, answer.token)
                return False
            self.assertEqual(answer, lqwire.timed_out(key, owner))
            return True

    def change(self, method, path, body=None):
        """Asks whoever leads until it is done, as `loquet member` does."""
        def done():
            leader = self.cluster.leader()
            if leader is None:
                return False
            status, answer = leader.ask(method, path, body)
            self.assertIn(status, (0, 200, 202, 409), answer)
            return status == 200

        wait_until("%s %s %s" % (method, path, body), done, 60)
