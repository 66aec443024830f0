/* print.c: the text of a form. It parses back, parse.c. Grammar: docs/kernel-forms.md. */
#include "ir/sop_text.h"
#include "ir/text.h"
#include "kernel/text.h"

#include "kernel/check.h"

const char *const hn_space_names[] = {"argument", "shared", "scratch"};

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

static void put_for(const printer *pr, const hn_form_stmt *stmt) {
    hn_strbuf_puts(pr->out, "for ");
    put_expr(pr, stmt->var);
    hn_strbuf_puts(pr->out, " in [");
    put_expr(pr, stmt->begin);
    hn_strbuf_puts(pr->out, ", ");
    put_expr(pr, stmt->end);
    hn_strbuf_putc(pr->out, ')');
    if (stmt->step != 1) hn_strbuf_printf(pr->out, " step %lld", (long long)stmt->step);
    if (stmt->unroll > 1) hn_strbuf_printf(pr->out, " unroll %u", stmt->unroll);
    hn_expr extent = hn_sym_symbol_extent(pr->f->sym, stmt->var);
    if (extent == stmt->end) return;
    hn_strbuf_puts(pr->out, " extent ");
    put_expr(pr, extent);
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

static void put_step(const printer *pr, const hn_form_stmt *stmt) {
    hn_strbuf_printf(pr->out, "step r%u %%%u", stmt->reg, number_of(pr, stmt->value));
    if (stmt->position) hn_strbuf_printf(pr->out, " at %%%u", number_of(pr, stmt->position));
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
    case HN_FORM_STEP: put_step(pr, stmt); break;
    case HN_FORM_BARRIER: hn_strbuf_puts(pr->out, "barrier"); break;
    case HN_FORM_KIND_COUNT: hn_strbuf_puts(pr->out, "?"); break;
    }
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
        if (stmt->kind == HN_FORM_FOR || stmt->kind == HN_FORM_IF) put_blocks(pr, stmt, depth);
        hn_strbuf_putc(pr->out, '\n');
    }
}

/* --- forms --- */

/* form (group i64 < s0; thread i65 < 256) { */
static void put_header(const printer *pr) {
    hn_strbuf_puts(pr->out, "form (group ");
    put_symbol(pr, pr->f->group);
    hn_strbuf_puts(pr->out, "; thread ");
    put_symbol(pr, pr->f->thread);
    hn_strbuf_puts(pr->out, ") {\n");
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
    hn_strbuf_puts(pr->out, memory->is_written ? " write\n" : "\n");
}

static void put_register(const printer *pr, hn_freg r) {
    const hn_form_register *reg = &pr->f->registers.items[r];
    hn_strbuf_printf(pr->out, "  r%u : %s %s\n", r, hn_op_facts(reg->op)->name,
                     hn_dtype_facts(reg->dtype)->name);
}

static hn_status print(const hn_form *f, hn_arena *scratch, hn_strbuf *out) {
    printer pr = {.f = f, .out = out};
    HN_NEW(scratch, pr.numbers, f->stmts.count);
    put_header(&pr);
    put_cost(&pr);
    for (hn_fmem m = 1; m < f->memories.count; m++) put_memory(&pr, m);
    for (hn_freg r = 1; r < f->registers.count; r++) put_register(&pr, r);
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
