/* cuda_code.c: modules from cubins, or from PTX, which the driver translates here; kernels. */
#include "runtime/device/cuda.h"

#include "base/cubin.h"

#include <stdlib.h>

typedef struct cuda_code {
    cuda_dev *dev;
    char *name; /* for messages */
    hn_cuda_module module;
    pthread_mutex_t lock; /* of `kernels` */
    cuda_kernel *kernels;
} cuda_code;

/* ---- modules ---- */

static bool is_elf(const void *code, size_t len) {
    return len > 4 && memcmp(code, "\177ELF", 4) == 0;
}

static bool is_bad_code(hn_cuda_result code) {
    return code == HN_CUDA_INVALID_IMAGE || code == HN_CUDA_NO_BINARY_FOR_GPU ||
           code == HN_CUDA_INVALID_PTX || code == HN_CUDA_INVALID_SOURCE ||
           code == HN_CUDA_JIT_COMPILER_NOT_FOUND || code == HN_CUDA_UNSUPPORTED_PTX_VERSION;
}

static hn_status code_error(cuda_code *c, hn_cuda_result code, const char *log) {
    hn_status status = hn_cuda_check(c->dev, code, "cuModuleLoadDataEx");
    if (!is_bad_code(code)) return hn_status_annotate(status, "cannot load '%s'", c->name);
    hn_strbuf text, version;
    hn_strbuf_init(&text);
    hn_strbuf_init(&version);
    hn_strbuf_clean(&text, hn_str_of(log), false);
    hn_cuda_version_print(&c->dev->cuda, &version);
    hn_status answer = HN_ERROR(
        HN_TOOLCHAIN,
        "cannot load '%s': %s; the driver is for CUDA %s: code of a later version needs a newer "
        "driver%s%s",
        c->name, hn_status_message(status), version.len ? version.ptr : "?", text.len ? ": " : "",
        text.len ? text.ptr : "");
    hn_status_free(status);
    hn_strbuf_deinit(&text);
    hn_strbuf_deinit(&version);
    return answer;
}

static hn_status load_image(cuda_code *c, const void *image) {
    enum { LOG_BYTES = 4096 };
    char log[LOG_BYTES] = "";
    int options[] = {HN_CUDA_JIT_ERROR_LOG, HN_CUDA_JIT_ERROR_LOG_BYTES};
    void *values[] = {log, (void *)(uintptr_t)LOG_BYTES};
    hn_cuda_result code = c->dev->cuda.cuModuleLoadDataEx(&c->module, image, 2, options, values);
    if (code == HN_CUDA_SUCCESS) return NULL;
    c->module = NULL;
    log[LOG_BYTES - 1] = 0;
    return code_error(c, code, log);
}

/* PTX is text with an end, which it does not have in a bundle. */
static hn_status load_text(cuda_code *c, const void *code, size_t len) {
    char *text = malloc(len + 1);
    if (!text) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to load '%s'", c->name);
    memcpy(text, code, len);
    text[len] = 0;
    hn_status status = load_image(c, text);
    free(text);
    return status;
}

static hn_status make_module(cuda_code *c, const void *code, size_t len) {
    bool pushed;
    if (!c->name) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to load code");
    if (is_elf(code, len) && !hn_cubin_is_whole((hn_str){code, len}))
        return HN_ERROR(HN_TOOLCHAIN,
                        "cannot load '%s': a part of the machine code is missing; compile the "
                        "model again",
                        c->name);
    HN_TRY(hn_cuda_enter(c->dev, &pushed));
    hn_status status = is_elf(code, len) ? load_image(c, code) : load_text(c, code, len);
    hn_cuda_leave(c->dev, pushed);
    return status;
}

hn_status hn_cuda_load_code(hn_dev *dev, const void *code, size_t len, const char *name,
                            hn_device_program **out) {
    cuda_code *c = calloc(1, sizeof *c);
    if (!c) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to load '%s'", name);
    *c = (cuda_code){.dev = (cuda_dev *)dev, .name = strdup(name)};
    pthread_mutex_init(&c->lock, NULL);
    hn_status status = make_module(c, code, len);
    if (status) hn_cuda_unload_code((hn_device_program *)c);
    else *out = (hn_device_program *)c;
    return status;
}

static void free_kernel(cuda_kernel *k) {
    pthread_mutex_destroy(&k->lock);
    free(k->name);
    free(k);
}

static void unload(const cuda_code *c) {
    const cuda_dev *d = c->dev;
    if (!c->module) return;
    const bool pushed = d->cuda.cuCtxPushCurrent(d->context) == HN_CUDA_SUCCESS;
    (void)d->cuda.cuModuleUnload(c->module);
    hn_cuda_leave(d, pushed);
}

void hn_cuda_unload_code(hn_device_program *program) {
    cuda_code *c = (cuda_code *)program;
    if (!c) return;
    for (cuda_kernel *k = c->kernels, *next; k; k = next) {
        next = k->next;
        free_kernel(k);
    }
    unload(c);
    pthread_mutex_destroy(&c->lock);
    free(c->name);
    free(c);
}

/* ---- kernels ---- */

enum { SHARED_WITHOUT_ASKING = 48 << 10, ARGS_MAX = 4096 };

