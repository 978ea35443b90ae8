#include "lq_buffer.h"

#include "lq_check.h"
#include "lq_mem.h"

#include <string.h>

void lq_buffer_init(struct lq_buffer *buffer)
{
    *buffer = (struct lq_buffer){0};
}

void lq_buffer_done(struct lq_buffer *buffer)
{
    lq_free(buffer->bytes);
    lq_buffer_init(buffer);
}

uint8_t *lq_buffer_extend(struct lq_buffer *buffer, size_t len)
{
    uint8_t *room;
    LQ_CHECK(len <= SIZE_MAX / 4 && buffer->len <= SIZE_MAX / 4);
    if (buffer->cap - buffer->len < len) {
        size_t wanted = buffer->len + len;
        buffer->cap = wanted > 2 * buffer->cap ? wanted : 2 * buffer->cap;
        buffer->bytes = lq_realloc(buffer->bytes, buffer->cap, 1);
    }
    room = buffer->bytes + buffer->len;
    buffer->len += len;
    return room;
}

void lq_buffer_add(struct lq_buffer *buffer, const void *bytes, size_t len)
{
    if (len > 0) {
        memcpy(lq_buffer_extend(buffer, len), bytes, len);
    }
}
