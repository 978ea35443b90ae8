"""`loquet bench`: that it counts what a server really saw, and what it says of one that fails."""

import signal
import time

from clicase import CliCase
from fake import FakeServer


class Bench(CliCase):
    serverless = True

    def test_counts_and_keys(self):
        def script(peer):
            token = 100
            while True:
                request = peer.request()
                if request is None:
                    return
                token += 1
                if request.op == "A":
                    peer.grant(request, token)
                else:
                    peer.answer("R", request)

        with FakeServer(script) as server:
            answer = self.ask(
                "bench", "--seconds", 1, "--connections", 3, "--key-prefix", "b", "--lease", 9,
                "--endpoints", server.endpoint,
            )  # fmt: skip
            ops = server.ops()
            keys = {request.key.decode() for request in server.heard if request.op == "A"}
            leases = {request.lease for request in server.heard if request.op == "A"}
        self.assertEqual((answer["result"], answer["connections"], answer["errors"]), ("ok", 3, 0))
        self.assertGreater(answer["pairs"], 3)
        self.assertEqual((ops.count("A"), ops.count("R")), (answer["pairs"], answer["pairs"]))
        self.assertEqual({key.split("-")[0] + key.split("-")[2] for key in keys}, {"b0", "b1", "b2"})
        self.assertEqual(leases, {9})
        self.assertAlmostEqual(answer["pairs_per_s"], answer["pairs"] * 1e6 / answer["took_us"], delta=2)
        for what in ("acquire", "release"):
            self.assertTrue(0 < answer[what]["p50_us"] <= answer[what]["p99_us"] < 2e6, answer)

    def test_errors_are_counted_and_told(self):
        def script(peer):
            while True:
                request = peer.request()
                if request is None:
                    return
                peer.answer("B", request)

        with FakeServer(script) as server:
            outcome = self.loquet("bench", "--seconds", 1, "--endpoints", server.endpoint)
        self.assertSays(outcome, 69, "not one pair", "acquire: busy")

    def test_nobody_there(self):
        dead = "127.0.0.1:%d" % self.free_port()
        self.assertSays(self.loquet("bench", "--endpoints", dead), 69, dead, "refused", "LOQUET_ENDPOINTS")


class BenchOfAServer(CliCase):
    def test_ends_early_and_leaves_nothing_held(self):
        began = time.monotonic()
        run = self.start("bench", "--seconds", 500, "--connections", 2)
        key = "loquet-bench-%d-1" % run.pid
        self.until(lambda: self.is_held(key), "it works")
        run.send_signal(signal.SIGINT)
        status, out, err = run.end()
        self.assertEqual((status, err), (0, ""))
        self.assertRegex(out, r"^\d+ pairs in \d+\.\d s over 2 connections: \d+ pairs/s\nacquire  p50 \d+\.\d{3} ms")
        self.assertLess(time.monotonic() - began, 30)
        self.assertFalse(self.is_held(key))
