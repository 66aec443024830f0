/* opencl_code.c: programs from objects (base/opencl_program.h), and their kernels. The binary of
 * the device's driver is taken if the object has it and the driver does; else the text is built
 * here. */
#include "runtime/device/opencl.h"

#include "base/log.h"
#include "base/opencl_program.h"

#include <stdlib.h>

/* ---- programs ---- */

static hn_status build(opencl_code *c, hn_str options) {
    hn_strbuf log;
    hn_strbuf_init(&log);
    cl_int code = hn_opencl_build(&c->dev->cl, c->program, c->dev->device, options, &log);
    hn_status status = hn_opencl_status(code, "clBuildProgram");
    if (hn_status_code(status) == HN_DEVICE && log.len) {
        hn_status_free(status);
        status = HN_ERROR(HN_TOOLCHAIN, "OpenCL cannot build '%s': %s: " HN_STR_FMT, c->name,
                          hn_opencl_error_name(code), HN_STR_ARG(hn_strbuf_str(&log)));
    }
    hn_strbuf_deinit(&log);
    return status;
}

static hn_status of_object(const opencl_code *c, cl_int code, const char *call) {
    return hn_status_annotate(hn_opencl_status(code, call), "cannot load '%s'", c->name);
}

static hn_status make_binary(opencl_code *c, hn_str bytes) {
    const opencl_dev *d = c->dev;
    const unsigned char *at = (const unsigned char *)bytes.ptr;
    cl_int code, binary_code = CL_SUCCESS;
    c->program = d->cl.clCreateProgramWithBinary(d->context, 1, &d->device, &bytes.len, &at,
                                                 &binary_code, &code);
    if (!c->program) return of_object(c, code, "clCreateProgramWithBinary");
    return of_object(c, binary_code, "clCreateProgramWithBinary");
}

static void release(opencl_code *c) {
    if (c->program) c->dev->cl.clReleaseProgram(c->program);
    c->program = NULL;
}

/* A driver may refuse what it has made itself: an update may leave its version as it was. */
static bool take_binary(opencl_code *c, const hn_opencl_program *p) {
    const hn_opencl_binary *binary = hn_opencl_program_binary(p, hn_strbuf_str(&c->dev->identity));
    if (!binary) return false;
    hn_status status = make_binary(c, binary->bytes);
    if (!status) status = build(c, p->options);
    if (!status) return true;
    hn_log("run", HN_LOG_INFO, "'%s' is built from its text: %s", c->name,
           hn_status_message(status));
    hn_status_free(status);
    release(c);
    return false;
}

static hn_status take_source(opencl_code *c, const hn_opencl_program *p) {
    const opencl_dev *d = c->dev;
    const char *text = p->source.ptr;
    cl_int code;
    c->program = d->cl.clCreateProgramWithSource(d->context, 1, &text, &p->source.len, &code);
    if (!c->program) return of_object(c, code, "clCreateProgramWithSource");
    return build(c, p->options);
}

static hn_status make_program(opencl_code *c, hn_str bytes) {
    hn_opencl_program *p = calloc(1, sizeof *p);
    if (!p || !c->name) {
        free(p);
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to load '%s'", c->name ? c->name : "");
    }
    hn_status status =
        hn_status_annotate(hn_opencl_program_parse(bytes, p), "cannot load '%s'", c->name);
    if (!status && !take_binary(c, p)) status = take_source(c, p);
    free(p);
    return status;
}

hn_status hn_opencl_load_code(hn_dev *dev, const void *code, size_t len, const char *name,
                              hn_device_program **out) {
    opencl_code *c = calloc(1, sizeof *c);
    if (!c) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to load '%s'", name);
    *c = (opencl_code){.dev = (opencl_dev *)dev, .name = strdup(name)};
    pthread_mutex_init(&c->lock, NULL);
    hn_status status = make_program(c, (hn_str){code, len});
    if (status) hn_opencl_unload_code((hn_device_program *)c);
    else *out = (hn_device_program *)c;
    return status;
}

/* ---- texts ---- */

