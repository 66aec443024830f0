/* lives.c: see lives.h. The planner has packed the temporaries by the same lives (wrapper/plan.c). */
#include "runtime/lives.h"

#include "base/checked.h"

#include <stdlib.h>

enum { SCRATCH_ALIGN = 256 };

/* ---- lives: first one for each buffer, then one for each step ---- */

static uint32_t count_of(const hn_module *m) { return m->view.buffers_count + m->view.steps_count; }

hn_life *hn_lives_allocate(const hn_module *m) { return calloc(count_of(m) + 1u, sizeof(hn_life)); }

static bool is_planned(const hn_module *m, uint32_t buffer) {
    return m->view.buffers[buffer].kind == HNB_BUFFER_TEMP && hn_buffer_is_remote(m, buffer);
}

static void mention(const hn_module *m, hn_life *lives, uint32_t buffer, uint32_t step) {
    if (!is_planned(m, buffer)) return;
    if (step < lives[buffer].first) lives[buffer].first = step;
    if (step > lives[buffer].last) lives[buffer].last = step;
}

/* What a step in a loop uses lives through the loop: another round comes. */
static void mention_all(const hn_module *m, const hn_bound *bound, hn_life *lives) {
    uint32_t loop = 0, loop_end = 0; /* the outermost one around the step */
    for (uint32_t k = 0; k < m->view.steps_count; k++) {
        if (k >= loop_end && bound->steps[k].kind == HNB_STEP_LOOP)
            loop = k, loop_end = k + 1 + bound->steps[k].body_count;
        const bool is_inside = k < loop_end;
        const hnb_step *step = &m->view.steps[k];
        if (step->kind == HNB_STEP_KERNEL && step->buffer) {
            mention(m, lives, step->buffer, is_inside ? loop : k);
            mention(m, lives, step->buffer, is_inside ? loop_end - 1 : k);
        }
        for (uint32_t a = 0; a < hn_step_operand_count(step); a++) {
            const uint32_t buffer = hn_step_operand_at(m, step, a).buffer;
            mention(m, lives, buffer, is_inside ? loop : k);
            mention(m, lives, buffer, is_inside ? loop_end - 1 : k);
        }
    }
    for (uint32_t k = 0; k < m->view.outputs_count; k++)
        if (m->view.outputs[k].kind == HNB_VALUE_TENSOR)
            mention(m, lives, m->view.outputs[k].buffer, m->view.steps_count);
}

static hn_life scratch_of(const hn_bound *bound, uint32_t step) {
    const hn_run_step *s = &bound->steps[step];
    if (s->scratch_at < 0) return (hn_life){.first = UINT32_MAX};
    return (hn_life){s->scratch_at, s->scratch_at + (int64_t)s->scratch_bytes, step, step};
}

void hn_lives_find(const hn_module *m, const hn_bound *bound, hn_life *lives) {
    hn_bound_buffer b;
    for (uint32_t k = 0; k < m->view.buffers_count; k++) lives[k] = (hn_life){.first = UINT32_MAX};
    mention_all(m, bound, lives);
    for (uint32_t k = 1; k < m->view.buffers_count; k++) {
        if (!is_planned(m, k) || lives[k].first == UINT32_MAX) continue;
        hn_bound_buffer_get(m, bound, k, &b);
        lives[k].begin = hn_bound_value(bound, m->view.buffers[k].offset);
        lives[k].end = lives[k].begin + b.bytes;
    }
    for (uint32_t k = 0; k < m->view.steps_count; k++)
        lives[m->view.buffers_count + k] = scratch_of(bound, k);
}

static int by_begin(const void *a, const void *b) {
    const hn_life *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

static bool is_alive(const hn_life *l, uint32_t step) {
    return step >= l->first && step <= l->last && l->end > l->begin;
}

/* ---- the most ---- */

/* The bytes that are alive at a step. Two temporaries that share some (a result in the place of an
 * operand) count once. `lives` by `begin`. */
static int64_t alive_at(const hn_life *lives, uint32_t count, uint32_t step) {
    int64_t sum = 0, until = 0;
    for (uint32_t k = 0; k < count; k++) {
        const hn_life *l = &lives[k];
        if (!is_alive(l, step) || l->end <= until) continue;
        sum += l->end - (l->begin > until ? l->begin : until);
        until = l->end;
    }
    return sum;
}

/* What there is nothing of goes: few steps have scratch memory. */
static uint32_t drop_empty(hn_life *lives, uint32_t count) {
    uint32_t left = 0;
    for (uint32_t k = 0; k < count; k++)
        if (lives[k].end > lives[k].begin) lives[left++] = lives[k];
    return left;
}

uint64_t hn_lives_most(const hn_module *m, hn_life *lives) {
    int64_t most = 0;
    const uint32_t count = drop_empty(lives, count_of(m));
    qsort(lives, count, sizeof *lives, by_begin);
    for (uint32_t k = 0; k <= m->view.steps_count; k++) {
        const int64_t alive = alive_at(lives, count, k);
        if (alive > most) most = alive;
    }
    return (uint64_t)most;
}

/* ---- scratch memory ---- */

/* The lowest place between what is alive at a step. `lives` by `begin`. */
static int64_t find_room(const hn_life *lives, uint32_t count, uint32_t step, int64_t bytes) {
    int64_t at = 0;
    for (uint32_t k = 0; k < count; k++) {
        const hn_life *l = &lives[k];
        if (!is_alive(l, step) || l->end <= at) continue;
        if (l->begin >= at + bytes) return at;
        at = (int64_t)hn_align_up((size_t)l->end, SCRATCH_ALIGN);
    }
    return at;
}

static bool wants_place(const hn_run_step *s) {
    return s->kind == HNB_STEP_EXTERN && s->place == HN_PLACE_KERNELS && s->scratch_bytes > 0;
}

static void place_all(const hn_module *m, hn_bound *bound, hn_life *lives) {
    size_t *workspace = &bound->workspace_bytes[HN_PLACE_KERNELS];
    hn_lives_find(m, bound, lives);
    const uint32_t count = drop_empty(lives, count_of(m));
    qsort(lives, count, sizeof *lives, by_begin);
    for (uint32_t k = 0; k < m->view.steps_count; k++) {
        hn_run_step *s = &bound->steps[k];
        if (!wants_place(s)) continue;
        s->scratch_at = find_room(lives, count, k, (int64_t)s->scratch_bytes);
        const size_t end = (size_t)s->scratch_at + s->scratch_bytes;
        if (end > *workspace) *workspace = end;
    }
}

hn_status hn_scratch_place(const hn_module *m, hn_bound *bound) {
    uint32_t k = 0;
    if (m->stages.count || m->device->facts.is_host) return NULL;
    while (k < m->view.steps_count && !wants_place(&bound->steps[k])) k++;
    if (k == m->view.steps_count) return NULL;
    hn_life *lives = hn_lives_allocate(m);
    if (!lives) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to resolve steps");
    place_all(m, bound, lives);
    free(lives);
    return NULL;
}
