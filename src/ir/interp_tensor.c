/* interp_tensor.c: tensors of the reference interpreter: storage, rounding, memory formats,
 * comparison. */
#include "base/checked.h"
#include "ir/interp_impl.h"
#include "ir/loop_interp.h"

#include <inttypes.h>
#include <stdlib.h>

/* Above this a tensor is a mistake of the test, not work for an oracle (16 GiB of doubles). */
#define MAX_ELEMS ((int64_t)1 << 31)

hn_status hn_ref_numel(uint32_t rank, const int64_t *sizes, int64_t *out) {
    int64_t numel = 1;
    bool empty = false;
    if (rank > HN_MAX_RANK)
        return HN_ERROR(HN_INVALID_ARGUMENT, "rank %u is above %d", rank, HN_MAX_RANK);
    for (uint32_t d = 0; d < rank; d++) {
        if (sizes[d] < 0)
            return HN_ERROR(HN_INVALID_ARGUMENT, "size %" PRId64 " of dimension %u is negative",
                            sizes[d], d);
        empty |= sizes[d] == 0;
        /* Zeros count as ones: then no product of some of the sizes overflows either. */
        if (!hn_mul_i64(numel, sizes[d] ? sizes[d] : 1, &numel) || numel > MAX_ELEMS)
            return HN_ERROR(HN_OUT_OF_MEMORY, "a tensor of more than %" PRId64 " elements",
                            MAX_ELEMS);
    }
    *out = empty ? 0 : numel;
    return NULL;
}

static hn_status tensor_describe(hn_dtype dtype, uint32_t rank, const int64_t *sizes,
                                 hn_ref_tensor *out) {
    *out = (hn_ref_tensor){.dtype = dtype, .rank = rank};
    if (hn_dtype_facts(dtype)->size_bytes == 0)
        return HN_ERROR(HN_INVALID_ARGUMENT, "a tensor without dtype");
    HN_TRY(hn_ref_numel(rank, sizes, &out->numel));
    for (uint32_t d = 0; d < rank; d++) out->sizes[d] = sizes[d];
    return NULL;
}

static void set_storage(hn_ref_tensor *t, void *elems) {
    if (hn_ref_is_float(t)) t->data.f = elems;
    else t->data.i = elems;
}

hn_status hn_ref_tensor_init(hn_arena *arena, hn_dtype dtype, uint32_t rank, const int64_t *sizes,
                             hn_ref_tensor *out) {
    void *elems = NULL;
    HN_TRY(tensor_describe(dtype, rank, sizes, out));
    HN_TRY(hn_arena_array(arena, (size_t)out->numel, sizeof(hn_ref_elem), &elems));
    set_storage(out, elems);
    return NULL;
}

hn_status hn_ref_alloc(hn_dtype dtype, uint32_t rank, const int64_t *sizes, hn_ref_tensor *out) {
    HN_TRY(tensor_describe(dtype, rank, sizes, out));
    void *elems = calloc(out->numel ? (size_t)out->numel : 1, sizeof(hn_ref_elem));
    if (!elems) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for %" PRId64 " elements", out->numel);
    set_storage(out, elems);
    return NULL;
}

void hn_ref_free(hn_ref_tensor *tensor) {
    if (tensor->dtype != HN_DTYPE_NONE)
        free(hn_ref_is_float(tensor) ? (void *)tensor->data.f : (void *)tensor->data.i);
    *tensor = (hn_ref_tensor){0};
}

/* --- formats: how an element of a dtype lies in memory, and what it can hold --- */

typedef struct elem_format {
    hn_ref_elem (*read)(const uint8_t *bytes);
    void (*write)(hn_ref_elem e, uint8_t *bytes);
} elem_format;

#define PLAIN_FORMAT(name, type, member)                                                           \
    static hn_ref_elem read_##name(const uint8_t *bytes) {                                         \
        type value;                                                                                \
        memcpy(&value, bytes, sizeof value);                                                       \
        return (hn_ref_elem){.member = value};                                                     \
    }                                                                                              \
    static void write_##name(hn_ref_elem e, uint8_t *bytes) {                                      \
        type value = (type)e.member;                                                               \
        memcpy(bytes, &value, sizeof value);                                                       \
    }
PLAIN_FORMAT(f64, double, f)
PLAIN_FORMAT(f32, float, f)
PLAIN_FORMAT(i64, int64_t, i)
PLAIN_FORMAT(i32, int32_t, i)
PLAIN_FORMAT(i16, int16_t, i)
PLAIN_FORMAT(i8, int8_t, i)
PLAIN_FORMAT(u8, uint8_t, i)

