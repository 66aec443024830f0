/* program.c: what is in a bundle, and how long its steps took, as JSON. Sizes are numbers: those of
 * the run, or the hints. */
#include "report/internal.h"

#include "base/arena.h"
#include "base/checked.h"

#include <string.h>

/* Where neither a run nor the model says a size. */
enum { SIZE_DEFAULT = 32 };

typedef struct printer {
    const hn_bundle *b;
    const hn_report_run *run; /* NULL: nothing ran */
    hn_strbuf *out;
    hn_arena *arena;
    uint32_t target;  /* whose code ran, or the best one */
    int64_t *symbols; /* the sizes */
    int64_t *values;  /* of the bundle's nodes */
    uint8_t *bad;     /* of these: unknown */
} printer;

/* ---- sizes ---- */

/* The dimension, or the value, of the input that a symbol comes from. */
static bool input_size(const printer *p, const hnb_symbol *symbol, int64_t *out) {
    if (!p->run || !p->run->inputs || symbol->input >= p->run->input_count) return false;
    const hn_tensor *tensor = p->run->inputs[symbol->input];
    if (!tensor) return false;
    if (symbol->dim != HNB_DIM_VALUE) {
        *out = symbol->dim < hn_tensor_rank(tensor) ? hn_tensor_sizes(tensor)[symbol->dim] : 0;
        return symbol->dim < hn_tensor_rank(tensor);
    }
    if (hn_tensor_rank(tensor) || hn_tensor_type(tensor) != HN_I64) return false;
    hn_status status = hn_tensor_copy_out(tensor, out);
    const bool is_known = !status;
    hn_status_free(status);
    return is_known;
}

static int64_t usual_size(const hnb_symbol *symbol) {
    if (symbol->hint != INT64_MIN) return symbol->hint;
    return SIZE_DEFAULT < symbol->lo   ? symbol->lo
           : SIZE_DEFAULT > symbol->hi ? symbol->hi
                                       : SIZE_DEFAULT;
}

/* A symbol = (size - rest) / coeff; `rest` uses earlier symbols. */
static void find_symbol(printer *p, uint32_t k) {
    const hnb_symbol *symbol = &p->b->symbols[k];
    int64_t size, rest = 0;
    p->symbols[k] = usual_size(symbol);
    if (!input_size(p, symbol, &size)) return;
    if (symbol->rest) {
        hn_bundle_eval(p->b, p->symbols, k, p->values, p->bad);
        if (p->bad[symbol->rest]) return;
        rest = p->values[symbol->rest];
    }
    if (hn_sub_i64(size, rest, &size) && size % symbol->coeff == 0)
        p->symbols[k] = size / symbol->coeff;
}

static hn_status find_sizes(printer *p) {
    HN_NEW(p->arena, p->symbols, p->b->symbols_count + 1u);
    HN_NEW(p->arena, p->values, p->b->nodes_count + 1u);
    HN_NEW(p->arena, p->bad, p->b->nodes_count + 1u);
    for (uint32_t k = 0; k < p->b->symbols_count; k++) find_symbol(p, k);
    hn_bundle_eval(p->b, p->symbols, p->b->symbols_count, p->values, p->bad);
    return NULL;
}

/* ---- words ---- */

static void put_str(printer *p, const char *key, hnb_str s) {
    hn_json_text_put(p->out, key, hn_bundle_str(p->b, s));
}

/* null: the data decides. */
static void put_value(printer *p, const char *key, uint32_t node) {
    hn_json_key_put(p->out, key);
    if (p->bad[node]) hn_strbuf_puts(p->out, "null");
    else hn_strbuf_i64(p->out, p->values[node]);
}

/* "f32[s0, 784]" */
static void put_type(printer *p, const char *key, uint32_t dtype, uint32_t rank, uint32_t dims) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "%s[", hn_bundle_dtype_name(dtype));
    for (uint32_t d = 0; d < rank; d++) {
        if (d) hn_strbuf_puts(&text, ", ");
        hn_bundle_expr_print(p->b, p->b->dims[dims + d], &text);
    }
    hn_strbuf_putc(&text, ']');
    hn_json_text_put(p->out, key, hn_strbuf_str(&text));
    p->out->failed |= text.failed;
    hn_strbuf_deinit(&text);
}

