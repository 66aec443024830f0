/* sizes.c: see sizes.h. A model's sizes are products of a few numbers (768 = 12 heads of 64), so
 * one factor is replaced everywhere at once. */
#include "reduce/sizes.h"

#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

typedef struct shrinker {
    hn_graph *g;
    int64_t from, to;
    hn_arena *keep;
} shrinker;

/* Ends of slices are "as far as it goes", which no tensor is. */
static const int64_t SIZE_MAX_KNOWN = (int64_t)1 << 40;

static int64_t map_size(const shrinker *s, int64_t size) {
    const bool fits = size >= s->from && size < SIZE_MAX_KNOWN && size % s->from == 0;
    return fits ? size / s->from * s->to : size;
}

static hn_expr map_expr(const shrinker *s, hn_expr e) {
    int64_t size;
    return hn_sym_is_int(s->g->sym, e, &size) ? hn_sym_int(s->g->sym, map_size(s, size)) : e;
}

static hn_status map_exprs(const shrinker *s, const hn_expr *old, uint32_t count,
                           const hn_expr **out) {
    hn_expr *exprs;
    HN_NEW(s->g->arena, exprs, count + 1u);
    for (uint32_t k = 0; k < count; k++) exprs[k] = map_expr(s, old[k]);
    *out = exprs;
    return NULL;
}

/* --- values --- */

/* Dimensions in the order of their strides, for a tensor without gaps. False: it is another. */
static bool order_of(const shrinker *s, const hn_value_info *info, uint32_t *order) {
    int64_t size, stride, expected = 1;
    uint32_t used = 0;
    for (uint32_t k = info->rank; k-- > 0;) {
        uint32_t next = info->rank;
        for (uint32_t d = info->rank; d-- > 0;)
            if (!(used >> d & 1) && hn_sym_is_int(s->g->sym, info->strides[d], &stride) &&
                hn_sym_is_int(s->g->sym, info->sizes[d], &size) && stride == expected) {
                next = d;
                if (size > 1) break;
            }
        if (next == info->rank || !hn_sym_is_int(s->g->sym, info->sizes[next], &size)) return false;
        used |= 1u << next;
        order[k] = next;
        if (!hn_mul_i64(expected, size, &expected)) return false;
    }
    return true;
}

static hn_status map_strides(const shrinker *s, hn_value_info *info, const hn_expr *sizes) {
    uint32_t order[HN_MAX_RANK];
    hn_expr *strides, step = hn_sym_int(s->g->sym, 1);
    if (!info->strides || !order_of(s, info, order)) {
        info->strides = NULL;
        return NULL;
    }
    HN_NEW(s->g->arena, strides, info->rank + 1u);
    for (uint32_t k = info->rank; k-- > 0;) {
        strides[order[k]] = step;
        step = hn_sym_mul(s->g->sym, step, sizes[order[k]]);
    }
    info->strides = strides;
    return NULL;
}

static hn_status map_values(const shrinker *s) {
    for (hn_value v = 1; v < s->g->values.count; v++) {
        hn_value_info *info = &s->g->values.items[v];
        const hn_expr *sizes;
        if (info->kind != HN_VALUE_TENSOR) continue;
        HN_TRY(map_exprs(s, info->sizes, info->rank, &sizes));
        HN_TRY(map_strides(s, info, sizes));
        info->sizes = sizes;
    }
    return NULL;
}

/* --- arguments --- */

static hn_status shrink_graph(shrinker *s);

/* Numbers of dimensions are no sizes. */
static bool is_dimension(const hn_param *param) {
    return memmem(param->name.ptr, param->name.len, "dim", 3) != NULL;
}

static hn_status map_arg(const shrinker *s, const hn_param *param, hn_arg *arg) {
    shrinker inner = *s;
    if (is_dimension(param)) return NULL;
    if (arg->kind == HN_ARG_INT) arg->as.expr = map_expr(s, arg->as.expr);
    if (arg->kind == HN_ARG_INTS) return map_exprs(s, arg->as.exprs, arg->count, &arg->as.exprs);
    if (arg->kind != HN_ARG_GRAPH) return NULL;
    inner.g = arg->as.graph;
    return shrink_graph(&inner);
}

