/* store_walk.c: the names that a store gives, and lists of the files that have such names.
 *
 * The directory may be a folder of the user's with files of its own: whatever has another name, or
 * is a symbolic link where a folder is expected, is left alone by everything that reads, moves,
 * counts or removes. */
#include "cache/store_internal.h"

#include "base/oserror.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define HEX "0123456789abcdef"
enum {
    FAN_DIGITS = 2,     /* "kernel/ab" */
    ENTRY_DIGITS = 62,  /* "kernel/ab/cdef...", and with the two all of a key */
    RANDOM_DIGITS = 16, /* hn_store_random_name */
    KEY_DIGITS = 64,
    SUFFIX_MAX = 4, /* ".cpp" */
};

const char *hn_store_area_name(int area) {
    static const char *const names[HN_AREA_COUNT] = {[HN_AREA_TEMP] = "tmp",
                                                     [HN_AREA_QUARANTINE] = "quarantine",
                                                     [HN_AREA_FAILED] = "failed",
                                                     [HN_AREA_LEASE] = "lease"};
    return area < HN_STORE_NS_COUNT ? hn_store_ns_name((hn_store_ns)area) : names[area];
}

/* ---- names ---- */

static bool is_hex(const char *name, size_t digits) {
    return strspn(name, HEX) == digits && !name[digits];
}

/* KEY.c, .cc, .cu: what hn_store_put_failed_source writes. */
static bool is_source_name(const char *name) {
    if (strspn(name, HEX) != KEY_DIGITS || name[KEY_DIGITS] != '.') return false;
    const char *suffix = name + KEY_DIGITS + 1;
    size_t len = strspn(suffix, "abcdefghijklmnopqrstuvwxyz");
    return len >= 1 && len < SUFFIX_MAX && !suffix[len];
}

/* NAMESPACE-KEY. */
static bool is_lease_name(const char *name) {
    for (int ns = 0; ns < HN_STORE_NS_COUNT; ns++) {
        const char *word = hn_store_ns_name((hn_store_ns)ns);
        size_t len = strlen(word);
        if (strncmp(name, word, len) == 0 && name[len] == '-')
            return is_hex(name + len + 1, KEY_DIGITS);
    }
    return false;
}

/* Whether a file of this name in the area is one that a store wrote. Of a namespace: a file in one
 * of its folders. */
static bool is_own_name(int area, const char *name) {
    if (area < HN_STORE_NS_COUNT) return is_hex(name, ENTRY_DIGITS);
    if (area == HN_AREA_FAILED) return is_source_name(name);
    if (area == HN_AREA_LEASE) return is_lease_name(name);
    return is_hex(name, RANDOM_DIGITS);
}

static int area_of(const char *name) {
    int area = 0;
    while (area < HN_AREA_COUNT && strcmp(name, hn_store_area_name(area)) != 0) area++;
    return area;
}

/* ---- walking ---- */

typedef struct walk {
    const hn_store *store;
    hn_walk_list *list; /* NULL: nothing is listed */
    /* HN_STORE_NAME_BYTES: the first name that is not a store's; NULL: they are passed over */
    char *foreign;
} walk;

static hn_status add_file(hn_walk_list *list, const char *name, const struct stat *info, int area) {
    if (list->count == list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 256;
        hn_walk_file *files = realloc(list->files, cap * sizeof(*files));
        if (!files) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to list the cache");
        list->files = files;
        list->cap = cap;
    }
    hn_walk_file *file = &list->files[list->count++];
    snprintf(file->name, sizeof(file->name), "%s", name);
    file->used_ns = (int64_t)info->st_mtim.tv_sec * 1000000000 + info->st_mtim.tv_nsec;
    uint64_t on_disk = (uint64_t)info->st_blocks * 512, size = (uint64_t)info->st_size;
    file->bytes = on_disk > size ? on_disk : size; /* some file systems count blocks late */
    file->area = area;
    return NULL;
}

/* A network file system keeps a removed file that is still open under such a name. */
static bool is_removed(const char *name) { return strncmp(name, ".nfs", 4) == 0 && name[4]; }

static void note_foreign(const walk *w, const char *path, const char *name) {
    if (!w->foreign || is_removed(name)) return;
    snprintf(w->foreign, HN_STORE_NAME_BYTES, "%s%s%.64s", path, *path ? "/" : "", name);
}

typedef hn_status (*visit_fn)(const walk *w, int dir_fd, const char *path, const char *name,
                              int area);

