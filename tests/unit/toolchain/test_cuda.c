/* test_cuda.c: the languages "cuda" and "nvcc", to cubins and PTX, without a GPU. Parts are skipped
 * where NVRTC or nvcc is missing. */
#include "unit/toolchain/fixture.h"

#include "base/cubin.h"
#include "base/log.h"
#include "base/trace.h"
#include "toolchain/images.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const char two_kernels[] =
    "extern \"C\" __global__ void fill(float *p, float x) { p[blockIdx.x * blockDim.x + threadIdx.x] = x; }\n"
    "template <class T> __global__ void scale(T *p, T x) { p[threadIdx.x] *= x; }\n"
    "namespace n { __global__ void plain(int *p) { *p = 1; } }\n";

static hn_toolchain_job job_of(const char *text, hn_str target) {
    return (hn_toolchain_job){.text = hn_str_of(text), .target = target, .own_group = true};
}

static void expect_error(const language *l, const hn_toolchain_job *job, hn_code code,
                         const char *part) {
    hn_toolchain_result result;
    hn_log_configure("error");
    EXPECT_ERROR(hn_toolchain_compile(&l->toolchain, job, &result), code, part);
    hn_log_configure(NULL);
    hn_toolchain_result_deinit(&result);
}

/* ---- NVRTC ---- */

TEST(nvrtc_makes_cubins_and_ptx_in_one_job) {
    language l;
    if (!language_begin(&l, "cuda")) return language_end(&l);
    hn_toolchain_job job = job_of(two_kernels, HN_STR("sm_80\0sm_90\0compute_80\0"));
    hn_toolchain_result result;
    job.entries = HN_STR("fill\0scale<float>\0n::plain\0");
    job.flags = HN_STR("--use_fast_math\0");
    EXPECT(l.toolchain.row->reads(job.text, job.flags) == HN_READS_NOTHING);
    EXPECT_OK(hn_toolchain_compile(&l.toolchain, &job, &result));
    hn_str bytes = hn_strbuf_str(&result.bytes);
    EXPECT_OK(hn_images_check(bytes));
    if (result.bytes.len) {
        hn_image image;
        EXPECT_INT(hn_images_count(bytes), 3);
        hn_images_get(bytes, 0, &image);
        EXPECT_STR(image.arch, "sm_80");
        EXPECT(image.kind == HN_IMAGE_CUBIN && memcmp(image.bytes, "\177ELF", 4) == 0);
        hn_images_get(bytes, 2, &image);
        EXPECT_STR(image.arch, "compute_80");
        EXPECT(image.kind == HN_IMAGE_PTX && strlen(image.bytes) == image.len);
        EXPECT(strstr(image.bytes, ".target sm_80") && strstr(image.bytes, ".entry fill("));
        EXPECT_STR(hn_images_symbol(bytes, "fill"), "fill");
        EXPECT_STR(hn_images_symbol(bytes, "scale<float>"), "_Z5scaleIfEvPT_S0_");
        EXPECT_STR(hn_images_symbol(bytes, "n::plain"), "_ZN1n5plainEPi");
        EXPECT(hn_images_symbol(bytes, "other") == NULL);
    }
    hn_toolchain_result_deinit(&result);
    language_end(&l);
}

