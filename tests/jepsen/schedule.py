"""Which nemesis strikes when: drawn from a seed, one after the other or several at once; and what is hurt at the moment.

The seed decides the order of the nemeses, their pauses and their own choices. When exactly they strike, and who leads then,
is up to the machine, so a run with the same seed is alike, not the same.
"""

import random
import threading
import time
import traceback

READY_S = 30.0  # for a node after it was hurt; others may be hurt meanwhile, so this is no promise
UNTIL_S = 90.0  # for changes of members, whatever else happens
END_S = 120.0  # for strikes that are under way at the end


class Faults:
    """What is hurt now, as the judge will hear of it. `record(kind, **fields)` takes events."""

    def __init__(self, world, record):
        self.world, self.record = world, record
        self.lock = threading.Lock()
        self.active = {}  # id -> (what, down places, cut pairs, time)
        self.count = 0
        self.no_majority = None  # id of the fault that says so

    def begin(self, what, excused, down=(), pairs=(), detail="", mild=False):
        """`excused`: places whose clients may suffer. `mild`: nothing is excused at all."""
        with self.lock:
            self.count += 1
            number = self.count
            self._write("fault", number, what=what, nodes=[p.number for p in excused], detail=detail, mild=mild)
            self.active[number] = (what, {p.number for p in down}, {(a.number, b.number) for a, b in pairs},
                                   self.world.seconds())  # fmt: skip
            self._look()
        return number

    def end(self, number):
        with self.lock:
            self.active.pop(number)
            self._write("healed", number)
            self._look()

    def _write(self, kind, number, **fields):
        self.record(kind, id=number, **{name: value for name, value in fields.items() if value or name == "nodes"})

    def _look(self):
        """Without a majority of nodes that hear each other all clients may suffer."""
        missing = not self._has_majority()
        if missing and self.no_majority is None:
            self.count += 1
            self.no_majority = self.count
            nodes = sorted(self.world.places)
            self._write("fault", self.no_majority, what="no majority", nodes=nodes)
        elif not missing and self.no_majority is not None:
            self._write("healed", self.no_majority)
            self.no_majority = None

    def _has_majority(self):
        voters = set(self.world.members)
        down = set().union(*(entry[1] for entry in self.active.values()))
        pairs = set().union(*(entry[2] for entry in self.active.values()))
        up = voters - down
        heard = [1 + sum((a, b) not in pairs and (b, a) not in pairs for b in up if b != a) for a in up]
        return max(heard, default=0) > len(voters) // 2

    def names(self):
        with self.lock:
            return [entry[0] for entry in self.active.values()]


class Strike:
    """One nemesis, once. A thread of its own."""

    def __init__(self, schedule, number, nemesis):
        self.schedule, self.nemesis = schedule, nemesis
        self.world = schedule.world
        self.random = random.Random("%d:%d" % (schedule.seed, number))
        self.claimed, self.open = [], []
        self.did_something = False
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        try:
            for seconds in self.nemesis.strike(self) or ():
                self.did_something = True
                self.schedule.over.wait(seconds)
        except Exception:
            self.schedule.complain("%s: %s" % (self.nemesis.name, traceback.format_exc()))
        finally:
            for fault in list(self.open):
                self.healed(fault)
            self.release(list(self.claimed))

    # For nemeses

    def draw(self, *ranges):
        return self.random.uniform(*self.random.choice(ranges))

    def claim(self, things):
        """Whether it has these places for itself; all or none."""
        with self.schedule.lock:
            if not things or any(thing in self.schedule.claims for thing in things):
                return False
            self.schedule.claims.update(things)
            self.claimed.extend(things)
            return True

    def claim_net(self):
        return self.claim(["net"])

    def claim_members(self):
        return self.claim(["members"])

    def release(self, things):
        with self.schedule.lock:
            for thing in things:
                self.schedule.claims.discard(thing)
                self.claimed.remove(thing)

    def hurt(self, what, places, detail="", pairs=(), is_of_clients=False):
        """Begins now. Places that are only in `pairs` hear some others, those in `places` count as down."""
        down = () if pairs or is_of_clients else places
        fault = self.schedule.faults.begin(what, places, down, pairs, detail)
        self.open.append(fault)
        return fault

    def tell(self, what, places, detail=""):
        """Like hurt, of something that must not change anything."""
        fault = self.schedule.faults.begin(what, places, detail=detail, mild=True)
        self.open.append(fault)
        return fault

    def healed(self, fault):
        self.open.remove(fault)
        self.schedule.faults.end(fault)

    def wait_ready(self, places):
        end = time.monotonic() + READY_S
        while time.monotonic() < end and not all(place.is_ready() for place in places):
            time.sleep(0.02)

    def until(self, holds):
        """Tries again until it is done. It has to be, sooner or later."""
        end = time.monotonic() + UNTIL_S
        while not holds():
            if time.monotonic() > end:
                raise TimeoutError("not done within %.0f s" % UNTIL_S)
            time.sleep(0.1)


class Schedule:
    def __init__(self, world, nemeses, seed, record, at_once=1, pauses=((0.2, 1), (1, 4))):
        self.world, self.nemeses, self.seed = world, nemeses, seed
        self.at_once, self.pauses = at_once, pauses
        self.random = random.Random(seed)
        self.faults = Faults(world, record)
        self.lock = threading.Lock()
        self.claims = set()
        self.over = threading.Event()
        self.strikes, self.troubles = [], []
        self.struck = {}  # name -> how often
        self._count = 0
        self.thread = threading.Thread(target=self._run, daemon=True)

    def complain(self, text):
        self.troubles.append(text)

    def start(self):
        self.thread.start()

    def _run(self):
        while not self.over.is_set() and self.nemeses:
            self._collect()
            if len(self.strikes) < self.at_once:
                self._count += 1
                strike = Strike(self, self._count, self.random.choice(self.nemeses))
                self.strikes.append(strike)
                strike.thread.start()
            self.over.wait(self.random.uniform(*self.random.choice(self.pauses)))

    def _collect(self):
        for strike in [s for s in self.strikes if not s.thread.is_alive()]:
            self.strikes.remove(strike)
            if strike.did_something:
                self.struck[strike.nemesis.name] = self.struck.get(strike.nemesis.name, 0) + 1

    def end(self):
        """No further strikes; those under way heal."""
        self.over.set()
        self.thread.join()
        end = time.monotonic() + END_S
        for strike in self.strikes:
            strike.thread.join(max(0, end - time.monotonic()))
            if strike.thread.is_alive():
                self.complain("%s does not come to its end" % strike.nemesis.name)
        self._collect()