static uint16_t bits_at(const uint8_t *bytes) {
    uint16_t bits;
    memcpy(&bits, bytes, sizeof bits);
    return bits;
}

static hn_ref_elem read_f16(const uint8_t *bytes) {
    return (hn_ref_elem){.f = (double)hn_f16_to_f32(bits_at(bytes))};
}
static hn_ref_elem read_bf16(const uint8_t *bytes) {
    return (hn_ref_elem){.f = (double)hn_bf16_to_f32(bits_at(bytes))};
}
static hn_ref_elem read_bool(const uint8_t *bytes) { return (hn_ref_elem){.i = *bytes != 0}; }

static void write_f16(hn_ref_elem e, uint8_t *bytes) {
    uint16_t bits = hn_f64_to_f16(e.f);
    memcpy(bytes, &bits, sizeof bits);
}

static void write_bf16(hn_ref_elem e, uint8_t *bytes) {
    uint16_t bits = hn_f64_to_bf16(e.f);
    memcpy(bytes, &bits, sizeof bits);
}

static void write_bool(hn_ref_elem e, uint8_t *bytes) { *bytes = e.i != 0; }

static const elem_format formats[HN_DTYPE_COUNT] = {
    [HN_DTYPE_F64] = {read_f64, write_f64}, [HN_DTYPE_F32] = {read_f32, write_f32},
    [HN_DTYPE_F16] = {read_f16, write_f16}, [HN_DTYPE_BF16] = {read_bf16, write_bf16},
    [HN_DTYPE_I64] = {read_i64, write_i64}, [HN_DTYPE_I32] = {read_i32, write_i32},
    [HN_DTYPE_I16] = {read_i16, write_i16}, [HN_DTYPE_I8] = {read_i8, write_i8},
    [HN_DTYPE_U8] = {read_u8, write_u8},    [HN_DTYPE_BOOL] = {read_bool, write_bool},
};

hn_ref_elem hn_ref_elem_read(hn_dtype dtype, const uint8_t *bytes) {
    return formats[dtype].read(bytes);
}

void hn_ref_elem_write(hn_dtype dtype, hn_ref_elem elem, uint8_t *bytes) {
    formats[dtype].write(elem, bytes);
}

/* Through the memory format: what survives a store is what the dtype can hold. */
static hn_ref_elem through_memory(hn_dtype dtype, hn_ref_elem e) {
    uint8_t bytes[8];
    formats[dtype].write(e, bytes);
    return formats[dtype].read(bytes);
}

double hn_ref_round_f(hn_dtype dtype, double value) {
    if (dtype == HN_DTYPE_F32) return (double)(float)value;
    return dtype == HN_DTYPE_F64 ? value : through_memory(dtype, (hn_ref_elem){.f = value}).f;
}

int64_t hn_ref_narrow_i(hn_dtype dtype, int64_t value) {
    return dtype == HN_DTYPE_I64 ? value : through_memory(dtype, (hn_ref_elem){.i = value}).i;
}

void hn_ref_round(hn_ref_tensor *t) {
    if (t->dtype == HN_DTYPE_NONE || t->dtype == HN_DTYPE_F64 || t->dtype == HN_DTYPE_I64) return;
    for (int64_t n = 0; n < t->numel; n++)
        hn_ref_set(t, n, through_memory(t->dtype, hn_ref_get(t, n)));
}

void hn_ref_read(hn_ref_tensor *t, const int64_t *strides, const uint8_t *bytes) {
    int64_t elem_bytes = hn_dtype_facts(t->dtype)->size_bytes, coord[HN_MAX_RANK] = {0};
    for (int64_t n = 0; n < t->numel; n++, hn_ref_next(coord, t->sizes, t->rank)) {
        int64_t at = strides ? 0 : n;
        for (uint32_t d = 0; strides && d < t->rank; d++) at += coord[d] * strides[d];
        hn_ref_set(t, n, formats[t->dtype].read(bytes + at * elem_bytes));
    }
}

hn_status hn_ref_tensor_load(hn_arena *arena, hn_dtype dtype, uint32_t rank, const int64_t *sizes,
                             const int64_t *strides, const void *bytes, hn_ref_tensor *out) {
    HN_TRY(hn_ref_tensor_init(arena, dtype, rank, sizes, out));
    hn_ref_read(out, strides, bytes);
    return NULL;
}

void hn_ref_tensor_store(const hn_ref_tensor *tensor, void *out_bytes) {
    size_t elem_bytes = hn_dtype_facts(tensor->dtype)->size_bytes;
    uint8_t *to = out_bytes;
    for (int64_t n = 0; n < tensor->numel; n++, to += elem_bytes)
        formats[tensor->dtype].write(hn_ref_get(tensor, n), to);
}

