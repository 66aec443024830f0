/* cuda_row.c: the language "cuda": CUDA C++ by NVRTC, to cubins and PTX for named architectures.
 *
 * The compiler is a library, so it runs in the process that has the job: a worker, which keeps it
 * loaded, is limited in memory while it compiles, and is replaced when it dies, is late or has
 * grown. Without workers it runs in the host, where nothing protects from it but, with a newer
 * NVRTC, the time limit.
 *
 * Each architecture is a compilation of its own. It is tried with -minimal, where NVRTC knows that:
 * 24 ms against 30 ms for a small kernel (NVRTC 13.0, one architecture, warm); a text that needs
 * what -minimal leaves out compiles without. */
#include "toolchain/c.h"
#include "toolchain/images.h"
#include "toolchain/nvrtc.h"
#include "toolchain/symbols.h"
#include "toolchain/target.h"

#include "base/log.h"
#include "base/trace.h"
#include "cache/record.h"

#include <stdlib.h>
#include <sys/resource.h>

enum { OPTIONS_MAX = 128, LOG_LIMIT_BYTES = 256 << 10 };

typedef struct cuda_run {
    const hn_toolchain_job *job;
    hn_toolchain_result *out;
    hn_nvrtc nvrtc;
    char *text; /* with a NUL */
    const char *options[OPTIONS_MAX];
    int option_count;
    const char *version;
    int64_t deadline_ns;
    hn_gpu_target target;
    hn_strbuf images[HN_IMAGES_MAX]; /* one for each member of the target that is done */
    hn_strbuf names;                 /* list: entry, symbol... */
    uint32_t done;
} cuda_run;

/* ---- options ---- */

static hn_status add_option(cuda_run *run, const char *option) {
    if (run->option_count == OPTIONS_MAX)
        return HN_ERROR(HN_INVALID_ARGUMENT, "more than %d flags for NVRTC", OPTIONS_MAX - 1);
    run->options[run->option_count++] = option;
    return NULL;
}

/* Our options, without `left_out`, and the job's. The first place is for the architecture. */
static hn_status set_options(cuda_run *run, hn_str ours, const char *left_out) {
    const char *item;
    run->option_count = 1;
    while (hn_list_next(&ours, &item))
        if (!left_out || strcmp(item, left_out) != 0) HN_TRY(add_option(run, item));
    for (hn_str rest = run->job->flags; hn_list_next(&rest, &item);) HN_TRY(add_option(run, item));
    return NULL;
}

/* NVRTC names no files. */
static hn_toolchain_reads cuda_reads(hn_str text, hn_str flags) {
    return hn_job_reads(text, flags, HN_FLAGS_NVRTC) == HN_READS_NOTHING ? HN_READS_NOTHING
                                                                         : HN_READS_FILES;
}

/* ---- one compilation ---- */

static int is_late(void *payload, void *reserved) {
    const cuda_run *run = payload;
    (void)reserved;
    return hn_now_ns() >= run->deadline_ns;
}

static hn_status nvrtc_status(const cuda_run *run, int result, const char *what) {
    hn_code code = result == HN_NVRTC_OUT_OF_MEMORY ? HN_OUT_OF_MEMORY : HN_TOOLCHAIN;
    return HN_ERROR(code, "NVRTC %s cannot %s: %s", run->version, what,
                    run->nvrtc.error_string(result));
}

static void read_log(const cuda_run *run, hn_nvrtc_program program, hn_strbuf *out) {
    size_t len = 0;
    if (run->nvrtc.get_log_size(program, &len) != HN_NVRTC_OK || len <= 1) return;
    char *log = malloc(len + 1);
    if (!log || run->nvrtc.get_log(program, log) != HN_NVRTC_OK) len = 0;
    if (log) log[len] = 0;
    if (len)
        hn_strbuf_clean(
            out, (hn_str){log, strnlen(log, len < LOG_LIMIT_BYTES ? len : LOG_LIMIT_BYTES)}, false);
    free(log);
}

/* The entry that an error about name expressions is about; NULL when the errors are the text's
 * own. */
static const char *missing_entry(const cuda_run *run, hn_str log) {
    const char *item;
    for (hn_str rest = run->job->entries; hn_list_next(&rest, &item);) {
        char quoted[300];
        int len = snprintf(quoted, sizeof(quoted), "identifier \"%s\" is undefined", item);
        if (len < (int)sizeof(quoted) && memmem(log.ptr, log.len, quoted, (size_t)len) &&
            !strstr(run->text, item))
            return item;
    }
    return NULL;
}

