/* debug_look.c: looks at one tensor: gets its content or its statistics, and says, saves or checks
 * them. */
#include "runtime/debug.h"

#include "base/require.h"
#include "runtime/device_stats.h"

#include <stdlib.h>

/* ---- content and statistics ---- */

/* Of an operand of a step, which may have nothing to read. */
static hn_status begin(const hn_step_info *step, uint32_t k, const hn_step_operand *o,
                       hn_debug_tensor *t) {
    const hn_module *m = step->run->m;
    const hn_place place = hn_place_of(m, o->device.kind);
    if (!o->has_shape || (!o->data && o->bytes))
        return HN_ERROR(HN_INVALID_ARGUMENT, "operand %u of the step has nothing to read", k);
    t->step = step;
    t->operand = o;
    if (hn_place_dev(m, place)->facts.is_host) t->data = o->data;
    else t->queue = step->run->c->places[place].queue;
    return NULL;
}

/* Memory of a device, in memory of the host, which the caller frees. */
static hn_status copy_out(hn_queue *queue, const void *from, int64_t bytes, void **out) {
    void *copy = malloc((size_t)bytes);
    if (!copy)
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a copy of %lld bytes", (long long)bytes);
    hn_status status = queue->dev->ops->read(queue, copy, from, (size_t)bytes);
    if (status) free(copy);
    else *out = copy;
    return status;
}

/* Brings the content where the host can read it. */
static hn_status fetch(hn_debug_tensor *t) {
    const hn_step_operand *o = t->operand;
    if (!t->queue || t->own || !o->bytes) return NULL;
    HN_TRY(copy_out(t->queue, o->data, o->bytes, &t->own));
    t->data = t->own;
    return NULL;
}

/* A device makes them itself, where the tensor is. */
static hn_status get_stats(hn_debug_tensor *t, hn_tensor_stats *out) {
    const hn_step_run *run = t->step->run;
    const hn_step_operand *o = t->operand;
    hn_stats_tensor s = {.type = o->type,
                         .rank = o->rank,
                         .sizes = o->sizes,
                         .strides = o->strides,
                         .data = o->data};
    if (t->queue && hn_device_stats_get(run->c, run->m, t->step->index, &s, out)) return NULL;
    HN_TRY(fetch(t));
    s.data = t->data;
    hn_tensor_stats_get(&s, &run->c->team, run->c->threads, out);
    return NULL;
}

hn_status hn_step_operand_stats(const hn_step_info *step, uint32_t operand, hn_tensor_stats *out) {
    hn_step_operand o;
    hn_debug_tensor t = {.data = NULL};
    HN_REQUIRE(out, "out");
    HN_TRY(hn_step_operand_get(step, operand, &o));
    HN_TRY(begin(step, operand, &o, &t));
    hn_status status = get_stats(&t, out);
    free(t.own);
    return status;
}

/* ---- one tensor ---- */

/* Says, saves or checks what is known. With d->out->lock held. */
static hn_status report(hn_debug *d, const hn_debug_tensor *t, const hn_debug_copy *before) {
    hn_status status = NULL;
    if (d->options.level == HN_DEBUG_CHECK)
        return hn_debug_check(d, t, before ? before->host : NULL);
    if (d->options.level == HN_DEBUG_SAVE) status = hn_debug_files_save(d, t);
    return status ? hn_debug_say_trouble(d, t, status) : hn_debug_say_tensor(d, t);
}

/* What the level asks for, of the tensor and of what was there before. CHECK wants the content of
 * few tensors only. */
static hn_status gather(const hn_debug *d, hn_debug_tensor *t, hn_debug_copy *before,
                        hn_tensor_stats *out) {
    if (d->options.level == HN_DEBUG_SAVE) return fetch(t);
    HN_TRY(get_stats(t, out));
    if (d->options.level != HN_DEBUG_CHECK || !hn_debug_check_reads(d, out, before != NULL))
        return NULL;
    if (before && before->remote && !before->host)
        HN_TRY(copy_out(t->queue, before->remote, t->operand->bytes, &before->host));
    return fetch(t);
}

