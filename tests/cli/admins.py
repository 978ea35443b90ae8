"""A cluster without nodes: admin interfaces that play leader and followers, over one shared state.

    cluster = Cluster(3)                  # nodes 1 to 3, 1 leads
    cluster.start(self)                   # ends with the test
    cluster.admin(1), cluster.admins      # addresses
    cluster.posts                         # (node asked, path, body) of every change that was asked for
"""

import http.server
import json
import threading

CLUSTER_ID = "00000000deadbeef"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *unused):
        pass

    def do_GET(self):
        self.answer(*self.server.cluster.get(self.server.node, self.path))

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers["Content-Type"] != "application/json":
            self.answer(415, {"error": "content_type", "message": "not JSON"})
            return
        self.answer(*self.server.cluster.post(self.server.node, self.path, json.loads(body)))

    def answer(self, status, value):
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, cluster, node):
        super().__init__(("127.0.0.1", 0), Handler)
        self.cluster, self.node = cluster, node
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def handle_error(self, *unused):
        """A client that is gone is no error."""

    def end(self):
        self.shutdown()
        self.server_close()


class Cluster:
    """Changes take `rounds` requests until they are in the leader's log, and from then on `commits` looks at its
    status until they are committed. `script`, if set, answers a change in place of that: script(cluster, path, body)
    returns (status, object), or None to go on as usual."""

    def __init__(self, n=3, rounds=1, commits=0):
        self.members = {i: ["127.0.0.1:%d" % (7000 + i), "voter"] for i in range(1, n + 1)}
        self.leader, self.term, self.index = 1, 5, 100
        self.known_leader = None  # what those that do not lead believe; None: the truth
        self.rounds, self.commits, self.script = rounds, commits, None
        self.asked, self.uncommitted = 0, 0
        self.posts, self.statuses = [], 0
        self.not_ready = {}
        self.servers = {}
        self.lock = threading.Lock()

    def start(self, case, *nodes):
        for node in nodes or list(self.members):
            self.servers[node] = Server(self, node)
            case.addCleanup(self.end, node)
        return self

    def end(self, node):
        server = self.servers.pop(node, None)
        if server is not None:
            server.end()

    def admin(self, node):
        return "127.0.0.1:%d" % self.servers[node].server_address[1]

    @property
    def admins(self):
        return ",".join(self.admin(node) for node in self.servers)

    # Reading

    def leader_for(self, node):
        believed = self.leader if self.known_leader is None or node == self.leader else self.known_leader
        return believed or None

    def member_list(self, node):
        return [
            {"node": i, "address": address, "role": role, "leader": i == self.leader_for(node)}
            for i, (address, role) in self.members.items()
        ]

    def status(self, node):
        leads = node == self.leader
        if leads:
            self.statuses += 1
        commit = self.index - (1 if leads and self.uncommitted > 0 else 0)
        self.uncommitted -= leads and self.uncommitted > 0
        peers = [
            {"node": i, "up": i in self.servers, "match_index": self.index - 10 + i if leads else 0}
            for i in self.members
            if i != node
        ]
        return {
            "version": "0", "node": node, "name": "name-%d" % node, "cluster_id": CLUSTER_ID,
            "role": "leader" if leads else "follower", "term": self.term, "leader": self.leader_for(node),
            "ready": node not in self.not_ready, "not_ready": self.not_ready.get(node, ""), "connections": 40 + node,
            "members": self.member_list(node), "peers": peers,
            "log": {"last_index": self.index, "commit_index": commit, "applied_index": commit - 1},
            "table": {"keys": 12, "waiters": 3, "last_token": "9007199254740993"},
        }  # fmt: skip

    def get(self, node, path):
        with self.lock:
            if path == "/v1/status":
                return 200, self.status(node)
            if path == "/v1/members":
                known = {"cluster_id": CLUSTER_ID, "node": node, "leader": self.leader_for(node), "term": self.term}
                return 200, {**known, "members": self.member_list(node)}
            return 404, {"error": "not_found", "message": "nothing there"}

    # Changing

    def post(self, node, path, body):
        with self.lock:
            self.posts.append((node, path, body))
            if node != self.leader:
                leader = self.leader_for(node)
                return 409, {"error": "not_leader", "node": node, "leader": leader, "message": "ask node %s" % leader}
            answer = self.script(self, path, body) if self.script else None
            return answer or self.change(path, body)

    def change(self, path, body):
        words = path.split("/")[2:]  # members, leader/transfer, members/N/VERB
        if words == ["leader", "transfer"]:
            if body.get("node") == self.leader:
                return 200, {"result": "done"}
            self.asked += 1
            if self.asked >= self.rounds:
                self.leader, self.term, self.asked = body["node"], self.term + 1, 0
            return 202, {"result": "started"}
        if self.is_so(words, body):
            return 200, {"result": "done"}
        self.asked += 1
        if self.asked >= self.rounds:
            self.make(words, body)
            self.index += 1
            self.asked, self.uncommitted = 0, self.commits
        return 202, {"result": "started"}

    def is_so(self, words, body):
        role = self.members.get(int(words[1]), [None, None])[1] if len(words) > 1 else None
        if len(words) == 1:
            return body["node"] in self.members
        if words[2] == "replace":
            return role is None and body["node"] in self.members
        return role == {"promote": "voter", "demote": "standby", "remove": None}[words[2]]

    def make(self, words, body):
        if len(words) == 1:
            self.members[body["node"]] = [body["address"], "standby"]
            return
        node = int(words[1])
        if words[2] == "remove":
            del self.members[node]
        elif words[2] == "replace":
            del self.members[node]
            self.members[body["node"]] = [body["address"], "voter"]
        else:
            self.members[node][1] = {"promote": "voter", "demote": "standby"}[words[2]]
