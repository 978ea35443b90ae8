"""Renew (K): every answer, that it sets the end of the lease anew, and that nothing else does."""

import time

import lqwire
from lqcase import SLACK, LoquetCase, simple_mode_only, sleep_until, together

NEVER_SWEPT = ("--sweep-ms", "3600000")


class Answers(LoquetCase):
    any_node = True

    def assertRenewed(self, c, key, token, lease=30):
        self.assertEqual(c.renew(key, token, lease), lqwire.renewed(key, token))

    def assertRefused(self, c, key, token, lease=30):
        self.assertEqual(c.renew(key, token, lease), lqwire.not_held(key, token))

    def test_holder_keeps_its_token(self):
        c, other = self.connect_many(2)
        key = self.key()
        token = self.grant(c, key)
        for lease in (1, 2, 255, 10, 30):
            self.assertRenewed(c, key, token, lease)
        self.assertHeld(other, key)
        self.assertReleased(c, key, token)
        self.assertFree(other, key)

    def test_any_connection_may_renew(self):
        c, other = self.connect_many(2)
        key = self.key()
        token = self.grant(c, key)
        self.assertRenewed(other, key, token)
        self.assertReleased(c, key, token)

    def test_another_token(self):
        c = self.connect()
        key = self.key()
        token = self.grant(c, key)
        for wrong in {0, 1, token - 1, token + 1, token ^ (1 << 63), (1 << 64) - 1} - {token}:
            self.assertRefused(c, key, wrong)
        self.assertHeld(c, key)
        self.assertRenewed(c, key, token)

    def test_no_such_key(self):
        c = self.connect()
        key = self.key()
        self.assertRefused(c, key, 1)
        token = self.assertFree(c, key)
        self.assertRefused(c, key, token)

    def test_former_holder(self):
        c, waiter = self.connect_many(2)
        key = self.key()
        token = self.grant(c, key)
        owner = self.queue(waiter, key)
        self.assertReleased(c, key, token)
        second = self.assertGrantedTo(waiter, key, owner, above=token)
        self.assertRefused(c, key, token)
        self.assertRenewed(c, key, second)

    def test_queue_keeps_its_order(self):
        c = self.connect()
        waiters = self.connect_many(4)
        key = self.key()
        token = self.grant(c, key)
        owners = [self.queue(w, key) for w in waiters]
        for _ in range(10):
            self.assertRenewed(c, key, token, 60)
        self.assertQuiet(*waiters)
        for w, owner in zip(waiters, owners):
            self.assertReleased(c, key, token)
            token = self.assertGrantedTo(w, key, owner, above=token)

    def test_release_and_renew_with_one_token_are_answered_in_order(self):
        c = self.connect()
        for order in ("RK", "KR", "KKRKRR", "RRKK", "KRKRKRKR", "K" * 50 + "R" + "K" * 50):
            with self.subTest(order):
                key = self.key()
                token = self.grant(c, key)
                frames = {"R": lqwire.release_frame(key, token), "K": lqwire.renew_frame(key, token)}
                c.send(b"".join(frames[op] for op in order))
                end = order.index("R")
                expected = order[: end + 1] + "N" * (len(order) - end - 1)
                self.assertEqual(
                    [(a.op, a.token, a.key) for a in c.receive_many(len(order))], [(op, token, key) for op in expected]
                )

    def test_order_holds_among_other_requests(self):
        c = self.connect()
        key, other = self.key(), self.key()
        token = self.grant(c, key)
        stranger = self.grant(c, other)
        c.send(
            lqwire.renew_frame(key, token)
            + lqwire.ping_frame(1)
            + lqwire.acquire_frame(key, 7)
            + lqwire.release_frame(other, stranger)
            + lqwire.release_frame(key, token)
            + lqwire.acquire_frame(self.key(), 8)
            + lqwire.renew_frame(key, token)
        )
        mine = [a.op for a in c.receive_many(7) if a.op in "KRN" and a.token == token]
        self.assertEqual(mine, ["K", "R", "N"])


