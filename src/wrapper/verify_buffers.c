/* verify_buffers.c: see verify_buffers.h. */
#include "wrapper/verify_buffers.h"

#define BAD(...) HN_ERROR(HN_INTERNAL, "wrapper: " __VA_ARGS__)

static bool same_exprs(const hn_expr *a, const hn_expr *b, uint32_t count) {
    for (uint32_t k = 0; k < count; k++)
        if (a[k] != b[k]) return false;
    return true;
}

/* The buffer of an input is the input's tensor. */
static hn_status check_input_buffer(const hn_wrapper *w, const hn_wbuffer *b, uint32_t i) {
    if (b->source >= w->inputs.count || w->inputs.items[b->source].is_scalar)
        return BAD("buffer %u is input %u of %u tensors", i, b->source, w->inputs.count);
    const hn_winput *in = &w->inputs.items[b->source];
    if (b->dtype != in->dtype || b->rank != in->rank || !same_exprs(b->sizes, in->sizes, b->rank) ||
        !same_exprs(b->strides, in->strides, b->rank))
        return BAD("buffer %u differs from input %u in dtype, sizes or strides", i, b->source);
    return NULL;
}

static hn_expr bytes_of_tensor(const hn_wrapper *w, const hn_wbuffer *b) {
    return hn_sym_mul(w->sym, hn_strided_extent(w->sym, b->sizes, b->strides, b->rank),
                      hn_sym_int(w->sym, hn_dtype_facts(b->dtype)->size_bytes));
}

/* The bytes of a buffer; 0: its input or the graph knows them. */
static hn_expr memory_of(const hn_wrapper *w, const hn_wbuffer *b) {
    if (b->kind == HN_WBUF_VIEW) {
        const hn_wbuffer *root = &w->buffers.items[b->root];
        return root->kind == HN_WBUF_INPUT ? bytes_of_tensor(w, root) : memory_of(w, root);
    }
    if (b->kind != HN_WBUF_CONSTANT) return b->bytes;
    if (!w->graph) return 0;
    const hn_storage *storage = &w->graph->storages.items[b->source];
    if (b->byte_offset > storage->size_bytes || storage->size_bytes > INT64_MAX) return 0;
    return hn_sym_int(w->sym, (int64_t)(storage->size_bytes - b->byte_offset));
}

/* A view is a part of a buffer that has memory, on the same device. */
static hn_status check_root(const hn_wrapper *w, const hn_wbuffer *b, uint32_t i) {
    if (!b->root || b->root >= w->buffers.count)
        return BAD("buffer %u is a view of no buffer: it has no line", i);
    const hn_wbuffer *root = &w->buffers.items[b->root];
    if (root->kind == HN_WBUF_VIEW) return BAD("buffer %u is a view of view %u", i, b->root);
    if (root->device != b->device)
        return BAD("buffer %u on %s is a view of one on %s", i, hn_device_name(b->device),
                   hn_device_name(root->device));
    return b->bytes ? BAD("buffer %u is a view and has bytes of its own", i) : NULL;
}

static bool is_negative(const hn_wrapper *w, hn_expr e) {
    int64_t number;
    return hn_sym_is_int(w->sym, e, &number) && number < 0;
}

/* The tensor lies inside the memory, as far as that can be said before the sizes are known. */
hn_status hn_wrapper_shape_verify(const hn_wrapper *w, const hn_wbuffer *b, uint32_t i) {
    if (b->rank > HN_MAX_RANK) return BAD("buffer %u has rank %u", i, b->rank);
    for (uint32_t d = 0; d < b->rank; d++)
        if (!b->sizes[d] || !b->strides[d])
            return BAD("buffer %u has no size or stride in dimension %u", i, d);
        else if (is_negative(w, b->sizes[d]) || is_negative(w, b->strides[d]))
            return BAD("buffer %u has a size or stride below 0 in dimension %u", i, d);
    const hn_expr have = memory_of(w, b);
    hn_expr need = bytes_of_tensor(w, b);
    if (b->offset_elems && !hn_sym_is_value(w->sym, need, 0)) {
        if (is_negative(w, b->offset_elems)) return BAD("view %u begins before its buffer", i);
        need = hn_sym_add(w->sym, need,
                          hn_sym_mul(w->sym, b->offset_elems,
                                     hn_sym_int(w->sym, hn_dtype_facts(b->dtype)->size_bytes)));
    }
    HN_TRY(hn_sym_status(w->sym)); /* numbers that overflow */
    if (have && have != need && hn_sym_prove_lt(w->sym, have, need))
        return BAD("the tensor in buffer %u reaches beyond its memory", i);
    return NULL;
}

static hn_status check_buffer(const hn_wrapper *w, const hn_wbuffer *b, uint32_t i) {
    if ((uint32_t)b->kind >= HN_WBUF_KIND_COUNT)
        return BAD("buffer %u is of unknown kind %d", i, (int)b->kind);
    if (b->dtype == HN_DTYPE_NONE || b->dtype >= HN_DTYPE_COUNT)
        return BAD("buffer %u has no dtype", i);
    if ((uint32_t)b->device >= HN_DEVICE_KIND_COUNT)
        return BAD("buffer %u is on no known device", i);
    if ((hn_wbuf_is_inner(b->kind) || b->kind == HN_WBUF_OUTPUT) && !b->bytes)
        return BAD("buffer %u has no size", i);
    if (b->kind == HN_WBUF_CONSTANT && w->graph &&
        (!b->source || b->source >= w->graph->storages.count))
        return BAD("buffer %u is in storage %u, which the graph does not have", i, b->source);
    if (b->kind == HN_WBUF_VIEW) HN_TRY(check_root(w, b, i));
    HN_TRY(hn_wrapper_shape_verify(w, b, i));
    return b->kind == HN_WBUF_INPUT ? check_input_buffer(w, b, i) : NULL;
}

hn_status hn_wrapper_buffers_verify(const hn_wrapper *w) {
    for (uint32_t i = 1; i < w->buffers.count; i++)
        HN_TRY(check_buffer(w, &w->buffers.items[i], i));
    return NULL;
}
