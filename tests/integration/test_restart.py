"""What a restart forgets and what it keeps: tokens grow across it; --quarantine grants nothing for a while."""

import signal
import time

import lqwire
from lqcase import EARLY, SLACK, LoquetCase, simple_mode_only, sleep_until
from lqserver import Server


class Tokens(LoquetCase):
    """In simple mode tokens start from the wall clock in microseconds, so that they grow across restarts."""

    spread = True

    def test_first_token_is_the_wall_clock_in_microseconds(self):
        token = self.grant(self.connect(), self.key())
        self.assertAlmostEqual(token / 1e6, time.time(), delta=60)

    def restart(self, end):
        key, last = self.key(), 0
        for _ in range(3):
            with Server() as server, lqwire.Connection(server.address) as c:
                for _ in range(500):
                    c.send(lqwire.acquire_frame(self.key(), 1))
                for answer in c.receive_many(500):
                    self.assertGreater(answer.token, last)
                last = max(last, answer.token)
                self.assertGreater(self.grant(c, key), last)  # and the lock itself was forgotten
                end(server)

    def test_grow_across_an_orderly_restart(self):
        self.restart(lambda server: server.stop())

    def test_grow_across_a_killed_server(self):
        def kill(server):
            server.send_signal(signal.SIGKILL)
            self.assertEqual(server.wait(), -signal.SIGKILL)

        self.restart(kill)


class Quarantine(LoquetCase):
    """Each test has a server of its own, 2 s in quarantine from its start; `spawned_at` is a moment before that."""

    spread = True
    LENGTH = 2
    options = ("--quarantine", str(LENGTH))

    def setUp(self):
        super().setUp()
        self.started = self.server.spawned_at

    def assertStillQuarantined(self):
        self.assertLess(
            time.monotonic(), self.started + self.LENGTH, "this machine was too slow to test within the quarantine"
        )

    def assertAfterQuarantine(self, when):
        self.assertGreaterEqual(when - self.started, self.LENGTH - EARLY, "granted during the quarantine")

    def test_wait_zero_times_out_at_once(self):
        c = self.connect()
        for _ in range(10):
            before = time.monotonic()
            self.assertHeld(c, self.key())
            self.assertLess(c.when - before, self.LENGTH / 2)
        self.assertStillQuarantined()
        sleep_until(self.started + self.LENGTH + SLACK)
        self.assertFree(c, self.key())

    def test_waiters_are_granted_when_it_ends_in_their_order(self):
        key = self.key()
        waiters = self.connect_many(5)
        owners = []
        for w in waiters:
            owners.append(self.owner())
            w.send(lqwire.acquire_frame(key, owners[-1], 60))
            w.ping()
        self.assertStillQuarantined()
        token = 0
        for w, owner in zip(waiters, owners):
            got, answer = lqwire.next_answer(waiters)
            self.assertEqual((got is w, answer.op, answer.owner), (True, "A", owner))
            self.assertGreater(answer.token, token)
            self.assertAfterQuarantine(w.when)
            self.assertLess(w.when - self.started, self.LENGTH + 2 * SLACK)
            token = answer.token
            self.assertReleased(w, key, token)

    def test_every_key_is_granted_when_it_ends(self):
        c = self.connect()
        keys = [self.key() for _ in range(100)]
        c.send(b"".join(lqwire.acquire_frame(k, n, 60) for n, k in enumerate(keys)))
        c.ping()
        self.assertStillQuarantined()
        for _ in keys:
            answer = c.receive()
            self.assertAfterQuarantine(c.when)
            self.assertEqual((answer.op, answer.key), ("A", keys[answer.owner]))
        self.assertLess(c.when - self.started, self.LENGTH + 2 * SLACK)

    def test_lease_counts_from_the_grant(self):
        c, other = self.connect_many(2)
        key = self.key()
        c.send(lqwire.acquire_frame(key, 1, 60, 1))
        c.ping()
        other.send(lqwire.acquire_frame(key, 2, 60, 1))
        other.ping()
        self.assertStillQuarantined()
        token = self.assertGrantedTo(c, key, 1)
        self.assertAfterQuarantine(c.when)
        self.assertGrantedTo(other, key, 2, above=token)
        self.assertGreaterEqual(other.when - self.started, self.LENGTH + 1 - EARLY)

    def test_a_shorter_wait_ends_with_t(self):
        c = self.connect()
        key = self.key()
        before = time.monotonic()
        c.send(lqwire.acquire_frame(key, 1, 1))
        self.assertStillQuarantined()
        self.assertEqual(c.receive(), lqwire.timed_out(key, 1))
        self.assertGreaterEqual(c.when - before, 0.995)
        sleep_until(self.started + self.LENGTH + SLACK)
        self.assertFree(c, key)
        self.assertIsNone(c.try_receive(0))

    def test_cancel_works(self):
        c = self.connect()
        key = self.key()
        c.send(lqwire.acquire_frame(key, 1, 60) + lqwire.acquire_frame(key, 2, 60) + lqwire.cancel_frame(key, 1))
        self.assertEqual(c.receive(), lqwire.timed_out(key, 1))
        self.assertStillQuarantined()
        self.assertGrantedTo(c, key, 2)
        self.assertAfterQuarantine(c.when)

    def test_release_and_renew_are_refused(self):
        c = self.connect()
        key = self.key()
        c.send(lqwire.acquire_frame(key, 1, 60))
        for token in (0, 1, int(time.time() * 1e6)):
            self.assertNotHeld(c, key, token)
            self.assertEqual(c.renew(key, token), lqwire.not_held(key, token))
            self.assertNotHeld(c, self.key(), token)
        self.assertStillQuarantined()
        self.assertGrantedTo(c, key, 1)

    def test_dead_and_half_closed_waiters(self):
        dying, closing, survivor = self.connect_many(3)
        key = self.key()
        for n, c in enumerate((dying, closing, survivor)):
            c.send(lqwire.acquire_frame(key, n, 60, 255))
            c.ping()
        dying.abort()
        closing.shutdown_write()
        self.assertEqual(closing.receive_to_end(), [lqwire.timed_out(key, 1)])
        self.assertStillQuarantined()
        self.assertGrantedTo(survivor, key, 2)
        self.assertAfterQuarantine(survivor.when)

    def test_ping_and_errors_as_ever(self):
        c = self.connect()
        self.assertEqual(c.ping(3), lqwire.pong(3))
        c.send(b"?")
        self.assertErrorEnd(c, lqwire.ERROR_UNKNOWN_OP)
        self.assertStillQuarantined()


class NoQuarantine(LoquetCase):
    @simple_mode_only
    def test_off_by_default(self):
        self.assertFree(self.connect(), self.key())
        self.assertLess(time.monotonic() - self.server.spawned_at, 20)
