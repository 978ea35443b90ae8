"""Error frames 1 to 5: each cause, on each request that can have it; what comes before and after.

Frame 6 is in test_shutdown.py.
"""

import time

import lqwire
from lqcase import SLACK, LoquetCase, sleep_until

NUMBER = b"\x00\x00\x00\x00\x00\x00\x00\x2a"

# Each request up to its key.
HEADERS = {
    "A": b"A\x00\x1e" + NUMBER,
    "R": b"R" + NUMBER,
    "K": b"K\x1e" + NUMBER,
    "C": b"C" + NUMBER,
}

FAULTY = {
    lqwire.ERROR_UNKNOWN_OP: b"Z",
    lqwire.ERROR_EMPTY_KEY: b"A\x00\x1e" + NUMBER + b"\n",
    lqwire.ERROR_KEY_TOO_LONG: b"A\x00\x1e" + NUMBER + b"x" * 1025,
    lqwire.ERROR_KEY_NOT_UTF8: b"A\x00\x1e" + NUMBER + b"\xff\n",
    lqwire.ERROR_LEASE_ZERO: b"A\x00\x00" + NUMBER + b"key\n",
}


class Causes(LoquetCase):
    any_node = True

    def assertError(self, data, code):
        c = self.connect()
        c.send(data)
        self.assertErrorEnd(c, code)
        c.close()

    def test_unknown_op(self):
        for byte in range(256):
            if byte not in b"ARKCP":
                with self.subTest(byte=byte):
                    self.assertError(bytes((byte,)), lqwire.ERROR_UNKNOWN_OP)

    def test_unknown_op_with_a_frame_behind_it(self):
        for op in (b"a", b"T", b"B", b"N", b"E", b"\n", b"\0", b"GET / HTTP/1.1\r\n\r\n"[:1]):
            with self.subTest(op):
                self.assertError(op + NUMBER + b"key\n", lqwire.ERROR_UNKNOWN_OP)
        self.assertError(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", lqwire.ERROR_UNKNOWN_OP)
        self.assertError(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", lqwire.ERROR_UNKNOWN_OP)

    def test_empty_key(self):
        for op, header in HEADERS.items():
            with self.subTest(op):
                self.assertError(header + b"\n", lqwire.ERROR_EMPTY_KEY)

    def test_key_too_long_is_told_before_its_line_feed(self):
        for op, header in HEADERS.items():
            with self.subTest(op):
                self.assertError(header + b"x" * 1025, lqwire.ERROR_KEY_TOO_LONG)

    def test_key_too_long_with_its_line_feed(self):
        for op, header in HEADERS.items():
            with self.subTest(op):
                self.assertError(header + b"x" * 1025 + b"\n", lqwire.ERROR_KEY_TOO_LONG)

    def test_key_far_too_long(self):
        self.assertError(HEADERS["A"] + b"x" * 300000, lqwire.ERROR_KEY_TOO_LONG)
        self.assertError(HEADERS["R"] + "\u00e9".encode() * 50000 + b"\n", lqwire.ERROR_KEY_TOO_LONG)

    def test_the_1025th_byte_decides(self):
        c = self.connect()
        c.send(HEADERS["A"] + b"x" * 1024)
        self.assertIsNone(c.try_receive(0.2), "1024 bytes are a legal key still to be ended")
        self.assertIsNone(c.ended)
        c.send(b"x")
        self.assertErrorEnd(c, lqwire.ERROR_KEY_TOO_LONG)

    def test_1024_bytes_are_legal(self):
        c = self.connect()
        key = self.key().ljust(1024, b"x")
        c.send(b"A\x00\x1e" + NUMBER + key)
        self.assertIsNone(c.try_receive(0.1))
        c.send(b"\n")
        token = self.assertGrantedTo(c, key, 0x2A)
        self.assertEqual(c.renew(key, token), lqwire.renewed(key, token))
        self.assertHeld(c, key)
        self.assertReleased(c, key, token)
        c.send(lqwire.cancel_frame(key, 0x2A))
        self.assertQuiet(c)

    def test_not_utf8(self):
        for op, header in HEADERS.items():
            for key in (b"\xff", b"a\x80", b"\xc3", b"key\xc0\x80key"):
                with self.subTest(op=op, key=key):
                    self.assertError(header + key + b"\n", lqwire.ERROR_KEY_NOT_UTF8)

    def test_lease_zero(self):
        for data in (b"A\x00\x00" + NUMBER + b"key\n", b"A\xff\x00" + NUMBER + b"key\n", b"K\x00" + NUMBER + b"key\n"):
            with self.subTest(data):
                self.assertError(data, lqwire.ERROR_LEASE_ZERO)

    def test_lease_zero_changes_nothing(self):
        c, other = self.connect_many(2)
        key = self.key()
        token = self.grant(c, key)
        other.send(lqwire.renew_frame(key, token, 0))
        self.assertErrorEnd(other, lqwire.ERROR_LEASE_ZERO)
        self.assertHeld(c, key)
        free = self.key()
        other = self.connect()
        other.send(lqwire.acquire_frame(free, 1, 0, 0))
        self.assertErrorEnd(other, lqwire.ERROR_LEASE_ZERO)
        self.assertFree(c, free)

    def test_in_two_pieces(self):
        helper = self.connect()
        for code, faulty in FAULTY.items():
            for at in {1, 2, len(faulty) // 2, len(faulty) - 1} - {len(faulty)}:
                with self.subTest(code=code, at=at):
                    c = self.connect()
                    c.send(faulty[:at])
                    helper.ping()
                    if at < len(faulty):
                        c.send(faulty[at:])
                    self.assertErrorEnd(c, code)


class Surroundings(LoquetCase):
    """What stands before and behind a faulty frame."""

    any_node = True

    def test_earlier_answers_come_first_and_later_frames_are_not_executed(self):
        witness = self.connect()
        for code, faulty in FAULTY.items():
            with self.subTest(code=code):
                c = self.connect()
                before, after, gone = self.key(), self.key(), self.key()
                gone_token = self.grant(witness, gone)
                c.send(
                    lqwire.acquire_frame(before, 1)
                    + lqwire.acquire_frame(before, 2)
                    + lqwire.release_frame(after, 3)
                    + lqwire.ping_frame(4)
                    + faulty
                    + lqwire.acquire_frame(after, 5)
                    + lqwire.release_frame(gone, gone_token)
                    + lqwire.ping_frame(6)
                )
                answers = c.receive_to_end()
                self.assertEqual((answers[-1].op, answers[-1].code), ("E", code))
                token = next(a.token for a in answers if a.op == "A")
                self.assertCountEqual(
                    answers[:-1],
                    [
                        lqwire.granted(before, 1, token),
                        lqwire.timed_out(before, 2),
                        lqwire.not_held(after, 3),
                        lqwire.pong(4),
                    ],
                )
                self.assertFree(witness, after)
                self.assertHeld(witness, gone)
                self.assertReleased(witness, before, token)

    def test_a_thousand_answers_come_first(self):
        c = self.connect()
        c.send_in_one_write(b"".join(map(lqwire.ping_frame, range(1000))) + b"?")
        answers = c.receive_to_end()
        self.assertEqual(sorted(a.nonce for a in answers[:-1]), list(range(1000)))
        self.assertEqual((answers[-1].op, answers[-1].code), ("E", 1))

    def test_waiting_acquires_leave_the_queue(self):
        for code, faulty in FAULTY.items():
            with self.subTest(code=code):
                holder, c, survivor = self.connect_many(3)
                key = self.key()
                token = self.grant(holder, key)
                owner = self.queue(c, key, lease=255)
                last = self.queue(survivor, key)
                c.send(faulty)
                answers = c.receive_to_end()
                self.assertEqual((answers[-1].op, answers[-1].code), ("E", code))
                self.assertIn(answers[:-1], ([], [lqwire.timed_out(key, owner)]))
                self.assertReleased(holder, key, token)
                self.assertGrantedTo(survivor, key, last, above=token)

    def test_locks_held_stay(self):
        c, other = self.connect_many(2)
        key = self.key()
        token = self.grant(c, key)
        c.send(b"?")
        self.assertErrorEnd(c, lqwire.ERROR_UNKNOWN_OP)
        self.assertHeld(other, key)
        self.assertReleased(other, key, token)

    def test_the_error_is_not_lost_to_a_reset(self):
        """Bytes that arrive behind the faulty frame would make a plain close(2) a reset, which discards the E."""
        for code, faulty in FAULTY.items():
            with self.subTest(code=code):
                c = self.connect()
                c.send(lqwire.ping_frame(1) + faulty + b"more of the same\n" * 10000)
                self.assertErrorEnd(c, code, [lqwire.pong(1)])

    def test_bytes_that_follow_late_do_not_reset_either(self):
        c = self.connect()
        c.send(b"?")
        for _ in range(20):
            try:
                c.send(b"still talking " * 100)
            except lqwire.Ended:
                break  # the server may have closed for good: the moment for late bytes is over
            sleep_until(time.monotonic() + 0.005)
        self.assertErrorEnd(c, lqwire.ERROR_UNKNOWN_OP)

    def test_a_half_closed_faulty_connection(self):
        for code, faulty in FAULTY.items():
            with self.subTest(code=code):
                c = self.connect()
                c.send(faulty)
                c.shutdown_write()
                self.assertErrorEnd(c, code)

    def test_at_once(self):
        c = self.connect()
        before = time.monotonic()
        c.send(b"?")
        self.assertErrorEnd(c, lqwire.ERROR_UNKNOWN_OP)
        self.assertLess(time.monotonic() - before, SLACK)

    def test_the_server_closes_for_good(self):
        """A client that never closes its own side does not keep the connection."""
        c = self.connect()
        c.send(b"?")
        self.assertErrorEnd(c, lqwire.ERROR_UNKNOWN_OP)
        deadline = time.monotonic() + 10
        with self.assertRaises(lqwire.Ended, msg="the server still takes bytes 10 s after the error"):
            while time.monotonic() < deadline:
                c.send(b"x")
                sleep_until(time.monotonic() + 0.05)
