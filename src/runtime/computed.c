/* computed.c: storages that the program of weights computes. It is a module of its own, which is
 * opened with the one around it, reads the weights of a set where they are, and writes its outputs
 * into memory of the set; it runs when a module is opened, and for each set that an exchange makes.
 * On another device than the host its outputs come home: as all other weights, they go to the
 * device when they are needed there (upload.c). Between its runs it has no memory of its own but
 * its code. */
#include "runtime/module_impl.h"

#include "base/trace.h"

#include <stdlib.h>

static bool is_computed(const hn_module *m, uint32_t storage) {
    return m->view.storages[storage].where == HNB_STORAGE_COMPUTED;
}

void hn_computed_touch(const hn_module *m, uint32_t *touched) {
    const hn_bundle *b = &m->view;
    bool any = false;
    for (uint32_t k = 0; k < b->weights_sources_count; k++) any |= touched[b->weights_sources[k]];
    for (uint32_t k = 1; any && k < b->storages_count; k++)
        if (is_computed(m, k)) touched[k] = 1;
}

/* ---- what it reads ---- */

/* The set of the program: storages of the set around it, and what is made of them. */
static hn_status make_set(const hn_module *m, const hn_weights *w, hn_weights **out) {
    const hn_module *computer = m->computer;
    HN_TRY(hn_weights_create(computer, out));
    hn_ext_shared_add_file((*out)->shared, &m->map);
    hn_ext_shared_add_file((*out)->shared, &m->weights_file);
    for (uint32_t k = 1; k < computer->view.storages_count; k++) {
        const hnb_storage *s = &computer->view.storages[k];
        if (s->where == HNB_STORAGE_OUTER)
            (*out)->storages[k] = w->storages[m->view.weights_sources[s->offset]];
    }
    return hn_made_fill(computer, *out);
}

/* ---- what it writes ---- */

static hn_status make_output(const hn_module *m, hn_weights *w, uint32_t storage, hn_tensor **out) {
    hn_module_value_info info;
    int64_t sizes[HN_TENSOR_MAX_RANK];
    HN_TRY(hn_module_output_info(m->computer, (uint32_t)m->view.storages[storage].offset, &info));
    for (uint32_t d = 0; d < info.rank; d++) sizes[d] = info.sizes[d].value;
    HN_TRY(hn_weights_own_storage(m, w, storage));
    return hn_tensor_create(
        &(hn_tensor_desc){
            .type = info.type, .rank = info.rank, .sizes = sizes, .data = w->storages[storage]},
        out);
}

static hn_status make_outputs(const hn_module *m, hn_weights *w, hn_tensor **outputs) {
    for (uint32_t k = 1; k < m->view.storages_count; k++) {
        if (!is_computed(m, k)) continue;
        hn_tensor **output = &outputs[m->view.storages[k].offset];
        if (*output)
            return HN_ERROR(HN_CORRUPT, "two storages are one output of the program of weights");
        HN_TRY(make_output(m, w, k, output));
    }
    return NULL;
}

/* ---- its runs ---- */

/* Memory of the run, and its copies of weights. */
static void forget_run(hn_module *computer) {
    for (hn_context *c = computer->idle, *next; c; c = next) {
        next = c->next;
        hn_context_destroy(computer, c);
    }
    computer->idle = NULL;
    computer->stats.contexts = 0;
    hn_weights_release(computer->weights);
    computer->weights = NULL;
}

hn_module *hn_module_weights_program(const hn_module *m) { return m ? m->computer : NULL; }

static hn_status run(hn_module *m, hn_weights *w, hn_tensor **outputs) {
    hn_module *computer = m->computer;
    HN_TRY(make_set(m, w, &computer->weights));
    HN_TRY(make_outputs(m, w, outputs));
    return hn_module_run(computer, NULL, 0, outputs, computer->output_count);
}

static bool is_missing(const hn_module *m, const hn_weights *w) {
    for (uint32_t k = 1; k < w->count; k++)
        if (is_computed(m, k) && !w->storages[k]) return true;
    return false;
}

static void count_run(hn_module *m, int64_t begin_ns) {
    const int64_t end_ns = hn_now_ns();
    uint64_t bytes = 0;
    for (uint32_t k = 1; k < m->view.storages_count; k++)
        if (is_computed(m, k)) bytes += m->view.storages[k].bytes;
    hn_trace_span("run", "weights are computed", begin_ns, end_ns);
    pthread_mutex_lock(&m->lock);
    m->stats.weights_computed_bytes = bytes;
    m->stats.weights_compute_ns += end_ns - begin_ns;
    pthread_mutex_unlock(&m->lock);
}

hn_status hn_weights_compute(hn_module *m, hn_weights *w) {
    const int64_t begin = hn_now_ns();
    if (!m->computer || !is_missing(m, w)) return NULL;
    hn_tensor **outputs = calloc(m->computer->output_count + 1u, sizeof *outputs);
    if (!outputs) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to compute weights");
    hn_status status = run(m, w, outputs);
    for (uint32_t k = 0; k < m->computer->output_count; k++) hn_tensor_release(outputs[k]);
    free(outputs);
    forget_run(m->computer);
    if (!status) count_run(m, begin);
    return hn_status_annotate(status, "cannot compute what depends on weights alone");
}
