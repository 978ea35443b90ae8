"""Starts, watches, hurts and ends clusters of loquetd, on loopback.

    with Cluster() as cluster:                  # three nodes, ready
        leader = cluster.leader()               # a Node
        leader.kill()
        cluster.wait_for_leader(other_than=leader)

A Node is a Server (tests/integration/lqserver.py) with fixed addresses and a data directory that outlives its process.
"""

import http.client
import json
import os
import random
import shutil
import socket
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
INTEGRATION = os.path.join(os.path.dirname(HERE), "integration")
if INTEGRATION not in sys.path:
    sys.path.insert(0, INTEGRATION)

import lqserver  # noqa: E402

READY_SECONDS = 20.0  # loose: a slow machine with sanitizers
POLL_SECONDS = 0.005

_random = random.SystemRandom()
_reserved = []  # UDP sockets: whoever has a port's, in any process here, has the port


def free_port():
    """A port of loopback that nobody has, below those that the kernel gives to outgoing connections: it stays free
    until it is listened on."""
    while True:
        port = _random.randrange(12000, 32000)
        mark = socket.socket(type=socket.SOCK_DGRAM)
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                mark.bind(("127.0.0.1", port))
                s.bind(("127.0.0.1", port))
            except OSError:
                mark.close()
                continue
        _reserved.append(mark)
        return port


def wait_until(what, holds, seconds=READY_SECONDS):
    """Returns what holds() returns once that is true."""
    deadline = time.monotonic() + seconds
    while True:
        value = holds()
        if value:
            return value
        if time.monotonic() > deadline:
            raise lqserver.ServerTrouble("not within %.0f s: %s" % (seconds, what))
        time.sleep(POLL_SECONDS)


class Node(lqserver.Server):
    def __init__(self, node_id, data_dir, options=(), prefix=(), environment=None):
        super().__init__(prefix=prefix)
        self.id = node_id
        self.data_dir = data_dir
        self.client = ("127.0.0.1", free_port())
        self.peer = ("127.0.0.1", free_port())
        self.admin = ("127.0.0.1", free_port())
        self.extra = list(options)
        self.environment = dict(environment or {})

    @property
    def peer_text(self):
        return "%s:%d" % self.peer

    def configure(self, *founding):
        """`founding`: --bootstrap and --initial-cluster, or --cluster-id, or nothing."""
        self.options = [
            "--node-id=%d" % self.id,
            "--name=n%d" % self.id,
            "--data-dir=%s" % self.data_dir,
            "--listen=%s:%d" % self.client,
            "--peer=%s:%d" % self.peer,
            "--admin=%s:%d" % self.admin,
            *founding,
            *self.extra,
        ]
        return self

    def start(self):
        self.lines = []
        self._stderr_ended = False
        return super().start()

    def variables(self):
        return {**super().variables(), **self.environment}

    # The admin interface

    def ask(self, method, path, body=None, timeout=2.0):
        """(status, body): the body read as JSON if it is that, else as text. (0, "") when nobody answers."""
        connection = http.client.HTTPConnection(*self.admin, timeout=timeout)
        try:
            headers = {"Content-Type": "application/json"} if method == "POST" else {}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            text = response.read().decode()
        except OSError:
            return 0, ""
        except http.client.HTTPException:
            return 0, ""
        finally:
            connection.close()
        try:
            return response.status, json.loads(text)
        except ValueError:
            return response.status, text

    def status(self):
        """What the node says of itself; None when it does not answer."""
        status, body = self.ask("GET", "/v1/status")
        return body if status == 200 else None

    def is_ready(self):
        return self.ask("GET", "/readyz")[0] == 200

    def wait_ready(self, seconds=READY_SECONDS):
        def ready():
            if not self.running():
                raise lqserver.ServerTrouble("node %d ended" % self.id + self.story())
            return self.is_ready()

        try:
            wait_until("node %d is ready" % self.id, ready, seconds)
        except lqserver.ServerTrouble as e:
            raise lqserver.ServerTrouble("%s; %s%s" % (e, self.ask("GET", "/readyz"), self.story(30))) from None
        return self


class Cluster:
    """`options` for all nodes; `prepare(node)` may change each before it starts for the first time."""

    def __init__(self, n=3, options=(), prepare=None):
        self.folder = tempfile.mkdtemp(prefix="lqcluster-")
        self.options = list(options)
        self.nodes = {}
        self.prepare = prepare
        for node_id in range(1, n + 1):
            self.add_node(node_id)
        founding = "--initial-cluster=" + ",".join("%d=%s" % (x.id, x.peer_text) for x in self.nodes.values())
        for node in self.nodes.values():
            node.configure("--bootstrap", founding)

    def add_node(self, node_id):
        """A further node, which is not configured or started."""
        node = Node(node_id, os.path.join(self.folder, "data%d" % node_id), self.options)
        self.nodes[node_id] = node
        if self.prepare is not None:
            self.prepare(node)
        return node

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.kill()
            raise

    def __exit__(self, *unused):
        self.kill()

    def __getitem__(self, node_id):
        return self.nodes[node_id]

    def running(self):
        return [node for node in self.nodes.values() if node.running()]

    def start(self):
        for node in self.nodes.values():
            node.start()
        return self.wait_ready()

    def wait_ready(self):
        for node in self.running():
            node.wait_ready()
        return self

    def leader(self, other_than=None):
        """The node that leads, or None."""
        best = None
        for node in self.running():
            status = node.status() if node is not other_than else None
            if status is not None and status["role"] == "leader" and (best is None or status["term"] > best[0]):
                best = (status["term"], node)
        return best and best[1]

    def wait_for_leader(self, other_than=None, seconds=READY_SECONDS):
        return wait_until("there is a leader", lambda: self.leader(other_than), seconds)

    def followers(self):
        leader = self.wait_for_leader()
        return [node for node in self.running() if node is not leader]

    def transfer(self, to):
        """Makes that node the leader."""

        def leads():
            leader = self.leader()
            if leader is to:
                return True
            if leader is not None:
                leader.ask("POST", "/v1/leader/transfer", {"node": to.id})
            return False

        wait_until("node %d leads" % to.id, leads)
        return to

    def stop(self):
        """All nodes in an orderly way, one after the other."""
        for node in self.running():
            node.stop()

    def kill(self):
        for node in self.nodes.values():
            node.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
