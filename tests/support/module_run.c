/* module_run.c: see the header. */
#include "tests/support/module_run.h"

#include "tests/support/step_check.h"

#include <string.h>

enum { MAX_TENSORS = 128 };

/* False when the layout depends on sizes. Elements that share a place (an expanded input) are equal
 * in a sound test. */
static bool recorded_strides(const hn_module *module, uint32_t index, const hn_ref_tensor *from,
                             int64_t strides[HN_MAX_RANK]) {
    hn_module_value_info info;
    hn_status status = hn_module_input_info(module, index, &info);
    bool known = !status && info.kind == HN_VALUE_KIND_TENSOR && info.rank == from->rank;
    hn_status_free(status);
    for (uint32_t d = 0; known && d < from->rank; d++) {
        known = info.strides[d].is_static && info.strides[d].value >= 0;
        strides[d] = info.strides[d].value;
    }
    return known;
}

hn_status hn_test_tensor_make(hn_arena *arena, const hn_module *module, uint32_t index,
                              const hn_ref_tensor *from, hn_tensor **out) {
    void *bytes;
    int64_t strides[HN_MAX_RANK];
    HN_TRY(hn_arena_array(arena, (size_t)from->numel + 1, hn_dtype_facts(from->dtype)->size_bytes,
                          &bytes));
    hn_ref_tensor_store(from, bytes);
    hn_tensor_desc desc = {
        .type = (hn_scalar_type)from->dtype, .rank = from->rank, .sizes = from->sizes};
    if (recorded_strides(module, index, from, strides)) desc.strides = strides;
    HN_TRY(hn_tensor_create(&desc, out));
    hn_tensor_copy_in(*out, bytes);
    return NULL;
}

hn_status hn_test_tensor_read(hn_arena *arena, const hn_tensor *from, hn_ref_tensor *out) {
    void *bytes;
    HN_TRY(hn_arena_array(arena, (size_t)hn_tensor_numel(from) + 1,
                          hn_scalar_type_bytes(hn_tensor_type(from)), &bytes));
    hn_tensor_copy_out(from, bytes);
    return hn_ref_tensor_load(arena, (hn_dtype)hn_tensor_type(from), hn_tensor_rank(from),
                              hn_tensor_sizes(from), NULL, bytes, out);
}

static hn_status read_mutation(hn_arena *arena, hn_module *module, uint32_t k,
                               hn_tensor *const *inputs, hn_ref_tensor *out) {
    hn_module_mutation_info info;
    HN_TRY(hn_module_mutation_info_get(module, k, &info));
    if (info.input >= 0) return hn_test_tensor_read(arena, inputs[info.input], out);
    hn_tensor *buffer;
    HN_TRY(hn_module_buffer_read(module, info.name, &buffer));
    hn_status status = hn_test_tensor_read(arena, buffer, out);
    hn_tensor_release(buffer);
    return status;
}

hn_status hn_test_module_run(hn_arena *arena, hn_module *module, const hn_ref_tensor *inputs,
                             uint32_t input_count, hn_ref_tensor *out_outputs, uint32_t out_count) {
    hn_tensor *in[MAX_TENSORS] = {NULL}, *out[MAX_TENSORS] = {NULL};
    uint32_t outputs = hn_module_output_count(module), mutations = hn_module_mutation_count(module);
    if (input_count > MAX_TENSORS || outputs > MAX_TENSORS || outputs + mutations > out_count)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "%u inputs, %u outputs and %u mutations are more than the test expects",
                        input_count, outputs, mutations);
    hn_status status = hn_test_steps_check(module);
    for (uint32_t k = 0; k < input_count && !status; k++)
        if (inputs[k].dtype != HN_DTYPE_NONE)
            status = hn_test_tensor_make(arena, module, k, &inputs[k], &in[k]);
    if (!status) status = hn_module_run(module, in, input_count, out, outputs);
    for (uint32_t k = 0; k < outputs && !status; k++) {
        out_outputs[k] = (hn_ref_tensor){.dtype = HN_DTYPE_NONE};
        if (out[k]) status = hn_test_tensor_read(arena, out[k], &out_outputs[k]);
    }
    for (uint32_t k = 0; k < mutations && !status; k++)
        status = read_mutation(arena, module, k, in, &out_outputs[outputs + k]);
    for (uint32_t k = 0; k < MAX_TENSORS; k++) {
        hn_tensor_release(in[k]);
        hn_tensor_release(out[k]);
    }
    return status;
}