/* A stack where an index of an array is not known, and shared memory. */
TEST(cubins_tell_what_kernels_take) {
    static const char *const targets[] = {"sm_80", "sm_90a", "sm_120"};
    language l;
    if (!language_begin(&l, "cuda")) return language_end(&l);
    for (int t = 0; t < 3; t++) {
        hn_strbuf target;
        hn_toolchain_result result;
        hn_image image = {.len = 0};
        hn_cubin_use small = {.registers = 0}, large = small;
        hn_strbuf_init(&target);
        hn_list_add(&target, targets[t]);
        hn_toolchain_job job = job_of(
            "extern \"C\" __global__ void small(float *p) { *p = 1; }\n"
            "extern \"C\" __global__ void large(float *p, int n) { __shared__ float s[100]; float v[16];\n"
            "  for (int i = 0; i < 16; i++) v[i] = p[i]; s[threadIdx.x] = p[n]; __syncthreads();\n"
            "  for (int i = 0; i < n; i++) v[p[i] > 0 ? 3 : n & 15] += s[i]; p[0] = v[n & 15]; }\n",
            hn_strbuf_str(&target));
        job.entries = HN_STR("small\0large\0");
        EXPECT_OK(hn_toolchain_compile(&l.toolchain, &job, &result));
        if (result.bytes.len) hn_images_get(hn_strbuf_str(&result.bytes), 0, &image);
        const hn_str cubin = {image.bytes, image.len};
        EXPECT(hn_cubin_is_whole(cubin));
        EXPECT(hn_cubin_use_find(cubin, "small", &small));
        EXPECT(hn_cubin_use_find(cubin, "large", &large));
        EXPECT(small.registers >= 4 && small.registers < large.registers);
        EXPECT(!small.stack_bytes && large.stack_bytes >= 64);
        EXPECT(!small.shared_bytes && large.shared_bytes == 400);
        hn_toolchain_result_deinit(&result);
        hn_strbuf_deinit(&target);
    }
    language_end(&l);
}

TEST(nvrtc_gives_the_same_bytes_again) {
    language l;
    if (!language_begin(&l, "cuda")) return language_end(&l);
    hn_toolchain_job job = job_of(two_kernels, HN_STR("sm_90\0"));
    hn_toolchain_result one, other;
    job.entries = HN_STR("fill\0");
    EXPECT_OK(hn_toolchain_compile(&l.toolchain, &job, &one));
    int64_t start = hn_now_ns();
    EXPECT_OK(hn_toolchain_compile(&l.toolchain, &job, &other));
    fprintf(stderr, "note: %.1f ms for a small unit when NVRTC is loaded\n",
            (double)(hn_now_ns() - start) / 1e6);
    EXPECT(hn_str_eq(hn_strbuf_str(&one.bytes), hn_strbuf_str(&other.bytes)));
    hn_toolchain_result_deinit(&one);
    hn_toolchain_result_deinit(&other);
    language_end(&l);
}

TEST(nvrtc_compiles_what_minimal_leaves_out) {
    language l;
    if (!language_begin(&l, "cuda")) return language_end(&l);
    hn_toolchain_job job = job_of(
        "extern \"C\" __global__ void f(cudaTextureObject_t t, float *p) { *p = tex2D<float>(t, 0, 0); }\n",
        HN_STR("sm_90\0"));
    hn_toolchain_result result;
    EXPECT_OK(hn_toolchain_compile(&l.toolchain, &job, &result));
    EXPECT(!result.is_deterministic);
    hn_toolchain_result_deinit(&result);
    language_end(&l);
}

TEST(nvrtc_errors_have_the_line_of_the_text) {
    language l;
    if (!language_begin(&l, "cuda")) return language_end(&l);
    hn_toolchain_job job =
        job_of("\n\nextern \"C\" __global__ void f(int *p) { *p = nothing; }\n", HN_STR("sm_90\0"));
    expect_error(&l, &job, HN_TOOLCHAIN,
                 "kernel.cu(3): error: identifier \"nothing\" is undefined");
    job.source_path = "/cache/failed/x.cu";
    job.flags = HN_STR("-DX=a b\0");
    expect_error(
        &l, &job, HN_TOOLCHAIN,
        "to run it again: henry kernel compile /cache/failed/x.cu --language cuda --target=sm_90 '--flag=-DX=a b' -o /dev/null");
    job.flags = HN_STR("");
    job.text = HN_STR("#include <cuda_fp16.h>\n");
    expect_error(&l, &job, HN_TOOLCHAIN, "kernel.cu(1): ");
    job.text = hn_str_of(two_kernels);
    job.entries = HN_STR("fill\0absent\0");
    expect_error(
        &l, &job, HN_TOOLCHAIN,
        "no function 'absent' in what was compiled; it was asked for as an entry; to run it again: henry kernel compile "
        "/cache/failed/x.cu --language cuda --entry=fill --entry=absent --target=sm_90 -o /dev/null");
    job.entries = HN_STR("");
    job.flags = HN_STR("--std=c++99\0");
    expect_error(&l, &job, HN_TOOLCHAIN, "c++99");
    language_end(&l);
}

