/* The configuration file, read with libconfig: `key = value;` with the names of the flags. */
#include "lq_config.h"

#include <errno.h>
#include <inttypes.h>
#include <libconfig.h>
#include <stdio.h>
#include <string.h>

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

static bool read_setting(struct lq_config *config, const char *path,
                         const config_setting_t *setting, struct lq_config_error *ret_error)
{
    const char *name = config_setting_name(setting);
    const struct lq_option *option = lq_config_find(name);
    char where[2 * LQ_CONFIG_TEXT], text[LQ_CONFIG_TEXT];
    const char *value;
    (void)snprintf(where, sizeof where, "%.200s:%u: %.200s", path,
                   config_setting_source_line(setting), name);
    if (option == NULL) {
        return lq_config_fail(ret_error, "%s: no such key; loquetd --help lists them", where);
    }
    value = value_text(setting, text);
    if (value == NULL) {
        return lq_config_fail(ret_error, "%s: must be a number, true or false, or a \"text\"",
                              where);
    }
    return lq_config_set(config, option, value, where, ret_error);
}

static bool read_settings(struct lq_config *config, const char *path, const config_t *file,
                          struct lq_config_error *ret_error)
{
    const config_setting_t *root = config_root_setting(file);
    for (int i = 0; i < config_setting_length(root); i++) {
        if (!read_setting(config, path, config_setting_get_elem(root, (unsigned)i), ret_error)) {
            return false;
        }
    }
    return true;
}

bool lq_config_read_file(struct lq_config *config, const char *path,
                         struct lq_config_error *ret_error)
{
    config_t file;
    bool is_read;
    FILE *stream = fopen(path, "re");
    if (stream == NULL) {
        return lq_config_fail(ret_error, "--config: can't open %s: %s", path, strerror(errno));
    }
    config_init(&file);
    if (config_read(&file, stream) == CONFIG_TRUE) {
        is_read = read_settings(config, path, &file, ret_error);
    } else {
        is_read = lq_config_fail(ret_error, "%s:%d: %s (expected: key = value;)", path,
                                 config_error_line(&file), config_error_text(&file));
    }
    config_destroy(&file);
    (void)fclose(stream);
    return is_read;
}
