/* hooks.c: what is called around the steps of a run: the list of a module, the calls around one
 * step, and the operands of a step for those who look at them. */
#include "runtime/module_impl.h"

#include "base/checked.h"
#include "base/compiler.h"
#include "base/require.h"

/* ---- the list ---- */

static bool is_same(const hn_step_hook *a, const hn_step_hook *b) {
    return a->before == b->before && a->after == b->after && a->user == b->user;
}

/* The place of the caller's hook; count when it is not there. With m->lock held. */
static uint32_t find(const hn_module *m, const hn_step_hook *hook) {
    uint32_t k = m->own_hook_count;
    while (k < m->hooks.count && !is_same(&m->hooks.items[k], hook)) k++;
    return k;
}

static hn_status add(hn_module *m, const hn_step_hook *hook, bool waits) {
    if (find(m, hook) < m->hooks.count)
        return HN_ERROR(HN_INVALID_ARGUMENT, "the module has this hook already");
    if (m->hooks.count - m->own_hook_count == HN_MODULE_HOOKS_MAX)
        return HN_ERROR(HN_INVALID_ARGUMENT, "the module has %d hooks already; remove one first",
                        HN_MODULE_HOOKS_MAX);
    m->hooks.items[m->hooks.count] = *hook;
    m->hooks.waits[m->hooks.count] = waits;
    m->hooks.waiting += waits;
    __atomic_store_n(&m->hooks.count, m->hooks.count + 1, __ATOMIC_RELAXED);
    return NULL;
}

static hn_status drop(hn_module *m, const hn_step_hook *hook) {
    uint32_t k = find(m, hook);
    if (k == m->hooks.count)
        return HN_ERROR(HN_NOT_FOUND, "the module has no such hook; give what was added");
    m->hooks.waiting -= m->hooks.waits[k];
    for (; k + 1 < m->hooks.count; k++) {
        m->hooks.items[k] = m->hooks.items[k + 1];
        m->hooks.waits[k] = m->hooks.waits[k + 1];
    }
    __atomic_store_n(&m->hooks.count, m->hooks.count - 1, __ATOMIC_RELAXED);
    return NULL;
}

static hn_status add_locked(hn_module *m, const hn_step_hook *hook, bool waits) {
    pthread_mutex_lock(&m->lock);
    hn_status status = hn_writers_init(m);
    if (!status) status = add(m, hook, waits);
    pthread_mutex_unlock(&m->lock);
    return status;
}

hn_status hn_module_hook_add(hn_module *m, const hn_step_hook *hook) {
    HN_REQUIRE(m, "module");
    HN_REQUIRE(hook, "hook");
    return add_locked(m, hook, true);
}

hn_status hn_hooks_add_patient(hn_module *m, const hn_step_hook *hook) {
    return add_locked(m, hook, false);
}

hn_status hn_module_hook_remove(hn_module *m, const hn_step_hook *hook) {
    HN_REQUIRE(m, "module");
    HN_REQUIRE(hook, "hook");
    pthread_mutex_lock(&m->lock);
    hn_status status = drop(m, hook);
    pthread_mutex_unlock(&m->lock);
    return status;
}

void hn_hooks_take(hn_module *m, hn_context *c) {
    c->hooks.count = 0;
    c->call = 0;
    c->names_step = false;
    if (HN_LIKELY(__atomic_load_n(&m->hooks.count, __ATOMIC_RELAXED) == 0)) return;
    pthread_mutex_lock(&m->lock);
    c->hooks = m->hooks;
    c->call = ++m->hooked_calls;
    pthread_mutex_unlock(&m->lock);
}

/* ---- around one step ---- */

