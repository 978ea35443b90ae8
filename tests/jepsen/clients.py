"""The clients of a run: processes that ask, and record what they ask and are told (tests/judge/history.py), and the store
that the locks protect."""

import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
JUDGE = os.path.join(os.path.dirname(HERE), "judge")

FLOWING_BYTES = 1 << 15  # of history: some hundred events
FLOWING_S = 20.0
END_S = 60.0


class Trouble(Exception):
    """The clients did not do what they should."""


class Process:
    """One of them. It ends when its stdin does."""

    def __init__(self, name, command, out, log, prefix=()):
        self.name, self.out = name, out
        with open(log, "ab") as file:
            self.process = subprocess.Popen([*prefix, *command], stdin=subprocess.PIPE, stdout=file, stderr=file)

    def recorded(self):
        return os.path.getsize(self.out) if os.path.exists(self.out) else 0

    def ask_to_end(self):
        self.process.stdin.close()

    def wait(self):
        try:
            status = self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            raise Trouble("%s does not end" % self.name) from None
        if status != 0:
            raise Trouble("%s ended with status %d" % (self.name, status))


class Clients:
    def __init__(self, folder, places, seed, prefix=(), **options):
        """places: {number: (host, port)}. Options: mix, rate, threads (of libloquet), users (their program), and further
        ones of driver.py."""
        self.folder, self.places, self.prefix = folder, places, prefix
        self.processes, self.store = [], None
        self.log = os.path.join(folder, "clients.log")
        threads, users = options.pop("threads", 0), options.pop("users", None)
        try:
            self._start_store()
            self._start_driver(seed, options)
            if threads:
                self._start_users(users, threads, seed)
        except BaseException:
            self.kill()
            raise

    def _path(self, name):
        return os.path.join(self.folder, "history-%s.jsonl" % name)

    def _start_store(self):
        command = [*self.prefix, sys.executable, os.path.join(JUDGE, "store.py"), self._path("store")]
        self.store = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.store_port = int(self.store.stdout.readline())

    def _start_driver(self, seed, options):
        command = [sys.executable, os.path.join(JUDGE, "driver.py"), "--out", self._path("driver"), "--seconds", "100000"]
        command += ["--seed", str(seed), "--store", str(self.store_port), "--prefix", "d-"]
        for number, address in self.places.items():
            command += ["--node", "%d=%s:%d" % (number, *address)]
        for option, value in options.items():
            command += ["--" + option.replace("_", "-"), str(value)]
        self.processes.append(Process("driver", command, self._path("driver"), self.log, self.prefix))

    def _start_users(self, program, threads, seed):
        endpoints = ",".join("%s:%d" % address for address in self.places.values())
        command = [program, "--endpoints", endpoints, "--out", self._path("library"), "--threads", str(threads)]
        command += ["--seed", str(seed)]
        self.processes.append(Process("lq_users", command, self._path("library"), self.log, self.prefix))

    def files(self):
        return [self._path("store")] + [process.out for process in self.processes]

    def check(self):
        for process in self.processes:
            if process.process.poll() is not None:
                raise Trouble("%s ended with status %d; see %s" % (process.name, process.process.returncode, self.log))

    def wait_flowing(self):
        """Until each of them has recorded some more."""
        goals = [process.recorded() + FLOWING_BYTES for process in self.processes]
        end = time.monotonic() + FLOWING_S
        while any(process.recorded() < goal for process, goal in zip(self.processes, goals)):
            self.check()
            if time.monotonic() > end:
                raise Trouble("nothing is answered any more, though all is well")
            time.sleep(0.02)

    def recorded(self):
        return sum(process.recorded() for process in self.processes)

    def end(self):
        """Nobody asks for more, what is open comes to its end."""
        for process in self.processes:
            process.ask_to_end()
        for process in self.processes:
            process.wait()
        self.store.stdin.close()
        self.store.wait(END_S)

    def kill(self):
        """Safe to call at any time, also twice."""
        for process in [p.process for p in self.processes] + [self.store]:
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
