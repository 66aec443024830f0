/* file.c: maps, atomic writes and directories. Every descriptor is close-on-exec, because compilers
 * are spawned from other threads at any time. */
#include "base/file.h"

#include "base/hash.h"
#include "base/oserror.h"
#include "base/trace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    READ_BYTES = 64 << 10,
    TEMP_NAME_TRIES = 100,
    REMOVE_DEPTH_LIMIT = 256, /* one descriptor a level */
};

static hn_status map_descriptor(hn_file_map *map, int fd, const char *path) {
    static const uint8_t empty[1];
    struct stat info;
    if (fstat(fd, &info) != 0) return HN_OS_ERROR(errno, "cannot stat '%s'", path);
    if (S_ISDIR(info.st_mode))
        return HN_ERROR(HN_INVALID_ARGUMENT, "cannot open '%s': it is a folder, not a file", path);
    if (!S_ISREG(info.st_mode))
        return HN_ERROR(HN_INVALID_ARGUMENT, "cannot open '%s': it is not a regular file", path);
    if (info.st_size == 0) {
        *map = (hn_file_map){.data = empty, .fd = fd};
        return NULL;
    }
    size_t bytes = (size_t)info.st_size;
    void *base = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (base == MAP_FAILED) return HN_OS_ERROR(errno, "cannot map '%s'", path);
    *map = (hn_file_map){.data = base, .size_bytes = bytes, .base = base, .fd = fd};
    return NULL;
}

hn_status hn_file_map_init(hn_file_map *map, const char *path) {
    *map = (hn_file_map){0};
    /* Non-blocking, so that a pipe is refused and not waited for. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return HN_OS_ERROR(errno, "cannot open '%s'", path);
    hn_status status = map_descriptor(map, fd, path);
    if (status) close(fd);
    return status;
}

void hn_file_map_deinit(hn_file_map *map) {
    if (map->base) munmap(map->base, map->size_bytes);
    if (map->data) close(map->fd);
    *map = (hn_file_map){0};
}

static hn_status read_all(int fd, const char *path, hn_strbuf *out) {
    for (;;) {
        char *end = hn_strbuf_reserve(out, READ_BYTES);
        if (!end) return hn_strbuf_status(out);
        ssize_t got = read(fd, end, READ_BYTES);
        if (got < 0 && errno == EINTR) continue;
        int err = errno;
        end[got > 0 ? got : 0] = '\0';
        if (got < 0) return HN_OS_ERROR(err, "cannot read '%s'", path);
        if (got == 0) return NULL;
        out->len += (size_t)got;
    }
}

hn_status hn_file_read(const char *path, hn_strbuf *out) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return HN_OS_ERROR(errno, "cannot open '%s'", path);
    size_t before = out->len;
    hn_status status = read_all(fd, path, out);
    close(fd);
    if (status && out->ptr) {
        out->len = before; /* nothing or the whole file */
        out->ptr[before] = '\0';
    }
    return status;
}

static hn_status write_all(int fd, const char *path, const char *bytes, size_t len) {
    while (len) {
        ssize_t wrote = write(fd, bytes, len);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return HN_OS_ERROR(errno, "cannot write '%s'", path);
        bytes += wrote;
        len -= (size_t)wrote;
    }
    return NULL;
}

/* The directory part of `path` with its slash; "" for a bare name. */
static hn_str dir_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return (hn_str){path, slash ? (size_t)(slash - path) + 1 : 0};
}

/* Creates a file with a fresh name next to `path`. Not mkostemp: that makes mode 0600 whatever the
 * umask says, and shipped files are for others to read. */
