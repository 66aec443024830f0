/* fuzz_form_text.c: the text of kernel forms, of the program in form_program.h. Any bytes give a
 * form that verifies, or an error; what is printed of it parses, verifies and prints the same. */
#include "kernel/form.h"
#include "support/form_program.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void print_verified(const hn_form *f, hn_strbuf *out) {
    hn_status status = hn_form_verify(f);
    if (status) {
        fprintf(stderr, "was read, but: %s\n", hn_status_message(status));
        abort();
    }
    hn_form_print(f, out);
}

/* False for a text that does not parse. */
static bool print(hn_str text, hn_strbuf *out) {
    hn_arena arena;
    hn_sym *sym;
    hn_program *p = NULL;
    hn_form *f = NULL;
    hn_arena_init(&arena);
    hn_status status = hn_sym_create(&arena, &sym);
    if (!status) status = hn_program_parse(&arena, sym, HN_STR(HN_FORM_PROGRAM), &p);
    if (!status) status = hn_form_parse(p, &arena, text, &f);
    bool parsed = !status;
    if (parsed) print_verified(f, out);
    hn_status_free(status);
    hn_arena_deinit(&arena);
    return parsed;
}

static void expect_same(const hn_strbuf *first, const hn_strbuf *second) {
    if (hn_str_eq(hn_strbuf_str(first), hn_strbuf_str(second))) return;
    fprintf(stderr, "printed:\n%sand again:\n%s", first->ptr, second->ptr ? second->ptr : "");
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    hn_strbuf first, second;
    hn_strbuf_init(&first);
    hn_strbuf_init(&second);
    if (print((hn_str){(const char *)data, size}, &first)) {
        (void)print(hn_strbuf_str(&first), &second);
        expect_same(&first, &second);
    }
    hn_strbuf_deinit(&first);
    hn_strbuf_deinit(&second);
    return 0;
}
