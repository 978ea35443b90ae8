"""Release: every row of its matrix; the token is the authority, not the connection. Expired keys: test_expiry.py."""

import lqwire
from lqcase import LoquetCase


class Matching(LoquetCase):
    any_node = True

    def test_nobody_waits_key_is_deleted(self):
        c = self.connect()
        key = self.key()
        token = self.grant(c, key)
        self.assertReleased(c, key, token)
        self.assertNotHeld(c, key, token)
        self.assertGreater(self.assertFree(c, key), token)

    def test_waiters_hand_over_to_the_head(self):
        holder, first, second = self.connect_many(3)
        key = self.key()
        token = self.grant(holder, key)
        owner1, owner2 = self.queue(first, key), self.queue(second, key)
        self.assertReleased(holder, key, token)
        token1 = self.assertGrantedTo(first, key, owner1, above=token)
        self.assertQuiet(second)
        self.assertNotHeld(holder, key, token)
        self.assertHeld(holder, key)
        self.assertReleased(first, key, token1)
        token2 = self.assertGrantedTo(second, key, owner2, above=token1)
        self.assertNotHeld(first, key, token1)
        self.assertReleased(second, key, token2)
        self.assertFree(holder, key)

    def test_any_connection_may_release(self):
        holder, other = self.connect_many(2)
        key = self.key()
        token = self.grant(holder, key)
        self.assertReleased(other, key, token)
        self.assertNotHeld(holder, key, token)
        self.assertFree(other, key)

    def test_release_from_elsewhere_hands_over_too(self):
        holder, waiter, other = self.connect_many(3)
        key = self.key()
        token = self.grant(holder, key)
        owner = self.queue(waiter, key)
        self.assertReleased(other, key, token)
        self.assertGrantedTo(waiter, key, owner, above=token)

    def test_the_waiter_itself_may_release_for_the_holder(self):
        holder, waiter = self.connect_many(2)
        key = self.key()
        token = self.grant(holder, key)
        owner = self.queue(waiter, key)
        self.assertReleased(waiter, key, token)
        self.assertGrantedTo(waiter, key, owner, above=token)

    def test_released_key_with_live_neighbours(self):
        c = self.connect()
        keys = [self.key() for _ in range(20)]
        tokens = {k: self.grant(c, k) for k in keys}
        for k in keys[::2]:
            self.assertReleased(c, k, tokens[k])
        for k in keys[1::2]:
            self.assertHeld(c, k)
        for k in keys[::2]:
            self.assertFree(c, k)
        for k in keys[1::2]:
            self.assertReleased(c, k, tokens[k])

    def test_released_many_times_over(self):
        c = self.connect()
        key, last = self.key(), 0
        for _ in range(300):
            token = self.assertFree(c, key)
            self.assertGreater(token, last)
            last = token


class NotMatching(LoquetCase):
    any_node = True

    def wrong_tokens(self, token):
        wrong = {0, 1, token - 1, token + 1, token ^ (1 << 63), token ^ (1 << 32), (1 << 64) - 1, token & 0xFFFFFFFF}
        return wrong - {token}

    def test_lock_stays(self):
        holder, other = self.connect_many(2)
        key = self.key()
        token = self.grant(holder, key)
        for wrong in self.wrong_tokens(token):
            with self.subTest(wrong=wrong):
                self.assertNotHeld(holder, key, wrong)
                self.assertNotHeld(other, key, wrong)
                self.assertHeld(other, key)
        self.assertReleased(holder, key, token)

    def test_queue_stays(self):
        holder, waiter = self.connect_many(2)
        key = self.key()
        token = self.grant(holder, key)
        owner = self.queue(waiter, key)
        for wrong in self.wrong_tokens(token):
            self.assertNotHeld(waiter, key, wrong)
        self.assertQuiet(waiter)
        self.assertReleased(holder, key, token)
        self.assertGrantedTo(waiter, key, owner, above=token)

    def test_token_of_another_key(self):
        c = self.connect()
        one, two = self.key(), self.key()
        token1, token2 = self.grant(c, one), self.grant(c, two)
        self.assertNotHeld(c, one, token2)
        self.assertNotHeld(c, two, token1)
        self.assertHeld(c, one)
        self.assertHeld(c, two)
        self.assertReleased(c, one, token1)
        self.assertReleased(c, two, token2)

    def test_token_of_an_earlier_holder(self):
        c = self.connect()
        key = self.key()
        earlier = [self.assertFree(c, key) for _ in range(5)]
        token = self.grant(c, key)
        for old in earlier:
            self.assertNotHeld(c, key, old)
        self.assertHeld(c, key)
        self.assertReleased(c, key, token)

    def test_owner_is_no_token(self):
        c = self.connect()
        key, owner = self.key(), self.owner()
        token = self.grant(c, key, owner=owner)
        if owner != token:
            self.assertNotHeld(c, key, owner)
        self.assertHeld(c, key)

    def test_not_registered(self):
        c = self.connect()
        for token in (0, 1, 0x0A0A0A0A0A0A0A0A, (1 << 64) - 1):
            with self.subTest(token=token):
                key = self.key()
                self.assertNotHeld(c, key, token)
                self.assertFree(c, key)

    def test_twice_in_one_write(self):
        c = self.connect()
        key = self.key()
        token = self.grant(c, key)
        c.send(lqwire.release_frame(key, token) * 3)
        self.assertEqual(
            c.receive_many(3), [lqwire.released(key, token), lqwire.not_held(key, token), lqwire.not_held(key, token)]
        )
