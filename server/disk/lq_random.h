/* Random numbers of the kernel. Private to server/disk. */
#ifndef LQ_RANDOM_H
#define LQ_RANDOM_H

#include <stddef.h>
#include <stdint.h>

void lq_random_fill(uint8_t *ret_bytes, size_t len); /* at most 256 */

/* Any number but 0. */
uint64_t lq_random_id(void);

#endif