static hn_status map_nodes(const shrinker *s) {
    for (hn_node n = 1; n < s->g->nodes.count; n++) {
        hn_node_info *node = &s->g->nodes.items[n];
        uint32_t count;
        const hn_param *params = hn_op_params(node->op, &count);
        for (uint32_t k = 0; k < node->arg_count && k < count; k++)
            HN_TRY(map_arg(s, &params[k], &node->args[k]));
    }
    return NULL;
}

/* --- bytes --- */

/* Indices stay within what they point into. */
static void bound_indices(const shrinker *s, hn_dtype dtype, int64_t numel, uint8_t *bytes) {
    const size_t elem_bytes = (size_t)hn_dtype_facts(dtype)->size_bytes;
    if (dtype != HN_DTYPE_I64 && dtype != HN_DTYPE_I32) return;
    for (int64_t k = 0; k < numel; k++) {
        uint8_t *at = bytes + (size_t)k * elem_bytes;
        int64_t wide;
        int32_t narrow;
        memcpy(&narrow, at, sizeof narrow);
        if (elem_bytes == sizeof wide) memcpy(&wide, at, sizeof wide);
        else wide = narrow;
        if (wide >= s->from || wide < s->to) continue;
        wide %= s->to;
        narrow = (int32_t)wide;
        if (elem_bytes == sizeof wide) memcpy(at, &wide, sizeof wide);
        else memcpy(at, &narrow, sizeof narrow);
    }
}

/* The leading part of a tensor, row-major. `strides` in elements. */
static hn_status copy_part(const shrinker *s, hn_dtype dtype, uint32_t rank, const int64_t *sizes,
                           const int64_t *strides, const uint8_t *from, uint8_t **out,
                           size_t *out_bytes) {
    const size_t elem_bytes = (size_t)hn_dtype_facts(dtype)->size_bytes;
    int64_t numel = 1, at[HN_MAX_RANK] = {0}, offset = 0;
    for (uint32_t d = 0; d < rank; d++)
        if (!hn_mul_i64(numel, sizes[d], &numel))
            return HN_ERROR(HN_INVALID_ARGUMENT, "a tensor is too large");
    *out_bytes = (size_t)numel * elem_bytes;
    HN_TRY(hn_arena_array(s->keep, *out_bytes + 1, 1, out));
    for (int64_t k = 0; k < numel; k++) {
        memcpy(*out + (size_t)k * elem_bytes, from + (size_t)offset * elem_bytes, elem_bytes);
        for (uint32_t d = rank; d-- > 0;) {
            offset += strides[d];
            if (++at[d] < sizes[d]) break;
            offset -= at[d] * strides[d];
            at[d] = 0;
        }
    }
    bound_indices(s, dtype, numel, *out);
    return NULL;
}

/* Symbolic dimensions stay as the example has them. */
static hn_status map_example(const shrinker *s, hn_input *input, const hn_value_info *info) {
    const hn_example *old = input->example;
    int64_t strides[HN_MAX_RANK], *sizes, step = 1;
    uint8_t *bytes;
    hn_example *e;
    HN_NEW(s->keep, e, 1);
    HN_NEW(s->keep, sizes, old->rank + 1u);
    for (uint32_t d = old->rank; d-- > 0;) {
        strides[d] = step;
        step *= old->sizes[d];
        sizes[d] = old->sizes[d];
        (void)hn_sym_is_int(s->g->sym, info->sizes[d], &sizes[d]);
        if (sizes[d] > old->sizes[d]) return HN_ERROR(HN_INVALID_ARGUMENT, "a tensor would grow");
    }
    *e = (hn_example){.rank = old->rank, .sizes = sizes};
    HN_TRY(copy_part(s, info->dtype, e->rank, sizes, strides, old->bytes, &bytes, &e->size_bytes));
    e->bytes = bytes;
    input->example = e;
    return NULL;
}

