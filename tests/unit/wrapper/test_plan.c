/* test_plan.c: the memory planner: no two live buffers share bytes, for random programs with
 * constant and symbolic sizes and conditionals, and little is wasted. */
#include "base/trace.h"
#include "unit/wrapper/plan_fixture.h"
#include "wrapper/donate.h"
#include "wrapper/order.h"
#include "wrapper/plan_print.h"

#include <stdlib.h>

TEST(random_constant_sizes) {
    double worst = 0, sum = 0;
    uint32_t count = 0;
    for (uint32_t seed = 0; seed < 60; seed++) {
        fixture f;
        hn_memory_plan plan;
        setup(&f, seed);
        random_program(&f, 20 + draw(&f, 200), NULL, 0, seed % 2);
        EXPECT_OK(hn_wrapper_verify(f.w));
        EXPECT_OK(hn_wrapper_plan(f.w, &plan));
        EXPECT_OK(hn_wrapper_verify(f.w));
        EXPECT_OK(hn_wrapper_plan_verify(f.w, &plan));
        double ratio = (double)as_int(&f, plan.workspaces[HN_DEVICE_CPU]) /
                       (double)as_int(&f, plan.live_bound_bytes);
        if (ratio > worst) worst = ratio;
        sum += ratio;
        count++;
        EXPECT(ratio >= 1.0);
        teardown(&f);
    }
    printf("planner: workspace over lower bound: mean %.4f, worst %.4f\n", sum / count, worst);
    EXPECT(sum / count < 1.01);
    EXPECT(worst < 1.15);
}

TEST(random_symbolic_sizes) {
    for (uint32_t seed = 0; seed < 60; seed++) {
        fixture f;
        hn_memory_plan plan;
        setup(&f, 1000 + seed);
        hn_expr symbols[2] = {hn_sym_symbol(f.sym, HN_STR("s0"), HN_SYMBOL_SIZE, 1, 4096),
                              hn_sym_symbol(f.sym, HN_STR("s1"), HN_SYMBOL_SIZE, 0, HN_SYM_MAX)};
        hn_sym_set_hint(f.sym, symbols[0], 8);
        hn_sym_set_hint(f.sym, symbols[1], 32);
        random_program(&f, 20 + draw(&f, 60), symbols, 2, seed % 2);
        EXPECT_OK(hn_wrapper_plan(f.w, &plan));
        EXPECT_OK(hn_wrapper_verify(f.w));
        EXPECT_OK(hn_wrapper_plan_verify(f.w, &plan));
        teardown(&f);
    }
}

/* A chain whose sizes are multiples of `unit`. Returns the workspace at the hint. */
static int64_t plan_chain(bool symbolic) {
    fixture f;
    hn_memory_plan plan;
    hn_wbuf previous = 0;
    setup(&f, 7);
    hn_expr s0 = hn_sym_symbol(f.sym, HN_STR("s0"), HN_SYMBOL_SIZE, 1, 1024);
    hn_sym_set_hint(f.sym, s0, 4);
    for (uint32_t i = 0; i < 100; i++) {
        hn_wbuf b = add_temp(&f, hn_sym_mul(f.sym, hn_sym_int(f.sym, 1024 * (1 + draw(&f, 5))),
                                            symbolic ? s0 : hn_sym_int(f.sym, 4)));
        add_call(&f, previous, 0, b);
        previous = b;
    }
    EXPECT_OK(hn_wrapper_plan(f.w, &plan));
    EXPECT_OK(hn_wrapper_plan_verify(f.w, &plan));
    EXPECT_INT(hn_sym_sum(f.sym, plan.workspaces[HN_DEVICE_CPU]).count, symbolic);
    int64_t bytes = as_int(&f, plan.workspaces[HN_DEVICE_CPU]);
    teardown(&f);
    return bytes;
}

/* A model with a dynamic batch: every size is a multiple of s0. The packing is as tight as for a
 * constant one. */
TEST(multiples_of_one_symbol_are_packed) { EXPECT_INT(plan_chain(true), plan_chain(false)); }

