/* nvcc_row.c: the language "nvcc": CUDA C++ by nvcc, for texts that need the toolkit's headers,
 * device linking, or a host shared object with its device code inside.
 *
 * The target is a list of architectures; with "host" among them the result is one shared object,
 * loaded like C, that carries code for all of them, else images as those of "cuda". With flag
 * -rdc=true cubins are linked on their own. Entries are functions with C linkage: kernels in
 * images, host functions in a shared object.
 */
#include "toolchain/c.h"
#include "toolchain/images.h"
#include "toolchain/symbols.h"
#include "toolchain/target.h"

#include "base/log.h"
#include "base/oserror.h"
#include "base/trace.h"
#include "cache/record.h"

#include <errno.h>
#include <stdlib.h>

enum { NVCC_REVISION = 2, OPTION_BYTES = 64 };

/* ---- finding it ---- */

static bool find_below(const char *home, char out[PATH_MAX]) {
    if (!home || home[0] != '/' || snprintf(out, PATH_MAX, "%s/bin/nvcc", home) >= PATH_MAX)
        return false;
    return hn_is_program(out);
}

static hn_status find_nvcc(char out[PATH_MAX]) {
    const char *wanted = getenv("HENRY_NVCC");
    if (wanted && wanted[0]) {
        if (hn_program_find(wanted, out)) return NULL;
        return HN_ERROR(HN_TOOLCHAIN, "cannot find the compiler '%s' that HENRY_NVCC names",
                        wanted);
    }
    if (hn_program_find("nvcc", out) || find_below(getenv("CUDA_HOME"), out) ||
        find_below(getenv("CUDA_PATH"), out) || find_below("/usr/local/cuda", out))
        return NULL;
    return HN_ERROR(
        HN_TOOLCHAIN,
        "cannot find nvcc: it is neither in PATH nor below CUDA_HOME, CUDA_PATH or /usr/local/cuda; install "
        "the CUDA toolkit or set HENRY_NVCC; language 'cuda' needs only its NVRTC library");
}

/* The first number behind `word` that looks like "13.0". */
static void find_version(const char *text, const char *word, char out[32]) {
    const char *at = text ? strstr(text, word) : NULL;
    size_t len = 0;
    if (at) at += strlen(word);
    while (at && len < 31 && strchr("0123456789.", at[len]) && at[len]) len++;
    snprintf(out, 32, "%.*s", (int)len, len ? at : "?");
}

/* "compute_75\ncompute_80..." as a list of numbers. */
static void list_archs(const char *text, hn_strbuf *out) {
    while (text && (text = strstr(text, "compute_"))) {
        text += 8;
        size_t len = strspn(text, "0123456789");
        hn_strbuf_append(out, text, len);
        hn_strbuf_append(out, "", 1);
    }
}

static hn_status ask(const void *context, hn_strbuf *out) {
    const char *nvcc = context;
    char version[32];
    hn_strbuf text, archs, list;
    int exit_status = 0, list_exit = 0;
    hn_strbuf_init(&text);
    hn_strbuf_init(&archs);
    hn_strbuf_init(&list);
    hn_log("toolchain", HN_LOG_INFO, "asking nvcc '%s' what it is", nvcc);
    hn_status status = hn_program_ask(nvcc, "--version", &text, &exit_status);
    if (!status && (exit_status != 0 || !text.ptr || !strstr(text.ptr, "Cuda compiler")))
        status =
            HN_ERROR(HN_TOOLCHAIN, "cannot use nvcc '%s': '--version' ended with %d and %zu bytes",
                     nvcc, exit_status, text.len);
    if (!status) /* older ones do not know it */
        status = hn_program_ask(nvcc, "--list-gpu-arch", &archs, &list_exit);
    if (!status && list_exit == 0) list_archs(archs.ptr, &list);
    find_version(text.ptr, "release ", version);
    hn_record_add_string(out, "version", version);
    hn_record_add(out, "text", hn_strbuf_str(&text));
    hn_record_add(out, "archs", hn_strbuf_str(&list));
    if (!status) status = hn_strbuf_status(&list);
    hn_strbuf_deinit(&text);
    hn_strbuf_deinit(&archs);
    hn_strbuf_deinit(&list);
    return status;
}

