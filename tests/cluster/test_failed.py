"""A node that stops itself ends as such, however many clients it has."""

from clustercase import ClusterCase
from lqcluster import wait_until

import lqcase

CLIENTS = 400  # more than are closed in one turn of the loop
EXIT_FAILED = 3


class Failed(ClusterCase):
    def test_a_removed_node_with_many_clients(self):
        leader, node = self.cluster.wait_for_leader(), self.cluster.followers()[0]
        other = self.cluster.followers()[1]
        key = self.key()
        holder, waiters = self.to(leader), [self.to(node) for _ in range(CLIENTS)]
        token = self.grant(holder, key, lease=120)
        for c in waiters[:20]:
            self.queue(c, key)
        wait_until("they are connected", lambda: node.status()["connections"] == CLIENTS)
        wait_until("they wait", lambda: leader.status()["table"]["waiters"] == 20)
        self.change("POST", "/v1/members/%d/remove" % node.id, {})
        self.assertEqual(node.wait(lqcase.SLACK + 5), EXIT_FAILED, node.story())
        self.assertIn("removed from the cluster", node.story())
        for c in waiters:
            self.assertEqual(c.receive_to_end(), [])
        self.assertReleased(holder, key, token)
        self.assertFree(self.to(other), key)
