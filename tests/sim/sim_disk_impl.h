/* What the two parts of a disk share: its files. */
#ifndef SIM_DISK_IMPL_H
#define SIM_DISK_IMPL_H

#include "sim_disk.h"

/* The file, or NULL. Pointers to files are good until one is added or removed. */
struct sim_file *sim_disk_find(struct sim_disk *disk, enum sim_file_kind kind, uint64_t number,
                               uint64_t term);
struct sim_file *sim_disk_find_part(struct sim_disk *disk, const struct lq_snapshot_name *name);

/* A new file, without bytes. */
struct sim_file *sim_disk_add(struct sim_disk *disk, enum sim_file_kind kind, uint64_t number,
                              uint64_t term);

/* NULL is fine. */
void sim_disk_remove(struct sim_disk *disk, struct sim_file *file);

/* What is added is zero. */
void sim_file_resize(struct sim_file *file, size_t len);

#endif