/* Path, size and time of nvcc and of what it calls, and the host compiler. */
static hn_status describe_subject(const char *nvcc, const hn_digest *host, hn_strbuf *out) {
    static const char *const parts[] = {"nvcc",      "nvcc.profile", "cudafe++",         "ptxas",
                                        "fatbinary", "nvlink",       "../nvvm/bin/cicc", NULL};
    char stamp[HN_STAMP_BYTES], path[PATH_MAX], hex[HN_DIGEST_HEX_BYTES];
    char *real = realpath(nvcc, NULL);
    if (!real) return HN_OS_ERROR(errno, "cannot resolve '%s'", nvcc);
    hn_digest_hex(host, hex);
    hn_record_add_i64(out, "nvcc_revision", NVCC_REVISION);
    hn_record_add(out, "path", hn_str_of(nvcc));
    hn_record_add(out, "real_path", hn_str_of(real));
    hn_record_add(out, "host_compiler", hn_str_of(hex));
    for (int i = 0; parts[i]; i++) {
        snprintf(path, sizeof(path), "%.*s/%s", (int)(strrchr(real, '/') - real), real, parts[i]);
        hn_file_stamp(path, stamp);
        hn_record_add(out, parts[i], hn_str_of(stamp));
    }
    free(real);
    return hn_strbuf_status(out);
}

static hn_status learn(hn_store *store, const char *nvcc, const hn_toolchain *host,
                       hn_toolchain *out) {
    hn_strbuf subject, findings;
    hn_strbuf_init(&subject);
    hn_strbuf_init(&findings);
    hn_status status = describe_subject(nvcc, &host->identity, &subject);
    const hn_findings query = {hn_strbuf_str(&subject), NULL, ask, nvcc};
    if (!status) status = hn_findings_learn(store, &query, &findings);
    if (!status) {
        out->identity = hn_digest_of_two(hn_strbuf_str(&subject), hn_strbuf_str(&findings));
        const char *version = hn_record_string(hn_strbuf_str(&findings), "version");
        const char *host_title = hn_record_string(hn_strbuf_str(&host->record), "title");
        char title[128];
        snprintf(title, sizeof(title), "nvcc %s with %s", version ? version : "",
                 host_title ? host_title : "");
        /* stands before that of the host compiler */
        hn_record_add_string(&out->record, "title", title);
        hn_record_add_string(&out->record, "nvcc", nvcc);
        /* "cc" is the host compiler */
        hn_strbuf_append(&out->record, host->record.ptr, host->record.len);
        hn_strbuf_append(&out->record, findings.ptr, findings.len);
    }
    hn_strbuf_deinit(&subject);
    hn_strbuf_deinit(&findings);
    return status;
}

static hn_status nvcc_probe(hn_store *store, hn_toolchain *out) {
    char nvcc[PATH_MAX];
    hn_toolchain host = {.row = NULL};
    HN_TRY(find_nvcc(nvcc));
    hn_strbuf_init(&host.record);
    hn_status status = hn_c_probe(&hn_c_dialect_cxx, store, &host);
    if (status) status = hn_status_annotate(status, "nvcc needs a host compiler");
    if (!status) status = learn(store, nvcc, &host, out);
    hn_strbuf_deinit(&host.record);
    return status;
}

/* ---- flags ---- */

/* nvcc reads its own headers for every text. */
static hn_toolchain_reads nvcc_reads(hn_str text, hn_str flags) {
    return hn_job_reads(text, flags, HN_FLAGS_NVCC) == HN_READS_FILES ? HN_READS_FILES
                                                                      : HN_READS_HEADERS;
}

static bool is_relocatable(hn_str flags) {
    static const char *const words[] = {"-rdc=true", "--rdc=true", "-relocatable-device-code=true",
                                        "--relocatable-device-code=true", NULL};
    const char *item;
    while (hn_list_next(&flags, &item))
        for (int i = 0; words[i]; i++)
            if (strcmp(item, words[i]) == 0) return true;
    return false;
}

