"""Signals in each phase of `loquet run`: waiting, just granted, running, ending; and those to other processes of it."""

import os
import signal
import time

from clicase import KILL, SLACK, TERM, CliCase, boottime, members, state_of
from fake import FakeServer

ENDING = ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2")


def number(name):
    return getattr(signal, "SIG" + name)


class Waiting(CliCase):
    def test_every_signal_ends_it_and_leaves_the_queue(self):
        connection, token = self.take("k")
        marker = os.path.join(self.folder, "marker")
        for words in (("run", "k", "--wait", 60, "--", "touch", marker), ("acquire", "k", "--wait", 60)):
            for name in ENDING if words[0] == "run" else ("TERM", "INT"):
                with self.subTest(words[0], signal=name):
                    run = self.start(*words)
                    self.until_waiting(run)
                    run.send_signal(number(name))
                    began = time.monotonic()
                    self.assertSays(run.end(), 128 + number(name), "signal " + name, "'k'")
                    self.assertLess(time.monotonic() - began, SLACK)
        connection.release(b"k", token)
        self.assertFalse(self.is_held("k"))
        self.assertFalse(os.path.exists(marker))

    def test_the_wait_is_cancelled_with_c(self):
        def script(peer):
            acquire = peer.request()
            peer.answer("T", acquire._replace(op=peer.request().op))
            peer.idle()

        with FakeServer(script) as server:
            run = self.start("run", "k", "--wait", 60, "--endpoints", server.endpoint, "true")
            self.until(lambda: server.heard, "it has asked")
            run.terminate()
            self.assertEqual(run.end()[0], 143)
        self.assertEqual(server.ops(), "AC")

    def test_grant_that_crosses_the_signal_is_given_back(self):
        def script(peer):
            request = peer.request()
            if request.op == "A":
                peer.request()
                peer.grant(request)
            else:
                peer.answer("R", request)
            peer.idle()

        marker = os.path.join(self.folder, "marker")
        with FakeServer(script) as server:
            run = self.start("run", "k", "--wait", 60, "--endpoints", server.endpoint, "touch", marker)
            self.until(lambda: server.heard, "it has asked")
            run.terminate()
            self.assertEqual(run.end()[0], 143)
        self.assertEqual(server.ops(), "ACR")
        self.assertFalse(os.path.exists(marker))

    def test_server_that_does_not_listen_cannot_hold_it_up(self):
        with FakeServer(lambda peer: peer.idle()) as server:
            for again in (1, 2):  # the second signal does not even wait for the answer to C
                run = self.start("run", "k", "--wait", 60, "--endpoints", server.endpoint, "true")
                self.until(lambda n=again: len(server.heard) >= 2 * n - 1, "it has asked")
                began = time.monotonic()
                run.send_signal(TERM)
                if again == 2:
                    self.until(lambda: server.heard[-1].op == "C", "it cancels")
                    run.send_signal(TERM)
                self.assertEqual(run.end()[0], 143)
                self.assertLess(time.monotonic() - began, 0.5 + SLACK)

    def test_no_server_to_wait_for(self):
        endpoint = "127.0.0.1:%d" % self.free_port()
        run = self.start("run", "k", "--wait", 60, "--endpoints", endpoint, "true")
        self.assertIn("trying again", run.stderr.readline())
        run.send_signal(signal.SIGINT)
        self.assertEqual(run.end()[0], 130)

    def test_ignored_signals_stay_ignored(self):
        connection, token = self.take("k")
        run = self.start("run", "k", "--wait", 60, "--", "sh", "-c", "kill -HUP $$; exit 7",
                         preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))  # fmt: skip
        self.until_waiting(run)
        run.send_signal(signal.SIGHUP)
        time.sleep(0.1)
        self.assertIsNone(run.poll())
        connection.release(b"k", token)
        self.assertEqual(run.end(), (7, "", ""))

    def test_signal_beside_the_grant(self):
        """Sent in the very moment of the grant, again and again: either it never starts or it gets the signal."""
        marker = os.path.join(self.folder, "marker")
        for i in range(12):
            connection, token = self.take("k")
            run = self.start("run", "k", "--wait", 60, "--", "sh", "-c", "touch %s; sleep 60" % marker)
            self.until_waiting(run)
            connection.release(b"k", token)
            time.sleep(i * 0.0004)
            run.terminate()
            self.assertEqual(run.end()[0], 143)
            self.assertFalse(self.is_held("k"))
            connection.close()


