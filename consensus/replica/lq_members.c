#include "lq_members.h"

#include "lq_check.h"

#include <endian.h>
#include <string.h>

#define FORMAT    1
#define HEAD_LEN  9u  /* format and number */
#define FIXED_LEN 10u /* of a member: id, the NUL behind its address, role */
#define ALIGNMENT 8u

/* ---- The list. */

static size_t place_of(const struct lq_members *members, uint32_t node)
{
    size_t at = 0;
    while (at < members->n && members->items[at].node != node) {
        at++;
    }
    return at;
}

const struct lq_member *lq_members_find(const struct lq_members *members, uint32_t node)
{
    size_t at = place_of(members, node);
    return at < members->n ? &members->items[at] : NULL;
}

bool lq_members_is_voter(const struct lq_members *members, uint32_t node)
{
    const struct lq_member *member = lq_members_find(members, node);
    return member != NULL && member->role == LQ_ROLE_VOTER;
}

size_t lq_members_n_voters(const struct lq_members *members)
{
    size_t n = 0;
    for (size_t i = 0; i < members->n; i++) {
        n += members->items[i].role == LQ_ROLE_VOTER;
    }
    return n;
}

/* Printable ASCII without spaces, of a length that fits. */
static bool is_address(const char *address)
{
    size_t len = strlen(address);
    for (size_t i = 0; i < len; i++) {
        if (address[i] <= ' ' || address[i] > '~') {
            return false;
        }
    }
    return len >= 1 && len <= LQ_ADDRESS_MAX;
}

static bool is_listed(const struct lq_members *members, uint32_t node, const char *address)
{
    for (size_t i = 0; i < members->n; i++) {
        const struct lq_member *member = &members->items[i];
        if (member->node == node ||
            strncmp(member->address, address, sizeof member->address) == 0) {
            return true;
        }
    }
    return false;
}

bool lq_members_add(struct lq_members *members, uint32_t node, const char *address,
                    enum lq_role role)
{
    struct lq_member member = {.node = node, .role = (uint8_t)role};
    if (node == 0 || members->n == LQ_MEMBERS_MAX || !is_address(address) ||
        is_listed(members, node, address)) {
        return false;
    }
    memcpy(member.address, address, strlen(address));
    members->items[members->n++] = member;
    return true;
}

/* What is behind the last member stays zero, so that equal lists are equal bytes in memory too. */
bool lq_members_remove(struct lq_members *members, uint32_t node)
{
    size_t at = place_of(members, node);
    if (at == members->n) {
        return false;
    }
    members->n--;
    memmove(&members->items[at], &members->items[at + 1],
            (members->n - at) * sizeof members->items[0]);
    members->items[members->n] = (struct lq_member){0};
    return true;
}

bool lq_members_set_role(struct lq_members *members, uint32_t node, enum lq_role role)
{
    size_t at = place_of(members, node);
    if (at == members->n) {
        return false;
    }
    members->items[at].role = (uint8_t)role;
    return true;
}

/* ---- The byte form. */

static size_t padded(size_t len)
{
    return (len + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static uint8_t *put_u64(uint8_t *at, uint64_t value)
{
    value = htole64(value);
    memcpy(at, &value, sizeof value);
    return at + sizeof value;
}

void lq_members_encode(const struct lq_members *members, struct lq_buffer *out)
{
    size_t len = HEAD_LEN;
    uint8_t *at;
    LQ_CHECK(members->n >= 1 && members->n <= LQ_MEMBERS_MAX);
    for (size_t i = 0; i < members->n; i++) {
        len += FIXED_LEN + strlen(members->items[i].address);
    }
    at = lq_buffer_extend(out, padded(len));
    memset(at, 0, padded(len));
    *at++ = FORMAT;
    at = put_u64(at, members->n);
    for (size_t i = 0; i < members->n; i++) {
        const struct lq_member *member = &members->items[i];
        size_t address_len = strlen(member->address);
        at = put_u64(at, member->node);
        memcpy(at, member->address, address_len);
        at += address_len + 1;
        *at++ = member->role;
    }
}

struct bytes {
    const uint8_t *at;
    size_t left;
};

static bool take_u64(struct bytes *from, uint64_t *ret_value)
{
    if (from->left < sizeof *ret_value) {
        return false;
    }
    memcpy(ret_value, from->at, sizeof *ret_value);
    *ret_value = le64toh(*ret_value);
    from->at += sizeof *ret_value;
    from->left -= sizeof *ret_value;
    return true;
}

static bool take_member(struct bytes *from, struct lq_members *members)
{
    uint64_t node;
    const char *address;
    size_t taken;
    uint8_t role;
    if (!take_u64(from, &node) || node > UINT32_MAX) {
        return false;
    }
    address = (const char *)from->at;
    taken = strnlen(address, from->left) + 2;
    if (taken > from->left) {
        return false;
    }
    role = from->at[taken - 1];
    from->at += taken;
    from->left -= taken;
    return role <= LQ_ROLE_SPARE && lq_members_add(members, (uint32_t)node, address, role);
}

static bool are_zeros(struct bytes from)
{
    for (size_t i = 0; i < from.left; i++) {
        if (from.at[i] != 0) {
            return false;
        }
    }
    return true;
}

bool lq_members_decode(struct lq_members *ret_members, const uint8_t *bytes, size_t len)
{
    struct bytes from;
    struct lq_members members = {0};
    uint64_t n;
    if (len % ALIGNMENT != 0 || len < HEAD_LEN || bytes[0] != FORMAT) {
        return false;
    }
    from = (struct bytes){bytes + 1, len - 1};
    if (!take_u64(&from, &n) || n < 1 || n > LQ_MEMBERS_MAX) {
        return false;
    }
    for (uint64_t i = 0; i < n; i++) {
        if (!take_member(&from, &members)) {
            return false;
        }
    }
    if (from.left >= ALIGNMENT || !are_zeros(from)) {
        return false;
    }
    *ret_members = members;
    return true;
}
