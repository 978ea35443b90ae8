"""What is done to a cluster: nemeses, each a generator that strikes, yields for how many seconds it lasts, and heals.

    @nemesis("kill-leader", "process")
    def kill_leader(strike): ...

`strike` (schedule.Strike) gives the world, the random numbers of this strike, and the means to say what is hurt:
`strike.hurt(what, places)` begins a fault that the judge hears of and returns what `strike.healed()` wants. Places are
claimed first (`strike.claim`), so that no two strikes start and kill one process at a time; a strike that finds its places
taken ends without having done anything, by returning before its first yield.

The kinds say what a nemesis needs: "process" nothing, "net" namespaces and nftables, "squeeze" tbf, "wire" a TAP device,
"disk" the fault layer, "wall" libfaketime, "rates" a build for tests.
"""

import errno
import time

NEMESES = {}  # name -> Nemesis


class Nemesis:
    def __init__(self, name, kind, strike):
        self.name, self.kind, self.strike = name, kind, strike

    def __repr__(self):
        return self.name


def nemesis(name, kind):
    def register(function):
        NEMESES[name] = Nemesis(name, kind, function)
        return function

    return register


# ---- Whom it strikes.


def leader_of(strike):
    leader = strike.world.leader()
    return [leader] if leader else []


def a_follower_of(strike):
    leader = strike.world.leader()
    others = [place for place in strike.world.voters() if place is not leader]
    return [strike.random.choice(others)] if leader and others else []


