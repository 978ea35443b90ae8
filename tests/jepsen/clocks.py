"""Clocks of nodes that are not what they seem: a wall clock that jumps, with libfaketime under any build, which leaves the
clocks alone that never jump; and clocks that run at different rates, in builds for tests (server/lq_testing.h)."""

import glob
import os

PATTERN = "/usr/lib/*/faketime/libfaketimeMT.so.1"
RATE_PPM = 5000  # at most; leases are shortened for twice as much
OFFSET_MS = 3600 * 1000


def library():
    """libfaketime, or None."""
    return next(iter(glob.glob(PATTERN)), None)


class WallClock:
    """The wall clock of a place, beside the true one."""

    def __init__(self, folder, number):
        self.path = os.path.join(folder, "wall-%d" % number)
        self.jump(0)

    def environment(self):
        return {
            "LD_PRELOAD": library(),
            "FAKETIME_TIMESTAMP_FILE": self.path,
            "FAKETIME_NO_CACHE": "1",  # each look at the clock sees the file as it is
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",  # as older ones call it
            "FAKETIME_DONT_RESET": "1",
        }

    def jump(self, seconds):
        """To so much after (before) the true time."""
        with open(self.path + ".new", "w", encoding="ascii") as file:
            file.write("%+d\n" % seconds)
        os.replace(self.path + ".new", self.path)

    def back(self):
        self.jump(0)


def rates(random, n):
    """Environments for n nodes, each with a clock of its own."""
    return [
        {"LQ_CLOCK_PPM": str(random.randint(-RATE_PPM, RATE_PPM)), "LQ_CLOCK_OFFSET_MS": str(random.randint(0, OFFSET_MS))}
        for _ in range(n)
    ]
