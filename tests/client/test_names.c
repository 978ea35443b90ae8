/* Names that are looked up again, and lookups that hang: the resolver here is the test's own. */
#include "loquet.h"
#include "lq_test.h"
#include "server.h"

#include <dirent.h>
#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static struct server server;
static atomic_int n_lookups;
static bool hangs, is_found_at_once;
static sem_t let_go;

typedef int resolver(const char *, const char *, const struct addrinfo *, struct addrinfo **);

/* Takes the place of the system's. The first answer is an address where nobody listens. */
int look_up(const char *host, const char *port, const struct addrinfo *hints,
            struct addrinfo **ret_found) __asm__("getaddrinfo");

int look_up(const char *host, const char *port, const struct addrinfo *hints,
            struct addrinfo **ret_found)
{
    resolver *system = (resolver *)(uintptr_t)dlsym(RTLD_NEXT, "getaddrinfo");

    if (strcmp(host, "cluster.test") != 0) {
        return system(host, port, hints, ret_found);
    }
    if (n_lookups++ == 0 && !is_found_at_once) {
        return system("127.0.0.2", port, hints, ret_found);
    }
    if (hangs && n_lookups > 1) {
        (void)sem_wait(&let_go);
    }
    return system("127.0.0.1", port, hints, ret_found);
}

static struct loquet_client *open_by_name(void)
{
    char endpoint[64];
    struct loquet_client *client;

    (void)snprintf(endpoint, sizeof endpoint, "cluster.test%s", strrchr(server.endpoint, ':'));
    client = loquet_open(endpoint, NULL);
    ck_assert_ptr_nonnull(client);
    ck_assert_int_eq(n_lookups, 1);
    return client;
}

static void setup(void)
{
    ck_assert_int_eq(sem_init(&let_go, 0, 0), 0);
    server_start(&server);
}

static void teardown(void)
{
    server_kill(&server);
}

START_TEST(looked_up_again_when_nobody_answers)
{
    struct loquet_client *client = open_by_name();
    struct loquet_request request = {.key = "k", .wait_ms = 10000, .lease_s = 5};
    struct loquet_ticket *ticket;
    struct loquet_why why;

    ck_assert_int_eq(loquet_acquire(client, &request, &ticket, &why), LOQUET_ACQUIRED);
    ck_assert_int_ge(n_lookups, 2);
    ck_assert_ptr_nonnull(strstr(why.endpoint, "cluster.test:"));
    loquet_ticket_free(ticket);
    loquet_close(client);
}
END_TEST

static void pause_ms(long ms)
{
    struct timespec time = {.tv_nsec = ms * 1000000};
    (void)nanosleep(&time, NULL);
}

static bool is_lookup(const char *task)
{
    char path[64], name[16] = "";
    FILE *file;

    (void)snprintf(path, sizeof path, "/proc/self/task/%.20s/comm", task);
    file = fopen(path, "re");
    if (file != NULL) {
        (void)!fgets(name, sizeof name, file);
        (void)fclose(file);
    }
    return strcmp(name, "loquet-names\n") == 0;
}

static size_t count_lookups(void)
{
    DIR *folder = opendir("/proc/self/task");
    const struct dirent *entry;
    size_t n = 0;

    while ((entry = readdir(folder)) != NULL) {
        n += is_lookup(entry->d_name);
    }
    (void)closedir(folder);
    return n;
}

/* What was left of a client ends by itself. */
static void end_lookup(void)
{
    uint64_t began_ms = loquet_now_ms();

    ck_assert_uint_eq(count_lookups(), 1);
    ck_assert_int_eq(sem_post(&let_go), 0);
    while (count_lookups() > 0) {
        ck_assert_uint_lt(loquet_now_ms() - began_ms, 15000);
        pause_ms(5);
    }
}

/* Neither a call nor the closing waits for a resolver that does not answer. */
START_TEST(lookup_that_hangs)
{
    struct loquet_client *client;
    struct loquet_request request = {.key = "k", .wait_ms = 500, .lease_s = 5};
    struct loquet_ticket *ticket;
    uint64_t began_ms = loquet_now_ms();

    hangs = true;
    client = open_by_name();
    ck_assert_int_eq(loquet_acquire(client, &request, &ticket, NULL), LOQUET_TIMEOUT);
    ck_assert_int_eq(n_lookups, 2);
    loquet_close(client);
    ck_assert_uint_lt(loquet_now_ms() - began_ms, 3000);
    end_lookup();
}
END_TEST

static void note_loss(struct loquet_ticket *ticket, enum loquet_loss loss, void *context)
{
    (void)ticket;
    atomic_store((atomic_int *)context, (int)loss + 1);
}

/* Nor does anybody's lease: its holder is told in time that it may be lost. */
START_TEST(lost_while_a_lookup_hangs)
{
    struct loquet_request request = {.key = "k", .lease_s = 1};
    struct loquet_client *client;
    struct loquet_ticket *ticket;
    uint64_t began_ms, unused;
    atomic_int lost = 0;

    hangs = is_found_at_once = true;
    client = open_by_name();
    began_ms = loquet_now_ms();
    ck_assert_int_eq(loquet_acquire(client, &request, &ticket, NULL), LOQUET_ACQUIRED);
    ck_assert(loquet_keep(ticket, note_loss, &lost));
    server_kill(&server);
    ck_assert_int_eq(loquet_ping(client, &unused, NULL), LOQUET_CLOSED);
    while (n_lookups < 2) {
        ck_assert_uint_lt(loquet_now_ms() - began_ms, 15000);
        pause_ms(5);
    }
    while (lost == 0) {
        ck_assert_uint_lt(loquet_now_ms() - began_ms, 15000);
        pause_ms(5);
    }
    ck_assert_int_eq(lost, LOQUET_LOSS_POSSIBLE + 1);
    ck_assert_uint_eq(count_lookups(), 1);
    loquet_ticket_free(ticket);
    loquet_close(client);
    end_lookup();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_names");
    TCase *tcase = tcase_create("names");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 20);
    tcase_add_test(tcase, looked_up_again_when_nobody_answers);
    tcase_add_test(tcase, lookup_that_hangs);
    tcase_add_test(tcase, lost_while_a_lookup_hangs);
    suite_add_tcase(suite, tcase);
    return lq_test_run(suite);
}
