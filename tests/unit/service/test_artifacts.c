/* test_artifacts.c: what comes out of each language through a service, in a worker and inline:
 * loading it, or what to do instead. A language whose compiler is missing is left out with a
 * line. */
#include "henry/kernel.h"

#include "unit/harness.h"

#include "base/file.h"
#include "base/log.h"
#include "base/opencl_program.h"

#include <limits.h>
#include <stdlib.h>

typedef struct fixture {
    char dir[PATH_MAX];
    hn_service *service;
    hn_scope *scope;
} fixture;

/* Sanitizers map terabytes of shadow: a worker with a limit of address space, as NVRTC gets one,
 * cannot start there. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { HAS_SHADOW = 1 };
#else
enum { HAS_SHADOW = 0 };
#endif

static void fixture_begin(fixture *f, int32_t threads) {
    *f = (fixture){.service = NULL};
    EXPECT_OK(hn_dir_temp(f->dir, sizeof(f->dir)));
    EXPECT_OK(
        hn_service_create(&(hn_service_options){.threads = threads,
                                                .cache_dir = f->dir,
                                                .remote_url = "",
                                                .job_memory_bytes = HAS_SHADOW ? UINT64_MAX : 0},
                          &f->service));
    EXPECT_OK(hn_scope_create(f->service, &f->scope));
}

static void fixture_end(fixture *f) {
    hn_scope_destroy(f->scope);
    hn_service_destroy(f->service);
    EXPECT_OK(hn_dir_remove(f->dir));
}

/* NULL, with a line, when the compiler is missing. */
static hn_future *submit(fixture *f, const char *language, const char *text, const char *entry,
                         const char *const *target, size_t target_count) {
    hn_future *future = NULL;
    const hn_source source = {.name = language,
                              .language = language,
                              .text = text,
                              .text_len = strlen(text),
                              .entries = &entry,
                              .entry_count = 1,
                              .target = target,
                              .target_count = target_count};
    hn_status status = hn_compile_submit(f->scope, &source, &future);
    if (status) {
        EXPECT_INT(hn_status_code(status), HN_TOOLCHAIN);
        /* of the languages here, tests/run.sh installs NVRTC's */
        if (!strcmp(language, "cuda")) hn_test_lack(hn_status_message(status));
        else hn_test_skip(hn_status_message(status));
        hn_status_free(status);
    }
    return future;
}

static void check_images(hn_artifact *artifact) {
    hn_library *library;
    hn_image image = {.arch = ""};
    const char *symbol = "";
    EXPECT_INT(hn_artifact_image_count(artifact), 2);
    EXPECT_OK(hn_artifact_image(artifact, 1, &image));
    /* targets are in the order of their names, whatever the caller's */
    EXPECT_STR(image.arch, "sm_90");
    EXPECT_ERROR(hn_artifact_image(artifact, 2, &image), HN_NOT_FOUND, "no image 2");
    EXPECT_OK(hn_artifact_image_find(artifact, "sm_90", &image));
    EXPECT(image.kind == HN_IMAGE_CUBIN && image.len > 0);
    EXPECT_OK(hn_artifact_image_find(artifact, "sm_89", &image));
    EXPECT(image.kind == HN_IMAGE_PTX);
    EXPECT_ERROR(hn_artifact_image_find(artifact, "sm_75", &image), HN_NOT_FOUND,
                 "no code for 'sm_75'; it has: compute_80, sm_90");
    EXPECT_OK(hn_artifact_image_symbol(artifact, "fill", &symbol));
    EXPECT_STR(symbol, "fill");
    EXPECT_ERROR(hn_artifact_image_symbol(artifact, "other", &symbol), HN_NOT_FOUND,
                 "'other' is no entry");
    EXPECT_ERROR(
        hn_artifact_load(artifact, &library), HN_UNSUPPORTED,
        "it is device code (compute_80, sm_90); take the device's image with hn_artifact_image_find");
}

static void device_code(const char *language, int32_t threads) {
    static const char *const target[] = {"sm_90", "compute_80"};
    static const char text[] =
        "extern \"C\" __global__ void fill(float *p) { p[threadIdx.x] = 1; }\n";
    static const char bad[] =
        "\nextern \"C\" __global__ void fill(float *p) { p[threadIdx.x] = what; }\n";
    fixture f;
    fixture_begin(&f, threads);
    hn_future *future = submit(&f, language, text, "fill", target, 2);
    if (future) {
        hn_artifact *artifact = NULL;
        EXPECT_OK(hn_future_wait(future, -1, &artifact));
        if (artifact) check_images(artifact);
        hn_artifact_release(artifact);
        hn_log_configure("error");
        future = submit(&f, language, bad, "fill", target, 2);
        EXPECT_ERROR(hn_future_wait(future, -1, NULL), HN_TOOLCHAIN,
                     "kernel.cu(2): error: identifier \"what\" is undefined");
        hn_log_configure(NULL);
    }
    hn_service_stats stats;
    hn_service_stats_get(f.service, &stats);
    EXPECT_INT(stats.crashed, 0);
    EXPECT_INT(stats.workers_started > 0, future && threads > 1);
    fixture_end(&f);
}

