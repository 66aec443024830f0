/* test_reuse.c: memory that a kernel's result takes from what the kernel reads last: which lines
 * the pass writes, which the verifier refuses, and, in random programs, that whoever reads finds
 * what was written. */
#include "unit/harness.h"
#include "wrapper/wrapper.h"

#include <stdlib.h>

static hn_status parse(const char *body, hn_arena *arena, hn_wrapper **out) {
    hn_sym *sym;
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "wrapper {\n%s}\n", body);
    hn_status status = hn_sym_create(arena, &sym);
    if (!status) status = hn_wrapper_parse(arena, sym, hn_strbuf_str(&text), out);
    hn_strbuf_deinit(&text);
    return status;
}

/* Buffers b2, b3, b5, b6 are temporaries of 4096 bytes, b7 of 64; b1 comes in, b4 goes out, p is a
 * predicate. */
#define HEAD                                                                                                                                                      \
    "  symbol data u0 in [0, 100]\n  buffer b1 : input f32[1024] source 0\n  buffer b2 : temp f32[1024] bytes(4096)\n  buffer b3 : temp f32[1024] bytes(4096)\n"  \
    "  buffer b4 : output f32[1024] bytes(4096)\n  buffer b5 : temp f32[1024] bytes(4096)\n  buffer b6 : temp f32[1024] bytes(4096)\n"                            \
    "  buffer b7 : temp f32[16] bytes(64)\n  buffer b8 : temp f32[u0] bytes(4*u0)\n  buffer b9 : temp f32[u0] bytes(4*u0)\n  buffer b10 : temp i64[1] bytes(8)\n" \
    "  kernel k1 : object 0\n  input \"x\" : f32[1024] strides [1] in b1\n"
#define TAIL "  output tensor \"y\" : f32[1024] strides [1] in b4\n"

/* The REUSE lines that the pass writes, in order: "3<2 5<3". The result verifies, before and after
 * it is planned. */
static void check_pass(const char *body, const char *expected) {
    hn_arena arena;
    hn_wrapper *w = NULL;
    hn_memory_plan plan;
    hn_strbuf text;
    hn_arena_init(&arena);
    hn_strbuf_init(&text);
    EXPECT_OK(parse(body, &arena, &w));
    EXPECT_OK(hn_wrapper_verify(w));
    EXPECT_OK(hn_wrapper_reuse(w));
    for (uint32_t i = 0; i < w->lines.count; i++)
        if (w->lines.items[i].kind == HN_LINE_REUSE)
            hn_strbuf_printf(&text, "%s%u<%u", text.len ? " " : "", w->lines.items[i].buffer,
                             w->lines.items[i].from);
    EXPECT_STR(text.ptr ? text.ptr : "", expected);
    EXPECT_OK(hn_wrapper_verify(w));
    EXPECT_OK(hn_wrapper_plan(w, &plan));
    EXPECT_OK(hn_wrapper_verify(w));
    EXPECT_OK(hn_wrapper_plan_verify(w, &plan));
    hn_strbuf_deinit(&text);
    hn_arena_deinit(&arena);
}

TEST(chains_take_one_memory) {
    check_pass(
        HEAD
        "call k1(b1 f32, out b2 f32 over [0]) extent(1) call k1(b2 f32, out b3 f32 over [0]) extent(1) "
        "call k1(b3 f32, out b5 f32 over [0]) extent(1) call k1(b5 f32, out b4 f32 over [0]) extent(1)" TAIL,
        "3<2 5<3");
    /* two results, two operands: each memory goes to one */
    check_pass(HEAD
               "call k1(out b2 f32) extent(1) call k1(out b3 f32) extent(1) "
               "call k1(b2 f32, b3 f32, out b5 f32 over [0, 1], out b6 f32 over [0, 1]) extent(1) "
               "call k1(b5 f32, b6 f32, out b4 f32) extent(1)" TAIL,
               "5<2 6<3");
    check_pass(
        HEAD
        "call k1(out b2 f32) extent(1) call k1(b2 f32, out b5 f32 over [0], out b6 f32 over [0]) extent(1) "
        "call k1(b5 f32, b6 f32, out b4 f32) extent(1)" TAIL,
        "5<2");
}

