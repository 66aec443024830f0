/* tables.c: which tables are wanted, and rows as text. */
#include "metrics/tables.h"

#include "base/compiler.h"
#include "base/file.h"
#include "base/log.h"
#include "base/nearest.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what there is ---- */

static const hn_metric_column columns[] = {
#define HN_TABLE(id, name, meaning)
#define HN_COLUMN(id, name, type, unit, meaning) {name, HN_COLUMN_##type, unit, meaning},
#include "metrics/tables.def"
#undef HN_TABLE
#undef HN_COLUMN
};

/* How many columns each table has, */
enum {
    COMMON_COUNT = 4 /* of HN_TABLE_COMMON */
#define HN_TABLE(id, name, meaning)              , COUNT_##id = 0
#define HN_COLUMN(id, name, type, unit, meaning) +1
#include "metrics/tables.def"
#undef HN_TABLE
#undef HN_COLUMN
};

/* ... and where they begin: each table behind the one before. */
enum {
#define HN_TABLE(id, name, meaning) FIRST_##id, LAST_##id = FIRST_##id + COUNT_##id - 1,
#define HN_COLUMN(id, name, type, unit, meaning)
#include "metrics/tables.def"
#undef HN_TABLE
#undef HN_COLUMN
};

static const hn_metric_table tables[] = {
#define HN_TABLE(id, name, meaning) {name, meaning, COUNT_##id, columns + FIRST_##id},
#define HN_COLUMN(id, name, type, unit, meaning)
#include "metrics/tables.def"
#undef HN_TABLE
#undef HN_COLUMN
};

uint32_t hn_metric_table_count(void) { return HN_TABLE_COUNT; }

const hn_metric_table *hn_metric_table_get(uint32_t index) {
    return index < HN_TABLE_COUNT ? &tables[index] : NULL;
}

/* ---- which are wanted ---- */

static const char *const suffixes[HN_TABLE_FORMATS] = {".csv", ".jsonl"};

static hn_status refuse(hn_str name) {
    char near[HN_NEAREST_TEXT_BYTES];
    hn_nearest nearest;
    hn_strbuf list;
    hn_strbuf_init(&list);
    hn_nearest_begin(&nearest, name);
    for (uint32_t k = 0; k < HN_TABLE_COUNT; k++) {
        hn_nearest_offer(&nearest, hn_str_of(tables[k].name));
        hn_strbuf_printf(&list, "%s, ", tables[k].name);
    }
    hn_status status = HN_ERROR(
        HN_INVALID_ARGUMENT, "there is no metric table '" HN_STR_FMT "'%s; there are: %sall",
        HN_STR_ARG(name), hn_nearest_text(&nearest, near), hn_strbuf_str(&list).ptr);
    hn_strbuf_deinit(&list);
    return status;
}

/* The format that a name ends with, which is taken off; CSV without one. */
static uint8_t take_format(hn_str *name) {
    for (int f = 0; f < HN_TABLE_FORMATS; f++) {
        const size_t len = strlen(suffixes[f]);
        if (name->len <= len || memcmp(name->ptr + name->len - len, suffixes[f], len) != 0)
            continue;
        name->len -= len;
        return (uint8_t)(1 << f);
    }
    return HN_TABLE_CSV;
}

static hn_status want(hn_tables *t, hn_str name) {
    const hn_str given = name;
    const uint8_t format = take_format(&name);
    const bool all = hn_str_eq(name, HN_STR("all"));
    bool found = false;
    for (uint32_t k = 0; k < HN_TABLE_COUNT; k++) {
        if (!all && !hn_str_eq(name, hn_str_of(tables[k].name))) continue;
        t->wanted[k] |= format;
        found = true;
    }
    return found ? NULL : refuse(given);
}

static hn_status want_all(hn_tables *t, const char *names) {
    for (const char *at = names; at && *at;) {
        const size_t len = strcspn(at, ",");
        if (len) HN_TRY(want(t, (hn_str){at, len}));
        at += len + (at[len] == ',');
    }
    return NULL;
}

hn_status hn_metric_tables_check(const char *names) {
    hn_tables t = {.dir = NULL};
    return want_all(&t, names);
}