static hn_status describe_failure(cuda_run *run, int result, hn_str log) {
    if (run->deadline_ns && hn_now_ns() >= run->deadline_ns)
        return HN_ERROR(HN_TIMEOUT, "NVRTC ran too long and was stopped");
    bool is_diagnosis = result == HN_NVRTC_COMPILATION || result == HN_NVRTC_INVALID_OPTION;
    run->out->is_deterministic = is_diagnosis && !memmem(log.ptr, log.len, "out of memory", 13);
    if (!log.len) return nvrtc_status(run, result, "compile");
    const char *missing = missing_entry(run, log);
    if (missing) return hn_symbols_missing(missing, false, "");
    hn_strbuf lines;
    hn_strbuf_init(&lines);
    hn_first_errors(log, &lines);
    hn_log("toolchain", HN_LOG_INFO, HN_STR_FMT, HN_STR_ARG(log));
    hn_status status = HN_ERROR(HN_TOOLCHAIN, "NVRTC %s for %s: " HN_STR_FMT, run->version,
                                run->options[0], HN_STR_ARG(hn_strbuf_str(&lines)));
    hn_strbuf_deinit(&lines);
    return status;
}

static hn_status take_image(cuda_run *run, hn_nvrtc_program program, bool is_ptx, hn_strbuf *out) {
    size_t len = 0;
    int result =
        is_ptx ? run->nvrtc.get_ptx_size(program, &len) : run->nvrtc.get_cubin_size(program, &len);
    char *place = result == HN_NVRTC_OK ? hn_strbuf_reserve(out, len) : NULL;
    if (result == HN_NVRTC_OK && !place) return hn_strbuf_status(out);
    if (result == HN_NVRTC_OK)
        result = is_ptx ? run->nvrtc.get_ptx(program, place) : run->nvrtc.get_cubin(program, place);
    if (result != HN_NVRTC_OK) return nvrtc_status(run, result, "give what it compiled");
    if (is_ptx && len && !place[len - 1]) len--; /* the NUL is counted; images have their own */
    out->len += len;
    return NULL;
}

static hn_status take_names(cuda_run *run, hn_nvrtc_program program) {
    const char *item, *symbol;
    hn_strbuf_reset(&run->names);
    for (hn_str rest = run->job->entries; hn_list_next(&rest, &item);) {
        int result = run->nvrtc.get_lowered_name(program, item, &symbol);
        if (result != HN_NVRTC_OK) return nvrtc_status(run, result, "name an entry");
        hn_list_add(&run->names, item);
        hn_list_add(&run->names, symbol);
    }
    return hn_strbuf_status(&run->names);
}

static hn_status compile_program(cuda_run *run, hn_nvrtc_program program, const hn_gpu_arch *arch) {
    char option[64];
    const char *item;
    int result = HN_NVRTC_OK;
    snprintf(option, sizeof(option), "--gpu-architecture=%s", arch->name);
    run->options[0] = option;
    for (hn_str rest = run->job->entries; result == HN_NVRTC_OK && hn_list_next(&rest, &item);)
        result = run->nvrtc.add_name_expression(program, item);
    if (result != HN_NVRTC_OK) return nvrtc_status(run, result, "take an entry");
    if (run->deadline_ns && run->nvrtc.set_flow_callback)
        run->nvrtc.set_flow_callback(program, is_late, run);
    result = run->nvrtc.compile_program(program, run->option_count, run->options);
    if (result != HN_NVRTC_OK) {
        hn_strbuf log;
        hn_strbuf_init(&log);
        read_log(run, program, &log);
        hn_status status = describe_failure(run, result, hn_strbuf_str(&log));
        hn_strbuf_deinit(&log);
        return status;
    }
    HN_TRY(take_names(run, program));
    return take_image(run, program, arch->is_ptx, &run->images[run->done]);
}

static hn_status compile_arch(cuda_run *run, const hn_gpu_arch *arch) {
    hn_nvrtc_program program = NULL;
    int result = run->nvrtc.create_program(&program, run->text, "kernel.cu", 0, NULL, NULL);
    if (result != HN_NVRTC_OK) return nvrtc_status(run, result, "make a program");
    hn_status status = compile_program(run, program, arch);
    run->nvrtc.destroy_program(&program);
    return status;
}

static hn_status compile_archs(cuda_run *run) {
    for (; run->done < run->target.count; run->done++)
        HN_TRY(compile_arch(run, &run->target.archs[run->done]));
    return NULL;
}

