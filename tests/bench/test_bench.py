#!/usr/bin/python3
"""Tests of lq_bench itself, against scripted servers of our own and its own echo server: does it notice what it has to?
LQ_BENCH names the program."""

import json
import re
import socket
import struct
import subprocess
import sys
import threading
import unittest

import lqbench

SECONDS = 30


def bench(*options):
    command = [lqbench.find_bench()] + [str(o) for o in options]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS)


class Peer:
    """A server on a free port that serves one connection after the other in a thread. Its conversation is up to
    answer(requests), which gets the whole requests of each read and returns the bytes to send, or None to hang up."""

    KEY_BYTES = 12

    def __init__(self, answer):
        self.answer = answer
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *unused):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(SECONDS)

    def _run(self):
        while True:
            try:
                connection = self.listener.accept()[0]
            except OSError:
                return
            with connection:
                connection.settimeout(SECONDS)
                self._serve(connection)

    def _serve(self, connection):
        data = b""
        while True:
            try:
                got = connection.recv(65536)
            except OSError:
                return
            if not got:
                return
            data += got
            requests = []
            while data and len(data) >= self._length(data):
                requests.append(data[: self._length(data)])
                data = data[self._length(data) :]
            answer = self.answer(requests)
            if answer is None:
                return
            connection.sendall(answer)

    def _length(self, data):
        return (11 if data[:1] == b"A" else 9) + self.KEY_BYTES + 1


class Granter:
    """Grants everything, with growing tokens unless `tokens` says otherwise."""

    def __init__(self, token=None):
        self.fixed = token
        self.token = 0
        self.keys = []
        self.owners = []
        self.waits = set()

    def one(self, request):
        if request[:1] == b"R":
            return request
        self.token += 1
        self.waits.add((request[1], request[2]))
        self.owners.append(request[3:11])
        self.keys.append(request[11:-1])
        return b"A" + struct.pack(">Q", self.fixed or self.token) + request[3:]

    def in_order(self, requests):
        return b"".join(map(self.one, requests))

    def reversed(self, requests):
        return b"".join(reversed([self.one(r) for r in requests]))


def load(peer, *options):
    return bench("--json", "--target", peer.address, "--connections", 1, "--key-bytes", Peer.KEY_BYTES, "--duration", 0.2,
                 "--warmup", 0.1, *options)


class Load(unittest.TestCase):
    def run_clean(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["errors"], 0)
        self.assertGreater(report["pairs"], 0)
        return report

    def run_bad(self, done, text):
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        report = json.loads(done.stdout)
        self.assertGreater(report["errors"], 0)
        self.assertRegex(report["first_error"], text)

    def test_own_keys(self):
        granter = Granter()
        with Peer(granter.in_order) as peer:
            report = self.run_clean(load(peer, "--depth", 4, "--key-set", 10, "--wait", 7, "--lease", 9))
        self.assertEqual(granter.waits, {(7, 9)})
        self.assertEqual(len(set(granter.owners)), len(granter.owners), "an owner was used twice")
        self.assertEqual(len(set(granter.keys)), 10)
        self.assertEqual({len(k) for k in granter.keys}, {Peer.KEY_BYTES})
        for name in ("acquire_us", "release_us"):
            latency = report[name]
            self.assertTrue(0 < latency["p50"] <= latency["p95"] <= latency["p99"] <= latency["max"], latency)
        self.assertIsNone(report["hand_over_us"])

    def test_same_seed_same_keys(self):
        runs = []
        for seed in (5, 5, 6):
            granter = Granter()
            with Peer(granter.in_order) as peer:
                self.run_clean(load(peer, "--keys", "shared", "--key-set", 1000, "--seed", seed))
            runs.append(granter.keys[:100])
        self.assertEqual(runs[0], runs[1])
        self.assertNotEqual(runs[0], runs[2])

    def test_answers_in_any_order(self):
        with Peer(Granter().reversed) as peer:
            self.run_clean(load(peer, "--depth", 8))

    def test_refusals_are_counted_and_are_no_errors(self):
        for op, name in ((b"T", "timeouts"), (b"B", "busy")):
            with Peer(lambda requests, op=op: b"".join(op + r[3:] for r in requests)) as peer:
                done = load(peer)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertGreater(json.loads(done.stdout)[name], 0)

    def test_not_held_is_counted(self):
        granter = Granter()

        def answer(requests):
            return b"".join(b"N" + r[1:] if r[:1] == b"R" else granter.one(r) for r in requests)

        with Peer(answer) as peer:
            done = load(peer)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertGreater(json.loads(done.stdout)["not_held"], 0)

    def test_error_frame(self):
        with Peer(lambda requests: b"E\x06shutting down\n") as peer:
            self.run_bad(load(peer), "error frame 6: shutting down$")

    def test_connection_closed(self):
        with Peer(lambda requests: None) as peer:
            self.run_bad(load(peer), "closed the connection")

    def test_wrong_owner(self):
        with Peer(lambda requests: b"".join(b"A" + bytes(16) + r[11:] for r in requests)) as peer:
            self.run_bad(load(peer), "fits no request")

    def test_wrong_key(self):
        with Peer(lambda requests: b"".join(b"T" + r[3:11] + r[11:-2] + b"?\n" for r in requests)) as peer:
            self.run_bad(load(peer), "fits no request")

    def test_token_that_does_not_grow(self):
        with Peer(Granter(token=77).in_order) as peer:
            self.run_bad(load(peer, "--keys", "shared"), "token 77 on key 0 came after token 77")


