#include "lq_inspect.h"

#include <string.h>

static void print_value(const json_t *value, FILE *out)
{
    if (json_is_integer(value)) {
        (void)fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    } else {
        (void)fputs(json_string_value(value), out);
    }
}

/* `key value, key value`. */
static void print_member(json_t *object, FILE *out)
{
    const char *key, *comma = "";
    json_t *value;
    json_object_foreach(object, key, value)
    {
        (void)fprintf(out, "%s%s ", comma, key);
        print_value(value, out);
        comma = ", ";
    }
    (void)fputc('\n', out);
}

/* The array's key is a plural. */
static void print_array(const char *key, json_t *array, FILE *out)
{
    size_t i;
    json_t *member;
    json_array_foreach(array, i, member)
    {
        (void)fprintf(out, "%.*s: ", (int)strlen(key) - 1, key);
        print_member(member, out);
    }
}

void lq_inspect_print(json_t *object, FILE *out)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        if (json_is_array(value)) {
            print_array(key, value, out);
        } else {
            (void)fprintf(out, "%s: ", key);
            print_value(value, out);
            (void)fputc('\n', out);
        }
    }
}
