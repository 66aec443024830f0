/* test_forms.c: forms written by hand on OpenCL: copies of every dtype, shared memory and barriers,
 * registers that keep positions, scratch memory, checked indices, stores that combine, random
 * numbers, sizes that are not known. Each against a plain loop. */
#include "opencl/fixture.h"

#include "ir/interp.h"

#include <float.h>

enum { THREADS = 64 };

static void expect_floats(const float *got, const float *want, int64_t count, double tolerance) {
    for (int64_t k = 0; k < count; k++)
        if (!(fabs((double)got[k] - (double)want[k]) <= tolerance)) {
            HN_TEST_FAIL("element %lld is %g, expected %g", (long long)k, (double)got[k],
                         (double)want[k]);
            return;
        }
}

/* ---- memory of every dtype ---- */

static hn_status copy_all(fixture *x, hn_buf in, hn_buf out, int64_t count) {
    hn_form *f;
    hn_expr at;
    HN_TRY(begin_elements(x, THREADS, num(x, count), &f, &at));
    hn_fid value = load(f, hn_form_argument(f, in, 0, false), at);
    hn_form_store(f, hn_form_argument(f, out, 0, true), at, value, HN_STORE_SET);
    HN_TRY(end_elements(f));
    return run_form(x, f);
}

/* All words of 16 bits, cut or repeated to the width. A bool may hold 0 and 1 only; of NaN what
 * counts is that it stays one. */
TEST(a_copy_keeps_every_bit) {
    enum { COUNT = 65536 };
    for (uint32_t d = 1; d < HN_DTYPE_COUNT; d++) {
        fixture x;
        EXPECT_OK(fixture_init(&x));
        hn_dtype dtype = (hn_dtype)d;
        size_t size = hn_dtype_facts(dtype)->size_bytes;
        hn_buf in = add_input(&x, dtype, COUNT, NULL), out = add_output(&x, dtype, COUNT);
        uint8_t *from = x.memory[in].bytes, *to = x.memory[out].bytes;
        for (uint32_t k = 0; k < COUNT; k++)
            for (size_t b = 0; b < size; b++)
                from[k * size + b] = dtype == HN_DTYPE_BOOL ? k & 1 : (uint8_t)(k >> 8 * (b & 1));
        EXPECT_OK(copy_all(&x, in, out, COUNT));
        uint32_t wrong = 0;
        for (uint32_t k = 0; k < COUNT; k++) {
            hn_ref_tensor a, b;
            if (memcmp(from + k * size, to + k * size, size) == 0) continue;
            EXPECT_OK(hn_ref_tensor_load(&x.arena, dtype, 0, NULL, NULL, from + k * size, &a));
            EXPECT_OK(hn_ref_tensor_load(&x.arena, dtype, 0, NULL, NULL, to + k * size, &b));
            wrong += !(hn_dtype_is_float(dtype) && isnan(a.data.f[0]) && isnan(b.data.f[0]));
        }
        if (wrong)
            HN_TEST_FAIL("%u elements of %s are not what they were", wrong,
                         hn_dtype_facts(dtype)->name);
        fixture_deinit(&x);
    }
}

/* ---- groups ---- */

static hn_fmem add_shared(hn_form *f, hn_dtype dtype, int64_t elems) {
    return hn_form_add_memory(f, (hn_form_memory){.space = HN_SPACE_SHARED,
                                                  .dtype = dtype,
                                                  .elems = hn_sym_int(f->sym, elems),
                                                  .is_read = true,
                                                  .is_written = true});
}

/* The threads of a group combine a register over their group's row of `columns`, in a tree over
 * shared memory. `values` and `places` receive each row's result; either may be 0. */
