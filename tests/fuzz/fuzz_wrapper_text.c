/* fuzz_wrapper_text.c: any text as wrapper IR: what parses prints, parses again and prints the
 * same; what verifies is planned, verifies again, and goes into a bundle that opens. */
#include "bundle/view.h"
#include "wrapper/to_bundle.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int ok, const char *what) {
    if (ok) return;
    fprintf(stderr, "fuzz_wrapper_text: %s\n", what);
    abort();
}

static hn_status parse(hn_arena *arena, hn_str text, hn_wrapper **out) {
    hn_sym *sym;
    HN_TRY(hn_sym_create(arena, &sym));
    return hn_wrapper_parse(arena, sym, text, out);
}

/* Text that was printed reads back. What was typed may need one round to settle: guards that follow
 * from others go. */
static void check_round_trip(hn_arena *arena, const hn_wrapper *w) {
    hn_strbuf first, second;
    hn_wrapper *again, *third;
    hn_strbuf_init(&first);
    hn_strbuf_init(&second);
    hn_wrapper_print(w, &first);
    hn_status status = parse(arena, hn_strbuf_str(&first), &again);
    if (!status) {
        hn_strbuf_reset(&first);
        hn_wrapper_print(again, &first);
        status = parse(arena, hn_strbuf_str(&first), &third);
        check(!status, "a printed text does not parse");
        hn_wrapper_print(third, &second);
        check(first.len == second.len && memcmp(first.ptr, second.ptr, first.len) == 0,
              "a printed text changes when printed again");
    }
    hn_status_free(status);
    hn_strbuf_deinit(&first);
    hn_strbuf_deinit(&second);
}

static void check_bundle(hn_wrapper *w) {
    static const char object[64];
    hn_memory_plan plan;
    hn_strbuf image;
    hn_bundle_object item = {.bytes = object, .len = sizeof object};
    hn_bundle b;
    hn_strbuf_init(&image);
    hn_status status = hn_wrapper_plan(w, &plan);
    if (!status) {
        status = hn_wrapper_verify(w);
        check(!status, "a planned program does not verify");
        status = hn_wrapper_to_bundle(w, &plan, &(hn_bundle_objects){.items = &item, .count = 1},
                                      &(hn_to_bundle_options){0}, &image);
        if (!status) {
            status = hn_bundle_open(image.ptr, image.len, true, &b);
            check(!status, "a bundle does not open");
        }
    }
    hn_status_free(status);
    hn_strbuf_deinit(&image);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    hn_arena arena;
    hn_wrapper *w;
    hn_arena_init(&arena);
    hn_status status = parse(&arena, (hn_str){(const char *)data, size}, &w);
    if (!status) {
        hn_strbuf json;
        hn_strbuf_init(&json);
        hn_wrapper_print_json(w, &json);
        hn_strbuf_deinit(&json);
        check_round_trip(&arena, w);
        status = hn_wrapper_verify(w);
        if (!status) check_bundle(w);
    }
    hn_status_free(status);
    hn_arena_deinit(&arena);
    return 0;
}
