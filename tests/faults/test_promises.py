"""Each promise of the layer by itself: what a power loss undoes and what not, errors on command, and what is refused."""

import errno
import os
import re
import subprocess
import sys
import tempfile
import time

import faultcase
import lqfaults
import powerloss

OPEN = "fd = os.open('f', os.O_RDWR | os.O_CREAT, 0o600)\n"
SYNC_DIR = "d = os.open('.', os.O_RDONLY); os.fsync(d)\n"


class ContentsTest(faultcase.FaultCase):
    def lose(self, code, mode="nothing"):
        self.run_code(code)
        return self.layer.power_loss(self.random.getrandbits(32), mode)

    def test_unsynced_sectors_go_one_by_one(self):
        self.write("f", b"a" * 512 * 40)
        self.lose(OPEN + "os.pwrite(fd, b'b' * 512 * 40, 0)", "each")
        data = self.read("f")
        sectors = {data[at : at + 512] for at in range(0, len(data), 512)}
        self.assertEqual(sectors, {b"a" * 512, b"b" * 512})

    def test_a_sector_may_stop_at_any_version(self):
        seen = set()
        for _ in range(40):
            self.write("f", b"0" * 512)
            self.lose(OPEN + "for c in b'123': os.pwrite(fd, bytes([c]) * 300, 100)", "each")
            seen.add(self.read("f")[200:201])
        self.assertEqual(seen, set((b"0", b"1", b"2", b"3")))

    def test_each_sync_keeps(self):
        for sync in ("os.fsync(fd)", "os.fdatasync(fd)", "os.sync()"):
            self.write("f", b"a" * 2000)
            self.lose(OPEN + "os.pwrite(fd, b'b' * 3000, 500)\n" + sync)
            self.assertEqual(self.read("f"), b"a" * 500 + b"b" * 3000, sync)

    def test_dsync_keeps_its_sectors_only(self):
        self.write("f", b"a" * 4096)
        self.lose(
            OPEN + "os.pwrite(fd, b'b' * 4096, 0)\n"
            "os.pwritev(fd, [b'c' * 100, b'd' * 412], 1024, os.RWF_DSYNC)"
        )
        self.assertEqual(self.read("f"), b"a" * 1024 + b"c" * 100 + b"d" * 412 + b"a" * 2560)

    def test_o_dsync_keeps(self):
        self.write("f", b"a" * 1024)
        self.lose("fd = os.open('f', os.O_WRONLY | os.O_DSYNC); os.write(fd, b'b' * 512)")
        self.assertEqual(self.read("f"), b"b" * 512 + b"a" * 512)

    def test_a_sync_keeps_nothing_written_after_it(self):
        self.write("f", b"a" * 512)
        self.lose(OPEN + "os.pwrite(fd, b'b' * 512, 0); os.fsync(fd); os.pwrite(fd, b'c' * 512, 0)")
        self.assertEqual(self.read("f"), b"b" * 512)

    def test_a_sync_of_another_file_keeps_nothing(self):
        self.write("f", b"a")
        self.write("g", b"a")
        self.lose(OPEN + "os.pwrite(fd, b'b', 0); g = os.open('g', os.O_RDWR); os.write(g, b'b'); os.fsync(g)")
        self.assertEqual((self.read("f"), self.read("g")), (b"a", b"b"))

    def test_growth_and_cuts_go(self):
        self.write("f", b"a" * 1000)
        for code in (
            "os.pwrite(fd, b'b' * 900, 700)",
            "os.ftruncate(fd, 5000)",
            "os.ftruncate(fd, 10)",
            "os.truncate('f', 0); os.write(fd, b'b' * 70)",
            "os.posix_fallocate(fd, 0, 9000)",
            "g = os.open('f', os.O_WRONLY | os.O_TRUNC); os.write(g, b'x')",
            "g = os.open('f', os.O_WRONLY | os.O_APPEND); os.write(g, b'x'); os.writev(g, [b'y', b'z'])",
            "open('f', 'r+b', buffering=0).write(b'bbb')",
        ):
            self.lose(OPEN + code)
            self.assertEqual(self.read("f"), b"a" * 1000, code)

    def test_a_kept_cut_stays_within_its_size(self):
        self.write("f", b"a" * 5000)
        for _ in range(10):
            self.lose(OPEN + "os.ftruncate(fd, 700)", "each")
            self.assertIn(len(self.read("f")), (700, 5000))
            self.write("f", b"a" * 5000)

    def test_duplicates_and_inherited_descriptors_are_seen(self):
        self.write("f", b"a" * 10)
        self.lose(OPEN + "e = os.dup(fd); os.close(fd); os.pwrite(e, b'b', 0)\nif not os.fork(): os.pwrite(e, b'c', 1)")
        self.assertEqual(self.read("f"), b"a" * 10)

    def test_a_restarted_process_does_not_make_it_durable(self):
        self.write("f", b"a" * 10)
        self.run_code(OPEN + "os.pwrite(fd, b'b' * 10, 0)")
        self.assertEqual(self.read("f"), b"b" * 10)
        self.lose(OPEN)
        self.assertEqual(self.read("f"), b"a" * 10)

    def test_but_its_sync_does(self):
        self.write("f", b"a" * 10)
        self.run_code(OPEN + "os.pwrite(fd, b'b' * 10, 0)")
        self.lose(OPEN + "os.fsync(fd)")
        self.assertEqual(self.read("f"), b"b" * 10)

    def test_the_same_seed_gives_the_same(self):
        found = set()
        for _ in range(3):
            self.write("f", b"a" * 512 * 64)
            self.run_code(OPEN + "os.pwrite(fd, b'b' * 512 * 64, 0)")
            self.layer.power_loss(4711, "each")
            found.add(self.read("f"))
        self.assertEqual(len(found), 1)

    def test_forgetting_makes_it_durable(self):
        self.write("f", b"a" * 10)
        self.run_code(OPEN + "os.pwrite(fd, b'b' * 10, 0); os.rename('f', 'g')")
        self.layer.forget()
        self.assertIn("nothing was ever written", self.layer.power_loss(1, "nothing"))
        self.assertEqual((self.names(), self.read("g")), (["g"], b"b" * 10))

    def test_a_running_process_is_left_alone(self):
        process = self.start(OPEN + "os.write(fd, b'x'); print('ready', flush=True)\nwhile True: pass")
        self.assertEqual(process.stdout.readline(), "ready\n")
        with self.assertRaises(powerloss.Trouble):
            self.layer.power_loss(1)