static hn_status compile_all(cuda_run *run, hn_str ours) {
    HN_TRY(set_options(run, ours, NULL));
    hn_status status = compile_archs(run);
    const char *item;
    bool has_minimal = false;
    for (hn_str rest = ours; hn_list_next(&rest, &item);)
        has_minimal |= strcmp(item, "-minimal") == 0;
    if (!status || !has_minimal || !run->out->is_deterministic) return status;
    /* What -minimal leaves out may be what it failed for: without it comes the last word. */
    hn_status_free(status);
    run->out->is_deterministic = false;
    for (uint32_t i = 0; i < run->done; i++) hn_strbuf_reset(&run->images[i]);
    run->done = 0;
    HN_TRY(set_options(run, ours, "-minimal"));
    return compile_archs(run);
}

static hn_status write_images(const cuda_run *run) {
    hn_image images[HN_IMAGES_MAX];
    for (uint32_t i = 0; i < run->done; i++)
        images[i] = (hn_image){.arch = run->target.archs[i].name,
                               .kind = run->target.archs[i].is_ptx ? HN_IMAGE_PTX : HN_IMAGE_CUBIN,
                               .bytes = hn_strbuf_str(&run->images[i]).ptr,
                               .len = run->images[i].len};
    return hn_images_write(&(hn_images_source){images, run->done, hn_strbuf_str(&run->names)},
                           &run->out->bytes);
}

/* ---- the process ---- */

/* Address space of this process, while it exists for compiling alone. The tools of other rows get
 * the same limit. */
static bool limit_begin(const hn_toolchain_job *job, struct rlimit *saved) {
#if defined(__SANITIZE_ADDRESS__)
    (void)job, (void)saved; /* it reserves terabytes itself */
    return false;
#else
    if (job->own_group || !job->memory_bytes || getrlimit(RLIMIT_AS, saved) != 0) return false;
    if (saved->rlim_cur != RLIM_INFINITY && saved->rlim_cur <= job->memory_bytes) return false;
    const struct rlimit limit = {job->memory_bytes, saved->rlim_max};
    return setrlimit(RLIMIT_AS, &limit) == 0;
#endif
}

static hn_status compile_loaded(cuda_run *run, hn_str record) {
    hn_str options;
    struct rlimit saved;
    hn_record_find(record, "options", &options);
    run->text = strndup(run->job->text.ptr, run->job->text.len);
    if (!run->text)
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a source of %zu bytes",
                        run->job->text.len);
    bool is_limited = limit_begin(run->job, &saved);
    hn_status status = compile_all(run, options);
    if (is_limited) setrlimit(RLIMIT_AS, &saved);
    if (!status) status = write_images(run);
    free(run->text);
    return status;
}

static hn_status cuda_compile(const hn_toolchain *toolchain, const hn_toolchain_job *job,
                              hn_toolchain_result *out) {
    hn_str record = hn_strbuf_str(&toolchain->record), archs;
    const char *path = hn_record_string(record, "path");
    cuda_run *run = calloc(1, sizeof(*run));
    if (!run) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to compile");
    *run = (cuda_run){.job = job, .out = out, .version = hn_record_string(record, "version")};
    for (int i = 0; i < HN_IMAGES_MAX; i++) hn_strbuf_init(&run->images[i]);
    hn_strbuf_init(&run->names);
    if (job->timeout_ms > 0) run->deadline_ns = hn_now_ns() + job->timeout_ms * 1000000;
    hn_record_find(record, "archs", &archs);
    hn_flag_kind worst;
    hn_status status = hn_flags_read(job->flags, HN_FLAGS_NVRTC, NULL, &worst);
    if (!status && (!path || !run->version))
        status = HN_ERROR(HN_CORRUPT, "the description of NVRTC lacks a path");
    if (!status)
        status = hn_gpu_target_read(job->target, archs, "NVRTC", run->version, &run->target);
    if (!status && run->target.is_host)
        status =
            HN_ERROR(HN_INVALID_ARGUMENT,
                     "NVRTC makes no code for the host; use language 'nvcc' for target 'host'");
    if (!status) status = hn_nvrtc_open(path, &run->nvrtc);
    if (!status) status = compile_loaded(run, record);
    hn_nvrtc_close(&run->nvrtc);
    for (int i = 0; i < HN_IMAGES_MAX; i++) hn_strbuf_deinit(&run->images[i]);
    hn_strbuf_deinit(&run->names);
    free(run);
    return status;
}

static const char *const suffixes[] = {".cu", NULL};
static const char *const env_names[] = {NULL};

const hn_toolchain_row hn_toolchain_row_cuda = {
    .language = "cuda",
    .suffixes = suffixes,
    .env_names = env_names,
    .probe = hn_nvrtc_probe,
    .compile = cuda_compile,
    .reads = cuda_reads,
};
