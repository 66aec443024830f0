/* c_probe.c: finding a C or C++ compiler and learning what it is made of.
 *
 * Asking the compiler takes four processes, some 10 ms together. The answers are kept in the store
 * under the file's path, size, time and inode, so a warm start asks nothing; the programs that the
 * driver calls are checked by size and time as well, because a package manager can replace one of
 * them alone. */
#include "toolchain/c.h"

#include "base/log.h"
#include "base/oserror.h"
#include "base/trace.h"
#include "cache/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { QUERY_COUNT = 4, QUERY_TIMEOUT_MS = 20000 };

static const char *const part_names[3] = {"cc1", "as", "ld"};

static hn_status find_compiler(const hn_c_dialect *dialect, char out[PATH_MAX]) {
    const char *wanted = getenv(dialect->variable);
    if (wanted && wanted[0]) {
        if (hn_program_find(wanted, out)) return NULL;
        return HN_ERROR(HN_TOOLCHAIN, "cannot find the compiler '%s' that %s names", wanted,
                        dialect->variable);
    }
    for (const char *const *name = dialect->usual; *name; name++)
        if (hn_program_find(*name, out)) return NULL;
    return HN_ERROR(HN_NOT_FOUND,
                    "cannot find a %s: neither %s nor %s is in PATH; install one or set %s",
                    dialect->title, dialect->usual[0], dialect->usual[1], dialect->variable);
}

/* A wrapper script is somebody's wish to be called; only real programs are bypassed. */
static bool is_elf(const char *path) {
    char magic[4] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool yes = read(fd, magic, 4) == 4 && memcmp(magic, "\177ELF", 4) == 0;
    close(fd);
    return yes;
}

/* ---- asking ---- */

typedef struct query {
    hn_tool_args args;
    hn_tool_process process;
    int stdout_fd;
    bool is_started;
    hn_strbuf answer;
    int exit;
} query;

static hn_status query_start(query *q, const char *cc, const char *option) {
    hn_strbuf_init(&q->answer);
    q->is_started = false;
    q->args = (hn_tool_args){.count = 0};
    hn_tool_args_add(&q->args, cc);
    hn_tool_args_add(&q->args, option);
    HN_TRY(hn_tool_memory_file("henry-answer", &q->stdout_fd));
    hn_strbuf env_text;
    hn_strbuf_init(&env_text);
    const char *env[HN_DRIVER_ENV_ITEMS + 1];
    hn_driver_environment(HN_STR(""), NULL, &env_text, env);
    const hn_tool_run run = {
        .args = &q->args,
        .env = env,
        .stdin_fd = -1,
        .stdout_fd = q->stdout_fd,
        .deadline_ns = hn_now_ns() + QUERY_TIMEOUT_MS * 1000000LL,
        .own_group = true,
    };
    hn_status status = hn_tool_start(&run, &q->process);
    hn_strbuf_deinit(&env_text);
    if (status) close(q->stdout_fd);
    q->is_started = !status;
    return status;
}

static hn_status query_finish(query *q) {
    if (!q->is_started) return NULL;
    hn_status status = hn_tool_finish(&q->process, NULL, &q->exit);
    if (!status) status = hn_tool_read_all(q->stdout_fd, &q->answer);
    close(q->stdout_fd);
    if (q->exit == HN_EXIT_UNKNOWN && q->answer.len) q->exit = 0; /* who answers has not failed */
    while (!status && q->answer.len && q->answer.ptr[q->answer.len - 1] == '\n')
        q->answer.ptr[--q->answer.len] = 0;
    return status;
}

/* Runs the queries at once; a wrapper script is only asked for its version, since it may take
 * anything else for a compilation. The answers are to be deinited also after an error. */