/* nvcc starts its steps through a shell, which would obey what stands in a path. */
static hn_status check_path(const char *path, const char *what, const char *variable) {
    if (hn_is_shell_safe(path)) return NULL;
    return HN_ERROR(
        HN_INVALID_ARGUMENT,
        "cannot compile with nvcc and %s '%s': nvcc gives the path to a shell, so only letters, digits and '_-+=.,/:@%%' are allowed; set %s",
        what, path, variable);
}

/* ---- one compilation ---- */

typedef struct nvcc_run {
    const hn_toolchain_job *job;
    hn_toolchain_result *out;
    hn_driver driver;
    const char *nvcc, *cxx;
    bool is_host_clang;
    hn_gpu_target target;
    char options[HN_IMAGES_MAX][2 * OPTION_BYTES]; /* text of the last command's architectures */
    hn_strbuf images[HN_IMAGES_MAX];
    hn_tool_args command; /* the last one, for the message */
} nvcc_run;

/* The host's assembler tells what it read: in two steps, since linking calls it too. A file has the
 * options for it, since nvcc takes their commas for its own. */
#define HOST_OPTIONS "host.opts"
#define HOST_RULE    "host.d"

/* The beginning of every command that compiles. */
static void begin_command(nvcc_run *run) {
    const char *item;
    run->command = (hn_tool_args){.count = 0};
    hn_tool_args_add_all(&run->command, (const char *const[]){run->nvcc, "-ccbin", run->cxx, NULL});
    for (hn_str rest = run->job->flags; hn_list_next(&rest, &item);)
        hn_tool_args_add(&run->command, item);
}

/* The command as a person repeats it: on the kept source, and without writing anything. */
static void repeat_command(const nvcc_run *run, hn_tool_args *out) {
    const hn_tool_args *args = &run->command;
    *out = (hn_tool_args){.count = 0};
    for (int i = 0; i < args->count; i++) {
        const char *item = args->items[i];
        if (strcmp(item, "-MD") == 0) {
            i += 2; /* "-MF" and its file */
        } else if (strcmp(item, "-o") == 0) {
            hn_tool_args_add_all(out, (const char *const[]){"-o", "/dev/null", NULL});
            i++;
        } else if (strcmp(item, "-Xcompiler=@" HOST_OPTIONS) != 0) {
            hn_tool_args_add(out, strcmp(item, "kernel.cu") == 0 && run->job->source_path
                                      ? run->job->source_path
                                      : item);
        }
    }
}

/* Whether nvcc can be called again with no output: it reads PTX once more, and what is linked is
 * gone. */
static bool is_repeatable(const hn_tool_args *command) {
    for (int i = 0; i < command->count; i++)
        if (strcmp(command->items[i], "-ptx") == 0 || strcmp(command->items[i], "kernel.o") == 0)
            return false;
    return true;
}

/* Runs the command. A failure of the tool is an error here; `failure.exit` tells it from others. */
static hn_status run_command(nvcc_run *run) {
    HN_TRY(hn_driver_run(&run->driver, &run->command));
    if (!run->driver.failure.exit) return NULL;
    run->out->is_deterministic = hn_tool_failure_is_deterministic(&run->driver.failure);
    hn_log("toolchain", HN_LOG_INFO, "%s", hn_strbuf_str(&run->driver.failure.errors).ptr);
    hn_strbuf line;
    hn_tool_args again;
    hn_strbuf_init(&line);
    repeat_command(run, &again);
    if (is_repeatable(&run->command)) hn_tool_args_print(&again, &line);
    hn_status status = hn_tool_failure_status(&run->driver.failure, hn_strbuf_str(&line));
    hn_strbuf_deinit(&line);
    return status;
}

