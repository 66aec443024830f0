/* test_interpret.c: what the interpreter of wrapper IR finds wrong. That it is right of programs
 * that are right is shown by tests/graphs/run_wrappers.c. */
#include "driver/driver.h"
#include "interp/interpret.h"
#include "unit/harness.h"

static const char graph[] = "graph @g {\n"
                            "  input user %a : f32[6, 6] \"a\"\n"
                            "  %b = aten.mm.default(%a, %a) : f32[6, 6]\n"
                            "  %c = aten.mm.default(%b, %a) : f32[6, 6]\n"
                            "  %d = aten.mm.default(%b, %c) : f32[6, 6]\n"
                            "  %e = aten.mm.default(%d, %c) : f32[6, 6]\n"
                            "  output user %e \"e\"\n}\n";

typedef struct fixture {
    hn_arena arena;
    hn_graph *graph;
    hn_driver d;
    hn_wrapper *w;
    hn_memory_plan plan;
    hn_ref_tensor input, expected, actual;
} fixture;

static const hn_compile_options usual = {.threads = 2, .target = "x86-64-v3"};
static const hn_compile_options combined = {
    .threads = 2, .target = "x86-64-v3", .memory_pool = HN_MEMORY_POOL_COMBINED};
static const char *const input_a[] = {"a"};
static const hn_compile_options donating = {
    .threads = 2, .target = "x86-64-v3", .donated = input_a, .donated_count = 1};

static void fixture_init_with(fixture *x, const hn_compile_options *options) {
    hn_arena_init(&x->arena);
    hn_driver_init(&x->d, options, NULL);
    EXPECT_OK(hn_sym_create(&x->arena, &x->d.sym));
    EXPECT_OK(hn_graph_parse(&x->arena, x->d.sym, HN_STR(graph), &x->graph));
    x->d.graph = x->graph;
    EXPECT_OK(hn_driver_targets(&x->d));
    EXPECT_OK(hn_driver_passes(&x->d));
    EXPECT_OK(hn_ref_tensor_init(&x->arena, HN_DTYPE_F32, 2, (int64_t[]){6, 6}, &x->input));
    for (int64_t k = 0; k < 36; k++) x->input.data.f[k] = (double)(k % 7) - 3;
    EXPECT_OK(hn_interpret(&x->arena, x->graph, &x->input, 1, &x->expected));
    EXPECT_OK(hn_driver_kernels(&x->d));
    EXPECT_OK(hn_driver_wrapper(&x->d, &x->w));
    EXPECT_OK(hn_driver_plan(&x->d, x->w, &x->plan));
}

static void fixture_init(fixture *x) { fixture_init_with(x, &usual); }

static void fixture_deinit(fixture *x) {
    hn_graph_deinit(x->graph);
    hn_driver_deinit(&x->d);
    hn_arena_deinit(&x->arena);
}

static hn_status run(fixture *x) {
    return hn_wrapper_interpret(&x->arena, x->w, &(hn_interpret_how){.plan = &x->plan}, &x->input,
                                1, &x->actual);
}

static bool is_right(const fixture *x) {
    return hn_ref_compare(&x->actual, &x->expected, 1e-6, 1e-6, NULL);
}

/* The line of this kind, number `skip` of them. */
static uint32_t line_of(const fixture *x, hn_line_kind kind, uint32_t skip) {
    uint32_t i = 0;
    for (; i < x->w->lines.count; i++)
        if (x->w->lines.items[i].kind == kind && !skip--) return i;
    HN_TEST_FAIL("no such line");
    return 0;
}

TEST(a_program_as_planned_is_right) {
    fixture x;
    fixture_init(&x);
    EXPECT_OK(run(&x));
    EXPECT(is_right(&x));
    fixture_deinit(&x);
}

/* What the call writes, number `k` of them. */
static hn_wbuf result_of(const fixture *x, uint32_t k) {
    return x->w->lines.items[line_of(x, HN_LINE_EXTERN, k)].operands[0].buffer;
}

TEST(outputs_lie_in_the_pool) {
    fixture x;
    fixture_init_with(&x, &combined);
    const hn_wbuf d = result_of(&x, 2), e = result_of(&x, 3);
    EXPECT_INT(x.plan.pool_list.count, 1);
    EXPECT_INT(x.w->buffers.items[e].kind, HN_WBUF_OUTPUT);
    EXPECT(x.plan.pools[d] == 1 && x.plan.pools[e] == 1);
    EXPECT_OK(run(&x));
    EXPECT(is_right(&x));
    x.plan.offsets[e] = x.plan.offsets[d];
    EXPECT_ERROR(run(&x), HN_INTERNAL, "operand 0 is written over operand 1");
    x.plan.offsets[e] = hn_sym_int(x.d.sym, 1 << 20);
    EXPECT_ERROR(run(&x), HN_INTERNAL, "in a pool of");
    fixture_deinit(&x);
}

/* The second product is the last that reads a: the third may lie there, the first may not. */
TEST(a_donated_input_is_gone_where_something_begins_in_it) {
    fixture x;
    fixture_init_with(&x, &donating);
    const hn_wbuf b = result_of(&x, 0), e = result_of(&x, 3);
    EXPECT_INT(x.plan.pool_list.count, 1);
    EXPECT(x.plan.pools[e] == 1 && !x.plan.pools[b]);
    EXPECT_OK(run(&x));
    EXPECT(is_right(&x));
    x.plan.pools[b] = 1;
    x.plan.offsets[b] = hn_sym_int(x.d.sym, 0);
    EXPECT_ERROR(run(&x), HN_INTERNAL, "buffer 1 is freed");
    fixture_deinit(&x);
}

