"""Starts, watches and ends a loquetd of our own.

The program is the one named by the environment variable LOQUETD, else `loquetd` from PATH. A server listens on a free
port of 127.0.0.1, which its log tells. All it writes to stderr is kept, line by line, by a thread.
"""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

START_SECONDS = 20.0
STOP_SECONDS = 10.0

# Variables for the servers started from now on. Others of the kind LOQUETD_SWEEP_MS are options that a test does not
# mean, so they are kept from them.
extra_environment = {}

# What sanitizers and failed checks leave on stderr, whatever the exit status.
ACCIDENT = re.compile(
    r"Sanitizer|runtime error:|LQ_CHECK|check failed|Assertion|stack smashing|malloc\(\)|free\(\)", re.IGNORECASE
)


class ServerTrouble(AssertionError):
    """The server did not start, died, or did not end as it should; its log is in the message."""


def environment():
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LOQUETD_")}
    return {**kept, **extra_environment}


def find_program():
    program = os.environ.get("LOQUETD")
    if program is None:
        program = shutil.which("loquetd")
        if program is None:
            raise ServerTrouble("no server: set LOQUETD to the path of loquetd, or put loquetd into PATH")
    if not os.access(program, os.X_OK) or os.path.isdir(program):
        raise ServerTrouble("no server: LOQUETD=%s is not an executable file" % program)
    return os.path.abspath(program)


_LOGFMT = re.compile(r'(?P<key>[^\s="]+)=(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s"]*))(?:\s+|$)')


def parse_logfmt(line):
    """The pairs of a logfmt line as a dict; None if the line is not logfmt."""
    pairs = {}
    at = 0
    line = line.strip()
    while at < len(line):
        m = _LOGFMT.match(line, at)
        if m is None:
            return None
        quoted = m.group("quoted")
        pairs[m.group("key")] = m.group("plain") if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        at = m.end()
    return pairs or None


def parse_address(text):
    """("127.0.0.1", 7311) from "127.0.0.1:7311"; brackets around an IPv6 address are taken off."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


class Server:
    """One loquetd. start() returns when it listens; stop() ends it in an orderly way; kill() always works and is safe
    to call at any time, also twice."""

    def __init__(self, *options, listen="127.0.0.1:0", prefix=()):
        """prefix: a command that executes the program in its own place, such as ("prlimit", "--nofile=256:4096")."""
        self.prefix = list(prefix)
        self.options = ["--listen", listen] + [str(o) for o in options]
        self.process = None
        self.address = None
        self.spawned_at = None  # monotonic, just before the process existed
        self.lines = []
        self._changed = threading.Condition()
        self._reader = None
        self._stderr_ended = False

    def __enter__(self):
        return self.start()

    def __exit__(self, *unused):
        self.kill()

    @property
    def pid(self):
        return self.process.pid

    def variables(self):
        """The environment of its process."""
        return environment()

    def start(self):
        program = find_program()
        self.spawned_at = time.monotonic()
        self.process = subprocess.Popen(
            self.prefix + [program] + self.options,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=self.variables(),
        )
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        try:
            line = self.wait_for_log(lambda pairs: pairs.get("msg") == "listening", START_SECONDS)
            if line is None:
                raise ServerTrouble("no line msg=listening on stderr." + self.story())
            self.address = parse_address(line["address"])
        except BaseException:
            self.kill()
            raise
        return self

    def _read_log(self):
        for raw in self.process.stderr:
            with self._changed:
                self.lines.append(raw.decode("utf-8", "replace").rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._stderr_ended = True
            self._changed.notify_all()

    def wait_for_log(self, fits, timeout):
        """The pairs of the first log line, past or coming, for which fits(pairs) holds; None if none came in time."""
        deadline = time.monotonic() + timeout
        seen = 0
        with self._changed:
            while True:
                for line in self.lines[seen:]:
                    pairs = parse_logfmt(line)
                    if pairs is not None and fits(pairs):
                        return pairs
                seen = len(self.lines)
                left = deadline - time.monotonic()
                if left <= 0 or self._stderr_ended:
                    return None
                self._changed.wait(left)

    def running(self):
        return self.process is not None and self.process.poll() is None

    def send_signal(self, number):
        os.kill(self.pid, number)

    def freeze(self):
        """Stops the process; returns when the kernel says that it is stopped."""
        self.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + STOP_SECONDS
        while self._state() not in ("T", "t"):
            if time.monotonic() > deadline:
                raise ServerTrouble("does not stop on SIGSTOP, state %s" % self._state())
            time.sleep(0.001)

    def thaw(self):
        self.send_signal(signal.SIGCONT)

    def _state(self):
        with open("/proc/%d/stat" % self.pid) as f:
            return f.read().rpartition(")")[2].split()[0]

    def cpu_seconds(self):
        """User and system time so far."""
        with open("/proc/%d/stat" % self.pid) as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_bytes(self):
        with open("/proc/%d/status" % self.pid) as f:
            for line in f:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
        raise ServerTrouble("no VmRSS of %d" % self.pid)

    def wait(self, timeout=STOP_SECONDS):
        """Waits for the end of the process; returns its exit status (negative: the signal that killed it)."""
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            story = self.story()
            self.kill()
            raise ServerTrouble("still runs after %.1f s." % timeout + story) from None
        self._reader.join(STOP_SECONDS)
        return status

    def stop(self, number=signal.SIGTERM, timeout=STOP_SECONDS):
        """Ends the server with a signal; it has to exit with 0 and to have left no sign of an accident in its log."""
        if self.process.poll() is not None:
            raise ServerTrouble("had ended by itself with status %d." % self.process.returncode + self.story())
        self.send_signal(number)
        status = self.wait(timeout)
        if status != 0:
            raise ServerTrouble("exit status %d instead of 0." % status + self.story())
        self.check_log()

    def check_log(self):
        bad = [line for line in self.lines if ACCIDENT.search(line)]
        if bad:
            raise ServerTrouble("left signs of an accident in its log: %s." % bad[0] + self.story())

    def kill(self):
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self._reader is not None:
            self._reader.join(STOP_SECONDS)
            if not self._reader.is_alive():
                self.process.stderr.close()

    def story(self, count=60):
        """The tail of the log for a failure message."""
        with self._changed:
            tail = self.lines[-count:]
        return "\n  loquetd %s wrote:\n" % " ".join(self.options) + "".join("  | %s\n" % line for line in tail)


def run_to_exit(*options, timeout=START_SECONDS):
    """Runs the program until it exits by itself; (status, stdout, stderr). For options that end it."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            [find_program()] + [str(o) for o in options],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=environment(),
        )
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        out.seek(0)
        err.seek(0)
        texts = out.read().decode("utf-8", "replace"), err.read().decode("utf-8", "replace")
    if status is None:
        told = (" ".join(map(str, options)), timeout) + texts
        raise ServerTrouble("loquetd %s still runs after %.0f s\n%s%s" % told)
    return (status,) + texts
