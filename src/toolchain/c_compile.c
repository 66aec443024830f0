/* c_compile.c: the C row: one source text to one shared object.
 *
 * The short way calls the parts of the compiler themselves, each reading from and writing to a file in
 * memory: cc1, as, ld for gcc; clang, ld for clang. It saves the driver, collect2, the linker plugin and all
 * temporary files. Measured on two cores of an AMD EPYC server, gcc 12.2, median ms of wall and processor
 * time: empty unit 26 and 25 through the driver, 19 and 18 the short way; the sum over parts is what counts
 * when every core compiles. The long way calls the driver as a person would, in a temporary directory. It
 * serves wrapper scripts and flags that only the driver understands, and it has the last word on a failure,
 * so messages are those of the driver. A test compares the bytes of the two.
 *
 * Flags: the job's own, then those below, which no job may change: they fix what distributions patch into
 * their compilers and what loading from memory needs. Undefined symbols (memset, memcpy) resolve in the host.
 */
#include "toolchain/c.h"
#include "toolchain/rows.h"
#include "toolchain/tool.h"

#include "base/file.h"
#include "base/log.h"
#include "base/oserror.h"
#include "base/trace.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const fixed_flags[] = {
    "-fPIC",
    "-fno-asynchronous-unwind-tables", /* nothing unwinds through a kernel */
    "-fno-stack-protector",
    "-fno-stack-clash-protection",
#if defined(__x86_64__) || defined(__i386__)
    "-fcf-protection=none",
#endif
    NULL,
};

/* One segment of code and constants, one page of data: 2 KB instead of 13 KB for a small kernel. */
static const char *const link_flags[] = {
    "-shared",           "-s", "--hash-style=gnu", "--build-id=none",
    "--no-eh-frame-hdr", "-z", "noexecstack",      "-z",
    "norelro",           "-z", "noseparate-code",  NULL,
};
static const char *const driver_link_flags[] = {
    "-shared",
    "-nostdlib",
    "-Wl,-s,--hash-style=gnu,--build-id=none,--no-eh-frame-hdr,-z,noexecstack,-z,norelro,-z,noseparate-code",
    NULL,
};

/* ---- flags ---- */

typedef enum flag_kind {
    FLAG_PURE,    /* cc1 understands it, and it reads no file */
    FLAG_DRIVER,  /* for the driver; reads no file that matters */
    FLAG_FILES,   /* may read files that the key cannot name */
    FLAG_REFUSED, /* changes what comes out, or depends on this machine */
} flag_kind;

