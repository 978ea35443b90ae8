"""Configuration files: where they are found, what overrides what, and what is said of one that is wrong."""

import os
import subprocess

from clicase import CliCase, program
from fake import FakeServer


class Settings(CliCase):
    serverless = True

    def setUp(self):
        super().setUp()
        for name in ("LOQUET_CONFIG", "XDG_CONFIG_HOME"):
            self.environment.pop(name, None)
        self.environment["HOME"] = self.folder

    def write(self, text, *names):
        """Writes a file below the scratch folder; returns its path."""
        path = os.path.join(self.folder, *(names or ("given.conf",)))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def write_user(self, text):
        return self.write(text, ".config", "loquet", "loquet.conf")

    def where(self, *words):
        """The server that `ping` turns to, or status 64's message. Nothing listens there."""
        answer = self.ask("ping", *words, code=69)
        return answer["message"]

    def test_user_file(self):
        self.write_user('endpoints = "127.0.0.1:1";\n')
        self.assertIn("127.0.0.1:1:", self.where())
        self.environment["XDG_CONFIG_HOME"] = os.path.join(self.folder, "xdg")
        self.assertIn("127.0.0.1:7311", self.where("--endpoints", "127.0.0.1:7311"))
        self.write('endpoints = "127.0.0.1:2";\n', "xdg", "loquet", "loquet.conf")
        self.assertIn("127.0.0.1:2:", self.where())

    def test_options_and_variables_come_first(self):
        self.write_user('endpoints = "127.0.0.1:1"; admin = "127.0.0.1:1";\n')
        self.environment["LOQUET_ENDPOINTS"] = "127.0.0.1:2"
        self.environment["LOQUET_ADMIN"] = "127.0.0.1:2"
        self.assertIn("127.0.0.1:2:", self.where())
        self.assertIn("127.0.0.1:3:", self.where("--endpoints", "127.0.0.1:3"))
        for words, port in (((), 2), (("--admin", "127.0.0.1:3"), 3)):
            nodes = self.ask("status", *words, code=69)["nodes"]
            self.assertEqual([node["admin"] for node in nodes], ["127.0.0.1:%d" % port])
        del self.environment["LOQUET_ADMIN"]
        self.assertEqual(self.ask("status", code=69)["nodes"][0]["admin"], "127.0.0.1:1")

    def test_file_that_is_named(self):
        self.write_user('endpoints = "127.0.0.1:1";\n')
        path = self.write('endpoints = "127.0.0.1:2";\n')
        self.assertIn("127.0.0.1:2:", self.where("--config", path))
        self.environment["LOQUET_CONFIG"] = path
        self.assertIn("127.0.0.1:2:", self.where())
        other = self.write('endpoints = "127.0.0.1:3";\n', "other.conf")
        self.assertIn("127.0.0.1:3:", self.where("--config=" + other))
        self.environment["LOQUET_CONFIG"] = ""
        self.assertIn("127.0.0.1:1:", self.where())

    def test_lease_and_wait(self):
        def script(peer):
            peer.grant(peer.request())
            peer.idle()

        for words, wait, lease in (((), 3, 60), (("--wait", "0", "--lease", "7"), 0, 7)):
            with self.subTest(words), FakeServer(script) as server:
                self.write_user('endpoints = "%s"; wait = 2.5; lease = 60;\n' % server.endpoint)
                self.assertEqual(self.loquet("acquire", "k", *words)[0], 0)
                self.assertEqual((server.heard[0].wait, server.heard[0].lease), (wait, lease))

    def test_json(self):
        self.write_user("json = true;\n")
        status, out, err = self.loquet("status", "--admin", "127.0.0.1:1")
        self.assertEqual((status, out[:1], err), (69, "{", ""))
        out = self.loquet("status", "--no-json", "--admin", "127.0.0.1:1")[1]
        self.assertTrue(out.startswith("ADMIN"), out)

    def test_what_is_wrong_is_said_whatever_is_needed(self):
        for text, line, *said in (
            ("lease = 0;", 1, "lease", "1 to 255"),
            ("\n\nlease = 256;", 3, "lease", "1 to 255"),
            ("lease = 2.5;", 1, "lease", "1 to 255"),
            ("lease = true;", 1, "lease", "1 to 255"),
            ("lease = 4294967326;", 1, "lease", "1 to 255"),
            ("# lease = 3\nlease =\n 4294967326;", 2, "lease", "1 to 255"),
            ("lease = 30L;", 1, "lease", "1 to 255"),
            ("wait = -1;", 1, "wait", "0 to 255"),
            ("wait = [1];", 1, "wait", "0 to 255"),
            ('json = "yes";', 1, "json", "true or false"),
            ("json = 1;", 1, "json", "true or false"),
            ('endpoints = "";', 1, "endpoints"),
            ('endpoints = "h:0";', 1, "endpoints"),
            ("endpoints = 7311;", 1, "endpoints"),
            ('admin = "h:x";', 1, "admin"),
            ('endpoint = "h";', 1, "endpoint:", "no such key", "endpoints"),
            ("lease = 3;\nlease = 4;", 2, "duplicate"),
            ("lease 3;", 1, "key = value;"),
        ):
            with self.subTest(text):
                path = self.write_user(text)
                outcome = self.loquet("ping", "--endpoints", "127.0.0.1:1")
                self.assertSays(outcome, 64, *said)
                self.assertRegex(outcome[2], r"^loquet: %s:%d: " % (path, line))

    def test_what_needs_no_configuration_does_not_read_it(self):
        self.write_user("wrong")
        for words in (("version",), ("ping", "--help"), ("--help",)):
            self.assertEqual(self.loquet(*words)[0], 0, words)

    def test_files_that_are_none(self):
        long = self.write("#" * 70000)
        for path, said in (
            (os.path.join(self.folder, "missing"), "No such file"),
            (self.folder, "directory"),
            (long, "65536"),
            (self.write("lease = 3;\0"), "text"),
            ("", "/dev/null"),
        ):
            with self.subTest(path):
                self.assertSays(self.loquet("ping", "--config", path), 64, path, said)

    def test_json_of_a_file_that_is_wrong(self):
        path = self.write_user("lease = 0;")
        answer = self.ask("acquire", "k", code=64)
        self.assertEqual((answer["result"], answer["key"], answer["exit"]), ("invalid", "k", 64))
        self.assertIn(path + ":1: lease", answer["message"])

    def test_file_of_the_system(self):
        """In a mount namespace with an /etc of its own."""
        path = self.write('endpoints = "127.0.0.1:4"; json = true;\n')
        script = 'mount -t tmpfs none /etc && mkdir /etc/loquet && cat "$1" >/etc/loquet/loquet.conf && exec "$2" ping'
        words = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
        if subprocess.run([*words, "mount -t tmpfs none /etc"], capture_output=True).returncode != 0:
            self.skipTest("no mount namespace can be had")

        def ping():
            result = subprocess.run(
                [*words, script, "sh", path, program()], env=self.environment, capture_output=True, text=True
            )
            return result.returncode, result.stdout + result.stderr

        status, said = ping()
        self.assertEqual((status, said[:1]), (69, "{"), said)
        self.assertIn("127.0.0.1:4:", said)
        self.write_user('endpoints = "127.0.0.1:5";\n')
        self.assertIn("127.0.0.1:5:", ping()[1])
        self.assertEqual(ping()[1][:1], "{", "the rest of the system's file counts")
        self.write("wait = -1;\n")
        status, said = ping()
        self.assertEqual(status, 64, said)
        self.assertIn("/etc/loquet/loquet.conf:1: wait", said)
