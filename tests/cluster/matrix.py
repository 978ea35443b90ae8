#!/usr/bin/python3
"""Runs the black-box tests of simple mode, those that hold for any node, against a cluster of three.

    LOQUETD=path/to/loquetd tests/cluster/matrix.py [NAME...]

Once through the leader alone, once through a follower alone, and once with the connections of each test taking turns
among all three. What simple mode alone promises is left out (lazy expiry, @simple_mode_only). Ends with one line
`N passed, N failed`.
"""

import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from lqcluster import INTEGRATION, Cluster  # noqa: E402

SUMMARY = re.compile(r"^(\d+) passed, (\d+) failed$", re.M)


def start(names, nodes):
    addresses = ",".join("%s:%d" % node.client for node in nodes)
    return subprocess.Popen(
        [sys.executable, os.path.join(INTEGRATION, "run.py")] + names,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(os.environ, LOQUET_ADDRESS=addresses, PYTHONDONTWRITEBYTECODE="1"),
        text=True,
    )


def main(names):
    passed = failed = 0
    with Cluster() as cluster:
        leader = cluster.wait_for_leader()
        others = cluster.followers()
        runs = {
            "the leader": start(names, [leader]),
            "a follower": start(names, [others[0]]),
            "all nodes": start(names, [leader, *others]),
        }
        for name, process in runs.items():
            out = process.communicate()[0]
            summary = SUMMARY.findall(out)
            good, bad = map(int, summary[-1]) if summary else (0, 1)
            if bad or process.returncode:
                print("through %s:\n%s" % (name, out))
                bad = bad or 1
            passed += good
            failed += bad
        try:
            cluster.stop()
        except AssertionError as e:
            print(e)
            failed += 1
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
