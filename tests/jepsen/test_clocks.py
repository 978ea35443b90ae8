"""Clocks that jump: the wall clock does, the others do not, and a server does not care."""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import clocks
import lqserver
import lqwire

SHOW = """
import time
for line in iter(input, "end"):
    print(time.time(), time.clock_gettime(time.CLOCK_MONOTONIC), time.clock_gettime(time.CLOCK_BOOTTIME), flush=True)
"""
DAY = 86400


@unittest.skipIf(clocks.library() is None, "there is no libfaketime (package libfaketime)")
class WallClockTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="lqclocks-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.clock = clocks.WallClock(self.folder, 1)

    def test_only_the_wall_clock_jumps(self):
        environment = {**os.environ, **self.clock.environment()}
        with subprocess.Popen(
            [sys.executable, "-c", SHOW], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            for jump in (0, DAY, -DAY, 3600, 0):
                self.clock.jump(jump)
                process.stdin.write("now\n")
                process.stdin.flush()
                wall, monotonic, boottime = (float(word) for word in process.stdout.readline().split())
                self.assertLess(abs(wall - time.time() - jump), 2)
                self.assertLess(abs(monotonic - time.clock_gettime(time.CLOCK_MONOTONIC)), 1)
                self.assertLess(abs(boottime - time.clock_gettime(time.CLOCK_BOOTTIME)), 1)
            process.stdin.write("end\n")

    def test_a_lease_keeps_its_length(self):
        lqserver.extra_environment.update(self.clock.environment())
        self.addCleanup(lqserver.extra_environment.clear)
        server = lqserver.Server()
        server.start()
        self.addCleanup(server.kill)
        for jump in (DAY, -DAY, 0):
            with lqwire.Connection(server.address) as c, lqwire.Connection(server.address) as d:
                began = time.monotonic()
                self.assertEqual(c.acquire(b"k%d" % jump, 1, 0, 2).op, "A")
                self.clock.jump(jump)
                self.assertEqual(d.acquire(b"k%d" % jump, 2, 10, 2).op, "A")
                self.assertTrue(1.98 < time.monotonic() - began < 3.5)
        server.stop()


class RatesTest(unittest.TestCase):
    def test_each_node_has_its_own(self):
        drawn = clocks.rates(random.Random(1), 5)
        self.assertEqual(len({rate["LQ_CLOCK_PPM"] for rate in drawn}), 5)
        self.assertTrue(all(abs(int(rate["LQ_CLOCK_PPM"])) <= clocks.RATE_PPM for rate in drawn))


if __name__ == "__main__":
    unittest.main()