/* Of a tensor of these sizes; -1: unknown. */
static int64_t tensor_bytes(const printer *p, uint32_t dtype, uint32_t rank, uint32_t dims) {
    int64_t bytes = hn_bundle_dtype_bytes(dtype);
    for (uint32_t d = 0; d < rank; d++) {
        const uint32_t node = p->b->dims[dims + d];
        const int64_t size = p->values[node] > 0 ? p->values[node] : 0;
        if (p->bad[node] || !hn_mul_i64(bytes, size, &bytes)) return -1;
    }
    return bytes;
}

/* ---- what the program takes and gives ---- */

static void put_inputs(printer *p) {
    hn_json_key_put(p->out, "inputs"), hn_json_open_put(p->out, '[');
    for (uint32_t k = 0; k < p->b->inputs_count; k++) {
        const hnb_input *in = &p->b->inputs[k];
        if (in->kind != HNB_VALUE_TENSOR) continue;
        hn_json_open_put(p->out, '{');
        put_str(p, "name", in->name);
        put_type(p, "type", in->dtype, in->rank, in->dims);
        hn_json_close_put(p->out, '}');
    }
    hn_json_close_put(p->out, ']');
}

static void put_outputs(printer *p) {
    hn_json_key_put(p->out, "outputs"), hn_json_open_put(p->out, '[');
    for (uint32_t k = 0; k < p->b->outputs_count; k++) {
        const hnb_output *o = &p->b->outputs[k];
        if (o->kind != HNB_VALUE_TENSOR) continue;
        hn_json_open_put(p->out, '{');
        put_str(p, "name", o->name);
        put_type(p, "type", o->dtype, o->rank, o->dims);
        hn_json_int_put(p->out, "buffer", o->buffer);
        if (o->is_mutation) hn_json_bool_put(p->out, "is_mutation", true);
        hn_json_close_put(p->out, '}');
    }
    hn_json_close_put(p->out, ']');
}

static void put_symbols(printer *p) {
    hn_json_key_put(p->out, "symbols"), hn_json_open_put(p->out, '[');
    for (uint32_t k = 0; k < p->b->symbols_count; k++) {
        const hnb_symbol *s = &p->b->symbols[k];
        hn_json_open_put(p->out, '{');
        put_str(p, "name", s->name);
        hn_json_int_put(p->out, "value", p->symbols[k]);
        if (s->lo != INT64_MIN) hn_json_int_put(p->out, "min", s->lo);
        if (s->hi != INT64_MAX) hn_json_int_put(p->out, "max", s->hi);
        hn_json_bool_put(p->out, "is_data", s->input == HNB_BY_STEP);
        hn_json_close_put(p->out, '}');
    }
    hn_json_close_put(p->out, ']');
}

static void put_guards(printer *p) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_json_key_put(p->out, "guards"), hn_json_open_put(p->out, '[');
    for (uint32_t k = 0; k < p->b->guards_count; k++) {
        const hnb_guard *g = &p->b->guards[k];
        hn_strbuf_reset(&text);
        hn_bundle_expr_print(p->b, g->lhs, &text);
        hn_strbuf_printf(&text, " %s ", hn_bundle_relations[g->relation]);
        hn_bundle_expr_print(p->b, g->rhs, &text);
        hn_json_open_put(p->out, '{');
        hn_json_text_put(p->out, "text", hn_strbuf_str(&text));
        put_str(p, "reason", g->reason);
        hn_json_close_put(p->out, '}');
    }
    hn_json_close_put(p->out, ']');
    p->out->failed |= text.failed;
    hn_strbuf_deinit(&text);
}

