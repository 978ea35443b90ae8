/* A server that is started as root becomes another user before it touches a file or hears a client.
 */
#ifndef LQ_USER_H
#define LQ_USER_H

#include "lq_config.h"

#include <stdbool.h>
#include <sys/types.h>

struct lq_user {
    uid_t uid;
    gid_t gid;
    char name[LQ_CONFIG_TEXT]; /* empty: only the number is known */
};

/* Finds NAME[:GROUP], each a name or a number. A number without an account needs its group, too.
 * False: `ret_why` says what is wrong. */
bool lq_user_find(const char *text, struct lq_user *ret_user, char *ret_why, size_t cap);

/* Does what only root can: binds the sockets, makes the data directory of a node or hands an empty
 * one over. Then becomes config->user for good, without any privilege. Without one set it stays who
 * it is. In any case no program that it might run gains privileges. False: it can't, which was
 * logged. */
bool lq_user_become(const struct lq_config *config);

#endif
