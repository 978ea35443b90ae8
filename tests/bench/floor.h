/* The durable floor: three processes that do nothing but what a replicated, durable server can't do
 * without. What a lock service needs beyond this is its own doing.
 *
 * A request is an operation of 64 bytes, its answer the same bytes again. Node 0 leads. A batch is
 * what one epoll_wait() returned; it is appended to a file that was written in full before, and
 * synced, on all three nodes. The leader answers when the batch is durable with it and with one
 * follower. There is no consensus, no checksum, no table. A client of a follower is served through
 * it: it passes operations on to the leader and answers back.
 *
 * Nothing fails here: a node that can't go on ends, and the others with it. */
#ifndef LQ_BENCH_FLOOR_H
#define LQ_BENCH_FLOOR_H

enum {
    LQ_BENCH_FLOOR_NODES = 3,
    LQ_BENCH_FLOOR_FOLLOWERS = LQ_BENCH_FLOOR_NODES - 1,
    LQ_BENCH_FLOOR_OP_BYTES = 64,
};

/* Starts the three nodes with their files in the folder, each listening at `listen_address` (with
 * port 0, so that each gets its own). Says on stderr where they listen and which processes they are
 * (msg=listening address=A,B,C pids=..., the leader first), and serves until SIGINT or SIGTERM, or
 * until a node ends, which is a failure. Returns an exit status, with no node left. */
int lq_bench_floor_run(const char *folder, const char *listen_address);

#endif
