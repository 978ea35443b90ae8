#include "lq_admin_impl.h"
#include "lq_check.h"

#include <inttypes.h>
#include <stdarg.h>

void lq_admin_set(json_t *object, const char *name, json_t *value)
{
    LQ_CHECK(json_object_set_new(object, name, value) == 0);
}

void lq_admin_set_text(json_t *object, const char *name, const char *text)
{
    json_t *value = json_string(text);
    lq_admin_set(object, name, value == NULL ? json_string("(not UTF-8)") : value);
}

void lq_admin_set_number(json_t *object, const char *name, uint64_t number)
{
    lq_admin_set(object, name,
                 number <= INT64_MAX ? json_integer((json_int_t)number) : json_null());
}

void lq_admin_set_bool(json_t *object, const char *name, bool value)
{
    lq_admin_set(object, name, json_boolean(value));
}

void lq_admin_set_wide(json_t *object, const char *name, uint64_t number)
{
    lq_admin_set(object, name, json_sprintf("%" PRIu64, number));
}

void lq_admin_set_node(json_t *object, const char *name, uint32_t node)
{
    lq_admin_set(object, name, node == 0 ? json_null() : json_integer(node));
}

struct lq_admin_answer lq_admin_fault(unsigned status, const char *error, const char *format, ...)
{
    struct lq_admin_answer answer = {.status = status, .json = json_object()};
    va_list arguments;
    json_t *message;
    va_start(arguments, format);
    message = json_vsprintf(format, arguments);
    va_end(arguments);
    lq_admin_set_text(answer.json, "error", error);
    lq_admin_set(answer.json, "message", message == NULL ? json_string("(not UTF-8)") : message);
    return answer;
}
