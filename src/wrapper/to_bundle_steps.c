/* to_bundle_steps.c: code and what calls it: targets, objects, kernels, launch records, steps. */
#include "bundle/view.h"
#include "wrapper/exprs.h"
#include "wrapper/names.h"
#include "wrapper/to_bundle_impl.h"

static hn_status put_target(bundle_emitter *e, const hn_bundle_target *target) {
    const hn_bundle_words *words = hn_bundle_words_of(target->device);
    uint32_t ignored;
    if (!words)
        return HN_ERROR(HN_UNSUPPORTED,
                        "bundles have no programs for %s, the device of '" HN_STR_FMT "'",
                        hn_device_name(target->device), HN_STR_ARG(target->name));
    const uint32_t machine = target->device == HN_DEVICE_CPU ? HNB_MACHINE_HERE : 0;
    return hn_bundle_writer_target(&e->out, words->target, machine, target->name, target->features,
                                   &ignored);
}

hn_status hn_emit_targets(bundle_emitter *e, const hn_bundle_objects *objects) {
    const hn_bundle_target one = {.name = HN_STR("cpu"), .features = e->options->cpu_features};
    const hn_bundle_target *targets = objects->target_count ? objects->targets : &one;
    uint32_t count = objects->target_count ? objects->target_count : 1;
    if (!objects->count && !objects->target_count) return NULL;
    for (uint32_t t = 0; t < count; t++) HN_TRY(put_target(e, &targets[t]));
    e->target_count = count;
    return NULL;
}

hn_status hn_emit_objects(bundle_emitter *e, const hn_bundle_objects *objects) {
    for (uint32_t i = 0; i < objects->count; i++) {
        const hn_bundle_object *o = &objects->items[i];
        uint32_t ignored;
        if (o->target >= e->target_count)
            return HN_ERROR(HN_INTERNAL, "object %u is of target %u of %u", i, o->target,
                            e->target_count);
        const hnb_target *target = &e->out.targets.items[o->target];
        const hn_bundle_words *words = hn_bundle_words_of(hn_bundle_target_device(target->kind));
        HN_TRY(hn_bundle_writer_object(&e->out, o->is_ptx ? words->ptx : words->object, o->target,
                                       o->name, o->bytes, o->len, o->digest.bytes, &ignored));
    }
    return NULL;
}

/* A line that calls a kernel, and in which of its variants. */
typedef struct caller {
    const hn_line *line;
    uint32_t variant;
} caller;

static uint32_t arg_count_of(const caller *c, uint32_t target) {
    return c->line ? hn_line_launch(c->line, c->variant, target).arg_count : 0;
}

/* `room`: arguments that the kernel has on the target that gives it the most; those that are not
 * there stay zeros. */
static hn_status put_code(bundle_emitter *e, const hn_wkernel_info *k, const caller *from,
                          uint32_t t, uint32_t room, uint32_t object_count) {
    const hn_wkernel_info *own = t ? &k->others[t - 1] : k;
    hnb_code code = {.object = own->object, .args = e->out.args.count};
    if (own->object >= object_count)
        return HN_ERROR(HN_INTERNAL, "kernel '" HN_STR_FMT "' is in object %u of %u",
                        HN_STR_ARG(own->name), own->object, object_count);
    HN_TRY(hn_emit_str(e, own->name, &code.symbol));
    for (uint32_t i = 0; i < room; i++) {
        hnb_arg arg = {0};
        if (i < arg_count_of(from, t)) {
            const hn_wlaunch l = hn_line_launch(from->line, from->variant, t);
            const hn_woperand *o = &from->line->operands[hn_wlaunch_operand(&l, i)];
            arg = (hnb_arg){.dtype = (uint8_t)o->dtype, .written = o->written};
        }
        HN_PUSH(e->out.arena, &e->out.args, arg);
    }
    HN_PUSH(e->out.arena, &e->out.codes, code);
    return NULL;
}

/* The first line that calls it; others give it as many arguments. */
static hn_status note_caller(const bundle_emitter *e, caller *callers, hn_wkernel kernel,
                             const caller *from) {
    caller *known = &callers[kernel];
    if (!kernel) return NULL;
    if (!known->line) *known = *from;
    for (uint32_t t = 0; t < (e->target_count ? e->target_count : 1); t++)
        if (arg_count_of(known, t) != arg_count_of(from, t))
            return HN_ERROR(HN_INTERNAL,
                            "kernel '" HN_STR_FMT "' is called with %u operands and with %u",
                            HN_STR_ARG(e->w->kernels.items[kernel].name), arg_count_of(known, t),
                            arg_count_of(from, t));
    return NULL;
}

