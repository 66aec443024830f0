/* to_bundle.c: wrapper IR to the bundle's arrays. One function a section; kernels and steps are
 * to_bundle_steps.c, the layout itself is src/bundle. */
#include "wrapper/to_bundle_impl.h"

#include "base/checked.h"
#include "bundle/safetensors.h"
#include "bundle/view.h"
#include "henry/tensor.h"

_Static_assert((int)HN_DTYPE_F64 == (int)HN_F64 && (int)HN_DTYPE_BF16 == (int)HN_BF16 &&
                   (int)HN_DTYPE_I64 == (int)HN_I64 && (int)HN_DTYPE_BOOL == (int)HN_BOOL &&
                   (int)HN_DTYPE_COUNT == (int)HN_SCALAR_TYPE_COUNT,
               "dtype numbers are part of the format");
_Static_assert((int)HN_REL_EQ == (int)HNB_EQ && (int)HN_REL_NE == (int)HNB_NE &&
                   (int)HN_REL_LT == (int)HNB_LT && (int)HN_REL_LE == (int)HNB_LE,
               "relation numbers are part of the format");

hn_status hn_emit_str(bundle_emitter *e, hn_str text, hnb_str *out) {
    return hn_bundle_writer_str(&e->out, text, out);
}

/* ---- expressions ---- */

hn_status hn_emit_expr(bundle_emitter *e, hn_expr expr, uint32_t *out_node) {
    *out_node = hn_wnumbering_node(&e->numbering, expr);
    return *out_node ? NULL : HN_ERROR(HN_INTERNAL, "an expression of a wrapper has no number");
}

/* 0 stays 0. */
hn_status hn_emit_optional(bundle_emitter *e, hn_expr expr, uint32_t *out_node) {
    *out_node = 0;
    return expr ? hn_emit_expr(e, expr, out_node) : NULL;
}

static hn_status put_list(bundle_emitter *e, const hn_expr *exprs, uint32_t count) {
    for (uint32_t k = 0; k < count; k++) {
        uint32_t node;
        HN_TRY(hn_emit_expr(e, exprs[k], &node));
        HN_PUSH(e->out.arena, &e->out.dims, node);
    }
    return NULL;
}

/* Sizes, then strides. Equal shapes are stored once. */
static hn_status put_shape(bundle_emitter *e, uint32_t rank, const hn_expr *sizes,
                           const hn_expr *strides, uint32_t *out_dims) {
    const size_t half = rank * sizeof(hn_expr);
    hn_expr *both;
    *out_dims = e->out.dims.count;
    if (!rank) return NULL;
    HN_NEW(e->out.arena, both, 2 * rank);
    memcpy(both, sizes, half);
    memcpy(both + rank, strides, half);
    const hn_str key = {(const char *)both, 2 * half};
    const uint64_t *known = hn_strmap_get(&e->shapes, key);
    if (known) {
        *out_dims = (uint32_t)*known;
        return NULL;
    }
    HN_TRY(put_list(e, both, 2 * rank));
    return hn_strmap_put(&e->shapes, key, *out_dims);
}

/* ---- symbols and guards ---- */

static hn_status put_solved(bundle_emitter *e, const hn_wsymbol *solved) {
    hnb_symbol s = {.coeff = 1, .input = HNB_BY_STEP, .hint = INT64_MIN};
    HN_TRY(hn_emit_str(e, hn_sym_symbol_name(e->sym, solved->symbol), &s.name));
    hn_sym_range(e->sym, solved->symbol, &s.lo, &s.hi);
    if (!solved->by_line) {
        s.input = solved->input;
        s.dim = solved->dim == HN_WDIM_VALUE ? HNB_DIM_VALUE : solved->dim;
        s.coeff = solved->coeff;
        const int64_t hint = hn_sym_hint(e->sym, solved->symbol, INT64_MIN);
        /* no fallback: known */
        if (hint == hn_sym_hint(e->sym, solved->symbol, INT64_MAX)) s.hint = hint;
        if (!hn_sym_is_value(e->sym, solved->rest, 0))
            HN_TRY(hn_emit_expr(e, solved->rest, &s.rest));
    }
    HN_PUSH(e->out.arena, &e->out.symbols, s);
    return NULL;
}

static hn_status put_symbols(bundle_emitter *e) {
    const hn_wsymbols *symbols = &e->numbering.symbols;
    for (uint32_t k = 0; k < symbols->count; k++) HN_TRY(put_solved(e, &symbols->items[k]));
    return NULL;
}

