/* source_variants.c: of emitted C, which variant of a call runs: a number beside those of the
 * sizes. It is looked up when the sizes are known that the table looks at, by comparisons with its
 * bounds. */
#include "wrapper/names.h"
#include "wrapper/source_impl.h"

#define PUTS(...) hn_strbuf_printf(p->out, __VA_ARGS__)

uint32_t hn_source_pick_count(const hn_wrapper *w) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < w->lines.count; k++) count += w->lines.items[k].variant_count > 0;
    return count;
}

/* An undefined size is in no range. */
static void put_box(source_printer *p, const hn_sym_choice *c, const hn_choice_box *box) {
    const char *before = "";
    for (uint32_t d = 0; d < c->head.axis_count; d++) {
        PUTS("%s", before);
        hn_source_number(p, c->axes[d]);
        hn_strbuf_puts(p->out, box->lo[d] == INT64_MIN ? " != " : " >= ");
        hn_source_int(p->out, box->lo[d]);
        before = " && ";
        if (box->hi[d] == INT64_MAX) continue;
        hn_strbuf_puts(p->out, before);
        hn_source_number(p, c->axes[d]);
        hn_strbuf_puts(p->out, " <= ");
        hn_source_int(p->out, box->hi[d]);
    }
}

static void put_table(source_printer *p, const hn_sym_choice *c, uint32_t number) {
    for (uint32_t k = 0; k < c->head.box_count; k++) {
        hn_source_indent(p);
        PUTS("%sif (", k ? "else " : "");
        put_box(p, c, &c->boxes[k]);
        PUTS(") n[%u] = %u;\n", number, c->boxes[k].variant);
    }
    hn_source_indent(p);
    PUTS("%sn[%u] = %u;\n", c->head.box_count ? "else " : "", number, c->head.fallback);
}

static void put_line(source_printer *p, const hn_line *line, uint32_t number) {
    const uint32_t targets = line->device == HN_DEVICE_CPU ? 1 : p->w->target_count;
    const hn_str name = line->kind == HN_LINE_EXTERN
                            ? hn_str_of(hn_wextern_names[line->extern_kind])
                            : p->w->kernels.items[line->kernel].name;
    hn_source_indent(p);
    PUTS("/* the form of " HN_STR_FMT, HN_STR_ARG(name));
    for (uint32_t v = 0; v < hn_line_variants(line); v++) {
        PUTS("%s %u ", v ? "," : ":", v);
        hn_source_comment(p->out, hn_line_launch(line, v, 0).form);
    }
    hn_strbuf_puts(p->out, " */\n");
    for (uint32_t t = 0; t < targets; t++) {
        if (targets > 1) hn_source_indent(p), PUTS("if (device_target(m) == %u) {\n", t);
        p->depth += targets > 1;
        put_table(p, &line->choices[t], number);
        p->depth -= targets > 1;
        if (targets > 1) hn_source_indent(p), hn_strbuf_puts(p->out, "}\n");
    }
}

static uint32_t stage_of(const source_printer *p, const hn_line *line) {
    uint32_t stage = 0;
    for (uint32_t t = 0; t < p->w->target_count; t++)
        for (uint32_t d = 0; d < line->choices[t].head.axis_count; d++) {
            const uint32_t own =
                p->stages[hn_wnumbering_node(p->numbering, line->choices[t].axes[d])];
            if (own > stage) stage = own;
        }
    return stage;
}

void hn_source_picks(source_printer *p, uint32_t stage) {
    uint32_t number = p->first_pick;
    p->depth++;
    for (uint32_t k = 0; k < p->w->lines.count; k++) {
        const hn_line *line = &p->w->lines.items[k];
        if (!line->variant_count) continue;
        if (stage_of(p, line) == stage) put_line(p, line, number);
        number++;
    }
    p->depth--;
}

void hn_source_variant_begin(source_printer *p, const hn_line *line, uint32_t variant) {
    if (!line->variant_count) return;
    hn_source_indent(p);
    if (variant) hn_strbuf_puts(p->out, "} else ");
    if (variant + 1 < hn_line_variants(line))
        PUTS("if (n[%u] == %u) ", p->first_pick + p->next_pick, variant);
    PUTS("{ /* ");
    hn_source_comment(p->out, hn_line_launch(line, variant, 0).form);
    hn_strbuf_puts(p->out, " */\n");
    p->depth++;
}

void hn_source_variant_end(source_printer *p, const hn_line *line, uint32_t variant) {
    if (!line->variant_count) return;
    p->depth--;
    if (variant + 1 < hn_line_variants(line)) return;
    hn_source_indent(p);
    hn_strbuf_puts(p->out, "}\n");
    p->next_pick++;
}
