"""The fault layer in the hands of a test.

    layer = FaultLayer(directory, state)                     # state: a folder on the same file system
    process = subprocess.Popen(command, env=layer.environment())
    rule = layer.fail("write", errno.EIO, "segment-*")       # from now on; rule.hits, rule.disarm()
    layer.fail("sync", errno.EIO, times=1)                   # once
    layer.fail("write allocate", errno.ENOSPC)               # the disk is full: only what grows fails
    rule = layer.stall("sync", "segment-*")                  # until rule.disarm()
    layer.stall("sync", ms=200)                              # every sync takes 0.2 s longer
    layer.skip_syncs(True)                                   # as a program without its syncs
    process.kill(); process.wait()
    print(layer.power_loss(seed))                            # now the directory is as after a power loss
    layer.flip_bit("segment-...", random)                    # of a stopped process

Operations: write, sync (of files and directories; RWF_DSYNC counts as both), allocate, create, rename, unlink, open.
Patterns are of paths relative to the directory, "." is the directory itself. The library is the one named by the
environment variable LQ_FAULTS_LIB.
"""

import mmap
import os
import shutil
import struct

import powerloss

RULES = 16
RULE_BYTES = 128
CONTROL_BYTES = 4096
FOR_EVER = 0xFFFFFFFF
OPERATIONS = {"write": 1, "sync": 2, "allocate": 4, "create": 8, "rename": 16, "unlink": 32, "open": 64}
_RULE = struct.Struct("=IIiIiiQ96s")
assert _RULE.size == RULE_BYTES


class Rule:
    """One command that is in force until disarm()."""

    def __init__(self, page, number):
        self._page = page
        self._at = (number + 1) * RULE_BYTES

    @property
    def armed(self):
        return struct.unpack_from("=I", self._page, self._at)[0] != 0

    @property
    def hits(self):
        """How often it struck; a stall counts when it begins."""
        return struct.unpack_from("=Q", self._page, self._at + 24)[0]

    def disarm(self):
        """Ends it; whoever it stalls goes on."""
        struct.pack_into("=I", self._page, self._at, 0)

    def arm(self, fields):
        _RULE.pack_into(self._page, self._at, 0, *fields)
        struct.pack_into("=I", self._page, self._at, 1)  # last: it is read while we write


class FaultLayer:
    def __init__(self, directory, state):
        self.directory = os.path.abspath(directory)
        self.state = os.path.abspath(state)
        os.makedirs(self.state, exist_ok=True)
        with open(os.path.join(self.state, "control"), "a+b") as control:
            control.truncate(CONTROL_BYTES)
            self._page = mmap.mmap(control.fileno(), CONTROL_BYTES)
        self._rules = [Rule(self._page, number) for number in range(RULES)]

    def environment(self, base=None):
        library = os.path.abspath(os.environ["LQ_FAULTS_LIB"])
        if not os.path.exists(library):
            raise FileNotFoundError(library)
        kept = dict(os.environ if base is None else base)
        before = kept.get("LD_PRELOAD")
        kept["LD_PRELOAD"] = library if not before else before + ":" + library
        return {**kept, "LQ_FAULTS_DIR": self.directory, "LQ_FAULTS_STATE": self.state}

    def close(self):
        self._page.close()

    def _arm(self, operations, fields):
        ops = sum(OPERATIONS[name] for name in operations.split())
        for rule in self._rules:
            if not rule.armed:
                rule.arm((ops, *fields))
                return rule
        raise RuntimeError("all %d rules are in use" % RULES)

    def fail(self, operations, error, pattern="*", *, times=-1, skip=0, ms=0):
        """Operations fail with this errno: all, or `times` of them after the next `skip`; each takes `ms` before."""
        return self._arm(operations, (error, ms, skip, times, 0, pattern.encode()))

    def stall(self, operations, pattern="*", *, ms=FOR_EVER, times=-1, skip=0):
        """Operations take `ms` longer, or hang until the rule is disarmed."""
        return self._arm(operations, (0, ms, skip, times, 0, pattern.encode()))

    def heal(self):
        """Ends all rules."""
        for rule in self._rules:
            rule.disarm()

    def skip_syncs(self, skips):
        """Syncs return at once and make nothing durable."""
        struct.pack_into("=I", self._page, 0, int(skips))

    def power_loss(self, seed=None, mode="random"):
        """After the process was killed; see powerloss.py. Returns a line to print."""
        return powerloss.play(self.directory, self.state, seed, mode)

    def forget(self):
        """What is in the directory now counts as durable. Needed when files there were changed past the layer, since the
        number of a file that is gone may be used again. No process may be running."""
        shutil.rmtree(os.path.join(self.state, "graves"), ignore_errors=True)
        if os.path.exists(os.path.join(self.state, "book")):
            os.unlink(os.path.join(self.state, "book"))

    def flip_bit(self, name, rng, first=0, end=None):
        """Turns a random bit of a file over, of the bytes from first to end; returns (offset, bit)."""
        path = os.path.join(self.directory, name)
        end = os.path.getsize(path) if end is None else end
        offset, bit = rng.randrange(first, end), rng.randrange(8)
        flip_bit(path, offset, bit)
        return offset, bit


def flip_bit(path, offset, bit):
    """Turns one bit of a file over."""
    with open(path, "r+b", buffering=0) as file:
        file.seek(offset)
        old = file.read(1)
        if not old:
            raise ValueError("%s has no byte %d" % (path, offset))
        file.seek(offset)
        file.write(bytes((old[0] ^ 1 << bit,)))
