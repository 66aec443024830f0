/* several.c: one program on several devices of a kind, in one process: a module for each, all run at
 * once by several threads, with launches one by one and as CUDA graphs.
 *
 *     several_devices MODEL.pt2 DEVICE...
 *
 * A device may be named twice. Results of all runs are those of the first run on the first device, bit
 * for bit, so the devices must be alike. A tensor in memory of one device is refused by a module on
 * another one, which says where it is, and goes on. Ends with "N passed, N failed". */
#include "henry/henry.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEVICES = 16, MAX_TENSORS = 16, THREADS = 3, RUNS = 40 };

typedef struct tensors {
    hn_tensor *at[MAX_TENSORS];
    uint32_t count;
} tensors;

typedef struct module_at {
    const char *name;
    hn_module *module;
} module_at;

typedef struct work {
    const module_at *device;
    const tensors *inputs, *expected;
    hn_status status;
    int wrong; /* runs with other results */
} work;

static int passed, failed;

static void told(bool is_right, const char *what, const char *device, hn_status status) {
    if (is_right) passed++;
    else failed++;
    if (!is_right) fprintf(stderr, "%s: %s: %s\n", device, what, hn_status_message(status));
    hn_status_free(status);
}

static size_t bytes_of(const hn_tensor *t) {
    return (size_t)hn_tensor_numel(t) * hn_scalar_type_bytes(hn_tensor_type(t));
}

static void release(tensors *t) {
    for (uint32_t k = 0; k < t->count; k++) hn_tensor_release(t->at[k]);
}

/* Floating point: 0 to 1; whole numbers: 0 or 1. */
static hn_status make_input(const hn_module *m, uint32_t k, hn_tensor **out) {
    hn_module_value_info info;
    int64_t sizes[HN_TENSOR_MAX_RANK], strides[HN_TENSOR_MAX_RANK];
    HN_TRY(hn_module_input_info(m, k, &info));
    for (uint32_t d = 0; d < info.rank; d++) {
        sizes[d] = info.sizes[d].hint;
        strides[d] = info.strides[d].hint;
    }
    HN_TRY(hn_tensor_create(
        &(hn_tensor_desc){.type = info.type, .rank = info.rank, .sizes = sizes, .strides = strides},
        out));
    memset(hn_tensor_data(*out), 0, bytes_of(*out));
    if (info.type == HN_F32)
        for (int64_t i = 0; i < hn_tensor_numel(*out); i++)
            ((float *)hn_tensor_data(*out))[i] = (float)(i * 7919 % 1009) / 1009;
    return NULL;
}

static hn_status make_inputs(const hn_module *m, tensors *out) {
    out->count = hn_module_input_count(m);
    for (uint32_t k = 0; k < out->count; k++) HN_TRY(make_input(m, k, &out->at[k]));
    return NULL;
}

static bool equal(const tensors *a, const tensors *b) {
    for (uint32_t k = 0; k < a->count; k++)
        if (bytes_of(a->at[k]) != bytes_of(b->at[k]) ||
            memcmp(hn_tensor_data(a->at[k]), hn_tensor_data(b->at[k]), bytes_of(a->at[k])) != 0)
            return false;
    return true;
}

static void *run_often(void *context) {
    work *w = context;
    for (int k = 0; k < RUNS && !w->status; k++) {
        tensors outputs = {.count = w->expected->count};
        w->status = hn_module_run(w->device->module, w->inputs->at, w->inputs->count, outputs.at,
                                  outputs.count);
        w->wrong += !w->status && !equal(&outputs, w->expected);
        release(&outputs);
    }
    return NULL;
}

