"""A ledger of locks that are held for longer than any test: what was acknowledged stays true whatever happens to nodes.

    ledger = Ledger(nodes, seed)
    ledger.begin()          # a thread for each node: acquires, and releases some, each acknowledged before the next
    ...                     # all nodes are killed, and come back
    ledger.end()
    ledger.faults(node)     # what is not as it was acknowledged, as a list of texts

What was open when a connection ended is nobody's fault either way, and is left out.
"""

import itertools
import random
import threading

import lqwire

LEASE_S = 250
RETRY_S = 0.02
CARRIED = 0.3  # this share of what is held is left as it is, for the next round


class Ledger:
    def __init__(self, nodes, seed):
        self.nodes = list(nodes)
        self.random = random.Random(seed)
        self.prefix = b"ledger-%x-" % self.random.getrandbits(48)
        self.numbers = itertools.count()
        self.owners = itertools.count(self.random.getrandbits(62))
        self.held, self.released = {}, set()  # key -> token; keys
        self.threads, self.over = [], threading.Event()
        self.lock = threading.Lock()

    def begin(self):
        self.over.clear()
        self.threads = [threading.Thread(target=self._work, args=(n,), daemon=True) for n in self.nodes]
        for thread in self.threads:
            thread.start()

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join()

    def _work(self, node):
        """Comes back when its connection ends; what was open then is not booked."""
        rng = random.Random(self.random.getrandbits(32))
        while not self.over.is_set():
            try:
                with lqwire.Connection(node.client) as c:
                    while not self.over.is_set():
                        key = self.prefix + b"%d" % next(self.numbers)
                        answer = c.acquire(key, next(self.owners), lease=LEASE_S)
                        if answer.op == "A":
                            self._book(c, key, answer.token, rng)
            except (OSError, lqwire.Ended):
                self.over.wait(RETRY_S)

    def _book(self, c, key, token, rng):
        if rng.random() < 0.5:
            with self.lock:
                self.held[key] = token
        elif c.release(key, token).op == "R":
            with self.lock:
                self.released.add(key)

    def faults(self, node):
        """Asks that node. Then most of what is held is released."""
        with lqwire.Connection(node.client) as c:
            free = self._free(c, list(self.held) + list(self.released))
            found = ["%r was released, and is held" % key for key in self.released if key not in free]
            found += ["%r was granted, and is free" % key for key in self.held if key in free]
            let_go = {key: token for key, token in self.held.items() if self.random.random() > CARRIED and key not in free}
            answers = self._release(c, let_go)
        found += ["%r is held, and its release was answered %s" % (key, op) for key, op in answers.items() if op != "R"]
        self.held = {key: token for key, token in self.held.items() if key not in let_go and key not in free}
        self.released = set()
        return found

    def _free(self, c, keys):
        """Those of the keys that nobody holds."""
        c.send(b"".join(lqwire.acquire_frame(key, next(self.owners)) for key in keys))
        answers = c.receive_many(len(keys))
        free = {answer.key: answer.token for answer in answers if answer.op == "A"}
        if len(free) + sum(answer.op == "T" for answer in answers) != len(keys):
            raise AssertionError("neither A nor T: %r" % [a for a in answers if a.op not in "AT"][:3])
        self._release(c, free)
        return set(free)

    @staticmethod
    def _release(c, tokens):
        """{key: op of the answer}"""
        c.send(b"".join(lqwire.release_frame(key, token) for key, token in tokens.items()))
        return {answer.key: answer.op for answer in c.receive_many(len(tokens))}
