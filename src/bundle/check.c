/* check.c: every index, enum and count inside a bundle's sections, so that no reader checks again.
 *
 * A field that its record's kind does not use is checked like one that it does, so that nobody has
 * to ask. Whatever this accepts, the runtime may follow without fear; what depends on sizes known
 * at run time only (offsets inside buffers) is checked when a shape is bound. */
#include "bundle/check.h"

#include "base/checked.h"
#include "henry/tensor.h"

#include <stdlib.h>

static hn_status check_nodes(const hn_bundle *b) {
    for (uint32_t i = 1; i < b->nodes_count; i++) {
        const hnb_node *n = &b->nodes[i];
        bool ok = n->op > HNB_OP_NONE && n->op < HNB_OP_COUNT;
        if (n->op == HNB_OP_SYMBOL) ok = n->a < b->symbols_count;
        if (n->op >= HNB_OP_ADD) ok = ok && n->a && n->a < i && n->b > 0 && n->b < (int64_t)i;
        if (!ok) return CORRUPT("expression node %u", i);
    }
    return NULL;
}

/* Expressions of symbol k may use symbols before k only. A symbol's nodes are few; rests are
 * rare. */
static bool uses_only_before(const hn_bundle *b, uint32_t node, uint32_t limit) {
    /* Nodes up to `node` that it reaches; bundles list symbols before anything that uses later
     * ones, so it is enough to look at all nodes up to it when they are few, else at the tree with
     * a bound. */
    uint32_t stack[64], depth = 0, visited = 0;
    stack[depth++] = node;
    while (depth) {
        const hnb_node *n = &b->nodes[stack[--depth]];
        if (++visited > 4096) return false;
        if (n->op == HNB_OP_SYMBOL && n->a >= limit) return false;
        if (n->op < HNB_OP_ADD) continue;
        if (depth + 2 > 64) return false;
        stack[depth++] = n->a;
        stack[depth++] = (uint32_t)n->b;
    }
    return true;
}

static hn_status check_symbols(const hn_bundle *b) {
    for (uint32_t i = 0; i < b->symbols_count; i++) {
        const hnb_symbol *s = &b->symbols[i];
        if (s->input == HNB_BY_STEP) {
            if (!str_ok(b, s->name) || s->rest) return CORRUPT("symbol %u", i);
            continue;
        }
        if (i && b->symbols[i - 1].input == HNB_BY_STEP) return CORRUPT("order of symbol %u", i);
        bool ok =
            str_ok(b, s->name) && s->coeff && s->input < b->inputs_count && expr_ok(b, s->rest);
        if (ok && s->dim == HNB_DIM_VALUE) {
            ok = b->inputs[s->input].kind == HNB_VALUE_INT;
        } else if (ok) {
            ok = b->inputs[s->input].kind == HNB_VALUE_TENSOR && s->dim < b->inputs[s->input].rank;
        }
        if (!ok || (s->rest && !uses_only_before(b, s->rest, i))) return CORRUPT("symbol %u", i);
    }
    for (uint32_t i = 0; i < b->guards_count; i++) {
        const hnb_guard *g = &b->guards[i];
        if (g->relation >= HNB_RELATION_COUNT || !need_expr(b, g->lhs) || !need_expr(b, g->rhs) ||
            !str_ok(b, g->reason))
            return CORRUPT("guard %u", i);
    }
    return NULL;
}

static bool dims_ok(const hn_bundle *b, uint32_t rank, uint32_t first, uint32_t lists) {
    return rank <= HNB_MAX_RANK && span_ok(first, (uint64_t)rank * lists, b->dims_count);
}

/* The pools that other records point into. */
static hn_status check_pools(const hn_bundle *b) {
    for (uint32_t k = 0; k < b->dims_count; k++)
        if (!need_expr(b, b->dims[k])) return CORRUPT("dimension %u", k);
    for (uint32_t k = 0; k < b->params_count; k++)
        if (!need_expr(b, b->params[k])) return CORRUPT("parameter %u", k);
    for (uint32_t k = 0; k < b->operands_count; k++) {
        const hnb_operand *o = &b->operands[k];
        if (o->buffer >= b->buffers_count || !expr_ok(b, o->offset) ||
            o->dtype >= HN_SCALAR_TYPE_COUNT || o->written > 1)
            return CORRUPT("operand %u", k);
    }
    return NULL;
}

