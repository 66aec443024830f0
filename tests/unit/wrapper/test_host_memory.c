/* test_host_memory.c: host_memory.c. Small programs, before and after; and random ones, which are
 * run twice: as they were written, with one memory, and as they were placed and planned, with
 * memory of the host and memory of a device that does its work late. Every line must read the
 * same. */
#include "bundle/view.h"
#include "unit/harness.h"
#include "wrapper/place.h"
#include "wrapper/to_bundle.h"
#include "wrapper/wrapper.h"

#include <stdlib.h>

/* ---- small programs ---- */

#define HEAD_WITH(b2)                                                                              \
    "buffer b1 : input f32[4] on opencl source 0 buffer b2 : " b2                                  \
    " buffer b3 : temp f32[4] on opencl bytes(16) buffer b4 : temp f32[4] on opencl bytes(16) "    \
    "buffer b5 : output f32[4] on opencl bytes(16) buffer b6 : temp bool[] on opencl bytes(1) "    \
    "kernel k1 : object 0 name \"k\" input \"x\" : f32[4] strides [1] in b1 "
#define HEAD             HEAD_WITH("constant f32[4] on opencl source 1")
#define TAIL             "output tensor \"y\" : f32[4] strides [1] in b5 "
#define KERNEL(from, to) "call k1(" from " f32, out " to " f32) extent(1) threads 64 on opencl "
#define HOST(from, to)   "extern nms(out " to " f32, " from " f32) params [4, 1] "
#define HOST2(a, b, to)                                                                            \
    "extern grouped_matmul(out " to " f32, " a " f32, " b " f32, " a                               \
    " f32) params [1, 1, 1, 1, 1, 1, 1, 1, 1, 1] "
#define OWN(from, to) "extern nms(out " to " f32, " from " f32) params [4, 1] on opencl "
#define FLAG          "call k1(b1 f32, out b6 bool) extent(1) threads 64 on opencl "

/* Lines of the text form from the first that is a call or the like, with one blank between
 * words. */
static void lines_of(const hn_wrapper *w, hn_strbuf *out) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_wrapper_print(w, &text);
    EXPECT_OK(hn_strbuf_status(&text));
    const char *end = strstr(text.ptr, "  output ");
    for (char *at = text.ptr, *next; at < end; at = next) {
        static const char *const others[] = {"wrapper", "buffer", "kernel", "input"};
        bool is_other = false;
        next = strchr(at, '\n') + 1;
        while (*at == ' ') at++;
        for (size_t k = 0; k < 4; k++) is_other |= strncmp(at, others[k], strlen(others[k])) == 0;
        if (is_other) continue;
        hn_strbuf_append(out, at, (size_t)(next - at - 1));
        hn_strbuf_putc(out, ' ');
    }
    hn_strbuf_deinit(&text);
}

static void place(const char *text, hn_arena *arena, hn_wrapper **out) {
    hn_sym *sym;
    EXPECT_OK(hn_sym_create(arena, &sym));
    EXPECT_OK(hn_wrapper_parse(arena, sym, hn_str_of(text), out));
    EXPECT_OK(hn_wrapper_host_memory(*out));
    EXPECT_OK(hn_wrapper_verify(*out));
}

static void expect_lines(const char *before, const char *after) {
    hn_arena arena;
    hn_wrapper *w;
    hn_strbuf text, lines;
    hn_arena_init(&arena);
    hn_strbuf_init(&text);
    hn_strbuf_init(&lines);
    hn_strbuf_printf(&text, "wrapper { %s %s %s }", HEAD, before, TAIL);
    place(text.ptr, &arena, &w);
    lines_of(w, &lines);
    EXPECT_STR(lines.ptr, after);
    hn_strbuf_deinit(&lines);
    hn_strbuf_deinit(&text);
    hn_arena_deinit(&arena);
}

/* What the host writes in one branch only, and nobody reads behind it, is nowhere when a round of
 * the loop around it ends. */
TEST(a_branch_in_a_loop) {
    hn_arena arena;
    hn_wrapper *w = NULL;
    hn_arena_init(&arena);
    place("wrapper { " HEAD KERNEL("b1", "b5") "loop rounds(2) { " KERNEL("b1", "b3")
              KERNEL("b3", "b4") FLAG "cond(b6 bool) { " HOST("b3", "b4") " } else { } } " TAIL "}",
          &arena, &w);
    hn_arena_deinit(&arena);
}

TEST(an_operand_comes_and_a_result_goes) {
    expect_lines(KERNEL("b1", "b3") HOST("b3", "b4") KERNEL("b4", "b5"),
                 KERNEL("b1", "b3") "copy b7 from b3 wait opencl " HOST(
                     "b7", "b8") "copy b4 from b8 " KERNEL("b4", "b5"));
}