/* A storage of its own, row-major. `info` is what it was. */
static hn_status map_weight(const shrinker *s, hn_input *input, const hn_value_info *info) {
    hn_value_info *now = &s->g->values.items[input->value];
    const hn_storage *storage = &s->g->storages.items[input->storage];
    int64_t sizes[HN_MAX_RANK], strides[HN_MAX_RANK];
    hn_expr dims[HN_MAX_RANK];
    const uint8_t *from = storage->data;
    uint8_t *bytes;
    hn_storage made = {.file_record = HN_STR("")};
    if (!from) return HN_ERROR(HN_INVALID_ARGUMENT, "a storage has no bytes");
    hn_value_strides(s->g->sym, info, dims);
    for (uint32_t d = 0; d < info->rank; d++)
        if (!hn_sym_is_int(s->g->sym, now->sizes[d], &sizes[d]) ||
            !hn_sym_is_int(s->g->sym, dims[d], &strides[d]))
            return HN_ERROR(HN_INVALID_ARGUMENT, "the sizes of a weight are not known");
    from += (size_t)input->storage_offset_elems * (size_t)hn_dtype_facts(info->dtype)->size_bytes;
    HN_TRY(copy_part(s, info->dtype, info->rank, sizes, strides, from, &bytes, &made.size_bytes));
    made.data = bytes;
    input->storage = hn_graph_add_storage(s->g, made);
    input->storage_offset_elems = 0;
    now->strides = NULL;
    return hn_graph_status(s->g);
}

static hn_status map_inputs(const shrinker *s, const hn_value_info *old) {
    for (uint32_t k = 0; k < s->g->inputs.count; k++) {
        hn_input *input = &s->g->inputs.items[k];
        if (!input->value) continue;
        const hn_value_info *was = &old[input->value], *is = hn_graph_value(s->g, input->value);
        bool changed = false;
        for (uint32_t d = 0; d < was->rank; d++) changed |= was->sizes[d] != is->sizes[d];
        if (input->storage && changed) HN_TRY(map_weight(s, input, was));
        else if (input->example) HN_TRY(map_example(s, input, is));
    }
    return NULL;
}

static hn_status shrink_graph(shrinker *s) {
    hn_value_info *old;
    HN_NEW(s->g->arena, old, s->g->values.count);
    memcpy(old, s->g->values.items, s->g->values.count * sizeof *old);
    HN_TRY(map_values(s));
    HN_TRY(map_nodes(s));
    return map_inputs(s, old);
}

hn_status hn_sizes_shrink(hn_graph *graph, int64_t from, int64_t to, hn_arena *keep) {
    shrinker s = {.g = graph, .from = from, .to = to, .keep = keep};
    return shrink_graph(&s);
}

/* --- what sizes there are --- */

static int descending(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

hn_status hn_sizes_list(const hn_graph *g, hn_arena *arena, int64_t **out, uint32_t *out_count) {
    uint32_t count = 0, unique = 0;
    HN_NEW(arena, *out, (size_t)g->values.count * HN_MAX_RANK);
    for (hn_value v = 1; v < g->values.count; v++) {
        const hn_value_info *info = hn_graph_value(g, v);
        for (uint32_t d = 0; info->kind == HN_VALUE_TENSOR && d < info->rank; d++)
            if (hn_sym_is_int(g->sym, info->sizes[d], &(*out)[count]) && (*out)[count] > 1) count++;
    }
    qsort(*out, count, sizeof **out, descending);
    for (uint32_t k = 0; k < count; k++)
        if (!unique || (*out)[unique - 1] != (*out)[k]) (*out)[unique++] = (*out)[k];
    *out_count = unique;
    return NULL;
}

uint64_t hn_sizes_elements(const hn_graph *g) {
    uint64_t sum = 0;
    for (hn_value v = 1; v < g->values.count; v++) {
        const hn_value_info *info = hn_graph_value(g, v);
        uint64_t numel = info->kind == HN_VALUE_TENSOR;
        for (uint32_t d = 0; d < info->rank; d++)
            numel *= (uint64_t)hn_sym_hint(g->sym, info->sizes[d], 1);
        sum += numel;
    }
    return sum;
}
