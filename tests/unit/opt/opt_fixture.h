/* opt_fixture.h: graphs from text through decompose, for the tests of the pass. */
#ifndef HN_TESTS_OPT_FIXTURE_H
#define HN_TESTS_OPT_FIXTURE_H

#include "base/compiler.h"
#include "ir/interp.h"
#include "opt/pass.h"
#include "unit/harness.h"

typedef struct opt_fixture {
    hn_arena arena, scratch;
    hn_sym *sym;
    hn_graph *g;
    hn_strbuf text;
} opt_fixture;

static void opt_begin(opt_fixture *f, const char *source) {
    hn_arena_init(&f->arena);
    hn_arena_init(&f->scratch);
    hn_strbuf_init(&f->text);
    f->g = NULL;
    EXPECT_OK(hn_sym_create(&f->arena, &f->sym));
    EXPECT_OK(hn_graph_parse(&f->arena, f->sym, hn_str_of(source), &f->g));
}

static void opt_end(opt_fixture *f) {
    if (f->g) hn_graph_deinit(f->g);
    hn_strbuf_deinit(&f->text);
    hn_arena_deinit(&f->scratch);
    hn_arena_deinit(&f->arena);
}

static hn_status opt_decompose(opt_fixture *f) {
    hn_pass_context context = {.scratch = &f->scratch};
    hn_status status = hn_pass_decompose(f->g, &context);
    if (!status) status = hn_graph_verify(f->g, HN_LEGAL_PRIMITIVE);
    if (!status) status = hn_sym_status(f->sym);
    return status;
}

/* The statements of a graph text without its first and last lines and the places of nodes. */
HN_UNUSED static const char *opt_text(opt_fixture *f) {
    hn_strbuf whole;
    hn_strbuf_init(&whole);
    hn_graph_print(f->g, &whole);
    hn_strbuf_reset(&f->text);
    for (const char *line = whole.ptr; line && *line;) {
        const char *end = strchr(line, '\n'), *at = strstr(line, " at \"");
        size_t len = end ? (size_t)(end - line) : strlen(line);
        if (at && (!end || at < end)) len = (size_t)(at - line);
        if (line[0] == ' ') {
            hn_strbuf_append(&f->text, line + 2, len - 2);
            hn_strbuf_putc(&f->text, '\n');
        }
        line = end ? end + 1 : line + len;
    }
    hn_strbuf_deinit(&whole);
    return hn_strbuf_str(&f->text).ptr;
}

/* Decomposes `source` and compares the statements of the result. */
#define EXPECT_DECOMPOSES(source, expected)                                                        \
    do {                                                                                           \
        opt_fixture f_;                                                                            \
        opt_begin(&f_, "graph {\n" source "}\n");                                                  \
        if (f_.g) {                                                                                \
            EXPECT_OK(opt_decompose(&f_));                                                         \
            EXPECT_STR(opt_text(&f_), expected);                                                   \
        }                                                                                          \
        opt_end(&f_);                                                                              \
    } while (0)

#define EXPECT_REFUSES(source, code, message)                                                      \
    do {                                                                                           \
        opt_fixture f_;                                                                            \
        opt_begin(&f_, "graph {\n" source "}\n");                                                  \
        if (f_.g) EXPECT_ERROR(opt_decompose(&f_), code, message);                                 \
        opt_end(&f_);                                                                              \
    } while (0)

#endif
