/* A session: one client connection without its socket. The shell tells it what happened to the
 * connection (bytes, end of input, bytes written, gone) and asks it what to do; everything between
 * is decided here, and simulated as it ships. Sessions belong to a hub (lq_hub.h), which acts for
 * all of them once per turn.
 *
 *   OPEN ---- eof -----------------> ENDING -- all requests answered --> FINISHED
 *     |------ bad frame, stop -----> ENDING (then frame E)                  |
 *     |                                |                                    |
 *     +-- an outcome is unknown -------+                                    |
 *     +-- not read for too long -------+------------------------------------+---> ABORTED
 *     |                                |                                    |        |
 *     +------------- closed -----------+------------ closed ----------------+--------+---> GONE
 *
 * Happy path: bytes come in, whole frames become requests, answers leave as frames. eof: what came
 * before it is executed; acquires that wait are cancelled and answered T. Bad frame or stop:
 * acquires that wait are cancelled, their answer is the frame E which ends the connection. ABORTED:
 * the shell is to close the connection as it is, nothing more is answered, and whatever is granted
 * meanwhile is released; so it goes when the client does not read, or when nobody knows whether a
 * request of it took effect. GONE: acquires that wait are cancelled, and a grant of which not one
 * byte was written is released at once; freed when nothing is left to take back. */
#ifndef LQ_SESSION_H
#define LQ_SESSION_H

#include "lq_outbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lq_hub;
struct lq_session;

/* What the shell is to do with the connection. */
enum lq_session_wish {
    LQ_WISH_SERVE, /* write what there is; read if lq_session_wants_input says so */
    LQ_WISH_CLOSE, /* write what there is, then shut down our side and close */
    LQ_WISH_ABORT, /* close now, whatever is still to be written */
};

/* A new session of a new connection; `link` is the shell's, returned by lq_session_link. It lives
 * until lq_session_closed was called. */
struct lq_session *lq_session_new(struct lq_hub *hub, void *link);

void *lq_session_link(const struct lq_session *session);

/* Bytes came, at most LQ_READ_BYTES at a time. All are consumed: executed in the coming turn, kept,
 * or ignored when the session takes no more input. To be called only while lq_session_wants_input.
 */
void lq_session_input(struct lq_session *session, const uint8_t *bytes, size_t len);

/* Whether the shell should read: not while requests are held back, answers pile up unread, or the
 * session ends. */
bool lq_session_wants_input(const struct lq_session *session);

/* The client sends no more (a half-close, or all it ever sent). Like input, to be told only while
 * lq_session_wants_input: it stands behind the bytes that were not read yet. */
void lq_session_eof(struct lq_session *session);

/* What is to be written next, see lq_outbuf_views. */
size_t lq_session_views(const struct lq_session *session, struct lq_view *ret_views, size_t n);

/* The kernel took the next `len` bytes. */
void lq_session_wrote(struct lq_session *session, size_t len);

enum lq_session_wish lq_session_wish(const struct lq_session *session);

/* The connection is closed or broken; the session must not be used any more. Whatever was not
 * written never will. */
void lq_session_closed(struct lq_session *session);

#endif
