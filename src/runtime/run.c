/* run.c: one call of a module: take a context, bind, lay out inputs, walk the steps, hand out the outputs. */
#include "runtime/module_impl.h"

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
static hn_status check_expanded(const hn_module *m, uint32_t k, const hn_tensor *t, const int64_t *recorded) {
    for (uint32_t d = 0; d < hn_tensor_rank(t); d++)
        if (hn_tensor_sizes(t)[d] > 1 && recorded[d] == 0 && hn_tensor_strides(t)[d] != 0)
            return HN_ERROR(HN_INVALID_ARGUMENT,
                            "input '%s' dimension %u has stride %" PRId64
                            ", must be 0: the model was exported with this dimension expanded",
                            hn_input_name(&m->view, k), d, hn_tensor_strides(t)[d]);
    return NULL;
}

static hn_status lay_out(hn_module *m, hn_context *c, uint32_t k, const hn_tensor *t) {
    const int64_t *strides = c->bounds[0]->input_strides[k];
    size_t bytes = (size_t)c->bounds[0]->input_bytes[k];
    HN_TRY(check_expanded(m, k, t, strides));
    if (bytes > c->laid_out_cap[k]) {
        hn_dev_free(m->device, c->laid_out[k]);
        c->laid_out[k] = NULL;
        c->laid_out_cap[k] = 0;
        c->laid_out[k] = hn_dev_alloc(m->device, bytes);
        if (!c->laid_out[k])
            return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to lay out input '%s'", hn_input_name(&m->view, k));
        c->laid_out_cap[k] = bytes;
    }
    hn_copy_strided(c->laid_out[k], strides, hn_tensor_data(t), hn_tensor_strides(t), hn_tensor_sizes(t),
                    hn_tensor_rank(t), hn_scalar_type_bytes(hn_tensor_type(t)));
    c->io[k] = c->laid_out[k];
    pthread_mutex_lock(&m->lock);
    m->stats.inputs_copied++;
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

static hn_status set_inputs(hn_module *m, hn_context *c, hn_tensor *const *inputs) {
    for (uint32_t k = 0; k < m->view.inputs_count; k++) {
        const int64_t *recorded = c->bounds[0]->input_strides[k];
        if (!recorded) continue;
        if (hn_tensor_numel(inputs[k]) == 0 || layout_fits(inputs[k], recorded))
            c->io[k] = hn_tensor_data(inputs[k]);
        else HN_TRY(lay_out(m, c, k, inputs[k]));
    }
    return NULL;
}

static hn_status run(hn_module *m, hn_context *c, hn_tensor *const *inputs, uint32_t input_count,
                     hn_tensor **outputs) {
    HN_TRY(hn_context_bind(m, c, inputs, input_count));
    HN_TRY(set_inputs(m, c, inputs));
    if (m->stages.count) hn_bound_forget(m, c->bounds[0]);
    HN_TRY(hn_outputs_begin(m, c, outputs));
    HN_TRY(hn_steps_run(m, c));
    return hn_outputs_end(m, c, inputs, outputs);
}

/* Memory that the run would write to must not be read-only. Wrong pointers are told by the checks that come later. */
static hn_status check_const(const hn_module *m, hn_tensor *const *inputs, uint32_t input_count, hn_tensor *const *outputs) {
    for (uint32_t k = 0; k < m->output_count; k++)
        if (outputs[k] && hn_tensor_is_const(outputs[k]))
            return HN_ERROR(HN_INVALID_ARGUMENT, "the tensor given for output %u is read-only memory; give writable memory or none", k);
    for (uint32_t k = 0; m->changes_inputs && k < m->view.outputs_count; k++) {
        const hnb_output *o = &m->view.outputs[k];
        if (!o->is_mutation || o->target_input < 0 || (uint32_t)o->target_input >= input_count) continue;
        if (hn_tensor_is_const(inputs[o->target_input]))
            return HN_ERROR(HN_INVALID_ARGUMENT, "input '%s' is read-only memory, but the program writes to it; give writable memory",
                            hn_input_name(&m->view, (uint32_t)o->target_input));
    }
    return NULL;
}

static hn_status check_call(const hn_module *m, const hn_run_options *options, hn_tensor *const *inputs, uint32_t input_count,
                            hn_tensor *const *outputs, uint32_t output_count) {
    if (!m) return HN_ERROR(HN_INVALID_ARGUMENT, "cannot run: the module is NULL");
    if (input_count && !inputs) return HN_ERROR(HN_INVALID_ARGUMENT, "cannot run: 'inputs' is NULL, but there are to be %u", input_count);
    if (output_count && !outputs) return HN_ERROR(HN_INVALID_ARGUMENT, "cannot run: 'outputs' is NULL, but there are to be %u", output_count);
    if (output_count != m->output_count)
        return HN_ERROR(HN_INVALID_ARGUMENT, "the model gives %u outputs, there is room for %u",
                        m->output_count, output_count);
    HN_TRY(hn_threads_check(options->threads));
    if (options->state && options->state->m != m)
        return HN_ERROR(HN_INVALID_ARGUMENT, "the state is of another module; make one with hn_state_create for this module");
    return check_const(m, inputs, input_count, outputs);
}

hn_status hn_module_run_with(hn_module *m, const hn_run_options *given, hn_tensor *const *inputs, uint32_t input_count,
                             hn_tensor **outputs, uint32_t output_count) {
    static const hn_run_options none;
    const hn_run_options *options = given ? given : &none;
    hn_context *c;
    HN_TRY(check_call(m, options, inputs, input_count, outputs, output_count));
    HN_TRY(hn_context_take(m, &c));
    c->cancel = options->cancel;
    c->threads = options->threads > 0 && options->threads < m->threads ? options->threads : m->threads;
    c->state = options->state ? options->state : m->state;
    hn_hooks_take(m, c);
    if (m->has_state) pthread_mutex_lock(&c->state->turn);
    hn_status status = run(m, c, inputs, input_count, outputs);
    hn_outputs_reset(m, c);
    if (m->has_state) pthread_mutex_unlock(&c->state->turn);
    hn_context_give(m, c);
    return status;
}

hn_status hn_module_run(hn_module *m, hn_tensor *const *inputs, uint32_t input_count, hn_tensor **outputs,
                        uint32_t output_count) {
    return hn_module_run_with(m, NULL, inputs, input_count, outputs, output_count);
}
