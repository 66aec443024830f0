/* project.c: the folder of a project, its manifest, and who wrote what. See project.h. */
#include "driver/project.h"

#include "base/file.h"
#include "base/oserror.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEMP_NAME ".henry-tmp-project"
enum { SHOWN_CONFLICTS = 6 };

/* OTHER: a link, a folder, or below one that is a link */
typedef enum state { STATE_ABSENT, STATE_FILE, STATE_OTHER } state;

/* A line of the manifest. A name may have several: each is a content that Henry wrote or was about
 * to write. */
typedef struct known {
    hn_str name;
    hn_digest digest;
} known;

typedef struct folder {
    hn_project *project;
    hn_arena *arena;
    const char *path; /* for messages */
    int fd;
    struct {
        known *items;
        uint32_t count, cap;
    } known;            /* of the manifest that was there */
    state *states;      /* per file of the project */
    hn_digest *digests; /* of what is there */
    hn_project_report report;
    void *context;
} folder;

static bool same_digest(const hn_digest *a, const hn_digest *b) {
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

hn_status hn_project_add(hn_project *project, hn_str name, const hn_str *parts,
                         uint32_t part_count) {
    hn_project_file file = {.name = name, .parts = parts, .part_count = part_count};
    hn_digest_state digest;
    hn_digest_begin(&digest);
    for (uint32_t k = 0; k < part_count; k++) hn_digest_update(&digest, parts[k].ptr, parts[k].len);
    file.digest = hn_digest_end(&digest);
    HN_PUSH(project->arena, &project->files, file);
    return NULL;
}

/* --- places in the folder: each folder on the way is opened by itself, and none through a link
 * --- */

/* Relative, of plain characters, and without "." and "..": also what a manifest says is not
 * believed. */
static bool is_plain_name(hn_str name) {
    size_t start = 0;
    if (!name.len || name.len >= PATH_MAX) return false;
    for (size_t k = 0; k <= name.len; k++) {
        char c = k < name.len ? name.ptr[k] : '/';
        if (c == '/') {
            hn_str part = {name.ptr + start, k - start};
            if (!part.len || hn_str_eq(part, HN_STR(".")) || hn_str_eq(part, HN_STR("..")))
                return false;
            start = k + 1;
        } else if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     strchr("._-", c))) {
            return false;
        }
    }
    return true;
}

/* The folder of `name`, and in `out_last` its last part. -1 with errno set when there is none or a
 * link is on the way. */
