/* Configuration files, read with libconfig: `key = value;`.
 *
 * The files are read one after the other, the system's first, into one set of values, so that the
 * user's file overrides it. Then every value goes where no option was given. A file is checked as a
 * whole, whatever is needed of it: what is wrong in it would go wrong on the day it is needed.
 *
 * libconfig before 1.7 silently cuts an integer without the suffix L to 32 bits. No number that is
 * right here has more than three digits, so a long one is refused as it is written. */
#include "lq_settings.h"

#include "lq_args.h"
#include "lq_endpoints.h"
#include "lq_out.h"

#include <errno.h>
#include <libconfig.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SYSTEM_FILE "/etc/loquet/loquet.conf"
#define USER_FILE   "loquet/loquet.conf" /* below the user's folder of configurations */

#define PATH_MAX_BYTES   4096
#define FILE_BYTES_MAX   65536
#define ORIGIN_MAX       (PATH_MAX_BYTES + 32)
#define LIST_MAX         (LQ_ENDPOINTS_MAX * LQ_ENDPOINT_TEXT_MAX)
#define WHY_MAX          (ORIGIN_MAX + 512)
#define NUMBER_BYTES_MAX 9 /* of a number, as it is written */

/* A list of servers, and where it stands. */
struct list {
    char text[LIST_MAX];
    char origin[ORIGIN_MAX];
};

struct settings {
    struct list endpoints, admin;
    struct lq_cli numbers; /* --lease and --wait, as their options would leave them */
    bool json, has_lease, has_wait;
};

/* A file being read. */
struct file {
    const char *path;
    char user_path[PATH_MAX_BYTES]; /* what `path` is for the user's file */
    char text[FILE_BYTES_MAX + 1];
    config_t config;
    char why[WHY_MAX]; /* what is wrong */
};

/* A value in it, as it would be written behind an option, and where it stands. */
struct value {
    const char *name;
    char text[LIST_MAX];
    char origin[ORIGIN_MAX];
    bool is_text; /* in quotes */
};

__attribute__((format(printf, 2, 3))) static bool fail(struct file *file, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(file->why, sizeof file->why, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- Keys. Each takes a value; returns NULL, or what is wrong with it. */

static const char *take_list(struct list *list, const struct value *value, const char *port)
{
    static struct lq_endpoints endpoints;
    static char why[256];
    if (!value->is_text) {
        return "give \"HOST:PORT[,HOST:PORT...]\"";
    }
    if (!lq_endpoints_parse(&endpoints, value->text, port, why, sizeof why)) {
        return why;
    }
    memcpy(list->text, value->text, sizeof list->text);
    memcpy(list->origin, value->origin, sizeof list->origin);
    return NULL;
}

static const char *take_endpoints(struct settings *settings, const struct value *value)
{
    return take_list(&settings->endpoints, value, LQ_ENDPOINTS_PORT);
}

static const char *take_admin(struct settings *settings, const struct value *value)
{
    return take_list(&settings->admin, value, LQ_CLI_ADMIN_PORT);
}

static const char *take_lease(struct settings *settings, const struct value *value)
{
    settings->has_lease = true;
    return lq_args_find("lease")->take(&settings->numbers, value->text);
}

static const char *take_wait(struct settings *settings, const struct value *value)
{
    settings->has_wait = true;
    return lq_args_find("wait")->take(&settings->numbers, value->text);
}

static const char *take_json(struct settings *settings, const struct value *value)
{
    settings->json = strcmp(value->text, "true") == 0;
    return settings->json || strcmp(value->text, "false") == 0 ? NULL : "give true or false";
}

static const struct key {
    const char *name;
    const char *(*take)(struct settings *settings, const struct value *value);
} keys[] = {
    {"endpoints", take_endpoints}, {"admin", take_admin}, {"lease", take_lease},
    {"wait", take_wait},           {"json", take_json},
};

static const struct key *find_key(const char *name)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (strcmp(keys[i].name, name) == 0) {
            return &keys[i];
        }
    }
    return NULL;
}

/* ---- Files. */

/* Reads the text. A file that is not there is an empty one, unless it was asked for. */
static bool read_text(struct file *file, bool is_asked_for)
{
    FILE *stream = fopen(file->path, "re");
    size_t len;
    int error = errno;
    file->text[0] = '\0';
    if (stream == NULL) {
        return (!is_asked_for && (error == ENOENT || error == ENOTDIR)) ||
               fail(file, "%s can't be opened: %s. Mend that, or name another file with --config",
                    file->path, strerrordesc_np(error));
    }
    errno = 0;
    len = fread(file->text, 1, sizeof file->text, stream);
    error = ferror(stream) != 0 ? errno : 0;
    (void)fclose(stream);
    if (error != 0) {
        return fail(file, "%s can't be read: %s. Mend that, or name another file with --config",
                    file->path, strerrordesc_np(error));
    }
    if (len == sizeof file->text || memchr(file->text, '\0', len) != NULL) {
        return fail(file, "%s is no configuration: that is a text of at most %d bytes", file->path,
                    FILE_BYTES_MAX);
    }
    file->text[len] = '\0';
    return true;
}

/* Whether the number that stands in the file for `name`, on that line or behind it, is longer than
 * any that is right. */
