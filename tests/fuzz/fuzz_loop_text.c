/* fuzz_loop_text.c: the text form of loop IR. Any bytes give a program that verifies, or an error;
 * what is printed of it parses, verifies and prints the same. */
#include "ir/loop.h"
#include "impossible.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef enum outcome { PRINTED, REFUSED, IMPOSSIBLE } outcome;

static outcome print(hn_str text, hn_strbuf *out) {
    hn_arena arena;
    hn_sym *sym;
    hn_program *p = NULL;
    hn_arena_init(&arena);
    hn_status status = hn_sym_create(&arena, &sym);
    if (!status) status = hn_program_parse(&arena, sym, text, &p);
    outcome result = !status ? PRINTED : hn_fuzz_is_impossible(status) ? IMPOSSIBLE : REFUSED;
    if (result == PRINTED) {
        status = hn_program_verify(p);
        if (status) {
            fprintf(stderr, "was read, but: %s\n", hn_status_message(status));
            abort();
        }
        hn_program_print(p, out);
    }
    hn_status_free(status);
    hn_arena_deinit(&arena);
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    hn_strbuf texts[3];
    for (int k = 0; k < 3; k++) hn_strbuf_init(&texts[k]);
    /* Only texts that are printed must be stable: in the input, guards may stand behind what they
     * simplify. */
    if (print((hn_str){(const char *)data, size}, &texts[0]) == PRINTED) {
        outcome again = print(hn_strbuf_str(&texts[0]), &texts[1]);
        if (again == PRINTED) again = print(hn_strbuf_str(&texts[1]), &texts[2]);
        bool settled =
            again == PRINTED && hn_str_eq(hn_strbuf_str(&texts[1]), hn_strbuf_str(&texts[2]));
        if (!settled && again != IMPOSSIBLE) {
            fprintf(stderr, "printed:\n%sprinted again:\n%sand again:\n%s",
                    texts[0].ptr ? texts[0].ptr : "", texts[1].ptr ? texts[1].ptr : "",
                    texts[2].ptr ? texts[2].ptr : "");
            abort();
        }
    }
    for (int k = 0; k < 3; k++) hn_strbuf_deinit(&texts[k]);
    return 0;
}
