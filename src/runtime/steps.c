/* steps.c: walking the resolved steps. */
#include "runtime/kernels.h"

#include "base/checked.h"
#include "base/compiler.h"
#include "runtime/externs.h"
#include "runtime/index_fault.h"

#include <inttypes.h>

static hn_status node_error(const hn_module *m, const hn_run_step *s, uint32_t at,
                            hn_status status) {
    const hnb_origin *origin = &m->view.origins[at];
    const char *node = hn_bundle_text(&m->view, origin->node),
               *source = hn_bundle_text(&m->view, origin->source);
    if (!*node && !*source) return hn_status_annotate(status, "step %u", s->index);
    return hn_status_annotate(status, "node '%s'%s%s%s", node, *source ? " (" : "", source,
                              *source ? ")" : "");
}

static hn_status step_error(const hn_module *m, const hn_run_step *s, hn_status status) {
    return node_error(m, s, m->view.steps[s->index].origin, status);
}

/* A kernel says that an index was bad, not which: its checks are made again here, one after the
 * other. `until`: see index_fault.h. */
static hn_status kernel_error(const hn_module *m, const hn_context *c, const hn_run_step *s,
                              uint32_t until) {
    const hnb_step *step = &m->view.steps[s->index];
    if (step->kind == HNB_STEP_EXTERN)
        return step_error(
            m, s,
            HN_ERROR(HN_INVALID_ARGUMENT,
                     "the operation '%s' cannot be done with the data of its operands",
                     hn_bundle_extern_name(step->extern_kind)));
    for (uint32_t k = 0; k + HNB_CHECK_PARAMS <= step->param_count; k += HNB_CHECK_PARAMS) {
        hn_index_fault fault;
        if (!hn_index_fault_find(m, c, s, k, until, &fault)) continue;
        hn_status status =
            fault.is_found
                ? HN_ERROR(HN_INVALID_ARGUMENT,
                           "index %" PRId64 "%s%s%s is out of bounds; valid indices are %" PRId64
                           " to %" PRId64,
                           fault.value, *fault.input ? " in input '" : "", fault.input,
                           *fault.input ? "'" : "", fault.lo, fault.hi)
                : HN_ERROR(HN_INVALID_ARGUMENT,
                           "an index is out of bounds; valid indices are %" PRId64 " to %" PRId64,
                           fault.lo, fault.hi);
        return node_error(m, s, fault.origin, status);
    }
    return step_error(m, s, HN_ERROR(HN_INVALID_ARGUMENT, "an index is out of bounds"));
}

static hn_status assert_error(const hn_module *m, const hn_run_step *s) {
    const char *text = hn_bundle_text(&m->view, m->view.steps[s->index].text);
    return step_error(
        m, s, HN_ERROR(HN_INVALID_ARGUMENT, "assertion failed%s%s", *text ? ": " : "", text));
}

/* The element as int64; what types there may be is checked when the bundle is opened. */
int64_t hn_number_read(const void *element, uint32_t type) {
    int32_t i32;
    int16_t i16;
    int64_t i64;
    switch (type) {
    case HN_I32: memcpy(&i32, element, sizeof i32); return i32;
    case HN_I16: memcpy(&i16, element, sizeof i16); return i16;
    case HN_I8: return *(const int8_t *)element;
    case HN_U8: return *(const uint8_t *)element;
    case HN_BOOL: return *(const uint8_t *)element != 0;
    default: memcpy(&i64, element, sizeof i64); return i64;
    }
}

/* What the walk asks of the data: the step's one operand, a number. */
static hn_status read_number(const hn_module *m, const hn_context *c, const hn_run_step *s,
                             int64_t *out) {
    const uint32_t type = m->view.operands[m->view.steps[s->index].operands].dtype;
    uint8_t element[8] = {0};
    hn_status status = hn_place_dev(m, s->place)
                           ->ops->read(c->places[s->place].queue, element, s->args[0],
                                       hn_bundle_dtype_bytes(type));
    if (status) return step_error(m, s, status);
    *out = hn_number_read(element, type);
    return NULL;
}

