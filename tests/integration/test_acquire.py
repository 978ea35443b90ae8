"""Acquire: every row of its matrix, the echo of owner and key, and that the owner is no authority.

The rows about caps are in test_caps.py, those about expiry in simple mode in test_expiry.py.
"""

import time

import lqwire
from lqcase import SLACK, LoquetCase, sleep_until, together

NEVER_SWEPT = ("--sweep-ms", "3600000")


class NotRegistered(LoquetCase):
    any_node = True

    def test_granted_at_once_with_echo(self):
        c = self.connect()
        for wait in (0, 1, 255):
            with self.subTest(wait=wait):
                key, owner = self.key(), self.owner()
                before = time.monotonic()
                answer = c.acquire(key, owner, wait, 30)
                self.assertEqual(answer, lqwire.granted(key, owner, answer.token))
                self.assertLess(c.when - before, SLACK)
                self.assertHeld(c, key)

    def test_every_wait_and_every_lease(self):
        c = self.connect()
        for byte in range(256):
            self.assertReleased(c, key := self.key(), self.grant(c, key, wait=byte, lease=byte or 1))

    def test_any_owner(self):
        c = self.connect()
        for owner in (0, 1, 10, 0x0A0A0A0A0A0A0A0A, 1 << 63, (1 << 64) - 1):
            with self.subTest(owner=owner):
                key = self.key()
                answer = c.acquire(key, owner)
                self.assertEqual(answer, lqwire.granted(key, owner, answer.token))
                self.assertEqual(c.acquire(key, owner), lqwire.timed_out(key, owner))

    def test_tokens_grow_over_keys_and_connections(self):
        last = 0
        for c in self.connect_many(3) * 20:
            token = self.grant(c, self.key())
            self.assertGreater(token, last)
            last = token

    def test_same_owner_on_many_keys_at_once(self):
        c, owner = self.connect(), self.owner()
        keys = [self.key() for _ in range(50)]
        c.send(b"".join(lqwire.acquire_frame(k, owner) for k in keys))
        answers = c.receive_many(len(keys))
        self.assertEqual({(a.op, a.owner) for a in answers}, {("A", owner)})
        self.assertEqual({a.key for a in answers}, set(keys))
        self.assertEqual(len({a.token for a in answers}), len(keys))


class Held(LoquetCase):
    any_node = True

    def test_wait_zero_times_out_at_once_and_is_never_queued(self):
        holder, other = self.connect_many(2)
        key = self.key()
        token = self.grant(holder, key)
        before = time.monotonic()
        self.assertHeld(other, key)
        self.assertHeld(holder, key)
        self.assertLess(holder.when - before, SLACK)
        self.assertReleased(holder, key, token)
        self.assertQuiet(holder, other)
        self.assertFree(other, key)

    def test_wait_zero_times_out_past_a_queue_as_well(self):
        holder, waiter = self.connect_many(2)
        key = self.key()
        token = self.grant(holder, key)
        owner = self.queue(waiter, key)
        self.assertHeld(holder, key)
        self.assertReleased(holder, key, token)
        self.assertGrantedTo(waiter, key, owner, above=token)

    def test_wait_is_queued_and_granted_on_release(self):
        holder, waiter = self.connect_many(2)
        key = self.key()
        token = self.grant(holder, key)
        owner = self.queue(waiter, key)
        self.assertQuiet(waiter)
        self.assertReleased(holder, key, token)
        second = self.assertGrantedTo(waiter, key, owner, above=token)
        self.assertHeld(holder, key)
        self.assertReleased(waiter, key, second)

    def test_waiter_and_holder_on_one_connection(self):
        c = self.connect()
        key = self.key()
        token = self.grant(c, key)
        owner = self.queue(c, key)
        self.assertReleased(c, key, token)
        self.assertGrantedTo(c, key, owner, above=token)

    def test_each_of_several_waiters_on_one_connection_gets_its_own_answer(self):
        c = self.connect()
        key = self.key()
        token = self.grant(c, key)
        owners = [self.queue(c, key) for _ in range(5)]
        for owner in owners:
            self.assertReleased(c, key, token)
            token = self.assertGrantedTo(c, key, owner, above=token)
        self.assertReleased(c, key, token)
        self.assertQuiet(c)

    def test_other_keys_are_not_concerned(self):
        c = self.connect()
        key = self.key("held")
        self.grant(c, key)
        for other in (key + b" ", b" " + key, key + b"\0", key[:-1] + b"\x7f", key.upper(), key + b"\r"):
            with self.subTest(other):
                self.assertFree(c, other)
        composed, decomposed = key + b"\xc3\xa9", key + b"e\xcc\x81"  # é as one character and as two
        self.grant(c, composed)
        self.assertFree(c, decomposed)


