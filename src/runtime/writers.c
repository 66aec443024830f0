/* writers.c: which steps write to a buffer. A tensor that several steps write, as of a
 * concatenation, has no content yet in the parts that later steps write. */
#include "runtime/module_impl.h"

#include <stdlib.h>

static void note_parents(const hn_bundle *b, uint32_t *parents) {
    for (uint32_t k = 0; k < b->steps_count; k++) {
        const hnb_step *s = &b->steps[k];
        if (s->kind != HNB_STEP_COND) continue;
        /* a conditional inside this one comes later, and has the last word */
        for (uint32_t i = 1; i <= s->then_count + s->otherwise_count; i++) parents[k + i] = k + 1;
    }
}

/* Calls `take` for each buffer that a step writes, once. */
static void each_written(const hn_module *m, uint32_t step,
                         void (*take)(hn_writers *w, uint32_t buffer, uint32_t step),
                         hn_writers *w) {
    const hnb_step *s = &m->view.steps[step];
    for (uint32_t k = 0; k < hn_step_operand_count(s); k++) {
        const hnb_operand o = hn_step_operand_at(m, s, k);
        bool is_new = o.buffer && o.written;
        for (uint32_t i = 0; i < k && is_new; i++) {
            const hnb_operand before = hn_step_operand_at(m, s, i);
            is_new = before.buffer != o.buffer || !before.written;
        }
        if (is_new) take(w, o.buffer, step);
    }
}

static void count(hn_writers *w, uint32_t buffer, uint32_t step) {
    (void)step;
    w->first[buffer + 1]++;
}

static void put(hn_writers *w, uint32_t buffer, uint32_t step) {
    w->steps[w->first[buffer]++] = step;
}

static void fill(const hn_module *m, hn_writers *w) {
    const uint32_t buffers = m->view.buffers_count;
    for (uint32_t b = 0; b < buffers; b++) w->first[b + 1] += w->first[b];
    for (uint32_t k = 0; k < m->view.steps_count; k++) each_written(m, k, put, w);
    /* each is where the next one began */
    for (uint32_t b = buffers; b > 0; b--) w->first[b] = w->first[b - 1];
    w->first[0] = 0;
}

hn_status hn_writers_init(hn_module *m) {
    hn_writers w;
    if (m->writers.first) return NULL;
    w.first = calloc(m->view.buffers_count + 2u, sizeof *w.first);
    w.parents = calloc(m->view.steps_count + 1u, sizeof *w.parents);
    w.steps = NULL;
    if (w.first && w.parents) {
        for (uint32_t k = 0; k < m->view.steps_count; k++) each_written(m, k, count, &w);
        uint32_t total = 0;
        for (uint32_t b = 0; b <= m->view.buffers_count; b++) total += w.first[b];
        w.steps = calloc(total + 1u, sizeof *w.steps);
    }
    if (!w.steps) {
        hn_writers_deinit(&w);
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for hooks");
    }
    fill(m, &w);
    note_parents(&m->view, w.parents);
    m->writers = w;
    return NULL;
}

void hn_writers_deinit(hn_writers *w) {
    free(w->first);
    free(w->steps);
    free(w->parents);
}

uint32_t hn_writers_count(const hn_module *m, uint32_t buffer) {
    const hn_writers *w = &m->writers;
    return w->first ? w->first[buffer + 1] - w->first[buffer] : 0;
}

/* Whether the two steps are in different branches of a conditional. */
static bool exclude(const hn_module *m, uint32_t step, uint32_t later) {
    for (uint32_t p = m->writers.parents[step]; p; p = m->writers.parents[p - 1]) {
        const hnb_step *cond = &m->view.steps[p - 1];
        const uint32_t otherwise = p + cond->then_count;
        if (step < otherwise && later >= otherwise && later < otherwise + cond->otherwise_count)
            return true;
    }
    return false;
}

bool hn_writers_follow(const hn_module *m, uint32_t buffer, uint32_t step) {
    const hn_writers *w = &m->writers;
    if (!w->first) return false;
    for (uint32_t k = w->first[buffer + 1]; k-- > w->first[buffer] && w->steps[k] > step;) {
        if (m->view.steps[w->steps[k]].kind == HNB_STEP_COPY) continue; /* all anew, as in loops */
        if (!exclude(m, step, w->steps[k])) return true;
    }
    return false;
}
