/* interp_view.c: creation (full, iota) and the view family, each as a copy. */
#include "base/checked.h"
#include "ir/interp_impl.h"

#include <inttypes.h>

hn_status hn_ref_full(hn_ref_run *run) {
    int64_t sizes[HN_MAX_RANK];
    uint32_t rank;
    hn_dtype dtype;
    hn_ref_elem value;
    hn_ref_tensor *out;
    HN_TRY(hn_ref_arg_ints(run, "sizes", sizes, &rank));
    HN_TRY(hn_ref_arg_dtype(run, "dtype", &dtype));
    HN_TRY(hn_ref_arg_scalar(run, "value", dtype, &value));
    HN_TRY(hn_ref_result(run, 0, dtype, rank, sizes, &out));
    for (int64_t n = 0; n < out->numel; n++) hn_ref_set(out, n, value);
    return NULL;
}

/* Whether a scalar argument is written as an integer: 3 and 3.0 make different iotas. */
static bool arg_is_float(const hn_ref_run *run, const char *name) {
    const hn_arg *arg = &run->node->args[hn_op_param_index(run->node->op, name)];
    return arg->kind == HN_ARG_FLOAT ||
           (arg->kind == HN_ARG_VALUE &&
            hn_graph_value(run->graph, arg->as.value)->kind == HN_VALUE_SYM_FLOAT);
}

/* Two ints count in 64-bit integers, anything else in double; then each element is cast to the
 * dtype. */
hn_status hn_ref_iota(hn_ref_run *run) {
    int64_t size;
    hn_dtype dtype;
    hn_ref_elem start, step;
    hn_ref_tensor *out;
    HN_TRY(hn_ref_arg_int(run, "size", &size));
    HN_TRY(hn_ref_arg_dtype(run, "dtype", &dtype));
    hn_dtype wide =
        arg_is_float(run, "start") || arg_is_float(run, "step") ? HN_DTYPE_F64 : HN_DTYPE_I64;
    HN_TRY(hn_ref_arg_scalar(run, "start", wide, &start));
    HN_TRY(hn_ref_arg_scalar(run, "step", wide, &step));
    HN_TRY(hn_ref_result(run, 0, dtype, 1, &size, &out));
    for (int64_t n = 0; n < size; n++) {
        hn_ref_elem e;
        if (wide == HN_DTYPE_F64) e.f = start.f + (double)n * step.f;
        else e.i = (int64_t)((uint64_t)start.i + (uint64_t)n * (uint64_t)step.i);
        hn_ref_set(out, n, hn_ref_cast(e, wide, dtype));
    }
    return NULL;
}

hn_status hn_ref_reshape(hn_ref_run *run) {
    const hn_ref_tensor *x;
    int64_t sizes[HN_MAX_RANK];
    uint32_t rank;
    hn_ref_tensor *out;
    HN_TRY(hn_ref_arg_tensor(run, "x", &x));
    HN_TRY(hn_ref_arg_ints(run, "sizes", sizes, &rank));
    HN_TRY(hn_ref_result(run, 0, x->dtype, rank, sizes, &out));
    if (out->numel != x->numel)
        return HN_ERROR(HN_INVALID_ARGUMENT, "%" PRId64 " elements cannot be reshaped to %" PRId64,
                        x->numel, out->numel);
    for (int64_t n = 0; n < out->numel; n++) hn_ref_move(out, n, x, n);
    return NULL;
}

hn_status hn_ref_permute(hn_ref_run *run) {
    const hn_ref_tensor *x;
    int64_t dims[HN_MAX_RANK], sizes[HN_MAX_RANK], coord[HN_MAX_RANK] = {0},
                                                   from[HN_MAX_RANK] = {0};
    uint32_t seen = 0;
    hn_ref_tensor *out;
    HN_TRY(hn_ref_arg_tensor(run, "x", &x));
    HN_TRY(hn_ref_arg_ints_n(run, "dims", dims, x->rank));
    for (uint32_t d = 0; d < x->rank; d++) {
        if (dims[d] < 0 || dims[d] >= x->rank || seen & 1u << dims[d])
            return HN_ERROR(HN_INTERNAL, "dims are no permutation");
        seen |= 1u << dims[d];
        sizes[d] = x->sizes[dims[d]];
    }
    HN_TRY(hn_ref_result(run, 0, x->dtype, x->rank, sizes, &out));
    for (int64_t n = 0; n < out->numel; n++, hn_ref_next(coord, sizes, x->rank)) {
        for (uint32_t d = 0; d < x->rank; d++) from[dims[d]] = coord[d];
        hn_ref_move(out, n, x, hn_ref_offset(x, from));
    }
    return NULL;
}

hn_status hn_ref_expand(hn_ref_run *run) {
    const hn_ref_tensor *x;
    int64_t sizes[HN_MAX_RANK], coord[HN_MAX_RANK] = {0};
    hn_ref_tensor *out;
    HN_TRY(hn_ref_arg_tensor(run, "x", &x));
    HN_TRY(hn_ref_arg_ints_n(run, "sizes", sizes, x->rank));
    if (!hn_ref_broadcasts_to(x, x->rank, sizes))
        return HN_ERROR(HN_INVALID_ARGUMENT, "a size other than 1 cannot be expanded");
    HN_TRY(hn_ref_result(run, 0, x->dtype, x->rank, sizes, &out));
    for (int64_t n = 0; n < out->numel; n++, hn_ref_next(coord, sizes, x->rank))
        hn_ref_move(out, n, x, hn_ref_offset_broadcast(x, coord, x->rank));
    return NULL;
}