TEST(nvrtc_failures_are_known_to_come_again) {
    language l;
    if (!language_begin(&l, "cuda")) return language_end(&l);
    hn_toolchain_job job = job_of("nonsense", HN_STR("sm_90\0"));
    hn_toolchain_result result;
    hn_log_configure("error");
    hn_status status = hn_toolchain_compile(&l.toolchain, &job, &result);
    hn_log_configure(NULL);
    EXPECT(status && result.is_deterministic);
    hn_status_free(status);
    hn_toolchain_result_deinit(&result);
    language_end(&l);
}

TEST(bad_gpu_targets_and_flags_are_refused) {
    static const char *const names[] = {"cuda", "nvcc"};
    for (int i = 0; i < 2; i++) {
        language l;
        if (language_begin(&l, names[i])) {
            hn_toolchain_job job = job_of(two_kernels, HN_STR(""));
            expect_error(&l, &job, HN_INVALID_ARGUMENT,
                         "cannot compile for no architecture: add 'sm_NN'");
            expect_error(&l, &job, HN_INVALID_ARGUMENT, "sm_90");
            job.target = HN_STR("sm_12\0");
            expect_error(&l, &job, HN_INVALID_ARGUMENT,
                         "does not know architecture 'sm_12'; it knows sm_75");
            job.target = HN_STR("avx2\0");
            expect_error(&l, &job, HN_INVALID_ARGUMENT, "'avx2' is no GPU architecture");
            job.target = HN_STR("sm_90\0");
            job.flags = HN_STR("-arch=sm_80\0");
            expect_error(&l, &job, HN_INVALID_ARGUMENT, "'-arch=sm_80'");
            job.flags = HN_STR("file.cu\0");
            expect_error(&l, &job, HN_INVALID_ARGUMENT, "'file.cu'");
            static const char *const handed_on[] = {"-Xcompiler=-O2,-fplugin=/x",
                                                    "-Xcompiler=-Wl,-Map=F",
                                                    "-Xlinker=-oF",
                                                    "-Xptxas=--output-file=F",
                                                    "-Xcompiler",
                                                    "-Xcompiler=-O2 -specs=/x"};
            for (size_t k = 0; i == 1 && k < sizeof(handed_on) / sizeof(handed_on[0]); k++) {
                job.flags = (hn_str){handed_on[k], strlen(handed_on[k]) + 1};
                expect_error(&l, &job, HN_INVALID_ARGUMENT, handed_on[k]);
            }
            job.flags = HN_STR("");
            job.target = HN_STR("host\0");
            expect_error(&l, &job, HN_INVALID_ARGUMENT, "no architecture");
            job.target = HN_STR("host\0sm_90\0");
            if (i == 0)
                expect_error(&l, &job, HN_INVALID_ARGUMENT,
                             "use language 'nvcc' for target 'host'");
        }
        language_end(&l);
    }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* In a process of its own, since the limit is one of the process. */
static int compile_with(const language *l, uint64_t memory_bytes) {
    hn_toolchain_job job = job_of(two_kernels, HN_STR("sm_90\0"));
    hn_toolchain_result result;
    job.own_group = false;
    job.memory_bytes = memory_bytes;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        close(2);
        hn_status status = hn_toolchain_compile(&l->toolchain, &job, &result);
        struct rlimit after;
        getrlimit(RLIMIT_AS, &after);
        _exit(status || after.rlim_cur != RLIM_INFINITY);
    }
    int wait_status = 0;
    EXPECT(waitpid(pid, &wait_status, 0) == pid);
    return wait_status;
}

