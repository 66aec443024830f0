/* describe_json.c: a bundle as one JSON object. */
#include "bundle/internal.h"

#include "henry/abi/extern_abi.h"

#include <inttypes.h>
#include <math.h>

static uint32_t count_steps(const hn_bundle *b, uint32_t kind, uint32_t extern_kind) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < b->steps_count; i++)
        count += b->steps[i].kind == kind &&
                 (kind != HNB_STEP_EXTERN || b->steps[i].extern_kind == extern_kind);
    return count;
}

static void json_key(hn_strbuf *out, const char *key) {
    char last = out->len ? out->ptr[out->len - 1] : '{';
    if (last != '{' && last != '[') hn_strbuf_putc(out, ',');
    hn_strbuf_printf(out, "\"%s\":", key);
}
static void json_item(hn_strbuf *out) {
    if (out->len && out->ptr[out->len - 1] != '[') hn_strbuf_putc(out, ',');
}
static void json_text(hn_strbuf *out, const char *key, hn_str text) {
    json_key(out, key), hn_strbuf_json(out, text);
}
static void json_str(const hn_bundle *b, hn_strbuf *out, const char *key, hnb_str s) {
    json_text(out, key, hn_bundle_str(b, s));
}
static void json_bool(hn_strbuf *out, const char *key, bool value) {
    json_key(out, key), hn_strbuf_puts(out, value ? "true" : "false");
}
static void json_digest(hn_strbuf *out, const char *key, const uint8_t bytes[32]) {
    char hex[HN_DIGEST_HEX_BYTES];
    hn_digest digest;
    memcpy(digest.bytes, bytes, sizeof digest.bytes);
    hn_digest_hex(&digest, hex);
    json_text(out, key, hn_str_of(hex));
}
static void json_number(hn_strbuf *out, const char *key, uint64_t value) {
    json_key(out, key), hn_strbuf_printf(out, "%" PRIu64, value);
}

/* A number, or a string for an expression. */
static void json_expr(const hn_bundle *b, hn_strbuf *out, uint32_t node) {
    int64_t value;
    if (hn_bundle_expr_const(b, node, &value)) {
        hn_strbuf_i64(out, value);
        return;
    }
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_bundle_expr_print(b, node, &text);
    hn_strbuf_json(out, hn_strbuf_str(&text));
    out->failed |= text.failed;
    hn_strbuf_deinit(&text);
}

static void json_dims(const hn_bundle *b, hn_strbuf *out, const char *key, uint32_t first,
                      uint32_t count) {
    json_key(out, key);
    hn_strbuf_putc(out, '[');
    for (uint32_t k = 0; k < count; k++) json_item(out), json_expr(b, out, b->dims[first + k]);
    hn_strbuf_putc(out, ']');
}

static void json_value(const hn_bundle *b, hn_strbuf *out, uint32_t kind, uint32_t dtype,
                       uint32_t rank, uint32_t dims, uint32_t expr, uint64_t bits, hnb_str text) {
    json_text(out, "kind", hn_str_of(hn_bundle_value_kinds[kind]));
    if (kind == HNB_VALUE_TENSOR) {
        json_text(out, "dtype", hn_str_of(hn_bundle_dtype_name(dtype)));
        json_dims(b, out, "shape", dims, rank);
        json_dims(b, out, "strides", dims + rank, rank);
    } else if (kind == HNB_VALUE_INT) {
        json_key(out, "value"), json_expr(b, out, expr);
    } else if (kind == HNB_VALUE_FLOAT) {
        double value = hn_bundle_double(bits);
        json_key(out, "value");
        if (isfinite(value)) hn_strbuf_printf(out, "%.17g", value);
        else hn_strbuf_puts(out, isnan(value) ? "\"nan\"" : value > 0 ? "\"inf\"" : "\"-inf\"");
    } else if (kind == HNB_VALUE_BOOL) {
        json_key(out, "value"), hn_strbuf_puts(out, bits ? "true" : "false");
    } else if (kind == HNB_VALUE_STRING) {
        json_str(b, out, "value", text);
    }
    hn_strbuf_putc(out, '}');
}

static void json_begin(hn_strbuf *out) { json_item(out), hn_strbuf_putc(out, '{'); }
static void json_list(hn_strbuf *out, const char *key) {
    json_key(out, key), hn_strbuf_putc(out, '[');
}

