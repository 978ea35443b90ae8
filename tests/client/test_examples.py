"""The examples do what they say, against a real server. LQ_EXAMPLES names their folder."""

import os
import re
import select
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration"))

import lqcase  # noqa: E402

SECONDS = 30


class ExamplesCase(lqcase.LoquetCase):
    def launch(self, name, *arguments):
        path = os.path.join(os.environ.get("LQ_EXAMPLES", ""), name)
        command = [path, "%s:%d" % self.server.address, *map(str, arguments)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.addCleanup(process.wait)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.kill)
        return process

    def finish(self, process, status=0):
        out, _ = process.communicate(timeout=SECONDS)
        self.assertEqual(process.returncode, status, out)
        return out.splitlines()


class Worker(ExamplesCase):
    def test_each_runs_by_itself(self):
        workers = [self.launch("worker", "nightly", 5) for _ in range(4)]
        lines = [line for worker in workers for line in self.finish(worker)]
        self.assertEqual(len(lines), 20)
        tokens = sorted(int(re.fullmatch(r"done (\d+)", line)[1]) for line in lines)
        self.assertEqual(len(set(tokens)), 20)


class Election(ExamplesCase):
    def test_one_leads_after_another(self):
        candidates = {c.stdout: c for c in (self.launch("election", "leader", 1) for _ in range(2))}
        ready, _, _ = select.select(list(candidates), [], [], SECONDS)
        leader = candidates.pop(ready[0])
        (other,) = candidates.values()
        token = int(re.fullmatch(r"leads (\d+)\n", leader.stdout.readline())[1])
        self.assertEqual(select.select([other.stdout], [], [], 0.2)[0], [], "two lead")
        leader.stdin.write("\n")
        self.assertEqual(leader.stdout.readline(), "steps down %d\n" % token)
        self.assertGreater(int(re.fullmatch(r"leads (\d+)\n", other.stdout.readline())[1]), token)
        self.finish(leader)

    def test_a_frozen_server_makes_the_leader_step_down(self):
        """By the clock: nobody tells it."""
        leader = self.launch("election", "leader", 1)
        self.assertRegex(leader.stdout.readline(), r"leads \d+")
        self.server.freeze()
        self.addCleanup(self.server.thaw)
        self.assertRegex(leader.stdout.readline(), r"steps down \d+")


class Fenced(ExamplesCase):
    def test_an_old_token_is_refused(self):
        folder = tempfile.TemporaryDirectory(prefix="lqexample-")
        self.addCleanup(folder.cleanup)
        database = os.path.join(folder.name, "rows.db")
        sleeper = self.launch("fenced", database, "row", "old", 4)  # longer than its lease
        self.wait_until_held(b"row")
        writer = self.launch("fenced", database, "row", "new")
        self.assertRegex(self.finish(writer)[0], r"written \d+")
        self.assertRegex(self.finish(sleeper, 1)[0], r"refused \d+")

    def wait_until_held(self, key):
        """Somebody else holds it."""
        with self.connect() as c:
            while True:
                owner = self.owner()
                answer = c.acquire(key, owner)
                if answer.op != "A":
                    return
                c.release(key, answer.token)
