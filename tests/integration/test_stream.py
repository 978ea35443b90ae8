"""The byte stream: any split, one byte at a time, header bytes equal to 0A, thousands of requests in one write."""

import lqwire
from lqcase import LoquetCase

LF8 = 0x0A0A0A0A0A0A0A0A
LF_BYTES = b"\x0a" * 8


class Split(LoquetCase):
    any_node = True

    def conversation(self, key, held):
        """Requests of every kind in one byte string, and the answers to them except the one A; `held` is held by
        somebody else. All of its header bytes that may be 0A are."""
        data = (
            b"A\x0a\x0a" + LF_BYTES + key + b"\n"
            b"R" + LF_BYTES + key + b"\n"
            b"K\x0a" + LF_BYTES + key + b"\n"
            b"A\x00\x0a" + LF_BYTES + held + b"\n"
            b"C" + LF_BYTES + key + b"\n"
            b"P" + LF_BYTES + b"\n"
            b"A\x0a\x0a" + LF_BYTES + held + b"\n"
            b"C" + LF_BYTES + held + b"\n"
        )  # fmt: skip
        answers = [
            lqwire.not_held(key, LF8),
            lqwire.not_held(key, LF8),
            lqwire.timed_out(held, LF8),
            lqwire.pong(LF8),
            lqwire.timed_out(held, LF8),
        ]
        return data, answers

    def check(self, c, key, expected):
        answers = c.receive_many(len(expected) + 1)
        grants = [a for a in answers if a.op == "A"]
        self.assertEqual(grants, [lqwire.granted(key, LF8, grants[0].token if grants else None)])
        answers.remove(grants[0])
        self.assertCountEqual(answers, expected)
        self.assertReleased(c, key, grants[0].token)
        self.assertIsNone(c.try_receive(0))

    def setUp(self):
        super().setUp()
        self.helper = self.connect()
        self.held = self.key("\u00e9")
        self.grant(self.helper, self.held, lease=255)

    def send_in_pieces(self, c, data, cuts):
        """The pong on another connection makes it likely that the server has read each piece by itself."""
        start = 0
        for cut in list(cuts) + [len(data)]:
            c.send(data[start:cut])
            if cut != len(data):
                self.helper.ping()
            start = cut

    def test_every_split_in_two(self):
        c = self.connect()
        length = len(self.conversation(self.key(), self.held)[0])
        for cut in range(1, length):
            with self.subTest(cut=cut):
                key = self.key()
                data, expected = self.conversation(key, self.held)
                self.send_in_pieces(c, data, [min(cut, len(data) - 1)])
                self.check(c, key, expected)

    def test_random_splits(self):
        c = self.connect()
        for _ in range(60):
            key = self.key()
            data, expected = self.conversation(key, self.held)
            cuts = sorted(self.random.sample(range(1, len(data)), self.random.randrange(2, 12)))
            with self.subTest(cuts=cuts):
                self.send_in_pieces(c, data, cuts)
                self.check(c, key, expected)

    def test_one_byte_at_a_time(self):
        c = self.connect()
        for _ in range(3):
            key = self.key("\u20ac\U0001f512")
            data, expected = self.conversation(key, self.held)
            self.send_in_pieces(c, data, range(1, len(data)))
            self.check(c, key, expected)

    def test_one_byte_at_a_time_on_many_connections_at_once(self):
        talks = []
        for c in self.connect_many(20):
            key = self.key()
            talks.append((c, key) + self.conversation(key, self.held))
        for at in range(max(len(data) for _, _, data, _ in talks)):
            for c, _, data, _ in talks:
                c.send(data[at : at + 1])
        for c, key, _, expected in talks:
            self.check(c, key, expected)

    def test_a_frame_is_answered_though_the_next_is_incomplete(self):
        c = self.connect()
        key = self.key()
        tail = lqwire.acquire_frame(key, 2)
        for cut in range(1, len(tail)):
            c.send(lqwire.ping_frame(cut) + tail[:cut])
            self.assertEqual(c.receive(), lqwire.pong(cut))
            c.send(tail[cut:])
            answer = c.receive()
            self.assertEqual(answer, lqwire.granted(key, 2, answer.token))
            self.assertReleased(c, key, answer.token)


