"""The network of a run, inside of namespaces of its own (inside.py): one for each node and one for the clients, joined by a
bridge. What goes wrong on it is silent, as on a real one: packets are lost or late, and nobody is told.

    net = Net()
    net.add("n1", 1)                  # 10.77.0.1
    Popen(net.prefix("n1") + command)
    net.cut("n1", "n2"); net.join("n1", "n2")
    net.lose("n1", 20); net.squeeze("n1", 256); net.wire("n1", delay_ms=30); net.heal("n1")

All may be called from several threads. A cut is counted: two of the same pair need two joins.
"""

import collections
import os
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
RUNNER = 254  # the number of whoever runs all this
TABLE, BRIDGE = "lq_jepsen", "br-lq"
WIRE_S = 10.0

# Each line is tried in namespaces that end with it; what fails is what the machine lacks.
TRIALS = {
    "namespaces": "mount -t tmpfs none /run && ip netns add one && ip link add dev br-one type bridge && ip link add dev v-one type veth peer name v-two",
    "nftables": "nft add table bridge t && nft 'add chain bridge t c { type filter hook forward priority 0; }' && "
    "nft add rule bridge t c numgen random mod 100 '<' 5 drop",
    "tbf": "ip link set lo up && tc qdisc add dev lo root tbf rate 64kbit burst 4kb latency 400ms",
    "tap": "ip tuntap add dev t-one mode tap && command -v ethtool",
}


class NetTrouble(Exception):
    """A command that sets the network up failed."""


