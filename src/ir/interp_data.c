/* interp_data.c: pad, cat and the ops that move elements by index tensors.
 *
 * Where several elements land on one position they are combined in row-major order of the index:
 * set keeps the last, add and mul combine without rounding in between (floats in double, rounded at
 * the end; ints wrap), min and max let NaN win. add on bool is or, mul is and. */
#include "ir/interp_impl.h"

#include <inttypes.h>

hn_status hn_ref_pad(hn_ref_run *run) {
    const hn_ref_tensor *x;
    int64_t lo[HN_MAX_RANK], hi[HN_MAX_RANK], sizes[HN_MAX_RANK], coord[HN_MAX_RANK] = {0};
    hn_ref_elem value;
    hn_ref_tensor *out;
    HN_TRY(hn_ref_arg_tensor(run, "x", &x));
    HN_TRY(hn_ref_arg_scalar(run, "value", x->dtype, &value));
    HN_TRY(hn_ref_arg_ints_n(run, "lo", lo, x->rank));
    HN_TRY(hn_ref_arg_ints_n(run, "hi", hi, x->rank));
    for (uint32_t d = 0; d < x->rank; d++) {
        if (lo[d] < 0 || hi[d] < 0 || lo[d] > INT32_MAX || hi[d] > INT32_MAX)
            return HN_ERROR(HN_INVALID_ARGUMENT,
                            "padding %" PRId64 " and %" PRId64 " of dimension %u", lo[d], hi[d], d);
        sizes[d] = lo[d] + x->sizes[d] + hi[d];
    }
    HN_TRY(hn_ref_result(run, 0, x->dtype, x->rank, sizes, &out));
    for (int64_t n = 0; n < out->numel; n++) hn_ref_set(out, n, value);
    for (int64_t n = 0; n < x->numel; n++, hn_ref_next(coord, x->sizes, x->rank)) {
        int64_t to[HN_MAX_RANK];
        for (uint32_t d = 0; d < x->rank; d++) to[d] = coord[d] + lo[d];
        hn_ref_move(out, hn_ref_offset(out, to), x, n);
    }
    return NULL;
}

static hn_status cat_sizes(const hn_ref_tensor *const *xs, uint32_t count, uint32_t dim,
                           int64_t *sizes) {
    memcpy(sizes, xs[0]->sizes, sizeof xs[0]->sizes);
    for (uint32_t k = 1; k < count; k++) {
        if (xs[k]->rank != xs[0]->rank || xs[k]->dtype != xs[0]->dtype)
            return HN_ERROR(HN_INTERNAL, "operand %u differs from the first in rank or dtype", k);
        for (uint32_t d = 0; d < xs[0]->rank; d++)
            if (d != dim && xs[k]->sizes[d] != xs[0]->sizes[d])
                return HN_ERROR(HN_INVALID_ARGUMENT,
                                "operand %u has size %" PRId64
                                " in dimension %u, the first has %" PRId64,
                                k, xs[k]->sizes[d], d, xs[0]->sizes[d]);
        sizes[dim] += xs[k]->sizes[dim];
    }
    return NULL;
}

hn_status hn_ref_cat(hn_ref_run *run) {
    const hn_ref_tensor **xs;
    uint32_t count, dim;
    int64_t sizes[HN_MAX_RANK], base = 0;
    hn_ref_tensor *out;
    HN_TRY(hn_ref_arg_tensors(run, "xs", &xs, &count));
    if (count == 0) return HN_ERROR(HN_INTERNAL, "nothing to concatenate");
    HN_TRY(hn_ref_arg_dim(run, "dim", xs[0]->rank, &dim));
    HN_TRY(cat_sizes(xs, count, dim, sizes));
    HN_TRY(hn_ref_result(run, 0, xs[0]->dtype, xs[0]->rank, sizes, &out));
    for (uint32_t k = 0; k < count; base += xs[k++]->sizes[dim]) {
        int64_t coord[HN_MAX_RANK] = {0};
        for (int64_t n = 0; n < xs[k]->numel; n++, hn_ref_next(coord, xs[k]->sizes, xs[k]->rank)) {
            int64_t to[HN_MAX_RANK];
            memcpy(to, coord, sizeof to);
            to[dim] += base;
            hn_ref_move(out, hn_ref_offset(out, to), xs[k], n);
        }
    }
    return NULL;
}

/* --- indices --- */

static hn_status index_check(int64_t *index, bool wrap, uint32_t dim, int64_t size) {
    int64_t i = *index;
    if (wrap && i < 0) i += size;
    if (i < 0 || i >= size)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "index %" PRId64 " is out of range for dimension %u of size %" PRId64,
                        *index, dim, size);
    *index = i;
    return NULL;
}

