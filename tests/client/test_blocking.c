/* The blocking client against a real server: every result, giving up, keeping and losing. */
#include "loquet.h"
#include "lq_test.h"
#include "server.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What happens "at once" may take so long on a busy machine. */
#define SLACK_MS 1500

static struct server server;
static struct loquet_client *client;
static struct loquet_why why;

static void setup(void)
{
    server_start(&server);
    client = loquet_open(server.endpoint, &why);
    ck_assert_msg(client != NULL, "%s", why.text);
}

static void teardown(void)
{
    loquet_close(client);
    server_kill(&server);
}

static void pause_ms(unsigned ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)nanosleep(&time, NULL);
}

static enum loquet_result acquire(const char *key, uint32_t wait_ms, uint32_t lease_s,
                                  struct loquet_ticket **ret_ticket)
{
    struct loquet_request request = {.key = key, .wait_ms = wait_ms, .lease_s = lease_s};
    return loquet_acquire(client, &request, ret_ticket, &why);
}

static struct loquet_ticket *take(const char *key, uint32_t lease_s)
{
    struct loquet_ticket *ticket = NULL;
    enum loquet_result result = acquire(key, 0, lease_s, &ticket);

    ck_assert_msg(result == LOQUET_ACQUIRED, "%s: %s", loquet_result_text(result), why.text);
    return ticket;
}

/* ---- Results. */

START_TEST(pair)
{
    uint64_t before_ms = loquet_now_ms();
    struct loquet_ticket *ticket = take("k", 30);
    uint64_t ends_ms = loquet_ticket_ends_ms(ticket);
    size_t len;

    ck_assert_str_eq(why.text, "");
    ck_assert_str_eq(why.endpoint, server.endpoint);
    ck_assert_str_eq(loquet_ticket_key(ticket, &len), "k");
    ck_assert_uint_eq(len, 1);
    ck_assert_uint_gt(loquet_ticket_token(ticket), 0);
    ck_assert_uint_ne(loquet_ticket_owner(ticket), 0);
    ck_assert_uint_eq(loquet_ticket_lease_s(ticket), 30);
    ck_assert_uint_ge(ends_ms, before_ms + 29400);
    ck_assert_uint_le(ends_ms, loquet_now_ms() + 29400);
    ck_assert(loquet_ticket_is_held(ticket));

    ck_assert_int_eq(loquet_release(ticket, &why), LOQUET_RELEASED);
    ck_assert(!loquet_ticket_is_held(ticket));
    ck_assert_uint_eq(loquet_ticket_ends_ms(ticket), 0);
    ck_assert_int_eq(loquet_release(ticket, &why), LOQUET_NOT_HELD);
    ck_assert_int_eq(loquet_renew(ticket, 30, &why), LOQUET_NOT_HELD);
    loquet_ticket_free(ticket);
}
END_TEST

START_TEST(held_by_another)
{
    struct loquet_ticket *ticket = take("k", 30), *other = NULL;
    uint64_t began_ms = loquet_now_ms();

    ck_assert_int_eq(acquire("k", 0, 30, &other), LOQUET_TIMEOUT);
    ck_assert_int_eq(acquire("k", 300, 30, &other), LOQUET_TIMEOUT);
    ck_assert_uint_ge(loquet_now_ms() - began_ms, 300);
    ck_assert_ptr_null(other);
    loquet_ticket_free(ticket); /* the lock stays held */
    ck_assert_int_eq(acquire("k", 0, 30, &other), LOQUET_TIMEOUT);
}
END_TEST

START_TEST(renewal)
{
    struct loquet_ticket *ticket = take("k", 2);
    uint64_t ends_ms = loquet_ticket_ends_ms(ticket);

    ck_assert_int_eq(loquet_renew(ticket, 60, &why), LOQUET_RENEWED);
    ck_assert_uint_gt(loquet_ticket_ends_ms(ticket), ends_ms + 50000);
    ck_assert_uint_eq(loquet_ticket_lease_s(ticket), 60);
    ck_assert_int_eq(loquet_release(ticket, NULL), LOQUET_RELEASED);
    loquet_ticket_free(ticket);
}
END_TEST