TEST(programs_without_host_lines_stay) {
    expect_lines(KERNEL("b1", "b3") KERNEL("b3", "b5"), KERNEL("b1", "b3") KERNEL("b3", "b5"));
}

/* An operation that the device has is as a kernel. */
TEST(operations_of_the_device) {
    expect_lines(KERNEL("b1", "b3") OWN("b3", "b4") KERNEL("b4", "b5"),
                 KERNEL("b1", "b3") OWN("b3", "b4") KERNEL("b4", "b5"));
    expect_lines(OWN("b1", "b3") HOST("b3", "b4") OWN("b4", "b5"),
                 OWN("b1", "b3") "copy b7 from b3 wait opencl " HOST(
                     "b7", "b8") "copy b4 from b8 " OWN("b4", "b5"));
}

/* Operands that no kernel uses are memory of the host, so nothing is copied or waited for. */
TEST(what_only_the_host_uses_is_there) {
    expect_lines(HOST2("b1", "b2", "b3") HOST("b3", "b5"),
                 HOST2("b1", "b2", "b3") HOST("b3", "b5"));
}

/* One copy for two uses, one WAIT for two operands, and none for what the host has made or was
 * given. */
TEST(one_wait_for_a_line) {
    expect_lines(KERNEL("b1", "b3") KERNEL("b1", "b4") HOST2("b3", "b4", "b5"),
                 KERNEL("b1", "b3")
                     KERNEL("b1", "b4") "copy b7 from b3 copy b8 from b4 wait opencl " HOST2(
                         "b7", "b8", "b5"));
}
TEST(content_that_is_there_is_not_copied) {
    expect_lines(KERNEL("b1", "b3") HOST2("b1", "b3", "b4") HOST2("b3", "b4", "b4")
                     KERNEL("b4", "b5"),
                 KERNEL("b1", "b3") "copy b8 from b3 wait opencl " HOST2("b7", "b8", "b9")
                     HOST2("b8", "b9", "b9") "copy b4 from b9 " KERNEL("b4", "b5"));
}

/* A kernel has changed it since. */
TEST(old_content_is_copied_again) {
    expect_lines(KERNEL("b1", "b3") HOST("b3", "b4") KERNEL("b1", "b3") HOST("b3", "b4")
                     KERNEL("b4", "b5"),
                 KERNEL("b1", "b3") "copy b7 from b3 wait opencl " HOST("b7", "b8")
                     KERNEL("b1", "b3") "copy b9 from b3 wait opencl " HOST(
                         "b9", "b8") "copy b4 from b8 " KERNEL("b4", "b5"));
}

/* Of a weight or an input that both sides use the host has its own buffer. */
TEST(weights_and_inputs_are_on_both_sides) {
    expect_lines(KERNEL("b1", "b3") HOST("b1", "b4") KERNEL("b4", "b5"),
                 KERNEL("b1", "b3") HOST("b7", "b8") "copy b4 from b8 " KERNEL("b4", "b5"));
    expect_lines(KERNEL("b2", "b3") HOST("b2", "b4") KERNEL("b4", "b5"),
                 KERNEL("b2", "b3") HOST("b7", "b8") "copy b4 from b8 " KERNEL("b4", "b5"));
}

/* The host may change what a copy reads only when the copy is done. */
TEST(the_host_waits_before_it_writes_again) {
    expect_lines(HOST("b1", "b4") KERNEL("b4", "b3") HOST("b1", "b4") KERNEL("b4", "b5"),
                 HOST("b1", "b7") "copy b4 from b7 " KERNEL("b4", "b3") "wait opencl " HOST(
                     "b1", "b7") "copy b4 from b7 " KERNEL("b4", "b5"));
}

/* A part of a buffer may be written: the rest comes along. */
TEST(what_the_host_adds_to) {
    expect_lines(KERNEL("b1", "b3") HOST("b2", "b3") KERNEL("b3", "b5"),
                 KERNEL("b1", "b3") "copy b7 from b3 wait opencl " HOST(
                     "b2", "b7") "copy b3 from b7 " KERNEL("b3", "b5"));
}

TEST(results_of_the_host) {
    expect_lines(
        KERNEL("b1", "b5") HOST("b2", "b5"),
        KERNEL("b1", "b5") "copy b7 from b5 wait opencl " HOST("b2", "b7") "copy b5 from b7 ");
}

/* Elements are read where they are; where the host has them, there. */
TEST(elements_are_not_copied) {
    expect_lines(FLAG "assert(b6 bool) text \"t\" " HOST("b1", "b3")
                     KERNEL("b3", "b4") "assert(b3 bool) text \"t\" " KERNEL("b4", "b5"),
                 FLAG "assert(b6 bool) text \"t\" " HOST("b7", "b8") "copy b3 from b8 " KERNEL(
                     "b3", "b4") "assert(b8 bool) text \"t\" " KERNEL("b4", "b5"));
}

