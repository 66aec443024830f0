/* c_compile.c: one C or C++ source text to one shared object.
 *
 * C is compiled directly: the parts of the compiler are called one after the other, each reading
 * from and writing to a file in memory: cc1, as, ld for gcc; clang, ld for clang. That saves the
 * driver, collect2, the linker plugin and all temporary files. Measured on two cores of an AMD EPYC
 * server, gcc 12.2, median ms of wall and processor time: empty unit 26 and 25 through the driver,
 * 19 and 18 directly; the sum over parts is what counts when every core compiles. Wrapper scripts,
 * and flags that only the driver understands, need the driver, called as a person would, in a
 * temporary directory. If a direct compilation fails the driver compiles again, and its outcome and
 * its messages count. A test compares the bytes of the two.
 *
 * Flags: the job's own, then those below, which no job may change: they fix what distributions
 * patch into their compilers and what loading from memory needs. Undefined symbols (memset, memcpy)
 * resolve in the host.
 *
 * C++ always goes through the driver: objects with destructors, exceptions and the library need
 * start files and libraries whose places only the driver knows.
 */
#include "toolchain/c.h"

#include "base/log.h"
#include "base/trace.h"
#include "toolchain/pch.h"
#include "toolchain/standby.h"

#include <stdlib.h>
#include <sys/mman.h>
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

/* Libraries are named in the result only where something of them is used. */
static const char *const cxx_link_flags[] = {
    "-shared",
    "-Wl,--as-needed,-s,--hash-style=gnu,--build-id=none,-z,noexecstack,-z,norelro,-z,noseparate-code",
    NULL,
};

/* ---- flags ---- */

static hn_status add_target_item(const char *item, hn_strbuf *storage) {
    size_t start = storage->len;
    hn_strbuf_puts(storage, "-m");
    hn_list_add(storage, item);
    HN_TRY(hn_strbuf_status(storage));
    if (hn_flag_kind_of(storage->ptr + start, HN_FLAGS_CC) == HN_FLAG_PURE) return NULL;
    return HN_ERROR(
        HN_INVALID_ARGUMENT,
        "cannot compile for target item '%s': it is no known feature of a processor such as 'avx2' and no option such as "
        "'arch=x86-64-v3'; 'native' is not allowed, since it means this machine",
        item);
}

/* The flags of a job as arguments. `storage` keeps those that are made here. */
static hn_status read_flags(const hn_toolchain_job *job, hn_strbuf *storage, hn_tool_args *out,
                            hn_flag_kind *out_worst) {
    const char *item;
    for (hn_str rest = job->target; hn_list_next(&rest, &item);)
        HN_TRY(add_target_item(item, storage));
    for (hn_str rest = hn_strbuf_str(storage); hn_list_next(&rest, &item);)
        hn_tool_args_add(out, item);
    HN_TRY(hn_flags_read(job->flags, HN_FLAGS_CC, out, out_worst));
    hn_tool_args_add_all(out, fixed_flags);
    return NULL;
}

/* Flags that say what an optimizer of gcc leaves alone. clang ends at their names. */
static bool is_of_gcc_alone(const char *flag) { return strncmp(flag, "-fno-tree-loop-", 15) == 0; }

static void drop_flags_of_gcc(hn_tool_args *flags) {
    int kept = 0;
    for (int i = 0; i < flags->count; i++)
        if (!is_of_gcc_alone(flags->items[i])) flags->items[kept++] = flags->items[i];
    flags->count = kept;
    flags->items[kept] = NULL;
}

/* ---- one compilation ---- */

typedef struct c_run {
    const hn_c_dialect *dialect;
    const hn_toolchain_job *job;
    hn_toolchain_reads reads;
    hn_c_tools tools;
    hn_tool_args flags;
    hn_strbuf flag_text, env_text;
    const char *env[HN_DRIVER_ENV_ITEMS + 1]; /* of a direct compilation */
    int64_t deadline_ns;
    bool may_read_files; /* the assembly may: only the driver's compilation lists them */
    hn_tool_failure failure;
} c_run;

/* A part of the compiler: what it is called with as a process of its own, and when it stands by. */
typedef struct c_stage {
    hn_tool_args args, standby_args;
    const char *standby_input[2]; /* standard input of one that stands by: what to try first, and
                                     something else; or NULL */
    const char *output_name;      /* of the file in memory */
} c_stage;

