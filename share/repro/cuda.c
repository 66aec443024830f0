/* Runs one kernel on a GPU, on the inputs that it had in a run of the model, compares what it
 * writes with what the reference computed, and times it. repro.h, written by henry, says what
 * there is.
 * kernel.cu is compiled by NVRTC when the program starts, so it can be edited; kernel.cubin, where
 * there is one (made with nvcc, say), is taken in its place.
 *
 *     repro [RTOL [ARCH]]     exit status 0: equal within RTOL of the largest expected element
 *
 * Nothing of CUDA is needed to build this: the driver and NVRTC are loaded. HENRY_NVRTC names the
 * library of NVRTC. */
#include "check.h"

#include <dlfcn.h>

typedef unsigned long long address; /* CUdeviceptr */

/* The driver: names as its header has them without the prefix, then as the library has them. */
#define DRIVER(X)                                                                                  \
    X(Init, "cuInit", (unsigned flags))                                                            \
    X(GetErrorName, "cuGetErrorName", (int code, const char **out))                                \
    X(DeviceGet, "cuDeviceGet", (int *out, int number))                                            \
    X(DeviceGetName, "cuDeviceGetName", (char *out, int bytes, int device))                        \
    X(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (void **out, int device))                \
    X(CtxPushCurrent, "cuCtxPushCurrent_v2", (void *context))                                      \
    X(StreamCreate, "cuStreamCreate", (void **out, unsigned flags))                                \
    X(StreamSynchronize, "cuStreamSynchronize", (void *stream))                                    \
    X(EventCreate, "cuEventCreate", (void **out, unsigned flags))                                  \
    X(EventRecord, "cuEventRecord", (void *event, void *stream))                                   \
    X(EventSynchronize, "cuEventSynchronize", (void *event))                                       \
    X(EventElapsedTime, "cuEventElapsedTime", (float *out_ms, void *begin, void *end))             \
    X(MemAlloc, "cuMemAlloc_v2", (address * out, size_t bytes))                                    \
    X(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2",                                                     \
      (address to, const void *from, size_t bytes, void *stream))                                  \
    X(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2",                                                     \
      (void *to, address from, size_t bytes, void *stream))                                        \
    X(ModuleLoadDataEx, "cuModuleLoadDataEx",                                                      \
      (void **out, const void *image, unsigned count, int *options, void **values))                \
    X(ModuleGetFunction, "cuModuleGetFunction", (void **out, void *module, const char *name))      \
    X(FuncSetAttribute, "cuFuncSetAttribute", (void *function, int attribute, int value))          \
    X(LaunchKernel, "cuLaunchKernel",                                                              \
      (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,        \
       unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **params,     \
       void **extra))

#define NVRTC(X)                                                                                   \
    X(CreateProgram, "nvrtcCreateProgram",                                                         \
      (void **out, const char *text, const char *name, int count, const char *const *headers,      \
       const char *const *names))                                                                  \
    X(CompileProgram, "nvrtcCompileProgram",                                                       \
      (void *program, int count, const char *const *options))                                      \
    X(GetProgramLogSize, "nvrtcGetProgramLogSize", (void *program, size_t *out))                   \
    X(GetProgramLog, "nvrtcGetProgramLog", (void *program, char *out))                             \
    X(GetCUBINSize, "nvrtcGetCUBINSize", (void *program, size_t *out))                             \
    X(GetCUBIN, "nvrtcGetCUBIN", (void *program, char *out))                                       \
    X(GetPTXSize, "nvrtcGetPTXSize", (void *program, size_t *out))                                 \
    X(GetPTX, "nvrtcGetPTX", (void *program, char *out))

#define MEMBER(member, name, parameters) int(*member) parameters;
static struct driver { DRIVER(MEMBER) } cu;
static struct nvrtc { NVRTC(MEMBER) } rtc;

enum {
    SHARED_BYTES_MAX = 8 /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */,
    USUAL = 48 << 10
};

static void fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why ? why : "");
    exit(2);
}

static void check(int code, const char *what) {
    const char *name = "an unknown error";
    if (!code) return;
    (void)cu.GetErrorName(code, &name);
    fail(what, name);
}
#define CU(call, ...) check(cu.call(__VA_ARGS__), #call)

/* ---- the libraries ---- */

static void find(void *library, const char *name, void *out) {
    void *found = dlsym(library, name);
    if (!found) fail(name, "the library lacks it");
    memcpy(out, &found, sizeof found);
}

static void open_driver(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) fail("no driver of NVIDIA", dlerror());
#define FIND(member, name, parameters) find(library, name, &cu.member);
    DRIVER(FIND)
#undef FIND
}

static void open_nvrtc(void) {
    const char *names[] = {getenv("HENRY_NVRTC"), "libnvrtc.so.13", "libnvrtc.so.12",
                           "/usr/local/cuda/lib64/libnvrtc.so"};
    void *library = NULL;
    for (int k = 0; k < 4 && !library; k++)
        if (names[k]) library = dlopen(names[k], RTLD_NOW);
    if (!library)
        fail("no NVRTC", "name its library with HENRY_NVRTC, or make kernel.cubin from kernel.cu");
#define FIND(member, name, parameters) find(library, name, &rtc.member);
    NVRTC(FIND)
#undef FIND
}

/* ---- the kernel ---- */

