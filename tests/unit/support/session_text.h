/* Frames as words, so that a test can be read like a conversation:
 *
 *     lq_rig_say(client, "A 10 5 7 key; R 1 key; K 5 1 key; C 7 key; P 99");
 *     lq_rig_go(rig);
 *     ck_assert_str_eq(lq_rig_hear(client), "A 1 7 key; R 1 key");
 *
 * The numbers stand as on the wire: requests A wait lease owner key, R token key, K lease token
 * key, C owner key, P nonce; answers A token owner key, T B owner key, R N K token key, P nonce, E
 * code (without its text). */
#ifndef LQ_SESSION_TEXT_H
#define LQ_SESSION_TEXT_H

#include "lq_frame.h"
#include "session_rig.h"

#include <check.h>

/* Sends requests, given as words by a format of printf. A key holds no blank and no semicolon. */
__attribute__((format(printf, 2, 3))) void lq_rig_say(struct lq_rig_client *client,
                                                      const char *format, ...);

/* The answers that came since the last time, as words; "" when none did. Part of a frame at their
 * end stands as "...". Valid until the next call for the same client. */
const char *lq_rig_hear(struct lq_rig_client *client);

/* The next answer that came, or false. Its key is valid until the session makes more. */
bool lq_rig_next(struct lq_rig_client *client, struct lq_frame *ret_answer);

/* How many answers with this op came since the last time; all answers are heard then. */
size_t lq_rig_hear_count(struct lq_rig_client *client, enum lq_op op);

/* That exactly these answers came. */
#define LQ_HEARS(client, words) ck_assert_str_eq(lq_rig_hear(client), words)

/* Appends the bytes of requests given as words; for tests that cut them in pieces. */
void lq_rig_encode(struct lq_rig_bytes *bytes, const char *words);

#endif
