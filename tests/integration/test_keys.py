"""The bytes of keys: 1 to 1024 of valid UTF-8 without 0A. Everything else is error 4."""

import lqwire
from lqcase import SLACK, LoquetCase

VALID = (
    b"\x00",
    b"\x00\x00",
    b"a\x00b",
    b"\x01",
    b"\x09\x0b\x0d",
    b"\x7f",
    b"\xc2\x80",  # U+0080, the first of two bytes
    b"\xdf\xbf",  # U+07FF, the last
    b"\xe0\xa0\x80",  # U+0800, the first of three
    b"\xed\x9f\xbf",  # U+D7FF, just below the surrogates
    b"\xee\x80\x80",  # U+E000, just above
    b"\xef\xbf\xbe",  # U+FFFE and U+FFFF are no characters, yet valid
    b"\xef\xbf\xbf",
    b"\xef\xbb\xbf",  # the byte order mark
    b"\xef\xbf\xbd",  # the replacement character
    b"\xf0\x90\x80\x80",  # U+10000, the first of four
    b"\xf4\x8f\xbf\xbf",  # U+10FFFF, the last of all
    b"\xf0\x9f\x94\x92",
    b"\xe6\x97\xa5\xe6\x9c\xac",
    b" ",
    b"/../\\'\"%s%n",
)

INVALID = (
    b"\x80",  # continuation bytes alone
    b"\xbf",
    b"\x80\x80",
    b"\xc0\x80",  # overlong NUL
    b"\xc0\x8a",  # overlong line feed
    b"\xc1\xbf",  # overlong U+007F
    b"\xe0\x80\x80",
    b"\xe0\x9f\xbf",  # overlong U+07FF
    b"\xf0\x80\x80\x80",
    b"\xf0\x8f\xbf\xbf",  # overlong U+FFFF
    b"\xed\xa0\x80",  # surrogates
    b"\xed\xad\xbf",
    b"\xed\xbf\xbf",
    b"\xed\xa0\xbd\xed\xb4\x92",  # a pair of them
    b"\xf4\x90\x80\x80",  # U+110000
    b"\xf5\x80\x80\x80",
    b"\xf7\xbf\xbf\xbf",
    b"\xf8\x88\x80\x80\x80",  # five and six bytes
    b"\xfc\x84\x80\x80\x80\x80",
    b"\xfe",
    b"\xff",
    b"\xc2",  # truncated
    b"\xe2",
    b"\xe2\x82",
    b"\xf0",
    b"\xf0\x9f",
    b"\xf0\x9f\x94",
    b"\xc2\xc2\x80",  # cut short by another character
    b"\xe2\x82\xc2\x80",
    b"\xf0\x9f\x94\xe2\x82\xac",
    b"\xe2\x28\xa1",
    b"\xf0\x28\x8c\xbc",
    b"\xf0\x90\x28\xbc",
    b"\xf0\x90\x8c\x28",
    b"\xc2\x80\x80",  # one continuation too much
    b"\xe2\x82\xac\x80",
)


