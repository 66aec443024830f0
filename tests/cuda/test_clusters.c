/* test_clusters.c: groups of several blocks in CUDA C++, run on the CPU (tests/support/cuda_on_cpu.c):
 * each warp reads what all others have combined, in the memory of whatever block. And rows that are on
 * their way to shared memory while others are computed. */
#include "base/compiler.h"
#include "opencl/fixture.h"
#include "opencl/graph_run.h"
#include "tests/support/imaginary_gpu.h"
#include "tests/support/random_graph.h"

#include <math.h>

enum { GROUPS = 3, THREADS_MOST = 2048, ELEMS_MOST = GROUPS * THREADS_MOST };

typedef struct shape {
    uint32_t blocks, threads; /* of a group, of a block */
} shape;

static hn_status begin_form(fixture *x, shape s, hn_form **out) {
    HN_TRY(hn_form_create(x->program, &x->arena, s.blocks * s.threads, num(x, GROUPS), out));
    (*out)->blocks = s.blocks;
    return NULL;
}

/* Element `apart` behind that of the thread, around in its group. */
static hn_expr element_of(fixture *x, const hn_form *f, int64_t apart) {
    hn_expr threads = num(x, f->threads), at = hn_sym_add(x->sym, f->thread, num(x, apart));
    return hn_sym_add(x->sym, hn_sym_mul(x->sym, f->group, threads),
                      hn_sym_mod(x->sym, at, threads));
}

/* Every thread steps with its element, `rounds` times, and stores what the group has. */
static hn_status combine(fixture *x, shape s, hn_op op, hn_buf in, hn_buf values, hn_buf places,
                         int64_t rounds) {
    hn_form *f;
    HN_TRY(begin_form(x, s, &f));
    hn_fid value = load(f, hn_form_argument(f, in, 0, false), element_of(x, f, 0)),
           place = places ? index_value(f, f->thread) : 0;
    hn_freg reg = hn_form_add_register(f, op, x->program->buffers.items[in].dtype);
    hn_expr round = hn_form_symbol(f, num(x, rounds));
    hn_form_init(f, reg);
    if (rounds > 1) hn_form_for(f, round, num(x, 0), num(x, rounds), 1);
    hn_form_step(f, reg, value, place);
    hn_form_across_threads(f, reg, f->threads, 1);
    if (rounds > 1) hn_form_close(f);
    hn_form_store(f, hn_form_argument(f, values, 0, true), element_of(x, f, 0),
                  hn_form_result(f, reg, false), HN_STORE_SET);
    if (places)
        hn_form_store(f, hn_form_argument(f, places, 0, true), element_of(x, f, 0),
                      hn_form_result(f, reg, true), HN_STORE_SET);
    HN_TRY(hn_form_end(f));
    return run_form(x, f);
}

static const shape shapes[] = {{2, 32}, {4, 32}, {8, 32}, {2, 256}, {8, 64}, {8, 256}, {2, 1024}};

/* Small whole numbers: their sums are exact in any order. */
static void check_sums(shape s, int64_t rounds) {
    static float in[ELEMS_MOST];
    fixture x;
    const uint32_t threads = s.blocks * s.threads, elems = GROUPS * threads;
    EXPECT_OK(fixture_init(&x));
    for (uint32_t k = 0; k < elems; k++) in[k] = (float)(k * 5 % 7 % 3);
    hn_buf from = add_input(&x, HN_DTYPE_F32, elems, in), to = add_output(&x, HN_DTYPE_F32, elems);
    EXPECT_OK(combine(&x, s, HN_OP_SUM, from, to, 0, rounds));
    uint32_t wrong = 0;
    for (uint32_t g = 0; g < GROUPS; g++) {
        float once = 0, all = 0;
        for (uint32_t k = 0; k < threads; k++) once += in[g * threads + k];
        for (int64_t n = 0; n < rounds; n++) all = (float)threads * all + once;
        for (uint32_t k = 0; k < threads; k++)
            wrong += ((float *)x.memory[to].bytes)[g * threads + k] != all;
    }
    if (wrong) HN_TEST_FAIL("%u x %u: %u elements are wrong", s.blocks, s.threads, wrong);
    fixture_deinit(&x);
}

TEST(every_thread_has_the_sum) {
    for (size_t k = 0; k < HN_COUNT_OF(shapes); k++) check_sums(shapes[k], 1);
}

/* What one round reads the next one must not overwrite. */
TEST(sums_in_a_loop) {
    for (size_t k = 0; k < HN_COUNT_OF(shapes); k++) check_sums(shapes[k], 2);
}

