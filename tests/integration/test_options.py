"""Options as flags and in the configuration file: what is wrong is told by its name, with exit status 64."""

import os
import re
import shutil
import signal
import tempfile

import lqserver
import lqwire
from lqcase import LoquetCase
from lqserver import Server, parse_logfmt, run_to_exit

USAGE = 64
ANY_PORT = ("--listen", "127.0.0.1:0")

NUMBERS = (
    "sweep-ms",
    "quarantine",
    "max-keys",
    "max-waiters-per-key",
    "max-waiters",
    "max-state-bytes",
    "max-requests",
    "max-unread-bytes",
    "max-unread-total-bytes",
    "unread-timeout",
    "max-connections",
)
OTHERS = ("listen", "user", "log-level", "turn-stats", "config", "check-config", "help", "version")
BAD_NUMBERS = ("-1", "abc", "", "12x", "1.5", "99999999999999999999999999")


class OptionsCase(LoquetCase):
    starts_server = False

    def assertRefused(self, options, *names):
        """Exit status 64, and a message on stderr that names all of names."""
        status, out, err = run_to_exit(*options)
        self.assertEqual(status, USAGE, "%s\n%s%s" % (options, out, err))
        for name in names:
            self.assertIn(name, err)
        self.assertNotIn("msg=listening", err)

    def config(self, text):
        folder = tempfile.mkdtemp(prefix="loquet-test-")
        self.addCleanup(shutil.rmtree, folder, True)
        path = os.path.join(folder, "loquetd.conf")
        with open(path, "w") as f:
            f.write(text)
        return path


class Flags(OptionsCase):
    def test_numbers(self):
        for name in NUMBERS:
            for value in BAD_NUMBERS if name == "max-keys" else BAD_NUMBERS[:2]:
                with self.subTest(name=name, value=value):
                    self.assertRefused(ANY_PORT + ("--" + name, value), "--" + name)

    def test_equal_sign(self):
        self.assertRefused(ANY_PORT + ("--sweep-ms=abc",), "--sweep-ms")

    def test_listen(self):
        for value in ("nonsense", "127.0.0.1", "127.0.0.1:", "127.0.0.1:70000", "127.0.0.1:-1", "127.0.0.1:http x", ""):
            with self.subTest(value):
                self.assertRefused(("--listen", value), "--listen")

    def test_log_level(self):
        for value in ("loud", "", "INFO ", "debug,info"):
            with self.subTest(value):
                self.assertRefused(ANY_PORT + ("--log-level", value), "--log-level")

    def test_value_missing(self):
        for name in NUMBERS + ("listen", "log-level", "config"):
            with self.subTest(name):
                self.assertRefused(("--" + name,), name)

    def test_unknown(self):
        self.assertRefused(ANY_PORT + ("--no-such-option", "1"), "no-such-option")
        self.assertRefused(ANY_PORT + ("--no-such-option=1",), "no-such-option")
        self.assertRefused(ANY_PORT + ("-Z",), "Z")

    def test_stray_argument(self):
        self.assertRefused(ANY_PORT + ("stray",), "stray")

    def test_one_bad_among_good_ones(self):
        self.assertRefused(ANY_PORT + ("--sweep-ms", "100", "--max-keys", "many", "--quarantine", "0"), "--max-keys")

    def test_help_names_every_option(self):
        status, out, _ = run_to_exit("--help")
        self.assertEqual(status, 0)
        for name in NUMBERS + OTHERS:
            self.assertIn("--" + name, out)

    def test_version(self):
        status, out, _ = run_to_exit("--version")
        self.assertEqual(status, 0)
        self.assertTrue(re.search(r"\d+\.\d+", out), out)

    def test_good_values_in_both_spellings(self):
        options = ("--sweep-ms=100", "--quarantine", "0", "--max-keys=1", "--log-level=info", "--max-requests", "10")
        with Server(*options) as server, lqwire.Connection(server.address) as c:
            self.grant(c, key := self.key())
            self.assertEqual(c.acquire(self.key(), 1).op, "B")
            self.assertHeld(c, key)
            server.stop()

    def test_address_in_use(self):
        with Server() as server:
            address = "%s:%d" % server.address
            status, _, err = run_to_exit("--listen", address)
            self.assertNotEqual(status, 0)
            self.assertGreater(status, 0)
            self.assertIn(str(server.address[1]), err)
            with lqwire.Connection(server.address) as c:
                self.assertEqual(c.ping(1), lqwire.pong(1))
            server.stop()


