/* sizes.c: what a program takes and gives, without running it: symbols, guards, sizes of
 * outputs. */
#include "runtime/module_impl.h"

#include "base/require.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- symbols and guards ---- */

uint32_t hn_module_symbol_count(const hn_module *m) { return m ? m->view.symbols_count : 0; }
uint32_t hn_module_guard_count(const hn_module *m) { return m ? m->view.guards_count : 0; }

hn_status hn_module_symbol_info_get(const hn_module *m, uint32_t index,
                                    hn_module_symbol_info *out) {
    HN_REQUIRE(m, "module");
    HN_REQUIRE(out, "out");
    if (index >= m->view.symbols_count)
        return hn_out_of_range("symbol", index, m->view.symbols_count);
    const hnb_symbol *s = &m->view.symbols[index];
    const bool is_data = s->input == HNB_BY_STEP;
    *out = (hn_module_symbol_info){.name = hn_bundle_text(&m->view, s->name),
                                   .min = s->lo,
                                   .max = s->hi,
                                   .has_hint = s->hint != INT64_MIN,
                                   .hint = s->hint,
                                   .is_data = is_data,
                                   .input = is_data ? 0 : s->input,
                                   .dim = is_data ? 0 : s->dim,
                                   .text = m->symbol_texts[index]};
    return NULL;
}

hn_status hn_module_guard_info_get(const hn_module *m, uint32_t index, hn_module_guard_info *out) {
    HN_REQUIRE(m, "module");
    HN_REQUIRE(out, "out");
    if (index >= m->view.guards_count) return hn_out_of_range("guard", index, m->view.guards_count);
    *out = (hn_module_guard_info){.text = m->guard_texts[index],
                                  .reason = hn_bundle_text(&m->view, m->view.guards[index].reason),
                                  .is_data = hn_stage_of(&m->stages.guards, index) > 0};
    return NULL;
}

/* ---- sizes of outputs ---- */

static hn_status check_input(const hn_module *m, uint32_t k, const hn_input_sizes *given,
                             int64_t **key) {
    const hnb_input *in = &m->view.inputs[k];
    const char *name = hn_input_name(&m->view, k);
    if (in->kind != HNB_VALUE_TENSOR) {
        int64_t value = 0;
        if (in->kind == HNB_VALUE_INT && !hn_bundle_expr_const(&m->view, in->expr, &value) &&
            !given->has_value)
            return HN_ERROR(HN_INVALID_ARGUMENT,
                            "input '%s' is a whole number that sizes depend on; give its value",
                            name);
        *(*key)++ = given->has_value ? given->value : value;
        return NULL;
    }
    if (given->rank != in->rank)
        return HN_ERROR(HN_INVALID_ARGUMENT, "input '%s' has %u dimensions, must have %u", name,
                        given->rank, in->rank);
    if (given->rank && !given->sizes)
        return HN_ERROR(HN_INVALID_ARGUMENT, "the sizes of input '%s' are NULL", name);
    for (uint32_t d = 0; d < in->rank; d++) {
        if (given->sizes[d] < 0)
            return HN_ERROR(HN_INVALID_ARGUMENT,
                            "input '%s' dimension %u is %" PRId64 ", must not be negative", name, d,
                            given->sizes[d]);
        *(*key)++ = given->sizes[d];
    }
    return NULL;
}

static hn_status output_size(const hn_module *m, const hn_bound *bound, const hnb_output *o,
                             uint32_t d, int64_t *out) {
    const uint32_t node = m->view.dims[o->dims + d];
    *out = -1;
    if (m->stages.count && m->stages.nodes.of[node]) return NULL;
    *out = bound->values[node];
    if (!bound->bad[node] && *out >= 0) return NULL;
    return HN_ERROR(HN_INVALID_ARGUMENT,
                    "output '%s' dimension %u cannot be computed for these inputs",
                    hn_bundle_text(&m->view, o->name), d);
}

static hn_status fill_outputs(const hn_module *m, const hn_bound *bound, hn_output_sizes *outputs) {
    uint32_t output = 0;
    for (uint32_t k = 0; k < m->view.outputs_count; k++) {
        const hnb_output *o = &m->view.outputs[k];
        if (o->is_mutation) continue;
        hn_output_sizes *out = &outputs[output++];
        out->rank = o->kind == HNB_VALUE_TENSOR ? o->rank : 0;
        for (uint32_t d = 0; d < out->rank; d++)
            HN_TRY(output_size(m, bound, o, d, &out->sizes[d]));
    }
    return NULL;
}

static hn_status find_sizes(const hn_module *m, hn_bound *bound, const hn_input_sizes *inputs,
                            hn_output_sizes *outputs) {
    HN_NEW(&bound->arena, bound->key, (size_t)m->key_count + 1);
    HN_NEW(&bound->arena, bound->symbols, (size_t)m->view.symbols_count + 1);
    HN_NEW(&bound->arena, bound->values, m->view.nodes_count);
    HN_NEW(&bound->arena, bound->bad, m->view.nodes_count);
    int64_t *key = bound->key;
    for (uint32_t k = 0; k < m->view.inputs_count; k++) HN_TRY(check_input(m, k, &inputs[k], &key));
    HN_TRY(hn_inputs_bind(m, bound));
    return fill_outputs(m, bound, outputs);
}

hn_status hn_module_output_sizes(const hn_module *m, const hn_input_sizes *inputs,
                                 uint32_t input_count, hn_output_sizes *outputs,
                                 uint32_t output_count) {
    HN_REQUIRE(m, "module");
    if (input_count) HN_REQUIRE(inputs, "inputs");
    if (output_count) HN_REQUIRE(outputs, "outputs");
    if (input_count != m->view.inputs_count)
        return HN_ERROR(HN_INVALID_ARGUMENT, "the model takes %u inputs, got %u",
                        m->view.inputs_count, input_count);
    if (output_count != m->output_count)
        return HN_ERROR(HN_INVALID_ARGUMENT, "the model gives %u outputs, there is room for %u",
                        m->output_count, output_count);
    hn_bound bound = {0};
    hn_arena_init(&bound.arena);
    hn_status status = find_sizes(m, &bound, inputs, outputs);
    hn_arena_deinit(&bound.arena);
    return status;
}