TEST(device_code_by_nvrtc_in_a_worker) { device_code("cuda", 2); }
TEST(device_code_by_nvrtc_inline) { device_code("cuda", 1); }
TEST(device_code_by_nvcc) { device_code("nvcc", 2); }

/* With drivers or without: an artefact is not loaded into the process, and an error has the name of
 * the entry. */
static void opencl_object(int32_t threads) {
    static const char text[] =
        "__kernel void fill(__global float *p) { p[get_global_id(0)] = 1; }\n";
    fixture f;
    hn_library *library;
    hn_artifact *artifact = NULL;
    hn_opencl_program program;
    fixture_begin(&f, threads);
    hn_future *future = submit(&f, "opencl", text, "fill", NULL, 0);
    EXPECT_OK(hn_future_wait(future, -1, &artifact));
    if (artifact) {
        size_t len;
        const char *bytes = hn_artifact_bytes(artifact, &len);
        EXPECT_OK(hn_opencl_program_parse((hn_str){bytes, len}, &program));
        EXPECT_STR(program.source.ptr, text);
        EXPECT_ERROR(hn_artifact_load(artifact, &library), HN_UNSUPPORTED,
                     "it is an object for OpenCL; a device of the runtime loads it");
    }
    hn_artifact_release(artifact);
    hn_log_configure("error");
    future = submit(&f, "opencl", text, "file", NULL, 0);
    EXPECT_ERROR(hn_future_wait(future, -1, NULL), HN_TOOLCHAIN,
                 "no function 'file' in what was compiled");
    hn_log_configure(NULL);
    hn_service_stats stats;
    hn_service_stats_get(f.service, &stats);
    EXPECT_INT(stats.crashed, 0);
    fixture_end(&f);
}

TEST(opencl_in_a_worker) { opencl_object(2); }
TEST(opencl_inline) { opencl_object(1); }

TEST(a_python_extension_is_not_loaded) {
    fixture f;
    hn_library *library;
    hn_artifact *artifact = NULL;
    fixture_begin(&f, 2);
    hn_future *future = submit(&f, "python", "int one() { return 1; }\n", "i32 one()", NULL, 0);
    if (future) {
        hn_image image;
        EXPECT_OK(hn_future_wait(future, -1, &artifact));
        if (artifact) {
            EXPECT_ERROR(
                hn_artifact_load(artifact, &library), HN_UNSUPPORTED,
                "it is a Python extension; write its bytes to MODULE.abi3.so and import it in Python");
            EXPECT_INT(hn_artifact_image_count(artifact), 0);
            EXPECT_ERROR(hn_artifact_image_find(artifact, "sm_90", &image), HN_NOT_FOUND,
                         "it has: none");
        }
        hn_artifact_release(artifact);
    }
    fixture_end(&f);
}

TEST(cxx_runs_from_a_worker_and_from_the_disk) {
    static const char text[] =
        "#include <string>\nextern \"C\" int size(int n) { return (int)std::string(n, 'x').size(); }\n";
    fixture f;
    fixture_begin(&f, 2);
    for (int round = 0; round < 2; round++) {
        hn_future *future = submit(&f, "c++", text, "size", NULL, 0);
        hn_artifact *artifact = NULL;
        hn_library *library = NULL;
        void *size = NULL;
        if (!future) break;
        EXPECT_OK(hn_future_wait(future, -1, &artifact));
        EXPECT_INT(hn_future_hit_level(future), round ? HN_HIT_DISK : HN_HIT_NONE);
        EXPECT_OK(hn_artifact_load(artifact, &library));
        EXPECT_OK(hn_library_symbol(library, "size", &size));
        if (size) EXPECT_INT(((int (*)(int))size)(100), 100);
        hn_library_close(library);
        hn_artifact_release(artifact);
        if (round) break;
        /* a new service has nothing in memory; this waits until all is stored */
        hn_scope_destroy(f.scope);
        hn_service_destroy(f.service);
        EXPECT_OK(hn_service_create(
            &(hn_service_options){.threads = 2, .cache_dir = f.dir, .remote_url = ""}, &f.service));
        EXPECT_OK(hn_scope_create(f.service, &f.scope));
    }
    fixture_end(&f);
}

TEST_MAIN