static hn_status check_inputs(const hn_bundle *b) {
    for (uint32_t i = 0; i < b->inputs_count; i++) {
        const hnb_input *in = &b->inputs[i];
        bool ok = str_ok(b, in->name) && str_ok(b, in->text) && in->kind < HNB_VALUE_KIND_COUNT &&
                  expr_ok(b, in->expr) && (in->kind == HNB_VALUE_TENSOR || in->rank == 0);
        if (in->kind == HNB_VALUE_TENSOR)
            ok = ok && dtype_ok(in->dtype) && dims_ok(b, in->rank, in->dims, 2);
        if (in->kind == HNB_VALUE_INT) ok = ok && need_expr(b, in->expr);
        if (in->kind == HNB_VALUE_BOOL) ok = ok && in->bits <= 1;
        if (!ok) return CORRUPT("input %u", i);
    }
    return NULL;
}

/* Elements from the first to one past the last that sizes and strides reach, when all of them are
 * constants. False: they cannot be those of a tensor. */
static bool fixed_extent(const hn_bundle *b, uint32_t rank, uint32_t dims, bool *out_is_fixed,
                         int64_t *out_elems) {
    int64_t last = 0, span;
    bool is_empty = false;
    *out_is_fixed = false;
    for (uint32_t d = 0; d < rank; d++) {
        int64_t size, stride;
        if (!hn_bundle_expr_const(b, b->dims[dims + d], &size) ||
            !hn_bundle_expr_const(b, b->dims[dims + rank + d], &stride))
            return true;
        if (size < 0 || stride < 0) return false;
        is_empty |= size == 0;
        if (size > 1 && (!hn_mul_i64(size - 1, stride, &span) || !hn_add_i64(last, span, &last)))
            return false;
    }
    *out_is_fixed = true;
    *out_elems = 0;
    return is_empty || hn_add_i64(last, 1, out_elems);
}

/* How many bytes a buffer has, where a constant says it. */
static bool fixed_bytes(const hn_bundle *b, const hnb_buffer *f, int64_t *out) {
    if (f->kind == HNB_BUFFER_INPUT) return false; /* as many as the strides reach */
    if (f->kind != HNB_BUFFER_CONSTANT) return hn_bundle_expr_const(b, f->bytes, out);
    const uint64_t bytes = b->storages[f->source].bytes - f->byte_offset;
    *out = bytes < INT64_MAX ? (int64_t)bytes : INT64_MAX;
    return true;
}

/* With sizes that only a call knows the same is asked then. */
static bool shape_ok(const hn_bundle *b, const hnb_buffer *f) {
    int64_t elems, bytes, memory;
    bool is_fixed;
    if (!dims_ok(b, f->rank, f->dims, 2) || !fixed_extent(b, f->rank, f->dims, &is_fixed, &elems))
        return false;
    if (f->kind == HNB_BUFFER_INPUT &&
        (f->dtype != b->inputs[f->source].dtype || f->rank != b->inputs[f->source].rank))
        return false;
    if (!is_fixed || !fixed_bytes(b, f, &memory)) return true;
    return hn_mul_i64(elems, hn_bundle_dtype_bytes(f->dtype), &bytes) && bytes <= memory;
}

static bool buffer_ok(const hn_bundle *b, uint32_t buffer) {
    return buffer && buffer < b->buffers_count;
}

