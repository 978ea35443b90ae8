#!/usr/bin/python3
"""Measures a cluster of Loquet, a three-node etcd and the durable floor with lq_bench, in alternating rounds: in each round
each system is started anew, on an empty folder. compare_cluster.sh runs this with the packages it needs."""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

import cluster_report
import clusters
import lqbench

SYSTEMS = {"loquet": clusters.Loquet, "etcd": clusters.Etcd, "floor": clusters.Floor}

# Where the connections of a series go, of the addresses with the leader's first. With the followers first, a single
# connection of a spread series is one that has to be relayed.
PLACES = {
    "leader": lambda addresses: addresses[:1],
    "relay": lambda addresses: addresses[1:2],
    "spread": lambda addresses: addresses[1:] + addresses[:1],
}
SERIES = {"loquet": ("leader", "spread"), "etcd": ("leader", "spread"), "floor": ("leader", "relay")}

KEY_BYTES = 32
KEYS_OWN = ("--keys", "own", "--key-set", 100000)
KEYS_SHARED = ("--keys", "shared", "--wait", 60)


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.print_usage(sys.stderr)
        self.exit(64, "%s: %s\n" % (self.prog, message))


def parse():
    parser = Parser(description=__doc__)
    parser.add_argument("--systems", default="loquet,etcd,floor", help="which to measure (all: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(%(default)s)")
    parser.add_argument("--duration", type=float, default=5, help="measured seconds of a run (%(default)s)")
    parser.add_argument("--connections", default="1,16,64,256", help="(%(default)s)")
    parser.add_argument("--waiters", type=int, default=16, help="of the run on one key; 0: none (%(default)s)")
    parser.add_argument("--out", help="folder that keeps the report of each run")
    parser.add_argument("--dir", help="folder for what the servers write, on the disk to measure (a temporary one)")
    options = parser.parse_args()
    options.systems = options.systems.split(",")
    for name in options.systems:
        if name not in SYSTEMS:
            parser.error("no system is called '%s'" % name)
    try:
        options.connections = [int(n) for n in options.connections.split(",")]
    except ValueError:
        parser.error("--connections: '%s' is not a list of numbers" % options.connections)
    if options.rounds < 1 or min(options.connections) < 1:
        parser.error("--rounds and --connections begin at 1")
    return options


def run_one(cluster, place, round_number, options, shape):
    return lqbench.run(
        "--protocol", cluster.name, "--target", ",".join(PLACES[place](cluster.addresses)),
        "--server-pid", ",".join(map(str, cluster.pids)), "--key-bytes", KEY_BYTES, "--seed", round_number,
        "--warmup", min(1, options.duration), "--duration", options.duration, *shape,
    )  # fmt: skip


def keep(out, name, report):
    with open(os.path.join(out, name + ".json"), "w", encoding="utf-8") as f:
        json.dump(report, f)


def run_system(system, round_number, options, folder):
    with SYSTEMS[system](folder) as cluster:
        for place in SERIES[system]:
            for connections in options.connections:
                report = run_one(cluster, place, round_number, options, ("--connections", connections, *KEYS_OWN))
                keep(options.out, "%s-%s-%d-%d" % (system, place, connections, round_number), report)
            if options.waiters and system != "floor":
                report = run_one(cluster, place, round_number, options, ("--connections", options.waiters, *KEYS_SHARED))
                keep(options.out, "%s-%s-contended-%d" % (system, place, round_number), report)


def run_all(options, folder):
    for round_number in range(1, options.rounds + 1):
        for system in options.systems:
            run_system(system, round_number, options, os.path.join(folder, str(round_number)))
            shutil.rmtree(os.path.join(folder, str(round_number)))
        print("round %d of %d done" % (round_number, options.rounds), flush=True)


def about_the_machine():
    with open("/proc/loadavg", encoding="ascii") as f:
        load = " ".join(f.read().split()[:3])
    return "%d processors, load before %s" % (os.cpu_count(), load)


def main():
    options = parse()
    signal.signal(signal.SIGTERM, lambda *unused: sys.exit(130))
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        options.out = options.out or os.path.join(folder, "out")
        os.makedirs(options.out, exist_ok=True)
        try:
            lqbench.find_bench()
            if "loquet" in options.systems:
                clusters.find_loquetd()
            if "etcd" in options.systems:
                version = subprocess.run(["etcd", "--version"], capture_output=True, text=True).stdout.split("\n")[0]
                print("%s, three nodes, default settings" % version)
            print(about_the_machine(), flush=True)
        except (OSError, clusters.ClusterTrouble, lqbench.BenchTrouble) as trouble:
            print("compare_cluster: %s" % trouble, file=sys.stderr)
            return 69
        try:
            run_all(options, folder)
        except (clusters.ClusterTrouble, lqbench.BenchTrouble) as trouble:
            print("compare_cluster: %s" % trouble, file=sys.stderr)
            return 1
        return cluster_report.show(options.out)


if __name__ == "__main__":
    sys.exit(main())