static bool run_standing_by(c_run *run, const c_stage *stage, const hn_tool_run *tool) {
    if (!run->job->standby || tool->stdin_fd < 0 || run->deadline_ns) return false;
    for (int i = 0; i < 2; i++) {
        if (i && !stage->standby_input[i]) break;
        if (hn_standby_run(run->job->standby, tool, stage->standby_input[i], &run->failure.errors,
                           &run->failure.exit))
            return true;
    }
    return false;
}

/* One part of a direct compilation: from the file `in` to a new file in memory. `standby_in_fd`:
 * the same for a tool that stands by; -1: that cannot be used. */
static hn_status run_stage(c_run *run, const c_stage *stage, int in_fd, int standby_in_fd,
                           int *out_fd) {
    *out_fd = -1;
    HN_TRY(hn_tool_memory_file(stage->output_name, out_fd));
    if (lseek(in_fd, 0, SEEK_SET) != 0)
        return HN_ERROR(HN_INTERNAL, "cannot rewind a file in memory");
    hn_tool_run tool = {
        .args = &stage->standby_args,
        .env = run->env,
        .cwd = "/", /* debug information names it; it must not tell runs apart */
        .messages_fd = run->job->messages_fd,
        .log = run->job->log,
        .stdin_fd = standby_in_fd,
        .stdout_fd = *out_fd,
        .deadline_ns = run->deadline_ns,
        .cancel_fd = run->job->cancel_fd,
        .memory_bytes = run->job->memory_bytes,
        .cpu_seconds = run->job->cpu_seconds,
        .own_group = run->job->own_group,
        .guard = run->job->guard,
    };
    run->failure.tool = stage->args.items[0];
    if (run_standing_by(run, stage, &tool)) return NULL;
    if (ftruncate(*out_fd, 0) != 0 || lseek(*out_fd, 0, SEEK_SET) != 0)
        return HN_ERROR(HN_INTERNAL, "cannot empty a file in memory");
    hn_strbuf_reset(&run->failure.errors);
    tool.args = &stage->args;
    tool.stdin_fd = in_fd;
    return hn_tool_run_wait(&tool, &run->failure.errors, &run->failure.exit);
}

/* ---- gcc's cc1, standing by ----
 *
 * Its standard input, which the text would otherwise be, ends with a line that includes the text;
 * there cc1 waits. Before that line stands a function in gcc's RTL notation, the only kind of
 * function that gcc compiles as soon as it has read it. So gcc builds its tables of registers and
 * costs while it stands by, which saves 3 ms for each text; the function's code is thrown away. A
 * cc1 that does not know the notation reports an error and does not stand by; then the line alone
 * is tried. */
#define INCLUDE_LINE "#include \"" HN_STANDBY_INPUT "\"\n"
static const char rtl_input[] =
    "__attribute__((unused)) static void __RTL (startwith (\"final\")) henry_standby_first (void) {\n"
    "(function \"henry_standby_first\" (insn-chain (cnote 1 NOTE_INSN_DELETED)\n"
    "(block 2 (edge-from entry (flags \"FALLTHRU\")) (cnote 2 [bb 2] NOTE_INSN_BASIC_BLOCK)"
    " (edge-to exit (flags \"FALLTHRU\")))))\n"
    "}\n" INCLUDE_LINE;

/* Whether the text means the same when it is included and its lines are counted as those of
 * standard input. Debug information would tell. */
static bool can_be_included(const c_run *run) {
    static const char level[] = "__INCLUDE_LEVEL__";
    for (int i = 0; i < run->flags.count; i++)
        if (strncmp(run->flags.items[i], "-g", 2) == 0) return false;
    return run->job->text.len &&
           !memmem(run->job->text.ptr, run->job->text.len, level, sizeof(level) - 1);
}

/* Whether gcc leaves nothing of a function that nobody uses. */
static bool can_have_rtl_function(const c_run *run) {
    bool optimizes = false;
    for (int i = 0; i < run->flags.count; i++) {
        const char *flag = run->flags.items[i];
        if (strncmp(flag, "-O", 2) == 0) optimizes = strcmp(flag, "-O0") != 0;
        if (strncmp(flag, "-fkeep", 6) == 0 || strncmp(flag, "-fno-toplevel", 13) == 0)
            return false;
    }
    return optimizes;
}