class LineFeeds(LoquetCase):
    any_node = True

    def test_a_token_with_line_feeds_in_it(self):
        """Tokens count up by one, so one with a byte 0A comes soon; it has to work in every request."""
        c = self.connect()
        key = self.key()
        for _ in range(4096):
            token = self.grant(c, key)
            if 0x0A in token.to_bytes(8, "big"):
                break
            self.assertReleased(c, key, token)
        else:
            self.fail("no token with a byte 0A among 4096")
        self.assertEqual(c.renew(key, token, 10), lqwire.renewed(key, token))
        self.assertHeld(c, key)
        self.assertReleased(c, key, token)
        self.assertNotHeld(c, key, token)

    def test_each_number_byte_by_itself(self):
        c = self.connect()
        for place in range(8):
            number = 0x0A << (8 * place)
            with self.subTest(number=hex(number)):
                key = self.key()
                self.assertEqual(c.ping(number), lqwire.pong(number))
                self.assertNotHeld(c, key, number)
                self.assertEqual(c.renew(key, number, 10), lqwire.not_held(key, number))
                token = self.grant(c, key, owner=number, wait=10, lease=10)
                self.assertEqual(c.acquire(key, number, 0, 10), lqwire.timed_out(key, number))
                c.send(lqwire.acquire_frame(key, number, 10, 10) + lqwire.cancel_frame(key, number))
                self.assertEqual(c.receive(), lqwire.timed_out(key, number))
                self.assertReleased(c, key, token)


class Pipeline(LoquetCase):
    any_node = True

    def test_10000_requests_in_one_write(self):
        c = self.connect()
        keys = [self.key() for _ in range(10000)]
        c.send_in_one_write(b"".join(lqwire.acquire_frame(k, n) for n, k in enumerate(keys)))
        tokens = {}
        for answer in c.receive_many(len(keys)):
            self.assertEqual((answer.op, answer.key), ("A", keys[answer.owner]))
            tokens[answer.key] = answer.token
        self.assertEqual(len(tokens), len(keys))
        self.assertEqual(len(set(tokens.values())), len(keys))
        c.send_in_one_write(b"".join(lqwire.release_frame(k, t) for k, t in tokens.items()))
        self.assertEqual(set(c.receive_many(len(keys))), {lqwire.released(k, t) for k, t in tokens.items()})
        self.assertQuiet(c)

    def test_10000_mixed_requests_in_one_write(self):
        c, holder = self.connect_many(2)
        held = self.key()
        token = self.grant(holder, held)
        kinds = {
            "T": lambda n: (lqwire.acquire_frame(held, n), lqwire.timed_out(held, n)),
            "N": lambda n: (lqwire.release_frame(held, n), lqwire.not_held(held, n)),
            "n": lambda n: (lqwire.renew_frame(held, n), lqwire.not_held(held, n)),
            "P": lambda n: (lqwire.ping_frame(n), lqwire.pong(n)),
            "K": lambda n: (lqwire.renew_frame(held, token), lqwire.renewed(held, token)),
            "C": lambda n: (
                lqwire.acquire_frame(held, n, 60) + lqwire.cancel_frame(held, n),
                lqwire.timed_out(held, n),
            ),
        }
        pairs = [kinds[self.random.choice("TNnPCK")](n) for n in range(10000)]
        c.send_in_one_write(b"".join(frame for frame, _ in pairs))
        self.assertCountEqual(c.receive_many(len(pairs)), [answer for _, answer in pairs])
        self.assertQuiet(c)

    def test_requests_of_one_connection_take_effect_in_their_order(self):
        c = self.connect()
        key = self.key()
        token = self.grant(c, key)
        c.send(
            lqwire.acquire_frame(key, 1)
            + lqwire.release_frame(key, token)
            + lqwire.acquire_frame(key, 2)
            + lqwire.acquire_frame(key, 3)
            + lqwire.release_frame(key, token)
        )
        answers = c.receive_many(5)
        verdicts = {a.owner: a.op for a in answers if a.owner is not None}
        self.assertEqual(verdicts, {1: "T", 2: "A", 3: "T"})
        self.assertEqual([a.op for a in answers if a.owner is None], ["R", "N"])

    def test_longest_frames_back_to_back(self):
        c = self.connect()
        keys = [self.key().ljust(1024, b"x") for _ in range(500)]
        c.send_in_one_write(b"".join(lqwire.acquire_frame(k, n) for n, k in enumerate(keys)))
        answers = c.receive_many(len(keys))
        self.assertEqual({(a.op, a.owner, a.key) for a in answers}, {("A", n, k) for n, k in enumerate(keys)})
        c.send(b"".join(lqwire.release_frame(a.key, a.token) for a in answers))
        self.assertEqual({a.op for a in c.receive_many(len(keys))}, {"R"})
