"""Starts three-node clusters on loopback for the benchmarks, and ends them: etcd, the durable floor, and Loquet.

Each is a context manager with `addresses` of the clients' ports, the leader's first, and `pids`. All that they write
lies in a folder of the caller, under `folder/<name>`.
"""

import json
import os
import re
import socket
import subprocess
import time
import urllib.request

import lqbench

READY_SECONDS = 30
STOP_SECONDS = 10
PORT_TRIES = 5
NODES = 3


class ClusterTrouble(Exception):
    """A cluster does not start; the message says why."""


class PortTaken(ClusterTrouble):
    """Another program was faster to take a port that was free a moment ago."""


def free_ports(count):
    """Ports of 127.0.0.1 that nobody has: all looked for at once, so that they differ."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


def environment():
    """Ours, without what would set options of the servers."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("ETCD_", "LOQUETD_"))}


def fetch(url, body=None):
    """The body of the answer as bytes, or None while nobody answers well."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data=body), timeout=2) as answer:
            return answer.read()
    except OSError:
        return None


class Cluster:
    """What the three have in common: processes with a log each, and a wait until they are ready."""

    name = None

    def __init__(self, folder):
        self.folder = os.path.join(folder, self.name)
        self.processes = []
        self.addresses = []

    @property
    def pids(self):
        return [process.pid for process in self.processes]

    def __enter__(self):
        for attempt in range(PORT_TRIES):
            try:
                self.start(os.path.join(self.folder, str(attempt)))
                return self
            except PortTaken:
                self.stop()
                if attempt == PORT_TRIES - 1:
                    raise
            except BaseException:
                self.stop()
                raise
        return self

    def __exit__(self, *unused):
        self.stop()

    def start(self, folder):
        raise NotImplementedError

    def spawn(self, log, command):
        """Starts a process whose output goes to the file `log`."""
        with open(log, "wb") as f:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=f, stderr=f, env=environment())
        self.processes.append(process)
        process.log = log

    def wait_for(self, what, is_true):
        """Waits until is_true() holds and returns what it returned."""
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            found = is_true()
            if found:
                return found
            for process in self.processes:
                if process.poll() is not None:
                    self.give_up("a node of %s ended" % self.name, process.log)
            time.sleep(0.02)
        return self.give_up("%s is not ready after %d s: no %s" % (self.name, READY_SECONDS, what),
                            self.processes[0].log)

    @staticmethod
    def give_up(why, log):
        with open(log, encoding="utf-8", errors="replace") as f:
            text = f.read()[-3000:]
        raise (PortTaken if "address already in use" in text else ClusterTrouble)("%s\n%s" % (why, text))

    def leader_first(self, addresses, leader):
        """Sets `addresses`."""
        self.addresses = [addresses[leader]] + [a for i, a in enumerate(addresses) if i != leader]

    def stop(self):
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
        for process in self.processes:
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes = []


class Etcd(Cluster):
    """etcd with its default settings."""

    name = "etcd"

    def start(self, folder):
        ports = free_ports(2 * NODES)
        clients = ["127.0.0.1:%d" % port for port in ports[:NODES]]
        peers = ["http://127.0.0.1:%d" % port for port in ports[NODES:]]
        os.makedirs(folder)
        for i in range(NODES):
            self.spawn(os.path.join(folder, "n%d.log" % i), [
                "etcd", "--name", "n%d" % i, "--data-dir", os.path.join(folder, "n%d" % i),
                "--listen-client-urls", "http://" + clients[i], "--advertise-client-urls", "http://" + clients[i],
                "--listen-peer-urls", peers[i], "--initial-advertise-peer-urls", peers[i],
                "--initial-cluster", ",".join("n%d=%s" % (j, peer) for j, peer in enumerate(peers)),
                "--initial-cluster-state", "new",
            ])  # fmt: skip
        self.wait_for("health", lambda: all(self.is_healthy(client) for client in clients))
        self.leader_first(clients, self.wait_for("leader", lambda: self.leaders(clients))[0])

    @staticmethod
    def is_healthy(client):
        body = fetch("http://%s/health" % client)
        return body is not None and json.loads(body).get("health") == "true"

    @staticmethod
    def leaders(clients):
        """The nodes that say they lead, as numbers from 0."""
        bodies = [fetch("http://%s/v3/maintenance/status" % client, b"{}") for client in clients]
        states = [json.loads(body) if body is not None else None for body in bodies]
        return [i for i, s in enumerate(states) if s is not None and s.get("leader") == s["header"]["member_id"]]


class Floor(Cluster):
    """The durable floor: one process starts the three nodes and says which they are."""

    name = "floor"

    def start(self, folder):
        os.makedirs(folder)
        log = os.path.join(folder, "log")
        self.spawn(log, [lqbench.find_bench(), "--floor", folder])
        found = self.wait_for("address", lambda: self.announced(log))
        self.addresses = found.group(1).split(",")
        self.nodes = [int(pid) for pid in found.group(2).split(",")]

    @staticmethod
    def announced(log):
        with open(log, encoding="utf-8") as f:
            return re.search(r"msg=listening address=(\S+) pids=(\S+)\n", f.read())

    @property
    def pids(self):
        return self.nodes


class Loquet(Cluster):
    """A cluster of loquetd, the program that LOQUETD names or the one of the release build."""

    name = "loquet"

    def start(self, folder):
        ports = free_ports(3 * NODES)
        clients, peers, admins = (["127.0.0.1:%d" % p for p in ports[i * NODES : (i + 1) * NODES]] for i in range(3))
        os.makedirs(folder)
        for i in range(NODES):
            self.spawn(os.path.join(folder, "n%d.log" % i), [
                find_loquetd(), "--node-id", str(i + 1), "--listen", clients[i], "--peer", peers[i],
                "--admin", admins[i], "--data-dir", os.path.join(folder, "n%d" % i),
                "--initial-cluster", ",".join("%d=%s" % (j + 1, peer) for j, peer in enumerate(peers)), "--bootstrap",
            ])  # fmt: skip
        self.wait_for("readiness", lambda: all(fetch("http://%s/readyz" % a) is not None for a in admins))
        self.leader_first(clients, self.wait_for("leader", lambda: self.leaders(admins))[0])

    @staticmethod
    def leaders(admins):
        """The nodes that say they lead, as numbers from 0."""
        bodies = [fetch("http://%s/v1/status" % admin) for admin in admins]
        return [i for i, body in enumerate(bodies) if body is not None and json.loads(body)["role"] == "leader"]


def find_loquetd():
    program = os.environ.get("LOQUETD", os.path.join(lqbench.ROOT, "build", "release", "server", "loquetd"))
    if not os.access(program, os.X_OK) or os.path.isdir(program):
        raise ClusterTrouble("no loquetd at %s: set LOQUETD to its path, or build the release preset" % program)
    return os.path.abspath(program)