static hn_status put_guards(bundle_emitter *e) {
    for (uint32_t k = 0; k < e->numbering.guards.count; k++) {
        const hn_guard *guard = &e->numbering.guards.items[k];
        hnb_guard g = {.relation = guard->relation};
        HN_TRY(hn_emit_expr(e, guard->lhs, &g.lhs));
        HN_TRY(hn_emit_expr(e, guard->rhs, &g.rhs));
        HN_TRY(hn_emit_str(e, hn_str_of(guard->reason ? guard->reason : ""), &g.reason));
        HN_PUSH(e->out.arena, &e->out.guards, g);
    }
    return NULL;
}

/* ---- inputs and outputs ---- */

static hn_status put_input(bundle_emitter *e, const hn_wvalue *v) {
    hnb_input record = {.kind = v->kind, .dtype = v->dtype, .rank = v->rank, .bits = v->bits};
    HN_TRY(hn_emit_str(e, v->name, &record.name));
    HN_TRY(hn_emit_str(e, v->text, &record.text));
    HN_TRY(hn_emit_optional(e, v->expr, &record.expr));
    if (v->kind == HNB_VALUE_TENSOR)
        HN_TRY(put_shape(e, v->rank, v->sizes, v->strides, &record.dims));
    HN_PUSH(e->out.arena, &e->out.inputs, record);
    return NULL;
}

/* The strides of a mutation's target stand behind its sizes and strides. */
static hn_status put_output_dims(bundle_emitter *e, const hn_wvalue *v, const hn_wtarget *target,
                                 uint32_t *out_dims) {
    if (!target->storage) return put_shape(e, v->rank, v->sizes, v->strides, out_dims);
    *out_dims = e->out.dims.count;
    HN_TRY(put_list(e, v->sizes, v->rank));
    HN_TRY(put_list(e, v->strides, v->rank));
    return put_list(e, target->strides, v->rank);
}

static hn_status put_output(bundle_emitter *e, uint32_t index) {
    const hn_woutput *o = &e->w->outputs.items[index];
    const hn_wtarget *target = &e->numbering.places.targets[index];
    const hn_wvalue *v = &e->numbering.outputs[index];
    hnb_output record = {.kind = v->kind,
                         .dtype = v->dtype,
                         .rank = v->rank,
                         .bits = v->bits,
                         .buffer = e->buffers[o->buffer],
                         .is_mutation = o->kind == HN_WOUTPUT_MUTATION,
                         .target_input = -1,
                         .target_storage = target->storage};
    if (record.is_mutation) record.target_input = o->target_input;
    HN_TRY(hn_emit_str(e, v->name, &record.name));
    HN_TRY(hn_emit_str(e, v->text, &record.text));
    HN_TRY(hn_emit_optional(e, v->expr, &record.expr));
    HN_TRY(hn_emit_optional(e, hn_woutput_offset(e->w, o), &record.offset));
    if (v->kind == HNB_VALUE_TENSOR) HN_TRY(put_output_dims(e, v, target, &record.dims));
    HN_TRY(hn_emit_optional(e, target->offset_elems, &record.target_offset));
    HN_PUSH(e->out.arena, &e->out.outputs, record);
    return NULL;
}

/* ---- buffers and weights ---- */

/* 0: the program does not read it. */
static uint32_t storage_number(const bundle_emitter *e, uint32_t storage) {
    const uint64_t *number = hn_map_get(&e->numbering.places.storage_numbers, storage);
    return number ? (uint32_t)*number : 0;
}

static hn_status put_piece(bundle_emitter *e, uint32_t number, const hn_storage_piece *piece) {
    const hn_box *box = &piece->box;
    const hnb_piece record = {.storage = number,
                              .source = storage_number(e, piece->storage),
                              .dims = e->out.piece_dims.count,
                              .rank = box->rank,
                              .run_bytes = box->run_bytes,
                              .from = box->from,
                              .to = box->to};
    for (uint32_t d = 0; d < box->rank; d++)
        HN_PUSH(e->out.arena, &e->out.piece_dims, box->dims[d]);
    HN_PUSH(e->out.arena, &e->out.pieces, record);
    return NULL;
}

/* Made of others when the bundle is loaded. */
static hn_status put_made(bundle_emitter *e, uint32_t number, const hn_storage *s,
                          hnb_storage *out) {
    out->where = HNB_STORAGE_MADE;
    out->offset = e->out.pieces.count;
    for (uint32_t k = 0; k < s->piece_count; k++) HN_TRY(put_piece(e, number, &s->pieces[k]));
    return NULL;
}

