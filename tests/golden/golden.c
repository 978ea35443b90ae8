#include "golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int passed, failed;

void golden_give_up(const char *name, const char *what)
{
    (void)fprintf(stderr, "%s: %s\n", name, what);
    exit(EXIT_FAILURE);
}

json_t *golden_load(const char *path)
{
    json_error_t problem;
    json_t *root = json_load_file(path, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &problem);
    if (root == NULL) {
        golden_give_up(path, problem.text);
    }
    return root;
}

void golden_append_hex(struct golden_bytes *bytes, const char *name, const json_t *hex)
{
    const char *text = json_string_value(hex);
    size_t digits = text == NULL ? 1 : strlen(text);

    if (digits % 2 != 0 || digits / 2 > sizeof bytes->at - bytes->len) {
        golden_give_up(name, "no hex, or too much of it");
    }
    for (; digits > 0; digits -= 2, text += 2) {
        char pair[3] = {text[0], text[1], '\0'}, *end;
        bytes->at[bytes->len++] = (uint8_t)strtoul(pair, &end, 16);
        if (*end != '\0') {
            golden_give_up(name, "hex with other digits");
        }
    }
}

void golden_count(const char *kind, const char *name, const char *fault)
{
    if (fault == NULL) {
        passed++;
        return;
    }
    failed++;
    (void)printf("%s %s: %s\n", kind, name, fault);
}

int golden_close(void)
{
    (void)printf("%d passed, %d failed\n", passed, failed);
    return passed > 0 && failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
