/* opencl.c: see opencl.h. */
#include "base/opencl.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- the loader ---- */

hn_status hn_opencl_load(hn_opencl *out) {
    void *handle = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle)
        return HN_ERROR(HN_NOT_FOUND,
                        "cannot load 'libOpenCL.so.1'; install the OpenCL loader (Debian: "
                        "ocl-icd-libopencl1) and a driver for the device");
    const struct {
        void *place; /* a pointer to function; all have one size and form here */
        const char *name;
    } functions[] = {
#define PLACE(function) {&out->function, #function},
        HN_OPENCL_FUNCTIONS(PLACE)
#undef PLACE
    };
    for (size_t k = 0; k < HN_COUNT_OF(functions); k++) {
        void *address = dlsym(handle, functions[k].name);
        if (!address)
            return HN_ERROR(HN_INCOMPATIBLE,
                            "'libOpenCL.so.1' has no function '%s': it is older than OpenCL 1.2",
                            functions[k].name);
        memcpy(functions[k].place, &address, sizeof address);
    }
    return NULL;
}

/* ---- devices ---- */

enum { PLATFORMS_MAX = 16 };

/* The process that was the first to ask drivers, this one or one that it was forked from; 0:
 * none. */
static atomic_int first_pid;

bool hn_opencl_is_from_parent(void) {
    const int pid = atomic_load(&first_pid);
    return pid && pid != (int)getpid();
}

/* Adds those of one type. A platform without such says CL_DEVICE_NOT_FOUND. */
static void add_devices(const hn_opencl *cl, cl_platform_id platform, cl_device_type type,
                        hn_opencl_device out[HN_OPENCL_DEVICES_MAX], uint32_t *count) {
    cl_device_id devices[HN_OPENCL_DEVICES_MAX];
    cl_uint found = 0;
    if (cl->clGetDeviceIDs(platform, type, HN_OPENCL_DEVICES_MAX, devices, &found) != CL_SUCCESS)
        return;
    for (cl_uint k = 0; k < found && k < HN_OPENCL_DEVICES_MAX && *count < HN_OPENCL_DEVICES_MAX;
         k++)
        out[(*count)++] = (hn_opencl_device){platform, devices[k]};
}

/* ---- the program's signal handlers ---- */

typedef struct handlers {
    struct sigaction of[NSIG];
} handlers;

static void read_handlers(handlers *out) {
    *out = (handlers){.of[0] = {.sa_handler = SIG_DFL}};
    for (int s = 1; s < NSIG; s++)
        if (sigaction(s, NULL, &out->of[s])) out->of[s].sa_handler = SIG_DFL;
}

/* PoCL, as it finds its devices, puts its own and LLVM's handlers in place of the program's, for
 * SIGINT, SIGTERM, SIGUSR1 and most others. What the program has set is put back. */
static void put_back(const handlers *before) {
    struct sigaction now;
    for (int s = 1; s < NSIG; s++)
        if (before->of[s].sa_handler != SIG_DFL && sigaction(s, NULL, &now) == 0 &&
            now.sa_handler != before->of[s].sa_handler)
            (void)sigaction(s, &before->of[s], NULL);
}

/* The program's signals are not for threads of drivers, which have the mask of the thread that asks
 * first. A fault of such a thread comes to it all the same. */
