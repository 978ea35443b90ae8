"""`loquet status`: one row for each node, whatever is at the other end, and an exit status for scripts."""

import json
import time

from admins import Cluster
from clicase import CliCase
from fake import FakeServer

HEADS = "ADMIN NODE NAME ROLE TERM LEADER READY COMMIT APPLIED MEMBERS KEYS WAITERS CONNECTIONS".split()


def saying(data):
    """A server that says that to whoever asks for something, and closes."""

    def script(peer):
        peer.sock.recv(4096)
        peer.sock.sendall(data)

    return FakeServer(script)


def silent():
    def script(peer):
        while peer.sock.recv(4096):
            pass

    return FakeServer(script)


def http(body, status="200 OK"):
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


class Status(CliCase):
    serverless = True

    def rows(self, out):
        lines = [line.split() for line in out.splitlines()]
        self.assertEqual(lines[0], HEADS)
        return lines[1:]

    def test_a_row_for_each_node(self):
        cluster = Cluster().start(self)
        status, out, err = self.loquet("status", "--admin", cluster.admins)
        self.assertEqual((status, err), (0, ""))
        rows = self.rows(out)
        for node in (1, 2, 3):
            role = "leader" if node == 1 else "follower"
            wanted = [cluster.admin(node), node, "name-%d" % node, role, 5, 1, "yes", 100, 99, 3, 12, 3, 40 + node]
            self.assertEqual(rows[node - 1], [str(word) for word in wanted])
        self.assertEqual([" ".join(row) for row in rows[3:]],
                         ["cluster 00000000deadbeef", "node 1 leads in term 5; 3 of 3 answered"])  # fmt: skip

    def test_columns_are_aligned(self):
        cluster = Cluster().start(self)
        lines = self.loquet("status", "--admin", cluster.admins)[1].splitlines()
        self.assertEqual(len({len(line) for line in lines[:4]}), 1, lines)
        self.assertEqual({line.index("yes") for line in lines[1:4]}, {lines[0].index("READY")})

    def test_environment(self):
        cluster = Cluster(1).start(self)
        self.environment["LOQUET_ADMIN"] = cluster.admins
        self.assertEqual(self.loquet("status")[0], 0)

    def test_proxies_are_not_asked(self):
        cluster = Cluster(1).start(self)
        self.environment["http_proxy"] = "http://127.0.0.1:%d" % self.free_port()
        self.assertEqual(self.loquet("status", "--admin", cluster.admins)[0], 0)

    def test_json(self):
        cluster = Cluster().start(self)
        dead = "127.0.0.1:%d" % self.free_port()
        answer = self.ask("status", "--admin", cluster.admins + "," + dead, code=77)
        self.assertEqual((answer["result"], answer["leader"], answer["answered"]), ("degraded", 1, 3))
        self.assertEqual([node["admin"] for node in answer["nodes"]], (cluster.admins + "," + dead).split(","))
        self.assertEqual([node["status"]["role"] for node in answer["nodes"][:3]], ["leader", "follower", "follower"])
        self.assertEqual(answer["nodes"][0]["status"]["table"]["last_token"], "9007199254740993")
        self.assertIn("refused", answer["nodes"][3]["reason"])
        cluster.end(3)
        self.assertEqual(self.ask("status", "--admin", cluster.admins)["result"], "ok")

    def test_a_dead_node_is_told_beside_the_others(self):
        cluster = Cluster().start(self)
        dead = "127.0.0.1:%d" % self.free_port()
        status, out, _ = self.loquet("status", "--admin", dead + "," + cluster.admins)
        self.assertEqual(status, 77)
        self.assertEqual(self.rows(out)[0], [dead, "Connection", "refused"])
        self.assertEqual(len(self.rows(out)), 6)

    def test_nobody_there(self):
        dead = "127.0.0.1:%d" % self.free_port()
        status, out, _ = self.loquet("status", "--admin", dead)
        self.assertEqual(status, 69)
        self.assertIn("0 of 1 answered", out)
        answer = self.ask("status", "--admin", dead, code=69)
        self.assertEqual((answer["result"], answer["leader"]), ("unavailable", None))

    def test_slow_nodes_are_asked_at_the_same_time(self):
        cluster = Cluster(1).start(self)
        with silent() as one, silent() as two, silent() as three:
            began = time.monotonic()
            slow = ",".join(server.endpoint for server in (one, two, three))
            status, out, _ = self.loquet("status", "--admin", slow + "," + cluster.admins)
            self.assertLess(time.monotonic() - began, 6)
        self.assertEqual(status, 77)
        self.assertEqual(out.count("no answer in time"), 3)
        self.assertIn("node 1 leads", out)

    def test_no_leader(self):
        cluster = Cluster(2).start(self)
        cluster.leader = 0
        status, out, _ = self.loquet("status", "--admin", cluster.admins)
        self.assertEqual(status, 77)
        self.assertIn("no leader is known; 2 of 2 answered", out)
        self.assertEqual([row[5] for row in self.rows(out)[:2]], ["-", "-"])

    def test_the_highest_term_counts(self):
        old, new = Cluster(1).start(self), Cluster(1).start(self)
        new.term, new.leader = 6, 0
        status, out, _ = self.loquet("status", "--admin", old.admins + "," + new.admins)
        self.assertEqual(status, 77)
        self.assertIn("no leader is known", out)

    def test_not_ready_is_said(self):
        cluster = Cluster().start(self)
        cluster.not_ready[2] = "the disk is full"
        status, out, _ = self.loquet("status", "--admin", cluster.admins)
        self.assertEqual(status, 0)
        self.assertIn("node 2 is not ready: the disk is full", out)
        self.assertEqual(self.rows(out)[1][6], "no")

    def test_nodes_of_different_clusters(self):
        one, two = Cluster(1).start(self), Cluster(1).start(self)
        status_of = two.status
        two.status = lambda node: {**status_of(node), "cluster_id": "0000000000000001"}
        status, out, _ = self.loquet("status", "--admin", one.admins + "," + two.admins)
        self.assertEqual(status, 77)
        self.assertIn("different clusters", out)


