/* Which directory the layer watches, and what a path or descriptor means. The kernel itself is
 * asked
 * (/proc/self/fd), so links and ".." on the way can't lead around the layer. */
#include "faults.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KNOWN_MAX 512 /* files under the directory that were open in this process */

typedef long raw_function(long number, ...);

static struct {
    raw_function *raw;
    char dir[PATH_MAX]; /* "": the layer does nothing */
    int dir_fd;
    int state_fd;
} here = {.dir_fd = -1, .state_fd = -1};

static struct lq_faults_place known[KNOWN_MAX];
static size_t known_count;
static pthread_once_t once = PTHREAD_ONCE_INIT;

void lq_faults_refuse(const char *format, ...)
{
    char text[1024] = "lqfaults: ";
    size_t at = strlen(text);
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text + at, sizeof text - at - 1, format, list);
    va_end(list);
    at = strlen(text);
    text[at++] = '\n';
    (void)lq_faults_raw(SYS_write, STDERR_FILENO, text, at);
    abort();
}

/* A directory that does not exist yet is found by its parent. */
static void find_dir(const char *name)
{
    char parent[PATH_MAX];
    if (realpath(name, here.dir) != NULL) {
        return;
    }
    here.dir[0] = '\0';
    const char *base = strrchr(name, '/');
    size_t len = base == NULL ? 0 : (size_t)(base - name);
    (void)snprintf(parent, sizeof parent, "%.*s", (int)len, name);
    char full[PATH_MAX];
    if (base == NULL || base[1] == '\0' || realpath(len == 0 ? "/" : parent, full) == NULL) {
        lq_faults_refuse("LQ_FAULTS_DIR=%s: no such directory, nor its parent", name);
    }
    if (snprintf(here.dir, sizeof here.dir, "%s%s", full, base) >= (int)sizeof here.dir) {
        lq_faults_refuse("LQ_FAULTS_DIR=%s: too long", name);
    }
}

static void begin(void)
{
    void *found = dlsym(RTLD_NEXT, "syscall");
    memcpy(&here.raw, &found, sizeof found);
    const char *dir = getenv("LQ_FAULTS_DIR");
    const char *state = getenv("LQ_FAULTS_STATE");
    if (dir == NULL || dir[0] == '\0') {
        return;
    }
    if (state == NULL) {
        lq_faults_refuse("LQ_FAULTS_DIR without LQ_FAULTS_STATE");
    }
    here.state_fd = (int)here.raw(SYS_openat, AT_FDCWD, state, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (here.state_fd < 0) {
        lq_faults_refuse("LQ_FAULTS_STATE=%s: %s", state, strerror(errno));
    }
    find_dir(dir);
}

long lq_faults_raw(long number, ...)
{
    long a[6];
    va_list list;
    if (here.raw == NULL) { /* also while begin() runs and has something to say */
        void *found = dlsym(RTLD_NEXT, "syscall");
        memcpy(&here.raw, &found, sizeof found);
    }
    va_start(list, number);
    for (int i = 0; i < 6; i++) {
        a[i] = va_arg(list, long);
    }
    va_end(list);
    return here.raw(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

bool lq_faults_active(void)
{
    (void)pthread_once(&once, begin);
    return here.dir[0] != '\0';
}

int lq_faults_state_fd(void)
{
    return here.state_fd;
}

int lq_faults_dir_fd(void)
{
    if (here.dir_fd < 0) {
        here.dir_fd =
            (int)lq_faults_raw(SYS_openat, AT_FDCWD, here.dir, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
        if (here.dir_fd < 0) {
            lq_faults_refuse("%s: %s", here.dir, strerror(errno));
        }
    }
    return here.dir_fd;
}

/* Takes the directory off a full path; false when it is outside. */
static bool relate(const char *full, char ret_path[LQ_FAULTS_PATH])
{
    static const char gone[] = " (deleted)";
    size_t len = strlen(here.dir);
    if (strncmp(full, here.dir, len) != 0 || (full[len] != '/' && full[len] != '\0')) {
        return false;
    }
    const char *rest = full[len] == '\0' ? "." : full + len + 1;
    size_t rest_len = strlen(rest);
    if (rest_len > strlen(gone) && strcmp(rest + rest_len - strlen(gone), gone) == 0) {
        rest_len -= strlen(gone);
    }
    if (rest_len >= LQ_FAULTS_PATH) {
        lq_faults_refuse("%s: too long a name", full);
    }
    memcpy(ret_path, rest, rest_len);
    ret_path[rest_len] = '\0';
    return true;
}

static bool path_of(int fd, char *ret_full, size_t size)
{
    char link[64];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, ret_full, size - 1);
    ret_full[len < 0 ? 0 : len] = '\0';
    return len > 0;
}

static struct lq_faults_place *find(uint64_t ino)
{
    for (size_t i = 0; i < known_count; i++) {
        if (known[i].ino == ino) {
            return &known[i];
        }
    }
    return NULL;
}

bool lq_faults_is_inside(int fd, struct lq_faults_place *ret_place)
{
    struct stat st;
    char full[PATH_MAX];
    if (!lq_faults_active() || fstat(fd, &st) != 0 ||
        !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) || !path_of(fd, full, sizeof full) ||
        !relate(full, ret_place->path)) {
        return false;
    }
    ret_place->ino = st.st_ino;
    ret_place->reader = -1;
    return true;
}

static int open_path(int at, const char *path, int flags)
{
    int fd = (int)lq_faults_raw(SYS_openat, at, path, O_PATH | O_CLOEXEC | flags, 0);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
        lq_faults_refuse("%s: no descriptor left to see what it is", path);
    }
    return fd;
}

/* Of a path that does not exist: its parent, if that exists, and the last part behind it. */
static bool resolve_parent(int at, const char *path, char *ret_full)
{
    char parent[PATH_MAX];
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') {
        end--;
    }
    size_t base = end;
    while (base > 0 && path[base - 1] != '/') {
        base--;
    }
    if (base == end || end >= sizeof parent) {
        return false;
    }
    (void)snprintf(parent, sizeof parent, "%.*s", (int)base, path);
    int fd = open_path(at, base == 0 ? "." : parent, 0);
    if (fd < 0) {
        return false;
    }
    bool is_good = path_of(fd, ret_full, PATH_MAX - NAME_MAX - 2);
    (void)lq_faults_raw(SYS_close, fd);
    if (is_good) {
        size_t len = strlen(ret_full);
        int part = (int)(end - base > NAME_MAX ? NAME_MAX : end - base);
        (void)snprintf(ret_full + len, PATH_MAX - len, "/%.*s", part, path + base);
    }
    return is_good;
}