/* b and c are alive together. */
TEST(temporaries_in_one_place_are_noticed) {
    fixture x;
    fixture_init(&x);
    const hn_wbuf b = x.w->lines.items[line_of(&x, HN_LINE_EXTERN, 0)].operands[0].buffer,
                  c = x.w->lines.items[line_of(&x, HN_LINE_EXTERN, 1)].operands[0].buffer;
    EXPECT(b != c && x.plan.offsets[b] != x.plan.offsets[c]);
    x.plan.offsets[c] = x.plan.offsets[b];
    EXPECT_ERROR(run(&x), HN_INTERNAL, "operand 0 is written over operand 1");
    fixture_deinit(&x);
}

/* The same where no line has both: what is allocated spoils what is there. */
TEST(memory_that_begins_spoils_what_is_alive_there) {
    fixture x;
    fixture_init(&x);
    const hn_wbuf c = x.w->lines.items[line_of(&x, HN_LINE_EXTERN, 1)].operands[0].buffer;
    const uint32_t at = line_of(&x, HN_LINE_EXTERN, 2);
    EXPECT_OK(hn_wrapper_add_line(x.w, (hn_line){.kind = HN_LINE_COMMENT}));
    hn_wbuffer other = x.w->buffers.items[c];
    hn_wbuf b;
    hn_expr *offsets;
    EXPECT_OK(hn_wrapper_add_buffer(x.w, other, &b));
    void *list = NULL;
    uint32_t *slots;
    EXPECT_OK(hn_arena_array(&x.arena, b + 1, sizeof *offsets, &list));
    offsets = list;
    memcpy(offsets, x.plan.offsets, b * sizeof *offsets);
    offsets[b] = offsets[c];
    x.plan.offsets = offsets;
    EXPECT_OK(hn_arena_array(&x.arena, b + 1, sizeof *slots, &list));
    x.plan.slots = list;
    EXPECT_OK(hn_arena_array(&x.arena, b + 1, sizeof *slots, &list));
    x.plan.pools = list;
    memmove(&x.w->lines.items[at + 1], &x.w->lines.items[at],
            (x.w->lines.count - 1 - at) * sizeof *x.w->lines.items);
    x.w->lines.items[at] = (hn_line){.kind = HN_LINE_ALLOCATE, .buffer = b};
    hn_status status = run(&x);
    EXPECT_ERROR(status, HN_INTERNAL, "is never freed"); /* the end is reached */
    EXPECT(!is_right(&x));
    fixture_deinit(&x);
}

TEST(memory_is_freed_once) {
    fixture x;
    fixture_init(&x);
    hn_line *line = &x.w->lines.items[line_of(&x, HN_LINE_FREE, 0)];
    const hn_line kept = *line;
    line->kind = HN_LINE_COMMENT;
    EXPECT_ERROR(run(&x), HN_INTERNAL, "is never freed");
    x.w->lines.items[x.w->lines.count - 1] = kept;
    *line = kept;
    EXPECT_ERROR(run(&x), HN_INTERNAL, "is freed");
    fixture_deinit(&x);
}

TEST(what_is_used_has_memory) {
    fixture x;
    fixture_init(&x);
    x.w->lines.items[line_of(&x, HN_LINE_ALLOCATE, 0)].kind = HN_LINE_COMMENT;
    EXPECT_ERROR(run(&x), HN_INTERNAL, "has no memory");
    fixture_deinit(&x);
}

/* A workspace that nobody uses, at the front: zeroed where it has memory. */
TEST(workspaces_are_zeroed) {
    fixture x;
    fixture_init(&x);
    const hn_wbuf b = x.w->buffers.count;
    hn_expr *offsets;
    uint32_t *slots;
    void *list = NULL;
    hn_wbuf made;
    EXPECT_OK(hn_wrapper_add_buffer(x.w,
                                    (hn_wbuffer){.kind = HN_WBUF_WORKSPACE,
                                                 .dtype = HN_DTYPE_U8,
                                                 .bytes = hn_sym_int(x.d.sym, 64),
                                                 .zeroed = HN_WZEROED_EACH},
                                    &made));
    EXPECT_OK(hn_arena_array(&x.arena, b + 1, sizeof *offsets, &list));
    offsets = list;
    memcpy(offsets, x.plan.offsets, b * sizeof *offsets);
    offsets[b] = hn_sym_int(x.d.sym, 0);
    x.plan.offsets = offsets;
    EXPECT_OK(hn_arena_array(&x.arena, b + 1, sizeof *slots, &list));
    x.plan.slots = list;
    EXPECT_OK(hn_arena_array(&x.arena, b + 1, sizeof *slots, &list));
    x.plan.pools = list;
    for (int k = 0; k < 3; k++)
        EXPECT_OK(hn_wrapper_add_line(x.w, (hn_line){.kind = HN_LINE_COMMENT}));
    memmove(&x.w->lines.items[3], x.w->lines.items,
            (x.w->lines.count - 3) * sizeof *x.w->lines.items);
    static const hn_line_kind kinds[] = {HN_LINE_ALLOCATE, HN_LINE_ZERO, HN_LINE_FREE};
    for (int k = 0; k < 3; k++) x.w->lines.items[k] = (hn_line){.kind = kinds[k], .buffer = b};
    EXPECT_OK(run(&x));
    EXPECT(is_right(&x));
    x.w->lines.items[0].kind = HN_LINE_ZERO;
    EXPECT_ERROR(run(&x), HN_INTERNAL, "has no memory");
    fixture_deinit(&x);
}

TEST(an_unknown_line_is_an_error) {
    fixture x;
    fixture_init(&x);
    x.w->lines.items[0].kind = (hn_line_kind)99;
    EXPECT_ERROR(run(&x), HN_INTERNAL, "line 0: a line of unknown kind 99");
    fixture_deinit(&x);
}

TEST_MAIN
