/* test_record.c: tuning records: as text and back, what is refused and why, lists and files. */
#include "tune/list.h"

#include "base/file.h"
#include "unit/harness.h"
#include "unit/tune/records.h"

#include <limits.h>
#include <stdlib.h>

/* ---- one record ---- */

static const char wanted[] =
    "{\"record\":1,\"kernel\":\"softmax\",\"digest\":"
    "\"e12c22d4f162d9a012c9319233da5d3e923cc5e1029b8f90e47249c9ab256b35\",\"sizes\":{\"s0\":64},"
    "\"pick\":\"tiles lanes=16 grain=64\",\"how\":\"timed\",\"forms\":["
    "{\"form\":\"rows\",\"parameters\":\"lanes=16\",\"median_ns\":1200.5,\"low_ns\":1190,"
    "\"high_ns\":1230.25,\"samples\":40,\"predicted_ns\":1000},"
    "{\"form\":\"tiles\",\"parameters\":\"lanes=16 grain=64\",\"median_ns\":800,\"low_ns\":790,"
    "\"high_ns\":810.1,\"samples\":41},"
    "{\"form\":\"streams\",\"dropped\":\"does not build: \\\"no\\\"\"}],"
    "\"device\":{\"kind\":\"cpu\",\"name\":\"A CPU\",\"level\":\"x86-64-v3\",\"threads\":\"2\"},"
    "\"tool\":\"henry 0.1.0\"}\n";

TEST(a_record_is_one_line) {
    hn_form_timing forms[3];
    const hn_tuning_record r = test_record(forms, 1, 64);
    hn_strbuf out;
    hn_strbuf_init(&out);
    EXPECT_OK(hn_tuning_record_check(&r));
    hn_tuning_record_print(&r, &out);
    EXPECT_STR(hn_strbuf_str(&out).ptr, wanted);
    hn_strbuf_deinit(&out);
}

/* Prints what was read of `text`. */
static hn_status again(hn_str text, hn_strbuf *out) {
    hn_arena arena;
    hn_tuning_record r;
    hn_arena_init(&arena);
    hn_status status = hn_tuning_record_parse(&arena, text, &r);
    if (!status) hn_tuning_record_print(&r, out);
    hn_arena_deinit(&arena);
    return status;
}

TEST(a_record_comes_back) {
    hn_strbuf out;
    hn_strbuf_init(&out);
    EXPECT_OK(again(hn_str_of(wanted), &out));
    EXPECT_STR(hn_strbuf_str(&out).ptr, wanted);
    hn_strbuf_deinit(&out);
}

static uint32_t seed = 7;
static uint32_t random_below(uint32_t n) {
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}
static double random_ns(void) { return 1 + random_below(1000000) / (1.0 + random_below(1000)); }

/* With any number of forms and sizes, with and without times. */
static hn_tuning_record random_record(hn_form_timing *forms, char (*names)[16]) {
    hn_tuning_record r = test_record(forms, (int)random_below(9), 1);
    r.form_count = 1 + random_below(HN_TUNING_FORMS_MAX);
    for (uint32_t k = 0; k < r.form_count; k++) {
        hn_form_timing *f = &forms[k];
        snprintf(names[k], sizeof names[k], "a=%u", k);
        *f = (hn_form_timing){.form = {HN_STR("form"), hn_str_of(names[k])}};
        if (random_below(3)) {
            f->low_ns = random_ns();
            f->median_ns = f->low_ns + random_ns(), f->high_ns = f->median_ns + random_ns();
            f->samples = 1 + random_below(1000);
        }
        if (random_below(2)) f->predicted_ns = random_ns();
        f->is_extra = random_below(4) == 0;
    }
    r.pick = random_below(r.form_count);
    r.how = forms[r.pick].samples ? HN_TUNING_DESCENT : HN_TUNING_FORCED;
    r.size_count = random_below(HN_TUNING_SIZES_MAX + 1);
    for (uint32_t k = 0; k < r.size_count; k++) {
        r.sizes[k] = (int64_t)(random_below(1 << 20) - 5) << random_below(40);
        r.symbols[k] = HN_STR("s");
    }
    return r;
}

