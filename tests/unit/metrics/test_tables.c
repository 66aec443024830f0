/* test_tables.c: names of metric tables, rows as text, and files that several processes write. */
#include "metrics/tables.h"

#include "base/file.h"
#include "unit/harness.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct fixture {
    hn_tables t;
    char dir[PATH_MAX];
    hn_strbuf text; /* of the file that was read last */
} fixture;

static void setup(fixture *f, const char *names) {
    EXPECT_OK(hn_dir_temp(f->dir, sizeof f->dir));
    EXPECT_OK(hn_tables_init(&f->t, names, f->dir));
    hn_strbuf_init(&f->text);
    hn_tables_begin(&f->t, HN_STR("a,\"model\""), HN_STR("cpu"));
}

static void teardown(fixture *f) {
    hn_tables_deinit(&f->t);
    hn_strbuf_deinit(&f->text);
    EXPECT_OK(hn_dir_remove(f->dir));
}

static const char *path_of(const fixture *f, hn_table_id id, uint8_t format) {
    static char path[PATH_MAX + 64];
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_table_path(f->dir, id, format, &text);
    snprintf(path, sizeof path, "%s", text.ptr);
    hn_strbuf_deinit(&text);
    return path;
}

static const char *content(fixture *f, hn_table_id id, uint8_t format) {
    hn_strbuf_reset(&f->text);
    if (!hn_file_exists(path_of(f, id, format))) return "";
    EXPECT_OK(hn_file_read(path_of(f, id, format), &f->text));
    return hn_strbuf_str(&f->text).ptr;
}

static uint32_t lines_of(const char *text) {
    uint32_t lines = 0;
    for (; *text; text++) lines += *text == '\n';
    return lines;
}

/* The columns behind these are empty. */
static hn_status add_variant(hn_tables *t, const char *config, double latency) {
    const hn_cell cells[9] = {hn_cell_text(HN_STR("k")), hn_cell_text(hn_str_of(config)),
                              hn_cell_float(latency)};
    return hn_tables_add(t, HN_TABLE_KERNEL_AUTOTUNE, cells, 9);
}
#define EMPTY_HEAD ",size_hints,latency_low,latency_high,samples,is_pick,is_certain"
#define EMPTY_CSV  ",,,,,,"
#define EMPTY_JSON                                                                                 \
    ",\"size_hints\":null,\"latency_low\":null,\"latency_high\":null,\"samples\":null,"            \
    "\"is_pick\":null,\"is_certain\":null}\n"

/* ---- what there is ---- */

TEST(tables_and_columns_have_names_of_their_own) {
    for (uint32_t k = 0; k < hn_metric_table_count(); k++) {
        const hn_metric_table *t = hn_metric_table_get(k);
        EXPECT(t->name[0] && t->meaning[0] && t->column_count > 4);
        EXPECT_STR(t->columns[0].name, "model");
        for (uint32_t j = 0; j < k; j++) EXPECT(strcmp(t->name, hn_metric_table_get(j)->name) != 0);
        for (uint32_t c = 0; c < t->column_count; c++) {
            EXPECT(t->columns[c].name[0] && t->columns[c].meaning[0] && t->columns[c].unit);
            for (uint32_t j = 0; j < c; j++)
                EXPECT(strcmp(t->columns[c].name, t->columns[j].name) != 0);
        }
    }
    EXPECT(!hn_metric_table_get(hn_metric_table_count()));
    EXPECT_STR(hn_metric_table_get(HN_TABLE_KERNEL_METADATA)->name, "kernel_metadata");
}

TEST(unknown_names_are_refused_with_the_list) {
    EXPECT_OK(hn_metric_tables_check(NULL));
    EXPECT_OK(hn_metric_tables_check(""));
    EXPECT_OK(hn_metric_tables_check("all"));
    EXPECT_OK(hn_metric_tables_check("graph_stats,kernel_metadata.jsonl,pass_stats.csv"));
    EXPECT_ERROR(hn_metric_tables_check("graph_stats,kernel_metdata"), HN_INVALID_ARGUMENT,
                 "there is no metric table 'kernel_metdata'; did you mean 'kernel_metadata'?");
    EXPECT_ERROR(hn_metric_tables_check("x"), HN_INVALID_ARGUMENT,
                 "there are: graph_stats, kernel_metadata, ");
    EXPECT_ERROR(hn_metric_tables_check("graph_stats.xml"), HN_INVALID_ARGUMENT,
                 "no metric table 'graph_stats.xml'");
}

