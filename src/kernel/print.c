/* print.c: the text of a form. It parses back, parse.c. Grammar: docs/kernel-forms.md. */
#include "ir/sop_text.h"
#include "ir/text.h"
#include "kernel/text.h"

#include "kernel/check.h"

#include <inttypes.h>
#include <stddef.h>

const char *const hn_space_names[] = {"argument", "shared", "scratch", "private", "staged"};

const char *const hn_rest_names[] = {[HN_FORM_REST_NONE] = "",
                                     [HN_FORM_REST_MASKED] = "masked",
                                     [HN_FORM_REST_OVERLAPPING] = "overlapping",
                                     [HN_FORM_REST_MASKED_STEP] = "masked_step"};

const hn_attribute hn_attributes[HN_ATTRIBUTE_COUNT] = {
    {"rounded", HN_FORM_VALUE, offsetof(hn_form_stmt, rounded)},
    {"not_positive", HN_FORM_VALUE, offsetof(hn_form_stmt, not_positive)},
    {"quiet", HN_FORM_VALUE, offsetof(hn_form_stmt, quiet)},
    {"streams", HN_FORM_STORE, offsetof(hn_form_stmt, streams)},
    {"aligned", HN_FORM_STORE, offsetof(hn_form_stmt, is_aligned)},
    {"in_order", HN_FORM_STORE, offsetof(hn_form_stmt, in_order)},
    {"apart", HN_FORM_STORE, offsetof(hn_form_stmt, is_apart)},
    {"atomic", HN_FORM_STORE, offsetof(hn_form_stmt, is_atomic)},
};

typedef struct printer {
    const hn_form *f;
    hn_strbuf *out;
    hn_fid *numbers; /* per statement: its place in the text, from 1; 0: not printed yet */
    uint32_t count;  /* of statements that are printed */
} printer;

static void put_expr(const printer *pr, hn_expr e) { hn_text_print_expr(pr->f->sym, e, pr->out); }

/* "i66 < s0" */
static void put_symbol(const printer *pr, hn_expr symbol) {
    put_expr(pr, symbol);
    hn_strbuf_puts(pr->out, " < ");
    put_expr(pr, hn_sym_symbol_extent(pr->f->sym, symbol));
}

static void put_indent(const printer *pr, uint32_t depth) {
    for (uint32_t k = 0; k < depth; k++) hn_strbuf_puts(pr->out, "  ");
}

/* Of a statement that a verified form refers to: it is printed before. */
static hn_fid number_of(const printer *pr, hn_fid s) {
    return s < pr->f->stmts.count ? pr->numbers[s] : s;
}

/* --- statements --- */

/* "i66 in [0, s0)" */
static void put_interval(const printer *pr, const hn_form_stmt *stmt) {
    put_expr(pr, stmt->var);
    hn_strbuf_puts(pr->out, " in [");
    put_expr(pr, stmt->begin);
    hn_strbuf_puts(pr->out, ", ");
    put_expr(pr, stmt->end);
    hn_strbuf_putc(pr->out, ')');
}

static void put_unroll(const printer *pr, const hn_form_stmt *stmt) {
    if (stmt->unroll > 1) hn_strbuf_printf(pr->out, " unroll %u", stmt->unroll);
}

static void put_extent(const printer *pr, const hn_form_stmt *stmt) {
    hn_expr extent = hn_sym_symbol_extent(pr->f->sym, stmt->var);
    if (extent == stmt->end) return;
    hn_strbuf_puts(pr->out, " extent ");
    put_expr(pr, extent);
}

static void put_for(const printer *pr, const hn_form_stmt *stmt) {
    hn_strbuf_puts(pr->out, "for ");
    put_interval(pr, stmt);
    if (stmt->step != 1) hn_strbuf_printf(pr->out, " step %" PRId64, stmt->step);
    put_unroll(pr, stmt);
    put_extent(pr, stmt);
}

static void put_lanes(const printer *pr, const hn_form_stmt *stmt) {
    const hn_form_lanes *lanes = &stmt->lanes;
    bool known = (uint32_t)lanes->rest <= HN_FORM_REST_MASKED_STEP;
    hn_strbuf_puts(pr->out, "lanes ");
    put_interval(pr, stmt);
    put_unroll(pr, stmt);
    hn_strbuf_puts(pr->out, lanes->whole ? " whole" : "");
    hn_strbuf_puts(pr->out, lanes->single ? " single" : "");
    if (lanes->rest) hn_strbuf_printf(pr->out, " %s", known ? hn_rest_names[lanes->rest] : "?");
    put_extent(pr, stmt);
}