static hn_status reduce_rows(fixture *x, hn_op op, hn_dtype dtype, hn_buf in, hn_buf values,
                             hn_buf places, hn_expr rows, hn_expr columns) {
    hn_form *f;
    HN_TRY(hn_form_create(x->program, &x->arena, THREADS, rows, &f));
    bool keeps = hn_op_keeps_position(op);
    hn_fmem from = hn_form_argument(f, in, 0, false), shared = add_shared(f, dtype, THREADS),
            shared_places = keeps ? add_shared(f, HN_DTYPE_I64, THREADS) : 0;
    hn_freg reg = hn_form_add_register(f, op, dtype);
    hn_expr column = hn_form_symbol(f, columns);
    hn_form_init(f, reg);
    hn_form_for(f, column, f->thread, columns, THREADS);
    hn_fid value = load(f, from, hn_sym_add(x->sym, hn_sym_mul(x->sym, f->group, columns), column));
    hn_form_step(f, reg, value, keeps ? index_value(f, column) : 0);
    hn_form_close(f);
    hn_form_store(f, shared, f->thread, hn_form_result(f, reg, false), HN_STORE_SET);
    if (keeps)
        hn_form_store(f, shared_places, f->thread, hn_form_result(f, reg, true), HN_STORE_SET);
    hn_form_barrier(f);
    for (int64_t half = THREADS / 2; half; half /= 2) {
        hn_expr other = hn_sym_add(x->sym, f->thread, num(x, half));
        hn_form_if(f, f->thread, num(x, half));
        hn_form_step(f, reg, load(f, shared, other), keeps ? load(f, shared_places, other) : 0);
        hn_form_store(f, shared, f->thread, hn_form_result(f, reg, false), HN_STORE_SET);
        if (keeps)
            hn_form_store(f, shared_places, f->thread, hn_form_result(f, reg, true), HN_STORE_SET);
        hn_form_close(f);
        hn_form_barrier(f);
    }
    hn_form_if(f, f->thread, num(x, 1));
    if (values)
        hn_form_store(f, hn_form_argument(f, values, 0, true), f->group, load(f, shared, num(x, 0)),
                      HN_STORE_SET);
    if (places)
        hn_form_store(f, hn_form_argument(f, places, 0, true), f->group,
                      load(f, shared_places, num(x, 0)), HN_STORE_SET);
    hn_form_close(f);
    HN_TRY(hn_form_end(f));
    return run_form(x, f);
}

TEST(threads_add_a_row) {
    enum { ROWS = 37, COLUMNS = 1001 };
    static float in[ROWS * COLUMNS], want[ROWS];
    fixture x;
    EXPECT_OK(fixture_init(&x));
    for (int k = 0; k < ROWS * COLUMNS; k++) {
        in[k] = (float)(k * 7919 % 257) - 128; /* sums are exact */
        want[k / COLUMNS] += in[k];
    }
    hn_buf from = add_input(&x, HN_DTYPE_F32, ROWS * COLUMNS, in),
           to = add_output(&x, HN_DTYPE_F32, ROWS);
    EXPECT_OK(
        reduce_rows(&x, HN_OP_SUM, HN_DTYPE_F32, from, to, 0, num(&x, ROWS), num(&x, COLUMNS)));
    expect_floats(x.memory[to].bytes, want, ROWS, 0);
    fixture_deinit(&x);
}

enum { FEW_ROWS = 4, FEW_COLUMNS = 5, FEW = FEW_ROWS * FEW_COLUMNS };
static const int64_t few_bits[FEW] = {0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 1, 1, 0, 1, 1, 0, 0, 1};
static const int64_t few_least[FEW_ROWS] = {0, 0, 0, 2}, few_most[FEW_ROWS] = {0, 0, 2, 0};

/* Elements are two numbers; of signed dtypes both are below 0. */
static hn_status find_in_few(fixture *x, hn_op op, hn_dtype dtype) {
    const int64_t sizes[] = {FEW}, rows[] = {FEW_ROWS},
                  *want = op == HN_OP_ARGMAX ? few_most : few_least;
    const int64_t less = dtype == HN_DTYPE_BOOL || dtype == HN_DTYPE_U8 ? 0 : 100;
    hn_ref_tensor t, got;
    hn_buf from = add_input(x, dtype, FEW, NULL), values = add_output(x, dtype, FEW_ROWS),
           places = add_output(x, HN_DTYPE_I64, FEW_ROWS);
    HN_TRY(hn_ref_tensor_init(&x->arena, dtype, 1, sizes, &t));
    for (int k = 0; k < FEW; k++) {
        if (hn_dtype_is_float(dtype)) t.data.f[k] = (double)(few_bits[k] - less);
        else t.data.i[k] = few_bits[k] - less;
    }
    hn_ref_tensor_store(&t, x->memory[from].bytes);
    HN_TRY(reduce_rows(x, op, dtype, from, values, places, num(x, FEW_ROWS), num(x, FEW_COLUMNS)));
    HN_TRY(hn_ref_tensor_load(&x->arena, dtype, 1, rows, NULL, x->memory[values].bytes, &got));
    for (int r = 0; r < FEW_ROWS; r++) {
        EXPECT_INT(((int64_t *)x->memory[places].bytes)[r], want[r]);
        EXPECT_INT(hn_dtype_is_float(dtype) ? (int64_t)got.data.f[r] : got.data.i[r],
                   few_bits[r * FEW_COLUMNS + want[r]] - less);
    }
    return NULL;
}

