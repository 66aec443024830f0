/* check_steps.c: the steps of a bundle: operands, launches, conditionals and loops, and which sizes
 * rounds of a loop may change. */
#include "bundle/check.h"

#include "henry/abi/extern_abi.h"
#include "henry/tensor.h"

#include <stdlib.h>

/* A step may write to temporaries and outputs only. */
static bool writable(const hn_bundle *b, uint32_t buffer) {
    uint32_t kind = b->buffers[buffer].kind;
    return kind == HNB_BUFFER_TEMP || kind == HNB_BUFFER_OUTPUT || kind == HNB_BUFFER_SLOT;
}

/* Where the memory of a buffer is. */
static uint32_t device_of(const hn_bundle *b, uint32_t buffer) { return b->buffers[buffer].device; }

/* Between the memories of two devices that are not the host nothing is copied directly. */
static bool copy_ok(const hn_bundle *b, const hnb_step *s) {
    if (!s->buffer || !s->from || !writable(b, s->buffer)) return false;
    const uint32_t to = device_of(b, s->buffer), from = device_of(b, s->from);
    if (to != from && to != HN_DEVICE_CPU && from != HN_DEVICE_CPU) return false;
    return s->device == (to == HN_DEVICE_CPU ? from : to);
}

/* What the step asks: the walk reads one bool and goes one way. */
static bool predicate_ok(const hn_bundle *b, const hnb_step *s) {
    const hnb_operand *o = &b->operands[s->operands];
    return s->operand_count == 1 && o->dtype == HN_BOOL && !o->written;
}

/* As many operands and parameters as the kind has, those there that it needs, those marked that it
 * writes. */
static bool launches_ok(const hn_bundle *b, const hnb_step *s);

static bool extern_ok(const hn_bundle *b, const hnb_step *s) {
#define FACTS(kind, name, operands, needed, written, params)                                       \
    [kind] = {operands, needed, written, params},
    static const struct {
        uint32_t operands, needed, written, params;
    } kinds[HN_EXTERN_KIND_COUNT] = {HN_EXTERN_KINDS(FACTS)};
#undef FACTS
    if (s->extern_kind <= HN_EXTERN_NONE || s->extern_kind >= HN_EXTERN_KIND_COUNT) return false;
    uint32_t needed = kinds[s->extern_kind].needed, written = kinds[s->extern_kind].written;
    if (s->operand_count != kinds[s->extern_kind].operands ||
        s->param_count != kinds[s->extern_kind].params)
        return false;
    for (uint32_t k = 0; k < s->operand_count; k++) {
        const hnb_operand *o = &b->operands[s->operands + k];
        if ((k < needed && !o->buffer) || o->written != (k < written)) return false;
    }
    return s->kernel ? s->device != HN_DEVICE_CPU && launches_ok(b, s) : !s->launch_count;
}

static bool definition_ok(const hn_bundle *b, const hnb_step *s) {
    if (s->operand_count != 1 || s->symbol >= b->symbols_count) return false;
    const hnb_operand *o = &b->operands[s->operands];
    bool is_whole = o->dtype >= HN_I64 && o->dtype <= HN_BOOL;
    return is_whole && !o->written && b->symbols[s->symbol].input == HNB_BY_STEP;
}

static bool operands_ok(const hn_bundle *b, const hnb_step *s, uint32_t first, uint32_t count) {
    if (!span_ok(first, count, b->operands_count) ||
        !span_ok(s->params, s->param_count, b->params_count))
        return false;
    for (uint32_t k = 0; k < count; k++) {
        const hnb_operand *o = &b->operands[first + k];
        if (!o->buffer) {
            if (s->kind != HNB_STEP_EXTERN) return false;
            continue;
        }
        if (!dtype_ok(o->dtype) || device_of(b, o->buffer) != s->device) return false;
        if (o->written && !writable(b, o->buffer)) return false;
    }
    return true;
}

/* Memory of the step's device, which it writes. */
static bool memory_ok(const hn_bundle *b, const hnb_step *s) {
    return s->buffer && writable(b, s->buffer) && device_of(b, s->buffer) == s->device;
}