class ConfigFile(OptionsCase):
    def assertConfigRefused(self, text, name):
        path = self.config(text)
        for options in (ANY_PORT + ("--config", path), ("--config", path, "--check-config")):
            with self.subTest(options=options):
                self.assertRefused(options, name)

    def test_bad_values_name_their_key(self):
        for text, name in (
            ('sweep_ms = "often";', "sweep_ms"),
            ("sweep_ms = -5;", "sweep_ms"),
            ("max_keys = 1.5;", "max_keys"),
            ("max_waiters_per_key = -1;", "max_waiters_per_key"),
            ('max_state_bytes = "much";', "max_state_bytes"),
            ("quarantine = [1, 2];", "quarantine"),
            ("quarantine = -1;", "quarantine"),
            ("log_level = 3;", "log_level"),
            ('log_level = "loud";', "log_level"),
            ("listen = 7311;", "listen"),
            ('listen = "nowhere";', "listen"),
            ("max_connections = { a = 1; };", "max_connections"),
            ("unread_timeout = -30;", "unread_timeout"),
        ):
            with self.subTest(text):
                self.assertConfigRefused(text + "\n", name)

    def test_unknown_key_is_named(self):
        self.assertConfigRefused("sweep_ms = 100;\nno_such_key = 1;\n", "no_such_key")
        self.assertConfigRefused("max_key = 100;\n", "max_key")

    def test_hyphen_instead_of_underscore_is_not_ignored(self):
        """It may be refused, or mean the same."""
        path = self.config("max-keys = 1;\n")
        status, _, err = run_to_exit("--config", path, "--check-config")
        if status != 0:
            self.assertEqual(status, USAGE)
            self.assertIn("max-keys", err)
            return
        with Server("--config", path) as server, lqwire.Connection(server.address) as c:
            self.grant(c, self.key())
            self.assertEqual(c.acquire(self.key(), 1).op, "B")
            server.stop()

    def test_syntax_error_tells_file_and_line(self):
        path = self.config("sweep_ms = 100;\nmax_keys = = 5;\n")
        status, _, err = run_to_exit("--config", path, "--check-config")
        self.assertEqual(status, USAGE, err)
        self.assertIn("loquetd.conf", err)
        self.assertRegex(err.replace(path, ""), r"\b2\b")

    def test_missing_file_is_named(self):
        path = os.path.join(os.path.dirname(self.config("")), "absent.conf")
        status, _, err = run_to_exit("--config", path)
        self.assertGreater(status, 0)
        self.assertIn("absent.conf", err)

    def test_good_file_passes_the_check(self):
        path = self.config(
            'listen = "127.0.0.1:0";\nsweep_ms = 100;\nquarantine = 0;\nmax_keys = 10;\nmax_waiters_per_key = 5;\n'
            "max_waiters = 100;\nmax_requests = 50;\nunread_timeout = 5;\nmax_connections = 100;\n"
            'log_level = "info";\n'
        )
        status, out, err = run_to_exit("--config", path, "--check-config")
        self.assertEqual(status, 0, out + err)
        self.assertNotIn("msg=listening", err)

    def test_values_take_effect(self):
        path = self.config("max_keys = 1;\nmax_waiters = 1;\n")
        with Server("--config", path) as server, lqwire.Connection(server.address) as c:
            key = self.key()
            self.grant(c, key)
            self.assertEqual(c.acquire(self.key(), 1).op, "B")
            c.send(lqwire.acquire_frame(key, 2, 60))
            self.assertEqual(c.acquire(key, 3, 60), lqwire.busy(key, 3))
            server.stop()

    def test_a_flag_wins_over_the_file(self):
        path = self.config("max_keys = 1;\n")
        for options in (("--config", path, "--max-keys", "2"), ("--max-keys", "2", "--config", path)):
            with self.subTest(options), Server(*options) as server, lqwire.Connection(server.address) as c:
                self.grant(c, self.key())
                self.grant(c, self.key())
                self.assertEqual(c.acquire(self.key(), 1).op, "B")
                server.stop()


class Environment(OptionsCase):
    """Variables LOQUETD_MAX_KEYS and so on: flags win over them, they win over the file."""

    def setUp(self):
        super().setUp()
        self.addCleanup(lqserver.extra_environment.clear)

    def test_takes_effect_in_its_order(self):
        lqserver.extra_environment["LOQUETD_MAX_KEYS"] = "2"
        path = self.config("max_keys = 1;\n")
        for options, room in (((), 2), (("--config", path), 2), (("--config", path, "--max-keys", "3"), 3)):
            with self.subTest(options), Server(*options) as server, lqwire.Connection(server.address) as c:
                for _ in range(room):
                    self.grant(c, self.key())
                self.assertEqual(c.acquire(self.key(), 1).op, "B")
                server.stop()

    def test_bad_value_is_named(self):
        lqserver.extra_environment["LOQUETD_SWEEP_MS"] = "often"
        self.assertRefused(ANY_PORT, "LOQUETD_SWEEP_MS")


class Log(OptionsCase):
    def test_every_line_is_logfmt_with_level_and_message(self):
        with Server("--log-level", "debug", "--sweep-ms", "50") as server:
            with lqwire.Connection(server.address) as c:
                self.grant(c, self.key())
                c.send(b"A\x00\x00" + bytes(8) + b'quote " and = \n')
                c.receive_to_end()
            with lqwire.Connection(server.address) as c:
                c.ping()
                c.abort()
            server.stop()
            self.assertTrue(server.lines)
            for line in server.lines:
                pairs = parse_logfmt(line)
                self.assertIsNotNone(pairs, line)
                self.assertIn(pairs.get("level"), ("debug", "info", "warn", "error"), line)
                self.assertTrue(pairs.get("msg"), line)

    def test_turn_stats(self):
        with Server("--turn-stats") as server:
            with lqwire.Connection(server.address) as c:
                self.grant(c, self.key())
            server.send_signal(signal.SIGUSR1)
            line = server.wait_for_log(lambda pairs: pairs.get("msg") == "turns", 5)
            self.assertIsNotNone(line, server.story())
            self.assertTrue(line["longest_us"].isdigit(), line)
            server.stop()
            turns = [line for line in server.lines if "msg=turns" in line]
            self.assertEqual(len(turns), 2, "one line for the signal, one at exit")
