/* run.c: one call of a module: take a context, bind, lay out inputs, walk the steps, hand out the
 * outputs. */
#include "runtime/module_impl.h"

#include "base/device.h"
#include "base/require.h"
#include "runtime/copy.h"

#include <inttypes.h>
#include <stdlib.h>

/* Whether kernels can read this tensor as it lies. */
static bool layout_fits(const hn_tensor *t, const int64_t *recorded) {
    const int64_t *sizes = hn_tensor_sizes(t), *strides = hn_tensor_strides(t);
    for (uint32_t d = 0; d < hn_tensor_rank(t); d++)
        if (sizes[d] > 1 && strides[d] != recorded[d]) return false;
    return (uintptr_t)hn_tensor_data(t) % hn_scalar_type_bytes(hn_tensor_type(t)) == 0;
}

/* Several elements would fall together: the model was exported with an expanded input. */
static hn_status check_expanded(const hn_module *m, uint32_t k, const hn_tensor *t,
                                const int64_t *recorded) {
    for (uint32_t d = 0; d < hn_tensor_rank(t); d++)
        if (hn_tensor_sizes(t)[d] > 1 && recorded[d] == 0 && hn_tensor_strides(t)[d] != 0)
            return HN_ERROR(HN_INVALID_ARGUMENT,
                            "input '%s' dimension %u has stride %" PRId64
                            ", must be 0: the model was exported with this dimension expanded",
                            hn_input_name(&m->view, k), d, hn_tensor_strides(t)[d]);
    return NULL;
}

/* Memory of an input's size. The old content is of no use: it goes before there is new memory. */
static hn_status grow_input(const hn_module *m, const hn_context *c, hn_dev *dev, hn_kept *kept,
                            uint32_t k, size_t bytes) {
    if (bytes <= kept->cap) return NULL;
    hn_dev_free(dev, kept->memory);
    *kept = (hn_kept){.memory = hn_dev_alloc(dev, bytes)};
    if (!kept->memory && !dev->facts.is_host)
        return hn_status_annotate(hn_device_memory_error(m, c->bounds[0], "an input", bytes),
                                  "input '%s'", hn_input_name(&m->view, k));
    if (!kept->memory)
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for input '%s'", hn_input_name(&m->view, k));
    kept->cap = bytes;
    return NULL;
}

