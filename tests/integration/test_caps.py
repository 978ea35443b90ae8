"""Caps: beyond each of them an acquire gets B, never an error; releases and renewals are held back, never refused."""

import time

import lqwire
from lqcase import SLACK, LoquetCase, sleep_until


class CapsCase(LoquetCase):
    def settle(self, connection):
        """As the base's, but without a fresh key, which may be beyond the cap under test."""
        self.assertNotHeld(connection, b"never registered", 1)

    def assertBusy(self, c, key, wait=0):
        owner = self.owner()
        self.assertEqual(c.acquire(key, owner, wait), lqwire.busy(key, owner))


class MaxKeys(CapsCase):
    options = ("--max-keys", "3", "--sweep-ms", "50")

    def test_new_key_beyond_the_cap(self):
        c, other = self.connect_many(2)
        keys = [self.key() for _ in range(3)]
        tokens = {k: self.grant(c, k) for k in keys}
        for wait in (0, 1, 255):
            self.assertBusy(c, self.key(), wait)
            self.assertBusy(other, self.key(), wait)
        self.assertHeld(other, keys[0])
        owner = self.queue(other, keys[0])
        self.assertReleased(c, keys[0], tokens[keys[0]])
        tokens[keys[0]] = self.assertGrantedTo(other, keys[0], owner)
        self.assertBusy(c, self.key())
        self.assertNotHeld(c, self.key(), 1)
        self.assertEqual(c.renew(keys[1], tokens[keys[1]]), lqwire.renewed(keys[1], tokens[keys[1]]))
        for k in keys:
            self.assertReleased(c, k, tokens[k])
            self.assertFree(c, self.key())
        self.assertQuiet(c, other)

    def test_swept_keys_make_room(self):
        c = self.connect()
        for _ in range(3):
            self.grant(c, self.key(), lease=1)
        self.assertBusy(c, self.key())
        deadline = time.monotonic() + 1 + SLACK
        key, owner = self.key(), self.owner()
        while (answer := c.acquire(key, owner)).op == "B" and time.monotonic() < deadline:
            sleep_until(time.monotonic() + 0.05)
        self.assertEqual(answer.op, "A", "still no room after lease and sweep")
        self.assertReleased(c, key, answer.token)


class MaxKeysNeverSwept(CapsCase):
    options = ("--max-keys", "2", "--sweep-ms", "3600000")

    def test_take_over_of_an_expired_key_at_the_cap(self):
        c = self.connect()
        keys = [self.key() for _ in range(2)]
        old = {k: self.grant(c, k, lease=1) for k in keys}
        sleep_until(time.monotonic() + 1.1)
        for k in keys:
            self.assertGreater(self.grant(c, k), old[k])
        self.assertBusy(c, self.key(), 60)


class MaxWaitersPerKey(CapsCase):
    options = ("--max-waiters-per-key", "2")

    def test_queue_at_its_cap(self):
        holder, waiter, late = self.connect_many(3)
        key, other = self.key(), self.key()
        token, other_token = self.grant(holder, key), self.grant(holder, other)
        first, second = self.queue(waiter, key), self.queue(waiter, key)
        for wait in (1, 255):
            self.assertBusy(late, key, wait)
            self.assertBusy(waiter, key, wait)
        self.assertHeld(late, key, "wait 0 on a held key is T whatever the caps")
        elsewhere = self.queue(late, other)
        waiter.send(lqwire.cancel_frame(key, second))
        self.assertEqual(waiter.receive(), lqwire.timed_out(key, second))
        third = self.queue(late, key)
        self.assertBusy(waiter, key, 1)
        self.assertReleased(holder, key, token)
        token = self.assertGrantedTo(waiter, key, first, above=token)
        fourth = self.queue(waiter, key)
        self.assertBusy(waiter, key, 1)
        for c, owner in ((late, third), (waiter, fourth)):
            self.assertReleased(holder, key, token)
            token = self.assertGrantedTo(c, key, owner, above=token)
        self.assertReleased(holder, other, other_token)
        self.assertGrantedTo(late, other, elsewhere)
        self.assertQuiet(waiter, late)

    def test_dead_waiters_make_room(self):
        holder, first, second, late = self.connect_many(4)
        key = self.key()
        token = self.grant(holder, key)
        self.queue(first, key)
        self.queue(second, key)
        self.assertBusy(late, key, 60)
        first.abort()
        second.close()
        deadline = time.monotonic() + SLACK
        while True:
            owner = self.queue(late, key)
            answer = late.try_receive(0)
            if answer is None:
                break
            self.assertEqual(answer, lqwire.busy(key, owner))
            self.assertLess(time.monotonic(), deadline, "dead waiters fill the queue")
        self.assertReleased(holder, key, token)
        self.assertGrantedTo(late, key, owner, above=token)