TEST(bodies_share_memory) {
    /* A temporary of one body takes the place of one of the other. */
    static const char text[] =
        "wrapper { buffer b1 : input bool[] source 0 buffer b2 : temp f32[1024] bytes(4096) buffer b3 : temp f32[1024] bytes(4096) "
        "buffer b4 : output f32[1024] bytes(4096) kernel k1 : object 0 input \"p\" : bool[] strides [] in b1 "
        "cond(b1 bool) { call k1(out b2 f32) extent(1) call k1(b2 f32, out b4 f32) extent(1) } else "
        "{ call k1(out b3 f32) extent(1) call k1(b3 f32, out b4 f32) extent(1) } "
        "output tensor \"y\" : f32[1024] strides [1] in b4 }";
    fixture f;
    hn_memory_plan plan;
    hn_strbuf out;
    setup(&f, 0);
    hn_strbuf_init(&out);
    EXPECT_OK(hn_wrapper_parse(&f.arena, f.sym, hn_str_of(text), &f.w));
    EXPECT_OK(hn_wrapper_plan(f.w, &plan));
    EXPECT_OK(hn_wrapper_verify(f.w));
    EXPECT_INT(as_int(&f, plan.workspaces[HN_DEVICE_CPU]), 4096);
    hn_wrapper_print(f.w, &out);
    EXPECT(strstr(out.ptr,
                  "  allocate b4\n  cond(b1 bool) {\n    allocate b2\n    call k1(out b2") != NULL);
    EXPECT(strstr(out.ptr, "    free b3\n  }\n  output") != NULL);
    hn_strbuf_deinit(&out);
    teardown(&f);
}

/* Sizes stand as expressions in front of a text that is read back. */
TEST(a_plan_as_comments_of_a_text) {
    static const char text[] =
        "wrapper { symbol size s in [1, 100] hint 8 buffer b1 : input f32[s] source 0 "
        "buffer b2 : temp f32[s, 1024] bytes(4096*s) buffer b3 : output f32[s, 1024] bytes(4096*s) kernel k1 : object 0 "
        "input \"x\" : f32[s] strides [1] in b1 call k1(b1 f32, out b2 f32) extent(1) "
        "call k1(b2 f32, out b3 f32) extent(1) output tensor \"y\" : f32[s, 1024] strides [1024, 1] in b3 }";
    fixture f;
    hn_memory_plan plan;
    hn_strbuf first, second;
    setup(&f, 0);
    hn_strbuf_init(&first);
    hn_strbuf_init(&second);
    EXPECT_OK(hn_wrapper_parse(&f.arena, f.sym, hn_str_of(text), &f.w));
    EXPECT_OK(hn_wrapper_plan_with(f.w, &(hn_plan_options){.pool = HN_POOL_COMBINED}, &plan));
    EXPECT_OK(hn_memory_plan_print(f.w, &plan, HN_MEMORY_PLAN_TEXT, &first));
    EXPECT_STR(first.ptr, "# pool 65536 bytes, lower bound 65536 bytes, ratio 1.0000\n"
                          "# pool 1 on cpu: 8192*s bytes\n"
                          "# b2: pool 1 at 0, 4096*s bytes, lines 1 to 3\n"
                          "# b3: pool 1 at 4096*s, 4096*s bytes, lines 3 to 5\n");
    const size_t places = first.len;
    hn_wrapper_print(f.w, &first);
    EXPECT_OK(hn_wrapper_parse(&f.arena, f.sym, hn_strbuf_str(&first), &f.w));
    hn_wrapper_print(f.w, &second);
    EXPECT_STR(second.ptr, first.ptr + places);
    hn_strbuf_deinit(&first);
    hn_strbuf_deinit(&second);
    teardown(&f);
}

TEST(reuse_and_mutations) {
    /* b3 takes b2's memory although both are mentioned in one line; b4 only feeds a mutation: a
     * temporary to the end. */
    static const char text[] =
        "wrapper { buffer b1 : input f32[16] source 0 buffer b2 : temp f32[1024] bytes(4096) buffer b3 : temp f32[1024] bytes(4096) "
        "buffer b4 : output f32[16] bytes(64) buffer b5 : temp f32[16] bytes(64) kernel k1 : object 0 "
        "input \"x\" : f32[16] strides [1] in b1 "
        "call k1(b1 f32, out b2 f32) extent(1) reuse b3 from b2 call k1(b1 f32, out b3 f32) extent(1) "
        "call k1(b3 f32, out b4 f32) extent(1) call k1(b4 f32, out b5 f32) extent(1) "
        "output mutation \"x\" target 0 : f32[16] strides [1] in b4 }";
    fixture f;
    hn_memory_plan plan;
    setup(&f, 0);
    EXPECT_OK(hn_wrapper_parse(&f.arena, f.sym, hn_str_of(text), &f.w));
    EXPECT_OK(hn_wrapper_plan(f.w, &plan));
    EXPECT_OK(hn_wrapper_verify(f.w));
    EXPECT_OK(hn_wrapper_plan_verify(f.w, &plan));
    EXPECT_INT(plan.offsets[2], plan.offsets[3]);
    EXPECT_INT(f.w->buffers.items[4].kind, HN_WBUF_TEMP);
    EXPECT(plan.offsets[4] && plan.offsets[5] && plan.offsets[4] != plan.offsets[5]);
    EXPECT_INT(as_int(&f, plan.workspaces[HN_DEVICE_CPU]), 4096 + 64);
    teardown(&f);
}