static hn_status note_callers(const bundle_emitter *e, caller *callers) {
    for (uint32_t i = 0; i < e->w->lines.count; i++) {
        const hn_line *line = &e->w->lines.items[i];
        for (uint32_t v = 0; v < hn_line_variants(line); v++)
            HN_TRY(note_caller(e, callers, hn_line_kernel(line, v), &(caller){line, v}));
    }
    return NULL;
}

/* What a kernel takes shows in any line that calls it. */
hn_status hn_emit_kernels(bundle_emitter *e, uint32_t object_count) {
    caller *callers;
    HN_NEW(e->out.arena, callers, e->w->kernels.count);
    HN_TRY(note_callers(e, callers));
    for (uint32_t i = 1; i < e->w->kernels.count; i++) {
        const hn_wkernel_info *k = &e->w->kernels.items[i];
        hnb_kernel record = {.codes = e->out.codes.count};
        for (uint32_t t = 0; t < (e->target_count ? e->target_count : 1); t++)
            if (arg_count_of(&callers[i], t) > record.arg_count)
                record.arg_count = arg_count_of(&callers[i], t);
        if (!k->name.len) return HN_ERROR(HN_INTERNAL, "kernel %u has no name", i);
        HN_TRY(hn_emit_str(e, k->name, &record.name));
        HN_PUSH(e->out.arena, &e->out.kernels, record);
        if (e->target_count > 1 && !k->others)
            return HN_ERROR(HN_INTERNAL, "kernel %u has one target of %u", i, e->target_count);
        for (uint32_t t = 0; t < e->target_count; t++)
            HN_TRY(put_code(e, k, &callers[i], t, record.arg_count, object_count));
    }
    return NULL;
}

static hn_status put_operand(bundle_emitter *e, const hn_woperand *o) {
    hnb_operand record = {
        .buffer = e->buffers[o->buffer], .dtype = (uint8_t)o->dtype, .written = o->written};
    if (o->buffer) HN_TRY(hn_emit_optional(e, hn_woperand_offset(e->w, o), &record.offset));
    HN_PUSH(e->out.arena, &e->out.operands, record);
    return NULL;
}

static hn_status put_params(bundle_emitter *e, const hn_expr *params, uint32_t count,
                            uint32_t *out_first) {
    *out_first = e->out.params.count;
    for (uint32_t k = 0; k < count; k++) {
        uint32_t node;
        HN_TRY(hn_emit_expr(e, params[k], &node));
        HN_PUSH(e->out.arena, &e->out.params, node);
    }
    return NULL;
}

static bool is_in_order(const hn_wlaunch *l, uint32_t count) {
    for (uint32_t k = 0; k < l->arg_count; k++)
        if (hn_wlaunch_operand(l, k) != k) return false;
    return l->arg_count == count;
}

static bool same_params(const hn_line *line, const hn_wlaunch *l) {
    return l->param_count == line->param_count &&
           (!l->param_count ||
            memcmp(l->params, line->params, l->param_count * sizeof *l->params) == 0);
}

/* Groups of threads are in one dimension. */
static hn_status put_groups(bundle_emitter *e, uint32_t threads, uint32_t shared, hnb_launch *l) {
    uint32_t one;
    if (!threads) return NULL;
    if (threads > HNB_MAX_GROUP_THREADS)
        return HN_ERROR(HN_UNSUPPORTED, "a group of %u threads; bundles have %d at most", threads,
                        HNB_MAX_GROUP_THREADS);
    HN_TRY(hn_emit_expr(e, hn_sym_int(e->sym, 1), &one));
    l->grid[0] = l->extent;
    l->block[0] = threads;
    for (uint32_t d = 1; d < 3; d++) l->grid[d] = one, l->block[d] = 1;
    return shared ? hn_emit_expr(e, hn_sym_int(e->sym, shared), &l->shared) : NULL;
}

/* The launch of a target in a variant; lists that are those of the first launch, of the line
 * itself, are not written again. */
static hn_status put_launch(bundle_emitter *e, const hn_line *line, const hnb_step *s,
                            const hnb_launch *first, const hn_wlaunch *own) {
    hnb_launch l = {.operands = s->operands,
                    .grain = hn_line_grain(own->grain),
                    .params = first ? first->params : s->params};
    if (!is_in_order(own, line->operand_count)) {
        l.operands = e->out.operands.count;
        for (uint32_t k = 0; k < own->arg_count; k++)
            HN_TRY(put_operand(e, &line->operands[hn_wlaunch_operand(own, k)]));
    }
    l.param_count = own->param_count;
    /* those of an operation stand there already */
    if (first ? !same_params(line, own) : line->kind == HN_LINE_KERNEL)
        HN_TRY(put_params(e, own->params, l.param_count, &l.params));
    HN_TRY(hn_emit_expr(e, own->extent, &l.extent));
    HN_TRY(hn_emit_optional(e, own->scratch_bytes, &l.scratch));
    HN_TRY(put_groups(e, own->threads, own->shared_bytes, &l));
    HN_PUSH(e->out.arena, &e->out.launches, l);
    return NULL;
}

