/* test_workspaces.c: workspaces in wrapper IR: merged, verified, placed by the planner, zeroed. */
#include "unit/harness.h"
#include "wrapper/plan_print.h"
#include "wrapper/workspaces.h"

typedef struct fixture {
    hn_arena arena;
    hn_sym *sym;
    hn_wrapper *w;
} fixture;

static void setup(fixture *f, const char *head, const char *lines) {
    hn_strbuf text;
    *f = (fixture){.w = NULL};
    hn_arena_init(&f->arena);
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "wrapper { %s %s }", head, lines);
    EXPECT_OK(hn_sym_create(&f->arena, &f->sym));
    EXPECT_OK(hn_wrapper_parse(&f->arena, f->sym, hn_strbuf_str(&text), &f->w));
    hn_strbuf_deinit(&text);
}
static void teardown(fixture *f) { hn_arena_deinit(&f->arena); }

static void refuse(const char *head, const char *lines, const char *message) {
    fixture f;
    setup(&f, head, lines);
    EXPECT_ERROR(hn_wrapper_verify(f.w), HN_INTERNAL, message);
    teardown(&f);
}

TEST(the_larger_and_the_stricter) {
    hn_arena arena;
    hn_sym *sym;
    hn_arena_init(&arena);
    EXPECT_OK(hn_sym_create(&arena, &sym));
    const hn_expr s0 = hn_sym_symbol(sym, HN_STR("s0"), HN_SYMBOL_SIZE, 1, 100);
    const hn_workspace none = {0}, small = {hn_sym_int(sym, 64), HN_WZEROED_EACH},
                       large = {hn_sym_int(sym, 4096), HN_WZEROED_NEVER},
                       once = {s0, HN_WZEROED_ONCE};
    hn_workspace m = hn_workspace_merge(sym, small, large);
    EXPECT(m.bytes == large.bytes && m.zeroed == HN_WZEROED_EACH);
    m = hn_workspace_merge(sym, large, small);
    EXPECT(m.bytes == large.bytes && m.zeroed == HN_WZEROED_EACH);
    m = hn_workspace_merge(sym, none, once);
    EXPECT(m.bytes == s0 && m.zeroed == HN_WZEROED_ONCE);
    m = hn_workspace_merge(sym, once, small);
    EXPECT(m.bytes == hn_sym_max(sym, s0, small.bytes) && m.zeroed == HN_WZEROED_EACH);
    m = hn_workspace_merge(sym, none, none);
    EXPECT(!m.bytes && m.zeroed == HN_WZEROED_NEVER);
    hn_arena_deinit(&arena);
}

/* Of a call whose targets launch other numbers of groups, one that does for both. */
TEST(one_for_all_targets) {
    fixture f;
    setup(&f,
          "buffer b1 : input f32[8] on cuda source 0 buffer b2 : output f32[8] on cuda bytes(32) "
          "kernel k1 : object 0 input \"x\" : f32[8] strides [1] in b1",
          "call k1(b1 f32, out b2 f32) extent(8) threads 32 scratch(64) on cuda");
    const uint32_t order[] = {0, 1};
    hn_wlaunch other = {
        .arg_count = 2, .order = order, .extent = hn_sym_int(f.sym, 4), .threads = 64};
    hn_line *line = &f.w->lines.items[0];
    line->others = &other;
    f.w->target_count = 2;
    other.scratch_bytes = hn_sym_int(f.sym, 256);
    EXPECT_INT(hn_sym_hint(f.sym, hn_workspace_of_groups(f.w, line).bytes, -1), 1024);
    other.scratch_bytes = 0;
    EXPECT_INT(hn_sym_hint(f.sym, hn_workspace_of_groups(f.w, line).bytes, -1), 512);
    line->scratch_bytes = 0;
    EXPECT(!hn_workspace_of_groups(f.w, line).bytes);
    teardown(&f);
}

#define HEAD                                                                                       \
    "symbol size s0 in [1, 64] buffer b1 : input f32[8] on cuda source 0 "                         \
    "buffer b2 : output f32[8] on cuda bytes(32) "                                                 \
    "buffer b3 : temp u8[512] on cuda bytes(512) buffer b4 : workspace u8[512] on cuda bytes(512) "
#define TAIL   "kernel k1 : object 0 input \"x\" : f32[8] strides [1] in b1 "
#define GROUPS " extent(8) threads 32 scratch(64)"
#define CALL   "call k1(b1 f32, out b2 f32)" GROUPS

