"""`loquet member`: finding the leader, waiting until a change is in effect, and never claiming what is not certain."""

import json
import time

from admins import CLUSTER_ID, Cluster
from clicase import CliCase
from fake import FakeServer
from test_status import http, saying, silent

STARTED = (202, {"result": "started"})
BUSY = (409, {"error": "busy", "leader": 1, "message": "another change is under way"})
ADDRESS = "new.example:7312"


class Arguments(CliCase):
    serverless = True

    def test_what_is_wrong_is_said(self):
        for words, said in (
            ((), "ACTION"),
            (("frob",), "frob"),
            (("list", "1"), "too many"),
            (("add",), "NODE ADDRESS"),
            (("add", 4), "NODE ADDRESS"),
            (("add", 4, "h:1", 5), "too many"),
            (("add", 0, "h:1"), "'0'"),
            (("add", "x", "h:1"), "'x'"),
            (("add", 4294967296, "h:1"), "1 to 4294967295"),
            (("add", 4, "h"), "port is missing"),
            (("add", 4, "h:0"), "1 to 65535"),
            (("add", 4, "::1:7"), "brackets"),
            (("add", 4, "h:1,h:2"), "give one"),
            (("promote",), "NODE"),
            (("promote", 1, 2), "too many"),
            (("replace", 1, 2), "OLD NEW ADDRESS"),
            (("replace", 1, "two", "h:1"), "'two'"),
            (("transfer", 1, 2), "too many"),
            (("list", "--admin", "h:x"), "--admin"),
            (("list", "--admin", "a/b"), "--admin"),
            (("list", "--endpoints", "h:1"), "--endpoints"),
            (("promote", 1, "--wait", 256), "0 to 255"),
        ):
            with self.subTest(words):
                self.assertSays(self.loquet("member", *words), 64, said)

    def test_json_of_what_is_wrong(self):
        answer = self.ask("member", "promote", "x", code=64)
        self.assertEqual((answer["result"], answer["action"], answer["exit"]), ("invalid", "promote", 64))


class List(CliCase):
    serverless = True

    def test_members_are_listed_as_the_leader_knows_them(self):
        cluster = Cluster().start(self)
        cluster.members[3][1] = "standby"
        status, out, err = self.loquet("member", "list", "--admin", "%s,%s" % (cluster.admin(2), cluster.admin(1)))
        self.assertEqual((status, err), (0, ""))
        rows = [line.split() for line in out.splitlines()]
        wanted = ["NODE ADDRESS ROLE LEADS", "1 127.0.0.1:7001 voter yes", "2 127.0.0.1:7002 voter"]
        self.assertEqual(rows, [row.split() for row in [*wanted, "3 127.0.0.1:7003 standby"]])

    def test_a_follower_says_that_it_is_one(self):
        cluster = Cluster().start(self)
        status, out, _ = self.loquet("member", "list", "--admin", cluster.admin(3))
        self.assertEqual(status, 0)
        self.assertIn("as node 3 knows them", out)

    def test_json(self):
        cluster = Cluster().start(self)
        answer = self.ask("member", "list", "--admin", cluster.admins)
        self.assertEqual((answer["action"], answer["leader"], answer["cluster_id"]), ("list", 1, CLUSTER_ID))
        self.assertEqual([member["node"] for member in answer["members"]], [1, 2, 3])

    def test_nobody_there(self):
        dead = "127.0.0.1:%d" % self.free_port()
        self.assertSays(self.loquet("member", "list", "--admin", dead), 69, dead, "refused", "LOQUET_ADMIN")
        self.assertEqual(self.ask("member", "list", "--admin", dead, code=69)["result"], "unreachable")

    def test_garbage(self):
        members = {"node": 1, "leader": 1, "term": 1, "members": [{"node": 1, "address": "h:1"}]}
        for data in (http(b"{}"), http(json.dumps(members).encode()), http(b"x")):
            with self.subTest(data), saying(data) as server:
                self.assertEqual(self.loquet("member", "list", "--admin", server.endpoint)[0], 69)


