"""What a command leaves behind in sessions of its own; and locks that are not renewed, or whose loss spares the command."""

import ctypes
import json
import os
import socket
import struct
import subprocess
import time
import unittest

from clicase import KILL, CliCase, Run, boottime, children, state_of
from fake import FakeServer, well_behaved


SENDTO = {"x86_64": 44, "aarch64": 206}.get(os.uname().machine)  # the number of the system call


def mute_keeper():
    """Lets what the keeper tells without waiting come to nothing, by a filter of system calls: the front never hears
    that the command was started, as when the keeper is killed right behind its fork."""
    flags = socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT
    load, equal, result = 0x20, 0x15, 0x06
    rules = (
        (load, 0, 0, 0), (equal, 0, 3, SENDTO),  # its number; another one is let through
        (load, 0, 0, 16 + 3 * 8), (equal, 0, 1, flags),  # its fourth argument
        (result, 0, 0, 0x00050000 | 11),  # EAGAIN
        (result, 0, 0, 0x7FFF0000),
    )  # fmt: skip
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *rule) for rule in rules))
    head = ctypes.create_string_buffer(struct.pack("@HP", len(rules), ctypes.addressof(program)))
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, seccomp, by_filter = 38, 22, 2
    if libc.prctl(no_new_privileges, 1, 0, 0, 0) != 0 or libc.prctl(seccomp, by_filter, head) != 0:
        raise OSError(ctypes.get_errno(), "no filter")


class Away(CliCase):
    """Three processes: one is the command, two left its group, its session and their parents."""

    def start_away(self, *words, lease=1):
        run = self.start("run", "--lease", lease, "k", "--", *self.holder("away", "stubborn", *words, count=3))
        return run, self.held_by(2 if "leave" in words else 3)

    def assertGone(self, pids, moment):
        """None beat its heart after that."""
        late = {pid: when - moment for pid, when in self.beats().items() if when >= moment}
        self.assertEqual(late, {})
        self.until(lambda: not any(os.path.exists("/proc/%d" % pid) for pid in pids), "all are reaped")

    def test_they_are_ended_before_the_release(self):
        run, pids = self.start_away("leave", lease=2)
        status, _, err = run.end(timeout=30)
        self.assertEqual((status, err), (5, ""))
        self.assertGone(pids, boottime())
        self.assertFalse(self.is_held("k"))

    def test_they_are_gone_before_the_lease_can_end(self):
        run, pids = self.start_away()
        self.server.freeze()
        frozen = boottime()
        self.assertSays(run.end(timeout=20), 76, "'k' was lost", "The command was ended")
        self.assertGone(pids, frozen + 1.0)
        self.server.thaw()

    def test_loquet_is_killed(self):
        run, pids = self.start_away(lease=5)
        run.kill()
        self.until(lambda: not self.is_held("k"), "the keeper has released it")
        self.assertGone(pids, boottime())

    def test_the_keeper_is_killed(self):
        run, pids = self.start_away(lease=5)
        os.kill(run.keeper(), KILL)
        self.assertSays(run.end(), 76, "helper process was killed")
        self.assertGone(pids, boottime())
        self.assertFalse(self.is_held("k"))

    @unittest.skipIf(SENDTO is None, "its number is not known for this machine")
    def test_the_keeper_is_killed_before_it_tells_of_the_command(self):
        run = self.start(
            "run", "--lease", 5, "k", "--", *self.holder("away", "stubborn", count=3), preexec_fn=mute_keeper
        )
        pids = self.held_by(3)
        os.kill(run.keeper(), KILL)
        self.assertSays(run.end(), 76, "helper process was killed")
        self.assertGone(pids, boottime())
        self.assertFalse(self.is_held("k"))

    def test_a_process_whose_main_thread_has_ended(self):
        """It looks like a zombie, and is none."""
        run, pids = self.start_away("leave", "headless", lease=2)
        status, _, err = run.end(timeout=30)
        self.assertEqual((status, err), (5, ""))
        self.assertGone(pids, boottime())

    def test_children_that_loquet_had_before(self):
        """A script that became loquet by exec: they are not the command's."""
        command = "sleep 60 >/dev/null 2>&1 & echo $!; exec $LOQUET run k -- sleep 60"
        environment = {**self.environment, "LOQUET": os.environ["LOQUET"]}
        run = Run(["sh", "-c", command], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.clean_up, run)
        before = int(run.stdout.readline())
        self.addCleanup(os.kill, before, KILL)
        self.until(lambda: run.keeper() is not None and children(run.keeper()), "the command runs")
        os.kill(run.keeper(), KILL)
        self.assertSays(run.end(), 76, "helper process was killed")
        self.assertNotEqual(state_of(before), "Z")

    def test_they_may_end_by_themselves(self):
        began = time.monotonic()
        command = "setsid sh -c 'sleep 0.4; echo done' & exit 6"
        self.assertEqual(self.loquet("run", "k", "--", "sh", "-c", command), (6, "done\n", ""))
        self.assertGreaterEqual(time.monotonic() - began, 0.4)

    def test_nobody_else_is_hit(self):
        """A process beside loquet, in a session of its own as well."""
        bystander = self.start("run", "other", "--", *self.holder("stubborn"))
        (pid,) = self.held_by()
        run = self.start("run", "k", "--", "sh", "-c", "setsid sleep 60 & exit 3")
        self.assertEqual(run.end(timeout=20), (3, "", ""))
        self.assertLess(boottime() - self.beats()[pid], 1)
        self.assertIsNone(bystander.poll())