class MaxWaiters(CapsCase):
    options = ("--max-waiters", "3")

    def test_waiters_in_all(self):
        holder, waiter, late = self.connect_many(3)
        keys = [self.key() for _ in range(3)]
        tokens = [self.grant(holder, k) for k in keys]
        owners = [self.queue(waiter, keys[0]), self.queue(waiter, keys[0]), self.queue(late, keys[1])]
        for k in keys:
            self.assertBusy(late, k, 60)
            self.assertHeld(late, k, "wait 0 on a held key is T whatever the caps")
        self.assertFree(late, self.key())
        self.assertReleased(holder, keys[1], tokens[1])
        self.assertGrantedTo(late, keys[1], owners[2])
        last = self.queue(late, keys[2])
        self.assertBusy(late, keys[0], 60)
        self.assertReleased(holder, keys[2], tokens[2])
        self.assertGrantedTo(late, keys[2], last)
        waiter.send(lqwire.cancel_frame(keys[0], owners[0]))
        self.assertEqual(waiter.receive(), lqwire.timed_out(keys[0], owners[0]))
        self.queue(late, keys[0])
        self.assertQuiet(late, waiter)


class MaxStateBytes(CapsCase):
    spread = True  # for a server of its own: what one test leaves held is in the way of the other
    LIMIT = 1 << 20
    options = ("--max-state-bytes", str(LIMIT), "--max-waiters-per-key", "1000000")

    STEP = 64

    def fill_with_keys(self, c, keys):
        """Acquires these keys until one gets B; returns the grants."""
        grants = []
        for start in range(0, len(keys), self.STEP):
            some = keys[start : start + self.STEP]
            c.send(b"".join(lqwire.acquire_frame(k, 1) for k in some))
            answers = c.receive_many(len(some))
            grants += [a for a in answers if a.op != "B"]
            if len(grants) < start + len(some):
                self.assertEqual({a.op for a in grants}, {"A"})
                return grants
        self.fail("no B within %d requests" % len(keys))

    def test_long_keys_fill_it(self):
        c = self.connect()
        keys = [self.key().ljust(1024, b"x") for _ in range(1024 + self.STEP)]
        grants = self.fill_with_keys(c, keys)
        count = len(grants)
        self.assertLessEqual(count * 1024, self.LIMIT, "key bytes alone are more than the cap")
        self.assertGreater(count, 100, "a small part of the cap was usable")
        beyond = self.key().ljust(1024, b"x")
        self.assertBusy(c, beyond, 60)
        self.assertHeld(c, grants[0].key, "wait 0 on a held key is T whatever the caps")
        for a in grants[:3]:
            self.assertReleased(c, a.key, a.token)
        self.assertFree(c, beyond)
        for a in grants[3:]:
            self.assertReleased(c, a.key, a.token)
        grants = self.fill_with_keys(c, keys)
        self.assertGreaterEqual(len(grants), count * 0.9, "room was lost on the way")

    def test_waiters_fill_it_too(self):
        holder, c = self.connect_many(2)
        key = self.key()
        token = self.grant(holder, key)
        most = self.LIMIT // 16
        for start in range(0, most, self.STEP):
            c.send(b"".join(lqwire.acquire_frame(key, n, 60) for n in range(start, start + self.STEP)))
            self.settle(c)
            if (answer := c.try_receive(0)) is not None:
                break
        else:
            self.fail("no B within %d waiters" % most)
        self.assertEqual((answer.op, answer.key), ("B", key))
        self.assertGreater(start, 100, "a small part of the cap was usable")
        self.assertHeld(holder, key, "wait 0 on a held key is T whatever the caps")
        self.assertBusy(holder, self.key().ljust(1024, b"x"))
        c.abort()
        self.assertReleased(holder, key, token)
        self.grant(holder, key, wait=3)
        self.assertFree(holder, self.key().ljust(1024, b"x"))