static bool fields_ok(const hn_bundle *b, const hnb_step *s, const hnb_launch *l,
                      uint32_t arg_count) {
    bool ok = operands_ok(b, s, l->operands, arg_count) &&
              span_ok(l->params, l->param_count, b->params_count) && l->grain >= 1 &&
              expr_ok(b, l->extent) && expr_ok(b, l->scratch) && expr_ok(b, l->shared);
    for (uint32_t k = 0; ok && k < 3; k++) ok = expr_ok(b, l->grid[k]);
    return ok;
}

static bool groups_ok(const hnb_launch *l) {
    uint64_t threads = 1;
    for (uint32_t k = 0; k < 3; k++) {
        if (!l->grid[k] || !l->block[k] || l->block[k] > HNB_MAX_GROUP_THREADS) return false;
        threads *= l->block[k]; /* below 2^48 */
    }
    return threads <= HNB_MAX_GROUP_THREADS;
}

bool hn_bundle_launch_ok(const hn_bundle *b, const hnb_step *s, const hnb_launch *l,
                         uint32_t arg_count) {
    if (!fields_ok(b, s, l, arg_count)) return false;
    if (s->device == HN_DEVICE_CPU ? !l->extent : !groups_ok(l)) return false;
    return !(s->buffer || (l->scratch && l->block[0])) || memory_ok(b, s);
}

/* The first target that a machine runs is taken, so all must be for the device whose memory the
 * step works on. */
static bool targets_ok(const hn_bundle *b, const hnb_step *s) {
    for (uint32_t t = 0; t < b->targets_count; t++)
        if (hn_bundle_target_device(b->targets[t].kind) != s->device) return false;
    return true;
}

/* One launch for all targets, or one for each; the kernel takes what the step gives. */
static bool launches_ok(const hn_bundle *b, const hnb_step *s) {
    if (!s->kernel) return false;
    const bool has_variants = s->kind == HNB_STEP_KERNEL && !s->launch_count;
    if (has_variants) return targets_ok(b, s); /* variants.c */
    if (b->kernels[s->kernel].arg_count != s->operand_count) return false;
    if (s->launch_count != 1 && s->launch_count != b->targets_count) return false;
    if (!s->launch_count || !span_ok(s->launches, s->launch_count, b->launches_count)) return false;
    for (uint32_t k = 0; k < s->launch_count; k++)
        if (!hn_bundle_launch_ok(b, s, &b->launches[s->launches + k], s->operand_count))
            return false;
    return targets_ok(b, s);
}

static bool origins_ok(const hn_bundle *b, const hnb_step *s) {
    if (s->origin >= b->origins_count ||
        !span_ok(s->origins, s->origin_count, b->step_origins_count))
        return false;
    for (uint32_t k = 0, before = 0; k < s->origin_count; k++) {
        const uint32_t origin = b->step_origins[s->origins + k];
        if (origin <= before || origin >= b->origins_count) return false;
        before = origin;
    }
    return true;
}

static bool loop_ok(const hn_bundle *b, const hnb_step *s) {
    if (s->param_count) return s->param_count == 1 && !s->operand_count && !s->then_count;
    return predicate_ok(b, s);
}

static bool step_ok(const hn_bundle *b, const hnb_step *s) {
    if (!str_ok(b, s->text) || !origins_ok(b, s) || s->kernel >= b->kernels_count ||
        s->device >= HN_DEVICE_KIND_COUNT || s->buffer >= b->buffers_count ||
        s->from >= b->buffers_count || !operands_ok(b, s, s->operands, s->operand_count))
        return false;
    if (s->kind != HNB_STEP_KERNEL && s->kind != HNB_STEP_EXTERN && s->launch_count) return false;
    switch (s->kind) {
    case HNB_STEP_KERNEL: return s->param_count % HNB_CHECK_PARAMS == 0 && launches_ok(b, s);
    case HNB_STEP_EXTERN: return extern_ok(b, s);
    case HNB_STEP_COPY: return copy_ok(b, s);
    case HNB_STEP_ZERO: return memory_ok(b, s) && !s->operand_count;
    case HNB_STEP_WAIT: return s->device != HN_DEVICE_CPU && !s->operand_count;
    case HNB_STEP_ASSERT:
    case HNB_STEP_COND: return predicate_ok(b, s);
    case HNB_STEP_LOOP: return loop_ok(b, s);
    case HNB_STEP_DEFINE: return definition_ok(b, s);
    default: return false;
    }
}

