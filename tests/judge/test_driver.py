"""The driver and the fenced store against a real server of one process, and the judge's verdict on what they saw; and that
verdict when something between them lies."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

import paths
import judge
import lqserver
from case import Limits
from history import load
from test_generated import SEED

HERE = os.path.dirname(os.path.abspath(paths.__file__))
SECONDS = 3
LIMITS = Limits(exact=False)  # one process: a release after the lease may get R


class DriverTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="lqjudge-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.server = lqserver.Server()
        self.server.start()
        self.addCleanup(self.server.kill)

    def spawn(self, *command):
        process = subprocess.Popen(
            [sys.executable, "-B", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(self._end, process)
        return process

    @staticmethod
    def _end(process):
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()

    def path(self, name):
        return os.path.join(self.folder, name)

    def drive(self, *addresses, name="", seconds=SECONDS, more=()):
        """Starts a driver; its history is in the file driver-NAME."""
        command = [os.path.join(HERE, "driver.py"), "--out", self.path("driver-" + name), "--seconds", str(seconds)]
        command += ["--seed", str(SEED), "--name", name, *more]
        for number, address in enumerate(addresses, 1):
            command += ["--node", "%d=%s:%d" % (number, *address)]
        return self.spawn(*command)

    def finish(self, driver):
        """Waits for a driver's end; returns the numbers of requests and answers."""
        line = driver.stdout.readline()
        self.assertEqual(driver.wait(timeout=60), 0)
        return [int(number) for number in re.match(r"seed \d+: (\d+) requests, (\d+) answers", line).groups()]

    def judged(self, *names):
        return judge.judge(load([self.path(name) for name in names]), LIMITS)

    def test_a_good_server_passes(self):
        store = self.spawn(os.path.join(HERE, "store.py"), self.path("store"))
        port = store.stdout.readline().strip()
        drivers = [
            self.drive(self.server.address, self.server.address, name=name, more=("--store", port)) for name in "pq"
        ]
        for driver in drivers:
            asked, answered = self.finish(driver)
            self.assertGreater(asked, 1000)
            self.assertGreater(answered, 1000)
        store.stdin.close()
        self.assertEqual(store.wait(timeout=20), 0)
        self.server.stop()
        case = self.judged("driver-p", "driver-q", "store")
        self.assertEqual(case.violations, [])
        rules = {"tokens", "one holder", "certain leases", "store", "R and K", "fifo", "T", "late", "connections"}
        self.assertLessEqual(rules, set(case.checked))

    def test_rude_clients_and_those_that_sleep(self):
        """Crowds, clients that do not read, cut connections; and sleepers, whose late writes a store must refuse."""
        store = self.spawn(os.path.join(HERE, "store.py"), self.path("store"))
        port = store.stdout.readline().strip()
        mix = "crowd=3,stall=2,cut=8,sleeper=4,hot=4"
        self.finish(self.drive(self.server.address, seconds=2 * SECONDS, more=("--store", port, "--mix", mix)))
        store.stdin.close()
        self.assertEqual(store.wait(timeout=20), 0)
        self.server.stop()
        case = judge.judge(load([self.path("driver-"), self.path("store")]), LIMITS._replace(late_ms=5000))
        self.assertEqual(case.violations, [])
        ways = {(conn.close_event["why"], conn.shut is not None) for conn in case.history.connections.values()}
        self.assertLessEqual({("own", False), ("eof", True)}, ways)
        self.assertTrue(any("lost" in event for event in case.history.stores))
        self.assertGreaterEqual(sum(a.key.endswith("crowd") for a in case.history.acquires), 100)

    def test_the_command_gives_the_verdict(self):
        self.finish(self.drive(self.server.address, seconds=0.5))
        command = [sys.executable, "-B", os.path.join(HERE, "judge.py"), "--lazy", self.path("driver-")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (0, "verdict: good"), done.stdout)
        with open(self.path("driver-"), "a", encoding="ascii") as file:
            file.write('{"t":99999999999999999,"e":"open","conn":"x","client":"x","node":1}\n')
            file.write('{"t":99999999999999999,"e":"recv","conn":"x","op":"A","key":"k","owner":1,"token":1}\n')
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn("verdict: BAD: answers (1)", done.stdout)
        with open(self.path("driver-"), "a", encoding="ascii") as file:
            file.write("what?\n")
        self.assertEqual(subprocess.run(command, capture_output=True, timeout=60).returncode, 2)

    def test_a_server_that_dies_is_seen(self):
        """Without a fault in the history that excuses it, and without its locks afterwards."""
        driver = self.drive(self.server.address, seconds=30)
        self.assertTrue(self.server.running())
        wait_for_growth(self.path("driver-"))
        self.server.send_signal(signal.SIGKILL)
        self.server.wait()
        driver.stdin.close()
        self.finish(driver)
        self.assertIn("connections", {violation.rule for violation in self.judged("driver-").violations})

    def test_two_servers_that_believe_to_be_one_are_seen(self):
        other = lqserver.Server()
        other.start()
        self.addCleanup(other.kill)
        self.finish(self.drive(self.server.address, other.address, seconds=1.5))
        rules = {violation.rule for violation in self.judged("driver-").violations}
        self.assertLessEqual({"one holder", "certain leases"}, rules)

    def test_a_liar_in_between_is_seen(self):
        """It turns every fiftieth R into N."""
        liar = Liar(self.server.address)
        self.addCleanup(liar.close)
        self.finish(self.drive(liar.address, seconds=1.5))
        self.assertGreater(liar.lies, 0)
        self.assertIn("N", {violation.rule for violation in self.judged("driver-").violations})


def wait_for_growth(path):
    """Until a history is written to."""
    for _ in range(2000):
        if os.path.exists(path) and os.path.getsize(path) > 100_000:
            return
        threading.Event().wait(0.01)
    raise AssertionError("the driver writes nothing")


class Liar:
    """A relay that changes what the server says."""

    def __init__(self, server):
        self.server, self.lies, self._seen = server, 0, 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = self._listener.getsockname()
        self._sockets = [self._listener]
        self._start(self._accept)

    @staticmethod
    def _start(work, *arguments):
        threading.Thread(target=work, args=arguments, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self.server)
            self._sockets += [client, server]
            self._start(self._relay, client, server, None)
            self._start(self._relay, server, client, self._lie)

    def _relay(self, source, target, change):
        try:
            while data := source.recv(1 << 16):
                target.sendall(change(data) if change else data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def _lie(self, data):
        """Only where a piece begins with an R: that is the beginning of a frame, as pieces are small."""
        if data[:1] == b"R":
            self._seen += 1
            if self._seen % 50 == 0:
                self.lies += 1
                return b"N" + data[1:]
        return data

    def close(self):
        for sock in self._sockets:
            sock.close()


if __name__ == "__main__":
    unittest.main()
