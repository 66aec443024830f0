/* io.c: arrays between .npy files and tensors: reading, writing, comparing, describing. */
#include "tool.h"

#include "base/file.h"
#include "base/npy.h"
#include "ir/interp.h"

#include <math.h>
#include <stdlib.h>

/* What files hold for a type: types that .npy lacks travel as float32. */
static const char *file_descr(hn_scalar_type type) {
    const char *descr = hn_dtype_facts((hn_dtype)type)->npy_descr;
    return *descr ? descr : "<f4";
}

static bool is_converted(hn_scalar_type type) {
    return *hn_dtype_facts((hn_dtype)type)->npy_descr == '\0';
}

static void *allocate(size_t count, size_t elem_bytes) { return calloc(count + 1, elem_bytes); }

/* "float32" for "<f4": how NumPy's users say it. */
static const char *numpy_name(const char *descr) {
    static const char *const names[][2] = {
        {"<f8", "float64"}, {"<f4", "float32"}, {"<f2", "float16"},
        {"<i8", "int64"},   {"<i4", "int32"},   {"<i2", "int16"},
        {"|i1", "int8"},    {"|u1", "uint8"},   {"|b1", "bool"}};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (strcmp(names[k][0], descr) == 0) return names[k][1];
    return descr;
}

/* --- reading --- */

/* Where the elements of a new tensor lie: as recorded, when that is known. */
static bool recorded_strides(const hn_module_value_info *info, uint32_t rank, const int64_t *sizes,
                             int64_t strides[HN_TENSOR_MAX_RANK]) {
    if (info->rank != rank || info->rank > HN_TENSOR_MAX_RANK) return false;
    for (uint32_t d = 0; d < info->rank; d++) {
        if (!info->strides[d].is_static || info->strides[d].value < 0) return false;
        if (info->sizes[d].is_static && info->sizes[d].value != sizes[d]) return false;
        strides[d] = info->strides[d].value;
    }
    return true;
}

/* Where the model was exported with an expanded input, elements share a place, so they must be
 * equal in the file. */
static hn_status check_expanded(const hn_tensor *tensor, const void *elements) {
    size_t bytes = (size_t)hn_tensor_numel(tensor) * hn_scalar_type_bytes(hn_tensor_type(tensor));
    bool shares = false;
    for (uint32_t d = 0; d < hn_tensor_rank(tensor); d++)
        shares |= hn_tensor_strides(tensor)[d] == 0 && hn_tensor_sizes(tensor)[d] > 1;
    if (!shares) return NULL;
    void *back = allocate(bytes, 1);
    if (!back) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for %zu bytes", bytes);
    hn_tensor_copy_out(tensor, back);
    bool same = memcmp(back, elements, bytes) == 0;
    free(back);
    return same
               ? NULL
               : HN_ERROR(
                     HN_INVALID_ARGUMENT,
                     "differs along a dimension that the model was exported with as an expanded one");
}

static hn_status new_tensor(const hn_module_value_info *info, uint32_t rank, const int64_t *sizes,
                            hn_tensor **out) {
    int64_t strides[HN_TENSOR_MAX_RANK];
    hn_tensor_desc desc = {.type = info->type, .rank = rank, .sizes = sizes};
    if (recorded_strides(info, rank, sizes, strides)) desc.strides = strides;
    return hn_tensor_create(&desc, out);
}

/* Callers release what their lists have, also after an error. */
static void drop(hn_tensor **tensor) {
    hn_tensor_release(*tensor);
    *tensor = NULL;
}

static hn_status fill(const hn_npy *npy, hn_scalar_type type, hn_tensor *tensor) {
    uint8_t *elements = allocate(npy->numel, npy->elem_bytes);
    if (!elements) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for %zu elements", npy->numel);
    hn_npy_copy(npy, elements);
    if (is_converted(type)) {
        /* each is written after its source was read */
        uint16_t *narrow = (uint16_t *)(void *)elements;
        for (size_t k = 0; k < npy->numel; k++) {
            float value;
            memcpy(&value, elements + k * sizeof value, sizeof value);
            narrow[k] = hn_f32_to_bf16(value);
        }
    }
    hn_tensor_copy_in(tensor, elements);
    hn_status status = check_expanded(tensor, elements);
    free(elements);
    return status;
}

