/* weights_program.c: the graph that computes storages of another graph from its weights alone
 * (opt/weights.c): what must hold of it, and its outputs by the reference interpreter. */
#include "base/checked.h"
#include "ir/check.h"
#include "ir/interp.h"

/* ---- its outputs ---- */

static hn_status keep_output(hn_graph *program, uint32_t output, const hn_ref_tensor *t) {
    const size_t elem = hn_dtype_facts(t->dtype)->size_bytes;
    uint8_t **out = &program->computed[output];
    HN_TRY(hn_arena_array(program->arena, (size_t)t->numel + 1, elem, out));
    if (t->numel) hn_ref_tensor_store(t, *out);
    return NULL;
}

/* All of them at once. */
static hn_status compute(hn_graph *program) {
    hn_ref_tensor *outputs;
    hn_arena scratch;
    HN_NEW(program->arena, program->computed, program->outputs.count + 1u);
    hn_arena_init(&scratch);
    hn_status status = hn_arena_array(&scratch, program->outputs.count, sizeof *outputs, &outputs);
    if (!status) status = hn_interpret(&scratch, program, NULL, 0, outputs);
    for (uint32_t k = 0; !status && k < program->outputs.count; k++)
        status = keep_output(program, k, &outputs[k]);
    hn_arena_deinit(&scratch);
    if (status) program->computed = NULL;
    return hn_status_annotate(status, "cannot compute weights");
}

hn_status hn_weights_program_read(const hn_graph *graph, uint32_t output, const uint8_t **out) {
    hn_graph *program = graph->weights_program;
    if (!program || output >= program->outputs.count)
        return HN_ERROR(HN_INTERNAL, "nothing computes output %u of weights", output);
    if (!program->computed) HN_TRY(compute(program));
    *out = program->computed[output];
    return NULL;
}

/* ---- what must hold ---- */

/* Bytes of a tensor of known sizes. */
static bool tensor_bytes(const hn_graph *g, const hn_value_info *info, int64_t *out) {
    *out = hn_dtype_facts(info->dtype)->size_bytes;
    for (uint32_t d = 0; d < info->rank; d++) {
        int64_t size;
        if (!hn_sym_is_int(g->sym, info->sizes[d], &size) || !hn_mul_i64(*out, size, out))
            return false;
    }
    return true;
}

static hn_status check_computed(const hn_graph *g, const hn_storage *s) {
    const hn_graph *program = g->weights_program;
    int64_t bytes;
    if (!s->computed) return NULL;
    if (!program || s->computed > program->outputs.count)
        return HN_ERROR(HN_INTERNAL, "nothing computes it");
    const hn_value_info *v = hn_graph_value(program, program->outputs.items[s->computed - 1].value);
    if (!tensor_bytes(program, v, &bytes) || (uint64_t)bytes != s->size_bytes)
        return HN_ERROR(HN_INTERNAL, "it has %zu bytes, which what computes it does not give",
                        s->size_bytes);
    return NULL;
}

static hn_status check_outer(const hn_graph *g, const hn_storage *s) {
    if (!s->outer) return s->computed ? HN_ERROR(HN_INTERNAL, "it is computed itself") : NULL;
    if (s->outer >= g->storages.count || g->storages.items[s->outer].computed ||
        g->storages.items[s->outer].size_bytes != s->size_bytes)
        return HN_ERROR(HN_INTERNAL, "storage %u of the graph is not what it is", s->outer);
    return NULL;
}

static hn_status check_signature(const hn_graph *program) {
    for (uint32_t k = 0; k < program->inputs.count; k++)
        if (program->inputs.items[k].kind == HN_INPUT_USER ||
            program->inputs.items[k].kind == HN_INPUT_SCALAR)
            return HN_ERROR(HN_INTERNAL, "input %u is no weight", k);
    for (uint32_t k = 0; k < program->outputs.count; k++) {
        const hn_output *out = &program->outputs.items[k];
        if (out->kind != HN_OUTPUT_USER ||
            hn_graph_value(program, out->value)->kind != HN_VALUE_TENSOR ||
            hn_graph_value(program, out->value)->strides)
            return HN_ERROR(HN_INTERNAL, "output %u is no row-major tensor", k);
    }
    return program->weights_program ? HN_ERROR(HN_INTERNAL, "it has one itself") : NULL;
}

/* The program is good by itself. */
hn_status hn_weights_program_check(const hn_graph *g) {
    const hn_graph *program = g->weights_program;
    if (program) HN_TRY(check_signature(program));
    for (uint32_t k = 1; k < g->storages.count; k++)
        HN_TRY(hn_status_annotate(check_computed(g, &g->storages.items[k]), "storage %u", k));
    for (uint32_t k = 1; program && k < program->storages.count; k++)
        HN_TRY(hn_status_annotate(check_outer(g, &program->storages.items[k]),
                                  "storage %u of the program of weights", k));
    return NULL;
}