TEST(random_records_come_back) {
    for (int round = 0; round < 300; round++) {
        hn_form_timing forms[HN_TUNING_FORMS_MAX];
        char names[HN_TUNING_FORMS_MAX][16];
        const hn_tuning_record r = random_record(forms, names);
        hn_strbuf first, second;
        hn_strbuf_init(&first), hn_strbuf_init(&second);
        EXPECT_OK(hn_tuning_record_check(&r));
        hn_tuning_record_print(&r, &first);
        EXPECT_OK(again(hn_strbuf_str(&first), &second));
        EXPECT_STR(hn_strbuf_str(&second).ptr, hn_strbuf_str(&first).ptr);
        hn_strbuf_deinit(&first), hn_strbuf_deinit(&second);
    }
}

/* ---- what is refused ---- */

/* `wanted` with `from` in place of `to`. */
static hn_status changed(const char *from, const char *to, hn_strbuf *out) {
    hn_strbuf text;
    const char *at = strstr(wanted, from);
    hn_strbuf_init(&text);
    if (!at) return HN_ERROR(HN_INTERNAL, "there is no %s", from);
    hn_strbuf_append(&text, wanted, (size_t)(at - wanted));
    hn_strbuf_puts(&text, to);
    hn_strbuf_puts(&text, at + strlen(from));
    hn_status status = again(hn_strbuf_str(&text), out);
    hn_strbuf_deinit(&text);
    return status;
}

#define EXPECT_REFUSED(from, to, text)                                                             \
    do {                                                                                           \
        hn_strbuf out_;                                                                            \
        hn_strbuf_init(&out_);                                                                     \
        EXPECT_ERROR(changed(from, to, &out_), HN_CORRUPT, text);                                  \
        hn_strbuf_deinit(&out_);                                                                   \
    } while (0)
#define EXPECT_TAKEN(from, to, part)                                                               \
    do {                                                                                           \
        hn_strbuf out_;                                                                            \
        hn_strbuf_init(&out_);                                                                     \
        EXPECT_OK(changed(from, to, &out_));                                                       \
        EXPECT(strstr(hn_strbuf_str(&out_).ptr, part) != NULL);                                    \
        hn_strbuf_deinit(&out_);                                                                   \
    } while (0)

