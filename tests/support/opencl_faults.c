/* opencl_faults.c: see the header. */
#include "support/opencl_faults.h"

#include <stdatomic.h>

static hn_opencl real;
static atomic_long calls, fail_at;
static atomic_bool lost;
static atomic_ullong read_bytes;
static _Atomic(const char *) failed;
static atomic_int fail_code;

void opencl_faults_set(long nth, cl_int code, bool is_lost) {
    calls = 0;
    read_bytes = 0;
    fail_at = nth;
    fail_code = code;
    lost = is_lost;
    failed = NULL;
}

const char *opencl_faults_failed(void) { return failed; }
long opencl_faults_calls(void) { return calls; }
unsigned long long opencl_faults_read_bytes(void) { return read_bytes; }

static bool fails(const char *function) {
    const long call = ++calls, at = fail_at;
    if (!at || call < at || (call > at && !lost)) return false;
    failed = function;
    return true;
}

/* A function that gives a code, and one that gives an object and writes a code: its last argument.
 */
#define CODE(own, function, params, args)                                                          \
    static cl_int CL_API_CALL own params {                                                         \
        return fails(#function) ? fail_code : real.function args;                                  \
    }
#define OBJECT(own, function, type, params, args)                                                  \
    static type CL_API_CALL own params {                                                           \
        if (!fails(#function)) return real.function args;                                          \
        *out_code = fail_code;                                                                     \
        return NULL;                                                                               \
    }

CODE(get_platform_ids, clGetPlatformIDs, (cl_uint a, cl_platform_id *b, cl_uint *c), (a, b, c))
CODE(get_platform_info, clGetPlatformInfo,
     (cl_platform_id a, cl_platform_info b, size_t c, void *d, size_t *e), (a, b, c, d, e))
CODE(get_device_ids, clGetDeviceIDs,
     (cl_platform_id a, cl_device_type b, cl_uint c, cl_device_id *d, cl_uint *e), (a, b, c, d, e))
CODE(get_device_info, clGetDeviceInfo,
     (cl_device_id a, cl_device_info b, size_t c, void *d, size_t *e), (a, b, c, d, e))
CODE(build_program, clBuildProgram,
     (cl_program a, cl_uint b, const cl_device_id *c, const char *d,
      void(CL_CALLBACK *e)(cl_program, void *), void *f),
     (a, b, c, d, e, f))
CODE(get_program_build_info, clGetProgramBuildInfo,
     (cl_program a, cl_device_id b, cl_program_build_info c, size_t d, void *e, size_t *f),
     (a, b, c, d, e, f))
CODE(get_program_info, clGetProgramInfo,
     (cl_program a, cl_program_info b, size_t c, void *d, size_t *e), (a, b, c, d, e))
CODE(get_kernel_info, clGetKernelInfo,
     (cl_kernel a, cl_kernel_info b, size_t c, void *d, size_t *e), (a, b, c, d, e))
CODE(set_kernel_arg, clSetKernelArg, (cl_kernel a, cl_uint b, size_t c, const void *d),
     (a, b, c, d))
CODE(enqueue_ndrange_kernel, clEnqueueNDRangeKernel,
     (cl_command_queue a, cl_kernel b, cl_uint c, const size_t *d, const size_t *e, const size_t *f,
      cl_uint g, const cl_event *h, cl_event *i),
     (a, b, c, d, e, f, g, h, i))
CODE(read_or_fail, clEnqueueReadBuffer,
     (cl_command_queue a, cl_mem b, cl_bool c, size_t d, size_t e, void *f, cl_uint g,
      const cl_event *h, cl_event *i),
     (a, b, c, d, e, f, g, h, i))
static cl_int CL_API_CALL enqueue_read_buffer(cl_command_queue a, cl_mem b, cl_bool c, size_t d,
                                              size_t e, void *f, cl_uint g, const cl_event *h,
                                              cl_event *i) {
    read_bytes += e;
    return read_or_fail(a, b, c, d, e, f, g, h, i);
}
CODE(enqueue_write_buffer, clEnqueueWriteBuffer,
     (cl_command_queue a, cl_mem b, cl_bool c, size_t d, size_t e, const void *f, cl_uint g,
      const cl_event *h, cl_event *i),
     (a, b, c, d, e, f, g, h, i))
CODE(enqueue_copy_buffer, clEnqueueCopyBuffer,
     (cl_command_queue a, cl_mem b, cl_mem c, size_t d, size_t e, size_t f, cl_uint g,
      const cl_event *h, cl_event *i),
     (a, b, c, d, e, f, g, h, i))
CODE(enqueue_fill_buffer, clEnqueueFillBuffer,
     (cl_command_queue a, cl_mem b, const void *c, size_t d, size_t e, size_t f, cl_uint g,
      const cl_event *h, cl_event *i),
     (a, b, c, d, e, f, g, h, i))
CODE(enqueue_marker_with_wait_list, clEnqueueMarkerWithWaitList,
     (cl_command_queue a, cl_uint b, const cl_event *c, cl_event *d), (a, b, c, d))
CODE(enqueue_barrier_with_wait_list, clEnqueueBarrierWithWaitList,
     (cl_command_queue a, cl_uint b, const cl_event *c, cl_event *d), (a, b, c, d))
CODE(wait_for_events, clWaitForEvents, (cl_uint a, const cl_event *b), (a, b))
CODE(get_event_profiling_info, clGetEventProfilingInfo,
     (cl_event a, cl_profiling_info b, size_t c, void *d, size_t *e), (a, b, c, d, e))
CODE(flush, clFlush, (cl_command_queue a), (a))
OBJECT(create_context, clCreateContext, cl_context,
       (const cl_context_properties *a, cl_uint b, const cl_device_id *c,
        void(CL_CALLBACK *d)(const char *, const void *, size_t, void *), void *e,
        cl_int *out_code),
       (a, b, c, d, e, out_code))
OBJECT(create_command_queue, clCreateCommandQueue, cl_command_queue,
       (cl_context a, cl_device_id b, cl_command_queue_properties c, cl_int *out_code),
       (a, b, c, out_code))
OBJECT(create_buffer, clCreateBuffer, cl_mem,
       (cl_context a, cl_mem_flags b, size_t c, void *d, cl_int *out_code), (a, b, c, d, out_code))
OBJECT(create_program_with_source, clCreateProgramWithSource, cl_program,
       (cl_context a, cl_uint b, const char **c, const size_t *d, cl_int *out_code),
       (a, b, c, d, out_code))
OBJECT(create_program_with_binary, clCreateProgramWithBinary, cl_program,
       (cl_context a, cl_uint b, const cl_device_id *c, const size_t *d, const unsigned char **e,
        cl_int *f, cl_int *out_code),
       (a, b, c, d, e, f, out_code))
OBJECT(create_kernel, clCreateKernel, cl_kernel, (cl_program a, const char *b, cl_int *out_code),
       (a, b, out_code))

/* Waits in any case: after a failure the work is over, too, as on a device that is lost. */
static cl_int CL_API_CALL finish(cl_command_queue queue) {
    const cl_int code = real.clFinish(queue);
    return fails("clFinish") ? fail_code : code;
}

void opencl_faults_wrap(hn_opencl *cl) {
    real = *cl;
    cl->clGetPlatformIDs = get_platform_ids;
    cl->clGetPlatformInfo = get_platform_info;
    cl->clGetDeviceIDs = get_device_ids;
    cl->clGetDeviceInfo = get_device_info;
    cl->clBuildProgram = build_program;
    cl->clGetProgramBuildInfo = get_program_build_info;
    cl->clGetProgramInfo = get_program_info;
    cl->clGetKernelInfo = get_kernel_info;
    cl->clSetKernelArg = set_kernel_arg;
    cl->clEnqueueNDRangeKernel = enqueue_ndrange_kernel;
    cl->clEnqueueReadBuffer = enqueue_read_buffer;
    cl->clEnqueueWriteBuffer = enqueue_write_buffer;
    cl->clEnqueueCopyBuffer = enqueue_copy_buffer;
    cl->clEnqueueFillBuffer = enqueue_fill_buffer;
    cl->clEnqueueMarkerWithWaitList = enqueue_marker_with_wait_list;
    cl->clEnqueueBarrierWithWaitList = enqueue_barrier_with_wait_list;
    cl->clWaitForEvents = wait_for_events;
    cl->clGetEventProfilingInfo = get_event_profiling_info;
    cl->clFlush = flush;
    cl->clFinish = finish;
    cl->clCreateContext = create_context;
    cl->clCreateCommandQueue = create_command_queue;
    cl->clCreateBuffer = create_buffer;
    cl->clCreateProgramWithSource = create_program_with_source;
    cl->clCreateProgramWithBinary = create_program_with_binary;
    cl->clCreateKernel = create_kernel;
}
