/* opencl_row.c: the language "opencl": OpenCL C 1.2, to an object of base/opencl_program.h.
 *
 * The compiler is a part of a driver, so a machine has none, one or several. The text is built for
 * the device of every driver that is here, in the process that has the job, a worker; each gives a
 * binary for the object. It must build for one of them at least. Without a driver the object has
 * the text alone, and the machine that runs it builds it.
 *
 * Drivers are asked anew in each process (their libraries and the kernel's modules are too many
 * files to remember an answer by), and the worker must find those that the job's key names. Address
 * space is not limited here: drivers of GPUs reserve more than any limit. */
#include "toolchain/c.h"
#include "toolchain/driver.h"
#include "toolchain/flags.h"
#include "toolchain/symbols.h"

#include "base/log.h"
#include "base/opencl.h"
#include "base/opencl_program.h"
#include "cache/record.h"

#include <ctype.h>
#include <stdlib.h>

enum { OPENCL_REVISION = 1 };

/* ---- finding drivers ---- */

/* The devices of different drivers, each with its identity; a second device of the same kind adds
 * nothing. */
typedef struct drivers {
    hn_opencl cl;
    uint32_t count;
    hn_opencl_device devices[HN_OPENCL_DEVICES_MAX];
    hn_strbuf identities[HN_OPENCL_DEVICES_MAX];
} drivers;

static void drivers_deinit(drivers *d) {
    for (uint32_t k = 0; k < d->count; k++) hn_strbuf_deinit(&d->identities[k]);
    free(d);
}

static bool has_identity(const drivers *d, hn_str identity) {
    for (uint32_t k = 0; k < d->count; k++)
        if (hn_str_eq(hn_strbuf_str(&d->identities[k]), identity)) return true;
    return false;
}

static hn_status add_driver(drivers *d, const hn_opencl_device *device) {
    hn_strbuf identity;
    hn_strbuf_init(&identity);
    hn_opencl_identity(&d->cl, device, &identity);
    hn_status status = hn_strbuf_status(&identity);
    if (status || has_identity(d, hn_strbuf_str(&identity))) {
        hn_strbuf_deinit(&identity);
        return status;
    }
    d->devices[d->count] = *device;
    d->identities[d->count++] = identity;
    return NULL;
}

static hn_status find_drivers(drivers *d) {
    hn_opencl_device devices[HN_OPENCL_DEVICES_MAX];
    uint32_t count;
    hn_status status = hn_opencl_load(&d->cl);
    if (!status) status = hn_opencl_devices(&d->cl, devices, &count);
    if (hn_status_code(status) == HN_NOT_FOUND) { /* a text alone needs none */
        hn_log("toolchain", HN_LOG_INFO, "OpenCL C is not built here: %s",
               hn_status_message(status));
        hn_status_free(status);
        return NULL;
    }
    for (uint32_t k = 0; !status && k < count; k++) status = add_driver(d, &devices[k]);
    return status;
}

static hn_status drivers_create(drivers **out) {
    drivers *d = calloc(1, sizeof *d);
    if (!d) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to look for OpenCL drivers");
    hn_status status = find_drivers(d);
    if (status) drivers_deinit(d);
    else *out = d;
    return status;
}

/* The record has "drivers", a list of identities. */
static hn_status opencl_probe(hn_store *store, hn_toolchain *out) {
    drivers *d;
    hn_strbuf list, title;
    (void)store;
    HN_TRY(drivers_create(&d));
    hn_strbuf_init(&list);
    hn_strbuf_init(&title);
    hn_strbuf_puts(&title, d->count ? "OpenCL C by " : "OpenCL C without a driver");
    for (uint32_t k = 0; k < d->count; k++) {
        hn_list_add(&list, d->identities[k].ptr);
        hn_strbuf_printf(&title, "%s%s", k ? " and " : "", d->identities[k].ptr);
    }
    hn_record_add(&out->record, "drivers", hn_strbuf_str(&list));
    hn_record_add_string(&out->record, "title", title.ptr ? title.ptr : "");
    const char revision[] = {'o', 'p', 'e', 'n', 'c', 'l', OPENCL_REVISION};
    out->identity = hn_digest_of_two((hn_str){revision, sizeof revision}, hn_strbuf_str(&list));
    hn_status status = hn_strbuf_status(&list);
    if (!status) status = hn_strbuf_status(&title);
    hn_strbuf_deinit(&list);
    hn_strbuf_deinit(&title);
    drivers_deinit(d);
    return status;
}

/* ---- one build ---- */

typedef struct opencl_build {
    const hn_toolchain_job *job;
    hn_toolchain_result *out;
    const hn_opencl *cl;
    const hn_opencl_device *device;
    hn_str options;
    cl_context context;
    cl_program program;
} opencl_build;

static hn_status annotate(const opencl_build *b, hn_status status) {
    hn_strbuf name;
    if (!status) return NULL;
    hn_strbuf_init(&name);
    hn_opencl_device_text(b->cl, b->device->device, CL_DEVICE_NAME, &name);
    status = hn_status_annotate(status, "OpenCL device '%s'", name.ptr ? name.ptr : "");
    hn_strbuf_deinit(&name);
    return status;
}

