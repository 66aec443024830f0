/* doctor.c: `henry doctor`: everything that Henry needs from this machine, checked by using it
 * where that is possible, with what to do about what is missing. A failed check is something
 * without which models do not compile; a warning costs speed only. */
#include "source.h"

#include "base/compiler.h"
#include "base/cuda.h"
#include "base/file.h"
#include "base/process.h"
#include "base/trace.h"
#include "cache/record.h"
#include "cache/remote.h"
#include "codegen/codegen.h"
#include "runtime/load.h"
#include "service/service.h"
#include "toolchain/toolchain.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <unistd.h>

/* ABSENT: something that only some need */
typedef enum verdict { GOOD, WARNING, FAILED, ABSENT } verdict;

typedef struct doctor {
    const tool_options *options;
    hn_strbuf text;
    tool_json json;
    uint32_t failed, warned;
} doctor;

/* One finding. `fix` is "" when there is nothing to do. */
static void found(doctor *d, verdict v, const char *what, const char *fix, const char *fmt, ...)
    HN_PRINTF(5, 6);
static void found(doctor *d, verdict v, const char *what, const char *fix, const char *fmt, ...) {
    static const char *const marks[] = {"ok", "warn", "FAIL", "-"};
    char detail[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(detail, sizeof detail, fmt, args);
    va_end(args);
    detail[strcspn(detail, "\n")] = 0;
    d->failed += v == FAILED;
    d->warned += v == WARNING;
    hn_strbuf_printf(&d->text, "%-4s  %-10s %s\n", marks[v], what, detail);
    if (*fix) hn_strbuf_printf(&d->text, "                 fix: %s\n", fix);
    tool_json_open(&d->json, NULL, '{');
    tool_json_str(&d->json, "check", what);
    tool_json_str(&d->json, "result",
                  v == GOOD      ? "ok"
                  : v == WARNING ? "warning"
                  : v == FAILED  ? "failed"
                                 : "absent");
    tool_json_str(&d->json, "detail", detail);
    if (*fix) tool_json_str(&d->json, "fix", fix);
    tool_json_close(&d->json);
}

/* --- compiler --- */

/* The first line of `cc --version`. */
static void compiler_version(const char *cc, char *out, size_t out_bytes) {
    const char *argv[] = {cc, "--version", NULL};
    hn_strbuf answer;
    int exit_status = 1;
    hn_strbuf_init(&answer);
    hn_status status =
        hn_process_run(&(hn_spawn){.argv = argv, .stdin_fd = -1, .stdout_fd = -1, .stderr_fd = -1},
                       10000, &answer, &exit_status);
    snprintf(out, out_bytes, "%s",
             !status && exit_status == 0 && answer.ptr ? answer.ptr : "unknown version");
    out[strcspn(out, "\n")] = 0;
    hn_status_free(status);
    hn_strbuf_deinit(&answer);
}

/* Nothing of it is remembered: what was found before may be gone. */
static hn_status probe(const char *language, hn_toolchain *out) {
    const hn_toolchain_row *row;
    hn_store *store = NULL;
    HN_TRY(hn_store_open(&(hn_store_options){.dir = ""}, &store));
    hn_status status = hn_toolchain_row_find(hn_str_of(language), &row);
    if (!status) status = hn_toolchain_probe(row, store, out);
    hn_store_close(store);
    return status;
}

static bool check_compiler(doctor *d) {
    hn_toolchain tool;
    hn_str cc = {"", 0};
    char version[200];
    hn_status status = probe("c", &tool);
    if (status) {
        found(d, FAILED, "compiler",
              "install gcc or clang ('apt-get install gcc'), or set HENRY_CC to one", "%s",
              hn_status_message(status));
        hn_status_free(status);
        return false;
    }
    hn_record_find(hn_strbuf_str(&tool.record), "cc", &cc);
    compiler_version(cc.ptr, version, sizeof version);
    found(d, GOOD, "compiler", "", "%s: %s", cc.ptr, version);
    hn_toolchain_deinit(&tool);
    return true;
}

/* --- the other languages of the compile service --- */

typedef struct language_check {
    /* path: name in the record; fix: "" when the message says it */
    const char *language, *path, *fix;
} language_check;

static const language_check language_checks[] = {
    {"c++", "cc",
     "install g++ or clang++ ('apt-get install g++'), or set HENRY_CXX to one; kernels in C++ need it"},
    {"python", "cc",
     "install g++ or clang++ ('apt-get install g++'), or set HENRY_CXX to one; Python extensions need it"},
    {"cuda", "path", ""},
    {"nvcc", "nvcc", ""},
};

static void check_language(doctor *d, const language_check *c) {
    hn_toolchain tool;
    hn_str path = {"", 0}, number = {"?", 1};
    char version[200];
    hn_status status = probe(c->language, &tool);
    if (status) {
        found(d, ABSENT, c->language, c->fix, "%s", hn_status_message(status));
        hn_status_free(status);
        return;
    }
    hn_str record = hn_strbuf_str(&tool.record);
    hn_record_find(record, c->path, &path);
    hn_record_find(record, "version", &number);
    if (strcmp(c->path, "cc") == 0) compiler_version(path.ptr, version, sizeof version);
    else snprintf(version, sizeof version, "version " HN_STR_FMT, HN_STR_ARG(number));
    found(d, GOOD, c->language, "", HN_STR_FMT ": %s", HN_STR_ARG(path), version);
    hn_toolchain_deinit(&tool);
}

/* The compilers of OpenCL are drivers, and they are what runs programs for it, too. */
static void check_opencl(doctor *d) {
    hn_toolchain tool;
    hn_str drivers = {"", 0};
    const char *driver;
    bool has_driver = false;
    hn_status status = probe("opencl", &tool);
    if (!status) hn_record_find(hn_strbuf_str(&tool.record), "drivers", &drivers);
    for (; hn_list_next(&drivers, &driver); has_driver = true)
        found(d, GOOD, "opencl", "", "%s", driver);
    if (!has_driver)
        found(
            d, ABSENT, "opencl",
            "install a driver and the loader (Debian: ocl-icd-libopencl1); pocl-opencl-icd is a driver for the CPU",
            "%s", status ? hn_status_message(status) : "no OpenCL device");
    if (!status) hn_toolchain_deinit(&tool);
    hn_status_free(status);
}

/* The driver of NVIDIA's GPUs runs programs for them; NVRTC compiles these. */
static hn_status list_gpus(doctor *d) {
    hn_cuda cuda;
    hn_cuda_device g;
    hn_strbuf version;
    uint32_t count;
    HN_TRY(hn_cuda_load(&cuda));
    HN_TRY(hn_cuda_count(&cuda, &count));
    hn_strbuf_init(&version);
    hn_cuda_version_print(&cuda, &version);
    hn_status status = NULL;
    for (uint32_t k = 0; k < count && !status; k++) {
        status = hn_cuda_device_get(&cuda, k, &g);
        if (!status)
            found(d, GOOD, "gpu", "", "cuda:%u: %s, sm_%u, %.1f GB, %s; driver for CUDA %s", k,
                  g.name, g.arch, (double)g.memory_bytes / 1e9, g.uuid,
                  version.len ? version.ptr : "of an unknown version");
    }
    hn_strbuf_deinit(&version);
    return status;
}

static void check_gpus(doctor *d) {
    hn_status status = list_gpus(d);
    if (status) found(d, ABSENT, "gpu", "", "%s", hn_status_message(status));
    hn_status_free(status);
}

static void check_languages(doctor *d) {
    for (size_t k = 0; k < HN_COUNT_OF(language_checks); k++)
        check_language(d, &language_checks[k]);
    check_opencl(d);
    check_gpus(d);
}

/* --- compiling, in a worker process, and loading --- */

static hn_status call_answer(hn_artifact *artifact, int *out) {
    hn_library *library;
    void *address;
    HN_TRY(hn_artifact_load(artifact, &library));
    hn_status status = hn_library_symbol(library, "henry_doctor", &address);
    if (!status) {
        int (*answer)(void);
        memcpy(&answer, &address, sizeof answer); /* ISO C has no cast from data to code */
        *out = answer();
    }
    hn_library_close(library);
    return status;
}

static hn_status compile_answer(hn_scope *scope, int *out) {
    static const char text[] = "int henry_doctor(void) { return 42; }\n";
    const char *entries[] = {"henry_doctor"};
    hn_future *future;
    hn_artifact *artifact;
    HN_TRY(hn_compile_submit(scope,
                             &(hn_source){.name = "doctor",
                                          .language = "c",
                                          .text = text,
                                          .text_len = sizeof text - 1,
                                          .entries = entries,
                                          .entry_count = 1},
                             &future));
    HN_TRY(hn_future_wait(future, -1, &artifact));
    hn_status status = call_answer(artifact, out);
    hn_artifact_release(artifact);
    return status;
}

/* The program that runs as `pid`. */
static void program_of(pid_t pid, char out[PATH_MAX]) {
    char link[64];
    snprintf(link, sizeof link, "/proc/%d/exe", (int)pid);
    ssize_t len = readlink(link, out, PATH_MAX - 1);
    out[len > 0 ? len : 0] = 0;
}

static void report_worker(doctor *d, hn_service *service) {
    pid_t pid;
    char program[PATH_MAX] = "";
    if (hn_service_worker_pids(service, &pid, 1) > 0) {
        program_of(pid, program);
        found(d, GOOD, "worker", "", "%s", program);
    } else {
        found(
            d, WARNING, "worker",
            "keep henry-worker beside the program or in ../libexec/henry, or set HENRY_WORKER to its path",
            "no worker process: kernels compile one after the other inside the program");
    }
}

static void check_service(doctor *d) {
    hn_service_options options = tool_service_options(d->options);
    hn_service *service = NULL;
    hn_scope *scope = NULL;
    int answer = 0;
    options.cache_dir = "";
    if (options.threads < 2) options.threads = 2; /* one would mean: no workers */
    int64_t begin = hn_now_ns();
    hn_status status = hn_service_create(&options, &service);
    if (!status) status = hn_scope_create(service, &scope);
    if (!status) status = compile_answer(scope, &answer);
    if (!status && answer != 42)
        status = HN_ERROR(HN_INTERNAL, "the kernel answered %d, expected 42", answer);
    if (status)
        found(d, FAILED, "kernels", "see the message; HENRY_LOG=debug shows every step", "%s",
              hn_status_message(status));
    else
        found(d, GOOD, "kernels", "", "compiled, loaded and called one in %.0f ms",
              (double)(hn_now_ns() - begin) / 1e6);
    if (service && !status) report_worker(d, service);
    hn_status_free(status);
    hn_scope_destroy(scope);
    hn_service_destroy(service);
}

/* --- the machine --- */

static int cpu_count(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

static void check_cpu(doctor *d) {
    const hn_target target = hn_target_host();
    if (target.vector_bytes <= 16)
        found(d, WARNING, "cpu", "run where the CPU has AVX2",
              "%s: vectors of %u bytes only, kernels will be slow", target.name,
              target.vector_bytes);
    else
        found(d, GOOD, "cpu", "", "%s, vectors of %u bytes (%s)", target.name, target.vector_bytes,
              target.flags);
}

static void check_threads(doctor *d) {
    int usable = cpu_count(), threads = hn_threads_default();
    const char *own = getenv("HENRY_THREADS");
    if (threads > usable)
        found(d, WARNING, "threads", "ask for fewer threads, or give the process more CPUs",
              "%s asks for %d threads on %d CPUs",
              own && *own ? "HENRY_THREADS" : "OMP_NUM_THREADS", threads, usable);
    else found(d, GOOD, "threads", "", "a run uses %d of %d CPUs", threads, usable);
}

static void check_disk(doctor *d, const char *dir) {
    struct statvfs info;
    if (statvfs(dir, &info) != 0) return;
    double free_gb = (double)info.f_bavail * (double)info.f_frsize / 1e9;
    if (free_gb < 1)
        found(d, WARNING, "disk", "free some space, 'henry cache gc', or set HENRY_CACHE_DIR",
              "%.2f GB free at %s", free_gb, dir);
    else found(d, GOOD, "disk", "", "%.1f GB free at %s", free_gb, dir);
}

static void check_cache(doctor *d) {
    hn_store *store = NULL;
    hn_store_usage usage;
    hn_status status = hn_store_open(
        &(hn_store_options){.dir = d->options->cache_dir, .is_required = true}, &store);
    const char *dir = store ? hn_store_dir(store) : "";
    if (!status) status = hn_store_usage_get(store, &usage);
    if (status || access(dir, W_OK) != 0) {
        found(d, WARNING, "cache",
              "set HENRY_CACHE_DIR to a directory of yours that nobody else may write to",
              "%s: every start compiles everything again",
              status ? hn_status_message(status) : "cannot write to the directory");
    } else {
        found(d, GOOD, "cache", "", "%s holds %.1f MB of at most %.0f MB", dir,
              (double)usage.total_bytes / 1e6, (double)usage.max_bytes / 1e6);
        check_disk(d, dir);
    }
    hn_status_free(status);
    hn_store_close(store);
}

/* Only when one is asked for. */
static void check_remote(doctor *d) {
    static const char fix[] =
        "start the server, or see docs/cache.md for the address; without it every machine compiles for itself";
    const char *url = d->options->remote ? d->options->remote : getenv("HENRY_REDIS_URL");
    hn_remote *remote = NULL;
    int64_t ping_ns = 0;
    if (!url || !*url) return;
    hn_status status = hn_remote_open(url, &remote);
    if (!status) status = hn_remote_ping(remote, &ping_ns);
    if (status) found(d, WARNING, "remote", fix, "%s", hn_status_message(status));
    else
        found(d, GOOD, "remote", "", "%s answers within %lld us", hn_remote_name(remote),
              (long long)(ping_ns / 1000 + 1));
    hn_status_free(status);
    hn_remote_close(remote);
}

static void check_temp(doctor *d) {
    char dir[PATH_MAX];
    hn_status status = hn_dir_temp(dir, sizeof dir);
    if (status) {
        found(d, WARNING, "temp", "set TMPDIR to a directory that you may write to", "%s",
              hn_status_message(status));
        hn_status_free(status);
        return;
    }
    found(d, GOOD, "temp", "", "%s can be written to",
          getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    hn_status_free(hn_dir_remove(dir));
}

static void check_limit(doctor *d, int which, const char *name, rlim_t enough, const char *fix) {
    struct rlimit limit;
    if (getrlimit((__rlimit_resource_t)which, &limit) != 0) return;
    if (limit.rlim_cur == RLIM_INFINITY) found(d, GOOD, "limits", "", "%s: none", name);
    else if (limit.rlim_cur < enough)
        found(d, WARNING, "limits", fix, "%s: %llu, less than %llu", name,
              (unsigned long long)limit.rlim_cur, (unsigned long long)enough);
    else found(d, GOOD, "limits", "", "%s: %llu", name, (unsigned long long)limit.rlim_cur);
}

static void check_memory(doctor *d) {
    struct sysinfo info;
    if (sysinfo(&info) != 0) return;
    double free_gb = ((double)info.freeram + (double)info.bufferram) * info.mem_unit / 1e9,
           all_gb = (double)info.totalram * info.mem_unit / 1e9;
    if (all_gb < 1)
        found(d, WARNING, "memory", "compile elsewhere and run the bundle here",
              "%.2f GB in all; a compiler takes up to 0.3 GB", all_gb);
    else found(d, GOOD, "memory", "", "%.1f GB, of which %.1f unused", all_gb, free_gb);
}

static hn_status report(doctor *d) {
    hn_strbuf_printf(&d->text, "%s: %u failed, %u warning%s\n",
                     d->failed ? "Henry cannot compile models here" : "Henry is ready", d->failed,
                     d->warned, d->warned == 1 ? "" : "s");
    tool_json_close(&d->json);
    tool_json_int(&d->json, "failed", d->failed);
    tool_json_int(&d->json, "warnings", d->warned);
    return d->options->json ? tool_json_finish(&d->json, true, NULL) : tool_print(&d->text);
}

int tool_cmd_doctor(const tool_options *options) {
    doctor d = {.options = options};
    hn_strbuf_init(&d.text);
    tool_json_init(&d.json);
    tool_json_open(&d.json, "checks", '[');
    if (check_compiler(&d)) check_service(&d);
    check_languages(&d);
    check_cpu(&d);
    check_threads(&d);
    check_memory(&d);
    check_cache(&d);
    check_remote(&d);
    check_temp(&d);
    check_limit(&d, RLIMIT_NOFILE, "open files", 256, "ulimit -n 1024");
    check_limit(&d, RLIMIT_NPROC, "processes", 128, "ulimit -u 1024");
    check_limit(&d, RLIMIT_AS, "address space", (rlim_t)4 << 30, "ulimit -v unlimited");
    hn_status status = report(&d);
    tool_json_deinit(&d.json);
    hn_strbuf_deinit(&d.text);
    int code = tool_report(status);
    return code != TOOL_OK ? code : d.failed ? TOOL_FAILED : TOOL_OK;
}
