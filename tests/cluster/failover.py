#!/usr/bin/python3
"""Takes the leader away from a cluster under load, again and again, and measures how long nobody is granted anything.

    LOQUETD=path/to/loquetd tests/cluster/failover.py [--way kill|freeze] [--runs 50] [--freeze-s 10] [--seed N]

64 clients, on the two other nodes alone, acquire, hold, queue and release on a few hot keys and on many others. Then
the leader gets SIGKILL, or SIGSTOP for some seconds. For each run the judge (tests/judge) must find nothing, a closed
connection at the survivors included. Prints each time, and at the end the median, 90 % and the longest; fails above
the bounds.

The time is from just before the signal to the arrival of the first A that can't have been decided before it: its acquire
was sent after the leader was certainly gone (reaped, or stopped as the kernel says), or it waited for a holder whose
confirmed release was sent after that. Answers that were only on their way do not count. What the clients' own loop needs is
part of it.
"""

import argparse
import random
import shutil
import statistics
import sys
import tempfile
import time

from lqcluster import Cluster
from load import NS, Load, previous_holds, verdict

MIX = "hot=24,churn=16,poll=6,long=4,burst=4,cancel=4,stranger=6"  # 64 clients
BOUNDS_MS = {"kill": (150, 1500), "freeze": (600, 2500)}  # median, and longest
GO_ON_SECONDS = 1.5  # the load goes on so long after the signal, and
LATE_MS = 5000  # of what has nothing to do with the loss: a slow disk is not looked for here
CALM_SECONDS = 1.0  # then for so long, in which each client that is due has an answer


class Run:
    """One loss of the leader: after run(), `ms`, `by` (what the first grant was) and `case`."""

    def __init__(self, cluster, way, freeze_s, seed, folder):
        self.cluster, self.way, self.freeze_s = cluster, way, freeze_s
        self.random = random.Random(seed)
        self.seed, self.folder = seed, folder
        self.ms = self.by = self.case = self.load = None

    def run(self):
        leader = self.cluster.wait_for_leader()
        survivors = [node for node in self.cluster.nodes.values() if node is not leader]
        load = self.load = Load(self.folder, survivors, MIX, self.seed)
        try:
            load.wait_flowing()
            time.sleep(self.random.random() * 0.3)  # the random moment
            before, after = self._strike(load, leader)
            self._let_go_on(load, leader)
            load.end()
        finally:
            load.kill()
            self._mend(leader)
        self.case = load.judge(grace_ms=BOUNDS_MS[self.way][1], late_ms=LATE_MS)
        self._measure(before, after)
        return self

    def _strike(self, load, leader):
        """Stamps from just before the signal, and from when the leader certainly does nothing any more."""
        before = time.monotonic_ns()
        fault = load.fault(self.way, leader)
        if self.way == "kill":
            leader.kill()
        else:
            leader.freeze()
        load.healed(fault)  # what the clients of others may notice has its bound from here on
        return before, time.monotonic_ns()

    def _let_go_on(self, load, leader):
        if self.way == "freeze":
            time.sleep(self.freeze_s)
            leader.thaw()  # an old leader comes back under load
        time.sleep(GO_ON_SECONDS)
        load.event("calm", within_s=CALM_SECONDS)
        time.sleep(CALM_SECONDS)

    def _mend(self, leader):
        if self.way == "freeze" and leader.running():
            leader.thaw()
        if not leader.running():
            leader.start()
        self.cluster.wait_ready()

    def _measure(self, before, after):
        holder_before = previous_holds(self.case)
        best = None
        for key in self.case.keys.values():
            for hold in key.holds:
                acquire = hold.acquire
                if acquire.answered > after and (best is None or acquire.answered < best[0]):
                    why = self._caused(acquire, holder_before.get(hold.token), after)
                    best = (acquire.answered, why) if why else best
        if best is not None:
            self.ms, self.by = (best[0] - before) / 1e6, best[1]

    @staticmethod
    def _caused(acquire, holder, after):
        if acquire.sent > after:
            return "a new acquire"
        released = holder and holder.released
        return "a waiter" if released and released.sent > after else None


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def trouble(run):
    """What is wrong with a run, apart from its time; empty: nothing."""
    if run.case.violations:
        return verdict(run.case)
    if len({c.client for c in run.case.history.connections.values()}) < 64:
        return "not all of the clients ever connected"
    return "" if run.ms is not None else "nothing was granted after the loss of the leader"


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--way", choices=sorted(BOUNDS_MS), default="kill")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--freeze-s", type=float, default=10)
    parser.add_argument("--seed", type=int, default=time.time_ns() % (1 << 32))
    return parser.parse_args()


def main():
    options = parse_options()
    seeds = random.Random(options.seed)
    folder = tempfile.mkdtemp(prefix="lqfailover-")
    print("seed %d" % options.seed)
    times, bad = [], 0
    try:
        with Cluster() as cluster:
            for number in range(options.runs):
                run = Run(cluster, options.way, options.freeze_s, seeds.getrandbits(32), folder).run()
                wrong = trouble(run)
                print("run %d: %s ms, %s" % (number, run.ms and round(run.ms, 1), run.by), flush=True)
                times += [run.ms] if run.ms is not None else []
                if wrong:
                    bad += 1
                    kept = run.load.keep("%s/bad%d" % (folder, number))
                    stories = "".join(node.story(30) for node in cluster.nodes.values())
                    print("%s\nthe history: %s%s" % (wrong, kept, stories), flush=True)
    finally:
        if not bad:
            shutil.rmtree(folder, ignore_errors=True)
    if not times:
        return 1
    median, longest = statistics.median(times), max(times)
    print("%s: median %.1f ms, 90 %% %.1f ms, longest %.1f ms, %d of %d runs bad"
          % (options.way, median, percentile(times, 0.9), longest, bad, options.runs))  # fmt: skip
    most_median, most = BOUNDS_MS[options.way]
    return 1 if bad or median > most_median or longest > most else 0


if __name__ == "__main__":
    sys.exit(main())