static void put_if(const printer *pr, const hn_form_stmt *stmt) {
    hn_strbuf_puts(pr->out, "if ");
    put_expr(pr, stmt->begin);
    hn_strbuf_puts(pr->out, " < ");
    put_expr(pr, stmt->end);
}

static void put_let(const printer *pr, const hn_form_stmt *stmt) {
    hn_strbuf_puts(pr->out, "let ");
    put_symbol(pr, stmt->var);
    hn_strbuf_puts(pr->out, " = ");
    put_expr(pr, stmt->begin);
}

static void put_value(const printer *pr, hn_fid s, hn_sop op) {
    for (uint32_t a = 0; a < 3; a++) op.args[a] = op.args[a] ? number_of(pr, op.args[a]) : 0;
    hn_strbuf_printf(pr->out, "%%%u = ", pr->numbers[s]);
    hn_sop_print(pr->f->sym, 'm', &op, pr->out);
}

static void put_store(const printer *pr, const hn_form_stmt *stmt) {
    const hn_loop_store store = {.buffer = stmt->memory,
                                 .index = stmt->index,
                                 .mode = stmt->mode,
                                 .value = number_of(pr, stmt->value)};
    hn_sop_print_store(pr->f->sym, 'm', &store, pr->out);
}

/* STEP and SET */
static void put_step(const printer *pr, const char *word, const hn_form_stmt *stmt) {
    hn_strbuf_printf(pr->out, "%s r%u %%%u", word, stmt->reg, number_of(pr, stmt->value));
    if (stmt->position) hn_strbuf_printf(pr->out, " at %%%u", number_of(pr, stmt->position));
}

/* Of lanes nothing. */
static void put_row(const printer *pr, const hn_form_stmt *stmt) {
    if (stmt->width) hn_strbuf_printf(pr->out, " width %u", stmt->width);
    if (stmt->pitch > 1) hn_strbuf_printf(pr->out, " pitch %u", stmt->pitch);
}

static void put_across(const printer *pr, const hn_form_stmt *stmt) {
    hn_strbuf_printf(pr->out, "across r%u", stmt->reg);
    put_row(pr, stmt);
}

static void put_access(const printer *pr, hn_fmem m, hn_expr index) {
    hn_sop_print_access(pr->f->sym, 'm', m, index, pr->out);
}

static void put_move(const printer *pr, const hn_form_stmt *stmt) {
    hn_strbuf_puts(pr->out, "move ");
    put_access(pr, stmt->memory, stmt->index);
    hn_strbuf_puts(pr->out, " = ");
    put_access(pr, stmt->from, stmt->from_index);
    hn_strbuf_printf(pr->out, " count %u", stmt->count);
}

static void put_prefetch(const printer *pr, const hn_form_stmt *stmt) {
    hn_strbuf_puts(pr->out, "prefetch ");
    put_access(pr, stmt->memory, stmt->index);
    static const char *const fetches[] = {
        [HN_FETCH_READ] = "", [HN_FETCH_WRITE] = " write", [HN_FETCH_FAR] = " far"};
    hn_strbuf_puts(pr->out, fetches[stmt->fetch]);
    if (stmt->every != 1) hn_strbuf_printf(pr->out, " every %u", stmt->every);
}

static void put_transpose(const printer *pr, const hn_form_stmt *stmt) {
    const hn_form_transpose *t = stmt->transpose;
    hn_strbuf_puts(pr->out, "transpose ");
    put_access(pr, stmt->memory, stmt->index);
    if (!t) return;
    hn_strbuf_printf(pr->out, " pitch %" PRId64 " = ", t->pitch);
    put_access(pr, t->from, t->from_index);
    hn_strbuf_puts(pr->out, " stride ");
    put_expr(pr, t->stride);
    hn_strbuf_puts(pr->out, ", rows ");
    put_expr(pr, t->rows);
    hn_strbuf_puts(pr->out, ", columns ");
    put_expr(pr, t->columns);
}

static void put_attributes(const printer *pr, const hn_form_stmt *stmt) {
    for (uint32_t k = 0; k < HN_ATTRIBUTE_COUNT; k++) {
        const hn_attribute *a = &hn_attributes[k];
        if (a->kind == stmt->kind && *(const bool *)((const char *)stmt + a->offset))
            hn_strbuf_printf(pr->out, " %s", a->name);
    }
}

