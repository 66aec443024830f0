/* test_picks.c: tuning records in files, bundles and caches: which are found, which are stale and
 * why, several writers at once, damage, limits. */
#include "picks/picks.h"

#include "cache/record.h"
#include "support/cache_stack.h"
#include "unit/tune/records.h"

/* ---- what is wanted ---- */

static const hn_form_name test_forms[] = {{HN_STR("streams"), HN_STR("")},
                                          {HN_STR("rows"), HN_STR("lanes=16")},
                                          {HN_STR("tiles"), HN_STR("lanes=16 grain=64")}};

static hn_picks_wanted wanted(int number) {
    return (hn_picks_wanted){.kernel = HN_STR("softmax"),
                             .digest = hn_digest_of(&number, sizeof number),
                             .forms = test_forms,
                             .form_count = 3,
                             .device = HN_STR(TEST_DEVICE)};
}

static void keep(hn_cache *cache, int number, int64_t size, const char *tool) {
    hn_form_timing forms[3];
    hn_tuning_record r = test_record(forms, number, size);
    const hn_tuning_record *list = &r;
    r.tool = hn_str_of(tool);
    EXPECT_OK(hn_picks_keep(cache, &list, 1));
}

static void add(hn_tuning_list *list, int number, int64_t size, const char *tool) {
    hn_form_timing *forms;
    EXPECT_OK(hn_arena_array(list->arena, 3, sizeof *forms, &forms));
    hn_tuning_record r = test_record(forms, number, size);
    r.tool = hn_str_of(tool);
    EXPECT_OK(hn_tuning_list_add(list, &r));
}

/* "64 a, 256 b (the cache)": sizes and tools of what is found. */
static void expect_found(const hn_picks *picks, const hn_picks_wanted *w, const char *expected) {
    hn_arena arena;
    hn_tuning_list out;
    hn_picks_place place;
    hn_strbuf text;
    hn_arena_init(&arena);
    hn_strbuf_init(&text);
    hn_tuning_list_init(&out, &arena);
    EXPECT_OK(hn_picks_find(picks, w, &out, &place));
    for (uint32_t k = 0; k < out.count; k++)
        hn_strbuf_printf(&text, "%s%lld " HN_STR_FMT, k ? ", " : "",
                         (long long)out.items[k].sizes[0], HN_STR_ARG(out.items[k].tool));
    hn_strbuf_printf(&text, "%s(%s)", out.count ? " " : "", hn_picks_place_name(place));
    EXPECT_STR(hn_strbuf_str(&text).ptr, expected);
    hn_strbuf_deinit(&text);
    hn_arena_deinit(&arena);
}

static void expect_why(const hn_picks *picks, const hn_picks_wanted *w, const char *expected) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    EXPECT_OK(hn_picks_why(picks, w, &text));
    EXPECT_STR(hn_strbuf_str(&text).ptr, expected);
    hn_strbuf_deinit(&text);
}

static uint64_t entries_of(const stack *s) {
    hn_store_usage usage;
    EXPECT_OK(hn_store_usage_get(s->store, &usage));
    return usage.entries[HN_STORE_TUNING];
}

/* ---- the cache ---- */

TEST(what_is_kept_is_found) {
    stack s;
    stack_open(&s, "");
    const hn_picks picks = {.cache = &s.cache};
    hn_picks_wanted w = wanted(1);
    expect_found(&picks, &w, "(nowhere)");
    keep(&s.cache, 1, 64, "a"), keep(&s.cache, 1, 256, "b"), keep(&s.cache, 2, 64, "c");
    EXPECT_INT(entries_of(&s), 2);
    expect_found(&picks, &w, "256 b, 64 a (the cache)");
    keep(&s.cache, 1, 64, "d");
    expect_found(&picks, &w, "256 b, 64 d (the cache)");
    w = wanted(3);
    expect_found(&picks, &w, "(nowhere)");
    stack_close(&s);
}

