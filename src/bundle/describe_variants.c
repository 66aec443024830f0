/* describe_variants.c: steps with variants, for people and as JSON. */
#include "bundle/internal.h"

#include "base/json_put.h"

/* The texts of a table's sizes and the names of its variants. */
typedef struct names {
    hn_strbuf texts[HN_CHOICE_AXES];
    hn_str axes[HN_CHOICE_AXES], variants[HN_CHOICE_VARIANTS];
} names;

static void names_init(const hn_bundle *b, const hnb_choice *c, names *n) {
    for (uint32_t d = 0; d < HN_CHOICE_AXES; d++) {
        hn_strbuf_init(&n->texts[d]);
        if (d < c->head.axis_count) hn_bundle_expr_print(b, c->axes[d], &n->texts[d]);
        n->axes[d] = hn_strbuf_str(&n->texts[d]);
    }
    for (uint32_t v = 0; v < c->head.variant_count; v++)
        n->variants[v] = hn_bundle_str(b, b->variants[c->variants + v].form);
}

static void names_deinit(names *n) {
    for (uint32_t d = 0; d < HN_CHOICE_AXES; d++) hn_strbuf_deinit(&n->texts[d]);
}

/* "  variant 1 columns kernel k_0123 [s0] extent s0 grain 8", or "  variant 1 gemm pass=512". */
static void text_variant(const hn_bundle *b, const hnb_choice *c, uint32_t v, hn_strbuf *out) {
    const hnb_variant *own = &b->variants[c->variants + v];
    if (!own->kernel) {
        hn_strbuf_printf(out, "  variant %u %s\n", v, hn_bundle_text(b, own->form));
        return;
    }
    const char *symbol = b->targets_count
                             ? hn_bundle_text(b, hn_bundle_code(b, own->kernel, c->target)->symbol)
                             : hn_bundle_text(b, b->kernels[own->kernel].name);
    hn_strbuf_printf(out, "  variant %u %s kernel %s", v, hn_bundle_text(b, own->form), symbol);
    if (b->targets_count > 1)
        hn_strbuf_printf(out, " on %s", hn_bundle_text(b, b->targets[c->target].name));
    hn_bundle_launch_text(b, &b->launches[own->launch], out);
    hn_strbuf_putc(out, '\n');
}

static void text_choice(const hn_bundle *b, const hnb_choice *c, hn_strbuf *out) {
    const char *target = b->targets_count > 1 ? hn_bundle_text(b, b->targets[c->target].name) : "";
    names n;
    hn_strbuf table;
    names_init(b, c, &n);
    hn_strbuf_init(&table);
    hn_choice_print(&c->head, b->boxes + c->boxes, &(hn_choice_names){n.axes, n.variants}, &table);
    const hn_str text = hn_strbuf_str(&table);
    for (size_t at = 0; at < text.len;) {
        const char *end = memchr(text.ptr + at, '\n', text.len - at);
        const size_t len = end ? (size_t)(end - text.ptr) - at : text.len - at;
        hn_strbuf_printf(out, "  %s%s%s " HN_STR_FMT "\n", *target ? "on " : "for", target,
                         *target ? " for" : "", (int)len, text.ptr + at);
        at += len + 1;
    }
    out->failed |= table.failed;
    hn_strbuf_deinit(&table);
    names_deinit(&n);
}

void hn_bundle_variants_text(const hn_bundle *b, uint32_t step, hn_strbuf *out) {
    const uint32_t targets = b->targets_count ? b->targets_count : 1;
    for (uint32_t t = 0; t < targets; t++) {
        const hnb_choice *c = hn_bundle_choice_find(b, step, t);
        for (uint32_t v = 0; c && v < c->head.variant_count; v++) text_variant(b, c, v, out);
        if (c) text_choice(b, c, out);
    }
}

static void json_choice(const hn_bundle *b, const hnb_choice *c, hn_strbuf *out) {
    names n;
    names_init(b, c, &n);
    hn_json_open_put(out, '{');
    hn_json_int_put(out, "step", c->step);
    if (b->targets_count > 1)
        hn_json_text_put(out, "target", hn_bundle_str(b, b->targets[c->target].name));
    hn_json_key_put(out, "variants"), hn_json_open_put(out, '[');
    for (uint32_t v = 0; v < c->head.variant_count; v++) {
        hn_json_open_put(out, '{');
        hn_json_text_put(out, "form", n.variants[v]);
        const uint32_t kernel = b->variants[c->variants + v].kernel;
        if (kernel) hn_json_text_put(out, "kernel", hn_bundle_str(b, b->kernels[kernel].name));
        hn_json_close_put(out, '}');
    }
    hn_json_close_put(out, ']');
    hn_json_key_put(out, "table");
    hn_choice_json(&c->head, b->boxes + c->boxes, &(hn_choice_names){n.axes, n.variants}, out);
    hn_json_close_put(out, '}');
    for (uint32_t d = 0; d < HN_CHOICE_AXES; d++) out->failed |= n.texts[d].failed;
    names_deinit(&n);
}

void hn_bundle_choices_json(const hn_bundle *b, hn_strbuf *out) {
    if (!b->choices_count) return;
    hn_json_key_put(out, "choices"), hn_json_open_put(out, '[');
    for (uint32_t k = 0; k < b->choices_count; k++) json_choice(b, &b->choices[k], out);
    hn_json_close_put(out, ']');
}
