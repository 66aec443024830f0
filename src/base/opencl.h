/* opencl.h: OpenCL's functions, from the loader of drivers that a machine has, and what all users
 * of OpenCL share: the list of devices, the identity of a driver, errors.
 *
 * Nothing is linked with OpenCL. The functions come from libOpenCL.so.1 (Debian:
 * ocl-icd-libopencl1), which finds the drivers that are installed; their types come from the
 * headers of Khronos (Debian: opencl-c-headers). Version 1.2 is all that is used. The library stays
 * in the process: drivers have threads and end with it. */
#ifndef HN_BASE_OPENCL_H
#define HN_BASE_OPENCL_H

#define CL_TARGET_OPENCL_VERSION 120

#include "base/compiler.h"
#include "base/str.h"

#include <CL/cl.h>

/* Every function that is called. */
#define HN_OPENCL_FUNCTIONS(X)                                                                     \
    X(clGetPlatformIDs)                                                                            \
    X(clGetPlatformInfo)                                                                           \
    X(clGetDeviceIDs)                                                                              \
    X(clGetDeviceInfo)                                                                             \
    X(clCreateContext)                                                                             \
    X(clReleaseContext)                                                                            \
    X(clCreateCommandQueue)                                                                        \
    X(clReleaseCommandQueue)                                                                       \
    X(clCreateBuffer)                                                                              \
    X(clReleaseMemObject)                                                                          \
    X(clCreateProgramWithSource)                                                                   \
    X(clCreateProgramWithBinary)                                                                   \
    X(clBuildProgram)                                                                              \
    X(clGetProgramBuildInfo)                                                                       \
    X(clGetProgramInfo)                                                                            \
    X(clReleaseProgram)                                                                            \
    X(clCreateKernel)                                                                              \
    X(clGetKernelInfo)                                                                             \
    X(clReleaseKernel)                                                                             \
    X(clSetKernelArg)                                                                              \
    X(clEnqueueNDRangeKernel)                                                                      \
    X(clEnqueueReadBuffer)                                                                         \
    X(clEnqueueWriteBuffer)                                                                        \
    X(clEnqueueCopyBuffer)                                                                         \
    X(clEnqueueFillBuffer)                                                                         \
    X(clEnqueueMarkerWithWaitList)                                                                 \
    X(clEnqueueBarrierWithWaitList)                                                                \
    X(clWaitForEvents)                                                                             \
    X(clGetEventProfilingInfo)                                                                     \
    X(clReleaseEvent)                                                                              \
    X(clFlush)                                                                                     \
    X(clFinish)

/* The functions, under their own names. A copy with other functions in it is as good: tests have
 * such. */
typedef struct hn_opencl {
#define HN_OPENCL_MEMBER(function) HN_TYPE_OF(&function) function;
    HN_OPENCL_FUNCTIONS(HN_OPENCL_MEMBER)
#undef HN_OPENCL_MEMBER
} hn_opencl;

/* Errors: not-found without the loader; incompatible when it is older than OpenCL 1.2. */
hn_status hn_opencl_load(hn_opencl *out) HN_MUST_USE;

/* ---- devices ---- */

typedef struct hn_opencl_device {
    cl_platform_id platform;
    cl_device_id device;
} hn_opencl_device;

enum { HN_OPENCL_DEVICES_MAX = 32 };

/* The devices of all drivers, in the order of their numbers: GPUs and accelerators before
 * processors, in the order in which the drivers list them. At most HN_OPENCL_DEVICES_MAX. Signal
 * handlers of the program that drivers replace when they are asked first are put back, and threads
 * that they start then do not take its signals. Errors: not-found when there is none. */
hn_status hn_opencl_devices(const hn_opencl *cl, hn_opencl_device out[HN_OPENCL_DEVICES_MAX],
                            uint32_t *out_count) HN_MUST_USE;

/* Whether drivers were asked for devices before this process was forked: they have threads, which
 * are not here, and work that is given to them never ends. */
bool hn_opencl_is_from_parent(void);

/* Appends a property that is text, without what would steer a terminal. Nothing, if there is none.
 */
void hn_opencl_device_text(const hn_opencl *cl, cl_device_id device, cl_device_info what,
                           hn_strbuf *out);
/* Appends what a binary depends on: "PLATFORM; ITS VERSION; DEVICE; DRIVER VERSION". A binary is
 * good for the driver whose identity is equal, and no other. */
void hn_opencl_identity(const hn_opencl *cl, const hn_opencl_device *device, hn_strbuf *out);

/* ---- programs ---- */

/* Builds a program for one device. `options` has blanks between; those that the device cannot have
 * are left out: all devices take a text, some with less exact divisions. What the compiler says
 * goes to `out_log`, which gets nothing after success. The result is that of clBuildProgram. */
cl_int hn_opencl_build(const hn_opencl *cl, cl_program program, cl_device_id device, hn_str options,
                       hn_strbuf *out_log);

/* ---- errors ---- */

/* "CL_OUT_OF_RESOURCES"; "an unknown error" for a number that the headers do not have. */
const char *hn_opencl_error_name(cl_int code);
/* NULL for CL_SUCCESS. Else: "OpenCL: clFinish failed: CL_OUT_OF_RESOURCES (-5)", out-of-memory
 * when that is what it says, else device. */
hn_status hn_opencl_status(cl_int code, const char *call) HN_MUST_USE;

#endif