static hn_status tensor_of(const hn_npy *npy, const hn_module_value_info *info, hn_tensor **out) {
    if (strcmp(npy->descr, file_descr(info->type)) != 0)
        return HN_ERROR(
            HN_INVALID_ARGUMENT,
            "has elements of type %s, input '%s' takes %s; convert with array.astype(\"%s\")",
            numpy_name(npy->descr), info->name, hn_scalar_type_name(info->type),
            numpy_name(file_descr(info->type)));
    if (npy->rank > HN_TENSOR_MAX_RANK)
        return HN_ERROR(HN_INVALID_ARGUMENT, "has %u dimensions; at most %d fit", npy->rank,
                        HN_TENSOR_MAX_RANK);
    HN_TRY(new_tensor(info, npy->rank, npy->sizes, out));
    hn_status status = fill(npy, info->type, *out);
    if (status) drop(out);
    return status;
}

/* A Python number travels as an array without dimensions. */
static hn_module_value_info as_array(const hn_module_value_info *info) {
    hn_module_value_info array = *info;
    if (info->kind == HN_VALUE_KIND_TENSOR) return array;
    array.type = info->kind == HN_VALUE_KIND_INT     ? HN_I64
                 : info->kind == HN_VALUE_KIND_FLOAT ? HN_F64
                                                     : HN_BOOL;
    array.rank = 0;
    return array;
}

hn_status tool_input_of(const hn_module_value_info *info, const hn_example *example,
                        hn_tensor **out) {
    const hn_module_value_info array = as_array(info);
    HN_TRY(new_tensor(&array, example->rank, example->sizes, out));
    hn_status status = hn_tensor_copy_in(*out, example->bytes);
    if (!status) status = check_expanded(*out, example->bytes);
    if (status) drop(out);
    return status;
}

hn_status tool_input_read(const char *path, const hn_module_value_info *info, hn_tensor **out) {
    hn_file_map map;
    hn_npy npy;
    const hn_module_value_info array = as_array(info);
    HN_TRY(hn_file_map_init(&map, path));
    hn_status status = hn_npy_parse(map.data, map.size_bytes, &npy);
    if (!status) status = tensor_of(&npy, &array, out);
    hn_file_map_deinit(&map);
    return status ? hn_status_annotate(status, "'%s'", path) : NULL;
}

/* --- sizes --- */

/* Of an array without dimensions, which may stand for a number, also the value. */
static bool sizes_of(const char *path, int64_t *dims, hn_input_sizes *out) {
    hn_file_map map;
    hn_npy npy;
    hn_status status = hn_file_map_init(&map, path);
    if (status) {
        hn_status_free(status);
        return false;
    }
    status = hn_npy_parse(map.data, map.size_bytes, &npy);
    bool good = !status && npy.rank <= HN_TENSOR_MAX_RANK;
    if (good) {
        memcpy(dims, npy.sizes, npy.rank * sizeof *dims);
        *out = (hn_input_sizes){.rank = npy.rank, .sizes = dims};
        out->has_value = npy.rank == 0 && strcmp(npy.descr, "<i8") == 0;
        if (out->has_value) hn_npy_copy(&npy, &out->value);
    }
    hn_status_free(status);
    hn_file_map_deinit(&map);
    return good;
}

void tool_sizes_read(const tool_list *files, tool_sizes *out) {
    *out = (tool_sizes){.count = 0};
    out->dims = files->count ? calloc(files->count, sizeof *out->dims) : NULL;
    out->items = files->count ? calloc(files->count, sizeof *out->items) : NULL;
    if (!out->dims || !out->items) return;
    for (uint32_t k = 0; k < files->count; k++)
        if (!sizes_of(files->items[k], out->dims[k], &out->items[k])) return;
    out->count = files->count;
}

void tool_sizes_deinit(tool_sizes *sizes) {
    free(sizes->dims);
    free(sizes->items);
}

void tool_tensors_release(hn_tensor **tensors, uint32_t count) {
    for (uint32_t k = 0; k < count; k++) hn_tensor_release(tensors[k]);
}

/* --- writing --- */

hn_status tool_tensor_write(const hn_tensor *tensor, const char *path) {
    hn_scalar_type type = hn_tensor_type(tensor);
    size_t numel = (size_t)hn_tensor_numel(tensor);
    uint8_t *elements =
        allocate(numel, is_converted(type) ? sizeof(float) : hn_scalar_type_bytes(type));
    if (!elements) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for %zu elements", numel);
    hn_tensor_copy_out(tensor, elements);
    if (is_converted(type)) {
        /* backwards: the wide elements overlap the narrow ones */
        for (size_t k = numel; k-- > 0;) {
            uint16_t narrow;
            memcpy(&narrow, elements + k * sizeof narrow, sizeof narrow);
            float value = hn_bf16_to_f32(narrow);
            memcpy(elements + k * sizeof value, &value, sizeof value);
        }
    }
    hn_status status = hn_npy_write(path, file_descr(type), hn_tensor_rank(tensor),
                                    hn_tensor_sizes(tensor), elements);
    free(elements);
    return status;
}

