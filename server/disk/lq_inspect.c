#include "lq_inspect.h"

#include "lq_check.h"
#include "lq_datadir.h"
#include "lq_datadir_impl.h"
#include "lq_offline.h"
#include "lq_random.h"

#include <inttypes.h>
#include <string.h>

#define MAYBE_RUNNING                                                                              \
    " (if a node runs on this directory, it changes while it is looked at: look again)"

enum status {
    STATUS_GOOD = 0,
    STATUS_UNREADABLE = 1,
    STATUS_DAMAGED = 2,
};

struct look {
    struct lq_datadir dir;
    struct lq_datadir_files files;
    struct lq_recovery *recovery;
    enum lq_recovery_verdict verdict;
    json_t *object;
    enum status status;
};

/* ---- Values. */

static void put(json_t *object, const char *key, json_t *value)
{
    LQ_CHECK(value != NULL && json_object_set_new(object, key, value) == 0);
}

/* JSON has no unsigned numbers; none of ours is that large unless the file is no node's. */
static void put_number(json_t *object, const char *key, uint64_t value)
{
    put(object, key, json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value));
}

/* A text that may hold bytes of a path which are no UTF-8. */
static void put_text(json_t *object, const char *key, const char *text)
{
    json_t *value = json_string(text);
    put(object, key, value != NULL ? value : json_string("(text that is no UTF-8)"));
}

static json_t *add(json_t *object, const char *key)
{
    json_t *array = json_object_get(object, key), *member = json_object();
    if (array == NULL) {
        array = json_array();
        put(object, key, array);
    }
    LQ_CHECK(member != NULL && json_array_append_new(array, member) == 0);
    return member;
}

/* ---- What there is. */

static const char *const verdicts[] = {
    [LQ_RECOVERY_BLANK] = "blank",
    [LQ_RECOVERY_GOOD] = "good",
    [LQ_RECOVERY_TORN] = "torn",
    [LQ_RECOVERY_CORRUPT] = "corrupt",
};

static void put_identity(struct look *look)
{
    char cluster[17];
    put_text(look->object, "directory", look->dir.path);
    put_number(look->object, "layout", LQ_DATADIR_VERSION);
    if (look->dir.has_identity) {
        (void)snprintf(cluster, sizeof cluster, "%016" PRIx64, look->dir.cluster);
        put_text(look->object, "cluster", cluster);
        put_number(look->object, "node", look->dir.node);
    }
}

static void put_verdict(struct look *look)
{
    char text[LQ_DATADIR_TEXT + sizeof MAYBE_RUNNING] = "";
    put_text(look->object, "verdict", verdicts[look->verdict]);
    if (look->verdict == LQ_RECOVERY_CORRUPT) {
        look->status = STATUS_DAMAGED;
    }
    if (look->dir.text[0] != '\0') {
        (void)snprintf(text, sizeof text, "%s" MAYBE_RUNNING, look->dir.text);
    }
    put_text(look->object, "text", text);
}

static void put_facts(struct look *look)
{
    struct lq_recovery_facts facts = lq_recovery_facts(look->recovery);
    put_number(look->object, "term", facts.term);
    put_number(look->object, "vote", facts.vote);
    put_number(look->object, "boot", facts.boot);
    put_number(look->object, "first_index", facts.first_index);
    put_number(look->object, "last_index", facts.last_index);
    put_number(look->object, "last_term", facts.last_term);
}

static void put_members(struct look *look, const struct lq_members *members)
{
    static const char *const roles[] = {
        [LQ_ROLE_STANDBY] = "standby", [LQ_ROLE_VOTER] = "voter", [LQ_ROLE_SPARE] = "spare"};
    for (size_t i = 0; i < members->n; i++) {
        const struct lq_member *member = &members->items[i];
        json_t *item = add(look->object, "members");
        put_number(item, "node", member->node);
        put_text(item, "address", member->address);
        put_text(item, "role", roles[member->role]);
    }
}