static void put_stmt(const printer *pr, hn_fid s) {
    const hn_form_stmt *stmt = &pr->f->stmts.items[s];
    switch (stmt->kind) {
    case HN_FORM_FOR: put_for(pr, stmt); break;
    case HN_FORM_IF: put_if(pr, stmt); break;
    case HN_FORM_LET: put_let(pr, stmt); break;
    case HN_FORM_VALUE: put_value(pr, s, stmt->op); break;
    case HN_FORM_STORE: put_store(pr, stmt); break;
    case HN_FORM_INIT: hn_strbuf_printf(pr->out, "init r%u", stmt->reg); break;
    case HN_FORM_STEP: put_step(pr, "step", stmt); break;
    case HN_FORM_BARRIER: hn_strbuf_puts(pr->out, "barrier"); break;
    case HN_FORM_SET: put_step(pr, "set", stmt); break;
    case HN_FORM_BLOCK: hn_strbuf_puts(pr->out, "block"); break;
    case HN_FORM_LANES: put_lanes(pr, stmt); break;
    case HN_FORM_VECTOR: hn_strbuf_puts(pr->out, "vector"); break;
    case HN_FORM_ACROSS: put_across(pr, stmt); break;
    case HN_FORM_PREFETCH: put_prefetch(pr, stmt); break;
    case HN_FORM_BEFORE:
        hn_strbuf_printf(pr->out, "before r%u all r%u", stmt->reg, stmt->all);
        put_row(pr, stmt);
        break;
    case HN_FORM_MOVE: put_move(pr, stmt); break;
    case HN_FORM_AWAIT: hn_strbuf_printf(pr->out, "await %u", stmt->count); break;
    case HN_FORM_TRANSPOSE: put_transpose(pr, stmt); break;
    case HN_FORM_IF_ALIGNED: hn_strbuf_printf(pr->out, "if aligned m%u", stmt->memory); break;
    case HN_FORM_KIND_COUNT: hn_strbuf_puts(pr->out, "?"); break;
    }
    put_attributes(pr, stmt);
}

static void put_block(printer *pr, hn_fid first, uint32_t depth);

/* { body } else { otherwise } */
static void put_blocks(printer *pr, const hn_form_stmt *stmt, uint32_t depth) {
    hn_strbuf_puts(pr->out, " {\n");
    put_block(pr, stmt->body, depth + 1);
    put_indent(pr, depth);
    hn_strbuf_putc(pr->out, '}');
    if (!stmt->otherwise) return;
    hn_strbuf_puts(pr->out, " else {\n");
    put_block(pr, stmt->otherwise, depth + 1);
    put_indent(pr, depth);
    hn_strbuf_putc(pr->out, '}');
}

/* A form that does not verify is printed, too, as far as it is a tree. */
static bool is_next(const printer *pr, hn_fid s, uint32_t depth) {
    return s && s < pr->f->stmts.count && !pr->numbers[s] && depth <= HN_FORM_DEPTH_MOST + 1;
}

static void put_block(printer *pr, hn_fid first, uint32_t depth) {
    for (hn_fid s = first; is_next(pr, s, depth); s = pr->f->stmts.items[s].next) {
        const hn_form_stmt *stmt = &pr->f->stmts.items[s];
        pr->numbers[s] = ++pr->count;
        put_indent(pr, depth);
        put_stmt(pr, s);
        if (hn_form_kind_opens(stmt->kind)) put_blocks(pr, stmt, depth);
        hn_strbuf_putc(pr->out, '\n');
    }
}

/* --- forms --- */

/* range i64 to i65 of s0; lanes 8; grain 5) { */
static void put_range(const printer *pr) {
    hn_strbuf_puts(pr->out, "range ");
    put_expr(pr, pr->f->first);
    hn_strbuf_puts(pr->out, " to ");
    put_expr(pr, pr->f->until);
    hn_strbuf_puts(pr->out, " of ");
    put_expr(pr, pr->f->grid);
    hn_strbuf_printf(pr->out, "; lanes %u; grain %" PRId64 ") {\n", pr->f->lanes, pr->f->grain);
}

