/* Many threads on one blocking client, against a real server. */
#include "loquet.h"
#include "lq_test.h"
#include "lq_ticket.h"
#include "server.h"

#include <dirent.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define KEYS 50

static struct server server;
static struct loquet_client *client;

static void setup(void)
{
    server_start(&server);
    client = loquet_open(server.endpoint, NULL);
    ck_assert_ptr_nonnull(client);
}

static void teardown(void)
{
    loquet_close(client);
    server_kill(&server);
}

static size_t count_threads(void)
{
    DIR *folder = opendir("/proc/self/task");
    size_t n = 0;
    while (readdir(folder) != NULL) {
        n++;
    }
    (void)closedir(folder);
    return n - 2; /* "." and ".." */
}

/* ---- Everybody gets every lock once, and nobody together with another. */

static struct {
    uint64_t last_token; /* written under the lock alone, as `n` */
    int n;
    atomic_int inside;
} locks[KEYS];
static atomic_int trouble;

static void *work(void *argument)
{
    size_t at = (size_t)(uintptr_t)argument % KEYS;
    char key[16];
    struct loquet_request request = {.key = key, .wait_ms = 60000, .lease_s = 60};
    struct loquet_ticket *ticket;

    (void)snprintf(key, sizeof key, "key%zu", at);
    if (loquet_acquire(client, &request, &ticket, NULL) != LOQUET_ACQUIRED) {
        trouble++;
        return NULL;
    }
    trouble += locks[at].inside++ != 0;
    trouble += loquet_ticket_token(ticket) <= locks[at].last_token;
    locks[at].last_token = loquet_ticket_token(ticket);
    locks[at].n++;
    locks[at].inside--;
    trouble += loquet_release(ticket, NULL) != LOQUET_RELEASED;
    loquet_ticket_free(ticket);
    return NULL;
}

static void start_all(pthread_t *threads, size_t n, void *(*run)(void *))
{
    pthread_attr_t attr;

    ck_assert_int_eq(pthread_attr_init(&attr), 0);
    ck_assert_int_eq(pthread_attr_setstacksize(&attr, 256 * 1024), 0);
    for (size_t i = 0; i < n; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], &attr, run, (void *)(uintptr_t)i), 0);
    }
    (void)pthread_attr_destroy(&attr);
}

static void join_all(const pthread_t *threads, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        (void)pthread_join(threads[i], NULL);
    }
}

START_TEST(thousand_threads)
{
    static pthread_t threads[1000];
    size_t n = lq_test_number("LQ_THREADS", 1000), before = count_threads();
    struct loquet_ticket *holders[KEYS];

    ck_assert_uint_le(n, 1000);
    for (size_t i = 0; i < KEYS; i++) { /* so that all wait at the same time */
        char key[16];
        struct loquet_request request = {.key = key, .lease_s = 60};
        (void)snprintf(key, sizeof key, "key%zu", i);
        ck_assert_int_eq(loquet_acquire(client, &request, &holders[i], NULL), LOQUET_ACQUIRED);
    }
    start_all(threads, n, work);
    ck_assert_uint_eq(count_threads(), before + n);
    for (size_t i = 0; i < KEYS; i++) {
        ck_assert_int_eq(loquet_release(holders[i], NULL), LOQUET_RELEASED);
        loquet_ticket_free(holders[i]);
    }
    join_all(threads, n);
    ck_assert_int_eq(trouble, 0);
    for (size_t i = 0; i < KEYS; i++) {
        ck_assert_int_eq(locks[i].n, (int)(n / KEYS + (i < n % KEYS)));
    }
}
END_TEST

/* ---- Short requests of all kinds, from a few threads without pause. */

static atomic_bool over;