/* --- comparing --- */

static hn_status load_tensor(hn_arena *arena, const hn_tensor *tensor, hn_ref_tensor *out) {
    void *bytes;
    HN_TRY(hn_arena_array(arena, (size_t)hn_tensor_numel(tensor) + 1,
                          hn_scalar_type_bytes(hn_tensor_type(tensor)), &bytes));
    hn_tensor_copy_out(tensor, bytes);
    return hn_ref_tensor_load(arena, (hn_dtype)hn_tensor_type(tensor), hn_tensor_rank(tensor),
                              hn_tensor_sizes(tensor), NULL, bytes, out);
}

static hn_status load_file(hn_arena *arena, const char *path, hn_scalar_type type,
                           hn_ref_tensor *out) {
    hn_file_map map;
    hn_npy npy;
    HN_TRY(hn_file_map_init(&map, path));
    hn_status status = hn_npy_parse(map.data, map.size_bytes, &npy);
    if (!status && strcmp(npy.descr, file_descr(type)) != 0)
        status = HN_ERROR(HN_INVALID_ARGUMENT, "has elements of type %s, the output is %s",
                          numpy_name(npy.descr), hn_scalar_type_name(type));
    if (!status && npy.rank > HN_MAX_RANK)
        status = HN_ERROR(HN_INVALID_ARGUMENT, "has %u dimensions", npy.rank);
    void *bytes = NULL;
    if (!status) status = hn_arena_array(arena, npy.numel + 1, npy.elem_bytes, &bytes);
    if (!status) {
        hn_npy_copy(&npy, bytes);
        hn_dtype dtype = is_converted(type) ? HN_DTYPE_F32 : (hn_dtype)type;
        status = hn_ref_tensor_load(arena, dtype, npy.rank, npy.sizes, NULL, bytes, out);
    }
    hn_file_map_deinit(&map);
    return status;
}

hn_status tool_array_read(hn_arena *arena, const char *path, hn_scalar_type type,
                          hn_ref_tensor *out) {
    return hn_status_annotate(load_file(arena, path, type, out), "'%s'", path);
}

/* The dtype of a file's elements, of those that have one. */
static hn_dtype dtype_of(const char *descr) {
    hn_dtype t = HN_DTYPE_F64;
    while (strcmp(hn_dtype_facts(t)->npy_descr, descr) != 0) t++;
    return t;
}

hn_status tool_npy_load(hn_arena *arena, const char *path, hn_ref_tensor *out) {
    hn_file_map map;
    hn_npy npy;
    void *bytes = NULL;
    HN_TRY(hn_file_map_init(&map, path));
    hn_status status = hn_npy_parse(map.data, map.size_bytes, &npy);
    if (!status && npy.rank > HN_MAX_RANK)
        status = HN_ERROR(HN_INVALID_ARGUMENT, "has %u dimensions", npy.rank);
    if (!status) status = hn_arena_array(arena, npy.numel + 1, npy.elem_bytes, &bytes);
    if (!status) {
        hn_npy_copy(&npy, bytes);
        status =
            hn_ref_tensor_load(arena, dtype_of(npy.descr), npy.rank, npy.sizes, NULL, bytes, out);
    }
    hn_file_map_deinit(&map);
    return hn_status_annotate(status, "'%s'", path);
}

static bool same_shape(const hn_ref_tensor *a, const hn_ref_tensor *b) {
    return a->rank == b->rank && memcmp(a->sizes, b->sizes, a->rank * sizeof *a->sizes) == 0;
}

void tool_difference_add(tool_difference *d, double got, double want, int64_t at) {
    double abs = fabs(got - want);
    if (got == want || (isnan(got) && isnan(want))) abs = 0;
    if (isnan(abs)) abs = INFINITY;
    bool fits = abs <= (isfinite(want) ? d->atol + d->rtol * fabs(want) : 0);
    if (!fits && d->count++ == 0) d->first = at, d->got = got, d->want = want;
    if (abs > d->abs) d->abs = abs;
    if (abs > 0 && want != 0 && !isnan(want) && abs / fabs(want) > d->rel)
        d->rel = abs / fabs(want);
}

