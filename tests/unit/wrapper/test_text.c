/* test_text.c: the text form of wrapper IR reads back; what is broken is refused. */
#include "unit/harness.h"
#include "wrapper/numbering.h"
#include "wrapper/to_bundle.h"
#include "wrapper/to_source.h"

static const char *const sample =
    "wrapper {\n"
    "  symbol size s0 in [2, 64] divisor 2 hint 16\n"
    "  symbol size s10 in [1, none]\n"
    "  guard s0 + s10 <= 100 \"total\"\n"
    "  buffer b1 : input f32[s0, 4] source 0 name \"x\"\n"
    "  buffer b2 : constant f32[s0, 4] source 1 offset 128 name \"w\"\n"
    "  buffer b3 : temp f32[s0, 4] strides [1, s0] bytes(16*s0)\n"
    "  buffer b4 : output f32[s0, 4] bytes(16*s0) name \"y \\\"quoted\\\"\"\n"
    "  buffer b5 : temp bool[] bytes(1)\n"
    "  buffer b6 : temp f32[4*s0] on opencl bytes(16*s0)\n"
    "  buffer b7 : view f32[s0 - 1, 4] name \"tail\"\n"
    "  buffer b8 : view bool[16*s0]\n"
    "  kernel k1 : object 0 name \"hn_k0\"\n"
    "  input \"x\" : f32[s0, 4] strides [4, 1] in b1\n"
    "  input \"flag\" : true\n"
    "  input \"alpha\" : float(0.5)\n"
    "  input \"mode\" : string \"mean\"\n"
    "  input \"none\" : none\n"
    "  input \"n\" : int(s10)\n"
    "  comment origins [1, 2] text \"begin\"\n"
    "  allocate b3\n"
    "  call k1(b1 f32, out b3 f32 at(s0 + 1)) params [s0, 4] extent(s0) grain 8 scratch(256) origin 2 origins [1, 2] text \"label\"\n"
    "  call k1(b1 f32, out b5 bool) extent(1) grain 1\n"
    "  assert(b5 bool) text \"must hold\"\n"
    "  reuse b6 from b3\n"
    "  call k1(out b6 f32) extent(s0) threads 64 shared 65536 scratch(256) on opencl\n"
    "  wait opencl\n"
    "  cond(b5 bool) origin 3 {\n"
    "    copy b4 from b1\n"
    "    cond(b5 bool) {\n"
    "    } else {\n"
    "      copy b4 from b2\n"
    "    }\n"
    "  } else {\n"
    "    extern sort(out b4 f32, out b6 f32, b1 f32) params [1, 2, 3, 4, 0, 1]\n"
    "  }\n"
    "  loop rounds(s0 - 1) origin 1 {\n"
    "    loop {\n"
    "      call k1(b1 f32, out b5 bool) extent(1) grain 1\n"
    "    } while (b5 bool) {\n"
    "      copy b4 from b2\n"
    "    }\n"
    "  }\n"
    "  extern matmul(out b4 f32, b1 f32, b2 f32, none) params [1, s0//2]\n"
    "  free b6\n"
    "  view b7 of b4 at(4)\n"
    "  view b8 of b4\n"
    "  output tensor \"y\" : f32[s0, 4] strides [4, 1] in b4\n"
    "  output mutation \"x\" target 0 : f32[s0, 4] strides [4, 1] in b7\n"
    "  output mutation \"buf\" : f32[s0, 4] strides [4, 1] in b4\n"
    "  output scalar \"n\" : int(s0*s10)\n"
    "  output scalar \"z\" : none\n"
    "}\n";

static hn_status parse(const char *text, hn_arena *arena, hn_wrapper **out) {
    hn_sym *sym;
    HN_TRY(hn_sym_create(arena, &sym));
    return hn_wrapper_parse(arena, sym, hn_str_of(text), out);
}

TEST(text_reads_back) {
    hn_arena arena;
    hn_wrapper *w;
    hn_strbuf out;
    hn_arena_init(&arena);
    hn_strbuf_init(&out);
    EXPECT_OK(parse(sample, &arena, &w));
    hn_wrapper_print(w, &out);
    EXPECT_OK(hn_strbuf_status(&out));
    EXPECT_STR(out.ptr, sample);
    EXPECT_INT(w->lines.items[8].then_count, 3);
    EXPECT_INT(w->lines.items[8].otherwise_count, 1);
    hn_strbuf_reset(&out);
    hn_wrapper_print_json(w, &out);
    EXPECT(out.ptr && strstr(out.ptr, "\"then\":[{\"kind\":\"copy\"") != NULL);
    EXPECT(out.ptr && strstr(out.ptr, "\"value\":0.5") != NULL);
    EXPECT(
        out.ptr &&
        strstr(
            out.ptr,
            "\"dtype\":\"f32\",\"sizes\":[\"s0\",4],\"strides\":[1,\"s0\"],\"device\":\"cpu\",\"bytes\"") !=
            NULL);
    EXPECT(out.ptr && strstr(out.ptr, "\"device\":\"opencl\"") != NULL);
    hn_strbuf_deinit(&out);
    hn_arena_deinit(&arena);
}

