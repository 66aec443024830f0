/* place.c: see place.h. */
#include "wrapper/place.h"

#include "base/checked.h"
#include "ir/loop.h"

typedef struct placer {
    const hn_wrapper *w;
    const hn_memory_plan *plan;
    hn_sym *sym;
    hn_arena *arena;
    hn_str *names; /* per storage of the graph; some are empty */
    hn_wplaces *out;
} placer;

static hn_status name_storages(placer *p) {
    const hn_graph *g = p->w->graph;
    if (!g) return NULL;
    HN_NEW(p->arena, p->names, g->storages.count);
    for (uint32_t i = g->inputs.count; i-- > 0;) {
        const hn_input *in = &g->inputs.items[i];
        if (in->storage && in->storage < g->storages.count) p->names[in->storage] = in->name;
    }
    return NULL;
}

static hn_status number_sources(placer *p, const hn_storage *made);

static hn_status number_storage(placer *p, uint32_t storage, uint32_t *out) {
    const hn_graph *g = p->w->graph;
    const uint64_t *known = hn_map_get(&p->out->storage_numbers, storage);
    if (known) {
        *out = (uint32_t)*known;
        return NULL;
    }
    if (!g || !storage || storage >= g->storages.count)
        return HN_ERROR(HN_INTERNAL, "storage %u is not known", storage);
    hn_wstorage made = {.storage = storage, .name = p->names[storage]};
    if (!made.name.len) made.name = g->storages.items[storage].file_record;
    *out = p->out->storages.count;
    HN_PUSH(p->arena, &p->out->storages, made);
    HN_TRY(hn_map_put(&p->out->storage_numbers, storage, *out));
    return number_sources(p, &g->storages.items[storage]);
}

/* No buffer may be in what a storage is made of. */
static hn_status number_sources(placer *p, const hn_storage *made) {
    uint32_t number;
    for (uint32_t k = 0; k < made->piece_count; k++)
        HN_TRY(number_storage(p, made->pieces[k].storage, &number));
    return NULL;
}

/* What storages are computed of when the program is loaded. */
static hn_status number_weights(placer *p) {
    const hn_graph *program = p->w->graph ? p->w->graph->weights_program : NULL;
    uint32_t number;
    for (uint32_t k = 1; program && k < program->storages.count; k++)
        if (program->storages.items[k].outer)
            HN_TRY(number_storage(p, program->storages.items[k].outer, &number));
    return NULL;
}

/* A list of no elements, in no bytes. */
static hn_status place_nothing(const placer *p, hn_wplace *out) {
    hn_expr *dims;
    HN_NEW(p->arena, dims, 2);
    dims[0] = hn_sym_int(p->sym, 0);
    dims[1] = hn_sym_int(p->sym, 1);
    *out = (hn_wplace){.kind = HNB_BUFFER_TEMP,
                       .rank = 1,
                       .sizes = &dims[0],
                       .strides = &dims[1],
                       .bytes = dims[0],
                       .offset = dims[0]};
    return NULL;
}

/* To the runtime, what lies in a pool is an output, whether the caller gets it or not. */
static void place_in_pool(const placer *p, hn_wbuf b, hn_wplace *out) {
    out->kind = HNB_BUFFER_OUTPUT;
    out->bytes = p->w->buffers.items[b].bytes;
    out->source = p->plan->pools[b];
    out->offset = p->plan->offsets[b];
}

static hn_status place_temp(const placer *p, hn_wbuf b, hn_wplace *out) {
    out->bytes = p->w->buffers.items[b].bytes;
    if (p->plan->slots[b]) {
        out->kind = HNB_BUFFER_SLOT;
        out->source = p->plan->slots[b] - 1;
        return NULL;
    }
    if (!p->plan->offsets[b]) return place_nothing(p, out);
    if (p->plan->pools[b]) {
        place_in_pool(p, b, out);
        return NULL;
    }
    out->kind = HNB_BUFFER_TEMP;
    out->offset = p->plan->offsets[b];
    return NULL;
}