/* What is promised holds for the buffers' bytes, wherever the operands begin. */
TEST(operands_with_offsets) {
    check_pass(
        HEAD
        "call k1(out b2 f32) extent(1) call k1(b2 f32 at(8), out b3 f32 at(8) over [0]) extent(1) call k1(b3 f32, out b4 f32) extent(1)" TAIL,
        "3<2");
    check_pass(
        HEAD
        "call k1(out b2 f32) extent(1) call k1(b2 f32 at(8), b2 f32, out b3 f32 over [1]) extent(1) call k1(b3 f32, out b4 f32) extent(1)" TAIL,
        "");
}

TEST(what_must_stay_apart) {
    /* nothing says that it may */
    check_pass(
        HEAD
        "call k1(out b2 f32) extent(1) call k1(b2 f32, out b3 f32) extent(1) call k1(b3 f32, out b4 f32) extent(1)" TAIL,
        "");
    /* read once more, by a kernel and by an extern call */
    check_pass(
        HEAD
        "call k1(out b2 f32) extent(1) call k1(b2 f32, out b3 f32 over [0]) extent(1) call k1(b2 f32, b3 f32, out b4 f32) extent(1)" TAIL,
        "");
    check_pass(
        HEAD
        "call k1(out b2 f32) extent(1) call k1(b2 f32, out b3 f32 over [0]) extent(1) "
        "extern topk(out b4 f32, out b10 i64, b2 f32) params [1, 2, 3, 4, 0, 1] call k1(b3 f32, out b4 f32) extent(1)" TAIL,
        "");
    /* the size is another one, or data */
    check_pass(
        HEAD
        "call k1(out b2 f32) extent(1) call k1(b2 f32, out b7 f32 over [0]) extent(1) call k1(b7 f32, out b4 f32) extent(1)" TAIL,
        "");
    check_pass(
        HEAD
        "call k1(out b10 i64) extent(1) define(b10 i64) symbol(u0) call k1(out b8 f32) extent(1) "
        "call k1(b8 f32, out b9 f32 over [0]) extent(1) call k1(b9 f32, out b4 f32) extent(1)" TAIL,
        "");
    /* the result was there before: a piece is added */
    check_pass(
        HEAD
        "call k1(out b2 f32) extent(1) call k1(out b3 f32) extent(1) call k1(b2 f32, out b3 f32 over [0]) extent(1) "
        "call k1(b3 f32, out b4 f32) extent(1)" TAIL,
        "");
    /* one operand is no kernel argument 0 of the claim: the same buffer twice, the claim is for one
     * place only */
    check_pass(
        HEAD
        "call k1(out b2 f32) extent(1) call k1(b2 f32, b2 f32, out b3 f32 over [0]) extent(1) call k1(b3 f32, out b4 f32) extent(1)" TAIL,
        "");
    /* what changes an input is needed to the end */
    check_pass(
        HEAD
        "call k1(out b2 f32) extent(1) call k1(b2 f32, out b3 f32 over [0]) extent(1) call k1(b3 f32, out b4 f32) extent(1)" TAIL
        "  output mutation \"x\" target 0 : f32[1024] strides [1] in b2\n",
        "");
}

TEST(bodies_of_conditionals) {
    /* within one body; from outside of it; into what comes after it */
    check_pass(
        "  buffer b1 : input bool[] source 0\n  buffer b2 : temp f32[16] bytes(64)\n  buffer b3 : temp f32[16] bytes(64)\n  buffer b4 : output f32[16] bytes(64)\n"
        "  buffer b5 : temp f32[16] bytes(64)\n  buffer b6 : temp f32[16] bytes(64)\n  kernel k1 : object 0\n  input \"p\" : bool[] strides [] in b1\n"
        "call k1(out b5 f32) extent(1) cond(b1 bool) { call k1(out b2 f32) extent(1) call k1(b2 f32, out b3 f32 over [0]) extent(1) "
        "call k1(b3 f32, out b6 f32 over [0]) extent(1) } else { call k1(b5 f32, out b6 f32 over [0]) extent(1) } "
        "call k1(b6 f32, out b4 f32) extent(1)\n  output tensor \"y\" : f32[16] strides [1] in b4\n",
        "3<2");
}