/* A view is memory of its root: that lives as long as the view is used, in one place with it. */
/* Of a call with many operands, of several segments. */
static void put_many(hn_strbuf *out, const char *last) {
    hn_strbuf_puts(out, "wrapper {\n  buffer b1 : input f32[4] source 0 name \"x\"\n"
                        "  buffer b2 : output f32[4] bytes(16)\n  kernel k1 : object 0\n"
                        "  input \"x\" : f32[4] strides [1] in b1\n  call k1(");
    for (int k = 0; k < 70; k++) hn_strbuf_puts(out, "b1 f32, ");
    hn_strbuf_printf(out, "%s) extent(1) grain 1\n}\n", last);
}

TEST(operands_far_back_lie_over_others) {
    static const struct {
        const char *last;
        bool is_right;
    } rows[] = {{"out b2 f32 over [64, 69]", true},
                {"out b2 f32 over [0, 63]", true},
                {"out b2 f32 over [5, 69]", false},
                {"out b2 f32 over [66, 65]", false}};
    for (size_t k = 0; k < HN_COUNT_OF(rows); k++) {
        hn_arena arena;
        hn_wrapper *w;
        hn_strbuf text, again;
        hn_arena_init(&arena);
        hn_strbuf_init(&text);
        hn_strbuf_init(&again);
        put_many(&text, rows[k].last);
        hn_status status = parse(hn_strbuf_str(&text).ptr, &arena, &w);
        EXPECT((status == NULL) == rows[k].is_right);
        if (!status) {
            const hn_woperand *o = &w->lines.items[0].operands[70];
            EXPECT(!hn_woperand_is_over(o, k ? 64 : 63) && hn_woperand_is_over(o, k ? 63 : 64));
            hn_wrapper_print(w, &again);
            EXPECT_STR(hn_strbuf_str(&again).ptr, hn_strbuf_str(&text).ptr);
        }
        hn_status_free(status);
        hn_strbuf_deinit(&again);
        hn_strbuf_deinit(&text);
        hn_arena_deinit(&arena);
    }
}

TEST(a_view_keeps_its_root) {
    hn_arena arena;
    hn_wrapper *w;
    hn_memory_plan plan;
    hn_arena_init(&arena);
    EXPECT_OK(parse(
        "wrapper { buffer b1 : temp f32[4] bytes(16) buffer b2 : temp f32[4] bytes(16) buffer b3 : output f32[4] bytes(16) "
        "buffer b4 : view i32[2] buffer b5 : view f32[2] kernel k1 : object 0 "
        "call k1(out b1 f32) extent(1) view b4 of b1 at(2) call k1(out b2 f32) extent(1) "
        "call k1(b4 i32, b2 f32, out b3 f32) extent(1) view b5 of b3 at(1) "
        "output tensor \"y\" : f32[2] strides [1] in b5 }",
        &arena, &w));
    EXPECT_OK(hn_wrapper_plan(w, &plan));
    EXPECT_OK(hn_wrapper_verify(w));
    EXPECT_OK(hn_wrapper_plan_verify(w, &plan));
    EXPECT_INT(hn_sym_hint(w->sym, plan.workspaces[HN_DEVICE_CPU], -1), 128);
    EXPECT(w->buffers.items[3].kind == HN_WBUF_OUTPUT && !plan.offsets[4]);
    EXPECT_INT(
        hn_sym_hint(w->sym,
                    hn_woperand_offset(w, &(hn_woperand){.buffer = 4, .dtype = HN_DTYPE_F64}), -1),
        1);
    hn_arena_deinit(&arena);
}

/* A symbol that only the shape of a buffer has is stated, or the text would not read back. */
TEST(shapes_have_symbols) {
    static const char text[] = "wrapper {\n"
                               "  symbol size s7 in [0, 9]\n"
                               "  symbol size s8 in [1, 2]\n"
                               "  buffer b1 : temp f32[s7, 2] strides [s8, 1] bytes(96)\n"
                               "}\n";
    hn_arena arena;
    hn_wrapper *w;
    hn_strbuf out;
    hn_arena_init(&arena);
    hn_strbuf_init(&out);
    EXPECT_OK(parse(text, &arena, &w));
    hn_wrapper_print(w, &out);
    EXPECT_STR(out.ptr, text);
    hn_strbuf_deinit(&out);
    hn_arena_deinit(&arena);
}