TEST(nvrtc_is_limited_in_memory) {
    struct rlimit now;
    language l;
    getrlimit(RLIMIT_AS, &now);
    if (now.rlim_cur != RLIM_INFINITY || !language_begin(&l, "cuda")) return;
    EXPECT_INT(compile_with(&l, 0), 0);
    EXPECT_INT(compile_with(&l, (uint64_t)8 << 30), 0);
    EXPECT(compile_with(&l, 1 << 20) != 0);
    language_end(&l);
}
#endif

TEST(a_missing_nvrtc_says_how_to_get_it) {
    const hn_toolchain_row *row = NULL;
    hn_store *store = NULL;
    hn_toolchain toolchain;
    const char *given = getenv("HENRY_NVRTC");
    char *saved = given ? strdup(given) : NULL;
    EXPECT_OK(hn_store_open(&(hn_store_options){.dir = ""}, &store));
    EXPECT_OK(hn_toolchain_row_find(HN_STR("cuda"), &row));
    setenv("HENRY_NVRTC", "/no/such/libnvrtc.so", 1);
    EXPECT_ERROR(hn_toolchain_probe(row, store, &toolchain), HN_TOOLCHAIN,
                 "'/no/such/libnvrtc.so' that HENRY_NVRTC names: No such file");
    setenv("HENRY_NVRTC", "libnvrtc.so", 1);
    EXPECT_ERROR(hn_toolchain_probe(row, store, &toolchain), HN_TOOLCHAIN,
                 "it must be an absolute path");
    setenv("HENRY_NVRTC", "/bin/sh", 1);
    EXPECT_ERROR(hn_toolchain_probe(row, store, &toolchain), HN_TOOLCHAIN, "cannot load NVRTC: /");
    if (saved) setenv("HENRY_NVRTC", saved, 1);
    else unsetenv("HENRY_NVRTC");
    free(saved);
    hn_store_close(store);
}

TEST(the_second_probe_does_not_load_nvrtc) {
    language l;
    hn_toolchain again;
    if (!language_begin(&l, "cuda")) return language_end(&l);
    int64_t start = hn_now_ns();
    EXPECT_OK(hn_toolchain_probe(l.toolchain.row, l.store, &again));
    fprintf(stderr, "note: a warm probe took %.0f us\n", (double)(hn_now_ns() - start) / 1e3);
    EXPECT(memcmp(&again.identity, &l.toolchain.identity, sizeof(hn_digest)) == 0);
    EXPECT(hn_str_eq(hn_strbuf_str(&again.record), hn_strbuf_str(&l.toolchain.record)));
    hn_toolchain_deinit(&again);
    language_end(&l);
}

/* ---- nvcc ---- */

TEST(nvcc_makes_images_with_headers) {
    language l;
    if (!language_begin(&l, "nvcc")) return language_end(&l);
    hn_toolchain_job job = job_of(
        "#include <cuda_fp16.h>\nextern \"C\" __global__ void f(__half *p) { *p = __float2half(1.5f); }\n",
        HN_STR("sm_90\0compute_80\0"));
    hn_toolchain_result result;
    job.entries = HN_STR("f\0");
    EXPECT(l.toolchain.row->reads(job.text, job.flags) == HN_READS_HEADERS);
    int64_t start = hn_now_ns();
    EXPECT_OK(hn_toolchain_compile(&l.toolchain, &job, &result));
    fprintf(stderr, "note: %.0f ms for two architectures\n", (double)(hn_now_ns() - start) / 1e6);
    hn_str bytes = hn_strbuf_str(&result.bytes);
    EXPECT_OK(hn_images_check(bytes));
    if (bytes.len) EXPECT_INT(hn_images_count(bytes), 2);
    EXPECT(memmem(result.headers.ptr, result.headers.len, "cuda_fp16.h", 11) != NULL);
    hn_toolchain_result_deinit(&result);
    language_end(&l);
}

