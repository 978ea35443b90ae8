/* Values of options, as they are written, put into the configuration. */
#include "lq_option.h"
#include "lq_address.h"
#include "lq_log.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool lq_config_fail(struct lq_config_error *ret_error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(ret_error->text, sizeof ret_error->text, format, arguments);
    va_end(arguments);
    return false;
}

/* Reads a decimal number with, for bytes, one suffix. False when it is none or does not fit. */
static bool parse_number(const char *value, bool takes_suffix, uint64_t *ret_number)
{
    static const char suffixes[] = "KMG";
    const char *suffix;
    unsigned shift = 0;
    char *end;
    errno = 0;
    *ret_number = strtoull(value, &end, 10);
    if (errno != 0 || end == value || !isdigit((unsigned char)value[0])) {
        return false;
    }
    suffix = *end == '\0' ? NULL : strchr(suffixes, *end);
    if (suffix != NULL && takes_suffix) {
        shift = 10 * (unsigned)(suffix - suffixes + 1);
        end++;
    }
    if (*end != '\0' || *ret_number > UINT64_MAX >> shift) {
        return false;
    }
    *ret_number <<= shift;
    return true;
}

static bool set_number(uint64_t *field, const struct lq_option *option, const char *value,
                       const char *where, struct lq_config_error *ret_error)
{
    bool is_bytes = option->kind == LQ_OPTION_BYTES;
    uint64_t number;
    if (!parse_number(value, is_bytes, &number) || number < option->min || number > option->max) {
        return lq_config_fail(
            ret_error,
            "%s: '%s' is not a number from %" PRIu64 " to %" PRIu64 "%s (%s; default %s)", where,
            value, option->min, option->max, is_bytes ? ", perhaps with K, M or G" : "",
            option->help, option->initial);
    }
    *field = number;
    return true;
}

static bool set_switch(bool *field, const char *value, const char *where,
                       struct lq_config_error *ret_error)
{
    if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0) {
        return lq_config_fail(ret_error, "%s: '%s' is neither true nor false", where, value);
    }
    *field = value[0] == 't';
    return true;
}

static bool is_address(const struct lq_option *option, const char *value)
{
    struct lq_address address;
    return (value[0] == '\0' && option->group == LQ_GROUP_CLUSTER) ||
           lq_address_parse(value, &address);
}

static bool is_id(const char *value)
{
    size_t len = strlen(value);
    return len == 0 || (len == LQ_CONFIG_ID - 1 && strspn(value, "0123456789abcdefABCDEF") == len &&
                        strspn(value, "0") < len);
}

static bool set_text(char *field, size_t cap, const struct lq_option *option, const char *value,
                     const char *where, struct lq_config_error *ret_error)
{
    size_t len = strlen(value);
    if (option->kind == LQ_OPTION_ADDRESS && !is_address(option, value)) {
        return lq_config_fail(ret_error,
                              "%s: '%s' is not HOST:PORT, such as 127.0.0.1:7311 or [::1]:7311",
                              where, value);
    }
    if (option->kind == LQ_OPTION_LEVEL && lq_log_level_of(value) < 0) {
        return lq_config_fail(ret_error, "%s: '%s' is not one of debug, info, warn, error", where,
                              value);
    }
    if (option->kind == LQ_OPTION_ID && !is_id(value)) {
        return lq_config_fail(
            ret_error, "%s: '%s' is not 16 hexadecimal digits, as `loquet status` shows them",
            where, value);
    }
    if (len >= cap) {
        return lq_config_fail(ret_error, "%s: longer than %zu bytes", where, cap - 1);
    }
    memcpy(field, value, len + 1);
    return true;
}

static bool set_value(void *field, const struct lq_option *option, const char *value,
                      const char *where, struct lq_config_error *ret_error)
{
    switch (option->kind) {
    case LQ_OPTION_ADDRESS:
    case LQ_OPTION_TEXT:
    case LQ_OPTION_LEVEL:
        return set_text(field, LQ_CONFIG_TEXT, option, value, where, ret_error);
    case LQ_OPTION_LIST:
        return set_text(field, LQ_CONFIG_LIST, option, value, where, ret_error);
    case LQ_OPTION_ID:
        return set_text(field, LQ_CONFIG_ID, option, value, where, ret_error);
    case LQ_OPTION_NUMBER:
    case LQ_OPTION_BYTES:
        return set_number(field, option, value, where, ret_error);
    case LQ_OPTION_SWITCH:
        return set_switch(field, value, where, ret_error);
    }
    return false;
}

bool lq_option_set(struct lq_config *config, const struct lq_option *option, const char *value,
                   const char *where, struct lq_config_error *ret_error)
{
    size_t n;
    config->given |= UINT64_C(1) << (option - lq_options(&n));
    return set_value((char *)config + option->offset, option, value, where, ret_error);
}
