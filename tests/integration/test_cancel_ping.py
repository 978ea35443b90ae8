"""Cancel (C) of a queued acquire, and ping (P)."""

import time

import lqwire
from lqcase import SLACK, LoquetCase


class Cancel(LoquetCase):
    any_node = True

    def setUp(self):
        super().setUp()
        self.holder, self.waiter = self.connect_many(2)
        self.name = self.key()
        self.token = self.grant(self.holder, self.name)

    def cancel(self, connection, owner, key=None):
        connection.send(lqwire.cancel_frame(key or self.name, owner))

    def test_queued(self):
        owner = self.queue(self.waiter, self.name)
        before = time.monotonic()
        self.cancel(self.waiter, owner)
        self.assertEqual(self.waiter.receive(), lqwire.timed_out(self.name, owner))
        self.assertLess(self.waiter.when - before, SLACK)
        self.assertReleased(self.holder, self.name, self.token)
        self.assertQuiet(self.waiter)
        self.assertFree(self.holder, self.name)

    def test_queued_in_the_same_write(self):
        owner = self.owner()
        self.waiter.send(lqwire.acquire_frame(self.name, owner, 60) + lqwire.cancel_frame(self.name, owner))
        self.assertEqual(self.waiter.receive(), lqwire.timed_out(self.name, owner))
        self.assertQuiet(self.waiter)

    def test_already_granted(self):
        owner = self.queue(self.waiter, self.name)
        self.assertReleased(self.holder, self.name, self.token)
        token = self.assertGrantedTo(self.waiter, self.name, owner, above=self.token)
        self.cancel(self.waiter, owner)
        self.assertQuiet(self.waiter)
        self.assertHeld(self.holder, self.name)
        self.assertReleased(self.waiter, self.name, token)

    def test_granted_at_once(self):
        key, owner = self.key(), self.owner()
        self.waiter.send(lqwire.acquire_frame(key, owner, 60) + lqwire.cancel_frame(key, owner))
        token = self.assertGrantedTo(self.waiter, key, owner)
        self.assertQuiet(self.waiter)
        self.assertHeld(self.holder, key)
        self.assertReleased(self.waiter, key, token)

    def test_already_timed_out(self):
        owner = self.owner()
        self.assertEqual(self.waiter.acquire(self.name, owner), lqwire.timed_out(self.name, owner))
        self.cancel(self.waiter, owner)
        self.assertQuiet(self.waiter)

    def test_twice(self):
        owner = self.queue(self.waiter, self.name)
        self.cancel(self.waiter, owner)
        self.cancel(self.waiter, owner)
        self.assertEqual(self.waiter.receive(), lqwire.timed_out(self.name, owner))
        self.assertQuiet(self.waiter)

    def test_nothing_of_that_name(self):
        owner = self.queue(self.waiter, self.name)
        for key, stranger in ((self.name, self.owner()), (self.key(), owner), (self.name, 0)):
            self.cancel(self.waiter, stranger, key)
        self.assertQuiet(self.waiter)
        self.assertReleased(self.holder, self.name, self.token)
        self.assertGrantedTo(self.waiter, self.name, owner, above=self.token)

    def test_of_another_connection(self):
        owner = self.queue(self.waiter, self.name)
        self.cancel(self.holder, owner)
        self.assertQuiet(self.holder, self.waiter)
        self.assertReleased(self.holder, self.name, self.token)
        self.assertGrantedTo(self.waiter, self.name, owner, above=self.token)

    def test_equal_owners_on_two_connections(self):
        other, owner = self.connect(), self.owner()
        self.queue(self.waiter, self.name, owner=owner)
        self.queue(other, self.name, owner=owner)
        self.cancel(self.waiter, owner)
        self.assertEqual(self.waiter.receive(), lqwire.timed_out(self.name, owner))
        self.assertQuiet(other)
        self.assertReleased(self.holder, self.name, self.token)
        self.assertGrantedTo(other, self.name, owner, above=self.token)

    def test_equal_owners_on_two_keys(self):
        other, owner = self.key(), self.owner()
        other_token = self.grant(self.holder, other)
        self.queue(self.waiter, self.name, owner=owner)
        self.queue(self.waiter, other, owner=owner)
        self.cancel(self.waiter, owner, other)
        self.assertEqual(self.waiter.receive(), lqwire.timed_out(other, owner))
        self.assertReleased(self.holder, other, other_token)
        self.assertReleased(self.holder, self.name, self.token)
        self.assertGrantedTo(self.waiter, self.name, owner, above=self.token)
        self.assertFree(self.holder, other)

    def test_equal_owners_in_one_queue(self):
        """The page does not say whether one C ends one or both of them; two of them end both, each with its own T."""
        owner = self.owner()
        self.waiter.send(lqwire.acquire_frame(self.name, owner, 60) * 2)
        self.settle(self.waiter)
        for _ in range(2):
            self.cancel(self.waiter, owner)
        self.assertEqual(self.waiter.receive_many(2), [lqwire.timed_out(self.name, owner)] * 2)
        self.assertQuiet(self.waiter)
        self.assertReleased(self.holder, self.name, self.token)
        self.assertQuiet(self.waiter)
        self.assertFree(self.holder, self.name)

    def test_holder_cancels_its_owner_in_vain(self):
        key, owner = self.key(), self.owner()
        token = self.grant(self.holder, key, owner=owner)
        self.cancel(self.holder, owner, key)
        self.assertQuiet(self.holder)
        self.assertHeld(self.waiter, key)
        self.assertReleased(self.holder, key, token)

    def test_any_place_in_the_queue(self):
        for place in range(4):
            with self.subTest(place=place):
                key = self.key()
                token = self.grant(self.holder, key)
                owners = [self.queue(self.waiter, key) for _ in range(4)]
                gone = owners.pop(place)
                self.cancel(self.waiter, gone, key)
                self.assertEqual(self.waiter.receive(), lqwire.timed_out(key, gone))
                for owner in owners:
                    self.assertReleased(self.holder, key, token)
                    token = self.assertGrantedTo(self.waiter, key, owner, above=token)
                self.assertReleased(self.holder, key, token)
                self.assertQuiet(self.waiter)

    def test_the_owner_may_queue_again(self):
        owner = self.queue(self.waiter, self.name)
        for _ in range(3):
            self.cancel(self.waiter, owner)
            self.assertEqual(self.waiter.receive(), lqwire.timed_out(self.name, owner))
            self.queue(self.waiter, self.name, owner=owner)
        self.assertReleased(self.holder, self.name, self.token)
        self.assertGrantedTo(self.waiter, self.name, owner, above=self.token)

    def test_neighbours_on_the_connection_live_on(self):
        owners = [self.queue(self.waiter, self.name) for _ in range(3)]
        self.cancel(self.waiter, owners[1])
        self.assertEqual(self.waiter.receive(), lqwire.timed_out(self.name, owners[1]))
        self.assertFree(self.waiter, self.key())
        for owner in (owners[0], owners[2]):
            self.assertReleased(self.holder, self.name, self.token)
            self.token = self.assertGrantedTo(self.waiter, self.name, owner, above=self.token)