static void put_targets(printer *p) {
    hn_json_key_put(p->out, "targets"), hn_json_open_put(p->out, '[');
    for (uint32_t t = 0; t < p->b->targets_count; t++) {
        const hnb_target *target = &p->b->targets[t];
        hn_json_open_put(p->out, '{');
        put_str(p, "name", target->name);
        hn_json_text_put(p->out, "kind", hn_str_of(hn_bundle_target_kind_name(target->kind)));
        hn_json_key_put(p->out, "needs"), hn_json_open_put(p->out, '[');
        for (uint32_t k = 0; k < target->feature_count; k++) {
            hn_json_item_put(p->out);
            hn_strbuf_json(p->out, hn_bundle_str(p->b, p->b->features[target->features + k]));
        }
        hn_json_close_put(p->out, ']');
        hn_json_close_put(p->out, '}');
    }
    hn_json_close_put(p->out, ']');
}

/* ---- memory ---- */

static int64_t buffer_bytes(const printer *p, const hnb_buffer *f) {
    if (f->bytes) return p->bad[f->bytes] ? -1 : p->values[f->bytes];
    return tensor_bytes(p, f->dtype, f->rank, f->dims);
}

static hnb_str buffer_name(const printer *p, const hnb_buffer *f) {
    if (f->kind == HNB_BUFFER_INPUT) return p->b->inputs[f->source].name;
    if (f->kind == HNB_BUFFER_CONSTANT) return p->b->storages[f->source].name;
    return f->name;
}

/* [0] is the filler. */
static void put_buffers(printer *p) {
    hn_json_key_put(p->out, "buffers"), hn_json_open_put(p->out, '[');
    hn_json_item_put(p->out), hn_strbuf_puts(p->out, "null");
    for (uint32_t k = 1; k < p->b->buffers_count; k++) {
        const hnb_buffer *f = &p->b->buffers[k];
        const int64_t bytes = buffer_bytes(p, f);
        hn_json_open_put(p->out, '{');
        hn_json_text_put(p->out, "kind", hn_str_of(hn_bundle_buffer_kind_name(f->kind)));
        put_str(p, "name", buffer_name(p, f));
        put_type(p, "type", f->dtype, f->rank, f->dims);
        if (bytes >= 0) hn_json_int_put(p->out, "bytes", bytes);
        if (f->device) hn_json_text_put(p->out, "device", hn_str_of(hn_device_name(f->device)));
        if (f->kind == HNB_BUFFER_TEMP || (f->kind == HNB_BUFFER_OUTPUT && f->source))
            put_value(p, "offset", f->offset);
        if (f->kind == HNB_BUFFER_OUTPUT && f->source) hn_json_int_put(p->out, "pool", f->source);
        hn_json_close_put(p->out, '}');
    }
    hn_json_close_put(p->out, ']');
    hn_json_key_put(p->out, "workspaces"), hn_json_open_put(p->out, '[');
    for (uint32_t k = 0; k < p->b->workspaces_count; k++) {
        hn_json_open_put(p->out, '{');
        hn_json_text_put(p->out, "device", hn_str_of(hn_device_name(p->b->workspaces[k].device)));
        put_value(p, "bytes", p->b->workspaces[k].bytes);
        hn_json_close_put(p->out, '}');
    }
    hn_json_close_put(p->out, ']');
}

/* ---- steps ---- */

/* How a kernel is called for the sizes at hand. */
static hn_bundle_call call_of(const printer *p, uint32_t step) {
    const hnb_choice *choice = hn_bundle_choice_find(p->b, step, p->target);
    return hn_bundle_call_of(p->b, step, p->target,
                             choice ? hn_bundle_choice_pick(p->b, choice, p->values, p->bad) : 0);
}

static void put_operands(printer *p, uint32_t step) {
    const hnb_step *s = &p->b->steps[step];
    const hnb_operand *operands = p->b->operands + s->operands;
    uint32_t count = s->operand_count;
    if (s->kind == HNB_STEP_KERNEL) {
        const hn_bundle_call call = call_of(p, step);
        operands = p->b->operands + call.launch->operands, count = call.arg_count;
    }
    hn_json_key_put(p->out, "operands"), hn_json_open_put(p->out, '[');
    for (uint32_t k = 0; k < count; k++) {
        if (!operands[k].buffer) continue;
        hn_json_item_put(p->out);
        hn_strbuf_printf(p->out, "[%u,%u]", operands[k].buffer, operands[k].written);
    }
    if (s->kind == HNB_STEP_COPY) {
        hn_json_item_put(p->out), hn_strbuf_printf(p->out, "[%u,1]", s->buffer);
        hn_json_item_put(p->out), hn_strbuf_printf(p->out, "[%u,0]", s->from);
    }
    if (s->kind == HNB_STEP_ZERO || (s->kind == HNB_STEP_KERNEL && s->buffer))
        hn_json_item_put(p->out), hn_strbuf_printf(p->out, "[%u,1]", s->buffer);
    hn_json_close_put(p->out, ']');
}

