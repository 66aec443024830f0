/* decompose_forms.h: which primitives an operator becomes. The order of independent nodes depends
 * on the order in which a C compiler evaluates arguments, so the ops are compared as a sorted
 * list. */
#ifndef HN_TESTS_DECOMPOSE_FORMS_H
#define HN_TESTS_DECOMPOSE_FORMS_H

#include "unit/opt/opt_fixture.h"

#include <stdlib.h>

static int form_compare(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* "add mul mul sum": the live ops of the graph but constants. */
static const char *form_ops(opt_fixture *f) {
    const char *names[256];
    uint32_t count = 0;
    for (hn_node n = 1; n < f->g->nodes.count && count < 256; n++) {
        const hn_node_info *node = hn_graph_node(f->g, n);
        if (!node->dead && node->op != HN_OP_FULL) names[count++] = hn_op_facts(node->op)->name;
    }
    qsort(names, count, sizeof *names, form_compare);
    hn_strbuf_reset(&f->text);
    for (uint32_t k = 0; k < count; k++) hn_strbuf_printf(&f->text, "%s%s", k ? " " : "", names[k]);
    return f->text.ptr ? f->text.ptr : "";
}

/* Decomposes `source`, drops what no output needs, and compares the sorted ops. */
#define EXPECT_OPS(source, expected)                                                               \
    do {                                                                                           \
        opt_fixture f_;                                                                            \
        opt_begin(&f_, "graph {\n" source "}\n");                                                  \
        if (f_.g) {                                                                                \
            hn_pass_context context_ = {.scratch = &f_.scratch};                                   \
            EXPECT_OK(opt_decompose(&f_));                                                         \
            EXPECT_OK(hn_pass_dce(f_.g, &context_));                                               \
            EXPECT_STR(form_ops(&f_), expected);                                                   \
        }                                                                                          \
        opt_end(&f_);                                                                              \
    } while (0)

#endif
