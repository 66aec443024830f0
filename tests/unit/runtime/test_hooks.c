/* test_hooks.c: what hooks are told of each step, in which order they are called, and how they end
 * a run. */
#include "unit/runtime/module_fixture.h"

#include "base/trace.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

/* ---- a hook that writes down what it is told ---- */

typedef struct notes {
    hn_strbuf text;
    bool only_order; /* no operands */
} notes;

static void print_operand(const hn_step_info *step, uint32_t k, hn_strbuf *out) {
    hn_step_operand o;
    EXPECT_OK(hn_step_operand_get(step, k, &o));
    if (!o.buffer) {
        hn_strbuf_puts(out, " none");
        return;
    }
    EXPECT(o.has_shape && (FIXTURE_IS_REMOTE || o.device.kind == HN_DEVICE_CPU));
    EXPECT(step->kind == HN_MODULE_STEP_COPY || o.device.kind == step->device.kind);
    hn_strbuf_printf(out, " %s%s:%s[", o.is_written ? "out " : "", *o.name ? o.name : "-",
                     hn_scalar_type_name(o.type));
    for (uint32_t d = 0; d < o.rank; d++)
        hn_strbuf_printf(out, "%s%lld", d ? "," : "", (long long)o.sizes[d]);
    hn_strbuf_puts(out, "]");
    if (o.offset_bytes) hn_strbuf_printf(out, "+%lld", (long long)o.offset_bytes);
}

static void print_step(notes *n, const char *when, const hn_step_info *step) {
    hn_strbuf_printf(&n->text, "%s%u %s%s", when, step->index, step->name,
                     step->has_failed ? " failed" : "");
    if (*step->node) hn_strbuf_printf(&n->text, " @%s %s", step->node, step->source);
    for (uint32_t k = 0; k < step->operand_count && !n->only_order; k++)
        print_operand(step, k, &n->text);
    hn_strbuf_puts(&n->text, "\n");
}

static hn_status note_before(void *user, const hn_step_info *step, uint64_t *note) {
    EXPECT(*note == 0 && !step->has_failed);
    *note = step->index + 100;
    print_step(user, "<", step);
    return NULL;
}

static hn_status note_after(void *user, const hn_step_info *step, uint64_t *note) {
    EXPECT_INT(*note, step->index + 100);
    print_step(user, ">", step);
    return NULL;
}

static notes *add_notes(hn_module *m, notes *n) {
    hn_strbuf_init(&n->text);
    EXPECT_OK(hn_module_hook_add(m, &(hn_step_hook){note_before, note_after, n}));
    return n;
}

static void expect_notes(notes *n, const char *expected) {
    EXPECT_STR(n->text.ptr ? n->text.ptr : "", expected);
    hn_strbuf_deinit(&n->text);
    hn_strbuf_init(&n->text);
}

static void run_once(hn_module *m, hn_tensor **in, uint32_t count) {
    hn_tensor *out[1] = {NULL};
    EXPECT_OK(hn_module_run(m, in, count, out, 1));
    hn_tensor_release(out[0]);
}

/* ---- what a hook is told ---- */

static const char *const scaled =
    "symbol size s0 in [0, none] buffer b1 : input f32[s0, 4] source 0 name \"x\" "
    "buffer b2 : temp f32[s0, 4] bytes(16*s0) buffer b3 : output f32[4*s0] bytes(16*s0) " KERNELS
    "input \"x\" : f32[s0, 4] strides [4, 1] in b1 call k4(b1 f32, out b2 f32) extent(4*s0) origin 1 "
    "copy b3 from b2 output tensor \"y\" : f32[s0, 4] strides [4, 1] in b3";

static hn_status note_nodes(void *user, const hn_step_info *step, uint64_t *note) {
    const char *node, *source;
    (void)note;
    for (uint32_t k = 0; k < step->node_count; k++) {
        EXPECT_OK(hn_step_node_get(step, k, &node, &source));
        hn_strbuf_printf(user, "%u %s '%s'\n", step->index, node, source);
    }
    EXPECT_ERROR(hn_step_node_get(step, step->node_count, &node, NULL), HN_INVALID_ARGUMENT,
                 "node");
    return NULL;
}