TEST(the_environment_names_tables_where_nothing_else_does) {
    hn_tables t;
    setenv("HENRY_METRIC_TABLES", "memory_plan.jsonl", 1);
    setenv("HENRY_METRIC_DIR", "/somewhere", 1);
    EXPECT_OK(hn_tables_init(&t, NULL, NULL));
    EXPECT(hn_tables_wants(&t, HN_TABLE_MEMORY_PLAN) && hn_tables_are_wanted(&t));
    EXPECT_INT(t.wanted[HN_TABLE_MEMORY_PLAN], HN_TABLE_JSONL);
    EXPECT(!hn_tables_wants(&t, HN_TABLE_GRAPH_STATS));
    EXPECT_STR(t.dir, "/somewhere");
    hn_tables_deinit(&t);
    EXPECT_OK(hn_tables_init(&t, "", "."));
    EXPECT(!hn_tables_are_wanted(&t));
    EXPECT_STR(t.dir, ".");
    hn_tables_deinit(&t);
    setenv("HENRY_METRIC_TABLES", "lunch", 1);
    EXPECT_ERROR(hn_tables_init(&t, NULL, NULL), HN_INVALID_ARGUMENT, "HENRY_METRIC_TABLES: ");
    hn_tables_deinit(&t);
    unsetenv("HENRY_METRIC_TABLES");
    unsetenv("HENRY_METRIC_DIR");
}

/* ---- rows ---- */

TEST(rows_are_csv_and_json_lines) {
    fixture f;
    char want[1000];
    setup(&f, "kernel_autotune,kernel_autotune.jsonl");
    EXPECT_OK(add_variant(&f.t, "say \"x\",\ny", 0.1));
    EXPECT_OK(add_variant(&f.t, "", (double)INFINITY));
    EXPECT_OK(hn_tables_write(&f.t));
    EXPECT_OK(hn_tables_write(&f.t)); /* nothing is left */
    const long id = getpid(), number = (long)f.t.compilation;
    snprintf(want, sizeof want,
             "model,process,compilation,target,kernel_name,config,latency" EMPTY_HEAD "\n"
             "\"a,\"\"model\"\"\",%ld,%ld,cpu,k,\"say \"\"x\"\",\ny\",0.1" EMPTY_CSV "\n"
             "\"a,\"\"model\"\"\",%ld,%ld,cpu,k,," EMPTY_CSV "\n",
             id, number, id, number);
    EXPECT_STR(content(&f, HN_TABLE_KERNEL_AUTOTUNE, HN_TABLE_CSV), want);
    snprintf(
        want, sizeof want,
        "{\"model\":\"a,\\\"model\\\"\",\"process\":%ld,\"compilation\":%ld,\"target\":\"cpu\","
        "\"kernel_name\":\"k\",\"config\":\"say \\\"x\\\",\\ny\",\"latency\":0.1" EMPTY_JSON
        "{\"model\":\"a,\\\"model\\\"\",\"process\":%ld,\"compilation\":%ld,\"target\":\"cpu\","
        "\"kernel_name\":\"k\",\"config\":\"\",\"latency\":null" EMPTY_JSON,
        id, number, id, number);
    EXPECT_STR(content(&f, HN_TABLE_KERNEL_AUTOTUNE, HN_TABLE_JSONL), want);
    teardown(&f);
}

TEST(a_row_has_the_columns_of_its_table) {
    fixture f;
    setup(&f, "kernel_autotune");
    const hn_cell cells[] = {
        hn_cell_text(HN_STR("k")), hn_cell_int(3), hn_cell_float(1), {0}, {0}, {0}, {0}, {0}, {0}};
    EXPECT_ERROR(hn_tables_add(&f.t, HN_TABLE_KERNEL_AUTOTUNE, cells, 9), HN_INTERNAL,
                 "column 'config' of metric table 'kernel_autotune' has another type");
    EXPECT_ERROR(hn_tables_add(&f.t, HN_TABLE_KERNEL_AUTOTUNE, cells, 2), HN_INTERNAL,
                 "has 6 cells of 13");
    EXPECT_OK(hn_tables_add(&f.t, HN_TABLE_SLOW_FUSION, cells, 3)); /* it is not wanted */
    EXPECT_OK(hn_tables_write(&f.t));
    EXPECT_STR(content(&f, HN_TABLE_KERNEL_AUTOTUNE, HN_TABLE_CSV), "");
    EXPECT_STR(content(&f, HN_TABLE_SLOW_FUSION, HN_TABLE_CSV), "");
    teardown(&f);
}