static hn_status ask(const char *cc, const char *part, query queries[QUERY_COUNT]) {
    char part_option[64];
    const char *const options[QUERY_COUNT] = {"--version", part_option, "-print-prog-name=as",
                                              "-print-prog-name=ld"};
    snprintf(part_option, sizeof(part_option), "-print-prog-name=%s", part);
    hn_status status = NULL;
    int count = is_elf(cc) ? QUERY_COUNT : 1;
    for (int i = 0; i < QUERY_COUNT; i++) {
        if (status || i >= count) queries[i] = (query){.is_started = false, .exit = 127};
        else status = query_start(&queries[i], cc, options[i]);
    }
    for (int i = 0; i < QUERY_COUNT; i++) {
        hn_status ended = query_finish(&queries[i]);
        if (status) hn_status_free(ended);
        else status = ended;
    }
    return status;
}

/* A compiler that is to be asked. */
typedef struct suspect {
    const hn_c_dialect *dialect;
    const char *cc;
} suspect;

/* Appends the findings: family, version, and path and stamp of each part. */
static hn_status describe(const suspect *s, query queries[QUERY_COUNT], hn_strbuf *out) {
    const hn_strbuf *version = &queries[0].answer;
    if (queries[0].exit != 0 || version->len == 0)
        return HN_ERROR(HN_TOOLCHAIN,
                        "cannot use the %s '%s': '--version' ended with %d and %zu bytes",
                        s->dialect->title, s->cc, queries[0].exit, version->len);
    const char *family = strstr(version->ptr, "clang")                      ? "clang"
                         : strstr(version->ptr, "Free Software Foundation") ? "gcc"
                                                                            : "other";
    hn_record_add(out, "family", hn_str_of(family));
    hn_record_add(out, "version", hn_strbuf_str(version));
    for (int i = 0; i < 3; i++) {
        char path[PATH_MAX] = "", stamp[HN_STAMP_BYTES], name[16];
        const query *q = &queries[i + 1];
        if (q->exit != 0 || q->answer.len == 0 || !hn_program_find(q->answer.ptr, path))
            path[0] = 0;
        hn_file_stamp(path, stamp);
        hn_record_add_string(out, part_names[i], path);
        snprintf(name, sizeof(name), "%s.stamp", part_names[i]);
        hn_record_add(out, name, hn_str_of(stamp));
    }
    return hn_strbuf_status(out);
}

static hn_status ask_and_describe(const void *context, hn_strbuf *out) {
    const suspect *s = context;
    query *queries = calloc(QUERY_COUNT, sizeof(*queries));
    if (!queries) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to ask the compiler");
    hn_log("toolchain", HN_LOG_INFO, "asking %s '%s' what it is", s->dialect->title, s->cc);
    hn_status status = ask(s->cc, s->dialect->part, queries);
    if (!status) status = describe(s, queries, out);
    for (int i = 0; i < QUERY_COUNT; i++) hn_strbuf_deinit(&queries[i].answer);
    free(queries);
    return status;
}

static bool parts_unchanged(hn_str findings) {
    for (int i = 0; i < 3; i++) {
        char name[16], stamp[HN_STAMP_BYTES];
        hn_str noted;
        const char *path = hn_record_string(findings, part_names[i]);
        snprintf(name, sizeof(name), "%s.stamp", part_names[i]);
        if (!path || !hn_record_find(findings, name, &noted)) return false;
        hn_file_stamp(path, stamp);
        if (!hn_str_eq(noted, hn_str_of(stamp))) return false;
    }
    return true;
}

/* ---- putting it together ---- */

/* What the identity rests on, besides the findings. The inode is not part of it: copies of one
 * system image on two machines are the same toolchain. */
static hn_status describe_subject(const suspect *s, hn_strbuf *out, int64_t *out_inode) {
    char stamp[HN_STAMP_BYTES];
    struct stat info;
    char *real = realpath(s->cc, NULL);
    if (!real || stat(real, &info) != 0) {
        hn_status status = HN_OS_ERROR(errno, "cannot resolve '%s'", s->cc);
        free(real);
        return status;
    }
    hn_file_stamp(real, stamp);
    *out_inode = (int64_t)info.st_ino;
    hn_record_add_i64(out, "c_toolchain_revision", HN_C_REVISION);
    hn_record_add(out, "language", hn_str_of(s->dialect->language));
    hn_record_add(out, "path", hn_str_of(s->cc));
    hn_record_add(out, "real_path", hn_str_of(real));
    hn_record_add(out, "stamp", hn_str_of(stamp));
    free(real);
    return hn_strbuf_status(out);
}

