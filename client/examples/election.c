/* A leader election: of all candidates one leads; when it ends, or is cut off, another does.
 *
 *     election ENDPOINTS NAME TERMS
 *
 * Prints "leads TOKEN" and "steps down TOKEN", and ends after so many terms of its own. A line on
 * standard input makes it step down. Start several. */
#include <loquet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The library's thread says it through a pipe: so a loop can wait for it beside other things. */
static void on_lost(struct loquet_ticket *ticket, enum loquet_loss loss, void *context)
{
    const int *lost_pipe = context;
    (void)ticket;
    (void)loss;
    (void)!write(lost_pipe[1], "", 1);
}

/* Leads until the lock is lost or somebody says a line. */
static void lead(struct loquet_ticket *ticket)
{
    unsigned long long token = loquet_ticket_token(ticket);
    int lost_pipe[2];
    char byte = 0;

    if (pipe(lost_pipe) != 0) {
        return;
    }
    if (loquet_keep(ticket, on_lost, lost_pipe)) {
        struct pollfd pollfds[2] = {{.fd = lost_pipe[0], .events = POLLIN},
                                    {.fd = STDIN_FILENO, .events = POLLIN}};
        (void)printf("leads %llu\n", token); /* whatever a leader does carries this number */
        (void)fflush(stdout);
        do {
            (void)poll(pollfds, 2, -1);
        } while (pollfds[0].revents == 0 && (read(STDIN_FILENO, &byte, 1) == 1 && byte != '\n'));
        (void)printf("steps down %llu\n", token);
        (void)fflush(stdout);
    }
    (void)loquet_release(ticket, NULL);
    loquet_ticket_free(ticket); /* after this the callback is over for certain */
    (void)close(lost_pipe[0]);
    (void)close(lost_pipe[1]);
}

int main(int argc, char **argv)
{
    struct loquet_client *client;
    struct loquet_why why;

    if (argc != 4) {
        (void)fprintf(stderr, "usage: election ENDPOINTS NAME TERMS\n");
        return 64;
    }
    client = loquet_open(argv[1], &why);
    if (client == NULL) {
        (void)fprintf(stderr, "election: %s\n", why.text);
        return 1;
    }
    for (unsigned long terms = strtoul(argv[3], NULL, 10); terms > 0;) {
        struct loquet_request request = {.key = argv[2], .wait_ms = LOQUET_WAIT_MAX, .lease_s = 3};
        struct loquet_ticket *ticket;
        if (loquet_acquire(client, &request, &ticket, NULL) == LOQUET_ACQUIRED) {
            lead(ticket);
            terms--;
        } /* else: not the leader, or not known to be; line up again */
    }
    loquet_close(client);
    return 0;
}
