/* test_others.c: kernels of operations that no library has (codegen/cuda: sort.c, select.c,
 * combine.c, grouped.cu), run on the CPU (tests/support/cuda_on_cpu.c), bit for bit against those of the CPU
 * (src/ops): rows around powers of two, around what a group has room for, and longer; ties, NaNs,
 * zeros of both signs; sizes that are known in the run only. */
#include "base/compiler.h"
#include "henry/tensor.h"
#include "opencl/fixture.h"
#include "ops/cpu/ext.h"

#include <math.h>

enum {
    OPERANDS = 5,
    GUARD = 64 /* bytes behind each result */,
    PARAMS_MAX = HN_NONZERO_PARAM_COUNT
};

/* A call with operands of these dtypes and numbers of elements, the written ones first. */
typedef struct operation {
    hn_extern_kind kind;
    uint32_t operand_count, written, param_count;
    hn_dtype dtypes[OPERANDS];
    int64_t elems[OPERANDS];
    int64_t params[PARAMS_MAX];
    bool is_dynamic[PARAMS_MAX]; /* of which sizes the compiler knows nothing */
    bool fails;
} operation;

static size_t bytes_of(const operation *o, uint32_t k) {
    return (size_t)o->elems[k] * hn_dtype_facts(o->dtypes[k])->size_bytes;
}

/* ---- both ways ---- */

static void run_on_cpu(const operation *o, void *const *memory) {
    hn_ext_call call = {
        .kind = o->kind, .params = o->params, .param_count = o->param_count, .threads = 1};
    EXPECT_OK(hn_ext_shared_create(&call.shared));
    for (uint32_t k = 0; k < o->operand_count; k++)
        call.dtypes[k] = (uint8_t)o->dtypes[k], call.operands[k] = memory[k];
    EXPECT_OK(hn_ext_prepare(&call));
    void *scratch = aligned_alloc(64, (call.scratch_bytes + 64) / 64 * 64);
    hn_status status = hn_ext_run(&call, call.scratch_bytes ? scratch : NULL);
    EXPECT((status != NULL) == o->fails);
    hn_status_free(status);
    free(scratch);
    hn_ext_release(&call);
    hn_ext_shared_destroy(call.shared);
}

typedef struct symbols {
    hn_expr names[PARAMS_MAX];
    int64_t values[PARAMS_MAX];
    uint32_t count;
} symbols;

static hn_extern call_of(const operation *o, fixture *x, void *const *memory, symbols *s) {
    hn_extern call = {
        .kind = o->kind, .operand_count = o->operand_count, .param_count = o->param_count};
    for (uint32_t k = 0; k < o->param_count; k++) {
        call.params[k] = num(x, o->params[k]);
        if (!o->is_dynamic[k]) continue;
        char name[8];
        snprintf(name, sizeof name, "s%u", k);
        call.params[k] = s->names[s->count] =
            hn_sym_symbol(x->sym, hn_str_of(name), HN_SYMBOL_SIZE, 0, HN_SYM_MAX);
        s->values[s->count++] = o->params[k];
    }
    for (uint32_t k = 0; k < o->operand_count; k++) {
        if (o->dtypes[k] == HN_DTYPE_NONE) continue; /* absent */
        call.operands[k].written = k < o->written;
        call.operands[k].buffer = add_input(x, o->dtypes[k], o->elems[k], memory[k]);
    }
    return call;
}

static hn_status run_all(fixture *x, const hn_kernel_code *first, const symbols *s) {
    const hn_kernel_code *unique[64];
    uint32_t count = 0;
    opencl_program *program = NULL;
    int64_t bytes = 0;
    const kernel_env env = {.program = x->program,
                            .buffers = x->memory,
                            .symbols = s->names,
                            .values = s->values,
                            .symbol_count = s->count};
    for (const hn_kernel_code *code = first; code; code = code->next) {
        uint32_t k = 0;
        while (k < count && strcmp(unique[k]->name, code->name) != 0) k++;
        if (k == count) unique[count++] = code;
    }
    if (first->workspace_bytes)
        EXPECT(hn_sym_eval(x->sym, first->workspace_bytes, s->names, s->values, s->count, &bytes));
    x->memory[0] = (kernel_memory){malloc((size_t)bytes + GUARD), (size_t)bytes};
    memset(x->memory[0].bytes, 0xa5, (size_t)bytes + GUARD);
    hn_status status = kernel_build(host, unique, count, &program);
    for (const hn_kernel_code *code = first; code && !status; code = code->next)
        status = kernel_run(program, code, &env);
    for (int64_t k = 0; k < GUARD; k++)
        EXPECT_INT(((const uint8_t *)x->memory[0].bytes)[bytes + k], 0xa5);
    opencl_program_free(program);
    free(x->memory[0].bytes);
    return status;
}

