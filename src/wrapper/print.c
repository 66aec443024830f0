/* print.c: the text form of wrapper IR: docs/wrapper-ir.md, section 2. parse.c reads it. */
#include "wrapper/names.h"

#include "ir/layout_text.h"
#include "ir/text.h"
#include "wrapper/launch_text.h"

#include <inttypes.h>

typedef struct printer {
    const hn_wrapper *w;
    hn_strbuf *out;
} printer;

static void put(printer *p, const char *text) { hn_strbuf_puts(p->out, text); }
static void put_number(printer *p, int64_t value) { hn_strbuf_i64(p->out, value); }
static void put_string(printer *p, hn_str text) { hn_text_print_string(text, p->out); }

static void put_expr(printer *p, hn_expr e) {
    if (e) hn_text_print_expr(p->w->sym, e, p->out);
    else put(p, "?"); /* broken IR: only a verifier error will parse it */
}

/* " bytes(4*s0)": in parentheses, because words may follow. */
static void put_field(printer *p, const char *word, hn_expr e) {
    hn_strbuf_printf(p->out, " %s(", word);
    put_expr(p, e);
    put(p, ")");
}

static void put_exprs(printer *p, const hn_expr *list, uint32_t count) {
    put(p, "[");
    for (uint32_t k = 0; k < count; k++) {
        if (k) put(p, ", ");
        put_expr(p, list[k]);
    }
    put(p, "]");
}

static void put_name(printer *p, hn_str name) {
    if (!name.len) return;
    put(p, " name ");
    put_string(p, name);
}

static void put_symbol(printer *p, hn_expr symbol) {
    hn_sym *sym = p->w->sym;
    int64_t lo, hi, divisor = hn_sym_divisor(sym, symbol),
                    hint = hn_sym_hint(sym, symbol, INT64_MIN);
    hn_sym_range(sym, symbol, &lo, &hi);
    put(p, hn_sym_symbol_kind(sym, symbol) == HN_SYMBOL_DATA ? "  symbol data " : "  symbol size ");
    put_expr(p, symbol);
    put(p, " in [");
    if (lo == HN_SYM_MIN) put(p, "none");
    else put_number(p, lo);
    put(p, ", ");
    if (hi == HN_SYM_MAX) put(p, "none");
    else put_number(p, hi);
    put(p, "]");
    if (divisor > 1) put(p, " divisor "), put_number(p, divisor);
    if (hint == hn_sym_hint(sym, symbol, INT64_MAX))
        put(p, " hint "), put_number(p, hint); /* no fallback: it is known */
    put(p, "\n");
}

static void put_guards(printer *p) {
    uint32_t count;
    const hn_guard *guards = hn_sym_guards(p->w->sym, &count);
    for (uint32_t i = 0; i < count; i++) {
        put(p, "  guard ");
        put_expr(p, guards[i].lhs);
        hn_strbuf_printf(p->out, " %s ", hn_wrelation_names[guards[i].relation]);
        put_expr(p, guards[i].rhs);
        put(p, " ");
        put_string(p, hn_str_of(guards[i].reason ? guards[i].reason : ""));
        put(p, "\n");
    }
}

static void put_buffer(printer *p, uint32_t i) {
    const hn_wbuffer *b = &p->w->buffers.items[i];
    hn_strbuf_printf(p->out, "  buffer b%u : ", i);
    if ((uint32_t)b->kind < HN_WBUF_KIND_COUNT) put(p, hn_wbuf_kind_names[b->kind]);
    else put_number(p, b->kind); /* no text parses back from it */
    hn_strbuf_printf(p->out, " %s", hn_dtype_facts(b->dtype)->name);
    hn_text_print_layout(p->w->sym, b->rank, b->sizes, b->strides, p->out);
    hn_text_print_device(b->device, p->out);
    if (b->kind == HN_WBUF_INPUT || b->kind == HN_WBUF_CONSTANT)
        hn_strbuf_printf(p->out, " source %u", b->source);
    if (b->byte_offset) hn_strbuf_printf(p->out, " offset %" PRIu64, b->byte_offset);
    if (b->bytes) put_field(p, "bytes", b->bytes);
    if (b->zeroed && (uint32_t)b->zeroed < HN_WZEROED_COUNT)
        hn_strbuf_printf(p->out, " zeroed %s", hn_wzeroed_names[b->zeroed]);
    put_name(p, b->name);
    put(p, "\n");
}

static void put_kernel(printer *p, uint32_t i) {
    hn_strbuf_printf(p->out, "  kernel k%u : object %u", i, p->w->kernels.items[i].object);
    put_name(p, p->w->kernels.items[i].name);
    put(p, "\n");
}