/* Whether start + i * step stays within [0, size) for 0 <= i < count. */
static bool walk_fits(int64_t start, int64_t count, int64_t step, int64_t size) {
    int64_t last;
    if (count <= 0) return count == 0;
    return hn_mul_i64(count - 1, step, &last) && hn_add_i64(start, last, &last) && start >= 0 &&
           start < size && last >= 0 && last < size;
}

hn_status hn_ref_slice(hn_ref_run *run) {
    const hn_ref_tensor *x;
    int64_t start, size, step, sizes[HN_MAX_RANK], coord[HN_MAX_RANK] = {0};
    uint32_t dim;
    hn_ref_tensor *out;
    HN_TRY(hn_ref_arg_tensor(run, "x", &x));
    HN_TRY(hn_ref_arg_dim(run, "dim", x->rank, &dim));
    HN_TRY(hn_ref_arg_int(run, "start", &start));
    HN_TRY(hn_ref_arg_int(run, "size", &size));
    HN_TRY(hn_ref_arg_int(run, "step", &step));
    if (!walk_fits(start, size, step, x->sizes[dim]))
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "slice of %" PRId64 " elements from %" PRId64 " by %" PRId64
                        " leaves dimension %u of size %" PRId64,
                        size, start, step, dim, x->sizes[dim]);
    memcpy(sizes, x->sizes, sizeof sizes);
    sizes[dim] = size;
    HN_TRY(hn_ref_result(run, 0, x->dtype, x->rank, sizes, &out));
    for (int64_t n = 0; n < out->numel; n++, hn_ref_next(coord, sizes, x->rank)) {
        int64_t from[HN_MAX_RANK];
        memcpy(from, coord, sizeof from);
        from[dim] = start + coord[dim] * step;
        hn_ref_move(out, n, x, hn_ref_offset(x, from));
    }
    return NULL;
}

hn_status hn_ref_window(hn_ref_run *run) {
    const hn_ref_tensor *x;
    int64_t count, size, step, dilation, reach, within, sizes[HN_MAX_RANK],
        coord[HN_MAX_RANK] = {0};
    uint32_t dim;
    hn_ref_tensor *out;
    HN_TRY(hn_ref_arg_tensor(run, "x", &x));
    HN_TRY(hn_ref_arg_dim(run, "dim", x->rank, &dim));
    HN_TRY(hn_ref_arg_int(run, "count", &count));
    HN_TRY(hn_ref_arg_int(run, "size", &size));
    HN_TRY(hn_ref_arg_int(run, "step", &step));
    HN_TRY(hn_ref_arg_int(run, "dilation", &dilation));
    if (x->rank == HN_MAX_RANK)
        return HN_ERROR(HN_UNSUPPORTED, "the result has more than %d dimensions", HN_MAX_RANK);
    bool fits = count >= 0 && size >= 0 && step >= 0 && dilation >= 0;
    if (fits && count && size)
        fits = hn_mul_i64(count - 1, step, &reach) && hn_mul_i64(size - 1, dilation, &within) &&
               hn_add_i64(reach, within, &reach) && reach < x->sizes[dim];
    if (!fits)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "%" PRId64 " windows of %" PRId64 " elements (step %" PRId64
                        ", dilation %" PRId64 ") leave dimension %u of size %" PRId64,
                        count, size, step, dilation, dim, x->sizes[dim]);
    memcpy(sizes, x->sizes, sizeof sizes);
    sizes[dim] = count;
    sizes[x->rank] = size;
    HN_TRY(hn_ref_result(run, 0, x->dtype, x->rank + 1, sizes, &out));
    for (int64_t n = 0; n < out->numel; n++, hn_ref_next(coord, sizes, x->rank + 1)) {
        int64_t from[HN_MAX_RANK];
        memcpy(from, coord, sizeof from);
        from[dim] = coord[dim] * step + coord[x->rank] * dilation;
        hn_ref_move(out, n, x, hn_ref_offset(x, from));
    }
    return NULL;
}

hn_status hn_ref_as_strided(hn_ref_run *run) {
    const hn_ref_tensor *x;
    int64_t sizes[HN_MAX_RANK], strides[HN_MAX_RANK], offset, coord[HN_MAX_RANK] = {0};
    uint32_t rank;
    hn_ref_tensor *out;
    HN_TRY(hn_ref_arg_tensor(run, "x", &x));
    HN_TRY(hn_ref_arg_ints(run, "sizes", sizes, &rank));
    HN_TRY(hn_ref_arg_ints_n(run, "strides", strides, rank));
    HN_TRY(hn_ref_arg_int(run, "offset", &offset));
    HN_TRY(hn_ref_result(run, 0, x->dtype, rank, sizes, &out));
    for (int64_t n = 0; n < out->numel; n++, hn_ref_next(coord, sizes, rank)) {
        int64_t from = offset, part;
        bool fits = true;
        for (uint32_t d = 0; d < rank; d++)
            fits = fits && hn_mul_i64(coord[d], strides[d], &part) && hn_add_i64(from, part, &from);
        if (!fits || from < 0 || from >= x->numel)
            return HN_ERROR(HN_INVALID_ARGUMENT,
                            "a strided view reads element %" PRId64 " of %" PRId64, from, x->numel);
        hn_ref_move(out, n, x, from);
    }
    return NULL;
}
