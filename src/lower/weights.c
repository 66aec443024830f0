/* weights.c: weights that lie in memory otherwise than the model has them, because the operation
 * that reads them likes it better: with channels last (layout.c), with rows that begin at aligned
 * addresses (rows.c), or several side by side (join.c). The program then has a constant in the place
 * of the weight, whose storage is made of the weight's (hn_storage.pieces) when it is loaded: the
 * program has a description and no bytes, and weights can be exchanged. */
#include "lower/internal.h"

#include "base/checked.h"

#include <string.h>

typedef struct weight {
    const hn_input *in;
    uint32_t rank;
    size_t elem_bytes;
    int64_t offset, count;                            /* elements: the first one, and how many */
    int64_t sizes[HN_MAX_RANK], strides[HN_MAX_RANK]; /* in the model's memory */
    int64_t to_strides[HN_MAX_RANK], extent; /* in the program's, elements; what they reach */
} weight;

/* Inputs that lie in one storage change together. */
static bool is_changed(const lower *l, uint32_t input) {
    const hn_input *inputs = l->root->inputs.items;
    for (uint32_t k = 0; k < l->root->outputs.count; k++) {
        const hn_output *out = &l->root->outputs.items[k];
        if (out->kind != HN_OUTPUT_MUTATION) continue;
        if (out->target == input) return true;
        if (inputs[input].storage && inputs[out->target].storage == inputs[input].storage)
            return true;
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
    if (!(storage->data || storage->computed) ||
        !hn_add_i64(offset, out->in->storage_offset_elems, &offset) || offset < 0 ||
        !read_sizes(l, v, strides, out) || !read_extent(out, out->strides, &end) ||
        !hn_add_i64(end, offset, &end) || !hn_mul_i64(end, (int64_t)out->elem_bytes, &bytes) ||
        (uint64_t)bytes > storage->size_bytes)
        return false;
    out->offset = offset;
    return hn_mul_i64(out->extent, (int64_t)out->elem_bytes, &bytes);
}

/* How the weight comes into a storage, from byte `to` on. */
static hn_status make_piece(lower *l, const weight *w, size_t to, hn_storage_piece *out) {
    hn_box_dim *dims;
    HN_NEW(l->arena, dims, w->rank);
    for (uint32_t d = 0; d < w->rank; d++)
        dims[d] = (hn_box_dim){.size = (uint64_t)w->sizes[d],
                               .from_stride = (uint64_t)w->strides[d] * w->elem_bytes,
                               .to_stride = (uint64_t)w->to_strides[d] * w->elem_bytes};
    *out = (hn_storage_piece){.storage = w->in->storage,
                              .box = {.rank = w->rank,
                                      .dims = dims,
                                      .run_bytes = w->elem_bytes,
                                      .from = (uint64_t)w->offset * w->elem_bytes,
                                      .to = to}};
    hn_box_simplify(dims, &out->box.rank, &out->box.run_bytes);
    return NULL;
}

/* A constant of the program, which is no value of the graph that is lowered. */
static hn_status add_constant(lower *l, hn_dtype dtype, uint32_t rank, const hn_expr *sizes,
                              const hn_expr *strides, const hn_storage_piece *pieces,
                              uint32_t piece_count, size_t len) {
    hn_input input = {.kind = HN_INPUT_CONSTANT, .name = HN_STR("")};
    input.storage = hn_graph_add_storage(l->root, (hn_storage){.size_bytes = len,
                                                               .file_record = HN_STR(""),
                                                               .pieces = pieces,
                                                               .piece_count = piece_count});
    input.value = hn_graph_add_tensor(l->root, dtype, rank, sizes, strides, HN_STR(""));
    HN_TRY(hn_graph_status(l->root));
    return hn_graph_add_input(l->root, input);
}

bool lower_can_relay_weight(const lower *l, hn_value v, const hn_expr *strides) {
    weight ignored;
    return read_weight(l, v, strides, &ignored);
}

hn_status lower_relay_weight(lower *l, hn_value v, const hn_expr *wanted) {
    const hn_value_info *vi = hn_graph_value(l->g, v);
    weight w;
    hn_storage_piece *piece;
    hn_expr *strides;
    if (!read_weight(l, v, wanted, &w)) return NULL;
    HN_NEW(l->arena, piece, 1);
    HN_NEW(l->arena, strides, w.rank);
    HN_TRY(make_piece(l, &w, 0, piece));
    memcpy(strides, wanted, w.rank * sizeof *strides);
    HN_TRY(add_constant(l, vi->dtype, w.rank, vi->sizes, strides, piece, 1,
                        (size_t)w.extent * w.elem_bytes));
    return lower_constant(l, v, l->root->inputs.count - 1, strides);
}

/* ---- several in one ---- */

/* Bytes of a tensor without gaps; 0: it is too large. */
static size_t bytes_of(const lower *l, hn_dtype dtype, uint32_t rank, const hn_expr *sizes) {
    int64_t bytes = (int64_t)hn_dtype_facts(dtype)->size_bytes, size;
    for (uint32_t d = 0; d < rank; d++)
        if (!hn_sym_is_int(l->sym, sizes[d], &size) || !hn_mul_i64(bytes, size, &bytes)) return 0;
    return (size_t)bytes;
}

static hn_status make_pieces(lower *l, const lower_joint *joint, const hn_expr *strides,
                             const hn_storage_piece **out, uint32_t *out_count) {
    const size_t elem = hn_dtype_facts(joint->dtype)->size_bytes;
    hn_storage_piece *pieces;
    HN_NEW(l->arena, pieces, joint->count);
    *out = pieces, *out_count = 0;
    for (uint32_t k = 0; k < joint->count; k++) {
        weight w;
        if (!joint->parts[k]) continue;
        if (!read_weight(l, joint->parts[k], strides, &w))
            return HN_ERROR(HN_INTERNAL, "a part of a joint weight is not known");
        HN_TRY(make_piece(l, &w, (size_t)joint->offsets[k] * elem, &pieces[(*out_count)++]));
    }
    return NULL;
}

hn_status lower_join_weights(lower *l, const lower_joint *joint, hn_buf *out) {
    const size_t len = bytes_of(l, joint->dtype, joint->rank, joint->sizes);
    const hn_storage_piece *pieces;
    uint32_t count;
    hn_expr *sizes, *strides;
    *out = 0;
    if (!len) return NULL;
    HN_NEW(l->arena, sizes, joint->rank);
    HN_NEW(l->arena, strides, joint->rank);
    memcpy(sizes, joint->sizes, joint->rank * sizeof *sizes);
    memcpy(strides, joint->strides, joint->rank * sizeof *strides);
    HN_TRY(make_pieces(l, joint, strides, &pieces, &count));
    HN_TRY(add_constant(l, joint->dtype, joint->rank, sizes, strides, pieces, count, len));
    hn_buffer buffer = {.kind = HN_BUFFER_INPUT,
                        .dtype = joint->dtype,
                        .rank = joint->rank,
                        .sizes = sizes,
                        .strides = strides,
                        .input = l->root->inputs.count - 1,
                        .extent = l->zero};
    return hn_program_add_buffer(l->p, buffer, out);
}