static void put_step_origins(printer *p, const hnb_step *s) {
    hn_json_key_put(p->out, "origins"), hn_json_open_put(p->out, '[');
    if (s->origin && !s->origin_count)
        hn_json_item_put(p->out), hn_strbuf_printf(p->out, "%u", s->origin);
    for (uint32_t k = 0; k < s->origin_count; k++) {
        hn_json_item_put(p->out);
        hn_strbuf_printf(p->out, "%u", p->b->step_origins[s->origins + k]);
    }
    hn_json_close_put(p->out, ']');
}

static void put_launch(printer *p, uint32_t step) {
    if (p->b->steps[step].kind != HNB_STEP_KERNEL) return;
    const hn_bundle_call call = call_of(p, step);
    const hnb_launch *l = call.launch;
    if (call.form.len) {
        hn_json_text_put(p->out, "picked", hn_bundle_str(p->b, call.form));
        hn_json_int_put(p->out, "variants", hn_bundle_variant_count(p->b, step, p->target));
    }
    if (l->extent) put_value(p, "extent", l->extent);
    if (!l->block[0]) hn_json_int_put(p->out, "grain", l->grain);
    if (l->scratch) put_value(p, "scratch_bytes", l->scratch);
    if (l->shared) put_value(p, "shared_bytes", l->shared);
    if (!l->grid[0]) return;
    hn_json_key_put(p->out, "grid"), hn_json_open_put(p->out, '[');
    for (uint32_t k = 0; k < 3; k++)
        hn_json_item_put(p->out), hn_strbuf_i64(p->out, p->values[l->grid[k]]);
    hn_json_close_put(p->out, ']');
    hn_json_key_put(p->out, "block"), hn_json_open_put(p->out, '[');
    for (uint32_t k = 0; k < 3; k++) hn_json_item_put(p->out), hn_strbuf_i64(p->out, l->block[k]);
    hn_json_close_put(p->out, ']');
}

static hn_status put_time(printer *p, uint32_t step) {
    hn_module_step_profile profile;
    if (!p->run || !p->run->count || step >= hn_module_step_count(p->run->module)) return NULL;
    HN_TRY(hn_module_profile(p->run->module, step, &profile));
    if (!profile.calls) return NULL;
    hn_json_int_put(p->out, "calls", (int64_t)profile.calls);
    hn_json_int_put(p->out, "total_ns", profile.total_ns);
    hn_json_int_put(p->out, "min_ns", profile.min_ns);
    return NULL;
}

static void put_form_of(printer *p, const hn_step_record *r) {
    hn_json_text_put(p->out, "form", hn_str_of(r->form));
    hn_json_int_put(p->out, "fused_loops", r->fused_loops);
    hn_json_int_put(p->out, "phases", r->phases);
    hn_json_int_put(p->out, "local_buffers", r->local_buffers);
    hn_json_int_put(p->out, "loads", r->loads);
    hn_json_int_put(p->out, "stores", r->stores);
    hn_json_int_put(p->out, "atomics", r->atomics);
    hn_json_int_put(p->out, "loops", r->loops);
    hn_json_int_put(p->out, "barriers", r->barriers);
    hn_json_int_put(p->out, "reductions", r->reductions);
    hn_json_int_put(p->out, "lanes", r->lanes);
    hn_json_int_put(p->out, "threads", r->threads);
    hn_json_bool_put(p->out, "is_vectorized", r->is_vectorized);
    hn_json_int_put(p->out, "accessed_bytes", r->accessed_bytes);
    hn_json_key_put(p->out, "sizes"), hn_json_open_put(p->out, '[');
    for (uint32_t k = 0; k < r->rank; k++)
        hn_json_item_put(p->out), hn_strbuf_json(p->out, hn_str_of(r->sizes[k].text));
    hn_json_close_put(p->out, ']');
    hn_json_int_put(p->out, "row_rank", r->row_rank);
}

