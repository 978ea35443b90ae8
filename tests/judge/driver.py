#!/usr/bin/python3
"""Drives a lock service with many clients from one loop, and records what they ask and are told (see history.py).

    tests/judge/driver.py --node 1=HOST:PORT [--node 2=...] --out HISTORY [--seconds 10] [--seed N] [--rate 2000]
                          [--mix hot=16,churn=16,...] [--keys 512] [--hot-keys 3] [--store PORT] [--name NAME]

The workloads of --mix are in workloads.py. A client whose connection ends goes to another node, and takes what it holds
along. --rate bounds the requests of all clients in a second. At the end, or when stdin ends, nobody asks for more, what is
held is released, and what is open is waited for. Several drivers can run side by side with different names; their
histories are judged together.
"""

import argparse
import heapq
import random
import selectors
import socket
import struct
import sys
import time

import paths  # noqa: F401
import lqwire
from history import NS, Recorder

DRAIN_S = 12  # for what is open at the end


class Wire:
    """One connection. It is recorded as open once it is connected."""

    def __init__(self, driver, client, node):
        self.driver, self.client, self.node = driver, client, node
        self.number = "%s%d" % (driver.name, driver.count())
        self.parser = lqwire.AnswerParser()
        self.out = bytearray()
        self.is_open = self.is_dead = self.is_stalled = self.is_shut = False
        self.asked = {}  # what is open: (op, id, key) -> [fields of the event]
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.sock.setblocking(False)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if client.receive_bytes:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, client.receive_bytes)
        self.sock.connect_ex(driver.nodes[node])
        driver.selector.register(self.sock, selectors.EVENT_WRITE, self)

    def ask(self, *requests):
        """Sends requests in one piece: ("A", key, {"owner": ..}), and so on."""
        data = b"".join(encode(op, key, fields) for op, key, fields in requests)
        now = time.monotonic_ns()  # before the first byte can leave
        for op, key, fields in requests:
            self.driver.recorder.event("send", now, conn=self.number, op=op, key=key, **fields)
            self.driver.asked += 1
            if op != "C":
                ident = fields["owner"] if op == "A" else fields["token"]
                self.asked.setdefault(("A" if op == "A" else "R", ident, key), []).append((op, key, fields))
        self.out += data
        self.flush()

    def flush(self):
        try:
            sent = self.sock.send(self.out) if self.out else 0
            del self.out[:sent]
        except BlockingIOError:
            pass
        except ConnectionError:
            self.out.clear()  # reading tells the rest
        if self.is_open and not self.is_stalled:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self.out else 0)
            self.driver.selector.modify(self.sock, events, self)

    def stall(self, seconds):
        """Neither reads nor writes for so long."""
        self.is_stalled = True
        self.driver.selector.unregister(self.sock)
        self.driver.after(seconds, self._go_on)

    def _go_on(self):
        if not self.is_dead:
            self.is_stalled = False
            self.driver.selector.register(self.sock, selectors.EVENT_READ, self)
            self.flush()

    def half_close(self):
        """Nothing more is sent; the answers still come."""
        self.is_shut = True
        self.driver.recorder.event("shut", conn=self.number)
        self.sock.shutdown(socket.SHUT_WR)

    def reset(self, unfinished=b""):
        """Ends it with a reset, perhaps behind a frame that is not whole."""
        try:
            self.sock.send(unfinished)
        except OSError:
            pass  # it is gone anyway
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.drop("own")

    def ready(self, events):
        if not self.is_open:
            self._connected()
            return
        if events & selectors.EVENT_WRITE:
            self.flush()
        if events & selectors.EVENT_READ:
            self._read()

    def _connected(self):
        if self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0:
            self.drop(None)
            return
        self.is_open = True
        self.driver.recorder.event("open", conn=self.number, client=self.client.name, node=self.node)
        self.driver.selector.modify(self.sock, selectors.EVENT_READ, self)
        self.client.connected()

    def _read(self):
        try:
            data = self.sock.recv(1 << 16)
        except BlockingIOError:
            return
        except ConnectionError:
            self.drop("reset")
            return
        now = time.monotonic_ns()
        if not data:
            self.drop("eof" if not self.parser.pending else "eof inside an answer")
            return
        try:
            answers = self.parser.feed(data)
        except lqwire.ProtocolViolation as problem:
            self.drop("no answer: %s" % problem)
            return
        for answer in answers:
            self._record(answer, now)
        for answer in answers:
            self.client.answered(answer)

    def _record(self, answer, now):
        fields = {name: value for name, value in answer._asdict().items() if value is not None and name != "text"}
        if "key" in fields:
            fields["key"] = fields["key"].decode("latin-1")
            kind, ident = ("A", answer.owner) if answer.op in "ATB" else ("R", answer.token)
            waiting = self.asked.get((kind, ident, fields["key"]))
            if waiting:
                waiting.pop(0)
                if not waiting:
                    del self.asked[kind, ident, fields["key"]]
        self.driver.answered += 1
        self.driver.recorder.event("recv", now, conn=self.number, **fields)

    def drop(self, why):
        """Ends it. `why` None: it never was there."""
        if self.is_dead:
            return
        self.is_dead = True
        if self.is_open:
            self.driver.recorder.event("close", conn=self.number, why=why)
            for requests in self.asked.values():
                for op, key, fields in requests:
                    self.driver.recorder.event("unknown", conn=self.number, op=op, key=key, **fields)
        if not self.is_stalled:
            self.driver.selector.unregister(self.sock)
        self.sock.close()
        self.client.disconnected()


