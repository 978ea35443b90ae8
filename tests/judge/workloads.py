"""What the clients of the driver do. Each client has one connection at a time and knows what it holds; when its connection
ends it goes to another node and releases there what it held. Every holder writes to the fenced store, if there is one."""

from driver import Wire, encode

RETRY_S = 0.05


class Client:
    """Asks, one acquire after the other, until the driver ends. Subclasses say what for, and what then."""

    waits = (0, 1, 5)
    leases = (2, 5, 10)
    pause_s = 0.02  # mean time between the end of one lock and the next acquire
    hold_s = 0.02  # mean time for which it is held
    receive_bytes = None  # of its sockets' buffers

    def __init__(self, driver, name):
        self.driver, self.name = driver, name
        self.random = driver.random
        self.wire = None
        self.node = self.random.choice(sorted(driver.nodes))
        self.asking = {}  # owner -> key
        self.holds = {}  # token -> key
        self.rests = {}  # token -> lease of its open renewal, and how many more follow
        self.is_leaving = False

    # Connection

    def connect(self):
        if self.wire is None and not self.is_leaving:
            self.wire = Wire(self.driver, self, self.node)

    def connected(self):
        for token, key in self.holds.items():
            self.wire.ask(("R", key, {"token": token}))
        if not self.driver.ending:
            self.soon(self.act)

    def disconnected(self):
        self.wire = None
        self.asking.clear()
        others = [node for node in sorted(self.driver.nodes) if node != self.node]
        self.node = self.random.choice(others) if others else self.node
        self.driver.after(RETRY_S * (0.5 + self.random.random()), self.connect)

    @property
    def is_up(self):
        return self.wire is not None and self.wire.is_open and not self.wire.is_shut

    def soon(self, act):
        """After a pause, on this same connection."""
        wire = self.wire
        self.driver.in_turn(self.random.expovariate(1 / self.pause_s), lambda: self.wire is wire and act())

    # Steps

    def key(self):
        return self.random.choice(self.driver.keys)

    def is_free(self):
        """Nothing is asked or held, and there is time for more."""
        return self.is_up and not self.driver.ending and not self.asking and not self.holds

    def act(self):
        if self.is_free():
            self.wire.ask(self.acquire(self.key()))

    def acquire(self, key):
        owner = self.driver.owner()
        self.asking[owner] = key
        return "A", key, {"owner": owner, "wait": self.random.choice(self.waits), "lease": self.random.choice(self.leases)}

    def answered(self, answer):
        key = answer.key and answer.key.decode("latin-1")
        if answer.op in "ATB":
            self.asking.pop(answer.owner, None)
        if answer.op == "A":
            self.holds[answer.token] = key
            self._write(key, answer.token)
        elif answer.op in "RN":
            self.holds.pop(answer.token, None)
        if answer.op in "TBRN" and not self.driver.ending and not self.asking and not self.holds:
            self.soon(self.act)

    def _write(self, key, token):
        if self.driver.store is None:
            self.granted(key, token)
        else:
            self.driver.store.write(key, token, lambda taken: self.granted(key, token))

    def granted(self, key, token):
        hold_s = 0 if self.driver.ending else self.random.expovariate(1 / self.hold_s)
        self.driver.after(hold_s, lambda: self.release(key, token))

    def release(self, key, token):
        if self.is_up and token in self.holds:
            self.wire.ask(("R", key, {"token": token}))

    # End

    def give_up(self):
        if self.is_up:
            for owner, key in self.asking.items():
                self.wire.ask(("C", key, {"owner": owner}))

    def is_busy(self):
        return bool(self.asking or self.holds) or (self.is_up and bool(self.wire.asked))

    def leave(self):
        self.is_leaving = True
        if self.wire is not None:
            self.wire.drop("own")


class Hot(Client):
    """Queues on few keys."""

    waits = (2, 5, 10)

    def key(self):
        return self.random.choice(self.driver.hot_keys)


class Churn(Client):
    """Many keys, nobody in the way, no pauses."""

    waits = (0,)
    pause_s = hold_s = 0.0005


class Poll(Client):
    """Tries hot keys without waiting."""

    waits = (0,)

    def key(self):
        return self.random.choice(self.driver.hot_keys)


class Long(Client):
    """Holds for several leases, renewed a third of a lease after each confirmation: one renewal at a time, since what is sent
    behind one that comes late makes it unknown."""

    leases = (1, 2)
    waits = (5, 10)

    def granted(self, key, token):
        self._renew(key, token, self.random.randint(1, 8))

    def _renew(self, key, token, rest):
        if not self.is_up or token not in self.holds:
            return
        if rest == 0 or self.driver.ending:
            self.release(key, token)
            return
        lease = self.random.choice(self.leases)
        self.wire.ask(("K", key, {"token": token, "lease": lease}))
        self.rests[token] = lease, rest - 1

    def answered(self, answer):
        super().answered(answer)
        if answer.op == "K":
            lease, rest = self.rests.pop(answer.token)
            key = answer.key.decode("latin-1")
            self.driver.after(lease / 3, lambda: self._renew(key, answer.token, rest))


