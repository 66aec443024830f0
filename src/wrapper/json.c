/* json.c: wrapper IR as one JSON object, for tools. Expressions are numbers, or strings when they
 * hold symbols; lines of a conditional's bodies are nested lists. Not read back: the text form
 * is. */
#include "wrapper/names.h"

#include "base/compiler.h"
#include "ir/text.h"

#include <inttypes.h>
#include <math.h>

typedef struct printer {
    const hn_wrapper *w;
    hn_strbuf *out;
} printer;

static char last(const printer *p) { return p->out->len ? p->out->ptr[p->out->len - 1] : '{'; }
static void item(printer *p) {
    if (last(p) != '[' && last(p) != '{' && last(p) != ':') hn_strbuf_putc(p->out, ',');
}
static void key(printer *p, const char *name) {
    item(p);
    hn_strbuf_printf(p->out, "\"%s\":", name);
}
static void open(printer *p, char bracket) {
    item(p);
    hn_strbuf_putc(p->out, bracket);
}
static void close(printer *p, char bracket) { hn_strbuf_putc(p->out, bracket); }
static void text(printer *p, const char *name, hn_str value) {
    key(p, name), hn_strbuf_json(p->out, value);
}
static void number(printer *p, const char *name, int64_t value) {
    key(p, name), hn_strbuf_i64(p->out, value);
}
static void truth(printer *p, const char *name, bool value) {
    key(p, name), hn_strbuf_puts(p->out, value ? "true" : "false");
}

static void expr(printer *p, hn_expr e) {
    int64_t value;
    if (!e) {
        hn_strbuf_puts(p->out, "null");
    } else if (hn_sym_is_int(p->w->sym, e, &value)) {
        hn_strbuf_i64(p->out, value);
    } else {
        hn_strbuf_putc(p->out, '"'); /* names of symbols and operators: nothing to escape */
        hn_text_print_expr(p->w->sym, e, p->out);
        hn_strbuf_putc(p->out, '"');
    }
}

static void exprs(printer *p, const char *name, const hn_expr *list, uint32_t count) {
    key(p, name), open(p, '[');
    for (uint32_t k = 0; k < count; k++) item(p), expr(p, list[k]);
    close(p, ']');
}

static void optional(printer *p, const char *name, hn_expr e) {
    if (e) key(p, name), expr(p, e);
}

static void scalar(printer *p, const hn_arg *arg) {
    static const char *const kinds[] = {[HN_ARG_INT] = "int",
                                        [HN_ARG_FLOAT] = "float",
                                        [HN_ARG_BOOL] = "bool",
                                        [HN_ARG_STRING] = "string"};
    const size_t kind = (size_t)arg->kind;
    const bool has_name = kind < HN_COUNT_OF(kinds) && kinds[kind];
    text(p, "value_kind", hn_str_of(has_name ? kinds[kind] : "none"));
    key(p, "value");
    switch (arg->kind) {
    case HN_ARG_INT: expr(p, arg->as.expr); break;
    case HN_ARG_FLOAT:
        if (isfinite(arg->as.f)) hn_text_print_float(arg->as.f, p->out);
        else
            hn_strbuf_puts(p->out, isnan(arg->as.f) ? "\"nan\""
                                   : arg->as.f > 0  ? "\"inf\""
                                                    : "\"-inf\"");
        break;
    case HN_ARG_BOOL: hn_strbuf_puts(p->out, arg->as.b ? "true" : "false"); break;
    case HN_ARG_STRING: hn_strbuf_json(p->out, arg->as.s); break;
    default: hn_strbuf_puts(p->out, "null"); break;
    }
}

static void tensor(printer *p, hn_dtype dtype, uint32_t rank, const hn_expr *sizes,
                   const hn_expr *strides, hn_wbuf buffer) {
    text(p, "dtype", hn_str_of(hn_dtype_facts(dtype)->name));
    exprs(p, "sizes", sizes, rank);
    exprs(p, "strides", strides, rank);
    number(p, "buffer", buffer);
}

static void inputs_and_outputs(printer *p) {
    static const char *const kinds[] = {[HN_WOUTPUT_TENSOR] = "tensor",
                                        [HN_WOUTPUT_MUTATION] = "mutation",
                                        [HN_WOUTPUT_SCALAR] = "scalar"};
    key(p, "inputs"), open(p, '[');
    for (uint32_t i = 0; i < p->w->inputs.count; i++) {
        const hn_winput *in = &p->w->inputs.items[i];
        open(p, '{');
        text(p, "name", in->name);
        if (in->is_scalar) scalar(p, &in->scalar);
        else tensor(p, in->dtype, in->rank, in->sizes, in->strides, in->buffer);
        close(p, '}');
    }
    close(p, ']');
    key(p, "outputs"), open(p, '[');
    for (uint32_t i = 0; i < p->w->outputs.count; i++) {
        const hn_woutput *o = &p->w->outputs.items[i];
        open(p, '{');
        text(p, "kind", hn_str_of(kinds[o->kind]));
        text(p, "name", o->name);
        if (o->kind == HN_WOUTPUT_MUTATION) number(p, "target_input", o->target_input);
        if (o->kind == HN_WOUTPUT_SCALAR) scalar(p, &o->scalar);
        else tensor(p, o->dtype, o->rank, o->sizes, o->strides, o->buffer);
        close(p, '}');
    }
    close(p, ']');
}

