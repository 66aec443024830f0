/* fuzz_loop_text.c: the text form of loop IR. Any bytes give a program that verifies, or an error; what is printed of it
 * parses, verifies and prints the same. */
#include "ir/loop.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* False for a text that does not parse. */
static bool print(hn_str text, hn_strbuf *out) {
    hn_arena arena;
    hn_sym *sym;
    hn_program *p = NULL;
    hn_arena_init(&arena);
    hn_status status = hn_sym_create(&arena, &sym);
    if (!status) status = hn_program_parse(&arena, sym, text, &p);
    bool parsed = !status;
    if (parsed) {
        status = hn_program_verify(p);
        if (status) {
            fprintf(stderr, "was read, but: %s\n", hn_status_message(status));
            abort();
        }
        hn_program_print(p, out);
    }
    hn_status_free(status);
    hn_arena_deinit(&arena);
    return parsed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    hn_strbuf texts[3];
    for (int k = 0; k < 3; k++) hn_strbuf_init(&texts[k]);
    /* Only texts that are printed must be stable: in the input, guards may stand behind what they simplify. */
    if (print((hn_str){(const char *)data, size}, &texts[0])) {
        bool again = print(hn_strbuf_str(&texts[0]), &texts[1]) && print(hn_strbuf_str(&texts[1]), &texts[2]);
        if (!again || !hn_str_eq(hn_strbuf_str(&texts[1]), hn_strbuf_str(&texts[2]))) {
            fprintf(stderr, "printed:\n%sprinted again:\n%sand again:\n%s", texts[0].ptr ? texts[0].ptr : "",
                    texts[1].ptr ? texts[1].ptr : "", texts[2].ptr ? texts[2].ptr : "");
            abort();
        }
    }
    for (int k = 0; k < 3; k++) hn_strbuf_deinit(&texts[k]);
    return 0;
}