TEST(places_of_the_largest) {
    static float in[ELEMS_MOST];
    for (size_t n = 0; n < HN_COUNT_OF(shapes); n++) {
        const uint32_t threads = shapes[n].blocks * shapes[n].threads, elems = GROUPS * threads;
        fixture x;
        EXPECT_OK(fixture_init(&x));
        for (uint32_t k = 0; k < elems; k++) in[k] = (float)(k * 11 % 23);
        in[elems - 3] = 99;
        hn_buf from = add_input(&x, HN_DTYPE_F32, elems, in),
               values = add_output(&x, HN_DTYPE_F32, elems),
               places = add_output(&x, HN_DTYPE_I64, elems);
        EXPECT_OK(combine(&x, shapes[n], HN_OP_ARGMAX, from, values, places, 1));
        uint32_t wrong = 0;
        for (uint32_t at = 0; at < elems; at++) {
            uint32_t first = at / threads * threads, best = first;
            for (uint32_t k = first; k < first + threads; k++)
                if (in[k] > in[best]) best = k;
            wrong += ((float *)x.memory[values].bytes)[at] != in[best] ||
                     ((int64_t *)x.memory[places].bytes)[at] != best - first;
        }
        EXPECT_INT(wrong, 0);
        fixture_deinit(&x);
    }
}

/* Each dtype is read from another block in a way of its own. */
TEST(sums_of_other_dtypes) {
    static const hn_dtype dtypes[] = {HN_DTYPE_F64, HN_DTYPE_I64, HN_DTYPE_I32, HN_DTYPE_BOOL};
    const shape s = {4, 64};
    for (size_t d = 0; d < HN_COUNT_OF(dtypes); d++) {
        fixture x;
        EXPECT_OK(fixture_init(&x));
        const uint32_t threads = s.blocks * s.threads, elems = GROUPS * threads;
        const size_t size = hn_dtype_facts(dtypes[d])->size_bytes;
        hn_buf from = add_input(&x, dtypes[d], elems, NULL), to = add_output(&x, dtypes[d], elems);
        uint8_t *in = x.memory[from].bytes, *got = x.memory[to].bytes;
        for (uint32_t k = 0; k < elems; k++) in[k * size] = k == threads + 200; /* a small number */
        EXPECT_OK(combine(&x, s, HN_OP_AMAX, from, to, 0, 1));
        uint32_t wrong = 0;
        for (uint32_t k = 0; k < elems; k++) wrong += got[k * size] != (k / threads == 1);
        EXPECT_INT(wrong, 0);
        fixture_deinit(&x);
    }
}

/* What a thread of one block has written those of the others see behind a barrier. */
TEST(a_barrier_is_for_all_blocks) {
    static float in[ELEMS_MOST];
    const shape s = {4, 64};
    const uint32_t threads = s.blocks * s.threads, elems = GROUPS * threads;
    fixture x;
    hn_form *f = NULL;
    EXPECT_OK(fixture_init(&x));
    for (uint32_t k = 0; k < elems; k++) in[k] = (float)k;
    hn_buf from = add_input(&x, HN_DTYPE_F32, elems, in),
           between = add_output(&x, HN_DTYPE_F32, elems), to = add_output(&x, HN_DTYPE_F32, elems);
    EXPECT_OK(begin_form(&x, s, &f));
    hn_fmem memory = hn_form_argument(f, between, 0, true);
    hn_form_store(f, memory, element_of(&x, f, 0),
                  load(f, hn_form_argument(f, from, 0, false), element_of(&x, f, 0)), HN_STORE_SET);
    hn_form_barrier(f);
    f->memories.items[memory].is_read = true;
    hn_form_store(f, hn_form_argument(f, to, 0, true), element_of(&x, f, 0),
                  load(f, memory, element_of(&x, f, 100)), HN_STORE_SET);
    EXPECT_OK(hn_form_end(f));
    EXPECT_OK(run_form(&x, f));
    uint32_t wrong = 0;
    for (uint32_t k = 0; k < elems; k++)
        wrong += ((float *)x.memory[to].bytes)[k] !=
                 (float)(k / threads * threads + (k + 100) % threads);
    EXPECT_INT(wrong, 0);
    fixture_deinit(&x);
}

/* A warp is in one block. */
TEST(short_blocks_are_refused) {
    fixture x;
    hn_form *f = NULL;
    EXPECT_OK(fixture_init(&x));
    EXPECT_OK(begin_form(&x, (shape){4, 16}, &f));
    hn_freg reg = hn_form_add_register(f, HN_OP_SUM, HN_DTYPE_F32);
    hn_form_init(f, reg);
    hn_form_across_threads(f, reg, f->threads, 1);
    EXPECT_OK(hn_form_end(f));
    EXPECT_ERROR(run_form(&x, f), HN_UNSUPPORTED, "no blocks of 16 threads in a group of several");
    fixture_deinit(&x);
}

