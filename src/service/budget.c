/* budget.c: how many cores all processes of a user compile on at once.
 *
 * A build that starts many programs, each with a service of its own, would have processes times
 * cores compilers. The bytes of one file of the user on this machine stand for the cores of this
 * process's affinity mask; who compiles holds a lock on one. The locks belong to the open file (OFD
 * locks), so the system gives them back when a process dies. The file has nothing to do with the
 * cache: programs with caches of their own, or with none, run on the same cores. A service may
 * always run one job without a lock, so that nobody waits for ever; what it runs besides needs one.
 * Where there is no such file, or a file system without locks, nobody counts. */
#include "service/core.h"

#include "base/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int core_count(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
}

static bool is_own_dir(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid();
}

/* Not below HOME, which several machines may share. A directory of another user, which sudo leaves
 * in the environment, is not for files of this one. */
static int name_file(char path[PATH_MAX]) {
    const char *given = getenv("HENRY_CORES_FILE"), *runtime = getenv("XDG_RUNTIME_DIR");
    if (given && given[0]) return snprintf(path, PATH_MAX, "%s", given);
    if (!runtime || runtime[0] != '/' || !is_own_dir(runtime))
        return snprintf(path, PATH_MAX, "/tmp/henry-cores-%u", (unsigned)geteuid());
    return snprintf(path, PATH_MAX, "%s/henry-cores", runtime);
}

/* Anybody may make files in /tmp: one that is not this user's is not used. */
static int open_file(void) {
    char path[PATH_MAX];
    struct stat info;
    if (name_file(path) >= PATH_MAX) return -1;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0) return -1;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid()) return fd;
    close(fd);
    return -1;
}

/* -1: nobody counts. */
static int file_of(hn_core *core) {
    hn_lock(&core->lock);
    if (core->budget_fd == -1) {
        core->budget_fd = open_file();
        if (core->budget_fd < 0) core->budget_fd = -2;
    }
    int fd = core->budget_fd;
    hn_unlock(&core->lock);
    return fd < 0 ? -1 : fd;
}

static int set_lock(int fd, int byte, short type) {
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return fcntl(fd, F_OFD_SETLK, &range) == 0 ? 0 : errno;
}

/* Locks of one open file never stand in each other's way: the service remembers itself which ones
 * it has. */
int hn_budget_take(hn_core *core) {
    int fd = file_of(core), count = core_count();
    if (fd < 0 || count < 1 || count > HN_BUDGET_CORES) return HN_BUDGET_FREE;
    for (int i = 0; i < count; i++) {
        hn_lock(&core->lock);
        bool is_mine = core->has_core[i];
        int err = is_mine ? EAGAIN : set_lock(fd, i, F_WRLCK);
        if (!err) core->has_core[i] = true;
        hn_unlock(&core->lock);
        if (!err) return i;
        if (err != EAGAIN && err != EACCES) return HN_BUDGET_FREE;
    }
    return HN_BUDGET_NONE;
}

void hn_budget_give(hn_core *core, int token) {
    if (token < 0) return;
    hn_lock(&core->lock);
    core->has_core[token] = false;
    set_lock(core->budget_fd, token, F_UNLCK);
    hn_unlock(&core->lock);
}
