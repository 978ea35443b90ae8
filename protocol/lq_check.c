#include "lq_check.h"

#include <stdio.h>
#include <stdlib.h>

void lq_check_failed(const char *file, int line, const char *text)
{
    (void)fprintf(stderr, "%s:%d: check failed: %s\n", file, line, text);
    abort();
}