START_TEST(ticket_of_another_process)
{
    struct loquet_ticket *ticket = take("k", 30);
    struct loquet_ticket *copy = loquet_ticket_make(client, "k", 1, loquet_ticket_token(ticket));

    ck_assert_uint_eq(loquet_ticket_ends_ms(copy), 0);
    ck_assert(!loquet_keep(copy, NULL, NULL)); /* nothing is known about its lease */
    ck_assert_int_eq(loquet_renew(copy, 10, &why), LOQUET_RENEWED);
    ck_assert(loquet_ticket_is_held(copy));
    ck_assert_int_eq(loquet_release(copy, &why), LOQUET_RELEASED);
    ck_assert_int_eq(loquet_release(ticket, &why), LOQUET_NOT_HELD);
    ck_assert_ptr_null(loquet_ticket_make(client, "a\nb", 3, 1));
    ck_assert_ptr_null(loquet_ticket_make(client, "", 0, 1));
    loquet_ticket_free(copy);
    loquet_ticket_free(ticket);
}
END_TEST

START_TEST(invalid_arguments)
{
    struct loquet_ticket *ticket = NULL;

    ck_assert_int_eq(acquire("", 0, 30, &ticket), LOQUET_INVALID);
    ck_assert_int_eq(acquire(NULL, 0, 30, &ticket), LOQUET_INVALID);
    ck_assert_int_eq(acquire("\xff", 0, 30, &ticket), LOQUET_INVALID);
    ck_assert_int_eq(acquire("k", 0, 0, &ticket), LOQUET_INVALID);
    ck_assert_int_eq(acquire("k", 0, 256, &ticket), LOQUET_INVALID);
    ck_assert_str_ne(why.text, "");
    ck_assert_int_eq(acquire("k", LOQUET_WAIT_MAX + 1, 30, &ticket), LOQUET_INVALID);
    ck_assert_ptr_null(ticket);
    ck_assert_ptr_null(loquet_open("a:b", &why));
    ck_assert_str_ne(why.text, "");
    ck_assert_ptr_null(loquet_open("no-such-host.invalid", NULL));
}
END_TEST

START_TEST(ping)
{
    uint64_t round_trip_us = UINT64_MAX;

    ck_assert_int_eq(loquet_ping(client, &round_trip_us, &why), LOQUET_ALIVE);
    ck_assert_uint_lt(round_trip_us, SLACK_MS * 1000);
    ck_assert_str_eq(why.endpoint, server.endpoint);
}
END_TEST

START_TEST(nobody_there)
{
    struct loquet_ticket *ticket = take("k", 30);
    struct loquet_ticket *other = NULL;
    uint64_t unused, began_ms = loquet_now_ms();

    server_kill(&server);
    ck_assert_int_eq(acquire("k", 0, 30, &other), LOQUET_CLOSED);
    ck_assert_ptr_nonnull(strstr(why.text, "refused"));
    ck_assert_int_eq(loquet_ping(client, &unused, &why), LOQUET_CLOSED);
    ck_assert_uint_lt(loquet_now_ms() - began_ms, SLACK_MS);
    ck_assert_int_eq(acquire("k", 300, 30, &other), LOQUET_TIMEOUT);
    began_ms = loquet_now_ms();
    ck_assert_int_eq(loquet_release(ticket, &why), LOQUET_CLOSED);
    ck_assert_uint_ge(loquet_now_ms() - began_ms, 5000);
    ck_assert_uint_lt(loquet_now_ms() - began_ms, 5000 + SLACK_MS);
    ck_assert_ptr_nonnull(strstr(why.text, "refused"));
    ck_assert(loquet_ticket_is_held(ticket)); /* as far as can be known */
    loquet_ticket_free(ticket);
}
END_TEST

static void *release_it(void *ticket)
{
    return (void *)(uintptr_t)loquet_release(ticket, &why);
}

START_TEST(server_that_comes_back_while_a_lock_is_released)
{
    struct loquet_ticket *ticket = take("k", 30);
    struct timespec moment = {.tv_nsec = 200 * 1000000};
    pthread_t thread;
    void *result;

    server_kill(&server);
    ck_assert_int_eq(pthread_create(&thread, NULL, release_it, ticket), 0);
    (void)nanosleep(&moment, NULL); /* several rounds */
    server_start(&server);
    (void)pthread_join(thread, &result);
    ck_assert_int_eq((int)(uintptr_t)result, LOQUET_NOT_HELD); /* this server never knew it */
    loquet_ticket_free(ticket);
}
END_TEST

/* A connection that the server closed while nobody looked costs nothing. */
START_TEST(server_that_was_started_again)
{
    loquet_ticket_free(take("a", 30));
    server_kill(&server);
    server_start(&server);
    loquet_ticket_free(take("b", 30));
}
END_TEST

