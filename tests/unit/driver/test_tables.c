/* test_tables.c: the rows that a compilation adds to each metric table. */
#include "base/file.h"
#include "driver/driver.h"
#include "unit/harness.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define GRAPH(inputs, nodes) "graph @g {\n" inputs nodes "}\n"

/* Softmax, a product, and a reduction that cannot join: two kernels, one call, a refused fusion, a
 * temporary. */
static const char program[] =
    GRAPH("  input user %x : f32[64, 1000] \"x\"\n  input user %w : f32[1000, 48] \"w\"\n",
          "  %y = aten._softmax.default(%x, -1, false) : f32[64, 1000] at \"soft\" \"m.py:7\"\n"
          "  %z = aten.mm.default(%y, %w) : f32[64, 48] at \"mm\" \"m.py:8\"\n"
          "  %s = aten.cumsum.default(%z, 1) : f32[64, 48] at \"sum\" \"m.py:9\"\n"
          "  %t = aten.sum.dim_IntList(%s, [0]) : f32[48] at \"columns\" \"m.py:10\"\n"
          "  output user %s \"s\"\n  output user %t \"t\"\n");
static const char copy[] = GRAPH("  input user %x : f32[8] \"x\"\n",
                                 "  %y = aten.relu.default(%x) : f32[8]\n  output user %y \"y\"\n");

typedef struct fixture {
    char dir[PATH_MAX];
    hn_strbuf text;
} fixture;

static void compile(fixture *f, const char *text, const char *names) {
    hn_arena arena;
    hn_sym *sym;
    hn_graph *graph = NULL;
    hn_service *service = NULL;
    hn_compiled *c = NULL;
    const hn_compile_options options = {
        .threads = 2, .target = "x86-64-v3", .metric_tables = names, .metric_dir = f->dir};
    hn_arena_init(&arena);
    hn_strbuf_init(&f->text);
    EXPECT_OK(hn_dir_temp(f->dir, sizeof f->dir));
    EXPECT_OK(hn_service_create(&(hn_service_options){.cache_dir = ""}, &service));
    EXPECT_OK(hn_sym_create(&arena, &sym));
    EXPECT_OK(hn_graph_parse(&arena, sym, hn_str_of(text), &graph));
    EXPECT_OK(hn_compile_graph(graph, service, &options, &c));
    hn_compiled_release(c);
    hn_graph_deinit(graph);
    hn_service_destroy(service);
    hn_arena_deinit(&arena);
}

static void teardown(fixture *f) {
    hn_strbuf_deinit(&f->text);
    EXPECT_OK(hn_dir_remove(f->dir));
}

/* The rows of a table, as JSON lines; "" where there are none. */
static const char *rows_of(fixture *f, const char *table) {
    char path[PATH_MAX + 80];
    snprintf(path, sizeof path, "%s/metric_table_%s.jsonl", f->dir, table);
    hn_strbuf_reset(&f->text);
    if (!hn_file_exists(path)) return "";
    EXPECT_OK(hn_file_read(path, &f->text));
    return hn_strbuf_str(&f->text).ptr;
}

static uint32_t count(const char *text, const char *part) {
    uint32_t found = 0;
    for (const char *at = text; (at = strstr(at, part)); at++) found++;
    return found;
}

static void expect(fixture *f, const char *table, const char *const *parts) {
    const char *rows = rows_of(f, table);
    for (; *parts; parts++)
        if (!strstr(rows, *parts)) HN_TEST_FAIL("no '%s' in %s:\n%s", *parts, table, rows);
}