/* Every text cut short is an error with a place, and none crashes. */
TEST(text_cut_short) {
    char text[4096];
    size_t len = strlen(sample);
    for (size_t cut = 0; cut < len - 2; cut++) {
        hn_arena arena;
        hn_wrapper *w;
        hn_arena_init(&arena);
        memcpy(text, sample, cut);
        text[cut] = 0;
        hn_status status = parse(text, &arena, &w);
        if (!status) HN_TEST_FAIL("a text of %zu bytes was accepted", cut);
        hn_status_free(status);
        hn_arena_deinit(&arena);
    }
}

TEST(text_errors) {
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"wrapper { buffer b2 : temp f32 }", "numbered from b1"},
        {"wrapper { buffer b1 : what f32 }", "kind of a buffer"},
        {"wrapper { buffer b1 : temp q7 }", "not a dtype"},
        {"wrapper { buffer b1 : temp f32 bytes(4) }", "expected '['"},
        {"wrapper { buffer b1 : temp f32[2, 2] strides [2] bytes(16) }",
         "sizes and strides differ in number"},
        {"wrapper { buffer b1 : temp f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] bytes(4) }",
         "too many expressions"},
        {"wrapper { buffer b1 : temp f32[2, 9000000000, 9000000000, 2] bytes(4) }",
         "line 1, column"},
        {"wrapper { buffer b1 : temp f32[2] on moon bytes(8) }", "not a device"},
        {"wrapper { wait moon }", "not a device"},
        {"wrapper { wait }", "expected a device"},
        {"wrapper { call k1() on 7 }", "not a device"},
        {"wrapper { call x1() }", "expected a kernel"},
        {"wrapper { extern dance() }", "extern operation"},
        {"wrapper { input \"x\" : f32[1] strides [] }", "fit together"},
        {"wrapper { symbol size s0 in [4, 2] }", "empty"},
        {"wrapper { comment origins [] }", "expected"},
        {"wrapper { buffer b1 : temp f32[1] bytes(4) view b1 of b1 }", "the buffer is no view"},
        {"wrapper { buffer b1 : view f32[1] view b1 of b2 view b1 of b2 }",
         "the view has a line already"},
        {"wrapper { } tail", "end of the text"},
        {"graph { }", "line 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hn_arena arena;
        hn_wrapper *w;
        hn_arena_init(&arena);
        EXPECT_ERROR(parse(cases[i].text, &arena, &w), HN_INVALID_ARGUMENT, cases[i].message);
        hn_arena_deinit(&arena);
    }
}

static hn_status verify(const char *head, const char *lines) {
    hn_arena arena;
    hn_wrapper *w = NULL;
    char text[2048];
    hn_arena_init(&arena);
    snprintf(text, sizeof text, "wrapper { %s %s }", head, lines);
    EXPECT_OK(parse(text, &arena, &w));
    hn_status status = w ? hn_wrapper_verify(w) : NULL;
    hn_arena_deinit(&arena);
    return status;
}
static void refuse(const char *head, const char *lines, const char *message) {
    EXPECT_ERROR(verify(head, lines), HN_INTERNAL, message);
}

/* b1 has two elements more than a view of it, b2. */
#define VIEWED                                                                                     \
    "buffer b1 : input f32[4] source 0 buffer b2 : view f32[2] buffer b3 : temp f32[2] bytes(8) "  \
    "kernel k1 : object 0 input \"x\" : f32[4] strides [1] in b1 "

/* A wrapper of one temporary, which is no tensor. */
static void check_buffer_refused(hn_wbuffer buffer, const char *message) {
    hn_arena arena;
    hn_sym *sym;
    hn_wrapper *w;
    hn_wbuf b;
    hn_arena_init(&arena);
    EXPECT_OK(hn_sym_create(&arena, &sym));
    EXPECT_OK(hn_wrapper_create(&arena, sym, NULL, &w));
    hn_expr dims[HN_MAX_RANK + 1];
    for (uint32_t d = 0; d <= HN_MAX_RANK; d++) dims[d] = hn_sym_int(sym, 1);
    if (!buffer.rank) dims[0] = 0, buffer.rank = 1;
    if (!buffer.kind) buffer.kind = HN_WBUF_TEMP;
    buffer.dtype = HN_DTYPE_F32, buffer.sizes = buffer.strides = dims,
    buffer.bytes = hn_sym_int(sym, 4);
    EXPECT_OK(hn_wrapper_add_buffer(w, buffer, &b));
    EXPECT_ERROR(hn_wrapper_verify(w), HN_INTERNAL, message);
    hn_arena_deinit(&arena);
}