/* What a thread without elements brings must change nothing, also after it went through shared
 * memory of a narrow dtype. */
TEST(threads_find_the_largest_of_few) {
    static const hn_dtype dtypes[] = {HN_DTYPE_BOOL, HN_DTYPE_I8,  HN_DTYPE_U8,
                                      HN_DTYPE_I16,  HN_DTYPE_F16, HN_DTYPE_I64};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (int largest = 0; largest < 2; largest++) {
            fixture x;
            EXPECT_OK(fixture_init(&x));
            EXPECT_OK(find_in_few(&x, largest ? HN_OP_ARGMAX : HN_OP_ARGMIN, dtypes[d]));
            fixture_deinit(&x);
        }
}

TEST(nan_is_the_largest_and_the_first_one_wins) {
    enum { COLUMNS = 200 };
    static float in[COLUMNS];
    fixture x;
    EXPECT_OK(fixture_init(&x));
    for (int k = 0; k < COLUMNS; k++) in[k] = (float)(k % 17);
    in[150] = NAN, in[73] = NAN, in[20] = INFINITY;
    hn_buf from = add_input(&x, HN_DTYPE_F32, COLUMNS, in), place = add_output(&x, HN_DTYPE_I64, 1),
           value = add_output(&x, HN_DTYPE_F32, 1);
    EXPECT_OK(reduce_rows(&x, HN_OP_ARGMAX, HN_DTYPE_F32, from, value, place, num(&x, 1),
                          num(&x, COLUMNS)));
    EXPECT_INT(*(int64_t *)x.memory[place].bytes, 73);
    EXPECT(isnan(*(float *)x.memory[value].bytes));
    fixture_deinit(&x);
}

/* ---- one thread: scans, stores that combine ---- */

/* Every register of a scan, step by step: values and positions against loops of the host. */
static hn_status scan(fixture *x, hn_op op, hn_dtype dtype, hn_buf in, hn_buf values, hn_buf places,
                      int64_t count) {
    hn_form *f;
    HN_TRY(hn_form_create(x->program, &x->arena, 1, num(x, 1), &f));
    hn_freg reg = hn_form_add_register(f, op, dtype);
    hn_expr at = hn_form_symbol(f, num(x, count));
    hn_form_init(f, reg);
    hn_form_for(f, at, num(x, 0), num(x, count), 1);
    hn_fid value = load(f, hn_form_argument(f, in, 0, false), at);
    hn_form_step(f, reg, value, hn_op_keeps_position(op) ? index_value(f, at) : 0);
    hn_form_store(f, hn_form_argument(f, values, 0, true), at, hn_form_result(f, reg, false),
                  HN_STORE_SET);
    if (places)
        hn_form_store(f, hn_form_argument(f, places, 0, true), at, hn_form_result(f, reg, true),
                      HN_STORE_SET);
    hn_form_close(f);
    HN_TRY(hn_form_end(f));
    return run_form(x, f);
}

