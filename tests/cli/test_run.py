"""`loquet run` when all goes well: status, environment, streams, renewals, hand-over."""

import json
import os
import subprocess
import time

from clicase import SLACK, CliCase, boottime, members, program
from fake import FakeServer, well_behaved


class Status(CliCase):
    def test_is_the_status_of_the_command(self):
        for command, status in (("exit 0", 0), ("exit 3", 3), ("exit 255", 255), ("kill -TERM $$", 143),
                                ("kill -KILL $$", 137), ("ulimit -c 0; kill -SEGV $$", 139)):  # fmt: skip
            with self.subTest(command):
                self.assertEqual(self.loquet("run", "k", "--", "sh", "-c", command), (status, "", ""))
                self.assertFalse(self.is_held("k"))

    def test_commands_that_cannot_be_run(self):
        missing = os.path.join(self.folder, "missing")
        self.assertSays(self.loquet("run", "k", missing), 127, missing, "not found", "PATH")
        self.assertSays(self.loquet("run", "k", "no-such-command"), 127, "no-such-command")
        self.assertSays(self.loquet("run", "k", self.folder), 126, self.folder, "Permission denied")
        plain = os.path.join(self.folder, "plain")
        with open(plain, "w", encoding="utf-8") as file:
            file.write("exit 9\n")
        self.assertSays(self.loquet("run", "k", plain), 126, plain)
        self.assertFalse(self.is_held("k"))
        os.chmod(plain, 0o700)  # a script without #! is run by the shell, as shells do
        self.assertEqual(self.loquet("run", "k", plain)[0], 9)

    def test_key_and_token_are_exported(self):
        status, out, _ = self.loquet("run", "my key", "--", "sh", "-c", 'echo "$LOQUET_KEY,$LOQUET_TOKEN"')
        key, _, token = out.strip().partition(",")
        self.assertEqual((status, key), (0, "my key"))
        self.assertEqual(self.take("other")[1], int(token) + 1, "the token is the fencing token")

    def test_double_dash_may_be_left_out_and_options_are_the_commands(self):
        self.assertEqual(self.loquet("run", "k", "echo", "--wait", "--", "-x")[1], "--wait -- -x\n")
        self.assertEqual(self.loquet("run", "--lease", 9, "k", "--wait=1", "--", "echo", "--", "a")[1], "-- a\n")

    def test_json(self):
        def ran(command, code, result):
            answer = self.ask("run", "k", "--", "sh", "-c", command, code=code)
            self.assertEqual((answer["result"], answer["key"], answer["exit"]), (result, "k", code))
            self.assertEqual(answer["release"], "released")
            self.assertIsInstance(answer["token"], int)
            return answer

        self.assertEqual(ran("exit 4", 4, "exited")["status"], 4)
        self.assertEqual(ran("kill $$", 143, "killed")["signal"], "TERM")
        answer = self.ask("run", "k", "no-such-command", code=127)
        self.assertEqual((answer["result"], answer["release"]), ("not_found", "released"))
        self.assertIn("no-such-command", answer["message"])
        self.assertEqual(self.ask("run", "k", "/", code=126)["result"], "not_executable")
        self.take("k")
        answer = self.ask("run", "k", "true", code=75)
        self.assertEqual((answer["result"], answer["exit"]), ("timeout", 75))

    def test_not_acquired(self):
        self.take("k")
        marker = os.path.join(self.folder, "marker")
        self.assertSays(self.loquet("run", "k", "touch", marker), 75, "held by another")
        self.assertSays(self.loquet("run", "k", "--wait", "0.2", "touch", marker), 75, "0.2 s")
        self.assertFalse(os.path.exists(marker))