TEST(each_table_has_the_rows_of_a_program) {
    fixture f;
    compile(&f, program, "all.jsonl");
    expect(&f, "graph_stats",
           (const char *const[]){"\"model\":\"g\"", "\"target\":\"x86-64-v3\"",
                                 "\"nodes_imported\":4,", "\"calls\":1,",
                                 "\"call_operations\":6144000,", "\"call_bytes\":460288,",
                                 "\"num_nodes_after_fusion\":4,", "\"kernels\":3,", NULL});
    EXPECT_INT(count(rows_of(&f, "graph_stats"), "\n"), 1);
    expect(&f, "kernel_metadata",
           (const char *const[]){
               "\"kernel_category\":\"reduction\",\"form\":\"rows",
               "\"size_hints\":\"64 1000\",\"sizes\":\"64 1000\",\"xnumel\":64,\"rnumel\":1000,",
               "\"kernel_args_num_gb\":0.000512,\"read_bytes\":256000,\"written_bytes\":256000,",
               "\"vectorized\":true", "\"registers\":null", "\"origins\":\"soft\"",
               "\"kernel_name\":\"matmul\",\"kernel_category\":\"call\",\"form\":null",
               "\"operations\":6144000,\"predicted_ns\":null", NULL});
    EXPECT_INT(count(rows_of(&f, "kernel_metadata"), "\n"), 4);
    expect(&f, "fusions_refused",
           (const char *const[]){"\"node2_name\":\"columns\"", "\"failure_reason\":\"",
                                 "\"explanation\":\"", "\"saved_bytes\":", NULL});
    expect(
        &f, "pass_stats",
        (const char *const[]){
            "\"kind\":\"pass\",\"name\":\"functionalize\",\"number\":0,\"ns\":", "\"name\":\"dce\"",
            "\"kind\":\"phase\",\"name\":\"sched\"", "\"nodes_before\":4,", NULL});
    expect(&f, "memory_plan",
           (const char *const[]){
               "\"kind\":\"temp\",\"dtype\":\"f32\",\"device\":\"cpu\",\"space\":\"workspace\"",
               "\"bytes\":256000", "\"first_line\":", NULL});
    EXPECT_STR(rows_of(&f, "kernel_autotune"), "");
    teardown(&f);
}

/* Rows, too few for slabs, then columns of the result. */
static const char crosswise[] =
    GRAPH("  input user %x : f32[200, 1280] \"x\"\n",
          "  %s = aten._softmax.default(%x, -1, false) : f32[200, 1280] at \"along\" \"m.py:1\"\n"
          "  %t = aten._softmax.default(%s, 0, false) : f32[200, 1280] at \"down\" \"m.py:2\"\n"
          "  output user %s \"s\"\n  output user %t \"t\"\n");

TEST(loops_that_do_not_line_up_are_told) {
    fixture f;
    compile(&f, crosswise, "fusion_failure_due_to_indexing_mismatch.jsonl");
    expect(&f, "fusion_failure_due_to_indexing_mismatch",
           (const char *const[]){"\"node1_name\":\"along\",\"node2_name\":\"down\"",
                                 "\"common_buffer_names\":\"s\",\"failure_reason\":\"spaces\"",
                                 "\"saved_bytes\":1024000,\"mismatch\":\"reduced\","
                                 "\"mismatch_explanation\":\"other dims are reduced",
                                 NULL});
    teardown(&f);
}

/* A loop that is kept out for another reason walks what both touch in no other way. */
TEST(a_refusal_that_is_not_about_indices_has_no_mismatch) {
    fixture f;
    compile(&f,
            GRAPH("  input user %x : f32[64, 1000] \"x\"\n",
                  "  %s = aten.cumsum.default(%x, 1) : f32[64, 1000] at \"scan\" \"m.py:1\"\n"
                  "  %t = aten.sum.dim_IntList(%s, [0]) : f32[1000] at \"columns\" \"m.py:2\"\n"
                  "  output user %s \"s\"\n  output user %t \"t\"\n"),
            "all.jsonl");
    expect(&f, "fusions_refused",
           (const char *const[]){"\"failure_reason\":\"alone\"",
                                 "\"mismatch\":null,\"mismatch_explanation\":null}", NULL});
    EXPECT_STR(rows_of(&f, "fusion_failure_due_to_indexing_mismatch"), "");
    teardown(&f);
}