/* Newer drivers tell one parameter after the other, and fail behind the last. */
static uint32_t count_args(const cuda_kernel *k) {
    const hn_cuda *cuda = &k->dev->cuda;
    size_t offset, bytes;
    uint32_t count = 0;
    if (!cuda->cuFuncGetParamInfo) return UINT32_MAX;
    hn_cuda_result code = HN_CUDA_SUCCESS;
    while (count < ARGS_MAX) {
        code = cuda->cuFuncGetParamInfo(k->function, count, &offset, &bytes);
        if (code != HN_CUDA_SUCCESS) break;
        count++;
    }
    return code == HN_CUDA_INVALID_VALUE ? count : UINT32_MAX;
}

static hn_status read_attribute(const cuda_kernel *k, int attribute, int *out) {
    return hn_cuda_check(k->dev, k->dev->cuda.cuFuncGetAttribute(out, attribute, k->function),
                         "cuFuncGetAttribute");
}

static hn_status open_kernel(const cuda_code *c, cuda_kernel *k) {
    int shared = 0;
    if (!k->name) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a kernel");
    hn_cuda_result code = c->dev->cuda.cuModuleGetFunction(&k->function, c->module, k->name);
    if (code == HN_CUDA_NOT_FOUND)
        return HN_ERROR(HN_NOT_FOUND, "'%s' has no kernel '%s'", c->name, k->name);
    HN_TRY(hn_cuda_check(c->dev, code, "cuModuleGetFunction"));
    HN_TRY(read_attribute(k, HN_CUDA_FUNCTION_SHARED_SIZE_BYTES, &shared));
    k->static_shared = shared > 0 ? (size_t)shared : 0;
    atomic_init(&k->shared_ok, k->static_shared < SHARED_WITHOUT_ASKING
                                   ? SHARED_WITHOUT_ASKING - k->static_shared
                                   : 0);
    k->arg_count = count_args(k);
    return NULL;
}

static hn_status make_kernel(cuda_code *c, const char *symbol, cuda_kernel **out) {
    bool pushed;
    cuda_kernel *k = calloc(1, sizeof *k);
    if (!k) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a kernel");
    k->next = c->kernels;
    k->dev = c->dev;
    k->name = strdup(symbol);
    pthread_mutex_init(&k->lock, NULL);
    hn_status status = hn_cuda_enter(c->dev, &pushed);
    if (!status) {
        status = open_kernel(c, k);
        hn_cuda_leave(c->dev, pushed);
    }
    if (status) free_kernel(k);
    else *out = c->kernels = k;
    return status;
}

hn_status hn_cuda_find_kernel(hn_device_program *program, const char *symbol, void **out_kernel) {
    cuda_code *c = (cuda_code *)program;
    hn_status status = NULL;
    pthread_mutex_lock(&c->lock);
    cuda_kernel *k = c->kernels;
    while (k && strcmp(k->name, symbol) != 0) k = k->next;
    if (!k) status = make_kernel(c, symbol, &k);
    pthread_mutex_unlock(&c->lock);
    if (!status) *out_kernel = k;
    return status;
}

/* ---- what a group may have ---- */

/* Not of a kernel that was planned for the device: the planner takes another form where one would
 * want more than the facts of the target say (kernel/facts.h), and those are what all devices have
 * that run the target's code. So a bundle has no other form to go on with here. */
static hn_status too_much_shared(const cuda_kernel *k, size_t bytes) {
    return HN_ERROR(HN_UNSUPPORTED,
                    "out of resource: kernel '%s' wants %zu bytes of shared memory for a group of "
                    "threads, '%s' has %zu; compile the program for this device",
                    k->name, k->static_shared + bytes, k->dev->base.facts.name, k->dev->shared_max);
}

static hn_status raise_shared(cuda_kernel *k, size_t bytes) {
    if (bytes <= atomic_load_explicit(&k->shared_ok, memory_order_relaxed)) return NULL;
    HN_TRY(
        hn_cuda_check(k->dev,
                      k->dev->cuda.cuFuncSetAttribute(
                          k->function, HN_CUDA_FUNCTION_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)bytes),
                      "cuFuncSetAttribute"));
    atomic_store_explicit(&k->shared_ok, bytes, memory_order_release);
    return NULL;
}

hn_status hn_cuda_allow_shared(cuda_kernel *k, size_t bytes) {
    if (bytes > k->dev->shared_max || k->static_shared + bytes > k->dev->shared_max)
        return too_much_shared(k, bytes);
    pthread_mutex_lock(&k->lock);
    hn_status status = raise_shared(k, bytes);
    pthread_mutex_unlock(&k->lock);
    return status;
}

hn_status hn_cuda_explain(const cuda_kernel *k, const hn_device_launch *l, hn_status status) {
    int most = 0, registers = 0;
    const uint64_t threads = (uint64_t)l->threads[0] * (l->threads[1] ? l->threads[1] : 1) *
                             (l->threads[2] ? l->threads[2] : 1);
    const hn_cuda *cuda = &k->dev->cuda;
    if (cuda->cuFuncGetAttribute(&most, HN_CUDA_FUNCTION_MAX_THREADS_PER_BLOCK, k->function) !=
            HN_CUDA_SUCCESS ||
        threads <= (uint64_t)most)
        return status;
    hn_status_free(status);
    if (cuda->cuFuncGetAttribute(&registers, HN_CUDA_FUNCTION_NUM_REGS, k->function) !=
        HN_CUDA_SUCCESS)
        registers = 0;
    return HN_ERROR(HN_UNSUPPORTED,
                    "out of resource: kernel '%s' wants groups of %llu threads, with %d registers "
                    "a thread '%s' has room for %d",
                    k->name, (unsigned long long)threads, registers, k->dev->base.facts.name, most);
}