/* A step that does several nodes names them all; one of one node has a list of one. */
TEST(nodes_of_a_step) {
    hn_module *m =
        load_text("buffer b1 : input f32[4] source 0 name \"x\" buffer b2 : temp f32[4] bytes(16) "
                  "buffer b3 : output f32[4] bytes(16) " KERNELS
                  "input \"x\" : f32[4] strides [1] in b1 comment origins [1, 2] "
                  "call k4(b1 f32, out b2 f32) extent(4) origin 2 origins [1, 2] "
                  "call k4(b2 f32, out b3 f32) extent(4) origin 2 copy b3 from b2 "
                  "output tensor \"y\" : f32[4] strides [1] in b3",
                  NULL);
    float x[4] = {0};
    hn_tensor *in[1] = {F32(x, 4)};
    hn_strbuf text;
    hn_strbuf_init(&text);
    if (!m) return;
    EXPECT_OK(hn_module_hook_add(m, &(hn_step_hook){.before = note_nodes, .user = &text}));
    run_once(m, in, 1);
    EXPECT_STR(text.ptr, "0 node_one 'model.py:12'\n0 node_two ''\n1 node_two ''\n");
    hn_strbuf_deinit(&text);
    hn_tensor_release(in[0]);
    hn_module_release(m);
}

TEST(origin_and_operands) {
    hn_module *m = load_text(scaled, NULL);
    float x[12] = {0};
    hn_tensor *in[1] = {F32(x, 3, 4)};
    notes n = {.only_order = false};
    if (!m) return;
    add_notes(m, &n);
    run_once(m, in, 1);
    expect_notes(&n, "<0 scale2 @node_one model.py:12 x:f32[3,4] out -:f32[3,4]\n"
                     ">0 scale2 @node_one model.py:12 x:f32[3,4] out -:f32[3,4]\n"
                     "<1 copy out y:f32[12] -:f32[3,4]\n"
                     ">1 copy out y:f32[12] -:f32[3,4]\n");
    hn_tensor_release(in[0]), in[0] = F32(x, 0, 4); /* steps of nothing are told, too */
    run_once(m, in, 1);
    expect_notes(&n, "<0 scale2 @node_one model.py:12 x:f32[0,4] out -:f32[0,4]\n"
                     ">0 scale2 @node_one model.py:12 x:f32[0,4] out -:f32[0,4]\n"
                     "<1 copy out y:f32[0] -:f32[0,4]\n"
                     ">1 copy out y:f32[0] -:f32[0,4]\n");
    hn_tensor_release(in[0]);
    hn_module_release(m);
}

/* Looks at the memory of the first step. */
typedef struct look {
    const void *input; /* where it must be */
    float before, after;
    int64_t strides[2];
} look;

static float number_at(const hn_step_info *step, uint32_t operand, size_t index) {
    float all[8] = {0};
    EXPECT_OK(hn_step_operand_read(step, operand, all, (index + 1) * sizeof *all));
    EXPECT_ERROR(hn_step_operand_read(step, operand, all, 33), HN_INVALID_ARGUMENT,
                 "has 32 bytes to read, not 33");
    return all[index];
}

static hn_status look_before(void *user, const hn_step_info *step, uint64_t *note) {
    hn_step_operand o;
    look *l = user;
    (void)note;
    if (step->index) return NULL;
    EXPECT_OK(hn_step_operand_get(step, 0, &o));
    EXPECT((o.data == l->input) == !FIXTURE_IS_REMOTE && o.bytes == 32);
    l->before = number_at(step, 0, 5);
    return NULL;
}