static hn_status run_kernels(const operation *o, void *const *memory, uint32_t *out_count) {
    hn_target target;
    hn_kernel_code first = {.threads = 0};
    symbols s = {.count = 0};
    fixture x;
    EXPECT_OK(fixture_init(&x));
    EXPECT_OK(kernel_target(&target));
    const hn_extern call = call_of(o, &x, memory, &s);
    EXPECT(hn_operation_of(target.kind->limits->operations, x.program, &call));
    EXPECT_OK(target.kind->operation(x.program, &call, &x.arena, &first));
    EXPECT(first.text.ptr);
    *out_count = 0;
    for (const hn_kernel_code *code = &first; code; code = code->next) ++*out_count;
    hn_status status = run_all(&x, &first, &s);
    fixture_deinit(&x);
    return status;
}

/* `inputs`: the bytes of the operands that are read. Returns how many kernels there are. */
static uint32_t check(const operation *o, const void *const *inputs) {
    void *expected[OPERANDS], *got[OPERANDS];
    uint32_t count;
    for (uint32_t k = 0; k < o->operand_count; k++) {
        expected[k] = malloc(bytes_of(o, k) + GUARD);
        got[k] = malloc(bytes_of(o, k) + GUARD);
        memset(expected[k], 0x5a, bytes_of(o, k) + GUARD);
        if (k >= o->written && bytes_of(o, k))
            memcpy(expected[k], inputs[k - o->written], bytes_of(o, k));
        memcpy(got[k], expected[k], bytes_of(o, k) + GUARD);
    }
    run_on_cpu(o, expected);
    hn_status status = run_kernels(o, got, &count);
    EXPECT_INT(hn_status_code(status), o->fails ? HN_INVALID_ARGUMENT : HN_OK);
    if (status && !o->fails) fprintf(stderr, "%s\n", hn_status_message(status));
    hn_status_free(status);
    for (uint32_t k = 0; k < o->operand_count; k++) {
        if (!o->fails) EXPECT(memcmp(expected[k], got[k], bytes_of(o, k) + GUARD) == 0);
        free(expected[k]);
        free(got[k]);
    }
    return count;
}

static uint64_t next_word(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 32 ^ *state << 32;
}

/* ---- sort and top-k ---- */

/* Any bits, NaNs of many kinds among them, and many equal ones: zeros of both signs, infinities,
 * small numbers. */
static void *make_elements(hn_dtype dtype, int64_t count) {
    const uint32_t size = hn_dtype_facts(dtype)->size_bytes;
    const uint64_t sign = (uint64_t)1 << (8 * size - 1);
    const uint64_t infinity = dtype == HN_DTYPE_F64    ? 0x7ff0000000000000u
                              : dtype == HN_DTYPE_F32  ? 0x7f800000u
                              : dtype == HN_DTYPE_F16  ? 0x7c00u
                              : dtype == HN_DTYPE_BF16 ? 0x7f80u
                                                       : sign - 1;
    uint8_t *out = malloc((size_t)(count + 1) * size);
    uint64_t state = (uint64_t)dtype;
    for (int64_t k = 0; k < count; k++) {
        const uint64_t choice = next_word(&state) % 8, word = next_word(&state);
        uint64_t bits = choice < 3    ? word
                        : choice == 3 ? word & sign
                        : choice == 4 ? infinity | (word & sign)
                                      : (word & sign) | (word >> 8 & 7);
        if (dtype == HN_DTYPE_BOOL) bits &= 1;
        memcpy(out + k * size, &bits, size);
    }
    return out;
}

