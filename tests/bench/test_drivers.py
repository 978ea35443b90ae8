#!/usr/bin/python3
"""Tests of lq_bench's drivers against the servers they are for, each started on free ports and in a temporary folder: the
durable floor, and etcd where it is installed. And of the report that compares them. LQ_BENCH names the program."""

import copy
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
from contextlib import redirect_stdout

import cluster_report
import clusters
import lqbench

SECONDS = 30
SHORT = ("--duration", 0.3, "--warmup", 0.1)


def load(cluster, addresses, *options):
    return lqbench.run("--protocol", cluster.name, "--target", ",".join(addresses), "--server-pid",
                       ",".join(map(str, cluster.pids)), *SHORT, *options, timeout=SECONDS)  # fmt: skip


def bench(*options):
    command = [lqbench.find_bench(), "--json", *map(str, options)]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS)


class Floor(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.floor = self.enterContext(clusters.Floor(self.folder))

    def journals(self):
        """What the nodes have written, without the zeros behind it, the leader's first."""
        folder = os.path.join(self.folder, "floor", "0")
        found = []
        for number in range(clusters.NODES):
            with open(os.path.join(folder, "floor-%d" % number), "rb") as f:
                found.append(f.read(4 << 20).rstrip(b"\0"))
        return found

    def test_every_way_in(self):
        leader, follower, other = self.floor.addresses
        for addresses in ([leader], [follower], [leader, follower, other]):
            report = load(self.floor, addresses, "--connections", 6, "--depth", 3)
            self.assertGreater(report["pairs"], 0)
            self.assertGreater(report["server_cpu_us_per_pair"], 0)

    def test_all_nodes_write_the_same(self):
        report = load(self.floor, self.floor.addresses[1:2], "--connections", 4, "--key-bytes", 20)
        journals = self.journals()
        self.assertGreaterEqual(journals[0].count(b"k" + b"-" * 11 + b"0000000"), 2 * report["pairs"])
        self.assertEqual(journals[0], journals[1])
        self.assertEqual(journals[0], journals[2])

    def test_it_goes_on_without_a_client(self):
        for address in self.floor.addresses:
            host, port = address.split(":")
            with socket.create_connection((host, int(port))) as client:
                client.sendall(b"x" * 64 * 100 + b"half of one")
        self.assertGreater(load(self.floor, self.floor.addresses)["pairs"], 0)

    def test_a_node_that_ends_takes_the_others_with_it(self):
        os.kill(self.floor.pids[2], signal.SIGKILL)
        self.assertEqual(self.floor.processes[0].wait(SECONDS), 1)
        done = bench("--protocol", "floor", "--target", self.floor.addresses[0])
        self.assertEqual(done.returncode, 69, done.stdout)

    def test_a_signal_ends_all(self):
        pids = self.floor.pids
        self.floor.processes[0].terminate()
        self.assertEqual(self.floor.processes[0].wait(SECONDS), 0)
        for pid in pids:
            self.assertFalse(os.path.exists("/proc/%d" % pid))

    def test_no_folder(self):
        done = bench("--floor", os.path.join(self.folder, "nowhere"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("No such file", done.stderr)


@unittest.skipUnless(shutil.which("etcd"), "etcd is not installed")
class Etcd(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.etcd = cls.enterClassContext(clusters.Etcd(folder))

    def test_own_keys(self):
        report = load(self.etcd, self.etcd.addresses, "--connections", 6, "--depth", 2, "--key-bytes", 1024)
        self.assertGreater(report["pairs"], 0)
        self.assertEqual((report["timeouts"], report["not_held"]), (0, 0))
        self.assertGreater(report["server_cpu_us_per_pair"], 0)

    def test_one_key_is_handed_over(self):
        report = load(self.etcd, self.etcd.addresses, "--connections", 4, "--keys", "shared", "--key-bytes", 1024)
        self.assertGreater(report["hand_over_us"]["count"], 0)  # that their tokens grow is checked by the load itself
        self.assertEqual((report["timeouts"], report["not_held"]), (0, 0))

    def test_a_held_key_is_refused(self):
        hold = ("--protocol", "etcd", "--target", self.etcd.addresses[0], "--connections", 1, "--hold", 3)
        self.assertEqual(json.loads(bench(*hold).stdout)["hold"]["held"], 3)
        self.assertEqual(json.loads(bench(*hold).stdout)["hold"]["refused"], 3)

    def test_one_waiter_per_client(self):
        done = bench("--protocol", "etcd", "--target", self.etcd.addresses[0], "--keys", "shared", "--depth", 2)
        self.assertEqual(done.returncode, 69)
        self.assertIn("--depth 1", done.stderr)


class NoEtcd(unittest.TestCase):
    """What the driver says to a server that is not etcd."""

    def attempt(self, answer):
        def serve():
            with listener.accept()[0] as connection:
                connection.recv(65536)
                connection.sendall(answer)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):
                    pass

        with socket.create_server(("127.0.0.1", 0)) as listener:
            thread = threading.Thread(target=serve, daemon=True)
            thread.start()
            done = bench("--protocol", "etcd", "--target", "127.0.0.1:%d" % listener.getsockname()[1])
            thread.join(SECONDS)
        self.assertEqual(done.returncode, 69, done.stdout)
        return done.stderr

    @staticmethod
    def frame(kind, flags, stream, body):
        return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body

    def grpc(self, message, status):
        """A whole answer to the first call: settings, header, message, trailer (headers as literals, not indexed)."""
        trailer = b"\x00\x0bgrpc-status" + bytes([len(status)]) + status
        prefix = b"\0" + len(message).to_bytes(4, "big")
        return (self.frame(4, 0, 0, b"") + self.frame(1, 4, 1, b"\x88") + self.frame(0, 0, 1, prefix + message)
                + self.frame(1, 5, 1, trailer))  # fmt: skip

    def test_other_bytes(self):
        self.assertIn("HTTP/2", self.attempt(b"E\x01what is this\n" * 10))

    def test_no_answer(self):
        self.assertIn("closed the connection", self.attempt(b""))

    def test_a_call_that_failed(self):
        self.assertIn("LeaseGrant ended with status 14", self.attempt(self.grpc(b"", b"14")))

    def test_a_message_without_a_lease(self):
        for message in (b"", b"\x08\x01", b"\x10", b"\x12\x7f", b"\xff" * 20):
            self.assertIn("fits no request", self.attempt(self.grpc(message, b"0")))

    def test_a_message_that_is_cut_off(self):
        answer = self.grpc(b"\x10\x05", b"0").replace(b"\0\0\0\0\x02\x10", b"\0\0\0\0\x09\x10")
        self.assertIn("ended with status 0", self.attempt(answer))


class Report(unittest.TestCase):
    """Made-up reports: one round of each series."""

    RUN = {
        "shape": {"connections": 64, "key_bytes": 32}, "seconds": 5.0, "errors": 0, "timeouts": 0, "busy": 0, "not_held": 0,
        "pairs": 1, "pairs_per_s": 0.0, "acquire_us": {"p50": 1.0, "p99": 2.0}, "release_us": {"p50": 1.0, "p99": 2.0},
        "hand_over_us": {"p50": 100.0, "p95": 200.0}, "server_cpu_us_per_pair": 1.0, "server_busy": 0.5,
        "client_busy": 0.5, "others_busy": 0.0,
    }  # fmt: skip

    def show(self, rates, **changes):
        with tempfile.TemporaryDirectory() as folder:
            for name, rate in rates.items():
                report = copy.deepcopy(self.RUN)
                report.update(changes, pairs_per_s=rate)
                with open(os.path.join(folder, name + "-1.json"), "w", encoding="utf-8") as f:
                    json.dump(report, f)
            out = io.StringIO()
            with redirect_stdout(out):
                status = cluster_report.show(folder)
        return status, out.getvalue()

    def test_speed(self):
        theirs = {"etcd-leader-64": 100.0, "floor-leader-64": 2000.0}
        status, out = self.show({**theirs, "loquet-leader-64": 500.0})
        self.assertEqual(status, 0)
        self.assertIn("loquet-leader: 0.25 of floor-leader", out)
        self.assertIn("loquet-leader: 5.0 times etcd-leader, goal at least 5.0: met", out)
        status, out = self.show({**theirs, "loquet-leader-64": 490.0})
        self.assertEqual(status, 1)
        self.assertIn("MISSED", out)

    def test_without_the_cluster(self):
        status, out = self.show({"etcd-spread-1": 100.0, "floor-relay-1": 200.0})
        self.assertEqual(status, 0)
        self.assertNotIn("times", out)

    def test_hand_over(self):
        self.assertEqual(self.show({"loquet-spread-contended": 1.0})[0], 0)
        slow = {"p50": 600.0, "p95": 700.0}
        self.assertEqual(self.show({"loquet-spread-contended": 1.0}, hand_over_us=slow)[0], 1)

    def test_a_run_with_refusals_is_not_compared(self):
        with self.assertRaises(SystemExit):
            self.show({"etcd-spread-1": 100.0}, timeouts=1)

    def test_a_disturbed_run_is_told(self):
        self.assertIn("in 1 of 1 runs", self.show({"etcd-spread-1": 1.0}, others_busy=0.3)[1])


class Compare(unittest.TestCase):
    def compare(self, *options):
        command = [sys.executable, os.path.join(lqbench.HERE, "compare_cluster.py"), *map(str, options)]
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS)

    def test_a_short_run(self):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "out")
            done = self.compare("--systems", "floor", "--rounds", 2, "--duration", 0.1, "--connections", "1,3", "--dir",
                                folder, "--out", out)  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(os.listdir(folder), ["out"], "something was left behind")
            self.assertEqual(len(os.listdir(out)), 2 * 2 * 2)
        self.assertIn("3 connections", done.stdout)
        self.assertIn("floor-relay", done.stdout)

    def test_bad_options(self):
        for options in (("--systems", "redis"), ("--rounds", 0), ("--connections", "1,none"), ("--rounds", "x"), ("--nonsense",)):
            self.assertEqual(self.compare(*options).returncode, 64, options)


if __name__ == "__main__":
    try:
        lqbench.find_bench()
    except lqbench.BenchTrouble as trouble:
        sys.exit("test_drivers: %s" % trouble)
    unittest.main()