/* "gcc 12.2.0": the first number of the first line of the version that stands in no brackets. */
static void add_title(hn_str family, hn_str version, hn_strbuf *out) {
    char title[64];
    size_t at = 0, len = 0;
    int depth = 0;
    for (char before = ' '; at < version.len && version.ptr[at] != '\n';
         before = version.ptr[at++]) {
        char c = version.ptr[at];
        depth += (c == '(') - (c == ')');
        if (!depth && before == ' ' && c >= '0' && c <= '9') break;
    }
    while (at + len < version.len && len < 32 && memchr("0123456789.", version.ptr[at + len], 11))
        len++;
    snprintf(title, sizeof(title), HN_STR_FMT "%s%.*s", HN_STR_ARG(family), len ? " " : "",
             (int)len, version.ptr + at);
    hn_record_add_string(out, "title", title);
}

static void write_record(const suspect *s, hn_str findings, hn_strbuf *out) {
    hn_str family, version;
    hn_record_find(findings, "family", &family);
    hn_record_find(findings, "version", &version);
    bool is_clang = hn_str_eq(family, HN_STR("clang")), is_gcc = hn_str_eq(family, HN_STR("gcc"));
    const char *paths[3];
    for (int i = 0; i < 3; i++) {
        paths[i] = hn_record_string(findings, part_names[i]);
        if (!paths[i]) paths[i] = "";
    }
    bool has_parts = paths[2][0] && (is_clang || (is_gcc && paths[0][0] && paths[1][0]));
    add_title(family, version, out);
    hn_record_add_string(out, "cc", s->cc);
    for (int i = 0; i < 3; i++) hn_record_add_string(out, part_names[i], paths[i]);
    hn_record_add_i64(out, "is_clang", is_clang);
    hn_record_add_i64(out, "is_direct", s->dialect->is_bare && has_parts && is_elf(s->cc));
}

hn_status hn_c_probe(const hn_c_dialect *dialect, hn_store *store, hn_toolchain *out) {
    char cc[PATH_MAX];
    HN_TRY(find_compiler(dialect, cc));
    const suspect s = {dialect, cc};
    hn_strbuf subject, findings;
    hn_strbuf_init(&subject);
    hn_strbuf_init(&findings);
    int64_t inode = 0;
    hn_status status = describe_subject(&s, &subject, &inode);
    size_t subject_len = subject.len;
    hn_record_add_i64(&subject, "inode", inode);
    if (!status) status = hn_strbuf_status(&subject);
    const hn_findings question = {hn_strbuf_str(&subject), parts_unchanged, ask_and_describe, &s};
    if (!status) status = hn_findings_learn(store, &question, &findings);
    if (!status) {
        write_record(&s, hn_strbuf_str(&findings), &out->record);
        out->identity =
            hn_digest_of_two((hn_str){subject.ptr, subject_len}, hn_strbuf_str(&findings));
    }
    hn_strbuf_deinit(&subject);
    hn_strbuf_deinit(&findings);
    return status;
}

hn_status hn_c_tools_read(hn_str record, hn_c_tools *out) {
    *out = (hn_c_tools){
        .cc = hn_record_string(record, "cc"),
        .cc1 = hn_record_string(record, "cc1"),
        .as = hn_record_string(record, "as"),
        .ld = hn_record_string(record, "ld"),
        .is_clang = hn_record_find_i64(record, "is_clang", 0) != 0,
        .is_direct = hn_record_find_i64(record, "is_direct", 0) != 0,
    };
    if (!out->cc || !out->cc1 || !out->as || !out->ld)
        return HN_ERROR(HN_CORRUPT, "the description of the C toolchain lacks a path");
    return NULL;
}
