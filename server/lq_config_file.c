/* The configuration file, read with libconfig: `key = value;` with the names of the flags.
 *
 * libconfig before 1.7 silently cuts an integer without the suffix L to 32 bits. What the file says
 * is compared with what it understood, so that no such number is ever taken for another. */
#include "lq_option.h"

#include <errno.h>
#include <libconfig.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Largest file that is read. */
#define FILE_BYTES_MAX 65536

struct file {
    const char *path;
    char text[FILE_BYTES_MAX + 1];
    config_t config;
};

static bool read_text(struct file *file, struct lq_config_error *ret_error)
{
    FILE *stream = fopen(file->path, "re");
    size_t len;
    int error;
    if (stream == NULL) {
        return lq_config_fail(ret_error, "--config: can't open %s: %s", file->path,
                              strerror(errno));
    }
    errno = 0;
    len = fread(file->text, 1, sizeof file->text, stream);
    error = ferror(stream) != 0 ? errno : 0;
    (void)fclose(stream);
    if (error != 0) {
        return lq_config_fail(ret_error, "--config: can't read %s: %s", file->path,
                              strerror(error));
    }
    if (len == sizeof file->text || memchr(file->text, '\0', len) != NULL) {
        return lq_config_fail(ret_error, "--config: %s is not a text of at most %d bytes",
                              file->path, FILE_BYTES_MAX);
    }
    file->text[len] = '\0';
    return true;
}

/* The integer that stands in the file for `name`, on its line or behind it; false when it is not
 * found. */
static bool find_literal(const struct file *file, const config_setting_t *setting,
                         long long *ret_value)
{
    const char *at = file->text, *name = config_setting_name(setting);
    char *end;
    for (unsigned line = 1; line < config_setting_source_line(setting) && at != NULL; line++) {
        at = strchr(at, '\n');
        at = at == NULL ? NULL : at + 1;
    }
    at = at == NULL ? NULL : strstr(at, name);
    if (at == NULL) {
        return false;
    }
    at += strlen(name);
    at += strspn(at, " \t\r\n=:");
    errno = 0;
    *ret_value = strtoll(at, &end, 0);
    return end != at && errno == 0;
}

/* The value as it would be written behind a flag; NULL for a type that no option has. */
static const char *value_text(const config_setting_t *setting, char ret_text[LQ_CONFIG_TEXT])
{
    switch (config_setting_type(setting)) {
    case CONFIG_TYPE_STRING:
        return config_setting_get_string(setting);
    case CONFIG_TYPE_BOOL:
        return config_setting_get_bool(setting) ? "true" : "false";
    case CONFIG_TYPE_INT:
        (void)snprintf(ret_text, LQ_CONFIG_TEXT, "%d", config_setting_get_int(setting));
        return ret_text;
    case CONFIG_TYPE_INT64:
        (void)snprintf(ret_text, LQ_CONFIG_TEXT, "%lld", config_setting_get_int64(setting));
        return ret_text;
    default:
        return NULL;
    }
}

static bool is_cut(const struct file *file, const config_setting_t *setting)
{
    long long literal;
    return config_setting_type(setting) == CONFIG_TYPE_INT &&
           (!find_literal(file, setting, &literal) || literal != config_setting_get_int(setting));
}

static bool read_setting(struct lq_config *config, const struct file *file,
                         const config_setting_t *setting, struct lq_config_error *ret_error)
{
    const char *name = config_setting_name(setting);
    const struct lq_option *option = lq_option_find(name);
    char where[2 * LQ_CONFIG_TEXT], text[LQ_CONFIG_TEXT];
    const char *value;
    (void)snprintf(where, sizeof where, "%.200s:%u: %.200s", file->path,
                   config_setting_source_line(setting), name);
    if (option == NULL) {
        return lq_config_fail(ret_error, "%s: no such key; loquetd --help lists them", where);
    }
    value = value_text(setting, text);
    if (value == NULL) {
        return lq_config_fail(ret_error, "%s: must be a number, true or false, or a \"text\"",
                              where);
    }
    if (is_cut(file, setting)) {
        return lq_config_fail(ret_error,
                              "%s: a number above 2147483647 needs an L behind it, "
                              "or quotes: \"8G\", \"8589934592\"",
                              where);
    }
    return lq_option_set(config, option, value, where, ret_error);
}

static bool read_settings(struct lq_config *config, const struct file *file,
                          struct lq_config_error *ret_error)
{
    const config_setting_t *root = config_root_setting(&file->config);
    for (int i = 0; i < config_setting_length(root); i++) {
        if (!read_setting(config, file, config_setting_get_elem(root, (unsigned)i), ret_error)) {
            return false;
        }
    }
    return true;
}

bool lq_config_read_file(struct lq_config *config, const char *path,
                         struct lq_config_error *ret_error)
{
    static struct file file;
    bool is_read;
    file.path = path;
    if (!read_text(&file, ret_error)) {
        return false;
    }
    config_init(&file.config);
    if (config_read_string(&file.config, file.text) == CONFIG_TRUE) {
        is_read = read_settings(config, &file, ret_error);
    } else {
        is_read = lq_config_fail(ret_error, "%s:%d: %s (expected: key = value;)", path,
                                 config_error_line(&file.config), config_error_text(&file.config));
    }
    config_destroy(&file.config);
    return is_read;
}
