#!/usr/bin/python3
"""Turns a data directory, whose process was killed under the fault layer, into a state that a power loss could have left.

    powerloss.py DIR STATE [--seed N] [--mode random|nothing|everything]

STATE is the folder that the layer kept its book in (LQ_FAULTS_STATE). What was made durable stays. Of all else the mode
decides: `random` keeps or undoes each 512-byte sector, size and name by itself (and now and then all, or none, of
them), `nothing` undoes all, `everything` keeps all that could be kept. What a failed sync dropped is undone in every mode. The
book is empty afterwards. No process may use the directory; that is checked.
"""

import argparse
import collections
import fcntl
import os
import random
import shutil
import stat
import struct
import sys
import time

SECTOR = 512
PER_RECORD = 64
HEAD = struct.Struct("=8sQQ2QQ")
HEAD_BYTES = 4096
RECORD = struct.Struct("=II7Q")
DATA, SIZE, CREATE, UNLINK, RENAME, MKDIR, LINK = range(1, 8)

Record = collections.namedtuple("Record", "bytes kind seq ino live lost at zero grave payload")


class Trouble(Exception):
    """The power loss can't be played; nothing was changed."""


def live_records(book):
    """What is not durable, in the order in which it was done."""
    head = book.read(HEAD.size)
    if len(head) < HEAD.size:
        return []
    magic, arena_bytes, active, used0, used1, _ = HEAD.unpack(head)
    if magic != b"lqfault1":
        if magic == bytes(8):
            return []  # killed while the book was made
        raise Trouble("the book is of another version")
    book.seek(HEAD_BYTES + active * arena_bytes)
    arena = book.read((used0, used1)[active])
    records, at = [], 0
    while at < len(arena):
        fields = RECORD.unpack_from(arena, at)
        if fields[0] < RECORD.size:
            raise Trouble("the book is damaged at %d" % at)
        if fields[4]:
            records.append(Record(*fields, arena[at + RECORD.size : at + fields[0]]))
        at += fields[0]
    return records


def names_of(record):
    names = [os.fsdecode(name) for name in record.payload.split(b"\0")]
    return names[:2] if record.kind == RENAME else names[:1]


def inode_of(path):
    try:
        return os.lstat(path).st_ino
    except FileNotFoundError:
        return None


class PowerLoss:
    def __init__(self, directory, state, seed, mode="random"):
        self.directory = directory
        self.graves = os.path.join(state, "graves")
        self.random = random.Random(seed)
        if mode == "random":
            mode = self.random.choice(("each", "each", "each", "each", "each", "each", "nothing", "everything"))
        self.mode = mode
        self.undone = collections.Counter()
        self.kept = collections.Counter()

    def _undoes(self):
        return self.mode == "nothing" or (self.mode == "each" and self.random.random() < 0.5)

    def _how_many(self, lost):
        """Of a chain of changes, oldest first, how many of the newest are undone. `lost` tells of each whether a failed
        sync dropped it."""
        least = len(lost) - lost.index(True) if True in lost else 0
        if self.mode == "nothing":
            return len(lost)
        return self.random.randint(least, len(lost)) if self.mode == "each" else least

    def run(self, records):
        self._names([r for r in records if r.kind not in (DATA, SIZE)])
        paths = {}
        for folder, _, names in os.walk(self.directory):
            for name in names:
                path = os.path.join(folder, name)
                info = os.lstat(path)
                if stat.S_ISREG(info.st_mode):
                    paths[info.st_ino] = path
        changes = collections.defaultdict(list)
        for record in records:
            if record.kind in (DATA, SIZE) and record.ino in paths:
                changes[record.ino].append(record)
        for ino, its in sorted(changes.items()):
            self._file(paths[ino], its)

    # Names: whoever builds on a name that is undone is undone as well.

    def _names(self, records):
        tainted, undone = set(), []
        for record in records:
            names = names_of(record)
            half_durable = record.kind == RENAME and record.live != 3
            must = record.lost & record.live != 0 or any(self._is_tainted(name, tainted) for name in names)
            if must or (not half_durable and self._undoes()):
                tainted.update(names)
                undone.append(record)
        self.undone["names"] += len(undone)
        self.kept["names"] += len(records) - len(undone)
        for record in reversed(undone):
            self._undo_name(record, [os.path.join(self.directory, name) for name in names_of(record)])

    @staticmethod
    def _is_tainted(name, tainted):
        while name:
            if name in tainted:
                return True
            name = os.path.dirname(name)
        return False

    def _undo_name(self, record, paths):
        grave = os.path.join(self.graves, str(record.grave))
        there = inode_of(paths[0])
        if record.kind == MKDIR:
            shutil.rmtree(paths[0], ignore_errors=True)
        elif record.kind in (CREATE, LINK):
            if there is not None and record.ino in (0, there):
                os.unlink(paths[0])
        elif record.kind == UNLINK:
            if there is None:
                os.rename(grave, paths[0])
        elif inode_of(paths[1]) == record.ino:  # else the rename had not happened yet
            os.rename(paths[1], paths[0])
            if record.grave:
                os.rename(grave, paths[1])

    # Contents: every sector and the size have their own history.

    def _file(self, path, records):
        sizes = [r for r in records if r.kind == SIZE]
        with open(path, "r+b", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            back = self._how_many([r.lost & 1 != 0 for r in sizes])
            if back:
                size = sizes[-back].at
                file.truncate(size)
            self.undone["sizes"] += back
            self.kept["sizes"] += len(sizes) - back
            versions = collections.defaultdict(list)  # sector -> [(lost, old contents)]
            for record in records:
                if record.kind == DATA:
                    self._sectors(record, versions)
            for sector, chain in sorted(versions.items()):
                back = self._how_many([lost for lost, _ in chain])
                self.undone["sectors"] += back > 0
                self.kept["sectors"] += back == 0
                if back and sector * SECTOR < size:
                    file.seek(sector * SECTOR)
                    file.write(chain[-back][1][: size - sector * SECTOR])

    @staticmethod
    def _sectors(record, versions):
        at = 0
        for bit in range(PER_RECORD):
            old = bytes(SECTOR)
            if not record.zero >> bit & 1:
                old = record.payload[at : at + SECTOR]
                at += SECTOR
            if record.live >> bit & 1:
                versions[record.at + bit].append((bool(record.lost >> bit & 1), old))


def play(directory, state, seed=None, mode="random"):
    """The power loss; returns a line about it, with the seed that repeats it."""
    seed = time.time_ns() if seed is None else seed
    try:
        book = open(os.path.join(state, "book"), "rb")
    except FileNotFoundError:
        return "seed %d: nothing was ever written" % seed
    with book:
        try:
            fcntl.flock(book, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Trouble("a process still uses %s" % directory) from None
        loss = PowerLoss(directory, state, seed, mode)
        loss.run(live_records(book))
        os.unlink(book.name)
        shutil.rmtree(loss.graves, ignore_errors=True)
    what = ", ".join("%d of %d %s" % (loss.undone[w], loss.undone[w] + loss.kept[w], w) for w in ("sectors", "sizes", "names"))
    return "seed %d: %s: undone %s" % (seed, loss.mode, what)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir")
    parser.add_argument("state")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--mode", choices=("random", "nothing", "everything"), default="random")
    options = parser.parse_args()
    try:
        print(play(options.dir, options.state, options.seed, options.mode))
    except Trouble as trouble:
        sys.exit("powerloss: %s" % trouble)


if __name__ == "__main__":
    main()