static hn_status lay_out(hn_module *m, hn_context *c, uint32_t k, const hn_tensor *t) {
    const int64_t *strides = c->bounds[0]->input_strides[k];
    HN_TRY(check_expanded(m, k, t, strides));
    HN_TRY(grow_input(m, c, m->host, &c->laid_out[k], k, (size_t)c->bounds[0]->input_bytes[k]));
    hn_copy_strided(c->laid_out[k].memory, strides, hn_tensor_data(t), hn_tensor_strides(t),
                    hn_tensor_sizes(t), hn_tensor_rank(t), hn_scalar_type_bytes(hn_tensor_type(t)));
    c->io[k] = c->laid_out[k].memory;
    pthread_mutex_lock(&m->lock);
    m->stats.inputs_copied++;
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

/* Copies an input to memory of the device that is aligned. */
static hn_status upload_input(hn_module *m, hn_context *c, uint32_t u, const hn_tensor *t) {
    const hn_device_ops *ops = m->device->ops;
    const uint32_t k = m->uploads[u];
    const size_t bytes = (size_t)c->bounds[0]->input_bytes[k];
    hn_queue *queue = c->places[HN_PLACE_KERNELS].queue;
    hn_kept *kept = &c->remote[m->output_buffer_count + u];
    HN_TRY(grow_input(m, c, m->device, kept, k, bytes ? bytes : 1));
    c->io[m->view.inputs_count + m->output_buffer_count + u] = kept->memory;
    if (!bytes) return NULL;
    if (!hn_tensor_is_on_host(t)) return ops->copy(queue, kept->memory, hn_tensor_data(t), bytes);
    c->bytes_in += bytes;
    return ops->copy_in(queue, kept->memory, c->io[k], bytes);
}

/* What kernels of a device read of the inputs: copies, of memory that stays as it is until all is
 * done; or what is on the device already. Where a tensor has no elements its address need not be
 * memory, but a kernel reads there when it has found an index to be outside. */
static hn_status upload_inputs(hn_module *m, hn_context *c) {
    const uint32_t first = m->view.inputs_count + m->output_buffer_count;
    for (uint32_t u = 0; u < m->upload_count; u++) {
        const hn_tensor *t = c->inputs[m->uploads[u]];
        void *data = hn_tensor_data(t);
        if (!hn_tensor_is_on_host(t) && hn_tensor_numel(t) && hn_device_memory_fits(data))
            c->io[first + u] = data;
        else HN_TRY(upload_input(m, c, u, t));
    }
    return NULL;
}

/* Memory of the caller's on the device: nobody but kernels can lay it out. */
static hn_status check_layout(const hn_module *m, uint32_t k, const hn_tensor *t,
                              const int64_t *recorded) {
    char at[HN_DEVICE_TEXT_BYTES];
    HN_TRY(check_expanded(m, k, t, recorded));
    if (hn_tensor_numel(t) == 0 || layout_fits(t, recorded)) return NULL;
    hn_tensor_device_print(t, at);
    return HN_ERROR(HN_UNSUPPORTED,
                    "input '%s' is on %s in another layout than the recorded one, or not aligned; "
                    "copy it there",
                    hn_input_name(&m->view, k), at);
}

static hn_status set_inputs(hn_module *m, hn_context *c, hn_tensor *const *inputs) {
    for (uint32_t k = 0; k < m->view.inputs_count; k++) {
        const int64_t *recorded = c->bounds[0]->input_strides[k];
        if (!recorded) continue;
        if (HN_UNLIKELY(!hn_tensor_is_on_host(inputs[k])))
            HN_TRY(check_layout(m, k, inputs[k], recorded));
        else if (hn_tensor_numel(inputs[k]) == 0 || layout_fits(inputs[k], recorded))
            c->io[k] = hn_tensor_data(inputs[k]);
        else HN_TRY(lay_out(m, c, k, inputs[k]));
    }
    return m->upload_count ? upload_inputs(m, c) : NULL;
}

/* Hooks find the thread as the caller has left it. */
static void enter_queue(const hn_context *c) {
    if (!c->hooks.count) hn_queue_enter(c->places[HN_PLACE_KERNELS].queue);
}
static void leave_queue(const hn_context *c) {
    if (!c->hooks.count) hn_queue_leave(c->places[HN_PLACE_KERNELS].queue);
}

static hn_status submit_work(hn_module *m, hn_context *c, uint32_t input_count) {
    hn_queue *queue = c->places[HN_PLACE_KERNELS].queue;
    HN_TRY(hn_context_bind(m, c, c->inputs, input_count));
    if (c->has_stream) HN_TRY(m->device->ops->wait_for_caller(queue, c->stream));
    HN_TRY(set_inputs(m, c, c->inputs));
    if (m->stages.count) hn_bound_forget(m, c->bounds[0]);
    HN_TRY(hn_outputs_begin(m, c));
    if (HN_UNLIKELY(m->fill != HN_FILL_OFF)) HN_TRY(hn_fill_stage(m, c, 0));
    HN_TRY(hn_steps_run(m, c));
    return hn_outputs_fetch(m, c);
}

/* Gives all work to the device, but for what the host must see first. The host goes on, so the
 * caller's stream waits. */
static hn_status submit(hn_module *m, hn_context *c, uint32_t input_count) {
    enter_queue(c);
    hn_status status = submit_work(m, c, input_count);
    if (!status && c->has_stream)
        status = m->device->ops->let_caller_wait(c->places[HN_PLACE_KERNELS].queue, c->stream);
    leave_queue(c);
    return status;
}

static hn_status complete_work(hn_module *m, hn_context *c, hn_status submitted) {
    HN_TRY(hn_steps_finish(m, c, submitted));
    if (HN_UNLIKELY(c->pending != NULL)) HN_TRY(hn_debug_end(c));
    if (m->place_count > 1 && hn_cancel_is_set(c->cancel))
        return HN_ERROR(HN_CANCELLED, "the run was cancelled before its end");
    return hn_outputs_end(m, c);
}

/* Waits for it, and hands out the results. */
static hn_status complete(hn_module *m, hn_context *c) {
    enter_queue(c);
    hn_status status = complete_work(m, c, NULL);
    leave_queue(c);
    return status;
}

/* Memory that the run would write to must not be read-only. Wrong pointers are told by the checks
 * that come later. */
static hn_status check_const(const hn_module *m, hn_tensor *const *inputs, uint32_t input_count,
                             hn_tensor *const *outputs) {
    for (uint32_t k = 0; k < m->output_count; k++)
        if (outputs[k] && hn_tensor_is_const(outputs[k]))
            return HN_ERROR(
                HN_INVALID_ARGUMENT,
                "the tensor given for output %u is read-only memory; give writable memory or none",
                k);
    for (uint32_t k = 0; m->changes_inputs && k < m->view.outputs_count; k++) {
        const hnb_output *o = &m->view.outputs[k];
        if (!o->is_mutation || o->target_input < 0 || (uint32_t)o->target_input >= input_count)
            continue;
        if (hn_tensor_is_const(inputs[o->target_input]))
            return HN_ERROR(
                HN_INVALID_ARGUMENT,
                "input '%s' is read-only memory, but the program writes to it; give writable memory",
                hn_input_name(&m->view, (uint32_t)o->target_input));
    }
    return NULL;
}

static hn_status check_call(const hn_module *m, const hn_run_options *options,
                            hn_tensor *const *inputs, uint32_t input_count,
                            hn_tensor *const *outputs, uint32_t output_count) {
    if (!m) return HN_ERROR(HN_INVALID_ARGUMENT, "cannot run: the module is NULL");
    if (m->computes_weights && !m->weights)
        return HN_ERROR(
            HN_INVALID_ARGUMENT,
            "cannot run: the program of weights runs with the module that it belongs to; see "
            "hn_module_weights_recompute");
    if (input_count && !inputs)
        return HN_ERROR(HN_INVALID_ARGUMENT, "cannot run: 'inputs' is NULL, but there are to be %u",
                        input_count);
    if (output_count && !outputs)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "cannot run: 'outputs' is NULL, but there are to be %u", output_count);
    if (output_count != m->output_count)
        return HN_ERROR(HN_INVALID_ARGUMENT, "the model gives %u outputs, there is room for %u",
                        m->output_count, output_count);
    HN_TRY(hn_threads_check(options->threads));
    HN_TRY(hn_dev_check(m->device));
    if (options->has_stream && !m->device->ops->wait_for_caller)
        return HN_ERROR(HN_UNSUPPORTED, "runs on %s take no stream of the caller's",
                        hn_device_name(m->device->ops->kind));
    if (options->device_outputs && m->place_count > 1 && !m->device->facts.has_addresses)
        return HN_ERROR(HN_UNSUPPORTED, "outputs of runs on %s are on %s",
                        hn_device_name(m->device->ops->kind), hn_device_name(m->host->ops->kind));
    if (options->state && options->state->m != m)
        return HN_ERROR(
            HN_INVALID_ARGUMENT,
            "the state is of another module; make one with hn_state_create for this module");
    return check_const(m, inputs, input_count, outputs);
}

