/* info.c: what a module tells about itself. */
#include "runtime/module_impl.h"

#include "base/require.h"

#include <stdlib.h>
#include <string.h>

/* Texts of expressions, one behind the other; their addresses are known when all are there. */
typedef struct filler {
    hn_module *m;
    hn_strbuf texts;
    size_t *offsets; /* dims, symbols, guards */
    uint32_t at;
    /* values of the symbols and of all expressions when the model was exported */
    int64_t *symbols, *hints;
    uint8_t *bad;
} filler;

static size_t begin_text(filler *f) { return f->offsets[f->at++] = f->texts.len; }
static void end_text(filler *f) { hn_strbuf_putc(&f->texts, '\0'); }

static void fill_dim(filler *f, uint32_t node, hn_module_dim *out) {
    int64_t value = 0;
    out->is_static = hn_bundle_expr_const(&f->m->view, node, &value);
    out->value = value;
    out->hint = f->bad[node] || f->hints[node] < 0 ? -1 : f->hints[node];
    (void)begin_text(f);
    hn_bundle_expr_print(&f->m->view, node, &f->texts);
    end_text(f);
}

static uint32_t total_dims(const hn_bundle *b) {
    uint32_t total = 0;
    for (uint32_t k = 0; k < b->inputs_count; k++) total += 2 * b->inputs[k].rank;
    for (uint32_t k = 0; k < b->outputs_count; k++) total += 2 * b->outputs[k].rank;
    return total;
}

static void fill_value(filler *f, hn_module_value_info *info, hnb_str name, uint32_t kind,
                       uint32_t dtype, uint32_t rank, uint32_t dims) {
    hn_module_dim *own = &f->m->dims[f->at];
    *info = (hn_module_value_info){.name = hn_bundle_text(&f->m->view, name),
                                   .kind = (hn_module_value_kind)kind,
                                   .type = (hn_scalar_type)dtype,
                                   .rank = rank,
                                   .sizes = own,
                                   .strides = own + rank};
    for (uint32_t d = 0; d < 2 * rank; d++) fill_dim(f, f->m->view.dims[dims + d], &own[d]);
}

static void fill_values(filler *f) {
    const hn_bundle *b = &f->m->view;
    uint32_t out = 0;
    for (uint32_t k = 0; k < b->inputs_count; k++)
        fill_value(f, &f->m->input_infos[k], b->inputs[k].name, b->inputs[k].kind,
                   b->inputs[k].dtype, b->inputs[k].rank, b->inputs[k].dims);
    for (uint32_t k = 1; k < b->buffers_count; k++)
        if (b->buffers[k].kind == HNB_BUFFER_POOL && b->buffers[k].source)
            f->m->input_infos[b->buffers[k].source - 1].is_donated = true;
    for (uint32_t k = 0; k < b->outputs_count; k++) {
        const hnb_output *o = &b->outputs[k];
        if (!o->is_mutation)
            fill_value(f, &f->m->output_infos[out++], o->name, o->kind, o->dtype, o->rank, o->dims);
        else if (o->target_input >= 0) f->m->input_infos[o->target_input].is_changed = true;
    }
}

/* What a dimension must be so that the symbol has a value: "2*s0 + 1". */
static void fill_symbol(filler *f, const hnb_symbol *s) {
    (void)begin_text(f);
    if (s->input != HNB_BY_STEP) {
        if (s->coeff != 1) hn_strbuf_printf(&f->texts, "%lld*", (long long)s->coeff);
        hn_strbuf_puts(&f->texts, hn_bundle_text(&f->m->view, s->name));
        if (s->rest)
            hn_strbuf_puts(&f->texts, " + "), hn_bundle_expr_print(&f->m->view, s->rest, &f->texts);
    }
    end_text(f);
}

static void fill_texts(filler *f) {
    const hn_bundle *b = &f->m->view;
    for (uint32_t k = 0; k < b->symbols_count; k++) fill_symbol(f, &b->symbols[k]);
    for (uint32_t k = 0; k < b->guards_count; k++) {
        (void)begin_text(f);
        hn_guard_print(b, &b->guards[k], &f->texts);
        end_text(f);
    }
}

/* The values of all expressions for the inputs of the export; unknown from the first symbol on that
 * has none. */
static void find_hints(filler *f) {
    const hn_bundle *b = &f->m->view;
    uint32_t known = 0;
    while (known < b->symbols_count && b->symbols[known].hint != INT64_MIN) {
        f->symbols[known] = b->symbols[known].hint;
        known++;
    }
    hn_bundle_eval(b, f->symbols, known, f->hints, f->bad);
}

static hn_status place_texts(filler *f) {
    hn_module *m = f->m;
    const uint32_t dims = total_dims(&m->view);
    HN_TRY(hn_strbuf_status(&f->texts));
    m->texts = f->texts.ptr; /* taken */
    for (uint32_t k = 0; k < dims; k++) m->dims[k].text = m->texts + f->offsets[k];
    for (uint32_t k = 0; k < m->view.symbols_count; k++)
        m->symbol_texts[k] = m->texts + f->offsets[dims + k];
    for (uint32_t k = 0; k < m->view.guards_count; k++)
        m->guard_texts[k] = m->texts + f->offsets[dims + m->view.symbols_count + k];
    return NULL;
}

