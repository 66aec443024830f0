/* test_stats.c: the statistics that devices make of their tensors (src/runtime/device_stats.c)
 * against those of the host, on OpenCL by the row of the runtime, and as CUDA C++ on the CPU by a
 * row of this test. */
#include "runtime/device_stats.h"

#include "runtime/device/cuda.h"
#include "support/opencl_host.h"

#include <stdlib.h>

static opencl_host *host;

/* ---- a row whose kernels are CUDA C++ on the CPU ---- */

static void *row_alloc(hn_dev *dev, size_t bytes) {
    (void)dev;
    return malloc(bytes);
}
static void row_free(hn_dev *dev, void *memory) {
    (void)dev;
    free(memory);
}
static hn_status row_copy(hn_queue *queue, void *to, const void *from, size_t bytes) {
    (void)queue;
    memcpy(to, from, bytes);
    return NULL;
}

static hn_status row_load(hn_dev *dev, const char *text, const char *name,
                          hn_device_program **out) {
    static const char calls[] =
        "\nextern \"C\" void call_hn_tensor_stats(void **a) { call(hn_tensor_stats, a); }\n"
        "extern \"C\" void call_hn_tensor_stats_join(void **a) { call(hn_tensor_stats_join, a); }\n"
        "extern \"C\" { unsigned blocks_hn_tensor_stats = 1, blocks_hn_tensor_stats_join = 1; }\n";
    hn_strbuf all;
    (void)dev, (void)name;
    hn_strbuf_init(&all);
    hn_strbuf_puts(&all, hn_cuda_words);
    hn_strbuf_puts(&all, text);
    hn_strbuf_puts(&all, calls);
    hn_status status = opencl_program_build(host, all.ptr, all.len, "", (opencl_program **)out);
    hn_strbuf_deinit(&all);
    return status;
}
static void row_unload(hn_device_program *program) {
    opencl_program_free((opencl_program *)program);
}

typedef struct row_kernel {
    opencl_program *program;
    const char *name;
} row_kernel;

static hn_status row_find(hn_device_program *program, const char *symbol, void **out) {
    static row_kernel kernels[2];
    row_kernel *k = &kernels[strcmp(symbol, "hn_tensor_stats") != 0];
    *k = (row_kernel){(opencl_program *)program, symbol};
    *out = k;
    return NULL;
}

static hn_status row_launch(hn_queue *queue, const hn_device_launch *l, hn_device_fault *fault) {
    const row_kernel *k = l->kernel;
    opencl_memory memories[2] = {{.bytes = l->args[0]}};
    int64_t sizes[64];
    int failed;
    (void)queue;
    *fault = (hn_device_fault){.is_set = false};
    if (l->arg_count > 1) memories[1].bytes = l->args[1];
    for (uint32_t p = 0; p < l->param_count; p++) sizes[p] = l->params[p];
    return opencl_program_run(k->program,
                              &(opencl_launch){.kernel = k->name,
                                               .memories = memories,
                                               .memory_count = l->arg_count,
                                               .sizes = sizes,
                                               .size_count = l->param_count,
                                               .groups = (size_t)l->groups[0],
                                               .threads = l->threads[0]},
                              &failed);
}

static const hn_device_ops row = {.alloc = row_alloc,
                                  .free = row_free,
                                  .copy_in = row_copy,
                                  .read = row_copy,
                                  .load_text = row_load,
                                  .unload = row_unload,
                                  .find = row_find,
                                  .launch = row_launch};

/* ---- the device ---- */

static bool is_cuda(void) { return strncmp(opencl_host_target(), "opencl", 6) != 0; }

static bool open_device(hn_dev **dev, hn_queue **queue) {
    static hn_dev own = {.facts = {.name = "CUDA on the CPU"}};
    static hn_queue own_queue = {&own};
    own.ops = &row;
    *dev = &own;
    *queue = &own_queue;
    if (is_cuda()) return true;
    const hn_device_ops *ops = hn_device_ops_of(HN_DEVICE_OPENCL);
    hn_status status = hn_dev_open(ops, &(hn_device_options){.number = 0}, dev);
    if (!status) status = ops->queue_create(*dev, &(hn_queue_options){.step_count = 1}, queue);
    if (!status) return true;
    fprintf(stderr, "%s\n", hn_status_message(status));
    hn_status_free(status);
    abort(); /* the host has a device */
}

static void close_device(hn_dev *dev, hn_queue *queue) {
    if (is_cuda()) return;
    dev->ops->queue_destroy(queue);
    hn_dev_release(dev);
}

#include "support/stats_cases.h"

int main(int argc, char **argv) {
    int code = opencl_host_open_or_skip(&host);
    if (code >= 0) return code;
    printf("device: %s\n", opencl_host_device(host));
    code = hn_test_main(argc, argv);
    opencl_host_close(host);
    return code;
}
