#!/usr/bin/python3
"""Reads the reports that compare_redis.sh left in a folder (PROTOCOL-DEPTH-ROUND.json), prints medians and ratios, and
exits with 1 if a goal is missed."""

import glob
import json
import os
import sys

from reports import check_clean, median, ratio, ratios, warn_if_disturbed

PROTOCOLS = ("loquet", "redis", "echo")

# Depth: the least median of Loquet's pairs/s over Redis', round by round. (At depth 1 both mostly pay for the kernel's
# sockets, and a bare echo server is only a little ahead of Redis.)
LEAST_RATIO = {1: 0.95, 16: 3.0}

COLUMNS = (
    ("pairs/s", lambda r: r["pairs_per_s"], "%.0f"),
    ("acquire p50 µs", lambda r: r["acquire_us"]["p50"], "%.0f"),
    ("acquire p99 µs", lambda r: r["acquire_us"]["p99"], "%.0f"),
    ("release p50 µs", lambda r: r["release_us"]["p50"], "%.0f"),
    ("release p99 µs", lambda r: r["release_us"]["p99"], "%.0f"),
    ("server CPU µs/pair", lambda r: r["server_cpu_us_per_pair"], "%.2f"),
    ("server busy %", lambda r: r["server_busy"] * 100, "%.0f"),
    ("client CPU µs/pair", lambda r: r["client_cpu_us_per_pair"], "%.2f"),
    ("client busy %", lambda r: r["client_busy"] * 100, "%.0f"),
    ("others busy %", lambda r: r["others_busy"] * 100, "%.0f"),
)


def load(folder):
    """{depth: {protocol: [report of round 1, report of round 2, ...]}}"""
    found = {}
    for path in glob.glob(os.path.join(folder, "*.json")):
        protocol, depth, round_number = os.path.basename(path)[: -len(".json")].split("-")
        with open(path) as f:
            found.setdefault(int(depth), {}).setdefault(protocol, {})[int(round_number)] = json.load(f)
    return {
        depth: {protocol: [rounds[n] for n in sorted(rounds)] for protocol, rounds in protocols.items()}
        for depth, protocols in sorted(found.items())
    }


def print_depth(depth, by_protocol):
    shape = by_protocol["loquet"][0]["shape"]
    rounds = len(by_protocol["loquet"])
    print(
        "\n%d connections x depth %d, own keys of %d bytes out of %d, medians of %d rounds"
        % (shape["connections"], depth, shape["key_bytes"], shape["key_set"], rounds)
    )
    print("%-20s" % "" + "".join("%12s" % p for p in PROTOCOLS))
    for name, value, form in COLUMNS:
        print("%-20s" % name + "".join("%12s" % (form % median(by_protocol[p], value)) for p in PROTOCOLS))


def judge(depth, by_protocol):
    """Prints the goals of a depth; True if all are met."""
    rate = COLUMNS[0][1]
    pair = by_protocol["loquet"], by_protocol["redis"]
    print("loquet/redis by round: " + " ".join("%.2f" % r for r in ratios(*pair)))
    print("loquet/echo, medians:  %.2f" % (median(by_protocol["loquet"], rate) / median(by_protocol["echo"], rate)))
    ours, theirs = (median(by_protocol[p], lambda r: r["server_cpu_us_per_pair"]) for p in ("loquet", "redis"))
    good = True
    if depth in LEAST_RATIO:
        good = ratio(*pair) >= LEAST_RATIO[depth]
        print("%s  ratio %.2f, goal at least %.2f" % ("met   " if good else "MISSED", ratio(*pair), LEAST_RATIO[depth]))
    cheaper = ours < theirs
    print("%s  server CPU %.2f µs/pair, goal less than Redis' %.2f" % ("met   " if cheaper else "MISSED", ours, theirs))
    return good and cheaper


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: compare_report.py FOLDER")
    depths = load(sys.argv[1])
    if not depths:
        sys.exit("compare_report: no reports in %s" % sys.argv[1])
    good = True
    for depth, by_protocol in depths.items():
        for reports in by_protocol.values():
            check_clean(reports)
        print_depth(depth, by_protocol)
        warn_if_disturbed(by_protocol)
        good = judge(depth, by_protocol) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