static hn_status run_assert(const hn_module *m, const hn_context *c, const hn_run_step *s) {
    int64_t holds;
    HN_TRY(read_number(m, c, s, &holds));
    return holds ? NULL : assert_error(m, s);
}

static hn_status run_define(hn_module *m, hn_context *c, const hn_run_step *s) {
    int64_t value;
    HN_TRY(read_number(m, c, s, &value));
    hn_status status = hn_bound_define(m, c, m->view.steps[s->index].symbol, value);
    return status ? step_error(m, s, status) : NULL;
}

/* The kernel, wanted for the first time by this bound. */
static hn_status find_kernel(hn_module *m, hn_run_step *s) {
    void *kernel;
    hn_status status = hn_kernels_get(m, s->kernel, &kernel);
    if (status) return step_error(m, s, status);
    hn_kernel_set(m, s, kernel);
    return NULL;
}

static inline hn_status call_kernel(const hn_module *m, const hn_context *c, const hn_run_step *s) {
    const int rc =
        s->fn(s->args, s->params, 0, s->extent, c->places[HN_PLACE_KERNELS].scratch.memory);
    return HN_LIKELY(rc == 0) ? NULL : kernel_error(m, c, s, s->index);
}

/* What the walk does not call itself. There are never more parts than the module has threads, for
 * which there is scratch memory. */
HN_NOINLINE static hn_status launch_kernel(hn_module *m, hn_context *c, hn_run_step *s) {
    hn_device_fault fault;
    if (hn_kernel_is_direct(m, s) || !s->launch->kernel) HN_TRY(find_kernel(m, s));
    if (s->fn) return call_kernel(m, c, s);
    if (!s->launch->threads[0]) {
        s->launch->scratch = c->places[HN_PLACE_KERNELS].scratch.memory;
        s->launch->scratch_stride = c->bounds[0]->scratch_stride;
    }
    hn_status status = m->device->ops->launch(c->places[HN_PLACE_KERNELS].queue, s->launch, &fault);
    if (status) return step_error(m, s, status);
    return HN_LIKELY(!fault.is_set) ? NULL : kernel_error(m, c, s, s->index);
}

static hn_status run_extern(hn_module *m, hn_context *c, hn_run_step *s) {
    hn_device_fault fault;
    if (s->ext->has_kernel) return s->extent ? launch_kernel(m, c, s) : NULL;
    hn_status status = hn_extern_run(c, s, &fault);
    if (HN_UNLIKELY(status != NULL)) return step_error(m, s, status);
    return HN_LIKELY(!fault.is_set) ? NULL : kernel_error(m, c, s, s->index);
}

/* Waits for the device, which has got steps below `until`. What a kernel has found wrong comes
 * before what followed from it: `status`. */
static hn_status finish_until(const hn_module *m, const hn_context *c, uint32_t until,
                              hn_status status) {
    hn_device_fault fault = {.is_set = false};
    hn_status late = m->device->ops->finish(c->places[HN_PLACE_KERNELS].queue, &fault);
    if (!late && fault.is_set) late = kernel_error(m, c, &c->bounds[0]->steps[fault.step], until);
    if (HN_LIKELY(!late)) return status;
    hn_status_free(status);
    return late;
}

hn_status hn_steps_finish(const hn_module *m, const hn_context *c, hn_status status) {
    return finish_until(m, c, m->view.steps_count, status);
}

static hn_status run_copy(const hn_module *m, hn_context *c, const hn_run_step *s) {
    hn_status status = s->copy(c->places[s->place].queue, s->args[0], s->args[1], s->bytes);
    if (status) return step_error(m, s, status);
    const bool to = hn_buffer_is_remote(m, m->view.steps[s->index].buffer);
    const bool from = hn_buffer_is_remote(m, m->view.steps[s->index].from);
    if (to && !from) c->bytes_in += s->bytes;
    if (from && !to) c->bytes_out += s->bytes;
    return NULL;
}