static bool output_tensor_ok(const hn_bundle *b, const hnb_output *o) {
    bool own_target = o->is_mutation && o->target_input < 0;
    if (!dtype_ok(o->dtype) || !dims_ok(b, o->rank, o->dims, own_target ? 3 : 2)) return false;
    if (!buffer_ok(b, o->buffer) || !expr_ok(b, o->offset)) return false;
    if (!o->is_mutation) return true;
    if (own_target)
        return o->target_storage && o->target_storage < b->storages_count &&
               b->storages[o->target_storage].is_mutable && expr_ok(b, o->target_offset);
    if ((uint32_t)o->target_input >= b->inputs_count) return false;
    const hnb_input *in = &b->inputs[o->target_input];
    return in->kind == HNB_VALUE_TENSOR && in->dtype == o->dtype && in->rank == o->rank;
}

static hn_status check_outputs(const hn_bundle *b) {
    for (uint32_t i = 0; i < b->outputs_count; i++) {
        const hnb_output *o = &b->outputs[i];
        bool ok = str_ok(b, o->name) && str_ok(b, o->text) && o->kind < HNB_VALUE_KIND_COUNT &&
                  o->is_mutation <= 1 && expr_ok(b, o->expr) && expr_ok(b, o->offset) &&
                  expr_ok(b, o->target_offset) && o->buffer < b->buffers_count &&
                  o->target_storage < b->storages_count &&
                  (o->kind == HNB_VALUE_TENSOR || o->rank == 0);
        if (o->kind == HNB_VALUE_TENSOR) ok = ok && output_tensor_ok(b, o);
        else ok = ok && !o->is_mutation;
        if (o->kind == HNB_VALUE_INT) ok = ok && need_expr(b, o->expr);
        if (o->kind == HNB_VALUE_BOOL) ok = ok && o->bits <= 1;
        if (!ok) return CORRUPT("output %u", i);
    }
    return NULL;
}

/* What an output lies in. */
static bool pool_ok(const hn_bundle *b, const hnb_buffer *f) {
    if (!f->source) return true;
    return f->source < b->buffers_count && b->buffers[f->source].kind == HNB_BUFFER_POOL &&
           f->device == b->buffers[f->source].device && need_expr(b, f->offset);
}

static hn_status check_buffers(const hn_bundle *b) {
    for (uint32_t i = 1; i < b->buffers_count; i++) {
        const hnb_buffer *f = &b->buffers[i];
        bool ok = str_ok(b, f->name) && f->kind > HNB_BUFFER_NONE &&
                  f->kind < HNB_BUFFER_KIND_COUNT && dtype_ok(f->dtype) && expr_ok(b, f->bytes) &&
                  expr_ok(b, f->offset);
        if (f->kind == HNB_BUFFER_INPUT)
            ok = ok && f->source < b->inputs_count && b->inputs[f->source].kind == HNB_VALUE_TENSOR;
        if (f->kind == HNB_BUFFER_CONSTANT)
            ok = ok && f->source && f->source < b->storages_count &&
                 f->byte_offset <= b->storages[f->source].bytes;
        if (f->kind == HNB_BUFFER_TEMP)
            ok = ok && need_expr(b, f->bytes) && need_expr(b, f->offset);
        if (f->kind == HNB_BUFFER_SLOT)
            ok = ok && need_expr(b, f->bytes) && f->source < b->buffers_count;
        if (f->kind == HNB_BUFFER_OUTPUT) ok = ok && need_expr(b, f->bytes) && pool_ok(b, f);
        if (f->kind == HNB_BUFFER_POOL)
            ok = ok && need_expr(b, f->bytes) &&
                 (!f->source || (f->source - 1 < b->inputs_count &&
                                 b->inputs[f->source - 1].kind == HNB_VALUE_TENSOR));
        if (!ok || f->device >= HN_DEVICE_KIND_COUNT) return CORRUPT("buffer %u", i);
        if (!shape_ok(b, f)) return CORRUPT("shape of buffer %u", i);
    }
    return NULL;
}

