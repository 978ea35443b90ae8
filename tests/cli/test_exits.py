"""Every exit code of the one table, each by one command that earns it; and the table in the documentation."""

import os
import re
import resource

from admins import Cluster
from clicase import CliCase
from fake import FakeServer

DOCUMENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "command-line.md")


def few_descriptors():
    """Enough to acquire a lock, and too few to start a helper process beside that."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (6, 6))


def words_of(text):
    return re.findall(r"[\w']+", text)


class Exits(CliCase):
    def code(self, *args, **kwargs):
        return self.loquet(*args, **kwargs)[0]

    def test_0(self):
        self.assertEqual(self.code("acquire", "k"), 0)
        self.assertEqual(self.code("run", "other", "--", "sh", "-c", "exit 0"), 0)

    def test_own_status_of_the_command(self):
        self.assertEqual(self.code("run", "k", "--", "sh", "-c", "exit 41"), 41)

    def test_64(self):
        self.assertEqual(self.code("acquire", "--lease", "0", "k"), 64)

    def test_69(self):
        self.assertEqual(self.code("acquire", "k", "--endpoints", "127.0.0.1:%d" % self.free_port()), 69)

    def test_70(self):
        def script(peer):
            peer.request()  # and then the connection ends

        with FakeServer(script) as server:
            self.assertEqual(self.code("acquire", "k", "--endpoints", server.endpoint), 70)

    def test_71(self):
        self.assertEqual(self.code("run", "k", "--", "true", preexec_fn=few_descriptors), 71)
        self.assertFalse(self.is_held("k"))

    def test_74(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            self.assertEqual(self.code("acquire", "k", stdout=full), 74)
        self.assertFalse(self.is_held("k"))

    def test_75(self):
        self.assertEqual(self.code("acquire", "k"), 0)
        self.assertEqual(self.code("acquire", "k"), 75)

    def test_76(self):
        self.assertEqual(self.code("release", "k", "4711"), 76)

    def test_77_and_78(self):
        cluster = Cluster(3)
        cluster.start(self)
        gone = "127.0.0.1:%d" % self.free_port()
        self.assertEqual(self.code("status", "--admin", "%s,%s" % (cluster.admin(1), gone)), 77)
        cluster.script = lambda *unused: (400, {"error": "invalid", "message": "it can't be"})
        self.assertEqual(self.code("member", "remove", "2", "--admin", cluster.admins), 78)

    def test_126(self):
        self.assertEqual(self.code("run", "k", "--", "/dev/null"), 126)

    def test_127(self):
        self.assertEqual(self.code("run", "k", "--", "no-such-command-anywhere"), 127)

    def test_128_and_a_signal(self):
        self.assertEqual(self.code("run", "k", "--", "sh", "-c", "kill -TERM $$"), 143)
        self.take("other")
        waiter = self.start("acquire", "--wait", "60", "other")
        self.until_waiting(waiter)
        waiter.send_signal(2)
        self.assertEqual(waiter.end()[0], 130)


class Table(CliCase):
    serverless = True

    def test_the_documentation_has_the_same(self):
        """The documentation may say more."""
        status, out, _ = self.loquet("--help")
        self.assertEqual(status, 0)
        ours = re.findall(r"^ +(\d+(?:\+n)?) +(\S.*)", out[out.lower().index("exit code") :], re.M)
        with open(DOCUMENT, encoding="utf-8") as file:
            theirs = re.findall(r"^\| (\d+(?:\+n)?) \| (.*) \|$", file.read(), re.M)
        self.assertEqual([code for code, _ in ours], [code for code, _ in theirs])
        self.assertGreater(len(ours), 10)
        for (code, text), (_, told) in zip(ours, theirs):
            told_words = iter(words_of(told))
            missing = [word for word in words_of(text) if word not in told_words]  # in their order
            self.assertEqual(missing, [], code)
