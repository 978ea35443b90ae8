#!/usr/bin/python3
"""Reads the reports that compare_cluster.sh left in a folder (SYSTEM-PLACE-CONNECTIONS-ROUND.json, and ...-contended-...),
prints medians and ratios, and exits with 1 if a goal is missed. Ratios are medians of those of each round."""

import glob
import json
import os
import sys

from reports import check_clean, median, ratio, warn_if_disturbed

# Connections: how many times as fast as etcd's the cluster's pairs must be, like with like.
LEAST_TIMES_ETCD = {1: 1.6, 64: 5, 256: 5}
MOST_HAND_OVER_US = 600

# What a series of the cluster is compared with.
BESIDE = {
    "loquet-leader": ("etcd-leader", "floor-leader"),
    "loquet-spread": ("etcd-spread", "floor-relay"),
}
ORDER = ("etcd-leader", "etcd-spread", "loquet-leader", "loquet-spread", "floor-leader", "floor-relay")

COLUMNS = (
    ("pairs/s", lambda r: r["pairs_per_s"], "%.0f"),
    ("acq. p50 µs", lambda r: r["acquire_us"]["p50"], "%.0f"),
    ("p99 µs", lambda r: r["acquire_us"]["p99"], "%.0f"),
    ("rel. p50 µs", lambda r: r["release_us"]["p50"], "%.0f"),
    ("p99 µs", lambda r: r["release_us"]["p99"], "%.0f"),
    ("CPU µs/pair", lambda r: r["server_cpu_us_per_pair"], "%.1f"),
    ("server busy %", lambda r: r["server_busy"] * 100, "%.0f"),
    ("client busy %", lambda r: r["client_busy"] * 100, "%.0f"),
    ("others busy %", lambda r: r["others_busy"] * 100, "%.0f"),
)
CONTENDED_COLUMNS = (
    COLUMNS[0],
    ("handed p50 µs", lambda r: r["hand_over_us"]["p50"], "%.0f"),
    ("p95 µs", lambda r: r["hand_over_us"]["p95"], "%.0f"),
    COLUMNS[5],
    COLUMNS[8],
)


def load(folder):
    """{connections, or "contended": {series: [report of round 1, report of round 2, ...]}}, connections ascending."""
    found = {}
    for path in glob.glob(os.path.join(glob.escape(folder), "*.json")):
        series, shape, round_number = os.path.basename(path)[: -len(".json")].rsplit("-", 2)
        key = shape if shape == "contended" else int(shape)
        with open(path, encoding="utf-8") as f:
            found.setdefault(key, {}).setdefault(series, {})[int(round_number)] = json.load(f)
    return {
        key: {s: [found[key][s][n] for n in sorted(found[key][s])] for s in ORDER if s in found[key]}
        for key in sorted(found, key=lambda k: (k == "contended", k))
    }


def print_table(columns, by_series):
    print("%-16s" % "" + "".join("%15s" % name for name, *_ in columns))
    for series, reports in by_series.items():
        print("%-16s" % series + "".join("%15s" % (form % median(reports, value)) for _, value, form in columns))


def print_title(key, by_series):
    reports = next(iter(by_series.values()))
    shape = reports[0]["shape"]
    what = "one shared key" if key == "contended" else "own keys"
    print("\n%d connections, depth 1, %s of %d bytes, medians of %d rounds of %.0f s"
          % (shape["connections"], what, shape["key_bytes"], len(reports), reports[0]["seconds"]))


def judge_speed(connections, by_series):
    """Prints the cluster's ratios; True if no goal is missed."""
    good = True
    for series, (etcd, floor) in BESIDE.items():
        if series not in by_series:
            continue
        if floor in by_series:
            print("%s: %.2f of %s" % (series, ratio(by_series[series], by_series[floor]), floor))
        if etcd not in by_series:
            continue
        times = ratio(by_series[series], by_series[etcd])
        least = LEAST_TIMES_ETCD.get(connections)
        met = least is None or times >= least
        goal = "" if least is None else ", goal at least %.1f: %s" % (least, "met" if met else "MISSED")
        print("%s: %.1f times %s%s" % (series, times, etcd, goal))
        good = good and met
    return good


def judge_hand_over(by_series):
    good = True
    for series in BESIDE:
        if series in by_series:
            p50 = median(by_series[series], CONTENDED_COLUMNS[1][1])
            met = p50 < MOST_HAND_OVER_US
            print("%s: hand-over %.0f µs, goal below %d: %s" % (series, p50, MOST_HAND_OVER_US, "met" if met else "MISSED"))
            good = good and met
    return good


def show(folder):
    """Prints everything; the exit status."""
    shapes = load(folder)
    if not shapes:
        sys.exit("cluster_report: no reports in %s" % folder)
    good = True
    for key, by_series in shapes.items():
        for reports in by_series.values():
            check_clean(reports)
        print_title(key, by_series)
        print_table(CONTENDED_COLUMNS if key == "contended" else COLUMNS, by_series)
        warn_if_disturbed(by_series)
        good = (judge_hand_over(by_series) if key == "contended" else judge_speed(key, by_series)) and good
    return 0 if good else 1


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: cluster_report.py FOLDER")
    sys.exit(show(sys.argv[1]))