/* What the compiler has written down of a step. */
static hn_status put_record(printer *p, uint32_t step) {
    hn_step_record r = {.name = NULL};
    if (!p->run || !p->run->module || step >= hn_module_step_count(p->run->module)) return NULL;
    if (p->run->records) r = p->run->records[step];
    if (!r.name) HN_TRY(hn_module_step_record(p->run->module, step, &r));
    hn_json_text_put(p->out, "category", hn_str_of(r.category_name));
    if (r.has_work) {
        hn_json_int_put(p->out, "read_bytes", r.read_bytes);
        hn_json_int_put(p->out, "written_bytes", r.written_bytes);
        hn_json_int_put(p->out, "operations", r.operations);
        hn_json_bool_put(p->out, "is_bound", r.is_bound);
        hn_json_bool_put(p->out, "is_at_hint", r.is_at_hint);
    }
    if (r.predicted_ns) hn_json_int_put(p->out, "predicted_ns", r.predicted_ns);
    if (r.has_form) put_form_of(p, &r);
    if (r.has_resources) {
        hn_json_int_put(p->out, "registers", r.registers);
        hn_json_int_put(p->out, "stack_bytes", r.stack_bytes);
    }
    return NULL;
}

static void put_step_name(printer *p, uint32_t step) {
    const hnb_step *s = &p->b->steps[step];
    if (s->kind == HNB_STEP_KERNEL && p->b->targets_count)
        put_str(p, "name", hn_bundle_code(p->b, call_of(p, step).kernel, p->target)->symbol);
    else if (s->kind == HNB_STEP_EXTERN)
        hn_json_text_put(p->out, "name", hn_str_of(hn_bundle_extern_name(s->extern_kind)));
    else hn_json_text_put(p->out, "name", hn_str_of(hn_bundle_step_kind_name(s->kind)));
}

static hn_status put_step(printer *p, uint32_t k) {
    const hnb_step *s = &p->b->steps[k];
    hn_json_open_put(p->out, '{');
    hn_json_text_put(p->out, "kind", hn_str_of(hn_bundle_step_kind_name(s->kind)));
    put_step_name(p, k);
    if (s->kernel) hn_json_int_put(p->out, "kernel", s->kernel);
    put_step_origins(p, s);
    put_operands(p, k);
    put_launch(p, k);
    if (s->device) hn_json_text_put(p->out, "device", hn_str_of(hn_device_name(s->device)));
    if (s->then_count) hn_json_int_put(p->out, "then_count", s->then_count);
    if (s->otherwise_count) hn_json_int_put(p->out, "otherwise_count", s->otherwise_count);
    HN_TRY(put_record(p, k));
    HN_TRY(put_time(p, k));
    hn_json_close_put(p->out, '}');
    return NULL;
}

static hn_status put_steps(printer *p) {
    hn_json_key_put(p->out, "steps"), hn_json_open_put(p->out, '[');
    for (uint32_t k = 0; k < p->b->steps_count; k++) HN_TRY(put_step(p, k));
    hn_json_close_put(p->out, ']');
    hn_json_key_put(p->out, "origins"), hn_json_open_put(p->out, '[');
    for (uint32_t k = 0; k < p->b->origins_count; k++) {
        hn_json_open_put(p->out, '{');
        put_str(p, "node", p->b->origins[k].node);
        put_str(p, "source", p->b->origins[k].source);
        hn_json_close_put(p->out, '}');
    }
    hn_json_close_put(p->out, ']');
    return NULL;
}

/* ---- code ---- */

