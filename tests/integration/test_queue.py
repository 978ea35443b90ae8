"""The queue of a key: FIFO on release and on expiry, ever growing tokens, and nobody barges in."""

import threading
import time

import lqwire
from lqcase import SLACK, LoquetCase


class Fifo(LoquetCase):
    any_node = True

    def drain(self, key, token, waiters, owners):
        """Releases again and again; the waiters have to be served in their order, and nobody else gets anything."""
        for place, (waiter, owner) in enumerate(zip(waiters, owners)):
            self.assertReleased(waiter, key, token)
            got, answer = lqwire.next_answer(waiters)
            self.assertEqual((answer.op, answer.key), ("A", key))
            self.assertEqual((got is waiter, answer.owner), (True, owner), "place %d of the queue" % place)
            self.assertGreater(answer.token, token)
            token = answer.token
        self.assertReleased(waiters[0], key, token)

    def test_100_waiters_on_100_connections(self):
        key, holder = self.key(), self.connect()
        token = self.grant(holder, key)
        waiters = self.connect_many(100)
        owners = [self.queue(w, key) for w in waiters]
        self.drain(key, token, waiters, owners)
        self.assertQuiet(*waiters)
        self.assertFree(holder, key)

    def test_100_waiters_on_one_connection(self):
        key, c = self.key(), self.connect()
        token = self.grant(c, key)
        owners = [self.owner() for _ in range(100)]
        self.random.shuffle(owners)
        c.send_in_one_write(b"".join(lqwire.acquire_frame(key, owner, 60) for owner in owners))
        self.settle(c)
        self.drain(key, token, [c] * 100, owners)
        self.assertQuiet(c)

    def test_many_releases_of_one_token_serve_one_waiter(self):
        """Only the first matches; the lock of the waiter that got it stays."""
        key, c = self.key(), self.connect()
        token = self.grant(c, key)
        owners = [self.queue(c, key) for _ in range(10)]
        c.send(lqwire.release_frame(key, token) * 10)
        answers = c.receive_many(11)
        self.assertEqual([a.op for a in answers if a.op != "A"], ["R"] + ["N"] * 9)
        self.assertEqual([a.owner for a in answers if a.op == "A"], [owners[0]])
        self.assertQuiet(c)

    def test_keys_have_queues_of_their_own(self):
        c = self.connect()
        keys = [self.key() for _ in range(10)]
        tokens = {k: self.grant(c, k) for k in keys}
        owners = {k: [] for k in keys}
        for _ in range(5):
            for k in keys:
                owners[k].append(owner := self.owner())
                c.send(lqwire.acquire_frame(k, owner, 60))
        self.settle(c)
        for k in self.random.sample(keys, len(keys)):
            for owner in owners[k]:
                self.assertReleased(c, k, tokens[k])
                tokens[k] = self.assertGrantedTo(c, k, owner, above=tokens[k])
        self.assertQuiet(c)

    def test_random_comings_and_goings(self):
        """Queueing, cancelling, dying and releasing in random order, against a list."""
        key, holder = self.key(), self.connect()
        token, line, granted = self.grant(holder, key), [], 0
        for _ in range(400):
            step = self.random.choice(("queue", "queue", "queue", "cancel", "die", "release"))
            if step == "queue":
                c = self.random.choice(line)[0] if line and self.random.random() < 0.3 else self.connect()
                line.append((c, self.queue(c, key)))
            elif step == "cancel" and line:
                c, owner = line.pop(self.random.randrange(len(line)))
                c.send(lqwire.cancel_frame(key, owner))
                self.assertEqual(c.receive(), lqwire.timed_out(key, owner))
            elif step == "die" and line:
                c = self.random.choice(line)[0]
                line = [w for w in line if w[0] is not c]
                c.abort()
            elif step == "release" and line:
                self.assertReleased(holder, key, token)
                c, owner = line.pop(0)
                token = self.assertGrantedTo(c, key, owner, above=token)
                granted += 1
        self.assertGreater(granted, 5, "the seed made a dull test")
        self.assertQuiet(*{c for c, _ in line})
        self.drain(key, token, [c for c, _ in line] or [holder], [owner for _, owner in line])