START_TEST(frozen_server)
{
    struct loquet_ticket *ticket = NULL;
    uint64_t began_ms = loquet_now_ms(), took_ms;

    loquet_ticket_free(take("a", 30)); /* connected */
    server_freeze(&server);
    ck_assert_int_eq(acquire("k", 1000, 30, &ticket), LOQUET_INDETERMINATE);
    took_ms = loquet_now_ms() - began_ms;
    ck_assert_msg(took_ms >= 2250 && took_ms < 2250 + SLACK_MS, "%llu ms",
                  (unsigned long long)took_ms);
    server_thaw(&server);
    loquet_ticket_free(take("b", 30));
}
END_TEST

/* ---- Giving up. */

struct waiter {
    struct loquet_cancel *cancel;
    const char *key;
    enum loquet_result result;
    uint64_t ended_ms;
    struct loquet_ticket *ticket;
};

static void *wait_long(void *argument)
{
    struct waiter *waiter = argument;
    struct loquet_request request = {
        .key = waiter->key, .wait_ms = 60000, .lease_s = 30, .cancel = waiter->cancel};

    waiter->result = loquet_acquire(client, &request, &waiter->ticket, NULL);
    waiter->ended_ms = loquet_now_ms();
    return NULL;
}

START_TEST(giving_up_one_wait_leaves_the_others)
{
    struct loquet_ticket *holder = take("k", 30);
    struct loquet_cancel *cancel = loquet_cancel_new(client);
    struct waiter quitter = {.cancel = cancel, .key = "k"}, other = {.key = "k"};
    pthread_t threads[2];
    uint64_t fired_ms;

    ck_assert_int_eq(pthread_create(&threads[0], NULL, wait_long, &quitter), 0);
    ck_assert_int_eq(pthread_create(&threads[1], NULL, wait_long, &other), 0);
    pause_ms(100);
    fired_ms = loquet_now_ms();
    loquet_cancel_fire(cancel);
    loquet_cancel_fire(cancel);
    (void)pthread_join(threads[0], NULL);
    ck_assert_int_eq(quitter.result, LOQUET_TIMEOUT);
    ck_assert_uint_lt(quitter.ended_ms - fired_ms, 500);
    ck_assert_int_eq(loquet_release(holder, NULL), LOQUET_RELEASED);
    (void)pthread_join(threads[1], NULL);
    ck_assert_int_eq(other.result, LOQUET_ACQUIRED);
    (void)wait_long(&quitter); /* what comes later is given up at once */
    ck_assert_int_eq(quitter.result, LOQUET_TIMEOUT);
    loquet_cancel_free(cancel);
    loquet_ticket_free(other.ticket);
    loquet_ticket_free(holder);
}
END_TEST

/* ---- Keeping. */

struct loss {
    _Atomic uint64_t at_ms;
    _Atomic int n;
    enum loquet_loss loss;
    bool held;
    unsigned pause_ms;
};

static void note_loss(struct loquet_ticket *ticket, enum loquet_loss loss, void *context)
{
    struct loss *noted = context;

    noted->loss = loss;
    noted->held = loquet_ticket_is_held(ticket);
    noted->n++;
    noted->at_ms = loquet_now_ms();
    pause_ms(noted->pause_ms);
}

static void await_loss(const struct loss *loss, unsigned limit_ms)
{
    uint64_t by_ms = loquet_now_ms() + limit_ms;
    while (loss->at_ms == 0) {
        ck_assert_uint_lt(loquet_now_ms(), by_ms);
        pause_ms(2);
    }
}

START_TEST(kept_beyond_its_lease)
{
    struct loquet_ticket *ticket = take("k", 1), *other = NULL;
    struct loss loss = {0};

    ck_assert(loquet_keep(ticket, note_loss, &loss));
    ck_assert(!loquet_keep(ticket, note_loss, &loss)); /* kept already */
    pause_ms(2500);
    ck_assert(loquet_ticket_is_held(ticket));
    ck_assert_int_eq(acquire("k", 0, 1, &other), LOQUET_TIMEOUT);
    ck_assert_int_eq(loss.n, 0);
    ck_assert_int_eq(loquet_release(ticket, NULL), LOQUET_RELEASED);
    ck_assert_int_eq(acquire("k", 0, 1, &other), LOQUET_ACQUIRED);
    ck_assert_int_eq(loss.n, 0);
    loquet_ticket_free(other);
    loquet_ticket_free(ticket);
}
END_TEST

