/* test_threads.c: what the threads of a group do together, on OpenCL: rows that combine registers,
 * whose threads are neighbours or not, by way of few numbers or of many. */
#include "opencl/fixture.h"

enum { THREADS = 256, GROUPS = 3, ELEMS = THREADS * GROUPS };

static hn_expr element_of(fixture *x, const hn_form *f) {
    return hn_sym_add(x->sym, hn_sym_mul(x->sym, f->group, num(x, THREADS)), f->thread);
}

/* Every thread steps with its element, `rounds` times, and stores what its row has. */
static hn_status combine_rows(fixture *x, hn_op op, hn_buf in, hn_buf values, hn_buf places,
                              uint32_t width, uint32_t pitch, int64_t rounds) {
    hn_form *f;
    HN_TRY(hn_form_create(x->program, &x->arena, THREADS, num(x, GROUPS), &f));
    hn_fmem from = hn_form_argument(f, in, 0, false), to = hn_form_argument(f, values, 0, true);
    hn_fid value = load(f, from, element_of(x, f)), place = index_value(f, f->thread);
    hn_expr round = hn_form_symbol(f, num(x, rounds));
    hn_freg reg = hn_form_add_register(f, op, x->program->buffers.items[in].dtype);
    hn_form_init(f, reg);
    hn_form_for(f, round, num(x, 0), num(x, rounds), 1);
    hn_form_step(f, reg, value, places ? place : 0);
    hn_form_across_threads(f, reg, width, pitch);
    hn_form_close(f);
    hn_form_store(f, to, element_of(x, f), hn_form_result(f, reg, false), HN_STORE_SET);
    if (places)
        hn_form_store(f, hn_form_argument(f, places, 0, true), element_of(x, f),
                      hn_form_result(f, reg, true), HN_STORE_SET);
    HN_TRY(hn_form_end(f));
    return run_form(x, f);
}

static void sum_rows(uint32_t width, uint32_t pitch, int64_t rounds) {
    static float in[ELEMS];
    fixture x;
    EXPECT_OK(fixture_init(&x));
    for (int k = 0; k < ELEMS; k++) in[k] = (float)(k % 7);
    hn_buf from = add_input(&x, HN_DTYPE_F32, ELEMS, in), to = add_output(&x, HN_DTYPE_F32, ELEMS);
    EXPECT_OK(combine_rows(&x, HN_OP_SUM, from, to, 0, width, pitch, rounds));
    uint32_t wrong = 0;
    for (uint32_t at = 0; at < ELEMS; at++) {
        uint32_t first = at - at / pitch % width * pitch;
        float sum = 0, once[THREADS], sums[THREADS] = {0};
        for (uint32_t k = 0; k < width; k++) once[k] = in[first + k * pitch];
        for (int64_t n = 0; n < rounds; n++) { /* each step begins with what the row had */
            sum = 0;
            for (uint32_t k = 0; k < width; k++) sum += sums[k] + once[k];
            for (uint32_t k = 0; k < width; k++) sums[k] = sum;
        }
        wrong += ((float *)x.memory[to].bytes)[at] != sum;
    }
    if (wrong) HN_TEST_FAIL("width %u, pitch %u: %u elements are wrong", width, pitch, wrong);
    fixture_deinit(&x);
}

TEST(rows_of_all_widths) {
    for (uint32_t width = 2; width <= THREADS; width *= 4)
        for (uint32_t pitch = 1; pitch * width <= THREADS; pitch *= 8) sum_rows(width, pitch, 1);
}

/* A group that fills no warp, and one whose last warp is not full. */
static void sum_few(uint32_t threads, uint32_t width) {
    static float in[THREADS];
    fixture x;
    hn_form *f = NULL;
    EXPECT_OK(fixture_init(&x));
    for (uint32_t k = 0; k < threads; k++) in[k] = (float)(k * k % 13);
    hn_buf from = add_input(&x, HN_DTYPE_F32, threads, in),
           to = add_output(&x, HN_DTYPE_F32, threads);
    EXPECT_OK(hn_form_create(x.program, &x.arena, threads, num(&x, 1), &f));
    hn_freg reg = hn_form_add_register(f, HN_OP_SUM, HN_DTYPE_F32);
    hn_form_init(f, reg);
    hn_form_step(f, reg, load(f, hn_form_argument(f, from, 0, false), f->thread), 0);
    hn_form_across_threads(f, reg, width, 1);
    hn_form_store(f, hn_form_argument(f, to, 0, true), f->thread, hn_form_result(f, reg, false),
                  HN_STORE_SET);
    EXPECT_OK(hn_form_end(f));
    EXPECT_OK(run_form(&x, f));
    for (uint32_t k = 0; k < threads; k++) {
        float sum = 0;
        for (uint32_t t = k / width * width; t < (k / width + 1) * width; t++) sum += in[t];
        if (((float *)x.memory[to].bytes)[k] != sum)
            HN_TEST_FAIL("%u threads: the sum of thread %u is wrong", threads, k);
    }
    fixture_deinit(&x);
}

TEST(groups_that_fill_no_warp) {
    sum_few(2, 2);
    sum_few(16, 8);
    sum_few(48, 16);
    sum_few(80, 8);
}

/* What one round reads the next one must not overwrite. */
TEST(rows_in_a_loop) {
    sum_rows(4, 1, 3);
    sum_rows(128, 2, 3);
}