static hn_status run_zero(const hn_module *m, const hn_context *c, const hn_run_step *s) {
    hn_status status =
        hn_place_dev(m, s->place)->ops->fill(c->places[s->place].queue, s->args[0], 0, s->bytes);
    return status ? step_error(m, s, status) : NULL;
}

static hn_status run_range(hn_module *m, hn_context *c, uint32_t first, uint32_t end);

/* Conditionals and loops nest at most HNB_MAX_COND_DEPTH deep. */
static hn_status run_branch(hn_module *m, hn_context *c, const hn_run_step *s) {
    const uint32_t first = s->index + 1, otherwise = first + s->then_count;
    int64_t taken;
    HN_TRY(read_number(m, c, s, &taken));
    return taken ? run_range(m, c, first, otherwise)
                 : run_range(m, c, otherwise, first + s->body_count);
}

static hn_status check_cancel(const hn_module *m, const hn_context *c, const hn_run_step *s) {
    if (HN_LIKELY(c->cancel == NULL) || !hn_cancel_is_set(c->cancel)) return NULL;
    return step_error(m, s, HN_ERROR(HN_CANCELLED, "the run was cancelled before this step"));
}

/* A round without steps is one in which a run can be cancelled, too. */
static hn_status run_loop(hn_module *m, hn_context *c, const hn_run_step *s) {
    const uint32_t first = s->index + 1, body = first + s->then_count, end = first + s->body_count;
    for (int64_t n = 0; s->rounds < 0 || n < s->rounds; n++) {
        int64_t goes_on = 1;
        HN_TRY(check_cancel(m, c, s));
        hn_bound_forget_range(m, c->bounds[0], first, body);
        HN_TRY(run_range(m, c, first, body));
        if (s->rounds < 0) HN_TRY(read_number(m, c, s, &goes_on));
        if (!goes_on) break;
        hn_bound_forget_range(m, c->bounds[0], body, end);
        HN_TRY(run_range(m, c, body, end));
    }
    hn_bound_forget_range(m, c->bounds[0], first, end);
    return NULL;
}

HN_NOINLINE static hn_status run_other(hn_module *m, hn_context *c, hn_run_step *s) {
    switch (s->kind) {
    case HNB_STEP_EXTERN: return run_extern(m, c, s);
    case HNB_STEP_COPY: return run_copy(m, c, s);
    case HNB_STEP_ZERO: return run_zero(m, c, s);
    case HNB_STEP_ASSERT: return run_assert(m, c, s);
    case HNB_STEP_COND: return run_branch(m, c, s);
    case HNB_STEP_LOOP: return run_loop(m, c, s);
    case HNB_STEP_DEFINE: return run_define(m, c, s);
    case HNB_STEP_WAIT: return finish_until(m, c, s->index, NULL);
    default: return HN_ERROR(HN_INTERNAL, "step of kind %u", s->kind);
    }
}

/* In the loop over the steps: what most of them need. */
static inline hn_status run_step(hn_module *m, hn_context *c, hn_run_step *s) {
    if (HN_UNLIKELY(s->kind != HNB_STEP_KERNEL)) return run_other(m, c, s);
    if (s->extent == 0) return NULL;
    return HN_LIKELY(s->fn != NULL) ? call_kernel(m, c, s) : launch_kernel(m, c, s);
}

/* The time between two events; 0 if it cannot be told. */
static int64_t time_between(const hn_device_ops *ops, hn_event *begin, hn_event *end) {
    int64_t from = 0, to = 0;
    hn_status status = begin && end ? ops->event_time(begin, &from) : NULL;
    if (!status && begin && end) status = ops->event_time(end, &to);
    const int64_t ns = status ? 0 : to - from;
    hn_status_free(status);
    return ns;
}

static hn_event *record(const hn_module *m, const hn_context *c) {
    hn_event *event = NULL;
    hn_status status = m->device->ops->record(c->places[HN_PLACE_KERNELS].queue, &event);
    const bool is_there = !status;
    /* the run goes on without the time; who has lost the device is told by the step */
    hn_status_free(status);
    return is_there ? event : NULL;
}