/* The text as cc1 includes it; -1 when it cannot be. */
static int included_source(const c_run *run) {
    static const char line[] = "#line 1 \"<stdin>\"\n";
    int fd = -1;
    if (!run->job->standby || run->tools.is_clang || !can_be_included(run)) return -1;
    hn_status status = hn_tool_memory_file("henry-included", &fd);
    if (!status) status = hn_tool_write_all(fd, line, sizeof(line) - 1);
    if (!status) status = hn_tool_write_all(fd, run->job->text.ptr, run->job->text.len);
    if (status && fd >= 0) close(fd), fd = -1;
    hn_status_free(status);
    return fd;
}

static void compiler_stage(const c_run *run, c_stage *out) {
    hn_tool_args *args = &out->args;
    if (run->tools.is_clang) {
        hn_tool_args_add(args, run->tools.cc);
        hn_tool_args_add_all(args, (const char *const[]){"-c", "-x", run->dialect->language, NULL});
    } else {
        hn_tool_args_add_all(args, (const char *const[]){run->tools.cc1, "-quiet", NULL});
    }
    hn_tool_args_add_all(args, run->flags.items);
    hn_tool_args_add_all(args, (const char *const[]){"-o", "-", "-", NULL});
    out->standby_args = *args;
    out->output_name = "henry-compiled";
}

static void file_stage(const char *program, const char *const *flags, const char *input,
                       const char *name, c_stage *out) {
    hn_tool_args_add(&out->args, program);
    hn_tool_args_add_all(&out->args, flags);
    out->standby_args = out->args;
    hn_tool_args_add_all(&out->args, (const char *const[]){"-o", "/proc/self/fd/1", input, NULL});
    hn_tool_args_add_all(&out->standby_args,
                         (const char *const[]){"-o", HN_STANDBY_OUTPUT, HN_STANDBY_INPUT, NULL});
    out->output_name = name;
}

static hn_status run_compiler(c_run *run, int source_fd, int *out_fd) {
    c_stage stage = {.standby_input = {INCLUDE_LINE}};
    if (can_have_rtl_function(run))
        stage.standby_input[0] = rtl_input, stage.standby_input[1] = INCLUDE_LINE;
    int included_fd = included_source(run);
    compiler_stage(run, &stage);
    hn_status status = run_stage(run, &stage, source_fd, included_fd, out_fd);
    if (included_fd >= 0) close(included_fd);
    return status;
}

/* Whether the assembly in the file may read files. */
static bool assembly_may_read(int fd) {
    struct stat info;
    if (fstat(fd, &info) != 0) return true;
    if (!info.st_size) return false;
    void *bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED) return true;
    bool may = hn_assembly_may_read((hn_str){bytes, (size_t)info.st_size});
    munmap(bytes, (size_t)info.st_size);
    return may;
}

/* Calls the parts. `run->failure.exit` tells whether a tool failed; with `run->may_read_files` the
 * rest was not called. */
static hn_status compile_direct(c_run *run, hn_toolchain_result *out) {
    static const char *const no_flags[] = {NULL};
    const hn_tool_failure *failure = &run->failure;
    int fds[4] = {-1, -1, -1, -1}; /* source, assembly, object, library */
    hn_status status = hn_tool_memory_file("henry-source", &fds[0]);
    if (!status) status = hn_tool_write_all(fds[0], run->job->text.ptr, run->job->text.len);
    int object = run->tools.is_clang ? 1 : 2;
    if (!status) status = run_compiler(run, fds[0], &fds[1]);
    if (!status && !failure->exit && !run->tools.is_clang)
        run->may_read_files = assembly_may_read(fds[1]);
    if (!status && !failure->exit && !run->tools.is_clang && !run->may_read_files) {
        c_stage stage = {.output_name = NULL};
        file_stage(run->tools.as, no_flags, "--", "henry-object", &stage);
        status = run_stage(run, &stage, fds[1], fds[1], &fds[2]);
    }
    if (!status && !failure->exit && !run->may_read_files) {
        c_stage stage = {.output_name = NULL};
        file_stage(run->tools.ld, link_flags, "/proc/self/fd/0", "henry-library", &stage);
        status = run_stage(run, &stage, fds[object], fds[object], &fds[3]);
    }
    if (!status && !failure->exit && !run->may_read_files)
        status = hn_tool_read_all(fds[3], &out->bytes);
    for (int i = 0; i < 4; i++)
        if (fds[i] >= 0) close(fds[i]);
    return status;
}