def run(*command, feed=None):
    done = subprocess.run(command, input=feed, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NetTrouble("%s: %s" % (" ".join(command), done.stderr.strip()))
    return done.stdout


class Net:
    def __init__(self):
        links = [line.split(":")[1].strip() for line in run("ip", "-o", "link").splitlines()]
        if links != ["lo"]:
            raise NetTrouble("this is not a network of our own: it has %s" % ", ".join(links))
        self.lock = threading.RLock()
        self.numbers = {}  # name -> number
        self.cuts = collections.Counter()  # (from, to) -> how often
        self.losses = {}  # name -> percent
        self.wires = {}  # name -> process
        self.squeezed = set()
        run("mount", "-t", "tmpfs", "none", "/run")
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "dev", BRIDGE, "type", "bridge")
        run("ip", "address", "add", address_of(RUNNER) + "/24", "dev", BRIDGE)  # who runs this sees everybody, always
        run("ip", "link", "set", BRIDGE, "up")
        self._load()

    @staticmethod
    def lacks():
        """What of TRIALS this machine can't do."""
        missing = set()
        for word, trial in TRIALS.items():
            command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", trial]
            try:
                is_there = subprocess.run(command, capture_output=True, check=False, timeout=20).returncode == 0
            except (FileNotFoundError, subprocess.TimeoutExpired):
                is_there = False
            if not is_there:
                missing.add(word)
        return missing

    # Namespaces

    def add(self, name, number):
        """A namespace with the address 10.77.0.NUMBER."""
        with self.lock:
            run("ip", "netns", "add", name)
            run("ip", "link", "add", "dev", "v-" + name, "type", "veth", "peer", "name", "eth0", "netns", name)
            self._inside(name, "ip", "link", "set", "eth0", "address", mac_of(number))
            # Frames go over a wire of ours, too: they must be whole, with their checksums.
            for switch in ("tx", "sg", "tso", "gso", "gro"):
                subprocess.run([*self.prefix(name), "ethtool", "-K", "eth0", switch, "off"], capture_output=True, check=False)
                subprocess.run(["ethtool", "-K", "v-" + name, switch, "off"], capture_output=True, check=False)
            self._inside(name, "ip", "address", "add", address_of(number) + "/24", "dev", "eth0")
            self._inside(name, "ip", "link", "set", "lo", "up")
            self._inside(name, "ip", "link", "set", "eth0", "up")
            run("ip", "link", "set", "v-" + name, "master", BRIDGE, "up")
            for other, other_number in self.numbers.items():  # so that nobody has to ask who is where
                self._know(name, other_number)
                self._know(other, number)
            self.numbers[name] = number

    def prefix(self, name):
        """What to put before a command: it then runs there, with the same pid."""
        return ["nsenter", "--net=/run/netns/" + name]

    def _inside(self, name, *command):
        return run(*self.prefix(name), *command)

    def _know(self, name, number):
        self._inside(name, "ip", "neigh", "replace", address_of(number), "lladdr", mac_of(number), "dev", "eth0", "nud", "permanent")

    # Lost packets

    def cut(self, a, b):
        """Packets from a to b are lost."""
        with self.lock:
            self.cuts[a, b] += 1
            self._load()

    def join(self, a, b):
        with self.lock:
            self.cuts[a, b] = max(0, self.cuts[a, b] - 1)
            self._load()

    def lose(self, name, percent):
        """Of the packets to and from it."""
        with self.lock:
            self.losses[name] = percent
            self._load()

    def _load(self):
        """All rules at once."""
        rules = ["iifname %s oifname %s drop" % (ports(a), ports(b)) for (a, b), count in self.cuts.items() if count]
        for name, percent in self.losses.items():
            for side in ("iifname", "oifname"):
                share = "" if percent >= 100 else "numgen random mod 100 < %d" % percent
                rules.append("%s %s %s drop" % (side, ports(name), share))
        lines = ["table bridge %s" % TABLE, "delete table bridge %s" % TABLE, "table bridge %s {" % TABLE,
                 "chain forward {", "type filter hook forward priority 0", *rules, "}", "}"]  # fmt: skip
        text = "\n".join(lines) + "\n"
        run("nft", "-f", "-", feed=text)

    # Slow packets

    def squeeze(self, name, kbit):
        """So much in each direction."""
        with self.lock:
            rate = ["root", "tbf", "rate", "%dkbit" % kbit, "burst", "4kb", "latency", "400ms"]
            run("tc", "qdisc", "replace", "dev", "v-" + name, *rate)
            self._inside(name, "tc", "qdisc", "replace", "dev", "eth0", *rate)
            self.squeezed.add(name)

    def wire(self, name, delay_ms=0.0, jitter_ms=0.0, reorder_percent=0, duplicate_percent=0):
        """Puts a bad cable (wire.py) between it and the bridge."""
        with self.lock:
            self._unwire(name)
            command = [sys.executable, "-B", os.path.join(HERE, "wire.py"), "v-" + name, "w-" + name]
            command += [str(value) for value in (delay_ms, jitter_ms, reorder_percent, duplicate_percent)]
            self.wires[name] = process = subprocess.Popen(command)
            end = time.monotonic() + WIRE_S
            while not os.path.exists("/sys/class/net/w-" + name) and not self._has_link("w-" + name):
                if process.poll() is not None or time.monotonic() > end:
                    raise NetTrouble("the wire of %s does not work" % name)
                time.sleep(0.01)
            run("ip", "link", "set", "v-" + name, "nomaster", "promisc", "on")
            run("ip", "link", "set", "w-" + name, "master", BRIDGE, "up")

    @staticmethod
    def _has_link(link):
        return subprocess.run(["ip", "link", "show", link], capture_output=True, check=False).returncode == 0

    def _unwire(self, name):
        process = self.wires.pop(name, None)
        if process is not None:
            process.terminate()
            process.wait()
            run("ip", "link", "set", "v-" + name, "promisc", "off", "master", BRIDGE)

    # All is well

    def heal(self, name=None):
        """What was done to one, but for cuts; or everything."""
        with self.lock:
            names = list(self.numbers) if name is None else [name]
            for each in names:
                self.losses.pop(each, None)
                self._unwire(each)
                if each in self.squeezed:
                    self.squeezed.remove(each)
                    run("tc", "qdisc", "delete", "dev", "v-" + each, "root")
                    self._inside(each, "tc", "qdisc", "delete", "dev", "eth0", "root")
            if name is None:
                self.cuts.clear()
            self._load()

    def end(self):
        with self.lock:
            for process in self.wires.values():
                process.kill()
                process.wait()
            self.wires.clear()
            for name in self.numbers:
                run("ip", "netns", "delete", name)
            self.numbers.clear()


def ports(name):
    """The port of the bridge where it is, with and without a wire in between."""
    return '{ "v-%s", "w-%s" }' % (name, name)


def address_of(number):
    return "10.77.0.%d" % number


def mac_of(number):
    return "02:00:00:4d:00:%02x" % number
