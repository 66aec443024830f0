/* budget.c: how many cores all processes of a user compile on at once.
 *
 * A build that starts many programs, each with a service of its own, would have processes times cores compilers. The
 * bytes of the file "cores" in the cache directory stand for the cores of this process's affinity mask; who compiles
 * holds a lock on one. The locks belong to the open file (OFD locks), so the system gives them back when a process dies.
 * A service may always run one job without a lock, so that nobody waits for ever; what it runs besides needs one. Where
 * there is no directory, or a file system without locks, nobody counts. */
#include "service/core.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

static int core_count(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
}

static int open_file(hn_core *core) {
    char path[PATH_MAX];
    const char *dir = hn_store_dir(core->service->store);
    if (!dir[0] || snprintf(path, sizeof(path), "%s/cores", dir) >= (int)sizeof(path)) return -1;
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/* -1: nobody counts. */
static int file_of(hn_core *core) {
    pthread_mutex_lock(&core->lock);
    if (core->budget_fd == -1) {
        core->budget_fd = open_file(core);
        if (core->budget_fd < 0) core->budget_fd = -2;
    }
    int fd = core->budget_fd;
    pthread_mutex_unlock(&core->lock);
    return fd < 0 ? -1 : fd;
}

static int set_lock(int fd, int byte, short type) {
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return fcntl(fd, F_OFD_SETLK, &range) == 0 ? 0 : errno;
}

/* Locks of one open file never stand in each other's way: the service remembers itself which ones it has. */
int hn_budget_take(hn_core *core) {
    int fd = file_of(core), count = core_count();
    if (fd < 0 || count < 1 || count > HN_BUDGET_CORES) return HN_BUDGET_FREE;
    for (int i = 0; i < count; i++) {
        pthread_mutex_lock(&core->lock);
        bool is_mine = core->has_core[i];
        int err = is_mine ? EAGAIN : set_lock(fd, i, F_WRLCK);
        if (!err) core->has_core[i] = true;
        pthread_mutex_unlock(&core->lock);
        if (!err) return i;
        if (err != EAGAIN && err != EACCES) return HN_BUDGET_FREE;
    }
    return HN_BUDGET_NONE;
}

void hn_budget_give(hn_core *core, int token) {
    if (token < 0) return;
    pthread_mutex_lock(&core->lock);
    core->has_core[token] = false;
    set_lock(core->budget_fd, token, F_UNLCK);
    pthread_mutex_unlock(&core->lock);
}
