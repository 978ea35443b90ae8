"""Disks that are full, fail, stall, or do not hold what was written: of one node, while the others and the clients go on."""

import errno
import glob
import os
import re

from clustercase import ClusterCase
from layers import LayeredCase
from ledger import Ledger
from lqcluster import wait_until

import lqfaults
import lqserver
import lqwire

SECTOR = 512
STATUS_FAILED = 3
BATCH_BYTES = 4096  # more than any batch of these tests has


class DiskCase(LayeredCase):
    def setUp(self):
        super().setUp()
        self.leader = self.cluster.wait_for_leader()
        self.others = [node for node in self.cluster.nodes.values() if node is not self.leader]

    def ledger(self, *nodes):
        ledger = Ledger(nodes, self.random.getrandbits(64))
        self.addCleanup(ledger.end)
        ledger.begin()
        return ledger

    def check_ledger(self, ledger, nodes):
        """What the ledger knows is so, whomever one asks."""
        ledger.end()
        self.assertGreater(len(ledger.held), 0)
        for node in nodes:
            self.assertEqual(ledger.faults(node), [])

    def wait_for_progress(self, ledger):
        before = len(ledger.held)
        wait_until("locks are granted", lambda: len(ledger.held) > before + 3)

    def logged(self, node, text):
        self.assertIsNotNone(node.wait_for_log(lambda pairs: text in pairs.get("msg", ""), 10), node.story())


class Full(DiskCase):
    # Changes of segment come often, so that a full disk is met soon.
    options = ("--segment-bytes=32K", "--snapshot-entries=1000", "--trailing-entries=1000")

    def assertUnanswered(self, node):
        """B, if it was never handed on; else nobody knows, and the session is closed."""
        with lqwire.Connection(node.client) as c:
            key, owner = self.key(), self.owner()
            try:
                self.assertEqual(c.acquire(key, owner), lqwire.busy(key, owner))
            except lqwire.Ended as end:
                self.assertEqual(end.how, "eof")

    def test_leader(self):
        """It gives up leadership and says why; the others go on; with room it is well again."""
        ledger = self.ledger(*self.others)
        full = self.leader.layer.fail("write allocate", errno.ENOSPC)
        self.logged(self.leader, "the disk is full")
        wait_until("another one leads", lambda: self.cluster.leader(other_than=self.leader) in self.others)
        wait_until("it is not ready", lambda: not self.leader.is_ready())
        self.assertIn("disk", str(self.leader.ask("GET", "/readyz")[1]))
        self.wait_for_progress(ledger)
        self.assertGreater(full.hits, 0)
        full.disarm()
        self.logged(self.leader, "the disk has room again")
        self.cluster.wait_ready()
        self.check_ledger(ledger, self.cluster.nodes.values())

    def test_both_followers(self):
        """The leader's own disk is well, but nothing can be committed: it does not say that it is ready."""
        rules = [node.layer.fail("write allocate", errno.ENOSPC) for node in self.others]
        ledger = self.ledger(*self.cluster.nodes.values())
        wait_until("nobody is ready", lambda: not any(node.is_ready() for node in self.cluster.nodes.values()))
        for rule in rules:
            rule.disarm()
        self.cluster.wait_ready()
        self.wait_for_progress(ledger)
        self.check_ledger(ledger, self.cluster.nodes.values())

    def test_all(self):
        """Nothing is accepted, nothing is invented, nothing is lost."""
        nodes = list(self.cluster.nodes.values())
        ledger = self.ledger(*nodes)
        rules = [node.layer.fail("write allocate", errno.ENOSPC) for node in nodes]
        wait_until("nobody is ready", lambda: not any(node.is_ready() for node in nodes))
        for node in nodes:
            self.assertUnanswered(node)
        for rule in rules:
            rule.disarm()
        self.cluster.wait_ready()
        self.wait_for_progress(ledger)
        self.check_ledger(ledger, nodes)


class Failing(DiskCase):
    def fail(self, node, operation):
        """It ends at once and names the file; the others lose nothing, nor does it when it is back."""
        ledger = self.ledger(*(other for other in self.cluster.nodes.values() if other is not node))
        self.wait_for_progress(ledger)
        node.layer.fail(operation, errno.EIO, "segment-*", times=1)
        self.assertEqual(node.wait(), STATUS_FAILED, node.story())
        self.assertRegex("\n".join(node.lines), r"level=error .*segment-\d+.*%s" % re.escape(os.strerror(errno.EIO)))
        node.check_log()
        self.wait_for_progress(ledger)
        node.start().wait_ready()
        self.check_ledger(ledger, self.cluster.nodes.values())

    def test_write_of_the_leader(self):
        self.fail(self.leader, "write")

    def test_sync_of_the_leader(self):
        self.fail(self.leader, "sync")

    def test_write_of_a_follower(self):
        self.fail(self.others[0], "write")

    def test_sync_of_a_follower(self):
        self.fail(self.others[0], "sync")


