#include "lq_exit.h"

const struct lq_exit_row lq_exit_table[] = {
    {"0", "done; for run: the command's own status, whatever it is"},
    {"64", "usage: an option, a key, a token or another argument is wrong"},
    {"69",
     "unavailable: no server could be reached, or none that leads; certainly nothing was done"},
    {"70", "unknown outcome: the request may or may not have taken effect"},
    {"71", "the system refused something (processes, memory)"},
    {"74", "the result could not be written; a lock just acquired was released again"},
    {"75", "not acquired: timeout (held by another) or busy (the server is at a limit); member: "
           "busy with another change"},
    {"76", "not held: the lock was lost while the command ran, or the token does not hold it"},
    {"77", "status: a node did not answer, or no leader is known"},
    {"78", "member: the cluster refused the change, which cannot be made"},
    {"126", "run: the command cannot be executed"},
    {"127", "run: the command was not found"},
    {"128+n", "ended by signal n: the command of run, or the waiting for the lock"},
    {NULL, NULL},
};

enum lq_exit lq_exit_of(enum loquet_result result)
{
    switch (result) {
    case LOQUET_ACQUIRED:
    case LOQUET_RELEASED:
    case LOQUET_RENEWED:
    case LOQUET_ALIVE:
        return LQ_EXIT_OK;
    case LOQUET_TIMEOUT:
    case LOQUET_BUSY:
        return LQ_EXIT_NOT_ACQUIRED;
    case LOQUET_NOT_HELD:
        return LQ_EXIT_NOT_HELD;
    case LOQUET_INDETERMINATE:
        return LQ_EXIT_UNKNOWN;
    case LOQUET_CLOSED:
        return LQ_EXIT_UNAVAILABLE;
    case LOQUET_INVALID:
        return LQ_EXIT_USAGE;
    }
    return LQ_EXIT_UNKNOWN;
}
