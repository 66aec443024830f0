/* test_loop_interp.c: the interpreter of loop IR: whole random programs against the interpreter of
 * graphs, and what it refuses. */
#include "base/compiler.h"
#include "tests/support/program_run.h"
#include "tests/support/random_graph.h"
#include "unit/harness.h"

/* --- whole graphs --- */

static hn_status check_graph(uint64_t seed, hn_arena *arena, hn_graph *graph,
                             const double *tolerance, bool *out_extern) {
    hn_ref_tensor inputs[HN_RANDOM_MAX_TENSORS], expected[HN_RANDOM_MAX_TENSORS],
        actual[HN_RANDOM_MAX_TENSORS];
    hn_program *p;
    uint32_t input_count = graph->inputs.count; /* folding adds constants to them */
    HN_TRY(hn_random_inputs(seed, arena, graph, 0, inputs));
    HN_TRY(hn_interpret(arena, graph, inputs, input_count, expected));
    HN_TRY(hn_program_of_graph(graph, arena, &p));
    for (hn_item i = 1; i < p->items.count; i++)
        *out_extern |= p->items.items[i].kind == HN_ITEM_EXTERN;
    for (hn_run_calls calls = HN_RUN_OPERATIONS; calls <= HN_RUN_LOOPS; calls++) {
        HN_TRY(hn_program_run_all(arena, p, graph, inputs, input_count, calls, actual));
        HN_TRY(hn_outputs_compare(actual, expected, tolerance, graph->outputs.count));
    }
    return NULL;
}

/* The graph of a seed, or of a text. */
static hn_status check(uint64_t seed, const char *text, bool *out_extern) {
    hn_arena arena;
    hn_sym *sym;
    hn_graph *graph = NULL;
    double tolerance[HN_RANDOM_MAX_TENSORS] = {0};
    hn_arena_init(&arena);
    hn_status status = hn_sym_create(&arena, &sym);
    if (!status)
        status = text ? hn_graph_parse(&arena, sym, hn_str_of(text), &graph)
                      : hn_random_graph(seed, &arena, sym, &graph, tolerance);
    if (!status) status = check_graph(seed, &arena, graph, tolerance, out_extern);
    if (graph) hn_graph_deinit(graph);
    hn_arena_deinit(&arena);
    return status;
}

TEST(random_programs) {
    enum { SEEDS = 1000 };
    int with_externs = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        bool has_extern = false;
        hn_status status = check(seed, NULL, &has_extern);
        if (status)
            HN_TEST_FAIL("seed %llu: %s", (unsigned long long)seed, hn_status_message(status));
        hn_status_free(status);
        with_externs += has_extern;
    }
    /* there are programs of both kinds */
    EXPECT(with_externs > SEEDS / 10 && with_externs < SEEDS);
}

/* The border of a pad reads the nearest element, and there is none: it once read in front of the
 * buffer. */
TEST(pad_of_nothing) {
    bool ignored = false;
    EXPECT_OK(check(0,
                    "graph {\n"
                    "input user %x : f32[0] \"x\"\n"
                    "%p = pad(%x, value=2.5, lo=[2], hi=[1])\n"
                    "output user %p \"\"\n"
                    "}\n",
                    &ignored));
    EXPECT_OK(check(0,
                    "graph {\n"
                    "input user %x : f32[3, 0] \"x\"\n"
                    "%p = pad(%x, value=1.0, lo=[0, 1], hi=[1, 0])\n"
                    "output user %p \"\"\n"
                    "}\n",
                    &ignored));
}

TEST(random_numbers) {
    static const char *const kinds[] = {"kind=\"uniform\", sizes=[13], dtype=f32",
                                        "kind=\"normal\", sizes=[13], dtype=f64",
                                        "kind=\"bits\", sizes=[3, 5], dtype=i8"};
    for (size_t k = 0; k < HN_COUNT_OF(kinds); k++) {
        char text[256];
        bool ignored = false;
        snprintf(text, sizeof text,
                 "graph {\n"
                 "input user %%s : i64[] \"s\"\n"
                 "%%r = random(%s, seed=%%s, stream=7)\n"
                 "output user %%r \"\"\n"
                 "}\n",
                 kinds[k]);
        EXPECT_OK(check(11, text, &ignored));
    }
}

