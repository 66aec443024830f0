/* to_bundle.c: wrapper IR to the bundle's arrays. One function a section; kernels and steps are to_bundle_steps.c, the layout
 * itself is src/bundle. */
#include "wrapper/to_bundle_impl.h"

#include "base/checked.h"
#include "bundle/safetensors.h"
#include "bundle/view.h"
#include "henry/tensor.h"

_Static_assert((int)HN_DTYPE_F64 == (int)HN_F64 && (int)HN_DTYPE_BF16 == (int)HN_BF16 &&
                   (int)HN_DTYPE_I64 == (int)HN_I64 && (int)HN_DTYPE_BOOL == (int)HN_BOOL &&
                   (int)HN_DTYPE_COUNT == (int)HN_SCALAR_TYPE_COUNT,
               "dtype numbers are part of the format");
_Static_assert((int)HN_REL_EQ == (int)HNB_EQ && (int)HN_REL_NE == (int)HNB_NE && (int)HN_REL_LT == (int)HNB_LT &&
                   (int)HN_REL_LE == (int)HNB_LE,
               "relation numbers are part of the format");

hn_status hn_emit_str(bundle_emitter *e, hn_str text, hnb_str *out) {
    return hn_bundle_writer_str(&e->out, text, out);
}

/* ---- expressions ---- */

static hn_status put_const(bundle_emitter *e, int64_t value, uint32_t *out_node) {
    return hn_bundle_writer_node(&e->out, HNB_OP_CONST, 0, value, out_node);
}

static hn_status put_symbol(bundle_emitter *e, hn_expr symbol, uint32_t *out_node) {
    uint32_t place;
    if (hn_wsymbols_find(&e->symbols, symbol, &place))
        return hn_bundle_writer_node(&e->out, HNB_OP_SYMBOL, place, 0, out_node);
    hn_str name = hn_sym_symbol_name(e->sym, symbol);
    hn_symbol_kind kind = hn_sym_symbol_kind(e->sym, symbol);
    if (kind == HN_SYMBOL_DATA)
        return HN_ERROR(HN_UNSUPPORTED,
                        "size '" HN_STR_FMT "' depends on data, but nothing in the program defines it",
                        HN_STR_ARG(name));
    if (kind != HN_SYMBOL_SIZE)
        return HN_ERROR(HN_INTERNAL, "loop variable '" HN_STR_FMT "' in a wrapper", HN_STR_ARG(name));
    return HN_ERROR(HN_UNSUPPORTED, "size '" HN_STR_FMT "' is not determined by the shape of any input",
                    HN_STR_ARG(name));
}

static hn_status put_sum(bundle_emitter *e, hn_expr expr, uint32_t *out_node) {
    hn_sum sum = hn_sym_sum(e->sym, expr);
    uint32_t total = 0, term, coeff;
    for (uint32_t k = 0; k < sum.count; k++) {
        HN_TRY(hn_emit_expr(e, sum.terms[k], &term));
        if (sum.coeffs[k] != 1) {
            HN_TRY(put_const(e, sum.coeffs[k], &coeff));
            HN_TRY(hn_bundle_writer_node(&e->out, HNB_OP_MUL, coeff, term, &term));
        }
        if (total) HN_TRY(hn_bundle_writer_node(&e->out, HNB_OP_ADD, total, term, &total));
        else total = term;
    }
    if (sum.constant || !total) {
        HN_TRY(put_const(e, sum.constant, &term));
        if (total) HN_TRY(hn_bundle_writer_node(&e->out, HNB_OP_ADD, total, term, &total));
        else total = term;
    }
    *out_node = total;
    return NULL;
}

static hn_status put_args(bundle_emitter *e, hn_expr expr, hnb_op op, uint32_t *out_node) {
    uint32_t count, total = 0, node;
    const hn_expr *args = hn_sym_args(e->sym, expr, &count);
    for (uint32_t k = 0; k < count; k++) {
        HN_TRY(hn_emit_expr(e, args[k], &node));
        if (total) HN_TRY(hn_bundle_writer_node(&e->out, op, total, node, &total));
        else total = node;
    }
    if (!total) return HN_ERROR(HN_INTERNAL, "expression without arguments");
    *out_node = total;
    return NULL;
}