class Hold(unittest.TestCase):
    def test_hold(self):
        granter = Granter()
        with Peer(granter.in_order) as peer:
            done = load(peer, "--hold", 100, "--depth", 8)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["hold"]["held"], 100)
        self.assertNotIn("pairs", report)
        self.assertEqual(len(set(granter.keys)), 100)

    def test_hold_then_load(self):
        granter = Granter()
        with Peer(granter.in_order) as peer:
            done = load(peer, "--hold", 10, "--then-load")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertGreater(json.loads(done.stdout)["pairs"], 0)
        self.assertFalse(set(granter.keys[:10]) & set(granter.keys[10:]), "a held key was used by the load")

    def test_hold_refused(self):
        with Peer(lambda requests: b"".join(b"B" + r[3:] for r in requests)) as peer:
            done = load(peer, "--hold", 10)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(json.loads(done.stdout)["hold"]["refused"], 10)


class Echo(unittest.TestCase):
    def test_echo_server(self):
        server = subprocess.Popen(
            [lqbench.find_bench(), "--echo-server", "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True
        )
        try:
            address = re.search(r"msg=listening address=(\S+)", server.stderr.readline()).group(1)
            report = lqbench.run("--protocol", "echo", "--target", address, "--depth", 200, "--key-bytes", 1024,
                                 "--connections", 2, "--duration", 0.2, "--warmup", 0, "--server-pid", server.pid)
        finally:
            server.kill()
            server.wait()
            server.stderr.close()
        self.assertGreater(report["pairs"], 0)
        self.assertGreater(report["server_cpu_us_per_pair"], 0)
        self.assertGreater(report["client_cpu_us_per_pair"], 0)


class Options(unittest.TestCase):
    def test_bad_options(self):
        for options, text in (
            (["--depth", 0], "--depth"),
            (["--depth", "-1"], "--depth"),
            (["--lease", 256], "--lease"),
            (["--server-pid", "1,,2"], "--server-pid"),
            (["--server-pid", "1,2,3,4,5,6,7,8,9"], "--server-pid"),
            (["--key-bytes", 8], "--key-bytes"),
            (["--keys", "mine"], "own|shared"),
            (["--duration", "soon"], "--duration"),
            (["--duration", "nan"], "--duration"),
            (["--connections", 8, "--key-set", 7], "--key-set"),
            (["--then-load"], "--hold"),
            (["--nonsense"], "nonsense"),
            (["nonsense"], "nonsense"),
        ):
            done = bench(*options)
            self.assertEqual(done.returncode, 64, options)
            self.assertIn(text, done.stderr)

    def test_help(self):
        done = bench("--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("--server-pid", done.stdout)

    def test_no_server(self):
        free = socket.create_server(("127.0.0.1", 0))
        address = "127.0.0.1:%d" % free.getsockname()[1]
        free.close()
        for options in (["--target", address], ["--target", "nowhere"]):
            for protocol in ("loquet", "redis", "echo", "etcd", "floor"):
                self.assertEqual(bench("--protocol", protocol, *options).returncode, 69)


if __name__ == "__main__":
    try:
        lqbench.find_bench()
    except lqbench.BenchTrouble as trouble:
        sys.exit("test_bench: %s" % trouble)
    unittest.main()
