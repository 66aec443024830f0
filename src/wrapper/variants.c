/* variants.c: see variants.h. */
#include "wrapper/variants.h"

#define BAD(...) HN_ERROR(HN_INTERNAL, "wrapper: " __VA_ARGS__)

/* ---- operands ---- */

static bool launch_takes(const hn_wlaunch *l, uint32_t operand) {
    for (uint32_t k = 0; k < l->arg_count; k++)
        if (hn_wlaunch_operand(l, k) == operand) return true;
    return false;
}

bool hn_line_takes(const hn_wrapper *w, const hn_line *line, uint32_t variant, uint32_t operand) {
    for (uint32_t t = 0; t < w->target_count; t++) {
        const hn_wlaunch l = hn_line_launch(line, variant, t);
        if (launch_takes(&l, operand)) return true;
    }
    return false;
}

bool hn_line_always_takes(const hn_wrapper *w, const hn_line *line, uint32_t operand) {
    for (uint32_t v = 0; v < hn_line_variants(line); v++)
        for (uint32_t t = 0; t < w->target_count; t++) {
            const hn_wlaunch l = hn_line_launch(line, v, t);
            if (!launch_takes(&l, operand)) return false;
        }
    return true;
}

static bool same_operand(const hn_woperand *a, const hn_woperand *b) {
    return a->buffer == b->buffer && a->dtype == b->dtype && a->offset_elems == b->offset_elems &&
           a->written == b->written;
}

/* Joins the operands of two lines: what `from` has is in[to[k]] of `*out`. */
static hn_status join_operands(hn_wrapper *w, const hn_line *line, const hn_line *from,
                               hn_woperand **out, uint32_t *out_count, uint32_t *to) {
    hn_woperand *all;
    uint32_t count = line->operand_count;
    HN_NEW(w->arena, all, (size_t)line->operand_count + from->operand_count);
    if (count) memcpy(all, line->operands, count * sizeof *all);
    for (uint32_t k = 0; k < from->operand_count; k++) {
        uint32_t at = 0;
        while (at < count && !same_operand(&all[at], &from->operands[k])) at++;
        if (at == count) all[count++] = from->operands[k];
        to[k] = at;
    }
    *out = all;
    *out_count = count;
    return NULL;
}

/* ---- operands that lie over others ---- */

typedef enum said { NOTHING, ALLOWED, REFUSED } said;

/* What the variant says of operand `a` of the joined line over each of the others. Of one that
 * comes twice both must say it. */
static void ask(const hn_line *variant, const uint32_t *to, uint32_t a, said *out) {
    for (uint32_t j = 0; j < variant->operand_count; j++) {
        if (to[j] != a) continue;
        for (uint32_t k = 0; k < variant->operand_count; k++)
            if (!hn_woperand_is_over(&variant->operands[j], k)) out[to[k]] = REFUSED;
            else if (out[to[k]] == NOTHING) out[to[k]] = ALLOWED;
    }
}

/* `over` of a written operand of the joined line, which may begin elsewhere than before. `said`:
 * for each operand. */
static void restrict_over(const hn_line *line, uint32_t a, const said *said_of, uint32_t count,
                          hn_woperand *out) {
    uint64_t over = 0;
    uint32_t first = 0;
    for (uint32_t b = 0; b < count; b++) {
        const bool is_old = a < line->operand_count && b < line->operand_count;
        if (said_of[b] == REFUSED || (is_old && !hn_woperand_is_over(&line->operands[a], b)) ||
            (!is_old && said_of[b] == NOTHING))
            continue;
        if (!over) first = b < 64 ? 0 : b;
        if (b - first < 64) over |= UINT64_C(1) << (b - first);
    }
    out->over = over;
    out->over_first = over ? first : 0;
}

static hn_status join_over(hn_wrapper *w, const hn_line *line, const hn_line *variant,
                           const uint32_t *to, uint32_t count, hn_woperand *all) {
    said *said_of;
    HN_NEW(w->arena, said_of, (size_t)count + 1);
    for (uint32_t a = 0; a < count; a++) {
        if (!all[a].written) continue;
        memset(said_of, 0, count * sizeof *said_of);
        ask(variant, to, a, said_of);
        restrict_over(line, a, said_of, count, &all[a]);
    }
    return NULL;
}

