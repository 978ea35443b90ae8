"""The end of connections: half-close, close and reset, of waiters and of holders."""

import shutil
import subprocess
import time

import lqwire
from lqcase import ADDRESSES, SLACK, LoquetCase, simple_mode_only


class HalfClose(LoquetCase):
    """At the end of input the frames before it are executed, waiting acquires get T at once, then the server closes."""

    any_node = True

    def setUp(self):
        super().setUp()
        self.holder = self.connect()
        self.held = self.key()
        self.token = self.grant(self.holder, self.held)

    def test_waiting_acquire_is_cancelled_at_once(self):
        c = self.connect()
        before = time.monotonic()
        c.send(lqwire.acquire_frame(self.held, 7, 60))
        c.shutdown_write()
        self.assertEqual(c.receive_to_end(), [lqwire.timed_out(self.held, 7)])
        self.assertLess(time.monotonic() - before, SLACK)
        self.assertReleased(self.holder, self.held, self.token)
        self.assertFree(self.holder, self.held)

    def test_acquire_that_already_waits(self):
        c, other = self.connect_many(2)
        owners = [self.queue(c, self.held) for _ in range(3)]
        last = self.queue(other, self.held)
        c.shutdown_write()
        self.assertCountEqual(c.receive_to_end(), [lqwire.timed_out(self.held, o) for o in owners])
        self.assertReleased(self.holder, self.held, self.token)
        self.assertGrantedTo(other, self.held, last, above=self.token)

    def test_outcomes_that_need_no_waiting_are_written(self):
        c = self.connect()
        free, gone = self.key(), self.key()
        gone_token = self.grant(self.holder, gone)
        c.send_in_one_write(
            lqwire.acquire_frame(free, 1, 60)
            + lqwire.acquire_frame(self.held, 2, 60)
            + lqwire.acquire_frame(self.held, 3)
            + lqwire.release_frame(gone, gone_token)
            + lqwire.renew_frame(self.held, self.token)
            + lqwire.ping_frame(4)
        )
        c.shutdown_write()
        answers = c.receive_to_end()
        token = next(a.token for a in answers if a.op == "A")
        self.assertCountEqual(
            answers,
            [
                lqwire.granted(free, 1, token),
                lqwire.timed_out(self.held, 2),
                lqwire.timed_out(self.held, 3),
                lqwire.released(gone, gone_token),
                lqwire.renewed(self.held, self.token),
                lqwire.pong(4),
            ],
        )
        self.assertHeld(self.holder, free)
        self.assertReleased(self.holder, free, token)

    def test_thousands_of_answers_are_written(self):
        c = self.connect()
        c.send_in_one_write(b"".join(lqwire.acquire_frame(self.held, n) for n in range(10000)))
        c.shutdown_write()
        self.assertCountEqual(c.receive_to_end(), [lqwire.timed_out(self.held, n) for n in range(10000)])

    def test_nothing_sent(self):
        c = self.connect()
        c.shutdown_write()
        self.assertEqual(c.receive_to_end(), [])

    def test_incomplete_frame_is_not_executed(self):
        key = self.key()
        frame = lqwire.acquire_frame(key, 1)
        for cut in range(1, len(frame)):
            with self.subTest(cut=cut):
                c = self.connect()
                c.send(lqwire.ping_frame(1) + frame[:cut])
                c.shutdown_write()
                self.assertEqual(c.receive_to_end(), [lqwire.pong(1)])
        self.assertFree(self.holder, key)

    def test_nc_gets_its_answer(self):
        """printf ... | nc -N, as the documentation shows it; nc from netcat-openbsd."""
        nc = shutil.which("nc")
        self.assertIsNotNone(nc, "nc is not installed: this test needs it (package netcat-openbsd)")
        usage = subprocess.run([nc, "-h"], stdin=subprocess.DEVNULL, capture_output=True, timeout=10)
        self.assertIn(b"OpenBSD", usage.stdout + usage.stderr, "nc -N needs the nc of the package netcat-openbsd")
        host, port = self.server.address if self.server is not None else ADDRESSES[0]
        key = self.key().decode()
        script = "printf '%s' | " + "%s -N %s %d" % (nc, host, port)

        def talk(frame):
            return subprocess.run(["sh", "-c", script % frame], capture_output=True, timeout=10).stdout

        out = talk(r"A\000\036\000\000\000\000\000\000\000\052" + key + r"\n")
        parser = lqwire.AnswerParser()
        answers = parser.feed(out)
        self.assertEqual(len(answers), 1, out)
        self.assertEqual(answers, [lqwire.granted(key.encode(), 42, answers[0].token)])
        out = talk(r"A\377\036\000\000\000\000\000\000\000\053" + key + r"\n")
        self.assertEqual(parser.feed(out), [lqwire.timed_out(key.encode(), 43)])
        self.assertReleased(self.holder, key.encode(), answers[0].token)


