"""Started as root it binds its ports, then becomes another user for good. Needs root; otherwise a note says that it was left out."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import unittest

import lqserver
import lqwire
from lqcase import LoquetCase, notes

NOBODY = pwd.getpwnam("nobody")


def status_of(pid):
    """The lines of /proc/PID/status."""
    with open("/proc/%d/status" % pid, encoding="ascii", errors="replace") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


class UserTest(LoquetCase):
    starts_server = False

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            notes.append("not root: becoming another user was not tested")
            self.skipTest("not root")

    def folder(self):
        path = tempfile.mkdtemp(prefix="lquser-")
        self.addCleanup(shutil.rmtree, path, True)
        os.chmod(path, 0o755)
        return path

    def start(self, *options, prefix=()):
        server = lqserver.Server(*options, prefix=prefix)
        server.start()
        self.addCleanup(server.kill)
        return server

    def is_nobody(self, server, groups=None):
        status = status_of(server.pid)
        uid, gid = str(NOBODY.pw_uid), str(NOBODY.pw_gid if groups is None else groups)
        self.assertEqual(status["Uid"].split(), [uid] * 4)
        self.assertEqual(status["Gid"].split(), [gid] * 4)
        self.assertNotIn("0", status["Groups"].split())
        for name in ("CapPrm", "CapEff", "CapInh", "CapAmb"):
            self.assertEqual(int(status[name], 16), 0, name)
        self.assertEqual(status["NoNewPrivs"], "1")

    def serves(self, server):
        with lqwire.Connection(server.address) as c:
            self.assertReleased(c, b"k", self.grant(c, b"k"))

    def test_by_name(self):
        server = self.start("--user=nobody")
        self.is_nobody(server)
        self.serves(server)
        server.stop()

    def test_by_number_and_group(self):
        server = self.start("--user=%d:%d" % (NOBODY.pw_uid, 4242))
        self.is_nobody(server, 4242)
        server.stop()
        server = self.start("--user=54321:4242")
        self.assertEqual(status_of(server.pid)["Uid"].split(), ["54321"] * 4)
        server.stop()

    def test_without_it_root_stays_and_is_told(self):
        server = self.start()
        self.assertIsNotNone(server.wait_for_log(lambda pairs: "--user" in pairs.get("msg", ""), 5))
        self.assertEqual(status_of(server.pid)["NoNewPrivs"], "1")
        server.stop()

    def test_a_port_of_root(self):
        prefix = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
        server = lqserver.Server("--user=nobody", listen="127.0.0.1:711", prefix=prefix)
        server.start()
        self.addCleanup(server.kill)
        self.is_nobody(server)
        server.stop()

    def node(self, data_dir, *options):
        listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        ports = [listener.getsockname()[1] for listener in listeners]
        for listener in listeners:
            listener.close()
        return (
            "--node-id=1", "--data-dir=" + data_dir, "--peer=127.0.0.1:%d" % ports[0], "--admin=127.0.0.1:%d" % ports[1],
            "--bootstrap", "--initial-cluster=1=127.0.0.1:%d" % ports[0], *options,
        )  # fmt: skip

    def test_a_node_keeps_its_data_as_that_user(self):
        data = os.path.join(self.folder(), "data")
        options = self.node(data, "--user=nobody")
        for _ in range(2):  # made, and found again
            server = self.start(*options)
            self.is_nobody(server)
            server.wait_for_log(lambda pairs: pairs.get("msg") == "serves clients", 20)
            self.serves(server)
            server.stop()
        for path in [data] + [os.path.join(data, name) for name in os.listdir(data)]:
            self.assertEqual(os.stat(path).st_uid, NOBODY.pw_uid, path)

    def refused(self, *options):
        status, _, err = lqserver.run_to_exit("--listen=127.0.0.1:0", *options)
        self.assertNotIn(status, (0, None))
        return err

    def test_a_data_directory_of_somebody_else(self):
        data = self.folder()
        with open(os.path.join(data, "something"), "w", encoding="ascii"):
            pass
        self.assertIn("chown", self.refused(*self.node(data, "--user=nobody")))

    def test_who_does_not_exist(self):
        self.assertIn("no user 'nosuchuser'", self.refused("--user=nosuchuser"))
        self.assertIn("no group 'nosuchgroup'", self.refused("--user=nobody:nosuchgroup"))
        self.assertIn("no user '54321'", self.refused("--user=54321"))
        self.assertIn("is root", self.refused("--user=root"))
        self.assertIn("is root", self.refused("--user=0:0"))
        self.assertIn("no user ''", self.refused("--user=:nogroup"))
        self.assertIn("no user 'nosuchuser'", self.refused("--user=nosuchuser", "--check-config"))

    def test_only_root_can(self):
        folder = self.folder()  # the program itself may be where only root can go
        program = shutil.copy(lqserver.find_program(), folder)
        command = ["setpriv", "--reuid=%d" % NOBODY.pw_uid, "--clear-groups", program, "--listen=127.0.0.1:0"]
        done = subprocess.run([*command, "--user=daemon"], capture_output=True, text=True, timeout=20, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("only root", done.stderr)


if __name__ == "__main__":
    unittest.main()
