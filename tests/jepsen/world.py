"""The world of a run: nodes and clients, in network namespaces of their own where the machine has them, else on loopback.

    world = World(folder, 3, net, options)      # net: a net.Net, or None for loopback
    world.start()
    world.voters(); world.leader(); world.place(2)
    world.end()

A place is where a node is: a number, a namespace, addresses, a data directory. The node there may be replaced by another
one with a new id. Clients know places, so in histories and faults "node" is the number of the place.
"""

import itertools
import os
import shutil
import signal
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
for name in ("cluster", "faults", "integration"):
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), name))

import lqcluster  # noqa: E402
import lqfaults  # noqa: E402
import lqserver  # noqa: E402
import net as network  # noqa: E402

CLIENT_PORT, PEER_PORT, ADMIN_PORT = 7311, 7312, 7313
READY_S = 40.0
EXPECTED = (0, -signal.SIGKILL)


class Place(lqcluster.Node):
    """One place and the node that is there now."""

    def __init__(self, number, world):
        super().__init__(number, os.path.join(world.folder, "data-%d" % number))
        self.number = number
        self.world = world
        self.lock = threading.RLock()  # who starts, kills or asks for the process
        self.is_wanted = False  # it ought to run
        self.log = open(os.path.join(world.folder, "node-%d.log" % number), "a", encoding="utf-8")  # noqa: SIM115
        if world.net is not None:
            host = network.address_of(number)
            self.client, self.peer, self.admin = ((host, port) for port in (CLIENT_PORT, PEER_PORT, ADMIN_PORT))
            self.prefix = world.net.prefix("n%d" % number)
        self.layer = None
        self.environment.update(world.environment(number))
        if world.has_layer:
            self.lay()

    def lay(self):
        """Puts the fault layer under its data directory."""
        os.makedirs(self.data_dir, exist_ok=True)
        base = {"LD_PRELOAD": self.environment["LD_PRELOAD"]} if "LD_PRELOAD" in self.environment else {}
        self.layer = lqfaults.FaultLayer(self.data_dir, self.data_dir + "-state")
        self.environment.update(self.layer.environment(base=base))

    def start(self):
        with self.lock:
            self.note("starts as node %d" % self.id)
            super().start()
            self.is_wanted = True
            return self

    def kill(self):
        with self.lock:
            self.is_wanted = False
            super().kill()
            self.note("was killed")

    def stop(self, number=signal.SIGTERM, timeout=lqserver.STOP_SECONDS * 2):
        with self.lock:
            self.is_wanted = False
            super().stop(number, timeout)
            self.note("was stopped")

    def note(self, text):
        if not self.log.closed:
            self.log.write("---- %.3f s: %s\n" % (self.world.seconds(), text))
            self.log.flush()

    def _read_log(self):
        for raw in self.process.stderr:
            line = raw.decode("utf-8", "replace").rstrip("\n")
            if not self.log.closed:
                self.log.write("%9.3f  %s\n" % (self.world.seconds(), line))
            with self._changed:
                self.lines.append(line)
                del self.lines[:-2000]
                self._changed.notify_all()
        with self._changed:
            self._stderr_ended = True
            self._changed.notify_all()

    def accident(self):
        """What went wrong with it by itself, or None: it ended, or its log has signs of an accident."""
        if self.is_wanted and self.process is not None and self.process.poll() is not None:
            return "place %d ended by itself with status %d%s" % (self.number, self.process.returncode, self.story(15))
        try:
            self.check_log()
        except lqserver.ServerTrouble as trouble:
            return "place %d %s" % (self.number, trouble)
        return None

    def founding(self, places):
        return "--initial-cluster=" + ",".join("%d=%s" % (place.id, place.peer_text) for place in places)


class World:
    def __init__(self, folder, n, net, options=(), has_layer=False, environment=lambda number: {}):
        """`environment(number)`: additions for the node of a place."""
        self.folder, self.net, self.has_layer, self.environment = folder, net, has_layer, environment
        self.began = time.monotonic()
        self.options = list(options)
        self.lock = threading.RLock()
        self.ids = itertools.count(n + 1)
        self.places = {}
        self.members = set()  # numbers of the places whose nodes vote
        for number in range(1, n + 1):
            self.add_place(number)
        self.members.update(self.places)
        for place in self.places.values():
            place.configure("--bootstrap", place.founding(self.places.values()), *self.options)

    def seconds(self):
        return time.monotonic() - self.began

    def add_place(self, number):
        if self.net is not None:
            self.net.add("n%d" % number, number)
        self.places[number] = Place(number, self)
        return self.places[number]

    def start(self):
        for place in self.places.values():
            place.start()
        for place in self.places.values():
            place.wait_ready(READY_S)

    def voters(self):
        return [self.places[number] for number in sorted(self.members)]

    def leader(self, seconds=5.0):
        """The place whose node says in the highest term that it leads; None if none does within that time."""
        end = time.monotonic() + seconds
        while True:
            best = None
            for place in self.voters():
                status = place.ask("GET", "/v1/status", timeout=0.3)[1] if place.running() else None
                if isinstance(status, dict) and status["role"] == "leader" and (best is None or status["term"] > best[0]):
                    best = (status["term"], place)
            if best is not None or time.monotonic() > end:
                return best and best[1]
            time.sleep(0.05)

    def change(self, method, path, body=None, seconds=30.0):
        """Asks whoever leads until it is done, as `loquet member` does. Whether it was."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            leader = self.leader(1.0)
            if leader is not None and leader.ask(method, path, body)[0] == 200:
                return True
            time.sleep(0.05)
        return False

    def join(self, place):
        """Starts a node with a new id and an empty disk at this place, for a cluster that has to add it."""
        leader = self.leader()
        cluster = leader and leader.status()
        if not cluster:
            return False
        place.id = next(self.ids)
        shutil.rmtree(place.data_dir, ignore_errors=True)
        if place.layer is not None:
            os.makedirs(place.data_dir)
            place.layer.heal()
            place.layer.forget()
        place.configure("--cluster-id=%s" % cluster["cluster_id"], *self.options)
        place.start()
        return True

    def accidents(self):
        return [text for text in (place.accident() for place in self.places.values()) if text]

    def end(self):
        """Kills what runs."""
        for place in self.places.values():
            if place.layer is not None:
                place.layer.heal()
            place.kill()
            place.log.close()
