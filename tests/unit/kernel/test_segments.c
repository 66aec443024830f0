/* test_segments.c: forms of several segments: their text, their rules, and that they compute what the
 * loops did, for random lengths on both kinds of processors. */
#include "base/file.h"
#include "kernel/plan_cpu.h"
#include "kernel/plan_gpu.h"
#include "tests/support/form_run.h"
#include "tests/support/imaginary_cpu.h"
#include "tests/support/imaginary_gpu.h"
#include "tests/support/random_graph.h"
#include "unit/harness.h"

/* ---- text and rules ---- */

#define PROGRAM                                                                                    \
    "program {\n"                                                                                  \
    "  b1 : input 0 f32[100]\n  b2 : input 1 f32[7]\n"                                             \
    "  b3 : output f32[100] extent 100\n  b4 : output f32[7] extent 7\n  b5 : input 2 f64[7]\n}\n"
#define HEAD                                                                                       \
    "form (length length0 in [7, 100]; group i64 < length0; thread i65 < 1) {\n"                   \
    "  m1 : argument b1 f32 read\n  m2 : argument b3 f32 write\n"
#define BODY  "  %1 = m1[i64] : f32\n  m2[i64] = %1\n}\n"
#define FIRST "  segment b1, b3 length 100\n"

static hn_status print_again(const char *text, hn_strbuf *out) {
    hn_arena arena;
    hn_sym *sym;
    hn_program *program;
    hn_form *f;
    hn_arena_init(&arena);
    hn_status status = hn_sym_create(&arena, &sym);
    if (!status) status = hn_program_parse(&arena, sym, HN_STR(PROGRAM), &program);
    if (!status) status = hn_form_parse(program, &arena, hn_str_of(text), &f);
    if (!status) hn_form_print(f, out);
    hn_arena_deinit(&arena);
    return status;
}

TEST(a_form_of_segments_comes_back) {
    static const char *const texts[] = {
        HEAD FIRST "  segment b2, b4 length 7\n" BODY,
        "form (length length0 in [0, none] divisor 64; range i64 to i65 of length0; lanes 8; grain "
        "1) {\n  m1 : argument b3 f32 write\n  segment b3 length 64\n  segment b4 length 0\n"
        "  for i66 in [i64, i65) extent length0 {\n    %2 = const 1.0 : f32\n"
        "    m1[i66] = %2\n  }\n}\n",
        "form (group i64 < 7; thread i65 < 1) {\n  m1 : argument b1 f32 read\n"
        "  m2 : argument b3 f32 write\n  segment b1, b3\n  segment b2, b4\n" BODY};
    for (size_t k = 0; k < HN_COUNT_OF(texts); k++) {
        hn_strbuf again;
        hn_strbuf_init(&again);
        EXPECT_OK(print_again(texts[k], &again));
        EXPECT_STR(hn_strbuf_str(&again).ptr, texts[k]);
        hn_strbuf_deinit(&again);
    }
}

TEST(the_example_of_the_specification_comes_back) {
    hn_strbuf file, again;
    hn_strbuf_init(&file);
    hn_strbuf_init(&again);
    EXPECT_OK(hn_file_read("docs/kernel-forms.md", &file));
    char *begin = file.ptr ? strstr(file.ptr, "form (length") : NULL,
         *end = begin ? strstr(begin, "\n}\n") : NULL;
    EXPECT(end != NULL);
    if (end) {
        end[strlen("\n}\n")] = 0;
        EXPECT_OK(print_again(begin, &again));
        EXPECT_STR(hn_strbuf_str(&again).ptr, begin);
    }
    hn_strbuf_deinit(&again);
    hn_strbuf_deinit(&file);
}

TEST(what_segments_may_not_have_is_refused) {
    static const struct {
        const char *text, *expected;
    } rows[] = {
        {HEAD FIRST BODY, "there is one segment"},
        {HEAD BODY, "a length, but no segments have it"},
        {HEAD FIRST "  segment b2, b4\n" BODY, "segment 1 has no length"},
        {HEAD FIRST "  segment b2, b3 length 7\n" BODY, "segment 1 has b3, which segment 0 writes"},
        {HEAD FIRST "  segment b3, b4 length 7\n" BODY, "segment 1 has b3, which segment 0 writes"},
        {HEAD FIRST "  segment b5, b4 length 7\n" BODY,
         "segment 1 has b5 for m1, which has another dtype"},
        {HEAD FIRST "  segment b1, b2 length 7\n" BODY,
         "segment 1 writes b2, an input of the program"},
        {HEAD FIRST "  segment b9, b4 length 7\n" BODY,
         "segment 1 has no buffer of the program for m1"},
        {HEAD "  segment b2, b4 length 7\n" FIRST BODY,
         "the first segment has b2 for m1, which is of b1"},
        {HEAD FIRST "  segment b2, b4 length i64\n" BODY,
         "the length of segment 1 uses other things than sizes"},
        {HEAD FIRST "  segment b2 length 7\n" BODY, "expected ','"},
        {"form (length length0 in [9, 7]; group i64 < length0; thread i65 < 1) {\n}\n",
         "no range or divisor of a length"},
    };
    for (size_t k = 0; k < HN_COUNT_OF(rows); k++) {
        hn_strbuf ignored;
        hn_strbuf_init(&ignored);
        hn_status status = print_again(rows[k].text, &ignored);
        EXPECT(status && strstr(hn_status_message(status), rows[k].expected));
        if (status && !strstr(hn_status_message(status), rows[k].expected))
            HN_TEST_FAIL("%s: %s", rows[k].expected, hn_status_message(status));
        hn_status_free(status);
        hn_strbuf_deinit(&ignored);
    }
}

