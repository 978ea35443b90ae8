"""A well-behaved client beside the misbehaving ones of a test: it takes the time of every acquire and release.

It is a process of its own, so that what it measures is the server, not the busy interpreter of the test.

    with Bystander(case) as bystander:
        ...whatever should not disturb it...
    bystander.check()
"""

import json
import os
import select
import statistics
import subprocess
import sys
import time

import lqwire

PAUSE = 0.002


class Bystander:
    def __init__(self, case):
        self.case = case
        self.process = None
        self.times = []
        self.failure = None

    def __enter__(self):
        host, port = self.case.server.address
        self.process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), host, str(port), self.case.key("bystander").decode()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.case.addCleanup(self.end)
        self.case.assertEqual(self.process.stdout.readline(), b"ready\n")
        return self

    def __exit__(self, *unused):
        self.process.stdin.close()
        self.process.stdin = None  # or communicate() would flush what is closed
        try:
            out, _ = self.process.communicate(timeout=2 * lqwire.PATIENCE)
            self.times, self.failure = json.loads(out)
        except (ValueError, subprocess.TimeoutExpired) as e:
            self.failure = "the bystander gave no report: %r" % e

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def check(self, least=2, typical=0.25, worst=3.0):
        """After the end: it was served without failure, and mostly at once. Loose, as other tests run meanwhile."""
        self.case.assertIsNone(self.failure)
        self.case.assertGreaterEqual(len(self.times), least, "a bystander was hardly served")
        self.case.assertLess(statistics.median(self.times), typical, "a bystander was served slowly")
        self.case.assertLess(max(self.times), worst, "a bystander was left waiting")


def stand_by(address, key):
    """Acquires and releases until stdin ends; prints [seconds of each pair, failure or null]."""
    times, failure = [], None
    connection = lqwire.Connection(address)
    token = connection.acquire(key, 1).token
    connection.release(key, token)
    print("ready", flush=True)
    try:
        while not select.select([sys.stdin], [], [], PAUSE)[0]:
            before = time.monotonic()
            answer = connection.acquire(key, len(times))
            if answer.op != "A" or answer.token <= token:
                raise lqwire.ProtocolViolation("no grant of a free key: %r" % (answer,))
            token = answer.token
            if connection.release(key, token) != lqwire.released(key, token):
                raise lqwire.ProtocolViolation("no release of an own token")
            times.append(time.monotonic() - before)
    except AssertionError as e:
        failure = repr(e)
    connection.close()
    print(json.dumps([times, failure]))


if __name__ == "__main__":
    stand_by((sys.argv[1], int(sys.argv[2])), sys.argv[3].encode())
