"""What a lock service could lie about, one by one, beside histories that look much like it and are true. test_rules.py has
each rule's plain cases; these are the ones in which a lie has a cover: others who wait, leases that were renewed or made
shorter, answers that got lost, faults."""

import unittest

from story import StoryCase

HELD = "0 a > A k 1 0 9\n .1 a < A k 1 5\n"  # until about 9
BRIEF = "0 a > A k 1 0 2\n .1 a < A k 1 5\n"  # until about 2
FREED = "2 a > R k 5\n 2.1 a < R k 5\n"


class HoldersTest(StoryCase):
    def test_two_holders(self):
        self.bad("one holder", HELD + "1 b > A k 2 0 9\n 1.1 b < A k 2 6\n 2 - end")
        self.bad("certain leases", HELD + "1 b > A k 2 0 9\n 1.1 b < A k 2 6\n 2 - end")

    def test_the_first_of_two_holders_goes_on(self):
        """It shows by what it is told after the other had its grant."""
        lost = BRIEF + "1 a > R k 5\n 1.1 a closes own\n 1.2 b > A k 2 0 9\n 1.3 b < A k 2 6\n"  # R may have come through
        self.good(lost + "1.4 c > R k 5\n 1.5 c < N k 5\n 2 - end")
        self.bad("one holder", lost + "1.4 c > R k 5\n 1.5 c < R k 5\n 2 - end")
        self.bad("one holder", lost + "1.4 c > K k 5 2\n 1.5 c < K k 5\n 2 - end")

    def test_two_holders_behind_a_touch_that_got_lost(self):
        """What is over and done with before a renewal that was confirmed excuses nothing after it."""
        for touch in ("R k 5", "K k 5 1"):
            renewed = HELD + "1 a > %s\n 1.1 a closes own\n %%s c > K k 5 9\n %%s c < K k 5\n" % touch
            taken = "4 b > A k 2 0 9\n 4.1 b < A k 2 6\n 5 - end"
            self.bad("one holder", renewed % ("3", "3.1") + taken)
            self.bad("certain leases", renewed % ("3", "3.1") + taken)
            self.good(renewed % ("1.1", "1.2") + taken)  # it may have come after the renewal
            self.good("2.5 - fault 1 2\n" + renewed.replace("1.1 a", "2.9 a") % ("3", "3.1") + taken)

    def test_a_lock_is_let_go_by_a_token_that_does_not_hold_it(self):
        self.bad("one holder", HELD + "1 b > R k 4\n 1.1 b < N k 4\n 1.2 b > A k 2 0 9\n 1.3 b < A k 2 6\n 2 - end")
        self.bad("N", HELD + "1 b > R k 4\n 1.1 b < N k 4\n 1.2 a > R k 5\n 1.3 a < N k 5\n 2 - end")


class TokensTest(StoryCase):
    def test_a_token_goes_back_from_holder_to_holder(self):
        chain = HELD + "1 b > A k 2 9 9\n" + FREED + "2.2 b < A k 2 %d\n 3 - end"
        self.good(chain % 6)
        self.bad("tokens", chain % 4 + "\n 2.3 b > R k 4\n 2.4 b < R k 4\n 2.5 c > A k 3 0 9\n 2.6 c < A k 3 4")

    def test_a_token_goes_back_over_a_restart(self):
        self.bad("tokens", BRIEF + "1 - fault 1 1,2,3\n 1.1 a closes reset\n 4 - healed 1\n"
                 "5 b > A j 2 0 2\n 5.1 b < A j 2 5\n 6 - end")  # fmt: skip
        self.bad("tokens", BRIEF + "1 - fault 1 1,2,3\n 1.1 a closes reset\n 4 - healed 1\n"
                 "5 b > A j 2 0 2\n 5.1 b < A j 2 3\n 6 - end")  # fmt: skip

    def test_a_token_comes_again_on_the_same_key(self):
        self.bad("tokens", BRIEF + "1 a > R k 5\n 1.1 a < R k 5\n 1.2 b > A k 2 0 2\n 1.3 b < A k 2 5\n 2 - end")


