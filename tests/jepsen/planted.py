#!/usr/bin/python3
"""Plants faults in the nodes of real clusters, one after the other, and lets the judge find them on fresh seeds.

    tests/jepsen/planted.py [--with planted | --build FOLDER] [--out FOLDER] [--limit S] [NUMBER...]

A fault counts as one test. It is found when a run breaks a rule, or when a node notices by itself that something cannot be
and ends. Prints how long that took, and by which rule. The numbers are those of protocol/lq_planted.h.
"""

import argparse
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT_S = 600
RUN_S = 40
PROCESSES = "kill-*,freeze-*,term-*,power-*"

# What shows a fault soonest. Left out: a bad checksum that is taken (12), since nothing here damages an entry that a
# node believes to be good; and a stale completion of a write (13), which needs entries to be replaced while they are
# being written, a matter of microseconds: the simulator finds both.
FAULTS = {
    1: ("commits what only the leader has", PROCESSES + ",isolate-leader,split"),
    2: ("applies a command again that was applied", PROCESSES + ",transfer"),
    3: ("Expire ends whatever grant holds the key", PROCESSES),
    4: ("Expire ends a lease that runs on", PROCESSES),
    5: ("gives a token a second time", PROCESSES),
    6: ("a snapshot leaves out a waiter", PROCESSES + ",isolate-follower,replace"),
    7: ("table time is based anew on each entry", PROCESSES),
    8: ("answers before the commit", PROCESSES + ",isolate-leader"),
    9: ("the vote is not stored", PROCESSES),
    10: ("resends a command under a new number", PROCESSES + ",transfer,isolate-leader"),
    11: ("a cancelled waiter stays in the queue", PROCESSES),
    14: ("a grant is delivered however old it is", PROCESSES + ",isolate-*"),
    15: ("messages leave before term and vote are durable", "power-*,kill-*,disk-slow,isolate-leader"),
}


def hunt(number, nemeses, options):
    """(seconds, by what), or None."""
    began = time.monotonic()
    while time.monotonic() < began + options.limit:
        command = [sys.executable, "-B", os.path.join(HERE, "jepsen.py"), "--plant", str(number), "--quiet", "--time", str(RUN_S)]
        command += ["--nemesis", nemeses, "--at-once", "2"]
        command += ["--out", options.out] if options.out else []
        command += ["--build", options.build] if options.build else ["--with", options.preset]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 1:
            return time.monotonic() - began, re.search(r"verdict: BAD: (.*)", done.stdout).group(1)
        noticed = re.search(r"level=error msg=\"([^\"]*)", done.stdout)
        if done.returncode == 2 and noticed:
            return time.monotonic() - began, "a node itself: %.100s" % noticed.group(1)
        if done.returncode == 2:
            print("a run failed:\n%s%s" % (done.stdout[-3000:], done.stderr[-3000:]), flush=True)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("number", nargs="*", type=int)
    parser.add_argument("--with", default="planted", dest="preset")
    parser.add_argument("--build")
    parser.add_argument("--out")
    parser.add_argument("--limit", type=float, default=LIMIT_S)
    options = parser.parse_args()
    passed = failed = 0
    for number in options.number or FAULTS:
        name, nemeses = FAULTS[number]
        found = hunt(number, nemeses, options)
        if found:
            passed += 1
            print("planted %2d, %s: found after %.0f s by %s" % (number, name, *found), flush=True)
        else:
            failed += 1
            print("FAILED planted %2d, %s: not found within %.0f s" % (number, name, options.limit), flush=True)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
