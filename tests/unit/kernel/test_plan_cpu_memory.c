/* test_plan_cpu_memory.c: forms for CPUs that are made for memory: tiles, wide tiles, strips of
 * sums. Facts of a processor for which they pay on small shapes make the planner take them; the
 * interpreter of forms runs them in several ranges, against that of loops. */
#include "base/compiler.h"
#include "kernel/cpu.h"
#include "kernel/plan_cpu.h"
#include "tests/support/form_run.h"
#include "tests/support/imaginary_cpu.h"
#include "tests/support/imaginary_gpu.h"
#include "tests/support/random_graph.h"
#include "unit/harness.h"

/* What the form of a kernel has. */
typedef struct contents {
    uint32_t transposes, prefetches, streams, conditions, masked;
} contents;

typedef struct planner {
    hn_cpu_facts facts;
    uint32_t vector_bytes;
    hn_cpu_form form; /* of the last kernel */
    contents has;     /* the last kernel's */
} planner;

static contents contents_of(const hn_form *f) {
    contents has = {0};
    for (hn_fid s = 1; s < f->stmts.count; s++) {
        const hn_form_stmt *stmt = &f->stmts.items[s];
        has.transposes += stmt->kind == HN_FORM_TRANSPOSE;
        has.prefetches += stmt->kind == HN_FORM_PREFETCH;
        has.streams += stmt->streams;
        has.conditions += stmt->kind == HN_FORM_IF;
        has.masked += stmt->kind == HN_FORM_LANES && stmt->lanes.rest == HN_FORM_REST_MASKED;
    }
    return has;
}

static hn_status plan(void *context, const hn_program *p, const hn_kernel *k, hn_arena *arena,
                      hn_arena *scratch, hn_form **out) {
    planner *by = context;
    hn_cpu_plan *decided;
    HN_TRY(hn_cpu_plan_create(p, k, by->vector_bytes, &by->facts, scratch, &decided));
    by->form = decided->form;
    HN_TRY(hn_form_plan_cpu(p, k, by->vector_bytes, &by->facts, arena, scratch, out));
    by->has = contents_of(*out);
    return NULL;
}

static hn_status run(planner *by, hn_arena *arena, const char *statements, hn_graph **graph) {
    const double exact[HN_RANDOM_MAX_TENSORS] = {0};
    const hn_forms_check how = {
        .plan = plan, .context = by, .schedule = {.threads = 2, .limits = &by->facts.limits}};
    hn_sym *sym;
    hn_strbuf text;
    hn_ref_tensor inputs[HN_RANDOM_MAX_TENSORS];
    hn_forms_count count;
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "graph {\n%s\n}\n", statements);
    hn_status status = hn_sym_create(arena, &sym);
    if (!status) status = hn_graph_parse(arena, sym, hn_strbuf_str(&text), graph);
    if (!status) status = hn_random_inputs(3, arena, *graph, 0, inputs);
    if (!status) status = hn_check_forms(*graph, inputs, exact, &how, &count);
    hn_strbuf_deinit(&text);
    return status;
}

/* The last kernel of the graph, whose results are exact in any order, has the form with vectors of
 * every length. */
static void check(planner *by, hn_cpu_form form, const char *statements) {
    for (by->vector_bytes = 16; by->vector_bytes <= 64; by->vector_bytes *= 2) {
        hn_arena arena;
        hn_graph *graph = NULL;
        hn_arena_init(&arena);
        EXPECT_OK(run(by, &arena, statements, &graph));
        EXPECT_INT(by->form, form);
        if (graph) hn_graph_deinit(graph);
        hn_arena_deinit(&arena);
    }
}

#define TRANSPOSE_OF(shape, dtype)                                                                 \
    "input user %x : " dtype "[" shape "] \"x\"\n%y = permute(%x, dims=[1, 0])\noutput user %y "   \
    "\"\""

/* --- tiles --- */

static planner narrow_planner(void) {
    planner by = {.facts = hn_test_cpu(true)};
    by.facts.wide_tile_parts_min = INT64_MAX;
    by.facts.narrow_tile_vectors = 0;
    return by;
}

TEST(tiles_of_any_shape) {
    planner by = narrow_planner();
    check(&by, HN_CPU_TILES, TRANSPOSE_OF("64, 128", "f32"));
    check(&by, HN_CPU_TILES, TRANSPOSE_OF("70, 131", "f32"));
    check(&by, HN_CPU_TILES, TRANSPOSE_OF("3, 2", "f32"));
    check(&by, HN_CPU_TILES, TRANSPOSE_OF("67, 3", "f32"));
}

TEST(tiles_of_any_dtype) {
    planner by = narrow_planner();
    check(&by, HN_CPU_TILES, TRANSPOSE_OF("35, 70", "f64"));
    check(&by, HN_CPU_TILES, TRANSPOSE_OF("35, 70", "i64"));
    check(&by, HN_CPU_TILES, TRANSPOSE_OF("35, 70", "bf16"));
    check(&by, HN_CPU_TILES, TRANSPOSE_OF("35, 70", "u8"));
    check(&by, HN_CPU_TILES, TRANSPOSE_OF("35, 70", "bool"));
}