/* group i64 < s0; thread i65 < 256; blocks 2; narrow) { */
static void put_groups(const printer *pr) {
    hn_strbuf_puts(pr->out, "group ");
    put_symbol(pr, pr->f->group);
    hn_strbuf_puts(pr->out, "; thread ");
    put_symbol(pr, pr->f->thread);
    if (pr->f->blocks != 1) hn_strbuf_printf(pr->out, "; blocks %u", pr->f->blocks);
    if (pr->f->resident) hn_strbuf_printf(pr->out, "; resident %u", pr->f->resident);
    hn_strbuf_puts(pr->out, pr->f->is_narrow ? "; narrow) {\n" : ") {\n");
}

static void put_cost(const printer *pr) {
    const hn_form_cost *cost = &pr->f->cost;
    if (!cost->bytes && !cost->operations && !cost->ns) return;
    hn_strbuf_puts(pr->out, "  cost ");
    hn_text_print_float(cost->bytes, pr->out);
    hn_strbuf_puts(pr->out, " bytes ");
    hn_text_print_float(cost->operations, pr->out);
    hn_strbuf_puts(pr->out, " operations ");
    hn_text_print_float(cost->ns, pr->out);
    hn_strbuf_puts(pr->out, " ns\n");
}

/* b1[s0], or b1 from its beginning */
static void put_buffer(const printer *pr, const hn_form_memory *memory) {
    if (memory->base) hn_sop_print_access(pr->f->sym, 'b', memory->buffer, memory->base, pr->out);
    else hn_strbuf_printf(pr->out, "b%u", memory->buffer);
}

/* " over m1, m3" */
static void put_aliases(const printer *pr, uint64_t may_alias) {
    const char *between = " over ";
    for (hn_fmem m = 1, k = 0; m < pr->f->memories.count && k < HN_FORM_ALIASES_MAX; m++) {
        if (pr->f->memories.items[m].space != HN_SPACE_ARGUMENT) continue;
        if (may_alias >> k++ & 1) {
            hn_strbuf_printf(pr->out, "%sm%u", between, m);
            between = ", ";
        }
    }
}

static void put_memory(const printer *pr, hn_fmem m) {
    const hn_form_memory *memory = &pr->f->memories.items[m];
    const char *dtype = hn_dtype_facts(memory->dtype)->name;
    bool known = (uint32_t)memory->space < HN_SPACE_COUNT;
    hn_strbuf_printf(pr->out, "  m%u : %s ", m, known ? hn_space_names[memory->space] : "?");
    if (memory->space == HN_SPACE_ARGUMENT) {
        put_buffer(pr, memory);
        hn_strbuf_printf(pr->out, " %s", dtype);
    } else {
        hn_strbuf_printf(pr->out, "%s[", dtype);
        put_expr(pr, memory->elems);
        hn_strbuf_putc(pr->out, ']');
    }
    hn_strbuf_puts(pr->out, memory->is_read ? " read" : "");
    hn_strbuf_puts(pr->out, memory->is_written ? " write" : "");
    hn_strbuf_puts(pr->out, memory->stale ? " stale" : "");
    hn_strbuf_puts(pr->out, memory->padded ? " padded" : "");
    put_aliases(pr, memory->may_alias);
    hn_strbuf_putc(pr->out, '\n');
}

static void put_register(const printer *pr, hn_freg r) {
    const hn_form_register *reg = &pr->f->registers.items[r];
    hn_strbuf_printf(pr->out, "  r%u : %s %s%s%s\n", r, hn_op_facts(reg->op)->name,
                     hn_dtype_facts(reg->dtype)->name, reg->across ? " across" : "",
                     reg->loses_nan ? " loses_nan" : "");
}

static hn_status print(const hn_form *f, hn_arena *scratch, hn_strbuf *out) {
    printer pr = {.f = f, .out = out};
    HN_NEW(scratch, pr.numbers, f->stmts.count);
    hn_strbuf_puts(out, "form (");
    hn_form_print_length(f, out);
    if (f->lanes) put_range(&pr);
    else put_groups(&pr);
    put_cost(&pr);
    for (hn_fmem m = 1; m < f->memories.count; m++) put_memory(&pr, m);
    for (hn_freg r = 1; r < f->registers.count; r++) put_register(&pr, r);
    hn_form_print_segments(f, out);
    put_block(&pr, f->body, 1);
    hn_strbuf_puts(out, "}\n");
    return NULL;
}

void hn_form_print(const hn_form *f, hn_strbuf *out) {
    hn_arena scratch;
    hn_arena_init(&scratch);
    hn_status status = print(f, &scratch, out);
    if (status) out->failed = true; /* only memory can fail here, and the buffer reports that */
    hn_status_free(status);
    hn_arena_deinit(&scratch);
}
