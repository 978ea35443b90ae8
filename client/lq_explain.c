#include "lq_explain.h"

#include "lq_frame.h"

#include <stdio.h>
#include <string.h>

/* What a failed call on a socket says; 0: it took too long. */
static const char *error_text(int code)
{
    const char *text = code == 0 ? "no answer" : strerrordesc_np(code);
    return text == NULL ? "unknown error" : text;
}

void lq_explain(const struct lq_outcome *outcome, const char *where, char *ret_text, size_t cap)
{
    const char *error = error_text(outcome->code);

    ret_text[0] = '\0';
    switch (outcome->why) {
    case LQ_WHY_NOTHING:
        break;
    case LQ_WHY_DIAL:
        (void)snprintf(ret_text, cap, "could not connect to %.200s: %s", where, error);
        break;
    case LQ_WHY_EOF:
        (void)snprintf(ret_text, cap, "%.200s closed the connection", where);
        break;
    case LQ_WHY_BROKEN:
        (void)snprintf(ret_text, cap, "the connection to %.200s broke: %s", where, error);
        break;
    case LQ_WHY_GARBAGE:
    case LQ_WHY_UNASKED:
        (void)snprintf(ret_text, cap, "%.200s does not speak the protocol (is it a loquetd?)",
                       where);
        break;
    case LQ_WHY_ERROR_FRAME:
        (void)snprintf(ret_text, cap, "%.80s answered with error %d: %s", where,
                       outcome->error_code, lq_wire_error_text(outcome->error_code));
        break;
    case LQ_WHY_SILENT:
    case LQ_WHY_SLOW:
        (void)snprintf(ret_text, cap, "no answer from %.200s", where);
        break;
    case LQ_WHY_LATE:
        (void)snprintf(ret_text, cap, "the grant came too late and was given back");
        break;
    case LQ_WHY_LEASE_OVER:
        (void)snprintf(ret_text, cap, "the lease ended before the grant could be confirmed");
        break;
    case LQ_WHY_NOT_SENT:
        (void)snprintf(ret_text, cap, "no connection to %.200s in time", where);
        break;
    case LQ_WHY_GIVEN_UP:
        (void)snprintf(ret_text, cap, "it was given up");
        break;
    case LQ_WHY_SHUT:
        (void)snprintf(ret_text, cap, "the client is being closed");
        break;
    }
}

bool lq_explain_is_success(enum loquet_result result)
{
    switch (result) {
    case LOQUET_ACQUIRED:
    case LOQUET_BUSY:
    case LOQUET_RELEASED:
    case LOQUET_RENEWED:
    case LOQUET_NOT_HELD:
    case LOQUET_ALIVE:
        return true;
    case LOQUET_TIMEOUT:
    case LOQUET_INDETERMINATE:
    case LOQUET_CLOSED:
    case LOQUET_INVALID:
        return false;
    }
    return false;
}