/* Small and large numbers read back as they were. */
TEST(floats_read_back) {
    static const double values[] = {0, 8.192e-06, 1.0 / 3, 2e300, 123456789.123, -0.1};
    fixture f;
    setup(&f, "kernel_autotune");
    for (size_t k = 0; k < sizeof values / sizeof *values; k++)
        EXPECT_OK(add_variant(&f.t, "", values[k]));
    EXPECT_OK(hn_tables_write(&f.t));
    const char *at = strchr(content(&f, HN_TABLE_KERNEL_AUTOTUNE, HN_TABLE_CSV), '\n');
    for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
        const char *end = strchr(at + 1, '\n'), *number = end - strlen(EMPTY_CSV);
        while (number[-1] != ',') number--;
        EXPECT(strtod(number, NULL) == values[k]);
        at = end;
    }
    teardown(&f);
}

/* ---- files ---- */

static void put(const char *path, const char *text) {
    EXPECT_OK(hn_file_write_atomic(path, text, strlen(text), false));
}

static hn_status append(const char *path, const char *header, const char *rows) {
    return hn_table_append(path, hn_str_of(header), hn_str_of(rows));
}

TEST(a_file_has_one_header) {
    fixture f;
    setup(&f, "kernel_autotune");
    const char *path = path_of(&f, HN_TABLE_KERNEL_AUTOTUNE, HN_TABLE_CSV);
    EXPECT_OK(append(path, "a,b\n", "1,2\n"));
    EXPECT_OK(append(path, "a,b\n", "3,4\n5,6\n"));
    EXPECT_STR(content(&f, HN_TABLE_KERNEL_AUTOTUNE, HN_TABLE_CSV), "a,b\n1,2\n3,4\n5,6\n");
    EXPECT_ERROR(append(path, "a,c\n", "7,8\n"), HN_INVALID_ARGUMENT, "has other columns");
    EXPECT_ERROR(append(path, "a,b,c and more than the file has, which is short\n", "7,8\n"),
                 HN_INVALID_ARGUMENT, "has other columns");
    EXPECT_STR(content(&f, HN_TABLE_KERNEL_AUTOTUNE, HN_TABLE_CSV), "a,b\n1,2\n3,4\n5,6\n");
    EXPECT_ERROR(append(f.dir, "a,b\n", "1,2\n"), HN_IO, "cannot open metric table");
    teardown(&f);
}

/* What a process left that was killed while it wrote. */
TEST(a_torn_row_goes) {
    fixture f;
    setup(&f, "kernel_autotune");
    const char *path = path_of(&f, HN_TABLE_KERNEL_AUTOTUNE, HN_TABLE_CSV);
    put(path, "a,b\n1,2\n3");
    EXPECT_OK(append(path, "a,b\n", "5,6\n"));
    EXPECT_STR(content(&f, HN_TABLE_KERNEL_AUTOTUNE, HN_TABLE_CSV), "a,b\n1,2\n5,6\n");
    put(path, "a,");
    EXPECT_OK(append(path, "a,b\n", "5,6\n"));
    EXPECT_STR(content(&f, HN_TABLE_KERNEL_AUTOTUNE, HN_TABLE_CSV), "a,b\n5,6\n");
    put(path, "a,b\na torn row that is longer than what is written");
    EXPECT_OK(append(path, "a,b\n", "5,6\n"));
    EXPECT_STR(content(&f, HN_TABLE_KERNEL_AUTOTUNE, HN_TABLE_CSV), "a,b\n5,6\n");
    teardown(&f);
}

/* A newline in a cell ends no row. */
TEST(a_row_that_is_torn_in_a_cell_of_several_lines_goes) {
    fixture f;
    setup(&f, "kernel_autotune");
    const char *path = path_of(&f, HN_TABLE_KERNEL_AUTOTUNE, HN_TABLE_CSV);
    put(path, "a,b\n1,\"2\n\"\n\"say \"\"x\"\",\n y");
    EXPECT_OK(append(path, "a,b\n", "5,6\n"));
    EXPECT_STR(content(&f, HN_TABLE_KERNEL_AUTOTUNE, HN_TABLE_CSV), "a,b\n1,\"2\n\"\n5,6\n");
    teardown(&f);
}