class Waiters(LoquetCase):
    any_node = True

    def die(self, end):
        for in_front, behind in ((0, 1), (1, 1), (3, 2)):
            with self.subTest(in_front=in_front, behind=behind):
                holder, dying = self.connect_many(2)
                key = self.key()
                token = self.grant(holder, key)
                line = [(c, self.queue(c, key)) for c in self.connect_many(in_front)]
                self.queue(dying, key, lease=255)
                self.queue(dying, key, lease=255)
                line += [(c, self.queue(c, key)) for c in self.connect_many(behind)]
                end(dying)
                self.settle(holder)
                for c, owner in line:
                    self.assertReleased(holder, key, token)
                    token = self.assertGrantedTo(c, key, owner, above=token)
                self.assertReleased(holder, key, token)
                self.grant(holder, key, wait=3)

    def test_reset(self):
        self.die(lambda c: c.abort())

    @simple_mode_only
    def test_close(self):
        """In cluster mode a close and a release elsewhere may meet: then the A may go to the kernel, and stands."""
        self.die(lambda c: c.close())

    def test_half_close(self):
        def end(c):
            c.shutdown_write()
            self.assertEqual([a.op for a in c.receive_to_end()], ["T", "T"])

        self.die(end)

    def test_only_waiter_dies(self):
        holder, dying = self.connect_many(2)
        key = self.key()
        token = self.grant(holder, key)
        self.queue(dying, key, lease=255)
        dying.abort()
        self.settle(holder)
        self.assertReleased(holder, key, token)
        self.grant(holder, key, wait=3)

    def test_before_expiry(self):
        holder, dying, survivor = self.connect_many(3)
        key = self.key()
        token = self.grant(holder, key, lease=2)
        self.queue(dying, key, lease=255)
        owner = self.queue(survivor, key)
        dying.abort()
        self.assertGrantedTo(survivor, key, owner, above=token)


class Holders(LoquetCase):
    any_node = True

    def leave(self, end):
        holder, other, waiter = self.connect_many(3)
        key = self.key()
        token = self.grant(holder, key, lease=30)
        end(holder)
        self.settle(other)
        self.assertHeld(other, key)
        owner = self.queue(waiter, key)
        self.assertQuiet(waiter)
        self.assertEqual(other.renew(key, token), lqwire.renewed(key, token))
        self.assertReleased(other, key, token)
        self.assertGrantedTo(waiter, key, owner, above=token)

    def test_lock_stays_after_reset(self):
        self.leave(lambda c: c.abort())

    def test_lock_stays_after_close(self):
        self.leave(lambda c: c.close())

    def test_lock_stays_after_half_close(self):
        def end(c):
            c.shutdown_write()
            self.assertEqual(c.receive_to_end(), [])

        self.leave(end)

    def test_lease_of_a_closed_holder_ends(self):
        holder, waiter = self.connect_many(2)
        key = self.key()
        before = time.monotonic()
        token = self.grant(holder, key, lease=1)
        holder.abort()
        owner = self.queue(waiter, key)
        self.assertGrantedTo(waiter, key, owner, above=token)
        self.assertNotEarly(waiter.when - before, 1)