static hn_status build_error(opencl_build *b, cl_int code, hn_str log) {
    hn_strbuf lines;
    b->out->is_deterministic = code == CL_BUILD_PROGRAM_FAILURE || code == CL_INVALID_BUILD_OPTIONS;
    if (!log.len) return hn_opencl_status(code, "clBuildProgram");
    hn_strbuf_init(&lines);
    hn_first_errors(log, &lines);
    hn_log("toolchain", HN_LOG_INFO, HN_STR_FMT, HN_STR_ARG(log));
    hn_status status = HN_ERROR(HN_TOOLCHAIN, "%s: " HN_STR_FMT, hn_opencl_error_name(code),
                                HN_STR_ARG(hn_strbuf_str(&lines)));
    hn_strbuf_deinit(&lines);
    return status;
}

static hn_status build_program(opencl_build *b) {
    hn_strbuf log;
    hn_strbuf_init(&log);
    cl_int code = hn_opencl_build(b->cl, b->program, b->device->device, b->options, &log);
    hn_status status = code == CL_SUCCESS ? NULL : build_error(b, code, hn_strbuf_str(&log));
    hn_strbuf_deinit(&log);
    return status;
}

static hn_status check_entries(opencl_build *b) {
    const char *item;
    cl_int code;
    for (hn_str rest = b->job->entries; hn_list_next(&rest, &item);) {
        cl_kernel kernel = b->cl->clCreateKernel(b->program, item, &code);
        if (kernel) {
            b->cl->clReleaseKernel(kernel);
            continue;
        }
        if (code != CL_INVALID_KERNEL_NAME) return hn_opencl_status(code, "clCreateKernel");
        b->out->is_deterministic = true;
        return hn_symbols_missing(item, false, "");
    }
    return NULL;
}

/* Nothing is appended when the driver gives no binaries. */
static hn_status take_binary(opencl_build *b, hn_strbuf *out) {
    size_t size = 0;
    cl_int code =
        b->cl->clGetProgramInfo(b->program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL);
    if (code != CL_SUCCESS) return hn_opencl_status(code, "clGetProgramInfo");
    if (!size) return NULL;
    unsigned char *bytes = (unsigned char *)hn_strbuf_reserve(out, size);
    if (!bytes) return hn_strbuf_status(out);
    code = b->cl->clGetProgramInfo(b->program, CL_PROGRAM_BINARIES, sizeof bytes, &bytes, NULL);
    if (code == CL_SUCCESS) out->len += size;
    return hn_opencl_status(code, "clGetProgramInfo");
}

static hn_status build_in_context(opencl_build *b, hn_strbuf *out_binary) {
    cl_int code;
    const char *text = b->job->text.ptr;
    b->program = b->cl->clCreateProgramWithSource(b->context, 1, &text, &b->job->text.len, &code);
    if (!b->program) return hn_opencl_status(code, "clCreateProgramWithSource");
    hn_status status = build_program(b);
    if (!status) status = check_entries(b);
    if (!status) status = take_binary(b, out_binary);
    b->cl->clReleaseProgram(b->program);
    return status;
}

static hn_status build_one(opencl_build *b, hn_strbuf *out_binary) {
    cl_int code;
    b->context = b->cl->clCreateContext(NULL, 1, &b->device->device, NULL, NULL, &code);
    if (!b->context) return annotate(b, hn_opencl_status(code, "clCreateContext"));
    hn_status status = build_in_context(b, out_binary);
    b->cl->clReleaseContext(b->context);
    return annotate(b, status);
}

/* ---- all builds ---- */

typedef struct opencl_run {
    const hn_toolchain_job *job;
    hn_toolchain_result *out;
    drivers *drivers;
    hn_strbuf options;
    hn_strbuf binaries[HN_OPENCL_DEVICES_MAX]; /* empty: the driver does not build this text */
} opencl_run;

/* A text that a driver cannot build is none of the job's failures while another can: it may use
 * what one device lacks. */
static hn_status build_all(opencl_run *r) {
    hn_status first = NULL;
    uint32_t built = 0;
    bool is_deterministic = true;
    for (uint32_t k = 0; k < r->drivers->count; k++) {
        opencl_build b = {.job = r->job,
                          .out = r->out,
                          .cl = &r->drivers->cl,
                          .device = &r->drivers->devices[k],
                          .options = hn_strbuf_str(&r->options)};
        r->out->is_deterministic = false;
        hn_status status = build_one(&b, &r->binaries[k]);
        built += !status;
        if (!status) continue;
        is_deterministic &= r->out->is_deterministic;
        hn_log("toolchain", HN_LOG_INFO, "%s", hn_status_message(status));
        if (first) hn_status_free(status);
        else first = status;
    }
    r->out->is_deterministic = is_deterministic;
    if (!built) return first;
    r->out->is_unlisted |= !is_deterministic; /* another time the driver may build it */
    hn_status_free(first);
    return NULL;
}

static bool is_name_char(char c) { return isalnum((unsigned char)c) || c == '_'; }

