/* scratch.c: see scratch.h. The pool that gave a worker its directory removes it; when the whole
 * program is killed the worker does; when both are, the next program of the user finds it by its
 * name. */
#include "service/scratch.h"

#include "base/dirents.h"
#include "base/file.h"
#include "base/log.h"
#include "base/trace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PREFIX "henry-worker-"

enum {
    DIGITS = 16,
    ENTRIES_BYTES = 2048, /* of a directory at once, on the stack of a signal handler */
    DEPTH_MAX = 16,
    AGAIN_NS = 500000,
    /* a sweep is done while the first worker comes up: it must not take longer */
    SWEEP_LOOKS = 20000,
    SWEEP_MOST = 64,
};

void hn_scratch_name(char out[PATH_MAX]) {
    uint64_t number = (uint64_t)hn_now_ns();
    if (getrandom(&number, sizeof(number), GRND_NONBLOCK) < 0) number ^= (uint64_t)getpid() << 32;
    int len = snprintf(out, PATH_MAX, "%s/" PREFIX "%016llx", hn_dir_temp_root(),
                       (unsigned long long)number);
    if (len >= PATH_MAX) out[0] = 0;
}

/* False while something is left. */
static bool remove_dir(int parent_fd, const char *name, int depth) {
    _Alignas(8) char bytes[ENTRIES_BYTES];
    int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT;
    for (long got; (got = syscall(SYS_getdents64, fd, bytes, sizeof(bytes))) > 0;) {
        for (long at = 0; at < got;) {
            const hn_dirent *item = (const hn_dirent *)(bytes + at);
            at += item->len;
            if (strcmp(item->name, ".") == 0 || strcmp(item->name, "..") == 0) continue;
            if (unlinkat(fd, item->name, 0) != 0 && errno != ENOENT && depth < DEPTH_MAX)
                remove_dir(fd, item->name, depth + 1);
        }
    }
    close(fd);
    return unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT;
}

void hn_scratch_remove(const char *path, int32_t limit_ms) {
    int saved = errno;
    int64_t until_ns = hn_now_ns() + limit_ms * 1000000LL;
    while (!remove_dir(AT_FDCWD, path, 0) && hn_now_ns() < until_ns)
        nanosleep(&(struct timespec){.tv_nsec = AGAIN_NS}, NULL);
    errno = saved;
}

static bool is_name(const char *name) {
    size_t prefix = strlen(PREFIX);
    return strncmp(name, PREFIX, prefix) == 0 && strlen(name) == prefix + DIGITS &&
           strspn(name + prefix, "0123456789abcdef") == DIGITS;
}

/* Of this user, whom alone it was made for, and old. */
static bool is_left(int dir_fd, const char *name, int64_t before_s) {
    struct stat info;
    return is_name(name) && fstatat(dir_fd, name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISDIR(info.st_mode) && info.st_uid == geteuid() && (info.st_mode & 077) == 0 &&
           info.st_mtime < before_s;
}

void hn_scratch_sweep(int64_t age_s) {
    char path[PATH_MAX];
    int looks = 0, removed = 0;
    DIR *dir = opendir(hn_dir_temp_root());
    if (!dir) return;
    int64_t before_s = (int64_t)time(NULL) - age_s;
    for (const struct dirent *entry;
         removed < SWEEP_MOST && looks++ < SWEEP_LOOKS && (entry = readdir(dir));) {
        if (!is_left(dirfd(dir), entry->d_name, before_s)) continue;
        if (snprintf(path, sizeof(path), "%s/%s", hn_dir_temp_root(), entry->d_name) >=
            (int)sizeof(path))
            continue;
        hn_status status = hn_dir_remove(path);
        if (status) hn_log("service", HN_LOG_DEBUG, "%s", hn_status_message(status));
        removed += !status;
        hn_status_free(status);
    }
    closedir(dir);
}
