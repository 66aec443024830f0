/* source_tables.c: of model.c of an emitted project the tables of inputs, outputs and what changes:
 * for callers (model.h) and for what share/source/support.c checks. */
#include "wrapper/source_impl.h"

#include "henry/tensor.h"

#include <inttypes.h>

#define PUTS(...) hn_strbuf_printf(p->out, __VA_ARGS__)

static void put_dims(source_printer *p, const char *name, uint32_t k, const hn_expr *dims,
                     uint32_t count) {
    if (!count) return;
    PUTS("static const dim %s_%u[] = {", name, k);
    for (uint32_t d = 0; d < count; d++) {
        if (d) hn_strbuf_puts(p->out, ", ");
        hn_source_dim(p, dims[d]);
    }
    hn_strbuf_puts(p->out, "};\n");
}

static void put_dims_name(source_printer *p, const char *name, uint32_t k, uint32_t rank) {
    if (rank) PUTS("%s_%u", name, k);
    else hn_strbuf_puts(p->out, "NULL");
}

void hn_source_shape(const hn_wnumbering *numbering, const hn_wvalue *v, hn_strbuf *out) {
    if (v->kind != HNB_VALUE_TENSOR) return;
    hn_strbuf_putc(out, '[');
    for (uint32_t d = 0; d < v->rank; d++) {
        if (d) hn_strbuf_puts(out, ", ");
        hn_source_node(numbering, hn_wnumbering_node(numbering, v->sizes[d]), out);
    }
    hn_strbuf_putc(out, ']');
}

uint32_t hn_source_type(const hn_wvalue *v) {
    switch (v->kind) {
    case HNB_VALUE_TENSOR: return v->dtype;
    case HNB_VALUE_INT: return HN_I64;
    case HNB_VALUE_FLOAT: return HN_F64;
    default: return HN_BOOL;
    }
}

enum { INFO_INPUT = 1, INFO_CHANGED = 2, INFO_DONATED = 4 };

/* Of an input, sizes of the example; of others those that are known. */
static void put_info(source_printer *p, const hn_wvalue *v, int flags) {
    const bool is_input = flags & INFO_INPUT;
    int64_t size;
    hn_strbuf shape;
    hn_strbuf_init(&shape);
    hn_source_shape(p->numbering, v, &shape);
    hn_strbuf_puts(p->out, "    {");
    hn_source_string(p->out, v->name);
    PUTS(", (model_kind)%u, (model_type)%u, %u, %d, %d, ", (unsigned)v->kind, hn_source_type(v),
         v->rank, (flags & INFO_CHANGED) != 0, (flags & INFO_DONATED) != 0);
    hn_source_string(p->out, hn_strbuf_str(&shape));
    hn_strbuf_puts(p->out, ", {");
    for (uint32_t d = 0; d < v->rank; d++) {
        if (d) hn_strbuf_puts(p->out, ", ");
        if (is_input) size = hn_sym_hint(p->w->sym, v->sizes[d], 1);
        else if (!hn_source_const(p, v->sizes[d], &size)) size = -1;
        hn_source_int(p->out, size);
    }
    hn_strbuf_puts(p->out, v->rank ? "}},\n" : "0}},\n");
    hn_strbuf_deinit(&shape);
}

static const char no_info[] =
    "    {NULL, MODEL_NONE, MODEL_BOOL, 0, 0, 0, \"\", {0}}, /* the end */\n};\n\n";

static bool is_input_changed(const hn_wrapper *w, uint32_t input) {
    for (uint32_t k = 0; k < w->outputs.count; k++)
        if (hn_source_is_mutation(&w->outputs.items[k]) &&
            w->outputs.items[k].target_input == (int32_t)input)
            return true;
    return false;
}

/* Whether something lies in the memory of an input that the caller can give up: on a device it is a
 * copy in any case. */
static bool is_input_taken(const source_printer *p, uint32_t input) {
    const hn_memory_plan *plan = p->numbering->plan;
    for (uint32_t k = 0; k < plan->pool_list.count; k++) {
        const hn_wbuf b = plan->pool_list.items[k].input;
        if (b && p->w->buffers.items[b].source == input) return !hn_source_is_remote(p, b);
    }
    return false;
}

bool hn_source_is_mutation(const hn_woutput *o) { return o->kind == HN_WOUTPUT_MUTATION; }
bool hn_source_is_state(const hn_woutput *o) {
    return hn_source_is_mutation(o) && o->target_input < 0;
}

static void put_infos(source_printer *p) {
    const hn_wrapper *w = p->w;
    const hn_wvalue *outputs = p->numbering->outputs;
    hn_strbuf_puts(p->out, "const model_info model_inputs[] = {\n");
    for (uint32_t k = 0; k < w->inputs.count; k++)
        put_info(p, &p->numbering->inputs[k],
                 INFO_INPUT | (is_input_changed(w, k) ? INFO_CHANGED : 0) |
                     (is_input_taken(p, k) ? INFO_DONATED : 0));
    PUTS("%sconst model_info model_outputs[] = {\n", no_info);
    for (uint32_t k = 0; k < w->outputs.count; k++)
        if (!hn_source_is_mutation(&w->outputs.items[k])) put_info(p, &outputs[k], 0);
    PUTS("%sconst model_info model_buffers[] = {\n", no_info);
    for (uint32_t k = 0; k < w->outputs.count; k++)
        if (hn_source_is_state(&w->outputs.items[k])) put_info(p, &outputs[k], INFO_CHANGED);
    hn_strbuf_puts(p->out, no_info);
}

