/* Runs one kernel on a device of OpenCL, on the inputs that it had in a run of the model, compares
 * what it writes with what the reference computed, and times it. repro.h, written by henry, says
 * what there is. kernel.cl is built when the program starts, so it can be edited.
 *
 *     repro [RTOL [DEVICE]]   exit status 0: equal within RTOL of the largest expected element
 *
 * DEVICE is a number, from 0: GPUs come first, then accelerators, then CPUs. Nothing of OpenCL is
 * needed to build this: the loader of drivers (libOpenCL.so.1) is loaded. */
#include "check.h"

#include <dlfcn.h>

/* Functions of OpenCL 1.2, without the prefix; those that make an object, then others. */
#define MAKERS(X)                                                                                  \
    X(CreateContext, (const intptr_t *properties, unsigned count, void *const *devices,            \
                      void *notify, void *user, int *code))                                        \
    X(CreateCommandQueue, (void *context, void *device, uint64_t properties, int *code))           \
    X(CreateBuffer, (void *context, uint64_t flags, size_t bytes, void *host, int *code))          \
    X(CreateProgramWithSource,                                                                     \
      (void *context, unsigned count, const char **texts, const size_t *lens, int *code))          \
    X(CreateKernel, (void *program, const char *name, int *code))

#define FUNCTIONS(X)                                                                               \
    X(GetPlatformIDs, (unsigned max, void **out, unsigned *count))                                 \
    X(GetDeviceIDs, (void *platform, uint64_t type, unsigned max, void **out, unsigned *count))    \
    X(GetDeviceInfo, (void *device, unsigned what, size_t max, void *out, size_t *size))           \
    X(BuildProgram, (void *program, unsigned count, void *const *devices, const char *options,     \
                     void *notify, void *user))                                                    \
    X(GetProgramBuildInfo,                                                                         \
      (void *program, void *device, unsigned what, size_t max, void *out, size_t *size))           \
    X(GetKernelInfo, (void *kernel, unsigned what, size_t max, void *out, size_t *size))           \
    X(SetKernelArg, (void *kernel, unsigned index, size_t size, const void *value))                \
    X(EnqueueNDRangeKernel,                                                                        \
      (void *queue, void *kernel, unsigned dims, const size_t *first, const size_t *all,           \
       const size_t *group, unsigned waits, void *const *events, void **event))                    \
    X(EnqueueReadBuffer, (void *queue, void *buffer, unsigned waits, size_t at, size_t bytes,      \
                          void *to, unsigned count, void *const *events, void **event))            \
    X(EnqueueWriteBuffer, (void *queue, void *buffer, unsigned waits, size_t at, size_t bytes,     \
                           const void *from, unsigned count, void *const *events, void **event))   \
    X(WaitForEvents, (unsigned count, void *const *events))                                        \
    X(GetEventProfilingInfo, (void *event, unsigned what, size_t max, void *out, size_t *size))    \
    X(ReleaseEvent, (void *event))

#define MAKER(name, parameters)    void *(*name)parameters;
#define FUNCTION(name, parameters) int(*name) parameters;
static struct functions { MAKERS(MAKER) FUNCTIONS(FUNCTION) } cl;

enum {
    WITH_TIMES = 2 /* CL_QUEUE_PROFILING_ENABLE */,
    READ_WRITE = 1,
    DEVICE_NAME = 0x102b,
    DEVICE_F32 = 0x101b /* CL_DEVICE_SINGLE_FP_CONFIG */,
    HAS_EXACT_QUOTIENTS = 1 << 7,
    BUILD_LOG = 0x1183,
    KERNEL_ARGUMENTS = 0x1191,
    TIME_OF_START = 0x1282,
    TIME_OF_END,
    DEVICES_MAX = 16
};

static void fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why ? why : "");
    exit(2);
}

