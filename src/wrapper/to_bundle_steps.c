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

/* Argument k of the function for target `t` is this operand of the line. */
static uint32_t operand_at(const hn_line *line, uint32_t t, uint32_t k) {
    return t ? line->others[t - 1].order[k] : k;
}

static hn_status put_code(bundle_emitter *e, const hn_wkernel_info *k, const hn_line *line,
                          uint32_t t, uint32_t object_count) {
    const hn_wkernel_info *own = t ? &k->others[t - 1] : k;
    hnb_code code = {.object = own->object, .args = e->out.args.count};
    if (own->object >= object_count)
        return HN_ERROR(HN_INTERNAL, "kernel '" HN_STR_FMT "' is in object %u of %u",
                        HN_STR_ARG(own->name), own->object, object_count);
    HN_TRY(hn_emit_str(e, own->name, &code.symbol));
    for (uint32_t i = 0; line && i < line->operand_count; i++) {
        const hn_woperand *o = &line->operands[operand_at(line, t, i)];
        HN_PUSH(e->out.arena, &e->out.args,
                ((hnb_arg){.dtype = (uint8_t)o->dtype, .written = o->written}));
    }
    HN_PUSH(e->out.arena, &e->out.codes, code);
    return NULL;
}

/* What a kernel takes shows in any line that calls it. */
hn_status hn_emit_kernels(bundle_emitter *e, uint32_t object_count) {
    const hn_line **callers;
    HN_NEW(e->out.arena, callers, e->w->kernels.count);
    for (uint32_t i = 0; i < e->w->lines.count; i++) {
        const hn_line *line = &e->w->lines.items[i];
        if (!line->kernel) continue;
        if (!callers[line->kernel]) callers[line->kernel] = line;
        if (callers[line->kernel]->operand_count != line->operand_count)
            return HN_ERROR(HN_INTERNAL,
                            "kernel '" HN_STR_FMT "' is called with %u operands and with %u",
                            HN_STR_ARG(e->w->kernels.items[line->kernel].name),
                            callers[line->kernel]->operand_count, line->operand_count);
    }
    for (uint32_t i = 1; i < e->w->kernels.count; i++) {
        const hn_wkernel_info *k = &e->w->kernels.items[i];
        hnb_kernel record = {.codes = e->out.codes.count,
                             .arg_count = callers[i] ? callers[i]->operand_count : 0};
        if (!k->name.len) return HN_ERROR(HN_INTERNAL, "kernel %u has no name", i);
        HN_TRY(hn_emit_str(e, k->name, &record.name));
        HN_PUSH(e->out.arena, &e->out.kernels, record);
        if (e->target_count > 1 && !k->others)
            return HN_ERROR(HN_INTERNAL, "kernel %u has one target of %u", i, e->target_count);
        for (uint32_t t = 0; t < e->target_count; t++)
            HN_TRY(put_code(e, k, callers[i], t, object_count));
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

static bool is_in_order(const uint32_t *order, uint32_t count) {
    for (uint32_t k = 0; k < count; k++)
        if (order[k] != k) return false;
    return true;
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

/* The launch of target `t`; lists that are those of the first target are not written again. */
static hn_status put_launch(bundle_emitter *e, const hn_line *line, const hnb_step *s,
                            const hnb_launch *first, uint32_t t) {
    const hn_wlaunch *own = t ? &line->others[t - 1] : NULL;
    hnb_launch l = {.operands = s->operands,
                    .grain = hn_line_grain(own ? own->grain : line->grain),
                    .params = first ? first->params : s->params};
    if (own && !is_in_order(own->order, line->operand_count)) {
        l.operands = e->out.operands.count;
        for (uint32_t k = 0; k < line->operand_count; k++)
            HN_TRY(put_operand(e, &line->operands[own->order[k]]));
    }
    l.param_count = own ? own->param_count : line->param_count;
    /* those of an operation stand there already */
    if (own ? !same_params(line, own) : line->kind == HN_LINE_KERNEL)
        HN_TRY(put_params(e, own ? own->params : line->params, l.param_count, &l.params));
    HN_TRY(hn_emit_expr(e, own ? own->extent : line->extent, &l.extent));
    HN_TRY(hn_emit_optional(e, own ? own->scratch_bytes : line->scratch_bytes, &l.scratch));
    HN_TRY(put_groups(e, own ? own->threads : line->threads,
                      own ? own->shared_bytes : line->shared_bytes, &l));
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
        HN_TRY(put_launch(e, line, s, t ? &first : NULL, t));
        same &= !t || memcmp(&e->out.launches.items[s->launches + t], &first, sizeof first) == 0;
    }
    if (!same) return NULL;
    s->launch_count = 1;
    e->out.launches.count = s->launches + 1;
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
    if (line->variant_count)
        return HN_ERROR(HN_UNSUPPORTED, "line %u has variants, which bundles do not have yet", at);
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
        HN_TRY(put_launches(e, line, &s));
        HN_TRY(put_checks(e, line, &s));
    }
    if (s.kind == HNB_STEP_EXTERN) {
        s.param_count = line->param_count;
        HN_TRY(put_params(e, line->params, line->param_count, &s.params));
        if (line->kernel) HN_TRY(put_launches(e, line, &s));
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