/* ---- what they compute ---- */

static uint64_t next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static int64_t random_length(uint64_t *state) {
    static const int64_t lengths[] = {0,  1,  2,  3,  5,   7,   8,   13,  16,   31,
                                      32, 33, 64, 65, 127, 128, 129, 257, 1000, 1025};
    return lengths[next(state) % HN_COUNT_OF(lengths)];
}

enum { TENSORS_MOST = 6 };

/* Updates of tensors of random lengths, from two inputs each and one number for all. */
static void write_graph(uint64_t seed, hn_strbuf *out) {
    uint64_t state = seed;
    const uint32_t count = 2 + (uint32_t)(next(&state) % (TENSORS_MOST - 1));
    int64_t lengths[TENSORS_MOST];
    hn_strbuf_puts(out, "graph @g {\n");
    if (seed % 3 == 0) hn_strbuf_puts(out, "  symbol size s0 in [2, 100] hint 37\n");
    hn_strbuf_puts(out, "  input user %r : f32[] \"r\"\n");
    for (uint32_t k = 0; k < count; k++) {
        lengths[k] = random_length(&state);
        for (const char *name = "pg"; *name; name++) {
            hn_strbuf_printf(out, "  input user %%%c%u : f32[", *name, k);
            if (seed % 3 == 0 && k == 1) hn_strbuf_printf(out, "s0] \"%c%u\"\n", *name, k);
            else hn_strbuf_printf(out, "%lld] \"%c%u\"\n", (long long)lengths[k], *name, k);
        }
    }
    for (uint32_t k = 0; k < count; k++)
        hn_strbuf_printf(out,
                         "  %%a%u = mul(%%g%u, %%r)\n  %%b%u = sub(%%p%u, %%a%u)\n"
                         "  %%c%u = tanh(%%b%u)\n",
                         k, k, k, k, k, k, k);
    for (uint32_t k = 0; k < count; k++)
        hn_strbuf_printf(out, "  output user %%b%u \"b%u\"\n  output user %%c%u \"c%u\"\n", k, k, k,
                         k);
    hn_strbuf_puts(out, "}\n");
}

typedef struct planning {
    uint64_t seed;
    bool gpu;
    uint32_t segments;
} planning;

static hn_status plan(void *context, const hn_program *p, const hn_kernel *kernel, hn_arena *arena,
                      hn_arena *scratch, hn_form **out) {
    planning *x = context;
    const hn_cpu_facts cpu = hn_test_cpu(x->seed % 2);
    x->segments += kernel->segments.count;
    return x->gpu ? hn_form_plan_gpu(p, kernel, &hn_test_gpu, arena, scratch, out)
                  : hn_form_plan_cpu(p, kernel, 16u << x->seed / 2 % 3, &cpu, arena, scratch, out);
}

static hn_status check_seed(planning *x, hn_arena *arena, hn_graph **graph) {
    hn_ref_tensor inputs[HN_RANDOM_MAX_TENSORS];
    double tolerance[HN_RANDOM_MAX_TENSORS];
    hn_forms_count counted;
    hn_sym *sym;
    hn_strbuf text;
    const hn_forms_check how = {
        .plan = plan,
        .context = x,
        .schedule = {.threads = 2,
                     .limits = x->gpu ? &hn_test_gpu.limits : &hn_cpu_facts_common.limits}};
    for (size_t k = 0; k < HN_COUNT_OF(tolerance); k++) tolerance[k] = 1e-6;
    hn_strbuf_init(&text);
    write_graph(x->seed, &text);
    hn_status status = hn_sym_create(arena, &sym);
    if (!status) status = hn_graph_parse(arena, sym, hn_strbuf_str(&text), graph);
    if (!status) status = hn_random_inputs(x->seed, arena, *graph, 0, inputs);
    if (!status) status = hn_check_forms(*graph, inputs, tolerance, &how, &counted);
    hn_strbuf_deinit(&text);
    return status;
}

static void check_seeds(bool gpu) {
    uint32_t segments = 0;
    for (uint64_t seed = 0; seed < 60; seed++) {
        planning x = {.seed = seed, .gpu = gpu};
        hn_arena arena;
        hn_graph *graph = NULL;
        hn_arena_init(&arena);
        hn_status status = check_seed(&x, &arena, &graph);
        if (status)
            HN_TEST_FAIL("seed %llu: %s", (unsigned long long)seed, hn_status_message(status));
        hn_status_free(status);
        if (graph) hn_graph_deinit(graph);
        hn_arena_deinit(&arena);
        segments += x.segments;
    }
    EXPECT(segments > 100);
}

TEST(segments_compute_what_the_loops_did_on_a_cpu) { check_seeds(false); }
TEST(segments_compute_what_the_loops_did_on_a_gpu) { check_seeds(true); }

TEST_MAIN
