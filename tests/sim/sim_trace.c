#include "sim_world.h"

#include "lq_mem.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

struct sim_trace *sim_trace_running;

void sim_trace_init(struct sim_trace *trace, bool is_on, bool is_verbose)
{
    *trace = (struct sim_trace){.is_on = is_on || is_verbose, .is_verbose = is_verbose};
    if (trace->is_on) {
        trace->lines = lq_calloc(SIM_LINES_MAX, SIM_LINE_MAX);
    }
    sim_trace_running = trace;
}

void sim_trace_done(struct sim_trace *trace)
{
    lq_free(trace->lines);
    trace->lines = NULL;
    sim_trace_running = NULL;
}

void sim_trace_print(const struct sim_trace *trace)
{
    uint64_t first = trace->n_lines > SIM_LINES_MAX ? trace->n_lines - SIM_LINES_MAX : 0;
    if (trace->is_on && !trace->is_verbose) {
        if (first > 0) {
            (void)printf("... %" PRIu64 " lines before (all of them: --verbose)\n", first);
        }
        for (uint64_t i = first; i < trace->n_lines; i++) {
            (void)printf("%s\n", trace->lines[i % SIM_LINES_MAX]);
        }
    }
    if (trace->has_failed) {
        (void)printf("FAILED: %s\n", trace->failure);
    }
}

bool sim_is_traced(const struct sim *sim)
{
    return sim->trace.is_on;
}

void sim_trace(struct sim *sim, const char *format, ...)
{
    struct sim_trace *trace = &sim->trace;
    char *line;
    va_list arguments;
    int len;
    if (!trace->is_on || trace->has_failed) { /* what ends a run is no part of it */
        return;
    }
    line = trace->lines[trace->n_lines++ % SIM_LINES_MAX];
    len = snprintf(line, SIM_LINE_MAX, "%3" PRIu64 ".%06" PRIu64 "  ", sim->now_us / SIM_S,
                   sim->now_us % SIM_S);
    va_start(arguments, format);
    (void)vsnprintf(line + len, SIM_LINE_MAX - (size_t)len, format, arguments);
    va_end(arguments);
    if (trace->is_verbose) {
        (void)printf("%s\n", line);
    }
}

void sim_fail(struct sim *sim, const char *format, ...)
{
    struct sim_trace *trace = &sim->trace;
    va_list arguments;
    int len;
    if (trace->has_failed) {
        return;
    }
    trace->has_failed = true;
    len = snprintf(trace->failure, sizeof trace->failure, "at %" PRIu64 ".%06" PRIu64 ": ",
                   sim->now_us / SIM_S, sim->now_us % SIM_S);
    va_start(arguments, format);
    (void)vsnprintf(trace->failure + len, sizeof trace->failure - (size_t)len, format, arguments);
    va_end(arguments);
}

bool sim_has_failed(const struct sim *sim)
{
    return sim->trace.has_failed;
}

void sim_note_hash(struct sim *sim, uint64_t value)
{
    uint64_t hash = (sim->trace.hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    sim->trace.hash = hash ^ (hash >> 29);
}