static hn_status fill_infos(filler *f) {
    hn_module *m = f->m;
    const hn_bundle *b = &m->view;
    uint32_t total = total_dims(b);
    f->offsets = calloc((size_t)total + b->symbols_count + b->guards_count + 1, sizeof *f->offsets);
    f->symbols = calloc(b->symbols_count + 1u, sizeof *f->symbols);
    f->hints = calloc(b->nodes_count, sizeof *f->hints);
    f->bad = calloc(b->nodes_count, sizeof *f->bad);
    m->dims = calloc(total + 1u, sizeof *m->dims);
    m->symbol_texts = calloc(b->symbols_count + 1u, sizeof *m->symbol_texts);
    m->guard_texts = calloc(b->guards_count + 1u, sizeof *m->guard_texts);
    m->input_infos = calloc(b->inputs_count + 1u, sizeof *m->input_infos);
    m->output_infos = calloc(b->outputs_count + 1u, sizeof *m->output_infos);
    if (!f->offsets || !f->symbols || !f->hints || !f->bad || !m->dims || !m->symbol_texts ||
        !m->guard_texts || !m->input_infos || !m->output_infos)
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to load a module");
    find_hints(f);
    fill_values(f);
    fill_texts(f);
    return place_texts(f);
}

hn_status hn_module_info_init(hn_module *m) {
    filler f = {.m = m};
    hn_strbuf_init(&f.texts);
    hn_status status = fill_infos(&f);
    if (status) hn_strbuf_deinit(&f.texts);
    free(f.offsets);
    free(f.symbols);
    free(f.hints);
    free(f.bad);
    return status;
}

uint32_t hn_module_input_count(const hn_module *m) { return !m ? 0 : m->view.inputs_count; }

uint32_t hn_module_output_count(const hn_module *m) { return !m ? 0 : m->output_count; }

hn_status hn_out_of_range(const char *what, uint32_t index, uint32_t count) {
    return HN_ERROR(HN_INVALID_ARGUMENT, "there is no %s %u; the module has %u", what, index,
                    count);
}

hn_status hn_module_input_info(const hn_module *m, uint32_t index, hn_module_value_info *out) {
    HN_REQUIRE(m, "module");
    HN_REQUIRE(out, "out");
    if (index >= hn_module_input_count(m))
        return hn_out_of_range("input", index, hn_module_input_count(m));
    *out = m->input_infos[index];
    return NULL;
}

hn_status hn_module_output_info(const hn_module *m, uint32_t index, hn_module_value_info *out) {
    HN_REQUIRE(m, "module");
    HN_REQUIRE(out, "out");
    if (index >= hn_module_output_count(m))
        return hn_out_of_range("output", index, hn_module_output_count(m));
    *out = m->output_infos[index];
    return NULL;
}

/* The bundle's output of mutation number `index`; NULL when there is none. */
static const hnb_output *mutation_at(const hn_module *m, uint32_t index) {
    for (uint32_t k = 0; k < m->view.outputs_count; k++)
        if (m->view.outputs[k].is_mutation && index-- == 0) return &m->view.outputs[k];
    return NULL;
}

uint32_t hn_module_mutation_count(const hn_module *m) {
    return !m ? 0 : m->view.outputs_count - hn_module_output_count(m);
}

hn_status hn_module_mutation_info_get(const hn_module *m, uint32_t index,
                                      hn_module_mutation_info *out) {
    HN_REQUIRE(m, "module");
    HN_REQUIRE(out, "out");
    const hnb_output *mutation = mutation_at(m, index);
    if (!mutation) return hn_out_of_range("mutation", index, hn_module_mutation_count(m));
    *out = (hn_module_mutation_info){.name = hn_bundle_text(&m->view, mutation->name),
                                     .input = mutation->target_input};
    return NULL;
}

void hn_module_stats_get(hn_module *m, hn_module_stats *out) {
    if (out) *out = (hn_module_stats){0};
    if (!m || !out) return;
    hn_weights *weights = hn_weights_take(m);
    if (hn_dev_is_here(m->device)) hn_weights_upload_settle(weights);
    pthread_mutex_lock(&m->lock);
    *out = m->stats;
    pthread_mutex_unlock(&m->lock);
    hn_device_plan_stats(m, out);
    hn_device_memory_stats(m, out);
    out->weights_packed_bytes = hn_ext_shared_bytes(weights->shared);
    hn_weights_release(weights);
}

void hn_module_device_get(const hn_module *m, hn_module_device_info *out) {
    if (out) *out = (hn_module_device_info){.name = ""};
    if (!m || !out) return;
    *out = (hn_module_device_info){
        .device = {.kind = m->device->ops->kind, .number = m->device->number},
        .name = m->device->facts.name,
        .memory_bytes = m->device->facts.memory_bytes};
}
