#include "session_grants.h"

#include "lq_check.h"

#include <stdlib.h>
#include <string.h>

/* More tokens than any test gives. */
#define TOKENS_MAX UINT64_C(100000000)

void lq_grants_init(struct lq_grants *grants)
{
    *grants = (struct lq_grants){0};
}

void lq_grants_done(struct lq_grants *grants)
{
    for (size_t i = 0; i < grants->n; i++) {
        free(grants->by_token[i].key);
    }
    free(grants->by_token);
    free(grants->fresh);
    free(grants->changes);
}

/* The grant with this token, or NULL when no A told of it. */
static struct lq_grant *find(const struct lq_grants *grants, uint64_t token)
{
    return token < grants->n && grants->by_token[token].is_known ? &grants->by_token[token] : NULL;
}

static void make_room(struct lq_grants *grants, uint64_t token)
{
    size_t n = 2 * (size_t)token + 64;
    if (token < grants->n) {
        return;
    }
    grants->by_token = reallocarray(grants->by_token, n, sizeof *grants->by_token);
    grants->fresh = reallocarray(grants->fresh, n, sizeof *grants->fresh);
    LQ_CHECK(grants->by_token != NULL && grants->fresh != NULL);
    memset(grants->by_token + grants->n, 0, (n - grants->n) * sizeof *grants->by_token);
    grants->n = n;
}

const char *lq_grants_granted(struct lq_grants *grants, uint64_t token, const uint8_t *key,
                              uint16_t key_len, uint64_t deadline_ms)
{
    if (token == 0 || token > TOKENS_MAX || token <= grants->last_token) {
        return "a token that does not grow";
    }
    make_room(grants, token);
    if (grants->by_token[token].is_known) {
        return "a token given twice";
    }
    grants->by_token[token] =
        (struct lq_grant){.is_known = true, .deadline_ms = deadline_ms, .key_len = key_len};
    grants->by_token[token].key = malloc(key_len);
    LQ_CHECK(grants->by_token[token].key != NULL);
    memcpy(grants->by_token[token].key, key, key_len);
    grants->fresh[grants->n_fresh++] = token;
    return NULL;
}

static void note_change(struct lq_grants *grants, uint64_t token, uint64_t deadline_ms)
{
    if (grants->n_changes == grants->cap_changes) {
        grants->cap_changes = 2 * grants->cap_changes + 16;
        grants->changes =
            reallocarray(grants->changes, grants->cap_changes, sizeof *grants->changes);
        LQ_CHECK(grants->changes != NULL);
    }
    grants->changes[grants->n_changes++] =
        (struct lq_grant_change){.token = token, .deadline_ms = deadline_ms};
}

void lq_grants_renewed(struct lq_grants *grants, uint64_t token, uint64_t deadline_ms)
{
    note_change(grants, token, deadline_ms);
}

void lq_grants_released(struct lq_grants *grants, uint64_t token)
{
    note_change(grants, token, 0);
}

void lq_grants_lost(struct lq_grants *grants, uint64_t token)
{
    struct lq_grant *grant = find(grants, token);
    if (grant != NULL) {
        grant->is_lost = true;
    }
}

/* A token of which no A told belongs to a grant whose client was gone: it may have been guessed. Of
 * several renewals in one turn the shortest counts, since their order is not known. */
static const char *make_change(struct lq_grants *grants, const struct lq_grant_change *change)
{
    struct lq_grant *grant = find(grants, change->token);
    if (grant == NULL) {
        return NULL;
    }
    if (change->deadline_ms == 0 && grant->is_released) {
        return "a token released twice";
    }
    if (change->deadline_ms == 0) {
        grant->is_released = true;
    } else if (!grant->is_renewed || change->deadline_ms < grant->deadline_ms) {
        grant->deadline_ms = change->deadline_ms;
        grant->is_renewed = true;
    }
    return NULL;
}

static const char *make_changes(struct lq_grants *grants)
{
    const char *fault = NULL;
    for (size_t i = 0; i < grants->n_changes && fault == NULL; i++) {
        fault = make_change(grants, &grants->changes[i]);
    }
    for (size_t i = 0; i < grants->n_changes; i++) {
        struct lq_grant *grant = find(grants, grants->changes[i].token);
        if (grant != NULL) {
            grant->is_renewed = false;
        }
    }
    grants->n_changes = 0;
    return fault;
}

/* The grant of this key before that one, or NULL. */
static const struct lq_grant *predecessor(const struct lq_grants *grants, uint64_t token)
{
    const struct lq_grant *grant = &grants->by_token[token];
    for (uint64_t before = token - 1; before > 0; before--) {
        const struct lq_grant *other = &grants->by_token[before];
        if (other->is_known && other->key_len == grant->key_len &&
            memcmp(other->key, grant->key, grant->key_len) == 0) {
            return other;
        }
    }
    return NULL;
}

const char *lq_grants_judge(struct lq_grants *grants, uint64_t now_ms)
{
    const char *fault = make_changes(grants);
    for (size_t i = 0; i < grants->n_fresh; i++) {
        uint64_t token = grants->fresh[i];
        const struct lq_grant *before = predecessor(grants, token);
        if (before != NULL && !before->is_released && !before->is_lost &&
            before->deadline_ms > now_ms) {
            fault = "a key with two holders";
        }
        grants->last_token = token > grants->last_token ? token : grants->last_token;
    }
    grants->n_fresh = 0;
    return fault;
}
