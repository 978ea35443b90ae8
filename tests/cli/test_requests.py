"""acquire, release, renew and ping against a server: what they print and exit with."""

import os
import subprocess
import time

from clicase import PATIENCE, SLACK, CliCase, lqserver, program


class Requests(CliCase):
    def test_acquire_renew_release_for_people(self):
        status, out, err = self.loquet("acquire", "build/nightly", "--lease", "20")
        self.assertEqual((status, err), (0, ""))
        self.assertRegex(
            out, r"^acquired build/nightly\ntoken \d+\nlease 20 s, ends \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \(in 19\.\d s\)\n$"
        )
        token = out.split()[3]
        self.assertTrue(self.is_held("build/nightly"))
        status, out, err = self.loquet("renew", "build/nightly", token, "--lease=40")
        self.assertEqual((status, err), (0, ""))
        self.assertRegex(out, r"^renewed build/nightly\nlease 40 s, ends .* \(in 39\.\d s\)\n$")
        self.assertEqual(self.loquet("release", "build/nightly", token), (0, "released build/nightly\n", ""))
        self.assertFalse(self.is_held("build/nightly"))

    def test_acquire_renew_release_for_machines(self):
        answer = self.ask("acquire", "k", "--lease", 20)
        token = answer["token"]
        self.assertEqual(
            set(answer), {"command", "result", "key", "token", "lease_s", "ends_in_ms", "ends_at"}, answer
        )
        self.assertEqual((answer["result"], answer["key"], answer["lease_s"]), ("acquired", "k", 20))
        self.assertTrue(18500 < answer["ends_in_ms"] <= 19600, answer)
        self.assertRegex(answer["ends_at"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        answer = self.ask("renew", "k", token)
        self.assertEqual((answer["result"], answer["token"], answer["lease_s"]), ("renewed", token, 30))
        self.assertTrue(28000 < answer["ends_in_ms"] <= 29400, answer)
        self.assertEqual(
            self.ask("release", "k", token),
            {"command": "release", "result": "released", "key": "k", "token": token},
        )

    def test_token_that_does_not_hold(self):
        for command in ("release", "renew"):
            self.assertSays(self.loquet(command, "k", 5), 76, "does not hold 'k'")
            answer = self.ask(command, "k", 5, code=76)
            self.assertEqual((answer["result"], answer["key"], answer["exit"]), ("not_held", "k", 76))

    def test_held_by_another(self):
        self.take("k")
        self.assertSays(self.loquet("acquire", "k"), 75, "'k' is held by another", "--wait")
        began = time.monotonic()
        self.assertSays(self.loquet("acquire", "k", "--wait", "0.7"), 75, "'k' did not become free within 0.7 s")
        self.assertTrue(0.7 <= time.monotonic() - began < 0.7 + SLACK)
        answer = self.ask("acquire", "k", code=75)
        self.assertEqual((answer["result"], answer["exit"]), ("timeout", 75))
        self.assertIn("held", answer["message"])

    def test_wait_is_rewarded(self):
        connection, token = self.take("k")
        run = self.start("--json", "acquire", "k", "--wait", "30")
        self.until_waiting(run)
        connection.release(b"k", token)
        began = time.monotonic()
        status, out, _ = run.end()
        self.assertEqual(status, 0)
        self.assertLess(time.monotonic() - began, SLACK)
        self.assertTrue(self.is_held("k"), out)

    def test_timeout_leaves_no_place_in_the_queue(self):
        connection, token = self.take("k")
        self.assertEqual(self.loquet("acquire", "k", "--wait", "0.3")[0], 75)
        connection.release(b"k", token)
        self.assertFalse(self.is_held("k"))

    def test_long_wait_still_has_its_lease(self):
        """The lease counts from the grant, so a wait longer than it must not show as an ended lease."""
        self.take("k", lease=2)
        answer = self.ask("acquire", "k", "--wait", 20, "--lease", 1)
        self.assertTrue(500 < answer["ends_in_ms"] <= 980, answer)

    def test_ping(self):
        status, out, err = self.loquet("ping")
        self.assertEqual((status, err), (0, ""))
        self.assertRegex(out, r"^127\.0\.0\.1:%d answered in \d+\.\d{3} ms\n$" % self.server.address[1])
        answer = self.ask("ping")
        self.assertEqual((answer["result"], answer["endpoint"]), ("alive", self.environment["LOQUET_ENDPOINTS"]))
        self.assertTrue(0 < answer["round_trip_us"] < 1e6 * PATIENCE)

    def test_endpoints(self):
        good = self.environment.pop("LOQUET_ENDPOINTS")
        dead = "127.0.0.1:%d" % self.free_port()
        for i in range(8):  # they are tried from a random one on
            self.assertEqual(self.loquet("ping", "--endpoints", "%s,%s" % (dead, good))[0], 0)
        self.assertEqual(self.loquet("ping", "--endpoints", good.replace("127.0.0.1", "localhost"))[0], 0)
        self.environment["LOQUET_ENDPOINTS"] = good
        self.assertSays(self.loquet("ping", "--endpoints", dead), 69, dead, "Connection refused")
        self.assertEqual(self.loquet("--endpoints=" + good, "ping")[0], 0)

    def test_keys_are_any_text(self):
        for key in ("ключ 鍵 🔒", "a b", "-dash", "k" * 1024, "\x01"):
            with self.subTest(key):
                answer = self.ask("acquire", "--", key)
                self.assertEqual(answer["key"], key)
                self.assertEqual(self.loquet("release", "--", key, answer["token"])[0], 0)

    def test_result_that_cannot_be_written(self):
        """Nobody would ever know the token, so the lock is given back."""
        with open("/dev/full", "w", encoding="utf-8") as full:
            self.assertSays(self.loquet("acquire", "k", stdout=full), 74, "released again")
            self.assertFalse(self.is_held("k"))
            self.assertEqual(self.loquet("--json", "acquire", "k", stdout=full)[0], 74)
            self.assertFalse(self.is_held("k"))
            self.assertEqual(self.loquet("ping", stdout=full)[0], 74)
            self.assertEqual(self.loquet("--help", stdout=full)[0], 74)
        read, write = os.pipe()
        os.close(read)
        self.assertSays(self.loquet("acquire", "k", stdout=write), 74)
        os.close(write)
        self.assertFalse(self.is_held("k"))

    def test_closed_standard_descriptors(self):
        """A socket that took the place of one of them would get what was meant for people."""
        command = 'exec "$0" acquire k >&- 2>&- <&-'
        status = subprocess.run(["/bin/sh", "-c", command, program()], env=self.environment, check=False).returncode
        self.assertEqual(status, 0)
        self.assertTrue(self.is_held("k"))


class OneKeyOnly(CliCase):
    options = ("--max-keys", 1)

    def test_busy(self):
        self.take("one")
        self.assertSays(self.loquet("acquire", "two"), 75, "'two'", "limit")
        self.assertSays(self.loquet("acquire", "two", "--wait", 9), 75, "'two'", "limit")
        self.assertEqual(self.ask("acquire", "two", code=75)["result"], "busy")
        self.assertSays(self.loquet("run", "two", "--", "true"), 75, "limit")


class IPv6(CliCase):
    serverless = True

    def test_brackets(self):
        with lqserver.Server(listen="[::1]:0") as server:
            endpoint = "[::1]:%d" % server.address[1]
            self.assertEqual(self.ask("ping", "--endpoints", endpoint)["endpoint"], endpoint)
