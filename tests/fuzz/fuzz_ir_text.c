/* fuzz_ir_text.c: the text form of graphs. Any bytes give a graph or an error; a graph that parses can be verified and
 * sorted, and the text of the text's graph is that text. */
#include "ir/graph.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct parsed {
    hn_arena arena;
    hn_graph *g;
} parsed;

static bool parse(parsed *p, hn_str text) {
    hn_sym *sym = NULL;
    hn_arena_init(&p->arena);
    p->g = NULL;
    hn_status status = hn_sym_create(&p->arena, &sym);
    if (!status) status = hn_graph_parse(&p->arena, sym, text, &p->g);
    bool ok = !status;
    hn_status_free(status);
    return ok;
}
static void release(parsed *p) {
    hn_graph_deinit(p->g);
    hn_arena_deinit(&p->arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    parsed first, second;
    hn_strbuf once, twice;
    hn_strbuf_init(&once);
    hn_strbuf_init(&twice);
    if (parse(&first, (hn_str){(const char *)data, size})) {
        hn_graph_print(first.g, &once);
        /* Only texts that are printed must be stable: in the input, guards may stand behind what they simplify. */
        if (parse(&second, hn_strbuf_str(&once))) {
            hn_graph_print(second.g, &twice);
            if (once.len != twice.len || memcmp(once.ptr, twice.ptr, once.len) != 0) {
                fprintf(stderr, "printed:\n%sprinted again:\n%s", once.ptr, twice.ptr);
                abort();
            }
            hn_status_free(hn_graph_sort(second.g));
            hn_status_free(hn_graph_verify(second.g, HN_LEGAL_ANY));
            hn_status_free(hn_graph_verify(second.g, HN_LEGAL_PRIMITIVE));
        } else {
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