/* Recursion is bounded by the depth limit of src/sym. */
hn_status hn_emit_expr(bundle_emitter *e, hn_expr expr, uint32_t *out_node) {
    int64_t value;
    uint64_t *known = hn_map_get(&e->nodes, expr);
    if (known) {
        *out_node = (uint32_t)*known;
        return NULL;
    }
    switch (hn_sym_kind(e->sym, expr)) {
    case HN_EXPR_CONST:
        (void)hn_sym_is_int(e->sym, expr, &value);
        HN_TRY(put_const(e, value, out_node));
        break;
    case HN_EXPR_SYMBOL: HN_TRY(put_symbol(e, expr, out_node)); break;
    case HN_EXPR_ADD: HN_TRY(put_sum(e, expr, out_node)); break;
    case HN_EXPR_MUL: HN_TRY(put_args(e, expr, HNB_OP_MUL, out_node)); break;
    case HN_EXPR_FLOORDIV: HN_TRY(put_args(e, expr, HNB_OP_FLOORDIV, out_node)); break;
    case HN_EXPR_MOD: HN_TRY(put_args(e, expr, HNB_OP_MOD, out_node)); break;
    case HN_EXPR_MIN: HN_TRY(put_args(e, expr, HNB_OP_MIN, out_node)); break;
    case HN_EXPR_MAX: HN_TRY(put_args(e, expr, HNB_OP_MAX, out_node)); break;
    case HN_EXPR_INVALID: return HN_ERROR(HN_INTERNAL, "invalid expression in a wrapper");
    }
    return hn_map_put(&e->nodes, expr, *out_node);
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

static hn_status put_shape(bundle_emitter *e, uint32_t rank, const hn_expr *sizes, const hn_expr *strides,
                           uint32_t *out_dims) {
    *out_dims = e->out.dims.count;
    HN_TRY(put_list(e, sizes, rank));
    return put_list(e, strides, rank);
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
        if (hint == hn_sym_hint(e->sym, solved->symbol, INT64_MAX)) s.hint = hint; /* no fallback: known */
        if (!hn_sym_is_value(e->sym, solved->rest, 0))
            HN_TRY(hn_emit_expr(e, solved->rest, &s.rest));
    }
    HN_PUSH(e->out.arena, &e->out.symbols, s);
    return NULL;
}

static hn_status put_symbols(bundle_emitter *e) {
    HN_TRY(hn_wrapper_solve(e->w, e->out.arena, &e->symbols));
    for (uint32_t k = 0; k < e->symbols.count; k++) HN_TRY(put_solved(e, &e->symbols.items[k]));
    return NULL;
}

/* Whether a data-dependent symbol in `x` was never defined: what is said of it concerns nothing in the program. */
static bool is_undefined(bundle_emitter *e, hn_expr x) {
    hn_expr symbols[64];
    uint32_t count = hn_sym_symbols(e->sym, x, symbols, 64), ignored;
    for (uint32_t k = 0; k < count && k < 64; k++)
        if (hn_sym_symbol_kind(e->sym, symbols[k]) == HN_SYMBOL_DATA &&
            !hn_wsymbols_find(&e->symbols, symbols[k], &ignored))
            return true;
    return false;
}

static hn_status put_guards(bundle_emitter *e) {
    uint32_t count;
    const hn_guard *guards = hn_sym_guards(e->sym, &count);
    for (uint32_t i = 0; i < count; i++) {
        hnb_guard g = {.relation = guards[i].relation};
        if (is_undefined(e, guards[i].lhs) || is_undefined(e, guards[i].rhs)) continue;
        HN_TRY(hn_emit_expr(e, guards[i].lhs, &g.lhs));
        HN_TRY(hn_emit_expr(e, guards[i].rhs, &g.rhs));
        HN_TRY(hn_emit_str(e, hn_str_of(guards[i].reason ? guards[i].reason : ""), &g.reason));
        HN_PUSH(e->out.arena, &e->out.guards, g);
    }
    return NULL;
}

/* ---- inputs and outputs ---- */

static uint64_t float_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

typedef struct scalar_record {
    uint32_t kind, expr;
    uint64_t bits;
    hnb_str text;
} scalar_record;

