/* weights.c: weights that lie in memory otherwise than the model has them, because the operation
 * that reads them likes it better: with channels last (layout.c), or with rows that begin at
 * aligned addresses (rows.c). Where their bytes are known this is done once, when the program is
 * compiled: it then has a constant in the place of the weight. */
#include "lower/internal.h"

#include "base/checked.h"

#include <string.h>

/* Of all weights that are laid out anew: they lie in the program then, and in its cache. What is
 * beyond it is copied in each run. */
#define RELAID_MAX_BYTES ((size_t)1 << 30)

typedef struct weight {
    const hn_input *in;
    const uint8_t *bytes; /* of element 0 */
    uint32_t rank;
    size_t elem_bytes;
    int64_t count;                                    /* elements */
    int64_t sizes[HN_MAX_RANK], strides[HN_MAX_RANK]; /* in the model's memory */
    int64_t to_strides[HN_MAX_RANK], extent; /* in the program's, elements; what they reach */
} weight;

static bool is_changed(const lower *l, uint32_t input) {
    for (uint32_t k = 0; k < l->root->outputs.count; k++) {
        const hn_output *out = &l->root->outputs.items[k];
        if (out->kind == HN_OUTPUT_MUTATION && out->target == input) return true;
    }
    return false;
}

/* Known numbers of at least `least`. */
static bool read_numbers(const lower *l, const hn_expr *from, uint32_t count, int64_t least,
                         int64_t *out) {
    for (uint32_t d = 0; d < count; d++)
        if (!hn_sym_is_int(l->sym, from[d], &out[d]) || out[d] < least) return false;
    return true;
}

/* Elements from the first to one past the last that `strides` reach. */
static bool read_extent(const weight *w, const int64_t *strides, int64_t *out) {
    int64_t step;
    *out = 1;
    for (uint32_t d = 0; d < w->rank; d++)
        if (!hn_mul_i64(w->sizes[d] - 1, strides[d], &step) || !hn_add_i64(*out, step, out))
            return false;
    return true;
}

static bool read_sizes(const lower *l, hn_value v, const hn_expr *strides, weight *out) {
    const hn_value_info *vi = hn_graph_value(l->g, v);
    out->elem_bytes = hn_dtype_facts(vi->dtype)->size_bytes;
    out->rank = vi->rank;
    out->count = 1;
    if (!read_numbers(l, vi->sizes, vi->rank, 1, out->sizes) ||
        !read_numbers(l, l->values[v].strides, vi->rank, 0, out->strides) ||
        !read_numbers(l, strides, vi->rank, 0, out->to_strides))
        return false;
    for (uint32_t d = 0; d < vi->rank; d++)
        if (!hn_mul_i64(out->count, out->sizes[d], &out->count)) return false;
    return read_extent(out, out->to_strides, &out->extent);
}

/* A value that is a weight, or a view of one, and how it would lie with `strides`. */
static bool read_weight(const lower *l, hn_value v, const hn_expr *strides, weight *out) {
    const lower_value *lv = &l->values[v];
    const hn_buffer *buffer = &l->p->buffers.items[lv->buffer];
    int64_t offset, end, bytes;
    if (!lv->buffer || buffer->kind != HN_BUFFER_INPUT || is_changed(l, buffer->input))
        return false;
    *out = (weight){.in = &l->root->inputs.items[buffer->input]};
    if ((out->in->kind != HN_INPUT_PARAMETER && out->in->kind != HN_INPUT_CONSTANT) ||
        !out->in->storage || !hn_sym_is_int(l->sym, lv->offset, &offset))
        return false;
    const hn_storage *storage = &l->root->storages.items[out->in->storage];
    if (!storage->data || !hn_add_i64(offset, out->in->storage_offset_elems, &offset) ||
        offset < 0 || !read_sizes(l, v, strides, out) || !read_extent(out, out->strides, &end) ||
        !hn_add_i64(end, offset, &end) || !hn_mul_i64(end, (int64_t)out->elem_bytes, &bytes) ||
        (uint64_t)bytes > storage->size_bytes)
        return false;
    out->bytes = storage->data + (size_t)offset * out->elem_bytes;
    return hn_mul_i64(out->extent, (int64_t)out->elem_bytes, &bytes) &&
           (uint64_t)bytes <= RELAID_MAX_BYTES - *l->relaid_bytes;
}

/* The dimensions as they will lie in memory, the outermost first: bytes are written in order. */
static void order_of(const weight *w, uint32_t *out) {
    for (uint32_t d = 0; d < w->rank; d++) {
        uint32_t k = d;
        for (; k > 0 && w->to_strides[out[k - 1]] < w->to_strides[d]; k--) out[k] = out[k - 1];
        out[k] = d;
    }
}

static void copy_weight(const weight *w, uint8_t *to) {
    uint32_t order[HN_MAX_RANK];
    int64_t at[HN_MAX_RANK] = {0};
    order_of(w, order);
    for (int64_t k = 0; k < w->count; k++) {
        int64_t from = 0, place = 0;
        for (uint32_t d = 0; d < w->rank; d++) {
            from += at[d] * w->strides[d];
            place += at[d] * w->to_strides[d];
        }
        memcpy(to + (size_t)place * w->elem_bytes, w->bytes + (size_t)from * w->elem_bytes,
               w->elem_bytes);
        for (uint32_t d = w->rank; d-- > 0;) {
            if (++at[order[d]] < w->sizes[order[d]]) break;
            at[order[d]] = 0;
        }
    }
}

/* A constant of the program in the place of `v`. */
static hn_status add_weight(lower *l, hn_value v, const hn_expr *wanted, const uint8_t *bytes,
                            size_t len) {
    const hn_value_info *vi = hn_graph_value(l->g, v);
    hn_input input = {.kind = HN_INPUT_CONSTANT, .name = HN_STR("")};
    hn_expr *strides;
    HN_NEW(l->arena, strides, vi->rank);
    memcpy(strides, wanted, vi->rank * sizeof *strides);
    input.storage = hn_graph_add_storage(
        l->root, (hn_storage){.data = bytes, .size_bytes = len, .file_record = HN_STR("")});
    input.value = hn_graph_add_tensor(l->root, vi->dtype, vi->rank, vi->sizes, strides, HN_STR(""));
    HN_TRY(hn_graph_status(l->root));
    HN_TRY(hn_graph_add_input(l->root, input));
    return lower_constant(l, v, l->root->inputs.count - 1, strides);
}

bool lower_can_relay_weight(const lower *l, hn_value v, const hn_expr *strides) {
    weight ignored;
    return read_weight(l, v, strides, &ignored);
}

hn_status lower_relay_weight(lower *l, hn_value v, const hn_expr *strides) {
    weight w;
    uint8_t *bytes;
    if (!read_weight(l, v, strides, &w)) return NULL;
    const size_t len = (size_t)w.extent * w.elem_bytes;
    *l->relaid_bytes += len;
    (void)hn_storage_bytes(&l->root->storages.items[w.in->storage]); /* the program has them */
    HN_NEW(l->arena, bytes, len);
    copy_weight(&w, bytes);
    return add_weight(l, v, strides, bytes, len);
}