TEST(scans) {
    static float in[] = {1, -2, 3, 3, NAN, 2, NAN, 5};
    enum { COUNT = sizeof in / sizeof *in };
    static const struct {
        hn_op op;
        float values[COUNT];
        int64_t places[COUNT];
    } rows[] = {
        {HN_OP_CUMSUM, {1, -1, 2, 5, NAN, NAN, NAN, NAN}, {-1}},
        {HN_OP_CUMPROD, {1, -2, -6, -18, NAN, NAN, NAN, NAN}, {-1}},
        {HN_OP_CUMMAX, {1, 1, 3, 3, NAN, NAN, NAN, NAN}, {0, 0, 2, 3, 4, 4, 6, 6}},
        {HN_OP_CUMMIN, {1, -2, -2, -2, NAN, NAN, NAN, NAN}, {0, 1, 1, 1, 4, 4, 6, 6}},
        {HN_OP_LOGCUMSUMEXP, {1, 1.0485873f, 3.1328452f, 3.7617741f, NAN, NAN, NAN, NAN}, {-1}},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        fixture x;
        EXPECT_OK(fixture_init(&x));
        bool keeps = hn_op_keeps_position(rows[r].op);
        hn_buf from = add_input(&x, HN_DTYPE_F32, COUNT, in),
               values = add_output(&x, HN_DTYPE_F32, COUNT),
               places = add_output(&x, HN_DTYPE_I64, COUNT);
        EXPECT_OK(scan(&x, rows[r].op, HN_DTYPE_F32, from, values, keeps ? places : 0, COUNT));
        for (int k = 0; k < COUNT; k++) {
            float got = ((float *)x.memory[values].bytes)[k], want = rows[r].values[k];
            EXPECT(isnan(want) ? isnan(got) : fabsf(got - want) <= 2e-7f * fabsf(want));
            if (keeps) EXPECT_INT(((int64_t *)x.memory[places].bytes)[k], rows[r].places[k]);
        }
        fixture_deinit(&x);
    }
}

/* One element takes 3 and then each of 100, -30 and 30 by `mode`, in a narrow dtype that wraps. */
static int64_t combine(hn_store_mode mode) {
    static int8_t in[] = {3, 100, -30, 30};
    fixture x;
    hn_form *f;
    EXPECT_OK(fixture_init(&x));
    hn_buf from = add_input(&x, HN_DTYPE_I8, 4, in), to = add_output(&x, HN_DTYPE_I8, 1);
    EXPECT_OK(hn_form_create(x.program, &x.arena, 1, num(&x, 1), &f));
    hn_fmem source = hn_form_argument(f, from, 0, false), target = hn_form_argument(f, to, 0, true);
    hn_form_store(f, target, num(&x, 0), load(f, source, num(&x, 0)), HN_STORE_SET);
    hn_expr at = hn_form_symbol(f, num(&x, 4));
    hn_form_for(f, at, num(&x, 1), num(&x, 4), 1);
    hn_form_store(f, target, num(&x, 0), load(f, source, at), mode);
    hn_form_close(f);
    EXPECT_OK(hn_form_end(f));
    EXPECT_OK(run_form(&x, f));
    int64_t result = *(int8_t *)x.memory[to].bytes;
    fixture_deinit(&x);
    return result;
}

TEST(stores_that_combine) {
    EXPECT_INT(combine(HN_STORE_SET), 30);
    EXPECT_INT(combine(HN_STORE_ADD), 103);
    EXPECT_INT(combine(HN_STORE_MUL), (int8_t)(3 * 100 * -30 * 30));
    EXPECT_INT(combine(HN_STORE_MIN), -30);
    EXPECT_INT(combine(HN_STORE_MAX), 100);
}

/* ---- indices ---- */

/* to[k] = from[index[k]], negative ones from the end when `wraps`. */
static hn_status gather(fixture *x, hn_buf from, int64_t extent, hn_buf index, hn_buf to,
                        int64_t count, bool wraps) {
    hn_form *f;
    hn_expr at, t = hn_sym_indirect(x->sym, num(x, extent));
    HN_TRY(begin_elements(x, THREADS, num(x, count), &f, &at));
    hn_fid i = load(f, hn_form_argument(f, index, 0, false), at);
    hn_form_value(f, (hn_sop){.kind = HN_SOP_INDIRECT,
                              .dtype = HN_DTYPE_I64,
                              .args = {i},
                              .index = t,
                              .imm.i = wraps});
    hn_form_store(f, hn_form_argument(f, to, 0, true), at,
                  load(f, hn_form_argument(f, from, 0, false), t), HN_STORE_SET);
    HN_TRY(end_elements(f));
    return run_form(x, f);
}