TEST(damaged_records_are_refused) {
    EXPECT_REFUSED("\"record\":1,", "", "expected \"record\" as the first field");
    EXPECT_REFUSED("\"record\":1,", "\"record\":0,", "expected a version of 1 or more");
    EXPECT_REFUSED("\"how\":\"timed\",", "", "expected a field \"how\"");
    EXPECT_REFUSED("\"how\":\"timed\",", "\"how\":\"timed\",\"how\":\"timed\",",
                   "\"how\" is there twice");
    EXPECT_REFUSED("\"timed\"", "\"guessed\"", "expected \"model\", \"timed\"");
    EXPECT_REFUSED("e12c22", "e12c2", "expected 64 hexadecimal digits");
    EXPECT_REFUSED("e12c22", "E12C22", "expected 64 hexadecimal digits");
    EXPECT_REFUSED("\"s0\":64", "\"s0\":\"64\"", "byte");
    EXPECT_REFUSED("\"s0\":64", "\"s0\":64.5", "byte");
    EXPECT_REFUSED("\"s0\":64",
                   "\"s0\":1,\"1\":1,\"2\":1,\"3\":1,\"4\":1,\"5\":1,\"6\":1,\"7\":1,\"8\":1",
                   "at most 8 sizes");
    EXPECT_REFUSED("\"tiles lanes=16 grain=64\"", "\"tiles lanes=8\"",
                   "\"tiles lanes=8\" is none of the forms");
    EXPECT_REFUSED("\"tiles lanes=16 grain=64\"", "\"streams\"", "forms that take part");
    EXPECT_REFUSED("\"median_ns\":800", "\"median_ns\":780", "low <= median <= high");
    EXPECT_REFUSED("\"median_ns\":800", "\"median_ns\":NaN", "low <= median <= high");
    EXPECT_REFUSED("\"samples\":41", "\"samples\":-1", "expected a number of samples");
    EXPECT_REFUSED(",\"samples\":41", "", "low <= median <= high");
    EXPECT_REFUSED("\"form\":\"rows\"", "\"form\":\"my rows\"", "form 0 has no name");
    EXPECT_REFUSED("\"form\":\"rows\"", "\"form\":\"r\\u00f6ws\"", "form 0 has no name");
    EXPECT_REFUSED("{\"form\":\"rows\",\"parameters\":\"lanes=16\"",
                   "{\"form\":\"tiles\",\"parameters\":\"lanes=16 grain=64\"",
                   "forms 0 and 1 are the same");
    EXPECT_REFUSED("\"kind\":\"cpu\"", "\"ki=nd\":\"cpu\"", "field of the device as one line");
    EXPECT_REFUSED("\"kind\":\"cpu\"", "\"kind\":\"c\\npu\"", "field of the device as one line");
    EXPECT_REFUSED("\"softmax\"", "\"soft\\u0007max\"", "no printable name");
    EXPECT_REFUSED("\"tool\":\"henry 0.1.0\"}", "\"tool\":\"henry 0.1.0\"} x", "byte");
    hn_strbuf out;
    hn_strbuf_init(&out);
    EXPECT_ERROR(changed("\"record\":1,", "\"record\":2,\"digest\":7,", &out), HN_INCOMPATIBLE,
                 "version 2");
    hn_strbuf_deinit(&out);
}

TEST(what_is_new_is_left_out) {
    EXPECT_TAKEN("\"how\"", "\"later\":[1,{\"x\":null}],\"how\"", "\"how\":\"timed\"");
    EXPECT_TAKEN("\"samples\":41", "\"p95_ns\":812,\"samples\":41", "\"samples\":41");
    EXPECT_TAKEN("\"threads\":\"2\"", "\"threads\":\"2\",\"clock\":\"3\"", "\"clock\":\"3\"");
}

/* ---- ratios ---- */

#define SAMPLES_OF_TILES "\"samples\":41"
#define SAMPLES_OF_ROWS  "\"samples\":40"
#define ONE              ",\"ratio\":1,\"ratio_low\":1,\"ratio_high\":1"
#define MORE             ",\"ratio\":1.5,\"ratio_low\":1.25,\"ratio_high\":2"

TEST(ratios_come_back) {
    EXPECT_TAKEN(SAMPLES_OF_TILES, SAMPLES_OF_TILES ONE, "\"samples\":41" ONE "}");
    EXPECT_TAKEN(SAMPLES_OF_ROWS, SAMPLES_OF_ROWS MORE, "\"samples\":40" MORE ",\"predicted_ns\"");
    EXPECT_TAKEN(SAMPLES_OF_TILES, SAMPLES_OF_TILES ONE, "\"how\":\"timed\"");
    EXPECT_REFUSED(SAMPLES_OF_ROWS, SAMPLES_OF_ROWS ",\"ratio\":1.5,\"ratio_low\":2",
                   "form 0 has no ratios low <= ratio <= high");
    EXPECT_REFUSED(SAMPLES_OF_ROWS, SAMPLES_OF_ROWS ",\"ratio_low\":2", "form 0 has no ratios");
    EXPECT_REFUSED("\"streams\",", "\"streams\"" ONE ",", "form 2 has no ratios");
}