/* --- single loops --- */

typedef struct fixture {
    hn_arena arena;
    hn_program *p;
    hn_ref_buffer buffers[8];
} fixture;

static void begin(fixture *t, const char *text) {
    hn_sym *sym;
    *t = (fixture){0};
    hn_arena_init(&t->arena);
    EXPECT_OK(hn_sym_create(&t->arena, &sym));
    EXPECT_OK(hn_program_parse(&t->arena, sym, hn_str_of(text), &t->p));
    for (hn_buf b = 1; t->p && b < t->p->buffers.count; b++) {
        const hn_buffer *buffer = &t->p->buffers.items[b];
        int64_t elems = 1, size = 0;
        for (uint32_t d = 0; d < buffer->rank; d++)
            elems *= hn_sym_is_int(sym, buffer->sizes[d], &size) ? size : 0;
        EXPECT_OK(hn_ref_buffer_init(&t->arena, buffer->dtype, elems, &t->buffers[b]));
    }
}

static void set_f(fixture *t, hn_buf b, const double *values) {
    for (int64_t n = 0; n < t->buffers[b].elems; n++)
        t->buffers[b].items[n].f = values[n], t->buffers[b].is_set[n] = true;
}

static void set_i(fixture *t, hn_buf b, const int64_t *values) {
    for (int64_t n = 0; n < t->buffers[b].elems; n++)
        t->buffers[b].items[n].i = values[n], t->buffers[b].is_set[n] = true;
}

static hn_status run(fixture *t, hn_item item) {
    return hn_loop_run(t->p, t->p->items.items[item].loop, &(hn_ref_sizes){0}, t->buffers);
}

TEST(checked_indices) {
    fixture t;
    begin(&t, "program {\nb1 : input 0 f32[4]\nb2 : input 1 i64[3]\nb3 : output f32[3] extent 3\n"
              "pointwise (i0 < 3;) {\n"
              "%1 = b2[i0] : i64\n"
              "%2 = t0 := check(wrap %1 < 4) : i64\n"
              "%3 = b1[t0] : f32\n"
              "b3[i0] = %3\n"
              "}\n"
              "result 0 = b3[0] [3]\n}\n");
    set_f(&t, 1, (double[]){10, 11, 12, 13});
    set_i(&t, 2, (int64_t[]){3, -4, -1});
    EXPECT_OK(run(&t, 1));
    EXPECT_NEAR(t.buffers[3].items[0].f, 13, 0);
    EXPECT_NEAR(t.buffers[3].items[1].f, 10, 0);
    EXPECT_NEAR(t.buffers[3].items[2].f, 13, 0);
    set_i(&t, 2, (int64_t[]){0, 4, 0});
    EXPECT_ERROR(run(&t, 1), HN_INVALID_ARGUMENT, "op %2: index 4 is outside of 4 elements");
    set_i(&t, 2, (int64_t[]){0, -5, 0});
    EXPECT_ERROR(run(&t, 1), HN_INVALID_ARGUMENT, "index -5");
    hn_arena_deinit(&t.arena);
}

TEST(memory_is_checked) {
    fixture t;
    begin(&t, "program {\n"
              "b1 : input 0 f32[4]\n"
              "b2 : temp f32[6] extent 6\n"
              "b3 : output f32[6] extent 6\n"
              "pointwise (i0 < 3;) {\n%1 = b1[2*i0] : f32\nb2[2*i0] = %1\n}\n"
              "pointwise (i0 < 2;) {\n%1 = b1[2*i0] : f32\nb2[2*i0] = %1\n}\n"
              "pointwise (i0 < 6;) {\n%1 = b2[i0] : f32\nb3[i0] = %1\n}\n"
              "pointwise (i0 < 2;) {\n%1 = b1[i0] : f32\nb3[i0 - 1] = %1\n}\n"
              "result 0 = b3[0] [6]\n}\n");
    set_f(&t, 1, (double[]){1, 2, 3, 4});
    EXPECT_ERROR(run(&t, 1), HN_INTERNAL, "op %1: element 4 of buffer b1, which has 4");
    EXPECT_OK(run(&t, 2));
    EXPECT_ERROR(run(&t, 3), HN_INTERNAL,
                 "op %1: element 1 of buffer b2 is read before it is written");
    EXPECT_ERROR(run(&t, 4), HN_INTERNAL, "element -1 of buffer b3, which has 6");
    hn_arena_deinit(&t.arena);
}