static void *churn(void *argument)
{
    size_t i = (size_t)(uintptr_t)argument;
    char key[32];
    struct loquet_request request = {.key = key, .lease_s = 2};
    struct loquet_ticket *ticket;

    (void)snprintf(key, sizeof key, "own%zu", i);
    for (unsigned round = 0; !over; round++) {
        request.wait_ms = round % 3 == 0 ? 1000 : 0;
        if (loquet_acquire(client, &request, &ticket, NULL) != LOQUET_ACQUIRED) {
            trouble++;
            continue;
        }
        if (round % 5 == 0) {
            trouble += !loquet_keep(ticket, NULL, NULL);
        }
        if (round % 7 == 0) {
            trouble += loquet_renew(ticket, 3, NULL) != LOQUET_RENEWED;
        }
        if (round % 11 == 0) {
            uint64_t unused;
            trouble += loquet_ping(client, &unused, NULL) != LOQUET_ALIVE;
        }
        trouble += loquet_release(ticket, NULL) != LOQUET_RELEASED;
        loquet_ticket_free(ticket);
    }
    return NULL;
}

START_TEST(churning_threads)
{
    pthread_t threads[8];
    struct timespec second = {.tv_sec = 1};

    start_all(threads, 8, churn);
    (void)nanosleep(&second, NULL);
    over = true;
    join_all(threads, 8);
    ck_assert_int_eq(trouble, 0);
}
END_TEST

/* ---- Closing while others are in calls. */

static atomic_int ended[10];

static void *wait_for_held(void *argument)
{
    size_t i = (size_t)(uintptr_t)argument;
    struct loquet_request request = {
        .key = "held", .wait_ms = i % 2 == 0 ? 60000 : 0, .lease_s = 60};
    struct loquet_ticket *ticket;

    if (i % 2 != 0 && i % 3 == 0) {
        uint64_t unused;
        ended[loquet_ping(client, &unused, NULL)]++;
    } else {
        ended[loquet_acquire(client, &request, &ticket, NULL)]++;
    }
    return NULL;
}

/* Waits until the server took all in, or, as it is frozen, at least gave them time. */
static void pause_a_little(void)
{
    struct timespec time = {.tv_nsec = 200 * 1000000};
    (void)nanosleep(&time, NULL);
}

static void close_in_flight(bool frozen)
{
    pthread_t threads[30];
    struct loquet_request request = {.key = "held", .lease_s = 60};
    struct loquet_ticket *holder;
    uint64_t began_ms;

    ck_assert_int_eq(loquet_acquire(client, &request, &holder, NULL), LOQUET_ACQUIRED);
    if (frozen) {
        server_freeze(&server);
    }
    start_all(threads, 30, wait_for_held);
    pause_a_little();
    began_ms = loquet_now_ms();
    loquet_close(client);
    ck_assert_uint_lt(loquet_now_ms() - began_ms, 2500);
    join_all(threads, 30);
    loquet_ticket_free(holder);
    if (frozen) {
        server_thaw(&server);
    }
    client = NULL;
}

START_TEST(closing_in_flight)
{
    close_in_flight(false);
    ck_assert_int_eq(ended[LOQUET_TIMEOUT], 25);
    ck_assert_int_eq(ended[LOQUET_ALIVE], 5);
}
END_TEST

START_TEST(closing_in_flight_of_a_frozen_server)
{
    close_in_flight(true);
    ck_assert_int_eq(ended[LOQUET_INDETERMINATE] + ended[LOQUET_CLOSED] + ended[LOQUET_TIMEOUT],
                     30);
    ck_assert_int_ge(ended[LOQUET_INDETERMINATE], 15);
}
END_TEST

/* ---- Losses, and callbacks that take their time. */

static sem_t inside, let_go;
static atomic_int n_told;

static void be_slow(struct loquet_ticket *ticket, enum loquet_loss loss, void *context)
{
    (void)loss;
    (void)context;
    (void)sem_post(&inside);
    (void)sem_wait(&let_go);
    ck_assert(!loquet_ticket_is_held(ticket)); /* it can still be asked */
    ck_assert_uint_eq(loquet_ticket_ends_ms(ticket), 0);
}

