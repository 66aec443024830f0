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

/* ---- the last row ---- */

/* How far a walk through a table has come. Cells of CSV and texts of JSON may have any character between
 * quotes. */
typedef struct walk {
    bool is_json;
    bool in_quotes, is_escaped;
    uint32_t cells; /* of the row so far, */
    int32_t depth;  /* or its open objects */
    off_t at, row;  /* the row begins there */
    char last;
} walk;

static void step(walk *w, char c) {
    w->at++;
    w->last = c;
    if (w->is_escaped) w->is_escaped = false;
    else if (c == '"') w->in_quotes = !w->in_quotes;
    else if (w->in_quotes) w->is_escaped = w->is_json && c == '\\';
    else if (c == ',') w->cells++;
    else if (c == '{' || c == '}') w->depth += c == '{' ? 1 : -1;
    else if (c == '\n') *w = (walk){.is_json = w->is_json, .cells = 1, .at = w->at, .row = w->at};
}

static uint32_t cells_of(hn_str header) {
    walk w = {.cells = 1};
    for (size_t k = 0; k + 1 < header.len; k++) step(&w, header.ptr[k]);
    return w.cells;
}

/* What a process that is killed, or has no room left, has written ends with a block of the file. */
enum { BLOCK_BYTES = 512 };

/* Whether the row that no newline ends is one that an editor left so, and no part of one. */
static bool is_whole(const walk *w, hn_str header) {
    if (w->in_quotes || w->at == w->row) return false;
    if (w->is_json) return w->last == '}' && w->depth == 0;
    return w->row > 0 && w->cells == cells_of(header) && w->at % BLOCK_BYTES != 0;
}

static hn_status walk_through(const table_file *f, walk *w) {
    while (w->at < f->size) {
        char block[4096];
        const off_t left = f->size - w->at;
        const size_t len = left < (off_t)sizeof block ? (size_t)left : sizeof block;
        HN_TRY(read_at(f, block, len, w->at));
        for (size_t k = 0; k < len; k++) step(w, block[k]);
    }
    return NULL;
}

/* A process that was killed while it wrote has left a part of a row: it goes. A row that lacks nothing
 * but its newline stays: `*out_ends` is false. */
static hn_status drop_torn_row(table_file *f, hn_str header, bool *out_ends) {
    char last;
    *out_ends = true;
    if (!f->size) return NULL;
    HN_TRY(read_at(f, &last, 1, f->size - 1));
    if (last == '\n') return NULL;
    walk w = {.is_json = !header.len, .cells = 1};
    HN_TRY(walk_through(f, &w));
    if (is_whole(&w, header)) *out_ends = false;
    else f->size = w.row;
    return NULL;
}

/* ---- writing ---- */

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
    bool ends;
    HN_TRY(drop_torn_row(f, header, &ends));
    const off_t before = f->size;
    hn_status status = !before ? write_at(f, header) : ends ? NULL : write_at(f, HN_STR("\n"));
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
