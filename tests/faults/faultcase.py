"""What the tests of the fault layer share: a directory under the layer and processes that work in it."""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import lqfaults

SEED = int(os.environ.get("LOQUET_TEST_SEED") or time.time_ns() % (1 << 32))
SECONDS = 20


class FaultCase(unittest.TestCase):
    # Where the directory lies: tmpfs has no slow syncs, other file systems have extents to ask for.
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

    def setUp(self):
        self.random = random.Random("%d:%s" % (SEED, self.id()))
        folder = tempfile.mkdtemp(prefix="lqfaults-", dir=self.base)
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        self.dir = os.path.join(folder, "data")
        os.mkdir(self.dir)
        self.layer = lqfaults.FaultLayer(self.dir, os.path.join(folder, "state"))
        self.addCleanup(self.layer.close)

    def start(self, code, *arguments, **more):
        """A Python program in the directory, under the layer."""
        process = subprocess.Popen(
            [sys.executable, "-B", "-S", "-E", "-c", "import errno, fcntl, mmap, os, sys\n" + code, *arguments],
            cwd=self.dir, env=self.layer.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, **more,
        )  # fmt: skip
        self.addCleanup(self._end, process)
        return process

    @staticmethod
    def _end(process):
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()

    def run_code(self, code, *arguments):
        """Runs it to its end, which has to be a good one; returns what it printed."""
        process = self.start(code, *arguments)
        out, err = process.communicate(timeout=SECONDS)
        self.assertEqual(process.returncode, 0, err)
        return out

    def run_refused(self, code):
        """Runs what the layer has to refuse."""
        process = self.start(code)
        _, err = process.communicate(timeout=SECONDS)
        self.assertEqual(process.returncode, -6, err)
        self.assertIn("lqfaults: ", err)

    def write(self, name, data):
        """A durable file, past the layer."""
        with open(os.path.join(self.dir, name), "wb") as file:
            file.write(data)

    def read(self, name):
        with open(os.path.join(self.dir, name), "rb") as file:
            return file.read()

    def names(self):
        return sorted(os.listdir(self.dir))
