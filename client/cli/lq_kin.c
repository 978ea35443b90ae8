/* One look at /proc gives who is whose child; from that all descendants follow. Between that look
 * and a signal a process may end and its number go to a stranger, so each is first pinned by a
 * pidfd, and looked at again: the same start time means the same process, and the pidfd stays with
 * it. */
#include "lq_kin.h"

#include "lq_mem.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

struct process {
    pid_t pid, parent, group;
    uint64_t started; /* clock ticks since boot */
    bool is_kin;
};

struct look {
    struct process *items;
    size_t n, cap;
};

/* Places in /proc/PID/stat, counted from the state behind the name (proc(5) has it third). */
enum { PARENT = 1, GROUP = 2, STARTED = 19, FIELDS };

/* Takes what stands behind the name: a letter, then numbers. */
static bool take_fields(const char *at, struct process *process)
{
    unsigned long long fields[FIELDS] = {0};
    char state = at[0] == ' ' ? at[1] : 'X';

    at += 2;
    for (int i = 1; i < FIELDS; i++) {
        char *end;
        fields[i] = strtoull(at, &end, 10); /* negative ones among them are of no interest */
        if (end == at) {
            return false;
        }
        at = end;
    }
    process->parent = (pid_t)fields[PARENT];
    process->group = (pid_t)fields[GROUP];
    process->started = fields[STARTED];
    /* Z may have threads that live on, and children; a real zombie feels no signal. */
    return state != 'X';
}

/* Reads /proc/PID/stat; false when there is no such process any more, or it is dead. */
static bool read_process(pid_t pid, struct process *ret_process)
{
    char path[32], text[512];
    const char *name_end;
    ssize_t n;
    int fd;

    (void)snprintf(path, sizeof path, "/proc/%d/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    n = read(fd, text, sizeof text - 1);
    (void)close(fd);
    text[n > 0 ? n : 0] = '\0';
    name_end = strrchr(text, ')'); /* the name before it may hold anything */
    *ret_process = (struct process){.pid = pid};
    return name_end != NULL && take_fields(name_end + 1, ret_process);
}

static void add(struct look *look, const struct process *process)
{
    if (look->n == look->cap) {
        look->cap = look->cap == 0 ? 256 : 2 * look->cap;
        look->items = lq_realloc(look->items, look->cap, sizeof *look->items);
    }
    look->items[look->n++] = *process;
}

static struct look look_at_all(void)
{
    struct look look = {0};
    struct dirent *entry;
    DIR *folder = opendir("/proc");

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        char *end;
        long pid = strtol(entry->d_name, &end, 10);
        struct process process;
        if (pid > 0 && *end == '\0' && read_process((pid_t)pid, &process)) {
            add(&look, &process);
        }
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
    return look;
}

static int by_pid(const void *a, const void *b)
{
    const struct process *left = a, *right = b;
    return (left->pid > right->pid) - (left->pid < right->pid);
}

static bool is_parent_kin(const struct look *look, const struct process *process, pid_t self)
{
    struct process key = {.pid = process->parent};
    const struct process *parent = bsearch(&key, look->items, look->n, sizeof *look->items, by_pid);

    return process->parent == self || (parent != NULL && parent->is_kin);
}

/* Children of kin are kin: once round for each generation. */
static void mark_kin(struct look *look)
{
    pid_t self = getpid();
    bool is_new = look->n > 0;

    if (is_new) {
        qsort(look->items, look->n, sizeof *look->items, by_pid);
    }
    while (is_new) {
        is_new = false;
        for (size_t i = 0; i < look->n; i++) {
            if (!look->items[i].is_kin && is_parent_kin(look, &look->items[i], self)) {
                look->items[i].is_kin = true;
                is_new = true;
            }
        }
    }
}

static void send_signal(const struct process *process, int number)
{
    int fd = pidfd_open(process->pid, 0);
    struct process now;

    if (fd < 0) {
        return;
    }
    if (read_process(process->pid, &now) && now.started == process->started) {
        (void)pidfd_send_signal(fd, number, NULL, 0);
    }
    (void)close(fd);
}

bool lq_kin_exist(void)
{
    struct look look = look_at_all();
    bool exist = false;

    mark_kin(&look);
    for (size_t i = 0; i < look.n; i++) {
        exist |= look.items[i].is_kin;
    }
    lq_free(look.items);
    return exist;
}

void lq_kin_signal(int number, pid_t but_group)
{
    struct look look = look_at_all();

    mark_kin(&look);
    for (size_t i = 0; i < look.n; i++) {
        if (look.items[i].is_kin && (but_group == 0 || look.items[i].group != but_group)) {
            send_signal(&look.items[i], number);
        }
    }
    lq_free(look.items);
}
