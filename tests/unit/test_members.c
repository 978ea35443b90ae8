/* Members, and that their bytes are raft's. */
#include "lq_mem.h"
#include "lq_members.h"
#include "lq_test.h"

#include <raft.h>
#include <stdio.h>
#include <string.h>

static struct lq_members three(void)
{
    struct lq_members members = {0};
    ck_assert(lq_members_add(&members, 1, "a:1", LQ_ROLE_VOTER));
    ck_assert(lq_members_add(&members, 7, "b.example:7000", LQ_ROLE_STANDBY));
    ck_assert(lq_members_add(&members, UINT32_MAX, "[::1]:65535", LQ_ROLE_SPARE));
    return members;
}

static struct lq_members drawn(struct lq_rand *rand)
{
    struct lq_members members = {0};
    size_t n = 1 + lq_rand_below(rand, LQ_MEMBERS_MAX);
    while (members.n < n) {
        char address[LQ_ADDRESS_MAX + 1] = "";
        size_t len = 1 + lq_rand_below(rand, lq_rand_below(rand, 2) == 0 ? 30 : LQ_ADDRESS_MAX);
        for (size_t i = 0; i < len; i++) {
            address[i] = (char)('!' + lq_rand_below(rand, '~' - '!' + 1));
        }
        (void)lq_members_add(&members, (uint32_t)lq_rand_next(rand) >> lq_rand_below(rand, 32),
                             address, (enum lq_role)lq_rand_below(rand, 3));
    }
    return members;
}

static struct lq_buffer encoded(const struct lq_members *members)
{
    struct lq_buffer out = {0};
    lq_members_encode(members, &out);
    return out;
}

/* Decodes from memory of exactly that size. */
static bool decodes(const uint8_t *bytes, size_t len, struct lq_members *ret_members)
{
    uint8_t *copy = lq_malloc(len);
    bool is_good;
    memcpy(copy, bytes, len);
    is_good = lq_members_decode(ret_members, copy, len);
    lq_free(copy);
    return is_good;
}

START_TEST(are_found_added_and_removed)
{
    struct lq_members members = three();
    ck_assert_uint_eq(members.n, 3);
    ck_assert_str_eq(lq_members_find(&members, 7)->address, "b.example:7000");
    ck_assert_ptr_null(lq_members_find(&members, 2));
    ck_assert(lq_members_is_voter(&members, 1));
    ck_assert(!lq_members_is_voter(&members, 7));
    ck_assert(!lq_members_is_voter(&members, 2));
    ck_assert_uint_eq(lq_members_n_voters(&members), 1);
    ck_assert(lq_members_set_role(&members, 7, LQ_ROLE_VOTER));
    ck_assert(!lq_members_set_role(&members, 8, LQ_ROLE_VOTER));
    ck_assert_uint_eq(lq_members_n_voters(&members), 2);
    ck_assert(lq_members_remove(&members, 1));
    ck_assert(!lq_members_remove(&members, 1));
    ck_assert_uint_eq(members.n, 2);
    ck_assert_uint_eq(members.items[0].node, 7);
    ck_assert_uint_eq(members.items[1].node, UINT32_MAX);
    ck_assert(lq_members_add(&members, 1, "a:1", LQ_ROLE_VOTER));
    ck_assert_uint_eq(members.items[2].node, 1);
}
END_TEST

START_TEST(refuse_what_is_no_member)
{
    struct lq_members members = three();
    char address[LQ_ADDRESS_MAX + 2];
    memset(address, 'x', sizeof address);
    address[LQ_ADDRESS_MAX + 1] = '\0';
    ck_assert(!lq_members_add(&members, 0, "c:1", LQ_ROLE_VOTER));
    ck_assert(!lq_members_add(&members, 7, "c:1", LQ_ROLE_VOTER));
    ck_assert(!lq_members_add(&members, 8, "a:1", LQ_ROLE_VOTER));
    ck_assert(!lq_members_add(&members, 8, "", LQ_ROLE_VOTER));
    ck_assert(!lq_members_add(&members, 8, "c 1", LQ_ROLE_VOTER));
    ck_assert(!lq_members_add(&members, 8, "c\x7f", LQ_ROLE_VOTER));
    ck_assert(!lq_members_add(&members, 8, "\xc3\xa9:1", LQ_ROLE_VOTER));
    ck_assert(!lq_members_add(&members, 8, address, LQ_ROLE_VOTER));
    address[LQ_ADDRESS_MAX] = '\0';
    ck_assert(lq_members_add(&members, 8, address, LQ_ROLE_VOTER));
    for (uint32_t node = 100; members.n < LQ_MEMBERS_MAX; node++) {
        (void)snprintf(address, sizeof address, "n:%u", node);
        ck_assert(lq_members_add(&members, node, address, LQ_ROLE_STANDBY));
    }
    ck_assert(!lq_members_add(&members, 9, "d:1", LQ_ROLE_VOTER));
}
END_TEST