/* Which of the sources of a program of weights a storage is: they are in the order of its graph. */
static hn_status number_sources(bundle_emitter *e) {
    const hn_graph *g = e->w->graph;
    uint32_t count = 0;
    if (!g || !e->options->is_of_weights) return NULL;
    HN_NEW(e->out.arena, e->sources, g->storages.count);
    for (uint32_t k = 1; k < g->storages.count; k++)
        if (g->storages.items[k].outer) e->sources[k] = count++;
    return NULL;
}

/* Whether a storage has no bytes in any file, and which ones it has then. */
static bool put_link(const bundle_emitter *e, const hn_wstorage *used, const hn_storage *s,
                     hnb_storage *out) {
    if (s->computed && e->options->weights_program.len) {
        out->where = HNB_STORAGE_COMPUTED;
        out->offset = s->computed - 1;
        return true;
    }
    if (!s->outer || !e->options->is_of_weights) return false;
    out->where = HNB_STORAGE_OUTER;
    out->offset = e->sources[used->storage];
    return true;
}

/* Whether a storage has a parameter or buffer of the model; others have constants that passes make. */
static bool has_weight(const hn_graph *g, uint32_t storage) {
    for (uint32_t i = 0; i < g->inputs.count; i++) {
        const hn_input *in = &g->inputs.items[i];
        if (in->storage == storage &&
            (in->kind == HN_INPUT_PARAMETER || in->kind == HN_INPUT_BUFFER))
            return true;
    }
    return false;
}

/* Number `k` of the program. */
static hn_status put_storage(bundle_emitter *e, uint32_t k) {
    const hn_wstorage *used = &e->numbering.places.storages.items[k];
    const hn_storage *s = hn_wnumbering_storage(&e->numbering, k);
    hnb_storage record = {.bytes = s->size_bytes, .is_mutable = used->is_mutable};
    bool in_file = s->file_record.len > 0;
    HN_TRY(hn_emit_str(e, used->name, &record.name));
    bool is_beside = e->options->safetensors && (in_file || has_weight(e->w->graph, used->storage));
    if (s->piece_count) {
        HN_TRY(put_made(e, k, s, &record));
    } else if (put_link(e, used, s, &record)) {
        /* it has no bytes of its own */
    } else if (is_beside && s->data) {
        record.where = HNB_STORAGE_FILE; /* put_safetensors says where in it */
        HN_PUSH(e->out.arena, &e->beside, k);
    } else if (in_file && !is_beside && !e->options->embed_weights &&
               e->options->weights_path.len) {
        record.where = HNB_STORAGE_FILE;
        record.offset = s->file_offset;
    } else {
        const uint8_t *data;
        HN_TRY(hn_wnumbering_bytes(&e->numbering, k, e->out.arena, &data));
        record.where = in_file ? HNB_STORAGE_WEIGHTS : HNB_STORAGE_BLOB;
        HN_TRY(hn_bundle_writer_piece(&e->out, in_file ? &e->out.weights : &e->out.blob, data,
                                      s->size_bytes, &record.offset));
    }
    HN_PUSH(e->out.arena, &e->out.storages, record);
    return NULL;
}

static hn_status put_storages(bundle_emitter *e) {
    HN_TRY(number_sources(e));
    for (uint32_t k = 1; k < e->numbering.places.storages.count; k++) HN_TRY(put_storage(e, k));
    return NULL;
}

/* Views have no number of their own. */
static hn_status number_buffers(bundle_emitter *e) {
    uint32_t count = 0;
    HN_NEW(e->out.arena, e->buffers, e->w->buffers.count);
    for (hn_wbuf i = 1; i < e->w->buffers.count; i++)
        if (e->w->buffers.items[i].kind != HN_WBUF_VIEW) e->buffers[i] = ++count;
    for (hn_wbuf i = 1; i < e->w->buffers.count; i++)
        e->buffers[i] = e->buffers[hn_wrapper_root(e->w, i)];
    e->first_pool = count + 1;
    return NULL;
}

