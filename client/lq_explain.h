/* The client's troubles in words, for people: the one place where their texts are. */
#ifndef LQ_EXPLAIN_H
#define LQ_EXPLAIN_H

#include "lq_core.h"

/* Writes what last went wrong with a request, "" when nothing did. `where` is the endpoint
 * concerned. Of the outcome, `why`, `error_code` and `code` are looked at. */
void lq_explain(const struct lq_outcome *outcome, const char *where, char *ret_text, size_t cap);

/* Whether a request that ended so needs no explanation. */
bool lq_explain_is_success(enum loquet_result result);

#endif