TEST(scatters_combine_in_order) {
    fixture t;
    begin(&t, "program {\nb1 : input 0 f32[4]\nb2 : input 1 i64[4]\nb3 : output f32[2] extent 2\n"
              "pointwise (i0 < 2;) {\n%1 = const 1.0 : f32\nb3[i0] = %1\n}\n"
              "scatter (i0 < 4;) {\n"
              "%1 = b1[i0] : f32\n"
              "%2 = b2[i0] : i64\n"
              "%3 = t0 := check(%2 < 2) : i64\n"
              "b3[t0] += %1\n"
              "}\n"
              "scatter (i0 < 4;) {\n"
              "%1 = b1[i0] : f32\n"
              "%2 = b2[i0] : i64\n"
              "%3 = t1 := check(%2 < 2) : i64\n"
              "b3[t1] = %1\n"
              "}\n"
              "result 0 = b3[0] [2]\n}\n");
    set_f(&t, 1, (double[]){1, 2, 3, 4});
    set_i(&t, 2, (int64_t[]){1, 0, 1, 0});
    EXPECT_ERROR(run(&t, 2), HN_INTERNAL,
                 "element 1 of buffer b3 is combined before it is written");
    EXPECT_OK(run(&t, 1));
    EXPECT_OK(run(&t, 2));
    EXPECT_NEAR(t.buffers[3].items[0].f, 7, 0);
    EXPECT_NEAR(t.buffers[3].items[1].f, 5, 0);
    EXPECT_OK(run(&t, 3));
    EXPECT_NEAR(t.buffers[3].items[0].f, 4, 0);
    EXPECT_NEAR(t.buffers[3].items[1].f, 3, 0);
    hn_arena_deinit(&t.arena);
}

/* 16-bit floats round at each step, not at the end. */
TEST(reductions_round_each_step) {
    fixture t;
    begin(&t, "program {\nb1 : input 0 f16[3]\nb2 : output f16[] extent 1\n"
              "reduce sum (; i0 < 3) {\n"
              "%1 = b1[i0] : f16\n"
              "b2[0] = %1\n"
              "}\n"
              "result 0 = b2[0] []\n"
              "}\n");
    set_f(&t, 1, (double[]){2048, 1, 1});
    EXPECT_OK(run(&t, 1));
    EXPECT_NEAR(t.buffers[2].items[0].f, 2048, 0);
    hn_arena_deinit(&t.arena);
}

TEST(reductions_of_nothing) {
    fixture t;
    begin(&t, "program {\n"
              "b1 : input 0 f32[0]\n"
              "b2 : output f32[] extent 1\n"
              "b3 : output f32[] extent 1\n"
              "reduce prod (; i0 < 0) {\n"
              "%1 = b1[i0] : f32\n"
              "b2[0] = %1\n"
              "}\n"
              "reduce amax (; i0 < 0) {\n"
              "%1 = b1[i0] : f32\n"
              "b3[0] = %1\n"
              "}\n"
              "result 0 = b2[0] []\nresult 1 = b3[0] []\n}\n");
    EXPECT_OK(run(&t, 1));
    EXPECT_NEAR(t.buffers[2].items[0].f, 1, 0);
    EXPECT_ERROR(run(&t, 2), HN_INTERNAL, "'amax' of no elements");
    hn_arena_deinit(&t.arena);
}

/* --- reductions --- */

