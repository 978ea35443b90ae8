"""Hosts that vanish without a word (no FIN, no RST): noticed within 15 seconds. Two network namespaces made here, a
cable between them, and the cable is cut. Needs root; otherwise a note says that it was left out."""

import contextlib
import ctypes
import os
import subprocess
import time

import lqwire
from lqcase import LoquetCase, notes, sleep_until
from lqserver import Server

WITHIN = 15.0
PORT = 7311  # free: the namespace is ours alone

_libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000


def ip(*words):
    done = subprocess.run(("ip",) + words, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError("ip %s: %s (package iproute2)" % (" ".join(words), done.stderr.strip()))


@contextlib.contextmanager
def inside(namespace):
    """Sockets made in here belong to that network namespace."""
    with open("/proc/self/ns/net") as home, open("/run/netns/" + namespace) as there:
        if _libc.setns(there.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
        try:
            yield
        finally:
            if _libc.setns(home.fileno(), CLONE_NEWNET) != 0:
                os._exit(1)  # nothing that follows would be what it seems


class VanishedHost(LoquetCase):
    spread = True
    starts_server = False
    near, far = "10.77.0.1", "10.77.0.2"

    def make_network(self):
        names = ["lq-%s-%d" % (side, os.getpid()) for side in ("near", "far")]
        for name in names:
            ip("netns", "add", name)
            self.addCleanup(ip, "netns", "del", name)
        ip("-n", names[0], "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", names[1])
        for name, address in zip(names, (self.near, self.far)):
            ip("-n", name, "addr", "add", address + "/24", "dev", "cable")
            ip("-n", name, "link", "set", "cable", "up")
            ip("-n", name, "link", "set", "lo", "up")
        return names

    def connect_from(self, namespace, address):
        with inside(namespace):
            c = lqwire.Connection(address)
        self.addCleanup(c.close)
        return c

    def test_a_vanished_waiter_is_not_handed_the_lock(self):
        if os.geteuid() != 0:
            notes.append("not root: vanished hosts were not tested")
            return
        near, far = self.make_network()
        server = Server(listen="%s:%d" % (self.near, PORT), prefix=("ip", "netns", "exec", near))
        server.start()
        self.addCleanup(server.kill)
        key = self.key()
        holder = self.connect_from(near, server.address)
        idle = self.connect_from(far, server.address)
        vanished = self.connect_from(far, server.address)
        second = self.connect_from(near, server.address)
        told_late = self.connect_from(far, server.address)  # an answer is on its way to it when nobody is there
        token = self.grant(holder, key, lease=255)
        idle.ping()
        self.queue(vanished, key, wait=255)
        owner = self.queue(second, key, wait=255)
        self.queue(told_late, key, wait=1)
        ip("-n", far, "link", "set", "cable", "down")
        cut = time.monotonic()
        while (now := time.monotonic()) < cut + WITHIN and self.connections(near) > 2:
            time.sleep(0.1)
        self.assertLess(now - cut, WITHIN, "a vanished host was not noticed")
        self.assertReleased(holder, key, token)
        self.assertGrantedTo(second, key, owner, above=token, timeout=2)
        server.stop()

    def test_a_client_that_does_not_read_has_not_vanished(self):
        """For a while, and again a while later: the kernel's own timeout counts all that together, and from the first time."""
        server = Server()
        server.start()
        self.addCleanup(server.kill)
        for pauses in ((WITHIN + 1,), (1, 0, 1)):
            with self.subTest(pauses=pauses), lqwire.Connection(server.address, receive_buffer=4096, patience=10) as c:
                self.read_late(c, pauses)
        server.stop()

    def read_late(self, c, pauses):
        key = self.key().ljust(900, b"x")
        self.grant(c, key, lease=255)
        began = time.monotonic()
        for pause in pauses:
            if pause == 0:
                sleep_until(began + WITHIN + 1)
                continue
            owners = [self.owner() for _ in range(200)]
            c.send(b"".join(lqwire.acquire_frame(key, owner, 0, 1) for owner in owners))
            time.sleep(pause)
            self.assertEqual([c.receive().owner for _ in owners], owners)

    def connections(self, namespace):
        """Established connections at the server's end."""
        path = "/proc/thread-self/net/tcp"
        with inside(namespace), open(path) as table:
            rows = [row.split() for row in table.read().splitlines()[1:]]
        return sum(1 for row in rows if row[1].endswith(":%04X" % PORT) and row[3] == "01")