/* Both bodies leave the result on the device; what one of them has copied is unknown behind
 * them. */
TEST(conditionals) {
    expect_lines(
        KERNEL("b1", "b3") FLAG
        "cond(b6 bool) { " HOST("b3", "b4") " } else { " KERNEL("b3", "b4") " } " HOST("b3", "b5")
            KERNEL("b4", "b5"),
        KERNEL("b1", "b3") FLAG "cond(b6 bool) { copy b7 from b3 wait opencl " HOST(
            "b7", "b8") "copy b4 from b8 "
                        "} else { " KERNEL("b3", "b4") "} copy b9 from b3 wait opencl " HOST(
                            "b9", "b10") "copy b5 from b10 " KERNEL("b4", "b5"));
}

/* What no line behind needs stays where it is; what was known before a conditional still is. */
TEST(conditionals_of_no_consequence) {
    expect_lines(
        KERNEL("b1", "b3") FLAG HOST("b3", "b4") "cond(b6 bool) { " HOST("b3", "b4")
            KERNEL("b4", "b3") HOST("b4", "b4") "} else { } " HOST("b1", "b4") KERNEL("b4", "b5"),
        KERNEL("b1", "b3") FLAG
        "copy b7 from b3 wait opencl " HOST("b7", "b8") "cond(b6 bool) { " HOST("b7", "b8") "copy b4 from b8 " KERNEL(
            "b4", "b3") "wait opencl " HOST("b8",
                                            "b8") "copy b4 from b8 } else { copy b4 from b8 } "
                                                  "wait opencl " HOST(
                                                      "b9", "b8") "copy b4 from b8 " KERNEL("b4",
                                                                                            "b5"));
}

/* ---- as a bundle ---- */

/* Of a storage that the program changes nobody has a second buffer: where a kernel uses it, the
 * host gets copies. */
TEST(weights_that_change_are_in_one_place) {
    static const float weight[4] = {1, 2, 3, 4};
    hn_arena arena;
    hn_sym *sym;
    hn_graph *graph;
    hn_wrapper *w;
    hn_strbuf text;
    hn_arena_init(&arena);
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "wrapper { %s %s output mutation \"w\" : f32[4] strides [1] in b5 }",
                     HEAD, KERNEL("b2", "b3") HOST("b2", "b4") KERNEL("b4", "b5"));
    EXPECT_OK(hn_sym_create(&arena, &sym));
    EXPECT_OK(hn_wrapper_parse(&arena, sym, hn_strbuf_str(&text), &w));
    EXPECT_OK(hn_graph_create(&arena, sym, &graph));
    const hn_expr size = hn_sym_int(sym, 4);
    const hn_input in = {
        .kind = HN_INPUT_BUFFER,
        .name = HN_STR("w"),
        .value = hn_graph_add_tensor(graph, HN_DTYPE_F32, 1, &size, NULL, HN_STR("w")),
        .storage = hn_graph_add_storage(
            graph, (hn_storage){.data = (const uint8_t *)weight, .size_bytes = sizeof weight})};
    EXPECT_OK(hn_graph_add_input(graph, in));
    w->graph = graph;
    EXPECT_OK(hn_wrapper_host_memory(w));
    EXPECT_OK(hn_wrapper_verify(w));
    hn_strbuf_reset(&text);
    lines_of(w, &text);
    EXPECT_STR(text.ptr, KERNEL("b2", "b3") "copy b7 from b2 wait opencl " HOST(
                             "b7", "b8") "copy b4 from b8 " KERNEL("b4", "b5"));
    hn_strbuf_deinit(&text);
    hn_arena_deinit(&arena);
}

