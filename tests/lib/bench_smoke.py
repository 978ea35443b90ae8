#!/usr/bin/python3
"""A second of load on a fresh loquetd in a few shapes: does every request get a right answer, does the server end well?
Not a measurement. LOQUETD and LQ_BENCH name the programs. Prints "N passed, N failed"."""

import pathlib
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


def main():
    failed = 0
    for name, shape in SHAPES.items():
        try:
            fault = load(shape)
        except (lqbench.BenchTrouble, lqserver.ServerTrouble, OSError, KeyError) as trouble:
            fault = "%s: %s" % (type(trouble).__name__, trouble)
        failed += fault is not None
        if fault is not None:
            print("%s: %s" % (name, fault))
    print("%d passed, %d failed" % (len(SHAPES) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
