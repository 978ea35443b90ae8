/* Bytes that grow at the end. */
#ifndef LQ_BUFFER_H
#define LQ_BUFFER_H

#include <stddef.h>
#include <stdint.h>

struct lq_buffer {
    uint8_t *bytes;
    size_t len, cap;
};

void lq_buffer_init(struct lq_buffer *buffer);
void lq_buffer_done(struct lq_buffer *buffer);

/* Makes `len` bytes of room at the end, counts them as used and returns where they begin. Earlier
 * pointers into the buffer are no longer valid. */
uint8_t *lq_buffer_extend(struct lq_buffer *buffer, size_t len);

/* Appends a copy of `len` bytes, which are not inside the buffer. */
void lq_buffer_add(struct lq_buffer *buffer, const void *bytes, size_t len);

#endif
