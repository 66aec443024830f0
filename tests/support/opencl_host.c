/* opencl_host.c: see the header. OpenCL's interface is small and fixed, so its declarations stand here: the tests need no headers of it. */
#include "support/opencl_host.h"

#include "base/compiler.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what of CL/cl.h is used; names, numbers and types are those of OpenCL 1.2 ---- */

typedef struct cl_object *cl_handle; /* platforms, devices, contexts... are all pointers to something unknown */
enum {
    CL_SUCCESS = 0,
    CL_PLATFORM_NAME = 0x0902,
    CL_DEVICE_NAME = 0x102B,
    CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004,
    CL_DEVICE_LOCAL_MEM_SIZE = 0x1023,
    CL_PROGRAM_BUILD_LOG = 0x1183,
    CL_MEM_READ_WRITE = 1,
    CL_TRUE = 1,
    MAX_PLATFORMS = 16,
    MAX_MEMORIES = 256,
    LEAST_BYTES = 4096,
};
#define CL_DEVICE_TYPE_ALL UINT64_C(0xFFFFFFFF)

typedef struct cl_api {
    int32_t (*get_platforms)(uint32_t cap, cl_handle *out, uint32_t *out_count);
    int32_t (*get_platform_info)(cl_handle platform, uint32_t what, size_t cap, void *out, size_t *out_size);
    int32_t (*get_devices)(cl_handle platform, uint64_t types, uint32_t cap, cl_handle *out, uint32_t *out_count);
    int32_t (*get_device_info)(cl_handle device, uint32_t what, size_t cap, void *out, size_t *out_size);
    cl_handle (*create_context)(const intptr_t *properties, uint32_t count, const cl_handle *devices, void *notify, void *user, int32_t *out_error);
    cl_handle (*create_queue)(cl_handle context, cl_handle device, uint64_t properties, int32_t *out_error);
    cl_handle (*create_program)(cl_handle context, uint32_t count, const char **texts, const size_t *lens, int32_t *out_error);
    int32_t (*build_program)(cl_handle program, uint32_t count, const cl_handle *devices, const char *options, void *notify, void *user);
    int32_t (*get_build_info)(cl_handle program, cl_handle device, uint32_t what, size_t cap, void *out, size_t *out_size);
    cl_handle (*create_kernel)(cl_handle program, const char *name, int32_t *out_error);
    int32_t (*set_argument)(cl_handle kernel, uint32_t index, size_t size, const void *value);
    cl_handle (*create_buffer)(cl_handle context, uint64_t flags, size_t size, void *bytes, int32_t *out_error);
    int32_t (*write_buffer)(cl_handle queue, cl_handle buffer, uint32_t waits, size_t offset, size_t size, const void *bytes, uint32_t, const void *, void *);
    int32_t (*read_buffer)(cl_handle queue, cl_handle buffer, uint32_t waits, size_t offset, size_t size, void *bytes, uint32_t, const void *, void *);
    int32_t (*run)(cl_handle queue, cl_handle kernel, uint32_t dims, const size_t *offset, const size_t *global, const size_t *local, uint32_t,
                   const void *, void *);
    int32_t (*finish)(cl_handle queue);
    int32_t (*release_buffer)(cl_handle buffer), (*release_kernel)(cl_handle kernel), (*release_program)(cl_handle program),
        (*release_queue)(cl_handle queue), (*release_context)(cl_handle context);
} cl_api;

struct opencl_host {
    cl_api cl;
    cl_handle device, context, queue;
    char name[256];
};

struct opencl_program {
    opencl_host *host;
    cl_handle handle;
};

/* ---- the loader and the device ---- */

/* The library stays: drivers have threads and end with the process. */
static hn_status load(cl_api *cl) {
    void *handle = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle) return HN_ERROR(HN_NOT_FOUND, "cannot load libOpenCL.so.1; tools/setup.sh opencl installs it");
    const struct {
        void *place; /* a pointer to function; all have one size and form here */
        const char *name;
    } symbols[] = {
        {&cl->get_platforms, "clGetPlatformIDs"},         {&cl->get_platform_info, "clGetPlatformInfo"},
        {&cl->get_devices, "clGetDeviceIDs"},             {&cl->get_device_info, "clGetDeviceInfo"},
        {&cl->create_context, "clCreateContext"},         {&cl->create_queue, "clCreateCommandQueue"},
        {&cl->create_program, "clCreateProgramWithSource"}, {&cl->build_program, "clBuildProgram"},
        {&cl->get_build_info, "clGetProgramBuildInfo"},   {&cl->create_kernel, "clCreateKernel"},
        {&cl->set_argument, "clSetKernelArg"},            {&cl->create_buffer, "clCreateBuffer"},
        {&cl->write_buffer, "clEnqueueWriteBuffer"},      {&cl->read_buffer, "clEnqueueReadBuffer"},
        {&cl->run, "clEnqueueNDRangeKernel"},             {&cl->finish, "clFinish"},
        {&cl->release_buffer, "clReleaseMemObject"},      {&cl->release_kernel, "clReleaseKernel"},
        {&cl->release_program, "clReleaseProgram"},       {&cl->release_queue, "clReleaseCommandQueue"},
        {&cl->release_context, "clReleaseContext"},
    };
    for (size_t k = 0; k < HN_COUNT_OF(symbols); k++) {
        void *address = dlsym(handle, symbols[k].name);
        if (!address) return HN_ERROR(HN_DEVICE, "libOpenCL.so.1 has no function '%s'", symbols[k].name);
        memcpy(symbols[k].place, &address, sizeof address);
    }
    return NULL;
}

