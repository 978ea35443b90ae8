/* What a data directory holds, as one JSON object. Private to server/disk. */
#ifndef LQ_INSPECT_H
#define LQ_INSPECT_H

#include <jansson.h>
#include <stdio.h>

/* Looks at the directory and fills the object: numbers, texts, and arrays of flat objects. Returns
 * what lq_offline_inspect does. The object is the caller's in any case; when the directory can't be
 * read its only key is `error`. */
int lq_inspect(const char *path, json_t **ret_object);

/* Prints such an object for people: a line `key: value` for each of its keys, and for each member
 * of an array. */
void lq_inspect_print(json_t *object, FILE *out);

#endif