TEST(a_bundle_has_what_was_placed) {
    static const hn_bundle_target target = {.name = HN_STR("opencl"), .device = HN_DEVICE_OPENCL};
    static const hn_bundle_object object = {.name = HN_STR("kernels"), .bytes = "text", .len = 4};
    static const hn_bundle_target cpu = {.name = HN_STR("generic")};
    static const char *const lines[] = {
        "target 0 opencl opencl, 4 bytes of code\n",
        "workspace 128 bytes\nworkspace on opencl 64 bytes\n",
        "operations on the host 1, copies between host and device 2 of 32 bytes\n",
        "step 0 kernel k(b1, out b3) on opencl extent 1 grid 1 x 1 x 1 block 64 x 1 x 1\n",
        "step 1 copy b7 <- b3 on opencl\n",
        "step 2 wait opencl\n",
        "step 3 nms(out b8, b7) [4 1]\n",
        "step 4 copy b4 <- b8 on opencl\n",
        "step 5 kernel k(b4, out b5) on opencl",
        "step 6 assert(b8) \"t\"\n"};
    hn_arena arena;
    hn_wrapper *w;
    hn_memory_plan plan;
    hn_strbuf image, text;
    hn_bundle b;
    hn_arena_init(&arena);
    hn_strbuf_init(&image);
    hn_strbuf_init(&text);
    place("wrapper { " HEAD_WITH("temp f32[4] on opencl bytes(16)") KERNEL("b1", "b3")
              HOST("b3", "b4") KERNEL("b4", "b5") "assert(b4 bool) text \"t\" " TAIL " }",
          &arena, &w);
    EXPECT_OK(hn_wrapper_plan(w, &plan));
    EXPECT_OK(hn_wrapper_to_bundle(w, &plan, &(hn_bundle_objects){&object, 1, &target, 1},
                                   &(hn_to_bundle_options){0}, &image));
    EXPECT_OK(hn_bundle_open(image.ptr, image.len, true, &b));
    hn_bundle_describe_text(&b, &text);
    for (size_t k = 0; k < sizeof lines / sizeof *lines; k++)
        if (!strstr(text.ptr, lines[k])) HN_TEST_FAIL("no line '%s' in\n%s", lines[k], text.ptr);
    hn_bundle_transfers transfers;
    hn_bundle_transfers_get(&b, &transfers);
    EXPECT(transfers.is_for_device && transfers.host_steps == 1 && transfers.copies == 2);
    EXPECT_INT(transfers.bytes, 32);
    hn_strbuf_reset(&image);
    EXPECT_ERROR(hn_wrapper_to_bundle(w, &plan, &(hn_bundle_objects){&object, 1, &cpu, 1},
                                      &(hn_to_bundle_options){0}, &image),
                 HN_INTERNAL, "a kernel runs on opencl and has code for cpu");
    hn_strbuf_deinit(&text);
    hn_strbuf_deinit(&image);
    hn_arena_deinit(&arena);
}

/* ---- random programs ---- */

enum { WORDS = 16, MAX_BUFFERS = 400, MAX_LINES = 400, MAX_READS = 4 };

typedef struct value {
    uint64_t cells[2]; /* the first and the last word of a buffer: lines write one or both */
    uint8_t defined;
} value;

/* What is said of a line of the program by its number, which is its origin. */
typedef struct line_facts {
    uint8_t cells[2]; /* per written operand: which it writes */
    bool goes_then;   /* of COND */
    bool is_run;
    uint64_t expected;          /* what it reads, in the first run */
    uint8_t defined[MAX_READS]; /* per read operand */
} line_facts;

typedef struct generator {
    hn_arena arena;
    hn_sym *sym;
    hn_wrapper *w;
    uint64_t seed;
    hn_wkernel kernel;
    bool is_defined[MAX_BUFFERS];
    line_facts lines[MAX_LINES];
    uint32_t line_count;
    uint32_t budget;
} generator;

static uint32_t draw(generator *g, uint32_t limit) {
    g->seed = g->seed * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(g->seed >> 33) % limit;
}

static hn_wbuf add_buffer(generator *g, hn_wbuf_kind kind, uint32_t source) {
    hn_wbuf b = 0;
    hn_expr *dims;
    EXPECT_OK(hn_arena_array(&g->arena, 2, sizeof *dims, (void **)&dims));
    dims[0] = hn_sym_int(g->sym, 2 + draw(g, WORDS - 2));
    dims[1] = hn_sym_int(g->sym, 1);
    hn_wbuffer made = {.kind = kind,
                       .dtype = HN_DTYPE_F64,
                       .device = HN_DEVICE_OPENCL,
                       .rank = 1,
                       .sizes = dims,
                       .strides = dims + 1,
                       .source = source};
    if (kind == HN_WBUF_TEMP || kind == HN_WBUF_OUTPUT)
        made.bytes = hn_sym_mul(g->sym, dims[0], hn_sym_int(g->sym, 8));
    EXPECT_OK(hn_wrapper_add_buffer(g->w, made, &b));
    return b;
}

static void add_inputs(generator *g) {
    for (uint32_t k = 0; k < 3; k++) {
        hn_wbuf b = add_buffer(g, HN_WBUF_INPUT, k);
        const hn_wbuffer *own = &g->w->buffers.items[b];
        hn_winput in = {.name = HN_STR("x"),
                        .dtype = own->dtype,
                        .rank = 1,
                        .sizes = own->sizes,
                        .strides = own->strides,
                        .buffer = b};
        hn_winput *items;
        EXPECT_OK(hn_arena_array(&g->arena, k + 1, sizeof *items, (void **)&items));
        if (k) memcpy(items, g->w->inputs.items, k * sizeof *items);
        items[k] = in;
        g->w->inputs.items = items, g->w->inputs.count = g->w->inputs.cap = k + 1;
        g->is_defined[b] = true;
    }
    for (uint32_t k = 0; k < 3; k++) g->is_defined[add_buffer(g, HN_WBUF_CONSTANT, k + 1)] = true;
}

