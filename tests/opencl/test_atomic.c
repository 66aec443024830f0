/* test_atomic.c: threads of many groups that meet at few elements, in every dtype and every way to
 * combine, against a plain loop. Numbers are such that the order does not show. */
#include "opencl/fixture.h"

#include "ir/interp.h"
#include "ir/loop_interp.h"

enum { THREADS = 64, ELEMS = 64 * THREADS, PLACES = 61 };

static bool is_float(hn_dtype dtype) { return hn_dtype_is_float(dtype); }

static hn_ref_elem number(hn_dtype dtype, int64_t n) {
    return is_float(dtype) ? (hn_ref_elem){.f = (double)n} : (hn_ref_elem){.i = n};
}

/* Sums and products are exact in 8 bits of mantissa. Of what is compared one number is NaN. */
static hn_ref_elem value_of(hn_store_mode mode, hn_dtype dtype, int64_t k) {
    if (dtype == HN_DTYPE_BOOL) return number(dtype, k % 7 == 0);
    if (mode == HN_STORE_ADD) return number(dtype, k % 4 == 0 ? -1 : 1);
    if (mode == HN_STORE_MUL) return number(dtype, k / PLACES % 8 == 0 ? -2 : 1);
    if (is_float(dtype) && k == 1234) return (hn_ref_elem){.f = NAN};
    return number(dtype, k * 7919 % 101 - (dtype == HN_DTYPE_U8 ? 0 : 50));
}

static void set_item(hn_ref_tensor *t, int64_t k, hn_ref_elem x) {
    if (is_float(t->dtype)) t->data.f[k] = x.f;
    else t->data.i[k] = x.i;
}

static hn_ref_elem item(const hn_ref_tensor *t, int64_t k) {
    return is_float(t->dtype) ? (hn_ref_elem){.f = t->data.f[k]} : (hn_ref_elem){.i = t->data.i[k]};
}

/* What is in memory before, the values, and what there is to be. */
static hn_status make(fixture *x, hn_store_mode mode, hn_buf from, hn_buf to, hn_ref_tensor *want) {
    const hn_dtype dtype = x->program->buffers.items[to].dtype;
    hn_ref_tensor values;
    HN_TRY(hn_ref_tensor_init(&x->arena, dtype, 1, (int64_t[]){ELEMS}, &values));
    HN_TRY(hn_ref_tensor_init(&x->arena, dtype, 1, (int64_t[]){PLACES}, want));
    for (int64_t p = 0; p < PLACES; p++)
        set_item(want, p, number(dtype, dtype == HN_DTYPE_BOOL ? p % 2 : 1 + p % 3));
    hn_ref_tensor_store(want, x->memory[to].bytes);
    for (int64_t k = 0; k < ELEMS; k++) {
        hn_ref_elem value = value_of(mode, dtype, k);
        set_item(&values, k, value);
        HN_TRY(hn_ref_combine(mode, dtype, item(want, k % PLACES), &value));
        set_item(want, k % PLACES, value);
    }
    hn_ref_tensor_store(&values, x->memory[from].bytes);
    return NULL;
}

static hn_status scatter(fixture *x, hn_store_mode mode, hn_buf from, hn_buf to) {
    hn_form *f;
    hn_expr at;
    HN_TRY(begin_elements(x, THREADS, num(x, ELEMS), &f, &at));
    hn_form_scatter(f, hn_form_argument(f, to, 0, true), hn_sym_mod(x->sym, at, num(x, PLACES)),
                    load(f, hn_form_argument(f, from, 0, false), at), mode, true);
    HN_TRY(end_elements(f));
    return run_form(x, f);
}

static void check(hn_store_mode mode, hn_dtype dtype) {
    fixture x;
    hn_ref_tensor want, got;
    EXPECT_OK(fixture_init(&x));
    hn_buf from = add_input(&x, dtype, ELEMS, NULL), to = add_output(&x, dtype, PLACES);
    EXPECT_OK(make(&x, mode, from, to, &want));
    if (hn_dtype_facts(dtype)->size_bytes == 8 && strcmp(opencl_host_target(), "opencl") == 0) {
        EXPECT_ERROR(scatter(&x, mode, from, to), HN_UNSUPPORTED,
                     "OpenCL C has no atomic stores of");
    } else {
        EXPECT_OK(scatter(&x, mode, from, to));
        EXPECT_OK(hn_ref_tensor_load(&x.arena, dtype, 1, (int64_t[]){PLACES}, NULL,
                                     x.memory[to].bytes, &got));
        if (!hn_ref_compare(&got, &want, 0, 0, NULL))
            HN_TEST_FAIL("mode %d of %s", mode, hn_dtype_facts(dtype)->name);
    }
    fixture_deinit(&x);
}

TEST(every_dtype_and_mode) {
    for (hn_store_mode mode = HN_STORE_ADD; mode <= HN_STORE_MAX; mode++)
        for (uint32_t d = 1; d < HN_DTYPE_COUNT; d++) check(mode, (hn_dtype)d);
}

/* One of the values that are put there is what remains. */
TEST(one_of_several_values_remains) {
    static int64_t in[ELEMS];
    fixture x;
    EXPECT_OK(fixture_init(&x));
    for (int64_t k = 0; k < ELEMS; k++) in[k] = k;
    hn_buf from = add_input(&x, HN_DTYPE_I64, ELEMS, in), to = add_output(&x, HN_DTYPE_I64, PLACES);
    EXPECT_OK(scatter(&x, HN_STORE_SET, from, to));
    for (int64_t p = 0; p < PLACES; p++) EXPECT_INT(((int64_t *)x.memory[to].bytes)[p] % PLACES, p);
    fixture_deinit(&x);
}

int main(int argc, char **argv) { return opencl_test_main(argc, argv); }
