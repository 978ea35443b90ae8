#!/usr/bin/python3
"""One run: a real cluster, many clients, faults at random, and a verdict on everything that the clients were told.

    tests/jepsen/run.sh [--nemesis NAME[,NAME...]] [--time S] [--seed N] [--nodes N] [options]

run.sh builds what is needed and calls this. Nemeses are the names that --list prints; `mix` are all that work
here, 'kill-*' is a pattern. Several are drawn from at random, up to --at-once at a time. The folder of the run has the logs,
the histories, verdict.txt, timeline.svg, and command.txt, which repeats it. Exit status 0: good; 1: a rule was broken; 2: the
run itself failed, so there is no verdict.

As root, or where unprivileged user namespaces are allowed, everything is in namespaces that end with the run: one per node,
one for the clients. Elsewhere, or with --loopback, nodes are processes on loopback and the network is left alone.
"""

import argparse
import fnmatch
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import threading
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path[:0] = [HERE, os.path.join(TESTS, "judge")]

from clients import Clients, Trouble  # noqa: E402
from nemeses import NEMESES  # noqa: E402
from schedule import Schedule  # noqa: E402
from world import READY_S, World  # noqa: E402
import case as judge_case  # noqa: E402
import clocks  # noqa: E402
import history  # noqa: E402
import inside  # noqa: E402
import judge  # noqa: E402
import net as network  # noqa: E402
import timeline  # noqa: E402

MIX = "hot=12,churn=12,poll=4,long=4,dying=2,burst=4,cancel=4,stranger=4,crowd=2,stall=1,cut=4,sleeper=2"
# Small segments and snapshots, so that a run of minutes sees many of both.
OPTIONS = ("--segment-bytes=1M", "--snapshot-entries=2000", "--trailing-entries=1000")
BUILDS = os.environ.get("LQ_BUILD", "build")
GRACE_MS = 3000  # what a fault may still cost a client when it is over
LATE_MS = 5000  # this is not about slow disks
CALM_S = 6.0  # after the last fault everybody has an answer within
STATE_S = 0.25


def parse_options(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nemesis", default="mix", metavar="NAMES")
    parser.add_argument("--time", type=float, default=60, metavar="S", help="of faults; start and end come on top (60)")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=2, metavar="N", help="so many nemeses at the same time (2)")
    parser.add_argument("--rate", type=int, default=500, help="requests a second of the raw clients (500)")
    parser.add_argument("--threads", type=int, default=8, help="threads with libloquet, beside the raw clients (8)")
    parser.add_argument("--mix", default=MIX, help="workloads of the raw clients (tests/judge/workloads.py)")
    parser.add_argument("--with", default="release", dest="preset", metavar="PRESET",
                        help="the build that is tested: release, dev (sanitizers) or planted (clocks of different rates)")
    parser.add_argument("--build", metavar="FOLDER", help="the same, wherever it is")
    parser.add_argument("--plant", type=int, default=0, metavar="N", help="a fault of protocol/lq_planted.h; --with planted")
    parser.add_argument("--out", default=os.path.join(BUILDS, "jepsen"), metavar="FOLDER",
                        help="where the folder of the run is made")
    parser.add_argument("--loopback", action="store_true", help="without namespaces")
    parser.add_argument("--quiet", action="store_true", help="only the verdict")
    parser.add_argument("--list", action="store_true", help="the nemeses, and what each needs")
    return parser.parse_args(arguments)


# ---- What works here.


def lacking(build, is_loopback):
    """{kind of nemesis: why it does not work here}."""
    lacks = {}
    if is_loopback:
        lacks.update(dict.fromkeys(("net", "squeeze", "wire"), "no namespaces"))
    else:
        missing = network.Net.lacks()
        for kind, word in (("net", "nftables"), ("squeeze", "tbf"), ("wire", "tap")):
            if word in missing:
                lacks[kind] = "no %s" % word
    if not os.path.exists(build.layer):
        lacks["disk"] = lacks["wall"] = "no %s (the fault layer is left out of builds with sanitizers)" % build.layer
    elif clocks.library() is None:
        lacks["wall"] = "no libfaketime"
    return lacks


class Build:
    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        self.server = os.path.join(self.folder, "server", "loquetd")
        self.layer = os.path.join(self.folder, "tests", "faults", "liblqfaults.so")
        self.users = os.path.join(self.folder, "tests", "client", "lq_users")
        for program in (self.server, self.users):
            if not os.access(program, os.X_OK):
                sys.exit("%s is not there; tests/jepsen/run.sh builds it" % program)
        text = subprocess.run([self.server, "--version"], capture_output=True, text=True, check=True).stdout
        self.is_for_tests = "test build" in text


