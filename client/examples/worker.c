/* A job that must not run twice at the same time, whoever starts it and wherever.
 *
 *     worker ENDPOINTS JOB ROUNDS
 *
 * Each round waits for its turn, works for a moment, and prints what it did. Start several. */
#include <loquet.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static atomic_bool must_stop;

/* In the library's thread: it only says that the work must stop. */
static void on_lost(struct loquet_ticket *ticket, enum loquet_loss loss, void *context)
{
    (void)ticket;
    (void)loss;
    (void)context;
    atomic_store(&must_stop, true);
}

static void work_a_bit(void)
{
    struct timespec pause = {.tv_nsec = 10000000};
    (void)nanosleep(&pause, NULL);
}

/* The job, in small steps: between two of them it looks whether it may go on. */
static bool work(void)
{
    for (int step = 0; step < 5; step++) {
        if (atomic_load(&must_stop)) {
            return false;
        }
        work_a_bit();
    }
    return true;
}

static int run_once(struct loquet_client *client, const char *job)
{
    struct loquet_request request = {.key = job, .wait_ms = 60000, .lease_s = 10};
    struct loquet_ticket *ticket;
    struct loquet_why why;
    enum loquet_result result = loquet_acquire(client, &request, &ticket, &why);
    bool is_done;

    if (result != LOQUET_ACQUIRED) { /* not ours, or not known to be: nothing is done */
        (void)printf("not run: %s %s\n", loquet_result_text(result), why.text);
        return 1;
    }
    atomic_store(&must_stop, false);
    (void)loquet_keep(ticket, on_lost, NULL); /* the job may take longer than the lease */
    is_done = work();
    (void)printf("%s %llu\n", is_done ? "done" : "stopped",
                 (unsigned long long)loquet_ticket_token(ticket));
    (void)loquet_release(ticket, NULL); /* if this fails, the lease ends by itself */
    loquet_ticket_free(ticket);
    return is_done ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct loquet_client *client;
    struct loquet_why why;
    int status = 0;

    if (argc != 4) {
        (void)fprintf(stderr, "usage: worker ENDPOINTS JOB ROUNDS\n");
        return 64;
    }
    client = loquet_open(argv[1], &why);
    if (client == NULL) {
        (void)fprintf(stderr, "worker: %s\n", why.text);
        return 1;
    }
    for (unsigned long rounds = strtoul(argv[3], NULL, 10); rounds > 0; rounds--) {
        status |= run_once(client, argv[2]);
    }
    loquet_close(client);
    return status;
}