static void driver_args(const c_run *run, const char *output, const char *source,
                        hn_tool_args *out) {
    const char *language = run->dialect->language;
    *out = (hn_tool_args){.count = 0};
    hn_tool_args_add(out, run->tools.cc);
    if (run->dialect->is_bare) {
        hn_tool_args_add_all(out, run->flags.items);
        hn_tool_args_add_all(out, driver_link_flags);
        hn_tool_args_add_all(out,
                             (const char *const[]){"-o", output, "-x", language, source, NULL});
    } else { /* a library that stands before the source is not "needed" yet */
        hn_tool_args_add_all(out, cxx_link_flags);
        hn_tool_args_add_all(
            out, (const char *const[]){"-o", output, "-x", language, source, "-x", "none", NULL});
        hn_tool_args_add_all(out, run->flags.items);
    }
}

/* ---- what was read ---- */

#define HEADERS_RULE   "kernel.d"
#define ASSEMBLER_RULE "kernel.s.d"

/* gcc's assembler tells what it read. clang has one of its own, which does not: another one takes
 * its place where a text may have assembler in it. */
static bool is_assembler_asked(const c_run *run) {
    return !run->tools.is_clang || run->reads == HN_READS_HEADERS ||
           hn_text_may_assemble(run->job->text, run->job->flags);
}

static void add_list_flags(const c_run *run, bool asks_assembler, hn_tool_args *args) {
    if (run->reads == HN_READS_HEADERS)
        hn_tool_args_add_all(args, (const char *const[]){"-MD", "-MF", HEADERS_RULE, NULL});
    if (asks_assembler && run->tools.is_clang) hn_tool_args_add(args, "-fno-integrated-as");
    if (asks_assembler) hn_tool_args_add(args, "-Wa,--MD," ASSEMBLER_RULE);
}

/* The list of headers, and whether all that was read is on it. */
static hn_status note_files(const c_run *run, const hn_driver *driver, hn_toolchain_result *out) {
    const char *names[3] = {NULL};
    int count = 0;
    bool is_told = hn_driver_has(driver, ASSEMBLER_RULE), is_empty = true;
    if (run->reads == HN_READS_HEADERS) names[count++] = HEADERS_RULE;
    if (is_told) names[count++] = ASSEMBLER_RULE;
    hn_strbuf dirs;
    hn_strbuf_init(&dirs);
    hn_flags_dirs(run->job->flags, HN_FLAGS_CC, &dirs);
    hn_status status = hn_strbuf_status(&dirs);
    if (!status)
        status = hn_driver_headers(driver, names, hn_strbuf_str(&dirs), &is_empty, &out->headers);
    hn_strbuf_deinit(&dirs);
    if (!is_told)
        out->is_unlisted =
            run->reads == HN_READS_HEADERS || hn_text_may_assemble(run->job->text, run->job->flags);
    if (run->reads == HN_READS_NOTHING) {
        out->is_unlisted |= !is_empty;
        hn_strbuf_reset(&out->headers);
    }
    return status;
}

/* `pch`: the precompiled header of the lines that the text, as written, begins without; NULL:
 * none. */
static hn_status run_driver(c_run *run, hn_driver *driver, bool asks_assembler, const char *pch,
                            hn_toolchain_result *out) {
    hn_tool_args args;
    driver_args(run, "kernel.so", run->dialect->source, &args);
    if (run->reads != HN_READS_FILES) add_list_flags(run, asks_assembler, &args);
    if (pch)
        hn_tool_args_add_all(&args, (const char *const[]){"-fpch-deps", "-include", pch, NULL});
    HN_TRY(hn_driver_run(driver, &args));
    if (driver->failure.exit) return NULL;
    HN_TRY(hn_driver_read_output(driver, "kernel.so", &out->bytes));
    return run->reads != HN_READS_FILES ? note_files(run, driver, out) : NULL;
}

/* ---- precompiled headers ---- */