START_TEST(lost_by_the_clock)
{
    struct loquet_ticket *ticket = take("k", 2);
    struct loss loss = {0};
    uint64_t ends_ms = loquet_ticket_ends_ms(ticket);

    server_freeze(&server);
    ck_assert(loquet_keep(ticket, note_loss, &loss));
    await_loss(&loss, 3000);
    ck_assert_int_eq(loss.loss, LOQUET_LOSS_POSSIBLE);
    ck_assert_uint_ge(loss.at_ms, ends_ms - 200);
    ck_assert_uint_lt(loss.at_ms, ends_ms - 200 + SLACK_MS);
    ck_assert(!loss.held);
    ck_assert_uint_eq(loquet_ticket_ends_ms(ticket), 0);
    ck_assert(!loquet_keep(ticket, note_loss, &loss));
    loquet_ticket_free(ticket);
    ck_assert_int_eq(loss.n, 1);
    server_thaw(&server);
}
END_TEST

START_TEST(lost_by_an_answer)
{
    struct loquet_ticket *ticket = take("k", 1);
    struct loquet_ticket *thief = loquet_ticket_make(client, "k", 0, loquet_ticket_token(ticket));
    struct loss loss = {.pause_ms = 100};

    ck_assert(loquet_keep(ticket, note_loss, &loss));
    ck_assert_int_eq(loquet_release(thief, NULL), LOQUET_RELEASED);
    await_loss(&loss, 1000 + SLACK_MS);
    loquet_ticket_free(ticket); /* waits for the callback, which still runs */
    ck_assert_int_eq(loss.loss, LOQUET_LOSS_CERTAIN);
    ck_assert_int_eq(loss.n, 1);
    loquet_ticket_free(thief);
}
END_TEST

/* ---- Life. */

START_TEST(closing_with_locks_held)
{
    struct loquet_ticket *ticket = take("k", 30), *kept = take("l", 30);
    struct loss loss = {0};

    ck_assert(loquet_keep(kept, note_loss, &loss));
    loquet_close(client);
    ck_assert_str_eq(loquet_ticket_key(ticket, NULL), "k");
    loquet_ticket_free(ticket);
    loquet_ticket_free(kept);
    ck_assert_int_eq(loss.n, 0);
    client = loquet_open(server.endpoint, NULL);
    ck_assert_int_eq(acquire("k", 0, 1, &ticket), LOQUET_TIMEOUT);
}
END_TEST

#ifndef __SANITIZE_THREAD__ /* which allows no threads in a child */
START_TEST(fork_and_exec)
{
    struct loquet_ticket *ticket = take("k", 30);
    int status;
    pid_t child = fork();

    if (child == 0) {
        struct loquet_client *own = loquet_open(server.endpoint, NULL);
        struct loquet_request request = {.key = "child", .lease_s = 5};
        bool done = own != NULL &&
                    loquet_acquire(own, &request, &ticket, NULL) == LOQUET_ACQUIRED &&
                    loquet_release(ticket, NULL) == LOQUET_RELEASED;
        if (done) {
            loquet_ticket_free(ticket);
            loquet_close(own);
            (void)execl("/bin/sh", "sh", "-c",
                        "for fd in /proc/self/fd/*; do readlink $fd; done | grep -q socket",
                        (char *)NULL);
        }
        _exit(2);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 1, "status %d", status);
    ck_assert_int_eq(loquet_release(ticket, NULL), LOQUET_RELEASED);
    loquet_ticket_free(ticket);
}
END_TEST
#endif

int main(void)
{
    Suite *suite = suite_create("client_blocking");
    TCase *tcase = tcase_create("results");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 20);
    tcase_add_test(tcase, pair);
    tcase_add_test(tcase, held_by_another);
    tcase_add_test(tcase, renewal);
    tcase_add_test(tcase, ticket_of_another_process);
    tcase_add_test(tcase, invalid_arguments);
    tcase_add_test(tcase, ping);
    tcase_add_test(tcase, nobody_there);
    tcase_add_test(tcase, server_that_was_started_again);
    tcase_add_test(tcase, server_that_comes_back_while_a_lock_is_released);
    tcase_add_test(tcase, frozen_server);
    tcase_add_test(tcase, giving_up_one_wait_leaves_the_others);
    tcase_add_test(tcase, kept_beyond_its_lease);
    tcase_add_test(tcase, lost_by_the_clock);
    tcase_add_test(tcase, lost_by_an_answer);
    tcase_add_test(tcase, closing_with_locks_held);
#ifndef __SANITIZE_THREAD__
    tcase_add_test(tcase, fork_and_exec);
#endif
    suite_add_tcase(suite, tcase);
    return lq_test_run(suite);
}
