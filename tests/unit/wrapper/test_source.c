/* test_source.c: programs as C: what each line becomes, also lines that few models have. What the C
 * computes is tests/cli/source*.sh. */
#include "unit/harness.h"
#include "wrapper/to_source.h"

#include <string.h>

/* A program in text form as C. */
static hn_status print(const char *text, hn_arena *arena, hn_strbuf *out) {
    static const uint64_t offsets[16];
    hn_sym *sym;
    hn_wrapper *w;
    hn_memory_plan plan;
    hn_wnumbering numbering;
    HN_TRY(hn_sym_create(arena, &sym));
    HN_TRY(hn_wrapper_parse(arena, sym, hn_str_of(text), &w));
    HN_TRY(hn_wrapper_plan(w, &plan));
    HN_TRY(hn_wrapper_number(w, &plan, arena, &numbering));
    const hn_to_source source = {.numbering = &numbering,
                                 .targets = &(hn_str){"sm_90a", 6},
                                 .target_count = 1,
                                 .weight_offsets = offsets,
                                 .arena = arena};
    return hn_wrapper_to_source(&source, out);
}

static void expect_c(const char *text, const char *const *wanted, size_t count) {
    hn_arena arena;
    hn_strbuf out;
    hn_arena_init(&arena);
    hn_strbuf_init(&out);
    EXPECT_OK(print(text, &arena, &out));
    for (size_t k = 0; k < count; k++) {
        bool found = out.ptr && strstr(out.ptr, wanted[k]);
        EXPECT(found);
        if (!found) fprintf(stderr, "no '%s' in\n%s\n", wanted[k], out.ptr ? out.ptr : "");
    }
    hn_strbuf_deinit(&out);
    hn_arena_deinit(&arena);
}

