"""The ground of all test classes here.

A class has a server of its own, started with `options`, or, if it sets `any_node = True` and the environment has
LOQUET_ADDRESS=HOST:PORT[,HOST:PORT...], uses the servers that run there, its connections taking turns among them. What
holds in simple mode alone is marked with @simple_mode_only and left out there, as is every class without `any_node`.

Three more class attributes speak to run.py: `spread = True` (tests that mostly wait: each becomes a unit of its own,
with a server of its own), `alone = True` (nothing else may run meanwhile) and `seconds` (how long it may take).
"""

import itertools
import os
import random
import threading
import time
import unittest

import lqwire
from lqserver import Server, parse_address

EARLY = 0.001  # the server's clock counts milliseconds: what must not come early may come this much early
CLOCKS = 0.01  # cluster mode promises no lease below 0.99 of its length, as clock rates differ
SLACK = 1.5  # loose upper bound of waits on a busy machine

ADDRESSES = [parse_address(a) for a in os.environ.get("LOQUET_ADDRESS", "").split(",") if a]
SEED = int(os.environ.get("LOQUET_TEST_SEED") or random.SystemRandom().randrange(1 << 32))

notes = []  # lines that run.py shows even when all is well
_owners = itertools.count(random.SystemRandom().randrange(1 << 62))
_keys = itertools.count()
_run = os.urandom(6).hex()  # servers at LOQUET_ADDRESS may know the keys of an earlier run


def simple_mode_only(test):
    test.simple_mode_only = True
    return test


def sleep_until(moment):
    """To a moment of the monotonic clock. For states that only time brings about: an ended lease, a passed sweep."""
    while (left := moment - time.monotonic()) > 0:
        time.sleep(left)


def together(*jobs):
    """Runs functions in threads at the same time; the first failure is raised after all have ended."""
    failures = []

    def guarded(job):
        try:
            job()
        except BaseException as e:  # the thread's end must not swallow it
            failures.append(e)

    threads = [threading.Thread(target=guarded, args=(job,)) for job in jobs]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise failures[0]


class LoquetCase(unittest.TestCase):
    options = ()
    any_node = False
    starts_server = True  # False: every test starts servers as it needs them
    spread = False
    alone = False
    seconds = 120
    server = None
    longMessage = True

    @classmethod
    def setUpClass(cls):
        if not cls.starts_server or (cls.any_node and ADDRESSES):
            return
        cls.server = Server(*cls.options)
        cls.server.start()
        cls.addClassCleanup(cls.server.kill)

    @classmethod
    def tearDownClass(cls):
        if cls.server is not None:
            cls.server.stop()

    def setUp(self):
        self.random = random.Random("%d:%s" % (SEED, self.id()))
        self._turn = 0

    def run(self, result=None):
        before = len(result.failures) + len(result.errors) if result is not None else 0
        super().run(result)
        if result is not None and len(result.failures) + len(result.errors) > before and self.server is not None:
            notes.append("after %s, loquetd%s" % (self.id(), self.server.story(20)))

    # Connections

    def connect(self, node=None, **kwargs):
        """A connection that ends with the test; to the next of the addresses, or to one told by its number."""
        if self.server is not None:
            address = self.server.address
        else:
            address = ADDRESSES[(self._turn if node is None else node) % len(ADDRESSES)]
            self._turn += node is None
        c = lqwire.Connection(address, **kwargs)
        self.addCleanup(c.close)
        return c

    def connect_many(self, count, **kwargs):
        return [self.connect(**kwargs) for _ in range(count)]

    # Fresh names

    @staticmethod
    def key(label="k"):
        """A key that nobody used before."""
        return b"%s-%s-%d" % (label.encode(), _run.encode(), next(_keys))

    @staticmethod
    def owner():
        return next(_owners)

    # Small steps that nearly every test takes

    def grant(self, connection, key, lease=30, wait=0, owner=None):
        """Acquires, has to get A; returns the token."""
        owner = self.owner() if owner is None else owner
        answer = connection.acquire(key, owner, wait, lease)
        self.assertEqual(answer, lqwire.granted(key, owner, answer.token))
        self.assertGreater(answer.token, 0)
        return answer.token

    def queue(self, connection, key, wait=60, lease=30, owner=None):
        """Sends an acquire that has to wait, and returns its owner once it certainly stands in the queue."""
        owner = self.owner() if owner is None else owner
        connection.send(lqwire.acquire_frame(key, owner, wait, lease))
        self.settle(connection)
        return owner

    def settle(self, connection):
        """Returns once all that was sent on this connection has taken effect on the server; whatever it answered is at
        hand in the connection. A full acquire and release of a fresh key: in cluster mode, a node's commands are
        applied in their order, while a pong tells nothing about them."""
        key = self.key("settle")
        self.assertReleased(connection, key, self.grant(connection, key))

    def assertQuiet(self, *connections):
        """All that was sent has taken effect, and not one answer came that was not taken from the connection."""
        for c in connections:
            self.settle(c)
            self.assertIsNone(c.try_receive(0), "an answer too much")

    def assertReleased(self, connection, key, token):
        self.assertEqual(connection.release(key, token), lqwire.released(key, token))

    def assertNotHeld(self, connection, key, token):
        self.assertEqual(connection.release(key, token), lqwire.not_held(key, token))

    def assertHeld(self, connection, key, msg=None):
        """One immediate attempt gets T."""
        owner = self.owner()
        self.assertEqual(connection.acquire(key, owner), lqwire.timed_out(key, owner), msg)

    def assertFree(self, connection, key):
        """One immediate attempt gets A, which is given back at once; returns its token."""
        token = self.grant(connection, key)
        self.assertReleased(connection, key, token)
        return token

    def assertGrantedTo(self, connection, key, owner, above=0, timeout=None):
        """The next answer is the grant of this attempt, with a token above; returns the token."""
        answer = connection.receive(timeout)
        self.assertEqual(answer, lqwire.granted(key, owner, answer.token))
        self.assertGreater(answer.token, above, "tokens only ever grow")
        return answer.token

    def assertErrorEnd(self, connection, code, before=()):
        """The rest of the stream is exactly the answers `before`, one error frame with this code, and end of file."""
        answers = connection.receive_to_end()
        self.assertTrue(answers, "the connection ended without an error frame %d" % code)
        self.assertEqual((answers[-1].op, answers[-1].code), ("E", code), answers[-1])
        self.assertTrue(answers[-1].text, "the error has no text")
        self.assertEqual(answers[:-1], list(before))

    def assertNotEarly(self, elapsed, lease):
        """elapsed counts from before the acquire was sent, so it may only be longer than the lease."""
        least = lease * (1 - CLOCKS if self.server is None else 1) - EARLY
        self.assertGreaterEqual(elapsed, least, "the lease of %s s was cut short" % lease)

    def note(self, text):
        notes.append("%s: %s" % (self.id(), text))
