"""Histories of a lock service that was never there: clients and a server in virtual time, all drawn from a seed. The
server is right, unless it is told to lie in one way; a judge must pass the first and catch the second.

It is written from docs/protocol.md for this purpose, and is no model of how any real server works.
"""

import heapq
import random

from history import NS

MS = NS // 1000

# Each lie, and the rules of which at least one has to catch it.
LIES = {
    "grants what is held": ("one holder", "certain leases"),
    "ends leases early": ("one holder", "certain leases", "N"),
    "ends leases late": ("late", "T", "R and K"),
    "forgets a hold": ("one holder", "certain leases", "N"),
    "forgets a release": ("T", "late", "R and K"),
    "says K and does not renew": ("one holder", "certain leases", "N"),
    "says N for a holder": ("N",),
    "says R to everybody": ("R and K",),
    "gives tokens that fall": ("tokens",),
    "gives a token twice": ("tokens",),
    "serves the last first": ("fifo",),
    "lets in who does not wait": ("fifo",),
    "says T and grants": ("T", "late", "answers"),
    "says T too early": ("T",),
    "grants the cancelled": ("answers",),
    "ignores cancels": ("in time",),
    "ignores the end of waits": ("in time",),
    "answers twice": ("answers",),
    "answers somebody else": ("answers",),
    "closes connections": ("connections",),
    "forgets a request": ("in time", "late", "progress"),
    "falls silent at the end": ("progress", "in time"),
}
# Lies that need an occasion which is rare are told at every one, or at many.
RATES = {"ends leases late": 1, "says K and does not renew": 0.5, "says R to everybody": 0.5, "ends leases early": 0.3,
         "ignores cancels": 0.5, "ignores the end of waits": 0.5}  # fmt: skip


class Key:
    def __init__(self):
        self.token = None  # of the holder
        self.ends = 0
        self.queue = []  # of requests


class Request:
    def __init__(self, conn, event):
        self.conn, self.event = conn, event
        self.op, self.key = event["op"], event["key"]
        self.done = False


class Server:
    def __init__(self, world, lie, rate):
        self.world, self.lie, self.rate = world, lie, rate
        self.keys = {}
        self.last_token = 0
        self.lies_told = 0

    def lies(self, lie):
        """Whether to tell this lie now."""
        told = self.lie == lie and self.world.random.random() < self.rate and self.world.now > NS
        self.lies_told += told
        return told

    def key(self, name):
        return self.keys.setdefault(name, Key())

    def arrive(self, request):
        if self.lies("forgets a request"):
            return
        if self.lie == "falls silent at the end" and self.world.calm:
            self.lies_told += 1
            return
        getattr(self, "_" + request.op)(request, self.key(request.key))

    def answer(self, request, op, **fields):
        if request.done or (self.lie == "falls silent at the end" and self.world.calm):
            return
        request.done = op != "A" or self.lie != "says T and grants"
        self.world.answer(request.conn, op, key=request.key, **fields)
        if self.lies("answers twice"):
            self.world.answer(request.conn, op, key=request.key, **fields)
        if self.lies("answers somebody else"):
            other = self.world.random.choice(self.world.conns)
            self.world.answer(other, op, key=request.key, **fields)

    def grant(self, request, key):
        self.last_token += self.world.random.choice((1, 1, 1, 5))
        token = self.last_token
        if self.lies("gives tokens that fall"):
            token -= self.world.random.randint(8, 90)
            if token in self.world.tokens or token <= 0:
                token = self.last_token
                self.lies_told -= 1
        if self.world.tokens and self.lies("gives a token twice"):
            token = self.world.random.choice(sorted(self.world.tokens))
        self.world.tokens.add(token)
        key.token = token
        self.hold(request.key, key, request.event["lease"] * NS)
        self.answer(request, "A", token=token, owner=request.event["owner"])
        if self.lies("forgets a hold"):
            key.token = None

    def hold(self, name, key, lease):
        if self.lies("ends leases early"):
            lease = int(lease * 0.7)
        if self.lies("ends leases late"):
            lease += 2 * NS
        key.ends = self.world.now + lease
        self.world.after(lease, lambda token=key.token: self.expire(name, token))

    def expire(self, name, token):
        key = self.key(name)
        if key.token == token and key.ends <= self.world.now:
            self.free(key)

    def free(self, key):
        key.token = None
        while key.queue:
            first = key.queue.pop(-1 if len(key.queue) > 1 and self.lies("serves the last first") else 0)
            if not first.done or self.lie == "says T and grants":
                self.grant(first, key)
                return

    def _A(self, request, key):
        wait = request.event["wait"] * NS
        if key.token is None or self.lies("grants what is held"):
            self.grant(request, key)
        elif key.queue and self.lies("lets in who does not wait"):
            self.world.after(key.ends - self.world.now + 1, lambda: None)
            key.queue.insert(0, request)
        elif wait == 0 or request.conn.closed:
            self.answer(request, "T", owner=request.event["owner"])
            if self.lies("says T and grants"):
                request.done = False
                key.queue.insert(0, request)
        else:
            key.queue.append(request)
            if self.lies("says T too early"):
                wait //= 2
            self.world.after(wait, lambda: self.time_out(request, key))

    def time_out(self, request, key):
        if request in key.queue and not self.lies("ignores the end of waits"):
            if not self.lies("says T and grants"):
                key.queue.remove(request)
            self.answer(request, "T", owner=request.event["owner"])

    def _C(self, request, key):
        if self.lies("ignores cancels"):
            return
        for waiting in key.queue:
            if waiting.event["owner"] == request.event["owner"]:
                self.answer(waiting, "T", owner=waiting.event["owner"])
                if self.lies("grants the cancelled"):
                    self.world.answer(waiting.conn, "A", key=waiting.key, owner=waiting.event["owner"], token=self.last_token + 1)
                    self.last_token += 1
                key.queue.remove(waiting)
                return

    def _R(self, request, key):
        token = request.event["token"]
        if key.token == token and not self.lies("says N for a holder"):
            self.answer(request, "R", token=token)
            if not self.lies("forgets a release"):
                self.free(key)
        else:
            self.answer(request, "R" if self.lies("says R to everybody") else "N", token=token)

    def _K(self, request, key):
        token = request.event["token"]
        if key.token == token:
            self.answer(request, "K", token=token)
            if not self.lies("says K and does not renew"):
                self.hold(request.key, key, request.event["lease"] * NS)
        else:
            self.answer(request, "N", token=token)

    def closed(self, conn):
        for key in self.keys.values():
            key.queue = [waiting for waiting in key.queue if waiting.conn is not conn]