/* Buffers that take turns in one slot are on one device. */
static hn_status check_slots(const hn_bundle *b) {
    uint8_t *device; /* of each slot, plus 1 */
    hn_status status = NULL;
    if (!(device = calloc(b->buffers_count, 1)))
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to check a bundle");
    for (uint32_t i = 1; i < b->buffers_count && !status; i++) {
        const hnb_buffer *f = &b->buffers[i];
        if (f->kind != HNB_BUFFER_SLOT) continue;
        const uint8_t own = (uint8_t)(f->device + 1);
        if (device[f->source] && device[f->source] != own) status = CORRUPT("slot of buffer %u", i);
        device[f->source] = own;
    }
    free(device);
    return status;
}

static hn_status check_targets(const hn_bundle *b) {
    for (uint32_t i = 0; i < b->features_count; i++)
        if (!str_ok(b, b->features[i])) return CORRUPT("feature %u", i);
    for (uint32_t i = 0; i < b->targets_count; i++) {
        const hnb_target *t = &b->targets[i];
        bool ok = t->kind > HNB_TARGET_NONE && t->kind < HNB_TARGET_KIND_COUNT &&
                  str_ok(b, t->name) && t->name.len &&
                  span_ok(t->features, t->feature_count, b->features_count);
        if (t->kind == HNB_TARGET_CPU)
            ok = ok && (i == 0 || b->targets[i - 1].kind == HNB_TARGET_CPU);
        if (!ok) return CORRUPT("target %u", i);
    }
    return NULL;
}

/* Embedded objects lie in order, apart, with a byte behind each; programs behind them. */
static hn_status check_objects(const hn_bundle *b, uint64_t *out_behind) {
    uint64_t behind = 0;
    for (uint32_t i = 0; i < b->objects_count; i++) {
        const hnb_object *o = &b->objects[i];
        size_t end = 0;
        bool ok = str_ok(b, o->name) && o->kind < HNB_OBJECT_KIND_COUNT &&
                  o->where < HNB_OBJECT_WHERE_COUNT && o->target < b->targets_count;
        ok = ok && hn_bundle_object_target(o->kind) == b->targets[o->target].kind;
        if (ok && o->where == HNB_OBJECT_EMBEDDED) {
            ok = o->offset % HNB_ALIGN == 0 && o->offset >= behind &&
                 hn_add_size(o->offset, o->len, &end) && end < b->header->code_bytes;
            behind = end + 1;
        }
        if (!ok) return CORRUPT("object %u", i);
    }
    *out_behind = behind;
    return NULL;
}

static bool code_ok(const hn_bundle *b, const hnb_code *c, uint32_t arg_count, uint32_t target) {
    if (!str_ok(b, c->symbol) || !span_ok(c->args, arg_count, b->args_count)) return false;
    if (c->object == HNB_NO_OBJECT) return true;
    return c->object < b->objects_count && b->objects[c->object].target == target && c->symbol.len;
}

static hn_status check_kernels(const hn_bundle *b) {
    for (uint32_t i = 0; i < b->args_count; i++)
        if (b->args[i].dtype >= HN_SCALAR_TYPE_COUNT || b->args[i].written > 1)
            return CORRUPT("argument %u", i);
    for (uint32_t i = 1; i < b->kernels_count; i++) {
        const hnb_kernel *k = &b->kernels[i];
        bool ok = str_ok(b, k->name) && k->name.len &&
                  span_ok(k->codes, b->targets_count, b->codes_count);
        for (uint32_t t = 0; ok && t < b->targets_count; t++)
            ok = code_ok(b, &b->codes[k->codes + t], k->arg_count, t);
        if (!ok) return CORRUPT("kernel %u", i);
    }
    return NULL;
}

static hn_status check_storages(const hn_bundle *b) {
    for (uint32_t i = 1; i < b->storages_count; i++) {
        const hnb_storage *s = &b->storages[i];
        uint64_t limit = UINT64_MAX;
        size_t end;
        if (s->where >= HNB_STORAGE_WHERE_COUNT || s->is_mutable > 1 || !str_ok(b, s->name))
            return CORRUPT("storage %u", i);
        if (s->where == HNB_STORAGE_BLOB) limit = b->blob_bytes;
        if (s->where == HNB_STORAGE_WEIGHTS) limit = b->weights_bytes;
        if (s->where == HNB_STORAGE_FILE) limit = b->weight_file_bytes;
        if (s->where >= HNB_STORAGE_MADE) continue; /* they have no bytes of their own */
        if (!hn_add_size(s->offset, s->bytes, &end) || end > limit)
            return CORRUPT("storage %u lies outside its file", i);
    }
    for (uint32_t i = 0; i < b->weight_files_count; i++)
        if (!str_ok(b, b->weight_files[i].path) || b->weight_files[i].form >= HNB_WEIGHT_FORM_COUNT)
            return CORRUPT("weight file");
    return NULL;
}

