/* c_probe.c: finding a C compiler and learning what it is made of.
 *
 * Asking the compiler takes four processes, some 10 ms together. The answers are kept in the store under the
 * file's path, size, time and inode, so a warm start asks nothing; the programs that the driver calls are
 * checked by size and time as well, because a package manager can replace one of them alone. */
#include "toolchain/c.h"
#include "toolchain/tool.h"

#include "base/log.h"
#include "base/oserror.h"
#include "base/trace.h"
#include "cache/record.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { QUERY_COUNT = 4, QUERY_TIMEOUT_MS = 20000 };

static const char *const part_names[3] = {"cc1", "as", "ld"};

/* ---- looking for programs ---- */

static bool is_program(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

/* An absolute path to `name`: itself when it has a slash, else the first in PATH. */
static bool find_program(const char *name, char out[PATH_MAX]) {
    if (strchr(name, '/')) {
        char *resolved = name[0] == '/' ? NULL : realpath(name, NULL);
        int len = snprintf(out, PATH_MAX, "%s", resolved ? resolved : name);
        free(resolved);
        return len < PATH_MAX && out[0] == '/' && is_program(out);
    }
    const char *path = getenv("PATH");
    if (!path || !path[0]) path = "/usr/local/bin:/usr/bin:/bin";
    while (*path) {
        size_t len = strcspn(path, ":");
        /* A relative member would make the answer depend on the current directory. */
        if (path[0] == '/' && len + strlen(name) + 2 <= PATH_MAX) {
            snprintf(out, PATH_MAX, "%.*s/%s", (int)len, path, name);
            if (is_program(out)) return true;
        }
        path += len + (path[len] == ':');
    }
    return false;
}

static hn_status find_compiler(char out[PATH_MAX]) {
    static const char *const usual[] = {"gcc", "clang", "cc"};
    const char *wanted = getenv("HENRY_CC");
    if (wanted && wanted[0]) {
        if (find_program(wanted, out)) return NULL;
        return HN_ERROR(HN_TOOLCHAIN, "cannot find the compiler '%s' that HENRY_CC names", wanted);
    }
    for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
        if (find_program(usual[i], out)) return NULL;
    return HN_ERROR(HN_TOOLCHAIN,
                    "cannot find a C compiler: neither gcc nor clang is in PATH; install one or set "
                    "HENRY_CC");
}

/* "size:mtime" of a file, or "" when it is not there. */
static void file_stamp(const char *path, char out[80]) {
    struct stat info;
    out[0] = 0;
    if (!path[0] || stat(path, &info) != 0) return;
    snprintf(out, 80, "%lld:%lld.%09ld", (long long)info.st_size, (long long)info.st_mtim.tv_sec,
             info.st_mtim.tv_nsec);
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
    const char *env[HN_C_ENV_ITEMS + 1];
    hn_c_environment(HN_STR(""), NULL, &env_text, env);
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
    while (!status && q->answer.len && q->answer.ptr[q->answer.len - 1] == '\n')
        q->answer.ptr[--q->answer.len] = 0;
    return status;
}

/* Runs the queries at once; a wrapper script is only asked for its version, since it may take anything else
 * for a compilation. The answers are to be deinited also after an error. */
static hn_status ask(const char *cc, query queries[QUERY_COUNT]) {
    static const char *const options[QUERY_COUNT] = {"--version", "-print-prog-name=cc1",
                                                     "-print-prog-name=as", "-print-prog-name=ld"};
    hn_status status = NULL;
    int count = is_elf(cc) ? QUERY_COUNT : 1;
    for (int i = 0; i < QUERY_COUNT; i++) {
        if (status || i >= count)
            queries[i] = (query){.is_started = false, .exit = 127};
        else
            status = query_start(&queries[i], cc, options[i]);
    }
    for (int i = 0; i < QUERY_COUNT; i++) {
        hn_status ended = query_finish(&queries[i]);
        if (status)
            hn_status_free(ended);
        else
            status = ended;
    }
    return status;
}

/* Appends the findings: family, version, and path and stamp of each part. */
static hn_status describe(const char *cc, query queries[QUERY_COUNT], hn_strbuf *out) {
    const hn_strbuf *version = &queries[0].answer;
    if (queries[0].exit != 0 || version->len == 0)
        return HN_ERROR(HN_TOOLCHAIN,
                        "cannot use the C compiler '%s': '--version' ended with %d and %zu bytes", cc,
                        queries[0].exit, version->len);
    const char *family = strstr(version->ptr, "clang")                      ? "clang"
                         : strstr(version->ptr, "Free Software Foundation") ? "gcc"
                                                                            : "other";
    hn_record_add(out, "family", hn_str_of(family));
    hn_record_add(out, "version", hn_strbuf_str(version));
    for (int i = 0; i < 3; i++) {
        char path[PATH_MAX] = "", stamp[80], name[16];
        const query *q = &queries[i + 1];
        if (q->exit != 0 || q->answer.len == 0 || !find_program(q->answer.ptr, path)) path[0] = 0;
        file_stamp(path, stamp);
        hn_record_add(out, part_names[i], (hn_str){path, strlen(path) + 1});
        snprintf(name, sizeof(name), "%s.stamp", part_names[i]);
        hn_record_add(out, name, hn_str_of(stamp));
    }
    return hn_strbuf_status(out);
}

static hn_status ask_and_describe(const char *cc, hn_strbuf *out) {
    query *queries = calloc(QUERY_COUNT, sizeof(*queries));
    if (!queries) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to ask the compiler");
    hn_status status = ask(cc, queries);
    if (!status) status = describe(cc, queries, out);
    for (int i = 0; i < QUERY_COUNT; i++) hn_strbuf_deinit(&queries[i].answer);
    free(queries);
    return status;
}

/* ---- remembering ---- */

/* A value that is a C string; NULL when it is not one. */
static const char *find_string(hn_str record, const char *name) {
    hn_str value;
    if (!hn_record_find(record, name, &value) || value.len == 0 || value.ptr[value.len - 1]) return NULL;
    return value.ptr;
}

static bool parts_unchanged(hn_str findings) {
    for (int i = 0; i < 3; i++) {
        char name[16], stamp[80];
        hn_str noted;
        const char *path = find_string(findings, part_names[i]);
        snprintf(name, sizeof(name), "%s.stamp", part_names[i]);
        if (!path || !hn_record_find(findings, name, &noted)) return false;
        file_stamp(path, stamp);
        if (!hn_str_eq(noted, hn_str_of(stamp))) return false;
    }
    return true;
}

/* The findings about the compiler that `subject` identifies: remembered ones, or fresh ones. */
static hn_status learn(hn_store *store, const char *cc, hn_str subject, hn_strbuf *out) {
    hn_digest key = hn_digest_of(subject.ptr, subject.len);
    hn_store_entry entry;
    if (hn_store_get(store, HN_STORE_TOOLCHAIN, &key, &entry)) {
        hn_str findings = {(const char *)entry.bytes, entry.len};
        bool is_good = parts_unchanged(findings);
        if (is_good) hn_strbuf_append(out, findings.ptr, findings.len);
        hn_store_entry_deinit(&entry);
        if (is_good) return hn_strbuf_status(out);
    }
    hn_log("toolchain", HN_LOG_INFO, "asking C compiler '%s' what it is", cc);
    HN_TRY(ask_and_describe(cc, out));
    hn_store_put(
        store,
        &(hn_store_put_args){
            .ns = HN_STORE_TOOLCHAIN, .key = &key, .bytes = out->ptr, .len = out->len, .record = subject});
    return NULL;
}

/* ---- putting it together ---- */

/* What the identity rests on, besides the findings. The inode is not part of it: copies of one system image
 * on two machines are the same toolchain. */
static hn_status describe_subject(const char *cc, hn_strbuf *out, int64_t *out_inode) {
    char stamp[80];
    struct stat info;
    char *real = realpath(cc, NULL);
    if (!real || stat(real, &info) != 0) {
        hn_status status = HN_OS_ERROR(errno, "cannot resolve '%s'", cc);
        free(real);
        return status;
    }
    file_stamp(real, stamp);
    *out_inode = (int64_t)info.st_ino;
    hn_record_add_i64(out, "c_toolchain_revision", HN_C_REVISION);
    hn_record_add(out, "path", hn_str_of(cc));
    hn_record_add(out, "real_path", hn_str_of(real));
    hn_record_add(out, "stamp", hn_str_of(stamp));
    free(real);
    return hn_strbuf_status(out);
}

static void write_record(const char *cc, hn_str findings, hn_strbuf *out) {
    hn_str family;
    hn_record_find(findings, "family", &family);
    bool is_clang = hn_str_eq(family, HN_STR("clang")), is_gcc = hn_str_eq(family, HN_STR("gcc"));
    const char *paths[3];
    for (int i = 0; i < 3; i++) {
        paths[i] = find_string(findings, part_names[i]);
        if (!paths[i]) paths[i] = "";
    }
    bool is_direct = is_elf(cc) && paths[2][0] && (is_clang || (is_gcc && paths[0][0] && paths[1][0]));
    hn_record_add(out, "cc", (hn_str){cc, strlen(cc) + 1});
    for (int i = 0; i < 3; i++) hn_record_add(out, part_names[i], (hn_str){paths[i], strlen(paths[i]) + 1});
    hn_record_add_i64(out, "is_clang", is_clang);
    hn_record_add_i64(out, "is_direct", is_direct);
}

hn_status hn_c_probe(hn_store *store, hn_toolchain *out) {
    char cc[PATH_MAX];
    HN_TRY(find_compiler(cc));
    hn_strbuf subject, findings;
    hn_strbuf_init(&subject);
    hn_strbuf_init(&findings);
    int64_t inode = 0;
    hn_status status = describe_subject(cc, &subject, &inode);
    size_t subject_len = subject.len;
    hn_record_add_i64(&subject, "inode", inode);
    if (!status) status = hn_strbuf_status(&subject);
    if (!status) status = learn(store, cc, hn_strbuf_str(&subject), &findings);
    if (!status) {
        write_record(cc, hn_strbuf_str(&findings), &out->record);
        hn_digest_state state;
        hn_digest_begin(&state);
        hn_digest_update(&state, subject.ptr, subject_len);
        hn_digest_update(&state, findings.ptr, findings.len);
        out->identity = hn_digest_end(&state);
    }
    hn_strbuf_deinit(&subject);
    hn_strbuf_deinit(&findings);
    return status;
}

hn_status hn_c_tools_read(hn_str record, hn_c_tools *out) {
    *out = (hn_c_tools){
        .cc = find_string(record, "cc"),
        .cc1 = find_string(record, "cc1"),
        .as = find_string(record, "as"),
        .ld = find_string(record, "ld"),
        .is_clang = hn_record_find_i64(record, "is_clang", 0) != 0,
        .is_direct = hn_record_find_i64(record, "is_direct", 0) != 0,
    };
    if (!out->cc || !out->cc1 || !out->as || !out->ld)
        return HN_ERROR(HN_CORRUPT, "the description of the C toolchain lacks a path");
    return NULL;
}

static void add_variable(hn_strbuf *list, const char *name, const char *value) {
    hn_strbuf_printf(list, "%s=%s", name, value);
    hn_strbuf_append(list, "", 1);
}

static void pass_on(const char *name, hn_strbuf *list) {
    const char *value = getenv(name);
    if (value) add_variable(list, name, value);
}

/* PATH finds the tools, whose identity is in the key already; HOME and TMPDIR are for wrappers. None of the
 * three can change what the tools produce. A fixed date makes __DATE__ reproducible. */
void hn_c_environment(hn_str job_env, const char *temp_dir, hn_strbuf *storage,
                      const char *out_items[HN_C_ENV_ITEMS + 1]) {
    hn_list_add(storage, "LC_ALL=C");
    hn_list_add(storage, "SOURCE_DATE_EPOCH=0");
    pass_on("PATH", storage);
    pass_on("HOME", storage);
    if (temp_dir)
        add_variable(storage, "TMPDIR", temp_dir);
    else
        pass_on("TMPDIR", storage);
    hn_strbuf_append(storage, job_env.ptr, job_env.len);
    int count = 0;
    hn_str rest = hn_strbuf_str(storage);
    while (count < HN_C_ENV_ITEMS && hn_list_next(&rest, &out_items[count])) count++;
    out_items[count] = NULL;
}