/* ---- whole rows ---- */

static const hn_gpu_facts gpu_of_clusters = HN_TEST_GPU(64, 8);

static const char odd_rows[] =
    "graph {\ninput user %x : bf16[3, 4097] \"x\"\n%f = cast(%x, dtype=f32)\n"
    "%m = amax(%f, dims=[1], keepdim=true)\n%d = sub(%f, %m)\n%e = exp(%d)\n"
    "%s = sum(%e, dims=[1], keepdim=true)\n%l = log(%s)\n%y = add(%l, %m)\n"
    "output user %y \"\"\n}\n";
static const char norms[] =
    "graph {\ninput user %x : f32[3, 2048] \"x\"\ninput user %w : f32[2048] \"w\"\n"
    "%m = amax(%x, dims=[1], keepdim=true)\n%d = sub(%x, %m)\n%e = exp(%d)\n"
    "%s = sum(%e, dims=[1], keepdim=true)\n%q = div(%e, %s)\n%y = mul(%q, %w)\n"
    "output user %y \"\"\n}\n";

static hn_status parse(hn_arena *arena, const char *text, hn_graph **out) {
    hn_sym *sym;
    HN_TRY(hn_sym_create(arena, &sym));
    return hn_graph_parse(arena, sym, hn_str_of(text), out);
}

/* The graph by plan `choice`, against the interpreter. */
static hn_status check_graph(hn_arena *arena, const char *text, const hn_gpu_facts *facts,
                             uint64_t choice, double *out_apart) {
    const graph_how how = {.any_plan = true, .choice = choice, .facts = facts};
    hn_graph *graph;
    hn_ref_tensor inputs[HN_RANDOM_MAX_TENSORS], wanted, got;
    HN_TRY(parse(arena, text, &graph));
    hn_status status = hn_random_inputs(7, arena, graph, 0, inputs);
    if (!status) status = hn_interpret(arena, graph, inputs, graph->inputs.count, &wanted);
    if (!status)
        status = graph_run(host, arena, graph, &how, inputs, graph->inputs.count, &got, NULL);
    for (int64_t k = 0; !status && k < wanted.numel; k++) {
        const double apart =
            fabs(wanted.data.f[k] - got.data.f[k]) / (1e-3 + fabs(wanted.data.f[k]));
        *out_apart = fmax(*out_apart, isnan(apart) ? INFINITY : apart);
    }
    hn_graph_deinit(graph);
    return status;
}

static void check_plans(const char *text, const hn_gpu_facts *facts, uint64_t choices) {
    for (uint64_t choice = 0; choice < choices; choice++) {
        hn_arena arena;
        double apart = 0;
        hn_arena_init(&arena);
        EXPECT_OK(check_graph(&arena, text, facts, choice, &apart));
        EXPECT(apart < 1e-4);
        hn_arena_deinit(&arena);
    }
}

TEST(rows_of_several_blocks) {
    check_plans(norms, &gpu_of_clusters, 4);
    check_plans(odd_rows, &gpu_of_clusters, 4);
}

/* ---- rows that are staged ---- */

/* A group has two of six slabs of rows, or three, or none. */
static const char columns_of_rows[] =
    "graph {\ninput user %g : f32[14, 1032] \"g\"\ninput user %x : f32[14, 1032] \"x\"\n"
    "input user %r : f32[14, 1] \"r\"\ninput user %w : f32[1032] \"w\"\n"
    "%n = mul(%x, %r)\n%v = mul(%g, %w)\n%p = mul(%v, %n)\n"
    "%s = sum(%p, dims=[1], keepdim=true)\n%q = mul(%n, %s)\n%d = sub(%v, %q)\n"
    "%c = mul(%g, %n)\n%e = sum(%c, dims=[0], keepdim=true)\n%y = add(%d, %e)\n"
    "output user %y \"\"\n}\n";

TEST(rows_on_their_way) {
    hn_gpu_facts gpu_of_stages = HN_TEST_GPU(64, 1);
    gpu_of_stages.limits.long_row_elems = 4096; /* a few long rows are a row kernel */
    gpu_of_stages.staged_bytes = 64 << 10;
    gpu_of_stages.staged_row_elems = 256;
    check_plans(columns_of_rows, &gpu_of_stages, 16);
}

int main(int argc, char **argv) { return opencl_test_main(argc, argv); }