/* With a 0 behind it; NULL: there is no such file. */
static char *read_all(const char *name) {
    FILE *file = fopen(name, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    const long bytes = ftell(file);
    char *all = allocate(bytes + 1);
    rewind(file);
    if (fread(all, 1, (size_t)bytes, file) != (size_t)bytes) fail("cannot read", name);
    all[bytes] = 0;
    fclose(file);
    return all;
}

static void tell_log(void *program) {
    size_t bytes = 0;
    if (rtc.GetProgramLogSize(program, &bytes) || bytes < 2) return;
    char *log = allocate((long long)bytes);
    if (!rtc.GetProgramLog(program, log)) fprintf(stderr, "%s\n", log);
    free(log);
}

/* Machine code, or PTX for an architecture that is not of a GPU. */
static char *compile(const char *arch) {
    const int is_virtual = !strncmp(arch, "compute_", 8);
    const char *options[16];
    char target[64], *text = read_all("kernel.cu"), *image;
    void *program;
    size_t bytes = 0;
    int count = 0;
    if (!text) fail("cannot read", "kernel.cu");
    open_nvrtc();
    snprintf(target, sizeof target, "--gpu-architecture=%s", arch);
    options[count++] = target;
    for (int k = 0; flags[k] && count < 16; k++) options[count++] = flags[k];
    if (rtc.CreateProgram(&program, text, "kernel.cu", 0, NULL, NULL)) fail("NVRTC", "no program");
    if (rtc.CompileProgram(program, count, options)) {
        tell_log(program);
        fail("kernel.cu", "it does not compile");
    }
    if (is_virtual ? rtc.GetPTXSize(program, &bytes) : rtc.GetCUBINSize(program, &bytes))
        fail("NVRTC", "no code");
    image = allocate((long long)bytes + 1);
    if (is_virtual ? rtc.GetPTX(program, image) : rtc.GetCUBIN(program, image))
        fail("NVRTC", "no code");
    free(text);
    return image;
}

#define STRING_OF(name) #name
#define STRING(name)    STRING_OF(name)

static void *load_kernel(const char *arch) {
    void *module, *function;
    char *image = read_all("kernel.cubin");
    if (!image) image = compile(arch);
    CU(ModuleLoadDataEx, &module, image, 0, NULL, NULL);
    CU(ModuleGetFunction, &function, module, STRING(REPRO_KERNEL));
    if (REPRO_SHARED_BYTES > USUAL)
        CU(FuncSetAttribute, function, SHARED_BYTES_MAX, REPRO_SHARED_BYTES);
    free(image);
    return function;
}

/* ---- the launch ---- */

enum { SIZES = sizeof sizes / sizeof *sizes - 1 };
static void *stream, *function;
static address on_device[COUNT], status_at, scratch;
static address arguments[COUNT];
static void *params[COUNT + SIZES + 2];

static address copy_in(const void *from, long long bytes) {
    address to;
    CU(MemAlloc, &to, bytes ? (size_t)bytes : 1);
    if (bytes && from) CU(MemcpyHtoDAsync, to, from, (size_t)bytes, stream);
    return to;
}

/* Operands, the word for a failed check, sizes, and scratch memory if there is any. */
static void lay_out(void) {
    static const int none;
    int count = 0;
    for (int k = 0; k < COUNT; k++) {
        on_device[k] = operands[k].same_as < k ? on_device[operands[k].same_as]
                                               : copy_in(memory[k], operands[k].bytes);
        arguments[k] = on_device[k] + (address)operands[k].begin;
        params[count++] = &arguments[k];
    }
    status_at = copy_in(&none, sizeof none);
    params[count++] = &status_at;
    for (int k = 0; k < SIZES; k++) params[count++] = (void *)(uintptr_t)&sizes[k];
    scratch = copy_in(NULL, REPRO_EXTENT * REPRO_SCRATCH_BYTES);
    params[count++] = &scratch; /* a kernel without it does not look at this one */
}

static void launch(void) {
    CU(LaunchKernel, function, REPRO_EXTENT, 1, 1, REPRO_THREADS, 1, 1, REPRO_SHARED_BYTES, stream,
       params, NULL);
}

static int run_once(void) {
    int failed = 0;
    launch();
    CU(MemcpyDtoHAsync, &failed, status_at, sizeof failed, stream);
    for (int k = 0; k < COUNT; k++)
        if (operands[k].expected && operands[k].bytes)
            CU(MemcpyDtoHAsync, memory[k], on_device[k], (size_t)operands[k].bytes, stream);
    CU(StreamSynchronize, stream);
    return failed;
}

static void measure(const char *device) {
    static double times[RUNS_MAX];
    const double start = now();
    void *begin, *end;
    int runs = 0;
    CU(EventCreate, &begin, 0);
    CU(EventCreate, &end, 0);
    while (runs < RUNS_MAX && (runs < RUNS_MIN || now() - start < 1)) {
        float ms = 0;
        CU(EventRecord, begin, stream);
        launch();
        CU(EventRecord, end, stream);
        CU(EventSynchronize, end);
        CU(EventElapsedTime, &ms, begin, end);
        times[runs++] = 1e-3 * (double)ms;
    }
    report_times(times, runs, device);
}

int main(int argc, char **argv) {
    const double rtol = argc > 1 ? atof(argv[1]) : 1e-4;
    char name[100] = "on ";
    void *context;
    int device;
    open_driver();
    CU(Init, 0);
    CU(DeviceGet, &device, 0);
    CU(DeviceGetName, name + 3, (int)sizeof name - 3, device);
    CU(DevicePrimaryCtxRetain, &context, device);
    CU(CtxPushCurrent, context);
    CU(StreamCreate, &stream, 1);
    function = load_kernel(argc > 2 ? argv[2] : REPRO_TARGET);
    load();
    lay_out();
    const int failed = run_once();
    if (failed) {
        printf("the kernel reports an index out of range (%d)\n", failed);
        return 1;
    }
    const int good = compare_all(rtol);
    measure(name);
    puts(good ? "equal" : "DIFFERENT");
    return !good;
}