/* Pools stand behind the buffers of the program: bytes, of which there may be none. */
static hn_status put_pools(bundle_emitter *e) {
    const hn_expr stride = hn_sym_int(e->w->sym, 1);
    for (uint32_t k = 0; k < e->plan->pool_list.count; k++) {
        const hn_wpool *pool = &e->plan->pool_list.items[k];
        hnb_buffer record = {
            .kind = HNB_BUFFER_POOL, .dtype = HN_DTYPE_U8, .device = pool->device, .rank = 1};
        if (pool->input) record.source = 1 + e->w->buffers.items[pool->input].source;
        HN_TRY(hn_emit_str(e, HN_STR(""), &record.name));
        HN_TRY(put_shape(e, 1, &pool->bytes, &stride, &record.dims));
        HN_TRY(hn_emit_expr(e, pool->bytes, &record.bytes));
        HN_PUSH(e->out.arena, &e->out.buffers, record);
    }
    return NULL;
}

static hn_status put_buffers(bundle_emitter *e) {
    for (hn_wbuf i = 1; i < e->w->buffers.count; i++) {
        const hn_wbuffer *b = &e->w->buffers.items[i];
        if (b->kind == HN_WBUF_VIEW) continue;
        const hn_wplace *place = &e->numbering.places.buffers[i];
        hnb_buffer record = {.kind = place->kind,
                             .dtype = b->dtype,
                             .source = place->source,
                             .byte_offset = place->byte_offset,
                             .device = b->device,
                             .rank = place->rank};
        if (place->kind == HNB_BUFFER_OUTPUT && place->source)
            record.source = e->first_pool + place->source - 1;
        HN_TRY(hn_emit_str(e, b->name.len ? b->name : b->node, &record.name));
        HN_TRY(put_shape(e, place->rank, place->sizes, place->strides, &record.dims));
        HN_TRY(hn_emit_optional(e, place->bytes, &record.bytes));
        HN_TRY(hn_emit_optional(e, place->offset, &record.offset));
        HN_PUSH(e->out.arena, &e->out.buffers, record);
    }
    return put_pools(e);
}

static hn_status put_workspace(bundle_emitter *e, hn_device_kind device, hn_expr bytes) {
    hnb_workspace record = {.device = device};
    if (!bytes || hn_sym_is_value(e->sym, bytes, 0)) return NULL;
    HN_TRY(hn_emit_expr(e, bytes, &record.bytes));
    HN_PUSH(e->out.arena, &e->out.workspaces, record);
    return NULL;
}

/* With room for another path: see hn_bundle_weight_file_set. */
static hn_status put_path(bundle_emitter *e, hn_str path, hnb_str *out) {
    char *text;
    size_t room = path.len < HNB_PATH_ROOM ? HNB_PATH_ROOM - 1 : path.len;
    HN_NEW(e->out.arena, text, room);
    memcpy(text, path.ptr, path.len);
    HN_TRY(hn_emit_str(e, (hn_str){text, room}, out));
    out->len = (uint32_t)path.len;
    return NULL;
}

/* The type and the shape of a storage that is one whole tensor; others are just bytes. */
static hn_status describe_storage(bundle_emitter *e, uint32_t storage, hn_safetensor *out) {
    const hn_graph *g = e->w->graph;
    for (uint32_t i = 0; i < g->inputs.count; i++) {
        const hn_input *in = &g->inputs.items[i];
        if (in->storage != storage || in->kind == HN_INPUT_USER || in->kind == HN_INPUT_SCALAR ||
            in->storage_offset_elems)
            continue;
        const hn_value_info *v = hn_graph_value(g, in->value);
        int64_t *sizes, step = 1;
        bool whole = true;
        HN_NEW(e->out.arena, sizes, (size_t)v->rank + 1);
        for (uint32_t d = v->rank; d-- > 0 && whole;) {
            whole = hn_sym_is_int(e->sym, v->sizes[d], &sizes[d]) &&
                    (!v->strides || hn_sym_is_value(e->sym, v->strides[d], step));
            step *= whole ? sizes[d] : 1;
        }
        if (!whole || (uint64_t)step * hn_dtype_facts(v->dtype)->size_bytes != out->len) continue;
        out->dtype = v->dtype, out->rank = v->rank, out->sizes = sizes;
        return NULL;
    }
    return NULL;
}

