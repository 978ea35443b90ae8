/* HTTP requests to admin interfaces, by libcurl. */
#ifndef LQ_HTTP_H
#define LQ_HTTP_H

#include "lq_endpoints.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* In which a request has to be answered; an admin interface does so at once. */
#define LQ_HTTP_MS 3000

#define LQ_HTTP_REASON_MAX 160

/* A request, and what came of it. */
struct lq_http_call {
    const char *body;                /* NULL: GET; else POST, JSON. The caller's */
    long status;                     /* of HTTP; 0: no answer */
    json_t *json;                    /* the answer, if it is a JSON object; else NULL */
    bool maybe;                      /* no answer, but the request may have arrived */
    char reason[LQ_HTTP_REASON_MAX]; /* why there is no answer, or no JSON */
    char *text;                      /* as it comes in; private */
    size_t len;
};

/* Carries out `n` calls at the same time, call i to endpoint `first` + i: `path` of each. Returns
 * when all are over. Of each call only `body` is to be set; release it with lq_http_done. */
void lq_http_perform(const struct lq_endpoints *endpoints, size_t first, const char *path,
                     struct lq_http_call *calls, size_t n);

/* Frees what a call holds. */
void lq_http_done(struct lq_http_call *call);

#endif
