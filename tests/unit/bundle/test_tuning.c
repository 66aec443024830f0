/* test_tuning.c: tuning records in a bundle: written, read, shown; damage and later versions of
 * them keep nobody from reading the bundle. */
#include "bundle/view.h"
#include "unit/bundle/image_fixture.h"
#include "unit/tune/records.h"

#include "tune/list.h"

static void open_with(const char *tuning, hn_strbuf *image, hn_bundle *out) {
    code_cases cases = levels;
    cases.tuning = tuning;
    make_image_of(&cases, image);
    EXPECT_OK(hn_bundle_open(image->ptr, image->len, true, out));
}

/* Two records as text. */
static void two_records(hn_strbuf *out) {
    hn_form_timing forms[3];
    const hn_tuning_record a = test_record(forms, 1, 64);
    hn_tuning_record_print(&a, out);
    const hn_tuning_record b = test_record(forms, 1, 256);
    hn_tuning_record_print(&b, out);
}

TEST(records_come_back) {
    hn_strbuf image, text, again;
    hn_bundle b;
    hn_arena arena;
    hn_tuning_list list;
    hn_tuning_damage damage;
    hn_strbuf_init(&text), hn_strbuf_init(&again);
    hn_arena_init(&arena);
    hn_tuning_list_init(&list, &arena);
    two_records(&text);
    open_with(hn_strbuf_str(&text).ptr, &image, &b);
    EXPECT_INT(b.tuning_bytes, text.len);
    EXPECT_OK(hn_tuning_list_parse(&list, (hn_str){b.tuning, (size_t)b.tuning_bytes}, &damage));
    EXPECT_INT(damage.lines, 0);
    hn_tuning_list_print(&list, &again);
    EXPECT_STR(hn_strbuf_str(&again).ptr, hn_strbuf_str(&text).ptr);
    hn_strbuf_deinit(&text), hn_strbuf_deinit(&again), hn_strbuf_deinit(&image);
    hn_arena_deinit(&arena);
}

/* From where the tuning records begin. */
static void expect_shown(const char *tuning, const char *as_text, const char *as_json) {
    hn_strbuf image, text, json;
    hn_bundle b;
    hn_strbuf_init(&text), hn_strbuf_init(&json);
    open_with(tuning, &image, &b);
    hn_bundle_describe_text(&b, &text);
    hn_bundle_describe_json(&b, &json);
    const char *t = strstr(hn_strbuf_str(&text).ptr, "tuning"),
               *j = strstr(hn_strbuf_str(&json).ptr, ",\"tuning\":");
    EXPECT_STR(t ? t : "", as_text);
    EXPECT(j ? strncmp(j, as_json, strlen(as_json)) == 0 : !*as_json);
    hn_strbuf_deinit(&text), hn_strbuf_deinit(&json), hn_strbuf_deinit(&image);
}

TEST(records_are_shown) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    two_records(&text);
    expect_shown(
        hn_strbuf_str(&text).ptr,
        "tuning 'softmax' {\"s0\":64}: tiles lanes=16 grain=64, timed\n"
        "tuning 'softmax' {\"s0\":256}: tiles lanes=16 grain=64, timed\n",
        ",\"tuning\":[{\"kernel\":\"softmax\",\"pick\":\"tiles lanes=16 grain=64\",\"how\":"
        "\"timed\",\"record\":\"{\\\"record\\\":1,");
    expect_shown(NULL, "", "");
    expect_shown(
        "{\"record\":9,\"kernel\":\"\\u001b[1m\",\"sizes\": [1]}\nx\n\n{\"how\":5}",
        "tuning '\\x1b[1m' [1]: , \ntuning: a damaged record\ntuning: a damaged record\n",
        ",\"tuning\":[{\"kernel\":\"\\u001b[1m\",\"pick\":\"\",\"how\":\"\",\"record\":\"{\\\"record"
        "\\\":9,");
    hn_strbuf_deinit(&text);
}

TEST(a_reader_may_leave_them_out) {
    hn_strbuf image;
    hn_bundle b;
    open_with("{}\n", &image, &b);
    hnb_section *table = (hnb_section *)(void *)(image.ptr + sizeof(hnb_header));
    while (table->kind != (HNB_TUNING | HNB_SECTION_EXTRA)) table++;
    table->elem_bytes = 3, table->count = 1; /* of a later version */
    seal(&image);
    EXPECT_OK(hn_bundle_open(image.ptr, image.len, true, &b));
    EXPECT(!b.tuning && !b.tuning_bytes);
    hn_strbuf_deinit(&image);
}

TEST(lines_are_taken_one_by_one) {
    hn_strbuf image;
    hn_bundle b;
    hn_str line;
    uint64_t at = 0;
    open_with("\na\n\nbc", &image, &b);
    EXPECT(hn_bundle_tuning_next(&b, &at, &line) && hn_str_eq(line, HN_STR("a")));
    EXPECT(hn_bundle_tuning_next(&b, &at, &line) && hn_str_eq(line, HN_STR("bc")));
    EXPECT(!hn_bundle_tuning_next(&b, &at, &line));
    hn_strbuf_deinit(&image);
}

TEST_MAIN