TEST(indices_are_checked) {
    static float table[] = {10, 11, 12, 13};
    static int64_t good[] = {3, 0, 2, 1}, negative[] = {-1, 0, -4, 1}, bad[] = {0, 4, 1, 1};
    static const float picked[] = {13, 10, 12, 11}, wrapped[] = {13, 10, 10, 11};
    fixture x;
    EXPECT_OK(fixture_init(&x));
    hn_buf from = add_input(&x, HN_DTYPE_F32, 4, table), to = add_output(&x, HN_DTYPE_F32, 4);
    hn_buf a = add_input(&x, HN_DTYPE_I64, 4, good), b = add_input(&x, HN_DTYPE_I64, 4, negative),
           c = add_input(&x, HN_DTYPE_I64, 4, bad);
    EXPECT_OK(gather(&x, from, 4, a, to, 4, false));
    expect_floats(x.memory[to].bytes, picked, 4, 0);
    EXPECT_OK(gather(&x, from, 4, b, to, 4, true));
    expect_floats(x.memory[to].bytes, wrapped, 4, 0);
    EXPECT_ERROR(gather(&x, from, 4, b, to, 4, false), HN_INVALID_ARGUMENT,
                 "an index is out of bounds");
    EXPECT_ERROR(gather(&x, from, 4, c, to, 4, true), HN_INVALID_ARGUMENT,
                 "an index is out of bounds");
    EXPECT(((float *)x.memory[to].bytes)[1] == 10); /* in place of what is outside */
    fixture_deinit(&x);
}

/* Floor division and modulo of what may be negative, minimum and maximum: to[k] of k - 20. */
TEST(index_arithmetic) {
    enum { COUNT = 41 };
    fixture x;
    hn_form *f;
    hn_expr at = 0;
    EXPECT_OK(fixture_init(&x));
    hn_buf to = add_output(&x, HN_DTYPE_I64, 4 * COUNT);
    EXPECT_OK(begin_elements(&x, THREADS, num(&x, COUNT), &f, &at));
    hn_expr k = hn_sym_sub(x.sym, at, num(&x, 20)),
            parts[] = {hn_sym_floordiv(x.sym, k, num(&x, 7)), hn_sym_mod(x.sym, k, num(&x, 7)),
                       hn_sym_min(x.sym, k, num(&x, -3)), hn_sym_max(x.sym, k, num(&x, 5))};
    for (int p = 0; p < 4; p++)
        hn_form_store(f, hn_form_argument(f, to, 0, true),
                      hn_sym_add(x.sym, at, num(&x, p * COUNT)), index_value(f, parts[p]),
                      HN_STORE_SET);
    EXPECT_OK(end_elements(f));
    EXPECT_OK(run_form(&x, f));
    const int64_t *got = x.memory[to].bytes;
    for (int64_t n = 0; n < COUNT; n++) {
        int64_t v = n - 20, down = (v - (v % 7 + 7) % 7) / 7;
        EXPECT_INT(got[n], down);
        EXPECT_INT(got[COUNT + n], v - 7 * down);
        EXPECT_INT(got[2 * COUNT + n], v < -3 ? v : -3);
        EXPECT_INT(got[3 * COUNT + n], v > 5 ? v : 5);
    }
    fixture_deinit(&x);
}

/* ---- sizes and scratch memory ---- */

/* Each group reverses its row of `s0` elements by way of scratch memory, which depends on that
 * size. */