TEST(several_kernels_are_kept_at_once) {
    stack s;
    hn_form_timing forms[6][3];
    hn_tuning_record records[6];
    const hn_tuning_record *list[6];
    stack_open(&s, "");
    for (int k = 0; k < 6; k++) {
        records[k] = test_record(forms[k], k % 2, k);
        list[k] = &records[k];
    }
    EXPECT_OK(hn_picks_keep(&s.cache, list, 6));
    EXPECT_INT(entries_of(&s), 2);
    const hn_picks picks = {.cache = &s.cache};
    hn_picks_wanted w = wanted(1);
    expect_found(&picks, &w, "5 henry 0.1.0, 3 henry 0.1.0, 1 henry 0.1.0 (the cache)");
    records[5].pick = 7;
    EXPECT_ERROR(hn_picks_keep(&s.cache, list, 6), HN_INVALID_ARGUMENT, "pick");
    stack_close(&s);
}

TEST(one_form_leaves_no_trace) {
    stack s;
    hn_form_timing forms[3];
    hn_tuning_record r = test_record(forms, 1, 64);
    const hn_tuning_record *list = &r;
    stack_open(&s, "");
    r.form_count = 1, r.pick = 0;
    EXPECT_OK(hn_picks_keep(&s.cache, &list, 1));
    EXPECT_INT(entries_of(&s), 0);
    const hn_picks picks = {.cache = &s.cache};
    hn_picks_wanted w = wanted(1);
    w.form_count = 1;
    expect_found(&picks, &w, "(nowhere)");
    hn_store_stats stats;
    hn_store_stats_get(s.store, &stats);
    EXPECT_INT(stats.misses, 0); /* nothing was looked up */
    expect_why(&picks, &w,
               "kernel 'softmax' (e12c22d4): it has one form: there is nothing to tune\n");
    stack_close(&s);
}

TEST(without_a_disk_nothing_is_found) {
    hn_store *store;
    hn_cache cache;
    EXPECT_OK(hn_store_open(&(hn_store_options){.dir = ""}, &store));
    EXPECT_OK(hn_cache_init(store, "", &cache));
    keep(&cache, 1, 64, "a");
    const hn_picks picks = {.cache = &cache};
    const hn_picks_wanted w = wanted(1);
    expect_found(&picks, &w, "(nowhere)");
    expect_why(&picks, &w, "kernel 'softmax' (e12c22d4): it was never tuned\n");
    hn_cache_deinit(&cache);
    hn_store_close(store);
}

/* ---- files and bundles come first ---- */

TEST(a_file_comes_before_a_bundle_and_that_before_the_cache) {
    stack s;
    hn_arena arena;
    hn_tuning_list file, bundle;
    stack_open(&s, "");
    hn_arena_init(&arena);
    hn_tuning_list_init(&file, &arena), hn_tuning_list_init(&bundle, &arena);
    add(&file, 1, 64, "file"), add(&bundle, 1, 64, "bundle"), add(&bundle, 1, 256, "bundle");
    keep(&s.cache, 1, 64, "cache"), keep(&s.cache, 1, 256, "cache"), keep(&s.cache, 1, 9, "cache");
    keep(&s.cache, 4, 9, "cache");
    const hn_picks picks = {&file, &bundle, &s.cache};
    hn_picks_wanted w = wanted(1);
    expect_found(&picks, &w, "64 file (the file)");
    w.sizes = (const int64_t[]){64, 256}, w.size_count = 1, w.sample_count = 2;
    expect_found(&picks, &w, "64 file, 256 bundle (the file)");
    w.sizes = (const int64_t[]){9};
    w.sample_count = 1;
    expect_found(&picks, &w, "64 file, 256 bundle, 9 cache (the file)");
    w = wanted(4);
    expect_found(&picks, &w, "9 cache (the cache)");
    hn_arena_deinit(&arena);
    stack_close(&s);
}

/* ---- stale ---- */

TEST(another_set_of_forms_is_stale) {
    stack s;
    stack_open(&s, "");
    keep(&s.cache, 1, 64, "a");
    const hn_picks picks = {.cache = &s.cache};
    const hn_form_name more[] = {test_forms[0],
                                 test_forms[1],
                                 {HN_STR("tiles"), HN_STR("lanes=8")},
                                 {HN_STR("split"), HN_STR("")}};
    hn_picks_wanted w = wanted(1);
    w.forms = more, w.form_count = 4;
    expect_found(&picks, &w, "(nowhere)");
    expect_why(
        &picks, &w,
        "kernel 'softmax' (e12c22d4): the set of forms changed since it was tuned: was 3 forms, "
        "is 4; gone: 'tiles lanes=16 grain=64'; new: 'tiles lanes=8', 'split' (the cache)\n");
    w.form_count = 2;
    expect_why(
        &picks, &w,
        "kernel 'softmax' (e12c22d4): the set of forms changed since it was tuned: was 3 forms, "
        "is 2; gone: 'tiles lanes=16 grain=64' (the cache)\n");
    stack_close(&s);
}