/* b1 and b3 are inputs, b2 a temporary, b4 an output. */
#define HELD                                                                                       \
    "buffer b1 : input f32[4] source 0 buffer b2 : temp f32[4] bytes(16) "                         \
    "buffer b3 : input bool[] source 1 buffer b4 : output f32[4] bytes(16) kernel k1 : object 0 "  \
    "input \"x\" : f32[4] strides [1] in b1 input \"p\" : bool[] strides [] in b3 "

/* On every path what is allocated is freed once; calls with several results have them all. */
TEST(verify_accepts) {
    static const char *const right[] = {
        HELD "allocate b2 call k1(out b2 f32) extent(1) free b2",
        HELD "allocate b2 cond(b3 bool) { free b2 } else { free b2 }",
        HELD "cond(b3 bool) { allocate b2 call k1(out b2 f32) extent(1) free b2 } else { }",
        "buffer b1 : input f32[2, 2] source 0 buffer b2 : temp f32[2, 2] bytes(16) buffer b3 : temp i64[2, 2] bytes(32) "
        "buffer b4 : output i64[2, 2] bytes(32) kernel k1 : object 0 input \"x\" : f32[2, 2] strides [2, 1] in b1 "
        "extern sort(out b2 f32, out b3 i64, b1 f32) params [1, 2, 3, 4, 0, 1] "
        "call k1(b2 f32, b3 i64, out b4 i64) extent(1) output tensor \"y\" : i64[2, 2] strides [2, 1] in b4"};
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) EXPECT_OK(verify("", right[i]));
}

/* Every printer and the verifier say the number of a kind that there is not. */
TEST(unknown_kinds) {
    hn_arena arena;
    hn_wrapper *w;
    hn_strbuf out;
    hn_memory_plan plan = {0};
    hn_wnumbering numbering;
    static const uint64_t offsets[4];
    hn_arena_init(&arena);
    hn_strbuf_init(&out);
    EXPECT_OK(parse("wrapper { comment text \"c\" }", &arena, &w));
    EXPECT_OK(hn_wrapper_plan(w, &plan));
    w->lines.items[0].kind = (hn_line_kind)99;
    EXPECT_ERROR(hn_wrapper_verify(w), HN_INTERNAL, "line 0 is of unknown kind 99");
    hn_wrapper_print(w, &out);
    EXPECT(out.ptr && strstr(out.ptr, "\n  kind 99\n"));
    hn_strbuf_reset(&out);
    hn_wrapper_print_json(w, &out);
    EXPECT(out.ptr && strstr(out.ptr, "{\"kind\":99"));
    hn_strbuf_reset(&out);
    EXPECT_ERROR(
        hn_wrapper_to_bundle(w, &plan, &(hn_bundle_objects){0}, &(hn_to_bundle_options){0}, &out),
        HN_INTERNAL, "line 0 is of unknown kind 99");
    EXPECT_OK(hn_wrapper_number(w, &plan, &arena, &numbering));
    const hn_to_source source = {
        .numbering = &numbering, .weight_offsets = offsets, .arena = &arena};
    EXPECT_ERROR(hn_wrapper_to_source(&source, &out), HN_UNSUPPORTED, "kind 99");
    hn_strbuf_deinit(&out);
    hn_arena_deinit(&arena);
    check_buffer_refused((hn_wbuffer){.kind = (hn_wbuf_kind)77, .rank = 1},
                         "buffer 1 is of unknown kind 77");
}