/* Code is for the device that the line runs on. */
static hn_status check_targets(const bundle_emitter *e, const hn_line *line) {
    for (uint32_t t = 0; t < e->target_count; t++) {
        const hn_device_kind device = hn_bundle_target_device(e->out.targets.items[t].kind);
        if (device != line->device)
            return HN_ERROR(HN_INTERNAL, "a kernel runs on %s and has code for %s",
                            hn_device_name(line->device), hn_device_name(device));
    }
    return NULL;
}

/* One launch when it is the same for all targets. */
static hn_status put_launches(bundle_emitter *e, const hn_line *line, hnb_step *s) {
    bool same = true;
    HN_TRY(check_targets(e, line));
    s->launches = e->out.launches.count;
    s->launch_count = e->target_count > 1 ? e->target_count : 1;
    if (s->launch_count > 1 && !line->others)
        return HN_ERROR(HN_INTERNAL, "a call of a kernel has one target of %u", e->target_count);
    for (uint32_t t = 0; t < s->launch_count; t++) {
        hnb_launch first = t ? e->out.launches.items[s->launches] : (hnb_launch){0};
        const hn_wlaunch own = hn_line_launch(line, 0, t);
        HN_TRY(put_launch(e, line, s, t ? &first : NULL, &own));
        same &= !t || memcmp(&e->out.launches.items[s->launches + t], &first, sizeof first) == 0;
    }
    if (!same) return NULL;
    s->launch_count = 1;
    e->out.launches.count = s->launches + 1;
    return NULL;
}

static hn_status put_choice(bundle_emitter *e, const hn_sym_choice *from, uint32_t target) {
    hnb_choice c = {.step = e->out.steps.count,
                    .target = target,
                    .variants = e->out.variants.count,
                    .boxes = e->out.boxes.count,
                    .head = from->head};
    for (uint32_t d = 0; d < from->head.axis_count; d++)
        HN_TRY(hn_emit_expr(e, from->axes[d], &c.axes[d]));
    for (uint32_t k = 0; k < from->head.box_count; k++)
        HN_PUSH(e->out.arena, &e->out.boxes, from->boxes[k]);
    HN_PUSH(e->out.arena, &e->out.choices, c);
    return NULL;
}

static hn_status put_variant(bundle_emitter *e, const hn_line *line, const hnb_step *s,
                             const hnb_launch *first, hn_wkernel kernel, const hn_wlaunch *own) {
    hnb_variant v = {
        .kernel = kernel, .launch = e->out.launches.count, .arg_count = own->arg_count};
    HN_TRY(hn_emit_str(e, own->form, &v.form));
    HN_TRY(put_launch(e, line, s, first, own));
    HN_PUSH(e->out.arena, &e->out.variants, v);
    return NULL;
}

/* For each target its table, and how its variants are called. */
static hn_status put_variants(bundle_emitter *e, const hn_line *line, const hnb_step *s) {
    const uint32_t first_launch = e->out.launches.count;
    HN_TRY(check_targets(e, line));
    if (e->target_count > 1 && !line->others)
        return HN_ERROR(HN_INTERNAL, "a call of a kernel has one target of %u", e->target_count);
    for (uint32_t t = 0; t < (e->target_count ? e->target_count : 1); t++) {
        HN_TRY(put_choice(e, &line->choices[t], t));
        for (uint32_t v = 0; v < hn_line_variants(line); v++) {
            const bool is_first = e->out.launches.count == first_launch;
            const hnb_launch first =
                is_first ? (hnb_launch){0} : e->out.launches.items[first_launch];
            const hn_wlaunch own = hn_line_launch(line, v, t);
            HN_TRY(
                put_variant(e, line, s, is_first ? NULL : &first, hn_line_kernel(line, v), &own));
        }
    }
    return NULL;
}

/* For each target its table over the forms of an operation. */
static hn_status put_forms(bundle_emitter *e, const hn_line *line) {
    for (uint32_t t = 0; t < (e->target_count ? e->target_count : 1); t++) {
        HN_TRY(put_choice(e, &line->choices[t], t));
        for (uint32_t v = 0; v < hn_line_variants(line); v++) {
            hnb_variant own = {.kernel = 0};
            HN_TRY(hn_emit_str(e, hn_line_launch(line, v, t).form, &own.form));
            HN_PUSH(e->out.arena, &e->out.variants, own);
        }
    }
    return NULL;
}

