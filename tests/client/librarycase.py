"""The ground of the tests of the library: lq_users, many threads with one blocking client, in front of a cluster."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("cluster", "integration"):
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), folder))

from clustercase import ClusterCase  # noqa: E402
from load import Load  # noqa: E402
from relay import Relay  # noqa: E402

USERS = os.environ.get("LQ_USERS", "")


class LibraryLoad(Load):
    """lq_users instead of the driver of the judge. Its threads are of node 0, since the library goes where it likes:
    each fault excuses them while it lasts, and for a little longer."""

    def command(self, nodes, mix, seed, name, options):
        endpoints = ",".join("%s:%d" % address for address in nodes)
        return [USERS, "--endpoints", endpoints, "--out", self.out, "--threads", str(mix), "--seed", str(seed)]

    def fault(self, what, *nodes):
        number = super().fault(what, *nodes)
        self.events[-1]["nodes"].append(0)
        return number


class LibraryCase(ClusterCase):
    """`self.relays`: one in front of each node, which the library talks to."""

    def setUp(self):
        super().setUp()
        self.assertTrue(os.access(USERS, os.X_OK), "LQ_USERS names no program")
        self.relays = {}
        for number, node in self.cluster.nodes.items():
            self.relays[number] = Relay(node.client)
            self.addCleanup(self.relays[number].close)

    def work(self, threads=28):
        addresses = [relay.address for relay in self.relays.values()]
        return LibraryLoad(self.cluster.folder, addresses, threads, self.random.getrandbits(32))