static int open_parent(const folder *f, hn_str name, bool create, char out_last[NAME_MAX + 1]) {
    int at = fcntl(f->fd, F_DUPFD_CLOEXEC, 0);
    hn_str rest = name;
    for (const char *slash; at >= 0;
         rest = (hn_str){slash + 1, rest.len - (size_t)(slash + 1 - rest.ptr)}) {
        slash = memchr(rest.ptr, '/', rest.len);
        size_t len = slash ? (size_t)(slash - rest.ptr) : rest.len;
        if (len > NAME_MAX) {
            close(at);
            errno = ENAMETOOLONG;
            return -1;
        }
        memcpy(out_last, rest.ptr, len);
        out_last[len] = '\0';
        if (!slash) return at;
        if (create && mkdirat(at, out_last, 0777) != 0 && errno != EEXIST) len = 0;
        int next = len ? openat(at, out_last, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1,
            err = errno;
        close(at);
        errno = err;
        at = next;
    }
    return -1;
}

static hn_status digest_of_open(int fd, hn_digest *out) {
    char bytes[1 << 16];
    hn_digest_state digest;
    hn_digest_begin(&digest);
    for (;;) {
        ssize_t got = read(fd, bytes, sizeof bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return HN_OS_ERROR(errno, "cannot read a file");
        if (got == 0) break;
        hn_digest_update(&digest, bytes, (size_t)got);
    }
    *out = hn_digest_end(&digest);
    return NULL;
}

/* Opens what is there under `name` without following links. `*out_fd` is -1 unless it is a file. */
static hn_status open_file(const folder *f, hn_str name, state *out_state, int *out_fd) {
    char last[NAME_MAX + 1];
    struct stat info;
    *out_fd = -1;
    int parent = open_parent(f, name, false, last), fd = -1;
    if (parent >= 0) fd = openat(parent, last, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    int err = errno;
    if (parent >= 0) close(parent);
    *out_state = fd >= 0 ? STATE_FILE : err == ENOENT ? STATE_ABSENT : STATE_OTHER;
    if (fd >= 0 && (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))) {
        close(fd);
        *out_state = STATE_OTHER;
    } else {
        *out_fd = fd;
    }
    if (fd >= 0 || err == ENOENT || err == ELOOP || err == ENOTDIR || err == ENXIO) return NULL;
    return HN_OS_ERROR(err, "cannot read '%s/" HN_STR_FMT "'", f->path, HN_STR_ARG(name));
}

static hn_status look_at(const folder *f, hn_str name, state *out_state, hn_digest *out_digest) {
    int fd;
    HN_TRY(open_file(f, name, out_state, &fd));
    if (fd < 0) return NULL;
    hn_status status = digest_of_open(fd, out_digest);
    close(fd);
    return hn_status_annotate(status, "'%s/" HN_STR_FMT "'", f->path, HN_STR_ARG(name));
}

/* --- the manifest --- */

static bool parse_hex(const char *text, hn_digest *out) {
    for (size_t k = 0; k < sizeof out->bytes; k++) {
        unsigned byte = 0;
        for (size_t i = 0; i < 2; i++) {
            char c = text[2 * k + i];
            if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
            byte = byte * 16 + (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
        }
        out->bytes[k] = (uint8_t)byte;
    }
    return true;
}

/* "<64 digits>  NAME", as b2sum writes it. */
static bool parse_line(hn_str line, known *out) {
    enum { HEX = HN_DIGEST_HEX_BYTES - 1 };
    if (line.len < HEX + 3 || line.ptr[HEX] != ' ' || line.ptr[HEX + 1] != ' ') return false;
    out->name = (hn_str){line.ptr + HEX + 2, line.len - HEX - 2};
    return parse_hex(line.ptr, &out->digest) && is_plain_name(out->name);
}

static hn_status parse_manifest(folder *f, hn_str text) {
    while (text.len) {
        const char *end = memchr(text.ptr, '\n', text.len);
        hn_str line = {text.ptr, end ? (size_t)(end - text.ptr) : text.len};
        known row;
        if (!end || (line.ptr[0] != '#' && !parse_line(line, &row)))
            return HN_ERROR(
                HN_INVALID_ARGUMENT,
                "'%s/" HN_PROJECT_MANIFEST
                "' is not a manifest that Henry wrote; move it away, or choose another folder",
                f->path);
        if (line.ptr[0] != '#') HN_PUSH(f->arena, &f->known, row);
        text = (hn_str){end + 1, text.len - line.len - 1};
    }
    return NULL;
}

static hn_status read_manifest(folder *f) {
    state what;
    struct stat info;
    char *text;
    int fd;
    HN_TRY(open_file(f, HN_STR(HN_PROJECT_MANIFEST), &what, &fd));
    if (what == STATE_OTHER)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "'%s/" HN_PROJECT_MANIFEST
                        "' is not a file; move it away, or choose another folder",
                        f->path);
    if (what == STATE_ABSENT) return NULL;
    size_t len = fstat(fd, &info) == 0 ? (size_t)info.st_size : 0, done = 0;
    hn_status status = hn_arena_array(f->arena, len + 1, 1, &text);
    for (ssize_t got = 1; !status && done < len && got > 0;) {
        got = read(fd, text + done, len - done);
        if (got < 0 && errno != EINTR)
            status = HN_OS_ERROR(errno, "cannot read '%s/" HN_PROJECT_MANIFEST "'", f->path);
        if (got < 0) got = 1;
        else done += (size_t)got;
    }
    close(fd);
    return status ? status : parse_manifest(f, (hn_str){text, done});
}

/* Whether the manifest has the name at all, and with this content. */
static bool is_listed(const folder *f, hn_str name, const hn_digest *digest) {
    for (uint32_t k = 0; k < f->known.count; k++)
        if (hn_str_eq(f->known.items[k].name, name) &&
            (!digest || same_digest(&f->known.items[k].digest, digest)))
            return true;
    return false;
}

static bool is_in_project(const folder *f, hn_str name) {
    for (uint32_t k = 0; k < f->project->files.count; k++)
        if (hn_str_eq(f->project->files.items[k].name, name)) return true;
    return false;
}

static void print_line(hn_strbuf *out, const hn_digest *digest, hn_str name) {
    char hex[HN_DIGEST_HEX_BYTES];
    hn_digest_hex(digest, hex);
    hn_strbuf_printf(out, "%s  " HN_STR_FMT "\n", hex, HN_STR_ARG(name));
}

/* --- comparing --- */

static void note_conflict(const folder *f, hn_str name, state what, uint32_t count,
                          hn_strbuf *out) {
    if (count > SHOWN_CONFLICTS) return;
    hn_strbuf_printf(out, "%s'" HN_STR_FMT "'%s", count > 1 ? ", " : "", HN_STR_ARG(name),
                     what == STATE_OTHER        ? " (a link, a folder, or behind a link)"
                     : is_listed(f, name, NULL) ? " (edited)"
                                                : "");
}

/* Looks at all that would be written. Files that are right already are nobody's loss, whoever wrote
 * them. */
static hn_status compare(folder *f) {
    uint32_t conflicts = 0;
    hn_strbuf names;
    hn_status status = NULL;
    hn_strbuf_init(&names);
    for (uint32_t k = 0; k < f->project->files.count && !status; k++) {
        const hn_project_file *file = &f->project->files.items[k];
        status = look_at(f, file->name, &f->states[k], &f->digests[k]);
        if (status || f->states[k] == STATE_ABSENT) continue;
        if (f->states[k] == STATE_FILE && (same_digest(&f->digests[k], &file->digest) ||
                                           is_listed(f, file->name, &f->digests[k])))
            continue;
        note_conflict(f, file->name, f->states[k], ++conflicts, &names);
    }
    if (conflicts > SHOWN_CONFLICTS)
        hn_strbuf_printf(&names, " and %u more", conflicts - SHOWN_CONFLICTS);
    if (!status && conflicts)
        status = HN_ERROR(
            HN_INVALID_ARGUMENT,
            "these files are in the way: Henry did not write them, or they were edited since: %s; nothing was written; move them away, or choose another folder",
            names.ptr ? names.ptr : "");
    hn_strbuf_deinit(&names);
    return status;
}

/* --- writing --- */

static hn_status write_parts(int fd, const hn_str *parts, uint32_t count) {
    for (uint32_t k = 0; k < count; k++) {
        for (hn_str rest = parts[k]; rest.len;) {
            ssize_t wrote = write(fd, rest.ptr, rest.len);
            if (wrote < 0 && errno == EINTR) continue;
            if (wrote < 0) return HN_OS_ERROR(errno, "cannot write");
            rest = (hn_str){rest.ptr + wrote, rest.len - (size_t)wrote};
        }
    }
    return NULL;
}

/* Through a temporary file beside it. The folder is locked, so a file of that name was left by a
 * process that was killed. */
static hn_status replace_in(int parent, const char *last, const hn_str *parts, uint32_t count) {
    (void)unlinkat(parent, TEMP_NAME, 0);
    int fd = openat(parent, TEMP_NAME, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0) return HN_OS_ERROR(errno, "cannot create a file");
    hn_status status = write_parts(fd, parts, count);
    if (close(fd) != 0 && errno != EINTR && !status) status = HN_OS_ERROR(errno, "cannot write");
    if (!status && renameat(parent, TEMP_NAME, parent, last) != 0)
        status = HN_OS_ERROR(errno, "cannot rename a temporary file");
    if (status) (void)unlinkat(parent, TEMP_NAME, 0);
    return status;
}

static hn_status write_file(const folder *f, hn_str name, const hn_str *parts, uint32_t count) {
    char last[NAME_MAX + 1];
    int parent = open_parent(f, name, true, last);
    hn_status status = parent < 0 ? HN_OS_ERROR(errno, "cannot open its folder")
                                  : replace_in(parent, last, parts, count);
    if (parent >= 0) close(parent);
    return hn_status_annotate(status, "cannot write '%s/" HN_STR_FMT "'", f->path,
                              HN_STR_ARG(name));
}

static hn_status remove_file(const folder *f, hn_str name) {
    char last[NAME_MAX + 1];
    int parent = open_parent(f, name, false, last);
    hn_status status = NULL;
    if (parent >= 0 && unlinkat(parent, last, 0) != 0 && errno != ENOENT)
        status = HN_OS_ERROR(errno, "cannot remove '%s/" HN_STR_FMT "'", f->path, HN_STR_ARG(name));
    if (parent >= 0) close(parent);
    return status;
}

/* With the digests from before when `pending`. */
static hn_status write_manifest(const folder *f, bool pending) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_puts(
        &text,
        "# What 'henry compile --emit source' wrote into this folder. Henry replaces these files while they have these\n"
        "# digests, and no others. To check them: b2sum -l 256 -c " HN_PROJECT_MANIFEST "\n");
    for (uint32_t k = 0; k < f->project->files.count; k++)
        print_line(&text, &f->project->files.items[k].digest, f->project->files.items[k].name);
    for (uint32_t k = 0; pending && k < f->known.count; k++)
        print_line(&text, &f->known.items[k].digest, f->known.items[k].name);
    hn_str whole = hn_strbuf_str(&text);
    hn_status status = hn_strbuf_status(&text);
    if (!status) status = write_file(f, HN_STR(HN_PROJECT_MANIFEST), &whole, 1);
    hn_strbuf_deinit(&text);
    return status;
}

/* What an earlier export wrote and this one does not. */
static hn_status remove_obsolete(const folder *f) {
    for (uint32_t k = 0; k < f->known.count; k++) {
        hn_str name = f->known.items[k].name;
        hn_digest digest;
        state what;
        bool is_first = true;
        for (uint32_t i = 0; i < k; i++) is_first &= !hn_str_eq(f->known.items[i].name, name);
        if (!is_first || is_in_project(f, name)) continue;
        HN_TRY(look_at(f, name, &what, &digest));
        if (what == STATE_ABSENT) continue;
        bool is_ours = what == STATE_FILE && is_listed(f, name, &digest);
        if (is_ours) HN_TRY(remove_file(f, name));
        if (f->report) f->report(f->context, is_ours ? "removed" : "kept", name);
    }
    return NULL;
}

static hn_status write_all(folder *f) {
    uint32_t count = f->project->files.count;
    HN_TRY(write_manifest(f, true));
    if (count && f->states[count - 1] == STATE_FILE)
        HN_TRY(remove_file(f, f->project->files.items[count - 1].name));
    HN_TRY(remove_obsolete(f));
    for (uint32_t k = 0; k < count; k++) {
        const hn_project_file *file = &f->project->files.items[k];
        bool is_right = f->states[k] == STATE_FILE && same_digest(&f->digests[k], &file->digest);
        if (!is_right || k == count - 1)
            HN_TRY(write_file(f, file->name, file->parts, file->part_count));
        if (f->report) f->report(f->context, is_right ? "unchanged" : "written", file->name);
    }
    return write_manifest(f, false);
}

hn_status hn_project_write(hn_project *project, const char *dir, hn_project_report report,
                           void *context) {
    folder f = {.project = project,
                .arena = project->arena,
                .path = dir,
                .report = report,
                .context = context};
    HN_NEW(f.arena, f.states, (size_t)project->files.count + 1);
    HN_NEW(f.arena, f.digests, (size_t)project->files.count + 1);
    HN_TRY(hn_dir_create_public(dir));
    f.fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f.fd < 0) return HN_OS_ERROR(errno, "cannot open the folder '%s'", dir);
    while (flock(f.fd, LOCK_EX) != 0 && errno == EINTR) {
    }
    hn_status status = read_manifest(&f);
    if (!status) status = compare(&f);
    if (!status) status = write_all(&f);
    close(f.fd);
    return status;
}
