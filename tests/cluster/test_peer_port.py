"""Hostile bytes on the port for peers of a running node: the connection is closed, one line tells of it, and the node
and its links go on. The bytes are made from the comment of protocol/lq_message.h."""

import socket
import struct
import time

from clustercase import ClusterCase
from lqcluster import wait_until

CLOSE_SECONDS = 8.0  # who says nothing is given 5 s
REFUSAL = struct.Struct(">I4sBBHQ")
WRONG_CLUSTER, WRONG_NODE, LOST_DISK, OLD_LIFE, ANOTHER = 1, 2, 4, 6, 7
BAD_FRAME = "closed a connection to the port for peers"
REFUSED = "refused a node"
BLANK = 1


def hello(cluster, from_node, to_node, boot, flags=0):
    body = struct.pack(">4sBBHQIIQ", b"LQND", 1, flags, 0, cluster, from_node, to_node, boot)
    return struct.pack(">I", len(body)) + body


def message(kind, rest):
    body = struct.pack(">B3xQQQ", kind, 0, 0, 0) + rest
    return struct.pack(">I", len(body)) + body


class PeerPort(ClusterCase):
    def setUp(self):
        super().setUp()
        self.node = self.cluster.wait_for_leader()
        self.peer = self.cluster.followers()[0]
        self.term = self.node.status()["term"]
        self.cluster_id = int(self.node.status()["cluster_id"], 16)
        self.since = {}
        self.links = self.count("link up")

    def count(self, text, node=None):
        return sum('msg="%s"' % text in line for line in (node or self.node).lines)

    @staticmethod
    def boot(node):
        """Of its present life: an incarnation is that, and a count."""
        pairs = node.wait_for_log(lambda p: p.get("msg") == "serves clients", 10)
        return int(pairs["incarnation"]) >> 32

    def strange(self, data=b""):
        sock = socket.create_connection(self.node.peer, timeout=CLOSE_SECONDS)
        self.addCleanup(sock.close)
        try:
            sock.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass
        return sock

    def rest(self, sock):
        """All that it still says until it closes."""
        said = b""
        try:
            while data := sock.recv(1 << 16):
                said += data
        except (BrokenPipeError, ConnectionResetError):
            pass
        except TimeoutError:
            self.fail("the connection was not closed; it said %r" % said[:100])
        return said

    def assertRefusedFor(self, sock, *reasons):
        said = self.rest(sock)
        self.assertEqual(len(said), REFUSAL.size, said)
        reason = REFUSAL.unpack(said)[3]
        self.assertIn(reason, reasons)
        self.assertEqual(REFUSAL.unpack(said), (REFUSAL.size - 4, b"LQNR", 1, reason, 0, self.cluster_id))

    def assertUnharmed(self, lines, text, links=0):
        """Its log has so many lines of that kind; it leads as before, with its links, and grants."""
        wait_until("the log tells", lambda: self.count(text) >= lines)
        self.assertLessEqual(self.count(text), lines + 1, self.node.story())
        self.assertEqual(self.count("link up"), self.links + links, self.node.story())
        status = self.node.status()
        self.assertEqual((status["role"], status["term"]), ("leader", self.term))
        self.assertTrue(self.node.is_ready())
        self.settle(self.to(self.node))
        self.node.check_log()

    def test_random_bytes(self):
        began = time.monotonic()
        for _ in range(60):
            data = self.random.randbytes(self.random.randrange(4, 3000))
            if int.from_bytes(data[:4], "big") > 64:
                self.assertEqual(self.rest(self.strange(data)), b"")
        most = int(time.monotonic() - began) + 1  # a line a second
        self.assertLessEqual(self.count(BAD_FRAME), most, self.node.story())
        self.assertUnharmed(self.count(BAD_FRAME) or 1, BAD_FRAME)

    def test_lengths(self):
        """None of them is believed: no memory is taken, and nobody waits for so much."""
        before = self.node.resident_bytes()
        for length in (0xFFFFFFFF, 0x80000000, (4 << 20) + 1, 4 << 20, 65):
            for _ in range(20):
                self.assertEqual(self.rest(self.strange(struct.pack(">I", length) + b"LQND")), b"")
        self.assertLess(self.node.resident_bytes() - before, 16 << 20)
        self.assertUnharmed(1, BAD_FRAME)

    def test_half_a_hello(self):
        """It is not waited for without end, nor do many of them keep a peer out."""
        whole = hello(self.cluster_id, self.peer.id, self.node.id, self.boot(self.peer))
        socks = [self.strange(whole[: self.random.randrange(1, len(whole))]) for _ in range(100)]
        self.peer.kill()
        self.peer.start().wait_ready()
        for sock in socks:
            self.assertEqual(self.rest(sock), b"")
        self.assertUnharmed(1, BAD_FRAME, links=1)

    def test_wrong_cluster(self):
        for _ in range(10):
            sock = self.strange(hello(self.cluster_id ^ 1, self.peer.id, self.node.id, 1 << 40))
            self.assertRefusedFor(sock, WRONG_CLUSTER)
        self.assertUnharmed(1, REFUSED)

    def test_stranger(self):
        """A node that is no member may come before it was added, but no other may be meant, and none is this one."""
        self.assertRefusedFor(self.strange(hello(self.cluster_id, self.peer.id, 77, 1 << 20)), WRONG_NODE)
        self.assertRefusedFor(self.strange(hello(self.cluster_id, self.node.id, self.node.id, 1)), WRONG_NODE)
        self.assertUnharmed(2, REFUSED)

    def test_replayed_handshake(self):
        """While the link lives, it is kept; later, the boot counter tells."""
        said = hello(self.cluster_id, self.peer.id, self.node.id, self.boot(self.peer))
        self.assertEqual(self.rest(self.strange(said + message(11, b""))), b"", "it went on without an answer")
        self.assertUnharmed(1, BAD_FRAME)
        for _ in range(3):
            self.assertRefusedFor(self.strange(said), ANOTHER)
        self.assertUnharmed(1, REFUSED)
        self.peer.kill()
        self.peer.start().wait_ready()
        self.assertRefusedFor(self.strange(said), OLD_LIFE)
        self.assertUnharmed(2, REFUSED, links=1)

    def test_recorded_handshake(self):
        """What a node really says when it dials, taken at the address of one that is down, and said to others."""
        self.peer.kill()
        with socket.socket() as ear:
            ear.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            ear.bind(self.peer.peer)
            ear.listen()
            ear.settimeout(CLOSE_SECONDS)
            sock, _ = ear.accept()
            with sock:
                said = sock.recv(64)
        cluster, sender, receiver = struct.unpack(">QII", said[12:28])
        self.assertEqual((len(said), said[4:8], cluster, receiver), (36, b"LQND", self.cluster_id, self.peer.id))
        self.assertIn(sender, self.cluster.nodes)
        # The node that hears it has a link with the one that said it, unless that is itself.
        self.assertRefusedFor(self.strange(said), WRONG_NODE, ANOTHER)
        self.peer.start().wait_ready()
        self.assertUnharmed(1, REFUSED, links=1)

    def test_blank_node_with_a_known_id(self):
        self.peer.kill()
        for _ in range(5):
            sock = self.strange(hello(self.cluster_id, self.peer.id, self.node.id, self.random.randrange(1, 1 << 32), BLANK))
            self.assertRefusedFor(sock, LOST_DISK)
        self.peer.start().wait_ready()
        self.assertUnharmed(1, REFUSED, links=1)

    def test_garbage_over_a_link(self):
        """Somebody who knows all that a hello holds gets a link, and harms nothing with what is no message."""
        boot = self.boot(self.peer)
        self.peer.kill()
        for _ in range(20):
            sock = self.strange(hello(self.cluster_id, self.peer.id, self.node.id, boot))
            answer = sock.recv(36)
            self.assertEqual((len(answer), answer[4:8]), (36, b"LQND"))
            self.links += 1
            kind = self.random.choice((*range(1, 16), 0, 16, 255))
            try:
                sock.sendall(message(kind, self.random.randbytes(self.random.randrange(200, 400))))  # none is that long
                sock.sendall(struct.pack(">I", 0xFFFFFFFF))
            except (BrokenPipeError, ConnectionResetError):
                pass
            self.rest(sock)
        self.peer.start().wait_ready()
        self.assertUnharmed(1, "link down", links=1)
