"""The ground of the tests here: the program under test, a server, and what can be seen of processes from outside.

Every test has a loquetd of its own, or none (`serverless = True`), and a scratch folder; whatever a test starts is
ended with it. lqserver and lqwire, beside this folder in tests/integration, start servers and speak the protocol.
"""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))

import lqserver  # noqa: E402
import lqwire  # noqa: E402

HOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "holder.py")
PATIENCE = 10.0  # seconds in which whatever must come has to come; costs time only when a test fails
SLACK = 1.0  # loose upper bound of what happens "at once", on a busy machine
TERM, KILL = signal.SIGTERM, signal.SIGKILL


def program():
    path = os.environ.get("LOQUET")
    if not path or not os.access(path, os.X_OK):
        raise AssertionError("no program: set LOQUET to the path of loquet")
    return os.path.abspath(path)


def boottime():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def stat_of(pid):
    """(state, process group, parent, foreground group of its terminal) of a process, or None when it is gone."""
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return fields[0], int(fields[2]), int(fields[1]), int(fields[5])


def pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def members(group):
    """The processes of a group that run or could run again."""
    found = []
    for pid in pids():
        stat = stat_of(pid)
        if stat is not None and stat[1] == group and stat[0] not in "ZX":
            found.append(pid)
    return found


def children(parent):
    return [pid for pid in pids() if (stat_of(pid) or (0, 0, 0))[2] == parent]


def name_of(pid):
    try:
        with open("/proc/%d/comm" % pid, encoding="utf-8") as file:
            return file.read().strip()
    except (FileNotFoundError, ProcessLookupError):
        return None


def state_of(pid):
    stat = stat_of(pid)
    return stat[0] if stat else None


class Run(subprocess.Popen):
    """A `loquet` in the background."""

    def keeper(self):
        """Its helper process."""
        found = [pid for pid in children(self.pid) if name_of(pid) == "lq-keeper"]
        return found[0] if found else None

    def end(self, timeout=PATIENCE):
        """(exit status, stdout, stderr) once it has ended."""
        out, err = self.communicate(timeout=timeout)
        return self.returncode, out, err