/* What a person does: the pick alone is another one. */
TEST(a_pick_that_did_not_win_is_forced) {
    EXPECT_TAKEN(SAMPLES_OF_TILES, SAMPLES_OF_TILES MORE, "\"how\":\"forced\"");
    EXPECT_REFUSED("\"tiles lanes=16 grain=64\"", "\"streams\"", "forms that take part");
    EXPECT_TAKEN("\"median_ns\":800,\"low_ns\":790,\"high_ns\":810.1,\"samples\":41",
                 "\"predicted_ns\":7", "\"how\":\"forced\"");
}

/* What a person does: another pick, by its name, for no measured reason. */
TEST(a_pick_may_be_a_name) {
    EXPECT_TAKEN("\"tiles lanes=16 grain=64\",\"how\":\"timed\"", "\"rows\",\"how\":\"forced\"",
                 "\"pick\":\"rows lanes=16\",\"how\":\"forced\"");
    EXPECT_REFUSED(
        "\"tiles lanes=16 grain=64\",\"how\":\"timed\",\"forms\":[",
        "\"tiles\",\"how\":\"timed\",\"forms\":[{\"form\":\"tiles\",\"parameters\":\"a\"},",
        "several forms are called \"tiles\"");
}

TEST(a_pick_is_certain_or_not) {
    hn_form_timing forms[3];
    hn_tuning_record r = test_record(forms, 1, 64);
    double margin;
    EXPECT(hn_tuning_record_is_certain(&r, &margin));
    EXPECT_NEAR(margin, 1200.5 / 800 - 1, 1e-12);
    forms[0].low_ns = 805;
    EXPECT(!hn_tuning_record_is_certain(&r, &margin));
    forms[0].low_ns = 1190, r.pick = 0;
    EXPECT(!hn_tuning_record_is_certain(&r, &margin));
    r.form_count = 1;
    EXPECT(hn_tuning_record_is_certain(&r, &margin));
    EXPECT_NEAR(margin, 0, 0);
}

TEST(a_pick_is_certain_by_ratios_where_they_are_known) {
    hn_form_timing forms[3];
    hn_tuning_record r = test_record(forms, 1, 64);
    double margin;
    forms[1].ratio = forms[1].ratio_low = forms[1].ratio_high = 1;
    forms[0].ratio = 1.1, forms[0].ratio_low = 0.99, forms[0].ratio_high = 1.2;
    EXPECT(!hn_tuning_record_is_certain(&r, &margin)); /* though medians say so */
    EXPECT_NEAR(margin, 0.1, 1e-12);
    forms[0].ratio_low = 1.02;
    EXPECT(hn_tuning_record_is_certain(&r, &margin));
}

TEST(a_set_has_no_order_and_no_extra_forms) {
    hn_form_timing forms[4];
    hn_tuning_record r = test_record(forms, 1, 64);
    const hn_digest set = hn_tuning_record_set(&r);
    const hn_form_timing first = forms[0];
    forms[0] = forms[2], forms[2] = first;
    hn_digest other = hn_tuning_record_set(&r);
    EXPECT(memcmp(&set, &other, sizeof set) == 0);
    forms[3] = (hn_form_timing){.form = {HN_STR("rows"), HN_STR("lanes=8")}, .is_extra = true};
    r.form_count = 4;
    other = hn_tuning_record_set(&r);
    EXPECT(memcmp(&set, &other, sizeof set) == 0);
    forms[3].is_extra = false;
    other = hn_tuning_record_set(&r);
    EXPECT(memcmp(&set, &other, sizeof set) != 0);
}

/* ---- lists ---- */

static void add(hn_tuning_list *list, int number, int64_t size, const char *tool) {
    hn_form_timing *forms;
    EXPECT_OK(hn_arena_array(list->arena, 3, sizeof *forms, &forms));
    hn_tuning_record r = test_record(forms, number, size);
    r.tool = hn_str_of(tool);
    EXPECT_OK(hn_tuning_list_add(list, &r));
}

