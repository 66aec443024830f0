/* variants.c: steps with variants: which there are, how each is called, and which one runs. */
#include "bundle/check.h"

/* ---- asking ---- */

static bool is_before(const hnb_choice *c, uint32_t step, uint32_t target) {
    return c->step != step ? c->step < step : c->target < target;
}

const hnb_choice *hn_bundle_choice_find(const hn_bundle *b, uint32_t step, uint32_t target) {
    uint32_t first = 0, end = b->choices_count;
    while (first < end) {
        const uint32_t middle = first + (end - first) / 2;
        if (is_before(&b->choices[middle], step, target)) first = middle + 1;
        else end = middle;
    }
    const hnb_choice *c = &b->choices[first];
    return first < b->choices_count && c->step == step && c->target == target ? c : NULL;
}

uint32_t hn_bundle_variant_count(const hn_bundle *b, uint32_t step, uint32_t target) {
    const hnb_choice *choice = hn_bundle_choice_find(b, step, target);
    return choice ? choice->head.variant_count : 1;
}

hn_bundle_call hn_bundle_call_by(const hn_bundle *b, const hnb_step *s, uint32_t target,
                                 const hnb_choice *choice, uint32_t variant) {
    if (choice) {
        const hnb_variant *v = &b->variants[choice->variants + variant];
        if (s->kind == HNB_STEP_EXTERN) { /* a kernel of it is the same in all forms */
            hn_bundle_call call = hn_bundle_call_by(b, s, target, NULL, 0);
            call.arg_count = s->operand_count;
            call.form = v->form;
            return call;
        }
        return (hn_bundle_call){v->kernel, &b->launches[v->launch], v->arg_count, v->form};
    }
    if (!s->launch_count) return (hn_bundle_call){.kernel = s->kernel};
    return (hn_bundle_call){.kernel = s->kernel,
                            .launch =
                                &b->launches[s->launches + (s->launch_count > 1 ? target : 0)],
                            .arg_count = s->operand_count};
}

hn_bundle_call hn_bundle_call_of(const hn_bundle *b, uint32_t step, uint32_t target,
                                 uint32_t variant) {
    const hnb_step *s = &b->steps[step];
    const bool has_one = s->kind == HNB_STEP_KERNEL && s->launch_count;
    return hn_bundle_call_by(b, s, target, has_one ? NULL : hn_bundle_choice_find(b, step, target),
                             variant);
}

uint32_t hn_bundle_choice_pick(const hn_bundle *b, const hnb_choice *c, const int64_t *values,
                               const uint8_t *bad) {
    int64_t sizes[HN_CHOICE_AXES] = {0};
    for (uint32_t d = 0; d < c->head.axis_count; d++) {
        if (bad[c->axes[d]]) return c->head.fallback;
        sizes[d] = values[c->axes[d]];
    }
    return hn_choice_find(&c->head, b->boxes + c->boxes, sizes);
}

/* ---- checking ---- */

static uint32_t target_count(const hn_bundle *b) { return b->targets_count ? b->targets_count : 1; }

static bool variant_ok(const hn_bundle *b, const hnb_step *s, const hnb_variant *v) {
    if (s->kind == HNB_STEP_EXTERN)
        return !v->kernel && !v->launch && !v->arg_count && !v->reserved && str_ok(b, v->form) &&
               v->form.len;
    return v->kernel && v->kernel < b->kernels_count && v->launch < b->launches_count &&
           !v->reserved && str_ok(b, v->form) && v->form.len &&
           v->arg_count <= b->kernels[v->kernel].arg_count &&
           hn_bundle_launch_ok(b, s, &b->launches[v->launch], v->arg_count);
}

static hn_status check_choice(const hn_bundle *b, const hnb_choice *c, uint32_t i) {
    const hnb_step *s = &b->steps[c->step];
    if (c->head.box_count > HN_CHOICE_BOXES || c->head.variant_count > HN_CHOICE_VARIANTS ||
        !span_ok(c->boxes, c->head.box_count, b->boxes_count) ||
        !span_ok(c->variants, c->head.variant_count, b->variants_count))
        return CORRUPT("choice %u", i);
    HN_TRY(hn_status_annotate(hn_choice_check(&c->head, b->boxes + c->boxes),
                              "bundle is damaged: choice %u", i));
    for (uint32_t d = 0; d < HN_CHOICE_AXES; d++)
        if (d < c->head.axis_count ? !need_expr(b, c->axes[d]) : c->axes[d])
            return CORRUPT("sizes of choice %u", i);
    for (uint32_t v = 0; v < c->head.variant_count; v++)
        if (!variant_ok(b, s, &b->variants[c->variants + v]))
            return CORRUPT("variant %u of step %u", v, c->step);
    return c->reserved ? CORRUPT("choice %u", i) : NULL;
}

/* An operation is asked for a form where there is a choice. */
static bool has_choices(const hn_bundle *b, uint32_t step, uint32_t first) {
    const hnb_step *s = &b->steps[step];
    if (s->kind == HNB_STEP_KERNEL) return !s->launch_count;
    return s->kind == HNB_STEP_EXTERN && first < b->choices_count && b->choices[first].step == step;
}

/* A step has a choice for each target or for none, so those of a step follow each other. */
hn_status hn_bundle_check_variants(const hn_bundle *b) {
    const uint32_t targets = target_count(b);
    uint32_t i = 0;
    for (uint32_t k = 0; k < b->steps_count; k++) {
        if (!has_choices(b, k, i)) continue;
        for (uint32_t t = 0; t < targets; t++, i++) {
            if (i >= b->choices_count || b->choices[i].step != k || b->choices[i].target != t)
                return CORRUPT("step %u has no launch and no choice of variants", k);
            HN_TRY(check_choice(b, &b->choices[i], i));
        }
        if (b->steps[k].kind == HNB_STEP_KERNEL &&
            b->variants[b->choices[i - targets].variants].kernel != b->steps[k].kernel)
            return CORRUPT("kernel of step %u", k);
    }
    return i < b->choices_count ? CORRUPT("choice %u is of no step with variants", i) : NULL;
}
