"""Locks that are lost while a command runs: everything of the command is gone before the lease can end."""

import json
import os
import signal
import time

from clicase import KILL, CliCase, boottime, members
from fake import FakeServer


class Lost(CliCase):
    def start_group(self, *words, lease=1, count=3, endpoints=None):
        options = ("--endpoints", endpoints) if endpoints else ()
        run = self.start("run", "--lease", lease, "k", *options, "--", *self.holder(*words, count=count))
        self.held_by(count)
        return run

    def assertGoneBy(self, run, moment, timeout=20):
        """Exit code 76, and no process of the group beat its heart after `moment`."""
        pids = self.held_by(len(self.beats()))
        group = os.getpgid(pids[0])
        outcome = run.end(timeout)
        self.assertSays(outcome, 76, "'k' was lost", "The command was ended")
        self.assertEqual(members(group), [])
        late = {pid: when - moment for pid, when in self.beats().items() if when >= moment}
        self.assertEqual(late, {}, "lived on after the end of the lease")
        return outcome

    def test_frozen_server_and_a_stubborn_group(self):
        """No answer, TERM ignored: KILL comes in time even for a lease of 1 s. It counts from a renewal that the
        server took in, so from before it was frozen."""
        run = self.start_group("stubborn")
        time.sleep(0.5)  # some renewals
        self.server.freeze()
        frozen = boottime()
        self.assertGoneBy(run, frozen + 1.0)
        self.server.thaw()

    def test_killed_server(self):
        run = self.start_group("stubborn")
        self.server.kill()
        self.assertGoneBy(run, boottime() + 1.0)

    def test_term_comes_first(self):
        run = self.start_group("notes", count=1)
        self.server.freeze()
        self.assertGoneBy(run, boottime() + 1.0)
        self.assertIn("TERM", self.noted())
        self.server.thaw()

    def test_stopped_group(self):
        """A stopped process would not see TERM, so it is continued."""
        run = self.start_group("notes", count=2)
        for pid in self.held_by(2):
            os.kill(pid, signal.SIGSTOP)
        self.server.freeze()
        self.assertGoneBy(run, boottime() + 1.0)
        self.assertEqual(self.noted().count("TERM"), 2)
        self.server.thaw()

    def test_counts_from_the_last_answered_renewal(self):
        """To the letter: the lease ends 1 s after the server took in the last renewal that it answered; the conservative
        end is earlier still, and all is gone by then. Later renewals are not answered."""

        def script(peer):
            peer.grant(peer.request())
            for _ in range(2):
                peer.answer("K", peer.request())
            peer.idle()

        with FakeServer(script) as server:
            run = self.start_group("stubborn", endpoints=server.endpoint)
            self.until(lambda: "AKK" in server.ops(), "it has renewed twice")
            self.assertGoneBy(run, server.heard[2].when + 0.98)

    def test_refused_renewal(self):
        """Another may hold it already: no waiting for the end of the lease."""
        run = self.start_group("stubborn", lease=6)
        connection = self.connect()
        token = None
        with open("/proc/%d/environ" % self.held_by(3)[0], "rb") as file:
            for entry in file.read().split(b"\0"):
                if entry.startswith(b"LOQUET_TOKEN="):
                    token = int(entry.partition(b"=")[2])
        connection.release(b"k", token)
        released = boottime()
        outcome = self.assertGoneBy(run, released + 6 / 3 + 1.0)
        self.assertIn("does not know it as held", outcome[2])

    def test_restarted_server_that_forgot(self):
        """The command ended by itself, but when its lock was to be released, the server did not know it any more."""
        port = self.server.address[1]
        run = self.start("run", "--lease", 30, "k", "--", *self.holder())
        (pid,) = self.held_by()
        self.server.kill()
        again = type(self.server)(listen="127.0.0.1:%d" % port)
        again.start()
        self.addCleanup(again.kill)
        os.kill(pid, KILL)
        self.assertSays(run.end(), 76, "'k' was lost", "released")

    def test_json(self):
        run = self.start("--json", "run", "--lease", 1, "k", "--", *self.holder())
        self.held_by()
        self.server.kill()
        status, _, err = run.end()
        answer = json.loads(err)
        self.assertEqual((status, answer["result"], answer["exit"]), (76, "lost", 76))
        self.assertIn("lost", answer["message"])

    def test_server_that_comes_back_in_time(self):
        """A renewal is tried again until the lease is nearly over, and that is enough."""
        run = self.start_group(lease=6, count=1)
        self.server.freeze()
        time.sleep(2.8)
        self.server.thaw()
        time.sleep(3.5)
        self.assertIsNone(run.poll())
        self.assertTrue(self.is_held("k"))
        run.terminate()
        self.assertEqual(run.end(), (143, "", ""))

    def test_connection_that_breaks(self):
        """Renewed on another connection; nobody notices."""

        def script(peer):
            request = peer.request()
            if request.op == "A":
                peer.grant(request)
            else:
                peer.answer(request.op, request)

        with FakeServer(script) as server:
            run = self.start_group(lease=1, count=1, endpoints=server.endpoint)
            self.until(lambda: server.ops().startswith("AKKKKK"), "it has renewed five times")
            run.terminate()
            self.assertEqual(run.end(), (143, "", ""))
        self.assertTrue(server.ops().endswith("R"))

    def test_grant_that_has_little_left(self):
        """Granted late in its own lease, and never renewed: the little that is left counts from the request."""

        def script(peer):
            acquire = peer.request()
            time.sleep(0.4)
            peer.grant(acquire)
            peer.idle()

        with FakeServer(script) as server:
            run = self.start("run", "--lease", 1, "--wait", 5, "k", "--endpoints", server.endpoint, "--", *self.holder())
            self.assertEqual(run.end()[0], 76)
        self.assertLess(max(self.beats().values(), default=0), server.heard[0].when + 0.98)