/* PoCL's first device, or that of the first platform that has one. */
static hn_status find_device(const cl_api *cl, cl_handle *out) {
    cl_handle platforms[MAX_PLATFORMS];
    uint32_t count = 0, devices = 0;
    *out = NULL;
    if (cl->get_platforms(MAX_PLATFORMS, platforms, &count) != CL_SUCCESS) count = 0; /* as it does when there are none */
    if (count > MAX_PLATFORMS) count = MAX_PLATFORMS;
    for (uint32_t k = 0; k < count; k++) {
        char name[256] = "";
        cl_handle device;
        cl->get_platform_info(platforms[k], CL_PLATFORM_NAME, sizeof name - 1, name, NULL);
        if (cl->get_devices(platforms[k], CL_DEVICE_TYPE_ALL, 1, &device, &devices) != CL_SUCCESS || !devices) continue;
        bool is_pocl = strcmp(name, "Portable Computing Language") == 0;
        if (!*out || is_pocl) *out = device;
        if (is_pocl) break;
    }
    return *out ? NULL : HN_ERROR(HN_NOT_FOUND, "OpenCL has no platform with a device; tools/setup.sh opencl installs PoCL");
}

static hn_status device_error(const char *what, int32_t code) { return HN_ERROR(HN_DEVICE, "OpenCL: %s failed with %d", what, code); }

static hn_status open_device(opencl_host *h) {
    int32_t error;
    HN_TRY(load(&h->cl));
    HN_TRY(find_device(&h->cl, &h->device));
    h->cl.get_device_info(h->device, CL_DEVICE_NAME, sizeof h->name - 1, h->name, NULL);
    h->context = h->cl.create_context(NULL, 1, &h->device, NULL, NULL, &error);
    if (!h->context) return device_error("clCreateContext", error);
    h->queue = h->cl.create_queue(h->context, h->device, 0, &error);
    return h->queue ? NULL : device_error("clCreateCommandQueue", error);
}

hn_status opencl_host_open(opencl_host **out) {
    opencl_host *h = calloc(1, sizeof *h);
    if (!h) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory");
    hn_status status = open_device(h);
    if (status) opencl_host_close(h);
    else *out = h;
    return status;
}

int opencl_host_open_or_skip(opencl_host **out) {
    const char *ci = getenv("CI");
    bool must = ci && strcmp(ci, "true") == 0;
    hn_status status = opencl_host_open(out);
    if (!status) return -1;
    printf("%s: %s\n", must ? "FAILED" : "skipped", hn_status_message(status));
    printf(must ? "0 passed, 1 failed\n" : "0 passed, 0 failed, 1 skipped\n");
    hn_status_free(status);
    return must;
}

void opencl_host_close(opencl_host *h) {
    if (!h) return;
    if (h->queue) h->cl.release_queue(h->queue);
    if (h->context) h->cl.release_context(h->context);
    free(h);
}

const char *opencl_host_device(const opencl_host *h) { return h->name; }

size_t opencl_host_local_bytes(const opencl_host *h) {
    uint64_t bytes = 0;
    h->cl.get_device_info(h->device, CL_DEVICE_LOCAL_MEM_SIZE, sizeof bytes, &bytes, NULL);
    return (size_t)bytes;
}

size_t opencl_host_group_threads(const opencl_host *h) {
    size_t threads = 0;
    h->cl.get_device_info(h->device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof threads, &threads, NULL);
    return threads;
}

/* ---- programs ---- */

