/* tables.h: metric tables: which are wanted, rows that a compilation collects, and the files that
 * they go to. henry/metrics.h and docs/metrics.md say what the tables are. */
#ifndef HN_METRICS_TABLES_H
#define HN_METRICS_TABLES_H

#include "base/str.h"
#include "henry/metrics.h"

typedef enum hn_table_id {
#define HN_TABLE(id, name, meaning) HN_TABLE_##id,
#define HN_COLUMN(id, name, type, unit, meaning)
#include "metrics/tables.def"
#undef HN_TABLE
#undef HN_COLUMN
    HN_TABLE_COUNT
} hn_table_id;

/* A field of a row. */
typedef enum hn_cell_kind {
    HN_CELL_NONE, /* not known: empty, null */
    HN_CELL_TEXT,
    HN_CELL_INT,
    HN_CELL_FLOAT,
    HN_CELL_BOOL
} hn_cell_kind;

typedef struct hn_cell {
    hn_cell_kind kind;
    hn_str text;
    int64_t i; /* of INT and BOOL */
    double f;
} hn_cell;

static inline hn_cell hn_cell_none(void) { return (hn_cell){.kind = HN_CELL_NONE}; }
static inline hn_cell hn_cell_text(hn_str text) { return (hn_cell){HN_CELL_TEXT, .text = text}; }
static inline hn_cell hn_cell_int(int64_t i) { return (hn_cell){HN_CELL_INT, .i = i}; }
static inline hn_cell hn_cell_float(double f) { return (hn_cell){HN_CELL_FLOAT, .f = f}; }
static inline hn_cell hn_cell_bool(bool b) { return (hn_cell){HN_CELL_BOOL, .i = b}; }

/* How tables are written: bits. */
enum { HN_TABLE_CSV = 1, HN_TABLE_JSONL = 2, HN_TABLE_FORMATS = 2 };

/* The tables of one compilation. All zeros: none is wanted. */
typedef struct hn_tables {
    uint8_t wanted[HN_TABLE_COUNT]; /* formats */
    const char *dir;                /* borrowed; NULL: the current folder */
    hn_str model, target;           /* of rows that are added; borrowed */
    int64_t compilation;
    hn_strbuf rows[HN_TABLE_COUNT][HN_TABLE_FORMATS];
} hn_tables;

/* `names` NULL: HENRY_METRIC_TABLES; `dir` NULL: HENRY_METRIC_DIR, else the current folder. Both
 * are borrowed. Errors: invalid-argument, with a list, for names that no table has. */
hn_status hn_tables_init(hn_tables *t, const char *names, const char *dir) HN_MUST_USE;
void hn_tables_deinit(hn_tables *t);
/* A new program begins: its rows get a number of their own. */
void hn_tables_begin(hn_tables *t, hn_str model, hn_str target);
/* More rows of a program whose first ones were added elsewhere. */
void hn_tables_resume(hn_tables *t, hn_str model, hn_str target, int64_t compilation);
static inline bool hn_tables_wants(const hn_tables *t, hn_table_id id) { return t->wanted[id]; }
bool hn_tables_are_wanted(const hn_tables *t);
/* A row: the table's own columns, in order. Nothing is done with a table that is not wanted.
 * Errors: internal for a row that does not have the table's columns. */
hn_status hn_tables_add(hn_tables *t, hn_table_id id, const hn_cell *cells,
                        uint32_t count) HN_MUST_USE;
/* Appends the rows to their files, and forgets them. Several processes may do so at once: rows stay
 * whole, and a new file has one header. Says under the area "metrics", once for each process, where
 * they go. Errors: io; invalid-argument for a file that has other columns. */
hn_status hn_tables_write(hn_tables *t) HN_MUST_USE;
/* Whether this process has written rows of any table. */
bool hn_tables_have_written(void);
/* "DIR/metric_table_NAME.csv" */
void hn_table_path(const char *dir, hn_table_id id, uint8_t format, hn_strbuf *out);

/* tables_file.c: `rows` behind what is in the file, and `header` in front of a new one. */
hn_status hn_table_append(const char *path, hn_str header, hn_str rows) HN_MUST_USE;

#endif
