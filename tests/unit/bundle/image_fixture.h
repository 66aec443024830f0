/* image_fixture.h: a small bundle image for CPUs, CUDA or OpenCL. */
#ifndef HN_TESTS_IMAGE_FIXTURE_H
#define HN_TESTS_IMAGE_FIXTURE_H

#include "base/hash.h"
#include "bundle/writer.h"
#include "bundle/view.h"
#include "henry/tensor.h"
#include "unit/harness.h"

/* What the code of an image is for. Nobody runs these. */
typedef struct code_case {
    hnb_target_kind target;
    hnb_object_kind object;
    hn_device_kind device;
    const char *name, *code;
} code_case;
typedef struct code_cases {
    code_case items[2];
    uint32_t count;
    const char *tuning; /* lines of tuning records; NULL: there are none */
} code_cases;

static const code_cases levels = {
    {{HNB_TARGET_CPU, HNB_OBJECT_ELF, HN_DEVICE_CPU, "x86-64-v3", "v3 code"},
     {HNB_TARGET_CPU, HNB_OBJECT_ELF, HN_DEVICE_CPU, "generic", "generic"}},
    2,
    NULL};
static const code_cases cuda = {
    {{HNB_TARGET_CUDA, HNB_OBJECT_CUBIN, HN_DEVICE_CUDA, "sm_90", "cubin90"},
     {HNB_TARGET_CUDA, HNB_OBJECT_PTX, HN_DEVICE_CUDA, "compute_80", "ptx80"}},
    2,
    NULL};
static const code_cases opencl = {
    {{HNB_TARGET_OPENCL, HNB_OBJECT_OPENCL, HN_DEVICE_OPENCL, "opencl", "source"}}, 1, NULL};

static void add_code(hn_bundle_writer *w, const code_cases *cases) {
    static hnb_kernel kernels[2];
    static hnb_code codes[2];
    static hnb_arg args[2] = {{.dtype = 2}, {.dtype = 2, .written = 1}};
    hnb_str name;
    EXPECT_OK(hn_bundle_writer_str(w, HN_STR("double"), &name));
    for (uint32_t t = 0; t < cases->count; t++) {
        const code_case *c = &cases->items[t];
        const bool is_cpu = c->target == HNB_TARGET_CPU;
        const hn_str features = is_cpu && !t ? (hn_str){"avx2\0fma\0", 9} : HN_STR("");
        uint32_t target, object;
        EXPECT_OK(hn_bundle_writer_target(w, c->target, is_cpu ? HNB_MACHINE_HERE : 0,
                                          hn_str_of(c->name), features, &target));
        EXPECT_OK(hn_bundle_writer_object(w, c->object, target, HN_STR("kernels"), c->code,
                                          strlen(c->code), NULL, &object));
        codes[t] = (hnb_code){.object = object, .symbol = name};
    }
    kernels[1] = (hnb_kernel){.name = name, .arg_count = 2};
    w->kernels.items = kernels, w->kernels.count = w->kernels.cap = 2;
    w->codes.items = codes, w->codes.count = w->codes.cap = cases->count;
    w->args.items = args, w->args.count = w->args.cap = 2;
}

#define SET(member)                                                                                \
    w.member.items = member, w.member.count = w.member.cap = sizeof member / sizeof member[0]

/* y = copy of x with 2*s0 + w elements; one weight, one kernel, one guard. On a device the kernel
 * writes to a temporary, and the host gets a copy of that. */
