/* test_ceilings.c: ceilings as text and in the cache, the time of bytes between them, and the loops
 * that they are measured with. */
#include "measure/ceilings.h"

#include "base/file.h"
#include "measure/loops_isa.h"
#include "unit/harness.h"

#include <limits.h>
#include <stdlib.h>

static hn_ceilings some(void) {
    return (hn_ceilings){
        .name = "a \"fast\" CPU",
        .device = {.kind = HN_DEVICE_CPU},
        .threads = 3,
        .level_count = 2,
        .levels = {{"L1", 1 << 20, 100.25, 80, 1.0 / 3}, {"memory", INT64_MAX, 8, 10, 4}},
        .math = {7, 8, 9, 0},
        .own_share = 0.5,
        .measured_s = 1234567890123};
}

static void print(const hn_ceilings *c, char *out, size_t bytes) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_ceilings_print(c, &text);
    EXPECT(text.len < bytes);
    snprintf(out, bytes, "%s", text.ptr);
    hn_strbuf_deinit(&text);
}

/* ---- text ---- */

TEST(text_reads_back_as_it_was) {
    char text[2000], again[2000];
    const hn_ceilings c = some();
    hn_ceilings read;
    print(&c, text, sizeof text);
    EXPECT_OK(hn_ceilings_parse(hn_str_of(text), &read));
    print(&read, again, sizeof again);
    EXPECT_STR(again, text);
    EXPECT_STR(read.name, c.name);
    EXPECT_INT(read.levels[1].bytes, INT64_MAX);
    EXPECT(read.levels[0].fill == 1.0 / 3);
    EXPECT_INT(read.measured_s, 1234567890123);
}

TEST(a_part_of_a_text_is_refused) {
    char text[2000];
    const hn_ceilings c = some();
    hn_ceilings read;
    print(&c, text, sizeof text);
    for (size_t len = 0; len + 1 < strlen(text); len++) {
        hn_status status = hn_ceilings_parse((hn_str){text, len}, &read);
        EXPECT(status != NULL);
        hn_status_free(status);
    }
}

/* The text with `from` replaced by `to` must be refused. */
static void expect_refused(const char *from, const char *to) {
    char text[2000], changed[2100];
    const hn_ceilings c = some();
    hn_ceilings read;
    print(&c, text, sizeof text);
    const char *at = strstr(text, from);
    EXPECT(at != NULL);
    if (!at) return;
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    EXPECT_ERROR(hn_ceilings_parse(hn_str_of(changed), &read), HN_CORRUPT, "");
}

TEST(what_is_no_ceiling_is_refused) {
    expect_refused("100.25", "-100.25");
    expect_refused("100.25", "0");
    expect_refused("100.25", "Infinity");
    expect_refused("100.25, ", "");
    expect_refused("100.25", "100.25, 1");
    expect_refused("\"L1\"", "\"longer than a level\"");
    expect_refused("9223372036854775807", "4096"); /* the last level is no memory */
    expect_refused("[0, 0]", "[99, 0]");
    expect_refused("\"threads\": 3", "\"threads\": -3");
    expect_refused("\"threads\"", "\"strands\"");
    expect_refused(", 7, 8", ", 0, 8");
    expect_refused(", 0.5, 7", ", 1.5, 7");
    expect_refused("]}", "]} x");
}

/* ---- the time of bytes ---- */

TEST(time_goes_from_reading_over_a_copy_to_writing) {
    const hn_ceiling_level l = {"L1", 1000, .read = 8, .copy = 10, .fill = 4};
    EXPECT_NEAR(hn_ceiling_move_ns(&l, 800, 0), 100, 1e-9);
    EXPECT_NEAR(hn_ceiling_move_ns(&l, 500, 500), 100, 1e-9);
    EXPECT_NEAR(hn_ceiling_move_ns(&l, 0, 400), 100, 1e-9);
    EXPECT_NEAR(hn_ceiling_move_ns(&l, 750, 250), 1000 * (0.125 + 0.1) / 2, 1e-9);
    EXPECT_NEAR(hn_ceiling_move_ns(&l, 250, 750), 1000 * (0.25 + 0.1) / 2, 1e-9);
    EXPECT(hn_ceiling_move_ns(&l, 0, 0) == 0);
}

/* ---- loops ---- */

enum { ELEMS = 3 * HN_LOOP_ELEMS };

static void fill_with(float *x, float value) {
    for (int k = 0; k < ELEMS; k++) x[k] = value;
}

static bool is_all(const float *x, const float *like) {
    return memcmp(x, like, ELEMS * sizeof *x) == 0;
}

/* A loop that leaves something out would be fast. */
static void check_loops(const hn_loops *loops, float *x, float *y) {
    for (int k = 0; k < HN_LOOP_WAYS && loops->read[k]; k++) {
        hn_loop_part part = {.from = x, .elems = ELEMS, .passes = 5};
        fill_with(x, 2);
        loops->read[k](&part);
        EXPECT_INT((int)part.sum, 5 * 2 * ELEMS);
    }
    for (int k = 0; k < HN_LOOP_WAYS && loops->copy[k]; k++) {
        for (int e = 0; e < ELEMS; e++) x[e] = (float)e;
        fill_with(y, -1);
        loops->copy[k](&(hn_loop_part){.from = x, .to = y, .elems = ELEMS, .passes = 2});
        EXPECT(is_all(y, x));
    }
    for (int k = 0; k < HN_LOOP_WAYS && loops->fill[k]; k++) {
        fill_with(y, -1);
        loops->fill[k](&(hn_loop_part){.to = y, .elems = ELEMS, .passes = 2});
        for (int e = 0; e < ELEMS; e++) EXPECT(y[e] == 0 || y[e] == 1);
    }
}

