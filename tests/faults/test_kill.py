"""kill -9 at random moments under load, then a power loss: what was said to be durable is there, whole and in place;
without the syncs it is not."""

import os
import re
import subprocess
import sys
import time

import faultcase
import records

HERE = os.path.dirname(os.path.abspath(__file__))
ROUNDS = int(os.environ.get("LQ_FAULTS_ROUNDS") or 40)
WAYS = ("preallocated", "appended", "renamed", "removed")


class KillTest(faultcase.FaultCase):
    def round(self, firsts):
        """Runs the writers from these numbers on, kills them, loses power; returns {way: last number that was told}."""
        command = [sys.executable, "-B", "-S", "-E", os.path.join(HERE, "records.py"), self.dir]
        command += ["%s=%d" % (way, first) for way, first in firsts.items()]
        process = subprocess.Popen(
            command, env=self.layer.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )
        try:
            first = process.stdout.read(1)
            time.sleep(self.random.random() * 0.06)  # the random moment
        finally:
            process.kill()
        out, err = process.communicate(timeout=faultcase.SECONDS)
        self.assertNotIn(b"Error", err)
        self.assertNotIn(b"lqfaults", err)
        story = self.layer.power_loss(self.random.getrandbits(32))
        told = {way: firsts[way] - 1 for way in WAYS}
        for way, number in re.findall(rb"^(\w+) (\d+)$", first + out, re.M):
            told[way.decode()] = int(number)
        return told, story

    def faults(self, told):
        """What is missing of that which was told, as a list of texts."""
        found = []
        for way in WAYS:
            if told[way] >= 0:
                found += ["%s %d: %s" % (way, told[way], fault) for fault in getattr(self, "_" + way)(told[way])]
        return found

    def _preallocated(self, last):
        data = self.read("preallocated") if "preallocated" in self.names() else b""
        for number in range(max(0, last - records.SLOTS + 2), last + 1):
            at = number % records.SLOTS * 512
            if data[at : at + 512] != records.record(number, 512):
                yield "record %d is %r" % (number, data[at : at + 12])

    def _appended(self, last):
        data = self.read("appended") if "appended" in self.names() else b""
        for number in range(last + 1):
            if data[number * 32 : number * 32 + 32] != records.record(number, 32):
                yield "record %d is %r" % (number, data[number * 32 : number * 32 + 12])

    def _renamed(self, last):
        good = [records.record(last, 3000), records.record(last + 1, 3000)]
        if "renamed" not in self.names() or self.read("renamed") not in good:
            yield "it is not there, or torn"

    def _removed(self, last):
        for number in (last - 1, last):  # `last - 1` may be gone already, by the removal after `last`
            name = "file-%d" % number
            if name not in self.names():
                if number == last:
                    yield name + " is not there"
            elif self.read(name) != records.record(number, 700):
                yield name + " is torn"
        for number in range(last - 1):
            if "file-%d" % number in self.names():
                yield "file-%d is back" % number

    def test_what_was_synced_survives(self):
        firsts, undone = dict.fromkeys(WAYS, 0), 0
        for turn in range(ROUNDS):
            told, story = self.round(firsts)
            self.assertEqual(self.faults(told), [], "round %d, %s" % (turn, story))
            firsts = {way: told[way] + 1 for way in WAYS}
            undone += any(int(n) for n in re.findall(r"(\d+) of", story))
        self.assertGreater(min(firsts.values()), ROUNDS, "hardly anything was written")
        self.assertGreater(undone, ROUNDS // 3, "the power losses undid nothing")

    def test_without_syncs_it_is_lost(self):
        self.layer.skip_syncs(True)
        lost = set()
        for _ in range(10):
            for name in self.names():
                os.unlink(os.path.join(self.dir, name))
            told, _ = self.round(dict.fromkeys(WAYS, 0))
            lost.update(fault.split()[0] for fault in self.faults(told))
        self.assertEqual(lost, set(WAYS))