static void check(int code, const char *what) {
    char why[40];
    snprintf(why, sizeof why, "error %d of OpenCL", code);
    if (code) fail(what, why);
}
#define CL(call, ...) check(cl.call(__VA_ARGS__), #call)

static void *made(void *object, int code, const char *what) {
    check(code, what);
    return object;
}

/* ---- the device ---- */

static void *device, *context, *queue;

static void open_loader(void) {
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW), *found;
    if (!library) fail("no loader of OpenCL", dlerror());
#define FIND(name, parameters)                                                                     \
    found = dlsym(library, "cl" #name);                                                            \
    if (!found) fail("cl" #name, "the library lacks it");                                          \
    memcpy(&cl.name, &found, sizeof found);
    MAKERS(FIND)
    FUNCTIONS(FIND)
#undef FIND
}

static void open_device(unsigned number) {
    static const uint64_t types[] = {4 /* CL_DEVICE_TYPE_GPU */, 8 /* accelerator */, 2 /* CPU */};
    void *platforms[DEVICES_MAX], *devices[DEVICES_MAX];
    unsigned count = 0, found, all = 0;
    int code = 0;
    if (cl.GetPlatformIDs(DEVICES_MAX, platforms, &count)) count = 0;
    for (int t = 0; t < 3 && !device; t++)
        for (unsigned p = 0; p < count && p < DEVICES_MAX && !device; p++) {
            if (cl.GetDeviceIDs(platforms[p], types[t], DEVICES_MAX, devices, &found)) continue;
            if (number < all + found && number - all < DEVICES_MAX) device = devices[number - all];
            all += found;
        }
    if (!device) fail("OpenCL", "there is no such device");
    context = made(cl.CreateContext(NULL, 1, &device, NULL, NULL, &code), code, "CreateContext");
    queue =
        made(cl.CreateCommandQueue(context, device, WITH_TIMES, &code), code, "CreateCommandQueue");
}

/* ---- the kernel ---- */

static void *kernel;

/* With a 0 behind it. */
static char *read_text(const char *name) {
    FILE *file = fopen(name, "rb");
    if (!file) fail("cannot read", name);
    fseek(file, 0, SEEK_END);
    const long bytes = ftell(file);
    char *text = allocate(bytes + 1);
    rewind(file);
    if (fread(text, 1, (size_t)bytes, file) != (size_t)bytes) fail("cannot read", name);
    text[bytes] = 0;
    fclose(file);
    return text;
}

static void tell_log(void *program) {
    size_t bytes = 0;
    if (cl.GetProgramBuildInfo(program, device, BUILD_LOG, 0, NULL, &bytes) || bytes < 2) return;
    char *log = allocate((long long)bytes);
    if (!cl.GetProgramBuildInfo(program, device, BUILD_LOG, bytes, log, NULL))
        fprintf(stderr, "%s\n", log);
    free(log);
}

#define STRING_OF(name) #name
#define STRING(name)    STRING_OF(name)

/* A device without exact quotients refuses to be asked for them. */
static void put_options(char *out, size_t size) {
    uint64_t f32 = 0;
    size_t len = 0;
    CL(GetDeviceInfo, device, DEVICE_F32, sizeof f32, &f32, NULL);
    for (int k = 0; flags[k]; k++)
        if (f32 & HAS_EXACT_QUOTIENTS || !strstr(flags[k], "correctly-rounded"))
            len += (size_t)snprintf(out + len, size - len, " %s", flags[k]);
}

static void build_kernel(void) {
    char options[1000] = "", *text = read_text("kernel.cl");
    const char *texts[] = {text};
    int code = 0;
    put_options(options, sizeof options);
    void *program = made(cl.CreateProgramWithSource(context, 1, texts, NULL, &code), code,
                         "CreateProgramWithSource");
    if (cl.BuildProgram(program, 1, &device, options, NULL, NULL)) {
        tell_log(program);
        fail("kernel.cl", "it does not compile");
    }
    kernel = made(cl.CreateKernel(program, STRING(REPRO_KERNEL), &code), code, "CreateKernel");
    free(text);
}

/* ---- the launch ---- */

enum { SIZES = sizeof sizes / sizeof *sizes - 1 };
static void *on_device[COUNT], *status_word;
static unsigned arguments;

static void *copy_in(const void *from, long long bytes) {
    int code = 0;
    void *to = made(cl.CreateBuffer(context, READ_WRITE, bytes ? (size_t)bytes : 1, NULL, &code),
                    code, "CreateBuffer");
    if (bytes && from) CL(EnqueueWriteBuffer, queue, to, 1, 0, (size_t)bytes, from, 0, NULL, NULL);
    return to;
}

static void add_number(int64_t number) {
    CL(SetKernelArg, kernel, arguments++, sizeof number, &number);
}

/* A memory is an object, and the bytes from its start to what the kernel is given. */
static void add_memory(void *object, int64_t begin) {
    CL(SetKernelArg, kernel, arguments++, sizeof object, &object);
    add_number(begin);
}

/* Operands, scratch memory if the kernel takes it, the word for a failed check, sizes. */
static void lay_out(void) {
    const int none = 0;
    unsigned wanted = 0;
    CL(GetKernelInfo, kernel, KERNEL_ARGUMENTS, sizeof wanted, &wanted, NULL);
    for (int k = 0; k < COUNT; k++) {
        on_device[k] = operands[k].same_as < k ? on_device[operands[k].same_as]
                                               : copy_in(memory[k], operands[k].bytes);
        add_memory(on_device[k], operands[k].begin);
    }
    if (wanted > 2 * COUNT + 2 + SIZES)
        add_memory(copy_in(NULL, REPRO_EXTENT * REPRO_SCRATCH_BYTES), 0);
    status_word = copy_in(&none, sizeof none);
    add_memory(status_word, 0);
    for (int k = 0; k < SIZES; k++) add_number(sizes[k]);
    if (arguments != wanted) fail("kernel.cl", "the kernel takes other arguments");
}

static void launch(void **event) {
    const size_t group = REPRO_THREADS, all = (size_t)REPRO_EXTENT * REPRO_THREADS;
    CL(EnqueueNDRangeKernel, queue, kernel, 1, NULL, &all, &group, 0, NULL, event);
}

static int run_once(void) {
    int failed = 0;
    launch(NULL);
    CL(EnqueueReadBuffer, queue, status_word, 1, 0, sizeof failed, &failed, 0, NULL, NULL);
    for (int k = 0; k < COUNT; k++)
        if (operands[k].expected && operands[k].bytes)
            CL(EnqueueReadBuffer, queue, on_device[k], 1, 0, (size_t)operands[k].bytes, memory[k],
               0, NULL, NULL);
    return failed;
}

static void measure(const char *where) {
    static double times[RUNS_MAX];
    const double start = now();
    int runs = 0;
    while (runs < RUNS_MAX && (runs < RUNS_MIN || now() - start < 1)) {
        uint64_t begin = 0, end = 0;
        void *event;
        launch(&event);
        CL(WaitForEvents, 1, &event);
        CL(GetEventProfilingInfo, event, TIME_OF_START, sizeof begin, &begin, NULL);
        CL(GetEventProfilingInfo, event, TIME_OF_END, sizeof end, &end, NULL);
        CL(ReleaseEvent, event);
        times[runs++] = 1e-9 * (double)(end - begin);
    }
    report_times(times, runs, where);
}

int main(int argc, char **argv) {
    const double rtol = argc > 1 ? atof(argv[1]) : 1e-4;
    char name[100] = "on ";
    open_loader();
    open_device(argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 0);
    if (cl.GetDeviceInfo(device, DEVICE_NAME, sizeof name - 4, name + 3, NULL))
        strcpy(name + 3, "a device");
    build_kernel();
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