/* ---- launches ---- */

/* A launch of `variant` as one of the joined line. */
static hn_status renumber(hn_wrapper *w, const uint32_t *to, hn_wlaunch *l) {
    uint32_t *order;
    HN_NEW(w->arena, order, (size_t)l->arg_count + 1);
    for (uint32_t k = 0; k < l->arg_count; k++) order[k] = to[hn_wlaunch_operand(l, k)];
    l->order = order;
    return NULL;
}

/* The line itself takes the operands that it had. */
static hn_status keep_own_order(hn_wrapper *w, hn_line *line, uint32_t count) {
    uint32_t *order;
    if (line->order || count == line->operand_count) return NULL;
    HN_NEW(w->arena, order, (size_t)line->operand_count + 1);
    for (uint32_t k = 0; k < line->operand_count; k++) order[k] = k;
    line->order = order;
    line->arg_count = line->operand_count;
    return NULL;
}

/* Launches for other targets that take all operands, in order, go on taking those that there
 * were. */
static hn_status keep_other_orders(hn_wrapper *w, hn_line *line) {
    hn_wlaunch *others;
    if (!line->others) return NULL;
    HN_NEW(w->arena, others, w->target_count);
    for (uint32_t t = 1; t < w->target_count; t++) {
        others[t - 1] = line->others[t - 1];
        if (others[t - 1].order) continue;
        uint32_t *order;
        HN_NEW(w->arena, order, (size_t)others[t - 1].arg_count + 1);
        for (uint32_t k = 0; k < others[t - 1].arg_count; k++) order[k] = k;
        others[t - 1].order = order;
    }
    line->others = others;
    return NULL;
}

static hn_status add_launches(hn_wrapper *w, hn_line *line, const hn_line *variant,
                              const uint32_t *to) {
    hn_wvariant *variants;
    hn_wlaunch *launches;
    HN_NEW(w->arena, variants, (size_t)line->variant_count + 1);
    HN_NEW(w->arena, launches, w->target_count);
    for (uint32_t t = 0; t < w->target_count; t++) {
        launches[t] = hn_line_launch(variant, 0, t);
        HN_TRY(renumber(w, to, &launches[t]));
    }
    if (line->variant_count)
        memcpy(variants, line->variants, line->variant_count * sizeof *variants);
    variants[line->variant_count++] = (hn_wvariant){variant->kernel, launches};
    line->variants = variants;
    return NULL;
}

static bool is_plain(const hn_wrapper *w, const hn_line *line) {
    return line->kind == HN_LINE_KERNEL && !line->variant_count &&
           (w->target_count == 1 || line->others);
}

hn_status hn_line_add_variant(hn_wrapper *w, hn_line *line, const hn_line *variant) {
    hn_woperand *all;
    uint32_t *to, count;
    if (line->kind != HN_LINE_KERNEL || !is_plain(w, variant) || line->device != variant->device ||
        !line->threads != !variant->threads)
        return BAD("a call cannot be a variant of another one");
    if (hn_line_variants(line) == HN_CHOICE_VARIANTS)
        return BAD("a call with more than %d variants", HN_CHOICE_VARIANTS);
    HN_NEW(w->arena, to, (size_t)variant->operand_count + 1);
    HN_TRY(join_operands(w, line, variant, &all, &count, to));
    HN_TRY(join_over(w, line, variant, to, count, all));
    HN_TRY(keep_own_order(w, line, count));
    HN_TRY(keep_other_orders(w, line));
    line->operands = all;
    line->operand_count = count;
    return add_launches(w, line, variant, to);
}

hn_status hn_line_set_choices(hn_wrapper *w, hn_line *line, const hn_sym_choice *choices) {
    hn_sym_choice *copies;
    HN_NEW(w->arena, copies, w->target_count);
    for (uint32_t t = 0; t < w->target_count; t++) {
        const uint32_t count = choices[t].head.box_count;
        hn_choice_box *boxes;
        HN_NEW(w->arena, boxes, (size_t)count + 1);
        if (count) memcpy(boxes, choices[t].boxes, count * sizeof *boxes);
        copies[t] = choices[t];
        copies[t].boxes = boxes;
    }
    line->choices = copies;
    return NULL;
}