static void json_values(const hn_bundle *b, hn_strbuf *out) {
    json_list(out, "inputs");
    for (uint32_t i = 0; i < b->inputs_count; i++) {
        const hnb_input *in = &b->inputs[i];
        json_begin(out);
        json_str(b, out, "name", in->name);
        json_value(b, out, in->kind, in->dtype, in->rank, in->dims, in->expr, in->bits, in->text);
    }
    hn_strbuf_putc(out, ']');
    for (uint32_t mutations = 0; mutations < 2; mutations++) {
        json_list(out, mutations ? "mutations" : "outputs");
        for (uint32_t i = 0; i < b->outputs_count; i++) {
            const hnb_output *o = &b->outputs[i];
            if (o->is_mutation != mutations) continue;
            json_begin(out);
            json_str(b, out, "name", o->name);
            if (mutations)
                json_text(out, "target", hn_str_of(o->target_input >= 0 ? "input" : "buffer"));
            json_value(b, out, o->kind, o->dtype, o->rank, o->dims, o->expr, o->bits, o->text);
        }
        hn_strbuf_putc(out, ']');
    }
}

static void json_symbols(const hn_bundle *b, hn_strbuf *out) {
    json_list(out, "symbols");
    for (uint32_t i = 0; i < b->symbols_count; i++) {
        const hnb_symbol *s = &b->symbols[i];
        json_begin(out);
        json_str(b, out, "name", s->name);
        if (s->lo != INT64_MIN) json_key(out, "min"), hn_strbuf_i64(out, s->lo);
        if (s->hi != INT64_MAX) json_key(out, "max"), hn_strbuf_i64(out, s->hi);
        if (s->hint != INT64_MIN) json_key(out, "hint"), hn_strbuf_i64(out, s->hint);
        if (s->input == HNB_BY_STEP) {
            json_text(out, "from", HN_STR("data"));
            hn_strbuf_putc(out, '}');
            continue;
        }
        json_number(out, "input", s->input);
        if (s->dim != HNB_DIM_VALUE) json_number(out, "dim", s->dim);
        hn_strbuf_putc(out, '}');
    }
    hn_strbuf_putc(out, ']');
    json_list(out, "guards");
    for (uint32_t i = 0; i < b->guards_count; i++) {
        const hnb_guard *g = &b->guards[i];
        json_begin(out);
        json_key(out, "lhs"), json_expr(b, out, g->lhs);
        json_text(out, "relation", hn_str_of(hn_bundle_relations[g->relation]));
        json_key(out, "rhs"), json_expr(b, out, g->rhs);
        json_str(b, out, "reason", g->reason);
        hn_strbuf_putc(out, '}');
    }
    hn_strbuf_putc(out, ']');
}

static void json_targets(const hn_bundle *b, hn_strbuf *out) {
    json_list(out, "targets");
    for (uint32_t i = 0; i < b->targets_count; i++) {
        const hnb_target *t = &b->targets[i];
        json_begin(out);
        json_text(out, "kind", hn_str_of(hn_bundle_target_kinds[t->kind]));
        json_str(b, out, "name", t->name);
        json_list(out, "needs");
        for (uint32_t k = 0; k < t->feature_count; k++)
            json_item(out), hn_strbuf_json(out, hn_bundle_str(b, b->features[t->features + k]));
        hn_strbuf_puts(out, "]}");
    }
    hn_strbuf_putc(out, ']');
}

static void json_use(const hn_bundle *b, const hnb_code *code, hn_strbuf *out) {
    hn_cubin_use use;
    if (!hn_bundle_code_use(b, code, &use)) return;
    json_number(out, "registers", use.registers);
    json_number(out, "stack_bytes", use.stack_bytes);
    json_number(out, "shared_bytes", use.shared_bytes);
}

static void json_kernel(const hn_bundle *b, uint32_t kernel, hn_strbuf *out) {
    const hnb_kernel *k = &b->kernels[kernel];
    json_begin(out);
    json_str(b, out, "name", k->name);
    json_list(out, "args");
    for (uint32_t i = 0; b->targets_count && i < k->arg_count; i++) {
        const hnb_arg *arg = &b->args[hn_bundle_code(b, kernel, 0)->args + i];
        json_begin(out);
        json_text(out, "dtype", hn_str_of(hn_bundle_dtype_name(arg->dtype)));
        json_bool(out, "written", arg->written);
        hn_strbuf_putc(out, '}');
    }
    hn_strbuf_putc(out, ']');
    json_list(out, "code");
    for (uint32_t t = 0; t < b->targets_count; t++) {
        const hnb_code *c = hn_bundle_code(b, kernel, t);
        if (c->object == HNB_NO_OBJECT) continue;
        json_begin(out);
        json_str(b, out, "target", b->targets[t].name);
        json_number(out, "object", b->first_object + c->object);
        json_str(b, out, "symbol", c->symbol);
        json_use(b, c, out);
        hn_strbuf_putc(out, '}');
    }
    hn_strbuf_puts(out, "]}");
}