/* ---- pools, and inputs that are given up ---- */

/* Inputs that some lines read, and some of the last buffers as outputs. */
static void add_ends(fixture *f, const hn_expr *symbols, uint32_t symbol_count) {
    for (uint32_t k = 0; k < 3; k++) {
        const uint32_t input = f->w->inputs.count;
        hn_expr *dims;
        hn_wbuf b = 0;
        dims = hn_arena_alloc(&f->arena, 2 * sizeof *dims);
        dims[0] = random_bytes(f, symbols, symbol_count), dims[1] = hn_sym_int(f->sym, 1);
        EXPECT_OK(hn_wrapper_add_buffer(f->w,
                                        (hn_wbuffer){.kind = HN_WBUF_INPUT,
                                                     .dtype = HN_DTYPE_U8,
                                                     .rank = 1,
                                                     .sizes = dims,
                                                     .strides = dims + 1,
                                                     .source = input},
                                        &b));
        const hn_winput in = {.name = HN_STR("x"),
                              .dtype = HN_DTYPE_U8,
                              .rank = 1,
                              .sizes = dims,
                              .strides = dims + 1,
                              .buffer = b};
        hn_winput *grown = hn_arena_alloc(&f->arena, (input + 1u) * sizeof *grown);
        if (input) memcpy(grown, f->w->inputs.items, input * sizeof *grown);
        grown[input] = in;
        f->w->inputs.items = grown;
        f->w->inputs.count = f->w->inputs.cap = input + 1;
    }
}

/* Lines at the front that read the inputs, some of whose results may be over them. */
static void read_inputs(fixture *f) {
    for (uint32_t k = 0; k < f->w->inputs.count; k++) {
        const hn_winput *in = &f->w->inputs.items[k];
        hn_expr bytes = draw(f, 2) ? in->sizes[0] : hn_sym_int(f->sym, 64);
        hn_woperand operands[2] = {{.buffer = in->buffer, .dtype = HN_DTYPE_U8},
                                   {.buffer = add_temp(f, bytes),
                                    .dtype = HN_DTYPE_U8,
                                    .written = true,
                                    .over = draw(f, 2)}};
        EXPECT_OK(hn_wrapper_add_line(f->w, (hn_line){.kind = HN_LINE_KERNEL,
                                                      .kernel = f->kernel,
                                                      .operands = operands,
                                                      .operand_count = 2,
                                                      .extent = hn_sym_int(f->sym, 1)}));
        if (draw(f, 2)) EXPECT_OK(hn_wrapper_donate(f->w, k));
    }
}

/* Some of the buffers that lines outside of conditionals write. */
static void add_outputs(fixture *f) {
    static hn_woutput outputs[8];
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->w->lines.count && count < 4; i++) {
        const hn_line *line = &f->w->lines.items[i];
        i += line->then_count + line->otherwise_count;
        const hn_wbuf b = line->operands[line->operand_count - 1].buffer;
        if (line->kind != HN_LINE_KERNEL || f->w->buffers.items[b].kind != HN_WBUF_TEMP ||
            b == f->flag || draw(f, 8))
            continue;
        f->w->buffers.items[b].kind = HN_WBUF_OUTPUT;
        outputs[count++] = (hn_woutput){.name = HN_STR("y"), .buffer = b, .dtype = HN_DTYPE_U8};
    }
    f->w->outputs.items = outputs;
    f->w->outputs.count = f->w->outputs.cap = count;
}

/* Every mode, with constant and symbolic sizes, conditionals and donated inputs: nothing
 * overlaps. */
