"""Undeliverable grants: if not one byte of an A could be given to the kernel because its connection was gone, the
server releases that token at once.

Made certain by stopping the server while the connections die: what it meets on waking up is a release (or an expiry)
with dead waiters behind it, which it can't have noticed before. All dead ones ask for a lease of 255 s, so that a grant
lost to one of them can't be mistaken for one that was recovered.
"""

import time

import lqwire
from lqcase import SLACK, LoquetCase, sleep_until

DEAD = 40


class Undeliverable(LoquetCase):
    def line_up(self, key, lease=60):
        """A holder, many waiters that will die, a survivor behind them."""
        self.holder = self.connect()
        self.token = self.grant(self.holder, key, lease=lease)
        self.dying = self.connect_many(DEAD)
        for c in self.dying:
            self.queue(c, key, lease=255)
        self.survivor = self.connect()
        self.last = self.queue(self.survivor, key)

    def kill_waiters(self):
        for c in self.dying:
            c.abort()

    def assertSurvivorServed(self, key):
        token = self.assertGrantedTo(self.survivor, key, self.last, above=self.token, timeout=2 + SLACK)
        self.assertReleased(self.survivor, key, token)
        self.assertFree(self.holder, key)

    def frozen(self, *steps):
        self.server.freeze()
        try:
            for step in steps:
                step()
        finally:
            self.server.thaw()

    def test_release_that_arrives_before_the_resets(self):
        key = self.key()
        self.line_up(key)
        release = lqwire.release_frame(key, self.token)
        self.frozen(lambda: self.holder.send(release), self.kill_waiters)
        self.assertEqual(self.holder.receive(), lqwire.released(key, self.token))
        self.assertSurvivorServed(key)

    def test_release_that_arrives_after_the_resets(self):
        key = self.key()
        self.line_up(key)
        release = lqwire.release_frame(key, self.token)
        self.frozen(self.kill_waiters, lambda: self.holder.send(release))
        self.assertEqual(self.holder.receive(), lqwire.released(key, self.token))
        self.assertSurvivorServed(key)

    def test_release_among_the_resets_without_stopping_the_server(self):
        for _ in range(5):
            key = self.key()
            self.line_up(key)
            self.kill_waiters()
            self.holder.send(lqwire.release_frame(key, self.token))
            self.assertEqual(self.holder.receive(), lqwire.released(key, self.token))
            self.assertSurvivorServed(key)

    def test_expiry_with_dead_waiters(self):
        """Timers may well run before the server reads that the connections are gone."""
        key = self.key()
        self.line_up(key, lease=1)
        self.frozen(self.kill_waiters, lambda: sleep_until(time.monotonic() + 1.1))
        self.assertSurvivorServed(key)

    def test_nobody_is_left(self):
        key = self.key()
        self.line_up(key)
        self.dying.append(self.survivor)
        release = lqwire.release_frame(key, self.token)
        self.frozen(lambda: self.holder.send(release), self.kill_waiters)
        self.assertEqual(self.holder.receive(), lqwire.released(key, self.token))
        self.grant(self.holder, key, wait=3)

    def test_fresh_grant(self):
        """The acquire arrived, its connection is gone: read or not, the key has to be free soon."""
        for _ in range(5):
            key, judge, c = self.key(), self.connect(), self.connect()
            c.ping()
            self.frozen(lambda: c.send(lqwire.acquire_frame(key, 1, 0, 255)), c.abort)  # noqa: B023
            self.grant(judge, key, wait=3)

    def test_granted_and_released_by_the_dead(self):
        """Acquire and a hand-over within one connection that dies before it reads anything."""
        key, judge, c, other = self.key(), self.connect(), self.connect(), self.connect()
        token = self.grant(judge, key)
        last = self.queue(other, key)
        frames = lqwire.release_frame(key, token) + lqwire.acquire_frame(key, 2, 60, 255)
        self.frozen(lambda: c.send(frames), c.abort)
        answer = other.try_receive(1.0)
        if answer is None:  # the server never read the release: the lock has to be where it was
            self.assertReleased(judge, key, token)
            answer = other.receive()
        self.assertEqual((answer.op, answer.owner), ("A", last))
        self.assertReleased(other, key, answer.token)
        self.grant(judge, key, wait=3)


class BehindUnreadAnswers(LoquetCase):
    """When its client dies, the A of a grant stands in the server's memory, behind more than the kernel takes."""

    def stuff(self, c, held, extra):
        """Requests whose answers, never read, fill all buffers of the kernel; then `extra`, certainly executed."""
        padding = lqwire.acquire_frame(held, 1) * 14000  # 14 MB of answers
        data, at = padding + extra, 0
        deadline = time.monotonic() + 20
        while at < len(data):
            sent = c.send_what_fits(data, at)
            at += sent
            if sent == 0:
                sleep_until(time.monotonic() + 0.002)
            self.assertLess(time.monotonic(), deadline, "the server stopped reading below its cap of unread answers")

    def wait_until_held(self, judge, key):
        deadline = time.monotonic() + 10
        while True:
            answer = judge.acquire(key, 1)
            if answer.op == "T":
                return
            self.assertReleased(judge, key, answer.token)
            self.assertLess(time.monotonic(), deadline, "the request behind the unread answers was not executed")
            sleep_until(time.monotonic() + 0.02)

    def test_fresh_grant(self):
        judge, c = self.connect(), self.connect(receive_buffer=4096)
        held, key = self.key().ljust(1000, b"x"), self.key()
        self.grant(judge, held)
        self.stuff(c, held, lqwire.acquire_frame(key, 2, 10, 255))
        self.wait_until_held(judge, key)
        c.abort()
        self.grant(judge, key, wait=3)

    def test_hand_over(self):
        judge, c, survivor = self.connect(), self.connect(receive_buffer=4096), self.connect()
        held, key, mark = self.key().ljust(1000, b"x"), self.key(), self.key()
        self.grant(judge, held)
        token = self.grant(judge, key)
        self.stuff(c, held, lqwire.acquire_frame(key, 2, 60, 255) + lqwire.acquire_frame(mark, 3, 10, 255))
        self.wait_until_held(judge, mark)
        last = self.queue(survivor, key)
        self.assertReleased(judge, key, token)
        self.assertQuiet(survivor)
        c.abort()
        self.assertGrantedTo(survivor, key, last, above=token, timeout=2 + SLACK)
        self.grant(judge, mark, wait=3)