static void compare_all(const hn_ref_tensor *got, const hn_ref_tensor *want, tool_difference *d) {
    bool floats = hn_dtype_is_float(got->dtype);
    for (int64_t k = 0; k < got->numel; k++) {
        if (floats) {
            tool_difference_add(d, got->data.f[k], want->data.f[k], k);
        } else if (got->data.i[k] != want->data.i[k]) {
            /* 64-bit integers differ also where doubles cannot tell */
            double g = (double)got->data.i[k], w = (double)want->data.i[k];
            tool_difference_add(d, g == w ? nextafter(w, INFINITY) : g, w, k);
        }
    }
    d->same = d->count == 0;
}

hn_status tool_tensor_compare(const hn_tensor *tensor, const char *path, double rtol, double atol,
                              tool_difference *out) {
    const hn_dtype_info *facts = hn_dtype_facts((hn_dtype)hn_tensor_type(tensor));
    hn_arena arena;
    hn_ref_tensor got, want;
    *out = (tool_difference){.rtol = rtol < 0 ? facts->rtol : rtol,
                             .atol = atol < 0 ? facts->atol : atol};
    hn_arena_init(&arena);
    hn_status status = load_tensor(&arena, tensor, &got);
    if (!status) status = load_file(&arena, path, hn_tensor_type(tensor), &want);
    if (!status && !same_shape(&got, &want)) {
        hn_strbuf shape;
        hn_strbuf_init(&shape);
        for (uint32_t k = 0; k < want.rank; k++)
            hn_strbuf_printf(&shape, "%s%lld", k ? ", " : "", (long long)want.sizes[k]);
        hn_strbuf_puts(&shape, "], the output [");
        for (uint32_t k = 0; k < got.rank; k++)
            hn_strbuf_printf(&shape, "%s%lld", k ? ", " : "", (long long)got.sizes[k]);
        status = HN_ERROR(HN_INVALID_ARGUMENT, "has the shape [%s]", shape.ptr ? shape.ptr : "");
        hn_strbuf_deinit(&shape);
    }
    if (!status) compare_all(&got, &want, out);
    hn_arena_deinit(&arena);
    return status ? hn_status_annotate(status, "'%s'", path) : NULL;
}

/* --- describing --- */

void tool_shape_print(const hn_tensor *tensor, hn_strbuf *out) {
    hn_strbuf_putc(out, '[');
    for (uint32_t d = 0; d < hn_tensor_rank(tensor); d++)
        hn_strbuf_printf(out, "%s%lld", d ? ", " : "", (long long)hn_tensor_sizes(tensor)[d]);
    hn_strbuf_putc(out, ']');
}

static void print_floats(const hn_ref_tensor *t, hn_strbuf *out) {
    double lo = INFINITY, hi = -INFINITY, sum = 0;
    int64_t odd = 0;
    for (int64_t k = 0; k < t->numel; k++) {
        if (!isfinite(t->data.f[k])) {
            odd++;
            continue;
        }
        lo = fmin(lo, t->data.f[k]);
        hi = fmax(hi, t->data.f[k]);
        sum += t->data.f[k];
    }
    if (odd < t->numel)
        hn_strbuf_printf(out, "  min %.6g  max %.6g  mean %.6g", lo, hi,
                         sum / (double)(t->numel - odd));
    if (odd) hn_strbuf_printf(out, "  NaN or infinite %lld", (long long)odd);
}

static void print_first(const hn_ref_tensor *t, hn_strbuf *out) {
    int64_t shown = t->numel < 4 ? t->numel : 4;
    hn_strbuf_puts(out, "  first");
    for (int64_t k = 0; k < shown; k++) {
        if (hn_dtype_is_float(t->dtype)) hn_strbuf_printf(out, " %.6g", t->data.f[k]);
        else hn_strbuf_printf(out, " %lld", (long long)t->data.i[k]);
    }
}

void tool_tensor_summary(const hn_tensor *tensor, hn_strbuf *out) {
    hn_arena arena;
    hn_ref_tensor t;
    hn_strbuf_puts(out, hn_scalar_type_name(hn_tensor_type(tensor)));
    tool_shape_print(tensor, out);
    hn_arena_init(&arena);
    hn_status status = load_tensor(&arena, tensor, &t);
    if (!status && t.numel > 0) {
        if (hn_dtype_is_float(t.dtype) && t.numel > 1) print_floats(&t, out);
        print_first(&t, out);
    }
    hn_status_free(status); /* a summary is a courtesy */
    hn_arena_deinit(&arena);
}
