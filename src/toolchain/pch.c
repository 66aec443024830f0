/* pch.c: see pch.h. */
#include "toolchain/pch.h"

#include "base/compiler.h"
#include "base/file.h"
#include "base/log.h"
#include "toolchain/headers.h"
#include "toolchain/toolchain.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    KEPT_MOST = 4,   /* of some 60 MB each */
    NAMES_MOST = 64, /* of folders, most of which only tell that the lines were seen */
    UNFIT_S = 3600,
};

#define IMAGE  HN_PCH_HEADER ".gch"
#define RECORD "record"
#define LOCK   "lock"
#define UNFIT  "unfit" /* the lines cannot be precompiled: not tried again for an hour */

/* ---- the lines ---- */

static const char *line_end(const char *at, const char *end) {
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    return newline ? newline + 1 : end;
}

static bool has_directive(hn_str line, const char *word) {
    size_t len = strlen(word), at = 1;
    while (at < line.len && (line.ptr[at] == ' ' || line.ptr[at] == '\t')) at++;
    return line.len - at > len && memcmp(line.ptr + at, word, len) == 0 &&
           strchr(" \t<\"", line.ptr[at + len]) && line.ptr[at + len];
}

/* A line that goes on in the next one, or begins a comment that does, ends the lines: nothing has
 * to be understood about it. */
static bool is_whole(hn_str line) {
    return !memchr(line.ptr, '\\', line.len) && !memmem(line.ptr, line.len, "/*", 2) &&
           !memmem(line.ptr, line.len,
                   "?"
                   "?",
                   2);
}

size_t hn_pch_length(hn_str text) {
    const char *end = text.ptr + text.len, *at = text.ptr;
    size_t length = 0;
    while (at < end) {
        const char *next = line_end(at, end);
        const char *start = at;
        while (start < next &&
               (*start == ' ' || *start == '\t' || *start == '\r' || *start == '\n'))
            start++;
        hn_str line = {start, (size_t)(next - start)};
        if (line.len && !is_whole(line)) break;
        bool is_directive = line.len && line.ptr[0] == '#',
             is_include = is_directive && has_directive(line, "include");
        bool is_comment = line.len > 1 && line.ptr[0] == '/' && line.ptr[1] == '/';
        if (line.len && !is_comment && !is_include &&
            !(is_directive && has_directive(line, "define")))
            break;
        at = next;
        if (is_include) length = (size_t)(at - text.ptr);
    }
    return length && text.ptr[length - 1] == '\n' ? length : 0;
}

/* ---- the folder ---- */

static bool path_in(const hn_pch *pch, const char *name, char out[PATH_MAX]) {
    return snprintf(out, PATH_MAX, "%s/%s", pch->dir, name) < PATH_MAX;
}

bool hn_pch_init(hn_pch *pch, const char *root, hn_str lines, const hn_digest *subject) {
    char hex[HN_DIGEST_HEX_BYTES];
    hn_digest key =
        hn_digest_of_two((hn_str){(const char *)subject->bytes, sizeof(subject->bytes)}, lines);
    hn_digest_hex(&key, hex);
    *pch = (hn_pch){.root = root, .lines = lines};
    int len = snprintf(pch->dir, sizeof(pch->dir), "%s/%.32s", root, hex);
    return root[0] == '/' && len < (int)sizeof(pch->dir);
}

bool hn_pch_header(const hn_pch *pch, char out[PATH_MAX]) {
    return path_in(pch, HN_PCH_HEADER, out);
}

/* The record has two parts, each with its length in front: the headers that were read, and the
 * files of the folder. */
static bool next_part(hn_str *rest, hn_str *out) {
    uint64_t len;
    if (rest->len < sizeof(len)) return false;
    memcpy(&len, rest->ptr, sizeof(len));
    if (len > rest->len - sizeof(len)) return false;
    *out = (hn_str){rest->ptr + sizeof(len), (size_t)len};
    *rest = (hn_str){out->ptr + len, rest->len - sizeof(len) - (size_t)len};
    return true;
}

static void add_part(hn_strbuf *record, hn_str part) {
    uint64_t len = part.len;
    hn_strbuf_append(record, (const char *)&len, sizeof(len));
    hn_strbuf_append(record, part.ptr, part.len);
}

