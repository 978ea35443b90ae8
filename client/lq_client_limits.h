/* All limits of the client, each with its reason. Those of the wire are in lq_limits.h. */
#ifndef LQ_CLIENT_LIMITS_H
#define LQ_CLIENT_LIMITS_H

#include "lq_heap.h" /* LQ_NEVER */

/* Transport deadline of wait 0, release, renew and ping (protocol, duty 7). */
#define LQ_TRANSPORT_MS 5000

/* How long after the deadline the answer to C is waited for (protocol, duty 3). */
#define LQ_ANSWER_MARGIN_MS 1250

/* The same after the caller gave up: a person waits, and a server that lives answers in
 * milliseconds. */
#define LQ_CANCEL_MARGIN_MS 500

/* Closing a client: what is left to do, such as compensating releases, may take so long in all.
 * Calls end within their margins, which are shorter. */
#define LQ_CLOSE_MS 2000

/* A compensating release may take this long once the client is being closed: its caller waits. */
#define LQ_UNDO_MS 1250

/* A channel with something sent on it asks for a sign of life after so much silence, and gives up
 * on a server that did not utter a byte for so long after asking: a frozen server is noticed in 7
 * s, a pause of a few seconds (a busy machine, a migration) is borne. */
#define LQ_PING_AFTER_MS    2000
#define LQ_PING_PATIENCE_MS 5000

/* Acquires that wait on one connection. One that must be given up by closing it takes so many with
 * it, and 1,000 that wait need 125 connections. */
#define LQ_CHANNEL_WAITS 8

/* Connections for waiting acquires on which none waits are kept so long, and so many of them:
 * enough for a caller that comes again and again, too few to be a burden to the server. */
#define LQ_CHANNEL_IDLE_MS  10000
#define LQ_CHANNEL_IDLE_MAX 2

/* Connections that are dialled at once to an address that works: far fewer than a server's backlog
 * of connections. */
#define LQ_CHANNEL_DIALS 16

/* Bytes that are made for one write: 15 of the largest frames, several hundred usual ones. */
#define LQ_CHANNEL_OUT_MAX 16384

/* Bytes read at a time: at least one of the largest frames. */
#define LQ_CHANNEL_IN_MAX 4096

/* An address that does not answer a connection: room for one lost SYN, which the kernel repeats
 * after 1 s. */
#define LQ_DIAL_MS 2000

/* Unanswered releases and renewals go to another connection after a third of their time, but not
 * sooner than this: a lost packet costs 200 ms and more. */
#define LQ_ANSWER_MIN_MS 500

/* Pause between rounds of trying all addresses: doubles from the first to the second. The first
 * suits a lease of one second. */
#define LQ_BACKOFF_MIN_MS 20
#define LQ_BACKOFF_MAX_MS 1000

/* Endpoints in one list, and addresses that they may have in all: a cluster has at most nine
 * members. */
#define LQ_ENDPOINTS_MAX 16
#define LQ_ADDRESSES_MAX 32

/* Longest host name (RFC 1035: 253), with room. */
#define LQ_HOST_MAX 255

/* Leases are shortened by so many percent: clock rates differ by at most 1 % each way. */
#define LQ_LEASE_MARGIN_PERCENT 2

/* Unacknowledged bytes end a connection after 15 s; an idle one is probed after 5 s, twice. */
#define LQ_USER_TIMEOUT_MS      15000
#define LQ_KEEPALIVE_IDLE_S     5
#define LQ_KEEPALIVE_INTERVAL_S 5
#define LQ_KEEPALIVE_PROBES     2

/* ---- Work under a lease (lq_plan.h). */

/* KILL comes a tenth of the lease before its conservative end, within these bounds: time for a busy
 * machine to run us and for the kernel to take the processes apart. */
#define LQ_KILL_MARGIN_MIN_MS 100
#define LQ_KILL_MARGIN_MAX_MS 1000

/* TERM comes a fifth of the lease before KILL, within these bounds. */
#define LQ_GRACE_MIN_MS 200
#define LQ_GRACE_MAX_MS 10000

#endif