_Static_assert(HN_MODULE_STEP_KERNEL == (int)HNB_STEP_KERNEL &&
                   HN_MODULE_STEP_EXTERN == (int)HNB_STEP_EXTERN &&
                   HN_MODULE_STEP_COPY == (int)HNB_STEP_COPY &&
                   HN_MODULE_STEP_ASSERT == (int)HNB_STEP_ASSERT &&
                   HN_MODULE_STEP_COND == (int)HNB_STEP_COND &&
                   HN_MODULE_STEP_DEFINE == (int)HNB_STEP_DEFINE &&
                   HN_MODULE_STEP_WAIT == (int)HNB_STEP_WAIT &&
                   HN_MODULE_STEP_ZERO == (int)HNB_STEP_ZERO &&
                   HN_MODULE_STEP_LOOP == (int)HNB_STEP_LOOP,
               "the kinds of henry/module.h are those of the format");

static hn_step_info describe(const hn_module *m, const hn_context *c, uint32_t index) {
    const hnb_step *step = &m->view.steps[index];
    const hnb_origin *origin = &m->view.origins[step->origin];
    const hn_place place = hn_place_of(m, step->device);
    const hn_dev *dev = hn_place_dev(m, place);
    const hn_run_step *run = &c->bounds[0]->steps[index];
    const hnb_choice *choice = m->ways[index].choice;
    return (hn_step_info){.index = index,
                          .kind = (hn_module_step_kind)step->kind,
                          .name = hn_run_step_name(m, run),
                          .node = hn_bundle_text(&m->view, origin->node),
                          .source = hn_bundle_text(&m->view, origin->source),
                          .node_count = step->origin_count ? step->origin_count : step->origin != 0,
                          .operand_count = hn_bound_arg_count(m, c->bounds[0], index),
                          .call = c->call,
                          .variant = run->variant,
                          .variant_count = choice ? choice->head.variant_count : 1,
                          .form = hn_run_step_form(m, run),
                          .program = m->computes_weights ? "weights" : "",
                          .device = {.kind = dev->ops->kind, .number = dev->number},
                          .queue =
                              dev->ops->handle ? dev->ops->handle(c->places[place].queue) : NULL};
}

hn_status hn_hooks_before(hn_module *m, hn_context *c, const hn_run_step *s, hn_step_run *run) {
    *run = (hn_step_run){
        .m = m, .c = c, .s = s, .info = describe(m, c, s->index), .first = c->hooks.count};
    run->info.run = run;
    while (run->first > 0) {
        const hn_step_hook *hook = &c->hooks.items[run->first - 1];
        if (hook->before) HN_TRY(hook->before(hook->user, &run->info, &run->notes[run->first - 1]));
        run->first--;
    }
    return NULL;
}

hn_status hn_hooks_after(hn_step_run *run, bool has_failed) {
    hn_status first = NULL;
    run->info.has_failed = has_failed;
    run->is_after = true;
    for (uint32_t k = run->first; k < run->c->hooks.count; k++) {
        const hn_step_hook *hook = &run->c->hooks.items[k];
        hn_status status = hook->after ? hook->after(hook->user, &run->info, &run->notes[k]) : NULL;
        if (!status) continue;
        run->info.has_failed = true;
        if (first) hn_status_free(status);
        else first = status;
    }
    return first;
}

/* ---- operands ---- */

/* Results of steps have the name of a node; inputs and weights have their own. */
static bool is_result(const hnb_buffer *buffer) {
    return buffer->kind != HNB_BUFFER_INPUT && buffer->kind != HNB_BUFFER_CONSTANT;
}

static const char *node_of(const hn_module *m, uint32_t buffer) {
    const hnb_buffer *b = &m->view.buffers[buffer];
    return is_result(b) ? hn_bundle_text(&m->view, b->name) : "";
}

/* The name of what the caller or the model knows this memory by. */
static const char *name_of(const hn_module *m, uint32_t buffer) {
    const hnb_buffer *b = &m->view.buffers[buffer];
    if (!is_result(b)) return hn_bundle_text(&m->view, b->name);
    if (b->kind != HNB_BUFFER_OUTPUT) return "";
    for (uint32_t k = 0; k < m->view.outputs_count; k++)
        if (m->view.outputs[k].kind == HNB_VALUE_TENSOR && m->view.outputs[k].buffer == buffer)
            return hn_bundle_text(&m->view, m->view.outputs[k].name);
    return "";
}