TEST(half_of_the_memory) {
    hn_arena arena;
    hn_wrapper *w = NULL;
    hn_memory_plan plan;
    hn_strbuf text;
    hn_arena_init(&arena);
    hn_strbuf_init(&text);
    EXPECT_OK(parse(
        HEAD "call k1(b1 f32, out b2 f32) extent(1) call k1(b2 f32, out b3 f32 over [0]) extent(1) "
             "call k1(b3 f32, out b4 f32) extent(1)" TAIL,
        &arena, &w));
    EXPECT_OK(hn_wrapper_reuse(w));
    EXPECT_OK(hn_wrapper_plan(w, &plan));
    EXPECT_INT(hn_sym_hint(w->sym, plan.workspaces[HN_DEVICE_CPU], -1), 4096);
    EXPECT_INT(hn_sym_hint(w->sym, plan.live_bound_bytes, -1), 4096);
    EXPECT_INT(plan.offsets[2], plan.offsets[3]);
    hn_wrapper_print(w, &text);
    EXPECT(strstr(text.ptr,
                  "  reuse b3 from b2\n  call k1(b2 f32, out b3 f32 over [0]) extent(1)\n") !=
           NULL);
    EXPECT(strstr(text.ptr, "free b2") == NULL && strstr(text.ptr, "free b3") != NULL);
    hn_strbuf_reset(&text);
    hn_wrapper_print_json(w, &text);
    EXPECT(strstr(text.ptr, "{\"kind\":\"reuse\",\"buffer\":3,\"from\":2}") != NULL);
    EXPECT(strstr(text.ptr, "\"written\":true,\"over\":[0]}") != NULL);
    hn_strbuf_deinit(&text);
    hn_arena_deinit(&arena);
}

static void refuse(const char *body, const char *why) {
    hn_arena arena;
    hn_wrapper *w = NULL;
    hn_arena_init(&arena);
    EXPECT_OK(parse(body, &arena, &w));
    EXPECT_ERROR(hn_wrapper_verify(w), HN_INTERNAL, why);
    hn_arena_deinit(&arena);
}

TEST(verifier_refuses) {
#define FIRST "call k1(b1 f32, out b2 f32) extent(1) "
#define LAST  "call k1(b3 f32, out b4 f32) extent(1)" TAIL
    refuse(HEAD FIRST "reuse b3 from b2 call k1(b2 f32, out b3 f32) extent(1) " LAST,
           "does not say that it may be written over");
    refuse(HEAD FIRST
           "reuse b3 from b2 call k1(b2 f32, b1 f32, out b3 f32 over [1]) extent(1) " LAST,
           "does not say that it may be written over");
    refuse(
        HEAD FIRST
        "reuse b3 from b2 call k1(b2 f32, out b3 f32 over [0]) extent(1) call k1(b2 f32, b3 f32, out b4 f32) extent(1)" TAIL,
        "the memory is still needed");
    refuse(
        HEAD FIRST
        "reuse b3 from b2 call k1(b1 f32, out b5 f32) extent(1) call k1(b2 f32, out b3 f32 over [0]) extent(1) " LAST,
        "the memory is still needed");
    refuse(HEAD "reuse b3 from b1 call k1(b1 f32, out b3 f32 over [0]) extent(1) " LAST,
           "only temporaries");
    refuse(
        HEAD FIRST
        "call k1(out b3 f32) extent(1) reuse b3 from b2 call k1(b2 f32, out b3 f32 over [0]) extent(1) " LAST,
        "already has memory");
    refuse(
        HEAD FIRST
        "reuse b3 from b2 reuse b5 from b2 call k1(b2 f32, out b3 f32 over [0], out b5 f32 over [0]) extent(1) "
        "call k1(b3 f32, b5 f32, out b4 f32) extent(1)" TAIL,
        "another one has taken it");
    refuse(
        HEAD
        "call k1(out b7 f32) extent(1) reuse b3 from b7 call k1(b7 f32, out b3 f32 over [0]) extent(1) " LAST,
        "may be too small");
    refuse(HEAD FIRST
           "reuse b3 from b2 call k1(b2 f32, out b3 f32 over [0]) extent(1) free b2 " LAST,
           "not there to be freed");
    refuse(
        HEAD
        "call k1(out b10 i64) extent(1) define(b10 i64) symbol(u0) call k1(out b8 f32) extent(1) reuse b9 from b8 "
        "call k1(b8 f32, out b9 f32 over [0]) extent(1) call k1(b9 f32, out b4 f32) extent(1)" TAIL,
        "depends on data");
    refuse(HEAD FIRST "reuse b3 from b2 call k1(b2 f32, out b3 f32 over [0]) extent(1) " LAST
                      "  output mutation \"x\" target 0 : f32[1024] strides [1] in b2\n",
           "freed");
    /* claims that no kernel can make */
    refuse(HEAD FIRST "call k1(b2 f32, out b3 f32 over [1]) extent(1) " LAST, "cannot be over");
    refuse(HEAD FIRST "call k1(b2 f32, out b3 f32 over [7]) extent(1) " LAST, "cannot be over");
    refuse(HEAD FIRST "call k1(b2 f32 over [0], out b3 f32) extent(1) " LAST, "cannot be over");
    refuse(HEAD FIRST "call k1(b2 i32, out b3 f32 over [0]) extent(1) " LAST, "cannot be over");
    refuse(HEAD FIRST
           "extern topk(out b3 f32 over [2], out b10 i64, b2 f32) params [1, 2, 3, 4, 0, 1] " LAST,
           "cannot be over");
}