static hn_status put_safetensors(bundle_emitter *e) {
    hn_safetensor *tensors;
    hn_safetensors_facts facts;
    hnb_weight_file record = {.form = HNB_WEIGHTS_SAFETENSORS};
    if (!e->beside.count) return NULL;
    HN_NEW(e->out.arena, tensors, e->beside.count);
    for (uint32_t k = 0; k < e->beside.count; k++) {
        const hn_wstorage *used = &e->numbering.places.storages.items[e->beside.items[k]];
        const hn_storage *s = hn_wnumbering_storage(&e->numbering, e->beside.items[k]);
        tensors[k] = (hn_safetensor){.name = used->name, .bytes = s->data, .len = s->size_bytes};
        HN_TRY(describe_storage(e, used->storage, &tensors[k]));
    }
    HN_TRY(hn_safetensors_save(tensors, e->beside.count, e->options->safetensors, &facts));
    for (uint32_t k = 0; k < e->beside.count; k++)
        e->out.storages.items[e->beside.items[k]].offset = tensors[k].offset;
    record.bytes = facts.bytes, record.mtime_ns = facts.mtime_ns;
    memcpy(record.ends_digest, facts.ends.bytes, sizeof facts.ends.bytes);
    memcpy(record.full_digest, facts.full.bytes, sizeof facts.full.bytes);
    HN_TRY(hn_emit_str(e, e->options->weights_path, &record.path));
    HN_PUSH(e->out.arena, &e->out.weight_files, record);
    return NULL;
}

static hn_status put_weight_file(bundle_emitter *e) {
    const hn_to_bundle_options *o = e->options;
    bool used = false;
    if (o->safetensors) return put_safetensors(e);
    for (uint32_t i = 1; i < e->out.storages.count; i++)
        used |= e->out.storages.items[i].where == HNB_STORAGE_FILE;
    if (!used) return NULL;
    if (!o->weights_data)
        return HN_ERROR(HN_INTERNAL, "the bytes of '" HN_STR_FMT "' are needed",
                        HN_STR_ARG(o->weights_path));
    hnb_weight_file record = {.bytes = o->weights_bytes, .mtime_ns = o->weights_mtime_ns};
    hn_digest ends = hn_bundle_ends_digest(o->weights_data, o->weights_bytes);
    memcpy(record.ends_digest, ends.bytes, sizeof ends.bytes);
    if (o->full_digest) {
        hn_digest full = hn_digest_of(o->weights_data, o->weights_bytes);
        memcpy(record.full_digest, full.bytes, sizeof full.bytes);
    }
    HN_TRY(put_path(e, o->weights_path, &record.path));
    HN_PUSH(e->out.arena, &e->out.weight_files, record);
    return NULL;
}

/* Which storage of the program holds the bytes at an address; 0: several do, one from a branch,
 * say. */
static hn_status storages_by_bytes(const bundle_emitter *e, hn_map *out) {
    const hn_graph *g = e->w->graph;
    hn_map_init(out, e->out.arena);
    for (uint32_t i = 1; i < g->storages.count; i++) {
        const uintptr_t bytes = (uintptr_t)g->storages.items[i].data;
        if (bytes && storage_number(e, i))
            HN_TRY(hn_map_put(out, bytes, hn_map_get(out, bytes) ? 0 : i));
    }
    return NULL;
}

/* Every weight of the model, those too that the program has no use for or has computed with. */
static hn_status put_tensors(bundle_emitter *e) {
    static const uint8_t kinds[] = {[HN_INPUT_PARAMETER] = HNB_TENSOR_PARAMETER,
                                    [HN_INPUT_BUFFER] = HNB_TENSOR_BUFFER,
                                    [HN_INPUT_CONSTANT] = HNB_TENSOR_CONSTANT};
    const hn_graph *g = e->w->graph;
    hn_map holders;
    if (!g) return NULL;
    HN_TRY(storages_by_bytes(e, &holders));
    for (uint32_t k = 0; k < g->weights.count; k++) {
        const hn_graph_weight *w = &g->weights.items[k];
        hnb_tensor record = {.kind = kinds[w->kind],
                             .dtype = w->dtype,
                             .rank = w->rank,
                             .storage = storage_number(e, w->storage),
                             .offset = w->storage_offset_elems};
        hn_expr dims[2 * HN_MAX_RANK];
        bool is_fixed;
        HN_TRY(hn_wrapper_weight_dims(e->sym, w, dims, &is_fixed));
        if (is_fixed) HN_TRY(put_shape(e, w->rank, dims, dims + w->rank, &record.dims));
        if (!is_fixed || !hn_bundle_dtype_bytes(w->dtype)) continue;
        /* A copy under another number would keep the old values. */
        const uint64_t *holder =
            hn_map_get(&holders, (uintptr_t)g->storages.items[w->storage].data);
        record.is_folded =
            *g->storages.items[w->storage].was_read || (holder && *holder != w->storage);
        HN_TRY(hn_emit_str(e, w->name, &record.name));
        HN_PUSH(e->out.arena, &e->out.tensors, record);
    }
    return NULL;
}