class RoomTest(faultcase.FaultCase):
    def test_what_was_done_is_cleared_away(self):
        """A book that is never empty, since one file is never synced, still does not grow without end."""
        self.write("f", b"a" * 512)
        self.run_code(
            OPEN + "g = os.open('f', os.O_RDWR)\n"
            "fd = os.open('g', os.O_RDWR | os.O_CREAT); os.write(fd, b'x' * 4096); os.pwrite(g, b'b', 0)\n"
            "for i in range(40000): os.pwritev(fd, [b'%05d' % i * 800], 0, os.RWF_DSYNC)"
        )
        # A page of blocks that were touched: of 40,000 x 4 KiB only what lay there at one time.
        used = os.stat(os.path.join(self.layer.state, "book")).st_blocks * 512
        self.assertLess(used, 80 << 20)
        self.layer.power_loss(1, "nothing")
        self.assertEqual(self.read("f"), b"a" * 512)


class NamesTest(faultcase.FaultCase):
    def lose(self, code, mode="nothing"):
        self.run_code(code)
        return self.layer.power_loss(self.random.getrandbits(32), mode)

    def test_a_new_file_goes_even_if_its_contents_were_synced(self):
        self.lose(OPEN + "os.write(fd, b'x'); os.fsync(fd)")
        self.assertEqual(self.names(), [])
        self.lose(OPEN + "os.write(fd, b'x'); os.fsync(fd)\n" + SYNC_DIR)
        self.assertEqual(self.names(), ["f"])
        self.assertEqual(self.read("f"), b"x")

    def test_a_synced_name_does_not_keep_contents(self):
        self.lose(OPEN + "os.write(fd, b'x' * 600)\n" + SYNC_DIR)
        self.assertEqual(self.read("f"), b"")

    def test_a_rename_goes_back(self):
        self.write("a", b"new")
        self.write("b", b"old")
        self.lose("os.rename('a', 'b')")
        self.assertEqual((self.read("a"), self.read("b")), (b"new", b"old"))
        self.lose("os.rename('a', 'b')\n" + SYNC_DIR)
        self.assertEqual((self.names(), self.read("b")), (["b"], b"new"))

    def test_a_rename_can_keep_and_lose_the_contents(self):
        seen = set()
        for _ in range(40):
            self.write("b", b"old")
            self.lose("fd = os.open('a', os.O_WRONLY | os.O_CREAT); os.write(fd, b'new'); os.rename('a', 'b')", "each")
            seen.add(self.read("b"))
            for name in self.names():
                os.unlink(os.path.join(self.dir, name))
        self.assertLessEqual({b"old", b""}, seen)

    def test_a_removed_file_comes_back_with_its_contents(self):
        self.write("f", b"a" * 1000)
        self.lose(OPEN + "os.pwrite(fd, b'b', 0); os.unlink('f'); os.pwrite(fd, b'c', 1)")
        self.assertEqual(self.read("f"), b"a" * 1000)
        self.lose("os.unlink('f')\n" + SYNC_DIR)
        self.assertEqual(self.names(), [])

    def test_a_name_used_again(self):
        self.write("f", b"first")
        self.lose("for i in range(5):\n os.unlink('f'); fd = os.open('f', os.O_WRONLY | os.O_CREAT); os.write(fd, b'x')")
        self.assertEqual((self.names(), self.read("f")), (["f"], b"first"))

    def test_random_histories_leave_one_of_their_states(self):
        """Synced names never suffer, and one file per name is there at most; whatever mix is kept."""
        code = (
            "import random; r = random.Random(sys.argv[1])\n"
            "os.close(os.open('safe', os.O_CREAT)); " + SYNC_DIR + "names = 'abcd'\n"
            "for i in range(30):\n"
            " x, y = r.choice(names), r.choice(names); kind = r.randrange(4)\n"
            " try:\n"
            "  if kind == 0: fd = os.open(x, os.O_WRONLY | os.O_CREAT | os.O_TRUNC); os.write(fd, b'%d' % i); os.close(fd)\n"
            "  elif kind == 1: os.rename(x, y)\n"
            "  elif kind == 2: os.unlink(x)\n"
            "  else: os.link(x, y)\n"
            " except OSError: pass\n"
        )
        for seed in range(25):
            self.run_code(code, str(seed))
            self.layer.power_loss(seed, "each")
            self.assertIn("safe", self.names())
            for name in self.names():
                os.unlink(os.path.join(self.dir, name))
            self.assertFalse(os.path.exists(os.path.join(self.layer.state, "book")))

    def test_directories(self):
        self.lose("os.mkdir('d'); fd = os.open('d/f', os.O_CREAT | os.O_WRONLY); os.fsync(os.open('d', os.O_RDONLY))")
        self.assertEqual(self.names(), [])
        self.lose(
            "os.mkdir('d/'); fd = os.open('d/f', os.O_CREAT | os.O_WRONLY); os.fsync(os.open('d', os.O_RDONLY))\n"
            + SYNC_DIR
        )
        self.assertEqual(os.listdir(os.path.join(self.dir, "d")), ["f"])

    def test_a_way_around_is_no_way_around(self):
        self.write("f", b"a")
        other = tempfile.mkdtemp(dir=os.path.dirname(self.dir))
        os.symlink(self.dir, os.path.join(other, "link"))
        self.lose("fd = os.open('%s/link/../data/./f', os.O_WRONLY); os.write(fd, b'b')" % other)
        self.lose("fd = os.open('%s/link/f', os.O_WRONLY); os.write(fd, b'b')" % other)
        self.assertEqual(self.read("f"), b"a")

    def test_files_outside_are_left_alone(self):
        outside = os.path.join(os.path.dirname(self.dir), "outside")
        self.lose("fd = os.open('../outside', os.O_WRONLY | os.O_CREAT); os.write(fd, b'x')\n" + OPEN)
        self.assertEqual(os.path.getsize(outside), 1)