#define EXPECT_C(text, ...)                                                                        \
    expect_c(text, (const char *const[]){__VA_ARGS__},                                             \
             sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

/* A workspace of the CPU is memory like any other; zeros are filled in where the line stands. */
TEST(workspaces) {
    EXPECT_C("wrapper {\n"
             "  buffer b1 : input f32[4] source 0 name \"x\"\n"
             "  buffer b2 : output f32[4] bytes(16) name \"y\"\n"
             "  buffer b3 : workspace u8[96] bytes(96) zeroed each\n"
             "  kernel k1 : object 0 name \"hn_k0\"\n"
             "  input \"x\" : f32[4] strides [1] in b1\n"
             "  call k1(b1 f32, out b3 u8, out b2 f32) extent(4) grain 8\n"
             "  output tensor \"y\" : f32[4] strides [1] in b2\n}",
             "memset(m->workspace.bytes + 0, 0, (size_t)96);",
             "void *const b[] = {m->inputs[0], m->workspace.bytes + 0, m->blocks[0]};");
}

TEST(copies_asserts_and_branches) {
    EXPECT_C("wrapper {\n"
             "  symbol size s0 in [2, 64] hint 16\n"
             "  buffer b1 : input f32[s0, 4] strides [4, 1] source 0 name \"x\"\n"
             "  buffer b2 : temp bool[1] bytes(1)\n"
             "  buffer b3 : output f32[4*s0] bytes(16*s0) name \"y\"\n"
             "  buffer b4 : output f32[4*s0] bytes(16*s0) name \"z\"\n"
             "  buffer b5 : view f32[s0 - 1, 4]\n"
             "  kernel k1 : object 0 name \"hn_k0\"\n"
             "  input \"x\" : f32[s0, 4] strides [4, 1] in b1\n"
             "  call k1(b1 f32, out b2 bool, out b4 f32) params [s0] extent(s0) grain 8\n"
             "  comment origins [1, 2] text \"a comment\"\n"
             "  assert(b2 bool) text \"must \\\"hold\\\"\"\n"
             "  cond(b2 bool) {\n"
             "    copy b3 from b1\n"
             "  } else {\n"
             "    copy b3 from b4\n"
             "  }\n"
             "  view b5 of b4 at(4)\n"
             "  output tensor \"y\" : f32[s0, 4] strides [4, 1] in b3\n"
             "  output tensor \"z\" : f32[s0, 4] strides [4, 1] in b4\n"
             "  output tensor \"tail\" : f32[s0 - 1, 4] strides [4, 1] in b5\n"
             "}\n",
             "memmove(m->blocks[0], m->inputs[0], (size_t)n_min(", "/* a comment",
             "} else {\n        {\n            STEP_BEGIN(4, m->blocks[0], m->blocks[1]);\n"
             "            memmove(m->blocks[0], m->blocks[1], ",
             "{\"assert\", ", "{\"cond\", ", "{\"copy\", ", "if (*(m->workspace.bytes + 0)) {",
             "assertion failed: %s\", \"node ''\", \"must \\\"hold\\\"\");",
             "TRY(kernel_run(m, hn_k0, b, p, 1, ", "TRY(take_block(m, 0, ",
             "block_outputs[] = {0, -1, -1}"); /* two results lie in the second block */
}

TEST(mutations_are_states_or_changed_inputs) {
    EXPECT_C("wrapper {\n"
             "  buffer b1 : input f32[4] source 0 name \"x\"\n"
             "  buffer b2 : output f32[4] bytes(16) name \"y\"\n"
             "  buffer b3 : output f32[4] bytes(16) name \"x_new\"\n"
             "  kernel k1 : object 0 name \"hn_k0\"\n"
             "  input \"x\" : f32[4] strides [1] in b1\n"
             "  call k1(b1 f32, out b2 f32, out b3 f32) extent(1) grain 1\n"
             "  output tensor \"y\" : f32[4] strides [1] in b2\n"
             "  output mutation \"x\" target 0 : f32[4] strides [1] in b3\n"
             "}\n",
             "{\"x\", (model_kind)0, (model_type)2, 1, 1, 0, \"[4]\", {4}},",
             "block_outputs[] = {0, -1}, state_outputs[] = {-1}");
}

/* Lines of a GPU, and of the host between them: copies, an operation of the host, what the host
 * asks of the data. */
TEST(lines_of_a_device) {
    EXPECT_C(
        "wrapper {\n"
        "  symbol size s0 in [2, 64] hint 16\n"
        "  buffer b1 : input f32[s0, 4] strides [4, 1] on cuda source 0 name \"x\"\n"
        "  buffer b2 : temp f32[s0, 4] strides [4, 1] on cuda bytes(16*s0)\n"
        "  buffer b3 : temp f32[s0, 4] strides [4, 1] bytes(16*s0)\n"
        "  buffer b4 : temp f32[s0, 4] strides [4, 1] bytes(16*s0)\n"
        "  buffer b5 : temp i64[s0, 4] strides [4, 1] bytes(32*s0)\n"
        "  buffer b6 : temp bool[1] on cuda bytes(1)\n"
        "  buffer b7 : output f32[s0, 4] strides [4, 1] on cuda bytes(16*s0) name \"y\"\n"
        "  buffer b8 : workspace u8[64*s0] on cuda bytes(64*s0) zeroed each\n"
        "  kernel k1 : object 0 name \"hn_k0\"\n"
        "  kernel k2 : object 1 name \"hn_k1\"\n"
        "  input \"x\" : f32[s0, 4] strides [4, 1] in b1\n"
        "  call k1(b1 f32, out b2 f32, out b6 bool) params [s0] extent(s0) threads 64 shared 128 scratch(64) in b8 "
        "on cuda\n"
        "  copy b3 from b2\n"
        "  wait cuda\n"
        "  extern sort(out b4 f32, out b5 i64, b3 f32) params [s0, 4, 1, 4, 0, 1]\n"
        "  assert(b6 bool) text \"must hold\"\n"
        "  cond(b6 bool) {\n"
        "    copy b7 from b4\n"
        "  } else {\n"
        "    copy b7 from b2\n"
        "  }\n"
        "  output tensor \"y\" : f32[s0, 4] strides [4, 1] in b7\n"
        "}\n",
        "void *const b[] = {m->device_inputs[0].bytes, m->device_workspace.bytes + ",
        "static const launch_facts f = {0, 0, 3, 1, 64, 128, \"node ''\"};",
        "TRY(device_launch(m, &f, b, p, n[1], m->device_workspace.bytes + ", "TRY(device_zero(m, ",
        "TRY(device_copy_out(m, m->workspace.bytes + ", "TRY(device_wait(m));",
        "TRY(extern_run(m, &f, b, p));", "uint8_t e1[8] = {0};",
        "TRY(device_read(m, e1, m->device_workspace.bytes + ", "if (!*(e1)) return fail(m, ",
        "if (*(e2)) {\n        {\n            STEP_BEGIN(7, m->blocks[0], ",
        "            TRY(device_copy_in(m, m->blocks[0], m->workspace.bytes + ",
        "            TRY(device_copy(m, m->blocks[0], m->device_workspace.bytes + ",
        "TRY(device_block(m, 0, ", "TRY(device_reserve(m, &m->device_workspace, ",
        "static const char *const targets[] = {\"sm_90a\", NULL};", "{\"hn_k1\", 1},",
        "remote_inputs[] = {1, 0}", "remote_outputs[] = {1, 0}", ".externs = 1,",
        ".device = &device_cuda, .places = &places,");
}

/* The form is looked up where its sizes become known: with the inputs, or in the middle of a run.
 * An undefined size is in no range. */
TEST(variants) {
    EXPECT_C(
        "wrapper {\n"
        "  symbol size s0 in [1, none]\n"
        "  symbol data u0 in [0, 64]\n"
        "  buffer b1 : input f32[s0] source 0 name \"x\"\n"
        "  buffer b2 : input i64[] source 1 name \"n\"\n"
        "  buffer b3 : temp f32[s0] bytes(4*s0)\n"
        "  buffer b4 : output f32[s0] bytes(4*s0) name \"y\"\n"
        "  kernel k1 : object 0 name \"rows\"\n"
        "  kernel k2 : object 0 name \"columns\"\n"
        "  input \"x\" : f32[s0] strides [1] in b1\n"
        "  input \"n\" : i64[] strides [] in b2\n"
        "  define(b2 i64) symbol(u0)\n"
        "  call k1(b1 f32, out b3 f32) params [s0] extent(s0) grain 8 form \"r\" or k2 takes [0, 0, 1] "
        "extent(4) form \"c\" choose [s0, 2*s0] else 0 [1 in [2, 9] and [none, none], 1 in [10, none] and [none, 64]]\n"
        "  call k1(b3 f32, out b4 f32) params [u0] extent(s0) form \"r\" or k2 takes [0, 0, 1] extent(4) "
        "form \"c\" choose [u0] else 1 []\n"
        "  output tensor \"y\" : f32[s0] strides [1] in b4\n}",
        "/* the form of rows: 0 r, 1 c */", " >= 2 && ", " <= 9 && ", " != UNDEFINED) n[",
        " = 1;\n    else if (", " >= 10 && ", " != UNDEFINED && ", " <= 64) n[", "    else n[",
        "{ /* r */", "} else { /* c */",
        "void *const b[] = {m->inputs[0], m->inputs[0], m->workspace.bytes + ",
        "kernel_run(m, columns, b, NULL, 0, 4, ", "STEP_BEGIN(1 + (uint32_t)n[",
        "STEP_END(3 + (uint32_t)n[", "{\"columns\", \"\", \"\", ");
}

TEST(variants_of_a_device) {
    EXPECT_C(
        "wrapper {\n"
        "  symbol size s0 in [1, none]\n"
        "  buffer b1 : input f32[s0] on cuda source 0 name \"x\"\n"
        "  buffer b2 : output f32[s0] on cuda bytes(4*s0) name \"y\"\n"
        "  buffer b3 : workspace u8[64*s0] on cuda bytes(64*s0)\n"
        "  kernel k1 : object 0 name \"rows\"\n"
        "  kernel k2 : object 0 name \"columns\"\n"
        "  input \"x\" : f32[s0] strides [1] in b1\n"
        "  call k1(b1 f32, out b2 f32) params [s0] extent(s0) threads 64 form \"r\" in b3 on cuda "
        "or k2 takes [1, 0] params [s0, 7] extent(s0) threads 128 shared 512 scratch(64) form \"c\" "
        "choose [s0] else 0 [1 in [33, none]]\n"
        "  output tensor \"y\" : f32[s0] strides [1] in b2\n}",
        " >= 33) n[", "static const launch_facts f = {0, 0, 2, 1, 64, 0, ",
        "static const launch_facts f = {0, 1, 2, 2, 128, 512, ",
        "void *const b[] = {m->blocks[0], m->device_inputs[0].bytes};");
}

TEST(other_devices_are_refused) {
    hn_arena arena;
    hn_strbuf out;
    hn_arena_init(&arena);
    hn_strbuf_init(&out);
    hn_status status = print("wrapper {\n"
                             "  buffer b1 : input f32[4] on opencl source 0 name \"x\"\n"
                             "  input \"x\" : f32[4] strides [1] in b1\n"
                             "  output tensor \"x\" : f32[4] strides [1] in b1\n"
                             "}\n",
                             &arena, &out);
    EXPECT_INT(hn_status_code(status), HN_UNSUPPORTED);
    EXPECT(strstr(hn_status_message(status), "no C source of programs for opencl"));
    hn_status_free(status);
    hn_strbuf_deinit(&out);
    hn_arena_deinit(&arena);
}

/* Names come from the model: they must not end a string or a comment, or begin a trigraph. */
TEST(texts_are_escaped) {
    EXPECT_C("wrapper {\n"
             "  buffer b1 : input f32[4] source 0 name \"x\"\n"
             "  buffer b2 : output f32[4] bytes(16) name \"y\"\n"
             "  kernel k1 : object 0 name \"hn_k0\"\n"
             "  input \"a\\\"b\\\\c\?\?/\" : f32[4] strides [1] in b1\n"
             "  call k1(b1 f32, out b2 f32) extent(1) grain 1\n"
             "  output tensor \"*/\" : f32[4] strides [1] in b2\n"
             "}\n",
             "{\"a\\\"b\\\\c\\?\\?/\", ", "{\"*/\", (model_kind)0,");
}

TEST_MAIN