class Dying(Client):
    """Is granted a lock and dies, with or without its connection; the lease has to end it."""

    leases = (1, 2)
    pause_s = 1

    def key(self):
        return self.random.choice(self.driver.hot_keys if self.random.random() < 0.3 else self.driver.keys)

    def granted(self, key, token):
        self.holds.pop(token, None)
        if self.random.random() < 0.5 and self.wire is not None:
            self.wire.drop("own")
        elif not self.driver.ending:
            self.soon(self.act)


class Burst(Client):
    """Many acquires in one piece, then many releases in one."""

    pause_s = 0.1

    def act(self):
        if self.is_free():
            keys = self.random.sample(self.driver.keys, min(16, len(self.driver.keys)))
            self.wire.ask(*(self.acquire(key) for key in keys))

    def granted(self, key, token):
        self.driver.after(self.hold_s, self._release_all)

    def _release_all(self):
        if self.is_up and not self.asking:
            open_tokens = {ident for kind, ident, _ in self.wire.asked if kind == "R"}
            releases = [("R", key, {"token": token}) for token, key in self.holds.items() if token not in open_tokens]
            if releases:
                self.wire.ask(*releases)
        elif self.holds:
            self.driver.after(self.hold_s, self._release_all)


class Cancel(Client):
    """Waits on hot keys, and mostly thinks better of it."""

    waits = (5, 10)

    def key(self):
        return self.random.choice(self.driver.hot_keys)

    def acquire(self, key):
        request = super().acquire(key)
        owner = request[2]["owner"]
        self.driver.after(self.random.expovariate(1 / 0.05), lambda: self._cancel(key, owner))
        return request

    def _cancel(self, key, owner):
        if self.is_up and owner in self.asking:
            self.wire.ask(("C", key, {"owner": owner}))


class Stranger(Client):
    """Lets another client's connection release what it holds."""

    def release(self, key, token):
        others = [client for client in self.driver.clients if client.is_up and client is not self]
        if others and token in self.holds and not self.driver.ending:
            self.random.choice(others).wire.ask(("R", key, {"token": token}))
            self.holds.pop(token)
            self.soon(self.act)
        else:
            super().release(key, token)


class Crowd(Client):
    """A hundred acquires at once that wait for one key; ten of these clients are a thousand waiters."""

    waits = (10, 20)
    leases = (5,)
    pause_s = 5
    size = 100

    def key(self):
        return self.driver.crowd_key

    def act(self):
        if self.is_free():
            self.wire.ask(*(self.acquire(self.key()) for _ in range(self.size)))

    def granted(self, key, token):
        self.release(key, token)


class Stall(Client):
    """Asks for much and does not read the answers for a while."""

    waits = (0,)
    leases = (2,)
    pause_s = 2
    size = 300
    receive_bytes = 4096  # so that what is not read is soon the server's concern

    def act(self):
        if self.is_free():
            key = self.driver.long_key
            self.wire.ask(*(self.acquire(key) for _ in range(self.size)))
            self.wire.stall(self.random.uniform(0.2, 2))


class Cut(Client):
    """Asks, and ends its connection at any moment: with a reset, with one behind half a frame, or only its own direction,
    and then everything has to be answered."""

    waits = (0, 2, 5)
    leases = (1, 2)
    pause_s = 0.2

    def key(self):
        return self.random.choice(self.driver.hot_keys if self.random.random() < 0.5 else self.driver.keys)

    def act(self):
        if self.is_free():
            self.wire.ask(*(self.acquire(key) for key in {self.key() for _ in range(8)}))
            self.driver.after(self.random.expovariate(1 / 0.02), self._cut)

    def _cut(self):
        if not self.is_up:
            return
        way = self.random.choice(("reset", "half a frame", "half-close", "close"))
        if way == "half-close":
            self.wire.half_close()
        elif way == "close":
            self.wire.drop("own")
        else:
            fields = {"owner": self.driver.owner(), "wait": 0, "lease": 1}
            frame = encode("A", self.key(), fields) if way == "half a frame" else b""
            self.wire.reset(frame[: self.random.randint(1, len(frame) - 1)] if frame else b"")

    def disconnected(self):
        self.holds.clear()  # their leases end them
        super().disconnected()


class Sleeper(Client):
    """Is granted a lock, falls asleep until its lease is over, and then writes as if nothing had happened."""

    waits = (5, 10)
    leases = (1,)
    pause_s = 0.5

    def key(self):
        return self.driver.sleepers_key

    def granted(self, key, token):
        self.driver.after(self.random.uniform(0.5, 3), lambda: self._write_late(key, token))

    def _write_late(self, key, token):
        if self.driver.store is not None:
            self.driver.store.write(key, token, lambda taken: self.release(key, token))
        else:
            self.release(key, token)


KINDS = {
    kind.__name__.lower(): kind
    for kind in (Hot, Churn, Poll, Long, Dying, Burst, Cancel, Stranger, Crowd, Stall, Cut, Sleeper)
}