static void block_signals(sigset_t *out_before) {
    static const int faults[] = {SIGFPE, SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
    sigset_t all;
    sigfillset(&all);
    for (size_t k = 0; k < HN_COUNT_OF(faults); k++) sigdelset(&all, faults[k]);
    pthread_sigmask(SIG_BLOCK, &all, out_before);
}

/* ---- the list of devices ---- */

static void list_devices(const hn_opencl *cl, hn_opencl_device out[HN_OPENCL_DEVICES_MAX],
                         uint32_t *out_count) {
    static const cl_device_type types[] = {CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_ACCELERATOR,
                                           CL_DEVICE_TYPE_CPU};
    cl_platform_id platforms[PLATFORMS_MAX];
    cl_uint count = 0;
    *out_count = 0;
    /* Without a driver this fails, too. */
    if (cl->clGetPlatformIDs(PLATFORMS_MAX, platforms, &count) != CL_SUCCESS) count = 0;
    for (size_t t = 0; t < HN_COUNT_OF(types); t++)
        for (cl_uint p = 0; p < count && p < PLATFORMS_MAX; p++)
            add_devices(cl, platforms[p], types[t], out, out_count);
}

hn_status hn_opencl_devices(const hn_opencl *cl, hn_opencl_device out[HN_OPENCL_DEVICES_MAX],
                            uint32_t *out_count) {
    handlers before;
    int nobody = 0;
    const bool is_first = atomic_compare_exchange_strong(&first_pid, &nobody, (int)getpid());
    sigset_t mask;
    if (is_first) read_handlers(&before), block_signals(&mask);
    list_devices(cl, out, out_count);
    if (is_first) put_back(&before), pthread_sigmask(SIG_SETMASK, &mask, NULL);
    if (*out_count) return NULL;
    return HN_ERROR(
        HN_NOT_FOUND,
        "OpenCL has no device: no driver is installed (/etc/OpenCL/vendors), or it finds "
        "none; Debian's pocl-opencl-icd is a driver for the CPU");
}

static void clean(const char *text, size_t size, hn_strbuf *out) {
    hn_strbuf_clean(out, (hn_str){text, strnlen(text, size)}, true);
}

void hn_opencl_device_text(const hn_opencl *cl, cl_device_id device, cl_device_info what,
                           hn_strbuf *out) {
    char text[1024];
    size_t size = 0;
    if (cl->clGetDeviceInfo(device, what, sizeof text, text, &size) == CL_SUCCESS)
        clean(text, size, out);
}

static void platform_text(const hn_opencl *cl, cl_platform_id platform, cl_platform_info what,
                          hn_strbuf *out) {
    char text[1024];
    size_t size = 0;
    if (cl->clGetPlatformInfo(platform, what, sizeof text, text, &size) == CL_SUCCESS)
        clean(text, size, out);
}

void hn_opencl_identity(const hn_opencl *cl, const hn_opencl_device *device, hn_strbuf *out) {
    platform_text(cl, device->platform, CL_PLATFORM_NAME, out);
    hn_strbuf_puts(out, "; ");
    platform_text(cl, device->platform, CL_PLATFORM_VERSION, out);
    hn_strbuf_puts(out, "; ");
    hn_opencl_device_text(cl, device->device, CL_DEVICE_NAME, out);
    hn_strbuf_puts(out, "; ");
    hn_opencl_device_text(cl, device->device, CL_DRIVER_VERSION, out);
}

/* ---- programs ---- */

enum { LOG_BYTES = 64 << 10 };

static void read_log(const hn_opencl *cl, cl_program program, cl_device_id device, hn_strbuf *out) {
    size_t size = 0;
    if (cl->clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size) !=
            CL_SUCCESS ||
        !size)
        return;
    char *log = calloc(1, size);
    if (log && cl->clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, size, log, NULL) ==
                   CL_SUCCESS)
        hn_strbuf_clean(out, (hn_str){log, strnlen(log, size < LOG_BYTES ? size : LOG_BYTES)},
                        false);
    free(log);
}

/* The options without one that this device refuses. */
static void put_options(const hn_opencl *cl, cl_device_id device, hn_str options, hn_strbuf *out) {
    static const char exact[] = "-cl-fp32-correctly-rounded-divide-sqrt";
    cl_device_fp_config config = 0;
    cl->clGetDeviceInfo(device, CL_DEVICE_SINGLE_FP_CONFIG, sizeof config, &config, NULL);
    hn_strbuf_append(out, options.ptr, options.len);
    char *at =
        config & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT || !out->ptr ? NULL : strstr(out->ptr, exact);
    if (at) memset(at, ' ', sizeof exact - 1);
}

cl_int hn_opencl_build(const hn_opencl *cl, cl_program program, cl_device_id device, hn_str options,
                       hn_strbuf *out_log) {
    hn_strbuf own;
    hn_strbuf_init(&own);
    put_options(cl, device, options, &own);
    cl_int code = own.failed
                      ? CL_OUT_OF_HOST_MEMORY
                      : cl->clBuildProgram(program, 1, &device, own.ptr ? own.ptr : "", NULL, NULL);
    if (code != CL_SUCCESS) read_log(cl, program, device, out_log);
    hn_strbuf_deinit(&own);
    return code;
}