def encode(op, key, fields):
    raw = key.encode("latin-1")
    if op == "A":
        return lqwire.acquire_frame(raw, fields["owner"], fields["wait"], fields["lease"])
    if op == "R":
        return lqwire.release_frame(raw, fields["token"])
    if op == "K":
        return lqwire.renew_frame(raw, fields["token"], fields["lease"])
    return lqwire.cancel_frame(raw, fields["owner"])


class StoreLink:
    """The driver's connection to the fenced store; answers come in order."""

    def __init__(self, driver, port):
        self.waiting, self.pending = [], b""
        self.sock = socket.create_connection(("127.0.0.1", port))
        driver.selector.register(self.sock, selectors.EVENT_READ, self)

    def write(self, key, token, done):
        """done(taken) is called with the answer."""
        self.waiting.append(done)
        self.sock.sendall(b"%s %d %d\n" % (key.encode("latin-1"), token, time.monotonic_ns()))

    def ready(self, _):
        *lines, self.pending = (self.pending + self.sock.recv(1 << 16)).split(b"\n")
        for line in lines:
            self.waiting.pop(0)(line == b"yes")


class Driver:
    def __init__(self, nodes, recorder, seed, **options):
        """nodes: {number: (host, port)}. Options: rate, keys, hot_keys, store (a port), name, prefix."""
        self.nodes, self.recorder = nodes, recorder
        self.random = random.Random(seed)
        self.name = options.get("name") or ""
        self.step_ns = NS // (options.get("rate") or 2000)
        prefix = options.get("prefix") or ""
        self.keys = ["%skey-%d" % (prefix, n) for n in range(options.get("keys") or 512)]
        self.hot_keys = ["%shot-%d" % (prefix, n) for n in range(options.get("hot_keys") or 3)]
        self.crowd_key, self.sleepers_key = prefix + "crowd", prefix + "sleepers"
        self.long_key = prefix + "long-" + 900 * "x"
        self.selector = selectors.DefaultSelector()
        self.store = StoreLink(self, options["store"]) if options.get("store") else None
        self.timers, self.clients = [], []
        self.asked = self.answered = self._count = 0
        self.owner_base = random.Random("%s-%s" % (seed, self.name)).getrandbits(40) << 20
        self.next_slot = 0
        self.ending = False

    def count(self):
        self._count += 1
        return self._count

    def owner(self):
        return self.owner_base + self.count()

    def after(self, seconds, act):
        heapq.heappush(self.timers, (time.monotonic_ns() + int(seconds * NS), self.count(), act))

    def in_turn(self, seconds, act):
        """Like after, and not before the rate allows for one more request."""
        at = max(time.monotonic_ns() + int(seconds * NS), self.next_slot)
        self.next_slot = max(self.next_slot, time.monotonic_ns()) + self.step_ns
        heapq.heappush(self.timers, (at, self.count(), act))

    def add(self, kind, count):
        for _ in range(count):
            name = "%s%s-%d" % (self.name, kind.__name__.lower(), len(self.clients))
            client = kind(self, name)
            self.clients.append(client)
            client.connect()

    def turn(self, longest_s=0.1):
        now = time.monotonic_ns()
        wait = min(longest_s, max(0, self.timers[0][0] - now) / NS) if self.timers else longest_s
        for key, events in self.selector.select(wait):
            if key.data is self:
                self.ending = True
            elif not getattr(key.data, "is_dead", False):
                key.data.ready(events)
        now = time.monotonic_ns()
        while self.timers and self.timers[0][0] <= now:
            heapq.heappop(self.timers)[2]()

    def run(self, seconds):
        """Runs that long, or until stop_when says so; then lets everything come to its end."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.ending:
            self.turn()
        self.ending = True
        for client in self.clients:
            client.give_up()
        end = time.monotonic() + DRAIN_S
        while time.monotonic() < end and any(client.is_busy() for client in self.clients):
            self.turn()
        for client in self.clients:
            client.leave()
        self.selector.close()

    def stop_when(self, file):
        """Readable: it is time to end."""
        self.selector.register(file, selectors.EVENT_READ, self)


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--node", action="append", required=True, metavar="N=HOST:PORT")
    parser.add_argument("--out", required=True)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--seed", type=int, default=time.time_ns() % (1 << 32))
    parser.add_argument("--rate", type=int, default=2000)
    parser.add_argument("--mix", default="hot=12,churn=12,poll=4,long=4,dying=2,burst=4,cancel=4,stranger=4")
    parser.add_argument("--keys", type=int, default=512)
    parser.add_argument("--hot-keys", type=int, default=3)
    parser.add_argument("--store", type=int)
    parser.add_argument("--name", default="")
    parser.add_argument("--prefix", default="", help="of all keys, for one run after the other on a service that goes on")
    return parser.parse_args()


def main():
    import workloads  # it needs this module

    options = parse_options()
    nodes = {}
    for text in options.node:
        number, _, address = text.partition("=")
        host, _, port = address.rpartition(":")
        nodes[int(number)] = (host, int(port))
    with open(options.out, "w", encoding="ascii") as file:
        driver = Driver(nodes, Recorder(file), options.seed, rate=options.rate, keys=options.keys,
                        hot_keys=options.hot_keys, store=options.store, name=options.name,
                        prefix=options.prefix)  # fmt: skip
        for part in options.mix.split(","):
            kind, _, count = part.partition("=")
            driver.add(workloads.KINDS[kind], int(count))
        driver.stop_when(sys.stdin)
        began = time.monotonic()
        driver.run(options.seconds)
        driver.recorder.event("end")
    seconds = time.monotonic() - began
    print("seed %d: %d requests, %d answers in %.1f s" % (options.seed, driver.asked, driver.answered, seconds))


if __name__ == "__main__":
    main()
