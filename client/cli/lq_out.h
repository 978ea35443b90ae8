/* What the commands say: text for people, or one JSON object for machines. */
#ifndef LQ_OUT_H
#define LQ_OUT_H

#include "lq_cli.h"

#include <jansson.h>
#include <stdio.h>

/* A JSON object that begins with the command's name and `result` (one word). The caller owns it. */
json_t *lq_out_object(const struct lq_cli *cli, const char *result);

void lq_out_set_text(json_t *object, const char *name, const char *text);
void lq_out_set_number(json_t *object, const char *name, uint64_t number);

/* Adds "token", a number; a string when it has more than the 63 bits that JSON readers manage. */
void lq_out_set_token(json_t *object, uint64_t token);

/* Adds how long a lease still lasts, as "ends_in_ms", and when it ends, as "ends_at" (UTC). */
void lq_out_set_end(json_t *object, uint64_t ends_ms);

/* Writes when a lease ends, for people: "2031-01-31 12:00:00 (in 29.4 s)", local time. */
void lq_out_end_text(uint64_t ends_ms, char *ret_text, size_t cap);

/* Prints and frees the object, in one line. False when the stream does not take it. */
bool lq_out_print(FILE *stream, json_t *object);

/* Says that something failed and returns `code`: "loquet: MESSAGE" on standard error, or an object
 * with "result", "message" and "exit" on standard output (for run: on standard error, as its
 * command owns the output). */
__attribute__((format(printf, 4, 5))) enum lq_exit lq_out_fail(const struct lq_cli *cli,
                                                               const char *result,
                                                               enum lq_exit code,
                                                               const char *format, ...);

#endif