static operation sorting(hn_dtype dtype, int64_t outer, int64_t n, int64_t inner, int64_t k,
                         bool descending) {
    return (operation){.kind = k == n ? HN_EXTERN_SORT : HN_EXTERN_TOPK,
                       .operand_count = 3,
                       .written = 2,
                       .param_count = HN_SORT_PARAM_COUNT,
                       .dtypes = {dtype, HN_DTYPE_I64, dtype},
                       .elems = {outer * k * inner, outer * k * inner, outer * n * inner},
                       .params = {outer, n, inner, k, descending, 1}};
}

static uint32_t check_sort(hn_dtype dtype, int64_t outer, int64_t n, int64_t inner, int64_t k,
                           bool descending, bool is_dynamic) {
    operation o = sorting(dtype, outer, n, inner, k, descending);
    void *x = make_elements(dtype, o.elems[2]);
    o.is_dynamic[HN_SORT_N] = o.is_dynamic[HN_SORT_OUTER] = is_dynamic;
    o.is_dynamic[HN_SORT_K] = is_dynamic && k == n;
    const uint32_t count = check(&o, (const void *const[]){x});
    free(x);
    return count;
}

static const hn_dtype dtypes[] = {HN_DTYPE_F64, HN_DTYPE_F32, HN_DTYPE_F16, HN_DTYPE_BF16,
                                  HN_DTYPE_I64, HN_DTYPE_I32, HN_DTYPE_I16, HN_DTYPE_I8,
                                  HN_DTYPE_U8,  HN_DTYPE_BOOL};

TEST(rows_that_fit_a_group) {
    static const int64_t sizes[] = {1,   2,   3,   5,    9,    31,   64,  65,
                                    127, 129, 300, 1000, 1025, 4095, 4096};
    for (size_t k = 0; k < HN_COUNT_OF(sizes); k++) {
        EXPECT_INT(check_sort(HN_DTYPE_F32, 3, sizes[k], 1, sizes[k], k % 2, false), 1);
        EXPECT_INT(check_sort(HN_DTYPE_F32, 2, sizes[k], 3, sizes[k], k % 2 == 0, false), 1);
    }
    EXPECT_INT(check_sort(HN_DTYPE_F32, 700, 13, 3, 13, false, false), 1); /* several groups */
    EXPECT_INT(check_sort(HN_DTYPE_F32, 700, 13, 1, 13, true, false), 1);
    EXPECT_INT(check_sort(HN_DTYPE_BF16, 33, 256, 1, 50, true, false), 1);
    EXPECT_INT(check_sort(HN_DTYPE_F32, 0, 13, 3, 13, false, false), 1);
    EXPECT_INT(check_sort(HN_DTYPE_F32, 0, 13, 1, 13, false, false), 1);
    EXPECT_INT(check_sort(HN_DTYPE_F32, 7, 13, 1, 0, false, false), 1);
    EXPECT_INT(check_sort(HN_DTYPE_F32, 2, 0, 3, 0, false, false), 1);
}

TEST(every_dtype) {
    for (size_t d = 0; d < HN_COUNT_OF(dtypes); d++) {
        const uint32_t digits = hn_dtype_facts(dtypes[d])->size_bytes;
        EXPECT_INT(check_sort(dtypes[d], 2, 333, 1, 333, d % 2, false), 1);
        EXPECT_INT(check_sort(dtypes[d], 2, 4099, 1, 4099, d % 2 == 0, false), 3 * digits);
        EXPECT_INT(check_sort(dtypes[d], 2, 4099, 1, 20, d % 2, false), 1);
    }
}

TEST(long_rows) {
    static const int64_t sizes[] = {4097, 8192, 40009};
    for (size_t k = 0; k < HN_COUNT_OF(sizes); k++)
        EXPECT_INT(
            check_sort(HN_DTYPE_F32, 1 + (int64_t)k % 2, sizes[k], 1, sizes[k], k % 2, false), 12);
    EXPECT_INT(check_sort(HN_DTYPE_I16, 2, 5000, 3, 5000, true, false), 6);
}