/* ---- random programs ---- */

typedef struct program {
    hn_arena arena;
    hn_sym *sym;
    hn_wrapper *w;
    uint64_t seed;
} program;

static uint32_t draw(program *p, uint32_t limit) {
    p->seed = p->seed * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(p->seed >> 33) % limit;
}

static void add_call(program *p, const hn_wbuf *reads, uint32_t read_count, const hn_wbuf *writes,
                     uint32_t write_count) {
    hn_woperand operands[8];
    uint32_t count = 0;
    for (uint32_t k = 0; k < read_count; k++)
        operands[count++] = (hn_woperand){.buffer = reads[k], .dtype = HN_DTYPE_U8};
    for (uint32_t k = 0; k < write_count; k++)
        operands[count++] = (hn_woperand){.buffer = writes[k],
                                          .dtype = HN_DTYPE_U8,
                                          .written = true,
                                          .over = draw(p, 1u << read_count)};
    EXPECT_OK(hn_wrapper_add_line(p->w, (hn_line){.kind = HN_LINE_KERNEL,
                                                  .kernel = 1,
                                                  .operands = operands,
                                                  .operand_count = count,
                                                  .extent = hn_sym_int(p->sym, 1)}));
}

/* Each line writes one or two new temporaries and reads up to three of the newest. */
static void random_program(program *p, uint64_t seed) {
    hn_wkernel kernel;
    hn_wbuf recent[4] = {0};
    *p = (program){.seed = seed * 0x9e3779b97f4a7c15ull + 1};
    hn_arena_init(&p->arena);
    EXPECT_OK(hn_sym_create(&p->arena, &p->sym));
    EXPECT_OK(hn_wrapper_create(&p->arena, p->sym, NULL, &p->w));
    EXPECT_OK(hn_wrapper_add_kernel(p->w, (hn_wkernel_info){.name = HN_STR("k")}, &kernel));
    for (uint32_t line = 0; line < 60; line++) {
        hn_wbuf reads[3], writes[2];
        uint32_t read_count = 0, write_count = 1 + draw(p, 2);
        for (uint32_t k = 0; k < 3; k++) {
            hn_wbuf b = recent[draw(p, 4)];
            for (uint32_t e = 0; e < read_count; e++) b = reads[e] == b ? 0 : b;
            if (b) reads[read_count++] = b;
        }
        for (uint32_t k = 0; k < write_count; k++) {
            hn_wbuffer buffer = {.kind = HN_WBUF_TEMP,
                                 .dtype = HN_DTYPE_U8,
                                 .bytes = hn_sym_int(p->sym, 64 * (1 + draw(p, 3)))};
            EXPECT_OK(hn_wrapper_add_buffer(p->w, buffer, &writes[k]));
        }
        add_call(p, reads, read_count, writes, write_count);
        for (uint32_t k = 0; k < write_count; k++) recent[draw(p, 4)] = writes[k];
    }
}