static hn_status put_scalar(bundle_emitter *e, const hn_arg *arg, scalar_record *out) {
    *out = (scalar_record){0};
    switch (arg->kind) {
    case HN_ARG_INT: out->kind = HNB_VALUE_INT; return hn_emit_expr(e, arg->as.expr, &out->expr);
    case HN_ARG_FLOAT: out->kind = HNB_VALUE_FLOAT, out->bits = float_bits(arg->as.f); return NULL;
    case HN_ARG_BOOL: out->kind = HNB_VALUE_BOOL, out->bits = arg->as.b; return NULL;
    case HN_ARG_STRING: out->kind = HNB_VALUE_STRING; return hn_emit_str(e, arg->as.s, &out->text);
    case HN_ARG_NONE: out->kind = HNB_VALUE_NONE; return NULL;
    default: return HN_ERROR(HN_UNSUPPORTED, "a scalar input or output of kind %d", (int)arg->kind);
    }
}

static hn_status put_inputs(bundle_emitter *e) {
    for (uint32_t i = 0; i < e->w->inputs.count; i++) {
        const hn_winput *in = &e->w->inputs.items[i];
        hnb_input record = {.kind = HNB_VALUE_TENSOR, .dtype = in->dtype, .rank = in->rank};
        HN_TRY(hn_emit_str(e, in->name, &record.name));
        if (in->is_scalar) {
            scalar_record s;
            HN_TRY(put_scalar(e, &in->scalar, &s));
            record = (hnb_input){
                .name = record.name, .kind = s.kind, .expr = s.expr, .bits = s.bits, .text = s.text};
        } else {
            HN_TRY(put_shape(e, in->rank, in->sizes, in->strides, &record.dims));
        }
        HN_PUSH(e->out.arena, &e->out.inputs, record);
    }
    return NULL;
}

static hn_status put_storage(bundle_emitter *e, uint32_t storage, uint32_t *out);

/* Where the buffer or parameter `name` lives, for a mutation of it. */
static hn_status put_target(bundle_emitter *e, const hn_woutput *o, hnb_output *record) {
    const hn_graph *g = e->w->graph;
    for (uint32_t i = 0; g && i < g->inputs.count; i++) {
        const hn_input *in = &g->inputs.items[i];
        if (in->kind == HN_INPUT_USER || in->kind == HN_INPUT_SCALAR || !hn_str_eq(in->name, o->name)) continue;
        const hn_value_info *value = hn_graph_value(g, in->value);
        hn_expr contiguous[HN_MAX_RANK], step = hn_sym_int(e->sym, 1);
        if (value->rank != o->rank || value->dtype != o->dtype)
            return HN_ERROR(HN_UNSUPPORTED, "the program changes the rank or dtype of buffer '" HN_STR_FMT "'",
                            HN_STR_ARG(o->name));
        for (uint32_t d = value->rank; d-- > 0;) {
            contiguous[d] = step;
            step = hn_sym_mul(e->sym, step, value->sizes[d]);
        }
        HN_TRY(put_list(e, value->strides ? value->strides : contiguous, value->rank));
        HN_TRY(put_storage(e, in->storage, &record->target_storage));
        e->out.storages.items[record->target_storage].is_mutable = 1;
        return hn_emit_expr(e, hn_sym_int(e->sym, in->storage_offset_elems), &record->target_offset);
    }
    return HN_ERROR(HN_INTERNAL, "the program changes '" HN_STR_FMT "', which the graph does not know",
                    HN_STR_ARG(o->name));
}

static hn_status put_output(bundle_emitter *e, const hn_woutput *o) {
    hnb_output record = {
        .kind = HNB_VALUE_TENSOR, .dtype = o->dtype, .rank = o->rank, .buffer = o->buffer, .target_input = -1};
    HN_TRY(hn_emit_str(e, o->name, &record.name));
    if (o->kind == HN_WOUTPUT_SCALAR) {
        scalar_record s;
        HN_TRY(put_scalar(e, &o->scalar, &s));
        record = (hnb_output){.name = record.name,
                              .kind = s.kind,
                              .expr = s.expr,
                              .bits = s.bits,
                              .text = s.text,
                              .target_input = -1};
    } else {
        HN_TRY(put_shape(e, o->rank, o->sizes, o->strides, &record.dims));
        HN_TRY(hn_emit_optional(e, o->offset_elems, &record.offset));
        record.is_mutation = o->kind == HN_WOUTPUT_MUTATION;
        if (record.is_mutation) record.target_input = o->target_input;
        if (record.is_mutation && o->target_input < 0) HN_TRY(put_target(e, o, &record));
    }
    HN_PUSH(e->out.arena, &e->out.outputs, record);
    return NULL;
}