class MaxRequests(CapsCase):
    options = ("--max-requests", "4")

    def settle(self, connection):
        """A release is held back on a full connection. A pong may overtake an answer, but not by long."""
        connection.ping()
        connection.poll(0.02)

    def setUp(self):
        super().setUp()
        self.holder, self.full = self.connect_many(2)
        self.name = self.key()
        self.token = self.grant(self.holder, self.name)
        self.owners = [self.queue(self.full, self.name) for _ in range(4)]

    def serve(self, owner):
        """Answers one of the open requests of the full connection."""
        self.assertReleased(self.holder, self.name, self.token)
        answer = self.full.match(lambda a: a.op == "A" and a.owner == owner)
        self.token = answer.token

    def test_acquire_beyond_the_cap_is_checked_before_the_table(self):
        for key, wait in ((self.key(), 0), (self.key(), 60), (self.name, 0), (self.name, 60)):
            self.assertBusy(self.full, key, wait)
        self.assertFree(self.holder, self.key())
        self.assertHeld(self.holder, self.name)
        self.serve(self.owners[0])
        self.queue(self.full, self.name)
        self.assertBusy(self.full, self.key())
        self.assertQuiet(self.full)

    def test_cancel_and_ping_are_no_open_requests(self):
        self.assertEqual(self.full.ping(9), lqwire.pong(9))
        self.full.send(lqwire.cancel_frame(self.name, self.owners[2]))
        self.assertEqual(self.full.receive(), lqwire.timed_out(self.name, self.owners[2]))
        self.assertFree(self.full, self.key())

    def hold_back(self, frame, answer):
        self.full.send(frame + lqwire.ping_frame(1))
        self.assertIsNone(self.full.try_receive(0.3), "a request beyond the cap was read")
        self.assertFree(self.holder, self.key())
        self.serve(self.owners[0])
        self.assertCountEqual(self.full.receive_many(2), [answer, lqwire.pong(1)])

    def test_release_is_held_back_until_one_is_answered(self):
        key = self.key()
        token = self.grant(self.holder, key)
        self.hold_back(lqwire.release_frame(key, token), lqwire.released(key, token))
        self.assertFree(self.holder, key)

    def test_renewal_is_held_back_until_one_is_answered(self):
        key = self.key()
        token = self.grant(self.holder, key)
        self.hold_back(lqwire.renew_frame(key, token, 200), lqwire.renewed(key, token))

    def test_many_held_back_are_all_executed(self):
        key = self.key()
        self.full.send(b"".join(lqwire.release_frame(key, n) for n in range(1, 3001)))
        self.assertIsNone(self.full.try_receive(0.2))
        self.serve(self.owners[0])
        self.assertCountEqual(self.full.receive_many(3000), [lqwire.not_held(key, n) for n in range(1, 3001)])
        self.assertQuiet(self.full)

    def test_the_end_of_a_wait_makes_room_too(self):
        full = self.connect()
        owners = [self.queue(full, self.name, wait=1)] + [self.queue(full, self.name) for _ in range(3)]
        full.send(lqwire.release_frame(self.name, 1))
        self.assertEqual(full.receive(), lqwire.timed_out(self.name, owners[0]))
        self.assertEqual(full.receive(), lqwire.not_held(self.name, 1))

    def test_dying_while_held_back(self):
        """The server does not read from this connection, and still may not hand it a lock once it is dead."""
        survivor = self.connect()
        self.full.send(lqwire.release_frame(self.name, 1) * 100)
        self.assertIsNone(self.full.try_receive(0.2))
        last = self.queue(survivor, self.name)
        self.full.abort()
        self.assertReleased(self.holder, self.name, self.token)
        self.assertGrantedTo(survivor, self.name, last, above=self.token, timeout=3 + SLACK)

    def test_other_connections_have_room_of_their_own(self):
        for c in self.connect_many(3):
            owners = [self.queue(c, self.name) for _ in range(4)]
            self.assertBusy(c, self.name, 60)
            self.assertEqual(len(owners), 4)
            self.assertQuiet(c)


class MaxConnections(CapsCase):
    options = ("--max-connections", "5")

    def test_one_more_gets_no_service_until_one_leaves(self):
        served = self.connect_many(5)
        for n, c in enumerate(served):
            self.assertEqual(c.ping(n), lqwire.pong(n))
        try:
            sixth = self.connect()
            sixth.send(lqwire.ping_frame(6))
            self.assertNotEqual(sixth.try_receive(0.3), lqwire.pong(6), "a sixth connection is served")
            sixth.close()
        except (lqwire.Ended, ConnectionError):
            pass  # refusing it is fine as well
        for n, c in enumerate(served):
            self.assertEqual(c.ping(n), lqwire.pong(n))
        served.pop().close()
        deadline = time.monotonic() + 5
        while True:
            try:
                c = self.connect()
                c.send(lqwire.ping_frame(7))
                if c.try_receive(0.3) == lqwire.pong(7):
                    return
                c.close()
            except (lqwire.Ended, ConnectionError):
                sleep_until(time.monotonic() + 0.05)
            self.assertLess(time.monotonic(), deadline, "no room although a connection left")