static void put_inputs(source_printer *p) {
    const hn_wvalue *inputs = p->numbering->inputs;
    for (uint32_t k = 0; k < p->w->inputs.count; k++) {
        put_dims(p, "in_sizes", k, inputs[k].sizes, inputs[k].rank);
        put_dims(p, "in_strides", k, inputs[k].strides, inputs[k].rank);
    }
    hn_strbuf_puts(p->out, "static const input_facts inputs[] = {\n");
    for (uint32_t k = 0; k < p->w->inputs.count; k++) {
        hn_strbuf_puts(p->out, "    {");
        put_dims_name(p, "in_sizes", k, inputs[k].rank);
        hn_strbuf_puts(p->out, ", ");
        put_dims_name(p, "in_strides", k, inputs[k].rank);
        hn_strbuf_puts(p->out, ", ");
        hn_source_dim(p, inputs[k].expr);
        PUTS(", UINT64_C(%" PRIu64 ")},\n", inputs[k].bits);
    }
    hn_strbuf_puts(p->out, "    {NULL, NULL, {0, 0}, 0},\n};\n\n");
}

static void put_output(source_printer *p, uint32_t k, int output) {
    const hn_woutput *o = &p->w->outputs.items[k];
    const hn_wvalue *v = &p->numbering->outputs[k];
    const hn_wtarget *target = &p->numbering->places.targets[k];
    const hnb_buffer_kind place =
        o->buffer ? p->numbering->places.buffers[hn_wrapper_root(p->w, o->buffer)].kind
                  : HNB_BUFFER_NONE;
    const bool own = hn_source_is_state(o);
    int64_t offset = 0;
    if (own) (void)hn_source_const(p, target->offset_elems, &offset);
    PUTS("    {%d, %u, %u, %d, %d, %u, ", output, (unsigned)v->kind, hn_source_type(v),
         place == HNB_BUFFER_INPUT || place == HNB_BUFFER_CONSTANT, place == HNB_BUFFER_OUTPUT,
         v->rank);
    put_dims_name(p, "out_sizes", k, v->rank);
    hn_strbuf_puts(p->out, ", ");
    put_dims_name(p, "out_strides", k, v->rank);
    hn_strbuf_puts(p->out, ", ");
    hn_source_dim(p, v->expr);
    PUTS(", UINT64_C(%" PRIu64 "), %d, %d, %" PRId64 ", ", v->bits,
         hn_source_is_mutation(o) ? o->target_input : -1,
         own ? (int)p->owns[target->storage] - 1 : -1,
         own ? offset * hn_dtype_facts(v->dtype)->size_bytes : 0);
    put_dims_name(p, "target_strides", k, own ? v->rank : 0);
    hn_strbuf_puts(p->out, "},\n");
}

static void put_outputs(source_printer *p) {
    const hn_wrapper *w = p->w;
    const hn_wplaces *places = &p->numbering->places;
    int outputs = 0;
    for (uint32_t k = 0; k < w->outputs.count; k++) {
        const hn_wvalue *v = &p->numbering->outputs[k];
        put_dims(p, "out_sizes", k, v->sizes, v->rank);
        put_dims(p, "out_strides", k, v->strides, v->rank);
        if (hn_source_is_state(&w->outputs.items[k]))
            put_dims(p, "target_strides", k, places->targets[k].strides, v->rank);
    }
    hn_strbuf_puts(p->out, "static const output_facts outputs[] = {\n");
    for (uint32_t k = 0; k < w->outputs.count; k++)
        put_output(p, k, hn_source_is_mutation(&w->outputs.items[k]) ? -1 : outputs++);
    hn_strbuf_puts(
        p->out, "    {-1, MODEL_NONE, 0, 0, 0, 0, NULL, NULL, {0, 0}, 0, -1, -1, 0, NULL},\n};\n\n"
                "static const own_facts owns[] = {");
    for (uint32_t k = 1; k < places->storages.count; k++) {
        const size_t bytes = hn_wnumbering_storage(p->numbering, k)->size_bytes;
        if (p->owns[k]) PUTS("{%" PRIu64 ", %zu}, ", p->source->weight_offsets[k], bytes);
    }
    hn_strbuf_puts(p->out, "{0, 0}};\n\n");
}

/* The result that lies in a block of output memory alone: it may be computed in the caller's
 * memory. */
static int block_output(const hn_wrapper *w, hn_wbuf buffer) {
    int found = -1;
    for (uint32_t k = 0; k < w->outputs.count; k++) {
        const hn_woutput *o = &w->outputs.items[k];
        if (o->kind == HN_WOUTPUT_SCALAR || hn_wrapper_root(w, o->buffer) != buffer) continue;
        const hn_expr offset = hn_woutput_offset(w, o);
        if (found >= 0 || hn_source_is_mutation(o) ||
            (offset && !hn_sym_is_value(w->sym, offset, 0)))
            return -1;
        found = (int)k;
    }
    return found;
}

static void put_blocks_and_states(source_printer *p) {
    hn_strbuf_puts(p->out, "static const int block_outputs[] = {");
    for (uint32_t k = 0; k < p->numbering->plan->pool_list.count; k++)
        hn_strbuf_puts(p->out, "-1, ");
    for (hn_wbuf k = 1; k < p->w->buffers.count; k++)
        if (p->numbering->places.buffers[k].kind == HNB_BUFFER_OUTPUT)
            PUTS("%d, ", block_output(p->w, k));
    hn_strbuf_puts(p->out, "-1}, state_outputs[] = {");
    for (uint32_t k = 0; k < p->w->outputs.count; k++)
        if (hn_source_is_state(&p->w->outputs.items[k])) PUTS("%u, ", k);
    hn_strbuf_puts(p->out, "-1};\n\n");
}

void hn_source_tables(source_printer *p) {
    put_infos(p);
    put_inputs(p);
    put_outputs(p);
    put_blocks_and_states(p);
}