class ErrorsTest(faultcase.FaultCase):
    def errors(self, code):
        """Runs lines, each of which prints the errno of its failure, or 0."""
        wrapped = "def t(f):\n try: r = f(); print(0 if r is None else r)\n except OSError as e: print(-e.errno)\n"
        return [int(word) for word in self.run_code(wrapped + OPEN + code).split()]

    def test_a_write_fails_once_after_some(self):
        rule = self.layer.fail("write", errno.EIO, "f", times=1, skip=1)
        self.assertEqual(self.errors("for i in range(3): t(lambda: os.write(fd, b'xy'))"), [2, -errno.EIO, 2])
        self.assertEqual((rule.hits, self.read("f")), (1, b"xyxy"))

    def test_patterns_and_lasting_errors(self):
        rule = self.layer.fail("write", errno.EIO, "seg-*")
        code = "g = os.open('seg-1', os.O_WRONLY | os.O_CREAT)\n" + "t(lambda: os.write(g, b'x'))\n" * 2
        self.assertEqual(self.errors(code + "t(lambda: os.write(fd, b'x'))"), [-errno.EIO, -errno.EIO, 1])
        rule.disarm()
        self.assertEqual(self.errors(code), [1, 1])

    def test_other_operations(self):
        self.layer.fail("create", errno.EIO, "new")
        self.layer.fail("rename", errno.EIO, "f2")
        self.layer.fail("unlink", errno.EIO, "f")
        self.layer.fail("sync", errno.EIO, ".")
        code = "t(lambda: os.close(os.open('new', os.O_CREAT))); t(lambda: os.mkdir('new'))\n"
        code += "t(lambda: os.rename('f', 'f2')); t(lambda: os.unlink('f'))\n"
        code += "t(lambda: os.fsync(os.open('.', os.O_RDONLY))); t(lambda: os.fsync(fd))"
        self.assertEqual(self.errors(code), [-errno.EIO] * 5 + [0])

    def test_a_failed_sync_drops_for_good(self):
        self.write("f", b"a" * 1024)
        self.layer.fail("sync", errno.EIO, "f", times=1)
        code = "os.pwrite(fd, b'b' * 1024, 0); t(lambda: os.fsync(fd)); t(lambda: os.fsync(fd))\n"
        self.assertEqual(self.errors(code + "os.pwrite(fd, b'c' * 512, 512); t(lambda: os.fsync(fd))"), [-errno.EIO, 0, 0])
        self.layer.power_loss(1, "everything")
        self.assertEqual(self.read("f"), b"a" * 512 + b"c" * 512)

    def test_a_failed_dsync_drops_too(self):
        self.write("f", b"a" * 512)
        self.layer.fail("sync", errno.EIO, "f", times=1)
        code = "t(lambda: os.pwritev(fd, [b'b' * 512], 0, os.RWF_DSYNC)); t(lambda: os.fsync(fd))"
        self.assertEqual(self.errors(code), [-errno.EIO, 0])
        self.layer.power_loss(1, "everything")
        self.assertEqual(self.read("f"), b"a" * 512)

    def test_a_full_disk_lets_allocated_ranges_be_written(self):
        self.layer.fail("write allocate create", errno.ENOSPC, "*", skip=0)
        self.write("f", b"a" * 8192)
        code = "t(lambda: os.pwrite(fd, b'b' * 4096, 0)); t(lambda: os.pwrite(fd, b'b' * 4096, 8192))\n"
        code += "t(lambda: os.pwrite(fd, b'b' * 4096, 6144)); t(lambda: os.posix_fallocate(fd, 0, 9000))\n"
        code += "t(lambda: os.ftruncate(fd, 9000)); t(lambda: os.ftruncate(fd, 100)); t(lambda: os.open('new', os.O_CREAT))"
        full = -errno.ENOSPC
        self.assertEqual(self.errors(code), [4096, full, 2048, full, full, 0, full])

    def test_a_stall_of_some_time(self):
        self.layer.stall("sync", "f", ms=150, times=1)
        out = self.run_code(
            "import time\n" + OPEN + "for i in range(2):\n b = time.monotonic(); os.fsync(fd); print(time.monotonic() - b)"
        )
        slow, fast = map(float, out.split())
        self.assertGreaterEqual(slow, 0.15)
        self.assertLess(fast, 0.15)

    def test_a_stall_until_released_stops_nobody_else(self):
        rule = self.layer.stall("write sync", "f")
        process = self.start(
            OPEN + "import threading\n"
            "def slow(): os.write(fd, b'x'); os.fsync(fd); print('slow', flush=True)\n"
            "threading.Thread(target=slow).start()\n"
            "g = os.open('g', os.O_WRONLY | os.O_CREAT); os.write(g, b'x'); os.fsync(g); print('fast', flush=True)"
        )
        self.assertEqual(process.stdout.readline(), "fast\n")
        deadline = time.monotonic() + faultcase.SECONDS
        while rule.hits == 0 and time.monotonic() < deadline:
            time.sleep(0.001)
        self.assertEqual(rule.hits, 1)
        self.assertIsNone(process.poll())
        rule.disarm()
        self.assertEqual(process.stdout.readline(), "slow\n")

    def test_a_bit_is_turned_over(self):
        self.write("f", bytes(100))
        offset, bit = self.layer.flip_bit("f", self.random, 50, 60)
        data = self.read("f")
        self.assertTrue(50 <= offset < 60)
        self.assertEqual((data[offset], sum(data)), (1 << bit, 1 << bit))
        lqfaults.flip_bit(os.path.join(self.dir, "f"), offset, bit)
        self.assertEqual(self.read("f"), bytes(100))


