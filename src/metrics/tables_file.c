/* tables_file.c: rows go behind those of other processes: under a lock of the file, and all or
 * nothing. */
#include "metrics/tables.h"

#include "base/oserror.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct table_file {
    const char *path;
    int fd;
    off_t size; /* of whole rows */
} table_file;

static hn_status failed(const table_file *f, const char *what) {
    return HN_OS_ERROR(errno, "cannot %s metric table '%s'", what, f->path);
}

static hn_status lock(table_file *f) {
    struct stat st;
    while (flock(f->fd, LOCK_EX) != 0)
        if (errno != EINTR) return failed(f, "lock");
    if (fstat(f->fd, &st) != 0) return failed(f, "look at");
    if (!S_ISREG(st.st_mode))
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "cannot write metric table '%s': it is no regular file", f->path);
    f->size = st.st_size;
    return NULL;
}

static hn_status read_at(const table_file *f, char *out, size_t len, off_t offset) {
    while (len) {
        const ssize_t got = pread(f->fd, out, len, offset);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return failed(f, "read");
        if (got == 0) return HN_ERROR(HN_IO, "metric table '%s' became shorter", f->path);
        out += got, len -= (size_t)got, offset += got;
    }
    return NULL;
}

/* A process that was killed while it wrote has left a part of a row: it goes. */
static hn_status drop_torn_row(table_file *f) {
    while (f->size > 0) {
        char block[4096];
        const size_t len = f->size < (off_t)sizeof block ? (size_t)f->size : sizeof block;
        HN_TRY(read_at(f, block, len, f->size - (off_t)len));
        size_t kept = len;
        while (kept && block[kept - 1] != '\n') kept--;
        f->size -= (off_t)(len - kept);
        if (kept) break;
    }
    return NULL;
}

/* Of a header that was torn, what is there. */
static hn_status check_header(const table_file *f, hn_str header) {
    if (f->size < (off_t)header.len) header.len = (size_t)f->size;
    if (!header.len) return NULL;
    char *first = malloc(header.len);
    if (!first)
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a header of %zu bytes", header.len);
    hn_status status = read_at(f, first, header.len, 0);
    const bool same = !status && memcmp(first, header.ptr, header.len) == 0;
    free(first);
    if (status || same) return status;
    return HN_ERROR(HN_INVALID_ARGUMENT,
                    "metric table '%s' has other columns than this version writes; move it away",
                    f->path);
}

static hn_status write_at(table_file *f, hn_str bytes) {
    off_t at = f->size;
    while (bytes.len) {
        const ssize_t done = pwrite(f->fd, bytes.ptr, bytes.len, at);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return failed(f, "write");
        bytes.ptr += done, bytes.len -= (size_t)done, at += done;
    }
    f->size = at;
    return NULL;
}

static hn_status append(table_file *f, hn_str header, hn_str rows) {
    HN_TRY(lock(f));
    const off_t found = f->size;
    HN_TRY(check_header(f, header));
    HN_TRY(drop_torn_row(f));
    const off_t before = f->size;
    hn_status status = before ? NULL : write_at(f, header);
    if (!status) status = write_at(f, rows);
    /* nothing of what could not be written whole; a torn row that was longer than these goes, too */
    if (status) f->size = before;
    if ((status || found > f->size) && ftruncate(f->fd, f->size) != 0 && !status)
        status = failed(f, "shorten");
    return status;
}

hn_status hn_table_append(const char *path, hn_str header, hn_str rows) {
    table_file f = {.path = path, .fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666)};
    if (f.fd < 0) return failed(&f, "open");
    hn_status status = append(&f, header, rows);
    if (close(f.fd) != 0 && !status) status = failed(&f, "write");
    return status;
}