static hn_status place_buffer(placer *p, hn_wbuf b) {
    const hn_wbuffer *buffer = &p->w->buffers.items[b];
    hn_wplace *out = &p->out->buffers[b];
    *out = (hn_wplace){.rank = buffer->rank, .sizes = buffer->sizes, .strides = buffer->strides};
    switch (buffer->kind) {
    case HN_WBUF_INPUT:
        out->kind = HNB_BUFFER_INPUT;
        out->source = buffer->source;
        return NULL;
    case HN_WBUF_CONSTANT:
        out->kind = HNB_BUFFER_CONSTANT;
        out->byte_offset = buffer->byte_offset;
        return number_storage(p, buffer->source, &out->source);
    case HN_WBUF_TEMP:
    case HN_WBUF_WORKSPACE: return place_temp(p, b, out);
    case HN_WBUF_OUTPUT:
        if (p->plan->pools[b]) place_in_pool(p, b, out);
        else out->kind = HNB_BUFFER_OUTPUT, out->bytes = buffer->bytes;
        return NULL;
    case HN_WBUF_VIEW: return place_nothing(p, out);
    }
    return HN_ERROR(HN_INTERNAL, "buffer %u is of unknown kind %d", b, (int)buffer->kind);
}

/* The input of the graph that is the parameter or buffer `name`; NULL: there is none. */
static const hn_input *find_weight(const hn_graph *g, hn_str name) {
    for (uint32_t i = 0; g && i < g->inputs.count; i++) {
        const hn_input *in = &g->inputs.items[i];
        if (in->kind == HN_INPUT_USER || in->kind == HN_INPUT_SCALAR) continue;
        if (hn_str_eq(in->name, name)) return in;
    }
    return NULL;
}

uint32_t hn_woutput_storage(const hn_wrapper *w, const hn_woutput *o) {
    if (o->kind != HN_WOUTPUT_MUTATION || o->target_input >= 0) return 0;
    const hn_input *in = find_weight(w->graph, o->name);
    return in ? in->storage : 0;
}

static hn_status place_target(placer *p, const hn_woutput *o, hn_wtarget *out) {
    const hn_input *in = find_weight(p->w->graph, o->name);
    if (!in)
        return HN_ERROR(HN_INTERNAL,
                        "the program changes '" HN_STR_FMT "', which the graph does not know",
                        HN_STR_ARG(o->name));
    const hn_value_info *value = hn_graph_value(p->w->graph, in->value);
    if (value->rank != o->rank || value->dtype != o->dtype)
        return HN_ERROR(HN_UNSUPPORTED,
                        "the program changes the rank or dtype of buffer '" HN_STR_FMT "'",
                        HN_STR_ARG(o->name));
    hn_expr *strides;
    HN_NEW(p->arena, strides, value->rank);
    hn_value_strides(p->sym, value, strides);
    out->strides = strides;
    out->offset_elems = hn_sym_int(p->sym, in->storage_offset_elems);
    HN_TRY(number_storage(p, in->storage, &out->storage));
    p->out->storages.items[out->storage].is_mutable = true;
    return NULL;
}

hn_status hn_wrapper_place(const hn_wrapper *w, const hn_memory_plan *plan, hn_arena *arena,
                           hn_wplaces *out) {
    placer p = {.w = w, .plan = plan, .sym = w->sym, .arena = arena, .out = out};
    *out = (hn_wplaces){0};
    hn_map_init(&out->storage_numbers, arena);
    HN_PUSH(arena, &out->storages, (hn_wstorage){0});
    HN_NEW(arena, out->buffers, w->buffers.count);
    HN_NEW(arena, out->targets, w->outputs.count);
    HN_TRY(name_storages(&p));
    for (hn_wbuf b = 1; b < w->buffers.count; b++) HN_TRY(place_buffer(&p, b));
    for (uint32_t i = 0; i < w->outputs.count; i++) {
        const hn_woutput *o = &w->outputs.items[i];
        if (o->kind == HN_WOUTPUT_MUTATION && o->target_input < 0)
            HN_TRY(place_target(&p, o, &out->targets[i]));
    }
    return number_weights(&p);
}

hn_status hn_wrapper_weight_dims(hn_sym *sym, const hn_graph_weight *weight,
                                 hn_expr out_dims[2 * HN_MAX_RANK], bool *out_fixed) {
    int64_t step = 1, size, stride;
    *out_fixed = false;
    for (uint32_t d = weight->rank; d-- > 0;) {
        if (!hn_sym_is_int(sym, weight->sizes[d], &size)) return NULL;
        if (weight->strides && !hn_sym_is_int(sym, weight->strides[d], &stride)) return NULL;
        out_dims[d] = weight->sizes[d];
        out_dims[weight->rank + d] = weight->strides ? weight->strides[d] : hn_sym_int(sym, step);
        if (!hn_mul_i64(step, size > 1 ? size : 1, &step))
            return HN_ERROR(HN_UNSUPPORTED, "a weight is too large to be addressed");
    }
    *out_fixed = true;
    return NULL;
}