/* --- comparison --- */

void hn_ref_sizes_print(uint32_t rank, const int64_t *sizes, hn_strbuf *out) {
    hn_strbuf_putc(out, '[');
    for (uint32_t d = 0; d < rank; d++)
        hn_strbuf_printf(out, d ? ", %" PRId64 : "%" PRId64, sizes[d]);
    hn_strbuf_putc(out, ']');
}

typedef struct comparison {
    double rtol, atol;
    double max_abs, max_rel;
    int64_t first, different; /* first: -1 when all fit */
} comparison;

static bool floats_fit(double a, double e, comparison *c) {
    if (a == e || (isnan(a) && isnan(e))) return true;
    double error = fabs(a - e), relative = e == 0 ? INFINITY : error / fabs(e);
    if (isnan(error)) error = relative = INFINITY; /* one of them is NaN */
    if (isinf(e)) relative = INFINITY;
    c->max_abs = fmax(c->max_abs, error);
    c->max_rel = fmax(c->max_rel, relative);
    return isfinite(error) && error <= c->atol + c->rtol * fabs(e);
}

static bool ints_fit(int64_t a, int64_t e, comparison *c) {
    if (a == e) return true;
    /* Unsigned subtraction is the exact distance, however far apart they are. */
    double error = (double)(a > e ? (uint64_t)a - (uint64_t)e : (uint64_t)e - (uint64_t)a);
    c->max_abs = fmax(c->max_abs, error);
    c->max_rel = fmax(c->max_rel, e == 0 ? INFINITY : error / fabs((double)e));
    return error <= c->atol + c->rtol * fabs((double)e);
}

static void elem_print(const hn_ref_tensor *t, int64_t at, hn_strbuf *out) {
    if (hn_ref_is_float(t)) hn_strbuf_printf(out, "%.9g", t->data.f[at]);
    else hn_strbuf_i64(out, t->data.i[at]);
}

static void comparison_print(const hn_ref_tensor *a, const hn_ref_tensor *e, const comparison *c,
                             hn_strbuf *why) {
    if (c->first >= 0) {
        int64_t coord[HN_MAX_RANK], rest = c->first;
        for (uint32_t d = a->rank; d-- > 0; rest /= a->sizes[d]) coord[d] = rest % a->sizes[d];
        hn_strbuf_puts(why, "element ");
        hn_ref_sizes_print(a->rank, coord, why);
        hn_strbuf_puts(why, " is ");
        elem_print(a, c->first, why);
        hn_strbuf_puts(why, ", expected ");
        elem_print(e, c->first, why);
        hn_strbuf_printf(why, "; %" PRId64 " of %" PRId64 " elements differ (rtol %g, atol %g); ",
                         c->different, a->numel, c->rtol, c->atol);
    }
    hn_strbuf_printf(why, "max absolute error %g, max relative error %g", c->max_abs, c->max_rel);
}

static bool metas_fit(const hn_ref_tensor *a, const hn_ref_tensor *e, hn_strbuf *why) {
    bool same_sizes =
        a->rank == e->rank && memcmp(a->sizes, e->sizes, a->rank * sizeof *a->sizes) == 0;
    if (a->dtype == e->dtype && same_sizes) return true;
    if (!why) return false;
    hn_strbuf_printf(why, "is %s", hn_dtype_facts(a->dtype)->name);
    hn_ref_sizes_print(a->rank, a->sizes, why);
    hn_strbuf_printf(why, ", expected %s", hn_dtype_facts(e->dtype)->name);
    hn_ref_sizes_print(e->rank, e->sizes, why);
    return false;
}

bool hn_ref_compare(const hn_ref_tensor *actual, const hn_ref_tensor *expected, double rtol,
                    double atol, hn_strbuf *why) {
    comparison c = {.rtol = rtol, .atol = atol, .first = -1};
    if (!metas_fit(actual, expected, why)) return false;
    if (actual->dtype == HN_DTYPE_NONE) return true;
    for (int64_t n = 0; n < actual->numel; n++) {
        bool fits = hn_ref_is_float(actual) ? floats_fit(actual->data.f[n], expected->data.f[n], &c)
                                            : ints_fit(actual->data.i[n], expected->data.i[n], &c);
        if (fits) continue;
        if (c.first < 0) c.first = n;
        c.different++;
    }
    if (why) comparison_print(actual, expected, &c, why);
    return c.first < 0;
}
