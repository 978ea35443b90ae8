#include "lq_user.h"

#include "lq_listen.h"
#include "lq_log.h"

#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* As the data directory is made in server/disk. */
#define DIRECTORY_MODE 0700

/* ---- Who it is. */

/* A number that is an id; the last one means "none" to the system. */
static bool is_number(const char *text, unsigned *ret_id)
{
    unsigned long long id = 0;
    size_t len = strspn(text, "0123456789");
    if (len == 0 || len > 10 || text[len] != '\0') {
        return false;
    }
    id = strtoull(text, NULL, 10);
    *ret_id = (unsigned)id;
    return id < (uid_t)-1;
}

static bool find_group(const char *text, struct lq_user *user)
{
    unsigned id;
    const struct group *group = getgrnam(text);
    if (group != NULL) {
        user->gid = group->gr_gid;
        return true;
    }
    if (is_number(text, &id)) {
        user->gid = id;
        return true;
    }
    return false;
}

/* False: there is no such account, and with `has_group` no such number either. */
static bool find_account(const char *text, bool has_group, struct lq_user *user)
{
    unsigned id;
    const struct passwd *account = getpwnam(text);
    if (account == NULL && is_number(text, &id)) {
        account = getpwuid(id);
        if (account == NULL && has_group) {
            user->uid = id;
            return true;
        }
    }
    if (account == NULL) {
        return false;
    }
    user->uid = account->pw_uid;
    user->gid = account->pw_gid;
    (void)snprintf(user->name, sizeof user->name, "%s", account->pw_name);
    return true;
}

bool lq_user_find(const char *text, struct lq_user *ret_user, char *ret_why, size_t cap)
{
    char name[LQ_CONFIG_TEXT];
    char *group;
    *ret_user = (struct lq_user){0};
    (void)snprintf(name, sizeof name, "%s", text);
    group = strchr(name, ':');
    if (group != NULL) {
        *group++ = '\0';
    }
    if (!find_account(name, group != NULL, ret_user)) {
        (void)snprintf(ret_why, cap, "there is no user '%s' on this machine", name);
        return false;
    }
    if (group != NULL && !find_group(group, ret_user)) {
        (void)snprintf(ret_why, cap, "there is no group '%s' on this machine", group);
        return false;
    }
    if (ret_user->uid == 0) {
        (void)snprintf(ret_why, cap, "'%s' is root: name a user without rights, or none", name);
        return false;
    }
    return true;
}

/* ---- What only root can do. */

static bool complain(const char *msg, const char *what)
{
    lq_log(LQ_LOG_ERROR, msg, LQ_TEXT("what", what), LQ_TEXT("reason", strerror(errno)),
           LQ_TEXT("setting", "--user"));
    return false;
}

static bool is_empty(const char *path)
{
    DIR *directory = opendir(path);
    const struct dirent *entry;
    size_t n = 0;
    if (directory == NULL) {
        return false;
    }
    while ((entry = readdir(directory)) != NULL) {
        n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    }
    (void)closedir(directory);
    return n == 0;
}

/* A directory with something in it keeps its owner: whose files those are is for people to say. */
static bool hand_over_directory(const char *path, const struct lq_user *user)
{
    struct stat info;
    if (mkdir(path, DIRECTORY_MODE) != 0 && errno != EEXIST) {
        return complain("cannot make the data directory", path);
    }
    if (lstat(path, &info) != 0) {
        return complain("cannot look at the data directory", path);
    }
    if (S_ISDIR(info.st_mode) && info.st_uid == 0 && is_empty(path) &&
        lchown(path, user->uid, user->gid) != 0) {
        return complain("cannot hand the data directory over", path);
    }
    return true;
}

static bool prepare(const struct lq_config *config, const struct lq_user *user)
{
    const char *peer = config->peer_listen[0] != '\0' ? config->peer_listen : config->peer;
    if (!lq_listen_bind(config->listen, "--listen")) {
        return false;
    }
    if (config->node_id == 0) {
        return true;
    }
    return lq_listen_bind(peer, "--peer, or --peer-listen") &&
           (config->admin[0] == '\0' || lq_listen_bind(config->admin, "--admin")) &&
           hand_over_directory(config->data_dir, user);
}

/* ---- Becoming somebody else. */

/* Groups first: they can't be changed once root is gone. That drops all capabilities, too. */
static bool drop(const struct lq_user *user)
{
    bool is_done =
        user->name[0] != '\0' ? initgroups(user->name, user->gid) == 0 : setgroups(0, NULL) == 0;
    is_done = is_done && setresgid(user->gid, user->gid, user->gid) == 0 &&
              setresuid(user->uid, user->uid, user->uid) == 0;
    if (!is_done) {
        return complain("cannot become another user", "setuid");
    }
    if (setresuid((uid_t)-1, 0, (uid_t)-1) == 0 || getuid() != user->uid ||
        geteuid() != user->uid || getgid() != user->gid || getegid() != user->gid) {
        errno = EPERM;
        return complain("is still root", "setuid");
    }
    /* As if that user had started it: with core dumps where they are switched on. */
    (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    return true;
}

/* Whether the data directory can be used by who this is now: better said in words than later as an
 * error of one file. */
static bool can_use_directory(const struct lq_config *config)
{
    if (config->node_id != 0 && access(config->data_dir, R_OK | W_OK | X_OK) != 0) {
        return complain("this user cannot use the data directory; give it to it, with all files in "
                        "it (chown -R)",
                        config->data_dir);
    }
    return true;
}

static bool become(const struct lq_config *config)
{
    struct lq_user user;
    char why[LQ_CONFIG_ERROR];
    if (!lq_user_find(config->user, &user, why, sizeof why)) {
        lq_log(LQ_LOG_ERROR, "cannot become another user", LQ_TEXT("reason", why),
               LQ_TEXT("setting", "--user"));
        return false;
    }
    if (geteuid() != 0) {
        if (user.uid == geteuid()) {
            return true;
        }
        lq_log(LQ_LOG_ERROR, "only root can become another user: start it as root, or without",
               LQ_TEXT("user", config->user), LQ_TEXT("setting", "--user"));
        return false;
    }
    if (!prepare(config, &user) || !drop(&user) || !can_use_directory(config)) {
        return false;
    }
    lq_log(LQ_LOG_INFO, "runs without privileges", LQ_TEXT("user", config->user),
           LQ_NUMBER("uid", user.uid), LQ_NUMBER("gid", user.gid));
    return true;
}

bool lq_user_become(const struct lq_config *config)
{
    bool is_done = true;
    if (config->user[0] != '\0') {
        is_done = become(config);
    } else if (geteuid() == 0) {
        lq_log(LQ_LOG_INFO, "runs as root, which it needs not: --user NAME makes it run as NAME",
               LQ_NUMBER("uid", 0));
    }
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return is_done;
}