START_TEST(have_the_bytes_that_raft_gives_them)
{
    struct lq_rand rand = lq_rand_of(lq_test_seed(), (uint64_t)_i);
    struct lq_members members = drawn(&rand), again = {0};
    struct lq_buffer ours = encoded(&members);
    struct raft_configuration conf, back;
    struct raft_buffer theirs;
    raft_configuration_init(&conf);
    for (size_t i = 0; i < members.n; i++) {
        const struct lq_member *member = &members.items[i];
        ck_assert_int_eq(raft_configuration_add(&conf, member->node, member->address, member->role),
                         0);
    }
    ck_assert_int_eq(raft_configuration_encode(&conf, &theirs), 0);
    ck_assert_uint_eq(ours.len, theirs.len);
    ck_assert_mem_eq(ours.bytes, theirs.base, ours.len);
    ck_assert(decodes(theirs.base, theirs.len, &again));
    ck_assert_uint_eq(again.n, members.n);
    ck_assert_mem_eq(again.items, members.items, sizeof members.items);
    ck_assert_int_eq(raft_configuration_decode(
                         &(struct raft_buffer){.base = ours.bytes, .len = ours.len}, &back),
                     0);
    ck_assert_uint_eq(back.n, members.n);
    for (size_t i = 0; i < members.n; i++) {
        ck_assert_uint_eq(back.servers[i].id, members.items[i].node);
        ck_assert_str_eq(back.servers[i].address, members.items[i].address);
        ck_assert_int_eq(back.servers[i].role, members.items[i].role);
    }
    raft_configuration_close(&back);
    raft_configuration_close(&conf);
    raft_free(theirs.base);
    lq_buffer_done(&ours);
}
END_TEST

START_TEST(decode_nothing_shorter_or_longer)
{
    struct lq_members members = three(), again = {.n = 99};
    struct lq_buffer out = encoded(&members);
    size_t len = out.len;
    memset(lq_buffer_extend(&out, 16), 0, 16);
    for (size_t i = 0; i <= out.len; i++) {
        ck_assert(decodes(out.bytes, i, &again) == (i == len));
        again.n = i < len ? again.n : 99;
        ck_assert_uint_eq(again.n, 99);
    }
    lq_buffer_done(&out);
}
END_TEST

/* Any bytes at all are refused, or are exactly what encoding what was read gives. */
START_TEST(decode_only_what_encode_makes)
{
    struct lq_rand rand = lq_rand_of(lq_test_seed(), 1000 + (uint64_t)_i);
    struct lq_members members = drawn(&rand), again;
    struct lq_buffer out = encoded(&members);
    for (int i = 0; i < 300; i++) {
        size_t at = lq_rand_below(&rand, out.len);
        uint8_t old = out.bytes[at];
        out.bytes[at] = (uint8_t)(old + (lq_rand_below(&rand, 2) == 0 ? 1U : lq_rand_next(&rand)));
        if (decodes(out.bytes, out.len, &again)) {
            struct lq_buffer back = encoded(&again);
            ck_assert_uint_eq(back.len, out.len);
            ck_assert_mem_eq(back.bytes, out.bytes, out.len);
            lq_buffer_done(&back);
        }
        out.bytes[at] = lq_rand_below(&rand, 4) == 0 ? out.bytes[at] : old;
    }
    lq_buffer_done(&out);
}
END_TEST

/* Offsets within the bytes of a member 1 "a" and a member 2 "b": ids at 9 and 20. */
START_TEST(decode_refuses_each_fault)
{
    static const struct {
        size_t at;
        uint8_t value;
    } faults[] = {
        {0, 2},  {0, 0},  {1, 0},  {1, 1},    {1, 3},    {1, 16},   {8, 0x80}, {9, 0},    {9, 2},
        {13, 1}, {16, 1}, {17, 0}, {17, ' '}, {17, 'b'}, {18, 'x'}, {19, 3},   {19, 255}, {31, 1},
    };
    struct lq_members members = {0}, again;
    struct lq_buffer out;
    ck_assert(lq_members_add(&members, 1, "a", LQ_ROLE_VOTER));
    ck_assert(lq_members_add(&members, 2, "b", LQ_ROLE_STANDBY));
    out = encoded(&members);
    ck_assert_uint_eq(out.len, 32);
    ck_assert(decodes(out.bytes, out.len, &again));
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        uint8_t old = out.bytes[faults[i].at];
        out.bytes[faults[i].at] = faults[i].value;
        ck_assert_msg(!decodes(out.bytes, out.len, &again), "fault %zu", i);
        out.bytes[faults[i].at] = old;
    }
    lq_buffer_done(&out);
}
END_TEST

static Suite *members_suite(void)
{
    Suite *suite = suite_create("members");
    TCase *tcase = tcase_create("members");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, are_found_added_and_removed);
    tcase_add_test(tcase, refuse_what_is_no_member);
    tcase_add_loop_test(tcase, have_the_bytes_that_raft_gives_them, 0, 50);
    tcase_add_test(tcase, decode_nothing_shorter_or_longer);
    tcase_add_loop_test(tcase, decode_only_what_encode_makes, 0, 20);
    tcase_add_test(tcase, decode_refuses_each_fault);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    (void)lq_test_seed();
    return lq_test_run(members_suite());
}