TEST(verify_finds) {
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"buffer b1 : temp f32[1] bytes(4) buffer b2 : output f32[1] bytes(4) copy b2 from b1",
         "before it is written"},
        {"buffer b1 : temp f32[1]", "has no size"},
        {"buffer b1 : input f32[] source 0", "input 0 of 0"},
        {"buffer b1 : temp f32[4] bytes(15)", "the tensor in buffer 1 reaches beyond its memory"},
        {"buffer b1 : output f32[2, 2] strides [3, 1] bytes(16)",
         "the tensor in buffer 1 reaches beyond its memory"},
        {"symbol size s0 in [2, 64] buffer b1 : temp f32[s0, 4] bytes(8*s0)",
         "the tensor in buffer 1 reaches beyond its memory"},
        {"buffer b1 : input f32[3] source 0 input \"x\" : f32[4] strides [1] in b1",
         "buffer 1 differs from input 0"},
        {"buffer b1 : input f32[4] strides [2] source 0 input \"x\" : f32[4] strides [1] in b1",
         "buffer 1 differs from input 0"},
        {"buffer b1 : input f32[4, 1] source 0 input \"x\" : f32[4] strides [1] in b1",
         "buffer 1 differs from input 0"},
        {"buffer b1 : input i32[4] source 0 input \"x\" : f32[4] strides [1] in b1",
         "buffer 1 differs from input 0"},
        {"call k3() extent(1)", "unknown kernel 3"},
        {"kernel k1 : object 0 call k1()", "without extent"},
        {"buffer b1 : temp f32[1] bytes(4) free b1", "not there to be freed"},
        {"buffer b1 : temp f32[1] bytes(4) allocate b1 allocate b1", "allocated twice"},
        {"buffer b1 : temp f32[1] bytes(4) kernel k1 : object 0 allocate b1 call k1(out b1 f32) extent(1) free b1 call k1(b1 f32) extent(1)",
         "after it was freed"},
        {"buffer b1 : input f32[] source 0 kernel k1 : object 0 input \"x\" : f32[] strides [] in b1 call k1(out b1 f32) extent(1)",
         "read only"},
        {"buffer b1 : temp f32[1] bytes(4) extern sort(out b1 f32)", "extern call with 1 operands"},
        {"buffer b1 : input f32[] source 0 buffer b2 : temp f32[1] bytes(4) input \"x\" : f32[] strides [] in b1 "
         "extern nms(b2 bool, b1 f32) params [0, 0]",
         "nms writes operand 0"},
        {"buffer b1 : input f32[] source 0 buffer b2 : temp f32[1] bytes(4) input \"x\" : f32[] strides [] in b1 "
         "extern nms(out b2 bool, none) params [0, 0]",
         "nms needs operand 1"},
        {"buffer b1 : input bf16[] source 0 input \"x\" : bf16[] strides [] in b1 assert(b1 bf16)",
         "the condition must be bool"},
        {"buffer b1 : input f32[] source 0 input \"x\" : f32[] strides [] in b1 cond(b1 f32) { } else { }",
         "the condition must be bool"},
        {"buffer b1 : output bool[1] bytes(1) assert(out b1 bool)", "is read, not written"},
        {"loop { } while () { }", "a loop has either rounds or a test"},
        {"buffer b1 : temp f32[] bytes(4) kernel k1 : object 0 "
         "loop { call k1(out b1 f32) extent(1) } while (b1 f32) { }",
         "the condition must be bool"},
        {"buffer b1 : temp bool[] bytes(1) loop { } while (b1 bool) { }",
         "line 0: buffer 1 is used before it is written"},
        {"buffer b1 : temp bool[] bytes(1) kernel k1 : object 0 "
         "loop { } while (b1 bool) { call k1(out b1 bool) extent(1) }",
         "line 0: buffer 1 is used before it is written"},
        /* behind a loop, what it may not have done */
        {"buffer b1 : temp bool[] bytes(1) buffer b2 : output bool[] bytes(1) kernel k1 : object 0 "
         "loop rounds(3) { call k1(out b1 bool) extent(1) } call k1(b1 bool, out b2 bool) extent(1)",
         "line 2: buffer 1 is used before it is written"},
        {"buffer b1 : temp bool[] bytes(1) kernel k1 : object 0 allocate b1 "
         "call k1(out b1 bool) extent(1) loop rounds(3) { free b1 }",
         "line 2: the loop gives the memory of buffer 1 away in its first round"},
        {"symbol data u0 in [0, 9] hint 1 buffer b1 : input i64[] source 0 input \"n\" : i64[] strides [] in b1 "
         "define(b1 i64) symbol(u0) loop rounds(3) { define(b1 i64) symbol(u0) }",
         "line 2: a loop defines a symbol that was defined before it"},
        {"buffer b1 : temp bool[] bytes(1) loop rounds(3) { allocate b1 }",
         "line 0: the loop allocates buffer 1 in each round"},
        {"buffer b1 : input f32[2] source 0 input \"x\" : f32[2] strides [1] in b1 output mutation \"x\" target 0 : f32[2, 1] strides [1, 1] in b1",
         "changes dtype or rank of input 0"},
        {"buffer b1 : output f32[1] bytes(4) output tensor \"y\" : f32[1] strides [1] in b1",
         "never written"},
        {VIEWED "view b2 of b1 at(3)", "the tensor in buffer 2 reaches beyond its memory"},
        {VIEWED "view b2 of b1 at(-1)", "view 2 begins before its buffer"},
        {VIEWED "", "buffer 2 is a view of no buffer: it has no line"},
        {VIEWED "view b2 of b9", "buffer 2 is a view of no buffer"},
        {VIEWED "view b2 of b2", "buffer 2 is a view of view 2"},
        {VIEWED "copy b3 from b2 view b2 of b1", "line 0 copies a view"},
        {VIEWED "copy b3 from b3 view b2 of b1", "line 0 copies buffer 3 to itself"},
        {VIEWED "call k1(b2 f32, out b3 f32) extent(1) view b2 of b1",
         "line 0: view 2 is used before its line"},
        {VIEWED "view b2 of b1 allocate b2", "line 1: view 2 has no memory of its own"},
        {VIEWED "view b2 of b1 free b2", "line 1: view 2 has no memory of its own"},
        {VIEWED "view b2 of b1 call k1(out b2 f32) extent(1)",
         "writes to buffer 1, which is read only"},
        {VIEWED "allocate b3 free b3 view b2 of b3",
         "line 2: buffer 3 is looked at after it was freed"},
        {VIEWED "view b2 of b3 allocate b3",
         "line 0: buffer 3 is looked at before it is allocated"},
        {VIEWED "view b2 of b3 call k1(b2 f32, out b3 f32) extent(1)",
         "line 1: buffer 3 is used before it is written"},
        {VIEWED "view b2 of b1 at(1) call k1(b2 i64, out b3 f32) extent(1)",
         "line 1: operand 0 may begin inside an element of view 2"},
        {VIEWED "view b2 of b1 output tensor \"y\" : f32[5] strides [1] in b2",
         "output 0: wrapper: the tensor in buffer 2 reaches beyond its memory"},
        {VIEWED "view b2 of b3 output tensor \"y\" : f32[2] strides [1] in b2",
         "output 0 is in buffer 2, which is never written"},
        {"buffer b1 : temp f32[2] bytes(8) buffer b2 : view f32[2] on opencl view b2 of b1",
         "buffer 2 on opencl is a view of one on cpu"},
        {"buffer b1 : temp f32[2] bytes(8) buffer b2 : view f32[2] bytes(8) view b2 of b1",
         "buffer 2 is a view and has bytes of its own"},
        {HELD "free b1", "line 0: buffer 1 is no temporary and cannot be freed"},
        {HELD "allocate b4 call k1(out b4 f32) extent(1) free b4",
         "line 2: buffer 4 is no temporary and cannot be freed"},
        {HELD "allocate b2 call k1(out b2 f32) extent(1)", "buffer 2 is never freed"},
        {HELD "allocate b2 free b2 free b2", "line 2: buffer 2 is not there to be freed"},
        {HELD "allocate b2 cond(b3 bool) { free b2 } else { }",
         "line 1: buffer 2 is freed in one body of the conditional only"},
        {HELD "allocate b2 free b2 cond(b3 bool) { free b2 } else { free b2 }",
         "line 3: buffer 2 is not there to be freed"},
        {HELD "cond(b3 bool) { allocate b2 call k1(out b2 f32) extent(1) } else { }",
         "line 0: buffer 2 is allocated in a body and not freed in it"},
        {"buffer b1 : input f32[2, 2] source 0 buffer b2 : temp f32[2, 2] bytes(16) buffer b3 : temp i64[2, 2] bytes(32) "
         "input \"x\" : f32[2, 2] strides [2, 1] in b1 extern sort(out b2 f32, b3 i64, b1 f32) params [1, 2, 3, 4, 0, 1]",
         "line 0: sort writes operand 1"},
        {"comment", "a comment that says nothing"},
        {"comment origins [2, 1]", "its nodes are not in ascending order"},
        {"comment origins [0]", "its nodes are not in ascending order"},
        {"buffer b1 : input f32[] source 0 buffer b2 : temp f32[] bytes(4) input \"x\" : f32[] strides [] in b1 "
         "copy b2 from b1 origins [1]",
         "line 0 lists nodes, and is no call and no comment"},
        /* written in one body only */
        {"buffer b1 : input bool[] source 0 buffer b2 : temp f32[1] bytes(4) buffer b3 : temp f32[1] bytes(4) kernel k1 : object 0 "
         "input \"p\" : bool[] strides [] in b1 cond(b1 bool) { call k1(out b2 f32) extent(1) } else { } call k1(b2 f32, out b3 f32) extent(1)",
         "before it is written"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refuse("", cases[i].text, cases[i].message);
}

