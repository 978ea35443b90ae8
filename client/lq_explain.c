#include "lq_explain.h"

#include <stdio.h>
#include <string.h>

void lq_explain(const struct lq_core *core, const char *where, int code, char *ret_text, size_t cap)
{
    const char *error = code == 0 ? "no answer" : strerrordesc_np(code);

    ret_text[0] = '\0';
    switch (core->why) {
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
        (void)snprintf(ret_text, cap, "%.80s answered with error %d: %s", where, core->error_code,
                       core->error_text);
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