/* No: of a step whose sizes nothing in the program has told, which cannot run; of what the test of
 * a loop gives, which is not there before and may be overwritten after; and of what is only read at
 * the beginning, because later steps may have used the memory for something else. */
static bool can_read(const hn_step_run *run) {
    const hn_module_step_kind kind = run->info.kind;
    if (run->s->kind == HNB_STEP_NONE || kind == HN_MODULE_STEP_LOOP) return false;
    return !run->is_after || (kind != HN_MODULE_STEP_COND && kind != HN_MODULE_STEP_DEFINE);
}

/* Of a tensor of known sizes, which lies inside its memory. */
static int64_t extent_of(const hn_bound_buffer *b) {
    int64_t bytes;
    hn_status status =
        hn_extent_bytes(b->rank, b->sizes, b->strides, hn_bundle_dtype_bytes(b->dtype), &bytes);
    const bool is_known = !status;
    hn_status_free(status);
    return is_known ? bytes : 0;
}

hn_status hn_step_operand_get(const hn_step_info *step, uint32_t operand, hn_step_operand *out) {
    HN_REQUIRE(step, "step");
    HN_REQUIRE(out, "out");
    if (operand >= step->operand_count)
        return HN_ERROR(HN_INVALID_ARGUMENT, "there is no operand %u; the step has %u", operand,
                        step->operand_count);
    const hn_step_run *run = step->run;
    hn_bound_buffer b;
    *out = (hn_step_operand){.name = "", .node = ""};
    if (!hn_bound_arg_get(run->m, run->c->bounds[0], step->index, operand, &b)) return NULL;
    *out =
        (hn_step_operand){.buffer = b.buffer,
                          .name = name_of(run->m, b.buffer),
                          .is_written = b.is_written,
                          .has_shape = b.is_known,
                          .type = b.dtype,
                          .device = {.kind = b.device, .number = run->m->devices[b.device]->number},
                          .rank = b.rank,
                          .data = hn_address(run->s->args[operand], -b.offset_bytes),
                          .offset_bytes = b.offset_bytes,
                          .node = node_of(run->m, b.buffer),
                          .is_partial = hn_writers_follow(run->m, b.buffer, step->index)};
    if (!can_read(run)) out->data = NULL;
    if (b.is_known) out->bytes = extent_of(&b);
    memcpy(out->sizes, b.sizes, sizeof out->sizes);
    memcpy(out->strides, b.strides, sizeof out->strides);
    return NULL;
}

hn_status hn_step_node_get(const hn_step_info *step, uint32_t k, const char **out_node,
                           const char **out_source) {
    HN_REQUIRE(step, "step");
    HN_REQUIRE(out_node, "out");
    if (k >= step->node_count) return hn_out_of_range("node", k, step->node_count);
    const hn_bundle *b = &step->run->m->view;
    const hnb_step *s = &b->steps[step->index];
    const hnb_origin *origin =
        &b->origins[s->origin_count ? b->step_origins[s->origins + k] : s->origin];
    *out_node = hn_bundle_text(b, origin->node);
    if (out_source) *out_source = hn_bundle_text(b, origin->source);
    return NULL;
}

hn_status hn_step_operand_read(const hn_step_info *step, uint32_t operand, void *to, size_t bytes) {
    hn_step_operand o;
    HN_REQUIRE(to, "out");
    HN_TRY(hn_step_operand_get(step, operand, &o));
    if (!o.data || (uint64_t)o.bytes < bytes)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "operand %u of the step has %lld bytes to read, not %zu", operand,
                        o.data ? (long long)o.bytes : 0, bytes);
    const hn_step_run *run = step->run;
    const hn_place place = hn_place_of(run->m, o.device.kind);
    return hn_place_dev(run->m, place)->ops->read(run->c->places[place].queue, to, o.data, bytes);
}