TEST(random_programs_in_every_mode) {
    for (uint32_t seed = 0; seed < 400; seed++) {
        const hn_plan_options options = {.pool = (hn_pool_mode)(seed % 4)};
        fixture f;
        hn_memory_plan plan;
        setup(&f, 9000 + seed);
        hn_expr symbols[2] = {hn_sym_symbol(f.sym, HN_STR("s0"), HN_SYMBOL_SIZE, 1, 4096),
                              hn_sym_symbol(f.sym, HN_STR("s1"), HN_SYMBOL_SIZE, 0, 4096)};
        const uint32_t symbol_count = seed % 3 ? 0 : 2;
        add_ends(&f, symbols, symbol_count);
        read_inputs(&f);
        random_program(&f, 5 + draw(&f, 60), symbols, symbol_count, seed % 2);
        add_outputs(&f);
        EXPECT_OK(hn_wrapper_verify(f.w));
        if (options.pool != HN_POOL_NONE) {
            EXPECT_OK(hn_wrapper_order(f.w, &options));
            EXPECT_OK(hn_wrapper_verify(f.w));
            EXPECT_OK(hn_wrapper_reuse(f.w));
        }
        EXPECT_OK(hn_wrapper_plan_with(f.w, &options, &plan));
        EXPECT_OK(hn_wrapper_verify(f.w));
        EXPECT_OK(hn_wrapper_plan_verify(f.w, &plan));
        EXPECT(hn_memory_plan_bytes(f.w, &plan) >= as_int(&f, plan.live_bound_bytes));
        for (uint32_t k = 0; k < plan.pool_list.count; k++)
            EXPECT(options.pool >= HN_POOL_OUTPUTS || plan.pool_list.items[k].input);
        teardown(&f);
    }
}

#define POOL_HEAD                                                                                                                   \
    "wrapper { buffer b1 : input f32[1024] source 0 buffer b2 : temp f32[1024] bytes(4096) buffer b3 : temp f32[1024] bytes(4096) " \
    "buffer b4 : output f32[1024] bytes(4096) buffer b5 : output f32[16] bytes(64) kernel k1 : object 0 "

/* The bytes of the workspace and of all pools of fresh memory. */
static int64_t planned(const char *text, hn_pool_mode pool, int64_t *out_workspace) {
    fixture f;
    hn_memory_plan plan;
    setup(&f, 0);
    EXPECT_OK(hn_wrapper_parse(&f.arena, f.sym, hn_str_of(text), &f.w));
    EXPECT_OK(hn_wrapper_verify(f.w));
    if (pool != HN_POOL_NONE) EXPECT_OK(hn_wrapper_reuse(f.w));
    EXPECT_OK(hn_wrapper_plan_with(f.w, &(hn_plan_options){pool}, &plan));
    EXPECT_OK(hn_wrapper_verify(f.w));
    EXPECT_OK(hn_wrapper_plan_verify(f.w, &plan));
    *out_workspace = as_int(&f, plan.workspaces[HN_DEVICE_CPU]);
    const int64_t bytes = hn_memory_plan_bytes(f.w, &plan);
    teardown(&f);
    return bytes;
}

TEST(what_the_modes_share) {
    static const char text[] = POOL_HEAD
        "input \"x\" : f32[1024] strides [1] in b1 call k1(b1 f32, out b2 f32) extent(1) "
        "call k1(b2 f32, out b3 f32) extent(1) call k1(b3 f32, out b4 f32) extent(1) call k1(b4 f32, out b5 f32) extent(1) "
        "output tensor \"y\" : f32[1024] strides [1] in b4 output tensor \"z\" : f32[16] strides [1] in b5 }";
    int64_t workspace;
    EXPECT_INT(planned(text, HN_POOL_INTERMEDIATES, &workspace), 8192);
    EXPECT_INT(planned(text, HN_POOL_NONE, &workspace), 8192);
    EXPECT_INT(planned(text, HN_POOL_OUTPUTS, &workspace), 8192 + 4096 + 64);
    EXPECT_INT(workspace, 8192);
    EXPECT_INT(planned(text, HN_POOL_COMBINED, &workspace), 8192); /* b4 lies where b2 was */
    EXPECT_INT(workspace, 0);
}

/* The last reader of an input may write over it; what begins later lies there, too. */
TEST(donated_inputs_are_used) {
    static const char text[] = POOL_HEAD
        "input \"x\" donated : f32[1024] strides [1] in b1 call k1(b1 f32, out b2 f32 over [0]) extent(1) "
        "call k1(b2 f32, out b3 f32) extent(1) call k1(b3 f32, out b4 f32) extent(1) call k1(b4 f32, out b5 f32) extent(1) "
        "output tensor \"y\" : f32[1024] strides [1] in b4 output tensor \"z\" : f32[16] strides [1] in b5 }";
    int64_t workspace;
    EXPECT_INT(planned(text, HN_POOL_INTERMEDIATES, &workspace), 4096); /* b3 */
    EXPECT_INT(planned(text, HN_POOL_NONE, &workspace), 8192);
    EXPECT_INT(planned(text, HN_POOL_COMBINED, &workspace), 4096); /* b5 follows b3 */
}