class Changes(CliCase):
    serverless = True

    def member(self, cluster, *words, **kwargs):
        return self.loquet("member", *words, "--admin", cluster.admins, **kwargs)

    def test_each_change_asks_the_leader_for_the_right_thing(self):
        for words, path, body, said in (
            (("add", 4, ADDRESS), "/v1/members", {"node": 4, "address": ADDRESS}, "node 4 is a member, as a standby"),
            (("promote", 3), "/v1/members/3/promote", {}, "node 3 is a voter"),
            (("demote", 2), "/v1/members/2/demote", {}, "node 2 is a standby"),
            (("remove", 2), "/v1/members/2/remove", {}, "node 2 is no member"),
            (("replace", 2, 5, ADDRESS), "/v1/members/2/replace", {"node": 5, "address": ADDRESS},
             "node 5 is a member in the place of node 2"),
            (("transfer", 2), "/v1/leader/transfer", {"node": 2}, "node 2 leads"),
        ):  # fmt: skip
            with self.subTest(words):
                cluster = Cluster().start(self)
                cluster.members[3][1] = "standby"
                status, out, err = self.member(cluster, *words)
                self.assertEqual((status, err), (0, ""))
                self.assertIn("done: %s\n" % said, out)
                self.assertEqual(cluster.posts[0], (1, path, body))
                self.assertEqual({asked for node, asked, _ in cluster.posts if node == 1}, {path})

    def test_the_leader_is_found(self):
        cluster = Cluster().start(self)
        cluster.leader = 3
        self.assertEqual(self.member(cluster, "demote", 2)[0], 0)
        self.assertEqual([node for node, _, _ in cluster.posts[:3]], [1, 2, 3])
        self.assertEqual({node for node, _, _ in cluster.posts[3:]}, {3})  # it is asked first from then on

    def test_what_a_new_node_needs_is_printed(self):
        for words in (("add", 4, ADDRESS), ("replace", 2, 4, ADDRESS)):
            with self.subTest(words):
                cluster = Cluster().start(self)
                out = self.member(cluster, *words)[1]
                for line in ("node_id = 4;", 'cluster_id = "%s";' % CLUSTER_ID, 'peer = "%s";' % ADDRESS):
                    self.assertIn("    %s\n" % line, out)
                again = self.ask("member", *words, "--admin", cluster.admins)
                wanted = {"node_id": 4, "cluster_id": CLUSTER_ID, "peer": ADDRESS}
                self.assertEqual((again["result"], again["configuration"]), ("done", wanted))

    def test_replace_tells_before_it_waits(self):
        """The new node has to be started before it can catch up."""
        cluster = Cluster(rounds=10**6).start(self)
        run = self.start("member", "replace", "2", "4", ADDRESS, "--admin", cluster.admins)
        self.assertIn("node 4", run.stdout.readline())
        cluster.rounds = 1
        status, out, _ = run.end()
        self.assertEqual(status, 0)
        self.assertIn("done: node 4", out)

    def test_it_waits_until_the_change_is_committed(self):
        cluster = Cluster(rounds=3, commits=4).start(self)
        self.assertEqual(self.member(cluster, "demote", 3)[0], 0)
        self.assertEqual(cluster.members[3][1], "standby")
        self.assertEqual(cluster.uncommitted, 0)

    def test_what_is_not_committed_is_not_done(self):
        cluster = Cluster(commits=10**9).start(self)
        outcome = self.member(cluster, "demote", 3, "--wait", 0.5)
        self.assertSays(outcome, 70, "not seen in effect", "safe to repeat")
        self.assertNotIn("done", outcome[1])

    def test_a_change_of_leader_begins_the_proof_anew(self):
        """Each look at the status finds a new term, so nothing is ever certain, though all is committed."""
        cluster = Cluster()
        status_of = cluster.status

        def status(node):
            cluster.term += 1
            return status_of(node)

        cluster.status = status
        cluster.start(self)
        self.assertEqual(self.member(cluster, "demote", 3, "--wait", 0.5)[0], 70)

    def test_done_already(self):
        cluster = Cluster().start(self)
        index = cluster.index
        self.assertEqual(self.member(cluster, "promote", 2)[0], 0)
        self.assertEqual(cluster.index, index)

    def test_no_wait(self):
        cluster = Cluster(rounds=10**9).start(self)
        status, out, _ = self.member(cluster, "demote", 3, "--no-wait")
        self.assertEqual(status, 0)
        self.assertTrue(out.startswith("begun: node 3 is a standby soon"), out)
        self.assertEqual(len(cluster.posts), 1)
        answer = self.ask("member", "demote", 3, "--no-wait", "--admin", cluster.admins)
        self.assertEqual((answer["result"], answer["action"], answer["node"], answer["leader"]), ("begun", "demote", 3, 1))

    def test_busy_is_asked_again(self):
        cluster = Cluster().start(self)
        answers = [BUSY, BUSY]
        cluster.script = lambda *unused: answers.pop() if answers else None
        self.assertEqual(self.member(cluster, "promote", 3)[0], 0)
        self.assertEqual(answers, [])

    def test_busy_to_the_end(self):
        cluster = Cluster().start(self)
        cluster.script = lambda *unused: BUSY
        self.assertSays(self.member(cluster, "promote", 3, "--wait", 0.3), 75, "not begun", "another change")
        self.assertSays(self.member(cluster, "promote", 3, "--no-wait"), 75, "not begun", "another change")

    def test_refusals_are_the_nodes_own_words(self):
        cluster = Cluster().start(self)
        message = "node 1 is the last voter\x1b[2J"
        cluster.script = lambda *unused: (400, {"error": "invalid", "message": message})
        outcome = self.member(cluster, "remove", 1)
        self.assertSays(outcome, 78, "node 1 is the last voter?[2J")
        answer = self.ask("member", "remove", 1, "--admin", cluster.admins, code=78)
        self.assertEqual((answer["result"], answer["action"], answer["exit"]), ("refused", "remove", 78))

    def test_the_leader_removes_itself(self):
        cluster = Cluster().start(self)

        def script(cluster, path, body):
            cluster.change(path, body)
            cluster.leader, cluster.term = 2, 6
            return STARTED

        cluster.script = script
        run = self.start("member", "remove", "1", "--admin", cluster.admins)
        self.until(lambda: cluster.leader == 2, "it was asked")
        cluster.script = None
        cluster.end(1)
        self.assertEqual(run.end()[0], 0)
        self.assertNotIn(1, cluster.members)

    def test_the_next_leader_is_not_among_those_asked(self):
        """What was begun can't be seen in effect: that is said soon, with what to do."""
        cluster = Cluster().start(self)
        admins = "%s,%s" % (cluster.admin(1), cluster.admin(2))

        def script(cluster, path, body):
            cluster.change(path, body)
            cluster.leader, cluster.term = 3, 6
            return STARTED

        cluster.script = script
        began = time.monotonic()
        outcome = self.loquet("member", "remove", 1, "--admin", admins)
        self.assertSays(outcome, 70, "may be under way", "node 3 leads", "--admin")
        self.assertLess(time.monotonic() - began, 30)  # of 60