/* Bodies of conditionals and loops must nest: each lies inside the body around it. */
hn_status hn_bundle_check_steps(const hn_bundle *b) {
    uint32_t ends[2 * HNB_MAX_COND_DEPTH], depth = 0;
    for (uint32_t i = 0; i < b->steps_count; i++) {
        const hnb_step *s = &b->steps[i];
        if (!step_ok(b, s)) return CORRUPT("step %u", i);
        while (depth && ends[depth - 1] <= i) depth--;
        if (s->kind != HNB_STEP_COND && s->kind != HNB_STEP_LOOP) continue;
        uint64_t then_end = (uint64_t)i + 1 + s->then_count, end = then_end + s->otherwise_count;
        if (end > (depth ? ends[depth - 1] : b->steps_count))
            return CORRUPT("conditional or loop at step %u reaches too far", i);
        if (depth + 2 > 2 * HNB_MAX_COND_DEPTH)
            return CORRUPT("conditionals and loops nested more than %d deep", HNB_MAX_COND_DEPTH);
        ends[depth++] = (uint32_t)end;
        ends[depth++] = (uint32_t)then_end;
    }
    return NULL;
}

/* Marks the symbols that steps in loops define; false: there are none. */
static bool mark_symbols(const hn_bundle *b, bool *symbols) {
    uint64_t end = 0; /* of the loops so far */
    bool any = false;
    for (uint32_t i = 0; i < b->steps_count; i++) {
        const hnb_step *s = &b->steps[i];
        const uint64_t behind = (uint64_t)i + 1 + s->then_count + s->otherwise_count;
        if (s->kind == HNB_STEP_LOOP && behind > end) end = behind;
        if (s->kind == HNB_STEP_DEFINE && i < end) symbols[s->symbol] = any = true;
    }
    return any;
}

/* Marks the nodes whose value may be another one in each round. */
static void mark_nodes(const hn_bundle *b, const bool *symbols, bool *nodes) {
    for (uint32_t k = 1; k < b->nodes_count; k++) {
        const hnb_node *n = &b->nodes[k];
        if (n->op == HNB_OP_SYMBOL) nodes[k] = symbols[n->a];
        if (n->op >= HNB_OP_ADD) nodes[k] = nodes[n->a] || nodes[n->b];
    }
}

static bool is_output_steady(const hn_bundle *b, const hnb_output *o, const bool *nodes) {
    const bool own_target = o->is_mutation && o->target_input < 0;
    const uint32_t dims = o->kind == HNB_VALUE_TENSOR ? o->rank * (own_target ? 3 : 2) : 0;
    for (uint32_t d = 0; d < dims; d++)
        if (nodes[b->dims[o->dims + d]]) return false;
    return !nodes[o->expr] && !nodes[o->offset] && !nodes[o->target_offset] &&
           !(o->buffer && nodes[b->buffers[o->buffer].bytes]);
}

/* Memory of outputs is made once in a run, so no round may want more of it. What lies in a pool has
 * its end checked in each round. */
static hn_status check_steady(const hn_bundle *b, const bool *nodes) {
    for (uint32_t i = 1; i < b->buffers_count; i++) {
        const hnb_buffer *f = &b->buffers[i];
        const bool is_made =
            f->kind == HNB_BUFFER_POOL || (f->kind == HNB_BUFFER_OUTPUT && !f->source);
        if ((is_made && nodes[f->bytes]) ||
            (f->kind == HNB_BUFFER_OUTPUT && f->source && nodes[f->offset]))
            return CORRUPT("buffer %u, which rounds of a loop size", i);
    }
    for (uint32_t i = 0; i < b->outputs_count; i++)
        if (!is_output_steady(b, &b->outputs[i], nodes))
            return CORRUPT("output %u, which rounds of a loop size", i);
    return NULL;
}

hn_status hn_bundle_check_rounds(const hn_bundle *b) {
    bool *nodes = calloc((size_t)b->nodes_count + b->symbols_count + 1, sizeof *nodes);
    if (!nodes) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to check a bundle");
    bool *symbols = nodes + b->nodes_count + 1;
    hn_status status = NULL;
    if (mark_symbols(b, symbols)) {
        mark_nodes(b, symbols, nodes);
        status = check_steady(b, nodes);
    }
    free(nodes);
    return status;
}