TEST(the_first_of_long_rows) {
    static const int64_t wanted[] = {0, 1, 2, 37, 2047, 2048};
    for (size_t k = 0; k < HN_COUNT_OF(wanted); k++)
        EXPECT_INT(check_sort(HN_DTYPE_F32, 2, 9001, 1, wanted[k], k % 2, false), 1);
    EXPECT_INT(check_sort(HN_DTYPE_BF16, 2, 5003, 3, 100, true, false), 1);
    EXPECT_INT(check_sort(HN_DTYPE_BOOL, 1, 40001, 1, 900, false, false), 1); /* places decide */
    EXPECT_INT(check_sort(HN_DTYPE_F32, 2, 9001, 1, 2049, true, false), 12);
}

TEST(the_first_of_few_long_rows) {
    static const int64_t sizes[] = {65536, 65537, 70000};
    for (size_t k = 0; k < HN_COUNT_OF(sizes); k++) {
        EXPECT_INT(check_sort(HN_DTYPE_F32, 1, sizes[k], 1, 50, k % 2, false), 2);
        EXPECT_INT(check_sort(HN_DTYPE_F64, 1, sizes[k], 2, 3, k % 2 == 0, false), 2);
    }
    EXPECT_INT(check_sort(HN_DTYPE_BOOL, 2, 65600, 1, 2048, true, false), 2);
    EXPECT_INT(check_sort(HN_DTYPE_F32, 1, 70000, 1, 0, true, false), 2);
}

TEST(sizes_of_the_run) {
    static const int64_t sizes[] = {0, 1, 100, 4096, 4097, 9000};
    for (size_t k = 0; k < HN_COUNT_OF(sizes); k++) {
        EXPECT_INT(check_sort(HN_DTYPE_F16, 3, sizes[k], 1, sizes[k], k % 2, true), 7);
        if (sizes[k] > 5) EXPECT_INT(check_sort(HN_DTYPE_F16, 3, sizes[k], 2, 5, k % 2, true), 2);
    }
}

/* ---- nonzero ---- */

static void check_nonzero(const int64_t *sizes, int64_t rank, uint32_t every, int64_t more) {
    operation o = {.kind = HN_EXTERN_NONZERO,
                   .operand_count = 2,
                   .written = 1,
                   .param_count = HN_NONZERO_PARAM_COUNT,
                   .dtypes = {HN_DTYPE_I64, HN_DTYPE_BOOL},
                   .elems = {0, 1},
                   .fails = more != 0};
    uint64_t state = 3;
    int64_t count = 0;
    for (int64_t d = 0; d < HN_NONZERO_RANK_MAX; d++)
        o.params[HN_NONZERO_SIZES + d] = d < rank ? sizes[d] : 1;
    for (int64_t d = 0; d < rank; d++) o.elems[1] *= sizes[d];
    uint8_t *x = malloc((size_t)o.elems[1] + 1);
    for (int64_t k = 0; k < o.elems[1]; k++)
        count += x[k] = every && next_word(&state) % every == 0;
    o.params[HN_NONZERO_RANK] = rank;
    o.params[HN_NONZERO_COUNT] = count + more;
    o.elems[0] = (count + more) * rank;
    o.is_dynamic[HN_NONZERO_COUNT] = o.is_dynamic[HN_NONZERO_SIZES] = true;
    check(&o, (const void *const[]){x});
    free(x);
}

TEST(true_elements) {
    check_nonzero(NULL, 0, 1, 0);
    check_nonzero(NULL, 0, 0, 0);
    check_nonzero((const int64_t[]){0}, 1, 1, 0);
    check_nonzero((const int64_t[]){3, 0, 2}, 3, 1, 0);
    check_nonzero((const int64_t[]){1}, 1, 1, 0);
    check_nonzero((const int64_t[]){4096}, 1, 1, 0);
    check_nonzero((const int64_t[]){4097}, 1, 3, 0);
    check_nonzero((const int64_t[]){7, 11, 13, 17}, 4, 2, 0);
    check_nonzero((const int64_t[]){5, 6007}, 2, 100, 0);
    check_nonzero((const int64_t[]){5, 6007}, 2, 0, 0);
}