static void make_image_of(const code_cases *cases, hn_strbuf *out) {
    static const float weight[4] = {1, 2, 3, 4};
    const hn_device_kind device = cases->items[0].device;
    const bool is_cpu = device == HN_DEVICE_CPU;
    hn_arena arena;
    hn_bundle_writer w;
    uint32_t s0, two, size, one;
    uint64_t offset;
    hn_arena_init(&arena);
    EXPECT_OK(hn_bundle_writer_init(&w, &arena));
    w.key = HN_STR("the key");
    if (cases->tuning) w.tuning = hn_str_of(cases->tuning);
    hnb_str name = {0}, symbol = {0};
    EXPECT_OK(hn_bundle_writer_str(&w, HN_STR("x"), &name));
    EXPECT_OK(hn_bundle_writer_str(&w, HN_STR("s0"), &symbol));
    EXPECT_OK(hn_nodes_add(&w.nodes, HNB_OP_SYMBOL, 0, 0, &s0));
    EXPECT_OK(hn_nodes_add(&w.nodes, HNB_OP_CONST, 0, 2, &two));
    EXPECT_OK(hn_nodes_add(&w.nodes, HNB_OP_CONST, 0, 1, &one));
    EXPECT_OK(hn_nodes_add(&w.nodes, HNB_OP_MUL, two, s0, &size));
    EXPECT_OK(hn_bundle_writer_piece(&w, &w.weights, weight, sizeof weight, &offset));
    w.weights_digest = true;
    static hnb_symbol symbols[1];
    static hnb_guard guards[1];
    static hnb_input inputs[1];
    static hnb_output outputs[1];
    static uint32_t dims[4];
    static hnb_buffer buffers[5];
    static hnb_step steps[3];
    static hnb_operand operands[2];
    static hnb_launch launches[2];
    static hnb_storage storages[2];
    static hnb_tensor tensors[1];
    static hnb_workspace workspaces[2];
    static hnb_record records[2];
    symbols[0] = (hnb_symbol){.name = symbol, .lo = 1, .hi = INT64_MAX, .coeff = 2};
    guards[0] = (hnb_guard){.relation = HNB_NE, .lhs = s0, .rhs = two, .reason = name};
    dims[0] = size, dims[1] = one, dims[2] = two, dims[3] = one;
    inputs[0] = (hnb_input){.name = name, .dtype = 2, .rank = 1};
    outputs[0] = (hnb_output){.name = name, .dtype = 2, .rank = 1, .buffer = 2, .target_input = -1};
    buffers[1] = (hnb_buffer){.kind = HNB_BUFFER_INPUT, .dtype = 2, .rank = 1, .device = device};
    buffers[2] =
        (hnb_buffer){.kind = HNB_BUFFER_OUTPUT, .dtype = 2, .bytes = size, .rank = 1, .dims = 2};
    for (uint32_t k = 3; k < 5; k++)
        buffers[k] =
            (hnb_buffer){.kind = HNB_BUFFER_SLOT, .dtype = 2, .bytes = size, .device = device};
    steps[0] =
        (hnb_step){.kind = HNB_STEP_COPY, .buffer = 2, .from = is_cpu ? 1 : 3, .device = device};
    operands[0] = (hnb_operand){.buffer = 1, .dtype = 2};
    operands[1] = (hnb_operand){.buffer = is_cpu ? 2 : 3, .dtype = 2, .written = 1};
    steps[1] = (hnb_step){.kind = HNB_STEP_KERNEL,
                          .kernel = 1,
                          .operand_count = 2,
                          .launch_count = cases->count,
                          .device = device};
    steps[2] = steps[0];
    if (!is_cpu) steps[2] = (hnb_step){.kind = HNB_STEP_WAIT, .device = device};
    for (uint32_t t = 0; t < 2; t++) {
        launches[t] = (hnb_launch){.extent = is_cpu ? size : 0, .grain = 64 >> t};
        for (uint32_t d = 0; !is_cpu && d < 3; d++)
            launches[t].grid[d] = d ? one : size, launches[t].block[d] = d ? 1 : 128;
        launches[t].shared = is_cpu ? 0 : two;
    }
    storages[1] =
        (hnb_storage){.where = HNB_STORAGE_WEIGHTS, .bytes = sizeof weight, .offset = offset};
    tensors[0] =
        (hnb_tensor){.name = name, .dtype = 2, .rank = 1, .dims = 2, .storage = 1, .offset = 2};
    workspaces[0] = (hnb_workspace){.device = HN_DEVICE_CPU, .bytes = size};
    workspaces[1] = (hnb_workspace){.device = HN_DEVICE_OPENCL, .bytes = two};
    for (uint32_t t = 0; t < 2; t++)
        records[t] = (hnb_record){.step = 1,
                                  .target = t,
                                  .category = 1,
                                  .flags = HNB_RECORD_HAS_FORM,
                                  .row_rank = 1,
                                  .rank = 2,
                                  .read_expr = size,
                                  .read_bytes = 96,
                                  .written_bytes = 97,
                                  .operations = 98,
                                  .form = name};
    add_code(&w, cases);
    SET(symbols), SET(guards), SET(inputs), SET(outputs), SET(dims), SET(buffers), SET(steps);
    SET(storages), SET(operands), SET(launches), SET(tensors), SET(workspaces), SET(records);
    w.records.count = cases->count;
    hn_strbuf_init(out);
    EXPECT_OK(hn_bundle_writer_finish(&w, out));
    hn_bundle_writer_deinit(&w);
    hn_arena_deinit(&arena);
}

static inline void make_image(hn_strbuf *out) { make_image_of(&levels, out); }

static inline void seal(hn_strbuf *image) {
    hnb_header *h = (hnb_header *)(void *)image->ptr;
    hn_digest digest = hn_bundle_meta_digest(image->ptr, h->meta_bytes);
    memcpy(h->digest, digest.bytes, sizeof digest.bytes);
}

#endif