static bool holds(program *p, const hn_memory_plan *plan, const hn_wbuf *memory, hn_wbuf b) {
    int64_t at = hn_sym_hint(p->sym, plan->offsets[b], -1) / 64,
            cells = hn_sym_hint(p->sym, p->w->buffers.items[b].bytes, -1) / 64;
    for (int64_t k = 0; k < cells; k++)
        if (memory[at + k] != b) return false;
    return true;
}

/* Whether a written operand of the line may lie, and lies, where read operand r is. */
static bool is_written_over(const hn_memory_plan *plan, const hn_line *line, uint32_t r) {
    for (uint32_t k = 0; k < line->operand_count; k++)
        if (line->operands[k].over >> r & 1 &&
            plan->offsets[line->operands[k].buffer] == plan->offsets[line->operands[r].buffer])
            return true;
    return false;
}

/* Runs the program on a memory whose cells know whose they are. Returns how many lines found
 * something else. */
static uint32_t count_wrong(program *p, const hn_memory_plan *plan) {
    hn_wbuf *memory = calloc(
        (size_t)hn_sym_hint(p->sym, plan->workspaces[HN_DEVICE_CPU], -1) / 64 + 1, sizeof *memory);
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < p->w->lines.count && memory; i++) {
        const hn_line *line = &p->w->lines.items[i];
        if (line->kind != HN_LINE_KERNEL) continue;
        bool good = true;
        for (uint32_t k = 0; k < line->operand_count; k++)
            if (!line->operands[k].written)
                good &= holds(p, plan, memory, line->operands[k].buffer);
        for (uint32_t k = 0; k < line->operand_count; k++) {
            hn_wbuf b = line->operands[k].buffer;
            int64_t at = hn_sym_hint(p->sym, plan->offsets[b], -1) / 64,
                    cells = hn_sym_hint(p->sym, p->w->buffers.items[b].bytes, -1) / 64;
            for (int64_t c = 0; c < cells && line->operands[k].written; c++) memory[at + c] = b;
        }
        for (uint32_t k = 0; k < line->operand_count; k++)
            good &= holds(p, plan, memory, line->operands[k].buffer) ||
                    (!line->operands[k].written && is_written_over(plan, line, k));
        wrong += !good;
    }
    free(memory);
    return wrong;
}

TEST(random_programs) {
    uint32_t reuses = 0;
    int64_t with = 0, without = 0;
    for (uint32_t seed = 0; seed < 200; seed++) {
        program p, q;
        hn_memory_plan plan, plain;
        random_program(&p, seed);
        random_program(&q, seed);
        EXPECT_OK(hn_wrapper_reuse(p.w));
        for (uint32_t i = 0; i < p.w->lines.count; i++)
            reuses += p.w->lines.items[i].kind == HN_LINE_REUSE;
        EXPECT_OK(hn_wrapper_verify(p.w));
        EXPECT_OK(hn_wrapper_plan(p.w, &plan));
        EXPECT_OK(hn_wrapper_plan(q.w, &plain));
        EXPECT_OK(hn_wrapper_verify(p.w));
        EXPECT_OK(hn_wrapper_plan_verify(p.w, &plan));
        EXPECT_INT(count_wrong(&p, &plan), 0);
        with += hn_sym_hint(p.sym, plan.live_bound_bytes, -1);
        without += hn_sym_hint(q.sym, plain.live_bound_bytes, -1);
        hn_arena_deinit(&p.arena);
        hn_arena_deinit(&q.arena);
    }
    EXPECT(reuses > 1000);
    EXPECT(with < without);
}

TEST_MAIN
