"""Load on a cluster while something is done to it, and the verdict on what its clients were told.

    load = Load(folder, nodes, mix, seed)        # a process of its own (tests/judge/driver.py), recording
    load.wait_flowing()
    fault = load.fault("kill", leader)           # from now on: excuses what the judge would blame
    ...
    load.healed(fault)
    load.end()
    case = load.judge()                          # tests/judge: case.violations, case.history
"""

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
JUDGE = os.path.join(TESTS, "judge")
for path in (JUDGE, HERE):
    if path not in sys.path:
        sys.path.insert(0, path)

import case as judge_case  # noqa: E402
import history  # noqa: E402
import judge  # noqa: E402

import lqserver  # noqa: E402
from lqcluster import wait_until  # noqa: E402

FLOWING_BYTES = 1 << 16  # of history: some hundred events
END_SECONDS = 30.0  # for what is open, at the end


class Load:
    def __init__(self, folder, nodes, mix, seed, name="", **options):
        """nodes: where the clients go, spread evenly at random. Options are those of driver.py: rate, keys, ..."""
        self.out = os.path.join(folder, "history%s" % name)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.out)  # of an earlier load
        self.told = ""
        self.events = []
        command = self.command(nodes, mix, seed, name, options)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def command(self, nodes, mix, seed, name, options):
        command = [sys.executable, os.path.join(JUDGE, "driver.py"), "--out", self.out, "--seconds", "100000"]
        command += ["--mix", mix, "--seed", str(seed), "--name", name]
        command += ["--prefix", "%x-" % seed]  # what an earlier load left held is not in this history
        for node in nodes:
            command += ["--node", "%d=%s:%d" % (node.id, *node.client)]
        for option, value in options.items():
            command += ["--" + option.replace("_", "-"), str(value)]
        return command

    def wait_flowing(self, more_bytes=FLOWING_BYTES):
        """Until so much more is recorded."""
        goal = self._recorded() + more_bytes

        def flows():
            if self.process.poll() is not None:
                raise lqserver.ServerTrouble("the clients ended with status %d" % self.process.returncode)
            return self._recorded() >= goal

        wait_until("the clients are at work", flows)
        return self

    def _recorded(self):
        return os.path.getsize(self.out) if os.path.exists(self.out) else 0

    # What happens meanwhile, for the judge

    def event(self, kind, t=None, **fields):
        self.events.append({"t": time.monotonic_ns() if t is None else t, "e": kind, **fields})

    def fault(self, what, *nodes):
        """Begins now; returns what healed() wants."""
        number = len(self.events)
        self.event("fault", id=number, what=what, nodes=[node.id for node in nodes])
        return number

    def healed(self, fault):
        self.event("healed", id=fault)

    # End

    def end(self):
        """Nobody asks for more, what is open comes to its end."""
        try:
            self.told, _ = self.process.communicate(timeout=END_SECONDS)
        finally:
            self.kill()
        if self.process.returncode != 0:
            raise lqserver.ServerTrouble("the clients ended with status %d" % self.process.returncode)

    def kill(self):
        """Safe to call at any time, also twice."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
        self.process.stdin.close()
        self.process.stdout.close()

    def keep(self, path):
        """A copy of the whole history, faults included, for judge.py."""
        shutil.copyfile(self.out, path)
        with open(path, "a", encoding="ascii") as file:
            file.writelines(json.dumps(event) + "\n" for event in self.events)
        return path

    def judge(self, **limits):
        """The case of the judge: exact expiry, and B only during faults."""
        with open(self.out, encoding="ascii") as file:
            events = [json.loads(line) for line in file] + self.events
        events.sort(key=lambda event: event["t"])
        return judge.judge(events, judge_case.Limits(**{"busy": False, **limits}))


def verdict(case):
    """What the judge says, for people."""
    text = io.StringIO()
    judge.tell(case, text)
    return text.getvalue()


def previous_holds(case):
    """{token: the hold of the same key before it, as far as it was told}"""
    before = {}
    for key in case.keys.values():
        for last, hold in zip(key.holds, key.holds[1:]):
            before[hold.token] = last
    return before


NS = history.NS