class Transfer(CliCase):
    serverless = True

    def test_the_furthest_voter_is_chosen_once(self):
        cluster = Cluster(rounds=3).start(self)
        cluster.members[3][1] = "standby"  # though it has more of the log
        status, out, _ = self.loquet("member", "transfer", "--admin", cluster.admins)
        self.assertEqual((status, out), (0, "done: node 2 leads\n"))
        self.assertEqual({body["node"] for _, _, body in cluster.posts}, {2})

    def test_transfer_is_a_command_of_its_own(self):
        for words, node in (((), 2), ((3,), 3)):
            with self.subTest(words):
                cluster = Cluster().start(self)
                cluster.members[3][1] = "voter" if words else "standby"
                answer = self.ask("transfer", *words, "--admin", cluster.admins)
                self.assertEqual((answer["result"], answer["action"], answer["node"]), ("done", "transfer", node))
                self.assertEqual({body["node"] for _, _, body in cluster.posts}, {node})
        answer = self.ask("transfer", "x", code=64)
        self.assertNotIn("action", answer)
        self.assertIn("'x' is no node", answer["message"])
        self.assertSays(self.loquet("transfer", 1, 2), 64, "too many", "[NODE]")

    def test_no_other_voter(self):
        cluster = Cluster(1).start(self)
        self.assertSays(self.loquet("member", "transfer", "--admin", cluster.admins), 78, "no other voter")

    def test_nobody_leads(self):
        cluster = Cluster().start(self)
        cluster.leader = 0
        self.assertSays(self.loquet("member", "transfer", "--admin", cluster.admins), 69, "leads")

    def test_the_old_leader_tells_that_the_new_one_leads(self):
        cluster = Cluster(2).start(self, 1)
        status, out, _ = self.loquet("member", "transfer", 2, "--admin", cluster.admin(1))
        self.assertEqual((status, out), (0, "done: node 2 leads\n"))