static hn_status compile_arch(nvcc_run *run, uint32_t idx, bool is_linked) {
    const hn_gpu_arch *arch = &run->target.archs[idx];
    char *option = run->options[idx], rule[OPTION_BYTES];
    snprintf(option, OPTION_BYTES, "-arch=%s", arch->name);
    snprintf(rule, sizeof(rule), "%u.d", idx);
    begin_command(run);
    hn_tool_args_add_all(&run->command, (const char *const[]){option,
                                                              is_linked      ? "-dc"
                                                              : arch->is_ptx ? "-ptx"
                                                                             : "-cubin",
                                                              "-MD", "-MF", rule, "-o",
                                                              is_linked ? "kernel.o" : "image",
                                                              "kernel.cu", NULL});
    HN_TRY(run_command(run));
    if (is_linked) {
        run->command = (hn_tool_args){.count = 0};
        hn_tool_args_add_all(&run->command,
                             (const char *const[]){run->nvcc, "-ccbin", run->cxx, option, "-dlink",
                                                   "-cubin", "kernel.o", "-lcudadevrt", "-o",
                                                   "image", NULL});
        HN_TRY(run_command(run));
    }
    return hn_driver_read_output(&run->driver, "image", &run->images[idx]);
}

/* PTX has its entries as ".entry NAME(". */
static bool ptx_has(hn_str ptx, const char *name) {
    char wanted[300];
    int len = snprintf(wanted, sizeof(wanted), ".entry %s(", name);
    return len < (int)sizeof(wanted) && memmem(ptx.ptr, ptx.len, wanted, (size_t)len);
}

static hn_status check_entry(const nvcc_run *run, uint32_t idx, const char *name) {
    bool found, is_mangled = false;
    hn_str image = hn_strbuf_str(&run->images[idx]);
    if (run->target.archs[idx].is_ptx) found = ptx_has(image, name);
    else HN_TRY(hn_symbols_find(image, name, &found, &is_mangled));
    if (found) return NULL;
    run->out->is_deterministic = true;
    return hn_symbols_missing(name, is_mangled, "extern \"C\"");
}

static hn_status write_images(nvcc_run *run) {
    hn_image images[HN_IMAGES_MAX];
    const char *item;
    hn_strbuf names;
    hn_status status = NULL;
    hn_strbuf_init(&names);
    for (uint32_t i = 0; i < run->target.count; i++) {
        const hn_gpu_arch *arch = &run->target.archs[i];
        images[i] = (hn_image){arch->name, arch->is_ptx ? HN_IMAGE_PTX : HN_IMAGE_CUBIN,
                               hn_strbuf_str(&run->images[i]).ptr, run->images[i].len};
        for (hn_str rest = run->job->entries; !status && hn_list_next(&rest, &item);)
            status = check_entry(run, i, item);
    }
    for (hn_str rest = run->job->entries; hn_list_next(&rest, &item);)
        hn_list_add(&names, item), hn_list_add(&names, item);
    if (!status) status = hn_strbuf_status(&names);
    if (!status)
        status =
            hn_images_write(&(hn_images_source){images, run->target.count, hn_strbuf_str(&names)},
                            &run->out->bytes);
    hn_strbuf_deinit(&names);
    return status;
}

static hn_status note_headers(nvcc_run *run) {
    char rules[HN_IMAGES_MAX][16];
    const char *names[HN_IMAGES_MAX + 2] = {NULL};
    hn_strbuf dirs;
    uint32_t count = run->target.is_host ? 1 : run->target.count;
    bool is_empty;
    hn_strbuf_init(&dirs);
    for (uint32_t i = 0; i < count; i++) {
        snprintf(rules[i], sizeof(rules[i]), "%u.d", i);
        names[i] = rules[i];
    }
    if (run->target.is_host) names[count] = HOST_RULE;
    hn_flags_dirs(run->job->flags, HN_FLAGS_NVCC, &dirs);
    hn_status status = hn_strbuf_status(&dirs);
    if (!status)
        status = hn_driver_headers(&run->driver, names, hn_strbuf_str(&dirs), &is_empty,
                                   &run->out->headers);
    hn_strbuf_deinit(&dirs);
    return status;
}

static hn_status compile_images(nvcc_run *run) {
    bool is_relocated = is_relocatable(run->job->flags);
    for (uint32_t i = 0; i < run->target.count; i++)
        HN_TRY(compile_arch(run, i, is_relocated && !run->target.archs[i].is_ptx));
    return write_images(run);
}

static void add_host_archs(nvcc_run *run) {
    for (uint32_t i = 0; i < run->target.count; i++) {
        const char *name = run->target.archs[i].name, *number = strchr(name, '_') + 1;
        snprintf(run->options[i], sizeof(run->options[i]), "-gencode=arch=compute_%s,code=%s",
                 number, name);
        hn_tool_args_add(&run->command, run->options[i]);
    }
}

