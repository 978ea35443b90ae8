"""Starting, stopping, restarting and losing nodes."""

import os
import shutil
import signal
import time

from clustercase import ClusterCase
from lqcluster import wait_until

import lqcase
import lqserver
import lqwire


class Restart(ClusterCase):
    def test_what_was_granted_is_held_after_all_were_killed(self):
        keys = [self.key() for _ in range(20)]
        nodes = list(self.cluster.nodes.values())
        tokens = [self.grant(self.to(nodes[i % 3]), key, lease=120) for i, key in enumerate(keys)]
        with self.to(nodes[0]) as c:
            self.assertReleased(c, keys[0], tokens[0])
        for node in nodes:
            node.kill()
        for node in nodes:
            node.start()
        self.cluster.wait_ready()
        self.assertFalse(self.held(nodes[0], keys[0]))
        for i, key in enumerate(keys[1:]):
            self.assertTrue(self.held(nodes[i % 3], key))
        with self.to(nodes[1]) as c:
            self.assertGreater(self.grant(c, self.key()), max(tokens))
            self.assertReleased(c, keys[1], tokens[1])

    def test_a_follower_catches_up(self):
        leader, follower = self.cluster.wait_for_leader(), self.cluster.followers()[0]
        follower.kill()
        key = self.key()
        token = self.grant(self.to(leader), key, lease=120)
        follower.start().wait_ready()
        self.assertTrue(self.held(follower, key))
        self.assertReleased(self.to(follower), key, token)

    def test_orderly_stop_of_the_leader(self):
        """Those who wait at other nodes keep their places and connections; its own clients get E 6."""
        leader, other = self.cluster.wait_for_leader(), self.cluster.followers()[0]
        key = self.key()
        holder, waiters, own = self.to(other), [self.to(other) for _ in range(3)], self.to(leader)
        token = self.grant(holder, key, lease=120)
        owners = [self.queue(c, key) for c in waiters]
        self.settle(own)
        leader.stop()
        self.assertErrorEnd(own, lqwire.ERROR_SHUTTING_DOWN)
        for c, owner in zip(waiters, owners):
            self.assertReleased(holder, key, token)
            token = self.assertGrantedTo(c, key, owner, above=token)
            holder = c
        self.assertIn("asks for votes", "".join(x.story() for x in self.cluster.running()))

    def test_hand_over_is_quick(self):
        """The next leader is there before the old one has ended: nobody has to notice that it is gone."""
        leader = self.cluster.wait_for_leader()
        others = self.cluster.followers()
        os.kill(leader.pid, signal.SIGTERM)
        wait_until("another one leads", lambda: self.cluster.leader(other_than=leader) in others, 5)
        self.assertEqual(leader.wait(), 0)

    def test_alone_without_majority(self):
        """Nothing is granted, nothing is invented; it goes on when the others are back."""
        leader = self.cluster.wait_for_leader()
        others = self.cluster.followers()
        for node in others:
            node.kill()
        c, key = self.to(leader), self.key()
        wait_until("it does not lead", lambda: leader.status()["role"] != "leader")
        owner = self.owner()
        started = time.monotonic()
        self.assertEqual(c.acquire(key, owner), lqwire.busy(key, owner))
        self.assertGreaterEqual(time.monotonic() - started, 0.9)
        owner = self.owner()
        self.assertEqual(c.acquire(key, owner, wait=2), lqwire.timed_out(key, owner))
        self.assertFalse(leader.is_ready())
        for node in others:
            node.start()
        self.cluster.wait_ready()
        self.assertFree(c, key)


class Refused(ClusterCase):
    def start_refused(self, node, *needles):
        with self.assertRaises(lqserver.ServerTrouble) as caught:
            node.start()
        for needle in needles:
            self.assertIn(needle, str(caught.exception))

    def test_two_processes_on_one_directory(self):
        node = self.cluster[1]
        other = self.cluster.add_node(9)
        other.data_dir = node.data_dir
        other.configure()
        other.options[0] = "--node-id=1"
        self.start_refused(other, str(node.pid))
        node.wait_ready()  # a busy machine elects now and then

    def test_empty_directory_without_founding_or_joining(self):
        self.start_refused(self.cluster.add_node(9).configure(), "--bootstrap", "--cluster-id")

    def test_directory_of_another_node_or_cluster(self):
        node = self.cluster[1]
        node.stop()
        node.options = [o for o in node.options if "bootstrap" not in o and "initial" not in o]
        node.options[0] = "--node-id=2"
        self.start_refused(node, "node 1")
        node.options[0] = "--node-id=1"
        node.options.append("--cluster-id=00000000000000aa")
        self.start_refused(node, "cluster")
        node.options.pop()
        node.start().wait_ready()

    def test_lost_disk(self):
        """It is refused under its old number, says so and how to rejoin, and comes back under a new one."""
        node = self.cluster[3]
        key = self.key()
        token = self.grant(self.to(self.cluster[1]), key, lease=200)
        node.kill()
        shutil.rmtree(node.data_dir)
        node.start()
        line = node.wait_for_log(lambda pairs: "refused by a node" in pairs.get("msg", ""), 10)
        self.assertIsNotNone(line, node.story())
        self.assertIn("disk was lost", line["why"])
        self.assertIn("member replace", line["advice"])
        wait_until("it says why it is not ready", lambda: "disk" in str(node.ask("GET", "/readyz")[1]))
        node.stop()
        new = self.cluster.add_node(4)
        self.cluster.nodes.pop(3)
        leader = self.cluster.wait_for_leader()
        new.configure("--cluster-id=%s" % leader.status()["cluster_id"]).start()
        self.change("POST", "/v1/members/3/replace", {"node": 4, "address": new.peer_text})
        new.wait_ready()
        self.assertTrue(self.held(new, key))
        self.assertReleased(self.to(new), key, token)
        members = {m["node"]: m["role"] for m in new.status()["members"]}
        self.assertEqual(members, {1: "voter", 2: "voter", 4: "voter"})

    def test_other_first_members(self):
        """A node whose list differs is of another cluster, and says so."""
        stray = self.cluster.add_node(8)
        founding = "--initial-cluster=8=%s,1=%s" % (stray.peer_text, self.cluster[1].peer_text)
        stray.configure("--bootstrap", founding).start()
        line = stray.wait_for_log(lambda pairs: "refused by a node" in pairs.get("msg", ""), 10)
        self.assertIsNotNone(line, stray.story())
        self.assertIn("another cluster", line["why"])
        self.assertFalse(stray.is_ready())
        self.cluster[1].wait_ready()
        stray.kill()


class Alone(ClusterCase):
    n_nodes = 1

    def test_cluster_of_one(self):
        node, key = self.cluster[1], self.key()
        token = self.grant(self.to(node), key, lease=100)
        node.kill()
        node.start().wait_ready()
        self.assertTrue(self.held(node, key))
        self.assertReleased(self.to(node), key, token)
        started = time.monotonic()
        node.stop()
        self.assertLess(time.monotonic() - started, lqcase.SLACK + 1)

    def test_one_grows_to_three(self):
        node, key = self.cluster[1], self.key()
        token = self.grant(self.to(node), key, lease=100)
        for number in (2, 3):
            new = self.cluster.add_node(number)
            new.configure("--cluster-id=%s" % node.status()["cluster_id"]).start()
            self.change("POST", "/v1/members", {"node": number, "address": new.peer_text})
            self.change("POST", "/v1/members/%d/promote" % number)
            new.wait_ready()
        node.kill()
        self.cluster.wait_for_leader(other_than=node)
        self.assertReleased(self.to(self.cluster[3]), key, token)
