/* bench_client ENDPOINT SECONDS [THREADS]: pairs of acquire and release, wait 0, each thread on a
 * key of its own, through one blocking client. Prints pairs per second; compare_client.py compares.
 */
#include "loquet.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define THREADS_MAX 1000

static struct loquet_client *client;
static atomic_bool over;
static atomic_ulong pairs;

static void *work(void *argument)
{
    char key[32];
    struct loquet_request request = {.key = key, .lease_s = 30};
    struct loquet_ticket *ticket;
    unsigned long done = 0;

    (void)snprintf(key, sizeof key, "bench%zu", (size_t)argument);
    while (!over && loquet_acquire(client, &request, &ticket, NULL) == LOQUET_ACQUIRED) {
        done += loquet_release(ticket, NULL) == LOQUET_RELEASED;
        loquet_ticket_free(ticket);
    }
    pairs += done;
    return NULL;
}

int main(int argc, char **argv)
{
    static pthread_t threads[THREADS_MAX];
    struct timespec time = {.tv_sec = argc > 2 ? strtol(argv[2], NULL, 10) : 1};
    size_t n = argc > 3 ? strtoul(argv[3], NULL, 10) : 1;
    struct loquet_why why;

    client = argc > 1 ? loquet_open(argv[1], &why) : NULL;
    if (client == NULL || time.tv_sec < 1 || n < 1 || n > THREADS_MAX) {
        (void)fprintf(stderr, "usage: bench_client ENDPOINT SECONDS [THREADS]\n");
        return EXIT_FAILURE;
    }
    for (size_t i = 0; i < n; i++) {
        (void)pthread_create(&threads[i], NULL, work, (void *)i);
    }
    (void)nanosleep(&time, NULL);
    over = true;
    for (size_t i = 0; i < n; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    (void)printf("%lu\n", pairs / (unsigned long)time.tv_sec);
    loquet_close(client);
    return EXIT_SUCCESS;
}
