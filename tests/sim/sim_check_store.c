#include "sim_check_store.h"

const char *sim_store_certain(struct sim_store *store, uint32_t key, uint64_t acquire,
                              uint64_t token, uint64_t now_us, uint64_t until_us)
{
    struct sim_certain *last = &store->certain[key];
    bool is_own = last->acquire == acquire;
    if (until_us <= now_us) {
        if (is_own && last->until_us > now_us) {
            last->until_us = now_us;
        }
        return NULL;
    }
    if (!is_own && last->until_us > now_us) {
        return "two clients are certain to hold the same key";
    }
    if (!is_own && last->acquire != 0 && last->token >= token) {
        return "the token of a holder is not above that of an earlier one";
    }
    *last = (struct sim_certain){acquire, token, is_own ? last->from_us : now_us, until_us};
    return NULL;
}

const char *sim_store_write(struct sim_store *store, uint32_t key, uint64_t acquire, uint64_t token,
                            uint64_t now_us, bool *ret_is_accepted)
{
    const struct sim_certain *certain = &store->certain[key];
    *ret_is_accepted = token >= store->tokens[key];
    if (!*ret_is_accepted) {
        return certain->acquire == acquire && certain->until_us > now_us
                   ? "a client that is certain to hold the key is refused by the store"
                   : NULL;
    }
    if (token == store->tokens[key] && store->acquires[key] != acquire) {
        return "the store sees one token from two holders";
    }
    store->tokens[key] = token;
    store->acquires[key] = acquire;
    return NULL;
}