/* All nodes that a step does, by name. */
static void json_origins(const hn_bundle *b, const hnb_step *s, hn_strbuf *out) {
    json_list(out, "origins");
    if (s->origin && !s->origin_count)
        json_item(out), hn_strbuf_json(out, hn_bundle_str(b, b->origins[s->origin].node));
    for (uint32_t k = 0; k < s->origin_count; k++) {
        const hnb_origin *origin = &b->origins[b->step_origins[s->origins + k]];
        json_item(out), hn_strbuf_json(out, hn_bundle_str(b, origin->node));
    }
    hn_strbuf_putc(out, ']');
}

static void json_launch(const hn_bundle *b, uint32_t step, uint32_t at, uint32_t variant,
                        hn_strbuf *out) {
    const hnb_step *s = &b->steps[step];
    const hn_bundle_call call = hn_bundle_call_of(b, step, at, variant);
    const hnb_launch *l = call.launch;
    json_begin(out);
    json_number(out, "step", step);
    json_str(b, out, "kernel", b->kernels[call.kernel].name);
    if (s->launch_count != 1 && b->targets_count > 1)
        json_str(b, out, "target", b->targets[at].name);
    if (call.form.len) json_str(b, out, "form", call.form);
    json_origins(b, s, out);
    json_list(out, "buffers");
    for (uint32_t k = 0; k < call.arg_count; k++)
        json_item(out), hn_strbuf_printf(out, "%u", b->operands[l->operands + k].buffer);
    hn_strbuf_putc(out, ']');
    json_list(out, "params");
    for (uint32_t k = 0; k < l->param_count; k++)
        json_item(out), json_expr(b, out, b->params[l->params + k]);
    hn_strbuf_putc(out, ']');
    if (l->extent) json_key(out, "extent"), json_expr(b, out, l->extent);
    if (l->extent && !l->block[0]) json_key(out, "grain"), hn_strbuf_i64(out, l->grain);
    if (l->scratch) json_key(out, "scratch_bytes"), json_expr(b, out, l->scratch);
    if (s->kind == HNB_STEP_KERNEL && s->buffer) json_number(out, "workspace", s->buffer);
    if (l->grid[0]) {
        json_list(out, "grid");
        for (uint32_t k = 0; k < 3; k++) json_item(out), json_expr(b, out, l->grid[k]);
        hn_strbuf_printf(out, "],\"block\":[%u,%u,%u]", l->block[0], l->block[1], l->block[2]);
    }
    if (l->shared) json_key(out, "shared_bytes"), json_expr(b, out, l->shared);
    hn_strbuf_putc(out, '}');
}

/* Launches that are the same for all targets are told once. */
static uint32_t launch_targets(const hn_bundle *b, uint32_t step) {
    const uint32_t count = b->steps[step].launch_count;
    return count ? count : b->targets_count ? b->targets_count : 1;
}

static void json_counts(const hn_bundle *b, hn_strbuf *out) {
    json_number(out, "steps", b->steps_count);
    json_number(out, "kernel_calls", count_steps(b, HNB_STEP_KERNEL, 0));
    json_list(out, "kernels");
    for (uint32_t i = 1; i < b->kernels_count; i++) json_kernel(b, i, out);
    hn_strbuf_putc(out, ']');
    json_list(out, "launches");
    for (uint32_t i = 0; i < b->steps_count; i++)
        for (uint32_t t = 0; b->steps[i].kind == HNB_STEP_KERNEL && t < launch_targets(b, i); t++)
            for (uint32_t v = 0; v < hn_bundle_variant_count(b, i, t); v++)
                json_launch(b, i, t, v, out);
    hn_strbuf_putc(out, ']');
    hn_bundle_choices_json(b, out);
    json_key(out, "externs");
    hn_strbuf_putc(out, '{');
    for (uint32_t kind = 1; kind < HN_EXTERN_KIND_COUNT; kind++)
        json_number(out, hn_bundle_extern_name(kind), count_steps(b, HNB_STEP_EXTERN, kind));
    hn_strbuf_putc(out, '}');
}