static hn_wbuf pick_defined(generator *g) {
    hn_wbuf b;
    do b = 1 + draw(g, g->w->buffers.count - 1);
    while (!g->is_defined[b]);
    return b;
}

static bool is_writable(const generator *g, hn_wbuf b) {
    return g->w->buffers.items[b].kind == HN_WBUF_TEMP ||
           g->w->buffers.items[b].kind == HN_WBUF_OUTPUT;
}

/* One that is there, or a new one. */
static hn_wbuf pick_result(generator *g) {
    for (int k = 0; k < 4 && draw(g, 2); k++) {
        hn_wbuf b = pick_defined(g);
        if (is_writable(g, b)) return b;
    }
    if (g->w->buffers.count >= MAX_BUFFERS / 2) {
        for (hn_wbuf b = g->w->buffers.count - 1;; b--)
            if (is_writable(g, b)) return b;
    }
    return add_buffer(g, draw(g, 6) ? HN_WBUF_TEMP : HN_WBUF_OUTPUT, 0);
}

static uint32_t add_line(generator *g, hn_line line) {
    line.origin = g->line_count++;
    EXPECT(g->line_count < MAX_LINES);
    EXPECT_OK(hn_wrapper_add_line(g->w, line));
    return g->w->lines.count - 1;
}

/* Writes to `to`, or to what it picks. */
static void add_call(generator *g, hn_wbuf to) {
    static const struct {
        hn_extern_kind kind;
        uint32_t written, reads, params;
    } hosts[] = {{HN_EXTERN_NMS, 1, 1, HN_NMS_PARAM_COUNT},
                 {HN_EXTERN_SORT, 2, 1, HN_SORT_PARAM_COUNT},
                 {HN_EXTERN_GROUPED_MATMUL, 1, 3, HN_GROUPED_PARAM_COUNT}};
    hn_woperand operands[6];
    hn_expr params[32];
    const bool is_host = draw(g, 2);
    const uint32_t kind = draw(g, 3), written = is_host ? hosts[kind].written : 1 + draw(g, 2);
    const uint32_t reads = is_host ? hosts[kind].reads : draw(g, 4);
    uint8_t cells[2] = {0};
    for (uint32_t k = 0; k < 32; k++) params[k] = hn_sym_int(g->sym, 1);
    for (uint32_t k = 0; k < reads; k++)
        operands[written + k] = (hn_woperand){.buffer = pick_defined(g), .dtype = HN_DTYPE_F64};
    for (uint32_t k = 0; k < written; k++) {
        hn_wbuf b = k || !to ? pick_result(g) : to;
        operands[k] = (hn_woperand){.buffer = b, .dtype = HN_DTYPE_F64, .written = true};
        cells[k] = g->is_defined[b] ? (uint8_t)(1 + draw(g, 3)) : 3;
        g->is_defined[b] = true;
        for (uint32_t r = 0; r < reads && !is_host; r++)
            operands[k].over |= UINT64_C(1) << (written + r);
    }
    hn_line line = {.kind = HN_LINE_KERNEL,
                    .device = HN_DEVICE_OPENCL,
                    .kernel = g->kernel,
                    .operands = operands,
                    .operand_count = written + reads,
                    .extent = hn_sym_int(g->sym, 1),
                    .threads = 64};
    if (is_host)
        line = (hn_line){.kind = HN_LINE_EXTERN,
                         .extern_kind = hosts[kind].kind,
                         .operands = operands,
                         .operand_count = written + reads,
                         .params = params,
                         .param_count = hosts[kind].params};
    memcpy(g->lines[g->line_count].cells, cells, sizeof cells);
    add_line(g, line);
}

static void add_block(generator *g, uint32_t depth, uint32_t count);