/* Four expressions for each check of a kernel: see hnb_step. */
static hn_status put_checks(bundle_emitter *e, const hn_line *line, hnb_step *s) {
    s->params = e->out.params.count;
    for (uint32_t k = 0; k < line->check_count; k++) {
        hn_expr fields[HNB_CHECK_PARAMS];
        uint32_t ignored;
        hn_wcheck_exprs(e->w, &line->checks[k], fields);
        HN_TRY(put_params(e, fields, HNB_CHECK_PARAMS, &ignored));
    }
    s->param_count = line->check_count * HNB_CHECK_PARAMS;
    return NULL;
}

static hn_status put_step_origins(bundle_emitter *e, const hn_line *line, hnb_step *s) {
    s->origin = hn_wrapper_origin(e->w, line->origin);
    s->origins = e->out.step_origins.count;
    for (uint32_t k = 0; k < line->origin_count; k++) {
        const uint32_t origin = hn_wrapper_origin(e->w, line->origins[k]);
        if (!origin) continue; /* a text without its graph */
        HN_PUSH(e->out.arena, &e->out.step_origins, origin);
        s->origin_count++;
    }
    return NULL;
}

hn_status hn_emit_step(bundle_emitter *e, uint32_t at) {
    static const uint8_t step_kinds[] = {
        [HN_LINE_KERNEL] = HNB_STEP_KERNEL, [HN_LINE_EXTERN] = HNB_STEP_EXTERN,
        [HN_LINE_COPY] = HNB_STEP_COPY,     [HN_LINE_ASSERT] = HNB_STEP_ASSERT,
        [HN_LINE_DEFINE] = HNB_STEP_DEFINE, [HN_LINE_COND] = HNB_STEP_COND,
        [HN_LINE_LOOP] = HNB_STEP_LOOP,     [HN_LINE_WAIT] = HNB_STEP_WAIT,
        [HN_LINE_ZERO] = HNB_STEP_ZERO};
    const hn_line *line = &e->w->lines.items[at];
    if (!hn_wline_kind_name(line->kind))
        return HN_ERROR(HN_INTERNAL, "line %u is of unknown kind %d", at, (int)line->kind);
    if (!hn_line_is_step(line->kind)) return NULL;
    hnb_step s = {.kind = step_kinds[line->kind],
                  .kernel = line->kernel,
                  .extern_kind = line->extern_kind,
                  .operands = e->out.operands.count,
                  .operand_count = line->operand_count,
                  .buffer = e->buffers[line->buffer ? line->buffer : line->workspace],
                  .from = e->buffers[line->from],
                  .device = hn_line_device(e->w, line)};
    if (s.kind == HNB_STEP_DEFINE &&
        !hn_wsymbols_find(&e->numbering.symbols, line->symbol, &s.symbol))
        return HN_ERROR(HN_INTERNAL, "line %u defines a symbol that nobody has listed", at);
    for (uint32_t k = 0; k < line->operand_count; k++) HN_TRY(put_operand(e, &line->operands[k]));
    if (s.kind == HNB_STEP_KERNEL) {
        HN_TRY(line->variant_count ? put_variants(e, line, &s) : put_launches(e, line, &s));
        HN_TRY(put_checks(e, line, &s));
    }
    if (s.kind == HNB_STEP_EXTERN) {
        s.param_count = line->param_count;
        HN_TRY(put_params(e, line->params, line->param_count, &s.params));
        if (line->kernel) HN_TRY(put_launches(e, line, &s));
        if (line->choices) HN_TRY(put_forms(e, line));
    }
    HN_TRY(hn_emit_str(e, line->text, &s.text));
    HN_TRY(put_step_origins(e, line, &s));
    if (s.kind == HNB_STEP_LOOP && line->rounds) {
        s.param_count = 1;
        HN_TRY(put_params(e, &line->rounds, 1, &s.params));
    }
    if (hn_line_has_bodies(line->kind)) {
        s.then_count = hn_wrapper_count_steps(e->w, at + 1, line->then_count);
        s.otherwise_count =
            hn_wrapper_count_steps(e->w, at + 1 + line->then_count, line->otherwise_count);
    }
    HN_PUSH(e->out.arena, &e->out.steps, s);
    return NULL;
}

hn_status hn_emit_origins(bundle_emitter *e) {
    for (uint32_t i = 1; e->w->graph && i < e->w->graph->origins.count; i++) {
        const hn_origin *o = &e->w->graph->origins.items[i];
        hnb_origin record;
        HN_TRY(hn_emit_str(e, o->node, &record.node));
        HN_TRY(hn_emit_str(e, o->source, &record.source));
        HN_PUSH(e->out.arena, &e->out.origins, record);
    }
    return NULL;
}
