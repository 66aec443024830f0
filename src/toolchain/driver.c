/* driver.c: see driver.h. */
#include "toolchain/driver.h"

#include "base/file.h"
#include "base/log.h"
#include "base/oserror.h"
#include "base/trace.h"
#include "cache/record.h"
#include "toolchain/flags.h"
#include "toolchain/headers.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- the environment ---- */

static void add_variable(hn_strbuf *list, const char *name, const char *value) {
    hn_strbuf_printf(list, "%s=%s", name, value);
    hn_strbuf_append(list, "", 1);
}

/* Whether the job itself sets a variable. */
static bool is_set_by(hn_str job_env, const char *name) {
    const char *item;
    size_t len = strlen(name);
    while (hn_list_next(&job_env, &item))
        if (strncmp(item, name, len) == 0 && item[len] == '=') return true;
    return false;
}

static void add_unless_set(hn_str job_env, const char *name, const char *value, hn_strbuf *list) {
    if (value && !is_set_by(job_env, name)) add_variable(list, name, value);
}

/* PATH finds the tools, whose identity is in the key already; HOME and TMPDIR are for wrappers.
 * None of the three can change what the tools produce. A fixed date makes __DATE__ reproducible. */
void hn_driver_environment(hn_str job_env, const char *temp_dir, hn_strbuf *storage,
                           const char *out_items[HN_DRIVER_ENV_ITEMS + 1]) {
    add_unless_set(job_env, "LC_ALL", "C", storage);
    add_unless_set(job_env, "SOURCE_DATE_EPOCH", "0", storage);
    add_unless_set(job_env, "PATH", getenv("PATH"), storage);
    add_unless_set(job_env, "HOME", getenv("HOME"), storage);
    add_unless_set(job_env, "TMPDIR", temp_dir ? temp_dir : getenv("TMPDIR"), storage);
    hn_strbuf_append(storage, job_env.ptr, job_env.len);
    int count = 0;
    hn_str rest = hn_strbuf_str(storage);
    while (count < HN_DRIVER_ENV_ITEMS && hn_list_next(&rest, &out_items[count])) count++;
    out_items[count] = NULL;
}

/* ---- failures ---- */

void hn_first_errors(hn_str text, hn_strbuf *out) {
    bool any = memmem(text.ptr, text.len, "error", 5) != NULL;
    int count = 0;
    while (text.len && count < 3) {
        const char *end = memchr(text.ptr, '\n', text.len);
        size_t len = end ? (size_t)(end - text.ptr) : text.len;
        if (len && (!any || memmem(text.ptr, len, "error", 5))) {
            hn_strbuf_puts(out, count++ ? "; " : "");
            hn_strbuf_append(out, text.ptr, hn_str_cut((hn_str){text.ptr, len}, 300));
        }
        size_t used = end ? len + 1 : len;
        text = (hn_str){text.ptr + used, text.len - used};
    }
}

bool hn_tool_failure_is_deterministic(const hn_tool_failure *failure) {
    static const char *const transient[] = {"memory",
                                            "No space left",
                                            "Disk quota",
                                            "Cannot allocate",
                                            "Resource temp",
                                            "Too many open",
                                            "internal compiler error",
                                            "Input/output error",
                                            "died due to signal",
                                            NULL};
    if (failure->exit > 2 || !failure->errors.len) return false;
    for (int i = 0; transient[i]; i++)
        if (strstr(failure->errors.ptr, transient[i])) return false;
    return strstr(failure->errors.ptr, "error") != NULL;
}

hn_status hn_tool_failure_status(const hn_tool_failure *failure, hn_str command) {
    hn_strbuf lines;
    hn_strbuf_init(&lines);
    hn_first_errors(hn_strbuf_str(&failure->errors), &lines);
    bool is_signal = failure->exit > 128 && failure->exit <= 128 + 64;
    hn_status status =
        HN_ERROR(HN_TOOLCHAIN, "'%s' %s %d: " HN_STR_FMT "%s" HN_STR_FMT, failure->tool,
                 is_signal ? "was killed by signal" : "ended with exit status",
                 is_signal ? failure->exit - 128 : failure->exit, HN_STR_ARG(hn_strbuf_str(&lines)),
                 command.len ? HN_JOB_AGAIN : "", HN_STR_ARG(command));
    hn_strbuf_deinit(&lines);
    return status;
}

