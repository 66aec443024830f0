/* test_scatter.c: scatters that must be in order, for targets that sort their places first: which
 * ones are sorted, that results stay what they are, bit for bit, and indices outside. */
#include "lowering_values.h"

#include <string.h>

static const hn_operations sorts = {.sorts_scatters = true,
                                    .of = {[HN_EXTERN_SORT] = {.dtypes = UINT32_MAX},
                                           [HN_EXTERN_COMBINE_SORTED] = {.dtypes = UINT32_MAX}}},
                           plain = {.of = {[HN_EXTERN_SORT] = {.dtypes = UINT32_MAX}}};

/* "pointwise scatter sort combine_sorted": the items */
static void describe(lowering *t) {
    static const char *const loops[] = {"pointwise", "reduce", "scan", "scatter"};
    for (hn_item k = 1; t->program && k < t->program->items.count; k++) {
        const hn_item_info *item = &t->program->items.items[k];
        if (k > 1) hn_strbuf_putc(&t->text, ' ');
        hn_strbuf_puts(&t->text, item->kind == HN_ITEM_LOOP          ? loops[item->loop->kind]
                                 : item->kind != HN_ITEM_EXTERN      ? "other"
                                 : item->ext->kind == HN_EXTERN_SORT ? "sort"
                                 : item->ext->kind == HN_EXTERN_COMBINE_SORTED ? "combine"
                                                                               : "call");
    }
}

static void lower_sorted(lowering *t, const hn_operations *operations, bool deterministic) {
    const hn_lower_options options = {.operations = operations, .deterministic = deterministic};
    EXPECT_OK(hn_lower(t->graph, &options, &t->arena, &t->scratch, &t->program));
    if (t->program) EXPECT_OK(hn_program_verify(t->program));
}

/* ---- which ones ---- */

#define LOOP   "pointwise scatter"
#define SORTED "pointwise sort combine"

static void check_items(const char *text, const hn_operations *operations, bool deterministic,
                        const char *expected) {
    lowering t;
    if (lowering_parse(&t, text)) {
        lower_sorted(&t, operations, deterministic);
        describe(&t);
        EXPECT_STR(hn_strbuf_str(&t.text).ptr, expected);
    }
    lowering_end(&t);
}

#define ADD(dtype, places, elems, mode)                                                            \
    "input user %x : " dtype "[" places "] \"x\"\n input user %i : i64[" elems                     \
    "] \"i\"\n input user %s : " dtype "[" elems "] \"s\"\n"                                       \
    "%y = scatter(%x, %i, %s, dim=0, mode=\"" mode "\")\n output user %y \"\""

TEST(which_ones_are_sorted) {
    check_items(ADD("f32", "100", "4096", "add"), &sorts, true, SORTED);
    check_items(ADD("bf16", "100, 2", "4096, 2", "max"), &sorts, true, SORTED);
    check_items(ADD("i64", "100", "4096", "set"), &sorts, true, SORTED);
    check_items(ADD("f32", "100", "4096", "add"), &sorts, false, LOOP);
    check_items(ADD("f32", "100", "4096", "add"), &plain, true, LOOP);
    check_items(ADD("f32", "100", "4096", "add"), NULL, true, LOOP);
    /* whole numbers: in any order */
    check_items(ADD("i64", "100", "4096", "add"), &sorts, true, LOOP);
    /* few indices, and rows of many elements */
    check_items(ADD("f32", "100", "500", "add"), &sorts, true, LOOP);
    check_items(ADD("f32", "100, 2048", "4096, 2048", "add"), &sorts, true, LOOP);
}

/* The call that combines; NULL: there is none. */
static const hn_extern *combination_of(const lowering *t) {
    for (hn_item k = 1; t->program && k < t->program->items.count; k++) {
        const hn_item_info *item = &t->program->items.items[k];
        if (item->kind == HN_ITEM_EXTERN && item->ext->kind == HN_EXTERN_COMBINE_SORTED)
            return item->ext;
    }
    return NULL;
}

static void check_call(const char *text, hn_dtype places, int64_t columns, int64_t count,
                       bool has_x) {
    lowering t;
    if (lowering_parse(&t, text)) {
        lower_sorted(&t, &sorts, true);
        const hn_extern *e = combination_of(&t);
        EXPECT(e);
        if (e) {
            EXPECT_INT(t.program->buffers.items[e->operands[1].buffer].dtype, places);
            EXPECT(hn_sym_is_value(t.program->sym, e->params[HN_COMBINE_COLUMNS], columns));
            EXPECT(hn_sym_is_value(t.program->sym, e->params[HN_COMBINE_N], count));
            EXPECT_INT(e->operands[4].buffer != 0, has_x);
        }
    }
    lowering_end(&t);
}

#define FULL(number, sizes) "%x = full(value=" number ", sizes=[" sizes "], dtype=f32)\n"
#define PUT_INTO(x, elems, rest)                                                                   \
    "input user %i : i64[" elems "] \"i\"\n input user %s : f32[" elems ", " rest "] \"s\"\n" x    \
    "%y = index_put(%x, [%i], %s, mode=\"add\", wrap=true)\n output user %y \"\""