TEST(nvcc_links_device_code) {
    language l;
    if (!language_begin(&l, "nvcc")) return language_end(&l);
    hn_toolchain_job job =
        job_of("__global__ void child(int *p) { *p = 1; }\n"
               "extern \"C\" __global__ void parent(int *p) { child<<<1, 1>>>(p); }\n",
               HN_STR("sm_90\0"));
    hn_toolchain_result result;
    job.entries = HN_STR("parent\0");
    job.flags = HN_STR("-rdc=true\0");
    EXPECT_OK(hn_toolchain_compile(&l.toolchain, &job, &result));
    EXPECT(result.bytes.len > 0);
    hn_toolchain_result_deinit(&result);
    language_end(&l);
}

TEST(nvcc_makes_a_shared_object_for_the_host) {
    language l;
    if (!language_begin(&l, "nvcc")) return language_end(&l);
    hn_toolchain_job job = job_of(
        "__global__ void k(int *p) { *p = 1; }\n"
        "extern \"C\" int answer(int n) { if (n < 0) k<<<1, 1>>>(nullptr); return n + 1; }\n",
        HN_STR("host\0sm_80\0compute_80\0"));
    hn_toolchain_result result;
    job.entries = HN_STR("answer\0");
    EXPECT_OK(hn_toolchain_compile(&l.toolchain, &job, &result));
    hn_library *library = NULL;
    void *answer = NULL;
    EXPECT_OK(hn_library_load(result.bytes.ptr, result.bytes.len, "unit", &library));
    EXPECT_OK(hn_library_symbol(library, "answer", &answer));
    if (answer) EXPECT_INT(((int (*)(int))answer)(41), 42);
    hn_library_close(library);
    hn_toolchain_result_deinit(&result);
    language_end(&l);
}

TEST(nvcc_errors_have_the_line_of_the_text) {
    language l;
    if (!language_begin(&l, "nvcc")) return language_end(&l);
    hn_toolchain_job job =
        job_of("\nextern \"C\" __global__ void f(int *p) { *p = nothing; }\n", HN_STR("sm_90\0"));
    job.source_path = "/cache/failed/x.cu";
    expect_error(&l, &job, HN_TOOLCHAIN,
                 "kernel.cu(2): error: identifier \"nothing\" is undefined");
    expect_error(&l, &job, HN_TOOLCHAIN, "to run it again: /");
    expect_error(&l, &job, HN_TOOLCHAIN, " -cubin -o /dev/null /cache/failed/x.cu");
    job.target = HN_STR("compute_90\0"); /* nvcc reads PTX that it wrote once more */
    expect_error(
        &l, &job, HN_TOOLCHAIN,
        "henry kernel compile /cache/failed/x.cu --language nvcc --target=compute_90 --flag=-O0 -o /dev/null");
    job.target = HN_STR("sm_90\0");
    job.text = HN_STR("__global__ void f(int *p) { *p = 1; }\n");
    job.entries = HN_STR("f\0");
    expect_error(&l, &job, HN_TOOLCHAIN, "no function 'f' with C linkage; declare it extern \"C\"");
    job.target = HN_STR("compute_90\0");
    job.env = HN_STR("SOURCE_DATE_EPOCH=7\0");
    expect_error(&l, &job, HN_TOOLCHAIN, "no function 'f'");
    expect_error(
        &l, &job, HN_TOOLCHAIN,
        "to run it again: henry kernel compile /cache/failed/x.cu --language nvcc --entry=f --target=compute_90 --flag=-O0 --env=SOURCE_DATE_EPOCH=7 -o /dev/null");
    job.timeout_ms = 20;
    expect_error(
        &l, &job, HN_TIMEOUT,
        "ran too long and was killed; to run it again: henry kernel compile /cache/failed/x.cu");
    language_end(&l);
}