class Stalled(DiskCase):
    def test_leader(self):
        """A disk that hangs: another one leads, and the old leader is well when the disk is."""
        ledger = self.ledger(*self.others)
        self.wait_for_progress(ledger)
        rule = self.leader.layer.stall("sync", "segment-*")
        wait_until("another one leads", lambda: self.cluster.leader(other_than=self.leader) in self.others, 5)
        self.wait_for_progress(ledger)
        self.assertGreater(rule.hits, 0)
        rule.disarm()
        self.cluster.wait_ready()
        self.check_ledger(ledger, self.cluster.nodes.values())
        self.leader.check_log()

    def test_torn_tail(self):
        """A follower loses its power while a batch of many sectors is on the way to its disk: it says so and goes on."""
        node, key_ends = self.others[0], [b"-%d" % n + b"x" * 900 for n in range(20)]
        with lqwire.Connection(self.leader.client) as c:
            node.layer.stall("sync", "segment-*")
            keys = [self.key() + end for end in key_ends]
            c.send(b"".join(lqwire.acquire_frame(key, self.owner(), lease=200) for key in keys))
            tokens = {answer.key: answer.token for answer in c.receive_many(len(keys))}
            node.kill()
            node.layer.heal()
            node.layer.power_loss(self.random.getrandbits(32), "each")
            node.start().wait_ready()
            self.logged(node, "ends in a batch that was never finished")
            for key in keys:
                self.assertTrue(self.held(node, key))
                self.assertReleased(c, key, tokens[key])


def segments(node):
    return sorted(glob.glob(os.path.join(node.data_dir, "segment-*")))


def written_sectors(path):
    """Numbers of the sectors that are not zero, without the header and the seal."""
    with open(path, "rb") as file:
        data = file.read()
    used = [at // SECTOR for at in range(SECTOR, len(data) - SECTOR, SECTOR) if any(data[at : at + SECTOR])]
    return used


class Damaged(ClusterCase):
    """A bit that turned over while nobody looked. The node refuses to start, and rejoins under a new id."""

    options = ("--segment-bytes=1M", "--snapshot-entries=100", "--trailing-entries=100")

    def refused(self, node, path, sector):
        lqfaults.flip_bit(path, sector * SECTOR + self.random.randrange(SECTOR), self.random.randrange(8))
        with self.assertRaises(lqserver.ServerTrouble) as caught:
            node.start()
        text = str(caught.exception)
        self.assertIn("%s: journal segment %d, offset " % (path, int(path.rpartition("-")[2])), text)
        self.assertIn("new id", text)
        self.assertEqual([], [line for line in text.splitlines() if lqserver.ACCIDENT.search(line)])
        return text

    def rejoin(self, node, number):
        self.cluster.nodes.pop(node.id)
        new = self.cluster.add_node(number)
        new.configure("--cluster-id=%s" % self.cluster.wait_for_leader().status()["cluster_id"]).start()
        self.change("POST", "/v1/members/%d/replace" % node.id, {"node": number, "address": new.peer_text})
        return new.wait_ready()

    def fill(self, count):
        """So many entries at least, as each is acknowledged before the next is sent."""
        with self.to(self.cluster.wait_for_leader()) as c:
            for _ in range(count):
                self.settle(c)

    def test_bits_of_the_journal(self):
        key = self.key()
        token = self.grant(self.to(self.cluster[1]), key, lease=250)
        self.fill(20)
        for number, place in ((3, "the middle"), (4, "the last batch")):
            node = self.cluster[number]
            node.kill()
            path = [p for p in segments(node) if written_sectors(p)][-1]
            sectors = written_sectors(path)
            sector = sectors[len(sectors) // 2] if place == "the middle" else sectors[-1]
            text = self.refused(node, path, sector)
            offset = int(re.search(r"offset (\d+)", text)[1])
            self.assertTrue(0 <= sector * SECTOR - offset < BATCH_BYTES, "%s: %s" % (place, text))
            new = self.rejoin(node, number + 1)
            self.assertTrue(self.held(new, key))
        self.assertReleased(self.to(new), key, token)

    def test_newest_snapshot(self):
        """The next older one is used, and that is told."""
        node = self.cluster[3]
        key = self.key()
        token = self.grant(self.to(node), key, lease=250)
        snapshots = os.path.join(node.data_dir, "snapshot-*[0-9]")
        self.fill(60)
        wait_until("there are two snapshots", lambda: self.fill(20) or len(glob.glob(snapshots)) >= 2, 60)
        node.kill()
        newest = sorted(glob.glob(snapshots))[-1]
        lqfaults.flip_bit(newest, self.random.randrange(os.path.getsize(newest)), self.random.randrange(8))
        node.start()
        line = node.wait_for_log(lambda pairs: pairs.get("file") == os.path.basename(newest), 5)
        self.assertIsNotNone(line, node.story())
        node.wait_ready()
        self.assertTrue(self.held(node, key))
        self.assertReleased(self.to(node), key, token)
        node.stop()