static hn_status reverse_rows(fixture *x, hn_buf in, hn_buf out, hn_expr rows, hn_expr columns,
                              const kernel_env *env) {
    hn_form *f;
    HN_TRY(hn_form_create(x->program, &x->arena, THREADS, rows, &f));
    hn_form_memory scratch = {.space = HN_SPACE_SCRATCH,
                              .dtype = HN_DTYPE_F16,
                              .elems = columns,
                              .is_read = true,
                              .is_written = true};
    hn_fmem first = hn_form_add_memory(f, scratch), second = hn_form_add_memory(f, scratch);
    hn_fmem from = hn_form_argument(f, in, 0, false), to = hn_form_argument(f, out, 0, true);
    hn_expr begin = hn_sym_mul(x->sym, f->group, columns),
            last = hn_sym_sub(x->sym, columns, num(x, 1));
    hn_expr a = hn_form_symbol(f, columns), b = hn_form_symbol(f, columns);
    hn_form_for(f, a, f->thread, columns, THREADS);
    hn_fid value = load(f, from, hn_sym_add(x->sym, begin, a));
    hn_form_store(f, first, a, value, HN_STORE_SET);
    hn_form_store(f, second, a, elem(f, HN_OP_ADD, HN_DTYPE_F16, value, value, 0), HN_STORE_SET);
    hn_form_close(f);
    hn_form_barrier(f);
    hn_form_for(f, b, f->thread, columns, THREADS);
    hn_expr mirrored = hn_sym_sub(x->sym, last, b);
    hn_fid sum =
        elem(f, HN_OP_ADD, HN_DTYPE_F16, load(f, first, mirrored), load(f, second, mirrored), 0);
    hn_form_store(f, to, hn_sym_add(x->sym, begin, b), sum, HN_STORE_SET);
    hn_form_close(f);
    HN_TRY(hn_form_end(f));
    return kernel_run_form(host, f, env);
}

TEST(scratch_memory_of_a_group) {
    enum { ROWS = 5, COLUMNS = 101 };
    fixture x;
    EXPECT_OK(fixture_init(&x));
    hn_expr rows = hn_sym_symbol(x.sym, HN_STR("s0"), HN_SYMBOL_SIZE, 1, 1000),
            columns = hn_sym_symbol(x.sym, HN_STR("s1"), HN_SYMBOL_SIZE, 1, 1000);
    hn_expr all = hn_sym_mul(x.sym, rows, columns);
    hn_buf in = add_vector(&x, HN_BUFFER_INPUT, HN_DTYPE_F16, all, ROWS * COLUMNS, NULL);
    hn_buf out = add_vector(&x, HN_BUFFER_OUTPUT, HN_DTYPE_F16, all, ROWS * COLUMNS, NULL);
    for (int k = 0; k < ROWS * COLUMNS; k++)
        ((uint16_t *)x.memory[in].bytes)[k] = hn_f32_to_f16((float)k);
    const hn_expr symbols[] = {rows, columns};
    const int64_t values[] = {ROWS, COLUMNS};
    EXPECT_OK(reverse_rows(&x, in, out, rows, columns,
                           &(kernel_env){x.program, x.memory, symbols, values, 2}));
    for (int k = 0; k < ROWS * COLUMNS; k++) {
        int row = k / COLUMNS, mirrored = row * COLUMNS + COLUMNS - 1 - k % COLUMNS;
        EXPECT_INT(((uint16_t *)x.memory[out].bytes)[k], hn_f32_to_f16((float)(3 * mirrored)));
    }
    fixture_deinit(&x);
}

/* Sizes may make a form of no groups: nothing runs. */
TEST(no_groups) {
    fixture x;
    EXPECT_OK(fixture_init(&x));
    hn_expr n = hn_sym_symbol(x.sym, HN_STR("s0"), HN_SYMBOL_SIZE, 0, 1000), at = 0;
    hn_buf out = add_vector(&x, HN_BUFFER_OUTPUT, HN_DTYPE_I64, n, 0, NULL);
    hn_form *f;
    EXPECT_OK(begin_elements(&x, THREADS, n, &f, &at));
    hn_form_store(f, hn_form_argument(f, out, 0, true), at, index_value(f, at), HN_STORE_SET);
    EXPECT_OK(end_elements(f));
    EXPECT_OK(kernel_run_form(host, f, &(kernel_env){x.program, x.memory, &n, &(int64_t){0}, 1}));
    fixture_deinit(&x);
}

/* ---- random numbers ---- */