class Utf8(LoquetCase):
    any_node = True

    def judge(self, key):
        """What an acquire of this key gets on a fresh connection: "A", or "E4"."""
        c = self.connect()
        owner = self.owner()
        c.send(lqwire.acquire_frame(key, owner, wait=10))  # runs beside this one may try the same keys
        answer = c.receive(10 + SLACK)
        if answer.op == "E":
            self.assertTextAndEnd(c, answer)
            verdict = "E%d" % answer.code
        else:
            self.assertEqual(answer, lqwire.granted(key, owner, answer.token))
            self.assertReleased(c, key, answer.token)
            verdict = "A"
        c.close()
        return verdict

    def assertTextAndEnd(self, c, answer):
        self.assertTrue(answer.text)
        self.assertEqual(c.receive_to_end(), [])

    def test_valid_keys_work_in_every_request(self):
        c = self.connect()
        for tail in VALID:
            for key in (tail + self.key(), self.key() + tail, self.key() + tail + b"z"):
                with self.subTest(key):
                    token = self.grant(c, key)
                    self.assertHeld(c, key)
                    owner = self.queue(c, key)
                    c.send(lqwire.cancel_frame(key, owner))
                    self.assertEqual(c.receive(), lqwire.timed_out(key, owner))
                    self.assertEqual(c.renew(key, token), lqwire.renewed(key, token))
                    self.assertNotHeld(c, key, token + 1)
                    self.assertReleased(c, key, token)

    def test_valid_keys_alone(self):
        c = self.connect()
        for key in VALID:
            with self.subTest(key):
                self.assertNotHeld(c, key, 1)
                self.assertEqual(c.renew(key, 1), lqwire.not_held(key, 1))
        self.assertQuiet(c)

    def test_invalid_keys_at_every_place(self):
        for piece in INVALID:
            for key in (piece, b"abc" + piece, piece + b"abc", b"ab\xe2\x82\xac" + piece + b"\xc3\xa9c"):
                with self.subTest(key):
                    self.assertEqual(self.judge(key), "E4")

    def test_invalid_at_the_very_end_of_the_longest_key(self):
        for piece in INVALID:
            key = b"x" * (1024 - len(piece)) + piece
            with self.subTest(key[-8:]):
                self.assertEqual(self.judge(key), "E4")

    def test_one_by_one_every_byte_pair_at_the_edges(self):
        """All bytes as a key of their own, and behind each first byte of a longer character."""
        for lead in (b"", b"\xc2", b"\xdf", b"\xe0", b"\xe1", b"\xed", b"\xef", b"\xf0", b"\xf1", b"\xf4", b"\xf5"):
            rest = {b"\xe0": 1, b"\xe1": 1, b"\xed": 1, b"\xef": 1, b"\xf0": 2, b"\xf1": 2, b"\xf4": 2}.get(lead, 0)
            for byte in (0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC2, 0xF0, 0xFF):
                key = lead + bytes((byte,)) + b"\x80" * rest
                with self.subTest(key):
                    self.assertEqual(self.judge(key), expected(key))

    def test_random_bytes(self):
        c, keys = self.connect(), []
        alphabet = b"\x00az\x7f\x80\x8f\x90\x9f\xa0\xbf\xc2\xc3\xdf\xe0\xe2\xed\xef\xf0\xf4\xf5"
        for _ in range(400):
            keys.append(bytes(self.random.choice(alphabet) for _ in range(self.random.randrange(1, 7))))
            keys.append(self.random.randbytes(self.random.randrange(1, 5)).replace(b"\n", b"\x0b"))
        for key in dict.fromkeys(keys):
            with self.subTest(key):
                if expected(key) == "A":
                    self.assertNotHeld(c, key, 1)
                else:
                    self.assertEqual(self.judge(key), "E4")

    def test_length_counts_bytes_not_characters(self):
        c = self.connect()
        key = self.key() + b"x"
        euros = (1024 - len(key)) // 3
        full = (key + b"\xe2\x82\xac" * euros).ljust(1024, b"y")
        self.assertFree(c, full)
        self.assertEqual(self.judge(full + b"y"), "E3")
        self.assertEqual(self.judge(b"\xf0\x9f\x94\x92" * 257), "E3")
        self.assertEqual(self.judge(b"\xf0\x9f\x94\x92" * 256), "A")

    def test_long_keys_that_differ_in_their_last_byte(self):
        c = self.connect()
        stem = self.key().ljust(1023, b"-")
        tokens = {stem + end: self.grant(c, stem + end) for end in (b"a", b"b", b"\x00")}
        for key, token in tokens.items():
            self.assertHeld(c, key)
            self.assertReleased(c, key, token)
            self.assertFree(c, key)


def expected(key):
    """By Python's own strict decoder."""
    try:
        key.decode("utf-8")
    except UnicodeDecodeError:
        return "E4"
    return "A"
