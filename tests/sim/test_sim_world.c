/* The simulated world, where it must be like a real one: else nodes would be blamed for its faults.
 */
#include "lq_planted.h"
#include "lq_test.h"
#include "sim_world.h"

#ifdef LOQUET_PLANTED
int lq_planted; /* none */
#endif

static struct sim *sim;

static void setup(void)
{
    struct sim_options options = {.seed = lq_test_seed(), .n_nodes = 3, .seconds = 60};
    sim = sim_new(&options);
}

static void teardown(void)
{
    sim_free(sim);
}

/* ---- Links. */

/* Whether the processes of both ends know the same connection. */
static bool are_linked(uint32_t a, uint32_t b)
{
    const struct sim_way *there = &sim->network.ways[a][b], *back = &sim->network.ways[b][a];
    return there->linked != 0 && there->linked == back->linked &&
           there->linked == there->connection && back->linked == back->connection;
}

static void run_until_linked(uint32_t a, uint32_t b)
{
    uint64_t latest_us = sim->now_us + 30 * SIM_S;
    while (!are_linked(a, b)) {
        ck_assert_uint_lt(sim->now_us, latest_us);
        sim_run_until(sim, sim->now_us + 10 * SIM_MS);
    }
}

/* Breaks the link of the two, and stops when their new one is made but not heard of. */
static void run_until_redialled(uint32_t a, uint32_t b)
{
    uint64_t latest_us = sim->now_us + 30 * SIM_S, old;
    run_until_linked(a, b);
    old = sim->network.ways[a][b].connection;
    sim_network_close(sim, a, b);
    while (sim->network.ways[a][b].connection <= old) {
        ck_assert_uint_lt(sim->now_us, latest_us);
        sim_run_until(sim, sim->now_us + 1);
    }
    ck_assert(!are_linked(a, b));
}

/* One end had its link then, the other had none, and none of them ever tried again. */
START_TEST(a_hello_that_meets_a_blocked_way_is_late_but_not_lost)
{
    for (int round = 0; round < 4; round++) {
        sim->network.drops_blocked = round % 2 == 0;
        run_until_redialled(1, 2);
        sim_network_block(sim, 1, 2, true);
        sim_run_until(sim, sim->now_us + (round < 2 ? 1 : 20) * SIM_S);
        ck_assert(!are_linked(1, 2));
        sim_network_block(sim, 1, 2, false);
        run_until_linked(1, 2);
    }
    ck_assert(!sim_has_failed(sim));
}
END_TEST

static Suite *suite_of_world(void)
{
    Suite *suite = suite_create("world of the simulator");
    TCase *tcase = tcase_create("links");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_hello_that_meets_a_blocked_way_is_late_but_not_lost);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return lq_test_run(suite_of_world());
}