/* What the test or the body of a loop defines ends with it. */
TEST(symbols_that_a_loop_defines) {
    static const char *const wrong[] = {
        "loop { define(b1 i64) symbol(u0) call k1(out b3 bool) extent(1) } while (b3 bool) { "
        "call k1(out b2 f32) extent(u0) }",
        "loop rounds(3) { define(b1 i64) symbol(u0) } call k1(out b2 f32) extent(u0)"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char lines[1024];
        snprintf(lines, sizeof lines,
                 "symbol data u0 in [0, 9] hint 1 buffer b1 : input i64[] source 0 "
                 "buffer b2 : temp f32[u0] bytes(4*u0) buffer b3 : temp bool[] bytes(1) "
                 "kernel k1 : object 0 input \"n\" : i64[] strides [] in b1 %s",
                 wrong[i]);
        EXPECT_ERROR(verify("", lines), HN_UNSUPPORTED, "is used before it is known");
    }
}

TEST(verify_accepts_loops) {
    static const char *const right[] = {
        "buffer b1 : temp bool[] bytes(1) buffer b2 : temp bool[] bytes(1) kernel k1 : object 0 "
        "allocate b1 call k1(out b1 bool) extent(1) free b1 "
        "loop rounds(3) { allocate b2 call k1(out b2 bool) extent(1) free b2 } "
        "loop rounds(0) { }",
        "buffer b1 : temp bool[] bytes(1) kernel k1 : object 0 "
        "loop { call k1(out b1 bool) extent(1) } while (b1 bool) { assert(b1 bool) }",
        /* a number of the data is another one in each round, and in a loop behind */
        "symbol data u0 in [0, 9] hint 1 buffer b1 : input i64[] source 0 buffer b2 : temp f32[u0] bytes(4*u0) "
        "kernel k1 : object 0 input \"n\" : i64[] strides [] in b1 "
        "loop rounds(3) { define(b1 i64) symbol(u0) call k1(out b2 f32) extent(u0) } "
        "loop rounds(3) { define(b1 i64) symbol(u0) }"};
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) EXPECT_OK(verify("", right[i]));
}