static void count_losses(struct loquet_ticket *ticket, enum loquet_loss loss, void *context)
{
    (void)ticket;
    (void)loss;
    (void)context;
    n_told++;
}

/* A ticket that has just been lost. */
static struct loquet_ticket *lose_one(loquet_lost_fn *on_lost)
{
    struct loquet_ticket *ticket = loquet_ticket_make(client, "k", 0, 1);

    lq_client_lock(client);
    ticket->on_lost = on_lost;
    lq_ticket_lose(ticket, LOQUET_LOSS_POSSIBLE);
    lq_client_turn(client);
    lq_client_unlock(client);
    return ticket;
}

static void setup_losses(void)
{
    setup();
    ck_assert_int_eq(sem_init(&inside, 0, 0), 0);
    ck_assert_int_eq(sem_init(&let_go, 0, 0), 0);
}

static void *free_it(void *ticket)
{
    loquet_ticket_free(ticket);
    return NULL;
}

static void *close_it(void *argument)
{
    (void)argument;
    loquet_close(client);
    return NULL;
}

START_TEST(freed_while_its_callback_runs)
{
    struct loquet_ticket *ticket = lose_one(be_slow);
    pthread_t thread;

    (void)sem_wait(&inside);
    ck_assert_int_eq(pthread_create(&thread, NULL, free_it, ticket), 0);
    pause_a_little();
    (void)sem_post(&let_go);
    (void)pthread_join(thread, NULL);
}
END_TEST

START_TEST(closed_while_a_ticket_is_freed)
{
    struct loquet_ticket *ticket = lose_one(be_slow);
    pthread_t threads[2];

    (void)sem_wait(&inside);
    ck_assert_int_eq(pthread_create(&threads[0], NULL, free_it, ticket), 0);
    pause_a_little();
    ck_assert_int_eq(pthread_create(&threads[1], NULL, close_it, NULL), 0);
    pause_a_little();
    (void)sem_post(&let_go);
    join_all(threads, 2);
    client = NULL;
}
END_TEST

START_TEST(lost_again_before_it_was_told)
{
    struct loquet_ticket *slow = lose_one(be_slow), *ticket;
    uint64_t unused;

    (void)sem_wait(&inside);
    ticket = lose_one(count_losses);
    lq_client_lock(client);
    lq_ticket_lose(ticket, LOQUET_LOSS_CERTAIN);
    lq_client_unlock(client);
    (void)sem_post(&let_go);
    loquet_ticket_free(slow);
    for (int i = 0; n_told == 0; i++) {
        ck_assert_int_lt(i, 50);
        pause_a_little();
    }
    ck_assert_int_eq(loquet_ping(client, &unused, NULL), LOQUET_ALIVE);
    loquet_ticket_free(ticket);
    ck_assert_int_eq(n_told, 1);
}
END_TEST

START_TEST(released_before_its_loss_is_told)
{
    struct loquet_ticket *slow = lose_one(be_slow), *ticket;

    (void)sem_wait(&inside);
    ticket = lose_one(count_losses);
    ck_assert_int_eq(loquet_release(ticket, NULL), LOQUET_NOT_HELD);
    (void)sem_post(&let_go);
    loquet_ticket_free(slow);
    loquet_ticket_free(ticket);
    ck_assert_int_eq(n_told, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_threads");
    TCase *tcase = tcase_create("threads");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, thousand_threads);
    tcase_add_test(tcase, churning_threads);
    tcase_add_test(tcase, closing_in_flight);
    tcase_add_test(tcase, closing_in_flight_of_a_frozen_server);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("losses");
    tcase_add_checked_fixture(tcase, setup_losses, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, freed_while_its_callback_runs);
    tcase_add_test(tcase, closed_while_a_ticket_is_freed);
    tcase_add_test(tcase, lost_again_before_it_was_told);
    tcase_add_test(tcase, released_before_its_loss_is_told);
    suite_add_tcase(suite, tcase);
    return lq_test_run(suite);
}