def majority_of(strike):
    voters = strike.world.voters()
    return strike.random.sample(voters, len(voters) // 2 + 1)


def all_of(strike):
    return list(strike.world.voters())


WHOM = {"leader": leader_of, "follower": a_follower_of, "majority": majority_of, "all": all_of}


# ---- Processes.


def restart(strike, places):
    """Starts again those that may run, and waits until they are ready, if the others let them."""
    for place in places:
        place.start()
    strike.wait_ready(places)


def kill_at_once(places):
    """All of them before the first is waited for."""
    for place in places:
        place.is_wanted = False
    for place in places:
        place.process.kill()
    for place in places:
        place.kill()


def down(strike, what, places, act, *lasts, undo=restart):
    """act(places) takes them down; undo(strike, places) ends it."""
    if not strike.claim(places):
        return
    fault = strike.hurt(what, places)
    act(places)
    yield strike.draw(*lasts)
    undo(strike, places)
    strike.healed(fault)


def kill(strike, places):
    return down(strike, "kill -9", places, kill_at_once, (0.0, 0.3), (0.3, 3), (3, 9))


def terminate(strike, places):
    def act(places):
        for place in places:
            place.stop()

    return down(strike, "SIGTERM", places, act, (0.0, 0.3), (0.3, 4))


def freeze(strike, places):
    def act(places):
        for place in places:
            place.freeze()

    def undo(strike, places):
        for place in places:
            place.thaw()
        strike.wait_ready(places)

    return down(strike, "SIGSTOP", places, act, (0.1, 1), (1, 4), (4, 12), undo=undo)


def lose_power(strike, places):
    """Killed, and what was written but not synced is torn or lost."""

    def act(places):
        kill_at_once(places)
        for place in places:
            place.layer.heal()
            place.note(place.layer.power_loss(strike.random.getrandbits(32)))

    return down(strike, "power", places, act, (0.0, 0.3), (0.3, 3))


def _of_processes():
    ways = {"kill": (kill, "process"), "term": (terminate, "process"), "freeze": (freeze, "process"),
            "power": (lose_power, "disk")}  # fmt: skip
    for way, (act, kind) in ways.items():
        for whom, choose in WHOM.items():
            nemesis("%s-%s" % (way, whom), kind)(lambda strike, act=act, choose=choose: act(strike, choose(strike)))


_of_processes()


@nemesis("rolling", "process")
def rolling(strike):
    """All nodes restarted in turn, in an orderly way."""
    for place in strike.random.sample(strike.world.voters(), len(strike.world.voters())):
        if not strike.claim([place]):
            continue
        fault = strike.hurt("rolling", [place])
        place.stop()
        restart(strike, [place])
        strike.healed(fault)
        strike.release([place])
        yield strike.draw((0.2, 1))


# ---- The network between nodes.


def cut(strike, what, pairs, hurt):
    """`pairs`: (from, to) of places whose packets are lost."""
    if not pairs or not strike.claim_net():
        return
    detail = ", ".join("%d -> %d" % (a.number, b.number) for a, b in pairs)
    fault = strike.hurt(what, hurt, detail, pairs)
    for a, b in pairs:
        strike.world.net.cut("n%d" % a.number, "n%d" % b.number)
    yield strike.draw((0.3, 2), (2, 6), (6, 14))
    for a, b in pairs:
        strike.world.net.join("n%d" % a.number, "n%d" % b.number)
    strike.wait_ready(hurt)
    strike.healed(fault)


def both_ways(group, others):
    return [(a, b) for a in group for b in others] + [(b, a) for a in group for b in others]


def isolate(strike, places):
    others = [place for place in strike.world.voters() if place not in places]
    return cut(strike, "isolated", both_ways(places, others), places)


@nemesis("isolate-leader", "net")
def isolate_leader(strike):
    return isolate(strike, leader_of(strike))


@nemesis("isolate-follower", "net")
def isolate_follower(strike):
    return isolate(strike, a_follower_of(strike))


@nemesis("split", "net")
def split(strike):
    """A majority here, a minority there."""
    voters = strike.world.voters()
    return isolate(strike, strike.random.sample(voters, (len(voters) - 1) // 2))


@nemesis("split-all", "net")
def split_all(strike):
    """Nobody hears anybody."""
    voters = strike.world.voters()
    return cut(strike, "all split", [(a, b) for a in voters for b in voters if a is not b], voters)


@nemesis("bridge", "net")
def bridge(strike):
    """Two halves that hear only one node in the middle, and so each other not at all."""
    middle, *rest = strike.random.sample(strike.world.voters(), len(strike.world.voters()))
    half = len(rest) // 2
    return cut(strike, "bridge over %d" % middle.number, both_ways(rest[:half], rest[half:]), rest)


@nemesis("ring", "net")
def ring(strike):
    """Each sees a majority, its neighbours, and no two see the same one. With three nodes: one link is cut."""
    nodes = strike.random.sample(strike.world.voters(), len(strike.world.voters()))
    n, reach = len(nodes), max(1, (len(nodes) // 2) // 2)
    far = [(a, b) for i, a in enumerate(nodes) for j, b in enumerate(nodes) if min((i - j) % n, (j - i) % n) > reach]
    if n == 3:
        far = both_ways(nodes[:1], nodes[1:2])
    return cut(strike, "ring", far, sorted({place for pair in far for place in pair}, key=lambda place: place.number))


@nemesis("one-way", "net")
def one_way(strike):
    """A node that hears nobody, or that nobody hears, or one deaf link."""
    place = strike.random.choice(strike.world.voters())
    others = [other for other in strike.world.voters() if other is not place]
    way = strike.random.choice(("deaf", "mute", "deaf link"))
    if way == "deaf":
        return cut(strike, way, [(other, place) for other in others], [place])
    if way == "mute":
        return cut(strike, way, [(place, other) for other in others], [place])
    other = strike.random.choice(others)
    return cut(strike, way, [(other, place)], [place, other])


@nemesis("cut-clients", "net")
def cut_clients(strike):
    """Clients and a node, or all nodes, do not hear each other, in one direction or both. Nodes hear each other."""
    voters = strike.world.voters()
    places = strike.random.choice(([strike.random.choice(voters)], voters))
    ways = strike.random.choice(((True, False), (False, True), (True, True)))
    if not strike.claim_net():
        return
    fault = strike.hurt("clients cut", places, "to the node, from it: %s, %s" % ways, is_of_clients=True)
    for place in places:
        name = "n%d" % place.number
        for a, b, is_cut in (("clients", name, ways[0]), (name, "clients", ways[1])):
            if is_cut:
                strike.world.net.cut(a, b)
    yield strike.draw((0.3, 2), (2, 8))
    for place in places:
        strike.world.net.join("clients", "n%d" % place.number)
        strike.world.net.join("n%d" % place.number, "clients")
    strike.healed(fault)


def degrade(strike, what, apply):
    """One node, or all, have a bad network: apply(net, name)."""
    voters = strike.world.voters()
    places = strike.random.choice(([strike.random.choice(voters)], leader_of(strike), voters))
    if not places or not strike.claim_net():
        return
    fault = strike.hurt(what, places)
    for place in places:
        apply(strike.world.net, "n%d" % place.number)
    yield strike.draw((1, 4), (4, 14))
    for place in places:
        strike.world.net.heal("n%d" % place.number)
    strike.wait_ready(places)
    strike.healed(fault)


@nemesis("loss", "net")
def loss(strike):
    percent = strike.random.choice((1, 5, 20, 50))
    return degrade(strike, "%d %% lost" % percent, lambda net, name: net.lose(name, percent))


@nemesis("squeeze", "squeeze")
def squeeze(strike):
    kbit = strike.random.choice((64, 256, 1000))
    return degrade(strike, "%d kbit/s" % kbit, lambda net, name: net.squeeze(name, kbit))


@nemesis("delay", "wire")
def delay(strike):
    ms = strike.random.choice((5, 30, 100, 400))
    return degrade(strike, "+%d ms" % ms, lambda net, name: net.wire(name, delay_ms=ms, jitter_ms=ms / 2))


@nemesis("reorder", "wire")
def reorder(strike):
    return degrade(strike, "reordered", lambda net, name: net.wire(name, delay_ms=10, jitter_ms=10, reorder_percent=30))


@nemesis("duplicate", "wire")
def duplicate(strike):
    return degrade(strike, "duplicated", lambda net, name: net.wire(name, delay_ms=1, jitter_ms=5, duplicate_percent=50))


# ---- Disks.


def on_disk(strike, places, what, rule):
    """rule(layer): makes it bad."""
    if not places or not strike.claim(places):
        return
    fault = strike.hurt(what, places)
    rules = [rule(place.layer) for place in places]
    yield strike.draw((0.3, 2), (2, 8))
    for rule in rules:
        rule.disarm()
    strike.wait_ready(places)
    strike.healed(fault)


def whom_on_disk(strike):
    return strike.random.choice((leader_of, a_follower_of, majority_of, all_of))(strike)


@nemesis("disk-slow", "disk")
def disk_slow(strike):
    ms = strike.random.choice((10, 50, 300))
    return on_disk(strike, whom_on_disk(strike), "syncs +%d ms" % ms, lambda layer: layer.stall("sync", ms=ms))


@nemesis("disk-stall", "disk")
def disk_stall(strike):
    return on_disk(strike, whom_on_disk(strike), "disk hangs", lambda layer: layer.stall("sync write"))


@nemesis("disk-full", "disk")
def disk_full(strike):
    return on_disk(strike, whom_on_disk(strike), "disk full", lambda layer: layer.fail("write allocate", errno.ENOSPC))


@nemesis("disk-error", "disk")
def disk_error(strike):
    """One write or sync fails: the node ends by itself, as it must. What was not synced is on no disk then: the kernel holds
    it, but does not try again, and the node reads past the kernel's cache when it starts."""
    places = strike.random.choice((leader_of, a_follower_of))(strike)
    if not places or not strike.claim(places):
        return
    place = places[0]
    fault = strike.hurt("EIO", places)
    place.is_wanted = False
    operation = strike.random.choice(("write", "sync"))
    rule = place.layer.fail(operation, errno.EIO, "segment-*", times=1)
    yield strike.draw((1, 3))
    rule.disarm()
    if place.running():  # nothing was written meanwhile
        place.is_wanted = True
    else:
        place.note(place.layer.power_loss(strike.random.getrandbits(32)))
        restart(strike, places)
    strike.healed(fault)


# ---- Clocks.


@nemesis("wall-jump", "wall")
def wall_jump(strike):
    """The wall clock of some nodes jumps, for years sometimes. It must change nothing at all, so nobody is excused."""
    voters = strike.world.voters()
    places = strike.random.sample(voters, strike.random.randint(1, len(voters)))
    seconds = strike.random.choice((-3e8, -86400, -60, -1, 1, 60, 86400, 3e8))
    strike.tell("wall clock %+.0f s" % seconds, places)
    for place in places:
        place.wall.jump(seconds)
    yield strike.draw((0.5, 3), (3, 8))
    for place in places:
        place.wall.back()


@nemesis("wall-strobe", "wall")
def wall_strobe(strike):
    places = [strike.random.choice(strike.world.voters())]
    strike.tell("wall clock strobes", places)
    end = time.monotonic() + strike.random.uniform(1, 6)
    while time.monotonic() < end:
        places[0].wall.jump(strike.random.uniform(-3600, 3600))
        yield 0.01 + 0.1 * strike.random.random()
    places[0].wall.back()


# ---- Members.


@nemesis("transfer", "process")
def transfer(strike):
    """Leadership is handed over: nobody may lose anything, so no place is excused."""
    leader, others = strike.world.leader(), None
    if leader is not None:
        others = [place for place in strike.world.voters() if place is not leader and place.running()]
    if not others:
        return
    fault = strike.hurt("transfer", [])
    leader.ask("POST", "/v1/leader/transfer", {"node": strike.random.choice(others).id})
    yield strike.draw((0.2, 1))
    strike.healed(fault)


@nemesis("replace", "process")
def replace(strike):
    """A node loses its disk; another one with a new id takes its place."""
    places = [strike.random.choice(strike.world.voters())]
    if not strike.claim_members() or not strike.claim(places):
        return
    place, old = places[0], places[0].id
    fault = strike.hurt("replaced", places)
    place.kill()
    yield strike.draw((0.1, 1))
    strike.until(lambda: strike.world.join(place))
    strike.until(lambda: strike.world.change("POST", "/v1/members/%d/replace" % old,
                                             {"node": place.id, "address": place.peer_text}))  # fmt: skip
    strike.wait_ready(places)
    strike.healed(fault)


@nemesis("grow-shrink", "process")
def grow_shrink(strike):
    """A further node is added, works for a while, and is removed again."""
    world = strike.world
    if not strike.claim_members():
        return
    number = max(world.members) + 1
    place = world.places.get(number) or world.add_place(number)
    fault = strike.hurt("one more", [place])
    strike.until(lambda: world.join(place))
    strike.until(lambda: world.change("POST", "/v1/members", {"node": place.id, "address": place.peer_text}))
    if strike.random.random() < 0.5:
        strike.until(lambda: world.change("POST", "/v1/members/%d/promote" % place.id))
    strike.wait_ready([place])
    yield strike.draw((0.5, 4))
    place.is_wanted = False  # a node that was removed ends by itself
    strike.until(lambda: world.change("POST", "/v1/members/%d/remove" % place.id))
    place.kill()
    strike.healed(fault)
