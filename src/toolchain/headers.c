/* headers.c: see headers.h. The list is a record: "revision", then for each file "file", "stamp",
 * "digest"; "dir" for each directory of the search path that flags gave; "other" for files that
 * were there, would be found by the name of one of the files, and were not read. */
#include "toolchain/headers.h"

#include "base/file.h"
#include "cache/record.h"
#include "toolchain/toolchain.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    REVISION = 1,
    NEW_NS = 50 * 1000 * 1000, /* a time stamp of the file system may lag by a tick of its clock */
    STAMP_BYTES = 128,
};

static bool list_has(hn_str list, const char *item) {
    const char *other;
    while (hn_list_next(&list, &other))
        if (strcmp(other, item) == 0) return true;
    return false;
}

void hn_headers_parse_rule(hn_str rule, hn_strbuf *paths) {
    const char *at = memchr(rule.ptr, ':', rule.len), *end = rule.ptr + rule.len;
    if (!at) return;
    for (at++; at < end;) {
        char path[PATH_MAX];
        size_t len = 0;
        while (at < end && (*at == ' ' || *at == '\n' || *at == '\t' ||
                            (*at == '\\' && at + 1 < end && at[1] == '\n')))
            at++;
        while (at < end && *at != ' ' && *at != '\n' && *at != '\t') {
            if (*at == '\\' && at + 1 < end && at[1] == '\n') break;
            if ((*at == '\\' && at + 1 < end && strchr(" #\\:", at[1])) ||
                (*at == '$' && at + 1 < end && at[1] == '$'))
                at++;
            if (len + 1 < sizeof(path)) path[len++] = *at;
            at++;
        }
        path[len] = 0;
        if (path[0] == '/' && !list_has(hn_strbuf_str(paths), path)) hn_list_add(paths, path);
    }
}

static void stamp_print(const struct stat *info, char out[STAMP_BYTES]) {
    snprintf(out, STAMP_BYTES, "%lld:%lld.%09ld:%lld.%09ld:%llu", (long long)info->st_size,
             (long long)info->st_mtim.tv_sec, info->st_mtim.tv_nsec,
             (long long)info->st_ctim.tv_sec, info->st_ctim.tv_nsec,
             (unsigned long long)info->st_ino);
}

