#include "lq_testing.h"

#include "lq_clock.h"
#include "lq_planted.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define PPM_MAX    10000
#define OFFSET_MAX (1000L * 3600 * 24 * 365)

/* A number from the environment, 0 without one. */
static bool take(const char *name, long least, long most, long *ret_value)
{
    const char *text = getenv(name);
    char *end;

    *ret_value = 0;
    if (text == NULL) {
        return true;
    }
    errno = 0;
    *ret_value = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || *ret_value < least || *ret_value > most) {
        (void)fprintf(stderr, "loquetd: %s is '%s': a number from %ld to %ld is wanted\n", name,
                      text, least, most);
        return false;
    }
    return true;
}

bool lq_testing_start(void)
{
    long plant, ppm, offset_ms;

    if (!take("LQ_PLANT", LQ_PLANT_NONE, LQ_PLANT_LAST, &plant) ||
        !take("LQ_CLOCK_PPM", -PPM_MAX, PPM_MAX, &ppm) ||
        !take("LQ_CLOCK_OFFSET_MS", 0, OFFSET_MAX, &offset_ms)) {
        return false;
    }
    lq_planted = (int)plant;
    lq_clock_distort(ppm, (uint64_t)offset_ms);
    return true;
}