TEST(a_later_record_replaces_an_earlier_one) {
    hn_arena arena;
    hn_tuning_list list;
    hn_arena_init(&arena);
    hn_tuning_list_init(&list, &arena);
    add(&list, 1, 64, "a"), add(&list, 2, 64, "b"), add(&list, 1, 65, "c"), add(&list, 1, 64, "d");
    EXPECT_INT(list.count, 3);
    EXPECT_STR(list.items[0].tool.ptr, "d");
    uint32_t at = 0, found = 0;
    for (const hn_tuning_record *r; (r = hn_tuning_list_next(&list, &list.items[0].digest, &at));)
        EXPECT_STR(r->tool.ptr, found++ ? "d" : "c");
    EXPECT_INT(found, 2);
    at = 0;
    const hn_digest none = {{0}};
    EXPECT(!hn_tuning_list_next(&list, &none, &at));
    hn_arena_deinit(&arena);
}

TEST(the_order_of_adding_is_none_of_files) {
    hn_arena arena;
    hn_tuning_list a, b;
    hn_strbuf first, second;
    hn_arena_init(&arena);
    hn_strbuf_init(&first), hn_strbuf_init(&second);
    hn_tuning_list_init(&a, &arena), hn_tuning_list_init(&b, &arena);
    for (int k = 0; k < 20; k++) add(&a, k % 3, k, "t"), add(&b, (19 - k) % 3, 19 - k, "t");
    hn_tuning_list_print(&a, &first), hn_tuning_list_print(&b, &second);
    EXPECT_STR(hn_strbuf_str(&first).ptr, hn_strbuf_str(&second).ptr);
    hn_strbuf_deinit(&first), hn_strbuf_deinit(&second);
    hn_arena_deinit(&arena);
}

TEST(damaged_lines_are_left_out) {
    hn_arena arena;
    hn_tuning_list list;
    hn_tuning_damage damage;
    hn_strbuf text;
    hn_arena_init(&arena);
    hn_strbuf_init(&text);
    hn_tuning_list_init(&list, &arena);
    hn_strbuf_printf(&text, "\n  \n{\"record\":1}\n%s\r\nnonsense\n%.200s", wanted, wanted);
    EXPECT_OK(hn_tuning_list_parse(&list, hn_strbuf_str(&text), &damage));
    EXPECT_INT(list.count, 1);
    EXPECT_INT(damage.lines, 3);
    EXPECT_INT(damage.first, 3);
    EXPECT_STR(damage.what, "expected a field \"digest\"");
    EXPECT_OK(hn_tuning_list_parse(&list, HN_STR(""), &damage));
    EXPECT_INT(damage.lines, 0);
    EXPECT_INT(list.count, 1);
    hn_strbuf_deinit(&text);
    hn_arena_deinit(&arena);
}

TEST(files_come_back) {
    char dir[PATH_MAX], path[PATH_MAX + 16];
    hn_arena arena;
    hn_tuning_list list, back;
    hn_strbuf first, second;
    hn_arena_init(&arena);
    hn_strbuf_init(&first), hn_strbuf_init(&second);
    hn_tuning_list_init(&list, &arena), hn_tuning_list_init(&back, &arena);
    EXPECT_OK(hn_dir_temp(dir, sizeof dir));
    snprintf(path, sizeof path, "%s/tuning.json", dir);
    EXPECT_ERROR(hn_tuning_list_read(&back, path), HN_NOT_FOUND, "tuning.json");
    for (int k = 0; k < 100; k++) add(&list, k % 7, k * k, "t");
    EXPECT_OK(hn_tuning_list_write(&list, path));
    EXPECT_OK(hn_tuning_list_read(&back, path));
    EXPECT_INT(back.count, 100);
    hn_tuning_list_print(&list, &first), hn_tuning_list_print(&back, &second);
    EXPECT_STR(hn_strbuf_str(&first).ptr, hn_strbuf_str(&second).ptr);
    hn_strbuf_deinit(&first), hn_strbuf_deinit(&second);
    hn_arena_deinit(&arena);
    EXPECT_OK(hn_dir_remove(dir));
}

TEST_MAIN