/* Between devices: b1 and b2 are on one, b3 and b4 are memory of the host. */
#define TWO_MEMORIES                                                                               \
    "buffer b1 : temp bool[] on opencl bytes(1) buffer b2 : temp bool[] on opencl bytes(1) "       \
    "buffer b3 : temp bool[] bytes(1) buffer b4 : temp bool[] bytes(1) "
#define KERNEL    "kernel k1 : object 0 name \"k\" "
#define ON_DEVICE "call k1(out b1 bool) extent(1) threads 8 on opencl "
#define ON_HOST   "call k1(out b3 bool) extent(1) "

TEST(verify_finds_of_devices) {
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"call k1(out b3 bool) extent(1) threads 8 on opencl",
         "line 0 runs on opencl and uses buffer 3 on cpu"},
        {"call k1(out b1 bool) extent(1)", "line 0 runs on cpu and uses buffer 1 on opencl"},
        {"call k1(out b1 bool) extent(1) on opencl",
         "line 0 runs on opencl in groups of 0 threads"},
        {"call k1(out b3 bool) extent(1) threads 8", "line 0 runs on cpu in groups of 8 threads"},
        {"call k1(out b3 bool) extent(1) shared 8",
         "line 0 has shared memory and no groups of threads"},
        {ON_DEVICE "extern nms(out b3 bool, b1 bool) params [1, 1] on opencl",
         "line 1 runs on opencl and uses buffer 3 on cpu"},
        {ON_DEVICE "extern nms or k1(out b2 bool, b1 bool) params [1, 1] extent(1) on opencl",
         "line 1: the kernel of an operation is not for a device"},
        {ON_DEVICE "extern nms or k1(out b2 bool, b1 bool) params [1, 1] threads 8 on opencl",
         "line 1: kernel call without extent"},
        {ON_DEVICE "extern nms or k9(out b2 bool, b1 bool) params [1, 1] extent(1) threads 8 on "
                   "opencl",
         "line 1: unknown kernel 9"},
        {ON_DEVICE "extern nms(out b3 bool, b1 bool) params [1, 1]",
         "line 1 runs on cpu and uses buffer 1 on opencl"},
        {"wait cpu", "line 0: the host waits for itself"},
        {ON_DEVICE "copy b3 from b1 assert(b3 bool)",
         "line 2 uses buffer 3, and nobody has waited for the copy into it"},
        {ON_DEVICE "copy b3 from b1 copy b4 from b3",
         "line 2 uses buffer 3, and nobody has waited for the copy into it"},
        {ON_DEVICE "copy b3 from b1 " ON_HOST,
         "line 2 uses buffer 3, and nobody has waited for the copy into it"},
        {ON_DEVICE "copy b3 from b1 cond(b3 bool) { } else { }",
         "line 2 uses buffer 3, and nobody has waited"},
        {ON_HOST "copy b1 from b3 " ON_HOST,
         "line 2 changes buffer 3, and nobody has waited for the copy of it"},
        {ON_HOST "copy b4 from b3 copy b1 from b3 copy b3 from b4",
         "line 3 changes buffer 3, and nobody has waited for the copy of it"},
        {ON_DEVICE "copy b3 from b1 cond(b1 bool) { wait opencl } else { } assert(b3 bool)",
         "line 4 uses buffer 3, and nobody has waited"},
        {ON_DEVICE
         "cond(b1 bool) { copy b3 from b1 } else { copy b3 from b1 wait opencl } assert(b3 bool)",
         "line 5 uses buffer 3, and nobody has waited"},
        {"allocate b3 allocate b1 " ON_DEVICE "copy b3 from b1 free b3",
         "line 4 uses buffer 3, and nobody has waited"},
        {ON_DEVICE "reuse b3 from b1 " ON_HOST, "they are on different devices"},
        /* from round to round */
        {ON_HOST "loop rounds(2) { " ON_HOST " copy b1 from b3 }",
         "line 2 changes buffer 3, and nobody has waited for the copy of it"},
        {ON_DEVICE ON_HOST "loop { } while (b3 bool) { copy b3 from b1 }",
         "line 2 uses buffer 3, and nobody has waited for the copy into it"},
    };
    static const char *const right[] = {
        ON_HOST "loop rounds(2) { " ON_HOST " copy b1 from b3 wait opencl }",
        ON_DEVICE ON_HOST "loop { } while (b3 bool) { copy b3 from b1 wait opencl }",
        ON_DEVICE "copy b3 from b1 wait opencl assert(b3 bool)",
        ON_HOST "copy b1 from b3 assert(b3 bool)",
        ON_DEVICE "copy b3 from b1 copy b2 from b3",
        ON_DEVICE "copy b2 from b1 assert(b2 bool)",
        ON_DEVICE "extern nms(out b2 bool, b1 bool) params [1, 1] on opencl",
        ON_DEVICE
        "extern nms or k1(out b2 bool, b1 bool) params [1, 1] extent(1) threads 8 on opencl",
        ON_DEVICE
        "copy b3 from b1 cond(b1 bool) { wait opencl } else { wait opencl } assert(b3 bool)",
        ON_HOST "copy b1 from b3 copy b3 from b1 wait opencl " ON_HOST};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refuse(TWO_MEMORIES KERNEL, cases[i].text, cases[i].message);
    refuse(TWO_MEMORIES "buffer b5 : temp bool[] on cuda bytes(1) " KERNEL,
           ON_DEVICE "copy b5 from b1", "the program is for opencl and for cuda");
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++)
        EXPECT_OK(verify(TWO_MEMORIES KERNEL, right[i]));
}

