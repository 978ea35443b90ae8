#!/usr/bin/python3
"""What the blocking client costs: its pairs of acquire and release per second, from one thread, beside those of the
raw load generator on one connection, one request at a time, in turns on the same server. Prints both medians and the
median of the ratios; exits with 1 if that is below the goal.

    LOQUETD=path/to/loquetd tests/bench/compare_client.py [--rounds N] [--duration S] [--threads N]

LOQUETD and LQ_BENCH name the programs (bench_client is beside lq_bench); the defaults are those of the release build.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys

import lqbench

sys.path.insert(0, os.path.join(os.path.dirname(lqbench.HERE), "integration"))
import lqserver  # noqa: E402

GOAL = 0.8


def client_pairs(endpoint, options):
    program = pathlib.Path(lqbench.find_bench()).with_name("bench_client")
    command = [str(program), endpoint, str(options.duration), str(options.threads)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout)


def raw_pairs(endpoint, options):
    shape = ("--connections", options.threads, "--wait", 0, "--warmup", 0.2, "--duration", options.duration)
    return lqbench.run("--target", endpoint, *shape)["pairs_per_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--duration", type=int, default=2, metavar="S")
    parser.add_argument("--threads", type=int, default=1, metavar="N")
    options = parser.parse_args()
    raw, client = [], []
    with lqserver.Server() as server:
        endpoint = "%s:%d" % server.address
        for number in range(options.rounds):
            for measure, results in ((raw_pairs, raw), (client_pairs, client))[:: -1 if number % 2 else 1]:
                results.append(measure(endpoint, options))
        server.stop()
    ratio = statistics.median(a / b for a, b in zip(client, raw))
    print("raw %.0f pairs/s, client %.0f pairs/s, ratio %.2f (goal %.2f)" % (
        statistics.median(raw), statistics.median(client), ratio, GOAL))  # fmt: skip
    return 0 if ratio >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