/* The buffers of the program, by the numbers that launches have. */
static void json_memory(const hn_bundle *b, hn_strbuf *out) {
    json_list(out, "memory");
    for (uint32_t i = 1; i < b->buffers_count; i++) {
        const hnb_buffer *f = &b->buffers[i];
        json_begin(out);
        json_number(out, "buffer", i);
        if (f->name.len) json_str(b, out, "name", f->name);
        json_text(out, "kind", hn_str_of(hn_bundle_buffer_kinds[f->kind]));
        json_text(out, "device", hn_str_of(hn_device_name(f->device)));
        json_text(out, "dtype", hn_str_of(hn_bundle_dtype_name(f->dtype)));
        json_dims(b, out, "shape", f->dims, f->rank);
        json_dims(b, out, "strides", f->dims + f->rank, f->rank);
        if (f->bytes) json_key(out, "bytes"), json_expr(b, out, f->bytes);
        if (f->kind == HNB_BUFFER_OUTPUT && f->source) json_number(out, "pool", f->source);
        if (f->kind == HNB_BUFFER_POOL && f->source) json_number(out, "input", f->source - 1);
        hn_strbuf_putc(out, '}');
    }
    hn_strbuf_putc(out, ']');
}

static void json_workspaces(const hn_bundle *b, hn_strbuf *out) {
    json_list(out, "workspaces");
    for (uint32_t i = 0; i < b->workspaces_count; i++) {
        json_begin(out);
        json_text(out, "device", hn_str_of(hn_device_name(b->workspaces[i].device)));
        json_key(out, "bytes"), json_expr(b, out, b->workspaces[i].bytes);
        hn_strbuf_putc(out, '}');
    }
    hn_strbuf_putc(out, ']');
}

/* "bytes" is null when the data decides. */
static void json_transfers(const hn_bundle *b, hn_strbuf *out) {
    hn_bundle_transfers t;
    hn_bundle_transfers_get(b, &t);
    json_key(out, "transfers"), hn_strbuf_putc(out, '{');
    json_number(out, "host_steps", t.host_steps);
    json_number(out, "copies", t.copies);
    json_key(out, "bytes");
    if (t.bytes < 0) hn_strbuf_puts(out, "null");
    else hn_strbuf_i64(out, t.bytes);
    hn_strbuf_putc(out, '}');
}

/* The numbers of the storages that a made one has bytes of, in this list from 1 on. */
static void json_sources(const hn_bundle *b, uint32_t storage, hn_strbuf *out) {
    const uint64_t first = b->storages[storage].offset;
    json_list(out, "made_of");
    for (uint64_t k = first; hn_bundle_has_piece(b, storage, k); k++)
        hn_strbuf_printf(out, "%s%u", k > first ? "," : "", b->pieces[k].source);
    hn_strbuf_putc(out, ']');
}

static void json_files(const hn_bundle *b, hn_strbuf *out) {
    json_list(out, "objects");
    for (uint32_t i = 0; i < b->objects_count; i++) {
        json_begin(out);
        json_str(b, out, "name", b->objects[i].name);
        json_text(out, "kind", hn_str_of(hn_bundle_object_kind_name(b->objects[i].kind)));
        json_str(b, out, "target", b->targets[b->objects[i].target].name);
        json_bool(out, "embedded", b->objects[i].where == HNB_OBJECT_EMBEDDED);
        json_number(out, "bytes", b->objects[i].len);
        json_digest(out, "digest", b->objects[i].digest);
        hn_strbuf_putc(out, '}');
    }
    hn_strbuf_putc(out, ']');
    json_list(out, "weights");
    for (uint32_t i = 1; i < b->storages_count; i++) {
        json_begin(out);
        json_str(b, out, "name", b->storages[i].name);
        json_text(out, "where", hn_str_of(hn_bundle_places[b->storages[i].where]));
        const uint32_t where = b->storages[i].where;
        if (where == HNB_STORAGE_MADE) json_sources(b, i, out);
        else
            json_number(out,
                        where == HNB_STORAGE_COMPUTED ? "output"
                        : where == HNB_STORAGE_OUTER  ? "source"
                                                      : "offset",
                        b->storages[i].offset);
        json_number(out, "bytes", b->storages[i].bytes);
        json_bool(out, "mutable", b->storages[i].is_mutable);
        hn_strbuf_putc(out, '}');
    }
    hn_strbuf_putc(out, ']');
    json_number(out, "weights_bytes", hn_bundle_storage_bytes(b));
    if (!b->weight_files_count) return;
    json_str(b, out, "weights_file", b->weight_files[0].path);
    json_text(
        out, "weights_form",
        hn_str_of(b->weight_files[0].form == HNB_WEIGHTS_SAFETENSORS ? "safetensors" : "model"));
}