class Trouble(CliCase):
    serverless = True

    def test_nobody_there(self):
        dead = "127.0.0.1:%d" % self.free_port()
        began = time.monotonic()
        self.assertSays(self.loquet("member", "promote", 2, "--admin", dead), 69, dead, "refused", "LOQUET_ADMIN")
        self.assertLess(time.monotonic() - began, 5)  # of 60
        answer = self.ask("member", "promote", 2, "--admin", dead, code=69)
        self.assertEqual((answer["result"], answer["action"]), ("unreachable", "promote"))

    def test_only_followers_are_given(self):
        cluster = Cluster().start(self)
        began = time.monotonic()
        admins = "%s,%s" % (cluster.admin(2), cluster.admin(3))
        outcome = self.loquet("member", "promote", 2, "--admin", admins)
        self.assertSays(outcome, 69, "not begun", "node 1 leads", "--admin")
        self.assertLess(time.monotonic() - began, 3)  # it is certain at once
        self.assertEqual(self.ask("member", "promote", 2, "--admin", admins, code=69)["result"], "no_leader")

    def test_an_election_is_waited_for(self):
        cluster = Cluster().start(self)
        cluster.leader = 0
        run = self.start("member", "demote", "3", "--admin", cluster.admins)
        self.until(lambda: len(cluster.posts) >= 3, "all were asked")
        cluster.leader, cluster.term = 2, 6
        self.assertEqual(run.end()[0], 0)

    def test_nobody_leads_for_long(self):
        cluster = Cluster().start(self)
        cluster.leader = 0
        self.assertSays(self.loquet("member", "demote", 3, "--admin", cluster.admins), 69, "no leader is known")

    def test_a_dead_node_among_them(self):
        cluster = Cluster().start(self)
        dead = "127.0.0.1:%d" % self.free_port()
        self.assertEqual(self.loquet("member", "demote", 3, "--admin", dead + "," + cluster.admins)[0], 0)

    def test_a_request_that_may_have_arrived(self):
        """Whoever closes without a word may have begun with it."""
        for script in (saying(b""), silent()):
            with script as server:
                outcome = self.loquet("member", "remove", 2, "--no-wait", "--admin", server.endpoint)
                self.assertSays(outcome, 70, "may be under way", "safe to repeat")

    def test_garbage(self):
        for data in (
            http(b"{}"),
            http(b'{"result": "done"}', "202 Accepted"),
            http(b'{"result": "perhaps"}'),
            http(b'{"error": "odd", "message": "m"}', "409 Conflict"),
            http(b'{"error": 1, "message": 2}', "400 Bad Request"),
            http(b"x", "500 Internal Server Error"),
        ):
            with self.subTest(data), saying(data) as server:
                outcome = self.loquet("member", "promote", 2, "--no-wait", "--admin", server.endpoint)
                self.assertSays(outcome, 70, "may be under way", server.endpoint, "admin port?")

    def test_garbage_is_not_waited_for(self):
        with saying(http(b"{}")) as server:
            began = time.monotonic()
            self.assertEqual(self.loquet("member", "promote", 2, "--admin", server.endpoint)[0], 70)
            self.assertLess(time.monotonic() - began, 10)  # of 60

    def test_a_node_that_vanishes_in_the_middle(self):
        cluster = Cluster(rounds=10**9).start(self)
        run = self.start("member", "demote", "3", "--wait", "3", "--admin", cluster.admin(1))
        self.until(lambda: cluster.posts, "it was asked")
        cluster.end(1)
        self.assertSays(run.end(), 70, "not seen in effect")


class Hang(CliCase):
    serverless = True

    def test_a_slow_node_does_not_hold_up_the_leader_for_long(self):
        cluster = Cluster().start(self)

        def script(peer):
            while peer.sock.recv(4096):
                pass

        with FakeServer(script) as slow:
            began = time.monotonic()
            self.assertEqual(self.loquet("member", "demote", 3, "--admin", slow.endpoint + "," + cluster.admins)[0], 0)
            self.assertLess(time.monotonic() - began, 8)
