"""The network of a run: each fault does what it says, silently, and leaves nothing behind. In namespaces of its own: run.py
enters them."""

import contextlib
import os
import socket
import subprocess
import sys
import time
import unittest

import inside
import net as network

ECHO = """
import socket, sys, threading
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("0.0.0.0", 700))
tcp = socket.create_server(("0.0.0.0", 700))
def serve(connection):
    while data := connection.recv(65536):
        connection.sendall(data)
def accept():
    while True:
        threading.Thread(target=serve, args=tcp.accept()[:1], daemon=True).start()
threading.Thread(target=accept, daemon=True).start()
print("up", flush=True)
while True:
    udp.sendto(*udp.recvfrom(65536))
"""
# Says what it is told on stdin to the other side; prints what comes back, with the time that it took.
ASK = """
import socket, sys, time
def ping(sock, seconds):
    began = time.monotonic()
    sock.settimeout(seconds)
    try:
        sock.sendall(b"x" * 100)
        got = 0
        while got < 100:
            got += len(sock.recv(100))
        return "%.4f" % (time.monotonic() - began)
    except OSError:
        return "lost"
def burst(address, n):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.settimeout(1)
    for i in range(n):
        sock.sendto(b"%d" % i, address)
        time.sleep(0.001)
    got = []
    try:
        while True:
            got.append(sock.recv(100).decode())
    except OSError:
        return " ".join(got)
def bulk(sock, n):
    sock.settimeout(20)
    began = time.monotonic()
    sock.sendall(b"x" * n)
    while n > 0:
        n -= len(sock.recv(65536))
    return "%.4f" % (time.monotonic() - began)
address = (sys.argv[1], 700)
sock = socket.create_connection(address, 5)
sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
print("up", flush=True)
for line in sys.stdin:
    word, number = line.split()
    print({"ping": lambda: ping(sock, float(number)), "burst": lambda: burst(address, int(number)),
           "bulk": lambda: bulk(sock, int(number))}[word](), flush=True)
"""


@unittest.skipUnless(inside.is_inside(), "there are no namespaces to be had here")
class NetTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        missing = network.Net.lacks()
        if missing:
            raise unittest.SkipTest("this machine lacks %s" % ", ".join(sorted(missing)))
        cls.net = network.Net()
        cls.processes = contextlib.ExitStack()
        for name, number in (("a", 1), ("b", 2)):
            cls.net.add(name, number)
        cls.spawn("b", ECHO)
        cls.asker = cls.spawn("a", ASK, "10.77.0.2")

    @classmethod
    def tearDownClass(cls):
        cls.processes.close()
        cls.net.end()

    @classmethod
    def spawn(cls, name, program, *arguments):
        command = [*cls.net.prefix(name), sys.executable, "-c", program, *arguments]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        cls.processes.callback(process.stdout.close)
        cls.processes.callback(process.stdin.close)
        cls.processes.callback(process.wait)
        cls.processes.callback(process.kill)
        if process.stdout.readline() != "up\n":
            raise AssertionError("the test's own process does not start")
        return process

    def tearDown(self):
        self.net.heal()
        self.assertLess(self.ping(20), 20)  # the connection outlived it

    def ask(self, word, number):
        self.asker.stdin.write("%s %s\n" % (word, number))
        self.asker.stdin.flush()
        return self.asker.stdout.readline().strip()

    def ping(self, seconds):
        """The round trip in seconds; None: nothing came back."""
        answer = self.ask("ping", seconds)
        return None if answer == "lost" else float(answer)

    def burst(self, n):
        return [int(word) for word in self.ask("burst", n).split()]

    def in_order(self, got, n):
        """While a wire is put in, a frame may get lost."""
        self.assertEqual(got, sorted(set(got)))
        self.assertGreater(len(got), 0.9 * n)

    def test_all_is_well(self):
        self.assertLess(self.ping(5), 0.5)
        self.assertEqual(self.burst(50), list(range(50)))

    def test_the_pid_is_that_of_the_command(self):
        with open("/proc/%d/cmdline" % self.asker.pid, encoding="ascii") as file:
            self.assertIn(os.path.basename(sys.executable), file.read())

    def test_cut_one_way(self):
        for a, b in (("a", "b"), ("b", "a")):
            self.net.cut(a, b)
            self.assertEqual(self.burst(20), [])
            self.net.join(a, b)
            self.assertEqual(len(self.burst(20)), 20)

    def test_cuts_are_counted(self):
        self.net.cut("a", "b")
        self.net.cut("a", "b")
        self.net.join("a", "b")
        self.assertEqual(self.burst(5), [])
        self.net.join("a", "b")
        self.assertEqual(len(self.burst(5)), 5)

    def test_a_cut_of_others_is_no_concern(self):
        self.net.cut("a", "c")
        self.assertEqual(len(self.burst(5)), 5)

    def test_lose(self):
        self.net.lose("b", 100)
        self.assertEqual(self.burst(20), [])
        self.net.lose("b", 50)
        self.assertTrue(5 < len(self.burst(200)) < 120)  # a quarter comes there and back

    def test_squeeze(self):
        quick = float(self.ask("bulk", 100_000))
        self.net.squeeze("b", 1000)
        slow = float(self.ask("bulk", 100_000))
        self.assertGreater(slow, 0.5)  # 0.8 s each way, side by side
        self.assertLess(quick, slow)

    def test_delay(self):
        self.net.wire("b", delay_ms=100)
        self.assertGreater(self.ping(5), 0.2)
        self.in_order(self.burst(50), 50)

    def test_jitter_keeps_the_order(self):
        self.net.wire("b", delay_ms=5, jitter_ms=30)
        self.in_order(self.burst(100), 100)

    def test_reorder(self):
        self.net.wire("b", delay_ms=20, reorder_percent=30)
        got = self.burst(200)
        self.assertGreater(len(got), 180)
        self.assertNotEqual(got, sorted(got))

    def test_duplicate(self):
        self.net.wire("b", delay_ms=1, duplicate_percent=50)
        got = self.burst(60)
        self.assertGreater(len(set(got)), 54)
        self.assertGreater(len(got), 80)

    def test_a_new_connection_in_silence(self):
        """Nobody says that there is no way: it is tried until the time is over."""
        self.net.cut("a", "b")
        program = "import socket\ntry:\n socket.create_connection(('10.77.0.2', 700), 0.7)\nexcept TimeoutError:\n print('silent')"
        began = time.monotonic()
        done = subprocess.run([*self.net.prefix("a"), sys.executable, "-c", program], capture_output=True, text=True, check=False)
        self.assertEqual(done.stdout, "silent\n", done.stderr)
        self.assertGreater(time.monotonic() - began, 0.6)

    def test_it_refuses_a_network_that_is_not_its_own(self):
        with self.assertRaises(network.NetTrouble):
            network.Net()


if __name__ == "__main__":
    unittest.main()