/* Debug information tells where a header is included, and -include would come before the lines. */
static bool can_precompile(const c_run *run) {
    bool can = run->job->pch_dir && !run->dialect->is_bare && !run->tools.is_clang &&
               run->tools.cc1[0] && run->reads == HN_READS_HEADERS;
    for (int i = 0; can && i < run->flags.count; i++)
        can = strncmp(run->flags.items[i], "-g", 2) != 0 &&
              strncmp(run->flags.items[i], "-include", 8) != 0;
    return can && !memmem(run->job->text.ptr, run->job->text.len, "__INCLUDE_LEVEL__", 17);
}

/* Of the compiler, its flags and its environment. */
static hn_status pch_subject(const c_run *run, hn_digest *out) {
    hn_strbuf text;
    char stamp[HN_STAMP_BYTES];
    hn_strbuf_init(&text);
    const char *const programs[] = {run->tools.cc, run->tools.cc1};
    for (int i = 0; i < 2; i++) {
        hn_file_stamp(programs[i], stamp);
        hn_list_add(&text, programs[i]);
        hn_list_add(&text, stamp);
    }
    for (int i = 0; i < run->flags.count; i++) hn_list_add(&text, run->flags.items[i]);
    hn_list_add(&text, "");
    hn_strbuf_append(&text, run->job->env.ptr, run->job->env.len);
    *out = hn_digest_of(text.ptr, text.len);
    hn_status status = hn_strbuf_status(&text);
    hn_strbuf_deinit(&text);
    return status;
}

static bool make_pch(const c_run *run, const hn_pch *pch, hn_driver *driver) {
    int lock;
    hn_tool_args args = {.count = 0};
    hn_strbuf dirs;
    if (!hn_pch_is_wanted(pch, &lock)) return false;
    hn_strbuf_init(&dirs);
    hn_flags_dirs(run->job->flags, HN_FLAGS_CC, &dirs);
    hn_tool_args_add(&args, run->tools.cc);
    hn_tool_args_add_all(&args, run->flags.items);
    bool ok = !dirs.failed &&
              (hn_pch_is_ready(pch) || hn_pch_make(pch, driver, &args, hn_strbuf_str(&dirs)));
    hn_strbuf_deinit(&dirs);
    close(lock);
    return ok;
}

/* The text with empty lines for its first `len` bytes. */
static hn_status write_rest(const c_run *run, const hn_driver *driver, size_t len) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    for (size_t i = 0; i < len; i++)
        if (run->job->text.ptr[i] == '\n') hn_strbuf_putc(&text, '\n');
    hn_strbuf_append(&text, run->job->text.ptr + len, run->job->text.len - len);
    hn_status status = hn_strbuf_status(&text);
    if (!status) status = hn_driver_write(driver, run->dialect->source, hn_strbuf_str(&text));
    hn_strbuf_deinit(&text);
    return status;
}

/* False: the text is to be compiled as a whole. What fails here fails there again, with the
 * messages that people know. */
static bool run_with_pch(c_run *run, hn_driver *driver, hn_toolchain_result *out) {
    char header[PATH_MAX];
    hn_pch pch;
    hn_digest subject;
    size_t len = can_precompile(run) ? hn_pch_length(run->job->text) : 0;
    if (!len) return false;
    hn_status status = pch_subject(run, &subject);
    bool ok = !status &&
              hn_pch_init(&pch, run->job->pch_dir, (hn_str){run->job->text.ptr, len}, &subject) &&
              (hn_pch_is_ready(&pch) || make_pch(run, &pch, driver)) && hn_pch_header(&pch, header);
    if (ok) status = write_rest(run, driver, len);
    if (ok && !status) status = run_driver(run, driver, true, header, out);
    ok = ok && !status && !driver->failure.exit;
    hn_status_free(status);
    if (ok) return true;
    hn_strbuf_reset(&driver->failure.errors);
    hn_strbuf_reset(&out->bytes);
    hn_strbuf_reset(&out->headers);
    out->is_unlisted = false;
    driver->failure.exit = 0;
    return false;
}

