#include "lq_key.h"

#include "lq_limits.h"

#include <string.h>
#include <unistr.h>

/* Most keys are plain ASCII: eight bytes at a time find the first that is not. */
static size_t ascii_prefix(const uint8_t *bytes, size_t len)
{
    size_t at = 0;
    while (len - at >= sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, bytes + at, sizeof word);
        if ((word & UINT64_C(0x8080808080808080)) != 0) {
            break;
        }
        at += sizeof word;
    }
    return at;
}

bool lq_key_is_utf8(const uint8_t *bytes, size_t len)
{
    size_t ascii = ascii_prefix(bytes, len);
    return ascii == len || u8_check(bytes + ascii, len - ascii) == NULL;
}

bool lq_key_is_valid(const uint8_t *bytes, size_t len)
{
    return len >= 1 && len <= LQ_KEY_MAX && memchr(bytes, '\n', len) == NULL &&
           lq_key_is_utf8(bytes, len);
}
