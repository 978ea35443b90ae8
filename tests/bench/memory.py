#!/usr/bin/python3
"""What a million held locks cost: bytes each, the longest turn of the server's loop while the table grows, is swept and
shrinks, and the speed over TCP beside a small table. Prints a table; exits with 1 if a goal is missed.

    LOQUETD=path/to/loquetd tests/bench/memory.py [--part rss|turns|tcp] [--rounds N] [--duration S]

LOQUETD and LQ_BENCH name the programs; the defaults are those of the release build. Sanitizers make all figures
meaningless.
"""

import argparse
import os
import socket
import statistics
import struct
import sys
import time

import lqbench

sys.path.insert(0, os.path.join(os.path.dirname(lqbench.HERE), "integration"))
import lqserver  # noqa: E402  (starts and watches a loquetd of our own)

KEY_BYTES = 32
MILLION = 1_000_000
GROWN = 1_100_000  # beyond a million, so that no lucky size of the hash table decides
SMALL = 10_000
LEAST_LEASE_LEFT_S = 5

GOAL_BYTES = {MILLION: 160, GROWN: 200}
GOAL_TURN_US = 10_000
GOAL_SLOWDOWN = 1.3

SETTLE_SECONDS = 60


class Goals:
    """Collects the rows of the table of goals."""

    def __init__(self):
        self.rows = []

    def at_most(self, what, value, limit, form):
        self.rows.append((value <= limit, what, form % value, form % limit))

    def show(self):
        print("\n%-8s%-56s%12s%12s" % ("", "goal", "measured", "at most"))
        for good, what, value, limit in self.rows:
            print("%-8s%-56s%12s%12s" % ("met" if good else "MISSED", what, value, limit))
        return all(good for good, *_ in self.rows)


def cpu_ticks(pid):
    with open("/proc/%d/stat" % pid) as f:
        fields = f.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])  # utime, stime


def settle(server):
    """Waits until the server neither works nor changes in size (over half a second); its resident bytes then."""
    deadline = time.monotonic() + SETTLE_SECONDS
    before = None
    calm = 0
    while time.monotonic() < deadline:
        now = (server.resident_bytes(), cpu_ticks(server.pid))
        calm = calm + 1 if before is not None and now[0] == before[0] and now[1] - before[1] <= 1 else 0
        if calm >= 5:
            return now[0]
        before = now
        time.sleep(0.1)
    sys.exit("memory: the server did not come to rest in %d s" % SETTLE_SECONDS)


def target(server):
    host, port = server.address
    return "%s:%d" % (host, port)


def hold(server, count, lease):
    """Leaves `count` locks held in the server; the seconds it took."""
    report = lqbench.run("--target", target(server), "--hold", count, "--lease", lease, "--key-bytes", KEY_BYTES,
                         "--connections", 4, "--depth", 64, "--wait", 0)
    return report["hold"]["seconds"]


# ---- Bytes per lock.


def measure_rss(goals, _options):
    for count in (MILLION, GROWN):
        with lqserver.Server() as server:
            empty = settle(server)
            seconds = hold(server, count, 255)
            full = settle(server)
            server.stop()
        print("%9d locks: %.1f MB above the empty server's %.1f MB, taken in %.1f s"
              % (count, (full - empty) / 1e6, empty / 1e6, seconds))
        goals.at_most("bytes per lock, %d locks" % count, (full - empty) / count, GOAL_BYTES[count], "%.1f")


# ---- The longest turn.


def longest_turn(server):
    """The next `turns` line that the server logs on SIGUSR1."""
    seen = sum(1 for line in server.lines if "msg=turns" in line)
    server.send_signal(lqserver.signal.SIGUSR1)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        lines = [pairs for pairs in map(lqserver.parse_logfmt, server.lines) if pairs and pairs.get("msg") == "turns"]
        if len(lines) > seen:
            return int(lines[-1]["longest_us"])
        time.sleep(0.01)
    sys.exit("memory: no line msg=turns after SIGUSR1; does the server know --turn-stats?" + server.story())


class Sentinels:
    """Locks that tell whether the sweep has passed: a release of an expired key is answered with R if it was still
    there and with N if not. Each asks once, since the release itself removes the key."""

    COUNT = 1000

    def __init__(self, server, lease):
        self.socket = socket.create_connection(server.address, timeout=10)
        self.stream = self.socket.makefile("rwb")
        self.tokens = [self._acquire(self._key(i), lease) for i in range(self.COUNT)]

    @staticmethod
    def _key(i):
        return b"sentinel-%d" % i

    def _acquire(self, key, lease):
        self.stream.write(b"A" + struct.pack(">BBQ", 0, lease, 1) + key + b"\n")
        self.stream.flush()
        answer = self.stream.read(17 + len(key) + 1)
        if answer[:1] != b"A":
            sys.exit("memory: expected A for %r, got %r" % (key, answer))
        return answer[1:9]

    def wait_until_swept(self, seconds):
        deadline = time.monotonic() + seconds
        for i, token in enumerate(self.tokens):
            key = self._key(i)
            self.stream.write(b"R" + token + key + b"\n")
            self.stream.flush()
            answer = self.stream.read(9 + len(key) + 1)
            if answer[:1] == b"N":
                self.socket.close()
                return
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)
        sys.exit("memory: expired locks were not swept within %d s" % seconds)