/* Calls `visit` for every name in the folder `path` below the directory. A folder that is gone is
 * no error: other processes change the directory meanwhile. One that is a symbolic link or no
 * folder at all is not the store's. */
static hn_status each_name(const walk *w, int parent_fd, const char *path, const char *last,
                           int area, visit_fn visit) {
    int fd = openat(parent_fd, last, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) return NULL;
        return HN_OS_ERROR(errno, "cannot list '%s/%s'", w->store->dir, path);
    }
    DIR *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to list the cache");
    }
    hn_status status = NULL;
    for (struct dirent *entry; !status && (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (w->foreign && *w->foreign) break;
        status = visit(w, fd, path, entry->d_name, area);
    }
    closedir(dir);
    return status;
}

/* A file of an area. A symbolic link of such a name is listed as itself; a folder was made by
 * somebody else. */
static hn_status visit_file(const walk *w, int dir_fd, const char *path, const char *name,
                            int area) {
    char below[HN_STORE_NAME_BYTES];
    struct stat info;
    if (!is_own_name(area, name)) {
        note_foreign(w, path, name);
        return NULL;
    }
    if (fstatat(dir_fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0) return NULL;
    if (S_ISDIR(info.st_mode) || (w->foreign && !S_ISREG(info.st_mode))) {
        note_foreign(w, path, name);
        return NULL;
    }
    snprintf(below, sizeof(below), "%s/%s", path, name);
    return w->list ? add_file(w->list, below, &info, area) : NULL;
}

static bool is_folder(int dir_fd, const char *name) {
    struct stat info;
    return fstatat(dir_fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0 || S_ISDIR(info.st_mode);
}

/* "ab" in a namespace. */
static hn_status visit_fan(const walk *w, int dir_fd, const char *path, const char *name,
                           int area) {
    char below[HN_STORE_NAME_BYTES];
    if (!is_hex(name, FAN_DIGITS) || !is_folder(dir_fd, name)) {
        note_foreign(w, path, name);
        return NULL;
    }
    snprintf(below, sizeof(below), "%s/%s", path, name);
    return each_name(w, dir_fd, below, name, area, visit_file);
}

static hn_status walk_area(const walk *w, int area) {
    const char *name = hn_store_area_name(area);
    return each_name(w, w->store->dir_fd, name, name, area,
                     area < HN_STORE_NS_COUNT ? visit_fan : visit_file);
}

static hn_status keep_or_free(hn_walk_list *list, hn_status status) {
    if (status) {
        free(list->files);
        *list = (hn_walk_list){0};
    }
    return status;
}

hn_status hn_store_walk_area(const hn_store *store, int area, hn_walk_list *out_list) {
    *out_list = (hn_walk_list){0};
    return keep_or_free(out_list, walk_area(&(walk){.store = store, .list = out_list}, area));
}

hn_status hn_store_walk(const hn_store *store, hn_walk_list *out_list) {
    hn_status status = NULL;
    *out_list = (hn_walk_list){0};
    for (int area = 0; !status && area < HN_AREA_COUNT; area++)
        status = walk_area(&(walk){.store = store, .list = out_list}, area);
    return keep_or_free(out_list, status);
}

/* ---- what is not a store's ---- */

/* The files beside the areas, by name and size. The marker is judged by what it says. */
static bool is_own_top_file(int dir_fd, const char *name) {
    struct stat info;
    if (fstatat(dir_fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0) return true;
    if (!S_ISREG(info.st_mode)) return false;
    if (strcmp(name, "usage") == 0) return info.st_size == 0 || info.st_size == sizeof(int64_t);
    return strcmp(name, HN_STORE_MARKER) == 0 ||
           (strcmp(name, "gc.lock") == 0 && info.st_size == 0);
}

static hn_status visit_top(const walk *w, int dir_fd, const char *path, const char *name,
                           int area) {
    (void)area;
    int found = area_of(name);
    if (found < HN_AREA_COUNT && is_folder(dir_fd, name)) return walk_area(w, found);
    /* a file system's own, where the cache has one for itself */
    if (strcmp(name, "lost+found") == 0) return NULL;
    if (found < HN_AREA_COUNT || !is_own_top_file(dir_fd, name)) note_foreign(w, path, name);
    return NULL;
}

hn_status hn_store_find_foreign(const hn_store *store, char out_name[HN_STORE_NAME_BYTES]) {
    out_name[0] = 0;
    return each_name(&(walk){.store = store, .foreign = out_name}, store->dir_fd, "", ".", 0,
                     visit_top);
}
