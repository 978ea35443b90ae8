"""Reading histories back: files of writers that were killed, and files that are none."""

import io
import json
import os
import shutil
import tempfile
import unittest

import judge
from history import BadHistory, load
from story import LIMITS, events_of

STORY = "0 a > A k 1 0 9\n .1 a < A k 1 5\n 2 a > R k 5\n 2.1 a < R k 5\n 4 a > A k 2 0 9\n 5 a < A k 2 6\n"
OTHER = "3.5 c > A j 9 0 9\n 3.6 c < A j 9 7\n 3.9 d > P 1\n 8 c closes eof\n 20 - end"


class HistoryTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="lqhistory-")
        self.addCleanup(shutil.rmtree, self.folder)

    def file(self, name, story, rest=""):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="ascii") as file:
            file.write("".join(json.dumps(event) + "\n" for event in events_of(story)) + rest)
        return path

    def test_whole_files_are_read_in_the_order_of_their_times(self):
        events = load([self.file("a", STORY), self.file("b", OTHER)])
        self.assertEqual(len(events), len(events_of(STORY)) + len(events_of(OTHER)))
        self.assertEqual([event["t"] for event in events], sorted(event["t"] for event in events))
        self.assertNotIn("torn", {event["e"] for event in events})

    def test_nothing_is_left_behind_the_last_whole_line_of_a_torn_file(self):
        """Neither of the other files, and the second before it may be incomplete."""
        for rest in ('{"t":6000000000,"e":"se', '{"t":', "7", '{"t":6000000000,"e":"end"}'):
            with self.subTest(rest):
                events = load([self.file("a", STORY, rest), self.file("b", OTHER)])
                end = 5 if rest.endswith("}") else 4  # a line may lack no more than its end
                self.assertLessEqual(max(event["t"] for event in events), end * 10**9)
                self.assertEqual([event["file"] for event in events if event["e"] == "torn"], ["a"])
                self.assertIn(4 * 10**9, [event["t"] for event in events if event["e"] == "send"])

    def test_the_first_one_that_breaks_off_counts(self):
        events = load([self.file("a", STORY, "{"), self.file("b", "3 c > P 1\n 3.6 c < P 1", "{")])
        self.assertEqual(events[-1]["t"], 2_600_000_000)
        self.assertEqual([event["file"] for event in events[-2:]], ["a", "b"])

    def test_a_torn_history_is_judged_and_it_is_said(self):
        """What the killed client did with its lock is not known, so what others did later is not judged."""
        late = "5.5 b > A k 3 0 9\n 5.6 b < A k 3 8\n 8 b closes eof\n 20 - end"
        paths = [self.file("a", STORY, '{"t":5000000001,"e":"send","op":"R'), self.file("b", late)]
        case = judge.judge(load(paths), LIMITS)
        self.assertEqual(case.violations, [])
        self.assertEqual(case.history.end, 4_000_000_000)
        out = io.StringIO()
        judge.tell(case, out)
        self.assertIn("a breaks off, so only what was before is judged", out.getvalue())
        self.assertEqual(out.getvalue().splitlines()[-1], "verdict: good")

    def test_what_is_judged_of_it_is_judged_as_ever(self):
        wrong = STORY.replace("4 a", "3.1 b > R k 5\n 3.2 b < R k 5\n 4 a")
        self.assertEqual([v.rule for v in judge.judge(load([self.file("a", wrong, "{")]), LIMITS).violations], ["R and K"])

    def test_only_the_last_line_may_be_torn(self):
        for rest in ("{\n", "what?\n", '{"t":1}\n', "[]\n", '{"t":9000000000,"e":"se{"t":9,"e":"end"}\n', "{\n{"):
            with self.subTest(rest), self.assertRaises(BadHistory):
                load([self.file("a", STORY, rest)])

    def test_a_file_with_too_little_is_no_history(self):
        for story in ("", "0 a > P 1\n .5 a < P 1"):
            with self.subTest(story), self.assertRaises(BadHistory):
                load([self.file("a", story, "{")])

    def test_empty_files_are_histories(self):
        self.assertEqual(load([self.file("a", "")]), [])


if __name__ == "__main__":
    unittest.main()