class NotRenewed(CliCase):
    def test_done_within_its_lease(self):
        with FakeServer(well_behaved) as server:
            command = ("run", "--no-renew", "--lease", 2, "k", "--endpoints", server.endpoint, "--", "sleep", "1")
            self.assertEqual(self.loquet(*command), (0, "", ""))
        self.assertEqual(server.ops(), "AR")

    def test_ended_before_its_end(self):
        run = self.start("run", "--no-renew", "--lease", 3, "k", "--", *self.holder("stubborn"))
        self.held_by()
        granted = boottime()  # or a little before
        self.assertSays(run.end(), 76, "'k' was lost", "--no-renew", "The command was ended")
        self.assertLess(max(self.beats().values()), granted + 3)


class Spared(CliCase):
    def lose(self, on_lost, *words):
        run = self.start("run", "--on-lost", on_lost, "--lease", 1, "k", "--", *self.holder(*words))
        (pid,) = self.held_by()
        self.server.kill()
        return run, pid

    def ends_late(self, run, pid):
        """It lives on for longer than the lease, until somebody ends it."""
        time.sleep(1.5)
        self.assertIsNone(run.poll())
        os.kill(pid, KILL)
        return run.end(timeout=20)

    def test_warn(self):
        run, pid = self.lose("warn", "notes")
        outcome = self.ends_late(run, pid)
        self.assertSays(outcome, 76, "'k' was lost", "goes on")
        self.assertEqual(outcome[2].count("\n"), 1, outcome[2])
        self.assertEqual(self.noted(), [])

    def test_signal(self):
        run, pid = self.lose("signal", "notes")
        outcome = self.ends_late(run, pid)
        self.assertSays(outcome, 76, "'k' was lost", "was sent TERM")
        self.assertEqual(self.noted().count("TERM"), 1)

    def test_a_server_that_comes_back_too_late(self):
        """Its late answer to a renewal revives nothing: one TERM, one line, and the keeper has nothing to do."""
        run = self.start("run", "--on-lost", "signal", "--lease", 3, "k", "--", *self.holder("notes"))
        (pid,) = self.held_by()
        keeper = run.keeper()
        self.server.freeze()
        self.until(lambda: "TERM" in self.noted(), "the lock is lost")
        self.server.thaw()
        began = self.ticks(keeper)
        time.sleep(1.5)
        self.assertLess(self.ticks(keeper) - began, 50, "of 10 ms")
        os.kill(pid, KILL)
        outcome = run.end(timeout=20)
        self.assertSays(outcome, 76, "'k' was lost", "was sent TERM")
        self.assertEqual((outcome[2].count("\n"), self.noted().count("TERM")), (1, 1))

    @staticmethod
    def ticks(pid):
        """CPU time of a process, in hundredths of a second."""
        with open("/proc/%d/stat" % pid, encoding="utf-8") as file:
            fields = file.read().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    def test_refused_renewal(self):
        """The server says so, long before the end of the lease."""
        run = self.start("run", "--on-lost", "warn", "--lease", 3, "k", "--", "sh", "-c", "echo $LOQUET_TOKEN; sleep 2")
        self.connect().release(b"k", int(run.stdout.readline()))
        self.assertSays(run.end(), 76, "'k' was lost", "goes on")

    def test_json(self):
        run = self.start("--json", "run", "--on-lost", "warn", "--lease", 1, "k", "--", *self.holder())
        (pid,) = self.held_by()
        self.server.kill()
        status, _, err = self.ends_late(run, pid)
        answer = json.loads(err)
        self.assertEqual((status, answer["result"]), (76, "lost"))
        self.assertIn("went on", answer["message"])

    def test_wrong_word(self):
        self.assertSays(self.loquet("run", "--on-lost", "ignore", "k", "true"), 64, "kill, signal or warn")