class RefusedTest(faultcase.FaultCase):
    def test_what_would_go_unseen_ends_the_process(self):
        for code in (
            OPEN + "os.ftruncate(fd, 4096); mmap.mmap(fd, 4096)",
            "import ctypes; ctypes.CDLL(None).fopen(b'f', b'w')",
            "import ctypes\n" + OPEN + "ctypes.CDLL(None).dprintf(fd, b'x')",
            OPEN + "g = os.open('/dev/zero', os.O_RDONLY); os.sendfile(fd, g, 0, 10)",
            OPEN + "os.copy_file_range(fd, fd, 10, 0, 100)",
            "os.symlink('a', 'b')",
            "os.mkdir('d'); os.rmdir('d')",
            "os.mkdir('d'); os.rename('d', 'e')",
            OPEN + "os.rename('f', '../f')",
            "os.open('.', os.O_TMPFILE | os.O_RDWR)",
            "import ctypes; ctypes.CDLL(None).mkstemp(ctypes.create_string_buffer(b'fXXXXXX'))",
        ):
            with self.subTest(code):
                self.run_refused(code)
                self.layer.power_loss(1, "nothing")

    def test_system_calls_by_number_are_followed(self):
        self.write("f", b"a")
        number = {"x86_64": 18, "aarch64": 68}[os.uname().machine]  # pwrite64
        self.run_code("import ctypes\n" + OPEN + "ctypes.CDLL(None).syscall(%d, fd, b'b', 1, 0)" % number)
        self.assertEqual(self.read("f"), b"b")
        self.layer.power_loss(1, "nothing")
        self.assertEqual(self.read("f"), b"a")

    def test_two_processes_are_refused(self):
        process = self.start(OPEN + "os.write(fd, b'x'); print('ready', flush=True)\nwhile True: pass")
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.run_refused(OPEN + "os.write(fd, b'x')")
        process.kill()

    def test_reading_is_welcome(self):
        self.write("f", b"abc")
        self.assertEqual(self.run_code("print(open('f').read()); print(os.listdir('.'))"), "abc\n['f']\n")