TEST(another_number_of_true_elements_fails) {
    check_nonzero((const int64_t[]){50, 60}, 2, 3, 1);
    check_nonzero((const int64_t[]){50, 60}, 2, 3, -1);
}

/* ---- boxes ---- */

#define CHECK_NMS(type, dtype_, count, threshold_, spread)                                         \
    do {                                                                                           \
        operation o = {.kind = HN_EXTERN_NMS,                                                      \
                       .operand_count = 2,                                                         \
                       .written = 1,                                                               \
                       .param_count = HN_NMS_PARAM_COUNT,                                          \
                       .dtypes = {HN_DTYPE_BOOL, dtype_},                                          \
                       .elems = {count, 4 * (count)},                                              \
                       .params = {count},                                                          \
                       .is_dynamic = {true}};                                                      \
        const double threshold = threshold_;                                                       \
        uint64_t state = 9;                                                                        \
        type *boxes = malloc(sizeof *boxes * (4 * (count) + 1));                                   \
        memcpy(&o.params[HN_NMS_THRESHOLD], &threshold, sizeof threshold);                         \
        for (int64_t e = 0; e < 2 * (count); e++) {                                                \
            const int64_t at = e / 2 * 4 + e % 2;                                                  \
            boxes[at] = (type)(next_word(&state) % (spread)) / 3;                                  \
            boxes[at + 2] = boxes[at] + (type)(next_word(&state) % 30) / 7;                        \
        }                                                                                          \
        if ((count) > 5) boxes[9] = (type)NAN, boxes[18] = (type)INFINITY;                         \
        check(&o, (const void *const[]){boxes});                                                   \
        free(boxes);                                                                               \
    } while (0)

TEST(boxes_that_overlap) {
    static const int64_t counts[] = {0, 1, 2, 63, 64, 65, 130, 500};
    for (size_t k = 0; k < HN_COUNT_OF(counts); k++) {
        CHECK_NMS(float, HN_DTYPE_F32, counts[k], 0.3, 30);
        CHECK_NMS(double, HN_DTYPE_F64, counts[k], 0.1, 60);
    }
    CHECK_NMS(float, HN_DTYPE_F32, 200, 0.0, 40);
    CHECK_NMS(float, HN_DTYPE_F32, 200, -1.0, 40);
    CHECK_NMS(float, HN_DTYPE_F32, 200, 0.7, 10);
}

/* ---- combining at sorted places ---- */

/* bf16 is cut off, not rounded. */
static void put_float(hn_dtype dtype, double x, uint8_t *out) {
    const uint32_t size = hn_dtype_facts(dtype)->size_bytes;
    const float f = (float)x;
    const _Float16 h = (_Float16)f;
    if (dtype == HN_DTYPE_F64) memcpy(out, &x, size);
    else if (dtype == HN_DTYPE_F32) memcpy(out, &f, size);
    else if (dtype == HN_DTYPE_F16) memcpy(out, &h, size);
    else memcpy(out, (const uint8_t *)&f + 2, size);
}

/* Numbers of many sizes, so that the order of a sum counts. */
static void *make_floats(hn_dtype dtype, int64_t count) {
    const uint32_t size = hn_dtype_facts(dtype)->size_bytes;
    uint8_t *out = malloc((size_t)(count + 1) * size);
    uint64_t state = 17;
    for (int64_t k = 0; k < count; k++) {
        const uint64_t word = next_word(&state);
        const double x = ldexp((double)(int64_t)(word >> 40) - 0x7ffff8, (int)(word % 9) - 24);
        put_float(dtype, x, out + k * size);
    }
    return out;
}

/* How many values each place gets. */
typedef enum shares { FEW_EACH, ONE_HAS_ALL, MANY_HERE_AND_THERE } shares;

static int64_t place_of(shares how, int64_t j, int64_t n, int64_t places, uint64_t *state) {
    if (how == ONE_HAS_ALL) return places / 2;
    if (how == FEW_EACH) return j * places / n;
    return next_word(state) % 3 ? j * 5 / n * (places / 5)
                                : (int64_t)(next_word(state) % (uint64_t)places);
}