/* ---- forms of operations ---- */

static bool may_have_forms(const hn_line *line) {
    return line->kind == HN_LINE_EXTERN && (line->device != HN_DEVICE_CPU || !line->kernel);
}

static hn_status copy_text(hn_wrapper *w, hn_str text, hn_str *out) {
    const char *own = hn_arena_strndup(w->arena, text.ptr, text.len);
    *out = (hn_str){own, text.len};
    return own ? NULL : HN_ERROR(HN_OUT_OF_MEMORY, "no memory for the name of a form");
}

/* The same for each target. */
static hn_status add_form(hn_wrapper *w, const hn_line *line, hn_str form, hn_wvariant *out) {
    hn_wlaunch *launches;
    HN_NEW(w->arena, launches, w->target_count);
    HN_TRY(copy_text(w, form, &launches[0].form));
    launches[0].arg_count = line->operand_count;
    for (uint32_t t = 1; t < w->target_count; t++) launches[t] = launches[0];
    *out = (hn_wvariant){.launches = launches};
    return NULL;
}

/* Launches of a kernel that is there besides. */
static hn_status name_others(hn_wrapper *w, hn_line *line) {
    hn_wlaunch *launches;
    HN_NEW(w->arena, launches, w->target_count);
    for (uint32_t t = 1; t < w->target_count; t++) {
        launches[t - 1] = line->others[t - 1];
        launches[t - 1].form = line->form;
    }
    line->others = launches;
    return NULL;
}

hn_status hn_line_set_forms(hn_wrapper *w, hn_line *line, const hn_str *forms, uint32_t count,
                            const hn_sym_choice *choices) {
    hn_wvariant *variants;
    if (!may_have_forms(line)) return BAD("a line that is no call of an operation has forms");
    if (!count || count > HN_CHOICE_VARIANTS) return BAD("a call with %u forms", count);
    HN_NEW(w->arena, variants, count);
    HN_TRY(copy_text(w, forms[0], &line->form));
    if (line->others) HN_TRY(name_others(w, line));
    for (uint32_t k = 1; k < count; k++) HN_TRY(add_form(w, line, forms[k], &variants[k - 1]));
    line->variants = variants;
    line->variant_count = count - 1;
    return hn_line_set_choices(w, line, choices);
}

/* ---- checks ---- */

static hn_status check_launch(const hn_line *line, const hn_wlaunch *l, uint32_t i, uint32_t v) {
    if (!l->extent) return BAD("line %u: variant %u has no extent", i, v);
    if (!l->threads != !line->threads)
        return BAD("line %u: variant %u runs in groups of %u threads, variant 0 of %u", i, v,
                   l->threads, line->threads);
    if (!l->form.len) return BAD("line %u: variant %u has no form", i, v);
    if (!l->order && l->arg_count != line->operand_count)
        return BAD("line %u: variant %u takes %u operands of %u, and does not say which", i, v,
                   l->arg_count, line->operand_count);
    for (uint32_t k = 0; k < l->arg_count; k++)
        if (hn_wlaunch_operand(l, k) >= line->operand_count)
            return BAD("line %u: variant %u takes operand %u of %u", i, v, hn_wlaunch_operand(l, k),
                       line->operand_count);
    for (uint32_t k = 0; k < l->param_count; k++)
        if (!l->params[k]) return BAD("line %u: variant %u: parameter %u is missing", i, v, k);
    return NULL;
}

static hn_status check_variant(const hn_wrapper *w, const hn_line *line, uint32_t i, uint32_t v) {
    const hn_wkernel kernel = hn_line_kernel(line, v);
    if (!kernel || kernel >= w->kernels.count)
        return BAD("line %u: variant %u is unknown kernel %u", i, v, kernel);
    if (v && !line->variants[v - 1].launches)
        return BAD("line %u: variant %u has no launches", i, v);
    for (uint32_t t = 0; t < w->target_count; t++) {
        const hn_wlaunch l = hn_line_launch(line, v, t);
        HN_TRY(check_launch(line, &l, i, v));
    }
    return NULL;
}