TEST(tables_have_no_rows_of_what_a_program_has_not) {
    fixture f;
    compile(&f, copy, "all.jsonl");
    EXPECT_INT(
        count(rows_of(&f, "graph_stats"), "\"calls\":0,\"fusions_refused\":0,\"saved_bytes\":0,"),
        1);
    EXPECT_INT(count(rows_of(&f, "kernel_metadata"), "\n"), 1);
    EXPECT_STR(rows_of(&f, "fusions_refused"), "");
    EXPECT_STR(rows_of(&f, "fusion_failure_due_to_indexing_mismatch"), "");
    EXPECT_STR(rows_of(&f, "memory_plan"), "");
    teardown(&f);
}

TEST(only_the_tables_that_are_named_are_written) {
    fixture f;
    compile(&f, program, "graph_stats.jsonl");
    EXPECT_INT(count(rows_of(&f, "graph_stats"), "\n"), 1);
    EXPECT_STR(rows_of(&f, "kernel_metadata"), "");
    teardown(&f);
    compile(&f, program, "");
    EXPECT_STR(rows_of(&f, "graph_stats"), "");
    teardown(&f);
}

/* ---- every column ---- */

/* Indices from data: on a GPU threads meet there. */
static const char scatter[] =
    GRAPH("  input user %x : f32[4096] \"x\"\n  input user %i : i64[1000] \"i\"\n"
          "  input user %v : f32[1000] \"v\"\n",
          "  %y = aten.scatter_add.default(%x, 0, %i, %v) : f32[4096] at \"add\" \"m.py:1\"\n"
          "  output user %y \"y\"\n");

/* Tiles, which threads write in one order and read in another one. */
static const char transposed[] =
    GRAPH("  input user %x : f32[1024, 2048] \"x\"\n  input user %z : f32[2048, 1024] \"z\"\n",
          "  %t = aten.t.default(%x) : f32[2048, 1024]\n"
          "  %y = aten.add.Tensor(%t, %z) : f32[2048, 1024]\n  output user %y \"y\"\n");

/* Without a compiler: everything but what it tells. */
static hn_status plan(hn_driver *d) {
    hn_memory_plan memory;
    uint32_t units;
    HN_TRY(hn_driver_targets(d));
    HN_TRY(hn_driver_tables_open(d));
    d->stats = (hn_compile_stats){.nodes_imported = 4, .import_ns = 1, .opt_ns = 1};
    HN_TRY(hn_driver_passes(d));
    HN_TRY(hn_driver_kernels(d));
    HN_TRY(hn_driver_count(d));
    HN_TRY(hn_driver_pack(d, &units));
    HN_TRY(hn_driver_wrapper(d, &d->wrapper));
    HN_TRY(hn_driver_plan(d, d->wrapper, &memory));
    return hn_driver_tables_end(d, NULL);
}

static void plan_for(fixture *f, const char *text, const char *target) {
    hn_arena arena;
    hn_driver d;
    const hn_compile_options options = {
        .threads = 8, .target = target, .metric_tables = "all.jsonl", .metric_dir = f->dir};
    hn_arena_init(&arena);
    hn_driver_init(&d, &options, NULL);
    EXPECT_OK(hn_sym_create(&arena, &d.sym));
    EXPECT_OK(hn_graph_parse(&arena, d.sym, hn_str_of(text), &d.graph));
    EXPECT_OK(plan(&d));
    hn_driver_deinit(&d);
    hn_graph_deinit(d.graph);
    hn_arena_deinit(&arena);
}

/* Whether some row has a value there that is not 0, false or "". */
static bool has_value(const char *rows, const char *column) {
    char key[80];
    snprintf(key, sizeof key, "\"%s\":", column);
    for (const char *at = rows; (at = strstr(at, key)); at++) {
        const char *value = at + strlen(key);
        const bool none = strncmp(value, "null", 4) == 0 || strncmp(value, "false", 5) == 0 ||
                          strncmp(value, "\"\"", 2) == 0 || strncmp(value, "0,", 2) == 0 ||
                          strncmp(value, "0}", 2) == 0;
        if (!none) return true;
    }
    return false;
}

