/* store_dir.c: finding, making and judging the directory of the store.
 *
 * Whoever can write to the directory can make the host load code. So the directory belongs to this
 * user (or to root, when it is read-only for us), nobody else may write to it, and nobody else may
 * rename or replace a directory on the way to it. */
#include "cache/store_internal.h"

#include "base/file.h"
#include "base/oserror.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { OPEN_ATTEMPTS = 4 };

static hn_status default_dir(char out[PATH_MAX]) {
    const char *dir = getenv("HENRY_CACHE_DIR"), *tail = "";
    if (!dir || !dir[0]) dir = getenv("XDG_CACHE_HOME"), tail = "/henry";
    /* The XDG rules say that a relative path there is to be ignored. */
    if (!dir || dir[0] != '/') {
        const char *own = getenv("HENRY_CACHE_DIR");
        if (own && own[0]) dir = own, tail = "";
        else dir = getenv("HOME"), tail = "/.cache/henry";
    }
    if (!dir || !dir[0])
        return HN_ERROR(HN_NOT_FOUND,
                        "no directory for the cache: HOME is not set; set HENRY_CACHE_DIR");
    if (snprintf(out, PATH_MAX, "%s%s", dir, tail) >= PATH_MAX)
        return HN_ERROR(HN_INVALID_ARGUMENT, "the path of the cache directory is too long");
    return NULL;
}

/* Nobody but us and root may swap `path` for something else. */
static hn_status check_ancestor(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0) return HN_OS_ERROR(errno, "cannot inspect '%s'", path);
    if (info.st_uid != 0 && info.st_uid != geteuid())
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "directory '%s' above the cache belongs to another user (%u)", path,
                        (unsigned)info.st_uid);
    /* Group-writable directories are common where each user has a group of their own;
     * other-writable ones are safe only when sticky, as /tmp is. */
    if ((info.st_mode & S_IWOTH) && !(info.st_mode & S_ISVTX))
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "directory '%s' above the cache is writable by everybody", path);
    return NULL;
}

static hn_status check_ancestors(const char *dir) {
    char path[PATH_MAX];
    memcpy(path, dir, strlen(dir) + 1);
    for (;;) {
        char *slash = strrchr(path, '/');
        if (!slash || (slash == path && !slash[1])) return NULL;
        slash[slash == path ? 1 : 0] = 0;
        HN_TRY(check_ancestor(path));
    }
}

static hn_status check_own(hn_store *store) {
    struct stat info;
    if (fstat(store->dir_fd, &info) != 0)
        return HN_OS_ERROR(errno, "cannot inspect '%s'", store->dir);
    if (info.st_uid != geteuid() && info.st_uid != 0)
        return HN_ERROR(HN_INVALID_ARGUMENT, "cache directory '%s' belongs to another user (%u)",
                        store->dir, (unsigned)info.st_uid);
    if (info.st_mode & (S_IWGRP | S_IWOTH))
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "others may write to cache directory '%s'; run chmod go-w on it",
                        store->dir);
    return NULL;
}

static bool is_network(long type) {
    static const unsigned long types[] = {
        0x6969,     /* NFS */
        0x517b,     /* SMB */
        0xff534d42, /* CIFS */
        0xfe534d42, /* SMB2 */
        0x01021997, /* 9P */
        0x65735546, /* FUSE: sshfs and its like cannot be told from the rest */
        0x00c36400, /* Ceph */
        0x0bd00bd0, /* Lustre */
        0x47504653, /* GPFS */
        0x5346414f, /* AFS */
    };
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (((unsigned long)type & 0xffffffff) == types[i]) return true;
    return false;
}

/* Makes the directory unless it is there, and opens it: one that exists is fine even where nothing
 * can be made. Again when somebody removes it in between. */
static hn_status open_dir(hn_store *store, const char *wanted) {
    for (int attempt = 1;; attempt++) {
        if (!hn_file_exists(wanted)) HN_TRY(hn_dir_create(wanted));
        bool is_resolved = realpath(wanted, store->dir) != NULL;
        if (is_resolved)
            store->dir_fd = open(store->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (store->dir_fd >= 0) return NULL;
        if (errno != ENOENT || attempt == OPEN_ATTEMPTS)
            return HN_OS_ERROR(errno, "cannot open cache directory '%s'", wanted);
    }
}

static hn_status open_checked(hn_store *store, const char *wanted, bool no_mapping) {
    HN_TRY(open_dir(store, wanted));
    HN_TRY(check_own(store));
    HN_TRY(check_ancestors(store->dir));
    struct statfs fs;
    store->is_mappable = !no_mapping && fstatfs(store->dir_fd, &fs) == 0 && !is_network(fs.f_type);
    store->is_writable = faccessat(store->dir_fd, ".", W_OK | X_OK, AT_EACCESS) == 0;
    return hn_store_mark_check(store);
}

hn_status hn_store_dir_open(hn_store *store, const hn_store_options *options) {
    char wanted[PATH_MAX];
    if (options->dir) {
        if (strlen(options->dir) >= PATH_MAX)
            return HN_ERROR(HN_INVALID_ARGUMENT, "the path of the cache directory is too long");
        memcpy(wanted, options->dir, strlen(options->dir) + 1);
    } else {
        HN_TRY(default_dir(wanted));
    }
    hn_status status = open_checked(store, wanted, options->no_mapping);
    if (status && store->dir_fd >= 0) {
        close(store->dir_fd);
        store->dir_fd = -1;
    }
    return status;
}
