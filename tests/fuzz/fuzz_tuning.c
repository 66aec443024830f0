/* fuzz_tuning.c: any bytes as a file of tuning records: records that hold what they must, or lines
 * that are left out; what is printed of them reads back and prints the same. Their times make a table
 * that is one. */
#include "tune/choice.h"
#include "tune/list.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(hn_status status, const char *what) {
    if (!status) return;
    fprintf(stderr, "%s: %s\n", what, hn_status_message(status));
    abort();
}

/* Of the forms of the first record, from all records of its kernel. */
static void choose(const hn_tuning_list *list, hn_arena *arena) {
    const hn_tuning_record *first = &list->items[0], **records;
    hn_form_name *variants;
    hn_choice_times times;
    hn_choice_made made;
    uint32_t count = 0, at = 0;
    expect(hn_arena_array(arena, list->count, sizeof *records, &records), "memory");
    expect(hn_arena_array(arena, first->form_count, sizeof *variants, &variants), "memory");
    for (uint32_t k = 0; k < first->form_count; k++) variants[k] = first->forms[k].form;
    while ((records[count] = hn_tuning_list_next(list, &first->digest, &at))) {
        if (++count == list->count) break;
    }
    expect(hn_choice_times_of(records, count, variants, first->form_count, arena, &times), "times");
    expect(hn_choice_make(&times, arena, &made), "a table");
    (void)hn_choice_pick(&made.table, (const int64_t[HN_CHOICE_AXES]){1, 2, 3});
}

static void print(hn_str text, hn_strbuf *out, uint32_t *out_damaged) {
    hn_arena arena;
    hn_tuning_list list;
    hn_tuning_damage damage;
    hn_arena_init(&arena);
    hn_tuning_list_init(&list, &arena);
    expect(hn_tuning_list_parse(&list, text, &damage), "a list");
    for (uint32_t k = 0; k < list.count; k++)
        expect(hn_tuning_record_check(&list.items[k]), "was read, but");
    hn_tuning_list_print(&list, out);
    *out_damaged = damage.lines;
    if (list.count) choose(&list, &arena);
    hn_arena_deinit(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    hn_strbuf first, second;
    uint32_t damaged;
    hn_strbuf_init(&first);
    hn_strbuf_init(&second);
    print((hn_str){(const char *)data, size}, &first, &damaged);
    print(hn_strbuf_str(&first), &second, &damaged);
    if (damaged || !hn_str_eq(hn_strbuf_str(&first), hn_strbuf_str(&second))) {
        fprintf(stderr, "printed:\n%sand again:\n%s", hn_strbuf_str(&first).ptr,
                hn_strbuf_str(&second).ptr);
        abort();
    }
    hn_strbuf_deinit(&first);
    hn_strbuf_deinit(&second);
    return 0;
}
