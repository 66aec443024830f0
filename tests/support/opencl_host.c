/* opencl_host.c: see the header. */
#include "support/opencl_host.h"

#include "base/opencl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_MEMORIES = 256,
    LEAST_BYTES = 4096,
    BEGIN_BYTES = 192, /* of a memory in its object: what a kernel adds itself is no zero */
};

struct opencl_host {
    hn_opencl cl;
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
    char name[256];
};

struct opencl_program {
    opencl_host *host;
    cl_program handle;
};

/* ---- the device ---- */

/* PoCL's first device, or the first of all. */
static hn_status find_device(const hn_opencl *cl, cl_device_id *out) {
    hn_opencl_device devices[HN_OPENCL_DEVICES_MAX];
    uint32_t count;
    HN_TRY(hn_opencl_devices(cl, devices, &count));
    *out = devices[0].device;
    for (uint32_t k = 0; k < count; k++) {
        char name[256] = "";
        cl->clGetPlatformInfo(devices[k].platform, CL_PLATFORM_NAME, sizeof name - 1, name, NULL);
        if (strcmp(name, "Portable Computing Language") != 0) continue;
        *out = devices[k].device;
        break;
    }
    return NULL;
}

static hn_status open_device(opencl_host *h) {
    cl_int error;
    HN_TRY(hn_opencl_load(&h->cl));
    HN_TRY(find_device(&h->cl, &h->device));
    h->cl.clGetDeviceInfo(h->device, CL_DEVICE_NAME, sizeof h->name - 1, h->name, NULL);
    h->context = h->cl.clCreateContext(NULL, 1, &h->device, NULL, NULL, &error);
    if (!h->context) return hn_opencl_status(error, "clCreateContext");
    h->queue = h->cl.clCreateCommandQueue(h->context, h->device, 0, &error);
    return h->queue ? NULL : hn_opencl_status(error, "clCreateCommandQueue");
}

const char *opencl_host_target(void) { return "opencl"; }

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
    if (h->queue) h->cl.clReleaseCommandQueue(h->queue);
    if (h->context) h->cl.clReleaseContext(h->context);
    free(h);
}

const char *opencl_host_device(const opencl_host *h) { return h->name; }

size_t opencl_host_local_bytes(const opencl_host *h) {
    uint64_t bytes = 0;
    h->cl.clGetDeviceInfo(h->device, CL_DEVICE_LOCAL_MEM_SIZE, sizeof bytes, &bytes, NULL);
    return (size_t)bytes;
}

size_t opencl_host_group_threads(const opencl_host *h) {
    size_t threads = 0;
    h->cl.clGetDeviceInfo(h->device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof threads, &threads, NULL);
    return threads;
}

/* ---- programs ---- */

static hn_status build(opencl_program *p, const char *text, size_t len, const char *options) {
    cl_int error;
    hn_strbuf log;
    const hn_opencl *cl = &p->host->cl;
    p->handle = cl->clCreateProgramWithSource(p->host->context, 1, &text, &len, &error);
    if (!p->handle) return hn_opencl_status(error, "clCreateProgramWithSource");
    hn_strbuf_init(&log);
    error = hn_opencl_build(cl, p->handle, p->host->device, hn_str_of(options), &log);
    hn_status status = error == CL_SUCCESS
                           ? NULL
                           : HN_ERROR(HN_TOOLCHAIN, "OpenCL: the text does not build: %s: %s",
                                      hn_opencl_error_name(error), log.ptr ? log.ptr : "");
    hn_strbuf_deinit(&log);
    return status;
}

hn_status opencl_program_build(opencl_host *host, const char *text, size_t len, const char *options,
                               opencl_program **out) {
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
    if (p->handle) p->host->cl.clReleaseProgram(p->handle);
    free(p);
}

/* ---- running ---- */

/* One call: the kernel and its memory objects, freed together. */
typedef struct call {
    const hn_opencl *cl;
    const opencl_host *host;
    cl_kernel kernel;
    cl_mem objects[MAX_MEMORIES + 2];
    uint32_t object_count, argument_count;
} call;