static void json_tensors(const hn_bundle *b, hn_strbuf *out) {
    static const char *const kinds[HNB_TENSOR_KIND_COUNT] = {"parameter", "buffer", "constant"};
    json_list(out, "tensors");
    for (uint32_t i = 0; i < b->tensors_count; i++) {
        const hnb_tensor *t = &b->tensors[i];
        json_begin(out);
        json_str(b, out, "name", t->name);
        json_text(out, "kind", hn_str_of(kinds[t->kind]));
        json_text(out, "dtype", hn_str_of(hn_bundle_dtype_name(t->dtype)));
        json_dims(b, out, "shape", t->dims, t->rank);
        json_key(out, "folded"), hn_strbuf_puts(out, t->is_folded ? "true" : "false");
        json_key(out, "used"), hn_strbuf_puts(out, t->storage || t->is_folded ? "true" : "false");
        hn_strbuf_putc(out, '}');
    }
    hn_strbuf_putc(out, ']');
}

static void json_steps(const hn_bundle *b, hn_strbuf *out) {
    json_workspaces(b, out);
    json_transfers(b, out);
    json_memory(b, out);
    json_counts(b, out);
    hn_bundle_records_json(b, out);
    json_files(b, out);
}

/* "weights_program": what runs once for a set of weights; missing where there is none. `sources`:
 * numbers in the list of weights, from 1 on. */
static void json_weights_program(const hn_bundle *b, hn_strbuf *out) {
    hn_bundle program;
    if (!b->weights_program_count) return;
    hn_status status = hn_bundle_weights_program_open(b, false, &program);
    json_key(out, "weights_program"), hn_strbuf_putc(out, '{');
    if (status) json_text(out, "damaged", hn_str_of(hn_status_message(status)));
    json_list(out, "sources");
    for (uint32_t k = 0; k < b->weights_sources_count; k++)
        hn_strbuf_printf(out, "%s%u", k ? "," : "", b->weights_sources[k]);
    hn_strbuf_putc(out, ']');
    if (!status) json_values(&program, out);
    if (!status) json_steps(&program, out);
    hn_strbuf_putc(out, '}');
    hn_status_free(status);
}

/* What each program of a file has of its own. */
static void json_program(const hn_bundle *b, hn_strbuf *out) {
    json_targets(b, out);
    json_values(b, out);
    json_symbols(b, out);
    json_steps(b, out);
    json_tensors(b, out);
    json_weights_program(b, out);
    hn_bundle_tuning_json(b, out);
}

/* The first program is the object itself; the others, where there are some, are in a list. */
static void json_programs(const hn_bundle *b, hn_strbuf *out) {
    if (!b->programs_count) return;
    json_text(out, "device", hn_str_of(hn_device_name(hn_bundle_program_device(b, 0))));
    json_list(out, "programs");
    for (uint32_t k = 1; k < b->programs_count; k++) {
        hn_bundle program;
        hn_status status = hn_bundle_program_open(b, k, false, &program);
        json_begin(out);
        json_text(out, "device", hn_str_of(hn_device_name(hn_bundle_program_device(b, k))));
        if (status) json_text(out, "damaged", hn_str_of(hn_status_message(status)));
        else json_program(&program, out);
        hn_status_free(status);
        hn_strbuf_putc(out, '}');
    }
    hn_strbuf_putc(out, ']');
}

void hn_bundle_describe_json(const hn_bundle *b, hn_strbuf *out) {
    hn_strbuf_putc(out, '{');
    json_number(out, "version", b->header->version);
    json_str(b, out, "producer", b->info->producer);
    json_str(b, out, "model", b->info->model);
    json_number(out, "file_bytes", b->header->file_bytes);
    json_digest(out, "digest", b->header->digest);
    if (!hn_bundle_digest_is_unknown(b->header->signer))
        json_digest(out, "signer", b->header->signer);
    json_program(b, out);
    json_programs(b, out);
    hn_strbuf_puts(out, "}\n");
}
