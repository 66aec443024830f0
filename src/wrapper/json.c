/* json.c: wrapper IR as one JSON object, for tools. Expressions are numbers, or strings when they
 * hold symbols; lines of a conditional's bodies are nested lists. Not read back: the text form
 * is. */
#include "wrapper/json_words.h"
#include "wrapper/names.h"

#include "base/compiler.h"
#include "ir/text.h"

#include <inttypes.h>
#include <math.h>

typedef struct printer {
    const hn_wrapper *w;
    hn_json_out json;
    hn_strbuf *out; /* that of `json` */
} printer;

static void scalar(printer *p, const hn_arg *arg) {
    static const char *const kinds[] = {[HN_ARG_INT] = "int",
                                        [HN_ARG_FLOAT] = "float",
                                        [HN_ARG_BOOL] = "bool",
                                        [HN_ARG_STRING] = "string"};
    const size_t kind = (size_t)arg->kind;
    const bool has_name = kind < HN_COUNT_OF(kinds) && kinds[kind];
    hn_json_put_text(&p->json, "value_kind", hn_str_of(has_name ? kinds[kind] : "none"));
    hn_json_put_key(&p->json, "value");
    switch (arg->kind) {
    case HN_ARG_INT: hn_json_put_expr(&p->json, arg->as.expr); break;
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
    hn_json_put_text(&p->json, "dtype", hn_str_of(hn_dtype_facts(dtype)->name));
    hn_json_put_exprs(&p->json, "sizes", sizes, rank);
    hn_json_put_exprs(&p->json, "strides", strides, rank);
    hn_json_put_number(&p->json, "buffer", buffer);
}

static void inputs_and_outputs(printer *p) {
    static const char *const kinds[] = {[HN_WOUTPUT_TENSOR] = "tensor",
                                        [HN_WOUTPUT_MUTATION] = "mutation",
                                        [HN_WOUTPUT_SCALAR] = "scalar"};
    hn_json_put_key(&p->json, "inputs"), hn_json_put_open(&p->json, '[');
    for (uint32_t i = 0; i < p->w->inputs.count; i++) {
        const hn_winput *in = &p->w->inputs.items[i];
        hn_json_put_open(&p->json, '{');
        hn_json_put_text(&p->json, "name", in->name);
        if (in->is_donated) hn_json_put_truth(&p->json, "donated", true);
        if (in->is_scalar) scalar(p, &in->scalar);
        else tensor(p, in->dtype, in->rank, in->sizes, in->strides, in->buffer);
        hn_json_put_close(&p->json, '}');
    }
    hn_json_put_close(&p->json, ']');
    hn_json_put_key(&p->json, "outputs"), hn_json_put_open(&p->json, '[');
    for (uint32_t i = 0; i < p->w->outputs.count; i++) {
        const hn_woutput *o = &p->w->outputs.items[i];
        hn_json_put_open(&p->json, '{');
        hn_json_put_text(&p->json, "kind", hn_str_of(kinds[o->kind]));
        hn_json_put_text(&p->json, "name", o->name);
        if (o->kind == HN_WOUTPUT_MUTATION)
            hn_json_put_number(&p->json, "target_input", o->target_input);
        if (o->kind == HN_WOUTPUT_SCALAR) scalar(p, &o->scalar);
        else tensor(p, o->dtype, o->rank, o->sizes, o->strides, o->buffer);
        hn_json_put_close(&p->json, '}');
    }
    hn_json_put_close(&p->json, ']');
}

/* Of the second target, then of the next. */
static void other_functions(printer *p, const hn_wkernel_info *kernel) {
    if (!kernel->others) return;
    hn_json_put_key(&p->json, "others"), hn_json_put_open(&p->json, '[');
    for (uint32_t t = 1; t < p->w->target_count; t++) {
        hn_json_put_open(&p->json, '{');
        hn_json_put_text(&p->json, "name", kernel->others[t - 1].name);
        hn_json_put_number(&p->json, "object", kernel->others[t - 1].object);
        hn_json_put_close(&p->json, '}');
    }
    hn_json_put_close(&p->json, ']');
}

static void tables(printer *p) {
    hn_json_put_key(&p->json, "buffers"), hn_json_put_open(&p->json, '[');
    for (uint32_t i = 1; i < p->w->buffers.count; i++) {
        const hn_wbuffer *b = &p->w->buffers.items[i];
        hn_json_put_open(&p->json, '{');
        hn_json_put_number(&p->json, "id", i);
        if ((uint32_t)b->kind < HN_WBUF_KIND_COUNT)
            hn_json_put_text(&p->json, "kind", hn_str_of(hn_wbuf_kind_names[b->kind]));
        else hn_json_put_number(&p->json, "kind", b->kind);
        hn_json_put_text(&p->json, "dtype", hn_str_of(hn_dtype_facts(b->dtype)->name));
        hn_json_put_exprs(&p->json, "sizes", b->sizes, b->rank);
        hn_json_put_exprs(&p->json, "strides", b->strides, b->rank);
        hn_json_put_text(&p->json, "device", hn_str_of(hn_device_name(b->device)));
        if (b->kind == HN_WBUF_INPUT || b->kind == HN_WBUF_CONSTANT)
            hn_json_put_number(&p->json, "source", b->source);
        if (b->byte_offset)
            hn_json_put_key(&p->json, "byte_offset"),
                hn_strbuf_printf(p->out, "%" PRIu64, b->byte_offset);
        hn_json_put_optional(&p->json, "bytes", b->bytes);
        if (b->kind == HN_WBUF_WORKSPACE && (uint32_t)b->zeroed < HN_WZEROED_COUNT)
            hn_json_put_text(&p->json, "zeroed", hn_str_of(hn_wzeroed_names[b->zeroed]));
        if (b->kind == HN_WBUF_VIEW) hn_json_put_number(&p->json, "root", b->root);
        hn_json_put_optional(&p->json, "offset", b->offset_elems);
        if (b->name.len) hn_json_put_text(&p->json, "name", b->name);
        hn_json_put_close(&p->json, '}');
    }
    hn_json_put_close(&p->json, ']');
    hn_json_put_key(&p->json, "kernels"), hn_json_put_open(&p->json, '[');
    for (uint32_t i = 1; i < p->w->kernels.count; i++) {
        hn_json_put_open(&p->json, '{');
        hn_json_put_number(&p->json, "id", i);
        hn_json_put_text(&p->json, "name", p->w->kernels.items[i].name);
        hn_json_put_number(&p->json, "object", p->w->kernels.items[i].object);
        other_functions(p, &p->w->kernels.items[i]);
        hn_json_put_close(&p->json, '}');
    }
    hn_json_put_close(&p->json, ']');
}

static void operands(printer *p, const hn_line *line) {
    hn_json_put_key(&p->json, "operands"), hn_json_put_open(&p->json, '[');
    for (uint32_t k = 0; k < line->operand_count; k++) {
        const hn_woperand *o = &line->operands[k];
        if (!o->buffer) {
            hn_json_put_item(&p->json), hn_strbuf_puts(p->out, "null");
            continue;
        }
        hn_json_put_open(&p->json, '{');
        hn_json_put_number(&p->json, "buffer", o->buffer);
        hn_json_put_text(&p->json, "dtype", hn_str_of(hn_dtype_facts(o->dtype)->name));
        hn_json_put_optional(&p->json, "offset", o->offset_elems);
        hn_json_put_truth(&p->json, "written", o->written);
        if (o->over) hn_json_put_key(&p->json, "over"), hn_json_put_open(&p->json, '[');
        for (uint32_t bit = 0; bit < 64 && o->over; bit++)
            if (o->over >> bit & 1)
                hn_json_put_item(&p->json), hn_strbuf_i64(p->out, o->over_first + bit);
        if (o->over) hn_json_put_close(&p->json, ']');
        hn_json_put_close(&p->json, '}');
    }
    hn_json_put_close(&p->json, ']');
}

/* The nodes by name. */
static void origins(printer *p, const hn_line *line) {
    hn_json_put_key(&p->json, "origins"), hn_json_put_open(&p->json, '[');
    for (uint32_t k = 0; k < line->origin_count; k++) {
        const uint32_t origin = hn_wrapper_origin(p->w, line->origins[k]);
        hn_json_put_item(&p->json), hn_strbuf_json(p->out, p->w->graph->origins.items[origin].node);
    }
    hn_json_put_close(&p->json, ']');
}

static void launch_fields(printer *p, const hn_wlaunch *l) {
    if (l->form.len) hn_json_put_text(&p->json, "form", l->form);
    if (l->order) hn_json_put_key(&p->json, "takes"), hn_json_put_open(&p->json, '[');
    for (uint32_t k = 0; l->order && k < l->arg_count; k++)
        hn_json_put_item(&p->json), hn_strbuf_i64(p->out, l->order[k]);
    if (l->order) hn_json_put_close(&p->json, ']');
    if (l->param_count) hn_json_put_exprs(&p->json, "params", l->params, l->param_count);
    hn_json_put_optional(&p->json, "extent", l->extent);
    if (l->threads) hn_json_put_number(&p->json, "threads", l->threads);
    if (l->shared_bytes) hn_json_put_number(&p->json, "shared_bytes", l->shared_bytes);
    hn_json_put_optional(&p->json, "scratch_bytes", l->scratch_bytes);
}

static void bound(printer *p, int64_t value, int64_t none) {
    hn_json_put_item(&p->json);
    if (value == none) hn_strbuf_puts(p->out, "null");
    else hn_strbuf_i64(p->out, value);
}

/* The table: "ranges" do not overlap; for all other sizes there is "otherwise". */
static void choice(printer *p, const hn_sym_choice *c) {
    hn_json_put_key(&p->json, "choose"), hn_json_put_open(&p->json, '{');
    hn_json_put_exprs(&p->json, "sizes", c->axes, c->head.axis_count);
    hn_json_put_number(&p->json, "otherwise", c->head.fallback);
    hn_json_put_key(&p->json, "ranges"), hn_json_put_open(&p->json, '[');
    for (uint32_t k = 0; k < c->head.box_count; k++) {
        hn_json_put_open(&p->json, '{');
        hn_json_put_number(&p->json, "variant", c->boxes[k].variant);
        hn_json_put_key(&p->json, "in"), hn_json_put_open(&p->json, '[');
        for (uint32_t d = 0; d < c->head.axis_count; d++) {
            hn_json_put_open(&p->json, '[');
            bound(p, c->boxes[k].lo[d], INT64_MIN), bound(p, c->boxes[k].hi[d], INT64_MAX);
            hn_json_put_close(&p->json, ']');
        }
        hn_json_put_close(&p->json, ']'), hn_json_put_close(&p->json, '}');
    }
    hn_json_put_close(&p->json, ']'), hn_json_put_close(&p->json, '}');
}

/* How a target calls the line's functions. */
static void calls(printer *p, const hn_line *line, uint32_t target) {
    const hn_wlaunch launch = hn_line_launch(line, 0, target);
    launch_fields(p, &launch);
    if (!line->choices) return;
    hn_json_put_key(&p->json, "variants"), hn_json_put_open(&p->json, '[');
    for (uint32_t v = 1; v < hn_line_variants(line); v++) {
        const hn_wlaunch l = hn_line_launch(line, v, target);
        hn_json_put_open(&p->json, '{');
        if (line->kind == HN_LINE_KERNEL)
            hn_json_put_number(&p->json, "kernel", hn_line_kernel(line, v)),
                hn_json_put_number(&p->json, "grain", l.grain);
        launch_fields(p, &l);
        hn_json_put_close(&p->json, '}');
    }
    hn_json_put_close(&p->json, ']');
    choice(p, &line->choices[target]);
}

/* For the second target, then for the next. */
static void other_calls(printer *p, const hn_line *line) {
    if (p->w->target_count < 2 || (!line->others && !line->choices)) return;
    hn_json_put_key(&p->json, "others"), hn_json_put_open(&p->json, '[');
    for (uint32_t t = 1; t < p->w->target_count; t++) {
        hn_json_put_open(&p->json, '{');
        if (line->kernel) hn_json_put_number(&p->json, "kernel", line->kernel);
        if (line->kind == HN_LINE_KERNEL)
            hn_json_put_number(&p->json, "grain", hn_line_launch(line, 0, t).grain);
        calls(p, line, t);
        hn_json_put_close(&p->json, '}');
    }
    hn_json_put_close(&p->json, ']');
}

static void line_fields(printer *p, const hn_line *line) {
    const char *kind = hn_wline_kind_name(line->kind);
    if (kind) hn_json_put_text(&p->json, "kind", hn_str_of(kind));
    else hn_json_put_number(&p->json, "kind", line->kind); /* broken IR */
    if (hn_line_is_step(line->kind))
        hn_json_put_text(&p->json, "device", hn_str_of(hn_device_name(hn_line_device(p->w, line))));
    if (line->buffer) hn_json_put_number(&p->json, "buffer", line->buffer);
    if (line->from) hn_json_put_number(&p->json, "from", line->from);
    if (line->kind == HN_LINE_KERNEL)
        hn_json_put_number(&p->json, "kernel", line->kernel),
            hn_json_put_number(&p->json, "grain", line->grain);
    if (line->kind == HN_LINE_EXTERN)
        hn_json_put_text(&p->json, "operation", hn_str_of(hn_wextern_names[line->extern_kind]));
    if (line->kind == HN_LINE_EXTERN && line->kernel)
        hn_json_put_number(&p->json, "kernel", line->kernel);
    if (line->operand_count) operands(p, line);
    calls(p, line, 0);
    other_calls(p, line);
    if (line->workspace) hn_json_put_number(&p->json, "workspace", line->workspace);
    hn_json_put_optional(&p->json, "symbol", line->symbol);
    hn_json_put_optional(&p->json, "rounds", line->rounds);
    if (line->origin && p->w->graph && line->origin < p->w->graph->origins.count)
        hn_json_put_text(&p->json, "origin", p->w->graph->origins.items[line->origin].node);
    if (line->origin_count && p->w->graph) origins(p, line);
    if (line->text.len) hn_json_put_text(&p->json, "text", line->text);
}

enum { MAX_DEPTH = 64 };

static void lines(printer *p, const char *name, uint32_t first, uint32_t end, uint32_t depth) {
    hn_json_put_key(&p->json, name), hn_json_put_open(&p->json, '[');
    for (uint32_t i = first; i < end; i++) {
        const hn_line *line = &p->w->lines.items[i];
        hn_json_put_open(&p->json, '{');
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
        hn_json_put_close(&p->json, '}');
    }
    hn_json_put_close(&p->json, ']');
}

void hn_wrapper_print_json(const hn_wrapper *w, hn_strbuf *out) {
    printer p = {w, {w->sym, out}, out};
    hn_strbuf_putc(out, '{');
    inputs_and_outputs(&p);
    tables(&p);
    lines(&p, "lines", 0, w->lines.count, 0);
    hn_strbuf_puts(out, "}\n");
}