/* Two arrays, which have their lines asked for, and an operand that is read as it is written. */
TEST(tiles_of_several_operands) {
    planner by = narrow_planner();
    const char *statements = "input user %x : f32[3, 40, 70] \"x\"\n"
                             "input user %y : i16[3, 40, 70] \"y\"\n"
                             "input user %z : f32[3, 70, 40] \"z\"\n"
                             "%a = permute(%x, dims=[0, 2, 1])\n%b = permute(%y, dims=[0, 2, 1])\n"
                             "%c = cast(%b, dtype=f32)\n%d = add(%a, %z)\n%e = min(%c, %d)\n"
                             "output user %e \"\"";
    check(&by, HN_CPU_TILES, statements);
    EXPECT_INT(by.has.transposes, 2);
    EXPECT_INT(by.has.prefetches, 2);
    by.facts.tile_ahead_bytes = 1 << 20; /* a cache has all of it */
    check(&by, HN_CPU_TILES, statements);
    EXPECT_INT(by.has.prefetches, 0);
}

/* --- wide tiles --- */

/* Squares have 128 elements a side. */
TEST(wide_tiles_of_whole_squares) {
    planner by = {.facts = hn_test_cpu(true)};
    check(&by, HN_CPU_TILES_WIDE, TRANSPOSE_OF("256, 384", "f32"));
    EXPECT_INT(by.has.transposes, 1);
    EXPECT_INT(by.has.masked, 0);
    EXPECT_INT(by.has.streams, 2); /* while the next square is transposed, and of the last one */
}

TEST(wide_tiles_with_edges) {
    planner by = {.facts = hn_test_cpu(true)};
    check(&by, HN_CPU_TILES_WIDE, TRANSPOSE_OF("257, 383", "i32"));
    EXPECT_INT(by.has.transposes, 2);
    EXPECT_INT(by.has.masked, 1);
    check(&by, HN_CPU_TILES_WIDE, TRANSPOSE_OF("128, 300", "f32"));
    check(&by, HN_CPU_TILES_WIDE, TRANSPOSE_OF("300, 128", "f32"));
}

/* Where no whole square is, nothing is said of them. */
TEST(wide_tiles_of_edges_alone) {
    planner by = {.facts = hn_test_cpu(true)};
    check(&by, HN_CPU_TILES_WIDE, TRANSPOSE_OF("300, 127", "f32"));
    EXPECT_INT(by.has.transposes, 1);
    EXPECT_INT(by.has.conditions, 0);
    check(&by, HN_CPU_TILES_WIDE, TRANSPOSE_OF("5, 300", "f32"));
}

/* Ranges begin and end inside of matrices, and the rows of the operand that is read as it is
 * written are asked for. */
TEST(wide_tiles_of_several_matrices) {
    planner by = {.facts = hn_test_cpu(true)};
    check(&by, HN_CPU_TILES_WIDE,
          "input user %x : f32[3, 140, 270] \"x\"\ninput user %z : f32[3, 270, 140] \"z\"\n"
          "%a = permute(%x, dims=[0, 2, 1])\n%b = add(%a, %z)\noutput user %b \"\"");
    EXPECT_INT(by.has.prefetches, 2);
}

/* --- strips of sums --- */

#define SUM_OF(shape, dtype)                                                                       \
    "input user %x : " dtype "[" shape                                                             \
    "] \"x\"\n%s = sum(%x, dims=[0], keepdim=false)\noutput user %s \"\""

/* Strips have 64 columns, or 128. */
TEST(strips_of_any_shape) {
    planner by = {.facts = hn_test_cpu(true)};
    check(&by, HN_CPU_COLUMNS_WIDE, SUM_OF("64, 256", "f32"));
    EXPECT_INT(by.has.masked, 0);
    check(&by, HN_CPU_COLUMNS_WIDE, SUM_OF("67, 133", "f32"));
    EXPECT(by.has.masked > 0);
    check(&by, HN_CPU_COLUMNS_WIDE, SUM_OF("66, 70", "f64"));
    check(&by, HN_CPU_COLUMNS_WIDE, SUM_OF("5, 65", "f32"));
    check(&by, HN_CPU_COLUMNS_WIDE, SUM_OF("3, 3", "f32"));
}

/* Two sums in one pass, and what comes after them. */
TEST(strips_of_two_sums) {
    planner by = {.facts = hn_test_cpu(true)};
    check(&by, HN_CPU_COLUMNS_WIDE,
          "input user %x : f32[3, 41, 75] \"x\"\ninput user %y : f32[3, 75] \"y\"\n"
          "%q = abs(%x)\n%s = sum(%x, dims=[1], keepdim=false)\n%t = sum(%q, dims=[1], "
          "keepdim=false)\n"
          "%a = max(%s, %y)\n%b = sub(%a, %t)\noutput user %b \"\"\noutput user %s \"\"");
}

TEST_MAIN
