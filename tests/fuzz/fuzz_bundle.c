/* fuzz_bundle.c: any bytes as a bundle: opened without the digest check, described, its signature
 * verified; each of its programs evaluated, its objects verified, and, when it holds no machine code
 * and needs little memory, loaded and run. */
#include "bundle/sign.h"
#include "bundle/weights.h"
#include "henry/abi/extern_abi.h"
#include "henry/abi/kernel_abi.h"
#include "henry/module.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_BYTES = 1 << 20, MAX_ELEMS = 256, MAX_WORK = 1 << 28 };

typedef struct sample {
    int64_t *symbols, *values;
    uint8_t *bad;
} sample;

/* Small sizes that the ranges allow. */
static int evaluate(const hn_bundle *b, sample *s) {
    s->symbols = calloc(b->symbols_count + 1, sizeof *s->symbols);
    s->values = calloc(b->nodes_count + 1, sizeof *s->values);
    s->bad = calloc(b->nodes_count + 1, 1);
    if (!s->symbols || !s->values || !s->bad) return 0;
    for (uint32_t k = 0; k < b->symbols_count; k++) {
        int64_t value = 3 + k;
        s->symbols[k] = value < b->symbols[k].lo   ? b->symbols[k].lo
                        : value > b->symbols[k].hi ? b->symbols[k].hi
                                                   : value;
    }
    hn_bundle_eval(b, s->symbols, b->symbols_count, s->values, s->bad);
    return 1;
}

static int is_small(const sample *s, uint32_t node, int64_t limit) {
    return !node || (!s->bad[node] && s->values[node] >= 0 && s->values[node] <= limit);
}

/* Whether a call is done soon: the product of all that may be a size, the strides as well. */
static int is_quick(const hn_bundle *b, const sample *s, const hnb_step *step) {
    double work = 1;
    for (uint32_t k = 0; k < step->param_count; k++) {
        int64_t value = s->values[b->params[step->params + k]];
        int is_double = (step->extern_kind == HN_EXTERN_ATTENTION && k == HN_ATTENTION_SCALE) ||
                        (step->extern_kind == HN_EXTERN_NMS && k == HN_NMS_THRESHOLD);
        if (!is_double && (value > 1 || value < -1))
            work *= value > 0 ? (double)value : -(double)value;
    }
    return work < MAX_WORK;
}

static int are_small(const hn_bundle *b, const sample *s, uint32_t first, uint32_t count) {
    for (uint32_t k = 0; k < count; k++)
        if (!is_small(s, b->dims[first + k], MAX_ELEMS)) return 0;
    return 1;
}

static int can_run(const hn_bundle *b, const sample *s) {
    if (b->objects_count || b->weight_file_bytes ||
        !is_small(s, hn_bundle_workspace(b, HN_DEVICE_CPU), MAX_BYTES))
        return 0;
    for (uint32_t k = 0; k < b->steps_count; k++) { /* kernels trust their sizes */
        if (b->steps[k].kind == HNB_STEP_KERNEL) return 0;
        if (b->steps[k].kind == HNB_STEP_EXTERN && !is_quick(b, s, &b->steps[k])) return 0;
    }
    for (uint32_t k = 1; k < b->buffers_count; k++)
        if (!is_small(s, b->buffers[k].bytes, MAX_BYTES)) return 0;
    for (uint32_t k = 1; k < b->storages_count; k++)
        if (b->storages[k].bytes > MAX_BYTES) return 0; /* it may be made */
    for (uint32_t k = 0; k < b->inputs_count; k++) {
        const hnb_input *in = &b->inputs[k];
        if (in->rank > 3 || !are_small(b, s, in->dims, 2 * in->rank)) return 0;
    }
    for (uint32_t k = 0; k < b->outputs_count; k++) {
        const hnb_output *o = &b->outputs[k];
        const int own_target = o->is_mutation && o->target_input < 0;
        if (o->rank > 3 || !are_small(b, s, o->dims, (own_target ? 3 : 2) * o->rank)) return 0;
    }
    return b->inputs_count < 64 && b->outputs_count < 64 && b->buffers_count < 256;
}

/* What is computed of weights runs when the bundle is loaded. */
static int weights_can_run(const hn_bundle *b) {
    hn_bundle program;
    sample s = {0};
    int can = 1;
    if (!b->weights_program_count) return 1;
    hn_status status = hn_bundle_weights_program_open(b, false, &program);
    if (!status) can = evaluate(&program, &s) && can_run(&program, &s);
    hn_status_free(status);
    free(s.symbols), free(s.values), free(s.bad);
    return can;
}

