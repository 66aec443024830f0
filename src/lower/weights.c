/* weights.c: weights that lie in memory otherwise than the model has them, because the operation
 * that reads them likes it better: with channels last (layout.c), with rows that begin at aligned
 * addresses (rows.c), or several side by side (join.c). Where their bytes are known this is done
 * once, when the program is compiled: it then has a constant in the place of the weight. */
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

/* `at`, in the order of memory, but for the innermost dimension; false behind the last one. */
static bool next_row(const weight *w, const uint32_t *order, int64_t *at) {
    for (uint32_t d = w->rank - 1; d-- > 0;) {
        if (++at[order[d]] < w->sizes[order[d]]) return true;
        at[order[d]] = 0;
    }
    return false;
}

static void copy_row(const weight *w, uint32_t along, const uint8_t *from, uint8_t *to) {
    const size_t elem = w->elem_bytes, step = (size_t)w->strides[along] * elem,
                 to_step = (size_t)w->to_strides[along] * elem;
    const size_t count = (size_t)w->sizes[along];
    if (step == elem && to_step == elem) {
        memcpy(to, from, count * elem);
        return;
    }
    for (size_t k = 0; k < count; k++) memcpy(to + k * to_step, from + k * step, elem);
}

static void copy_weight(const weight *w, uint8_t *to) {
    uint32_t order[HN_MAX_RANK];
    int64_t at[HN_MAX_RANK] = {0};
    if (!w->rank) {
        memcpy(to, w->bytes, w->elem_bytes);
        return;
    }
    order_of(w, order);
    do {
        int64_t from = 0, place = 0;
        for (uint32_t d = 0; d < w->rank; d++) {
            from += at[d] * w->strides[d];
            place += at[d] * w->to_strides[d];
        }
        copy_row(w, order[w->rank - 1], w->bytes + (size_t)from * w->elem_bytes,
                 to + (size_t)place * w->elem_bytes);
    } while (next_row(w, order, at));
}

/* A constant of the program, which is no value of the graph that is lowered. */
static hn_status add_constant(lower *l, hn_dtype dtype, uint32_t rank, const hn_expr *sizes,
                              const hn_expr *strides, const uint8_t *bytes, size_t len) {
    hn_input input = {.kind = HN_INPUT_CONSTANT, .name = HN_STR("")};
    input.storage = hn_graph_add_storage(
        l->root, (hn_storage){.data = bytes, .size_bytes = len, .file_record = HN_STR("")});
    input.value = hn_graph_add_tensor(l->root, dtype, rank, sizes, strides, HN_STR(""));
    HN_TRY(hn_graph_status(l->root));
    return hn_graph_add_input(l->root, input);
}

/* The weight's bytes are part of the program. */
static void take_bytes(lower *l, const weight *w, uint8_t *to) {
    (void)hn_storage_bytes(&l->root->storages.items[w->in->storage]);
    copy_weight(w, to);
}

bool lower_can_relay_weight(const lower *l, hn_value v, const hn_expr *strides) {
    weight ignored;
    return read_weight(l, v, strides, &ignored);
}

hn_status lower_relay_weight(lower *l, hn_value v, const hn_expr *wanted) {
    const hn_value_info *vi = hn_graph_value(l->g, v);
    weight w;
    uint8_t *bytes;
    hn_expr *strides;
    if (!read_weight(l, v, wanted, &w)) return NULL;
    const size_t len = (size_t)w.extent * w.elem_bytes;
    *l->relaid_bytes += len;
    HN_NEW(l->arena, bytes, len);
    take_bytes(l, &w, bytes);
    HN_NEW(l->arena, strides, w.rank);
    memcpy(strides, wanted, w.rank * sizeof *strides);
    HN_TRY(add_constant(l, vi->dtype, w.rank, vi->sizes, strides, bytes, len));
    return lower_constant(l, v, l->root->inputs.count - 1, strides);
}

/* ---- several in one ---- */

/* Bytes of a row-major tensor, if it may be added to the program; 0: not. */
static size_t room_for(const lower *l, hn_dtype dtype, uint32_t rank, const hn_expr *sizes) {
    int64_t bytes = (int64_t)hn_dtype_facts(dtype)->size_bytes, size;
    for (uint32_t d = 0; d < rank; d++)
        if (!hn_sym_is_int(l->sym, sizes[d], &size) || !hn_mul_i64(bytes, size, &bytes)) return 0;
    return (uint64_t)bytes <= RELAID_MAX_BYTES - *l->relaid_bytes ? (size_t)bytes : 0;
}

hn_status lower_join_weights(lower *l, const lower_joint *joint, hn_buf *out) {
    const size_t len = room_for(l, joint->dtype, joint->rank, joint->sizes);
    const size_t elem = hn_dtype_facts(joint->dtype)->size_bytes;
    hn_expr *sizes, *strides;
    uint8_t *bytes;
    *out = 0;
    if (!len) return NULL;
    HN_NEW(l->arena, sizes, joint->rank);
    HN_NEW(l->arena, strides, joint->rank);
    HN_NEW(l->arena, bytes, len);
    memcpy(sizes, joint->sizes, joint->rank * sizeof *sizes);
    memcpy(strides, joint->strides, joint->rank * sizeof *strides);
    for (uint32_t k = 0; k < joint->count; k++) {
        weight w;
        if (!joint->parts[k]) continue;
        if (!read_weight(l, joint->parts[k], strides, &w))
            return HN_ERROR(HN_INTERNAL, "a part of a joint weight is not known");
        take_bytes(l, &w, bytes + (size_t)joint->offsets[k] * elem);
    }
    *l->relaid_bytes += len;
    HN_TRY(add_constant(l, joint->dtype, joint->rank, sizes, strides, bytes, len));
    hn_buffer buffer = {.kind = HN_BUFFER_INPUT,
                        .dtype = joint->dtype,
                        .rank = joint->rank,
                        .sizes = sizes,
                        .strides = strides,
                        .input = l->root->inputs.count - 1,
                        .extent = l->zero};
    return hn_program_add_buffer(l->p, buffer, out);
}