/* hn_device_ops.load_text; the first lines fail where there are no doubles. */
const char hn_opencl_words[] =
    "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
    "typedef long i64; typedef ulong u64; typedef uint u32; typedef ushort u16; typedef uchar u8;\n"
    "#define AS_F64(x) as_double(x)\n"
    "#define AS_U64(x) as_ulong(x)\n"
    "#define FN\n"
    "#define KERNEL __kernel\n"
    "#define MEMORY(name) __global uchar *name##_object, long name##_at\n"
    "#define BEGIN(name) (name##_object + name##_at)\n"
    "#define GLOBAL __global\n"
    "#define LOCAL __local\n"
    "#define SHARED __local\n"
    "#define GROUP get_group_id(0)\n"
    "#define THREAD ((int)get_local_id(0))\n"
    "#define BARRIER barrier(CLK_LOCAL_MEM_FENCE)\n";

hn_status hn_opencl_load_text(hn_dev *dev, const char *text, const char *name,
                              hn_device_program **out) {
    hn_strbuf source, object;
    hn_strbuf_init(&source);
    hn_strbuf_init(&object);
    hn_strbuf_puts(&source, hn_opencl_words);
    hn_strbuf_puts(&source, text);
    hn_status status = hn_strbuf_status(&source);
    if (!status) {
        hn_opencl_program_write(&(hn_opencl_program){.options = HN_STR("-cl-std=CL1.2"),
                                                     .source = hn_strbuf_str(&source)},
                                &object);
        status = hn_strbuf_status(&object);
    }
    if (!status) status = hn_opencl_load_code(dev, object.ptr, object.len, name, out);
    hn_strbuf_deinit(&source);
    hn_strbuf_deinit(&object);
    return status;
}

/* ---- kernels ---- */

static void free_kernel(opencl_kernel *k) {
    if (k->kernel) k->dev->cl.clReleaseKernel(k->kernel);
    pthread_mutex_destroy(&k->lock);
    free(k->name);
    free(k);
}

void hn_opencl_unload_code(hn_device_program *program) {
    opencl_code *c = (opencl_code *)program;
    if (!c) return;
    for (opencl_kernel *k = c->kernels, *next; k; k = next) {
        next = k->next;
        free_kernel(k);
    }
    release(c);
    pthread_mutex_destroy(&c->lock);
    free(c->name);
    free(c);
}

static hn_status open_kernel(const opencl_code *c, opencl_kernel *k) {
    const hn_opencl *cl = &c->dev->cl;
    cl_int code;
    if (!k->name) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a kernel");
    k->kernel = cl->clCreateKernel(c->program, k->name, &code);
    if (!k->kernel && code == CL_INVALID_KERNEL_NAME)
        return HN_ERROR(HN_NOT_FOUND, "'%s' has no kernel '%s'", c->name, k->name);
    if (!k->kernel) return hn_opencl_status(code, "clCreateKernel");
    return hn_opencl_status(cl->clGetKernelInfo(k->kernel, CL_KERNEL_NUM_ARGS, sizeof k->arg_count,
                                                &k->arg_count, NULL),
                            "clGetKernelInfo");
}

static hn_status make_kernel(opencl_code *c, const char *symbol, opencl_kernel **out) {
    opencl_kernel *k = calloc(1, sizeof *k);
    if (!k) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a kernel");
    *k = (opencl_kernel){.next = c->kernels, .dev = c->dev, .name = strdup(symbol)};
    pthread_mutex_init(&k->lock, NULL);
    hn_status status = open_kernel(c, k);
    if (status) free_kernel(k);
    else *out = c->kernels = k;
    return status;
}

hn_status hn_opencl_find_kernel(hn_device_program *program, const char *symbol, void **out_kernel) {
    opencl_code *c = (opencl_code *)program;
    hn_status status = NULL;
    pthread_mutex_lock(&c->lock);
    opencl_kernel *k = c->kernels;
    while (k && strcmp(k->name, symbol) != 0) k = k->next;
    if (!k) status = make_kernel(c, symbol, &k);
    pthread_mutex_unlock(&c->lock);
    if (!status) *out_kernel = k;
    return status;
}