/* With clang it may be the other assembler that failed. */
static hn_status run_in_driver(c_run *run, hn_driver *driver, hn_toolchain_result *out) {
    bool asks_assembler = is_assembler_asked(run);
    if (run_with_pch(run, driver, out)) return NULL;
    HN_TRY(hn_driver_write(driver, run->dialect->source, run->job->text));
    HN_TRY(run_driver(run, driver, asks_assembler, NULL, out));
    if (!driver->failure.exit || !asks_assembler || !run->tools.is_clang) return NULL;
    hn_strbuf_reset(&driver->failure.errors);
    return run_driver(run, driver, false, NULL, out);
}

/* Calls the compiler's driver. */
static hn_status compile_driver(c_run *run, hn_toolchain_result *out) {
    hn_driver driver;
    HN_TRY(hn_driver_begin(&driver, run->job, run->deadline_ns));
    hn_status status = run_in_driver(run, &driver, out);
    run->failure.tool = run->tools.cc;
    run->failure.exit = driver.failure.exit;
    hn_strbuf_append(&run->failure.errors, driver.failure.errors.ptr, driver.failure.errors.len);
    hn_driver_end(&driver);
    return status;
}

static hn_status compile_prepared(c_run *run, bool is_direct, hn_toolchain_result *out) {
    if (is_direct) {
        HN_TRY(compile_direct(run, out));
        if (!run->may_read_files && (!run->failure.exit || run->failure.exit > 128)) return NULL;
        /* The driver has the last word: its messages are the ones that people know, and where
         * calling the parts is what failed, it succeeds. */
        hn_strbuf_reset(&run->failure.errors);
        hn_strbuf_reset(&out->bytes);
    }
    HN_TRY(compile_driver(run, out));
    if (is_direct && !run->may_read_files && !run->failure.exit)
        hn_warn_once("toolchain", "c-direct",
                     "the parts of '%s' cannot be called directly; using the slower driver",
                     run->tools.cc);
    return NULL;
}

static hn_status describe_failure(const c_run *run) {
    hn_tool_args args;
    hn_strbuf line;
    hn_strbuf_init(&line);
    driver_args(run, "/dev/null", run->job->source_path ? run->job->source_path : "SOURCE", &args);
    hn_tool_args_print(&args, &line);
    hn_log("toolchain", HN_LOG_INFO, "%s",
           run->failure.errors.ptr ? run->failure.errors.ptr : "no message");
    hn_status status = hn_tool_failure_status(&run->failure, hn_strbuf_str(&line));
    hn_strbuf_deinit(&line);
    return status;
}

hn_status hn_c_compile(const hn_c_dialect *dialect, const hn_toolchain *toolchain,
                       const hn_toolchain_job *job, hn_toolchain_result *out) {
    c_run run = {.dialect = dialect, .job = job, .reads = hn_c_reads(job->text, job->flags)};
    hn_flag_kind worst;
    if (job->timeout_ms > 0) run.deadline_ns = hn_now_ns() + job->timeout_ms * 1000000;
    hn_strbuf_init(&run.flag_text);
    hn_strbuf_init(&run.env_text);
    hn_strbuf_init(&run.failure.errors);
    hn_driver_environment(job->env, NULL, &run.env_text, run.env);
    hn_status status = hn_strbuf_status(&run.env_text);
    if (!status) status = hn_c_tools_read(hn_strbuf_str(&toolchain->record), &run.tools);
    if (!status) status = read_flags(job, &run.flag_text, &run.flags, &worst);
    if (run.tools.is_clang) drop_flags_of_gcc(&run.flags);
    if (!status) {
        bool is_direct = run.tools.is_direct && worst == HN_FLAG_PURE &&
                         run.reads == HN_READS_NOTHING &&
                         !(run.tools.is_clang && hn_text_may_assemble(job->text, job->flags));
        status = compile_prepared(&run, is_direct, out);
    }
    if (!status && run.failure.exit) {
        out->is_deterministic = hn_tool_failure_is_deterministic(&run.failure);
        /* a file that was not found, say */
        out->is_unlisted = hn_text_may_assemble(job->text, job->flags);
        status = describe_failure(&run);
    }
    hn_strbuf_deinit(&run.flag_text);
    hn_strbuf_deinit(&run.env_text);
    hn_strbuf_deinit(&run.failure.errors);
    return status;
}

const char *const hn_c_env_names[] = {"COMPILER_PATH", "GCC_EXEC_PREFIX", "LD_LIBRARY_PATH", NULL};
