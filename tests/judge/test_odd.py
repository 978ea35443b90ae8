"""Histories that look wrong and are right: the judge must be quiet about them, or it could not be believed. Where it costs
little, the nearest history that is wrong stands beside the right one."""

import unittest

from story import StoryCase

HELD = "0 a > A k 1 0 9\n .1 a < A k 1 5\n"  # until about 9
BRIEF = "0 a > A k 1 0 2\n .1 a < A k 1 5\n"  # until about 2


class UnknownTest(StoryCase):
    """What got lost may have had its effect, or none, and later than one thinks."""

    LOST = "0 a > A k 1 0 3\n .1 a closes own\n"

    def test_an_acquire_may_have_been_granted(self):
        self.good(self.LOST + "1 b > A k 2 0 3\n 1.1 b < T k 2\n 2 b > A k 3 9 3\n 3.3 b < A k 3 6\n 4 - end")
        self.good(self.LOST + "1 b > A k 2 0 3\n 1.1 b < A k 2 6\n 2 - end")
        self.bad("T", self.LOST + "4.5 b > A k 2 0 3\n 4.6 b < T k 2\n 5 - end")
        self.bad("late", self.LOST + "1 b > A k 3 9 3\n 5 b < A k 3 6\n 6 - end")

    def test_a_frozen_node_executes_it_when_it_thaws(self):
        frozen = ".05 - fault 1 1\n" + self.LOST + "5 - healed 1\n b opens 2\n"
        frozen = frozen.replace(" b opens", "5 b opens")
        self.good(frozen + "7 b > A k 2 0 3\n 7.1 b < T k 2\n 8 - end")
        self.bad("T", frozen + "14 b > A k 2 0 3\n 14.1 b < T k 2\n 15 - end")

    def test_its_connection_is_still_there_at_the_end(self):
        self.good("0 a > A k 1 30 3\n 1 b > A k 2 0 3\n 1.1 b < T k 2\n 1.2 - end")

    def test_a_renewal_comes_late(self):
        """It counts from then, and makes the lease longer than anybody knows."""
        renewed = BRIEF + "1 a > K k 5 4\n 1.1 a closes own\n"
        self.good(renewed + "2.2 b > A k 2 9 2\n 5.3 b < A k 2 6\n 6 - end")
        self.good(renewed + "3 c > R k 5\n 3.1 c < R k 5\n 6 - end")
        self.bad("late", renewed + "2.2 b > A k 2 9 2\n 6 b < A k 2 6\n 7 - end")

    def test_a_renewal_is_told_too_late(self):
        """It made the lease shorter; by the time at which its client could be told, that was over."""
        self.good(HELD + "1 a > K k 5 1\n 2.5 a < N k 5\n 3 - end")
        self.bad("N", HELD + "1 a > K k 5 4\n 2.5 a < N k 5\n 3 - end")

    def test_a_release_is_sent_again(self):
        again = HELD + "1 a > R k 5\n 1.1 a closes own\n 1.2 c > R k 5\n"
        self.good(again + "1.3 c < N k 5\n 2 - end")
        self.good(again + "1.3 c < R k 5\n 2 - end")
        self.good(again + "1.25 b > A k 2 0 9\n 1.3 b < A k 2 6\n 1.4 c < N k 5\n 2 - end")

    def test_a_renewal_is_sent_again_while_the_first_is_on_its_way(self):
        twice = HELD + "1 a > K k 5 1\n 1.5 c > K k 5 1\n 1.6 c < K k 5\n 1.9 a < K k 5\n"
        self.good(twice + "2 b > A k 2 9 9\n 2.55 b < A k 2 6\n 3 - end")  # that of c was the last one
        self.good(twice + "2 b > A k 2 9 9\n 3.2 b < A k 2 6\n 4 - end")  # that of a was
        self.bad("one holder", twice + "2 b > A k 2 9 9\n 2.4 b < A k 2 6\n 3 - end")
        self.bad("certain leases", twice + "2 b > A k 2 9 9\n 2.4 b < A k 2 6\n 3 - end")


class TimesTest(StoryCase):
    def test_what_has_the_same_time_has_any_order(self):
        self.good(HELD + "1 a > R k 5\n 1.1 a < R k 5\n 1.1 b > A k 2 0 9\n 1.2 b < T k 2\n 2 - end")
        self.good("0 a > A k 1 0 9\n .1 a < A k 1 5\n .1 b > A j 2 0 9\n .2 b < A j 2 4\n 1 - end")
        self.good(HELD + "1 a > R k 5\n 1 b > A k 2 0 9\n 1 b < A k 2 6\n 1 a < R k 5\n 2 - end")

    def test_a_grant_is_heard_of_after_its_end(self):
        late = "0 a > A k 1 0 2\n .05 - fault 1 1\n .06 b opens 2\n 1 b > A k 2 9 2\n 2.1 b < A k 2 6\n 2.9 - healed 1\n"
        self.good(late + "3 a < A k 1 5\n 3.1 a > R k 5\n 3.2 a < N k 5\n 3.6 - end")

    def test_a_lease_is_longer_by_the_time_without_a_leader(self):
        silent = BRIEF + "1 - fault 1 2\n 3 - healed 1\n"
        self.good(silent + "4 b > A k 2 0 2\n 4.1 b < T k 2\n 5 - end")
        self.good(silent + "4 a > R k 5\n 4.1 a < R k 5\n 5 - end")
        self.bad("T", silent + "5 b > A k 2 0 2\n 5.1 b < T k 2\n 6 - end")

    def test_a_cancel_whose_time_nobody_knows(self):
        """libloquet gives up by itself; its clients are at node 0."""
        given_up = HELD + "1 b opens %d\n 1 b > A k 2 3 9\n 1 b > C k 2\n 3.5 b < T k 2\n 5 - end"
        self.good(given_up % 0)
        self.bad("in time", given_up % 1)


class EndsTest(StoryCase):
    """Connections on their last legs."""

    def test_a_node_that_stops_says_t_first(self):
        self.good(HELD + ".2 b opens 2\n .2 b > A k 2 30 9\n .5 - fault 1 2\n .6 b < T k 2\n .7 b < E 6\n .8 b closes eof\n 2 - end")

    def test_a_fault_is_felt_a_little_later(self):
        self.good(".1 - fault 1 1\n .2 - healed 1\n" + HELD + ".6 a closes reset\n 1 - end")
        self.good(".05 - fault 1 1\n .2 - healed 1\n 0 a > A k 1 0 9\n .6 a < B k 1\n 1 - end", busy=False)

    def test_answers_arrive_after_the_end_of_input(self):
        shut = HELD + "1 a > R k 5\n 1.1 a shut\n"
        self.good(shut + "1.2 a < R k 5\n 1.3 a closes eof\n 2 - end")

    def test_without_a_leader_a_waiter_hangs(self):
        """Its connection is closed long after its wait."""
        hangs = HELD + "1 b > A k 2 3 9\n 1.5 - fault 1 1,2,3\n 10 b closes eof\n %s - healed 1\n 12 - end"
        self.good(hangs % "10.5")
        self.bad("in time", hangs % "1.6")


if __name__ == "__main__":
    unittest.main()