/* By hand. 64 rows of 1,000 and a common row are loaded, added and stored in vectors of 8: a loop
 * over rows, and one in a row. Of the scatter the target is copied; then 1,000 places and numbers
 * are loaded and added to what is there, at most 1,000 elements. */
TEST(numbers_of_a_kernel_are_those_of_its_loops) {
    static const char rows_and_a_row[] =
        GRAPH("  input user %x : f32[64, 1000] \"x\"\n  input user %w : f32[1000] \"w\"\n",
              "  %y = aten.add.Tensor(%x, %w) : f32[64, 1000] at \"y\" \"m.py:1\"\n"
              "  output user %y \"y\"\n");
    fixture f;
    hn_strbuf_init(&f.text);
    EXPECT_OK(hn_dir_temp(f.dir, sizeof f.dir));
    plan_for(&f, rows_and_a_row, "x86-64-v3");
    plan_for(&f, scatter, "sm_90a");
    expect(&f, "kernel_metadata",
           (const char *const[]){
               "\"xnumel\":64,\"rnumel\":1000,\"num_load\":2,\"num_store\":1,\"num_for_loop\":2,"
               "\"num_atomic_add\":0,\"num_args\":3,\"num_reduction\":0,\"num_barrier\":0,"
               "\"fused_loops\":1,\"phases\":1,\"local_buffers\":0,\"lanes\":8,\"threads\":1,"
               "\"vectorized\":true,\"kernel_args_num_gb\":0.000516,\"read_bytes\":260000,"
               "\"written_bytes\":256000,\"is_bound\":false,",
               "\"operations\":64000,",
               "\"xnumel\":1,\"rnumel\":4096,\"num_load\":1,\"num_store\":1,",
               "\"read_bytes\":16384,\"written_bytes\":16384,\"is_bound\":false,",
               "\"kernel_category\":\"scatter\",",
               "\"xnumel\":1,\"rnumel\":1000,\"num_load\":2,\"num_store\":1,\"num_for_loop\":0,"
               "\"num_atomic_add\":1,\"num_args\":3,",
               "\"read_bytes\":16000,\"written_bytes\":4000,\"is_bound\":true,", NULL});
    teardown(&f);
}

TEST(every_column_has_a_value_somewhere) {
    static const hn_table_id ids[] = {HN_TABLE_GRAPH_STATS,     HN_TABLE_KERNEL_METADATA,
                                      HN_TABLE_FUSIONS_REFUSED, HN_TABLE_INDEXING_MISMATCH,
                                      HN_TABLE_PASS_STATS,      HN_TABLE_MEMORY_PLAN};
    /* what the compiler of machine code tells: tests/cuda */
    static const char apart[] = " registers stack_bytes shared_bytes ";
    fixture f;
    hn_strbuf_init(&f.text);
    EXPECT_OK(hn_dir_temp(f.dir, sizeof f.dir));
    plan_for(&f, program, "x86-64-v3");
    plan_for(&f, crosswise, "x86-64-v3");
    plan_for(&f, program, "sm_90a");
    plan_for(&f, scatter, "sm_90a");
    plan_for(&f, transposed, "sm_90a");
    for (size_t k = 0; k < HN_COUNT_OF(ids); k++) {
        const hn_metric_table *t = hn_metric_table_get(ids[k]);
        const char *rows = rows_of(&f, t->name);
        for (uint32_t c = 0; c < t->column_count; c++) {
            char word[80];
            snprintf(word, sizeof word, " %s ", t->columns[c].name);
            if (!strstr(apart, word) && !has_value(rows, t->columns[c].name))
                HN_TEST_FAIL("no row of '%s' has a value for '%s'", t->name, t->columns[c].name);
        }
    }
    teardown(&f);
}

TEST_MAIN