/* All devices at once, THREADS threads each. */
static void run_at_once(const module_at *devices, int count, const tensors *inputs,
                        const tensors *expected) {
    work works[MAX_DEVICES * THREADS];
    pthread_t threads[MAX_DEVICES * THREADS];
    const int all = count * THREADS;
    int begun = 0;
    for (; begun < all; begun++) {
        works[begun] = (work){&devices[begun % count], inputs, expected, NULL, 0};
        if (pthread_create(&threads[begun], NULL, run_often, &works[begun])) break;
    }
    told(begun == all, "no thread", "", NULL);
    for (int k = 0; k < begun; k++) {
        pthread_join(threads[k], NULL);
        told(!works[k].status, "a run failed", works[k].device->name, works[k].status);
        told(works[k].wrong == 0, "another result", works[k].device->name, NULL);
    }
}

/* An output in memory of `from` is no input for `to`, which is another device. */
static void refuse(const module_at *from, const module_at *to, const tensors *inputs,
                   uint32_t output_count) {
    tensors there = {.count = output_count}, outputs = {.count = output_count};
    hn_status status = hn_module_run_with(from->module, &(hn_run_options){.device_outputs = true},
                                          inputs->at, inputs->count, there.at, there.count);
    told(!status, "a run failed", from->name, status);
    if (!there.at[0]) return;
    const hn_device at = hn_tensor_device(there.at[0]);
    char expected[64];
    snprintf(expected, sizeof expected, "is on %s:%u;", hn_device_kind_name(at.kind), at.number);
    tensors wrong = *inputs;
    wrong.at[0] = there.at[0];
    status = hn_module_run(to->module, wrong.at, wrong.count, outputs.at, outputs.count);
    told(status && strstr(hn_status_message(status), expected), "not refused", to->name, status);
    release(&there);
    release(&outputs);
}

static bool load(const hn_compiled *program, module_at *d, bool graphs) {
    hn_status status = hn_compiled_load(
        program, &(hn_module_options){.device = d->name, .device_graphs = graphs}, &d->module);
    told(!status, "not loaded", d->name, status);
    return d->module != NULL;
}

static bool is_same(const module_at *a, const module_at *b) {
    hn_module_device_info info[2];
    hn_module_device_get(a->module, &info[0]);
    hn_module_device_get(b->module, &info[1]);
    return info[0].device.kind == info[1].device.kind &&
           info[0].device.number == info[1].device.number;
}

static void run_all(const module_at *devices, int count) {
    tensors inputs = {.count = 0};
    tensors expected = {.count = hn_module_output_count(devices[0].module)};
    hn_status status = make_inputs(devices[0].module, &inputs);
    if (!status)
        status =
            hn_module_run(devices[0].module, inputs.at, inputs.count, expected.at, expected.count);
    const bool is_right = !status;
    told(is_right, "the first run failed", devices[0].name, status);
    if (is_right) run_at_once(devices, count, &inputs, &expected);
    for (int k = 1; k < count && is_right; k++)
        if (!is_same(&devices[0], &devices[k])) {
            refuse(&devices[0], &devices[k], &inputs, expected.count);
            refuse(&devices[k], &devices[0], &inputs, expected.count);
        }
    if (is_right) run_at_once(devices, count, &inputs, &expected);
    release(&inputs);
    release(&expected);
}

int main(int argc, char **argv) {
    module_at devices[MAX_DEVICES];
    const int count = argc - 2;
    if (count < 1 || count > MAX_DEVICES) {
        fprintf(stderr, "usage: several_devices MODEL.pt2 DEVICE...\n");
        return 2;
    }
    hn_compiled *program = NULL;
    const bool is_cpu = strcmp(argv[2], "cpu") == 0;
    hn_status status = hn_compile_file(
        argv[1], &(hn_compile_options){.target = is_cpu ? NULL : argv[2]}, &program);
    told(!status, "not compiled", argv[1], status);
    for (int graphs = 0; program && graphs < 2; graphs++) {
        bool is_loaded = true;
        for (int k = 0; k < count; k++) {
            devices[k] = (module_at){argv[k + 2], NULL};
            is_loaded = load(program, &devices[k], graphs) && is_loaded;
        }
        if (is_loaded) run_all(devices, count);
        for (int k = 0; k < count; k++) hn_module_release(devices[k].module);
    }
    hn_compiled_release(program);
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