hn_status hn_tables_init(hn_tables *t, const char *names, const char *dir) {
    *t = (hn_tables){.dir = dir ? dir : getenv("HENRY_METRIC_DIR")};
    for (uint32_t k = 0; k < HN_TABLE_COUNT; k++)
        for (int f = 0; f < HN_TABLE_FORMATS; f++) hn_strbuf_init(&t->rows[k][f]);
    if (names) return want_all(t, names);
    return hn_status_annotate(want_all(t, getenv("HENRY_METRIC_TABLES")), "HENRY_METRIC_TABLES");
}

void hn_tables_deinit(hn_tables *t) {
    for (uint32_t k = 0; k < HN_TABLE_COUNT; k++)
        for (int f = 0; f < HN_TABLE_FORMATS; f++) hn_strbuf_deinit(&t->rows[k][f]);
}

bool hn_tables_are_wanted(const hn_tables *t) {
    for (uint32_t k = 0; k < HN_TABLE_COUNT; k++)
        if (t->wanted[k]) return true;
    return false;
}

void hn_tables_begin(hn_tables *t, hn_str model, hn_str target) {
    static _Atomic int64_t compilations; /* of this process */
    if (!hn_tables_are_wanted(t)) return;
    const int64_t before = atomic_fetch_add_explicit(&compilations, 1, memory_order_relaxed);
    hn_tables_resume(t, model, target, before + 1);
}

void hn_tables_resume(hn_tables *t, hn_str model, hn_str target, int64_t compilation) {
    t->model = model;
    t->target = target;
    t->compilation = compilation;
}

/* ---- rows ---- */

/* With quotes where a reader of CSV needs them. */
static void put_csv_text(hn_str text, hn_strbuf *out) {
    bool quoted = false;
    for (size_t k = 0; k < text.len; k++) quoted |= strchr(",\"\r\n", text.ptr[k]) != NULL;
    if (!quoted) {
        hn_strbuf_append(out, text.ptr, text.len);
        return;
    }
    hn_strbuf_putc(out, '"');
    for (size_t k = 0; k < text.len; k++) {
        if (text.ptr[k] == '"') hn_strbuf_putc(out, '"');
        hn_strbuf_putc(out, text.ptr[k]);
    }
    hn_strbuf_putc(out, '"');
}

/* As short as it can be read back. Neither format has a number that is not finite. */
static void put_float(double value, hn_strbuf *out) {
    char text[40];
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    hn_strbuf_puts(out, text);
}

static bool is_empty(const hn_cell *cell) {
    return cell->kind == HN_CELL_NONE || (cell->kind == HN_CELL_FLOAT && !isfinite(cell->f));
}

static void put_number(const hn_cell *cell, hn_strbuf *out) {
    if (cell->kind == HN_CELL_INT) hn_strbuf_i64(out, cell->i);
    else if (cell->kind == HN_CELL_FLOAT) put_float(cell->f, out);
    else hn_strbuf_puts(out, cell->i ? "true" : "false");
}

static void put_csv(const hn_cell *cells, uint32_t count, hn_strbuf *out) {
    for (uint32_t k = 0; k < count; k++) {
        if (k) hn_strbuf_putc(out, ',');
        if (is_empty(&cells[k])) continue;
        if (cells[k].kind == HN_CELL_TEXT) put_csv_text(cells[k].text, out);
        else put_number(&cells[k], out);
    }
    hn_strbuf_putc(out, '\n');
}

static void put_jsonl(const hn_metric_table *table, const hn_cell *cells, hn_strbuf *out) {
    hn_strbuf_putc(out, '{');
    for (uint32_t k = 0; k < table->column_count; k++) {
        hn_strbuf_printf(out, "%s\"%s\":", k ? "," : "", table->columns[k].name);
        if (is_empty(&cells[k])) hn_strbuf_puts(out, "null");
        else if (cells[k].kind == HN_CELL_TEXT) hn_strbuf_json(out, cells[k].text);
        else put_number(&cells[k], out);
    }
    hn_strbuf_puts(out, "}\n");
}