/* Additions of 0.5; products with 0.5 that come near 0.5 when 0.25 is added. */
static void check_registers(const hn_loops *loops, float *x) {
    hn_loop_part part = {.from = x, .passes = 3};
    fill_with(x, 0);
    loops->add(&part);
    const float added = part.sum;
    part.passes = 6;
    loops->add(&part);
    EXPECT(added > 0 && part.sum > 1.9f * added && part.sum < 2.1f * added);
    loops->multiply_f32(&part);
    EXPECT_NEAR(part.sum, 12 * 0.5 + 0.125, 1e-3);
    loops->multiply_f64(&part);
    EXPECT_NEAR(part.sum, 12 * 0.5 + 0.125, 1e-3);
}

TEST(loops_do_all_of_their_work) {
    float *x = aligned_alloc(64, ELEMS * sizeof *x), *y = aligned_alloc(64, ELEMS * sizeof *y);
    const hn_loops *all[] = {&hn_loops_generic, hn_loops_get(), NULL, NULL};
#ifdef HN_LOOPS_X86
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) all[2] = &hn_loops_avx2;
#endif
    for (int k = 0; k < 3 && x && y; k++)
        if (all[k]) check_loops(all[k], x, y), check_registers(all[k], x);
    EXPECT(x && y);
    free(x);
    free(y);
}

/* ---- the machine and the cache ---- */

/* It measures for three seconds on an idle machine: once, and what the cache has is equal. */
TEST(a_machine_is_measured_once) {
    char dir[PATH_MAX], first[2000], second[2000];
    hn_ceilings c;
    bool is_cached = true;
    EXPECT_OK(hn_dir_temp(dir, sizeof dir));
    hn_ceilings_options options = {.threads = 1, .cache_dir = dir};
    EXPECT_OK(hn_ceilings_get(&options, &c, &is_cached));
    EXPECT(!is_cached);
    EXPECT(c.level_count >= 2 && c.levels[c.level_count - 1].bytes == INT64_MAX);
    for (uint32_t k = 0; k < c.level_count; k++) {
        EXPECT(c.levels[k].read > 0 && c.levels[k].copy > 0 && c.levels[k].fill > 0);
        if (k) EXPECT(c.levels[k].bytes > c.levels[k - 1].bytes);
    }
    for (int k = 0; k < HN_CEILING_MATH_COUNT; k++) EXPECT(c.math[k] > 0);
    EXPECT(c.own_share > 0 && c.own_share <= 1);
    print(&c, first, sizeof first);
    EXPECT_OK(hn_ceilings_get(&options, &c, &is_cached));
    EXPECT(is_cached);
    print(&c, second, sizeof second);
    EXPECT_STR(second, first);
    EXPECT_OK(hn_dir_remove(dir));
}

/* Of caches that hold more than that, a part is measured. */
TEST(little_memory_is_enough) {
    hn_ceilings c;
    EXPECT_OK(hn_ceilings_measure_host(1, 1, &c));
    EXPECT(c.level_count >= 2);
    for (uint32_t k = 0; k < c.level_count; k++) EXPECT(c.levels[k].read > 0);
}

static int64_t limit_of(const char *path, const char *text) {
    EXPECT_OK(hn_file_write_atomic(path, text, strlen(text), false));
    return hn_ceilings_limit_read(path);
}

TEST(limits_of_memory_are_read) {
    char dir[PATH_MAX], path[PATH_MAX + 8];
    EXPECT_OK(hn_dir_temp(dir, sizeof dir));
    snprintf(path, sizeof path, "%s/limit", dir);
    EXPECT_INT(hn_ceilings_limit_read(path), INT64_MAX);
    EXPECT_INT(limit_of(path, "268435456\n"), 268435456);
    EXPECT_INT(limit_of(path, "max\n"), INT64_MAX);
    EXPECT_INT(limit_of(path, ""), INT64_MAX);
    EXPECT_INT(limit_of(path, "0\n"), INT64_MAX);
    EXPECT(hn_ceilings_host_room() > 0);
    EXPECT(hn_ceilings_host_room() <= hn_ceilings_host_memory() / 16);
    EXPECT_OK(hn_dir_remove(dir));
}

TEST(there_is_no_device_of_that_number) {
    hn_ceilings c;
    hn_ceilings_options options = {.device = {.kind = HN_DEVICE_OPENCL, .number = 4000},
                                   .no_cache = true};
    hn_status status = hn_ceilings_get(&options, &c, NULL);
    EXPECT(hn_status_code(status) == HN_NOT_FOUND);
    hn_status_free(status);
}

TEST_MAIN