class Streams(CliCase):
    def shell(self, text):
        environment = dict(self.environment, LOQUET=program())
        return subprocess.run(
            ["/bin/bash", "-c", text], env=environment, capture_output=True, text=True, timeout=20, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def test_in_a_pipeline(self):
        done = self.shell("printf 'a\\nb\\n' | $LOQUET run k -- tr ab xy | sort -r; echo ${PIPESTATUS[*]}")
        self.assertEqual((done.stdout, done.stderr), ("y\nx\n0 0 0\n", ""))

    def test_reader_that_leaves(self):
        """The command gets its SIGPIPE, as we keep nothing of its streams."""
        done = self.shell("$LOQUET run k -- sh -c 'while echo y; do :; done' | head -1; echo ${PIPESTATUS[*]}")
        self.assertEqual(done.stdout.split()[:2], ["y", "141"], done)

    def test_streams_the_command_closes_are_closed(self):
        run = self.start("run", "k", "--", "sh", "-c", "exec <&- >&-; sleep 60", stdin=subprocess.PIPE)
        began = time.monotonic()
        self.assertEqual(run.stdout.read(), "")
        with self.assertRaises(BrokenPipeError):
            while time.monotonic() - began < 10:
                run.stdin.write("x" * 65536)
        self.assertIsNone(run.poll())
        run.terminate()
        self.assertEqual(run.wait(10), 143)
        run.stdin = None

    def test_other_descriptors_and_signals_are_inherited(self):
        done = self.shell("trap '' HUP USR1; $LOQUET run k -- grep -E 'Sig(Blk|Ign|Cgt)' /proc/self/status 3</dev/null")
        fields = dict(line.split() for line in done.stdout.splitlines())
        self.assertEqual(int(fields["SigBlk:"], 16), 0)
        self.assertEqual(int(fields["SigIgn:"], 16) & 0x201, 0x201)
        done = self.shell("$LOQUET run k -- sh -c 'ls /proc/$$/fd' 3</dev/null")
        self.assertEqual(done.stdout.split(), ["0", "1", "2", "3"])


class Holding(CliCase):
    def test_renewed_at_a_third_of_the_lease(self):
        with FakeServer(well_behaved) as server:
            status = self.loquet("run", "--lease", 2, "k", "--endpoints", server.endpoint, "--", "sleep", "1.8")
        self.assertEqual(status, (0, "", ""))
        self.assertRegex(server.ops(), r"^AKKK?R$")  # a third one, if the machine was slow to end the command
        self.assertEqual([request.lease for request in server.heard[:3]], [2, 2, 2])
        times = [request.when for request in server.heard]
        for before, after in ((times[0], times[1]), (times[1], times[2])):
            self.assertTrue(0.6 < after - before < 0.9, times)

    def test_longer_than_its_lease(self):
        run = self.start("run", "--lease", 1, "k", "--", *self.holder())
        (pid,) = self.held_by()
        began = time.monotonic()
        while time.monotonic() - began < 2.5:
            self.assertTrue(self.is_held("k"))
            time.sleep(0.1)
        os.kill(pid, 15)
        self.assertEqual(run.end(), (143, "", ""))
        self.assertFalse(self.is_held("k"))

    def test_one_after_the_other(self):
        """Runs that contend for a key never overlap, and each has a higher token."""
        log = os.path.join(self.folder, "log")
        command = (
            "import os, sys, time\n"
            "f = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)\n"
            "say = lambda w: os.write(f, ('%s %s\\n' % (w, os.environ['LOQUET_TOKEN'])).encode())\n"
            "say('in'); time.sleep(0.05); say('out')\n"
        )
        runs = [
            self.start("run", "--wait", 60, "--lease", 3, "k", "--", "/usr/bin/python3", "-S", "-c", command, log)
            for _ in range(8)
        ]
        for run in runs:
            self.assertEqual(run.end(timeout=40), (0, "", ""))
        with open(log, encoding="utf-8") as file:
            words = [line.split() for line in file]
        self.assertEqual([word for word, _ in words], ["in", "out"] * 8)
        tokens = [int(token) for _, token in words]
        self.assertEqual(tokens[::2], tokens[1::2])
        self.assertEqual(tokens[::2], sorted(set(tokens)))

    def test_leftovers_are_ended_before_the_release(self):
        """The leader ends, two others of its group ignore TERM: the lock stays held until they are killed."""
        run = self.start("run", "--lease", 1, "k", "--", *self.holder("leave", "stubborn", count=3))
        pids = self.held_by(2)
        status, _, err = run.end(timeout=30)
        released = boottime()
        self.assertEqual((status, err), (5, ""))
        beats = self.beats()
        for pid in pids:
            self.assertLess(beats[pid], released)
            self.assertGreater(beats[pid], released - 1, "the release waited for nothing")
        self.assertEqual(members(run.pid), [])
        self.assertFalse(self.is_held("k"))

    def test_leftovers_may_end_by_themselves(self):
        began = time.monotonic()
        command = "(sleep 0.4; echo done) & exit 6"
        self.assertEqual(self.loquet("run", "k", "--", "sh", "-c", command), (6, "done\n", ""))
        self.assertTrue(0.4 <= time.monotonic() - began < 0.4 + SLACK)

    def test_release_that_is_not_confirmed_is_said(self):
        run = self.start("run", "--lease", 2, "k", "--", *self.holder())
        (pid,) = self.held_by()
        self.server.freeze()
        os.kill(pid, 9)
        status, _, err = run.end(timeout=20)
        self.assertEqual(status, 137)
        self.assertIn("not confirmed", err)
        self.assertIn("2 s", err)
        self.server.thaw()

    def test_json_of_a_release_that_is_not_confirmed(self):
        def script(peer):
            peer.grant(peer.request())
            peer.request()

        with FakeServer(script) as server:
            status, _, err = self.loquet("--json", "run", "k", "--lease", 2, "--endpoints", server.endpoint, "true")
        answer = json.loads(err)
        self.assertEqual((status, answer["result"], answer["release"]), (0, "exited", "indeterminate"))
        self.assertIn("not confirmed", answer["message"])