static hn_status compile_host(nvcc_run *run) {
    hn_str options = run->is_host_clang ? HN_STR("-fno-integrated-as -Wa,--MD," HOST_RULE "\n")
                                        : HN_STR("-Wa,--MD," HOST_RULE "\n");
    HN_TRY(hn_driver_write(&run->driver, HOST_OPTIONS, options));
    begin_command(run);
    add_host_archs(run);
    hn_tool_args_add_all(
        &run->command, (const char *const[]){is_relocatable(run->job->flags) ? "-dc" : "-c",
                                             "-Xcompiler=-fPIC", "-Xcompiler=@" HOST_OPTIONS, "-MD",
                                             "-MF", "0.d", "-o", "kernel.o", "kernel.cu", NULL});
    HN_TRY(run_command(run));
    begin_command(run);
    add_host_archs(run);
    hn_tool_args_add_all(&run->command, (const char *const[]){"-shared", "-Xcompiler=-fPIC", "-o",
                                                              "kernel.so", "kernel.o", NULL});
    HN_TRY(run_command(run));
    HN_TRY(hn_driver_read_output(&run->driver, "kernel.so", &run->out->bytes));
    return hn_symbols_check(run->out, run->job->entries, "extern \"C\"");
}

static hn_status compile_in(nvcc_run *run) {
    HN_TRY(hn_driver_write(&run->driver, "kernel.cu", run->job->text));
    HN_TRY(run->target.is_host ? compile_host(run) : compile_images(run));
    return nvcc_reads(run->job->text, run->job->flags) == HN_READS_HEADERS ? note_headers(run)
                                                                           : NULL;
}

static hn_status prepare(nvcc_run *run, hn_str record) {
    const char *version = hn_record_string(record, "version");
    hn_flag_kind worst;
    hn_str archs;
    run->nvcc = hn_record_string(record, "nvcc");
    run->cxx = hn_record_string(record, "cc");
    run->is_host_clang = hn_record_find_i64(record, "is_clang", 0) != 0;
    hn_record_find(record, "archs", &archs);
    if (!run->nvcc || !run->cxx || !version)
        return HN_ERROR(HN_CORRUPT, "the description of nvcc lacks a path");
    HN_TRY(hn_flags_read(run->job->flags, HN_FLAGS_NVCC, NULL, &worst));
    HN_TRY(check_path(run->nvcc, "nvcc at", "HENRY_NVCC"));
    HN_TRY(check_path(run->cxx, "the host compiler", "HENRY_CXX"));
    return hn_gpu_target_read(run->job->target, archs, "nvcc", version, &run->target);
}

static hn_status nvcc_compile(const hn_toolchain *toolchain, const hn_toolchain_job *job,
                              hn_toolchain_result *out) {
    nvcc_run *run = calloc(1, sizeof(*run));
    if (!run) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to compile");
    *run = (nvcc_run){.job = job, .out = out};
    for (int i = 0; i < HN_IMAGES_MAX; i++) hn_strbuf_init(&run->images[i]);
    hn_status status = prepare(run, hn_strbuf_str(&toolchain->record));
    int64_t deadline_ns = job->timeout_ms > 0 ? hn_now_ns() + job->timeout_ms * 1000000 : 0;
    if (!status) status = hn_driver_begin(&run->driver, job, deadline_ns);
    if (!status) {
        status = check_path(run->driver.dir, "the directory", "TMPDIR");
        if (!status) status = compile_in(run);
        hn_driver_end(&run->driver);
    }
    for (int i = 0; i < HN_IMAGES_MAX; i++) hn_strbuf_deinit(&run->images[i]);
    free(run);
    return status;
}

static const char *const suffixes[] = {".cu", NULL};

const hn_toolchain_row hn_toolchain_row_nvcc = {
    .language = "nvcc",
    .suffixes = suffixes,
    .env_names = hn_c_env_names,
    .probe = nvcc_probe,
    .compile = nvcc_compile,
    .reads = nvcc_reads,
    .default_flag = "-O2",
};