static bool starts(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool starts_with_any(const char *flag, const char *const *prefixes) {
    for (; *prefixes; prefixes++)
        if (starts(flag, *prefixes)) return true;
    return false;
}

static flag_kind flag_kind_of(const char *flag) {
    static const char *const driver[] = {"-fopenmp", "-l", "-pthread", NULL};
    static const char *const files[] = {"-fplugin", "-fprofile", "-fauto-profile", "-fsanitize", "-flto",
                                        "-fuse-ld", "-fdump",    "-ftest",         "-fmodule",   "-fpch",
                                        "-fsave",   "-fstack-u", "-fcallg",        "-fopt-info", "-Wl,",
                                        "-Wa,",     "-Wp,",      "-mllvm",         NULL};
    static const char *const pure[] = {"-O", "-f", "-m",    "-D",        "-U", "-W",
                                       "-w", "-g", "-std=", "-pedantic", NULL};
    size_t len = strlen(flag);
    bool is_native = starts(flag, "-m") && len > 7 && strcmp(flag + len - 7, "=native") == 0;
    bool is_output = strcmp(flag, "-c") == 0 || strcmp(flag, "-S") == 0 || strcmp(flag, "-E") == 0 ||
                     strcmp(flag, "-M") == 0 || starts(flag, "-o") || starts(flag, "-x");
    if (flag[0] != '-' || !flag[1] || is_native || is_output) return FLAG_REFUSED;
    if (starts_with_any(flag, driver)) return FLAG_DRIVER;
    if (starts_with_any(flag, files)) return FLAG_FILES;
    bool is_bare = len == 2 && (flag[1] == 'D' || flag[1] == 'U'); /* its value would be another argument */
    return starts_with_any(flag, pure) && !is_bare ? FLAG_PURE : FLAG_FILES;
}

static bool is_target_item(const char *item) {
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.";
    size_t len = strlen(item);
    return len > 0 && item[0] != '-' && item[strspn(item, safe)] == 0 &&
           !(len >= 7 && strcmp(item + len - 7, "=native") == 0);
}

/* The flags of a job as arguments. `storage` keeps those that are made here. */
static hn_status read_flags(const hn_toolchain_job *job, hn_strbuf *storage, hn_tool_args *out,
                            flag_kind *out_worst) {
    const char *item;
    *out_worst = FLAG_PURE;
    for (hn_str rest = job->target; hn_list_next(&rest, &item);) {
        if (!is_target_item(item))
            return HN_ERROR(HN_INVALID_ARGUMENT,
                            "cannot compile for target item '%s': expected a CPU feature such as "
                            "'avx2', or 'name=value', but never 'native'",
                            item);
        hn_strbuf_puts(storage, "-m");
        hn_list_add(storage, item);
    }
    HN_TRY(hn_strbuf_status(storage));
    for (hn_str rest = hn_strbuf_str(storage); hn_list_next(&rest, &item);) hn_tool_args_add(out, item);
    for (hn_str rest = job->flags; hn_list_next(&rest, &item);) {
        flag_kind kind = flag_kind_of(item);
        if (kind == FLAG_REFUSED)
            return HN_ERROR(HN_INVALID_ARGUMENT,
                            "cannot compile with flag '%s': it names a file, another kind of "
                            "output, or this machine",
                            item);
        if (kind > *out_worst) *out_worst = kind;
        hn_tool_args_add(out, item);
    }
    hn_tool_args_add_all(out, fixed_flags);
    return NULL;
}

static const char *skip_blanks(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\v' || *at == '\f')) at++;
    return at;
}

/* Whether the directive whose '#' ends at `at` reads a file, or hides its word. */
static bool directive_reads_files(const char *at, const char *end) {
    static const char *const words[] = {"include", "embed", "import", NULL};
    at = skip_blanks(at, end);
    hn_str rest = {at, (size_t)(end - at)};
    for (int i = 0; words[i]; i++)
        if (hn_str_starts_with(rest, hn_str_of(words[i]))) return true;
    while (at < end && *at >= 'a' && *at <= 'z') at++;
    return at < end && (*at == '\\' || (at == rest.ptr && *at == '/')); /* spliced line, comment */
}

/* Whether the text may read a file, by directive (also spelt with a digraph or trigraph) or by assembler. It
 * may say yes without need, which costs only the disk cache. */
static bool text_reads_files(hn_str text) {
    static const char *const odd[] = {"%:",
                                      "?"
                                      "?=",
                                      "incbin",
                                      ".include",
                                      "__has_",
                                      NULL};
    if (!text.len) return false;
    const char *end = text.ptr + text.len;
    for (const char *at = text.ptr; (at = memchr(at, '#', (size_t)(end - at)));)
        if (directive_reads_files(++at, end)) return true;
    for (int i = 0; odd[i]; i++)
        if (memmem(text.ptr, text.len, odd[i], strlen(odd[i]))) return true;
    return false;
}

static bool c_reads_files(hn_str text, hn_str flags) {
    const char *item;
    while (hn_list_next(&flags, &item))
        if (flag_kind_of(item) >= FLAG_FILES) return true;
    return text_reads_files(text);
}

/* ---- one compilation ---- */

typedef struct c_run {
    const hn_toolchain_job *job;
    hn_c_tools tools;
    hn_tool_args flags;
    hn_strbuf flag_text, env_text;
    const char *env[HN_C_ENV_ITEMS + 1]; /* of the way that is being tried */
    int64_t deadline_ns;
} c_run;

/* How a tool ended, when that was no success. */
typedef struct c_failure {
    const char *tool;
    int exit;
    hn_strbuf errors;
} c_failure;

/* One part of the short way: from the file `in` to a new file in memory. */
static hn_status run_stage(c_run *run, const hn_tool_args *args, int in_fd, const char *name, int *out_fd,
                           c_failure *failure) {
    *out_fd = -1;
    HN_TRY(hn_tool_memory_file(name, out_fd));
    if (lseek(in_fd, 0, SEEK_SET) != 0) return HN_ERROR(HN_INTERNAL, "cannot rewind a file in memory");
    const hn_tool_run tool = {
        .args = args,
        .env = run->env,
        .cwd = "/", /* debug information names it; it must not tell runs apart */
        .stdin_fd = in_fd,
        .stdout_fd = *out_fd,
        .deadline_ns = run->deadline_ns,
        .memory_bytes = run->job->memory_bytes,
        .own_group = run->job->own_group,
    };
    failure->tool = args->items[0];
    return hn_tool_run_wait(&tool, &failure->errors, &failure->exit);
}

static void compiler_args(const c_run *run, hn_tool_args *out) {
    *out = (hn_tool_args){.count = 0};
    if (run->tools.is_clang) {
        hn_tool_args_add(out, run->tools.cc);
        hn_tool_args_add_all(out, (const char *const[]){"-c", "-x", "c", NULL});
    } else {
        hn_tool_args_add_all(out, (const char *const[]){run->tools.cc1, "-quiet", NULL});
    }
    hn_tool_args_add_all(out, run->flags.items);
    hn_tool_args_add_all(out, (const char *const[]){"-o", "-", "-", NULL});
}

/* The short way. `failure->exit` tells whether a tool failed. */
static hn_status compile_direct(c_run *run, hn_toolchain_result *out, c_failure *failure) {
    hn_tool_args args;
    int fds[4] = {-1, -1, -1, -1}; /* source, assembly, object, library */
    hn_status status = hn_tool_memory_file("henry-source", &fds[0]);
    if (!status) status = hn_tool_write_all(fds[0], run->job->text.ptr, run->job->text.len);
    compiler_args(run, &args);
    int object = run->tools.is_clang ? 1 : 2;
    if (!status) status = run_stage(run, &args, fds[0], "henry-compiled", &fds[1], failure);
    if (!status && !failure->exit && !run->tools.is_clang) {
        args = (hn_tool_args){.count = 0};
        hn_tool_args_add_all(&args,
                             (const char *const[]){run->tools.as, "-o", "/proc/self/fd/1", "--", NULL});
        status = run_stage(run, &args, fds[1], "henry-object", &fds[2], failure);
    }
    if (!status && !failure->exit) {
        args = (hn_tool_args){.count = 0};
        hn_tool_args_add(&args, run->tools.ld);
        hn_tool_args_add_all(&args, link_flags);
        hn_tool_args_add_all(&args, (const char *const[]){"-o", "/proc/self/fd/1", "/proc/self/fd/0", NULL});
        status = run_stage(run, &args, fds[object], "henry-library", &fds[3], failure);
    }
    if (!status && !failure->exit) status = hn_tool_read_all(fds[3], &out->bytes);
    for (int i = 0; i < 4; i++)
        if (fds[i] >= 0) close(fds[i]);
    return status;
}

static void driver_args(const c_run *run, const char *output, const char *source, hn_tool_args *out) {
    *out = (hn_tool_args){.count = 0};
    hn_tool_args_add(out, run->tools.cc);
    hn_tool_args_add_all(out, run->flags.items);
    hn_tool_args_add_all(out, driver_link_flags);
    hn_tool_args_add_all(out, (const char *const[]){"-o", output, "-x", "c", source, NULL});
}

static hn_status run_driver(c_run *run, const char *dir, hn_toolchain_result *out, c_failure *failure) {
    char path[PATH_MAX];
    hn_tool_args args;
    snprintf(path, sizeof(path), "%s/kernel.c", dir);
    HN_TRY(hn_file_write_atomic(path, run->job->text.ptr, run->job->text.len, false));
    driver_args(run, "kernel.so", "kernel.c", &args);
    const hn_tool_run tool = {
        .args = &args,
        .env = run->env,
        .cwd = dir,
        .stdin_fd = -1,
        .stdout_fd = -1,
        .deadline_ns = run->deadline_ns,
        .memory_bytes = run->job->memory_bytes,
        .own_group = run->job->own_group,
    };
    failure->tool = run->tools.cc;
    HN_TRY(hn_tool_run_wait(&tool, &failure->errors, &failure->exit));
    if (failure->exit) return NULL;
    snprintf(path, sizeof(path), "%s/kernel.so", dir);
    return hn_file_read(path, &out->bytes);
}

static hn_status make_scratch(const c_run *run, char out[PATH_MAX - 16]) {
    const char *wanted = run->job->scratch_dir;
    if (!wanted) return hn_dir_temp(out, PATH_MAX - 16);
    if (snprintf(out, PATH_MAX - 16, "%s", wanted) >= PATH_MAX - 16 || mkdir(out, 0700) != 0)
        return HN_OS_ERROR(errno, "cannot make directory '%s'", wanted);
    return NULL;
}

/* The long way. The driver's own temporary files go to the same directory, so they go with it. */
static hn_status compile_driver(c_run *run, hn_toolchain_result *out, c_failure *failure) {
    char dir[PATH_MAX - 16];
    hn_strbuf env_text;
    HN_TRY(make_scratch(run, dir));
    hn_strbuf_init(&env_text);
    hn_c_environment(run->job->env, dir, &env_text, run->env);
    hn_status status = hn_strbuf_status(&env_text);
    if (!status) status = run_driver(run, dir, out, failure);
    hn_strbuf_deinit(&env_text);
    hn_status removed = hn_dir_remove(dir);
    if (removed) hn_warn_once("toolchain", "temp-dir", "%s", hn_status_message(removed));
    hn_status_free(removed);
    return status;
}

/* ---- failures ---- */

/* Up to three lines that say "error", or the first lines when none does, joined by "; ". */
static void first_errors(hn_str text, hn_strbuf *out) {
    bool any = memmem(text.ptr, text.len, "error", 5) != NULL;
    int count = 0;
    while (text.len && count < 3) {
        const char *end = memchr(text.ptr, '\n', text.len);
        size_t len = end ? (size_t)(end - text.ptr) : text.len;
        if (len && (!any || memmem(text.ptr, len, "error", 5))) {
            hn_strbuf_puts(out, count++ ? "; " : "");
            hn_strbuf_append(out, text.ptr, len < 300 ? len : 300);
        }
        size_t used = end ? len + 1 : len;
        text = (hn_str){text.ptr + used, text.len - used};
    }
}

/* Only a diagnosis of the source is sure to come again; a lack of memory or disk, or a crash, is not. */
static bool is_deterministic(const c_failure *failure) {
    static const char *const transient[] = {"memory",
                                            "No space left",
                                            "Disk quota",
                                            "Cannot allocate",
                                            "Resource temp",
                                            "Too many open",
                                            "internal compiler error",
                                            "Input/output error",
                                            NULL};
    if (failure->exit != 1 || !failure->errors.len) return false;
    for (int i = 0; transient[i]; i++)
        if (strstr(failure->errors.ptr, transient[i])) return false;
    return strstr(failure->errors.ptr, "error") != NULL;
}

static hn_status describe_failure(c_run *run, const c_failure *failure) {
    hn_strbuf lines, command;
    hn_tool_args args;
    hn_strbuf_init(&lines);
    hn_strbuf_init(&command);
    first_errors(hn_strbuf_str(&failure->errors), &lines);
    driver_args(run, "/dev/null", run->job->source_path ? run->job->source_path : "SOURCE", &args);
    hn_tool_args_print(&args, &command);
    const char *what = failure->exit > 128 ? "was killed by signal" : "ended with exit status";
    int number = failure->exit > 128 ? failure->exit - 128 : failure->exit;
    hn_status status =
        HN_ERROR(HN_TOOLCHAIN, "'%s' %s %d: " HN_STR_FMT "; to run it again: " HN_STR_FMT, failure->tool,
                 what, number, HN_STR_ARG(hn_strbuf_str(&lines)), HN_STR_ARG(hn_strbuf_str(&command)));
    hn_strbuf_deinit(&lines);
    hn_strbuf_deinit(&command);
    return status;
}

static hn_status compile_prepared(c_run *run, bool is_direct, hn_toolchain_result *out, c_failure *failure) {
    if (is_direct) {
        HN_TRY(compile_direct(run, out, failure));
        if (!failure->exit || failure->exit > 128) return NULL;
        /* The driver has the last word: its messages are the ones that people know, and where calling the
         * parts is what failed, it succeeds. */
        hn_strbuf_reset(&failure->errors);
        hn_strbuf_reset(&out->bytes);
    }
    HN_TRY(compile_driver(run, out, failure));
    if (is_direct && !failure->exit)
        hn_warn_once("toolchain", "c-direct",
                     "the parts of '%s' cannot be called directly; using the slower driver", run->tools.cc);
    return NULL;
}

static hn_status c_compile(const hn_toolchain *toolchain, const hn_toolchain_job *job,
                           hn_toolchain_result *out) {
    c_run run = {.job = job};
    c_failure failure = {.exit = 0};
    flag_kind worst;
    if (job->timeout_ms > 0) run.deadline_ns = hn_now_ns() + job->timeout_ms * 1000000;
    hn_strbuf_init(&run.flag_text);
    hn_strbuf_init(&run.env_text);
    hn_strbuf_init(&failure.errors);
    hn_c_environment(job->env, NULL, &run.env_text, run.env);
    hn_status status = hn_strbuf_status(&run.env_text);
    if (!status) status = hn_c_tools_read(hn_strbuf_str(&toolchain->record), &run.tools);
    if (!status) status = read_flags(job, &run.flag_text, &run.flags, &worst);
    if (!status) {
        bool is_direct = run.tools.is_direct && worst == FLAG_PURE && !text_reads_files(job->text);
        status = compile_prepared(&run, is_direct, out, &failure);
    }
    if (!status && failure.exit) {
        out->is_deterministic = is_deterministic(&failure);
        hn_log("toolchain", HN_LOG_INFO, "%s", failure.errors.ptr ? failure.errors.ptr : "no message");
        status = describe_failure(&run, &failure);
    }
    hn_strbuf_deinit(&run.flag_text);
    hn_strbuf_deinit(&run.env_text);
    hn_strbuf_deinit(&failure.errors);
    return status;
}

/* Variables that gcc, clang and ld obey and that the tools are given. */
static const char *const c_env_names[] = {"COMPILER_PATH", "GCC_EXEC_PREFIX", "LD_LIBRARY_PATH", NULL};

const hn_toolchain_row hn_toolchain_row_c = {
    .language = "c",
    .source_suffix = ".c",
    .env_names = c_env_names,
    .probe = hn_c_probe,
    .compile = c_compile,
    .reads_files = c_reads_files,
};