TEST(what_is_refused) {
    refuse(HEAD TAIL, CALL " on cuda", "line 0: groups have scratch memory and no workspace");
    refuse(HEAD TAIL, CALL " in b3 on cuda", "line 0: buffer 3 is no workspace");
    refuse(HEAD TAIL, "call k1(b1 f32, out b2 f32) extent(9) threads 32 scratch(64) in b4 on cuda",
           "line 0: workspace 4 is too small");
    refuse(HEAD TAIL,
           CALL " in b4 on cuda " CALL " in b4 on cuda call k1(b1 f32, out b3 u8)"
                " extent(1) threads 32 on cuda " CALL " in b4 on cuda",
           "line 3 uses workspace 4, which another line had before");
    refuse(HEAD TAIL, "call k1(b4 u8, out b2 f32) extent(1) threads 32 on cuda",
           "buffer 4 is used before it is written");
    refuse(HEAD TAIL,
           "call k1(out b4 u8) extent(1) threads 32 on cuda "
           "call k1(b4 u8, out b2 f32) extent(1) threads 32 on cuda",
           "line 1 reads workspace 4");
    refuse(HEAD TAIL, "call k1(out b4 u8) extent(1) threads 32 on cuda copy b3 from b4",
           "line 1 uses workspace 4 and is no call");
    refuse(HEAD "buffer b5 : view u8[4] on cuda " TAIL,
           "call k1(out b4 u8) extent(1) threads 32 on cuda view b5 of b4",
           "buffer 5 is a view of workspace 4");
    refuse(HEAD TAIL,
           "call k1(out b4 u8) extent(1) threads 32 on cuda "
           "output tensor \"y\" : u8[512] strides [1] in b4",
           "output 0 is in workspace 4");
    refuse(HEAD "buffer b5 : workspace u8[512] bytes(512) " TAIL, CALL " in b5 on cuda",
           "line 0 runs on cuda and has a workspace on cpu");
    refuse(HEAD TAIL, "zero b3", "line 0: buffer 3 is no workspace that is zeroed");
    refuse(HEAD TAIL, "zero b4", "line 0: buffer 4 is no workspace that is zeroed");
    refuse("buffer b1 : temp u8[4] bytes(4) zeroed each", "", "buffer 1 is zeroed in way 2");
    refuse("symbol data u0 in [0, 9] buffer b1 : workspace u8[u0] bytes(u0) zeroed once", "",
           "workspace 1 is zeroed once, and its size depends on data");
    refuse("buffer b1 : workspace u8[4]", "", "buffer 1 has no size");
}

/* Kernels of one operation have one workspace, side by side with what is alive; behind them others
 * use the bytes. The plan's text reads back. */
TEST(they_have_places_like_temporaries) {
    fixture f;
    hn_memory_plan plan;
    hn_strbuf text, again;
    hn_wrapper *same;
    setup(&f, HEAD "buffer b5 : temp u8[512] on cuda bytes(512) " TAIL,
          "call k1(b1 f32, out b3 u8) extent(1) threads 32 on cuda "
          "call k1(b3 u8, out b4 u8, out b2 f32) extent(1) threads 32 on cuda "
          "call k1(b3 u8, out b2 f32)" GROUPS " in b4 on cuda "
          "call k1(out b5 u8) extent(1) threads 32 on cuda "
          "call k1(b5 u8, b3 u8, out b2 f32) extent(1) threads 32 on cuda "
          "output tensor \"y\" : f32[8] strides [1] in b2");
    EXPECT_OK(hn_wrapper_verify(f.w));
    EXPECT_OK(hn_wrapper_plan(f.w, &plan));
    EXPECT_OK(hn_wrapper_verify(f.w));
    EXPECT_OK(hn_wrapper_plan_verify(f.w, &plan));
    EXPECT_INT(hn_sym_hint(f.sym, plan.workspaces[HN_DEVICE_CUDA], -1), 1024);
    EXPECT(plan.offsets[4] && plan.offsets[4] == plan.offsets[5]);
    EXPECT(plan.offsets[4] != plan.offsets[3]);
    hn_strbuf_init(&text), hn_strbuf_init(&again);
    hn_wrapper_print(f.w, &text);
    EXPECT(strstr(text.ptr, "allocate b4") && strstr(text.ptr, "free b4"));
    EXPECT(strstr(text.ptr, "scratch(64) in b4") != NULL);
    EXPECT_OK(hn_wrapper_parse(&f.arena, f.sym, hn_strbuf_str(&text), &same));
    hn_wrapper_print(same, &again);
    EXPECT_STR(again.ptr, text.ptr);
    hn_strbuf_reset(&text), hn_strbuf_reset(&again);
    EXPECT_OK(hn_memory_plan_print(f.w, &plan, HN_MEMORY_PLAN_SVG, &text));
    EXPECT(strstr(text.ptr, " (workspace): 512 bytes at ") != NULL);
    EXPECT_OK(hn_memory_plan_print(f.w, &plan, HN_MEMORY_PLAN_JSON, &again));
    EXPECT(strstr(again.ptr, "{\"buffer\": 4, \"kind\": \"workspace\"") != NULL);
    plan.offsets[4] = plan.offsets[3];
    EXPECT_ERROR(hn_wrapper_plan_verify(f.w, &plan), HN_INTERNAL, "are alive together");
    hn_strbuf_deinit(&text), hn_strbuf_deinit(&again);
    teardown(&f);
}