static void put_tensor(printer *p, hn_dtype dtype, uint32_t rank, const hn_expr *sizes,
                       const hn_expr *strides) {
    put(p, hn_dtype_facts(dtype)->name);
    put_exprs(p, sizes, rank);
    put(p, " strides ");
    put_exprs(p, strides, rank);
}

static void put_scalar(printer *p, const hn_arg *arg) {
    switch (arg->kind) {
    case HN_ARG_INT: put(p, "int("), put_expr(p, arg->as.expr), put(p, ")"); break;
    case HN_ARG_FLOAT: put(p, "float("), hn_text_print_float(arg->as.f, p->out), put(p, ")"); break;
    case HN_ARG_BOOL: put(p, arg->as.b ? "true" : "false"); break;
    case HN_ARG_STRING: put(p, "string "), put_string(p, arg->as.s); break;
    default: put(p, "none"); break;
    }
}

static void put_input(printer *p, uint32_t i) {
    const hn_winput *in = &p->w->inputs.items[i];
    put(p, "  input ");
    put_string(p, in->name);
    if (in->is_donated) put(p, " donated");
    put(p, " : ");
    if (in->is_scalar) put_scalar(p, &in->scalar);
    else put_tensor(p, in->dtype, in->rank, in->sizes, in->strides);
    if (!in->is_scalar && in->buffer) hn_strbuf_printf(p->out, " in b%u", in->buffer);
    put(p, "\n");
}

static void put_output(printer *p, uint32_t i) {
    static const char *const kinds[] = {[HN_WOUTPUT_TENSOR] = "tensor",
                                        [HN_WOUTPUT_MUTATION] = "mutation",
                                        [HN_WOUTPUT_SCALAR] = "scalar"};
    const hn_woutput *o = &p->w->outputs.items[i];
    hn_strbuf_printf(p->out, "  output %s ", kinds[o->kind]);
    put_string(p, o->name);
    if (o->kind == HN_WOUTPUT_MUTATION && o->target_input >= 0)
        put(p, " target "), put_number(p, o->target_input);
    put(p, " : ");
    if (o->kind == HN_WOUTPUT_SCALAR) {
        put_scalar(p, &o->scalar);
    } else {
        put_tensor(p, o->dtype, o->rank, o->sizes, o->strides);
        hn_strbuf_printf(p->out, " in b%u", o->buffer);
    }
    put(p, "\n");
}

static void put_over(printer *p, const hn_woperand *o) {
    const char *before = " over [";
    for (uint32_t bit = 0; bit < 64; bit++) {
        if (!(o->over >> bit & 1)) continue;
        hn_strbuf_printf(p->out, "%s%u", before, o->over_first + bit);
        before = ", ";
    }
    put(p, "]");
}

static void put_origins(printer *p, const hn_line *line) {
    if (line->origin) hn_strbuf_printf(p->out, " origin %u", line->origin);
    if (!line->origin_count) return;
    put(p, " origins [");
    for (uint32_t k = 0; k < line->origin_count; k++)
        hn_strbuf_printf(p->out, k ? ", %u" : "%u", line->origins[k]);
    put(p, "]");
}

static void put_operands(printer *p, const hn_line *line) {
    put(p, "(");
    for (uint32_t k = 0; k < line->operand_count; k++) {
        const hn_woperand *o = &line->operands[k];
        if (k) put(p, ", ");
        if (!o->buffer) {
            put(p, "none");
            continue;
        }
        if (o->written) put(p, "out ");
        hn_strbuf_printf(p->out, "b%u %s", o->buffer, hn_dtype_facts(o->dtype)->name);
        if (o->offset_elems) put_field(p, "at", o->offset_elems);
        if (o->over) put_over(p, o);
    }
    put(p, ")");
}

static void put_extern(printer *p, const hn_line *line) {
    hn_strbuf_printf(p->out, "extern %s", hn_wextern_names[line->extern_kind]);
    if (line->kernel) hn_strbuf_printf(p->out, " or k%u", line->kernel);
}

static void put_call(printer *p, const hn_line *line) {
    const hn_wlaunch launch = hn_line_launch(line, 0, 0);
    if (line->kind == HN_LINE_KERNEL) hn_strbuf_printf(p->out, "call k%u", line->kernel);
    else if (line->kind == HN_LINE_EXTERN) put_extern(p, line);
    else
        put(p, line->kind == HN_LINE_ASSERT   ? "assert"
               : line->kind == HN_LINE_DEFINE ? "define"
                                              : "cond");
    put_operands(p, line);
    hn_launch_print(p->w, &launch, p->out);
    if (line->workspace) hn_strbuf_printf(p->out, " in b%u", line->workspace);
    if (line->kind == HN_LINE_DEFINE) put_field(p, "symbol", line->symbol);
    hn_text_print_device(line->device, p->out);
    hn_variants_print(p->w, line, p->out);
}

