/* The members of a cluster: ids, addresses and roles, in the byte form that raft keeps in its log.
 * The bytes come from peers and files, so they are checked here before raft sees them. */
/* clang-format off */
/*   members   format u8 = 1 | n u64 | n of: id u64, address: bytes and a NUL, role u8 | zeros up to
 *             a multiple of 8; all numbers little-endian, as raft has them
 */
/* clang-format on */
#ifndef LQ_MEMBERS_H
#define LQ_MEMBERS_H

#include "lq_buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Members of a cluster, standbys included; more voters than 7 only cost speed. */
#define LQ_MEMBERS_MAX 15

/* Longest address, "HOST:PORT", without the NUL. */
#define LQ_ADDRESS_MAX 262

/* The numbers are raft's. */
enum lq_role {
    LQ_ROLE_STANDBY = 0, /* receives the log, does not vote */
    LQ_ROLE_VOTER = 1,
    LQ_ROLE_SPARE = 2, /* listed only */
};

struct lq_member {
    uint32_t node;
    uint8_t role; /* enum lq_role */
    char address[LQ_ADDRESS_MAX + 1];
};

/* In the order in which they were added. */
struct lq_members {
    size_t n;
    struct lq_member items[LQ_MEMBERS_MAX];
};

/* The member, or NULL. */
const struct lq_member *lq_members_find(const struct lq_members *members, uint32_t node);

/* Whether that node is a member and votes. */
bool lq_members_is_voter(const struct lq_members *members, uint32_t node);

size_t lq_members_n_voters(const struct lq_members *members);

/* Adds a member at the end; false when it is listed already, by id or address, when the id is 0 or
 * the address empty or too long, or the list is full. */
bool lq_members_add(struct lq_members *members, uint32_t node, const char *address,
                    enum lq_role role);

/* Takes a member out; false when it is none. */
bool lq_members_remove(struct lq_members *members, uint32_t node);

/* Gives a member another role; false when it is none. */
bool lq_members_set_role(struct lq_members *members, uint32_t node, enum lq_role role);

/* Appends the byte form of at least one member. */
void lq_members_encode(const struct lq_members *members, struct lq_buffer *out);

/* Reads the byte form, all of `len` bytes; false unless it is exactly what lq_members_encode makes
 * of at least one member. */
bool lq_members_decode(struct lq_members *ret_members, const uint8_t *bytes, size_t len);

#endif
