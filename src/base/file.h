/* file.h: reading by map, writing atomically, directories. Errors carry the path and errno's
 * text. */
#ifndef HN_BASE_FILE_H
#define HN_BASE_FILE_H

#include "base/str.h"
#include "henry/status.h"

#include <stddef.h>
#include <stdint.h>

/* A read-only private map of a whole file. A zero-byte file has data != NULL and size 0. The file
 * stays open, so that parts which are read once can be read without pages of the map. */
typedef struct hn_file_map {
    const uint8_t *data;
    size_t size_bytes;
    void *base; /* what munmap wants; NULL for an empty file */
    int fd;     /* of the file; of no meaning with data == NULL */
} hn_file_map;

/* Errors: not-found, io, invalid-argument when it is not a regular file. */
hn_status hn_file_map_init(hn_file_map *map, const char *path) HN_MUST_USE;
void hn_file_map_deinit(hn_file_map *map);

/* Whole file appended to `out`. Errors: not-found, io. */
hn_status hn_file_read(const char *path, hn_strbuf *out) HN_MUST_USE;

/* Writes a temporary sibling, then renames: a reader sees the old file or the new one. `sync` adds
 * fdatasync before and a directory fsync after the rename. On failure nothing is left behind. The
 * mode follows the umask; a symbolic link is replaced, a device or directory refused
 * (invalid-argument). */
hn_status hn_file_write_atomic(const char *path, const void *bytes, size_t len,
                               bool sync) HN_MUST_USE;

/* mkdir -p with mode 0700 for new directories. */
hn_status hn_dir_create(const char *path) HN_MUST_USE;
/* The same for what a user asked for: modes follow the umask, as those of files do. */
hn_status hn_dir_create_public(const char *path) HN_MUST_USE;
/* rm -r; missing is ok. Never follows symbolic links. */
hn_status hn_dir_remove(const char *path) HN_MUST_USE;

/* Where temporary files go: $TMPDIR, if it is absolute and a shell would take it as it is (some
 * tools give paths to one), else /tmp. Borrowed from the environment. */
const char *hn_dir_temp_root(void);
/* A fresh private directory under hn_dir_temp_root(). `out_path` (PATH_MAX bytes) owned by the
 * caller. */
hn_status hn_dir_temp(char *out_path, size_t out_bytes) HN_MUST_USE;

bool hn_file_exists(const char *path);

#endif
