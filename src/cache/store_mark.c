/* store_mark.c: the marker that tells a cache from any other folder.
 *
 * The marker is a file CACHEDIR.TAG (https://bford.info/cachedir/), by which programs that make
 * backups know a cache, with the version of the layout in a line of its own. A folder without one
 * is taken over only when it is empty or holds nothing but what a store writes: caches of before
 * had no marker. Any number of processes may do that at once: what each of them writes is of the
 * store's form for the others, and the marker appears whole and once. */
#include "cache/store_internal.h"

#include "base/oserror.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define SIGNATURE   "Signature: 8a477f597d28d172789f06886806bc55"
#define LAYOUT_LINE "\n# henry cache layout: "
enum { LAYOUT_VERSION = 1, MARKER_BYTES = 1024 };

typedef enum marker { MARKER_OURS, MARKER_NONE, MARKER_EMPTY, MARKER_NEWER, MARKER_FOREIGN } marker;

static marker judge(const char *text) {
    if (!*text) return MARKER_EMPTY; /* power was lost before its bytes were on the disk */
    const char *line = strstr(text, LAYOUT_LINE);
    if (strncmp(text, SIGNATURE, strlen(SIGNATURE)) != 0 || !line) return MARKER_FOREIGN;
    char *end;
    long version = strtol(line + strlen(LAYOUT_LINE), &end, 10);
    if (*end != '\n' || version < 1) return MARKER_FOREIGN;
    return version > LAYOUT_VERSION ? MARKER_NEWER : MARKER_OURS;
}

/* Errors: io, when it cannot be told what the marker says. */
static hn_status read_marker(const hn_store *store, marker *out) {
    char text[MARKER_BYTES] = "";
    struct stat info;
    int fd = openat(store->dir_fd, HN_STORE_MARKER,
                    O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    *out = fd < 0 && errno == ENOENT ? MARKER_NONE : MARKER_FOREIGN;
    /* a symbolic link is somebody else's */
    if (fd < 0 && (errno == ENOENT || errno == ELOOP)) return NULL;
    bool is_file = fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
    ssize_t len = is_file ? pread(fd, text, sizeof(text) - 1, 0) : 0;
    int err = errno;
    if (fd >= 0) close(fd);
    if (fd < 0 || len < 0)
        return HN_OS_ERROR(err, "cannot read '%s/%s'", store->dir, HN_STORE_MARKER);
    *out = is_file ? judge(text) : MARKER_FOREIGN;
    return NULL;
}

static const char marker_format[] =
    SIGNATURE "\n"
              "# This folder is a cache of henry. Everything in it can be made again.\n"
              "# What this file is for: https://bford.info/cachedir/" LAYOUT_LINE "%d\n";

static void write_marker(const hn_store *store) {
    char text[MARKER_BYTES];
    int len = snprintf(text, sizeof(text), marker_format, LAYOUT_VERSION);
    (void)hn_store_publish_new(store, HN_STORE_MARKER, text, (size_t)len);
}

static hn_status refuse(const hn_store *store, const char *what) {
    return HN_ERROR(
        HN_INVALID_ARGUMENT,
        "'%s' is no cache: it holds '%s', which henry did not write; name an empty or a new folder",
        store->dir, what);
}

/* Takes over a folder without a marker, and returns the marker that it has then: another process
 * may have written one, and there is none on a full or a read-only disk, where the next process
 * tries again. */
static hn_status adopt(const hn_store *store, marker *found) {
    char foreign[HN_STORE_NAME_BYTES];
    HN_TRY(hn_store_find_foreign(store, foreign));
    if (*foreign) return refuse(store, foreign);
    if (!store->is_writable) return NULL;
    if (*found == MARKER_EMPTY) unlinkat(store->dir_fd, HN_STORE_MARKER, 0);
    write_marker(store);
    return read_marker(store, found);
}

/* A link instead of one of the store's folders leads to somebody else's files. */
static hn_status check_folders(const hn_store *store) {
    for (int area = 0; area < HN_AREA_COUNT; area++) {
        struct stat info;
        const char *name = hn_store_area_name(area);
        if (fstatat(store->dir_fd, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(info.st_mode))
            return HN_ERROR(HN_INVALID_ARGUMENT,
                            "'%s/%s' is not a folder; remove it, or name another cache directory",
                            store->dir, name);
    }
    return NULL;
}

hn_status hn_store_mark_check(hn_store *store) {
    marker found;
    HN_TRY(read_marker(store, &found));
    if (found == MARKER_NONE || found == MARKER_EMPTY) HN_TRY(adopt(store, &found));
    if (found == MARKER_FOREIGN) return refuse(store, HN_STORE_MARKER);
    if (found == MARKER_NEWER)
        return HN_ERROR(HN_INCOMPATIBLE,
                        "the cache '%s' was made by a newer version of henry; name another folder",
                        store->dir);
    return check_folders(store);
}
