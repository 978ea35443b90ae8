/* What a run found, for people and for machines. */
#ifndef LQ_BENCH_REPORT_H
#define LQ_BENCH_REPORT_H

#include "load.h"

void lq_bench_report_table(const struct lq_bench_load *load);

/* One JSON object on one line. Returns 0, or -1 if it could not be made or written. */
int lq_bench_report_json(const struct lq_bench_load *load);

#endif