class LeasesTest(StoryCase):
    def test_a_lease_ends_early(self):
        self.bad("N", HELD + "5 a > R k 5\n 5.1 a < N k 5\n 6 - end")
        self.bad("N", HELD + "5 a > K k 5 9\n 5.1 a < N k 5\n 6 - end")
        self.bad("one holder", HELD + "1 b > A k 2 9 9\n 5 b < A k 2 6\n 6 - end")

    WAITED = HELD + "1 b > A k 2 9 4\n 5 a > R k 5\n 5.1 a < R k 5\n 5.2 b < A k 2 6\n"

    def test_the_lease_of_who_waited_counts_from_its_grant(self):
        self.bad("one holder", self.WAITED + "7 c > A k 3 0 9\n 7.1 c < A k 3 7\n 8 - end")
        self.bad("N", self.WAITED + "7 b > R k 6\n 7.1 b < N k 6\n 8 - end")
        self.bad("N", self.WAITED + "7 b > K k 6 4\n 7.1 b < N k 6\n 8 - end")
        self.good(self.WAITED + "8.9 b > R k 6\n 9 b < N k 6\n 10 - end")
        self.bad("R and K", self.WAITED + "9.6 b > R k 6\n 9.7 b < R k 6\n 10 - end")

    def test_a_lease_ends_late(self):
        self.bad("T", BRIEF + "2.5 b > A k 2 0 9\n 2.6 b < T k 2\n 3 - end")
        self.bad("late", BRIEF + "1 b > A k 2 9 9\n 2.6 b < A k 2 6\n 3 - end")
        self.bad("R and K", BRIEF + "2.5 a > K k 5 9\n 2.6 a < K k 5\n 3 - end")
        self.bad("R and K", BRIEF + "2.5 a > K k 5 9\n 2.6 a < K k 5\n 3 a > K k 5 9\n 3.1 a < K k 5\n 4 - end")
        self.bad("T", BRIEF + "2.2 a > K k 5 9\n 2.3 a < N k 5\n 3 b > A k 2 0 9\n 3.1 b < T k 2\n 4 - end")

    def test_a_renewal_is_lost(self):
        renewed = BRIEF + "1.5 a > K k 5 9\n 1.6 a < K k 5\n"
        self.bad("one holder", renewed + "2 b > A k 2 9 9\n 2.2 b < A k 2 6\n 3 - end")
        self.bad("N", renewed + "3 a > R k 5\n 3.1 a < N k 5\n 4 - end")
        self.bad("N", renewed + "3 a > K k 5 9\n 3.1 a < N k 5\n 4 - end")

    def test_a_renewal_that_makes_the_lease_shorter_is_lost(self):
        shortened = HELD + "1 a > K k 5 1\n 1.1 a < K k 5\n"
        self.good(shortened + "2 b > A k 2 0 9\n 2.3 b < A k 2 6\n 3 - end")
        self.bad("T", shortened + "3 b > A k 2 0 9\n 3.1 b < T k 2\n 4 - end")
        self.bad("late", shortened + "1.2 b > A k 2 9 9\n 3 b < A k 2 6\n 4 - end")
        self.bad("R and K", shortened + "3 a > R k 5\n 3.1 a < R k 5\n 4 - end")
        self.bad("R and K", shortened + "3 a > K k 5 9\n 3.1 a < K k 5\n 4 - end")
        side_by_side = HELD + "1 a > K k 5 1\n 1 c > K k 5 9\n 1.1 a < K k 5\n 1.1 c < K k 5\n"
        self.good(side_by_side + "3 a > R k 5\n 3.1 a < R k 5\n 4 - end")
        self.good(side_by_side + "3 a > R k 5\n 3.1 a < N k 5\n 4 - end")


class ReleasesTest(StoryCase):
    def test_a_release_is_lost(self):
        self.bad("T", HELD + FREED + "2.2 b > A k 2 0 9\n 2.3 b < T k 2\n 3 - end")
        self.bad("T", HELD + "1 b > A k 2 3 9\n" + FREED + "4 b < T k 2\n 5 - end")
        self.bad("late", HELD + "1 b > A k 2 9 9\n" + FREED + "2.6 b < A k 2 6\n 3 - end")
        self.bad("R and K", HELD + FREED + "2.2 a > K k 5 9\n 2.3 a < K k 5\n 3 - end")

    def test_n_though_held(self):
        self.bad("N", HELD + "1 b > R k 5\n 1.1 b < N k 5\n 2 - end")
        self.bad("N", HELD + "1 a > R k 5\n 1.1 a < N k 5\n 1.2 a > R k 5\n 1.3 a < R k 5\n 2 - end")
        self.good("0 a > A k 1 0 9\n .1 b > R k 5\n .2 b < N k 5\n .3 a < A k 1 5\n 1 - end")  # a guess, too early
        self.good(HELD + "1 a > R k 5\n 1 b > R k 5\n 1.1 a < N k 5\n 1.2 b < R k 5\n 2 - end")