bool hn_pch_is_ready(const hn_pch *pch) {
    char path[PATH_MAX];
    hn_strbuf record;
    hn_str headers, files;
    hn_strbuf_init(&record);
    hn_status status = path_in(pch, RECORD, path) && access(path, F_OK) == 0
                           ? hn_file_read(path, &record)
                           : HN_ERROR(HN_NOT_FOUND, "no record");
    hn_str rest = hn_strbuf_str(&record);
    bool ready = !status && next_part(&rest, &headers) && next_part(&rest, &files) &&
                 hn_headers_unchanged(headers) && hn_headers_unchanged(files);
    if (ready) utimensat(AT_FDCWD, path, NULL, 0); /* used now */
    hn_status_free(status);
    hn_strbuf_deinit(&record);
    return ready;
}

static bool is_unfit(const hn_pch *pch) {
    char path[PATH_MAX];
    struct stat info;
    return path_in(pch, UNFIT, path) && stat(path, &info) == 0 &&
           info.st_mtime + UNFIT_S > time(NULL);
}

bool hn_pch_is_wanted(const hn_pch *pch, int *out_lock) {
    char path[PATH_MAX];
    *out_lock = -1;
    struct stat info;
    mkdir(pch->root, 0700);
    if (lstat(pch->root, &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid() ||
        (info.st_mode & 022))
        return false;
    bool is_first = mkdir(pch->dir, 0700) == 0;
    if (is_first || is_unfit(pch) || !path_in(pch, LOCK, path)) return false;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return false;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        close(fd);
        return false;
    }
    *out_lock = fd;
    return true;
}

/* ---- making it ---- */

/* What a header would find to be different: it is included by another one, and the compilation has
 * another name. */
static bool is_fit(hn_str paths) {
    static const char *const questions[] = {"__INCLUDE_LEVEL__", "__BASE_FILE__", "__COUNTER__"};
    const char *item;
    bool fit = true;
    while (fit && hn_list_next(&paths, &item)) {
        hn_file_map map;
        hn_status status = hn_file_map_init(&map, item);
        fit = !status;
        hn_status_free(status);
        if (!fit) break;
        for (size_t i = 0; fit && i < HN_COUNT_OF(questions); i++)
            fit = !memmem(map.data, map.size_bytes, questions[i], strlen(questions[i]));
        hn_file_map_deinit(&map);
    }
    return fit;
}

/* Those of the Make rule that are not the lines themselves. */
static hn_status read_rule(const hn_pch *pch, const hn_driver *driver, hn_strbuf *out) {
    const char *item;
    size_t len = strlen(pch->dir);
    hn_strbuf rule, all;
    hn_strbuf_init(&rule);
    hn_strbuf_init(&all);
    hn_status status = hn_driver_read(driver, "pch.d", &rule);
    if (!status) hn_headers_parse_rule(hn_strbuf_str(&rule), &all);
    if (!status) status = hn_strbuf_status(&all);
    for (hn_str rest = hn_strbuf_str(&all); hn_list_next(&rest, &item);)
        if (strncmp(item, pch->dir, len) != 0) hn_list_add(out, item);
    hn_strbuf_deinit(&rule);
    hn_strbuf_deinit(&all);
    return status ? status : hn_strbuf_status(out);
}

static hn_status write_record(const hn_pch *pch, const hn_driver *driver, hn_str paths,
                              hn_str dirs) {
    char path[PATH_MAX];
    hn_strbuf headers, files, own, record;
    hn_strbuf_init(&headers);
    hn_strbuf_init(&files);
    hn_strbuf_init(&own);
    hn_strbuf_init(&record);
    path_in(pch, IMAGE, path);
    hn_list_add(&own, path);
    path_in(pch, HN_PCH_HEADER, path);
    hn_list_add(&own, path);
    hn_status status = hn_headers_note(paths, dirs, driver->begin_ns, &headers);
    if (!status) status = hn_headers_note(hn_strbuf_str(&own), HN_STR(""), INT64_MAX, &files);
    if (!status && (!headers.len || !files.len))
        status = HN_ERROR(HN_IO, "a header has changed just now");
    add_part(&record, hn_strbuf_str(&headers));
    add_part(&record, hn_strbuf_str(&files));
    path_in(pch, RECORD, path);
    if (!status) status = hn_strbuf_status(&record);
    if (!status) status = hn_file_write_atomic(path, record.ptr, record.len, false);
    hn_strbuf_deinit(&headers);
    hn_strbuf_deinit(&files);
    hn_strbuf_deinit(&own);
    hn_strbuf_deinit(&record);
    return status;
}

