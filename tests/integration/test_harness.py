"""The harness itself, without a server: request bytes and answers written out by hand, the log parser."""

import unittest

import lqwire
from lqserver import parse_address, parse_logfmt

OWNER = 0x0A0B0C0D0E0F1011
TOKEN = 0x0102030405060A0A

STREAM = (
    b"A\x01\x02\x03\x04\x05\x06\x0a\x0a\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11caf\xc3\xa9\n"
    b"T\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11caf\xc3\xa9\n"
    b"B\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11x\n"
    b"R\x01\x02\x03\x04\x05\x06\x0a\x0ax\n"
    b"N\x01\x02\x03\x04\x05\x06\x0a\x0ax\n"
    b"K\x01\x02\x03\x04\x05\x06\x0a\x0ax\n"
    b"P\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\n"
    b"E\x04not UTF-8\n"
)
ANSWERS = [
    lqwire.granted(b"caf\xc3\xa9", OWNER, TOKEN),
    lqwire.timed_out(b"caf\xc3\xa9", OWNER),
    lqwire.busy(b"x", OWNER),
    lqwire.released(b"x", TOKEN),
    lqwire.not_held(b"x", TOKEN),
    lqwire.renewed(b"x", TOKEN),
    lqwire.pong(0x0A0A0A0A0A0A0A0A),
    lqwire.Answer("E", code=4, text=b"not UTF-8"),
]


class Requests(unittest.TestCase):
    def test_bytes_of_every_request(self):
        self.assertEqual(
            lqwire.acquire_frame(b"k", OWNER, wait=10, lease=255), b"A\x0a\xff\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11k\n"
        )
        self.assertEqual(lqwire.release_frame(b"k", TOKEN), b"R\x01\x02\x03\x04\x05\x06\x0a\x0ak\n")
        self.assertEqual(lqwire.renew_frame(b"k", TOKEN, 7), b"K\x07\x01\x02\x03\x04\x05\x06\x0a\x0ak\n")
        self.assertEqual(lqwire.cancel_frame(b"k", OWNER), b"C\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11k\n")
        self.assertEqual(lqwire.ping_frame(1), b"P\x00\x00\x00\x00\x00\x00\x00\x01\n")


class Parser(unittest.TestCase):
    def test_whole_stream(self):
        parser = lqwire.AnswerParser()
        self.assertEqual(parser.feed(STREAM), ANSWERS)
        self.assertEqual(parser.pending, b"")

    def test_every_split(self):
        for at in range(len(STREAM) + 1):
            parser = lqwire.AnswerParser()
            self.assertEqual(parser.feed(STREAM[:at]) + parser.feed(STREAM[at:]), ANSWERS)

    def test_byte_by_byte(self):
        parser = lqwire.AnswerParser()
        answers = [a for i in range(len(STREAM)) for a in parser.feed(STREAM[i : i + 1])]
        self.assertEqual(answers, ANSWERS)

    def test_refuses_what_is_no_answer(self):
        for data in (
            b"Z",
            b"C\x00",
            b"\n",
            b"T" + bytes(8) + b"\n",
            b"P" + bytes(8) + b"x\n",
            b"T" + bytes(8) + b"x" * 1025,
            b"E\x01\xff\n",
        ):
            with self.subTest(data), self.assertRaises(lqwire.ProtocolViolation):
                lqwire.AnswerParser().feed(data)


class Log(unittest.TestCase):
    def test_logfmt(self):
        self.assertEqual(
            parse_logfmt('level=info msg="a \\"b\\" c" address=127.0.0.1:1 empty='),
            {"level": "info", "msg": 'a "b" c', "address": "127.0.0.1:1", "empty": ""},
        )
        for line in ("", "free text", "level=info then words", 'msg="open'):
            self.assertIsNone(parse_logfmt(line), line)

    def test_address(self):
        self.assertEqual(parse_address("127.0.0.1:7311"), ("127.0.0.1", 7311))
        self.assertEqual(parse_address("[::1]:7311"), ("::1", 7311))