static hn_status build_error(const opencl_program *p, int32_t code) {
    size_t size = 0;
    const cl_api *cl = &p->host->cl;
    cl->get_build_info(p->handle, p->host->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
    char *log = calloc(1, size + 1);
    if (log) cl->get_build_info(p->handle, p->host->device, CL_PROGRAM_BUILD_LOG, size, log, NULL);
    hn_status status = HN_ERROR(HN_TOOLCHAIN, "OpenCL: the text does not build (%d): %s", code, log ? log : "");
    free(log);
    return status;
}

static hn_status build(opencl_program *p, const char *text, size_t len, const char *options) {
    int32_t error;
    const cl_api *cl = &p->host->cl;
    p->handle = cl->create_program(p->host->context, 1, &text, &len, &error);
    if (!p->handle) return device_error("clCreateProgramWithSource", error);
    error = cl->build_program(p->handle, 1, &p->host->device, options, NULL, NULL);
    return error == CL_SUCCESS ? NULL : build_error(p, error);
}

hn_status opencl_program_build(opencl_host *host, const char *text, size_t len, const char *options, opencl_program **out) {
    opencl_program *p = calloc(1, sizeof *p);
    if (!p) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory");
    p->host = host;
    hn_status status = build(p, text, len, options);
    if (status) opencl_program_free(p);
    else *out = p;
    return status;
}

void opencl_program_free(opencl_program *p) {
    if (!p) return;
    if (p->handle) p->host->cl.release_program(p->handle);
    free(p);
}

/* ---- running ---- */

/* One call: the kernel and its buffers, freed together. */
typedef struct call {
    const cl_api *cl;
    const opencl_host *host;
    cl_handle kernel;
    cl_handle buffers[MAX_MEMORIES + 2];
    uint32_t buffer_count, argument_count;
} call;

static hn_status set_argument(call *c, size_t size, const void *value) {
    int32_t error = c->cl->set_argument(c->kernel, c->argument_count++, size, value);
    return error == CL_SUCCESS ? NULL : device_error("clSetKernelArg", error);
}

/* At least a page, whatever the size: OpenCL has no buffers of no bytes, and a failed check of an index reads element 0. */
static hn_status add_buffer(call *c, const void *bytes, size_t size) {
    int32_t error;
    cl_handle buffer = c->cl->create_buffer(c->host->context, CL_MEM_READ_WRITE, size < LEAST_BYTES ? LEAST_BYTES : size, NULL, &error);
    if (!buffer) return device_error("clCreateBuffer", error);
    c->buffers[c->buffer_count++] = buffer;
    if (size && bytes) error = c->cl->write_buffer(c->host->queue, buffer, CL_TRUE, 0, size, bytes, 0, NULL, NULL);
    if (error != CL_SUCCESS) return device_error("clEnqueueWriteBuffer", error);
    return set_argument(c, sizeof buffer, &buffer);
}

static hn_status read_back(call *c, uint32_t buffer, void *bytes, size_t size) {
    if (!size) return NULL;
    int32_t error = c->cl->read_buffer(c->host->queue, c->buffers[buffer], CL_TRUE, 0, size, bytes, 0, NULL, NULL);
    return error == CL_SUCCESS ? NULL : device_error("clEnqueueReadBuffer", error);
}

static hn_status set_arguments(call *c, const opencl_launch *launch) {
    int32_t zero = 0;
    for (uint32_t k = 0; k < launch->memory_count; k++) HN_TRY(add_buffer(c, launch->memories[k].bytes, launch->memories[k].size));
    if (launch->scratch_bytes) HN_TRY(add_buffer(c, NULL, launch->scratch_bytes));
    HN_TRY(add_buffer(c, &zero, sizeof zero));
    for (uint32_t k = 0; k < launch->size_count; k++) HN_TRY(set_argument(c, sizeof launch->sizes[k], &launch->sizes[k]));
    return NULL;
}

static hn_status run(call *c, opencl_program *program, const opencl_launch *launch, int *out_failed) {
    int32_t error, failed;
    size_t global = launch->groups * launch->threads;
    c->kernel = c->cl->create_kernel(program->handle, launch->kernel, &error);
    if (!c->kernel) return device_error("clCreateKernel", error);
    HN_TRY(set_arguments(c, launch));
    error = c->cl->run(c->host->queue, c->kernel, 1, NULL, &global, &launch->threads, 0, NULL, NULL);
    if (error != CL_SUCCESS) return device_error("clEnqueueNDRangeKernel", error);
    error = c->cl->finish(c->host->queue);
    if (error != CL_SUCCESS) return device_error("clFinish", error);
    for (uint32_t k = 0; k < launch->memory_count; k++)
        if (launch->memories[k].is_written) HN_TRY(read_back(c, k, launch->memories[k].bytes, launch->memories[k].size));
    HN_TRY(read_back(c, c->buffer_count - 1, &failed, sizeof failed));
    *out_failed = failed;
    return NULL;
}

hn_status opencl_program_run(opencl_program *program, const opencl_launch *launch, int *out_failed) {
    *out_failed = 0;
    if (!launch->groups) return NULL;
    if (launch->memory_count > MAX_MEMORIES) return HN_ERROR(HN_UNSUPPORTED, "more than %d memories", MAX_MEMORIES);
    call c = {.cl = &program->host->cl, .host = program->host};
    hn_status status = run(&c, program, launch, out_failed);
    for (uint32_t k = 0; k < c.buffer_count; k++) c.cl->release_buffer(c.buffers[k]);
    if (c.kernel) c.cl->release_kernel(c.kernel);
    return hn_status_annotate(status, "kernel '%s'", launch->kernel);
}