class Lease(LoquetCase):
    any_node = True
    spread = True

    def test_extends(self):
        c, waiter = self.connect_many(2)
        key = self.key()
        token = self.grant(c, key, lease=1)
        owner = self.queue(waiter, key, wait=20)
        sent = None
        for _ in range(4):
            sent = time.monotonic()
            self.assertEqual(c.renew(key, token, 1), lqwire.renewed(key, token))
            sleep_until(sent + 0.5)
        self.assertGrantedTo(waiter, key, owner, above=token)
        self.assertNotEarly(waiter.when - sent, 1)
        self.assertLess(waiter.when - sent, 1 + SLACK)
        self.assertNotHeld(c, key, token)

    def test_extends_without_waiters(self):
        c = self.connect()
        key = self.key()
        token = self.grant(c, key, lease=1)
        sent = time.monotonic()
        self.assertEqual(c.renew(key, token, 30), lqwire.renewed(key, token))
        sleep_until(sent + 1.3)
        self.assertHeld(c, key)
        self.assertReleased(c, key, token)

    def shorten(self, waiting_first):
        c, waiter = self.connect_many(2)
        key = self.key()
        token = self.grant(c, key, lease=255)
        owner = self.queue(waiter, key) if waiting_first else None
        sent = time.monotonic()
        self.assertEqual(c.renew(key, token, 1), lqwire.renewed(key, token))
        if owner is None:
            owner = self.queue(waiter, key)
        self.assertGrantedTo(waiter, key, owner, above=token)
        self.assertNotEarly(waiter.when - sent, 1)
        self.assertLess(waiter.when - sent, 1 + SLACK)

    def test_shortens(self):
        together(lambda: self.shorten(True), lambda: self.shorten(False))

    def test_the_last_renewal_counts(self):
        c, waiter = self.connect_many(2)
        key = self.key()
        token = self.grant(c, key, lease=255)
        owner = self.queue(waiter, key)
        sent = time.monotonic()
        c.send(b"".join(lqwire.renew_frame(key, token, lease) for lease in (1, 255, 2, 100, 1, 3, 1)))
        self.assertEqual(c.receive_many(7), [lqwire.renewed(key, token)] * 7)
        self.assertGrantedTo(waiter, key, owner, above=token)
        self.assertNotEarly(waiter.when - sent, 1)
        self.assertLess(waiter.when - sent, 1 + SLACK)

    def test_nothing_else_extends(self):
        c, waiter = self.connect_many(2)
        key, owner = self.key(), self.owner()
        before = time.monotonic()
        token = self.grant(c, key, lease=1, owner=owner)
        queued = self.queue(waiter, key)
        wrong = token + 1
        round_of_requests = (
            lqwire.acquire_frame(key, owner, 0, 255)
            + lqwire.renew_frame(key, wrong, 255)
            + lqwire.release_frame(key, wrong)
            + lqwire.cancel_frame(key, owner)
            + lqwire.ping_frame(token)
        )
        while time.monotonic() < before + 0.8:
            c.send(round_of_requests)
            self.assertEqual(sorted(a.op for a in c.receive_many(4)), ["N", "N", "P", "T"])
            sleep_until(time.monotonic() + 0.05)
        self.assertGrantedTo(waiter, key, queued, above=token)
        self.assertNotEarly(waiter.when - before, 1)
        self.assertLess(waiter.when - before, 1 + SLACK)


class Ended(LoquetCase):
    """A lease that has ended is not renewed, swept or not."""

    any_node = True
    spread = True
    options = NEVER_SWEPT

    def refuse_after_the_end(self):
        c = self.connect()
        key = self.key()
        token = self.grant(c, key, lease=1)
        sleep_until(time.monotonic() + 1.2)
        for _ in range(2):
            self.assertEqual(c.renew(key, token, 255), lqwire.not_held(key, token))
        new = self.assertFree(c, key)
        self.assertGreater(new, token)
        self.assertEqual(c.renew(key, token, 255), lqwire.not_held(key, token))

    def test_not_swept(self):
        self.refuse_after_the_end()

    def test_with_a_waiter(self):
        c, waiter = self.connect_many(2)
        key = self.key()
        token = self.grant(c, key, lease=1)
        owner = self.queue(waiter, key)
        second = self.assertGrantedTo(waiter, key, owner, above=token)
        self.assertEqual(c.renew(key, token, 255), lqwire.not_held(key, token))
        self.assertEqual(waiter.renew(key, second, 255), lqwire.renewed(key, second))


class EndedAndSwept(Ended):
    options = ("--sweep-ms", "20")

    @simple_mode_only
    def test_swept(self):
        c = self.connect()
        key = self.key()
        token = self.grant(c, key, lease=1)
        sleep_until(time.monotonic() + 1.5)
        self.assertEqual(c.renew(key, token, 255), lqwire.not_held(key, token))
        self.assertNotHeld(c, key, token)