TEST(another_device_is_stale) {
    stack s;
    hn_arena arena;
    hn_tuning_list file;
    stack_open(&s, "");
    hn_arena_init(&arena);
    hn_tuning_list_init(&file, &arena);
    keep(&s.cache, 1, 64, "a");
    add(&file, 1, 64, "b");
    hn_picks picks = {.cache = &s.cache};
    hn_picks_wanted w = wanted(1);
    w.device = HN_STR("kind=cpu\nname=A CPU\nlevel=x86-64-v4\nthreads=8\n");
    expect_found(&picks, &w, "(nowhere)");
    expect_why(
        &picks, &w,
        "kernel 'softmax' (e12c22d4): it was tuned on another device: 'level' was 'x86-64-v3', "
        "is 'x86-64-v4' (the cache)\n"
        "kernel 'softmax' (e12c22d4): it was tuned on another device: 'threads' was '2', is '8' "
        "(the cache)\n");
    picks = (hn_picks){.file = &file};
    w.device = HN_STR("kind=cpu\nname=A CPU\nlevel=x86-64-v3\nclock=3\n");
    expect_found(&picks, &w, "(nowhere)");
    expect_why(
        &picks, &w,
        "kernel 'softmax' (e12c22d4): it was tuned on another device: 'threads' was '2', is no "
        "more (the file)\n"
        "kernel 'softmax' (e12c22d4): it was tuned on another device: 'clock' was not there, is "
        "'3' (the file)\n");
    hn_arena_deinit(&arena);
    stack_close(&s);
}

TEST(what_is_there_is_said) {
    stack s;
    stack_open(&s, "");
    const hn_picks picks = {.cache = &s.cache};
    hn_picks_wanted w = wanted(1);
    expect_why(&picks, &w, "kernel 'softmax' (e12c22d4): it was never tuned\n");
    keep(&s.cache, 1, 64, "a");
    expect_why(&picks, &w, "kernel 'softmax' (e12c22d4): tuned at 1 set of sizes (the cache)\n");
    w.sizes = (const int64_t[]){64, 256}, w.size_count = 1, w.sample_count = 2;
    expect_why(&picks, &w,
               "kernel 'softmax' (e12c22d4): tuned at 1 set of sizes (the cache)\n"
               "kernel 'softmax' (e12c22d4): not tuned at s0 = 256\n");
    stack_close(&s);
}

/* ---- damage, limits ---- */

TEST(a_damaged_entry_is_no_record) {
    stack s;
    stack_open(&s, "");
    const hn_picks picks = {.cache = &s.cache};
    const hn_picks_wanted w = wanted(1);
    keep(&s.cache, 1, 64, "a");
    const hn_digest set = hn_form_set_digest(w.forms, w.form_count);
    hn_strbuf record;
    hn_strbuf_init(&record);
    hn_picks_key_record(&w.digest, &set, w.device, &record);
    const hn_digest key = hn_digest_of(record.ptr, record.len);
    hn_tuning_put(&s.cache, &key, HN_STR("no\nrecord\n"), hn_strbuf_str(&record));
    expect_found(&picks, &w, "(nowhere)");
    keep(&s.cache, 1, 64, "b"); /* and is replaced */
    expect_found(&picks, &w, "64 b (the cache)");
    char path[PATH_MAX];
    hn_store_entry_path(s.store, HN_STORE_TUNING, &key, path);
    EXPECT_INT(truncate(path, 100), 0);
    expect_found(&picks, &w, "(nowhere)");
    hn_strbuf_deinit(&record);
    stack_close(&s);
}

/* How many records of the first kernel there are; and the size of the first of them. */
static uint32_t count_found(hn_cache *cache, int64_t *out_first) {
    hn_arena arena;
    hn_tuning_list out;
    hn_picks_place place;
    hn_arena_init(&arena);
    hn_tuning_list_init(&out, &arena);
    const hn_picks picks = {.cache = cache};
    const hn_picks_wanted w = wanted(1);
    EXPECT_OK(hn_picks_find(&picks, &w, &out, &place));
    const uint32_t count = out.count;
    *out_first = count ? out.items[0].sizes[0] : -1;
    hn_arena_deinit(&arena);
    return count;
}

