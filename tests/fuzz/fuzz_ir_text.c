/* fuzz_ir_text.c: the text form of graphs. Any bytes give a graph or an error; a graph that parses
 * can be verified and sorted, and the text of the text's graph is that text. */
#include "ir/graph.h"
#include "impossible.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct parsed {
    hn_arena arena;
    hn_graph *g;
    bool is_impossible; /* not read: no sizes satisfy all guards */
} parsed;

static bool parse(parsed *p, hn_str text) {
    hn_sym *sym = NULL;
    hn_arena_init(&p->arena);
    p->g = NULL;
    hn_status status = hn_sym_create(&p->arena, &sym);
    if (!status) status = hn_graph_parse(&p->arena, sym, text, &p->g);
    bool ok = !status;
    p->is_impossible = hn_fuzz_is_impossible(status);
    hn_status_free(status);
    return ok;
}
static void release(parsed *p) {
    hn_graph_deinit(p->g);
    hn_arena_deinit(&p->arena);
}

/* A text that was read and printed twice stays as it is. The first time it may change: a guard may
 * stand behind what it simplifies. */
static void check_settled(const hn_strbuf *twice) {
    parsed third;
    hn_strbuf thrice;
    hn_strbuf_init(&thrice);
    bool is_read = parse(&third, hn_strbuf_str(twice));
    if (is_read) hn_graph_print(third.g, &thrice);
    release(&third);
    if (third.is_impossible) {
        hn_strbuf_deinit(&thrice);
        return;
    }
    if (!is_read || !hn_str_eq(hn_strbuf_str(twice), hn_strbuf_str(&thrice))) {
        fprintf(stderr, "printed twice:\n%sand again:\n%s", twice->ptr,
                thrice.ptr ? thrice.ptr : "");
        abort();
    }
    hn_strbuf_deinit(&thrice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    parsed first, second;
    hn_strbuf once, twice;
    hn_strbuf_init(&once);
    hn_strbuf_init(&twice);
    if (parse(&first, (hn_str){(const char *)data, size})) {
        hn_graph_print(first.g, &once);
        if (parse(&second, hn_strbuf_str(&once))) {
            hn_graph_print(second.g, &twice);
            check_settled(&twice);
            hn_status_free(hn_graph_sort(second.g));
            hn_status_free(hn_graph_verify(second.g, HN_LEGAL_ANY));
            hn_status_free(hn_graph_verify(second.g, HN_LEGAL_PRIMITIVE));
        } else if (!second.is_impossible) {
            fprintf(stderr, "does not parse back:\n%s", once.ptr);
            abort();
        }
        release(&second);
    }
    release(&first);
    hn_strbuf_deinit(&once);
    hn_strbuf_deinit(&twice);
    return 0;
}