/* Small whole numbers, which may be sizes; 0 and 1 for bools; floats of the bytes 1. */
static void fill(const hn_tensor *t) {
    const hn_scalar_type type = hn_tensor_type(t);
    const size_t elem = hn_scalar_type_bytes(type), count = (size_t)hn_tensor_numel(t);
    uint8_t *bytes = hn_tensor_data(t);
    const int is_float = type <= HN_BF16;
    if (count) memset(bytes, is_float, count * elem);
    for (size_t k = 0; !is_float && k < count; k++)
        bytes[k * elem] = (uint8_t)(type == HN_BOOL ? k % 2 : k % 4);
}

static hn_tensor *make_input(const hn_bundle *b, const sample *s, const hnb_input *in) {
    int64_t sizes[HNB_MAX_RANK];
    hn_tensor *t = NULL;
    if (in->kind != HNB_VALUE_TENSOR) return NULL;
    for (uint32_t d = 0; d < in->rank; d++) sizes[d] = s->values[b->dims[in->dims + d]] % 16;
    hn_status_free(hn_tensor_create(
        &(hn_tensor_desc){.type = (hn_scalar_type)in->dtype, .rank = in->rank, .sizes = sizes},
        &t));
    if (t) fill(t);
    return t;
}

static void run(const void *bytes, size_t size, const char *device, const hn_bundle *b,
                const sample *s) {
    hn_tensor *inputs[64] = {NULL}, *outputs[64] = {NULL};
    hn_module *m;
    hn_status status = hn_module_load_memory(
        bytes, size, false,
        &(hn_module_options){.threads = 1, .skip_digest = true, .device = device}, &m);
    if (status) {
        hn_status_free(status);
        return;
    }
    for (uint32_t k = 0; k < b->inputs_count; k++) inputs[k] = make_input(b, s, &b->inputs[k]);
    for (int round = 0; round < 2; round++) {
        hn_status_free(
            hn_module_run(m, inputs, b->inputs_count, outputs, hn_module_output_count(m)));
        for (uint32_t k = 0; k < 64; k++) hn_tensor_release(outputs[k]), outputs[k] = NULL;
    }
    for (uint32_t k = 0; k < 64; k++) hn_tensor_release(inputs[k]);
    hn_module_release(m);
}

/* What reads code and weights without running them. */
static void verify(const hn_bundle *b) {
    hn_public_key key;
    hn_str code;
    memcpy(key.bytes, b->header->signer, sizeof key.bytes);
    for (uint32_t k = 0; k < b->objects_count; k++)
        hn_status_free(hn_bundle_object_get(b, k, true, &code));
    hn_status_free(hn_bundle_check_code(b));
    hn_status_free(hn_bundle_weights_check(b, true));
    hn_status_free(hn_bundle_signature_check(b, &key, 1));
}

/* Program `k` of a bundle. Only the CPU's is run where there are several: drivers are not what is
 * tested here. */
static void try_program(const void *bytes, size_t size, const hn_bundle *file, uint32_t k) {
    const bool is_one = hn_bundle_program_count(file) == 1;
    hn_bundle b;
    sample s = {0};
    hn_status status = hn_bundle_program_open(file, k, false, &b);
    if (!status && evaluate(&b, &s)) {
        verify(&b);
        if (can_run(&b, &s) && weights_can_run(&b) &&
            (is_one || hn_bundle_program_device(file, k) == HN_DEVICE_CPU))
            run(bytes, size, is_one ? NULL : "cpu", &b, &s);
    }
    hn_status_free(status);
    free(s.symbols), free(s.values), free(s.bad);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    hn_bundle b;
    hn_strbuf text;
    void *bytes = malloc(size ? size : 1); /* aligned, and of the exact size */
    if (!bytes) return 0;
    if (size) memcpy(bytes, data, size);
    /* other numbers are refused before anything is read: they would be executions for nothing */
    if (size >= sizeof(hnb_header)) {
        hnb_header *header = bytes;
        if (header->version < HNB_VERSION_SINGLE || header->version > HNB_VERSION_VARIANTS)
            header->version = HNB_VERSION_SINGLE;
        header->kernel_abi = HN_KERNEL_ABI_VERSION;
        header->extern_abi = HN_EXTERN_ABI_VERSION;
    }
    hn_strbuf_init(&text);
    hn_status status = hn_bundle_open(bytes, size, false, &b);
    if (!status) {
        hn_bundle_describe_text(&b, &text);
        hn_bundle_describe_json(&b, &text);
        for (uint32_t k = 0; k < hn_bundle_program_count(&b); k++) try_program(bytes, size, &b, k);
    }
    hn_status_free(status);
    hn_strbuf_deinit(&text);
    free(bytes);
    return 0;
}