class Ping(LoquetCase):
    any_node = True

    def test_any_nonce_comes_back(self):
        c = self.connect()
        for nonce in (0, 1, 10, 0x0A0A0A0A0A0A0A0A, 0x50, 1 << 63, (1 << 64) - 1):
            with self.subTest(nonce=nonce):
                self.assertEqual(c.ping(nonce), lqwire.pong(nonce))
        self.assertQuiet(c)

    def test_at_once_while_an_acquire_waits(self):
        holder, waiter = self.connect_many(2)
        key = self.key()
        token = self.grant(holder, key)
        owner = self.queue(waiter, key)
        before = time.monotonic()
        self.assertEqual(waiter.ping(5), lqwire.pong(5))
        self.assertLess(waiter.when - before, SLACK)
        self.assertReleased(holder, key, token)
        self.assertGrantedTo(waiter, key, owner, above=token)

    def test_many_in_one_write(self):
        c = self.connect()
        nonces = [self.random.randrange(1 << 64) for _ in range(1000)]
        c.send_in_one_write(b"".join(map(lqwire.ping_frame, nonces)))
        self.assertEqual(sorted(a.nonce for a in c.receive_many(1000)), sorted(nonces))

    def test_as_the_first_and_only_frame(self):
        c = self.connect()
        c.send(lqwire.ping_frame(1))
        c.shutdown_write()
        self.assertEqual(c.receive_to_end(), [lqwire.pong(1)])
