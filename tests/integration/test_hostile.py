"""Clients that mean no good, or are ill: each costs only itself, while another client is served promptly."""

import resource
import time

import lqwire
from lqbystander import Bystander
from lqcase import SLACK, LoquetCase, sleep_until
from lqserver import Server


class ManyConnections(LoquetCase):
    alone = True
    COUNT = 10000

    def test_10000_idle_connections(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        count = min(self.COUNT, hard - 200)
        if count < self.COUNT:
            self.note("only %d idle connections, as the limit of file descriptors is %d" % (count, hard))
        idle = []
        with Bystander(self) as bystander:
            for n in range(count):
                idle.append(self.connect())
                if n % 100 == 0:
                    self.assertEqual(idle[-1].ping(n), lqwire.pong(n))
            opened = time.monotonic()
            for n in self.random.sample(range(count), 200):
                self.assertEqual(idle[n].ping(n), lqwire.pong(n))
            self.assertLess(time.monotonic() - opened, 10)
        bystander.check()
        key, judge = self.key(), self.connect()
        token = self.grant(judge, key)
        owner = self.queue(idle[-1], key)
        self.assertReleased(judge, key, token)
        self.assertGrantedTo(idle[-1], key, owner, above=token)
        with Bystander(self) as bystander:
            for n, c in enumerate(idle):
                if n % 2:
                    c.abort()
                else:
                    c.close()
            sleep_until(time.monotonic() + 2)
        bystander.check(least=1, typical=5.0, worst=5.0)  # the kernel alone needs its time to bury so many


class FileLimit(LoquetCase):
    """The server raises its limit of file descriptors, or says that it can't; at the limit it goes on serving."""

    spread = True
    starts_server = False

    def start(self, soft, hard):
        self.server = Server(prefix=("prlimit", "--nofile=%d:%d" % (soft, hard)))
        self.addCleanup(self.server.kill)
        self.server.start()

    def test_raised(self):
        self.start(64, 1024)
        for n, c in enumerate(self.connect_many(500)):
            self.assertEqual(c.ping(n), lqwire.pong(n))
        self.server.stop()

    def test_no_service_is_lost_at_the_limit(self):
        """More clients come than files can be opened: those inside are served, the others as soon as there is room, and
        meanwhile the server does not spin."""
        self.start(64, 64)
        inside = self.connect()
        self.assertEqual(inside.ping(1), lqwire.pong(1))
        crowd = self.connect_many(150)
        for n, c in enumerate(crowd):
            c.send(lqwire.ping_frame(n))
        self.assertEqual(inside.ping(2), lqwire.pong(2))
        before = self.server.cpu_seconds()
        sleep_until(time.monotonic() + 1)
        self.assertLess(self.server.cpu_seconds() - before, 0.3, "the server spins while it can't accept")
        self.assertFree(inside, self.key())
        served = [c for c in crowd if c.try_receive(0) is not None]
        self.assertGreater(len(served), 10)
        self.assertLess(len(served), 64)
        for c in crowd:
            c.close()
        late = self.connect()
        self.assertEqual(late.ping(3), lqwire.pong(3))
        self.assertEqual(inside.ping(4), lqwire.pong(4))
        self.server.stop()


class HalfFrames(LoquetCase):
    spread = True

    def test_frames_that_never_end(self):
        """50 clients leave all kinds of half frames behind; one more sends a byte at a time, for ever."""
        frame = lqwire.acquire_frame(self.key(), 1)
        half = self.connect_many(50)
        for n, c in enumerate(half):
            c.send(frame[: 1 + n % (len(frame) - 1)])
        with Bystander(self) as bystander:
            slow = self.connect()
            for byte in lqwire.acquire_frame(self.key().ljust(200, b"x"), 1)[:-1]:
                slow.send(bytes((byte,)))
                sleep_until(time.monotonic() + 0.005)
            self.assertIsNone(slow.try_receive(0))
            self.assertIsNone(slow.ended)
        bystander.check()
        slow.send(b"\n")
        self.assertEqual(slow.receive().op, "A")

    def test_dying_inside_a_frame(self):
        frame = lqwire.acquire_frame(self.key(), 1, 0, 255)
        for n in range(200):
            c = self.connect()
            c.send(frame[: 1 + n % (len(frame) - 1)])
            (c.abort if n % 2 else c.close)()
        self.assertEqual(self.connect().ping(1), lqwire.pong(1))
        self.assertFree(self.connect(), frame[11:-1])


class NeverReads(LoquetCase):
    """--max-unread-bytes, --unread-timeout: its reading is paused, then it is closed; nobody else notices."""

    spread = True
    UNREAD = 256 * 1024
    options = ("--max-unread-bytes", str(UNREAD), "--unread-timeout", "2")
    MOST = 48 << 20  # far more than the kernel's buffers of both sides and --max-unread-bytes together

    def setUp(self):
        super().setUp()
        self.judge = self.connect()
        self.held = self.key().ljust(1000, b"x")
        self.grant(self.judge, self.held, lease=255)

    def pour(self, c, quiet=0.3):
        """Sends requests with long answers until no byte goes for a while; returns the number of bytes sent."""
        data = lqwire.acquire_frame(self.held, 1) * 256
        total, last = 0, time.monotonic()
        while time.monotonic() < last + quiet:
            sent = c.send_what_fits(data, total % len(data))
            total += sent
            if sent:
                last = time.monotonic()
            else:
                sleep_until(time.monotonic() + 0.002)
            self.assertLess(total, self.MOST, "the server reads on and on from a client that takes no answers")
        return total

    def test_reading_is_paused_then_closed(self):
        greedy = self.connect(receive_buffer=4096)
        resident = self.server.resident_bytes()
        with Bystander(self) as bystander:
            self.pour(greedy)
            paused = time.monotonic()
            with self.assertRaises(lqwire.Ended, msg="a connection that reads nothing is never closed"):
                while time.monotonic() < paused + 2 + 3:
                    greedy.send_what_fits(b"A")
                    sleep_until(time.monotonic() + 0.05)
            self.assertGreater(time.monotonic() - paused, 0.5, "closed long before --unread-timeout")
        bystander.check()
        self.assertLess(self.server.resident_bytes() - resident, 64 << 20, "unread answers are kept without bound")

    def test_who_reads_again_in_time_loses_nothing(self):
        c = self.connect(receive_buffer=4096)
        frame = len(lqwire.acquire_frame(self.held, 1))
        for _ in range(2):
            sent = self.pour(c)
            whole, part = divmod(sent, frame)
            self.assertEqual({c.receive() for _ in range(whole)}, {lqwire.timed_out(self.held, 1)})
            if part:
                c.send(lqwire.acquire_frame(self.held, 1)[part:])
                self.assertEqual(c.receive(), lqwire.timed_out(self.held, 1))
        sleep_until(time.monotonic() + 2.5)  # and the clock of --unread-timeout was stopped
        self.assertEqual(c.ping(1), lqwire.pong(1))

    def test_many_at_once(self):
        greedy = [self.connect(receive_buffer=4096) for _ in range(8)]
        with Bystander(self) as bystander:
            for c in greedy:
                self.pour(c, 0.05)
        bystander.check()
        for c in greedy:
            c.abort()
        self.assertEqual(self.judge.ping(1), lqwire.pong(1))

    def test_locks_of_the_closed_one_stay(self):
        c = self.connect(receive_buffer=4096)
        key = self.key()
        token = self.grant(c, key)
        self.pour(c)
        c.abort()
        self.assertHeld(self.judge, key)
        self.assertReleased(self.judge, key, token)


class NeverReadInAll(NeverReads):
    """--max-unread-total-bytes bounds what all clients together leave unread."""

    options = ("--max-unread-total-bytes", str(NeverReads.UNREAD), "--unread-timeout", "2")


class Garbage(LoquetCase):
    spread = True

    def survive(self, make):
        with Bystander(self) as bystander:
            for _ in range(300):
                c = self.connect()
                try:
                    c.send(make())
                    if self.random.random() < 0.5:
                        c.shutdown_write()
                        for answer in c.receive_to_end()[:-1]:
                            self.assertNotEqual(answer.op, "E", "only the last frame may be an error")
                    elif self.random.random() < 0.5:
                        c.abort()
                except lqwire.Ended:
                    pass  # it may have closed while we were sending
                c.close()
        bystander.check()
        self.assertTrue(self.server.running())

    def test_random_bytes(self):
        self.survive(lambda: self.random.randbytes(self.random.randrange(1, 3000)))

    def test_damaged_frames(self):
        keys = [self.key() for _ in range(4)]

        def make():
            kinds = (
                lambda k, n: lqwire.acquire_frame(k, n, self.random.randrange(3), 1),
                lambda k, n: lqwire.release_frame(k, n),
                lambda k, n: lqwire.renew_frame(k, n, 1),
                lambda k, n: lqwire.cancel_frame(k, n),
                lambda k, n: lqwire.ping_frame(n),
            )
            frames = [
                self.random.choice(kinds)(self.random.choice(keys), self.random.randrange(4)) for _ in range(40)
            ]
            data = bytearray(b"".join(frames))
            for _ in range(self.random.randrange(4)):
                data[self.random.randrange(len(data))] = self.random.randrange(256)
            return bytes(data)

        self.survive(make)

    def test_connections_that_come_and_go_in_a_hurry(self):
        with Bystander(self) as bystander:
            for n in range(1500):
                c = self.connect()
                if n % 3 == 0:
                    c.abort()
                elif n % 3 == 1:
                    c.send(lqwire.acquire_frame(b"hurry", n, 60, 1))
                    c.abort()
                else:
                    c.close()
        bystander.check()
        self.assertLess(self.longest_wait(b"hurry"), 1 + SLACK)

    def longest_wait(self, key):
        """How long it takes to get the key that the dead fought for with leases of one second."""
        before = time.monotonic()
        self.grant(self.connect(), key, wait=10)
        return time.monotonic() - before


class Flood(LoquetCase):
    """A client that pipelines without a pause and reads everything does not starve another one."""

    spread = True

    def test_neighbour_of_a_flood(self):
        with Bystander(self) as bystander:
            c = self.connect()
            key = self.key()
            self.grant(c, key)
            end = time.monotonic() + 1.5
            while time.monotonic() < end:
                c.send(lqwire.acquire_frame(key, 1) * 2000)
                self.assertEqual({a.op for a in c.receive_many(2000)}, {"T"})
        bystander.check()