class Garbage(CliCase):
    serverless = True

    def test_what_is_no_status_is_told(self):
        cluster = Cluster(1).start(self)
        good = cluster.status(1)
        for data, said in (
            (b"", "without an answer"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", "in the middle"),
            (b"E\x01shut up\n", "does not speak HTTP"),
            (b"\x00" * 100, "does not speak HTTP"),
            (http(b""), "no JSON"),
            (http(b"hello"), "no JSON"),
            (http(b"[1]"), "no JSON"),
            (http(b"{}"), "something else"),
            (http(json.dumps({**good, "term": "5"}).encode()), "something else"),
            (http(json.dumps({**good, "term": -5}).encode()), "something else"),
            (http(json.dumps({**good, "node": 2**32}).encode()), "something else"),
            (http(json.dumps({**good, "leader": "me"}).encode()), "something else"),
            (http(json.dumps({**good, "log": 7}).encode()), "something else"),
            (http(json.dumps({**good, "members": {}}).encode()), "something else"),
            (http(json.dumps(good).encode(), "404 Not Found"), "something else"),
            (http(b'{"error": "host", "message": "not known as this"}', "403 Forbidden"), "not known as this"),
            (http(b"[" * 100000), "no JSON"),
        ):
            with self.subTest(said=said, data=data[:60]), saying(data) as server:
                status, out, err = self.loquet("status", "--admin", server.endpoint)
                self.assertEqual((status, err), (69, ""), out)
                self.assertIn(said, out)
                reason = self.ask("status", "--admin", server.endpoint, code=69)["nodes"][0]["reason"]
                self.assertIn(said, reason)

    def test_endless_answers_are_cut(self):
        def script(peer):
            peer.sock.recv(4096)
            peer.sock.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                peer.sock.sendall(b" " * 65536)

        with FakeServer(script) as server:
            status, out, _ = self.loquet("status", "--admin", server.endpoint)
        self.assertEqual(status, 69)
        self.assertIn("without end", out)

    def test_nothing_but_text_reaches_the_terminal(self):
        cluster = Cluster(1)
        cluster.not_ready[1] = "\x1b]0;owned\x07\nnode 9 leads"
        cluster.start(self)
        status_of = cluster.status
        cluster.status = lambda node: {**status_of(node), "name": "\x1b[31m\u202eevil", "role": "lead\ner"}
        status, out, _ = self.loquet("status", "--admin", cluster.admins)
        self.assertEqual(status, 0)
        self.assertTrue(all(" " <= c <= "~" or c == "\n" for c in out), repr(out))
        self.assertEqual(len(out.splitlines()), 5)
