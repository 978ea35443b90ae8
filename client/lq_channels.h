/* All connections of a core: which request goes over which, when one is dialled, and what becomes
 * of everything when one is lost. Pure.
 *
 * A request enters the queue of its kind and is assigned to a channel that is open and has room:
 * the common one, or any that carries fewer than LQ_CHANNEL_WAITS waiting acquires and leads to the
 * address in use. Without one, the queue is a wish for a connection (lq_core_next_dial). A channel
 * that must not be trusted with more is drained: what it has not sent goes back to the queue, what
 * it has sent may be answered, then it is closed. */
#ifndef LQ_CHANNELS_H
#define LQ_CHANNELS_H

#include "lq_ask.h"
#include "lq_channel.h"
#include "lq_core.h"

/* Puts a request into its queue, and on a channel if there is one. It is in no list. */
void lq_channels_enqueue(struct lq_core *core, struct lq_request *request);

/* Takes a request that is queued, sent or nowhere out of its queue or channel. */
void lq_channels_withdraw(struct lq_core *core, struct lq_request *request, uint64_t now_ms);

/* Gives queued requests to channels. */
void lq_channels_assign(struct lq_core *core);

/* Brings a channel's lists and timer in line with what it carries; a drained or superfluous one is
 * closed. To be called after each change, when no frame of it is being looked at. */
void lq_channels_settle(struct lq_core *core, struct lq_channel *channel, uint64_t now_ms);

/* The same without looking whether it is idle or drained. */
void lq_channels_note(struct lq_core *core, struct lq_channel *channel);

/* What a channel has not sent goes back, before what is queued. */
void lq_channels_give_back(struct lq_core *core, struct lq_channel *channel);

/* The kernel takes no more bytes: what waits for another channel may look for one. */
void lq_channels_block(struct lq_core *core, struct lq_channel *channel);

void lq_channels_unblock(struct lq_core *core, struct lq_channel *channel);

/* The connection being dialled is open. Nothing when it was given up. */
void lq_channels_connected(struct lq_core *core, struct lq_channel *channel, uint64_t now_ms);

/* An answer came: its server works. */
void lq_channels_note_answer(struct lq_core *core, struct lq_channel *channel);

/* The channel takes no more requests. Nothing when it is closed. */
void lq_channels_drain(struct lq_core *core, struct lq_channel *channel, uint64_t now_ms);

/* Its server is slow: others are tried first from now on. */
void lq_channels_leave(struct lq_core *core, const struct lq_channel *channel);

/* Connections that are being dialled, to an address that was left, are of no use any more. */
void lq_channels_stop_dialling(struct lq_core *core);

/* The channel is gone, or is closed because of a fault; `fault` needs no address. Nothing when it
 * is closed already. */
void lq_channels_lose(struct lq_core *core, struct lq_channel *channel, struct lq_fault fault,
                      uint64_t now_ms);

/* The same without a fault of its server. */
void lq_channels_drop(struct lq_core *core, struct lq_channel *channel, uint64_t now_ms);

/* Whether a connection should be dialled, now or after the pause. */
bool lq_channels_want_dial(const struct lq_core *core);

/* Begins to dial. */
struct lq_channel *lq_channels_dial(struct lq_core *core, uint64_t now_ms);

/* The channel's timer went off. */
void lq_channels_tick(struct lq_core *core, struct lq_channel *channel, uint64_t now_ms);

#endif
