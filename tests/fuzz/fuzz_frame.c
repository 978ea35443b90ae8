/* Any bytes through both decoders of the client protocol. The input is the stream itself, taken
 * once as requests and once as answers; lq_props.h lists what must hold for it. */
#include "lq_props.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void try(const struct lq_direction *direction, const uint8_t *bytes, size_t len)
{
    const char *fault = lq_props_fault(direction, bytes, len);

    if (fault != NULL) {
        (void)fprintf(stderr, "as %s: %s\n", direction->name, fault);
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    try(&lq_requests, bytes, len);
    try(&lq_answers, bytes, len);
    return 0;
}