static const hn_run_options no_options;

/* A context that is set up for the call. */
static hn_status take_context(hn_module *m, const hn_run_options *options, hn_tensor *const *inputs,
                              uint32_t input_count, hn_tensor **outputs, hn_context **out) {
    HN_TRY(hn_context_take(m, out));
    hn_context *c = *out;
    c->cancel = options->cancel;
    c->has_stream = options->has_stream;
    c->stream = options->stream;
    c->device_outputs = options->device_outputs && m->place_count > 1;
    c->threads =
        options->threads > 0 && options->threads < m->threads ? options->threads : m->threads;
    c->form = options->form;
    c->state = options->state ? options->state : m->state;
    c->inputs = inputs;
    c->outputs = outputs;
    hn_hooks_take(m, c);
    hn_status status = hn_donations_take(m, c, options, input_count);
    if (!status && m->has_state) status = hn_state_take_turn(c->state);
    if (status) hn_context_give(m, c);
    return status;
}

/* Behind the run: nothing of it is at work any more. */
static void give_context(hn_module *m, hn_context *c) {
    hn_outputs_reset(m, c);
    if (m->has_state) pthread_mutex_unlock(&c->state->turn);
    hn_context_give(m, c);
}

hn_status hn_module_run_with(hn_module *m, const hn_run_options *given, hn_tensor *const *inputs,
                             uint32_t input_count, hn_tensor **outputs, uint32_t output_count) {
    const hn_run_options *options = given ? given : &no_options;
    hn_context *c;
    HN_TRY(check_call(m, options, inputs, input_count, outputs, output_count));
    HN_TRY(take_context(m, options, inputs, input_count, outputs, &c));
    enter_queue(c); /* once for both */
    hn_status status = complete_work(m, c, submit_work(m, c, input_count));
    leave_queue(c);
    give_context(m, c);
    return status;
}