/* The members of a list, each behind an option: "--flag=-O2". */
static void add_options(hn_str list, const char *option, hn_strbuf *line) {
    hn_strbuf storage;
    const char *item;
    hn_strbuf_init(&storage);
    while (hn_list_next(&list, &item)) {
        hn_tool_args one = {.count = 0};
        hn_strbuf_reset(&storage);
        hn_strbuf_printf(&storage, "%s=%s", option, item);
        hn_tool_args_add(&one, hn_strbuf_str(&storage).ptr);
        hn_strbuf_putc(line, ' ');
        hn_tool_args_print(&one, line);
    }
    hn_strbuf_deinit(&storage);
}

/* Is the variable, "NAME=VALUE", one that the host has set, and not the job? */
static bool is_of_host(const hn_toolchain_row *row, const char *item) {
    for (const char *const *name = row->env_names; name && *name; name++) {
        size_t len = strlen(*name);
        if (strncmp(item, *name, len) == 0 && item[len] == '=') return true;
    }
    return false;
}

/* What the host has set stands before the command, for a job may not set it: "env NAME=VALUE henry". */
static void add_environment(const hn_toolchain_row *row, hn_str env, hn_strbuf *own,
                            hn_tool_args *start) {
    const char *item;
    while (hn_list_next(&env, &item)) {
        if (!row || !is_of_host(row, item)) {
            hn_strbuf_append(own, item, strlen(item) + 1);
            continue;
        }
        if (!start->count) hn_tool_args_add(start, "env");
        hn_tool_args_add(start, item);
    }
}

void hn_job_command_print(const hn_job_command *command, hn_strbuf *out) {
    const hn_toolchain_row *row = NULL;
    hn_tool_args start = {.count = 0};
    hn_strbuf own;
    hn_strbuf_init(&own);
    hn_status unknown = hn_toolchain_row_find(hn_str_of(command->language), &row);
    add_environment(row, command->env, &own, &start);
    hn_tool_args_add_all(&start, (const char *const[]){"henry", "kernel", "compile",
                                                       command->path ? command->path : "SOURCE",
                                                       "--language", command->language, NULL});
    hn_tool_args_print(&start, out);
    add_options(command->entries, "--entry", out);
    add_options(command->target, "--target", out);
    add_options(command->flags, "--flag", out);
    /* The command line adds a flag of its own when none says how to optimise. */
    if (row && row->default_flag && !hn_flags_have_level(command->flags))
        hn_strbuf_puts(out, " --flag=-O0");
    add_options(hn_strbuf_str(&own), "--env", out);
    hn_strbuf_puts(out, " -o /dev/null");
    hn_status_free(unknown);
    hn_strbuf_deinit(&own);
}

/* ---- a driver in its directory ---- */

static hn_status make_dir(const char *wanted, char *out, size_t bytes) {
    if (!wanted) return hn_dir_temp(out, bytes);
    if (snprintf(out, bytes, "%s", wanted) >= (int)bytes || mkdir(out, 0700) != 0)
        return HN_OS_ERROR(errno, "cannot make directory '%s'", wanted);
    return NULL;
}

hn_status hn_driver_begin(hn_driver *driver, const hn_toolchain_job *job, int64_t deadline_ns) {
    struct timespec now;
    *driver = (hn_driver){.job = job, .deadline_ns = deadline_ns};
    clock_gettime(CLOCK_REALTIME, &now);
    driver->begin_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    HN_TRY(make_dir(job->scratch_dir, driver->dir, sizeof(driver->dir)));
    hn_strbuf_init(&driver->env_text);
    hn_strbuf_init(&driver->failure.errors);
    hn_driver_environment(job->env, driver->dir, &driver->env_text, driver->env);
    hn_status status = hn_strbuf_status(&driver->env_text);
    if (status) hn_driver_end(driver);
    return status;
}