typedef struct folder {
    char name[40];
    int64_t used_s;
    bool is_made;
} folder;

static int newest_first(const void *a, const void *b) {
    const folder *x = a, *y = b;
    return (x->used_s < y->used_s) - (x->used_s > y->used_s);
}

/* Removes those that were not used for longest. */
static void prune(const char *root) {
    folder folders[4 * NAMES_MOST];
    size_t count = 0, made = 0;
    DIR *list = opendir(root);
    if (!list) return;
    for (const struct dirent *entry;
         count < sizeof(folders) / sizeof(*folders) && (entry = readdir(list));) {
        char path[PATH_MAX + 64];
        struct stat info;
        if (strlen(entry->d_name) != HN_STORE_PCH_DIGITS ||
            strspn(entry->d_name, "0123456789abcdef") != HN_STORE_PCH_DIGITS)
            continue;
        folder *f = &folders[count];
        snprintf(f->name, sizeof(f->name), "%.32s", entry->d_name);
        snprintf(path, sizeof(path), "%s/%.32s/" RECORD, root, f->name);
        f->is_made = stat(path, &info) == 0;
        if (!f->is_made &&
            (snprintf(path, sizeof(path), "%s/%.32s", root, f->name), stat(path, &info) != 0))
            continue;
        f->used_s = info.st_mtime;
        count++;
    }
    closedir(list);
    qsort(folders, count, sizeof(*folders), newest_first);
    for (size_t i = 0; i < count; i++) {
        char path[PATH_MAX + 64];
        made += folders[i].is_made;
        if (i < NAMES_MOST && (!folders[i].is_made || made <= KEPT_MOST)) continue;
        snprintf(path, sizeof(path), "%s/%.32s", root, folders[i].name);
        hn_status_free(hn_dir_remove(path));
    }
}

static hn_status make(const hn_pch *pch, hn_driver *driver, const hn_tool_args *given,
                      hn_str dirs) {
    char header[PATH_MAX], image[PATH_MAX], fresh[PATH_MAX], record[PATH_MAX];
    hn_tool_args args = *given;
    hn_strbuf paths;
    path_in(pch, HN_PCH_HEADER, header);
    path_in(pch, IMAGE, image);
    path_in(pch, RECORD, record);
    path_in(pch, "fresh.gch", fresh);
    unlink(record);
    HN_TRY(hn_file_write_atomic(header, pch->lines.ptr, pch->lines.len, false));
    hn_tool_args_add_all(&args, (const char *const[]){"-MD", "-MF", "pch.d", "-o", fresh, "-x",
                                                      "c++-header", header, NULL});
    HN_TRY(hn_driver_run(driver, &args));
    if (driver->failure.exit)
        return HN_ERROR(HN_TOOLCHAIN, "the compiler ended with exit status %d",
                        driver->failure.exit);
    hn_strbuf_init(&paths);
    hn_status status = read_rule(pch, driver, &paths);
    if (!status && !is_fit(hn_strbuf_str(&paths)))
        status = HN_ERROR(HN_UNSUPPORTED, "a header asks where it is included");
    if (!status && rename(fresh, image) != 0) status = HN_ERROR(HN_IO, "cannot rename '%s'", fresh);
    if (!status) status = write_record(pch, driver, hn_strbuf_str(&paths), dirs);
    hn_strbuf_deinit(&paths);
    return status;
}

/* Takes the reason. */
static void give_up(const hn_pch *pch, hn_status reason) {
    char path[PATH_MAX];
    hn_log("toolchain", HN_LOG_INFO, "no precompiled header: %s", hn_status_message(reason));
    hn_status_free(reason);
    if (path_in(pch, "fresh.gch", path)) unlink(path);
    if (path_in(pch, IMAGE, path)) unlink(path);
    if (path_in(pch, UNFIT, path)) hn_status_free(hn_file_write_atomic(path, "", 0, false));
}

bool hn_pch_make(const hn_pch *pch, hn_driver *driver, const hn_tool_args *args, hn_str dirs) {
    hn_status status = make(pch, driver, args, dirs);
    bool ok = !status;
    if (status) give_up(pch, status);
    hn_strbuf_reset(&driver->failure.errors);
    driver->failure.exit = 0;
    if (ok) prune(pch->root);
    return ok;
}