static hn_status elem_combine(hn_str mode, hn_ref_tensor *t, int64_t at, hn_ref_elem value) {
    static const struct {
        const char *mode;
        hn_op op;
    } modes[] = {{"add", HN_OP_ADD}, {"mul", HN_OP_MUL}, {"min", HN_OP_MIN}, {"max", HN_OP_MAX}};
    if (hn_str_eq(mode, HN_STR("set"))) {
        hn_ref_set(t, at, value);
        return NULL;
    }
    for (size_t k = 0; k < sizeof modes / sizeof modes[0]; k++) {
        if (!hn_str_eq(mode, hn_str_of(modes[k].mode))) continue;
        /* The widest dtype of the category: roundings wait for the end of the node. */
        hn_dtype wide = hn_ref_is_float(t)          ? HN_DTYPE_F64
                        : t->dtype == HN_DTYPE_BOOL ? HN_DTYPE_BOOL
                                                    : HN_DTYPE_I64;
        hn_ref_elem args[] = {hn_ref_get(t, at), value}, combined = value;
        hn_ref_apply(modes[k].op, wide, wide, args, &combined);
        hn_ref_set(t, at, combined);
        return NULL;
    }
    return HN_ERROR(HN_INTERNAL, "unknown mode '" HN_STR_FMT "'", HN_STR_ARG(mode));
}

/* Where `index` of gather and scatter points for a coordinate of its own. */
static hn_status along_dim(const hn_ref_tensor *x, const hn_ref_tensor *index, int64_t n,
                           const int64_t *coord, uint32_t dim, int64_t *out_at) {
    int64_t at[HN_MAX_RANK];
    memcpy(at, coord, sizeof at);
    at[dim] = index->data.i[n];
    HN_TRY(index_check(&at[dim], false, dim, x->sizes[dim]));
    *out_at = hn_ref_offset(x, at);
    return NULL;
}

/* Gather and scatter walk the coordinates of `index`, which must be coordinates of `other` too. */
static hn_status along_check(const hn_ref_tensor *index, const hn_ref_tensor *other, int skip_dim,
                             const char *name) {
    HN_TRY(hn_ref_need_int(index, "index"));
    if (index->rank != other->rank)
        return HN_ERROR(HN_INTERNAL, "'index' and '%s' differ in rank", name);
    for (uint32_t d = 0; d < index->rank; d++)
        if ((int)d != skip_dim && index->sizes[d] > other->sizes[d] && index->numel > 0)
            return HN_ERROR(HN_INVALID_ARGUMENT,
                            "'index' has size %" PRId64 " in dimension %u, '%s' only %" PRId64,
                            index->sizes[d], d, name, other->sizes[d]);
    return NULL;
}

hn_status hn_ref_gather(hn_ref_run *run) {
    const hn_ref_tensor *x, *index;
    int64_t coord[HN_MAX_RANK] = {0}, from;
    uint32_t dim;
    hn_ref_tensor *out;
    HN_TRY(hn_ref_arg_tensor(run, "x", &x));
    HN_TRY(hn_ref_arg_tensor(run, "index", &index));
    HN_TRY(hn_ref_arg_dim(run, "dim", x->rank, &dim));
    HN_TRY(along_check(index, x, (int)dim, "x"));
    HN_TRY(hn_ref_result(run, 0, x->dtype, index->rank, index->sizes, &out));
    for (int64_t n = 0; n < out->numel; n++, hn_ref_next(coord, index->sizes, index->rank)) {
        HN_TRY(along_dim(x, index, n, coord, dim, &from));
        hn_ref_move(out, n, x, from);
    }
    return NULL;
}

hn_status hn_ref_scatter(hn_ref_run *run) {
    const hn_ref_tensor *x, *index, *src;
    int64_t coord[HN_MAX_RANK] = {0}, to;
    uint32_t dim;
    hn_str mode;
    hn_ref_tensor *out;
    HN_TRY(hn_ref_arg_tensor(run, "x", &x));
    HN_TRY(hn_ref_arg_tensor(run, "index", &index));
    HN_TRY(hn_ref_arg_tensor(run, "src", &src));
    HN_TRY(hn_ref_arg_dim(run, "dim", x->rank, &dim));
    HN_TRY(hn_ref_arg_string(run, "mode", &mode));
    HN_TRY(hn_ref_need_dtype(src, x->dtype, "src"));
    HN_TRY(along_check(index, x, (int)dim, "x"));
    HN_TRY(along_check(index, src, -1, "src"));
    HN_TRY(hn_ref_result(run, 0, x->dtype, x->rank, x->sizes, &out));
    for (int64_t n = 0; n < x->numel; n++) hn_ref_move(out, n, x, n);
    for (int64_t n = 0; n < index->numel; n++, hn_ref_next(coord, index->sizes, index->rank)) {
        HN_TRY(along_dim(x, index, n, coord, dim, &to));
        HN_TRY(elem_combine(mode, out, to, hn_ref_get(src, hn_ref_offset(src, coord))));
    }
    return NULL;
}

