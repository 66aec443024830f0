/* profile.c: the names of steps, and two hooks for modules loaded with `profile`: one counts the
 * time of each step, the other gives it to the trace. */
#include "runtime/module_impl.h"

#include "base/require.h"
#include "base/trace.h"

#include <stdlib.h>

/* ---- the hooks ---- */

/* Conditionals, loops and definitions do no work of their own; waits are for work that is another
 * step's. */
static bool is_timed(const hn_step_info *step) {
    return step->kind != HN_MODULE_STEP_COND && step->kind != HN_MODULE_STEP_LOOP &&
           step->kind != HN_MODULE_STEP_DEFINE && step->kind != HN_MODULE_STEP_WAIT;
}

static hn_status begin(void *user, const hn_step_info *step, uint64_t *note) {
    (void)user, (void)step;
    *note = (uint64_t)hn_now_ns();
    return NULL;
}

/* By the device's clock, or else by that of the host. */
static int64_t time_of(const hn_step_info *step, uint64_t began) {
    return step->device_ns > 0 ? step->device_ns : hn_now_ns() - (int64_t)began;
}

static hn_status count(void *user, const hn_step_info *step, uint64_t *note) {
    const int64_t ns = time_of(step, *note);
    hn_module *m = user;
    hn_module_step_profile *p = &m->profiles[step->index];
    if (!is_timed(step)) return NULL;
    pthread_mutex_lock(&m->lock);
    if (!p->calls || ns < p->min_ns) p->min_ns = ns;
    p->calls++;
    p->total_ns += ns;
    if (*step->form) p->name = step->name, p->form = step->form;
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

static hn_status record_span(void *user, const hn_step_info *step, uint64_t *note) {
    (void)user;
    if (is_timed(step))
        hn_trace_span("run", step->name, (int64_t)*note, (int64_t)*note + time_of(step, *note));
    return NULL;
}

/* ---- the module ---- */

/* `kernel`: of a KERNEL step. */
static const char *name_of(const hn_bundle *b, uint32_t target, const hnb_step *step,
                           uint32_t kernel) {
    switch (step->kind) {
    case HNB_STEP_KERNEL: return hn_bundle_text(b, hn_bundle_code(b, kernel, target)->symbol);
    case HNB_STEP_EXTERN: return hn_bundle_extern_name(step->extern_kind);
    default: return hn_bundle_step_kind_name(step->kind);
    }
}

const char *hn_step_first_name(const hn_module *m, uint32_t step) {
    return name_of(&m->view, m->target, &m->view.steps[step], m->view.steps[step].kernel);
}

const char *hn_run_step_name(const hn_module *m, const hn_run_step *step) {
    return name_of(&m->view, m->target, &m->view.steps[step->index], step->kernel);
}

const char *hn_run_step_form(const hn_module *m, const hn_run_step *step) {
    const hnb_choice *choice = m->ways[step->index].choice;
    if (!choice) return "";
    const hn_bundle_call call =
        hn_bundle_call_by(&m->view, &m->view.steps[step->index], m->target, choice, step->variant);
    return hn_bundle_text(&m->view, call.form);
}

hn_status hn_profiles_init(hn_module *m, bool profile) {
    const hn_bundle *b = &m->view;
    m->profiles = calloc(b->steps_count + 1u, sizeof *m->profiles);
    if (!m->profiles) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to load a module");
    for (uint32_t k = 0; k < b->steps_count; k++)
        m->profiles[k] = (hn_module_step_profile){
            .name = name_of(b, m->target, &b->steps[k], b->steps[k].kernel),
            .form = "",
            .origin = hn_bundle_text(b, b->origins[b->steps[k].origin].node),
            .min_ns = INT64_MAX};
    m->has_profile = profile;
    if (!profile) return NULL;
    memmove(m->hooks.items + 2, m->hooks.items, m->hooks.count * sizeof *m->hooks.items);
    memmove(m->hooks.waits + 2, m->hooks.waits, m->hooks.count * sizeof *m->hooks.waits);
    m->hooks.items[0] = (hn_step_hook){.before = begin, .after = count, .user = m};
    m->hooks.items[1] = (hn_step_hook){.before = begin, .after = record_span, .user = m};
    m->own_hook_count = 2;
    m->hooks.waits[0] = m->hooks.waits[1] = true;
    m->hooks.waiting += 2;
    m->hooks.count += 2;
    return NULL;
}

uint32_t hn_module_step_count(const hn_module *m) { return !m ? 0 : m->view.steps_count; }

hn_status hn_module_profile(hn_module *m, uint32_t step, hn_module_step_profile *out) {
    HN_REQUIRE(m, "module");
    HN_REQUIRE(out, "out");
    if (step >= m->view.steps_count) return hn_out_of_range("step", step, m->view.steps_count);
    pthread_mutex_lock(&m->lock);
    *out = m->profiles[step];
    pthread_mutex_unlock(&m->lock);
    return NULL;
}