static hn_status look_after(void *user, const hn_step_info *step, uint64_t *note) {
    hn_step_operand o;
    look *l = user;
    (void)note;
    if (step->index) return NULL;
    EXPECT_OK(hn_step_operand_get(step, 1, &o));
    l->after = number_at(step, 1, 5);
    memcpy(l->strides, o.strides, sizeof l->strides);
    EXPECT_ERROR(hn_step_operand_get(step, 2, &o), HN_INVALID_ARGUMENT,
                 "there is no operand 2; the step has 2");
    return NULL;
}

TEST(memory_of_operands) {
    hn_module *m = load_text(scaled, NULL);
    float x[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    hn_tensor *in[1] = {F32(x, 2, 4)};
    look l = {.input = x};
    if (!m) return;
    EXPECT_OK(hn_module_hook_add(m, &(hn_step_hook){look_before, look_after, &l}));
    run_once(m, in, 1);
    EXPECT(l.before == 5 && l.after == 10);
    EXPECT(l.strides[0] == 4 && l.strides[1] == 1);
    hn_tensor_release(in[0]);
    hn_module_release(m);
}

TEST(parts_of_tensors) {
    hn_module *m = load_text(
        "buffer b1 : input f32[2, 4] source 0 name \"x\" buffer b2 : output f32[4] bytes(16) " KERNELS
        "input \"x\" : f32[2, 4] strides [4, 1] in b1 call k4(b1 f32 at(4), out b2 f32) extent(4) "
        "output tensor \"y\" : f32[4] strides [1] in b2",
        NULL);
    float x[8] = {0};
    hn_tensor *in[1] = {F32(x, 2, 4)};
    notes n = {.only_order = false};
    if (!m) return;
    add_notes(m, &n);
    look l = {.input = x};
    /* the tensor's first element */
    EXPECT_OK(hn_module_hook_add(m, &(hn_step_hook){look_before, NULL, &l}));
    run_once(m, in, 1);
    expect_notes(&n, "<0 scale2 x:f32[2,4]+16 out y:f32[4]\n"
                     ">0 scale2 x:f32[2,4]+16 out y:f32[4]\n");
    hn_tensor_release(in[0]);
    hn_module_release(m);
}

TEST(operands_that_are_absent) {
    hn_module *m = load_text(
        "buffer b1 : input f32[2, 2] source 0 buffer b2 : output f32[2, 2] bytes(16) " KERNELS
        "input \"x\" : f32[2, 2] strides [2, 1] in b1 "
        "extern matmul(out b2 f32, b1 f32, b1 f32, none, none) params [1, 1, 1, 1, 2, 2, 2, 0, 0, "
        "0, 0, 2, 1, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0] "
        "output tensor \"y\" : f32[2, 2] strides [2, 1] in b2",
        NULL);
    float x[4] = {1, 2, 3, 4};
    hn_tensor *in[1] = {F32(x, 2, 2)};
    notes n = {.only_order = false};
    if (!m) return;
    add_notes(m, &n);
    run_once(m, in, 1);
    expect_notes(&n, "<0 matmul out y:f32[2,2] -:f32[2,2] -:f32[2,2] none none\n"
                     ">0 matmul out y:f32[2,2] -:f32[2,2] -:f32[2,2] none none\n");
    hn_tensor_release(in[0]);
    hn_module_release(m);
}

TEST(conditionals) {
    hn_module *m = load_text(
        "buffer b1 : input f32[2] source 0 name \"x\" buffer b2 : input bool[] source 1 name \"p\" "
        "buffer b3 : output f32[2] bytes(8) " KERNELS
        "input \"x\" : f32[2] strides [1] in b1 input \"p\" : bool[] strides [] in b2 "
        "cond(b2 bool) { call k4(b1 f32, out b3 f32) extent(2) } else { copy b3 from b1 cond(b2 bool) { } else { assert(b2 bool) } } "
        "call k6(b1 f32, out b3 f32) extent(1) output tensor \"y\" : f32[2] strides [1] in b3",
        NULL);
    float x[2] = {0};
    uint8_t p = 1;
    hn_tensor *in[2] = {F32(x, 2), tensor_of(HN_BOOL, 0, NULL, NULL, &p)}, *out[1] = {NULL};
    notes n = {.only_order = true};
    if (!m) return;
    add_notes(m, &n);
    run_once(m, in, 2);
    expect_notes(&n, "<0 cond\n<1 scale2\n>1 scale2\n>0 cond\n<5 nothing\n>5 nothing\n");
    p = 0; /* a failure is seen by all that is around it */
    EXPECT_ERROR(hn_module_run(m, in, 2, out, 1), HN_INVALID_ARGUMENT, "assertion failed");
    expect_notes(
        &n,
        "<0 cond\n<2 copy\n>2 copy\n<3 cond\n<4 assert\n>4 assert failed\n>3 cond failed\n>0 cond failed\n");
    hn_tensor_release(in[0]), hn_tensor_release(in[1]);
    hn_module_release(m);
}

/* In `after` of a definition its operand is no longer there to be read. */
static hn_status define_before(void *user, const hn_step_info *step, uint64_t *note) {
    hn_step_operand o;
    (void)note;
    if (step->kind != HN_MODULE_STEP_DEFINE) return NULL;
    EXPECT_OK(hn_step_operand_get(step, 0, &o));
    EXPECT(o.data && o.bytes == sizeof(int64_t));
    return hn_step_operand_read(step, 0, user, sizeof(int64_t));
}
static hn_status define_after(void *user, const hn_step_info *step, uint64_t *note) {
    hn_step_operand o;
    (void)user, (void)note;
    if (step->kind != HN_MODULE_STEP_DEFINE) return NULL;
    EXPECT_OK(hn_step_operand_get(step, 0, &o));
    EXPECT(!o.data);
    return NULL;
}

TEST(sizes_from_the_data) {
    hn_module *m = load_text(
        "symbol data u0 in [0, none] buffer b1 : input f32[8] source 0 name \"x\" "
        "buffer b2 : input i64[] source 1 name \"n\" buffer b3 : temp f32[u0, 2] bytes(8*u0) "
        "buffer b4 : output f32[u0, 2] bytes(8*u0) " KERNELS
        "input \"x\" : f32[8] strides [1] in b1 input \"n\" : i64[] strides [] in b2 "
        "define(b2 i64) symbol(u0) call k4(b1 f32, out b3 f32) extent(2*u0) "
        "call k4(b3 f32, out b4 f32) extent(2*u0) "
        "output tensor \"y\" : f32[u0, 2] strides [2, 1] in b4",
        NULL);
    float x[8] = {0};
    int64_t n = 3, seen = 0;
    hn_tensor *in[2] = {F32(x, 8), tensor_of(HN_I64, 0, NULL, NULL, &n)};
    notes told = {.only_order = false};
    if (!m) return;
    add_notes(m, &told);
    EXPECT_OK(hn_module_hook_add(m, &(hn_step_hook){define_before, define_after, &seen}));
    run_once(m, in, 2);
    EXPECT_INT(seen, 3);
    expect_notes(&told,
                 "<0 define n:i64[]\n>0 define n:i64[]\n"
                 "<1 scale2 x:f32[8] out -:f32[3,2]\n>1 scale2 x:f32[8] out -:f32[3,2]\n"
                 "<2 scale2 -:f32[3,2] out y:f32[3,2]\n>2 scale2 -:f32[3,2] out y:f32[3,2]\n");
    n = 0;
    run_once(m, in, 2);
    expect_notes(&told,
                 "<0 define n:i64[]\n>0 define n:i64[]\n"
                 "<1 scale2 x:f32[8] out -:f32[0,2]\n>1 scale2 x:f32[8] out -:f32[0,2]\n"
                 "<2 scale2 -:f32[0,2] out y:f32[0,2]\n>2 scale2 -:f32[0,2] out y:f32[0,2]\n");
    hn_tensor_release(in[0]), hn_tensor_release(in[1]);
    hn_module_release(m);
}

/* ---- several hooks, and errors of hooks ---- */

/* One of several hooks: writes its letter into a text that all share. */
typedef struct letter {
    hn_strbuf *text;
    char name;
    bool fails_before, fails_after;
} letter;

static hn_status letter_before(void *user, const hn_step_info *step, uint64_t *note) {
    letter *l = user;
    (void)step;
    EXPECT(*note == 0); /* each hook has its own */
    *note = (uint64_t)l->name;
    hn_strbuf_printf(l->text, "<%c", l->name);
    return l->fails_before ? HN_ERROR(HN_IO, "%c does not like it", l->name) : NULL;
}

static hn_status letter_after(void *user, const hn_step_info *step, uint64_t *note) {
    letter *l = user;
    EXPECT_INT(*note, l->name);
    hn_strbuf_printf(l->text, ">%c%s", l->name, step->has_failed ? "!" : "");
    return l->fails_after ? HN_ERROR(HN_IO, "%c does not like it", l->name) : NULL;
}

typedef struct letters {
    hn_module *m;
    hn_strbuf text;
    letter items[3];
    hn_tensor *in[1];
    float x[4];
} letters;

static void letters_init(letters *l) {
    l->m = load_text(
        "buffer b1 : input f32[4] source 0 buffer b2 : output f32[4] bytes(16) " KERNELS
        "input \"x\" : f32[4] strides [1] in b1 call k4(b1 f32, out b2 f32) extent(4) origin 1 "
        "output tensor \"y\" : f32[4] strides [1] in b2",
        NULL);
    hn_strbuf_init(&l->text);
    l->in[0] = F32(l->x, 4);
    for (int k = 0; k < 3; k++) {
        l->items[k] = (letter){.text = &l->text, .name = (char)('a' + k)};
        EXPECT_OK(
            hn_module_hook_add(l->m, &(hn_step_hook){letter_before, letter_after, &l->items[k]}));
    }
}
static void letters_deinit(letters *l) {
    hn_module_release(l->m);
    hn_tensor_release(l->in[0]);
    hn_strbuf_deinit(&l->text);
}

/* The order of calls, and what the run says; "" when it is well. */
static void expect_letters(letters *l, const char *expected, const char *error) {
    hn_tensor *out[1] = {NULL};
    hn_status status = hn_module_run(l->m, l->in, 1, out, 1);
    EXPECT_STR(status ? hn_status_message(status) : "", error);
    EXPECT_INT(hn_status_code(status), *error ? HN_IO : HN_OK);
    EXPECT((out[0] != NULL) == !*error);
    EXPECT_STR(l->text.ptr, expected);
    hn_status_free(status);
    hn_strbuf_deinit(&l->text);
    hn_strbuf_init(&l->text);
    hn_tensor_release(out[0]);
}

TEST(order_of_hooks) {
    letters l = {.x = {1}};
    letters_init(&l);
    if (l.m) expect_letters(&l, "<c<b<a>a>b>c", "");
    if (l.m)
        EXPECT_OK(
            hn_module_hook_remove(l.m, &(hn_step_hook){letter_before, letter_after, &l.items[1]}));
    if (l.m) expect_letters(&l, "<c<a>a>c", "");
    letters_deinit(&l);
}

TEST(errors_of_hooks) {
    static const char *const message = "node 'node_one' (model.py:12): b does not like it";
    letters l = {.x = {1}};
    letters_init(&l);
    if (!l.m) return;
    l.items[1].fails_before = true;
    expect_letters(&l, "<c<b>c!", message);
    l.items[1].fails_before = false;
    l.items[1].fails_after = true;
    expect_letters(&l, "<c<b<a>a>b>c!", message);
    l.items[2].fails_after = true; /* the first error counts */
    expect_letters(&l, "<c<b<a>a>b>c!", message);
    l.items[1].fails_after = l.items[2].fails_after = false;
    expect_letters(&l, "<c<b<a>a>b>c", "");
    letters_deinit(&l);
}

/* What went wrong in the step is more telling than what a hook says of it. */
TEST(the_errors_of_steps_come_first) {
    hn_module *m = load_text(
        "buffer b1 : input bool[] source 0 " KERNELS
        "input \"p\" : bool[] strides [] in b1 assert(b1 bool) output scalar \"y\" : int(1)",
        NULL);
    uint8_t p = 0;
    hn_strbuf text;
    hn_strbuf_init(&text);
    letter l = {.text = &text, .name = 'a', .fails_after = true};
    hn_tensor *in[1] = {tensor_of(HN_BOOL, 0, NULL, NULL, &p)}, *out[1] = {NULL};
    if (!m) return;
    EXPECT_OK(hn_module_hook_add(m, &(hn_step_hook){letter_before, letter_after, &l}));
    EXPECT_ERROR(hn_module_run(m, in, 1, out, 1), HN_INVALID_ARGUMENT, "assertion failed");
    EXPECT_STR(text.ptr, "<a>a!");
    hn_tensor_release(in[0]);
    hn_strbuf_deinit(&text);
    hn_module_release(m);
}

TEST(lists_of_hooks) {
    hn_module *m = load_text(scaled, NULL);
    notes n[HN_MODULE_HOOKS_MAX + 1];
    if (!m) return;
    for (int k = 0; k < HN_MODULE_HOOKS_MAX; k++)
        EXPECT_OK(hn_module_hook_add(m, &(hn_step_hook){note_before, note_after, &n[k]}));
    EXPECT_ERROR(
        hn_module_hook_add(m, &(hn_step_hook){note_before, note_after, &n[HN_MODULE_HOOKS_MAX]}),
        HN_INVALID_ARGUMENT, "the module has 8 hooks already; remove one first");
    EXPECT_ERROR(hn_module_hook_add(m, &(hn_step_hook){note_before, note_after, &n[3]}),
                 HN_INVALID_ARGUMENT, "the module has this hook already");
    EXPECT_ERROR(hn_module_hook_remove(m, &(hn_step_hook){note_before, NULL, &n[3]}), HN_NOT_FOUND,
                 "no such hook");
    for (int k = HN_MODULE_HOOKS_MAX; k-- > 0;)
        EXPECT_OK(hn_module_hook_remove(
            m, &(hn_step_hook){note_before, note_after, &n[(k + 3) % HN_MODULE_HOOKS_MAX]}));
    EXPECT_ERROR(hn_module_hook_remove(m, &(hn_step_hook){note_before, note_after, &n[0]}),
                 HN_NOT_FOUND, "no such hook");
    EXPECT_ERROR(hn_module_hook_add(NULL, &(hn_step_hook){0}), HN_INVALID_ARGUMENT,
                 "'module' is NULL");
    EXPECT_ERROR(hn_module_hook_add(m, NULL), HN_INVALID_ARGUMENT, "'hook' is NULL");
    EXPECT_OK(hn_module_hook_add(m, &(hn_step_hook){0})); /* either function may be missing */
    float x[4] = {0};
    hn_tensor *in[1] = {F32(x, 1, 4)};
    run_once(m, in, 1);
    hn_tensor_release(in[0]);
    hn_module_release(m);
}

/* A hook that stops the run between two steps. */
static hn_status set_cancel(void *user, const hn_step_info *step, uint64_t *note) {
    (void)step, (void)note;
    hn_cancel_set(user);
    return NULL;
}

/* At the loop; its operand is not there to be read. */
static hn_status cancel_in_loop(void *user, const hn_step_info *step, uint64_t *note) {
    hn_step_operand operand;
    (void)note;
    if (step->kind != HN_MODULE_STEP_LOOP) return NULL;
    EXPECT_OK(hn_step_operand_get(step, 0, &operand));
    EXPECT(!operand.data);
    hn_cancel_set(user);
    return NULL;
}

TEST(hooks_may_cancel) {
    hn_module *m = load_text(scaled, NULL);
    hn_cancel *token;
    notes n = {.only_order = true};
    float x[4] = {0};
    hn_tensor *in[1] = {F32(x, 1, 4)}, *out[1] = {NULL};
    EXPECT_OK(hn_cancel_create(&token));
    if (!m) return;
    add_notes(m, &n);
    EXPECT_OK(hn_module_hook_add(m, &(hn_step_hook){set_cancel, NULL, token}));
    EXPECT_ERROR(hn_module_run_with(m, &(hn_run_options){.cancel = token}, in, 1, out, 1),
                 HN_CANCELLED, "before this step");
    expect_notes(&n, "<0 scale2 @node_one model.py:12\n>0 scale2 @node_one model.py:12\n");
    hn_tensor_release(in[0]);
    hn_module_release(m);
    hn_cancel_destroy(token);
}

/* In a round, and in a loop that has no steps: neither would end. */
TEST(endless_loops_are_cancelled) {
    static const char *const bodies[] = {
        "{ } while (b3 bool) { call k4(b1 f32, out b4 f32) extent(4) }", "{ } while (b3 bool) { }"};
    for (int k = 0; k < 2; k++) {
        char text[1024];
        hn_cancel *token;
        float x[4] = {1, 2, 3, 4};
        uint8_t truth = 1;
        snprintf(
            text, sizeof text,
            "buffer b1 : input f32[4] source 0 buffer b2 : input bool[] source 1 buffer b3 : temp bool[] bytes(1) "
            "buffer b4 : output f32[4] bytes(16) " KERNELS
            "input \"x\" : f32[4] strides [1] in b1 input \"p\" : bool[] strides [] in b2 "
            "call k4(b1 f32, out b4 f32) extent(4) copy b3 from b2 loop %s "
            "output tensor \"a\" : f32[4] strides [1] in b4",
            bodies[k]);
        hn_module *m = load_text(text, NULL);
        hn_tensor *in[2] = {F32(x, 4), tensor_of(HN_BOOL, 0, NULL, NULL, &truth)}, *out[1] = {NULL};
        EXPECT_OK(hn_cancel_create(&token));
        EXPECT_OK(hn_module_hook_add(m, &(hn_step_hook){cancel_in_loop, NULL, token}));
        EXPECT_ERROR(hn_module_run_with(m, &(hn_run_options){.cancel = token}, in, 2, out, 1),
                     HN_CANCELLED, "cancelled before");
        hn_cancel_destroy(token);
        for (int i = 0; i < 2; i++) hn_tensor_release(in[i]);
        hn_module_release(m);
    }
}

/* ---- threads ---- */

typedef struct counters {
    hn_module *m;
    atomic_int before, after, stop;
} counters;

static hn_status count_before(void *user, const hn_step_info *step, uint64_t *note) {
    counters *c = user;
    hn_step_operand o;
    EXPECT_OK(hn_step_operand_get(step, 0, &o));
    atomic_fetch_add(&c->before, 1);
    *note = (uint64_t)(uintptr_t)pthread_self();
    return NULL;
}
static hn_status count_after(void *user, const hn_step_info *step, uint64_t *note) {
    counters *c = user;
    (void)step;
    EXPECT(*note == (uint64_t)(uintptr_t)pthread_self());
    atomic_fetch_add(&c->after, 1);
    return NULL;
}

enum { RUNS = 200, CALLERS = 4 };
static void *call_often(void *user) {
    counters *c = user;
    float x[8] = {0};
    for (int k = 0; k < RUNS; k++) {
        hn_tensor *in[1] = {F32(x, 1 + k % 2, 4)};
        run_once(c->m, in, 1);
        hn_tensor_release(in[0]);
    }
    return NULL;
}

/* Adds and removes a hook of its own all the time. */
static void *change_often(void *user) {
    counters *c = user;
    static counters other;
    while (!atomic_load(&c->stop)) {
        EXPECT_OK(hn_module_hook_add(c->m, &(hn_step_hook){count_before, count_after, &other}));
        EXPECT_OK(hn_module_hook_remove(c->m, &(hn_step_hook){count_before, count_after, &other}));
    }
    return NULL;
}

TEST(many_threads) {
    counters c = {.m = load_text(scaled, &(hn_module_options){.threads = 2, .profile = true})};
    pthread_t threads[CALLERS], changer;
    hn_module_step_profile profile;
    if (!c.m) return;
    EXPECT_OK(hn_module_hook_add(c.m, &(hn_step_hook){count_before, count_after, &c}));
    EXPECT_INT(pthread_create(&changer, NULL, change_often, &c), 0);
    for (int k = 0; k < CALLERS; k++)
        EXPECT_INT(pthread_create(&threads[k], NULL, call_often, &c), 0);
    for (int k = 0; k < CALLERS; k++) EXPECT_INT(pthread_join(threads[k], NULL), 0);
    atomic_store(&c.stop, 1);
    EXPECT_INT(pthread_join(changer, NULL), 0);
    EXPECT_INT(atomic_load(&c.before), CALLERS * RUNS * 2);
    EXPECT_INT(atomic_load(&c.after), CALLERS * RUNS * 2);
    EXPECT_OK(hn_module_profile(c.m, 0, &profile));
    EXPECT_INT(profile.calls, CALLERS * RUNS);
    hn_module_release(c.m);
}

/* ---- the profile and the trace ---- */

static hn_status sleep_before(void *user, const hn_step_info *step, uint64_t *note) {
    (void)user, (void)step, (void)note;
    usleep(30000);
    return NULL;
}

/* Steps are timed without the hooks around them; conditionals and definitions are not timed. */
TEST(profile_and_trace) {
    hn_module *m = load_text(
        "buffer b1 : input f32[2] source 0 buffer b2 : input bool[] source 1 buffer b3 : output f32[2] bytes(8) " KERNELS
        "input \"x\" : f32[2] strides [1] in b1 input \"p\" : bool[] strides [] in b2 "
        "cond(b2 bool) { call k4(b1 f32, out b3 f32) extent(2) origin 1 } else { copy b3 from b1 } "
        "output tensor \"y\" : f32[2] strides [1] in b3",
        &(hn_module_options){.threads = 1, .profile = true});
    float x[2] = {0};
    uint8_t p = 1;
    hn_tensor *in[2] = {F32(x, 2), tensor_of(HN_BOOL, 0, NULL, NULL, &p)};
    hn_module_step_profile profile;
    char dir[PATH_MAX], path[PATH_MAX + 16];
    hn_strbuf trace;
    if (!m) return;
    EXPECT_OK(hn_dir_temp(dir, sizeof dir));
    snprintf(path, sizeof path, "%s/trace.json", dir);
    hn_strbuf_init(&trace);
    EXPECT_OK(hn_module_hook_add(m, &(hn_step_hook){.before = sleep_before}));
    hn_trace_start();
    run_once(m, in, 2);
    EXPECT_OK(hn_trace_write(path));
    EXPECT_OK(hn_file_read(path, &trace));
    const char *span = trace.ptr ? strstr(trace.ptr, "\"scale2\"") : NULL;
    EXPECT(span && !strstr(span + 1, "\"scale2\"")); /* once */
    EXPECT(trace.ptr && strstr(trace.ptr, "\"run\"") && !strstr(trace.ptr, "\"cond\"") &&
           !strstr(trace.ptr, "\"copy\""));
    EXPECT_OK(hn_module_profile(m, 1, &profile));
    EXPECT_STR(profile.name, "scale2");
    EXPECT_STR(profile.origin, "node_one");
    EXPECT_INT(profile.calls, 1);
    EXPECT(profile.min_ns == profile.total_ns && profile.total_ns < 30000000);
    for (uint32_t k = 0; k < 3; k += 2) { /* the conditional; the step of the other branch */
        EXPECT_OK(hn_module_profile(m, k, &profile));
        EXPECT_INT(profile.calls, 0);
    }
    EXPECT_OK(hn_dir_remove(dir));
    hn_strbuf_deinit(&trace);
    hn_tensor_release(in[0]), hn_tensor_release(in[1]);
    hn_module_release(m);
}

TEST_MAIN