TEST(a_missing_nvcc_says_how_to_get_it) {
    const hn_toolchain_row *row = NULL;
    hn_store *store = NULL;
    hn_toolchain toolchain;
    EXPECT_OK(hn_store_open(&(hn_store_options){.dir = ""}, &store));
    EXPECT_OK(hn_toolchain_row_find(HN_STR("nvcc"), &row));
    setenv("HENRY_NVCC", "/no/such/nvcc", 1);
    EXPECT_ERROR(hn_toolchain_probe(row, store, &toolchain), HN_TOOLCHAIN,
                 "'/no/such/nvcc' that HENRY_NVCC names");
    setenv("HENRY_NVCC", "/bin/false", 1);
    EXPECT_ERROR(hn_toolchain_probe(row, store, &toolchain), HN_TOOLCHAIN,
                 "cannot use nvcc '/bin/false'");
    unsetenv("HENRY_NVCC");
    hn_store_close(store);
}

/* ---- the container ---- */

static void write_images(hn_strbuf *out) {
    static const hn_image images[] = {
        {"sm_80", HN_IMAGE_CUBIN, "eighty", 6},      {"sm_90", HN_IMAGE_CUBIN, "ninety", 6},
        {"sm_90a", HN_IMAGE_CUBIN, "special", 7},    {"compute_80", HN_IMAGE_PTX, "ptx", 3},
        {"compute_100f", HN_IMAGE_PTX, "family", 6}, {"sm_86", HN_IMAGE_CUBIN, "", 0}};
    const hn_images_source source = {images, 6, HN_STR("f\0f\0g<int>\0_Z1gIiEvv\0")};
    EXPECT_OK(hn_images_write(&source, out));
}

static void expect_found(hn_str bytes, const char *device, const char *arch) {
    hn_image image = {.arch = "nothing"};
    bool found = hn_images_find(bytes, device, &image);
    EXPECT(found == (arch != NULL));
    EXPECT_STR(image.arch, arch ? arch : "nothing");
}

TEST(the_image_that_fits_is_found) {
    hn_strbuf out;
    hn_image image;
    hn_strbuf_init(&out);
    write_images(&out);
    hn_str bytes = hn_strbuf_str(&out);
    EXPECT_OK(hn_images_check(bytes));
    expect_found(bytes, "sm_80", "sm_80");
    expect_found(bytes, "sm_86", "sm_86");
    expect_found(bytes, "sm_89", "sm_86");
    expect_found(bytes, "sm_90", "sm_90");
    expect_found(bytes, "sm_90a", "sm_90a");
    expect_found(bytes, "sm_100", "compute_100f");
    expect_found(bytes, "sm_103", "compute_100f");
    expect_found(bytes, "sm_120", "compute_80");
    expect_found(bytes, "sm_75", NULL);
    expect_found(bytes, "compute_80", "compute_80");
    expect_found(bytes, "compute_90", NULL);
    expect_found(bytes, "gfx90a", NULL);
    EXPECT(hn_images_find(bytes, "sm_90", &image) && image.len == 6 &&
           memcmp(image.bytes, "ninety", 7) == 0);
    EXPECT_INT((uintptr_t)((const char *)image.bytes - bytes.ptr) % 64, 0);
    EXPECT_STR(hn_images_symbol(bytes, "g<int>"), "_Z1gIiEvv");
    hn_strbuf_deinit(&out);
}

/* Whatever byte is changed: either it still verifies, and every read stays inside, or it does
 * not. */
TEST(damaged_images_are_refused) {
    hn_strbuf out;
    hn_strbuf_init(&out);
    write_images(&out);
    for (size_t len = 0; len < out.len; len++) {
        hn_status status = hn_images_check((hn_str){out.ptr, len});
        EXPECT_INT(hn_status_code(status), HN_CORRUPT);
        hn_status_free(status);
    }
    for (size_t at = 0; at < out.len; at++) {
        hn_image image;
        char *copy = malloc(out.len); /* so that a sanitizer sees the end */
        memcpy(copy, out.ptr, out.len);
        copy[at] = (char)(copy[at] ^ 0x81);
        hn_str bytes = {copy, out.len};
        hn_status status = hn_images_check(bytes);
        if (!status) {
            hn_images_find(bytes, "sm_120", &image);
            hn_images_symbol(bytes, "other");
        }
        hn_status_free(status);
        free(copy);
    }
    hn_strbuf_deinit(&out);
}

TEST_MAIN