static const hn_line *line_at(const fixture *f, uint32_t i, hn_line_kind kind, hn_wbuf buffer) {
    const hn_line *line = &f->w->lines.items[i];
    if (i >= f->w->lines.count || line->kind != kind || line->buffer != buffer)
        HN_TEST_FAIL("line %u is another one", i);
    return line;
}

#define ZEROED                                                                                     \
    "buffer b1 : input f32[8] source 0 buffer b2 : output f32[8] bytes(32) "                       \
    "buffer b3 : temp f32[8] bytes(32) buffer b4 : workspace u8[64] bytes(64) zeroed "
#define TWO_USES                                                                                   \
    "call k1(b1 f32, out b4 u8, out b3 f32) extent(1) "                                            \
    "call k1(b3 f32, out b4 u8, out b2 f32) extent(1) "                                            \
    "output tensor \"y\" : f32[8] strides [1] in b2"

TEST(zeros_in_front_of_each_line) {
    fixture f;
    hn_memory_plan plan;
    setup(&f, ZEROED "each " TAIL, TWO_USES);
    EXPECT_OK(hn_wrapper_verify(f.w));
    EXPECT_OK(hn_wrapper_plan(f.w, &plan));
    EXPECT_OK(hn_wrapper_verify(f.w));
    line_at(&f, 0, HN_LINE_ALLOCATE, 3), line_at(&f, 1, HN_LINE_ALLOCATE, 4);
    line_at(&f, 2, HN_LINE_ZERO, 4), line_at(&f, 3, HN_LINE_KERNEL, 0);
    line_at(&f, 4, HN_LINE_ALLOCATE, 2);
    line_at(&f, 5, HN_LINE_ZERO, 4), line_at(&f, 6, HN_LINE_KERNEL, 0);
    f.w->lines.items[5].kind = HN_LINE_COMMENT, f.w->lines.items[5].text = HN_STR("none");
    EXPECT_ERROR(hn_wrapper_verify(f.w), HN_INTERNAL,
                 "line 6: workspace 4 is used before it is zeroed");
    teardown(&f);
}

/* It is nobody else's memory for the whole program, and free for all lines. */
TEST(zeros_once) {
    fixture f;
    hn_memory_plan plan;
    setup(&f, ZEROED "once buffer b5 : temp f32[8] bytes(64) " TAIL,
          "call k1(b1 f32, out b5 f32) extent(1) call k1(b5 f32, out b4 u8, out b3 f32) extent(1) "
          "call k1(b1 f32, out b2 f32) extent(1) call k1(b3 f32, out b4 u8, out b2 f32) extent(1) "
          "output tensor \"y\" : f32[8] strides [1] in b2");
    EXPECT_OK(hn_wrapper_verify(f.w));
    EXPECT_OK(hn_wrapper_plan(f.w, &plan));
    EXPECT_OK(hn_wrapper_verify(f.w));
    EXPECT_OK(hn_wrapper_plan_verify(f.w, &plan));
    line_at(&f, 0, HN_LINE_ALLOCATE, 4), line_at(&f, 1, HN_LINE_ZERO, 4);
    line_at(&f, 2, HN_LINE_ALLOCATE, 5);
    for (uint32_t i = 2; i < f.w->lines.count; i++) EXPECT(f.w->lines.items[i].buffer != 4);
    EXPECT(plan.offsets[4] != plan.offsets[5] && plan.offsets[4] != plan.offsets[3]);
    plan.offsets[4] = plan.offsets[5];
    EXPECT_ERROR(hn_wrapper_plan_verify(f.w, &plan), HN_INTERNAL, "are alive together");
    f.w->lines.items[1].kind = HN_LINE_COMMENT, f.w->lines.items[1].text = HN_STR("none");
    EXPECT_ERROR(hn_wrapper_verify(f.w), HN_INTERNAL, "workspace 4 is used before it is zeroed");
    teardown(&f);
}

TEST_MAIN