static hn_status temp_open(const char *path, hn_strbuf *temp_path, int *out_fd) {
    hn_str dir = dir_of(path);
    for (int i = 0; i < TEMP_NAME_TRIES; i++) {
        const int64_t seed[] = {hn_now_ns(), getpid(), gettid(), i};
        hn_strbuf_reset(temp_path);
        hn_strbuf_append(temp_path, dir.ptr, dir.len);
        hn_strbuf_printf(temp_path, ".henry-tmp-%016llx",
                         (unsigned long long)hn_hash64(seed, sizeof(seed), 0));
        HN_TRY(hn_strbuf_status(temp_path));
        *out_fd = open(temp_path->ptr, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (*out_fd >= 0) return NULL;
        if (errno != EEXIST && errno != EINTR) break;
    }
    return HN_OS_ERROR(errno, "cannot create a temporary file to write '%s'", path);
}

/* Writes, syncs and closes the temporary file `fd`; `path` is for messages. */
static hn_status temp_fill(int fd, const char *path, const void *bytes, size_t len, bool sync) {
    hn_status status = write_all(fd, path, bytes, len);
    if (!status && sync && fdatasync(fd) != 0)
        status = HN_OS_ERROR(errno, "cannot sync '%s'", path);
    /* close reports what a network file system found out late; after EINTR the descriptor is
     * gone. */
    if (close(fd) != 0 && errno != EINTR && !status)
        status = HN_OS_ERROR(errno, "cannot close '%s'", path);
    return status;
}

static hn_status dir_sync(const char *path) {
    hn_str dir = dir_of(path);
    hn_strbuf dir_path;
    hn_strbuf_init(&dir_path);
    hn_strbuf_append(&dir_path, dir.len ? dir.ptr : ".", dir.len ? dir.len : 1);
    hn_status status = hn_strbuf_status(&dir_path);
    if (!status) {
        int fd = open(dir_path.ptr, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        /* EINVAL: this file system has no directory sync. */
        if (fd < 0 || (fsync(fd) != 0 && errno != EINVAL))
            status = HN_OS_ERROR(errno, "cannot sync directory '%s'", dir_path.ptr);
        if (fd >= 0) close(fd);
    }
    hn_strbuf_deinit(&dir_path);
    return status;
}

hn_status hn_file_write_atomic(const char *path, const void *bytes, size_t len, bool sync) {
    struct stat info;
    if (!*path) return HN_ERROR(HN_INVALID_ARGUMENT, "cannot write to a file with an empty name");
    /* A rename would put a file in the place of /dev/null or /dev/stdout. */
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return HN_ERROR(HN_INVALID_ARGUMENT, "cannot replace '%s': it is not a regular file", path);
    hn_strbuf temp_path;
    hn_strbuf_init(&temp_path);
    int fd = -1;
    hn_status status = temp_open(path, &temp_path, &fd);
    if (!status) {
        status = temp_fill(fd, path, bytes, len, sync);
        if (!status && rename(temp_path.ptr, path) != 0)
            status = HN_OS_ERROR(errno, "cannot rename a temporary file to '%s'", path);
        if (status) unlink(temp_path.ptr);
        else if (sync) status = dir_sync(path);
    }
    hn_strbuf_deinit(&temp_path);
    return status;
}

static bool is_dir(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Makes one directory. An existing one counts, whatever mkdir says of a read-only parent. */
static hn_status dir_make(const char *path, mode_t mode) {
    if (mkdir(path, mode) == 0) return NULL;
    int err = errno;
    if (is_dir(path)) return NULL;
    if (err == EEXIST) err = ENOTDIR; /* a file of that name is in the way */
    return HN_OS_ERROR(err, "cannot create directory '%s'", path);
}

static hn_status dir_create(const char *path, mode_t mode) {
    if (is_dir(path)) return NULL;
    if (!*path)
        return HN_ERROR(HN_INVALID_ARGUMENT, "cannot create a directory with an empty name");
    char *part = strdup(path);
    if (!part) return HN_ERROR(HN_OUT_OF_MEMORY, "cannot copy the path '%s'", path);
    hn_status status = NULL;
    for (char *at = part + 1; *at && !status; at++) {
        if (*at != '/') continue;
        *at = '\0';
        status = dir_make(part, mode);
        *at = '/';
    }
    if (!status) status = dir_make(part, mode);
    free(part);
    return status;
}

hn_status hn_dir_create(const char *path) { return dir_create(path, 0700); }

hn_status hn_dir_create_public(const char *path) { return dir_create(path, 0777); }

static hn_status entry_remove(int parent_fd, const char *name, const char *path, int depth);

/* Empties the directory `fd`, which this function closes. `path` is for messages. */
static hn_status dir_empty(int fd, const char *path, int depth) {
    DIR *dir = fdopendir(fd);
    if (!dir) {
        int err = errno;
        close(fd);
        return HN_OS_ERROR(err, "cannot read directory '%s'", path);
    }
    hn_status status = NULL;
    const struct dirent *entry;
    while (!status) {
        errno = 0;
        entry = readdir(dir);
        if (!entry) {
            if (errno) status = HN_OS_ERROR(errno, "cannot read directory '%s'", path);
            break;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        status = entry_remove(fd, entry->d_name, path, depth + 1);
    }
    closedir(dir);
    return status;
}

/* Removes `name` in `parent_fd`, with what is below it. `path` is for messages. */
static hn_status entry_remove(int parent_fd, const char *name, const char *path, int depth) {
    if (unlinkat(parent_fd, name, 0) == 0 || errno == ENOENT) return NULL;
    /* Linux says EISDIR for a directory, POSIX EPERM. */
    if (errno != EISDIR && errno != EPERM)
        return HN_OS_ERROR(errno, "cannot remove '%s' in '%s'", name, path);
    if (depth > REMOVE_DEPTH_LIMIT)
        return HN_ERROR(HN_UNSUPPORTED, "cannot remove '%s': more than %d levels deep", path,
                        REMOVE_DEPTH_LIMIT);
    int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        if (errno == ENOENT) return NULL;
        return HN_OS_ERROR(errno, "cannot open directory '%s' in '%s'", name, path);
    }
    HN_TRY(dir_empty(fd, path, depth));
    if (unlinkat(parent_fd, name, AT_REMOVEDIR) != 0 && errno != ENOENT)
        return HN_OS_ERROR(errno, "cannot remove directory '%s' in '%s'", name, path);
    return NULL;
}

hn_status hn_dir_remove(const char *path) {
    size_t len = strlen(path);
    if (!len) return HN_ERROR(HN_INVALID_ARGUMENT, "cannot remove a directory with an empty name");
    while (len > 1 && path[len - 1] == '/') len--; /* "link/" would follow the link */
    char *bare = strndup(path, len);
    if (!bare) return HN_ERROR(HN_OUT_OF_MEMORY, "cannot copy the path '%s'", path);
    hn_status status = entry_remove(AT_FDCWD, bare, path, 0);
    free(bare);
    return status;
}

const char *hn_dir_temp_root(void) {
    static const char safe[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,/:@%";
    const char *root = getenv("TMPDIR");
    return root && root[0] == '/' && !root[strspn(root, safe)] ? root : "/tmp";
}

hn_status hn_dir_temp(char *out_path, size_t out_bytes) {
    const char *root = hn_dir_temp_root();
    int len = snprintf(out_path, out_bytes, "%s/henry-XXXXXX", root);
    if (len < 0 || (size_t)len >= out_bytes)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "cannot make a directory in '%s': the path is too long", root);
    if (!mkdtemp(out_path))
        return HN_OS_ERROR(errno, "cannot make a directory in '%s'; check TMPDIR", root);
    return NULL;
}

bool hn_file_exists(const char *path) {
    struct stat info;
    return stat(path, &info) == 0;
}