static hn_status check_row(const hn_metric_table *table, const hn_cell *cells, uint32_t count) {
    static const hn_cell_kind kinds[] = {[HN_COLUMN_TEXT] = HN_CELL_TEXT,
                                         [HN_COLUMN_INT] = HN_CELL_INT,
                                         [HN_COLUMN_FLOAT] = HN_CELL_FLOAT,
                                         [HN_COLUMN_BOOL] = HN_CELL_BOOL};
    if (count != table->column_count)
        return HN_ERROR(HN_INTERNAL, "a row of metric table '%s' has %u cells of %u", table->name,
                        count, table->column_count);
    for (uint32_t k = 0; k < count; k++)
        if (cells[k].kind != HN_CELL_NONE && cells[k].kind != kinds[table->columns[k].type])
            return HN_ERROR(HN_INTERNAL, "column '%s' of metric table '%s' has another type",
                            table->columns[k].name, table->name);
    return NULL;
}

hn_status hn_tables_add(hn_tables *t, hn_table_id id, const hn_cell *cells, uint32_t count) {
    enum { CELLS_MAX = 64 };
    hn_cell row[CELLS_MAX] = {hn_cell_text(t->model), hn_cell_int(getpid()),
                              hn_cell_int(t->compilation), hn_cell_text(t->target)};
    if (!hn_tables_wants(t, id)) return NULL;
    if (COMMON_COUNT + count > CELLS_MAX)
        return HN_ERROR(HN_INTERNAL, "a row of metric table '%s' is too long", tables[id].name);
    memcpy(row + COMMON_COUNT, cells, count * sizeof *cells);
    HN_TRY(check_row(&tables[id], row, COMMON_COUNT + count));
    if (t->wanted[id] & HN_TABLE_CSV) put_csv(row, COMMON_COUNT + count, &t->rows[id][0]);
    if (t->wanted[id] & HN_TABLE_JSONL) put_jsonl(&tables[id], row, &t->rows[id][1]);
    return NULL;
}

/* ---- files ---- */

void hn_table_path(const char *dir, hn_table_id id, uint8_t format, hn_strbuf *out) {
    if (dir && *dir) hn_strbuf_printf(out, "%s%s", dir, dir[strlen(dir) - 1] == '/' ? "" : "/");
    hn_strbuf_printf(out, "metric_table_%s%s", tables[id].name,
                     suffixes[format == HN_TABLE_CSV ? 0 : 1]);
}

static void put_header(hn_table_id id, hn_strbuf *out) {
    for (uint32_t k = 0; k < tables[id].column_count; k++)
        hn_strbuf_printf(out, "%s%s", k ? "," : "", tables[id].columns[k].name);
    hn_strbuf_putc(out, '\n');
}

static _Atomic bool have_written; /* of this process */

bool hn_tables_have_written(void) {
    return atomic_load_explicit(&have_written, memory_order_relaxed);
}

/* The first file; the others lie beside it. */
static void say_once(const char *path) {
    if (!atomic_exchange_explicit(&have_written, true, memory_order_relaxed))
        hn_log("metrics", HN_LOG_INFO, "rows of metric tables go to '%s' and its like", path);
}

static hn_status write_one(hn_tables *t, hn_table_id id, int format) {
    hn_strbuf *rows = &t->rows[id][format], path, header;
    if (!rows->len) return NULL;
    hn_strbuf_init(&path);
    hn_strbuf_init(&header);
    hn_table_path(t->dir, id, (uint8_t)(1 << format), &path);
    if (format == 0) put_header(id, &header);
    hn_status status = hn_strbuf_status(rows);
    if (!status) status = hn_strbuf_status(&path);
    if (!status) status = hn_strbuf_status(&header);
    if (!status) status = hn_table_append(path.ptr, hn_strbuf_str(&header), hn_strbuf_str(rows));
    if (!status) say_once(path.ptr);
    hn_strbuf_deinit(&path);
    hn_strbuf_deinit(&header);
    hn_strbuf_reset(rows);
    return status;
}

hn_status hn_tables_write(hn_tables *t) {
    if (!hn_tables_are_wanted(t)) return NULL;
    if (t->dir && *t->dir) HN_TRY(hn_dir_create_public(t->dir));
    for (uint32_t k = 0; k < HN_TABLE_COUNT; k++)
        for (int f = 0; f < HN_TABLE_FORMATS; f++)
            if (t->wanted[k]) HN_TRY(write_one(t, (hn_table_id)k, f));
    return NULL;
}