static void put_code(printer *p, uint32_t kernel, uint32_t target) {
    const hnb_code *code = hn_bundle_code(p->b, kernel, target);
    hn_cubin_use use;
    if (code->object == HNB_NO_OBJECT) return;
    hn_json_open_put(p->out, '{');
    put_str(p, "target", p->b->targets[target].name);
    put_str(p, "symbol", code->symbol);
    hn_json_int_put(p->out, "object", code->object);
    if (hn_bundle_code_use(p->b, code, &use)) {
        hn_json_int_put(p->out, "registers", use.registers);
        hn_json_int_put(p->out, "stack_bytes", use.stack_bytes);
        hn_json_int_put(p->out, "shared_bytes", use.shared_bytes);
    }
    hn_json_close_put(p->out, '}');
}

/* [0] is the filler. */
static void put_codes(printer *p) {
    hn_json_key_put(p->out, "codes"), hn_json_open_put(p->out, '[');
    hn_json_item_put(p->out), hn_strbuf_puts(p->out, "null");
    for (uint32_t k = 1; k < p->b->kernels_count; k++) {
        hn_json_open_put(p->out, '{');
        put_str(p, "name", p->b->kernels[k].name);
        hn_json_key_put(p->out, "code"), hn_json_open_put(p->out, '[');
        for (uint32_t t = 0; t < p->b->targets_count; t++) put_code(p, k, t);
        hn_json_close_put(p->out, ']');
        hn_json_close_put(p->out, '}');
    }
    hn_json_close_put(p->out, ']');
    hn_json_key_put(p->out, "objects"), hn_json_open_put(p->out, '[');
    for (uint32_t k = 0; k < p->b->objects_count; k++) {
        hn_json_open_put(p->out, '{');
        hn_json_text_put(p->out, "kind",
                         hn_str_of(hn_bundle_object_kind_name(p->b->objects[k].kind)));
        put_str(p, "target", p->b->targets[p->b->objects[k].target].name);
        hn_json_int_put(p->out, "bytes", (int64_t)p->b->objects[k].len);
        hn_json_close_put(p->out, '}');
    }
    hn_json_close_put(p->out, ']');
}

/* ---- all ---- */

/* The target whose code the module runs, which names its kernels by that code's symbols. */
static hn_status find_target(printer *p) {
    hn_module_step_profile profile;
    for (uint32_t k = 0; p->run && p->run->module && k < p->b->steps_count; k++) {
        const hnb_step *s = &p->b->steps[k];
        if (s->kind != HNB_STEP_KERNEL) continue;
        HN_TRY(hn_module_profile(p->run->module, k, &profile));
        for (uint32_t t = p->b->targets_count; t-- > 0;) {
            const hnb_code *code = hn_bundle_code(p->b, s->kernel, t);
            if (code->object != HNB_NO_OBJECT &&
                strcmp(hn_bundle_text(p->b, code->symbol), profile.name) == 0)
                p->target = t;
        }
        return NULL;
    }
    return NULL;
}

static uint64_t weight_bytes(const hn_bundle *b) {
    uint64_t bytes = 0;
    for (uint32_t k = 1; k < b->storages_count; k++)
        if (b->storages[k].where < HNB_STORAGE_MADE) bytes += b->storages[k].bytes;
    return bytes;
}

static hn_status put_program(printer *p) {
    HN_TRY(find_sizes(p));
    HN_TRY(find_target(p));
    hn_json_key_put(p->out, "program"), hn_json_open_put(p->out, '{');
    put_str(p, "model", p->b->info->model);
    put_str(p, "producer", p->b->info->producer);
    hn_json_int_put(p->out, "target", p->target);
    hn_json_int_put(p->out, "weights_bytes", (int64_t)weight_bytes(p->b));
    put_targets(p);
    put_inputs(p);
    put_outputs(p);
    put_symbols(p);
    put_guards(p);
    put_buffers(p);
    put_codes(p);
    HN_TRY(put_steps(p));
    hn_json_close_put(p->out, '}');
    return NULL;
}

hn_status hn_report_put_program(const hn_report_source *source, hn_strbuf *out) {
    hn_arena arena;
    hn_arena_init(&arena);
    printer p = {.b = source->bundle, .run = source->run, .out = out, .arena = &arena};
    hn_status status = put_program(&p);
    hn_arena_deinit(&arena);
    return status;
}