class CliCase(unittest.TestCase):
    serverless = False
    options = ()  # of the server
    longMessage = True

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="loquet-cli-")
        self.addCleanup(subprocess.run, ["rm", "-rf", self.folder], check=True)
        self.addCleanup(self.end_holders)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("LOQUET")}
        self.environment["LOQUET_CONFIG"] = "/dev/null"  # whatever this machine has
        self.server = None
        if not self.serverless:
            self.server = lqserver.Server(*self.options)
            self.server.start()
            self.addCleanup(self.server.kill)
            self.environment["LOQUET_ENDPOINTS"] = "%s:%d" % self.server.address

    # Running loquet

    def start(self, *args, **kwargs):
        kwargs = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
                  "text": True, "errors": "replace", "env": self.environment, **kwargs}  # fmt: skip
        run = Run([program(), *(a if isinstance(a, bytes) else str(a) for a in args)], **kwargs)
        self.addCleanup(self.clean_up, run)
        return run

    def end_holders(self):
        """Ends what a loquet that does not do its duty leaves behind."""
        for pid in self.beats():
            try:
                with open("/proc/%d/cmdline" % pid, "rb") as file:
                    if self.folder.encode() in file.read():
                        os.kill(pid, KILL)
            except (FileNotFoundError, ProcessLookupError):
                pass

    @staticmethod
    def clean_up(run):
        if run.poll() is None:
            run.kill()
            run.wait()
        for stream in (run.stdin, run.stdout, run.stderr):
            if stream is not None and not stream.closed:
                stream.close()

    def loquet(self, *args, timeout=PATIENCE, **kwargs):
        """(exit status, stdout, stderr) of a whole run."""
        return self.start(*args, **kwargs).end(timeout)

    def ask(self, *args, code=0, **kwargs):
        """The JSON object of a command whose exit status has to be `code`."""
        status, out, err = self.loquet("--json", *args, **kwargs)
        self.assertEqual(status, code, out + err)
        text = err if args[0] == "run" else out
        self.assertEqual(text.count("\n"), 1, "not one line: %r" % text)
        answer = json.loads(text)
        self.assertEqual(answer["command"], args[0])
        return answer

    def assertSays(self, outcome, code, *words):
        """The exit status, and words that stderr has to have, in one line that begins with the program's name."""
        status, _, err = outcome
        self.assertEqual(status, code, err)
        for word in words:
            self.assertIn(word, err)
        self.assertTrue(err.startswith("loquet: "), err)

    # A command to run

    def holder(self, *args, count=1):
        """The words of a command that keeps writing down when it last lived; `count` processes of it."""
        return [sys.executable, "-S", HOLDER, self.folder, str(count), *args]

    def held_by(self, count=1):
        """The pids of the holder's processes once all of them live."""
        self.until(lambda: len(self.beats()) == count, "the command has started")
        return sorted(self.beats())

    def beats(self):
        """When each process of the holder last lived, by pid; CLOCK_BOOTTIME."""
        found = {}
        for name in os.listdir(self.folder):
            if name.startswith("beat-"):
                with open(os.path.join(self.folder, name), "rb") as file:
                    data = file.read(8)
                if len(data) == 8:
                    found[int(name[5:])] = struct.unpack("d", data)[0]
        return found

    def noted(self):
        """What the holder's processes wrote down about signals, as words."""
        path = os.path.join(self.folder, "notes")
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as file:
            return file.read().split()

    def until_runs(self):
        """Waits for a command in the scratch folder: a process there whose parent is a keeper."""
        self.until(lambda: any(name_of(stat_of(pid)[2]) == "lq-keeper" for pid in self.here()), "it runs")

    def until_has_terminal(self, name):
        """Waits until a program in the scratch folder is in the foreground of its terminal, and waits for input."""

        def has_terminal(pid):
            stat = stat_of(pid)
            return name_of(pid) == name and stat and stat[0] == "S" and stat[1] == stat[3]

        self.until(lambda: any(has_terminal(pid) for pid in self.here()), name + " has the terminal")

    def here(self):
        """The processes whose folder is the scratch folder, except those of loquet."""
        for pid in pids():
            try:
                if os.readlink("/proc/%d/cwd" % pid) == self.folder and name_of(pid) not in ("loquet", "lq-keeper"):
                    if stat_of(pid) is not None:
                        yield pid
            except (FileNotFoundError, PermissionError):
                pass

    # The server, seen past loquet

    def connect(self):
        connection = lqwire.Connection(self.server.address)
        self.addCleanup(connection.close)
        return connection

    def is_held(self, key):
        """Tries to acquire it, so a loquet that does the same just now may find it held by us."""
        with lqwire.Connection(self.server.address) as connection:
            answer = connection.acquire(key.encode(), 1)
            if answer.op == "A":
                connection.release(key.encode(), answer.token)
            return answer.op == "T"

    def take(self, key, lease=30):
        """Acquires as another client would; returns (connection, token)."""
        connection = self.connect()
        answer = connection.acquire(key.encode(), 77, 0, lease)
        self.assertEqual(answer.op, "A")
        return connection, answer.token

    def until(self, holds, what, timeout=PATIENCE):
        """Waits for a condition; returns how long that took."""
        began = time.monotonic()
        while not holds():
            self.assertLess(time.monotonic() - began, timeout, "waited in vain until " + what)
            time.sleep(0.005)
        return time.monotonic() - began

    def until_waiting(self, run):
        """Waits until a loquet has a connection and, as nobody answers it yet, certainly sent its request."""

        def connected():
            folder = "/proc/%d/fd" % run.pid
            try:
                return any(os.readlink(folder + "/" + fd).startswith("socket:") for fd in os.listdir(folder))
            except FileNotFoundError:
                return False

        self.until(connected, "it is connected")
        self.until(lambda: state_of(run.pid) == "S", "it sleeps")
        time.sleep(0.05)

    @staticmethod
    def free_port():
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return probe.getsockname()[1]
