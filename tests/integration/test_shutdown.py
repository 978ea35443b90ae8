"""SIGTERM and SIGINT: stops accepting, frame E 6 to everyone, exits 0 within a second."""

import os
import signal
import time

import lqwire
from lqcase import LoquetCase
from lqserver import Server

WITHIN = 1.0


class Shutdown(LoquetCase):
    spread = True
    starts_server = False

    def setUp(self):
        super().setUp()
        self.server = Server()
        self.server.start()
        self.addCleanup(self.server.kill)

    def end(self, number):
        """Sends the signal; returns once the server is gone, having checked status and time."""
        before = time.monotonic()
        self.server.send_signal(number)
        status = self.server.wait()
        took = time.monotonic() - before
        self.assertEqual(status, 0, self.server.story())
        self.assertLess(took, WITHIN, "took too long to exit")
        self.server.check_log()

    def with_100_connections(self, number):
        idle = self.connect_many(25)
        holding = self.connect_many(25)
        waiting = self.connect_many(25)
        half = self.connect_many(25)
        for c in idle:
            c.ping()
        keys = [self.key() for _ in holding]
        for c, key in zip(holding, keys):
            self.grant(c, key)
        owners = [self.queue(c, key) for c, key in zip(waiting, keys)]
        for n, c in enumerate(half):
            c.send(lqwire.acquire_frame(keys[0], 1)[: n % 10 + 1])
        self.settle(idle[0])
        self.end(number)
        for c in idle + holding + half:
            self.assertErrorEnd(c, lqwire.ERROR_SHUTTING_DOWN)
        for c, key, owner in zip(waiting, keys, owners):
            answers = c.receive_to_end()
            self.assertEqual((answers[-1].op, answers[-1].code), ("E", lqwire.ERROR_SHUTTING_DOWN))
            self.assertIn(answers[:-1], ([], [lqwire.timed_out(key, owner)]))

    def test_sigterm_with_100_connections(self):
        self.with_100_connections(signal.SIGTERM)

    def test_sigint_with_100_connections(self):
        self.with_100_connections(signal.SIGINT)

    def test_without_connections(self):
        self.end(signal.SIGTERM)

    def test_listener_is_closed(self):
        address = self.server.address
        self.end(signal.SIGINT)
        with self.assertRaises(ConnectionRefusedError):
            lqwire.Connection(address)

    def test_answers_come_before_the_error(self):
        """Requests that the server finds together with the signal: whatever it still answers stands before the E."""
        c = self.connect()
        c.ping()
        key = self.key()
        self.server.freeze()
        c.send(lqwire.ping_frame(1) + lqwire.acquire_frame(key, 2))
        self.server.send_signal(signal.SIGTERM)
        self.server.thaw()
        self.assertEqual(self.server.wait(), 0, self.server.story())
        answers = c.receive_to_end()
        self.assertEqual((answers[-1].op, answers[-1].code), ("E", lqwire.ERROR_SHUTTING_DOWN))
        self.assertLessEqual({a.op for a in answers[:-1]}, {"P", "A"})

    def test_a_client_that_does_not_read_delays_nobody(self):
        stuck, other = self.connect(receive_buffer=4096), self.connect()
        held = self.key().ljust(1000, b"x")
        self.grant(other, held)
        data, at = lqwire.acquire_frame(held, 1) * 10000, 0
        while at < len(data) and (sent := self.send_patiently(stuck, data, at)):
            at += sent
        self.assertGreater(at, 1 << 20)
        self.end(signal.SIGTERM)
        self.assertErrorEnd(other, lqwire.ERROR_SHUTTING_DOWN)

    def send_patiently(self, c, data, at):
        """As much as goes; 0 when nothing went for 0.2 s."""
        deadline = time.monotonic() + 0.2
        while (sent := c.send_what_fits(data, at)) == 0 and time.monotonic() < deadline:
            time.sleep(0.002)
        return sent

    def test_signals_that_repeat_change_nothing(self):
        c = self.connect()
        c.ping()
        self.server.freeze()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
            self.server.send_signal(number)
        before = time.monotonic()
        self.server.thaw()
        self.assertEqual(self.server.wait(), 0, self.server.story())
        self.assertLess(time.monotonic() - before, WITHIN)
        self.assertErrorEnd(c, lqwire.ERROR_SHUTTING_DOWN)

    def test_writes_to_reset_connections_do_not_end_it(self):
        """No death by SIGPIPE."""
        for _ in range(30):
            c = self.connect()
            c.send(lqwire.ping_frame(1) * 200)
            c.abort()
        self.assertEqual(self.connect().ping(2), lqwire.pong(2))
        self.assertTrue(self.server.running())
        self.end(signal.SIGTERM)

    def test_port_is_free_again(self):
        """A restart on the same port works at once, though connections of the old server linger."""
        c = self.connect()
        self.grant(c, self.key())
        port = self.server.address[1]
        self.end(signal.SIGTERM)
        with Server(listen="127.0.0.1:%d" % port) as again:
            self.assertEqual(again.address[1], port)
            with lqwire.Connection(again.address) as d:
                self.assertEqual(d.ping(1), lqwire.pong(1))
            again.stop()

    def test_leaves_no_files_open_to_clients(self):
        """Connections that come and go do not pile up descriptors."""
        c = self.connect()
        c.ping()
        folder = "/proc/%d/fd" % self.server.pid
        before = len(os.listdir(folder))
        for n in range(300):
            with self.connect() as d:
                d.ping()
                if n % 3 == 0:
                    d.abort()
                elif n % 3 == 1:
                    d.send(b"?")
                    d.receive_to_end()
        deadline = time.monotonic() + 10
        while len(os.listdir(folder)) > before + 5 and time.monotonic() < deadline:
            c.ping()
            time.sleep(0.05)
        self.assertLessEqual(len(os.listdir(folder)), before + 5)