class DenialsTest(StoryCase):
    """The lock is given away, and who asked for it is told that it was not."""

    AFTER = FREED + "2.2 c > A k 3 0 9\n 2.3 c < T k 3\n 3 - end"

    def test_t_though_granted(self):
        self.bad("T", HELD + "1 b > A k 2 0 9\n 1.1 b < T k 2\n" + self.AFTER)
        self.bad("late", HELD + "1 b > A k 2 0 9\n 1.1 b < T k 2\n 1.2 c > A k 3 15 9\n" + FREED + "9 c < A k 3 7\n 10 - end")

    def test_b_though_granted(self):
        self.bad("T", HELD + "1 b > A k 2 9 9\n 1.1 b < B k 2\n" + self.AFTER)
        self.bad("T", "0 b > A k 2 0 9\n .1 b < B k 2\n .2 c > A k 3 0 9\n .3 c < T k 3\n 3 - end")

    def test_a_dead_client_is_handed_the_lock(self):
        """Long after its connection was gone."""
        waits = HELD + ".5 b > A k 2 5 3\n .6 b closes own\n 1 c > A k 3 30 9\n 8 a > R k 5\n 8.1 a < R k 5\n %s - end"
        self.good(waits % "8.2 c < A k 3 6\n 9")
        self.bad("late", waits % "11 c < A k 3 7\n 12")

    def test_a_cancelled_waiter_was_passed_over(self):
        """The lock was free while it certainly stood there, though it did not stand there to the end."""
        cancelled = HELD + ".2 b > A k 2 30 9\n .3 b > A j 9 0 9\n .4 b < A j 9 6\n%s5 b > C k 2\n 5.1 b < T k 2\n 6 - end"
        self.good(cancelled % "")
        self.bad("T", cancelled % FREED)


class QueueTest(StoryCase):
    TWO = ".2 b > A k 2 30 9\n .3 b > A j 9 0 9\n .4 b < A j 9 6\n .5 c > A k 3 30 9\n"

    def test_the_order_is_broken_on_release(self):
        self.bad("fifo", HELD + self.TWO + FREED + "2.2 c < A k 3 7\n 2.3 c > R k 7\n 2.4 c < R k 7\n 2.5 b < A k 2 8\n 3 - end")

    def test_the_order_is_broken_on_expiry(self):
        self.bad("fifo", BRIEF + self.TWO + "2.1 c < A k 3 7\n 2.3 c > R k 7\n 2.4 c < R k 7\n 2.5 b < A k 2 8\n 3 - end")
        self.good(BRIEF + self.TWO + "2.1 b < A k 2 7\n 2.3 b > R k 7\n 2.4 b < R k 7\n 2.5 c < A k 3 8\n 3 - end")

    LATER = "0.2 b > A k 2 30 9\n %s c > A k 3 30 9\n 2 a > R k 5\n 2.1 a < R k 5\n 2.2 c < A k 3 6\n 3 - end"

    def test_time_puts_a_waiter_into_its_queue(self):
        """No request is on its way for longer than the bound of lateness."""
        self.good(HELD + self.LATER % "0.45")
        self.bad("fifo", HELD + self.LATER % "0.6")
        self.good("0.3 - fault 1 7\n 0.4 - healed 1\n" + HELD + self.LATER % "0.6")

    CUT = ("0.2 b opens 2\n 0.2 b > A k 2 30 9\n 0.3 b > A j 9 0 9\n 0.4 b < A j 9 6\n 1 c opens 3\n 1 c > A k 3 30 9\n"
           "%s 2 a > R k 5\n 2.1 a < R k 5\n 2.2 c < A k 3 7\n 4 b closes eof\n 4.1 - healed 1\n 5 - end")  # fmt: skip

    def test_a_waiter_of_a_node_that_is_cut_off_has_lost_its_place(self):
        """Its connection lives until the node hears of it."""
        self.good(HELD + self.CUT % "1.5 - fault 1 2\n")
        self.bad("fifo", HELD + self.CUT % "1.5 - fault 1 3\n")
        self.bad("fifo", HELD + self.CUT % "2.5 - fault 1 2\n")
        self.good(HELD + self.CUT.replace("4 b closes eof", "4 b < T k 2") % "1.5 - fault 1 2\n")