class Running(CliCase):
    def test_signals_are_passed_on_to_the_group(self):
        run = self.start("run", "k", "--", *self.holder("notes", count=2))
        self.held_by(2)
        for name in ENDING + ("CONT",):
            before = len(self.noted())
            run.send_signal(number(name))
            self.until(lambda n=before: len(self.noted()) == n + 2, name + " has come to both")
            self.assertEqual(self.noted()[before:], [name, name])
        self.assertIsNone(run.poll())
        self.assertTrue(self.is_held("k"))

    def test_stop_and_continue(self):
        run = self.start("run", "--lease", 1, "k", "--", *self.holder(count=2))
        pids = self.held_by(2)
        run.send_signal(signal.SIGTSTP)
        self.until(lambda: all(state_of(pid) == "T" for pid in pids), "both are stopped")
        time.sleep(1.5)
        self.assertTrue(self.is_held("k"), "the lock of a stopped command stays held")
        run.send_signal(signal.SIGCONT)
        self.until(lambda: all(state_of(pid) != "T" for pid in pids), "both go on")
        run.terminate()
        self.assertEqual(run.end(), (143, "", ""))

    def test_command_that_lives_on_keeps_the_lock(self):
        run = self.start("run", "k", "--", *self.holder("stubborn"))
        self.held_by()
        run.terminate()
        time.sleep(0.3)
        self.assertIsNone(run.poll())
        self.assertTrue(self.is_held("k"))

    def test_stopped_loquet_goes_on_renewing(self):
        run = self.start("run", "--lease", 1, "k", "--", *self.holder())
        (pid,) = self.held_by()
        run.send_signal(signal.SIGSTOP)
        time.sleep(2)
        self.assertTrue(self.is_held("k"))
        os.kill(pid, TERM)
        self.until(lambda: not self.is_held("k"), "it is released")
        run.send_signal(signal.SIGCONT)
        self.assertEqual(run.end(), (143, "", ""))


class Killed(CliCase):
    """kill -9 of the processes that hold the lock."""

    def run_group(self, *words, count=3):
        run = self.start("run", "--lease", 20, "k", "--", *self.holder(*words, count=count))
        pids = self.held_by(count)
        group = os.getpgid(pids[0])
        self.assertEqual(members(group), pids)
        self.assertNotEqual(group, os.getpgid(run.pid))
        return run, group

    def test_loquet(self):
        run, group = self.run_group("stubborn")
        run.kill()
        took = self.until(lambda: not members(group), "the group is gone")
        self.assertLess(took, 0.5 + SLACK)
        self.until(lambda: not self.is_held("k"), "the keeper has released it")

    def test_loquet_and_all_of_its_group(self):
        run = self.start("run", "--lease", 20, "k", "--", *self.holder("stubborn", count=2), start_new_session=True)
        group = os.getpgid(self.held_by(2)[0])
        os.killpg(run.pid, KILL)
        self.until(lambda: not members(group), "the group is gone")
        self.until(lambda: not self.is_held("k"), "the keeper has released it")

    def test_keeper(self):
        run, group = self.run_group("stubborn")
        os.kill(run.keeper(), KILL)
        self.assertLess(self.until(lambda: not members(group), "the group is gone"), SLACK)
        self.assertSays(run.end(), 76, "helper process")
        self.assertFalse(self.is_held("k"))

    def test_both_at_once(self):
        """Nobody is left to look after the group, but the kernel kills its leader."""
        run, group = self.run_group("stubborn", count=1)
        run.send_signal(signal.SIGSTOP)  # so that it has no time to act for the keeper
        for pid in (run.keeper(), run.pid):
            os.kill(pid, KILL)
        self.until(lambda: not members(group), "the leader is gone")

    def test_run_under_another_run(self):
        """Killed from outside, or by the loss of the outer lock: the inner command never outlives either."""
        inner = ["--", self.start("version").args[0], "run", "inner", "--", *self.holder("stubborn", count=2)]
        run = self.start("run", "--lease", 1, "outer", *inner)
        group = os.getpgid(self.held_by(2)[0])
        self.server.freeze()
        frozen = boottime()
        self.assertEqual(run.end()[0], 76)
        self.until(lambda: not members(group), "the inner group is gone")
        self.assertLess(max(self.beats().values()), frozen + 1.0)
        self.server.thaw()

    def test_loquet_while_the_server_is_frozen(self):
        run, group = self.run_group("stubborn")
        self.server.freeze()
        run.kill()
        self.until(lambda: not members(group), "the group is gone")
        self.server.thaw()