TEST(places_columns_and_zeros) {
    check_call(ADD("f32", "100", "4096", "add"), HN_DTYPE_I32, 1, 4096, true);
    check_call("symbol size s0 in [1, 9000]\n" ADD("f32", "s0", "4096", "add"), HN_DTYPE_I64, 1,
               4096, true);
    /* rows as a whole, if they are not short */
    check_call(PUT_INTO(FULL("1", "100, 768"), "8192", "768"), HN_DTYPE_I32, 768, 8192, true);
    check_call(PUT_INTO(FULL("0", "100, 4, 5"), "2000", "4, 5"), HN_DTYPE_I32, 20, 2000, false);
    check_call(PUT_INTO(FULL("0.0", "100, 3, 5"), "2000", "3, 5"), HN_DTYPE_I32, 1, 30000, false);
    check_call(PUT_INTO(FULL("-0.0", "100, 3, 5"), "2000", "3, 5"), HN_DTYPE_I32, 1, 30000, true);
}

/* ---- values ---- */

/* Indices of random numbers, brought inside; inputs of integers are -4 to 4. */
#define INSIDE(name, from, extent)                                                                 \
    "%a" name " = abs(%" from ")\n%k" name " = full(value=" extent                                 \
    ", sizes=[], dtype=i64)\n%" name " = remainder(%a" name ", %k" name ")\n"
/* $ is the mode, # the dtype */
static const char *const texts[] = {
    "input user %x : #[7] \"x\"\n input user %j : i64[2500] \"j\"\n input user %s : #[2500] \"s\"\n" INSIDE(
        "i", "j", "7") "%y = scatter(%x, %i, %s, dim=0, mode=\"$\")\noutput user %y \"\"",
    "input user %x : #[5, 3] \"x\"\n input user %j : i64[2500, 2] \"j\"\n"
    "input user %s : #[2500, 2] \"s\"\n" INSIDE(
        "i", "j", "5") "%y = scatter(%x, %i, %s, dim=0, mode=\"$\")\noutput user %y \"\"",
    /* the result is written through another layout, and x is an expression */
    "input user %z : #[3, 4] \"z\"\n input user %j : i64[2, 2500] \"j\"\n"
    "input user %s : #[2, 2500] \"s\"\n%x = neg(%z)\n" INSIDE(
        "i", "j", "4") "%p = scatter(%x, %i, %s, dim=1, mode=\"$\")\n"
                       "%y = permute(%p, dims=[1, 0])\noutput user %y \"\"",
    "input user %x : #[5, 4, 2] \"x\"\n input user %i : i64[3, 700] \"i\"\n"
    "input user %j : i64[3, 700] \"j\"\n input user %s : #[3, 700, 2] \"s\"\n" INSIDE("k", "j", "4")
        INSIDE("m", "i", "5") "%y = index_put(%x, [%m, %k], %s, mode=\"$\", wrap=true)\n"
                              "output user %y \"\"",
    /* rows of many columns, in memory and of zeros */
    "input user %x : #[50, 20] \"x\"\n input user %j : i64[900] \"j\"\n"
    "input user %s : #[900, 20] \"s\"\n" INSIDE("i", "j",
                                                "4") "%y = index_put(%x, [%i], %s, mode=\"$\", "
                                                     "wrap=true)\noutput user %y \"\"",
    "input user %i : i64[30, 30] \"i\"\n input user %j : i64[30, 30] \"j\"\n"
    "input user %s : #[30, 30, 3, 6] \"s\"\n %x = full(value=0, sizes=[5, 4, 3, 6], dtype=#)\n" INSIDE(
        "k", "j", "4")
        INSIDE("m", "i", "5") "%y = index_put(%x, [%m, %k], %s, mode=\"$\", wrap=true)\n"
                              "output user %y \"\"",
    /* an x that begins inside an input; sizes of the run */
    "input user %z : #[9, 20] \"z\"\n input user %j : i64[900] \"j\"\n"
    "input user %s : #[900, 20] \"s\"\n %x = slice(%z, dim=0, start=3, size=5, step=1)\n" INSIDE(
        "i", "j", "5") "%y = index_put(%x, [%i], %s, mode=\"$\", wrap=true)\noutput user %y \"\"",
    "symbol size s0 in [2000, 2400] hint 2200\n symbol size s1 in [1, 40] hint 20\n"
    "input user %x : #[6, s1] \"x\"\n input user %j : i64[s0] \"j\"\n"
    "input user %s : #[s0, s1] \"s\"\n" INSIDE(
        "i", "j", "6") "%y = index_put(%x, [%i], %s, mode=\"$\", wrap=true)\noutput user %y \"\"",
    /* in a conditional */
    "input user %p : bool[] \"p\"\n input user %x : #[7] \"x\"\n input user %j : i64[2500] \"j\"\n"
    "input user %s : #[2500] \"s\"\n" INSIDE(
        "i", "j", "7") "%y = cond(%p, then=graph {\n"
                       "input user %a : #[7] \"\"\n"
                       "input user %b : i64[2500] \"\"\n"
                       "input user %c : #[2500] \"\"\n"
                       "%d = scatter(%a, %b, %c, dim=0, mode=\"$\")\n"
                       "output user %d \"\"\n}, otherwise=graph {\n"
                       "input user %a : #[7] \"\"\n"
                       "input user %b : i64[2500] \"\"\n"
                       "input user %c : #[2500] \"\"\n"
                       "%d = scatter(%a, %b, %c, dim=0, mode=\"$\")\n"
                       "output user %d \"\"\n}, operands=[%x, %i, %s]) : #[7]\n"
                       "output user %y \"\"",
    /* from behind */
    "input user %x : #[4] \"x\"\n input user %j : i64[2100] \"j\"\n input user %o : #[1] \"o\"\n"
    "%s = expand(%o, sizes=[2100])\n%k = full(value=4, sizes=[], dtype=i64)\n%r = remainder(%j, %k)\n%i = sub(%r, %k)\n"
    "%y = index_put(%x, [%i], %s, mode=\"$\", wrap=true)\noutput user %y \"\"",
};

