"""Clusters whose nodes work on the fault layer (tests/faults): `node.layer` of each is a FaultLayer."""

import os
import sys

import clustercase

FAULTS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "faults")
if FAULTS not in sys.path:
    sys.path.insert(0, FAULTS)

import lqfaults  # noqa: E402


def lay(node):
    """Puts the layer under a node that has not started yet."""
    os.makedirs(node.data_dir, exist_ok=True)
    node.layer = lqfaults.FaultLayer(node.data_dir, node.data_dir + "-state")
    node.environment.update(node.layer.environment(base={}))
    return node.layer


class LayeredCase(clustercase.ClusterCase):
    # Small segments and snapshots, so that a test of seconds sees many of both.
    options = ("--segment-bytes=1M", "--snapshot-entries=1000", "--trailing-entries=1000")

    def prepare(self, node):
        self.addCleanup(lay(node).close)

    def setUp(self):
        super().setUp()
        self.addCleanup(self.heal)

    def heal(self):
        """Before the nodes are killed: nobody hangs in a stall."""
        for node in self.cluster.nodes.values():
            node.layer.heal()