static void add_cond(generator *g, uint32_t depth) {
    hn_woperand predicate = {.buffer = pick_defined(g), .dtype = HN_DTYPE_BOOL};
    hn_wbuf result = draw(g, 2) ? add_buffer(g, HN_WBUF_TEMP, 0) : 0;
    bool before[MAX_BUFFERS];
    g->lines[g->line_count].goes_then = draw(g, 2);
    const uint32_t at =
        add_line(g, (hn_line){.kind = HN_LINE_COND, .operands = &predicate, .operand_count = 1});
    memcpy(before, g->is_defined, sizeof before);
    for (uint32_t body = 0; body < 2; body++) {
        add_block(g, depth + 1, draw(g, 4));
        if (result) add_call(g, result);
        memcpy(g->is_defined, before, sizeof before);
        if (!body) g->w->lines.items[at].then_count = g->w->lines.count - at - 1;
    }
    g->w->lines.items[at].otherwise_count =
        g->w->lines.count - at - 1 - g->w->lines.items[at].then_count;
    if (result) g->is_defined[result] = true;
}

static void add_block(generator *g, uint32_t depth, uint32_t count) {
    for (uint32_t k = 0; k < count && g->budget; k++) {
        g->budget--;
        const uint32_t what = draw(g, 10);
        if (what == 0 && depth < 3) {
            add_cond(g, depth);
        } else if (what == 1) {
            hn_woperand operand = {.buffer = pick_defined(g), .dtype = HN_DTYPE_BOOL};
            add_line(g, (hn_line){.kind = HN_LINE_ASSERT,
                                  .operands = &operand,
                                  .operand_count = 1,
                                  .text = HN_STR("t")});
        } else if (what == 2) {
            hn_wbuf from = pick_defined(g), to = add_buffer(g, HN_WBUF_TEMP, 0);
            g->w->buffers.items[to].sizes = g->w->buffers.items[from].sizes;
            g->w->buffers.items[to].bytes =
                hn_sym_mul(g->sym, g->w->buffers.items[from].sizes[0], hn_sym_int(g->sym, 8));
            g->is_defined[to] = true;
            add_line(g, (hn_line){.kind = HN_LINE_COPY, .buffer = to, .from = from});
        } else {
            add_call(g, 0);
        }
    }
}

static void generate(generator *g, uint64_t seed) {
    *g = (generator){.seed = seed * 0x9e3779b97f4a7c15ull + 1, .budget = 60, .line_count = 1};
    hn_arena_init(&g->arena);
    EXPECT_OK(hn_sym_create(&g->arena, &g->sym));
    EXPECT_OK(hn_wrapper_create(&g->arena, g->sym, NULL, &g->w));
    EXPECT_OK(hn_wrapper_add_kernel(g->w, (hn_wkernel_info){.name = HN_STR("k")}, &g->kernel));
    add_inputs(g);
    add_block(g, 0, 4 + draw(g, 24));
    hn_woutput *outputs;
    EXPECT_OK(hn_arena_array(&g->arena, 4, sizeof *outputs, (void **)&outputs));
    for (uint32_t k = 0; k < 4; k++) {
        hn_wbuf b = pick_defined(g);
        const hn_wbuffer *own = &g->w->buffers.items[b];
        outputs[k] = (hn_woutput){.kind = HN_WOUTPUT_TENSOR,
                                  .name = HN_STR("y"),
                                  .buffer = b,
                                  .dtype = own->dtype,
                                  .rank = 1,
                                  .sizes = own->sizes,
                                  .strides = own->strides,
                                  .target_input = -1};
    }
    g->w->outputs.items = outputs, g->w->outputs.count = g->w->outputs.cap = 4;
}

static uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15ull + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccdull;
    return x ^ x >> 33;
}

static uint64_t first_content(hn_wbuf_kind kind, uint32_t source, uint32_t cell) {
    return mix(mix(kind + 1, source), cell);
}

/* --- the first run: one memory --- */

static void run_plain(generator *g, const hn_line *lines, uint32_t first, uint32_t end,
                      value *values) {
    for (uint32_t i = first; i < end; i++) {
        const hn_line *line = &lines[i];
        line_facts *facts = &g->lines[line->origin];
        uint64_t read = line->origin;
        uint32_t reads = 0, written = 0;
        facts->is_run = true;
        if (line->kind == HN_LINE_COPY) values[line->buffer] = values[line->from];
        for (uint32_t k = 0; k < line->operand_count; k++) {
            const value *v = &values[line->operands[k].buffer];
            if (line->operands[k].written) continue;
            for (uint32_t c = 0; c < 2; c++)
                if (v->defined >> c & 1) read = mix(read, v->cells[c]);
            facts->defined[reads++] = v->defined;
        }
        facts->expected = read;
        for (uint32_t k = 0; k < line->operand_count; k++) {
            value *v = &values[line->operands[k].buffer];
            if (!line->operands[k].written) continue;
            for (uint32_t c = 0; c < 2; c++)
                if (facts->cells[written] >> c & 1) v->cells[c] = mix(read, 100 * written + c);
            v->defined |= facts->cells[written++];
        }
        if (line->kind != HN_LINE_COND) continue;
        const uint32_t middle = i + 1 + line->then_count, last = middle + line->otherwise_count;
        run_plain(g, lines, facts->goes_then ? i + 1 : middle, facts->goes_then ? middle : last,
                  values);
        i = last - 1;
    }
}