TEST(ten_thousand_sizes_are_bounded) {
    enum { BATCH = 1000, BATCHES = 10 };
    static hn_form_timing forms[BATCH][3];
    static hn_tuning_record records[BATCH];
    static const hn_tuning_record *list[BATCH];
    stack s;
    hn_store_usage usage;
    stack_open(&s, "");
    for (int b = 0; b < BATCHES; b++) {
        for (int k = 0; k < BATCH; k++) {
            records[k] = test_record(forms[k], 1, b * BATCH + k);
            list[k] = &records[k];
        }
        EXPECT_OK(hn_picks_keep(&s.cache, list, BATCH));
    }
    EXPECT_OK(hn_store_usage_get(s.store, &usage));
    EXPECT_INT(usage.entries[HN_STORE_TUNING], 1);
    EXPECT(usage.bytes[HN_STORE_TUNING] < 512 << 10);
    int64_t newest;
    EXPECT_INT(count_found(&s.cache, &newest), HN_PICKS_SIZES_MAX);
    EXPECT_INT(newest, BATCH * BATCHES - 1);
    stack_close(&s);
}

/* ---- several processes ---- */

enum { WRITERS = 2, WRITES = 40 };

/* A process of its own. */
static void write_all(const char *dir, int writer) {
    hn_store *store;
    hn_cache cache;
    EXPECT_OK(hn_store_open(&(hn_store_options){.dir = dir}, &store));
    EXPECT_OK(hn_cache_init(store, "", &cache));
    for (int k = 0; k < WRITES; k++) keep(&cache, 1, k * WRITERS + writer, "a");
    hn_cache_deinit(&cache);
    hn_store_close(store);
}

TEST(two_processes_lose_nothing) {
    stack s;
    pid_t children[WRITERS];
    stack_open(&s, "");
    for (int k = 0; k < WRITERS; k++) {
        children[k] = fork();
        if (children[k] == 0) {
            hn_cache_abandon(&s.cache);
            hn_test_failures = 0;
            write_all(s.dir, k);
            _exit(hn_test_failures != 0);
        }
    }
    for (int k = 0; k < WRITERS; k++) {
        int how = -1;
        EXPECT_INT(waitpid(children[k], &how, 0), children[k]);
        EXPECT_INT(how, 0);
    }
    int64_t newest;
    EXPECT_INT(count_found(&s.cache, &newest), WRITERS * WRITES);
    stack_close(&s);
}

/* ---- the remote cache ---- */

TEST(what_one_machine_measures_another_finds) {
    if (!begin(NULL)) return;
    stack a, b, alone;
    stack_open(&a, server.url);
    stack_open(&b, server.url);
    keep(&a.cache, 1, 64, "a");
    hn_picks picks = {.cache = &b.cache};
    hn_picks_wanted w = wanted(1);
    expect_found(&picks, &w, "64 a (the remote cache)");
    expect_found(&picks, &w, "64 a (the cache)");
    keep(&a.cache, 1, 256, "a"), keep(&b.cache, 1, 9, "b");
    expect_found(&picks, &w, "9 b, 256 a, 64 a (the cache)"); /* b kept what the server had, too */
    keep(&a.cache, 1, 1000, "a");
    expect_found(&picks, &w, "9 b, 256 a, 64 a (the cache)");
    w.sizes = (const int64_t[]){1000}, w.size_count = 1, w.sample_count = 1;
    expect_found(&picks, &w, "9 b, 256 a, 64 a, 1000 a (the cache)");
    redis_kill(&server);
    alone = b;
    EXPECT_OK(hn_cache_init(b.store, "", &alone.cache));
    picks.cache = &alone.cache;
    expect_found(&picks, &w, "1000 a, 9 b, 256 a, 64 a (the cache)"); /* it was written there */
    hn_cache_deinit(&alone.cache);
    stack_close(&a);
    stack_close(&b);
    redis_end(&server);
}

int main(int argc, char **argv) { return stack_main(argc, argv); }
