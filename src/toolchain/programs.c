/* programs.c: finding the programs of a toolchain, and remembering what they answered. See
 * driver.h. */
#include "toolchain/driver.h"

#include "base/log.h"
#include "base/trace.h"
#include "cache/record.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ASK_TIMEOUT_MS = 20000 };

bool hn_is_program(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

bool hn_program_find(const char *name, char out[PATH_MAX]) {
    if (strchr(name, '/')) {
        char *resolved = name[0] == '/' ? NULL : realpath(name, NULL);
        int len = snprintf(out, PATH_MAX, "%s", resolved ? resolved : name);
        free(resolved);
        return len < PATH_MAX && out[0] == '/' && hn_is_program(out);
    }
    const char *path = getenv("PATH");
    if (!path || !path[0]) path = "/usr/local/bin:/usr/bin:/bin";
    while (*path) {
        size_t len = strcspn(path, ":");
        /* A relative member would make the answer depend on the current directory. */
        if (path[0] == '/' && len + strlen(name) + 2 <= PATH_MAX) {
            snprintf(out, PATH_MAX, "%.*s/%s", (int)len, path, name);
            if (hn_is_program(out)) return true;
        }
        path += len + (path[len] == ':');
    }
    return false;
}

void hn_file_stamp(const char *path, char out[HN_STAMP_BYTES]) {
    struct stat info;
    out[0] = 0;
    if (!path[0] || stat(path, &info) != 0) return;
    snprintf(out, HN_STAMP_BYTES, "%lld:%lld.%09ld", (long long)info.st_size,
             (long long)info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
}

hn_status hn_program_ask(const char *program, const char *option, hn_strbuf *out, int *out_exit) {
    int fd;
    hn_tool_args args = {.count = 0};
    hn_strbuf env_text;
    const char *env[HN_DRIVER_ENV_ITEMS + 1];
    hn_tool_args_add_all(&args, (const char *const[]){program, option, NULL});
    HN_TRY(hn_tool_memory_file("henry-answer", &fd));
    hn_strbuf_init(&env_text);
    hn_driver_environment(HN_STR(""), NULL, &env_text, env);
    const hn_tool_run run = {
        .args = &args,
        .env = env,
        .stdin_fd = -1,
        .stdout_fd = fd,
        .deadline_ns = hn_now_ns() + ASK_TIMEOUT_MS * 1000000LL,
        .own_group = true,
    };
    hn_tool_process process;
    hn_status status = hn_tool_start(&run, &process);
    if (!status) status = hn_tool_finish(&process, NULL, out_exit);
    if (!status) status = hn_tool_read_all(fd, out);
    /* who answers has not failed */
    if (!status && *out_exit == HN_EXIT_UNKNOWN && out->len) *out_exit = 0;
    close(fd);
    hn_strbuf_deinit(&env_text);
    while (!status && out->len && out->ptr[out->len - 1] == '\n') out->ptr[--out->len] = 0;
    return status;
}

hn_status hn_findings_learn(hn_store *store, const hn_findings *query, hn_strbuf *out) {
    hn_digest key = hn_digest_of(query->subject.ptr, query->subject.len);
    hn_store_entry entry;
    if (hn_store_get(store, HN_STORE_TOOLCHAIN, &key, &entry)) {
        hn_str findings = {(const char *)entry.bytes, entry.len};
        bool is_good = query->is_current ? query->is_current(findings) : findings.len > 0;
        if (is_good) hn_strbuf_append(out, findings.ptr, findings.len);
        hn_store_entry_deinit(&entry);
        if (is_good) return hn_strbuf_status(out);
    }
    HN_TRY(query->ask(query->context, out));
    HN_TRY(hn_strbuf_status(out));
    hn_store_put(store, &(hn_store_put_args){.ns = HN_STORE_TOOLCHAIN,
                                             .key = &key,
                                             .bytes = out->ptr,
                                             .len = out->len,
                                             .record = query->subject});
    return NULL;
}

const char *hn_record_string(hn_str record, const char *name) {
    hn_str value;
    if (!hn_record_find(record, name, &value) || value.len == 0 || value.ptr[value.len - 1])
        return NULL;
    return value.ptr;
}

void hn_record_add_string(hn_strbuf *record, const char *name, const char *value) {
    hn_record_add(record, name, (hn_str){value, strlen(value) + 1});
}