/* A size that is known decides when the program is made. */
static hn_status check_axes(const hn_wrapper *w, const hn_sym_choice *c, uint32_t i) {
    for (uint32_t d = 0; d < c->head.axis_count; d++) {
        if (!c->axes[d]) return BAD("line %u: size %u of its table is missing", i, d);
        if (hn_sym_is_int(w->sym, c->axes[d], NULL))
            return BAD("line %u: size %u of its table is a number", i, d);
        for (uint32_t e = 0; e < d; e++)
            if (c->axes[e] == c->axes[d]) return BAD("line %u: its table has size %u twice", i, d);
    }
    return NULL;
}

static hn_status check_choice(const hn_wrapper *w, const hn_line *line, const hn_sym_choice *c,
                              uint32_t i) {
    hn_status status = hn_choice_check(&c->head, c->boxes);
    if (status) {
        hn_status own = BAD("line %u: %s", i, hn_status_message(status));
        hn_status_free(status);
        return own;
    }
    if (c->head.variant_count != hn_line_variants(line))
        return BAD("line %u has %u variants, and a table of %u", i, hn_line_variants(line),
                   c->head.variant_count);
    return check_axes(w, c, i);
}

/* Of a call of an operation. */
static hn_status check_forms(const hn_wrapper *w, const hn_line *line, uint32_t i) {
    if (!may_have_forms(line)) return BAD("line %u: its operation has no forms", i);
    if (hn_line_variants(line) > HN_CHOICE_VARIANTS || (line->variant_count && !line->variants))
        return BAD("line %u has %u variants", i, hn_line_variants(line));
    for (uint32_t v = 0; v < hn_line_variants(line); v++) {
        const bool is_there = !v || line->variants[v - 1].launches;
        if (v && line->variants[v - 1].kernel) return BAD("line %u: variant %u is a kernel", i, v);
        if (!is_there || !hn_line_launch(line, v, 0).form.len)
            return BAD("line %u: variant %u has no form", i, v);
    }
    if (!line->choices) return BAD("line %u has forms, and no table", i);
    for (uint32_t t = 0; t < w->target_count; t++)
        HN_TRY(check_choice(w, line, &line->choices[t], i));
    return NULL;
}

static hn_status check_line(const hn_wrapper *w, const hn_line *line, uint32_t i) {
    if (line->kind == HN_LINE_EXTERN) return check_forms(w, line, i);
    if (line->kind != HN_LINE_KERNEL)
        return BAD("line %u has variants, and is no call of a kernel", i);
    if (!line->variant_count)
        return line->choices ? BAD("line %u has a table, and no variants", i)
                             : BAD("line %u leaves out operands, and has no variants", i);
    if (hn_line_variants(line) > HN_CHOICE_VARIANTS || !line->variants)
        return BAD("line %u has %u variants", i, hn_line_variants(line));
    for (uint32_t v = 0; v < hn_line_variants(line); v++) HN_TRY(check_variant(w, line, i, v));
    for (uint32_t k = 0; k < line->operand_count; k++) {
        uint32_t v = 0;
        while (v < hn_line_variants(line) && !hn_line_takes(w, line, v, k)) v++;
        if (v == hn_line_variants(line)) return BAD("line %u: nothing takes operand %u", i, k);
    }
    if (!line->choices) return BAD("line %u has variants, and no table", i);
    for (uint32_t t = 0; t < w->target_count; t++)
        HN_TRY(check_choice(w, line, &line->choices[t], i));
    return NULL;
}

hn_status hn_wrapper_variants_verify(const hn_wrapper *w) {
    for (uint32_t i = 0; i < w->lines.count; i++) {
        const hn_line *line = &w->lines.items[i];
        const bool has_forms = line->kind == HN_LINE_EXTERN && line->form.len;
        if (line->variant_count || line->choices || line->order || has_forms)
            HN_TRY(check_line(w, line, i));
    }
    return NULL;
}
