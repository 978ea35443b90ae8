"""Servers that are not there, freeze, lie or answer late: exit codes 69 and 70, and nothing kept that nobody knows of."""

import math
import time

from clicase import SLACK, CliCase, boottime, lqserver
from fake import FakeServer


class NoServer(CliCase):
    serverless = True

    def setUp(self):
        super().setUp()
        self.port = self.free_port()
        self.environment["LOQUET_ENDPOINTS"] = "127.0.0.1:%d" % self.port

    def test_refused_at_once(self):
        for words in (("acquire", "k"), ("release", "k", 1), ("renew", "k", 1), ("ping",), ("run", "k", "--", "true")):
            with self.subTest(words):
                began = time.monotonic()
                self.assertSays(self.loquet(*words), 69, "127.0.0.1:%d" % self.port, "refused", "LOQUET_ENDPOINTS")
                self.assertLess(time.monotonic() - began, SLACK)
                self.assertEqual(self.ask(*words, code=69)["result"], "closed")

    def test_wait_goes_on_trying(self):
        began = time.monotonic()
        outcome = self.loquet("acquire", "k", "--wait", "0.8")
        self.assertTrue(0.8 <= time.monotonic() - began < 0.8 + SLACK)
        self.assertSays(outcome, 69, "trying again", "refused")

    def test_server_that_comes_while_we_wait(self):
        run = self.start("acquire", "k", "--wait", "20")
        time.sleep(0.3)
        with lqserver.Server(listen="127.0.0.1:%d" % self.port):
            self.assertEqual(run.end()[0], 0)

    def test_name_without_address(self):
        began = self.loquet("ping", "--endpoints", "no-such-host.invalid:1", timeout=60)
        self.assertSays(began, 69, "no-such-host.invalid", "--endpoints")


class Frozen(CliCase):
    def test_times_out_on_its_own(self):
        """A frozen server takes connections and bytes and says nothing: who asks for something must not wait for ever."""
        _, token = self.take("k")
        self.server.freeze()
        began = time.monotonic()
        runs = [
            (self.start("acquire", "k"), 70, 5.0),
            (self.start("acquire", "k", "--wait", 1), 70, 1 + 1.25),
            (self.start("release", "k", token), 70, 5.0),
            (self.start("renew", "k", token), 70, 5.0),
            (self.start("ping"), 69, 5.0),
        ]
        for run, code, seconds in sorted(runs, key=lambda row: row[2]):
            outcome = run.end()
            took = time.monotonic() - began
            self.assertSays(outcome, code, "127.0.0.1")
            self.assertTrue(seconds - 0.01 <= took < seconds + SLACK, "%s took %.2f s" % (run.args, took))
        self.server.thaw()

    def test_frozen_server_is_noticed_while_waiting(self):
        """7 s without a byte: P after 2 s of silence, unanswered."""
        self.take("k", lease=60)
        run = self.start("acquire", "k", "--wait", 60)
        self.until_waiting(run)
        self.server.freeze()
        began = time.monotonic()
        self.assertSays(run.end(timeout=30), 70, "no answer")
        self.assertTrue(6 < time.monotonic() - began < 9)
        self.server.thaw()


class Odd(CliCase):
    serverless = True

    def acquire(self, script, *options):
        """(server, outcome) of an acquire from a server with this script."""
        with FakeServer(script) as server:
            outcome = self.loquet("acquire", "k", "--endpoints", server.endpoint, *options)
        return server, outcome

    def test_unknown_outcomes(self):
        def closes(peer):
            peer.request()

        def babbles(peer):
            peer.request()
            peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        def grants_another(peer):
            request = peer.request()
            peer.grant(request._replace(key=b"another"))

        def answers_a_release(peer):
            peer.answer("R", peer.request())

        def half_an_answer(peer):
            peer.send(b"A1234567" + peer.request().number)

        def is_going_down(peer):
            peer.request()
            peer.send(b"E\x06bye\x1b[31m\n")

        for script in (closes, babbles, grants_another, answers_a_release, half_an_answer, is_going_down):
            for options in ((), ("--wait", 5)):
                with self.subTest(script.__name__, options=options):
                    server, outcome = self.acquire(script, *options)
                    self.assertSays(outcome, 70, "unknown", server.endpoint)
                    self.assertNotIn("\x1b", outcome[2])
                    self.assertEqual(server.ops(), "A", "never sent again")

    def test_grant_after_the_deadline_is_given_back(self):
        def script(peer):
            request = peer.request()
            if request.op == "A":
                assert peer.request().op == "C"
                peer.grant(request, 99)
            else:
                peer.answer("R", request)
            peer.idle()

        server, outcome = self.acquire(script, "--wait", "0.3")
        self.assertSays(outcome, 70, "too late", "given back")
        self.assertEqual(server.ops(), "ACR")
        self.assertEqual(server.heard[-1].number, (99).to_bytes(8, "big"))

    def test_wait_on_the_wire_is_what_is_left_rounded_up(self):
        """Unsent for a while, as nobody listens; then sent with less of it."""
        port = self.free_port()
        began = boottime()
        run = self.start("acquire", "k", "--wait", "3.5", "--endpoints", "127.0.0.1:%d" % port)
        time.sleep(1.1)

        def script(peer):
            peer.answer("T", peer.request())
            peer.idle()

        with FakeServer(script, port) as server:
            self.assertEqual(run.end()[0], 75)
        (request,) = server.heard
        left = began + 3.5 - request.when
        self.assertIn(request.wait, (math.ceil(left), math.ceil(left + 0.3)), "the program took a moment to start")
        self.assertLess(request.wait, 4)

    def test_owners_are_fresh(self):
        def script(peer):
            while (request := peer.request()) is not None:
                peer.answer("T", request)

        with FakeServer(script) as server:
            for _ in range(3):
                self.loquet("acquire", "k", "--endpoints", server.endpoint)
        self.assertEqual(len({request.number for request in server.heard}), 3)

    def test_release_is_repeated_elsewhere(self):
        def closes(peer):
            peer.request()

        def refuses(peer):
            peer.answer("N", peer.request())
            peer.idle()

        with FakeServer(closes) as one, FakeServer(refuses) as two:
            self.assertSays(self.loquet("release", "k", 5, "--endpoints", one.endpoint), 70, "closed the connection")
            for _ in range(6):
                both = "%s,%s" % (one.endpoint, two.endpoint)
                self.assertSays(self.loquet("release", "k", 5, "--endpoints", both), 76)

    def test_server_that_does_not_know_renewals(self):
        def script(peer):
            peer.request()
            peer.send(b"E\x01unknown op\n")

        with FakeServer(script) as server:
            self.assertSays(self.loquet("renew", "k", 5, "--endpoints", server.endpoint), 69, "unknown op")

    def test_long_wait_is_confirmed(self):
        """Granted after more than half of the lease: K at once, and the end counts from it."""

        def script(peer):
            request = peer.request()
            if request.op == "A":
                time.sleep(0.8)
                peer.grant(request)
            else:
                peer.answer("K", request)
            peer.idle()

        with FakeServer(script) as server:
            answer = self.ask("acquire", "k", "--lease", 1, "--wait", 5, "--endpoints", server.endpoint)
        self.assertEqual(server.ops(), "AK")
        self.assertTrue(500 < answer["ends_in_ms"] <= 980, answer)