class AnswersTest(StoryCase):
    def test_a_wait_does_not_end(self):
        self.bad("in time", HELD + "1 b > A k 2 3 9\n 4.5 b < T k 2\n 6 - end")
        self.bad("in time", HELD + "1 b > A k 2 3 9\n 7 a > R k 5\n 7.1 a < R k 5\n 7.2 b < A k 2 6\n 8 - end")
        self.good(HELD + "1 b > A k 2 3 9\n 4 a > R k 5\n 4.1 a < R k 5\n 4.1 b < A k 2 6\n 8 - end")
        self.good("3 - fault 1 2\n 6.6 - healed 1\n" + HELD + "1 b > A k 2 3 9\n 7 a > R k 5\n 7.1 a < R k 5\n 7.2 b < A k 2 6\n 8 - end")

    def test_grant_after_cancel(self):
        cancelled = HELD + "1 b > A k 2 30 9\n 1.5 b > C k 2\n"
        self.good(cancelled + "1.6 b < T k 2\n 3 - end")
        self.good(cancelled + "1.6 a > R k 5\n 1.6 b < A k 2 6\n 1.7 a < R k 5\n 3 - end")  # they crossed each other
        self.bad("answers", cancelled + "1.6 b < T k 2\n" + FREED + "2.2 b < A k 2 6\n 3 - end")
        self.bad("in time", cancelled + FREED + "2.2 b < A k 2 6\n 3 - end")
        self.bad("in time", cancelled + "5 b < T k 2\n 6 - end")
        self.bad("in time", cancelled + "8 - end")

    def test_grant_after_the_end_of_input(self):
        shut = HELD + "1 b > A k 2 30 9\n 1.5 b shut\n"
        self.good(shut + "1.6 b < T k 2\n 1.7 b closes eof\n 3 - end")
        self.bad("in time", shut + FREED + "2.2 b < A k 2 6\n 2.3 b closes eof\n 3 - end")
        self.bad("in time", shut + "8 - end")
        self.bad("connections", shut + "1.6 b closes eof\n 3 - end")
        self.good("1.5 - fault 1 1\n" + shut + "1.6 b closes eof\n 3 - end")

    def test_answer_twice(self):
        self.bad("answers", HELD + "1 a > R k 5\n 1.1 a < R k 5\n 1.2 a < N k 5\n 2 - end")
        self.bad("answers", HELD + "1 b > A k 2 0 9\n 1.1 b < T k 2\n 1.2 b < T k 2\n 2 - end")
        self.bad("answers", HELD + "1 b > A k 2 0 9\n 1.1 b < B k 2\n" + FREED + "2.2 b < A k 2 6\n 3 - end")

    def test_answer_to_another_request(self):
        two = HELD + "1 b > A k 2 0 9\n 1 c > A k 3 0 9\n"
        self.bad("answers", two + "1.1 b < T k 3\n 1.2 c < T k 3\n 2 - end")
        self.bad("answers", two + "1.1 b < T j 2\n 1.2 c < T k 3\n 2 - end")
        self.bad("answers", HELD + "1 a > R k 5\n 1.1 a < R k 6\n 2 - end")
        self.bad("answers", HELD + "1 a > R k 5\n 1 b > P 1\n 1.1 b < R k 5\n 2 - end")
        self.bad("answers", HELD + "1 b > R k 5\n 1.1 b < K k 5\n 2 - end")

    def test_answer_before_the_question(self):
        self.bad("answers", "0 a > P 1\n .1 a < A k 1 5\n .2 a > A k 1 0 9\n 1 - end")

    def test_answer_behind_an_error(self):
        """What is ready goes first."""
        stopping = ".5 - fault 1 1\n 0 a > A k 1 0 9\n .6 a > R k 5\n"
        self.good(stopping + ".1 a < A k 1 5\n .7 a < R k 5\n .8 a < E 6\n .9 a closes eof\n 1 - end")
        self.bad("answers", stopping + ".1 a < A k 1 5\n .7 a < E 6\n .8 a < R k 5\n .9 a closes eof\n 1 - end")


class ServiceTest(StoryCase):
    def test_a_connection_ends_without_a_fault(self):
        self.bad("connections", HELD + "1 a closes eof\n 2 - end")
        self.bad("connections", HELD + "1 a closes reset\n 1.1 - fault 1 1\n 2 - end")
        self.bad("connections", ".5 - fault 1 1\n .6 - healed 1\n" + HELD + "1.4 a closes eof\n 2 - end")

    def test_an_outcome_is_unknown_without_a_fault(self):
        """libloquet ends a connection whose request it gave up."""
        self.bad("connections", HELD + "1 a > R k 5\n 2 a closes unknown\n 3 - end")

    def test_nothing_moves_after_calm(self):
        self.bad("progress", "0 a > P 1\n 1 - calm 2\n 1.5 a > A k 1 0 9\n 9 - end")
        self.bad("progress", HELD + "0.2 b > A k 2 30 9\n 1 - calm 2\n 1.5 a > R k 5\n 9 - end")

    def test_nobody_is_let_in_after_calm(self):
        """Who can't even connect asks for nothing."""
        gone = "0 a opens 2\n 1 - fault 1 2\n 1 a closes reset\n 2 - healed 1\n 3 - calm 2\n %s - end"
        self.bad("progress", gone % "6")
        self.good(gone % "4.9")
        again = "\n4 b opens 1"  # the same client
        self.good(gone % "6" + again, of={"b": "a"})
        self.good("0 a opens 2\n 1 a closes own\n 3 - calm 2\n 9 - end")


if __name__ == "__main__":
    unittest.main()