class Barging(LoquetCase):
    any_node = True

    def test_not_in_one_write_with_the_release(self):
        c, waiter = self.connect_many(2)
        key = self.key()
        token = self.grant(c, key)
        owner = self.queue(waiter, key)
        before, after = self.owner(), self.owner()
        c.send(lqwire.acquire_frame(key, before) + lqwire.release_frame(key, token) + lqwire.acquire_frame(key, after))
        self.assertCountEqual(
            c.receive_many(3),
            [lqwire.timed_out(key, before), lqwire.released(key, token), lqwire.timed_out(key, after)],
        )
        self.assertGrantedTo(waiter, key, owner, above=token)

    def test_the_releaser_goes_to_the_end_of_the_line(self):
        a, b = self.connect_many(2)
        key = self.key()
        holder, waiter, token = a, b, self.grant(a, key)
        owner = self.queue(waiter, key)
        for _ in range(20):
            mine = self.owner()
            holder.send(lqwire.release_frame(key, token) + lqwire.acquire_frame(key, mine, 60))
            self.assertEqual(holder.receive(), lqwire.released(key, token))
            self.settle(holder)
            token = self.assertGrantedTo(waiter, key, owner, above=token)
            holder, waiter, owner = waiter, holder, mine

    def test_not_by_many_attempts(self):
        """Others try without a pause while a queue is handed on; they get T to the end of it."""
        key, holder = self.key(), self.connect()
        token = self.grant(holder, key)
        waiters = self.connect_many(30)
        owners = [self.queue(w, key) for w in waiters]
        stop, stolen = threading.Event(), []

        def barge(c):
            while not stop.is_set():
                c.send(b"".join(lqwire.acquire_frame(key, n) for n in range(20)))
                stolen.extend(a for a in c.receive_many(20) if a.op != "T")

        threads = [threading.Thread(target=barge, args=(c,)) for c in self.connect_many(2)]
        for t in threads:
            t.start()
        try:
            for waiter, owner in zip(waiters, owners):
                self.assertReleased(holder, key, token)
                token = self.assertGrantedTo(waiter, key, owner, above=token)
        finally:
            stop.set()
            for t in threads:
                t.join()
        self.assertEqual(stolen, [])
        self.assertReleased(holder, key, token)


class Expiry(LoquetCase):
    """A key with waiters is handed on at its expiry, FIFO too."""

    any_node = True
    spread = True

    def test_fifo(self):
        key, holder = self.key(), self.connect()
        before = time.monotonic()
        token = self.grant(holder, key, lease=1)
        waiters = self.connect_many(4)
        owners = [self.queue(w, key, wait=60, lease=1) for w in waiters]
        for place, (waiter, owner) in enumerate(zip(waiters, owners)):
            got, answer = lqwire.next_answer(waiters)
            self.assertEqual((got is waiter, answer.op, answer.owner), (True, "A", owner), "place %d" % place)
            self.assertGreater(answer.token, token)
            self.assertNotHeld(holder, key, token)
            token = answer.token
            self.assertNotEarly(waiter.when - before, place + 1)
            self.assertLess(waiter.when - before, place + 1 + SLACK)

    def test_of_one_connection_too(self):
        key, c = self.key(), self.connect()
        token = self.grant(c, key, lease=1)
        owners = [self.owner() for _ in range(3)]
        c.send(b"".join(lqwire.acquire_frame(key, owner, 60, 1) for owner in owners))
        for owner in owners:
            token = self.assertGrantedTo(c, key, owner, above=token)

    def test_many_keys_at_one_moment(self):
        holder, waiter = self.connect_many(2)
        owners = {self.key(): self.owner() for _ in range(2000)}
        before = time.monotonic()
        holder.send_in_one_write(b"".join(lqwire.acquire_frame(k, owner, 0, 1) for k, owner in owners.items()))
        old = {a.key: a.token for a in holder.receive_many(len(owners)) if a.op == "A"}
        waiter.send_in_one_write(b"".join(lqwire.acquire_frame(k, owner, 60, 60) for k, owner in owners.items()))
        got = {}
        for _ in owners:
            answer = waiter.receive()
            if not got and answer.op == "A":
                self.assertNotEarly(waiter.when - before, 1)
            self.assertEqual((answer.op, answer.owner), ("A", owners[answer.key]))
            self.assertGreater(answer.token, old[answer.key])
            got[answer.key] = answer.token
        self.assertLess(waiter.when - before, 2 + SLACK)
        self.assertEqual(got.keys(), owners.keys())
        self.assertEqual(len(set(got.values())), len(got))

    def test_wait_and_lease_that_end_together_give_one_answer(self):
        """Which of the two comes first is open; that the answer and the lock agree is not."""
        c, judge = self.connect_many(2)
        owners = {self.key(): self.owner() for _ in range(200)}
        for key, owner in owners.items():
            c.send(lqwire.acquire_frame(key, 1, 0, 1) + lqwire.acquire_frame(key, owner, 1, 60))
        answers = c.receive_many(2 * len(owners))
        later = [a for a in answers if a.owner != 1]
        self.assertEqual({a.key for a in later}, set(owners))
        self.assertQuiet(c)
        for a in later:
            self.assertIn(a.op, "AT")
            if a.op == "A":
                self.assertHeld(judge, a.key)
                self.assertReleased(judge, a.key, a.token)
            else:
                self.grant(judge, a.key, wait=5)