static void tables(printer *p) {
    key(p, "buffers"), open(p, '[');
    for (uint32_t i = 1; i < p->w->buffers.count; i++) {
        const hn_wbuffer *b = &p->w->buffers.items[i];
        open(p, '{');
        number(p, "id", i);
        if ((uint32_t)b->kind < HN_WBUF_KIND_COUNT)
            text(p, "kind", hn_str_of(hn_wbuf_kind_names[b->kind]));
        else number(p, "kind", b->kind);
        text(p, "dtype", hn_str_of(hn_dtype_facts(b->dtype)->name));
        exprs(p, "sizes", b->sizes, b->rank);
        exprs(p, "strides", b->strides, b->rank);
        text(p, "device", hn_str_of(hn_device_name(b->device)));
        if (b->kind == HN_WBUF_INPUT || b->kind == HN_WBUF_CONSTANT) number(p, "source", b->source);
        if (b->byte_offset)
            key(p, "byte_offset"), hn_strbuf_printf(p->out, "%" PRIu64, b->byte_offset);
        optional(p, "bytes", b->bytes);
        if (b->kind == HN_WBUF_VIEW) number(p, "root", b->root);
        optional(p, "offset", b->offset_elems);
        if (b->name.len) text(p, "name", b->name);
        close(p, '}');
    }
    close(p, ']');
    key(p, "kernels"), open(p, '[');
    for (uint32_t i = 1; i < p->w->kernels.count; i++) {
        open(p, '{');
        number(p, "id", i);
        text(p, "name", p->w->kernels.items[i].name);
        number(p, "object", p->w->kernels.items[i].object);
        close(p, '}');
    }
    close(p, ']');
}

static void operands(printer *p, const hn_line *line) {
    key(p, "operands"), open(p, '[');
    for (uint32_t k = 0; k < line->operand_count; k++) {
        const hn_woperand *o = &line->operands[k];
        if (!o->buffer) {
            item(p), hn_strbuf_puts(p->out, "null");
            continue;
        }
        open(p, '{');
        number(p, "buffer", o->buffer);
        text(p, "dtype", hn_str_of(hn_dtype_facts(o->dtype)->name));
        optional(p, "offset", o->offset_elems);
        truth(p, "written", o->written);
        if (o->over) key(p, "over"), open(p, '[');
        for (uint32_t bit = 0; bit < 64 && o->over; bit++)
            if (o->over >> bit & 1) item(p), hn_strbuf_i64(p->out, bit);
        if (o->over) close(p, ']');
        close(p, '}');
    }
    close(p, ']');
}

/* The nodes by name. */
static void origins(printer *p, const hn_line *line) {
    key(p, "origins"), open(p, '[');
    for (uint32_t k = 0; k < line->origin_count; k++) {
        const uint32_t origin = hn_wrapper_origin(p->w, line->origins[k]);
        item(p), hn_strbuf_json(p->out, p->w->graph->origins.items[origin].node);
    }
    close(p, ']');
}

static void line_fields(printer *p, const hn_line *line) {
    const char *kind = hn_wline_kind_name(line->kind);
    if (kind) text(p, "kind", hn_str_of(kind));
    else number(p, "kind", line->kind); /* broken IR */
    if (hn_line_is_step(line->kind))
        text(p, "device", hn_str_of(hn_device_name(hn_line_device(p->w, line))));
    if (line->buffer) number(p, "buffer", line->buffer);
    if (line->from) number(p, "from", line->from);
    if (line->kind == HN_LINE_KERNEL)
        number(p, "kernel", line->kernel), number(p, "grain", line->grain);
    if (line->kind == HN_LINE_EXTERN)
        text(p, "operation", hn_str_of(hn_wextern_names[line->extern_kind]));
    if (line->kind == HN_LINE_EXTERN && line->kernel) number(p, "kernel", line->kernel);
    if (line->operand_count) operands(p, line);
    if (line->param_count) exprs(p, "params", line->params, line->param_count);
    optional(p, "extent", line->extent);
    if (line->threads) number(p, "threads", line->threads);
    if (line->shared_bytes) number(p, "shared_bytes", line->shared_bytes);
    optional(p, "scratch_bytes", line->scratch_bytes);
    optional(p, "symbol", line->symbol);
    optional(p, "rounds", line->rounds);
    if (line->origin && p->w->graph && line->origin < p->w->graph->origins.count)
        text(p, "origin", p->w->graph->origins.items[line->origin].node);
    if (line->origin_count && p->w->graph) origins(p, line);
    if (line->text.len) text(p, "text", line->text);
}

enum { MAX_DEPTH = 64 };

static void lines(printer *p, const char *name, uint32_t first, uint32_t end, uint32_t depth) {
    key(p, name), open(p, '[');
    for (uint32_t i = first; i < end; i++) {
        const hn_line *line = &p->w->lines.items[i];
        open(p, '{');
        line_fields(p, line);
        if (hn_line_has_bodies(line->kind) && depth < MAX_DEPTH) {
            const bool is_loop = line->kind == HN_LINE_LOOP;
            uint64_t middle = (uint64_t)i + 1 + line->then_count,
                     after = middle + line->otherwise_count;
            if (middle > end) middle = end;
            if (after > end) after = end;
            if (!line->rounds)
                lines(p, is_loop ? "test" : "then", i + 1, (uint32_t)middle, depth + 1);
            lines(p, is_loop ? "body" : "otherwise", (uint32_t)middle, (uint32_t)after, depth + 1);
            i = (uint32_t)after - 1;
        }
        close(p, '}');
    }
    close(p, ']');
}

void hn_wrapper_print_json(const hn_wrapper *w, hn_strbuf *out) {
    printer p = {w, out};
    hn_strbuf_putc(out, '{');
    inputs_and_outputs(&p);
    tables(&p);
    lines(&p, "lines", 0, w->lines.count, 0);
    hn_strbuf_puts(out, "}\n");
}