/* --- the second run: a host and a device --- */

typedef enum pace { AT_ONCE, LATE, BY_CHANCE, PACE_COUNT } pace;

typedef struct machine {
    generator *g;
    const hn_memory_plan *plan;
    pace pace;
    uint64_t *workspaces[HN_DEVICE_KIND_COUNT];
    uint64_t given[2][HN_DEVICE_KIND_COUNT][8][WORDS]; /* inputs; constants */
    uint64_t outputs[MAX_BUFFERS][WORDS];
    const hn_line *queue[8 * MAX_LINES];
    uint32_t queued, done;
    uint32_t wrong;
} machine;

static uint64_t *memory_of(machine *m, hn_wbuf b) {
    const hn_wbuffer *own = &m->g->w->buffers.items[b];
    switch (own->kind) {
    case HN_WBUF_INPUT: return m->given[0][own->device][own->source];
    case HN_WBUF_CONSTANT: return m->given[1][own->device][own->source];
    case HN_WBUF_OUTPUT: return m->outputs[b];
    case HN_WBUF_TEMP:
    case HN_WBUF_WORKSPACE:
    case HN_WBUF_VIEW: break; /* there are none of these */
    }
    return m->workspaces[own->device] + hn_sym_hint(m->g->sym, m->plan->offsets[b], -1) / 8;
}

static uint32_t words_of(const machine *m, hn_wbuf b) {
    return (uint32_t)hn_sym_hint(m->g->sym, m->g->w->buffers.items[b].sizes[0], -1);
}

static uint64_t *cell_of(machine *m, hn_wbuf b, uint32_t cell) {
    return memory_of(m, b) + (cell ? words_of(m, b) - 1 : 0);
}

static void run_call(machine *m, const hn_line *line) {
    line_facts *facts = &m->g->lines[line->origin];
    uint64_t read = line->origin;
    uint32_t reads = 0, written = 0;
    for (uint32_t k = 0; k < line->operand_count; k++) {
        if (line->operands[k].written) continue;
        for (uint32_t c = 0; c < 2; c++)
            if (facts->defined[reads] >> c & 1)
                read = mix(read, *cell_of(m, line->operands[k].buffer, c));
        reads++;
    }
    m->wrong += read != facts->expected || !facts->is_run;
    for (uint32_t k = 0; k < line->operand_count; k++) {
        if (!line->operands[k].written) continue;
        for (uint32_t c = 0; c < 2; c++)
            if (facts->cells[written] >> c & 1)
                *cell_of(m, line->operands[k].buffer, c) = mix(read, 100 * written + c);
        written++;
    }
}

static void fill(machine *m, hn_wbuf b) {
    memset(memory_of(m, b), 0x5a, 8 * (size_t)words_of(m, b));
}

static void run_now(machine *m, const hn_line *line) {
    if (line->kind == HN_LINE_FREE) fill(m, line->buffer);
    else if (line->kind != HN_LINE_COPY) run_call(m, line);
    else
        memmove(memory_of(m, line->buffer), memory_of(m, line->from),
                8 * (size_t)words_of(m, line->from));
}

static void catch_up(machine *m, uint32_t until) {
    while (m->done < until) run_now(m, m->queue[m->done++]);
}

static void enqueue(machine *m, const hn_line *line) {
    EXPECT(m->queued < 8 * MAX_LINES);
    m->queue[m->queued++] = line;
    if (m->pace == AT_ONCE) catch_up(m, m->queued);
    if (m->pace == BY_CHANCE) catch_up(m, m->done + draw(m->g, m->queued - m->done + 1));
}

static void run_machine(machine *m, uint32_t first, uint32_t end) {
    const hn_wrapper *w = m->g->w;
    for (uint32_t i = first; i < end; i++) {
        const hn_line *line = &w->lines.items[i];
        const bool is_free = line->kind == HN_LINE_FREE;
        const hn_device_kind device =
            is_free ? w->buffers.items[line->buffer].device : hn_line_device(w, line);
        const bool is_element = line->kind == HN_LINE_ASSERT || line->kind == HN_LINE_COND;
        if (line->kind == HN_LINE_ALLOCATE || line->kind == HN_LINE_REUSE) continue;
        if (line->kind == HN_LINE_WAIT || (is_element && device != HN_DEVICE_CPU))
            catch_up(m, m->queued);
        if (line->kind == HN_LINE_WAIT) continue;
        if (device == HN_DEVICE_CPU || is_element) run_now(m, line);
        else enqueue(m, line);
        if (line->kind != HN_LINE_COND) continue;
        const uint32_t middle = i + 1 + line->then_count, last = middle + line->otherwise_count;
        const bool goes_then = m->g->lines[line->origin].goes_then;
        run_machine(m, goes_then ? i + 1 : middle, goes_then ? middle : last);
        i = last - 1;
    }
}

