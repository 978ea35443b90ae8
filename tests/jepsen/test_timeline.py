"""The picture of a run: what must be in it for small histories by hand, and that nothing keeps it from being drawn."""

import json
import os
import random
import shutil
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree as ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "judge")]

import timeline  # noqa: E402
from history import NS  # noqa: E402
from story import events_of  # noqa: E402

SEED = int(os.environ.get("LOQUET_TEST_SEED") or time.time_ns() % (1 << 32))
SVG = "{http://www.w3.org/2000/svg}"
STORY = """
    0   a opens 1
    1   a > A k 1 0 9
    1.1 a < A k 1 5
    1.5 b opens 2
    2   b > A k 2 3 9
    2   - fault 1 2
    3   - fault 2 1,3
    4   - healed 1
    5   a > R k 5
    5.2 a < R k 5
    5.3 b closes reset
    6   - healed 2
    7   - fault 3 1
    8   - healed 3
    9   - calm 2
    10  - end
"""
STATES = [
    {"t": -NS, "node": 1, "role": "leader", "term": 4},
    {"t": -NS, "node": 2, "role": "follower", "term": 4},
    {"t": 3 * NS, "node": 1, "role": "down", "term": None},
    {"t": 4 * NS, "node": 2, "role": "leader", "term": 5},
    {"t": 6 * NS, "node": 1, "role": "what <is> this", "term": 5},
    {"t": 12 * NS, "node": 1, "role": "down", "term": None},
]


class TimelineTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="lqtimeline-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.path = os.path.join(self.folder, "timeline.svg")

    def drawn(self, events, states=(), violations=(), title="a run"):
        timeline.draw(events, states, self.path, title, violations)
        return self.parsed()

    def parsed(self):
        root = ElementTree.parse(self.path).getroot()
        self.assertEqual(root.tag, SVG + "svg")
        self.assertLessEqual(float(root.get("width")), 1400)
        return root

    def of_kind(self, root, kind):
        return [element for element in root.iter() if kind in (element.get("class") or "").split(" ")]

    def texts(self, root):
        return [element.text for element in root.iter(SVG + "text")]

    def tip(self, element):
        return element.find(SVG + "title").text

    def seconds(self, x):
        """Of a place on the axis of STORY."""
        return (float(x) - timeline.LEFT) / timeline.PLOT * 10

    def write(self, name, lines, rest=""):
        with open(os.path.join(self.folder, name), "w", encoding="ascii") as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines) + rest)

    # What is in it

    def test_a_bar_for_each_fault(self):
        bars = sorted(self.of_kind(self.drawn(events_of(STORY)), "fault"), key=lambda bar: float(bar.get("x")))
        self.assertEqual([round(self.seconds(bar.get("x")), 1) for bar in bars], [2, 3, 7])
        ends = [self.seconds(float(bar.get("x")) + float(bar.get("width"))) for bar in bars]
        self.assertEqual([round(end, 1) for end in ends], [4, 6, 8])
        first, second, third = (bar.get("y") for bar in bars)
        self.assertNotEqual(first, second)  # they overlap
        self.assertEqual(first, third)
        self.assertEqual(self.tip(bars[1]), "kill: 1,3, 3.00 s")

    def test_faults_have_names_and_mild_ones_are_paler(self):
        events = [
            {"t": 0, "e": "fault", "id": 1, "what": "wall <clock>", "nodes": [2, 0], "mild": True},
            {"t": NS, "e": "fault", "id": 2, "what": "no majority", "nodes": [1, 2, 3]},
            {"t": 2 * NS, "e": "fault", "id": 3, "what": "cut", "nodes": [1], "detail": "a & b"},
            {"t": 9 * NS, "e": "healed", "id": 3},
            {"t": 9 * NS, "e": "healed", "id": 7},  # its begin is not in the file
            {"t": 10 * NS, "e": "end"},
        ]
        root = self.drawn(events)
        self.assertLessEqual({"wall <clock>: 2", "no majority", "cut: 1"}, set(self.texts(root)))
        colours = {self.tip(bar).split(",")[0]: bar.get("fill") for bar in self.of_kind(root, "fault")}
        self.assertEqual(colours["wall <clock>: 2"], timeline.MILD)
        self.assertEqual(colours["cut: 1"], timeline.FAULT)
        self.assertEqual(colours["no majority"], timeline.NO_MAJORITY)
        self.assertIn("cut: 1, 7.00 s\na & b", [self.tip(bar) for bar in self.of_kind(root, "fault")])

    def test_faults_share_rows(self):
        self.assertEqual(timeline.pack([(0, 5), (1, 2), (2, 9), (5, 6), (6, 7)]), [0, 1, 1, 0, 0])
        self.assertEqual(timeline.pack([]), [])

    def test_a_lane_for_each_node(self):
        root = self.drawn(events_of(STORY), STATES)
        stretches = self.of_kind(root, "state")
        self.assertEqual(len(stretches), 5)  # the last state comes after the end
        self.assertEqual(len({bar.get("y") for bar in stretches}), 2)
        roles = {bar.get("class").split(" ", 1)[1]: bar for bar in stretches}
        self.assertEqual(set(roles), {"leader", "follower", "down", "what <is> this"})
        self.assertEqual(roles["down"].get("fill"), timeline.ROLES["down"])
        leaders = [(self.seconds(bar.get("x")), self.tip(bar)) for bar in self.of_kind(root, "leader")]
        self.assertEqual([round(x) for x, _ in leaders], [0, 4])
        self.assertIn("node 2: leader in term 5", leaders[1][1])
        self.assertEqual([text.text for text in self.of_kind(root, "term")], ["term 4", "term 5"])
        self.assertLessEqual({"node 1", "node 2"}, set(self.texts(root)))

    def test_answers_and_latencies(self):
        facts = timeline.Facts(events_of(STORY))
        self.assertEqual([op for _, op in facts.answers], ["A", "R"])
        self.assertEqual(facts.latencies, [(NS, NS // 10), (5 * NS, NS // 5)])
        waited = timeline.Facts(events_of("0 a > A k 1 5 9\n 3 a < A k 1 5\n 3 a > P 1\n 4 a < P 1\n 5 a < N k 9"))
        self.assertEqual((len(waited.answers), waited.latencies), (2, []))
        root = self.drawn(events_of(STORY))
        self.assertEqual([len(self.of_kind(root, kind)) for kind in ("A", "R", "T", "p50", "p99")], [1, 1, 0, 1, 1])

    def test_answers_per_second_have_their_height(self):
        """Four answers in the first bin, one in another one."""
        text = "".join("0 a > P %d\n 0.0%d a < R k %d\n" % (n, n, n) for n in range(1, 5)) + "5 a < R k 7\n 10 - end"
        points = self.of_kind(self.drawn(events_of(text)), "R")[0].get("points").split()
        ys = [float(point.split(",")[1]) for point in points]
        bottom = max(ys)
        heights = sorted({round(bottom - y, 1) for y in ys})
        self.assertEqual(len(heights), 3)
        self.assertAlmostEqual(heights[2] / heights[1], 4, delta=0.05)

    def test_unknown_outcomes_and_ended_connections(self):
        root = self.drawn(events_of(STORY.rstrip() + "\n 9.5 c > R k 5\n 9.6 c closes own"))
        unknown = [(round(self.seconds(bar.get("x")), 1), self.tip(bar)) for bar in self.of_kind(root, "unknown")]
        self.assertEqual(unknown, [(5.3, "1 within 0.1 s"), (9.6, "1 within 0.1 s")])
        self.assertEqual([round(self.seconds(bar.get("x")), 1) for bar in self.of_kind(root, "closed")], [5.3])

    def test_marks(self):
        violations = [(5 * NS, "one holder", 'token 5 of "k" & <more>'), (5 * NS, "T", "late"), (10 * NS, "a long name of a rule", "x")]
        violations += [(7 * NS, "fifo", "number %d" % n) for n in range(9)]
        root = self.drawn(events_of(STORY), STATES, violations)
        marks = self.of_kind(root, "violation")
        self.assertEqual(len(marks), 4)  # those at one place are one
        tips = [self.tip(mark) for mark in marks]
        self.assertIn('one holder: token 5 of "k" & <more> (5.000 s)', tips)
        self.assertEqual([len(tip.split("\n")) for tip in tips if tip.startswith("fifo")], [6])
        self.assertLessEqual({"one holder", "T", "fifo", "a long name of a rule", "calm"}, set(self.texts(root)))
        for mark in marks:
            for word in mark.findall(SVG + "text"):
                self.assertLess(float(word.get("x")) + timeline.CHARACTER * len(word.text), timeline.WIDTH)
        self.assertEqual(len(self.of_kind(root, "calm")), 1)
        through = marks[0].find(SVG + "line")
        for bar in self.of_kind(root, "fault") + self.of_kind(root, "unknown"):
            self.assertLess(float(through.get("y1")), float(bar.get("y")))
            self.assertGreater(float(through.get("y2")), float(bar.get("y")))

    def test_odd_texts_are_escaped(self):
        title = "a <b> & \"c\" \x00 \x1b \ud800 \u2028 %s é"
        root = self.drawn(events_of(STORY), STATES, [(NS, title, title)], title)
        self.assertIn('a <b> & "c" ? ? ? ? %s é', self.texts(root))

    # What it is given

    def test_nothing(self):
        self.assertIn("nothing was recorded", self.texts(self.drawn([])))
        self.drawn([], STATES)
        self.drawn([{"t": 5, "e": "end"}], [], [(9, "late", "x")])
        timeline.draw_folder(self.folder)
        self.parsed()

    def test_what_no_judge_would_take(self):
        self.drawn(events_of("0 a < A k 1 5\n 1 a closes own\n 2 a > A k 1 0 9\n 3 a < E 6\n 4 a > A k 1 0 9\n 5 - healed 9"))

    def test_a_folder_whose_writers_were_killed(self):
        faults = [event for event in events_of(STORY) if event["e"] in ("fault", "healed")]
        others = [event for event in events_of(STORY) if event not in faults]
        self.write("history-driver.jsonl", others, '{"t":99000000000,"e":"se')
        self.write("history-faults.jsonl", faults, "7")
        self.write("states.jsonl", STATES, '{"t": 1, "node": ')
        self.write("command.txt", [], "run this\n")
        timeline.draw_folder(self.folder, [(NS, "T", "untrue")])
        root = self.parsed()
        self.assertEqual(len(self.of_kind(root, "fault")), 3)
        self.assertEqual(len(self.of_kind(root, "state")), 5)
        self.assertEqual(len(self.of_kind(root, "violation")), 1)
        self.assertIn("10 s", self.texts(root))
        self.assertNotIn("99 s", self.texts(root))
        self.assertTrue(any("run this" in text for text in self.texts(root)))

    def test_a_folder_without_states(self):
        self.write("history-driver.jsonl", events_of(STORY))
        timeline.draw_folder(self.folder)
        self.assertEqual(self.of_kind(self.parsed(), "state"), [])

    # Sizes

    def test_long_and_short_runs_fit(self):
        for seconds in (0.5, 60, 600, 86400):
            with self.subTest(seconds):
                events, states, violations = random_run(random.Random(SEED), seconds, 2000)
                root = self.drawn(events, states, violations)
                for bar in root.iter(SVG + "rect"):
                    if bar.get("class"):
                        self.assertGreaterEqual(float(bar.get("x")), 0, "seed %d" % SEED)
                        self.assertLess(float(bar.get("x")) + float(bar.get("width")), timeline.WIDTH, "seed %d" % SEED)
                        self.assertGreater(float(root.get("height")), float(bar.get("y")), "seed %d" % SEED)
                self.assertLess(os.path.getsize(self.path), 2_000_000)

    def test_a_hundred_thousand_events(self):
        run = random_run(random.Random(SEED), 600, 50_000)
        self.assertGreater(len(run[0]), 100_000)
        began = time.process_time()
        self.drawn(*run)
        self.assertLess(time.process_time() - began, 10)


def random_run(rng, seconds, requests):
    """Events, states and violations."""
    span, events = int(seconds * NS), []
    for n in range(requests):
        t, conn = rng.randrange(span), rng.randrange(50)
        lock = {"conn": conn, "key": "k", "owner": n}
        events.append({"t": t, "e": "send", "op": "A", "wait": rng.choice((0, 5)), "lease": 5, **lock})
        events.append({"t": t + int(rng.expovariate(500) * NS), "e": "recv", "op": rng.choice("ATB"), "token": n, **lock})
        if n % 50 == 0:
            events.append({"t": t, "e": "close", "conn": conn, "why": rng.choice(("own", "eof"))})
    for n in range(200):
        t = rng.randrange(span)
        events.append({"t": t, "e": "fault", "id": n, "what": rng.choice(("cut", "kill -9")), "nodes": [n % 3]})
        events.append({"t": t + rng.randrange(span // 20), "e": "healed", "id": n})
    events.sort(key=lambda event: event["t"])
    roles = (*timeline.ROLES, "other")
    states = [{"t": rng.randrange(span), "node": n % 3, "role": rng.choice(roles), "term": n} for n in range(300)]
    return events, states, [(rng.randrange(span), "rule %d" % (n % 5), "untrue") for n in range(40)]


if __name__ == "__main__":
    print("LOQUET_TEST_SEED=%d" % SEED)
    unittest.main()