hn_status hn_module_run(hn_module *m, hn_tensor *const *inputs, uint32_t input_count,
                        hn_tensor **outputs, uint32_t output_count) {
    return hn_module_run_with(m, NULL, inputs, input_count, outputs, output_count);
}

/* ---- runs that are begun and ended ---- */

/* What a run keeps from its beginning to its end. */
struct hn_run {
    hn_module *m;
    hn_context *c;
    hn_tensor **inputs, **outputs; /* own lists; of outputs the caller's tensors, until the end */
    uint32_t input_count, output_count;
    hn_tensor **out;  /* the caller's list */
    pthread_t thread; /* that has begun it, and holds the turn of the state */
};

static void run_free(hn_run *run) {
    for (uint32_t k = 0; run->inputs && k < run->input_count; k++)
        hn_tensor_release(run->inputs[k]);
    hn_module_release(run->m);
    free(run->inputs);
    free(run->outputs);
    free(run);
}

static hn_status run_create(hn_module *m, hn_tensor *const *inputs, uint32_t input_count,
                            hn_tensor **outputs, uint32_t output_count, hn_run **out) {
    hn_run *run = calloc(1, sizeof *run);
    if (!run) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a run");
    *run = (hn_run){.m = hn_module_retain(m),
                    .input_count = input_count,
                    .output_count = output_count,
                    .out = outputs,
                    .thread = pthread_self()};
    run->inputs = calloc((size_t)input_count + 1, sizeof *run->inputs);
    run->outputs = calloc((size_t)output_count + 1, sizeof *run->outputs);
    if (!run->inputs || !run->outputs) {
        run->input_count = 0;
        run_free(run);
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a run");
    }
    for (uint32_t k = 0; k < input_count; k++) run->inputs[k] = hn_tensor_retain(inputs[k]);
    for (uint32_t k = 0; k < output_count; k++) run->outputs[k] = outputs[k];
    *out = run;
    return NULL;
}

hn_status hn_run_begin(hn_module *m, const hn_run_options *given, hn_tensor *const *inputs,
                       uint32_t input_count, hn_tensor **outputs, uint32_t output_count,
                       hn_run **out_run) {
    const hn_run_options *options = given ? given : &no_options;
    hn_run *run = NULL;
    HN_REQUIRE(out_run, "out_run");
    HN_TRY(check_call(m, options, inputs, input_count, outputs, output_count));
    HN_TRY(run_create(m, inputs, input_count, outputs, output_count, &run));
    hn_status status = take_context(m, options, run->inputs, input_count, run->outputs, &run->c);
    if (!status) {
        status = submit(m, run->c, input_count);
        hn_team_end(&run->c->team); /* others may have the threads until the end */
        if (status) status = hn_steps_finish(m, run->c, status);
        if (status) give_context(m, run->c);
    }
    if (status) run_free(run);
    else *out_run = run;
    return status;
}

hn_status hn_run_end(hn_run *run) {
    if (!run) return NULL;
    if (run->m->has_state && !pthread_equal(run->thread, pthread_self()))
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "the run changes a state and was begun in another thread; end it there");
    hn_status status = hn_dev_check(run->m->device);
    if (!status) status = complete(run->m, run->c);
    for (uint32_t k = 0; k < run->output_count && !status; k++) run->out[k] = run->outputs[k];
    give_context(run->m, run->c);
    run_free(run);
    return status;
}