/* An editor need not write the last newline. */
TEST(a_row_that_lacks_nothing_but_its_newline_stays) {
    static const struct {
        const char *header, *before, *kept;
    } cases[] = {
        {"a,b\n", "a,b\n1,2", "a,b\n1,2\n"},
        {"a,b\n", "a,b\n1,", "a,b\n1,\n"}, /* an empty cell is one */
        {"a,b\n", "a,b\n1,\"x,\n\"\"y\"", "a,b\n1,\"x,\n\"\"y\"\n"},
        {"a,b\n", "a,b\n1,\"2", "a,b\n"},
        {"a,b\n", "a,b\n1,2\n3", "a,b\n1,2\n"},
        {"a,b\n", "a,b\n1,2,3", "a,b\n"},
        {"a,b\n", "a,b", "a,b\n"},
        {"", "{\"a\":1}\n{\"a\":2}", "{\"a\":1}\n{\"a\":2}\n"},
        {"", "{\"a\":1}\n{\"a\":\"}", "{\"a\":1}\n"},
        {"", "{\"a\":1}\n{\"a\":\"\\\"}", "{\"a\":1}\n"},
        {"", "{\"a\":{\"b\":1}", ""},
        {"", "{\"a\":1", ""},
    };
    fixture f;
    setup(&f, "kernel_autotune");
    const char *path = path_of(&f, HN_TABLE_KERNEL_AUTOTUNE, HN_TABLE_CSV);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char want[64];
        put(path, cases[k].before);
        EXPECT_OK(append(path, cases[k].header, "5,6\n"));
        snprintf(want, sizeof want, "%s5,6\n", cases[k].kept);
        EXPECT_STR(content(&f, HN_TABLE_KERNEL_AUTOTUNE, HN_TABLE_CSV), want);
    }
    teardown(&f);
}

/* What ends with a block of the file is taken for torn, even if it has all of its cells: the last
 * one may be a part of a number. */
TEST(a_row_that_ends_with_a_block_goes) {
    fixture f;
    setup(&f, "kernel_autotune");
    const char *path = path_of(&f, HN_TABLE_KERNEL_AUTOTUNE, HN_TABLE_CSV);
    for (int cut = 0; cut < 2; cut++) {
        char text[600] = "a,b\n1,";
        memset(text + 6, '2', (size_t)(506 - cut));
        put(path, text);
        EXPECT_OK(append(path, "a,b\n", "5,6\n"));
        EXPECT_INT(strlen(content(&f, HN_TABLE_KERNEL_AUTOTUNE, HN_TABLE_CSV)),
                   cut ? 512 - 1 + 5 : 4 + 4);
    }
    teardown(&f);
}

TEST(many_processes_write_whole_rows_under_one_header) {
    enum { PROCESSES = 8, ROUNDS = 25, ROWS = 4 };
    fixture f;
    setup(&f, "kernel_autotune,kernel_autotune.jsonl");
    for (int p = 0; p < PROCESSES; p++) {
        if (fork()) continue;
        bool good = true;
        for (int r = 0; r < ROUNDS; r++) {
            for (int k = 0; k < ROWS; k++) {
                hn_status status = add_variant(&f.t, "a row that is whole", p + k);
                good &= !status;
                hn_status_free(status);
            }
            hn_status status = hn_tables_write(&f.t);
            good &= !status;
            hn_status_free(status);
        }
        _exit(!good);
    }
    for (int p = 0; p < PROCESSES; p++) {
        int status = 1;
        EXPECT(wait(&status) > 0 && status == 0);
    }
    const char *text = content(&f, HN_TABLE_KERNEL_AUTOTUNE, HN_TABLE_CSV);
    EXPECT_INT(lines_of(text), 1 + PROCESSES * ROUNDS * ROWS);
    EXPECT(strncmp(text, "model,", 6) == 0 && !strstr(text + 1, "model,process"));
    uint32_t whole = 0;
    for (const char *at = text; (at = strstr(at, ",cpu,k,a row that is whole,")); at++) whole++;
    EXPECT_INT(whole, PROCESSES * ROUNDS * ROWS);
    text = content(&f, HN_TABLE_KERNEL_AUTOTUNE, HN_TABLE_JSONL);
    EXPECT_INT(lines_of(text), PROCESSES * ROUNDS * ROWS);
    for (const char *at = text; *at; at = strchr(at, '\n') + 1) EXPECT(*at == '{');
    teardown(&f);
}

TEST_MAIN