class Conn:
    def __init__(self, number, client, node):
        self.number, self.client, self.node = number, client, node
        self.closed = False
        self.open = []  # requests
        self.there = self.back = 0  # times of the last arrival at either end: streams keep their order


class World:
    def __init__(self, seed, lie=None, seconds=30, clients=12, keys=6):
        self.random = random.Random(seed)
        self.now, self.seconds, self.calm = 0, seconds, False
        self.events, self.heap, self.conns, self.tokens = [], [], [], set()
        self.counter = 0
        self.closing = self.random.choice((0, 0.001, 0.01))
        self.keys = ["key-%d" % n for n in range(keys)]
        self.server = Server(self, lie, RATES.get(lie, 0.05))
        for client in range(clients):
            self.connect(client)
        self.at(int((seconds - 8) * NS), self._calm)

    def at(self, time, act):
        self.counter += 1
        heapq.heappush(self.heap, (time, self.counter, act))

    def after(self, delay, act):
        self.at(self.now + delay, act)

    def event(self, kind, **fields):
        self.events.append({"t": self.now, "e": kind, **fields})

    def run(self):
        while self.heap and self.heap[0][0] <= self.seconds * NS:
            self.now, _, act = heapq.heappop(self.heap)
            act()
        self.now = self.seconds * NS
        self.event("end")
        return self.events

    def _calm(self):
        self.calm = True
        self.event("calm", within_s=3)

    # Wires

    def latency(self):
        return int(self.random.expovariate(1 / 2.0) * MS) + MS // 10

    def connect(self, client):
        conn = Conn(len(self.conns), client, self.random.randint(1, 3))
        self.conns.append(conn)
        self.event("open", conn=conn.number, client=client, node=conn.node)
        self.after(self.random.randint(1, NS), lambda: self.act(conn))

    def send(self, conn, op, key, **fields):
        self.event("send", conn=conn.number, op=op, key=key, **fields)
        request = Request(conn, self.events[-1])
        conn.there = max(conn.there + 1, self.now + self.latency())
        self.at(conn.there, lambda: self.server.arrive(request))

    def answer(self, conn, op, **fields):
        conn.back = max(conn.back + 1, self.now + self.latency())
        self.at(conn.back, lambda: self.receive(conn, op, fields))

    def receive(self, conn, op, fields):
        if conn.closed:
            return
        self.event("recv", conn=conn.number, op=op, **fields)
        if op == "A":
            self.granted(conn, fields["key"], fields["token"])

    def close(self, conn, why):
        if not conn.closed:
            conn.closed = True
            self.event("close", conn=conn.number, why=why)
            self.after(self.latency(), lambda: self.server.closed(conn))
            self.after(self.random.randint(1, NS), lambda: self.connect(conn.client))

    # What clients do

    def act(self, conn):
        if conn.closed:
            return
        draw = self.random.random()
        key = self.random.choice(self.keys)
        self.counter += 1
        owner = self.counter
        if draw < self.closing:
            self.close(conn, "own")
            return
        if self.server.lies("closes connections"):
            self.close(conn, "eof")
            return
        wait = self.random.choice((0, 0, 1, 3, 10)) if not self.calm else self.random.choice((0, 1))
        self.send(conn, "A", key, owner=owner, wait=wait, lease=self.random.choice((1, 2, 5)))
        if wait and draw > 0.9:
            self.after(self.random.randint(1, NS), lambda: conn.closed or self.send(conn, "C", key, owner=owner))
        self.after(int(self.random.expovariate(1 / 150) * MS) + 1, lambda: self.act(conn))

    def granted(self, conn, key, token):
        draw = self.random.random()
        hold = int(self.random.expovariate(1 / 120) * MS)
        if draw < 0.07:
            return  # it dies with the lock
        if draw < 0.2:
            self.after(hold // 2, lambda: conn.closed or self.send(conn, "K", key, token=token, lease=self.random.choice((1, 3))))
            hold += 2 * NS
        releaser = self.random.choice(self.conns) if draw > 0.8 else conn
        self.after(hold, lambda: releaser.closed or self.send(releaser, "R", key, token=token))
        if draw > 0.93:
            self.after(2 * hold, lambda: conn.closed or self.send(conn, "R", key, token=token))