/* Each element alone, in every order of three, and as two parts: the winner is the same one. */
static void expect_winner(hn_op op, hn_dtype dtype, const double *values, int64_t winner) {
    static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                    {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (size_t k = 0; k < HN_COUNT_OF(orders); k++) {
        hn_ref_reduction all = hn_ref_reduction_begin(op, dtype), part = all;
        for (int j = 0; j < 3; j++) {
            double v = values[orders[k][j]];
            hn_ref_elem e =
                hn_dtype_is_float(dtype) ? (hn_ref_elem){.f = v} : (hn_ref_elem){.i = (int64_t)v};
            EXPECT_OK(hn_ref_reduction_step(op, dtype, e, orders[k][j], j < 2 ? &part : &all));
        }
        EXPECT_OK(hn_ref_reduction_step(op, dtype, part.value, part.position, &all));
        EXPECT_INT(all.position, winner);
    }
}

TEST(winners) {
    expect_winner(HN_OP_ARGMAX, HN_DTYPE_F32, (double[]){1, 3, 3}, 1);
    expect_winner(HN_OP_ARGMIN, HN_DTYPE_F32, (double[]){2, 1, 1}, 1);
    expect_winner(HN_OP_ARGMAX, HN_DTYPE_F64, (double[]){1, NAN, NAN}, 1);
    expect_winner(HN_OP_ARGMIN, HN_DTYPE_F64, (double[]){-1, 7, NAN}, 2);
    expect_winner(HN_OP_ARGMAX, HN_DTYPE_F32, (double[]){-INFINITY, -INFINITY, -INFINITY}, 0);
    expect_winner(HN_OP_ARGMAX, HN_DTYPE_U8, (double[]){0, 0, 0}, 0);
    expect_winner(HN_OP_ARGMIN, HN_DTYPE_I8, (double[]){127, 127, 127}, 0);
    expect_winner(HN_OP_ARGMIN, HN_DTYPE_BOOL, (double[]){1, 1, 1}, 0);
    expect_winner(HN_OP_CUMMAX, HN_DTYPE_F32, (double[]){3, 3, 1}, 1);
    expect_winner(HN_OP_CUMMAX, HN_DTYPE_F32, (double[]){NAN, NAN, 1}, 1);
    expect_winner(HN_OP_CUMMIN, HN_DTYPE_I64, (double[]){5, 4, 4}, 2);
}

/* The start of a reduction changes nothing, for every row and dtype that lowering makes. */
TEST(starts_change_nothing) {
    static const hn_op ops[] = {HN_OP_SUM,    HN_OP_PROD,    HN_OP_AMIN,   HN_OP_AMAX,
                                HN_OP_CUMSUM, HN_OP_CUMPROD, HN_OP_CUMMAX, HN_OP_CUMMIN};
    static const hn_dtype dtypes[] = {HN_DTYPE_F32, HN_DTYPE_F16, HN_DTYPE_I64,
                                      HN_DTYPE_I16, HN_DTYPE_U8,  HN_DTYPE_BOOL};
    for (size_t k = 0; k < HN_COUNT_OF(ops); k++)
        for (size_t d = 0; d < HN_COUNT_OF(dtypes); d++)
            for (int64_t v = 0; v < 2; v++) {
                hn_ref_reduction state = hn_ref_reduction_begin(ops[k], dtypes[d]);
                bool is_float = hn_dtype_is_float(dtypes[d]);
                hn_ref_elem e = is_float ? (hn_ref_elem){.f = (double)v} : (hn_ref_elem){.i = v};
                EXPECT_OK(hn_ref_reduction_step(ops[k], dtypes[d], e, 0, &state));
                EXPECT_NEAR(is_float ? state.value.f : (double)state.value.i, (double)v, 0);
            }
    hn_ref_reduction log_sum = hn_ref_reduction_begin(HN_OP_LOGCUMSUMEXP, HN_DTYPE_F64);
    EXPECT_OK(hn_ref_reduction_step(HN_OP_LOGCUMSUMEXP, HN_DTYPE_F64, (hn_ref_elem){.f = 2}, 0,
                                    &log_sum));
    EXPECT_NEAR(log_sum.value.f, 2, 1e-15);
    hn_ref_reduction any = hn_ref_reduction_begin(HN_OP_ANY, HN_DTYPE_F32);
    EXPECT_ERROR(hn_ref_reduction_step(HN_OP_ANY, HN_DTYPE_F32, (hn_ref_elem){.f = 1}, 0, &any),
                 HN_INTERNAL, "'any' has no meaning for f32");
}

TEST_MAIN
