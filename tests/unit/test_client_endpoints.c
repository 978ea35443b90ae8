/* Lists of servers, as people write them. */
#include "lq_endpoints.h"
#include "lq_test.h"

static const struct {
    const char *text, *host, *port; /* of the last one; host NULL: refused */
    size_t n;
} lists[] = {
    {"127.0.0.1:7311", "127.0.0.1", "7311", 1},
    {"a,b:1,c", "c", "7311", 3},
    {"[::1]:65535", "::1", "65535", 1},
    {"x:1,[fe80::1]", "fe80::1", "7311", 2},
    {"", NULL, NULL, 0},
    {"a,", NULL, NULL, 0},
    {":1", NULL, NULL, 0},
    {"a:", NULL, NULL, 0},
    {"a:0", NULL, NULL, 0},
    {"a:65536", NULL, NULL, 0},
    {"a:1x", NULL, NULL, 0},
    {"a:+1", NULL, NULL, 0},
    {"::1", NULL, NULL, 0},
    {"[::1", NULL, NULL, 0},
    {"[::1]7311", NULL, NULL, 0},
    {"[]:1", NULL, NULL, 0},
    {"a b:1", NULL, NULL, 0},
    {"1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", NULL, NULL, 0},
};

START_TEST(lists_of_endpoints)
{
    static struct lq_endpoints endpoints;
    char error[200] = "";
    bool valid =
        lq_endpoints_parse(&endpoints, lists[_i].text, LQ_ENDPOINTS_PORT, error, sizeof error);

    ck_assert_msg(valid == (lists[_i].host != NULL), "'%s': %s", lists[_i].text, error);
    if (valid) {
        ck_assert_uint_eq(endpoints.n, lists[_i].n);
        ck_assert_str_eq(endpoints.items[endpoints.n - 1].host, lists[_i].host);
        ck_assert_str_eq(endpoints.items[endpoints.n - 1].port, lists[_i].port);
    } else {
        ck_assert_str_ne(error, "");
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client endpoints");
    TCase *tcase = tcase_create("client endpoints");

    tcase_add_loop_test(tcase, lists_of_endpoints, 0, (int)(sizeof lists / sizeof *lists));
    suite_add_tcase(suite, tcase);
    return lq_test_run(suite);
}