/* The operands that index and index_put share, and the shape "index sizes, then the rest of x". */
typedef struct indexing {
    const hn_ref_tensor *x, **indices;
    uint32_t count, index_rank, rank;
    int64_t sizes[2 * HN_MAX_RANK];
    bool wrap;
} indexing;

static hn_status indexing_read(hn_ref_run *run, indexing *ix) {
    HN_TRY(hn_ref_arg_tensor(run, "x", &ix->x));
    HN_TRY(hn_ref_arg_tensors(run, "indices", &ix->indices, &ix->count));
    HN_TRY(hn_ref_arg_bool(run, "wrap", &ix->wrap));
    if (ix->count == 0 || ix->count > ix->x->rank)
        return HN_ERROR(HN_INTERNAL, "%u indices for rank %u", ix->count, ix->x->rank);
    const hn_ref_tensor *first = ix->indices[0];
    for (uint32_t k = 0; k < ix->count; k++) {
        const hn_ref_tensor *index = ix->indices[k];
        HN_TRY(hn_ref_need_int(index, "indices"));
        if (index->rank != first->rank ||
            memcmp(index->sizes, first->sizes, first->rank * sizeof *first->sizes) != 0)
            return HN_ERROR(HN_INTERNAL, "indices 0 and %u differ in shape", k);
    }
    ix->index_rank = first->rank;
    ix->rank = first->rank + ix->x->rank - ix->count;
    if (ix->rank > HN_MAX_RANK)
        return HN_ERROR(HN_UNSUPPORTED, "the result has more than %d dimensions", HN_MAX_RANK);
    memcpy(ix->sizes, first->sizes, first->rank * sizeof *first->sizes);
    for (uint32_t d = ix->count; d < ix->x->rank; d++)
        ix->sizes[first->rank + d - ix->count] = ix->x->sizes[d];
    return NULL;
}

/* The element of x that a coordinate of the indexed shape names. */
static hn_status indexing_at(const indexing *ix, const int64_t *coord, int64_t *out_at) {
    int64_t at[HN_MAX_RANK], index_at = 0;
    for (uint32_t d = 0; d < ix->index_rank; d++) index_at = index_at * ix->sizes[d] + coord[d];
    for (uint32_t k = 0; k < ix->count; k++) {
        at[k] = ix->indices[k]->data.i[index_at];
        HN_TRY(index_check(&at[k], ix->wrap, k, ix->x->sizes[k]));
    }
    for (uint32_t d = ix->count; d < ix->x->rank; d++)
        at[d] = coord[ix->index_rank + d - ix->count];
    *out_at = hn_ref_offset(ix->x, at);
    return NULL;
}

hn_status hn_ref_index(hn_ref_run *run) {
    indexing ix;
    int64_t coord[HN_MAX_RANK] = {0}, from;
    hn_ref_tensor *out;
    HN_TRY(indexing_read(run, &ix));
    HN_TRY(hn_ref_result(run, 0, ix.x->dtype, ix.rank, ix.sizes, &out));
    for (int64_t n = 0; n < out->numel; n++, hn_ref_next(coord, ix.sizes, ix.rank)) {
        HN_TRY(indexing_at(&ix, coord, &from));
        hn_ref_move(out, n, ix.x, from);
    }
    return NULL;
}

hn_status hn_ref_index_put(hn_ref_run *run) {
    indexing ix;
    const hn_ref_tensor *values;
    int64_t coord[HN_MAX_RANK] = {0}, count, to;
    hn_str mode;
    hn_ref_tensor *out;
    HN_TRY(indexing_read(run, &ix));
    HN_TRY(hn_ref_arg_tensor(run, "values", &values));
    HN_TRY(hn_ref_arg_string(run, "mode", &mode));
    HN_TRY(hn_ref_need_dtype(values, ix.x->dtype, "values"));
    HN_TRY(hn_ref_numel(ix.rank, ix.sizes, &count));
    if (!hn_ref_broadcasts_to(values, ix.rank, ix.sizes))
        return HN_ERROR(HN_INVALID_ARGUMENT, "'values' does not fit the indices");
    HN_TRY(hn_ref_result(run, 0, ix.x->dtype, ix.x->rank, ix.x->sizes, &out));
    for (int64_t n = 0; n < ix.x->numel; n++) hn_ref_move(out, n, ix.x, n);
    for (int64_t n = 0; n < count; n++, hn_ref_next(coord, ix.sizes, ix.rank)) {
        HN_TRY(indexing_at(&ix, coord, &to));
        HN_TRY(elem_combine(mode, out, to,
                            hn_ref_get(values, hn_ref_offset_broadcast(values, coord, ix.rank))));
    }
    return NULL;
}
