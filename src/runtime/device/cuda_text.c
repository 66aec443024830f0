/* cuda_text.c: modules from a text, which NVRTC compiles in this process. Without cache and worker:
 * that is for kernels of models (src/toolchain), which this library does not compile; the few texts
 * of the runtime take some tenths of a second, once a module. */
#include "runtime/device/cuda.h"

#include "base/log.h"
#include "base/nvrtc.h"

#include <stdlib.h>

const char hn_cuda_words[] =
    "typedef long long i64; typedef unsigned long long u64; typedef unsigned u32;\n"
    "typedef unsigned short u16; typedef unsigned char u8;\n"
    "#define AS_F64(x) __longlong_as_double((long long)(x))\n"
    "#define AS_U64(x) ((u64)__double_as_longlong(x))\n"
    "#define FN static __device__\n"
    "#define KERNEL extern \"C\" __global__\n"
    "#define MEMORY(name) u8 *name##_begin\n"
    "#define BEGIN(name) name##_begin\n"
    "#define GLOBAL\n"
    "#define LOCAL\n"
    "#define SHARED __shared__\n"
    "#define GROUP blockIdx.x\n"
    "#define THREAD ((int)threadIdx.x)\n"
    "#define BARRIER __syncthreads()\n";

static hn_status of_nvrtc(const hn_nvrtc *n, int result, const char *name) {
    if (result == HN_NVRTC_OK) return NULL;
    return HN_ERROR(result == HN_NVRTC_OUT_OF_MEMORY ? HN_OUT_OF_MEMORY : HN_TOOLCHAIN,
                    "NVRTC cannot compile '%s': %s", name, n->error_string(result));
}

static hn_status add_log(const hn_nvrtc *n, hn_nvrtc_program program, hn_status status) {
    size_t len = 0;
    if (!status || n->get_log_size(program, &len) != HN_NVRTC_OK || len < 2) return status;
    char *log = malloc(len + 1);
    if (log && n->get_log(program, log) == HN_NVRTC_OK) {
        log[len] = 0;
        hn_log("run", HN_LOG_INFO, "%s", log);
    }
    free(log);
    return status;
}

static hn_status take_code(const hn_nvrtc *n, hn_nvrtc_program program, const char *name,
                           hn_strbuf *out) {
    size_t len = 0;
    HN_TRY(of_nvrtc(n, n->get_cubin_size(program, &len), name));
    char *place = hn_strbuf_reserve(out, len);
    if (!place) return hn_strbuf_status(out);
    HN_TRY(of_nvrtc(n, n->get_cubin(program, place), name));
    out->len += len;
    return NULL;
}

/* Machine code for the device: a driver may be older than the library, and know less PTX. */
static hn_status compile(const hn_nvrtc *n, const char *text, const char *arch, const char *name,
                         hn_strbuf *out) {
    const char *options[] = {arch};
    hn_nvrtc_program program = NULL;
    HN_TRY(of_nvrtc(n, n->create_program(&program, text, "text.cu", 0, NULL, NULL), name));
    hn_status status = of_nvrtc(n, n->compile_program(program, 1, options), name);
    if (status) status = add_log(n, program, status);
    else status = take_code(n, program, name, out);
    n->destroy_program(&program);
    return status;
}

static hn_status name_arch(cuda_dev *d, char *out, size_t bytes) {
    static const int attributes[] = {HN_CUDA_DEVICE_CAPABILITY_MAJOR,
                                     HN_CUDA_DEVICE_CAPABILITY_MINOR};
    int version[2] = {0};
    for (int k = 0; k < 2; k++)
        HN_TRY(hn_cuda_check(d, d->cuda.cuDeviceGetAttribute(&version[k], attributes[k], d->device),
                             "cuDeviceGetAttribute"));
    snprintf(out, bytes, "--gpu-architecture=sm_%d%d", version[0], version[1]);
    return NULL;
}

static hn_status compile_by(const hn_nvrtc *n, cuda_dev *d, const char *text, const char *name,
                            hn_strbuf *out) {
    char arch[64];
    hn_strbuf source;
    HN_TRY(name_arch(d, arch, sizeof arch));
    hn_strbuf_init(&source);
    hn_strbuf_puts(&source, hn_cuda_words);
    hn_strbuf_puts(&source, text);
    hn_status status = hn_strbuf_status(&source);
    if (!status) status = compile(n, source.ptr, arch, name, out);
    hn_strbuf_deinit(&source);
    return status;
}

hn_status hn_cuda_load_text(hn_dev *dev, const char *text, const char *name,
                            hn_device_program **out) {
    char path[PATH_MAX];
    hn_nvrtc nvrtc;
    hn_strbuf code;
    HN_TRY(hn_nvrtc_find(path));
    HN_TRY(hn_nvrtc_open(path, &nvrtc));
    hn_strbuf_init(&code);
    hn_status status = compile_by(&nvrtc, (cuda_dev *)dev, text, name, &code);
    if (!status) status = hn_cuda_load_code(dev, code.ptr, code.len, name, out);
    hn_strbuf_deinit(&code);
    hn_nvrtc_close(&nvrtc);
    return status;
}
