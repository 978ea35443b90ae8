#include "lq_out.h"

#include "lq_check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <time.h>

static void set(json_t *object, const char *name, json_t *value)
{
    LQ_CHECK(json_object_set_new(object, name, value) == 0); /* out of memory, or no UTF-8 */
}

json_t *lq_out_object(const struct lq_cli *cli, const char *result)
{
    json_t *object = json_object();
    LQ_CHECK(object != NULL);
    set(object, "command", json_string(cli->command->name));
    set(object, "result", json_string(result));
    return object;
}

void lq_out_set_text(json_t *object, const char *name, const char *text)
{
    json_t *value = json_string(text);
    set(object, name, value == NULL ? json_string("(not UTF-8)") : value);
}

void lq_out_set_number(json_t *object, const char *name, uint64_t number)
{
    set(object, name, json_integer((json_int_t)number));
}

void lq_out_set_token(json_t *object, uint64_t token)
{
    if (token <= INT64_MAX) {
        lq_out_set_number(object, "token", token);
    } else {
        set(object, "token", json_sprintf("%" PRIu64, token));
    }
}

/* The wall clock's time of `ends_ms`: for reading, nothing is decided by it. */
static time_t wall_time(uint64_t ends_ms)
{
    int64_t left_ms = (int64_t)(ends_ms - loquet_now_ms());
    return time(NULL) + (time_t)(left_ms / 1000);
}

static uint64_t left_ms(uint64_t ends_ms)
{
    uint64_t now_ms = loquet_now_ms();
    return ends_ms > now_ms ? ends_ms - now_ms : 0;
}

void lq_out_set_end(json_t *object, uint64_t ends_ms)
{
    time_t when = wall_time(ends_ms);
    struct tm utc;
    char text[32] = "";

    if (gmtime_r(&when, &utc) != NULL) {
        (void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    }
    lq_out_set_number(object, "ends_in_ms", left_ms(ends_ms));
    lq_out_set_text(object, "ends_at", text);
}

void lq_out_end_text(uint64_t ends_ms, char *ret_text, size_t cap)
{
    time_t when = wall_time(ends_ms);
    uint64_t tenths = left_ms(ends_ms) / 100;
    struct tm local;
    char text[32] = "?";

    if (localtime_r(&when, &local) != NULL) {
        (void)strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
    }
    (void)snprintf(ret_text, cap, "%s (in %" PRIu64 ".%" PRIu64 " s)", text, tenths / 10,
                   tenths % 10);
}

bool lq_out_print(FILE *stream, json_t *object)
{
    bool written = json_dumpf(object, stream, 0) == 0 && fputc('\n', stream) != EOF;
    json_decref(object);
    return fflush(stream) == 0 && written;
}

enum lq_exit lq_out_fail(const struct lq_cli *cli, const char *result, enum lq_exit code,
                         const char *format, ...)
{
    char message[1600];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (cli->json) {
        json_t *object = lq_out_object(cli, result);
        if (cli->n_arguments > 0 && (cli->command->has_key || cli->command->action != NULL)) {
            lq_out_set_text(object, cli->command->has_key ? "key" : "action", cli->arguments[0]);
        }
        lq_out_set_text(object, "message", message);
        lq_out_set_number(object, "exit", (uint64_t)code);
        if (!lq_out_print(cli->command->runs_command ? stderr : stdout, object)) {
            return LQ_EXIT_OUTPUT;
        }
    } else {
        (void)fprintf(stderr, "loquet: %s\n", message);
    }
    return code;
}