class OnARealDiskTest(ContentsTest):
    """The same where syncs are real, and full disks know about extents."""

    base = None
    test_a_sector_may_stop_at_any_version = None  # many rounds, and the disk has no part in it

    def test_holes_need_room(self):
        self.layer.fail("write", errno.ENOSPC)
        out = self.run_code(
            OPEN + "os.ftruncate(fd, 1 << 20)\n"
            "try: os.pwrite(fd, b'x', 8192); print(0)\nexcept OSError as e: print(e.errno)\n"
            "os.posix_fallocate(fd, 0, 1 << 20); print(os.pwrite(fd, b'x', 8192))"
        )
        self.assertEqual(out.split(), [str(errno.ENOSPC), "1"])


class CommandTest(faultcase.FaultCase):
    def test_the_command(self):
        self.write("f", b"a")
        self.run_code(OPEN + "os.write(fd, b'b')")
        command = [sys.executable, "-B", powerloss.__file__, self.dir, self.layer.state, "--mode", "nothing"]
        out = subprocess.run(command, check=True, capture_output=True, text=True, timeout=faultcase.SECONDS).stdout
        self.assertTrue(re.match(r"seed \d+: nothing: undone 1 of 1 sectors", out), out)
        self.assertEqual(self.read("f"), b"a")