static void put_text(const char *text, const char *mode, const char *dtype, hn_strbuf *out) {
    for (; *text; text++) {
        if (*text == '$') hn_strbuf_puts(out, mode);
        else if (*text == '#') hn_strbuf_puts(out, dtype);
        else hn_strbuf_putc(out, *text);
    }
}

/* The loop combines in the order of the elements, and rounds each time. */
static void check_values(const char *text, const char *mode, const char *dtype) {
    static const double exact[HN_RANDOM_MAX_TENSORS];
    hn_ref_tensor inputs[HN_RANDOM_MAX_TENSORS], wanted[1], got[1];
    hn_strbuf whole;
    lowering t;
    hn_strbuf_init(&whole);
    put_text(text, mode, dtype, &whole);
    if (lowering_parse(&t, hn_strbuf_str(&whole).ptr)) {
        const uint32_t count = t.graph->inputs.count;
        EXPECT_OK(hn_random_inputs(5, &t.arena, t.graph, 0, inputs));
        lower_sorted(&t, &plain, true);
        EXPECT_OK(
            hn_program_run_all(&t.arena, t.program, t.graph, inputs, count, HN_RUN_LOOPS, wanted));
        lower_sorted(&t, &sorts, true);
        describe(&t);
        EXPECT(strstr(hn_strbuf_str(&t.text).ptr, "combine"));
        EXPECT_OK(hn_program_run_all(&t.arena, t.program, t.graph, inputs, count, HN_RUN_OPERATIONS,
                                     got));
        EXPECT_OK(hn_outputs_compare(got, wanted, exact, 1));
    }
    lowering_end(&t);
    hn_strbuf_deinit(&whole);
}

TEST(values) {
    static const char *const modes[] = {"set", "add", "min", "max"}, *const dtypes[] = {
                                                                         "f32", "f64", "f16",
                                                                         "bf16"};
    for (size_t k = 0; k < HN_COUNT_OF(texts); k++) {
        for (size_t m = 0; m < HN_COUNT_OF(modes); m++)
            for (size_t d = 0; d < HN_COUNT_OF(dtypes); d++)
                check_values(texts[k], modes[m], dtypes[d]);
        check_values(texts[k], "set", "i64");
        check_values(texts[k], "set", "u8");
        if (k != 2) check_values(texts[k], "set", "bool"); /* which have no negatives */
    }
    check_values(texts[0], "mul", "f64");
}

TEST(a_limit_of_rewrites_keeps_the_loop) {
    hn_limit none = {.most = 0};
    lowering t;
    if (lowering_parse(&t, ADD("f32", "100", "4096", "add"))) {
        const hn_lower_options options = {
            .operations = &sorts, .limit = &none, .deterministic = true};
        EXPECT_OK(hn_lower(t.graph, &options, &t.arena, &t.scratch, &t.program));
        describe(&t);
        EXPECT_STR(hn_strbuf_str(&t.text).ptr, LOOP);
    }
    lowering_end(&t);
}

TEST(indices_outside) {
    lowering t;
    hn_ref_tensor inputs[3], got[1];
    if (lowering_parse(&t, ADD("f32", "3", "4096", "add"))) { /* indices are -4 to 4 */
        lower_sorted(&t, &sorts, true);
        EXPECT_OK(hn_random_inputs(5, &t.arena, t.graph, 0, inputs));
        EXPECT_ERROR(
            hn_program_run_all(&t.arena, t.program, t.graph, inputs, 3, HN_RUN_OPERATIONS, got),
            HN_INVALID_ARGUMENT, "");
    }
    lowering_end(&t);
}

TEST_MAIN
