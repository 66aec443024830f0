/* test_select.c: scatters of one element into each row of a constant, which are selects: values,
 * indices outside, and scatters that stay. */
#include "lowering_values.h"

#include <string.h>

typedef struct put {
    const char *sizes, *index, *dtype, *mode, *background, *source;
    int dim, extent;
} put;

/* `wraps`: indices are brought inside. Inputs of integers are -4 to 4. */
static void print_put(const put *c, bool wraps, const char *behind, char *out, size_t size) {
    char source[128];
    if (c->source)
        snprintf(source, sizeof source, "%%s = full(value=%s, sizes=[%s], dtype=%s)\n", c->source,
                 c->index, c->dtype);
    else snprintf(source, sizeof source, "input user %%s : %s[%s] \"s\"\n", c->dtype, c->index);
    snprintf(
        out, size,
        "input user %%i : i64[%s] \"i\"\n%s%%a = abs(%%i)\n%%k = full(value=%d, sizes=[], dtype=i64)\n"
        "%%r = remainder(%%a, %%k)\n%%z = full(value=%s, sizes=[%s], dtype=%s)\n"
        "%%y = scatter(%%z, %s, %%s, dim=%d, mode=\"%s\")\n%s",
        c->index, source, c->extent > 0 ? c->extent : 1, c->background, c->sizes, c->dtype,
        wraps ? "%r" : "%i", c->dim, c->mode, behind);
}

#define OUT "output user %y \"\""

static void check_put(const put *c, uint32_t selected) {
    static const double exact[HN_RANDOM_MAX_TENSORS];
    char text[1024];
    lowering t;
    print_put(c, true, OUT, text, sizeof text);
    if (lowering_parse(&t, text)) {
        lower_with(&t, NULL);
        if (t.program) EXPECT_INT(t.program->scatters_selected, selected);
        expect_values(&t, HN_RUN_LOOPS, exact);
    }
    lowering_end(&t);
}

static const char *const dtypes[] = {"f64", "f32", "f16", "bf16", "i64",
                                     "i32", "i16", "i8",  "u8",   "bool"};
static const put shapes[] = {
    {.sizes = "5", .index = "1", .dim = 0, .extent = 5},
    {.sizes = "1", .index = "1", .dim = 0, .extent = 1},
    {.sizes = "3, 7", .index = "3, 1", .dim = 1, .extent = 7},
    {.sizes = "3, 7", .index = "1, 7", .dim = 0, .extent = 3},
    {.sizes = "13, 1", .index = "13, 1", .dim = 1, .extent = 1},
    {.sizes = "2, 5, 3", .index = "2, 1, 3", .dim = 1, .extent = 5},
    {.sizes = "4, 17", .index = "4, 1", .dim = 1, .extent = 17},
    {.sizes = "0, 4", .index = "0, 1", .dim = 1, .extent = 4},
    {.sizes = "0, 0", .index = "0, 1", .dim = 1, .extent = 0},
};

TEST(values) {
    static const char *const modes[] = {"set", "add"}, *const backgrounds[] = {"0", "2"},
                             *const sources[] = {NULL, "3"};
    for (size_t k = 0; k < HN_COUNT_OF(shapes) * HN_COUNT_OF(dtypes) * 8; k++) {
        put c = shapes[k / 8 / HN_COUNT_OF(dtypes)];
        c.dtype = dtypes[k / 8 % HN_COUNT_OF(dtypes)];
        c.mode = modes[k & 1];
        const bool is_bool = strcmp(c.dtype, "bool") == 0;
        c.background = is_bool ? (k & 2 ? "true" : "false") : backgrounds[k >> 1 & 1];
        c.source = is_bool && k & 4 ? "true" : sources[k >> 2 & 1];
        check_put(&c, !is_bool || !(k & 1));
    }
}

TEST(values_compiled) {
    static const char *const names[] = {"f32", "bf16", "i64", "bool"};
    for (size_t k = 0; k < HN_COUNT_OF(names); k++) {
        put c = shapes[k % 2 ? 6 : 5];
        char text[1024];
        c.dtype = names[k], c.mode = k == 1 ? "add" : "set";
        c.background = k == 3 ? "true" : "2";
        print_put(&c, true, OUT, text, sizeof text);
        lowering_check_values(text, 0);
    }
    /* rows that may be none, a sum of the result, and a part of it; two readers */
    lowering_check_values(
        "symbol size s0 in [0, 64]\ninput user %i : i64[s0, 1] \"i\"\ninput user %g : f32[s0, 1] \"g\"\n"
        "%a = abs(%i)\n%z = full(value=0, sizes=[s0, 37], dtype=f32)\n"
        "%y = scatter(%z, %a, %g, dim=1, mode=\"set\")\n%q = mul(%y, %g)\n"
        "%r = sum(%q, dims=[1], keepdim=true)\n%d = sub(%q, %r)\n%p = slice(%y, dim=1, start=1, size=3, step=1)\n"
        "output user %d \"\"\noutput user %p \"\"",
        0);
}

TEST(others_stay) {
    static const put others[] = {
        {.sizes = "3, 7", .index = "3, 2", .dtype = "f32", .mode = "add", .dim = 1, .extent = 7},
        {.sizes = "3, 7", .index = "2, 1", .dtype = "f32", .mode = "set", .dim = 1, .extent = 7},
        {.sizes = "3, 7", .index = "3, 1", .dtype = "f32", .mode = "mul", .dim = 1, .extent = 7},
        {.sizes = "3, 7", .index = "3, 1", .dtype = "f32", .mode = "max", .dim = 1, .extent = 7},
    };
    for (size_t k = 0; k < HN_COUNT_OF(others); k++) {
        put c = others[k];
        c.background = "2";
        check_put(&c, 0);
    }
}

/* The interpreter and the program refuse the same, also where nothing of the row is read. */
static void expect_refused(const put *c, const char *behind) {
    hn_ref_tensor inputs[HN_RANDOM_MAX_TENSORS], out[HN_RANDOM_MAX_TENSORS];
    char text[1024];
    lowering t;
    print_put(c, false, behind, text, sizeof text);
    if (lowering_parse(&t, text)) {
        lower_with(&t, NULL);
        EXPECT_OK(hn_random_inputs(5, &t.arena, t.graph, 0, inputs));
        EXPECT_ERROR(hn_interpret(&t.arena, t.graph, inputs, 2, out), HN_INVALID_ARGUMENT,
                     "out of range");
        if (t.program) {
            EXPECT_INT(t.program->scatters_selected, 1);
            EXPECT_ERROR(
                hn_program_run_all(&t.arena, t.program, t.graph, inputs, 2, HN_RUN_LOOPS, out),
                HN_INVALID_ARGUMENT, " is outside of ");
        }
    }
    lowering_end(&t);
}

TEST(indices_outside) {
    static const put puts[] = {
        {.sizes = "30, 3", .index = "30, 1", .dim = 1, .extent = 3}, /* too large, negative */
        {.sizes = "30, 9", .index = "30, 1", .dim = 1, .extent = 9}, /* negative */
        {.sizes = "1, 30", .index = "1, 30", .dim = 0, .extent = 1},
        {.sizes = "30, 0", .index = "30, 1", .dim = 1, .extent = 0},
    };
    for (size_t k = 0; k < HN_COUNT_OF(puts); k++) {
        put c = puts[k];
        c.dtype = "f32", c.mode = "set", c.background = "0";
        expect_refused(&c, OUT);
        expect_refused(&c, "%n = slice(%y, dim=0, start=0, size=1, step=1)\noutput user %n \"\"");
    }
}

TEST_MAIN