static int ascending(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Without `has_x` the result begins with zeros. */
static void check_combine(hn_dtype dtype, hn_dtype place_dtype, hn_combine_mode mode,
                          int64_t places, int64_t columns, int64_t n, shares how, bool has_x) {
    operation o = {
        .kind = HN_EXTERN_COMBINE_SORTED,
        .operand_count = 5,
        .written = 1,
        .param_count = HN_COMBINE_PARAM_COUNT,
        .dtypes = {dtype, place_dtype, HN_DTYPE_I64, dtype, has_x ? dtype : HN_DTYPE_NONE},
        .elems = {places * columns, n, n, n * columns, places * columns},
        .params = {places, columns, n, mode},
        .is_dynamic = {true, columns != 1, true}};
    int64_t *place = malloc((size_t)(n + 1) * sizeof *place),
            *order = malloc((size_t)(n + 1) * sizeof *order);
    int32_t *narrow = malloc((size_t)(n + 1) * sizeof *narrow);
    uint64_t state = (uint64_t)(places + n);
    for (int64_t j = 0; j < n; j++) place[j] = place_of(how, j, n, places, &state), order[j] = j;
    qsort(place, (size_t)n, sizeof *place, ascending);
    for (int64_t j = 0; j < n; j++) {
        const int64_t other = (int64_t)(next_word(&state) % (uint64_t)n), kept = order[j];
        order[j] = order[other], order[other] = kept;
        narrow[j] = (int32_t)place[j];
    }
    const bool is_float = hn_dtype_is_float(dtype);
    void *x = is_float ? make_floats(dtype, o.elems[4]) : make_elements(dtype, o.elems[4]),
         *values = is_float ? make_floats(dtype, o.elems[3]) : make_elements(dtype, o.elems[3]);
    const void *const sorted = place_dtype == HN_DTYPE_I32 ? (const void *)narrow : place;
    EXPECT_INT(check(&o, (const void *const[]){sorted, order, values, x}), 1);
    free(x), free(values), free(place), free(order), free(narrow);
}

TEST(combining_at_sorted_places) {
    static const int64_t sizes[][2] = {{1, 1},     {1, 64},     {1, 65},     {1, 700},
                                       {0, 0},     {5, 0},      {255, 300},  {256, 256},
                                       {257, 999}, {1000, 100}, {3000, 9000}};
    static const hn_dtype floats[] = {HN_DTYPE_F32, HN_DTYPE_F64, HN_DTYPE_F16, HN_DTYPE_BF16};
    for (size_t k = 0; k < HN_COUNT_OF(sizes); k++)
        check_combine(HN_DTYPE_F32, k % 2 ? HN_DTYPE_I32 : HN_DTYPE_I64, HN_COMBINE_ADD,
                      sizes[k][0], 1, sizes[k][1], (shares)(k % 3), k % 4 != 0);
    check_combine(HN_DTYPE_F32, HN_DTYPE_I32, HN_COMBINE_ADD, 300, 1, 5000, ONE_HAS_ALL, true);
    for (size_t d = 0; d < HN_COUNT_OF(floats); d++)
        for (hn_combine_mode mode = HN_COMBINE_ADD; mode <= HN_COMBINE_MAX; mode++)
            if (d == 0 || (d + mode) % 2)
                check_combine(floats[d], HN_DTYPE_I32, mode, 70, 1, 2000, MANY_HERE_AND_THERE,
                              true);
    for (size_t d = 0; d < HN_COUNT_OF(dtypes); d += 3)
        check_combine(dtypes[d], HN_DTYPE_I32, HN_COMBINE_SET, 70, 1, 2000, MANY_HERE_AND_THERE,
                      d != 3);
}

TEST(combining_rows_at_sorted_places) {
    static const int64_t sizes[][3] = {{1, 1, 31}, {7, 16, 9}, {8, 129, 40}, {9, 128, 0},
                                       {0, 33, 0}, {5, 0, 12}, {50, 300, 17}};
    for (size_t k = 0; k < HN_COUNT_OF(sizes); k++)
        check_combine(k % 2 ? HN_DTYPE_BF16 : HN_DTYPE_F32, k % 2 ? HN_DTYPE_I32 : HN_DTYPE_I64,
                      HN_COMBINE_ADD, sizes[k][0], sizes[k][1] == 1 ? 40 : sizes[k][1], sizes[k][2],
                      (shares)(k % 3), k % 2);
    check_combine(HN_DTYPE_F64, HN_DTYPE_I32, HN_COMBINE_MAX, 20, 70, 200, MANY_HERE_AND_THERE,
                  true);
    /* rows that the warps of a group share */
    check_combine(HN_DTYPE_F32, HN_DTYPE_I32, HN_COMBINE_ADD, 10, 1100, 150, ONE_HAS_ALL, true);
    check_combine(HN_DTYPE_F64, HN_DTYPE_I32, HN_COMBINE_ADD, 20, 150, 900, MANY_HERE_AND_THERE,
                  false);
    check_combine(HN_DTYPE_I16, HN_DTYPE_I32, HN_COMBINE_SET, 20, 70, 200, MANY_HERE_AND_THERE,
                  false);
}

/* ---- products by groups ---- */

/* Whole numbers, of which every sum is one of the dtype. */
static void *make_numbers(hn_dtype dtype, int64_t count) {
    const uint32_t size = hn_dtype_facts(dtype)->size_bytes;
    uint8_t *out = malloc((size_t)(count + 1) * size);
    uint64_t state = 5;
    for (int64_t k = 0; k < count; k++) {
        const double x = (double)(next_word(&state) % 5) - 2;
        put_float(dtype, x, out + k * size);
    }
    return out;
}

static void check_grouped(hn_dtype dtype, int64_t m, int64_t n, int64_t depth, int64_t groups,
                          const int64_t *ends, bool by_columns, bool fails) {
    operation o = {.kind = HN_EXTERN_GROUPED_MATMUL,
                   .operand_count = 4,
                   .written = 1,
                   .param_count = HN_GROUPED_PARAM_COUNT,
                   .dtypes = {dtype, dtype, dtype, HN_DTYPE_I64},
                   .elems = {m * n, m * depth, groups * depth * n, groups},
                   .params = {groups, m, n, depth, by_columns ? 1 : depth, by_columns ? m : 1,
                              depth * n, by_columns ? 1 : n, by_columns ? depth : 1},
                   .is_dynamic = {[HN_GROUPED_M] = true},
                   .fails = fails};
    void *a = make_numbers(dtype, m * depth), *b = make_numbers(dtype, groups * depth * n);
    EXPECT_INT(check(&o, (const void *const[]){a, b, ends}), 1);
    free(a);
    free(b);
}

TEST(groups_of_rows) {
    static const hn_dtype floats[] = {HN_DTYPE_F64, HN_DTYPE_F32, HN_DTYPE_F16, HN_DTYPE_BF16};
    for (size_t d = 0; d < HN_COUNT_OF(floats); d++) {
        const int by_columns = d % 2;
        check_grouped(floats[d], 200, 70, 35, 5, (const int64_t[]){0, 3, 3, 131, 190}, by_columns,
                      false);
        check_grouped(floats[d], 64, 3, 40, 2, (const int64_t[]){64, 64}, !by_columns, false);
    }
    check_grouped(HN_DTYPE_F32, 129, 5, 0, 2, (const int64_t[]){1, 2}, false, false);
    check_grouped(HN_DTYPE_F32, 0, 5, 3, 2, (const int64_t[]){0, 0}, false, false);
    check_grouped(HN_DTYPE_F32, 9, 5, 3, 0, (const int64_t[]){0}, false, false);
}

TEST(ends_that_are_none_fail) {
    check_grouped(HN_DTYPE_F32, 90, 5, 3, 3, (const int64_t[]){90, 5, 90}, false, true);
    check_grouped(HN_DTYPE_BF16, 90, 5, 3, 2, (const int64_t[]){10, 91}, false, true);
    check_grouped(HN_DTYPE_F32, 90, 5, 3, 2, (const int64_t[]){-1, 90}, false, true);
}

int main(int argc, char **argv) { return opencl_test_main(argc, argv); }