static void check_outputs(machine *m, const value *values) {
    const hn_wrapper *w = m->g->w;
    catch_up(m, m->queued);
    for (uint32_t k = 0; k < w->outputs.count; k++) {
        const hn_wbuf b = w->outputs.items[k].buffer;
        for (uint32_t c = 0; c < 2; c++)
            m->wrong += values[b].defined >> c & 1 && *cell_of(m, b, c) != values[b].cells[c];
    }
}

static void run_as_placed(generator *g, const hn_memory_plan *plan, pace how, const value *values,
                          uint64_t seed) {
    machine *m = calloc(1, sizeof *m);
    m->g = g, m->plan = plan, m->pace = how;
    for (uint32_t d = 0; d < HN_DEVICE_KIND_COUNT; d++)
        m->workspaces[d] =
            calloc((size_t)hn_sym_hint(g->sym, plan->workspaces[d], 0) / 8 + WORDS, 8);
    for (hn_wbuf b = 1; b < g->w->buffers.count; b++) {
        const hn_wbuffer *own = &g->w->buffers.items[b];
        if (own->kind != HN_WBUF_INPUT && own->kind != HN_WBUF_CONSTANT) continue;
        for (uint32_t c = 0; c < 2; c++)
            *cell_of(m, b, c) = first_content(own->kind, own->source, c);
    }
    run_machine(m, 0, g->w->lines.count);
    check_outputs(m, values);
    if (m->wrong)
        HN_TEST_FAIL("seed %llu, pace %d: %u lines read something else", (unsigned long long)seed,
                     (int)how, m->wrong);
    for (uint32_t d = 0; d < HN_DEVICE_KIND_COUNT; d++) free(m->workspaces[d]);
    free(m);
}

/* print(parse(x)) == x. */
static void expect_text_reads_back(const hn_wrapper *w) {
    hn_strbuf first, second;
    hn_arena arena;
    hn_sym *sym;
    hn_wrapper *again;
    hn_arena_init(&arena);
    hn_strbuf_init(&first);
    hn_strbuf_init(&second);
    EXPECT_OK(hn_sym_create(&arena, &sym));
    hn_wrapper_print(w, &first);
    EXPECT_OK(hn_wrapper_parse(&arena, sym, hn_strbuf_str(&first), &again));
    hn_wrapper_print(again, &second);
    EXPECT_STR(second.ptr, first.ptr);
    hn_strbuf_deinit(&first);
    hn_strbuf_deinit(&second);
    hn_arena_deinit(&arena);
}

static void check_program(uint64_t seed, uint32_t *out_copies) {
    generator *g = malloc(sizeof *g);
    value *values = calloc(MAX_BUFFERS, sizeof *values);
    hn_memory_plan plan;
    generate(g, seed);
    for (hn_wbuf b = 1; b < g->w->buffers.count; b++) {
        const hn_wbuffer *own = &g->w->buffers.items[b];
        if (own->kind != HN_WBUF_INPUT && own->kind != HN_WBUF_CONSTANT) continue;
        for (uint32_t c = 0; c < 2; c++)
            values[b].cells[c] = first_content(own->kind, own->source, c);
        values[b].defined = 3;
    }
    run_plain(g, g->w->lines.items, 0, g->w->lines.count, values);
    EXPECT_OK(hn_wrapper_host_memory(g->w));
    EXPECT(g->w->buffers.count < MAX_BUFFERS);
    EXPECT_OK(hn_wrapper_verify(g->w));
    EXPECT_OK(hn_wrapper_reuse(g->w));
    EXPECT_OK(hn_wrapper_plan(g->w, &plan));
    EXPECT_OK(hn_wrapper_verify(g->w));
    EXPECT_OK(hn_wrapper_plan_verify(g->w, &plan));
    for (uint32_t p = 0; p < PACE_COUNT; p++) run_as_placed(g, &plan, (pace)p, values, seed);
    expect_text_reads_back(g->w);
    for (uint32_t i = 0; i < g->w->lines.count; i++)
        *out_copies += g->w->lines.items[i].kind == HN_LINE_COPY;
    hn_arena_deinit(&g->arena);
    free(values);
    free(g);
}

TEST(random_programs) {
    uint32_t copies = 0;
    for (uint64_t seed = 0; seed < 3000; seed++) check_program(seed, &copies);
    EXPECT(copies > 3000);
}

TEST_MAIN
