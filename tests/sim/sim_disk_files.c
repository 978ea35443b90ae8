/* The files of a disk: finding, adding, removing, damaging them, and reading them for a start. */
#include "lq_mem.h"
#include "sim_disk_impl.h"
#include "sim_world.h"

#include <inttypes.h>
#include <string.h>

struct sim_file *sim_disk_find(struct sim_disk *disk, enum sim_file_kind kind, uint64_t number,
                               uint64_t term)
{
    for (size_t i = 0; i < disk->n_files; i++) {
        struct sim_file *file = &disk->files[i];
        if (file->kind == kind && file->number == number && file->term == term) {
            return file;
        }
    }
    return NULL;
}

struct sim_file *sim_disk_find_part(struct sim_disk *disk, const struct lq_snapshot_name *name)
{
    for (size_t i = 0; i < disk->n_files; i++) {
        struct sim_file *file = &disk->files[i];
        if (file->kind == SIM_FILE_PART && file->number == name->index &&
            file->term == name->term && file->is_incoming == name->is_incoming) {
            return file;
        }
    }
    return NULL;
}

struct sim_file *sim_disk_add(struct sim_disk *disk, enum sim_file_kind kind, uint64_t number,
                              uint64_t term)
{
    struct sim_file *file;
    if (disk->n_files == disk->cap_files) {
        disk->cap_files = disk->cap_files == 0 ? 16 : 2 * disk->cap_files;
        disk->files = lq_realloc(disk->files, disk->cap_files, sizeof *disk->files);
    }
    file = &disk->files[disk->n_files++];
    *file = (struct sim_file){.kind = kind, .number = number, .term = term};
    return file;
}

void sim_disk_remove(struct sim_disk *disk, struct sim_file *file)
{
    if (file != NULL) {
        lq_free(file->bytes);
        *file = disk->files[--disk->n_files];
    }
}

void sim_file_resize(struct sim_file *file, size_t len)
{
    if (len > file->cap) {
        file->cap = len > 2 * file->cap ? len : 2 * file->cap;
        file->bytes = lq_realloc(file->bytes, file->cap, 1);
    }
    if (len > file->len) {
        memset(file->bytes + file->len, 0, len - file->len);
    }
    file->len = len;
}

void sim_disk_wipe(struct sim_disk *disk)
{
    while (disk->n_files > 0) {
        sim_disk_remove(disk, &disk->files[disk->n_files - 1]);
    }
}

bool sim_disk_flip(struct sim_disk *disk)
{
    struct sim_file *file;
    size_t at;
    if (disk->n_files == 0) {
        return false;
    }
    file = &disk->files[sim_between(disk->node->sim, 0, disk->n_files - 1)];
    if ((file->kind != SIM_FILE_SEGMENT && file->kind != SIM_FILE_SNAPSHOT) || file->len == 0) {
        return false;
    }
    at = (size_t)sim_between(disk->node->sim, 0, file->len - 1);
    file->bytes[at] ^= (uint8_t)(1U << sim_between(disk->node->sim, 0, 7));
    return true;
}

static void remove_temporary(struct sim_disk *disk)
{
    for (size_t i = disk->n_files; i-- > 0;) {
        if (disk->files[i].kind == SIM_FILE_SPARE || disk->files[i].kind == SIM_FILE_PART) {
            sim_disk_remove(disk, &disk->files[i]);
        }
    }
}

/* The file of that kind whose (number, term) is the next above (`*number`, `*term`), or below. */
static const struct sim_file *next_file(const struct sim_disk *disk, enum sim_file_kind kind,
                                        const struct sim_file *after, bool is_descending)
{
    const struct sim_file *best = NULL;
    for (size_t i = 0; i < disk->n_files; i++) {
        const struct sim_file *file = &disk->files[i];
        const struct sim_file *low = is_descending ? file : after;
        const struct sim_file *high = is_descending ? after : file;
        bool is_beyond = after == NULL || low->number < high->number ||
                         (low->number == high->number && low->term < high->term);
        bool is_better =
            best == NULL ||
            ((file->number < best->number ||
              (file->number == best->number && file->term < best->term)) != is_descending);
        if (file->kind == kind && is_beyond && is_better) {
            best = file;
        }
    }
    return best;
}

struct lq_recovery *sim_disk_recover(struct sim_disk *disk, const uint8_t secret[16],
                                     enum lq_recovery_verdict *ret_verdict)
{
    struct lq_recovery *recovery =
        lq_recovery_new(disk->node->sim->replica.cluster, disk->node->id, secret);
    const struct sim_file *file = NULL;
    remove_temporary(disk);
    while ((file = next_file(disk, SIM_FILE_SNAPSHOT, file, true)) != NULL) {
        if (lq_recovery_snapshot(recovery, file->bytes, file->len)) {
            break;
        }
        sim_trace(disk->node->sim, "%u   snapshot %" PRIu64 " is not good", disk->node->id,
                  file->number);
    }
    file = NULL;
    while ((file = next_file(disk, SIM_FILE_SEGMENT, file, false)) != NULL) {
        lq_recovery_segment(recovery, file->number, file->bytes, file->len);
    }
    *ret_verdict = lq_recovery_end(recovery);
    return recovery;
}