bool lq_faults_resolve(int at, const char *path, bool follow, struct lq_faults_place *ret_place)
{
    char full[PATH_MAX];
    if (!lq_faults_active() || path == NULL || path[0] == '\0') {
        return false;
    }
    int saved = errno;
    int fd = open_path(at, path, follow ? 0 : O_NOFOLLOW);
    struct stat st = {0};
    bool is_inside;
    if (fd >= 0) {
        is_inside = path_of(fd, full, sizeof full) && relate(full, ret_place->path);
        (void)fstat(fd, &st);
        (void)lq_faults_raw(SYS_close, fd);
    } else {
        is_inside = resolve_parent(at, path, full) && relate(full, ret_place->path);
    }
    if (is_inside &&
        (S_ISLNK(st.st_mode) || (fd < 0 && fstatat(at, path, &st, AT_SYMLINK_NOFOLLOW) == 0))) {
        lq_faults_refuse("%s: symbolic links are not followed by the fault layer", full);
    }
    ret_place->ino = fd >= 0 ? st.st_ino : 0;
    ret_place->reader = -1;
    errno = saved;
    return is_inside;
}

void lq_faults_know(int fd, struct lq_faults_place *place)
{
    struct lq_faults_place *entry = find(place->ino);
    if (entry == NULL) {
        char link[64];
        if (known_count == KNOWN_MAX) {
            lq_faults_refuse("more than %d files", KNOWN_MAX);
        }
        (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        place->reader = (int)lq_faults_raw(SYS_openat, AT_FDCWD, link, O_RDONLY | O_CLOEXEC, 0);
        if (place->reader < 0) {
            lq_faults_refuse("%s can't be read: %s", place->path, strerror(errno));
        }
        entry = &known[known_count++];
        *entry = *place;
    }
    place->reader = entry->reader;
}

void lq_faults_gone(uint64_t ino)
{
    struct lq_faults_place *entry = find(ino);
    if (entry != NULL) {
        (void)lq_faults_raw(SYS_close, entry->reader);
        *entry = known[--known_count];
    }
}