/* The first of the largest, in few numbers and in a tree; NaN is the largest. */
TEST(rows_find_places) {
    static float in[ELEMS];
    for (int k = 0; k < ELEMS; k++) in[k] = (float)(k % 5);
    in[ELEMS - 3] = NAN;
    for (uint32_t width = 16; width <= THREADS; width *= 16) {
        fixture x;
        EXPECT_OK(fixture_init(&x));
        hn_buf from = add_input(&x, HN_DTYPE_F32, ELEMS, in),
               values = add_output(&x, HN_DTYPE_F32, ELEMS),
               places = add_output(&x, HN_DTYPE_I64, ELEMS);
        EXPECT_OK(combine_rows(&x, HN_OP_ARGMAX, from, values, places, width, 1, 1));
        for (uint32_t at = 0; at < ELEMS; at++) {
            uint32_t first = at / width * width, best = first;
            for (uint32_t k = first; k < first + width; k++)
                if (isnan(in[k]) || in[k] > in[best]) best = k;
            EXPECT_INT(((int64_t *)x.memory[places].bytes)[at], best % THREADS);
        }
        fixture_deinit(&x);
    }
}

/* Narrow numbers are exchanged as they are computed. */
TEST(rows_of_narrow_dtypes) {
    static const hn_dtype dtypes[] = {HN_DTYPE_BOOL, HN_DTYPE_I8, HN_DTYPE_BF16, HN_DTYPE_I64,
                                      HN_DTYPE_F64};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        fixture x;
        EXPECT_OK(fixture_init(&x));
        const size_t size = hn_dtype_facts(dtypes[d])->size_bytes;
        hn_buf from = add_input(&x, dtypes[d], ELEMS, NULL), to = add_output(&x, dtypes[d], ELEMS);
        uint8_t *in = x.memory[from].bytes, *got = x.memory[to].bytes;
        for (uint32_t k = 0; k < ELEMS; k++) in[k * size] = k == 700; /* a small number */
        EXPECT_OK(combine_rows(&x, HN_OP_AMAX, from, to, 0, THREADS, 1, 1));
        for (uint32_t k = 0; k < ELEMS; k++) EXPECT_INT(got[k * size], k / THREADS == 2);
        fixture_deinit(&x);
    }
}

/* Prefixes of the places and values of each row, three times on top of each other: the third round
 * begins with what two had. */
static void scan_rows(hn_op op, uint32_t width, uint32_t pitch) {
    enum { ROUNDS = 3 };
    static float in[ELEMS];
    fixture x;
    hn_form *f = NULL;
    EXPECT_OK(fixture_init(&x));
    for (int k = 0; k < ELEMS; k++) in[k] = (float)(k * 7 % 11);
    hn_buf from = add_input(&x, HN_DTYPE_F32, ELEMS, in), to = add_output(&x, HN_DTYPE_F32, ELEMS),
           last = add_output(&x, HN_DTYPE_I64, ELEMS);
    EXPECT_OK(hn_form_create(x.program, &x.arena, THREADS, num(&x, GROUPS), &f));
    bool keeps = hn_op_keeps_position(op);
    hn_fid value = load(f, hn_form_argument(f, from, 0, false), element_of(&x, f)),
           place = keeps ? index_value(f, f->thread) : 0;
    hn_freg reg = hn_form_add_register(f, op, HN_DTYPE_F32),
            all = hn_form_add_register(f, op, HN_DTYPE_F32);
    hn_expr round = hn_form_symbol(f, num(&x, ROUNDS));
    hn_form_init(f, all);
    hn_form_init(f, reg);
    hn_form_for(f, round, num(&x, 0), num(&x, ROUNDS), 1);
    hn_form_init(f, reg);
    hn_form_step(f, reg, value, place);
    hn_form_before(f, reg, all, width, pitch);
    hn_form_close(f);
    hn_form_step(f, reg, value, place);
    hn_form_store(f, hn_form_argument(f, to, 0, true), element_of(&x, f),
                  hn_form_result(f, reg, false), HN_STORE_SET);
    hn_form_store(f, hn_form_argument(f, last, 0, true), element_of(&x, f),
                  keeps ? hn_form_result(f, reg, true) : index_value(f, f->thread), HN_STORE_SET);
    EXPECT_OK(hn_form_end(f));
    EXPECT_OK(run_form(&x, f));
    uint32_t wrong = 0;
    for (uint32_t at = 0; at < ELEMS; at++) {
        uint32_t first = at - at % (width * pitch) + at % pitch, best = first;
        float row = 0, sum = 0, most = in[first];
        for (uint32_t k = first; k < first + width * pitch; k += pitch) {
            row += in[k];
            if (in[k] >= most) most = in[k], best = k; /* of equals the last one */
        }
        for (uint32_t k = first; k <= at; k += pitch) sum += in[k];
        float got = ((float *)x.memory[to].bytes)[at],
              want = keeps ? most : (ROUNDS - 1) * row + sum;
        int64_t where = ((int64_t *)x.memory[last].bytes)[at];
        wrong += got != want || (keeps && where != best % THREADS);
    }
    if (wrong) HN_TEST_FAIL("width %u, pitch %u: %u elements are wrong", width, pitch, wrong);
    fixture_deinit(&x);
}

TEST(prefixes) {
    for (uint32_t width = 1; width <= THREADS; width *= 4)
        for (uint32_t pitch = 1; pitch * width <= THREADS; pitch *= 2) {
            scan_rows(HN_OP_CUMSUM, width, pitch);
            scan_rows(HN_OP_CUMMAX, width, pitch);
        }
}

int main(int argc, char **argv) { return opencl_test_main(argc, argv); }