def measure_turns(goals, options):
    lease = options.turns_lease
    with lqserver.Server("--turn-stats", "--sweep-ms", 1000) as server:
        empty = settle(server)
        longest_turn(server)
        begin = time.monotonic()
        seconds = hold(server, GROWN, lease)
        sentinels = Sentinels(server, lease)
        if time.monotonic() - begin > lease - 1:
            sys.exit("memory: the first locks expired before the last were taken: --turns-lease above %d" % lease)
        full = server.resident_bytes()
        growing = longest_turn(server)
        time.sleep(max(0, begin + seconds + lease - time.monotonic()))  # the last lease ends: nothing to ask before
        sentinels.wait_until_swept(60)
        swept = settle(server)
        shrinking = longest_turn(server)
        server.stop()
    print("%9d locks: grew from %.1f to %.1f MB in %.1f s, swept to %.1f MB; longest turn %d µs, then %d µs"
          % (GROWN, empty / 1e6, full / 1e6, seconds, swept / 1e6, growing, shrinking))
    goals.at_most("longest turn while growing, CPU µs", growing, GOAL_TURN_US, "%d")
    goals.at_most("longest turn while sweeping and shrinking, CPU µs", shrinking, GOAL_TURN_US, "%d")


# ---- Speed beside a small table.


def load(server, depth, seed, options):
    return lqbench.run("--target", target(server), "--server-pid", server.pid, "--connections", 64, "--depth", depth,
                       "--key-bytes", KEY_BYTES, "--key-set", 100_000, "--seed", seed, "--warmup", 0.5,
                       "--duration", options.duration)


def measure_tcp(goals, options):
    begin = time.monotonic()
    runs = {depth: ([], []) for depth in (1, 16)}
    with lqserver.Server() as small, lqserver.Server() as big:
        hold(small, SMALL, 255)
        hold(big, MILLION, 255)
        for number in range(options.rounds):
            for depth, (small_runs, big_runs) in runs.items():
                small_runs.append(load(small, depth, number, options))
                big_runs.append(load(big, depth, number, options))
        if time.monotonic() - begin > 255 - LEAST_LEASE_LEFT_S:
            sys.exit("memory: the held locks expired during the rounds: fewer --rounds or a shorter --duration")
        small.stop()
        big.stop()
    for depth, pair in runs.items():
        show_tcp(goals, depth, *pair)


def show_tcp(goals, depth, small_runs, big_runs):
    print("64 connections x depth %d, medians of %d rounds:" % (depth, len(small_runs)))
    for held, runs in ((SMALL, small_runs), (MILLION, big_runs)):
        print("%9d locks held: %.0f pairs/s, server CPU %.2f µs/pair"
              % (held, statistics.median(r["pairs_per_s"] for r in runs),
                 statistics.median(r["server_cpu_us_per_pair"] for r in runs)))
    ratios = [s["pairs_per_s"] / b["pairs_per_s"] for s, b in zip(small_runs, big_runs)]
    print("time per pair, big over small, by round: " + " ".join("%.2f" % r for r in ratios))
    goals.at_most("time per pair over TCP at depth %d, 1 M over 10 k held" % depth, statistics.median(ratios),
                  GOAL_SLOWDOWN, "%.2f")


PARTS = {"rss": measure_rss, "turns": measure_turns, "tcp": measure_tcp}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--part", choices=PARTS, action="append", help="only this one (may be repeated)")
    parser.add_argument("--rounds", type=int, default=5, help="of the comparison over TCP (5)")
    parser.add_argument("--duration", type=float, default=4.0, help="seconds of each of its runs (4)")
    parser.add_argument("--turns-lease", type=int, default=30, help="seconds that the 1.1 M locks live (30)")
    return parser.parse_args()


def main():
    options = parse()
    goals = Goals()
    print("%d processors, load %.2f" % (os.cpu_count(), os.getloadavg()[0]))
    try:
        for part in options.part or PARTS:
            PARTS[part](goals, options)
    except (lqbench.BenchTrouble, lqserver.ServerTrouble) as trouble:
        sys.exit("memory: %s" % trouble)
    return 0 if goals.show() else 1


if __name__ == "__main__":
    sys.exit(main())