class Waiting(LoquetCase):
    any_node = True
    spread = True

    def wait_to_the_end(self, wait):
        holder, waiter = self.connect_many(2)
        key, owner = self.key(), self.owner()
        token = self.grant(holder, key)
        before = time.monotonic()
        answer = waiter.acquire(key, owner, wait)
        self.assertEqual(answer, lqwire.timed_out(key, owner))
        self.assertGreaterEqual(waiter.when - before, wait - 0.005)
        self.assertLess(waiter.when - before, wait + SLACK)
        self.assertReleased(holder, key, token)
        self.assertQuiet(waiter, holder)
        self.assertFree(holder, key)

    def test_timeout_at_the_end_of_wait(self):
        together(lambda: self.wait_to_the_end(1), lambda: self.wait_to_the_end(2), lambda: self.wait_to_the_end(3))

    def test_waits_end_in_their_own_order(self):
        c = self.connect()
        key = self.key()
        self.grant(c, key)
        owners = {wait: self.owner() for wait in (3, 1, 2)}
        c.send(b"".join(lqwire.acquire_frame(key, owner, wait) for wait, owner in owners.items()))
        for wait in (1, 2, 3):
            self.assertEqual(c.receive(), lqwire.timed_out(key, owners[wait]))

    def test_a_timed_out_waiter_has_left_the_queue(self):
        holder, short, long = self.connect_many(3)
        key = self.key()
        token = self.grant(holder, key)
        gone = self.queue(short, key, wait=1)
        stays = self.queue(long, key, wait=30)
        self.assertEqual(short.receive(), lqwire.timed_out(key, gone))
        self.assertReleased(holder, key, token)
        self.assertGrantedTo(long, key, stays, above=token)
        self.assertQuiet(short)

    def test_lease_of_a_waiter_counts_from_its_grant(self):
        holder, waiter, next_one = self.connect_many(3)
        key = self.key()
        token = self.grant(holder, key)
        owner = self.queue(waiter, key, lease=2)
        asked = time.monotonic()
        sleep_until(asked + 1.2)
        third = self.queue(next_one, key)
        before_release = time.monotonic()
        self.assertReleased(holder, key, token)
        second = self.assertGrantedTo(waiter, key, owner, above=token)
        self.assertGrantedTo(next_one, key, third, above=second)
        self.assertNotEarly(next_one.when - before_release, 2)
        self.assertLess(next_one.when - before_release, 2 + SLACK)

    def test_longest_wait(self):
        holder, waiter = self.connect_many(2)
        key = self.key()
        token = self.grant(holder, key, lease=255)
        owner = self.queue(waiter, key, wait=255, lease=255)
        sleep_until(time.monotonic() + 1.5)
        self.assertQuiet(waiter)
        self.assertReleased(holder, key, token)
        self.assertGrantedTo(waiter, key, owner, above=token)


class SameOwner(LoquetCase):
    """The same owner on the same key gets no special treatment."""

    any_node = True
    spread = True

    def test_no_token_comes_back(self):
        c = self.connect()
        key, owner = self.key(), self.owner()
        first = c.acquire(key, owner)
        self.assertEqual(first.op, "A")
        self.assertEqual(c.acquire(key, owner), lqwire.timed_out(key, owner))
        self.assertEqual(self.connect().acquire(key, owner), lqwire.timed_out(key, owner))
        self.assertReleased(c, key, first.token)
        again = c.acquire(key, owner)
        self.assertEqual(again.op, "A")
        self.assertGreater(again.token, first.token)

    def test_it_waits_like_any_other(self):
        c = self.connect()
        key, owner = self.key(), self.owner()
        token = self.grant(c, key, owner=owner)
        c.send(lqwire.acquire_frame(key, owner, wait=60))
        self.assertQuiet(c)
        self.assertReleased(c, key, token)
        self.assertGrantedTo(c, key, owner, above=token)

    def test_twice_in_one_queue_means_two_answers(self):
        c = self.connect()
        key, owner = self.key(), self.owner()
        token = self.grant(c, key)
        c.send(lqwire.acquire_frame(key, owner, wait=60) * 2)
        for _ in range(2):
            self.assertReleased(c, key, token)
            token = self.assertGrantedTo(c, key, owner, above=token)
        self.assertReleased(c, key, token)
        self.assertQuiet(c)

    def test_no_lease_is_extended(self):
        c, waiter = self.connect_many(2)
        key, owner = self.key(), self.owner()
        before = time.monotonic()
        token = self.grant(c, key, lease=1, owner=owner)
        after = time.monotonic()
        queued = self.queue(waiter, key)
        while time.monotonic() < before + 0.8:
            self.assertEqual(c.acquire(key, owner, lease=255), lqwire.timed_out(key, owner))
            sleep_until(time.monotonic() + 0.05)
        self.assertGrantedTo(waiter, key, queued, above=token)
        self.assertNotEarly(waiter.when - before, 1)
        self.assertLess(waiter.when - after, 1 + SLACK)


class Expired(LoquetCase):
    """Registered, expired, nobody waits: taken over."""

    any_node = True
    spread = True
    options = NEVER_SWEPT

    def expire(self, c, key):
        token = self.grant(c, key, lease=1)
        sleep_until(time.monotonic() + 1.2)
        return token

    def test_taken_over_with_a_new_token(self):
        for wait in (0, 60):
            with self.subTest(wait=wait):
                first, second = self.connect_many(2)
                key = self.key()
                old = self.expire(first, key)
                before = time.monotonic()
                new = self.grant(second, key, wait=wait)
                self.assertLess(second.when - before, SLACK)
                self.assertGreater(new, old)
                self.assertNotHeld(first, key, old)
                self.assertHeld(first, key)
                self.assertReleased(second, key, new)

    def test_new_lease_counts_from_the_take_over(self):
        first, second = self.connect_many(2)
        key = self.key()
        self.expire(first, key)
        before = time.monotonic()
        self.grant(second, key, lease=1)
        sleep_until(before + 0.7)
        if time.monotonic() < before + 0.95:  # else this machine was away for too long to tell
            self.assertHeld(first, key)
        self.grant(first, key, wait=10)
        self.assertNotEarly(first.when - before, 1)
        self.assertLess(first.when - before, 1 + SLACK)
