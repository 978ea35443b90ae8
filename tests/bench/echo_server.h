/* The echo server of the floor: one thread, epoll; reads what is there and writes it back once. */
#ifndef LQ_BENCH_ECHO_SERVER_H
#define LQ_BENCH_ECHO_SERVER_H

/* Listens, says where in a log line on stderr (msg=listening address=...), and serves until a
 * signal ends it. Returns an exit status if it can't. */
int lq_bench_echo_server_run(const char *listen_address);

#endif