static hn_status set_argument(call *c, size_t size, const void *value) {
    return hn_opencl_status(c->cl->clSetKernelArg(c->kernel, c->argument_count++, size, value),
                            "clSetKernelArg");
}

/* At least a page, whatever the size: OpenCL has no objects of no bytes, and a failed check of an
 * index reads element 0. */
static hn_status add_memory(call *c, const void *bytes, size_t size) {
    const cl_long begin = BEGIN_BYTES;
    cl_int error;
    cl_mem object = c->cl->clCreateBuffer(c->host->context, CL_MEM_READ_WRITE,
                                          BEGIN_BYTES + (size < LEAST_BYTES ? LEAST_BYTES : size),
                                          NULL, &error);
    if (!object) return hn_opencl_status(error, "clCreateBuffer");
    c->objects[c->object_count++] = object;
    if (size && bytes)
        error = c->cl->clEnqueueWriteBuffer(c->host->queue, object, CL_TRUE, BEGIN_BYTES, size,
                                            bytes, 0, NULL, NULL);
    HN_TRY(hn_opencl_status(error, "clEnqueueWriteBuffer"));
    HN_TRY(set_argument(c, sizeof object, &object));
    return set_argument(c, sizeof begin, &begin);
}

static hn_status read_back(call *c, uint32_t object, void *bytes, size_t size) {
    if (!size) return NULL;
    return hn_opencl_status(c->cl->clEnqueueReadBuffer(c->host->queue, c->objects[object], CL_TRUE,
                                                       BEGIN_BYTES, size, bytes, 0, NULL, NULL),
                            "clEnqueueReadBuffer");
}

static hn_status set_arguments(call *c, const opencl_launch *launch) {
    int32_t zero = 0;
    for (uint32_t k = 0; k < launch->memory_count; k++)
        HN_TRY(add_memory(c, launch->memories[k].bytes, launch->memories[k].size));
    if (launch->scratch_bytes) HN_TRY(add_memory(c, NULL, launch->scratch_bytes));
    HN_TRY(add_memory(c, &zero, sizeof zero));
    for (uint32_t k = 0; k < launch->size_count; k++)
        HN_TRY(set_argument(c, sizeof launch->sizes[k], &launch->sizes[k]));
    return NULL;
}

static hn_status run(call *c, opencl_program *program, const opencl_launch *launch,
                     int *out_failed) {
    cl_int error;
    int failed;
    size_t global = launch->groups * launch->threads;
    c->kernel = c->cl->clCreateKernel(program->handle, launch->kernel, &error);
    if (!c->kernel) return hn_opencl_status(error, "clCreateKernel");
    HN_TRY(set_arguments(c, launch));
    error = c->cl->clEnqueueNDRangeKernel(c->host->queue, c->kernel, 1, NULL, &global,
                                          &launch->threads, 0, NULL, NULL);
    HN_TRY(hn_opencl_status(error, "clEnqueueNDRangeKernel"));
    HN_TRY(hn_opencl_status(c->cl->clFinish(c->host->queue), "clFinish"));
    for (uint32_t k = 0; k < launch->memory_count; k++)
        if (launch->memories[k].is_written)
            HN_TRY(read_back(c, k, launch->memories[k].bytes, launch->memories[k].size));
    HN_TRY(read_back(c, c->object_count - 1, &failed, sizeof failed));
    *out_failed = failed;
    return NULL;
}

hn_status opencl_program_run(opencl_program *program, const opencl_launch *launch,
                             int *out_failed) {
    *out_failed = 0;
    if (!launch->groups) return NULL;
    if (launch->memory_count > MAX_MEMORIES)
        return HN_ERROR(HN_UNSUPPORTED, "more than %d memories", MAX_MEMORIES);
    call c = {.cl = &program->host->cl, .host = program->host};
    hn_status status = run(&c, program, launch, out_failed);
    for (uint32_t k = 0; k < c.object_count; k++) c.cl->clReleaseMemObject(c.objects[k]);
    if (c.kernel) c.cl->clReleaseKernel(c.kernel);
    return hn_status_annotate(status, "kernel '%s'", launch->kernel);
}