static bool has_name(hn_str text, const char *name) {
    const size_t len = strlen(name);
    for (const char *at = text.ptr, *end = text.ptr + text.len;
         (at = memmem(at, (size_t)(end - at), name, len)); at += len)
        if ((at == text.ptr || !is_name_char(at[-1])) &&
            (at + len == end || !is_name_char(at[len])))
            return true;
    return false;
}

/* What can be seen without a compiler: the text has the name of each entry, unless it pastes names
 * together. More would need all of the language: brackets need not close in a text with #if. */
static hn_status check_text(opencl_run *r) {
    const char *item;
    hn_str text = r->job->text;
    if (text.len && memmem(text.ptr, text.len, "##", 2)) return NULL;
    r->out->is_deterministic = true;
    for (hn_str rest = r->job->entries; hn_list_next(&rest, &item);)
        if (!has_name(text, item)) return hn_symbols_missing(item, false, "");
    return NULL;
}

/* The job's key names the drivers that its result is by. One that is not found here may be back
 * later. */
static void compare_drivers(opencl_run *r, hn_str record) {
    hn_str listed;
    const char *item;
    uint32_t count = 0;
    hn_record_find(record, "drivers", &listed);
    for (; hn_list_next(&listed, &item); count++)
        r->out->is_unlisted |= !has_identity(r->drivers, hn_str_of(item));
    r->out->is_unlisted |= count != r->drivers->count;
}

static hn_status write_program(const opencl_run *r) {
    hn_opencl_program program = {.options = hn_strbuf_str(&r->options), .source = r->job->text};
    for (uint32_t k = 0; k < r->drivers->count; k++)
        if (r->binaries[k].len)
            program.binaries[program.binary_count++] = (hn_opencl_binary){
                hn_strbuf_str(&r->drivers->identities[k]), hn_strbuf_str(&r->binaries[k])};
    hn_opencl_program_write(&program, &r->out->bytes);
    return hn_strbuf_status(&r->out->bytes);
}

static hn_status read_job(opencl_run *r) {
    const hn_toolchain_job *job = r->job;
    const char *item;
    hn_flag_kind worst;
    hn_str target = job->target;
    HN_TRY(hn_flags_read(job->flags, HN_FLAGS_OPENCL, NULL, &worst));
    if (hn_list_next(&target, &item))
        return HN_ERROR(
            HN_INVALID_ARGUMENT,
            "cannot compile OpenCL C for '%s': it is built for every driver that is here, so a job names no target",
            item);
    if (job->text.len && memchr(job->text.ptr, 0, job->text.len))
        return HN_ERROR(HN_INVALID_ARGUMENT, "an OpenCL text has a NUL character");
    for (hn_str rest = job->flags; hn_list_next(&rest, &item);)
        hn_strbuf_printf(&r->options, "%s%s", r->options.len ? " " : "", item);
    return hn_strbuf_status(&r->options);
}

static hn_status compile_in(opencl_run *r, hn_str record) {
    HN_TRY(read_job(r));
    HN_TRY(drivers_create(&r->drivers));
    compare_drivers(r, record);
    HN_TRY(r->drivers->count ? build_all(r) : check_text(r));
    return write_program(r);
}

static hn_status opencl_compile(const hn_toolchain *toolchain, const hn_toolchain_job *job,
                                hn_toolchain_result *out) {
    opencl_run *r = calloc(1, sizeof *r);
    if (!r) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to compile");
    *r = (opencl_run){.job = job, .out = out};
    hn_strbuf_init(&r->options);
    for (int k = 0; k < HN_OPENCL_DEVICES_MAX; k++) hn_strbuf_init(&r->binaries[k]);
    hn_status status = compile_in(r, hn_strbuf_str(&toolchain->record));
    for (int k = 0; k < HN_OPENCL_DEVICES_MAX; k++) hn_strbuf_deinit(&r->binaries[k]);
    hn_strbuf_deinit(&r->options);
    if (r->drivers) drivers_deinit(r->drivers);
    free(r);
    return status;
}

/* No compiler of a driver names the files that it read. */
static hn_toolchain_reads opencl_reads(hn_str text, hn_str flags) {
    return hn_job_reads(text, flags, HN_FLAGS_OPENCL) == HN_READS_NOTHING ? HN_READS_NOTHING
                                                                          : HN_READS_FILES;
}

static const char *const suffixes[] = {".cl", NULL};
/* Which drivers there are, and how PoCL compiles. */
static const char *const env_names[] = {"OCL_ICD_VENDORS",
                                        "OCL_ICD_FILENAMES",
                                        "OPENCL_VENDOR_PATH",
                                        "POCL_DEVICES",
                                        "POCL_WORK_GROUP_METHOD",
                                        "POCL_EXTRA_BUILD_FLAGS",
                                        NULL};

const hn_toolchain_row hn_toolchain_row_opencl = {
    .language = "opencl",
    .suffixes = suffixes,
    .env_names = env_names,
    .probe = opencl_probe,
    .compile = opencl_compile,
    .reads = opencl_reads,
    .load_advice = "it is an object for OpenCL; a device of the runtime loads it",
};
