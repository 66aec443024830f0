/* ir_fixture.h: what tests of the IR share: an arena, symbols and a graph; short ways to make
 * values. */
#ifndef HN_TESTS_IR_FIXTURE_H
#define HN_TESTS_IR_FIXTURE_H

#include "ir/build.h"
#include "unit/harness.h"

typedef struct fixture {
    hn_arena arena;
    hn_sym *sym;
    hn_graph *g;
} fixture;

static inline void fixture_init(fixture *f) {
    hn_arena_init(&f->arena);
    EXPECT_OK(hn_sym_create(&f->arena, &f->sym));
    EXPECT_OK(hn_graph_create(&f->arena, f->sym, &f->g));
    /* as PyTorch exports sizes */
    hn_sym_symbol(f->sym, HN_STR("s0"), HN_SYMBOL_SIZE, 2, HN_SYM_MAX);
    hn_sym_symbol(f->sym, HN_STR("s1"), HN_SYMBOL_SIZE, 2, HN_SYM_MAX);
}
static inline void fixture_deinit(fixture *f) {
    hn_graph_deinit(f->g);
    hn_arena_deinit(&f->arena);
}

/* "2, s0, s0*4" */
static inline uint32_t fixture_exprs(fixture *f, const char *text, hn_expr *out) {
    uint32_t count = 0;
    while (*text) {
        size_t len = strcspn(text, ",");
        EXPECT_OK(hn_sym_parse(f->sym, (hn_str){text, len}, &out[count++]));
        text += len + (text[len] == ',');
    }
    return count;
}
static inline hn_expr fixture_expr(fixture *f, const char *text) {
    hn_expr e = 0;
    EXPECT_OK(hn_sym_parse(f->sym, hn_str_of(text), &e));
    return e;
}

/* A user input of these sizes. */
static inline hn_value fixture_input(fixture *f, hn_dtype dtype, const char *sizes) {
    hn_expr list[HN_MAX_RANK];
    uint32_t rank = fixture_exprs(f, sizes, list);
    hn_value v = hn_graph_add_tensor(f->g, dtype, rank, list, NULL, HN_STR(""));
    EXPECT_OK(hn_graph_add_input(
        f->g, (hn_input){.kind = HN_INPUT_USER, .value = v, .name = HN_STR("")}));
    return v;
}
static inline void fixture_output(fixture *f, hn_value v) {
    EXPECT_OK(hn_graph_add_output(
        f->g, (hn_output){.kind = HN_OUTPUT_USER, .value = v, .name = HN_STR("")}));
}

/* "f32[2, s0]"; valid until the next call. */
static inline const char *fixture_type(fixture *f, hn_value v) {
    static char text[512];
    hn_strbuf buf;
    hn_strbuf_init(&buf);
    if (!v) return "none";
    const hn_value_info *info = hn_graph_value(f->g, v);
    hn_strbuf_puts(&buf, hn_dtype_facts(info->dtype)->name);
    hn_strbuf_putc(&buf, '[');
    for (uint32_t i = 0; i < info->rank; i++) {
        if (i) hn_strbuf_puts(&buf, ", ");
        hn_sym_print(f->sym, info->sizes[i], &buf);
    }
    hn_strbuf_putc(&buf, ']');
    snprintf(text, sizeof text, "%s", buf.ptr);
    hn_strbuf_deinit(&buf);
    return text;
}

/* The value has this type, and the graph is fine so far. */
#define EXPECT_TYPE(f, v, type)                                                                    \
    do {                                                                                           \
        hn_value v_ = (v);                                                                         \
        EXPECT_OK(hn_graph_status((f)->g));                                                        \
        EXPECT_STR(fixture_type((f), v_), (type));                                                 \
    } while (0)
/* The builder gave nothing and latched an internal error with this text, which is taken. */
#define EXPECT_REFUSED(f, v, text)                                                                 \
    do {                                                                                           \
        EXPECT_INT((v), 0);                                                                        \
        EXPECT_ERROR(hn_graph_status((f)->g), HN_INTERNAL, (text));                                \
    } while (0)

#endif