/* ---- buffers and weights ---- */

static hn_status name_storages(bundle_emitter *e) {
    const hn_graph *g = e->w->graph;
    if (!g) return NULL;
    HN_NEW(e->out.arena, e->storage_names, g->storages.count);
    for (uint32_t i = g->inputs.count; i-- > 0;) {
        const hn_input *in = &g->inputs.items[i];
        if (in->storage && in->storage < g->storages.count) e->storage_names[in->storage] = in->name;
    }
    return NULL;
}

static hn_str storage_name(const bundle_emitter *e, uint32_t storage) {
    hn_str name = e->storage_names[storage];
    return name.len ? name : e->w->graph->storages.items[storage].file_record;
}

static hn_status put_storage(bundle_emitter *e, uint32_t storage, uint32_t *out) {
    const hn_graph *g = e->w->graph;
    uint64_t *known = hn_map_get(&e->storages, storage);
    if (known) {
        *out = (uint32_t)*known;
        return NULL;
    }
    if (!g || !storage || storage >= g->storages.count)
        return HN_ERROR(HN_INTERNAL, "storage %u is not known", storage);
    const hn_storage *s = &g->storages.items[storage];
    hnb_storage record = {.bytes = s->size_bytes};
    bool in_file = s->file_record.len > 0;
    HN_TRY(hn_emit_str(e, storage_name(e, storage), &record.name));
    bool is_beside = in_file && e->options->safetensors;
    if (is_beside && s->data) {
        record.where = HNB_STORAGE_FILE; /* put_safetensors says where in it */
        HN_PUSH(e->out.arena, &e->beside, storage);
    } else if (in_file && !is_beside && !e->options->embed_weights && e->options->weights_path.len) {
        record.where = HNB_STORAGE_FILE;
        record.offset = s->file_offset;
    } else if (!s->data && s->size_bytes) {
        return HN_ERROR(HN_UNSUPPORTED,
                        "weight '" HN_STR_FMT "' has no bytes: the model holds only its description",
                        HN_STR_ARG(storage_name(e, storage)));
    } else {
        record.where = in_file ? HNB_STORAGE_WEIGHTS : HNB_STORAGE_BLOB;
        HN_TRY(hn_bundle_writer_piece(&e->out, in_file ? &e->out.weights : &e->out.blob, s->data, s->size_bytes,
                                      &record.offset));
    }
    *out = e->out.storages.count;
    HN_PUSH(e->out.arena, &e->out.storages, record);
    return hn_map_put(&e->storages, storage, *out);
}

static hn_status put_buffers(bundle_emitter *e) {
    static const uint8_t kinds[] = {[HN_WBUF_INPUT] = HNB_BUFFER_INPUT, [HN_WBUF_CONSTANT] = HNB_BUFFER_CONSTANT,
                                    [HN_WBUF_TEMP] = HNB_BUFFER_TEMP, [HN_WBUF_OUTPUT] = HNB_BUFFER_OUTPUT};
    for (uint32_t i = 1; i < e->w->buffers.count; i++) {
        const hn_wbuffer *b = &e->w->buffers.items[i];
        hnb_buffer record = {.kind = kinds[b->kind], .dtype = b->dtype, .source = b->source};
        HN_TRY(hn_emit_str(e, b->name, &record.name));
        if (b->kind == HN_WBUF_CONSTANT) {
            HN_TRY(put_storage(e, b->source, &record.source));
            record.byte_offset = b->byte_offset;
        }
        if (b->kind == HN_WBUF_TEMP || b->kind == HN_WBUF_OUTPUT) HN_TRY(hn_emit_expr(e, b->bytes, &record.bytes));
        if (e->plan->slots[i]) {
            record.kind = HNB_BUFFER_SLOT;
            record.source = e->plan->slots[i] - 1;
            HN_PUSH(e->out.arena, &e->out.buffers, record);
            continue;
        }
        if (b->kind == HN_WBUF_TEMP && e->plan->offsets[i])
            HN_TRY(hn_emit_expr(e, e->plan->offsets[i], &record.offset));
        /* A temporary that no line mentions has no place: it needs none. */
        if (b->kind == HN_WBUF_TEMP && !e->plan->offsets[i]) HN_TRY(put_const(e, 0, &record.bytes));
        if (b->kind == HN_WBUF_TEMP && !record.offset) HN_TRY(put_const(e, 0, &record.offset));
        HN_PUSH(e->out.arena, &e->out.buffers, record);
    }
    return hn_emit_optional(e, e->plan->workspace_bytes, &e->out.info.workspace);
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
        if (in->storage != storage || in->kind == HN_INPUT_USER || in->kind == HN_INPUT_SCALAR || in->storage_offset_elems) continue;
        const hn_value_info *v = hn_graph_value(g, in->value);
        int64_t *sizes, step = 1;
        bool whole = true;
        HN_NEW(e->out.arena, sizes, (size_t)v->rank + 1);
        for (uint32_t d = v->rank; d-- > 0 && whole;) {
            whole = hn_sym_is_int(e->sym, v->sizes[d], &sizes[d]) && (!v->strides || hn_sym_is_value(e->sym, v->strides[d], step));
            step *= whole ? sizes[d] : 1;
        }
        if (!whole || (uint64_t)step * hn_dtype_facts(v->dtype)->size_bytes != out->len) continue;
        out->dtype = v->dtype, out->rank = v->rank, out->sizes = sizes;
        return NULL;
    }
    return NULL;
}

