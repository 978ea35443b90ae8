/* What the programs that run golden vectors share: files, bytes, and counting. */
#ifndef GOLDEN_H
#define GOLDEN_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* The longest bytes in the files: a stream of a few frames with long keys. */
#define GOLDEN_BYTES_MAX 10000

struct golden_bytes {
    uint8_t at[GOLDEN_BYTES_MAX];
    size_t len;
};

/* Ends the run: check_golden.py or check_messages.py would have refused such a file. */
__attribute__((noreturn)) void golden_give_up(const char *name, const char *what);

/* The content of a file, owned by the caller. */
json_t *golden_load(const char *path);

/* Appends the bytes of a string of hexadecimal digits. */
void golden_append_hex(struct golden_bytes *bytes, const char *name, const json_t *hex);

/* Counts one vector, and prints `fault` unless it is NULL: the vector passed. */
void golden_count(const char *kind, const char *name, const char *fault);

/* Prints "N passed, N failed" and returns the exit status of the program. */
int golden_close(void);

#endif