/* Nobody has looked at it after all. */
static hn_status give_up(hn_debug *d, const hn_debug_tensor *t, hn_status why) {
    pthread_mutex_lock(&d->out->lock);
    t->seen->mark = 0;
    hn_status status = hn_debug_say_trouble(d, t, why);
    pthread_mutex_unlock(&d->out->lock);
    return status;
}

/* The lock is not held while the tensor is read. What ends the run is looked at by the next one,
 * too: a weight may be the fault of every run. So is what could not be saved. */
static hn_status examine(hn_debug *d, hn_debug_tensor *t, uint64_t mark, hn_debug_copy *before) {
    hn_tensor_stats stats = {.first_bad = -1};
    hn_status status = gather(d, t, before, &stats);
    if (status) return give_up(d, t, status);
    pthread_mutex_lock(&d->out->lock);
    t->seen->mark = mark;
    t->seen->stats = stats;
    free(t->seen->file);
    t->seen->file = NULL;
    status = report(d, t, before);
    if (status || (d->options.level == HN_DEBUG_SAVE && !t->seen->file)) t->seen->mark = 0;
    pthread_mutex_unlock(&d->out->lock);
    return status;
}

/* A weight that no run changes. */
static bool is_weight(const hn_module *m, uint32_t buffer) {
    const hnb_buffer *b = &m->view.buffers[buffer];
    return b->kind == HNB_BUFFER_CONSTANT && !m->view.storages[b->source].is_mutable;
}

/* Whether it was seen, and is as it was. Then there is nothing new to say about a weight, which
 * runs of several threads share: the first one that comes looks at it. */
static bool was_seen(hn_debug *d, const hn_debug_tensor *t, uint64_t mark, bool is_a_weight,
                     hn_status *out) {
    pthread_mutex_lock(&d->out->lock);
    const bool is_known = t->seen->mark == mark && t->when != HN_DEBUG_AFTER;
    const bool is_said = is_a_weight || d->options.level == HN_DEBUG_CHECK;
    *out = is_known && !is_said ? report(d, t, NULL) : NULL;
    if (is_a_weight) t->seen->mark = mark;
    pthread_mutex_unlock(&d->out->lock);
    return is_known;
}

static hn_status note_seen(hn_debug *d, const hn_debug_tensor *t, uint64_t mark) {
    pthread_mutex_lock(&d->out->lock);
    t->seen->mark = mark;
    pthread_mutex_unlock(&d->out->lock);
    return NULL;
}

/* What the device has written down of earlier tensors comes first. Takes `found`. */
static hn_status first_fault(hn_context *c, hn_status found) {
    hn_status earlier = hn_debug_end(c);
    if (!earlier) return found;
    hn_status_free(found);
    return earlier;
}

hn_status hn_debug_look(hn_debug *d, hn_debug_call *call, hn_debug_when when,
                        const hn_step_info *step, uint32_t k, hn_debug_copy *before) {
    hn_step_operand o;
    hn_status status = hn_step_operand_get(step, k, &o);
    if (status || !o.buffer) return status;
    const bool is_constant = is_weight(d->m, o.buffer);
    const uint64_t mark = is_constant ? step->run->c->weights->id : step->call;
    hn_debug_tensor t = {.call = step->call,
                         .when = when,
                         .step = step,
                         .operand = &o,
                         .seen = is_constant ? &d->weights[o.buffer] : &call->seen[o.buffer]};
    if (d->options.level == HN_DEBUG_CHECK &&
        (!hn_debug_has_bad(o.type) || (when == HN_DEBUG_BEFORE && o.is_partial)))
        return NULL;
    if (was_seen(d, &t, mark, is_constant, &status)) return status;
    status = begin(step, k, &o, &t);
    if (!status && !before && d->options.level == HN_DEBUG_CHECK) {
        bool is_done;
        HN_TRY(hn_debug_look_later(d, &t, &is_done));
        if (is_done) return note_seen(d, &t, mark);
    }
    status = status ? give_up(d, &t, status) : examine(d, &t, mark, before);
    free(t.own);
    if (status && d->options.level == HN_DEBUG_CHECK) status = first_fault(step->run->c, status);
    return status;
}