static hn_status put_safetensors(bundle_emitter *e) {
    const hn_graph *g = e->w->graph;
    hn_safetensor *tensors;
    hn_safetensors_facts facts;
    hnb_weight_file record = {.form = HNB_WEIGHTS_SAFETENSORS};
    if (!e->beside.count) return NULL;
    HN_NEW(e->out.arena, tensors, e->beside.count);
    for (uint32_t k = 0; k < e->beside.count; k++) {
        const hn_storage *s = &g->storages.items[e->beside.items[k]];
        tensors[k] = (hn_safetensor){.name = storage_name(e, e->beside.items[k]), .bytes = s->data, .len = s->size_bytes};
        HN_TRY(describe_storage(e, e->beside.items[k], &tensors[k]));
    }
    HN_TRY(hn_safetensors_save(tensors, e->beside.count, e->options->safetensors, &facts));
    for (uint32_t k = 0; k < e->beside.count; k++)
        e->out.storages.items[*hn_map_get(&e->storages, e->beside.items[k])].offset = tensors[k].offset;
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
        return HN_ERROR(HN_INTERNAL, "the bytes of '" HN_STR_FMT "' are needed", HN_STR_ARG(o->weights_path));
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

/* Sizes, then strides, as numbers; false when the model does not fix them. */
static hn_status put_tensor_dims(bundle_emitter *e, const hn_graph_weight *w, bool *out_fixed, uint32_t *out) {
    hn_expr dims[2 * HNB_MAX_RANK];
    int64_t step = 1, size, stride;
    *out_fixed = w->rank <= HNB_MAX_RANK;
    for (uint32_t d = *out_fixed ? w->rank : 0; d-- > 0;) {
        *out_fixed = *out_fixed && hn_sym_is_int(e->sym, w->sizes[d], &size) && (!w->strides || hn_sym_is_int(e->sym, w->strides[d], &stride));
        if (!*out_fixed) return NULL;
        dims[d] = w->sizes[d];
        dims[w->rank + d] = w->strides ? w->strides[d] : hn_sym_int(e->sym, step);
        if (!hn_mul_i64(step, size > 1 ? size : 1, &step)) return HN_ERROR(HN_UNSUPPORTED, "a weight is too large to be addressed");
    }
    *out = e->out.dims.count;
    return *out_fixed ? put_list(e, dims, 2 * w->rank) : NULL;
}

/* Which storage of the program holds the bytes at an address; 0: several do, one from a branch, say. */
static hn_status storages_by_bytes(const bundle_emitter *e, hn_map *out) {
    const hn_graph *g = e->w->graph;
    hn_map_init(out, e->out.arena);
    for (uint32_t i = 1; i < g->storages.count; i++) {
        const uintptr_t bytes = (uintptr_t)g->storages.items[i].data;
        if (bytes && hn_map_get(&e->storages, i)) HN_TRY(hn_map_put(out, bytes, hn_map_get(out, bytes) ? 0 : i));
    }
    return NULL;
}

/* Every weight of the model, those too that the program has no use for or has computed with. */
static hn_status put_tensors(bundle_emitter *e) {
    static const uint8_t kinds[] = {[HN_INPUT_PARAMETER] = HNB_TENSOR_PARAMETER, [HN_INPUT_BUFFER] = HNB_TENSOR_BUFFER,
                                    [HN_INPUT_CONSTANT] = HNB_TENSOR_CONSTANT};
    const hn_graph *g = e->w->graph;
    hn_map holders;
    if (!g) return NULL;
    HN_TRY(storages_by_bytes(e, &holders));
    for (uint32_t k = 0; k < g->weights.count; k++) {
        const hn_graph_weight *w = &g->weights.items[k];
        const uint64_t *storage = hn_map_get(&e->storages, w->storage);
        hnb_tensor record = {.kind = kinds[w->kind], .dtype = w->dtype, .rank = w->rank, .offset = w->storage_offset_elems};
        bool fixed;
        HN_TRY(put_tensor_dims(e, w, &fixed, &record.dims));
        if (!fixed || !hn_bundle_dtype_bytes(w->dtype)) continue;
        record.storage = storage ? (uint32_t)*storage : 0;
        /* A copy under another number would keep the old values. */
        const uint64_t *holder = hn_map_get(&holders, (uintptr_t)g->storages.items[w->storage].data);
        record.is_folded = *g->storages.items[w->storage].was_read || (holder && *holder != w->storage);
        HN_TRY(hn_emit_str(e, w->name, &record.name));
        HN_PUSH(e->out.arena, &e->out.tensors, record);
    }
    return NULL;
}

/* ---- all of it ---- */

static hn_status emit(bundle_emitter *e, const hn_bundle_objects *objects) {
    HN_TRY(hn_emit_str(e, HN_STR("henry 0.1.0"), &e->out.info.producer));
    HN_TRY(hn_emit_str(e, e->options->model, &e->out.info.model));
    e->out.key = e->options->key;
    HN_TRY(put_symbols(e));
    HN_TRY(put_guards(e));
    HN_TRY(put_inputs(e));
    HN_TRY(name_storages(e));
    HN_TRY(put_buffers(e));
    for (uint32_t i = 0; i < e->w->outputs.count; i++) HN_TRY(put_output(e, &e->w->outputs.items[i]));
    HN_TRY(put_tensors(e));
    HN_TRY(hn_emit_targets(e, objects));
    HN_TRY(hn_emit_objects(e, objects));
    HN_TRY(hn_emit_kernels(e, objects->count));
    HN_TRY(hn_emit_origins(e));
    for (uint32_t i = 0; i < e->w->lines.count; i++) HN_TRY(hn_emit_step(e, i));
    return put_weight_file(e);
}

static hn_status run_emitter(const hn_wrapper *w, const hn_memory_plan *plan, const hn_bundle_objects *objects,
                             const hn_to_bundle_options *options, hn_strbuf *out_image, const char *path) {
    hn_arena arena;
    hn_arena_init(&arena);
    bundle_emitter e = {.w = w, .plan = plan, .options = options, .sym = w->sym};
    hn_map_init(&e.nodes, &arena);
    hn_map_init(&e.storages, &arena);
    hn_status status = hn_bundle_writer_init(&e.out, &arena);
    e.out.weights_digest = options->full_digest;
    if (!status) status = emit(&e, objects);
    if (!status)
        status = out_image ? hn_bundle_writer_finish(&e.out, out_image) : hn_bundle_writer_save(&e.out, path);
    hn_bundle_writer_deinit(&e.out);
    hn_arena_deinit(&arena);
    return hn_status_annotate(status, "cannot make a bundle");
}

hn_status hn_wrapper_to_bundle(const hn_wrapper *w, const hn_memory_plan *plan, const hn_bundle_objects *objects,
                               const hn_to_bundle_options *options, hn_strbuf *out_image) {
    return run_emitter(w, plan, objects, options, out_image, NULL);
}

hn_status hn_wrapper_save_bundle(const hn_wrapper *w, const hn_memory_plan *plan,
                                 const hn_bundle_objects *objects, const hn_to_bundle_options *options,
                                 const char *path) {
    return run_emitter(w, plan, objects, options, NULL, path);
}