/* The program that computes weights, behind the objects, and what it reads. */
static hn_status put_weights_program(bundle_emitter *e) {
    const hn_str image = e->options->weights_program;
    const hn_graph *program = e->w->graph ? e->w->graph->weights_program : NULL;
    hnb_weights_program record = {.len = image.len};
    if (!image.len || !program) return NULL;
    memcpy(record.digest, ((const hnb_header *)(const void *)image.ptr)->digest,
           sizeof record.digest);
    HN_TRY(hn_bundle_writer_piece(&e->out, &e->out.code, image.ptr, image.len, &record.offset));
    HN_PUSH(e->out.arena, &e->out.weights_program, record);
    for (uint32_t k = 1; k < program->storages.count; k++) {
        const uint32_t outer = program->storages.items[k].outer;
        if (outer) HN_PUSH(e->out.arena, &e->out.weights_sources, storage_number(e, outer));
    }
    return NULL;
}

/* ---- all of it ---- */

static hn_status emit(bundle_emitter *e, const hn_bundle_objects *objects) {
    HN_TRY(hn_emit_str(e, HN_STR("henry 0.1.0"), &e->out.info.producer));
    HN_TRY(hn_emit_str(e, e->options->model, &e->out.info.model));
    e->out.key = e->options->key;
    e->out.tuning = e->options->tuning;
    hn_strmap_init(&e->shapes, e->out.arena);
    HN_TRY(hn_wrapper_number(e->w, e->plan, e->out.arena, &e->numbering));
    HN_TRY(hn_wnumbering_add_shapes(&e->numbering));
    HN_TRY(hn_wnumbering_add_records(&e->numbering));
    e->out.nodes = e->numbering.nodes;
    HN_TRY(number_buffers(e));
    HN_TRY(put_symbols(e));
    HN_TRY(put_guards(e));
    for (uint32_t i = 0; i < e->w->inputs.count; i++) HN_TRY(put_input(e, &e->numbering.inputs[i]));
    HN_TRY(put_storages(e));
    HN_TRY(put_buffers(e));
    for (uint32_t k = 0; k < HN_DEVICE_KIND_COUNT; k++)
        HN_TRY(put_workspace(e, (hn_device_kind)k, e->plan->workspaces[k]));
    for (uint32_t i = 0; i < e->w->outputs.count; i++) HN_TRY(put_output(e, i));
    HN_TRY(put_tensors(e));
    HN_TRY(hn_emit_targets(e, objects));
    HN_TRY(hn_emit_objects(e, objects));
    HN_TRY(put_weights_program(e));
    HN_TRY(hn_emit_kernels(e, objects->count));
    HN_TRY(hn_emit_origins(e));
    for (uint32_t i = 0; i < e->w->lines.count; i++) {
        const uint32_t steps = e->out.steps.count;
        HN_TRY(hn_emit_step(e, i));
        if (e->out.steps.count > steps) HN_TRY(hn_emit_records(e, i, steps));
    }
    return put_weight_file(e);
}

static hn_status run_emitter(const hn_wrapper *w, const hn_memory_plan *plan,
                             const hn_bundle_objects *objects, const hn_to_bundle_options *options,
                             hn_strbuf *out_image, const char *path) {
    hn_arena arena;
    hn_arena_init(&arena);
    bundle_emitter e = {.w = w, .plan = plan, .options = options, .sym = w->sym};
    hn_status status = hn_bundle_writer_init(&e.out, &arena);
    e.out.weights_digest = options->full_digest;
    e.out.is_inner = options->is_of_weights;
    if (!status) status = emit(&e, objects);
    if (!status)
        status = out_image ? hn_bundle_writer_finish(&e.out, out_image)
                           : hn_bundle_writer_save(&e.out, path);
    hn_bundle_writer_deinit(&e.out);
    hn_arena_deinit(&arena);
    return hn_status_annotate(status, "cannot make a bundle");
}

hn_status hn_wrapper_to_bundle(const hn_wrapper *w, const hn_memory_plan *plan,
                               const hn_bundle_objects *objects,
                               const hn_to_bundle_options *options, hn_strbuf *out_image) {
    return run_emitter(w, plan, objects, options, out_image, NULL);
}

hn_status hn_wrapper_save_bundle(const hn_wrapper *w, const hn_memory_plan *plan,
                                 const hn_bundle_objects *objects,
                                 const hn_to_bundle_options *options, const char *path) {
    return run_emitter(w, plan, objects, options, NULL, path);
}