/* What the log comes to. */
static void put_state(struct look *look)
{
    struct lq_members members;
    struct lq_table_counts counts;
    if (!lq_recovery_replay(look->recovery, &members, &counts)) {
        put_text(look->object, "state", lq_recovery_text(look->recovery));
        look->status = STATUS_DAMAGED;
        return;
    }
    put_members(look, &members);
    put_number(look->object, "held_keys", counts.keys);
    put_number(look->object, "waiters", counts.waiters);
    put_number(look->object, "last_token", counts.last_token);
    put_number(look->object, "table_ms", counts.time_ms);
}

/* ---- Files. */

static const char *snapshot_state(struct look *look, const struct lq_datadir_file *file,
                                  struct lq_buffer *bytes)
{
    struct lq_buffer state = {0};
    struct lq_snapfile_head head;
    enum lq_snapfile_fault fault;
    uint64_t check;
    if (!lq_datadir_read(&look->dir, file->name, LQ_DATADIR_SNAPSHOT_MAX, LQ_DATADIR_LOOK, bytes)) {
        return "the file can't be read";
    }
    fault = lq_snapfile_read(bytes->bytes, bytes->len, UINT64_MAX, &head, &state, &check);
    lq_buffer_done(&state);
    if (fault != LQ_SNAPFILE_OK) {
        return lq_snapfile_fault_text(fault);
    }
    if (head.index != file->number || head.term != file->term) {
        return "it is another snapshot than its name says";
    }
    return look->dir.has_identity && head.cluster != look->dir.cluster ? "it is another cluster's"
                                                                       : "good";
}

static void put_snapshot(struct look *look, const struct lq_datadir_file *file,
                         struct lq_buffer *bytes)
{
    json_t *item = add(look->object, "snapshots");
    const char *state = snapshot_state(look, file, bytes);
    put_number(item, "index", file->number);
    put_number(item, "term", file->term);
    put_number(item, "bytes", file->bytes);
    put_text(item, "state", state);
    if (strcmp(state, "good") != 0) {
        look->status = STATUS_DAMAGED;
    }
}

static void put_files(struct look *look)
{
    struct lq_buffer bytes = {0};
    for (size_t i = 0; i < look->files.n; i++) {
        const struct lq_datadir_file *file = &look->files.items[i];
        if (file->kind == LQ_DATADIR_IS_SNAPSHOT) {
            put_snapshot(look, file, &bytes);
        } else if (file->kind == LQ_DATADIR_IS_SEGMENT) {
            json_t *item = add(look->object, "segments");
            put_number(item, "number", file->number);
            put_number(item, "bytes", file->bytes);
        }
    }
    lq_buffer_done(&bytes);
}

/* ---- All of it. */

static bool read_it(struct look *look, const char *path)
{
    uint8_t secret[16];
    lq_random_fill(secret, sizeof secret);
    if (!lq_datadir_open_read_only(&look->dir, path)) {
        return false;
    }
    look->recovery = lq_datadir_recover(&look->dir, secret, &look->verdict);
    return look->recovery != NULL && lq_datadir_list(&look->dir, &look->files);
}

int lq_inspect(const char *path, json_t **ret_object)
{
    struct look look = {.dir = {.fd = -1, .lock_fd = -1}, .status = STATUS_GOOD};
    look.object = json_object();
    LQ_CHECK(look.object != NULL);
    if (!read_it(&look, path)) {
        put_text(look.object, "error", look.dir.text);
        look.status = STATUS_UNREADABLE;
    } else {
        put_identity(&look);
        put_verdict(&look);
        put_files(&look);
        if (look.verdict != LQ_RECOVERY_CORRUPT) { /* else nothing that was read counts */
            put_facts(&look);
            put_state(&look);
        }
    }
    lq_recovery_free(look.recovery);
    lq_datadir_files_done(&look.files);
    lq_datadir_close(&look.dir);
    *ret_object = look.object;
    return (int)look.status;
}

int lq_offline_inspect(const char *path, bool as_json, FILE *out)
{
    json_t *object;
    int status = lq_inspect(path, &object);
    if (as_json) {
        (void)json_dumpf(object, out, JSON_INDENT(2));
        (void)fputc('\n', out);
    } else {
        lq_inspect_print(object, out);
    }
    json_decref(object);
    return status;
}