/* An input that is returned, as it is or a part of it, is read behind the last line. */
TEST(donated_inputs_that_are_returned_are_kept) {
    static const struct {
        const char *buffer, *line, *output;
    } returned[] = {
        {"", "", "f32[1024] strides [1] in b1"},
        {"buffer b5 : view f32[512] ", "view b5 of b1 at(512) ", "f32[512] strides [1] in b5"}};
    for (size_t k = 0; k < HN_COUNT_OF(returned); k++) {
        char text[1024];
        int64_t workspace;
        snprintf(text, sizeof text,
                 "wrapper { buffer b1 : input f32[1024] source 0 "
                 "buffer b2 : temp f32[1024] bytes(4096) buffer b3 : temp f32[1024] bytes(4096) "
                 "buffer b4 : output f32[16] bytes(64) %skernel k1 : object 0 "
                 "input \"x\" donated : f32[1024] strides [1] in b1 "
                 "call k1(out b2 f32) extent(1) call k1(b2 f32, out b3 f32) extent(1) "
                 "call k1(b3 f32, out b4 f32) extent(1) %s"
                 "output tensor \"y\" : f32[16] strides [1] in b4 output tensor \"x\" : %s }",
                 returned[k].buffer, returned[k].line, returned[k].output);
        EXPECT_INT(planned(text, HN_POOL_INTERMEDIATES, &workspace), 8192);
        EXPECT_INT(planned(text, HN_POOL_COMBINED, &workspace), 8192);
    }
}

/* The checker itself can fail. */
TEST(plan_verify_finds_overlap) {
    fixture f;
    hn_memory_plan plan;
    setup(&f, 0);
    hn_wbuf a = add_temp(&f, hn_sym_int(f.sym, 256)), b = add_temp(&f, hn_sym_int(f.sym, 256));
    add_call(&f, 0, 0, a);
    add_call(&f, a, 0, b);
    EXPECT_OK(hn_wrapper_plan(f.w, &plan));
    EXPECT_OK(hn_wrapper_plan_verify(f.w, &plan));
    plan.offsets[b] = plan.offsets[a];
    EXPECT_ERROR(hn_wrapper_plan_verify(f.w, &plan), HN_INTERNAL, "share bytes");
    plan.offsets[b] = hn_sym_int(f.sym, 448);
    EXPECT_ERROR(hn_wrapper_plan_verify(f.w, &plan), HN_INTERNAL, "in a workspace of");
    teardown(&f);
}

/* A program that was not verified may name what there is not. */
TEST(buffers_that_there_are_not) {
    static const struct {
        const char *buffer, *line, *output, *error;
    } wrong[] = {
        {"", "call k1(b1 f32, out b9 f32) extent(1)", "b2", "line 0 names buffer 9"},
        {"", "copy b2 from b77", "b2", "line 0 names buffer 77"},
        {"", "call k1(b1 f32, out b2 f32) extent(1) threads 1 in b5", "b2", "names buffer 5"},
        {"", "reuse b8 from b1 call k1(b1 f32, out b2 f32) extent(1)", "b2", "names buffer 8"},
        {"", "call k1(b1 f32, out b2 f32) extent(1)", "b4000000", "output 0 names buffer 4000000"},
        {"buffer b3 : view f32[16]", "view b3 of b6 call k1(b3 f32, out b2 f32) extent(1)", "b2",
         "buffer"}};
    for (size_t k = 0; k < HN_COUNT_OF(wrong); k++) {
        char text[1024];
        fixture f;
        hn_memory_plan plan;
        setup(&f, 0);
        snprintf(
            text, sizeof text,
            "wrapper { buffer b1 : input f32[16] source 0 buffer b2 : output f32[16] bytes(64) "
            "%s kernel k1 : object 0 input \"x\" : f32[16] strides [1] in b1 %s "
            "output tensor \"y\" : f32[16] strides [1] in %s }",
            wrong[k].buffer, wrong[k].line, wrong[k].output);
        hn_status status = hn_wrapper_parse(&f.arena, f.sym, hn_str_of(text), &f.w);
        if (!status) status = hn_wrapper_plan(f.w, &plan);
        EXPECT(status && strstr(hn_status_message(status), wrong[k].error));
        hn_status_free(status);
        teardown(&f);
    }
}

TEST(large_programs_are_fast) {
    fixture f;
    hn_memory_plan plan;
    setup(&f, 3);
    random_program(&f, 10000, NULL, 0, false);
    const int64_t begin = hn_now_ns();
    EXPECT_OK(hn_wrapper_plan(f.w, &plan));
    const double ms = (double)(hn_now_ns() - begin) / 1e6;
    printf("planner: 10,000 buffers in %.1f ms\n", ms);
    EXPECT(ms < 1000); /* 50 on a machine that does nothing else; tests run beside others */
    teardown(&f);
}

TEST_MAIN
