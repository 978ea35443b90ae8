/* Inside of the offline operations. Nobody else includes this. */
#ifndef LQ_OFFLINE_IMPL_H
#define LQ_OFFLINE_IMPL_H

#include "lq_rebirth.h"

#include <stdbool.h>
#include <stdio.h>

/* Makes the data directory `to` with the files of `rebirth`: whole and durable, or not at all. It
 * must not exist, or be empty. False: `out` was told why. */
bool lq_offline_write(const char *to, const struct lq_rebirth_options *options,
                      const struct lq_rebirth *rebirth, FILE *out);

#endif