/* Sizes and strides are constants, and the elements lie inside the storage. */
static bool tensor_lies_ok(const hn_bundle *b, const hnb_tensor *t) {
    int64_t elems, end, bytes;
    bool is_fixed;
    if (t->offset < 0 || !fixed_extent(b, t->rank, t->dims, &is_fixed, &elems) || !is_fixed)
        return false;
    if (!t->storage || !elems) return true;
    return hn_add_i64(t->offset, elems, &end) &&
           hn_mul_i64(end, hn_bundle_dtype_bytes(t->dtype), &bytes) &&
           (uint64_t)bytes <= b->storages[t->storage].bytes;
}

static hn_status check_tensors(const hn_bundle *b) {
    for (uint32_t i = 0; i < b->tensors_count; i++) {
        const hnb_tensor *t = &b->tensors[i];
        bool ok = str_ok(b, t->name) && t->name.len && t->kind < HNB_TENSOR_KIND_COUNT &&
                  dtype_ok(t->dtype) && dims_ok(b, t->rank, t->dims, 2) &&
                  t->storage < b->storages_count && t->is_folded <= 1 &&
                  b->storages[t->storage].where != HNB_STORAGE_MADE &&
                  b->storages[t->storage].where != HNB_STORAGE_COMPUTED;
        if (!ok || !tensor_lies_ok(b, t)) return CORRUPT("tensor %u", i);
    }
    return NULL;
}

static hn_status check_names(const hn_bundle *b) {
    for (uint32_t i = 0; i < b->origins_count; i++)
        if (!str_ok(b, b->origins[i].node) || !str_ok(b, b->origins[i].source))
            return CORRUPT("origin %u", i);
    if (!str_ok(b, b->info->producer) || !str_ok(b, b->info->model)) return CORRUPT("info");
    return NULL;
}

static hn_status check_workspaces(const hn_bundle *b) {
    bool seen[HN_DEVICE_KIND_COUNT] = {false};
    for (uint32_t i = 0; i < b->workspaces_count; i++) {
        const hnb_workspace *w = &b->workspaces[i];
        if (w->device >= HN_DEVICE_KIND_COUNT || seen[w->device] || !need_expr(b, w->bytes))
            return CORRUPT("workspace %u", i);
        seen[w->device] = true;
    }
    return NULL;
}

hn_status hn_bundle_check(const hn_bundle *b) {
    uint64_t behind = 0;
    HN_TRY(check_nodes(b));
    HN_TRY(check_pools(b));
    HN_TRY(check_inputs(b));
    HN_TRY(check_symbols(b));
    HN_TRY(check_storages(b));
    HN_TRY(hn_bundle_check_pieces(b));
    HN_TRY(check_tensors(b));
    HN_TRY(check_buffers(b));
    HN_TRY(check_slots(b));
    HN_TRY(check_workspaces(b));
    HN_TRY(check_outputs(b));
    HN_TRY(check_targets(b));
    HN_TRY(check_objects(b, &behind));
    HN_TRY(hn_bundle_check_computed(b, &behind));
    HN_TRY(hn_bundle_check_programs(b, behind));
    HN_TRY(check_kernels(b));
    HN_TRY(hn_bundle_check_steps(b));
    HN_TRY(hn_bundle_check_variants(b));
    HN_TRY(hn_bundle_check_rounds(b));
    HN_TRY(hn_bundle_check_records(b));
    return check_names(b);
}
