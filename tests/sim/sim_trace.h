/* The timeline of a run, the first failure of a check, and the fingerprint of everything. */
#ifndef SIM_TRACE_H
#define SIM_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_LINE_MAX  240
#define SIM_LINES_MAX 600

struct sim_trace {
    bool is_on, is_verbose;
    bool has_failed;
    uint64_t hash;
    uint64_t n_lines;
    char (*lines)[SIM_LINE_MAX]; /* a ring */
    char failure[512];
};

void sim_trace_init(struct sim_trace *trace, bool is_on, bool is_verbose);
void sim_trace_done(struct sim_trace *trace);

/* Prints the latest lines and the failure. Also called when the program aborts. */
void sim_trace_print(const struct sim_trace *trace);

/* The trace of the run in progress, or NULL: for the handler of an abort. */
extern struct sim_trace *sim_trace_running;

#endif
