#!/usr/bin/python3
"""A second of load on a fresh loquetd in a few shapes: does every request get a right answer, does the server end well?
Then bench_replica, which is beside lq_bench, in a few shapes: it checks its answers and compares the three replicas.
Not a measurement. LOQUETD and LQ_BENCH name the programs. Prints "N passed, N failed"."""

import json
import pathlib
import subprocess
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "bench"), str(TESTS / "integration")]

import lqbench  # noqa: E402
import lqserver  # noqa: E402

SHAPES = {
    "own keys, depth 1": ("--connections", 8, "--depth", 1),
    "own keys, depth 16": ("--connections", 8, "--depth", 16),
    "one shared key": ("--connections", 8, "--keys", "shared"),
    "over 20,000 held locks": ("--connections", 8, "--hold", 20000, "--then-load"),
}

HEART_SHAPES = {
    "heart, from the leader": (),
    "heart, from all nodes": ("--from", "all", "--batch", "96"),
    "heart, through sessions": ("--from", "all", "--through", "sessions"),
    "heart, keys held, snapshots": ("--keys", "2000", "--held", "--snapshot-entries", "100", "--profile"),
}


def load(shape):
    """What is wrong with one run; None if nothing."""
    with lqserver.Server() as server:
        report = lqbench.run(
            "--target", "%s:%d" % server.address, "--server-pid", server.pid, "--warmup", 0.1, "--duration", 0.5, *shape
        )
        server.stop()
    if report["pairs"] < 10:
        return "only %d pairs" % report["pairs"]
    return None


def beat(shape):
    """What is wrong with one run of bench_replica; None if nothing."""
    program = pathlib.Path(lqbench.find_bench()).with_name("bench_replica")
    command = [program, "--json", "--repeat", "1", "--pairs", "10000", *shape]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        return "exit status %d: %s" % (done.returncode, done.stderr)
    report = json.loads(done.stdout)
    if report["pairs_per_s"] < 10 or ("--snapshot-entries" in shape) != (report["snapshots"] > 0):
        return "an odd report: %s" % done.stdout
    return None


def main():
    failed = 0
    runs = [(load, name, shape) for name, shape in SHAPES.items()]
    runs += [(beat, name, shape) for name, shape in HEART_SHAPES.items()]
    for run, name, shape in runs:
        try:
            fault = run(shape)
        except (
            lqbench.BenchTrouble,
            lqserver.ServerTrouble,
            OSError,
            KeyError,
            ValueError,
            subprocess.TimeoutExpired,
        ) as trouble:
            fault = "%s: %s" % (type(trouble).__name__, trouble)
        failed += fault is not None
        if fault is not None:
            print("%s: %s" % (name, fault))
    print("%d passed, %d failed" % (len(runs) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