def choose(patterns, lacks):
    """The nemeses that were asked for, without those that do not work here."""
    chosen = []
    for pattern in patterns.split(","):
        fits = [n for n in NEMESES.values() if pattern == "mix" or fnmatch.fnmatch(n.name, pattern)]
        works = [n for n in fits if n.kind not in lacks]
        if pattern == "none":
            continue
        if not fits:
            sys.exit("no nemesis is called %s: see --list" % pattern)
        if not works:
            sys.exit("%s does not work here: %s" % (pattern, lacks[fits[0].kind]))
        chosen += [n for n in works if n not in chosen]
    return chosen


# ---- One run.


class Run:
    def __init__(self, options, build, is_loopback):
        self.options, self.build = options, build
        self.lacks = lacking(build, is_loopback)
        self.nemeses = choose(options.nemesis, self.lacks)
        self.random = random.Random("world:%d" % options.seed)
        name = "%s-%d" % (time.strftime("%m%d-%H%M%S"), options.seed)
        self.folder = os.path.join(os.path.abspath(options.out), name)
        os.makedirs(self.folder)
        self.events = open(os.path.join(self.folder, "history-faults.jsonl"), "w", encoding="ascii")  # noqa: SIM115
        self.states = open(os.path.join(self.folder, "states.jsonl"), "w", encoding="ascii")  # noqa: SIM115
        self.lock = threading.Lock()
        self.state = {}  # place -> (role, term)
        self.is_over = threading.Event()
        self.troubles = []
        self.net = self.world = self.clients = self.schedule = None
        self.is_loopback = is_loopback

    # Events

    def record(self, kind, **fields):
        if fields.get("nodes") and not fields.get("mild"):
            fields["nodes"] = [*fields["nodes"], 0]  # libloquet goes where it likes, so its clients are at node 0
        with self.lock:
            self.events.write(json.dumps({"t": time.monotonic_ns(), "e": kind, **fields}) + "\n")
            self.events.flush()

    def watch(self, place):
        """Notes who leads, follows, or does not answer; a thread for each place."""
        while not self.is_over.wait(STATE_S):
            status = place.ask("GET", "/v1/status", timeout=0.5)[1] if place.running() else "down"
            role, term = (status["role"], status["term"]) if isinstance(status, dict) else (status or "silent", None)
            if self.state.get(place.number, (None, None)) != (role, term):
                self.state[place.number] = role, term
                with self.lock:
                    state = {"t": time.monotonic_ns(), "node": place.number, "role": role, "term": term}
                    self.states.write(json.dumps(state) + "\n")
                    self.states.flush()

    # Phases

    def environment(self, number):
        """What is added to the environment of a node."""
        added = {}
        if "wall" not in self.lacks and any(n.kind == "wall" for n in self.nemeses):
            added.update(self.walls[number].environment())
        if self.build.is_for_tests:
            added.update(self.rates[number % len(self.rates)])
            if self.options.plant:
                added["LQ_PLANT"] = str(self.options.plant)
        return added

    def begin(self):
        os.environ["LOQUETD"] = self.build.server
        os.environ["LQ_FAULTS_LIB"] = self.build.layer
        n = self.options.nodes
        self.walls = {number: clocks.WallClock(self.folder, number) for number in range(1, n + 3)}
        self.rates = clocks.rates(self.random, n + 2)
        if not self.is_loopback:
            self.net = network.Net()
            self.net.add("clients", 200)
        has_layer = "disk" not in self.lacks
        self.world = World(self.folder, n, self.net, OPTIONS, has_layer, self.environment)
        for place in self.world.places.values():
            place.wall = self.walls[place.number]
        self.world.start()
        for place in list(self.world.places.values()):
            threading.Thread(target=self.watch, args=(place,), daemon=True).start()
        places = {place.number: place.client for place in self.world.places.values()}
        prefix = self.net.prefix("clients") if self.net else ()
        self.clients = Clients(
            self.folder, places, self.options.seed, prefix, mix=self.options.mix, rate=self.options.rate,
            threads=self.options.threads, users=self.build.users,
        )  # fmt: skip
        self.clients.wait_flowing()

    def hurt(self):
        self.schedule = Schedule(self.world, self.nemeses, self.options.seed, self.record, self.options.at_once)
        self.schedule.start()
        end = time.monotonic() + self.options.time
        before = self.clients.recorded()
        while time.monotonic() < end and not self.is_over.wait(1.0):
            recorded = self.clients.recorded()
            self.tell(recorded - before, end - time.monotonic())
            before = recorded
            self.clients.check()
            accidents = self.world.accidents()
            if accidents:
                self.troubles += accidents
                break
        self.schedule.end()
        self.troubles += self.schedule.troubles

    def tell(self, recorded, left):
        if self.options.quiet:
            return
        leaders = ["%d (term %s)" % (number, term) for number, (role, term) in self.state.items() if role == "leader"]
        print("%6.0f s  %4.0f s left  leader %-14s %6d kB of history/s  %s" % (
            self.world.seconds(), max(0, left), ", ".join(leaders) or "-", recorded // 1000,
            ", ".join(self.schedule.faults.names())), flush=True)  # fmt: skip

    def calm(self):
        """All is well again, and must show it."""
        if self.net is not None:
            self.net.heal()
        for place in self.world.voters():
            if place.layer is not None:
                place.layer.heal()
            place.wait_ready(READY_S)
        time.sleep(GRACE_MS / 1000)
        self.record("calm", within_s=CALM_S)
        self.clients.wait_flowing()
        time.sleep(1)
        self.clients.end()
        for place in self.world.voters():
            place.stop()

    def end(self):
        self.is_over.set()
        if self.clients is not None:
            self.clients.kill()
        if self.world is not None:
            self.world.end()
        with self.lock:
            self.events.close()
            self.states.close()

    def judge(self):
        """The case, or None without a history."""
        files = [path for path in self.clients.files() if os.path.exists(path)] if self.clients else []
        events = history.load([*files, os.path.join(self.folder, "history-faults.jsonl")])
        return judge.judge(events, judge_case.Limits(busy=False, late_ms=LATE_MS, grace_ms=GRACE_MS))

    def go(self):
        """The exit status."""
        try:
            self.begin()
            self.hurt()
            if not self.troubles:
                self.calm()
        except (Trouble, AssertionError) as trouble:
            self.troubles.append(str(trouble))
        except Exception:
            self.troubles.append(traceback.format_exc())
        finally:
            self.end()
        return self.tell_verdict()

    def tell_verdict(self):
        """To the folder and to who started it. The exit status."""
        violations, is_judged = [], False
        path = os.path.join(self.folder, "verdict.txt")
        with open(path, "w", encoding="utf-8") as file:
            struck = sorted(self.schedule.struck.items()) if self.schedule else []
            print("nemeses: " + (", ".join("%s %d" % item for item in struck) or "none"), file=file)
            for trouble in self.troubles:
                print("\nTROUBLE: %s" % trouble, file=file)
            try:
                case = self.judge()
                judge.tell(case, file)
                violations, is_judged = case.violations, True
            except history.BadHistory as trouble:
                print("no verdict: %s" % trouble, file=file)
        with open(path, encoding="utf-8") as file:
            print(file.read(), end="")
        timeline.draw_folder(self.folder, [(max(e["t"] for e in v.events if e), v.rule, v.text) for v in violations])
        print("%s" % self.folder)
        if violations:
            return 1
        return 0 if is_judged and not self.troubles else 2


def list_nemeses(build, is_loopback):
    lacks = lacking(build, is_loopback)
    for nemesis in NEMESES.values():
        print("%-18s %-8s %s" % (nemesis.name, nemesis.kind, lacks.get(nemesis.kind, "")))


def main():
    options = parse_options()
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1 << 32)
    if not options.loopback and not inside.is_inside():
        inside.enter([*sys.argv[1:], "--seed", str(options.seed)])
    is_loopback = not inside.is_inside()
    build = Build(options.build or os.path.join(BUILDS, options.preset))
    if options.list:
        list_nemeses(build, is_loopback)
        return 0
    if options.plant and not build.is_for_tests:
        sys.exit("nothing can be planted in %s: use --with planted" % build.server)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
    run = Run(options, build, is_loopback)
    command = "tests/jepsen/run.sh " + " ".join(shlex.quote(word) for word in sys.argv[1:])
    with open(os.path.join(run.folder, "command.txt"), "w", encoding="utf-8") as file:
        print(command, file=file)
    print("seed %d: %s" % (options.seed, command), flush=True)
    return run.go()


if __name__ == "__main__":
    sys.exit(main())
