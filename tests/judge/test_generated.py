"""The judge on generated histories: those of a right server pass, each lie is caught, and big ones take seconds."""

import os
import random
import time
import unittest

import judge
import simhistory

SEED = int(os.environ.get("LOQUET_TEST_SEED") or time.time_ns() % (1 << 32))
SEEDS = int(os.environ.get("LQ_JUDGE_SEEDS") or 4)


class GeneratedTest(unittest.TestCase):
    def judged(self, *arguments, **more):
        world = simhistory.World(*arguments, **more)
        return world, judge.judge(world.run())

    def test_the_truth_passes(self):
        for seed in range(SEED, SEED + 2 * SEEDS):
            _, case = self.judged(seed)
            self.assertEqual(case.violations, [], "seed %d" % seed)
            self.assertGreater(len(case.holds), 50, "seed %d" % seed)

    def test_every_rule_had_something_to_look_at(self):
        looked = set()
        for seed in range(SEED, SEED + 3):
            looked.update(self.judged(seed)[1].checked)
        expected = {"tokens", "one holder", "certain leases", "N", "R and K", "fifo", "T", "late", "in time", "answers"}
        self.assertLessEqual(expected | {"connections", "progress"}, looked)

    def test_every_lie_is_caught(self):
        """A history may be without an occasion that shows the lie; so many in a row mean a blind judge."""
        for lie, rules in simhistory.LIES.items():
            with self.subTest(lie):
                caught = told = 0
                for seed in range(SEED, SEED + 10 * SEEDS):
                    world, case = self.judged(seed, lie)
                    told += world.server.lies_told
                    caught += any(violation.rule in rules for violation in case.violations)
                    if caught and seed >= SEED + SEEDS - 1:
                        break
                self.assertGreater(caught, 0, "from seed %d, told %d times" % (SEED, told))

    def test_a_hundred_thousand_operations(self):
        events = big_history(random.Random(SEED), 100_000)
        began = time.process_time()
        case = judge.judge(events)
        self.assertEqual(case.violations, [])
        self.assertEqual(case.history.operations(), 100_000)
        self.assertLess(time.process_time() - began, 20)


def big_history(rng, operations):
    """Pairs of acquire and release on a few keys, from many connections, each key handed from one to the next."""
    conns, keys, events, now, token = 64, 16, [], 0, 0
    for conn in range(conns):
        events.append({"t": 0, "e": "open", "conn": conn, "client": conn, "node": conn % 3 + 1})
    for pair in range(operations // 2):
        conn, key = rng.randrange(conns), "key-%d" % rng.randrange(keys)
        token += rng.randint(1, 3)
        who = {"conn": conn, "key": key}
        lock = {"owner": pair, "token": token}
        events.append({"t": now + 1, "e": "send", "op": "A", "owner": pair, "wait": 5, "lease": 5, **who})
        events.append({"t": now + 2000, "e": "recv", "op": "A", **lock, **who})
        events.append({"t": now + 3000, "e": "send", "op": "R", "token": token, **who})
        events.append({"t": now + 4000, "e": "recv", "op": "R", "token": token, **who})
        now += rng.randint(4001, 200_000)
    events.append({"t": now, "e": "end"})
    return events


if __name__ == "__main__":
    unittest.main()
