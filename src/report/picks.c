/* picks.c: what records of tuning say: which forms a kernel has, at which sizes each of them runs,
 * and what was measured there. */
#include "bundle/view.h"
#include "driver/picked.h"
#include "report/internal.h"

#include "base/arena.h"
#include "base/map.h"

#include <string.h>

typedef struct picks_printer {
    const hn_driver *d;
    const hn_driver_level *level;
    hn_strbuf *out;
    hn_strmap seen; /* what records go by: digests of kernels, calls and their sizes */
} picks_printer;

void hn_report_put_form_name(const char *key, const hn_form_name *name, hn_strbuf *out) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_form_name_print(name, &text);
    hn_json_text_put(out, key, hn_strbuf_str(&text));
    out->failed |= text.failed;
    hn_strbuf_deinit(&text);
}

/* ---- records ---- */

static void put_timing(const hn_form_timing *t, bool is_pick, hn_strbuf *out) {
    hn_json_open_put(out, '{');
    hn_report_put_form_name("form", &t->form, out);
    hn_json_bool_put(out, "is_pick", is_pick);
    hn_json_int_put(out, "samples", t->samples);
    if (t->samples) {
        hn_json_float_put(out, "median_ns", t->median_ns);
        hn_json_float_put(out, "low_ns", t->low_ns);
        hn_json_float_put(out, "high_ns", t->high_ns);
    }
    if (t->predicted_ns > 0) hn_json_float_put(out, "predicted_ns", t->predicted_ns);
    if (t->dropped.len) hn_json_text_put(out, "dropped", t->dropped);
    hn_json_close_put(out, '}');
}

static bool is_told(const hn_tuning_record *r, uint32_t form) {
    return r->forms[form].samples || r->forms[form].dropped.len || form == r->pick;
}

static uint32_t untimed_of(const hn_tuning_record *r) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < r->form_count; k++) count += !is_told(r, k);
    return count;
}

static void put_record(const hn_tuning_record *r, hn_strbuf *out) {
    double margin;
    hn_json_open_put(out, '{');
    hn_json_key_put(out, "sizes"), hn_json_open_put(out, '[');
    for (uint32_t k = 0; k < r->size_count; k++) {
        hn_json_open_put(out, '{');
        hn_json_text_put(out, "name", r->symbols[k]);
        hn_json_int_put(out, "value", r->sizes[k]);
        hn_json_close_put(out, '}');
    }
    hn_json_close_put(out, ']');
    hn_json_text_put(out, "how", hn_str_of(hn_tuning_how_name(r->how)));
    hn_json_text_put(out, "tool", r->tool);
    hn_json_bool_put(out, "is_certain", hn_tuning_record_is_certain(r, &margin));
    hn_json_int_put(out, "untimed", untimed_of(r)); /* of which nobody knows more than a name */
    hn_json_key_put(out, "forms"), hn_json_open_put(out, '[');
    for (uint32_t k = 0; k < r->form_count; k++)
        if (is_told(r, k)) put_timing(&r->forms[k], k == r->pick, out);
    hn_json_close_put(out, ']');
    hn_json_close_put(out, '}');
}

/* Levels of one machine are devices of their own: their compilers' flags differ. */
static bool is_of(const picks_printer *p, const hn_tuning_record *r) {
    return hn_str_eq(r->device, p->d->picks->devices[p->level - p->d->levels]);
}

static void put_records(const picks_printer *p, const hn_digest *kernel) {
    const hn_tuning_list *decided = &p->d->picks->decided;
    const hn_tuning_record *r;
    uint32_t at = 0;
    hn_json_key_put(p->out, "records"), hn_json_open_put(p->out, '[');
    while ((r = hn_tuning_list_next(decided, kernel, &at)))
        if (is_of(p, r)) put_record(r, p->out);
    hn_json_close_put(p->out, ']');
}

/* ---- variants ---- */

static void put_variant(const char *name, const hn_kernel_code *code, hn_strbuf *out) {
    hn_json_open_put(out, '{');
    hn_json_text_put(out, "name", hn_str_of(name));
    hn_json_text_put(out, "form", hn_str_of(code->form ? code->form : ""));
    hn_json_close_put(out, '}');
}

/* Which variant runs at which sizes. Variants go by their forms: several may have one text, and be
 * given to threads in other parts. */
static void put_choice(const picks_printer *p, const hn_kernel_code *code) {
    hn_str axes[HN_CHOICE_AXES], names[HN_CHOICE_VARIANTS];
    if (!code->choice) return;
    names[0] = hn_str_of(code->form);
    for (uint32_t k = 0; k < code->choice->head.axis_count; k++)
        axes[k] = hn_sym_symbol_name(p->d->sym, code->choice->axes[k]);
    for (uint32_t v = 0; v < code->variant_count; v++)
        names[v + 1] = hn_str_of(code->variants[v].form);
    hn_json_key_put(p->out, "choice");
    hn_choice_json(&code->choice->head, code->choice->boxes, &(hn_choice_names){axes, names},
                   p->out);
}

/* Of a kernel or of a call of an operation, whose forms have no texts. */
static void put_pick(const picks_printer *p, const hn_step *step, const hn_kernel_code *code) {
    const hn_item_info *call =
        step->kind == HN_STEP_EXTERN ? &p->d->program->items.items[step->item] : NULL;
    const char *name = call ? hn_bundle_extern_name(call->ext->kind) : code->name;
    const uint32_t origin = call ? call->origin : step->kernel->origin;
    char hex[HN_DIGEST_HEX_BYTES];
    hn_digest_hex(&code->tuned, hex);
    hn_json_open_put(p->out, '{');
    hn_json_text_put(p->out, "kernel", hn_str_of(name));
    hn_json_text_put(p->out, "node", p->d->graph->origins.items[origin].node);
    hn_json_text_put(p->out, "target", hn_str_of(p->level->target.name));
    hn_json_text_put(p->out, "digest", hn_str_of(hex));
    hn_json_key_put(p->out, "variants"), hn_json_open_put(p->out, '[');
    put_variant(name, code, p->out);
    for (uint32_t v = 0; v < code->variant_count; v++)
        put_variant(call ? name : code->variants[v].name, &code->variants[v], p->out);
    hn_json_close_put(p->out, ']');
    put_choice(p, code);
    put_records(p, &code->tuned);
    hn_json_close_put(p->out, '}');
}

static hn_status put_level(picks_printer *p) {
    for (uint32_t k = 0; k < p->d->schedule.steps.count; k++) {
        const hn_kernel_code *code = &p->level->step_kernels[k];
        const hn_str digest = {(const char *)code->tuned.bytes, sizeof code->tuned.bytes};
        if (!code->is_picked || hn_strmap_get(&p->seen, digest)) continue;
        HN_TRY(hn_strmap_put(&p->seen, digest, 1));
        put_pick(p, &p->d->schedule.steps.items[k], code);
    }
    return NULL;
}

hn_status hn_report_put_picks(const hn_driver *d, hn_strbuf *out) {
    hn_status status = NULL;
    hn_json_key_put(out, "picks"), hn_json_open_put(out, '[');
    for (uint32_t l = 0; l < d->level_count && !status; l++) {
        picks_printer p = {.d = d, .level = &d->levels[l], .out = out};
        hn_arena arena;
        hn_arena_init(&arena);
        hn_strmap_init(&p.seen, &arena);
        status = put_level(&p);
        hn_arena_deinit(&arena);
    }
    hn_json_close_put(out, ']');
    return status;
}