/* A step with hooks around it: nothing is at work behind it. */
static hn_status run_and_wait(hn_module *m, hn_context *c, hn_run_step *s, int64_t *out_ns) {
    const hn_device_ops *ops = m->device->ops;
    const uint32_t until = s->index + 1 + s->body_count;
    *out_ns = 0;
    if (!m->has_profile || !ops->event_time ||
        (s->kind != HNB_STEP_KERNEL && s->kind != HNB_STEP_COPY && s->kind != HNB_STEP_ZERO &&
         (s->kind != HNB_STEP_EXTERN || s->place != HN_PLACE_KERNELS)))
        return finish_until(m, c, until, run_step(m, c, s));
    hn_event *begin = record(m, c);
    hn_status status = run_step(m, c, s);
    hn_event *end = record(m, c);
    status = finish_until(m, c, until, status);
    if (!status) *out_ns = time_between(ops, begin, end);
    ops->event_free(begin);
    ops->event_free(end);
    return status;
}

/* What comes to the host by a copy is read where it is. */
static bool must_wait(const hn_context *c, const hn_run_step *s) {
    return c->hooks.waiting || s->kind == HNB_STEP_COPY;
}

static hn_status hook_error(const hn_module *m, const hn_context *c, const hn_run_step *s,
                            hn_status status) {
    return c->names_step ? status : step_error(m, s, status);
}

hn_status hn_steps_blame(const hn_module *m, const hn_context *c, uint32_t step, hn_status status) {
    return step_error(m, &c->bounds[0]->steps[step], status);
}

HN_NOINLINE static hn_status run_hooked(hn_module *m, hn_context *c, hn_run_step *s) {
    hn_step_run run;
    hn_status status = hn_hooks_before(m, c, s, &run);
    if (status) status = hook_error(m, c, s, status);
    else status = must_wait(c, s) ? run_and_wait(m, c, s, &run.info.device_ns) : run_step(m, c, s);
    hn_status after = hn_hooks_after(&run, status != NULL);
    if (!after || status) {
        hn_status_free(after);
        return status;
    }
    return hook_error(m, c, s, after);
}

/* Steps [first, end). */
static hn_status run_range(hn_module *m, hn_context *c, uint32_t first, uint32_t end) {
    hn_run_step *steps = c->bounds[0]->steps;
    const bool is_hooked = c->hooks.count != 0;
    for (uint32_t k = first; k < end; k += 1 + steps[k].body_count) {
        hn_run_step *s = &steps[k];
        HN_TRY(check_cancel(m, c, s));
        HN_TRY(HN_UNLIKELY(is_hooked) ? run_hooked(m, c, s) : run_step(m, c, s));
    }
    return NULL;
}

static hn_status walk(hn_module *m, hn_context *c) {
    return run_range(m, c, 0, m->view.steps_count);
}

hn_status hn_steps_load(hn_module *m, const hn_context *c) {
    const hn_run_step *steps = c->bounds[0]->steps;
    for (uint32_t k = 0; k < m->view.steps_count; k += 1 + steps[k].body_count) {
        const hn_run_step *s = &steps[k];
        const bool has_kernel =
            s->kind == HNB_STEP_KERNEL || (s->kind == HNB_STEP_EXTERN && s->ext->has_kernel);
        void *ignored;
        if (!has_kernel || s->extent == 0) continue;
        hn_status status = hn_kernels_get(m, s->kernel, &ignored);
        if (status) return step_error(m, s, status);
    }
    return NULL;
}

hn_status hn_steps_run(hn_module *m, hn_context *c) {
    hn_bound *bound = c->bounds[0];
    for (uint32_t k = 0; k < bound->io_patches.count; k++) {
        const hn_run_patch *patch = &bound->io_patches.items[k];
        void *address = hn_address(c->io[patch->io], patch->offset_bytes);
        if (*patch->slot != address) hn_bound_patch(bound, patch, address);
    }
    if (HN_UNLIKELY(bound->has_stale_layouts)) hn_bound_renew_layouts(m, bound);
    return HN_UNLIKELY(m->records) ? hn_recordings_run(m, c, walk) : walk(m, c);
}