static void put_view(printer *p, const hn_line *line) {
    hn_strbuf_printf(p->out, "view b%u of b%u", line->buffer, line->from);
    if (line->buffer < p->w->buffers.count && p->w->buffers.items[line->buffer].offset_elems)
        put_field(p, "at", p->w->buffers.items[line->buffer].offset_elems);
}

static void put_head(printer *p, const hn_line *line) {
    if (!hn_wline_kind_name(line->kind)) {
        hn_strbuf_printf(p->out, "kind %d", (int)line->kind); /* no text parses back from it */
        return;
    }
    switch (line->kind) {
    case HN_LINE_COMMENT: put(p, "comment"); break;
    case HN_LINE_ALLOCATE: hn_strbuf_printf(p->out, "allocate b%u", line->buffer); break;
    case HN_LINE_REUSE:
        hn_strbuf_printf(p->out, "reuse b%u from b%u", line->buffer, line->from);
        break;
    case HN_LINE_FREE: hn_strbuf_printf(p->out, "free b%u", line->buffer); break;
    case HN_LINE_VIEW: put_view(p, line); break;
    case HN_LINE_COPY:
        hn_strbuf_printf(p->out, "copy b%u from b%u", line->buffer, line->from);
        break;
    case HN_LINE_ZERO: hn_strbuf_printf(p->out, "zero b%u", line->buffer); break;
    case HN_LINE_WAIT: hn_strbuf_printf(p->out, "wait %s", hn_device_name(line->device)); break;
    case HN_LINE_KERNEL:
    case HN_LINE_EXTERN:
    case HN_LINE_ASSERT:
    case HN_LINE_DEFINE:
    case HN_LINE_COND: put_call(p, line); break;
    case HN_LINE_LOOP:
        put(p, "loop");
        if (line->rounds) put_field(p, "rounds", line->rounds);
        break;
    }
    put_origins(p, line);
    if (line->text.len) put(p, " text "), put_string(p, line->text);
}

enum { MAX_DEPTH = 64 };

static void put_indent(printer *p, uint32_t depth) {
    for (uint32_t d = 0; d < depth; d++) put(p, "  ");
}

/* What stands between the two bodies of a line: of a loop with rounds the first is left out. */
static void put_middle(printer *p, const hn_line *line) {
    if (line->kind == HN_LINE_COND) {
        put(p, "} else {\n");
        return;
    }
    put(p, "} while ");
    put_operands(p, line);
    put(p, " {\n");
}

/* Lines [first, end). Bodies that reach too far are cut, so that broken IR prints too. */
static void put_lines(printer *p, uint32_t first, uint32_t end, uint32_t depth) {
    for (uint32_t i = first; i < end; i++) {
        const hn_line *line = &p->w->lines.items[i];
        put_indent(p, depth);
        put_head(p, line);
        if (hn_line_has_bodies(line->kind) && depth < MAX_DEPTH) {
            uint64_t middle = (uint64_t)i + 1 + line->then_count,
                     last = middle + line->otherwise_count;
            if (middle > end) middle = end;
            if (last > end) last = end;
            put(p, " {\n");
            put_lines(p, i + 1, (uint32_t)middle, depth + 1);
            if (!line->rounds) put_indent(p, depth), put_middle(p, line);
            put_lines(p, (uint32_t)middle, (uint32_t)last, depth + 1);
            put_indent(p, depth);
            put(p, "}");
            i = (uint32_t)last - 1;
        }
        put(p, "\n");
    }
}

void hn_wrapper_print(const hn_wrapper *w, hn_strbuf *out) {
    printer p = {w, out};
    hn_arena scratch;
    hn_expr *symbols;
    uint32_t symbol_count = 0;
    hn_arena_init(&scratch);
    hn_status status = hn_wrapper_symbols(w, &scratch, &symbols, &symbol_count);
    out->failed |= status != NULL; /* nothing but memory can lack */
    hn_status_free(status);
    put(&p, "wrapper {\n");
    for (uint32_t i = 0; i < symbol_count; i++) put_symbol(&p, symbols[i]);
    hn_arena_deinit(&scratch);
    put_guards(&p);
    for (uint32_t i = 1; i < w->buffers.count; i++) put_buffer(&p, i);
    for (uint32_t i = 1; i < w->kernels.count; i++) put_kernel(&p, i);
    for (uint32_t i = 0; i < w->inputs.count; i++) put_input(&p, i);
    put_lines(&p, 0, w->lines.count, 1);
    for (uint32_t i = 0; i < w->outputs.count; i++) put_output(&p, i);
    put(&p, "}\n");
}