static bool is_long_number(const char *text, unsigned line, const char *name)
{
    const char *at = text;
    for (; line > 1 && at != NULL; line--) {
        at = strchr(at, '\n');
        at = at == NULL ? NULL : at + 1;
    }
    at = at == NULL ? NULL : strstr(at, name);
    if (at == NULL) {
        return true;
    }
    at += strlen(name);
    at += strspn(at, " \t\r\n=:");
    return strspn(at, "+-0123456789abcdefxABCDEFX") > NUMBER_BYTES_MAX;
}

/* Reads the value of any type that a key may have. */
static bool read_value(const struct file *file, const config_setting_t *setting,
                       struct value *ret_value)
{
    size_t cap = sizeof ret_value->text;
    int len = -1;
    ret_value->is_text = config_setting_type(setting) == CONFIG_TYPE_STRING;
    switch (config_setting_type(setting)) {
    case CONFIG_TYPE_STRING:
        len = snprintf(ret_value->text, cap, "%s", config_setting_get_string(setting));
        break;
    case CONFIG_TYPE_BOOL:
        len = snprintf(ret_value->text, cap, "%s",
                       config_setting_get_bool(setting) ? "true" : "false");
        break;
    case CONFIG_TYPE_FLOAT:
        len = snprintf(ret_value->text, cap, "%.10g", config_setting_get_float(setting));
        break;
    case CONFIG_TYPE_INT:
        len = is_long_number(file->text, config_setting_source_line(setting), ret_value->name)
                  ? -1
                  : snprintf(ret_value->text, cap, "%d", config_setting_get_int(setting));
        break;
    default:
        break;
    }
    return len >= 0 && (size_t)len < cap;
}

static bool read_setting(struct settings *settings, struct file *file,
                         const config_setting_t *setting)
{
    static struct value value;
    const struct key *key;
    const char *fault;
    value.name = config_setting_name(setting);
    (void)snprintf(value.origin, sizeof value.origin, "%s:%u: %.20s", file->path,
                   config_setting_source_line(setting), value.name);
    key = find_key(value.name);
    if (key == NULL) {
        return fail(file, "%s: no such key. These are known: endpoints, admin, lease, wait, json",
                    value.origin);
    }
    if (!read_value(file, setting, &value)) {
        value.text[0] = '\0'; /* which none of them takes */
    }
    fault = key->take(settings, &value);
    return fault == NULL || fail(file, "%s: %s", value.origin, fault);
}

static bool read_settings(struct settings *settings, struct file *file)
{
    const config_setting_t *root = config_root_setting(&file->config);
    for (int i = 0; i < config_setting_length(root); i++) {
        if (!read_setting(settings, file, config_setting_get_elem(root, (unsigned)i))) {
            return false;
        }
    }
    return true;
}

static bool read_file(struct settings *settings, struct file *file, bool is_asked_for)
{
    bool is_read;
    if (!read_text(file, is_asked_for)) {
        return false;
    }
    config_init(&file->config);
    if (config_read_string(&file->config, file->text) == CONFIG_TRUE) {
        is_read = read_settings(settings, file);
    } else {
        is_read = fail(file, "%s:%d: %s. Write: key = value;", file->path,
                       config_error_line(&file->config), config_error_text(&file->config));
    }
    config_destroy(&file->config);
    return is_read;
}

/* The path of the user's file; false when there can be none. */
static bool find_user_path(char *ret_path, size_t cap)
{
    const char *folder = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int len;
    if (folder != NULL && *folder == '/') {
        len = snprintf(ret_path, cap, "%s/" USER_FILE, folder);
    } else if (home != NULL && *home == '/') {
        len = snprintf(ret_path, cap, "%s/.config/" USER_FILE, home);
    } else {
        return false;
    }
    return len > 0 && (size_t)len < cap;
}

static bool read_all(const struct lq_cli *cli, struct settings *settings, struct file *file)
{
    const char *variable = getenv("LOQUET_CONFIG");
    file->path = cli->config != NULL ? cli->config : variable;
    if (file->path != NULL && *file->path != '\0') {
        return read_file(settings, file, true);
    }
    file->path = SYSTEM_FILE;
    if (!read_file(settings, file, false)) {
        return false;
    }
    file->path = file->user_path;
    return !find_user_path(file->user_path, sizeof file->user_path) ||
           read_file(settings, file, false);
}

/* ---- Where they go. */

static bool is_set(const char *variable)
{
    const char *value = getenv(variable);
    return value != NULL && *value != '\0';
}

static void fill_list(const struct list *list, const char *variable, const char **text,
                      const char **origin)
{
    if (*text == NULL && !is_set(variable) && list->text[0] != '\0') {
        *text = list->text;
        *origin = list->origin;
    }
}

enum lq_exit lq_settings_fill(struct lq_cli *cli)
{
    static struct settings settings;
    static struct file file;
    if (!read_all(cli, &settings, &file)) {
        return lq_out_fail(cli, "invalid", LQ_EXIT_USAGE, "%s", file.why);
    }
    fill_list(&settings.endpoints, "LOQUET_ENDPOINTS", &cli->endpoints, &cli->endpoints_origin);
    fill_list(&settings.admin, "LOQUET_ADMIN", &cli->admin, &cli->admin_origin);
    if (settings.has_lease && (cli->used & LQ_CLI_LEASE) == 0) {
        cli->lease_s = settings.numbers.lease_s;
    }
    if (settings.has_wait && (cli->used & LQ_CLI_WAIT) == 0) {
        cli->wait_ms = settings.numbers.wait_ms;
    }
    cli->json = (cli->json || settings.json) && !cli->no_json;
    return LQ_EXIT_OK;
}