/* Those of the generator's contract (ir/interp_random.c), which a graph of one node gives. */
static hn_status reference_numbers(fixture *x, const char *kind, const char *dtype, int64_t count,
                                   hn_ref_tensor *out) {
    hn_strbuf text;
    hn_graph *graph = NULL;
    hn_ref_tensor seed;
    const int64_t none[] = {0};
    hn_strbuf_init(&text);
    hn_strbuf_printf(
        &text,
        "graph @g {\n  input user %%s : i64[] \"s\"\n  %%y = random(kind=\"%s\", sizes=[%lld], dtype=%s, seed=%%s, stream=5)\n  output user %%y \"y\"\n}\n",
        kind, (long long)count, dtype);
    hn_status status = hn_graph_parse(&x->arena, x->sym, hn_strbuf_str(&text), &graph);
    if (!status) status = hn_ref_tensor_init(&x->arena, HN_DTYPE_I64, 0, none, &seed);
    if (!status) seed.data.i[0] = 0x123456789abcdefLL;
    if (!status) status = hn_interpret(&x->arena, graph, &seed, 1, out);
    if (graph) hn_graph_deinit(graph);
    hn_strbuf_deinit(&text);
    return status;
}

static hn_status opencl_numbers(fixture *x, hn_random_kind kind, hn_dtype dtype, int64_t count,
                                hn_ref_tensor *got) {
    static int64_t seed = 0x123456789abcdefLL;
    hn_form *f;
    hn_expr at;
    hn_buf from = add_input(x, HN_DTYPE_I64, 1, &seed), to = add_output(x, dtype, count);
    HN_TRY(begin_elements(x, THREADS, num(x, count), &f, &at));
    hn_fid s = load(f, hn_form_argument(f, from, 0, false), num(x, 0));
    hn_fid value = hn_form_value(f, (hn_sop){.kind = HN_SOP_RANDOM,
                                             .op = (hn_op)kind,
                                             .dtype = dtype,
                                             .args = {s},
                                             .index = at,
                                             .imm.i = 5});
    hn_form_store(f, hn_form_argument(f, to, 0, true), at, value, HN_STORE_SET);
    HN_TRY(end_elements(f));
    HN_TRY(run_form(x, f));
    return hn_ref_tensor_load(&x->arena, dtype, 1, &count, NULL, x->memory[to].bytes, got);
}

TEST(random_numbers) {
    enum { COUNT = 1000 };
    static const struct {
        hn_random_kind kind;
        const char *name;
        hn_dtype dtype;
        /* normal ones come of OpenCL's log, sin and cos in f64, and are rounded once */
        double tolerance;
    } rows[] = {
        {HN_RANDOM_UNIFORM, "uniform", HN_DTYPE_F32, 0},
        {HN_RANDOM_UNIFORM, "uniform", HN_DTYPE_F64, 0},
        {HN_RANDOM_UNIFORM, "uniform", HN_DTYPE_F16, 0},
        {HN_RANDOM_UNIFORM, "uniform", HN_DTYPE_BF16, 0},
        {HN_RANDOM_NORMAL, "normal", HN_DTYPE_F64, 1e-14},
        {HN_RANDOM_NORMAL, "normal", HN_DTYPE_F32, 5e-7},
        {HN_RANDOM_BITS, "bits", HN_DTYPE_I64, 0},
        {HN_RANDOM_BITS, "bits", HN_DTYPE_I32, 0},
        {HN_RANDOM_BITS, "bits", HN_DTYPE_I8, 0},
        {HN_RANDOM_BITS, "bits", HN_DTYPE_U8, 0},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        fixture x;
        hn_ref_tensor want = {0}, got = {0};
        hn_strbuf why;
        hn_strbuf_init(&why);
        EXPECT_OK(fixture_init(&x));
        EXPECT_OK(
            reference_numbers(&x, rows[r].name, hn_dtype_facts(rows[r].dtype)->name, COUNT, &want));
        EXPECT_OK(opencl_numbers(&x, rows[r].kind, rows[r].dtype, COUNT, &got));
        if (!hn_ref_compare(&got, &want, 0, rows[r].tolerance, &why))
            HN_TEST_FAIL("%s of %s: %s", rows[r].name, hn_dtype_facts(rows[r].dtype)->name,
                         why.ptr);
        hn_strbuf_deinit(&why);
        fixture_deinit(&x);
    }
}

int main(int argc, char **argv) { return opencl_test_main(argc, argv); }
