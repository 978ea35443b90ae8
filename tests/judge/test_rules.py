"""Each rule of the judge, on histories by hand: what is good passes, what is bad is found by that rule. story.py tells
how they are written."""

import io
import unittest

import judge
from history import BadHistory
from story import LIMITS, StoryCase, events_of


class RulesTest(StoryCase):
    # answers

    def test_answers(self):
        self.good("0 a > A k 1 0 9\n .1 a < A k 1 5\n .2 a > R k 5\n .3 a < R k 5\n .4 a > P 7\n .5 a < P 7\n 1 - end")
        self.bad("answers", "0 a > A k 1 0 9\n .1 a < A k 1 5\n .2 a < A k 1 5")
        self.bad("answers", "0 a > A k 1 0 9\n .1 a < T k 1\n .2 a < A k 1 5")
        self.bad("answers", "0 a > A k 1 0 9\n .1 b > P 1\n .2 b < A k 1 5")
        self.bad("answers", "0 a > A k 1 0 9\n .1 a < A j 1 5")
        self.bad("answers", "0 a > A k 1 0 9\n .1 a < A k 1 5\n .2 a < R k 5")
        self.bad("answers", "0 a > A k 1 0 9\n .1 a < A k 1 5\n .2 a > K k 5 9\n .3 a < R k 5")
        self.bad("answers", "0 a > P 7\n .1 a < P 7\n .2 a < P 7")

    # tokens

    def test_tokens_follow_real_time_over_all_keys(self):
        self.good("0 a > A k 1 0 9\n .1 a < A k 1 5\n .2 a > A j 2 0 9\n .3 a < A j 2 6\n 1 - end")
        self.bad("tokens", "0 a > A k 1 0 9\n .1 a < A k 1 5\n .2 a > A j 2 0 9\n .3 a < A j 2 4\n 1 - end")
        # side by side, any order is right
        self.good("0 a > A k 1 0 9\n .1 b > A j 2 0 9\n .2 a < A k 1 5\n .3 b < A j 2 4\n 1 - end")

    def test_a_token_is_given_once(self):
        self.bad("tokens", "0 a > A k 1 0 9\n 0 b > A j 2 0 9\n .1 a < A k 1 5\n .1 b < A j 2 5\n 1 - end")

    # one holder

    FIRST = "0 a > A k 1 0 2\n .1 a < A k 1 5\n"

    def test_one_holder_after_another(self):
        self.good(self.FIRST + ".2 a > R k 5\n .3 b > A k 2 0 2\n .4 b < A k 2 6\n .5 a < R k 5\n 1 - end")
        self.bad("one holder", self.FIRST + ".3 b > A k 2 0 2\n .4 b < A k 2 6\n .5 a > R k 5\n .6 a < R k 5\n 1 - end")
        self.bad("one holder", self.FIRST + ".3 b > A k 2 0 2\n .4 b < A k 2 6\n 1 - end")

    def test_a_lease_is_not_cut_short(self):
        self.good(self.FIRST + "1 b > A k 2 5 2\n 1.99 b < A k 2 6\n 2 - end")
        self.bad("one holder", self.FIRST + "1 b > A k 2 5 2\n 1.97 b < A k 2 6\n 2 - end")

    def test_a_renewal_counts(self):
        renewed = self.FIRST + "1 a > K k 5 2\n 1.1 a < K k 5\n"
        self.good(renewed + "2 b > A k 2 5 2\n 2.99 b < A k 2 6\n 3 - end")
        self.bad("one holder", renewed + "2 b > A k 2 5 2\n 2.97 b < A k 2 6\n 3 - end")

    def test_a_renewal_may_shorten(self):
        self.good(self.FIRST + ".2 a > K k 5 1\n .3 a < K k 5\n 1 b > A k 2 5 2\n 1.2 b < A k 2 6\n 2 - end")

    def test_an_unknown_renewal_may_count_or_not(self):
        unknown = self.FIRST + "1 a > K k 5 9\n 1.1 a closes own\n 1.2 b > A k 2 15 2\n"
        self.good(unknown + "2.1 b < A k 2 6\n 3 - end")
        self.good(unknown + "10.2 b < A k 2 6\n 11 - end")

    def test_an_unknown_release_may_count_or_not(self):
        unknown = self.FIRST + "1 a > R k 5\n 1.1 a closes own\n"
        self.good(unknown + "1.2 b > A k 2 0 2\n 1.3 b < A k 2 6\n 2 - end")
        self.good(unknown + "1.2 b > A k 2 0 2\n 1.3 b < T k 2\n 2 - end")

    def test_a_chain_is_followed(self):
        """Each by itself could be, but three holds of 2 s do not fit into 5 s."""
        chain = "0 a > A k 1 0 2\n .1 a < A k 1 1\n .1 b > A k 2 9 2\n 2.3 b < A k 2 2\n .2 c > A k 3 9 2\n %s c < A k 3 3\n 9 - end"
        self.good(chain % "4")
        self.bad("one holder", chain % "3.9")

    def test_a_grant_survives_a_restart_and_so_does_a_release(self):
        self.bad("one holder", "0 a > A k 1 0 9\n .1 a < A k 1 5\n 1 - fault 1 1,2,3\n 1.1 a closes reset\n 2 - healed 1\n"
                 "3 b opens 2\n 3 b > A k 2 0 9\n 3.1 b < A k 2 6\n 4 - end")  # fmt: skip
        self.bad("T", "0 a > A k 1 0 9\n .1 a < A k 1 5\n .5 a > R k 5\n .6 a < R k 5\n 1 - fault 1 1,2,3\n 1.1 a closes reset\n"
                 "2 - healed 1\n 3 b opens 2\n 3 b > A k 2 0 9\n 3.1 b < T k 2\n 4 - end")  # fmt: skip

    # certain leases

    def test_certain_leases(self):
        self.good(self.FIRST + "1 b > A k 2 5 2\n 1.99 b < A k 2 6\n 2 - end")
        # tokens tell the opposite order, so this finds it without them
        self.bad("certain leases", "0 a > A k 1 0 9\n .1 a < A k 1 9\n 0 b > A k 2 0 9\n .2 b < A k 2 8\n 1 - end")
        self.bad("certain leases", "0 a > A k 1 0 2\n .1 a < A k 1 9 until=2.5\n 2.2 b > A k 2 0 9\n 2.4 b < A k 2 10\n 3 - end")
        self.good("0 a > A k 1 0 2\n .1 a < A k 1 9 until=1.9\n 2.2 b > A k 2 0 9\n 2.4 b < A k 2 10\n 3 - end")
        self.bad("certain leases", self.FIRST + "1 a > K k 5 5\n 1.1 a < K k 5\n 2 b > A k 2 5 2\n 2.5 b < A k 2 6\n 3 - end")

    # store

    def test_store(self):
        self.good(self.FIRST + ".5 - store k 5 yes\n 3 b > A k 2 0 2\n 3.1 b < A k 2 6\n 3.2 - store k 6 yes\n 3.3 - store k 5 no\n 4 - end")
        self.bad("store", self.FIRST + ".5 - store k 6 yes\n .6 - store k 5 no\n 1 - end")
        self.bad("store", self.FIRST + ".5 - store k 6 yes\n .6 - store k 5 yes\n 1 - end")

    # N, R, K

    def test_n(self):
        self.good(self.FIRST + "1.9 a > K k 5 2\n 2 a < N k 5\n 3 - end")
        self.good(self.FIRST + "1 a > R k 5\n 1.1 b > R k 5\n 1.2 a < R k 5\n 1.3 b < N k 5\n 3 - end")
        self.bad("N", self.FIRST + "1 a > K k 5 2\n 1.1 a < N k 5\n 3 - end")
        self.bad("N", self.FIRST + "1 a > R k 5\n 1.1 a < N k 5\n 3 - end")

    def test_r_and_k(self):
        self.bad("R and K", self.FIRST + "1 a > R k 5\n 1.1 a < R k 5\n 1.2 a > R k 5\n 1.3 a < R k 5\n 2 - end")
        self.bad("R and K", self.FIRST + "1 a > R k 5\n 1.1 a < R k 5\n 1.2 a > K k 5 2\n 1.3 a < K k 5\n 2 - end")
        self.bad("R and K", self.FIRST + "1 b > R k 99\n 1.1 b < R k 99\n 2 - end")
        self.bad("R and K", self.FIRST + "1 b > R j 5\n 1.1 b < R j 5\n 2 - end")
        self.bad("R and K", self.FIRST + "3 a > K k 5 2\n 3.1 a < K k 5\n 4 - end")
        self.bad("R and K", self.FIRST + "3 a > R k 5\n 3.1 a < R k 5\n 4 - end")
        self.good(self.FIRST + "3 a > R k 5\n 3.1 a < R k 5\n 4 - end", exact=False)
        self.good(self.FIRST + "2.1 a > R k 5\n 2.2 a < R k 5\n 4 - end")  # late, within the bound

    def test_r_for_a_grant_that_got_lost(self):
        self.good("0 a > A k 1 0 9\n .1 a closes own\n 1 b > R k 5\n 1.1 b < R k 5\n 2 - end")

    # fifo

    QUEUE = "0 a > A k 1 0 9\n .1 a < A k 1 1\n .2 b > A k 2 30 9\n"
    THERE = ".3 b > A j 9 0 9\n .4 b < A j 9 2\n"  # so b stands in the queue by then

    def test_fifo(self):
        both = ".5 c > A k 3 30 9\n 1 a > R k 1\n 1.1 a < R k 1\n"
        end = "1.2 %s\n 1.3 %s > R k 3\n 1.4 %s < R k 3\n 1.5 %s\n 2 - end"
        right = end % ("b < A k 2 3", "b", "b", "c < A k 3 4")
        wrong = end % ("c < A k 3 3", "c", "c", "b < A k 2 4")
        self.good(self.QUEUE + self.THERE + both + right)
        self.bad("fifo", self.QUEUE + self.THERE + both + wrong)
        self.good(self.QUEUE + both + wrong)  # nobody knows which of them came first

    def test_nobody_slips_in(self):
        barge = "1 a > R k 1\n 1.1 c > A k 3 0 9\n 1.2 a < R k 1\n 1.3 c < A k 3 3\n 1.4 c > R k 3\n 1.5 c < R k 3\n"
        self.bad("fifo", self.QUEUE + self.THERE + barge + "1.6 b < A k 2 4\n 2 - end")
        self.bad("fifo", self.QUEUE + self.THERE + barge + "31 b < T k 2\n 32 - end")
        self.good(self.QUEUE + self.THERE + "1 b > C k 2\n" + barge + "1.2 b < T k 2\n 2 - end")

    # T and B

    def test_t_needs_a_holder(self):
        self.good(self.FIRST + "1 b > A k 2 0 2\n 1.1 b < T k 2\n 2 - end")
        self.bad("T", "1 b > A k 2 0 2\n 1.1 b < T k 2\n 2 - end")
        self.bad("T", self.FIRST + "1 a > R k 5\n 1.1 a < R k 5\n 1.2 b > A k 2 0 2\n 1.3 b < T k 2\n 2 - end")
        self.bad("T", self.FIRST + "3 b > A k 2 0 2\n 3.1 b < T k 2\n 4 - end")
        self.good("0 c > A k 3 0 2\n .1 a > A k 1 0 2\n .2 a < T k 1\n .3 c closes own\n 1 - end")  # c may hold it

    def test_a_waiter_was_passed_over(self):
        held = "0 a > A k 1 0 9\n .1 a < A k 1 5\n 1 b > A k 2 3 9\n"
        self.good(held + "4.1 b < T k 2\n 5 - end")
        self.bad("T", held + "2 a > R k 5\n 2.1 a < R k 5\n 4.1 b < T k 2\n 5 - end")

    def test_t_comes_at_the_end_of_its_wait(self):
        held = "0 a > A k 1 0 9\n .1 a < A k 1 5\n 1 b > A k 2 3 9\n"
        self.bad("T", held + "3.9 b < T k 2\n 5 - end")
        self.good(held + "3 b > C k 2\n 3.1 b < T k 2\n 5 - end")
        self.good(held + "3 b shut\n 3.1 b < T k 2\n 3.2 b closes eof\n 5 - end")

    def test_b(self):
        self.good("1 b > A k 2 0 2\n 1.1 b < B k 2\n 2 - end")
        self.bad("B", "1 b > A k 2 0 2\n 1.1 b < B k 2\n 2 - end", busy=False)
        self.good(".5 - fault 1 2\n 1 b > A k 2 0 2\n 1.1 b < B k 2\n 2 - end", busy=False)

    # late

    def test_late(self):
        self.good(self.FIRST + "1 b > A k 2 9 2\n 2.3 b < A k 2 6\n 3 - end")
        self.bad("late", self.FIRST + "1 b > A k 2 9 2\n 2.5 b < A k 2 6\n 3 - end")
        self.bad("late", self.FIRST + "1 b > A k 2 9 2\n 1.1 a > R k 5\n 1.2 a < R k 5\n 1.7 b < A k 2 6\n 3 - end")
        self.bad("late", "1 b > A k 2 9 2\n 1.5 b < A k 2 6\n 3 - end")
        self.good("1.1 - fault 1 2\n 1.2 - healed 1\n 1 b > A k 2 9 2\n 1.8 b < A k 2 6\n 3 - end")

    # in time

    def test_in_time(self):
        self.good(self.FIRST + "1 a > R k 5\n 2 - end")
        self.bad("in time", self.FIRST + "1 a > R k 5\n 7 - end")
        self.bad("in time", self.FIRST + "1 b > A k 2 1 9\n 8 - end")
        self.bad("in time", self.FIRST + ".2 b > A k 2 1 9\n 1.6 b < T k 2\n 8 - end")
        self.good(self.FIRST + ".2 b > A k 2 1 9\n 1.4 b < T k 2\n 8 - end")

    # connections

    def test_connections(self):
        self.good("0 a > P 1\n .1 a < P 1\n 1 a closes own\n 2 - end")
        self.bad("connections", "0 a > P 1\n .1 a < P 1\n 1 a closes eof\n 2 - end")
        fault = "0 a opens 2\n .5 - fault 1 %s\n 1 a closes reset\n 1.5 - healed 1\n 2 - end"
        self.good(fault % "2")
        self.bad("connections", fault % "1,3")
        self.bad("connections", ".1 - fault 1 1\n .2 - healed 1\n 1 a > P 1\n 1.1 a < P 1\n 2 a closes eof\n 3 - end")

    def test_a_half_close_is_answered(self):
        begin = "0 a > A k 1 0 9\n .1 a < A k 1 5\n .2 a > R k 5\n .2 a shut\n"
        self.good(begin + ".3 a < R k 5\n .4 a closes eof\n 1 - end")
        self.bad("connections", begin + ".4 a closes eof\n 1 - end")
        self.good(".1 - fault 1 1\n" + begin + ".4 a closes eof\n 1 - end")

    def test_an_error_needs_a_fault(self):
        self.bad("connections", "0 a > P 1\n .1 a < E 6\n .2 a closes eof\n 1 - end")
        self.good("0 a > P 1\n .05 - fault 1 1\n .1 a < E 6\n .2 a closes eof\n 1 - end")

    # progress

    def test_progress(self):
        self.good("0 - calm 2\n 1 a > A k 1 0 9\n 1.1 a < A k 1 5\n 9 - end")
        self.bad("progress", "0 - calm 2\n 1 a > R k 1\n 5 a < N k 1\n 9 - end")
        self.good("0 - calm 2\n 1 a > A j 8 0 9\n 1.1 a < A j 8 5\n 1.2 b > A j 1 9 9\n 9 - end", late_ms=9000)
        waiter = "0 - calm 1\n 0.1 a > A j 8 0 9\n 0.2 a < A j 8 5\n 0.5 b > A j 1 3 9\n %s b < T j 1\n 9 - end"
        self.good(waiter % "3.6")
        self.bad("progress", waiter % "5.2", late_ms=2000)

    # what is no history

    def test_bad_histories(self):
        for text in ("0 a > A k 1 0 9\n 1 a > A k 1 0 9", "0 a closes own\n 1 a > P 1\n 2 a < P 1"):
            with self.assertRaises(BadHistory):
                judge.judge(events_of(text))

    def test_the_verdict_can_be_read(self):
        out = io.StringIO()
        judge.tell(judge.judge(events_of(self.FIRST + ".3 b > A k 2 0 2\n .4 b < A k 2 6\n 1 - end"), LIMITS), out)
        self.assertIn("BROKEN: one holder: token 6 of 'k' was granted while token 5 was held", out.getvalue())
        self.assertTrue(out.getvalue().rstrip().splitlines()[-1].startswith("verdict: BAD: "))


if __name__ == "__main__":
    unittest.main()
