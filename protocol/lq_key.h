/* What a key may be: 1 to LQ_KEY_MAX bytes of valid UTF-8 without line feed (protocol, "Frames").
 */
#ifndef LQ_KEY_H
#define LQ_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether `len` bytes are valid UTF-8: no overlong form, no surrogate, nothing above U+10FFFF. NUL
 * is valid. */
bool lq_key_is_utf8(const uint8_t *bytes, size_t len);

/* Whether these bytes may be a key. For callers that make frames; a decoder finds out on the way.
 */
bool lq_key_is_valid(const uint8_t *bytes, size_t len);

#endif