/* ---- inputs of the model ---- */

static hn_status say_number(hn_debug *d, const hn_step_info *step, const char *name,
                            const hn_tensor *tensor) {
    hn_tensor_stats one;
    hn_strbuf text;
    hn_tensor_stats_get(
        &(hn_stats_tensor){.type = hn_tensor_type(tensor), .data = hn_tensor_data(tensor)}, NULL, 1,
        &one);
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "call %llu: input '%s' is %.17g", (unsigned long long)step->call, name,
                     one.first_bad < 0 ? one.min : one.first_bad_value);
    pthread_mutex_lock(&d->out->lock);
    hn_status status = hn_debug_say(
        d, &(hn_debug_event){.call = step->call, .when = HN_DEBUG_INPUT, .step = step}, &text);
    pthread_mutex_unlock(&d->out->lock);
    return status;
}

/* The buffer that an input is in, for the steps; 0: none reads it. */
static uint32_t buffer_of(const hn_module *m, uint32_t input) {
    uint32_t b = m->view.buffers_count - 1;
    while (b && (m->view.buffers[b].kind != HNB_BUFFER_INPUT || m->view.buffers[b].source != input))
        b--;
    return b;
}

/* The caller's tensor, as an operand. */
static hn_step_operand operand_of(const hn_module *m, uint32_t input, const hn_tensor *tensor) {
    hn_step_operand o = {.buffer = buffer_of(m, input),
                         .name = hn_input_name(&m->view, input),
                         .node = "",
                         .has_shape = true,
                         .type = hn_tensor_type(tensor),
                         .device = hn_tensor_device(tensor),
                         .rank = hn_tensor_rank(tensor),
                         .data = hn_tensor_data(tensor)};
    memcpy(o.sizes, hn_tensor_sizes(tensor), o.rank * sizeof *o.sizes);
    memcpy(o.strides, hn_tensor_strides(tensor), o.rank * sizeof *o.strides);
    hn_status status = hn_extent_bytes(o.rank, o.sizes, o.strides,
                                       (uint32_t)hn_scalar_type_bytes(o.type), &o.bytes);
    hn_status_free(status); /* then it has no bytes; a tensor of the caller's was checked */
    return o;
}

static hn_status look_at_input(hn_debug *d, hn_debug_call *call, const hn_step_info *step,
                               uint32_t k) {
    const hn_module *m = step->run->m;
    const hn_tensor *tensor = step->run->c->inputs[k];
    const char *name = hn_input_name(&m->view, k);
    if (!tensor) return NULL;
    if (m->view.inputs[k].kind != HNB_VALUE_TENSOR)
        return d->options.level == HN_DEBUG_STATS ? say_number(d, step, name, tensor) : NULL;
    const hn_step_operand o = operand_of(m, k, tensor);
    if (!hn_debug_matches(d->options.arguments, name)) return NULL;
    hn_debug_tensor t = {.call = step->call,
                         .when = HN_DEBUG_INPUT,
                         .step = step,
                         .operand = &o,
                         .seen = &call->seen[o.buffer]};
    if (hn_tensor_is_on_host(tensor)) t.data = o.data;
    else t.queue = step->run->c->places[HN_PLACE_KERNELS].queue;
    hn_status status = examine(d, &t, step->call, NULL);
    free(t.own);
    return status;
}

/* When steps are chosen, inputs are looked at where those read them; and so does CHECK, whose error
 * then names a step that is given one. */
hn_status hn_debug_look_at_inputs(hn_debug *d, hn_debug_call *call, const hn_step_info *step) {
    if (d->options.kernels || d->options.nodes || d->options.level == HN_DEBUG_CHECK) return NULL;
    for (uint32_t k = 0; k < step->run->m->view.inputs_count; k++)
        HN_TRY(look_at_input(d, call, step, k));
    return NULL;
}