TEST(no_tensor_of_a_device) {
    check_buffer_refused((hn_wbuffer){.rank = HN_MAX_RANK + 1}, "buffer 1 has rank 17");
    check_buffer_refused((hn_wbuffer){0}, "buffer 1 has no size or stride in dimension 0");
    check_buffer_refused((hn_wbuffer){.rank = 1, .device = HN_DEVICE_KIND_COUNT},
                         "buffer 1 is on no known device");
}

/* Temporaries of a device lie in its own workspace, and so begin at 0 on each. What a copy under
 * way reads keeps its memory until the host has waited: b4 and b5 are not where b3 is, and b6 may
 * be. */
TEST(memory_of_each_device_is_planned) {
    hn_arena arena;
    hn_wrapper *w;
    hn_memory_plan plan;
    hn_arena_init(&arena);
    EXPECT_OK(parse(
        "wrapper { buffer b1 : temp f32[4] on opencl bytes(16) buffer b2 : temp f32[40] on opencl bytes(160) "
        "buffer b3 : temp f32[4] bytes(16) buffer b4 : temp f32[4] bytes(16) buffer b5 : temp f32[4] bytes(16) "
        "buffer b6 : temp f32[4] bytes(16) " KERNEL "call k1(out b3 f32) extent(1) copy b1 from b3 "
        "call k1(b1 f32, out b2 f32) extent(1) threads 8 on opencl call k1(out b4 f32) extent(1) "
        "call k1(b4 f32, out b5 f32) extent(1) wait opencl call k1(out b6 f32) extent(1) }",
        &arena, &w));
    EXPECT_OK(hn_wrapper_plan(w, &plan));
    EXPECT_OK(hn_wrapper_verify(w));
    EXPECT_OK(hn_wrapper_plan_verify(w, &plan));
    int64_t at[7];
    for (hn_wbuf b = 1; b < 7; b++) at[b] = hn_sym_hint(w->sym, plan.offsets[b], -1);
    EXPECT(at[1] != at[2] && at[1] >= 0 && at[2] >= 0);
    EXPECT(at[3] != at[4] && at[3] != at[5] && at[4] != at[5]);
    EXPECT_INT(hn_sym_hint(w->sym, plan.workspaces[HN_DEVICE_OPENCL], -1), 64 + 192);
    EXPECT_INT(hn_sym_hint(w->sym, plan.workspaces[HN_DEVICE_CPU], -1), 3 * 64);
    EXPECT_INT(hn_sym_hint(w->sym, plan.workspaces[HN_DEVICE_CUDA], -1), 0);
    hn_arena_deinit(&arena);
}

TEST_MAIN