/* ---- errors ---- */

const char *hn_opencl_error_name(cl_int code) {
    switch (code) {
#define NAME(code)                                                                                 \
    case code: return #code;
        NAME(CL_SUCCESS)
        NAME(CL_DEVICE_NOT_FOUND)
        NAME(CL_DEVICE_NOT_AVAILABLE)
        NAME(CL_COMPILER_NOT_AVAILABLE)
        NAME(CL_MEM_OBJECT_ALLOCATION_FAILURE)
        NAME(CL_OUT_OF_RESOURCES)
        NAME(CL_OUT_OF_HOST_MEMORY)
        NAME(CL_PROFILING_INFO_NOT_AVAILABLE)
        NAME(CL_MEM_COPY_OVERLAP)
        NAME(CL_IMAGE_FORMAT_MISMATCH)
        NAME(CL_IMAGE_FORMAT_NOT_SUPPORTED)
        NAME(CL_BUILD_PROGRAM_FAILURE)
        NAME(CL_MAP_FAILURE)
        NAME(CL_MISALIGNED_SUB_BUFFER_OFFSET)
        NAME(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
        NAME(CL_COMPILE_PROGRAM_FAILURE)
        NAME(CL_LINKER_NOT_AVAILABLE)
        NAME(CL_LINK_PROGRAM_FAILURE)
        NAME(CL_DEVICE_PARTITION_FAILED)
        NAME(CL_KERNEL_ARG_INFO_NOT_AVAILABLE)
        NAME(CL_INVALID_VALUE)
        NAME(CL_INVALID_DEVICE_TYPE)
        NAME(CL_INVALID_PLATFORM)
        NAME(CL_INVALID_DEVICE)
        NAME(CL_INVALID_CONTEXT)
        NAME(CL_INVALID_QUEUE_PROPERTIES)
        NAME(CL_INVALID_COMMAND_QUEUE)
        NAME(CL_INVALID_HOST_PTR)
        NAME(CL_INVALID_MEM_OBJECT)
        NAME(CL_INVALID_BINARY)
        NAME(CL_INVALID_BUILD_OPTIONS)
        NAME(CL_INVALID_PROGRAM)
        NAME(CL_INVALID_PROGRAM_EXECUTABLE)
        NAME(CL_INVALID_KERNEL_NAME)
        NAME(CL_INVALID_KERNEL_DEFINITION)
        NAME(CL_INVALID_KERNEL)
        NAME(CL_INVALID_ARG_INDEX)
        NAME(CL_INVALID_ARG_VALUE)
        NAME(CL_INVALID_ARG_SIZE)
        NAME(CL_INVALID_KERNEL_ARGS)
        NAME(CL_INVALID_WORK_DIMENSION)
        NAME(CL_INVALID_WORK_GROUP_SIZE)
        NAME(CL_INVALID_WORK_ITEM_SIZE)
        NAME(CL_INVALID_GLOBAL_OFFSET)
        NAME(CL_INVALID_EVENT_WAIT_LIST)
        NAME(CL_INVALID_EVENT)
        NAME(CL_INVALID_OPERATION)
        NAME(CL_INVALID_BUFFER_SIZE)
        NAME(CL_INVALID_GLOBAL_WORK_SIZE)
        NAME(CL_INVALID_PROPERTY)
        NAME(CL_INVALID_COMPILER_OPTIONS)
        NAME(CL_INVALID_LINKER_OPTIONS)
        NAME(CL_INVALID_DEVICE_PARTITION_COUNT)
#undef NAME
    }
    return "an unknown error";
}

hn_status hn_opencl_status(cl_int code, const char *call) {
    if (code == CL_SUCCESS) return NULL;
    bool is_memory = code == CL_OUT_OF_HOST_MEMORY || code == CL_MEM_OBJECT_ALLOCATION_FAILURE;
    return HN_ERROR(is_memory ? HN_OUT_OF_MEMORY : HN_DEVICE, "OpenCL: %s failed: %s (%d)", call,
                    hn_opencl_error_name(code), code);
}