void hn_driver_end(hn_driver *driver) {
    hn_strbuf_deinit(&driver->env_text);
    hn_strbuf_deinit(&driver->failure.errors);
    hn_status removed = hn_dir_remove(driver->dir);
    if (removed) hn_warn_once("toolchain", "temp-dir", "%s", hn_status_message(removed));
    hn_status_free(removed);
}

hn_status hn_driver_write(const hn_driver *driver, const char *name, hn_str text) {
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", driver->dir, name);
    return hn_file_write_atomic(path, text.ptr, text.len, false);
}

hn_status hn_driver_read(const hn_driver *driver, const char *name, hn_strbuf *out) {
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", driver->dir, name);
    return hn_file_read(path, out);
}

hn_status hn_driver_read_output(const hn_driver *driver, const char *name, hn_strbuf *out) {
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", driver->dir, name);
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return HN_ERROR(
            HN_TOOLCHAIN,
            "'%s' ended with success and wrote no output: it is no compiler, or a flag asks for something else",
            driver->failure.tool);
    return hn_file_read(path, out);
}

hn_status hn_driver_run(hn_driver *driver, const hn_tool_args *args) {
    const hn_tool_run run = {
        .args = args,
        .env = driver->env,
        .cwd = driver->dir,
        .messages_fd = driver->job->messages_fd,
        .log = driver->job->log,
        .stdin_fd = -1,
        .stdout_fd = -1,
        .deadline_ns = driver->deadline_ns,
        .cancel_fd = driver->job->cancel_fd,
        .memory_bytes = driver->job->memory_bytes,
        .cpu_seconds = driver->job->cpu_seconds,
        .own_group = driver->job->own_group,
        .guard = driver->job->guard,
    };
    driver->failure.tool = args->items[0];
    return hn_tool_run_wait(&run, &driver->failure.errors, &driver->failure.exit);
}

bool hn_driver_has(const hn_driver *driver, const char *name) {
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", driver->dir, name);
    return access(path, F_OK) == 0;
}

static bool is_in(const char *path, const char *dir) {
    size_t len = dir ? strlen(dir) : 0;
    return len && strncmp(path, dir, len) == 0 && path[len] == '/';
}

/* The files of the list that are neither in the directory itself, where a compiler keeps its
 * assembly, nor precompiled headers. */
static void drop_own_files(const hn_driver *driver, hn_str paths, hn_strbuf *out) {
    const char *item;
    while (hn_list_next(&paths, &item))
        if (!is_in(item, driver->dir) && !is_in(item, driver->job->pch_dir)) hn_list_add(out, item);
}

hn_status hn_driver_headers(const hn_driver *driver, const char *const *names, hn_str dirs,
                            bool *out_is_empty, hn_strbuf *out) {
    hn_strbuf all, paths, rule;
    hn_status status = NULL;
    hn_strbuf_init(&all);
    hn_strbuf_init(&paths);
    hn_strbuf_init(&rule);
    for (; !status && *names; names++) {
        hn_strbuf_reset(&rule);
        status = hn_driver_read(driver, *names, &rule);
        if (!status) hn_headers_parse_rule(hn_strbuf_str(&rule), &all);
    }
    if (!status) status = hn_strbuf_status(&all);
    if (!status) drop_own_files(driver, hn_strbuf_str(&all), &paths);
    if (!status) status = hn_strbuf_status(&paths);
    *out_is_empty = !paths.len;
    if (!status) status = hn_headers_note(hn_strbuf_str(&paths), dirs, driver->begin_ns, out);
    hn_strbuf_deinit(&all);
    hn_strbuf_deinit(&paths);
    hn_strbuf_deinit(&rule);
    return status;
}