static int64_t ns_of(struct timespec time) {
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static bool file_digest(const char *path, char out[HN_DIGEST_HEX_BYTES]) {
    hn_file_map map;
    hn_status status = hn_file_map_init(&map, path);
    if (status) {
        hn_status_free(status);
        return false;
    }
    hn_digest digest = hn_digest_of(map.data, map.size_bytes);
    hn_file_map_deinit(&map);
    hn_digest_hex(&digest, out);
    return true;
}

/* ---- files that would be found first ---- */

typedef bool (*candidate_fn)(void *context, const char *path);

/* Calls `each` with every existing path that is a directory of `dirs` (or /usr/local/include, which
 * compilers search early) and a tail of `file`, other than `file` itself. False as soon as `each`
 * says so. */
static bool each_candidate(const char *file, hn_str dirs, candidate_fn each, void *context) {
    const char *dir = "/usr/local/include";
    do {
        for (const char *tail = strchr(file + 1, '/'); tail; tail = strchr(tail + 1, '/')) {
            char path[PATH_MAX];
            if (snprintf(path, sizeof(path), "%s%s", dir, tail) >= (int)sizeof(path)) continue;
            if (strcmp(path, file) == 0 || access(path, F_OK) != 0) continue;
            if (!each(context, path)) return false;
        }
    } while (hn_list_next(&dirs, &dir));
    return true;
}

typedef struct note {
    hn_strbuf *out;
    hn_str paths;
} note;

static bool note_other(void *context, const char *path) {
    note *n = context;
    if (!list_has(n->paths, path)) hn_record_add(n->out, "other", hn_str_of(path));
    return true;
}

/* Whether the record knows the file, as one that was read or one that was not. */
static bool is_known(void *context, const char *path) {
    hn_str rest = *(const hn_str *)context;
    hn_record_field field;
    while (hn_record_next(&rest, &field)) {
        bool names =
            hn_str_eq(field.name, HN_STR("file")) || hn_str_eq(field.name, HN_STR("other"));
        if (names && hn_str_eq(field.value, hn_str_of(path))) return true;
    }
    return false;
}

/* ---- noting and checking ---- */

/* False when the file may have changed while it was read. */
static bool note_file(const char *path, int64_t begin_ns, hn_strbuf *out) {
    struct stat info;
    char stamp[STAMP_BYTES], digest[HN_DIGEST_HEX_BYTES];
    if (stat(path, &info) != 0 || !file_digest(path, digest)) return false;
    if (ns_of(info.st_mtim) > begin_ns - NEW_NS || ns_of(info.st_ctim) > begin_ns - NEW_NS)
        return false;
    stamp_print(&info, stamp);
    hn_record_add(out, "file", hn_str_of(path));
    hn_record_add(out, "stamp", hn_str_of(stamp));
    hn_record_add(out, "digest", hn_str_of(digest));
    return true;
}

hn_status hn_headers_note(hn_str paths, hn_str dirs, int64_t begin_ns, hn_strbuf *out) {
    const char *item;
    note n = {out, paths};
    bool is_sure = true;
    hn_record_add_i64(out, "revision", REVISION);
    for (hn_str rest = dirs; hn_list_next(&rest, &item);)
        hn_record_add(out, "dir", hn_str_of(item));
    for (hn_str rest = paths; is_sure && hn_list_next(&rest, &item);)
        is_sure = note_file(item, begin_ns, out);
    for (hn_str rest = paths; is_sure && hn_list_next(&rest, &item);)
        each_candidate(item, dirs, note_other, &n);
    HN_TRY(hn_strbuf_status(out));
    if (!is_sure) hn_strbuf_reset(out);
    return NULL;
}

static bool copy_path(hn_str value, char out[PATH_MAX]) {
    if (value.len >= PATH_MAX) return false;
    memcpy(out, value.ptr, value.len);
    out[value.len] = 0;
    return true;
}

/* One file whose "file" field was just read; takes its other two fields off `rest`. */
static bool file_unchanged(const char *path, hn_str *rest) {
    struct stat info;
    hn_record_field stamp, digest;
    char now[STAMP_BYTES], hex[HN_DIGEST_HEX_BYTES];
    if (!hn_record_next(rest, &stamp) || !hn_record_next(rest, &digest)) return false;
    if (stat(path, &info) != 0) return false;
    stamp_print(&info, now);
    if (hn_str_eq(stamp.value, hn_str_of(now))) return true;
    return file_digest(path, hex) && hn_str_eq(digest.value, hn_str_of(hex));
}

bool hn_headers_unchanged(hn_str headers) {
    hn_strbuf dirs;
    hn_record_field field;
    char path[PATH_MAX];
    hn_strbuf_init(&dirs);
    bool same = hn_record_find_i64(headers, "revision", 0) == REVISION;
    for (hn_str rest = headers; same && hn_record_next(&rest, &field);) {
        if (!copy_path(field.value, path)) same = false;
        else if (hn_str_eq(field.name, HN_STR("dir"))) hn_list_add(&dirs, path);
        else if (hn_str_eq(field.name, HN_STR("file")))
            same = file_unchanged(path, &rest) &&
                   each_candidate(path, hn_strbuf_str(&dirs), is_known, &headers);
    }
    hn_strbuf_deinit(&dirs);
    return same;
}

hn_digest hn_headers_key(const hn_digest *job, hn_str headers) {
    hn_digest_state state;
    hn_record_field field;
    hn_digest_begin(&state);
    hn_digest_update(&state, job->bytes, sizeof(job->bytes));
    while (hn_record_next(&headers, &field)) {
        if (!hn_str_eq(field.name, HN_STR("file")) && !hn_str_eq(field.name, HN_STR("digest")))
            continue;
        hn_digest_update(&state, field.value.ptr, field.value.len);
        hn_digest_update(&state, "", 1);
    }
    return hn_digest_end(&state);
}

hn_digest hn_headers_list_key(const hn_digest *job) {
    hn_digest_state state;
    hn_digest_begin(&state);
    hn_digest_update(&state, job->bytes, sizeof(job->bytes));
    hn_digest_update(&state, "headers", 7);
    return hn_digest_end(&state);
}
