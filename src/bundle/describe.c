/* describe.c: a bundle as text for people and as JSON. */
#include "bundle/view.h"

#include "henry/abi/extern_abi.h"

#include <inttypes.h>
#include <math.h>

static const char *const value_kinds[HNB_VALUE_KIND_COUNT] = {"tensor", "int", "float", "bool", "string", "none"};
static const char *const buffer_kinds[HNB_BUFFER_KIND_COUNT] = {"none", "input", "constant", "temp", "output", "slot"};
static const char *const relations[HNB_RELATION_COUNT] = {"==", "!=", "<", "<="};
static const char *const places[HNB_STORAGE_WHERE_COUNT] = {"blob", "weights", "file"};

static double bits_to_double(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t storage_bytes(const hn_bundle *b) {
    uint64_t sum = 0;
    for (uint32_t i = 1; i < b->storages_count; i++) sum += b->storages[i].bytes;
    return sum;
}

static uint32_t count_steps(const hn_bundle *b, uint32_t kind, uint32_t extern_kind) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < b->steps_count; i++)
        count += b->steps[i].kind == kind && (kind != HNB_STEP_EXTERN || b->steps[i].extern_kind == extern_kind);
    return count;
}

/* ---- text ---- */

static void text_str(const hn_bundle *b, hnb_str s, hn_strbuf *out) {
    hn_strbuf_append(out, hn_bundle_text(b, s), s.len);
}

static void text_dims(const hn_bundle *b, uint32_t first, uint32_t count, hn_strbuf *out) {
    hn_strbuf_putc(out, '[');
    for (uint32_t k = 0; k < count; k++) {
        if (k) hn_strbuf_puts(out, ", ");
        hn_bundle_expr_print(b, b->dims[first + k], out);
    }
    hn_strbuf_putc(out, ']');
}

static void text_value(const hn_bundle *b, uint32_t kind, uint32_t dtype, uint32_t rank, uint32_t dims,
                       uint32_t expr, uint64_t bits, hnb_str text, hn_strbuf *out) {
    switch (kind) {
    case HNB_VALUE_TENSOR:
        hn_strbuf_puts(out, hn_bundle_dtype_name(dtype));
        text_dims(b, dims, rank, out);
        hn_strbuf_puts(out, " strides ");
        text_dims(b, dims + rank, rank, out);
        break;
    case HNB_VALUE_INT: hn_strbuf_puts(out, "int "), hn_bundle_expr_print(b, expr, out); break;
    case HNB_VALUE_FLOAT: hn_strbuf_printf(out, "float %.17g", bits_to_double(bits)); break;
    case HNB_VALUE_BOOL: hn_strbuf_puts(out, bits ? "bool true" : "bool false"); break;
    case HNB_VALUE_STRING: hn_strbuf_puts(out, "string "), hn_strbuf_json(out, hn_bundle_str(b, text)); break;
    default: hn_strbuf_puts(out, "none"); break;
    }
    hn_strbuf_putc(out, '\n');
}

static void text_values(const hn_bundle *b, hn_strbuf *out) {
    for (uint32_t i = 0; i < b->inputs_count; i++) {
        const hnb_input *in = &b->inputs[i];
        hn_strbuf_printf(out, "input %u '%s' ", i, hn_bundle_text(b, in->name));
        text_value(b, in->kind, in->dtype, in->rank, in->dims, in->expr, in->bits, in->text, out);
    }
    uint32_t index = 0;
    for (uint32_t i = 0; i < b->outputs_count; i++) {
        const hnb_output *o = &b->outputs[i];
        if (o->is_mutation)
            hn_strbuf_printf(out, "mutation of %s '%s' ", o->target_input >= 0 ? "input" : "buffer",
                             hn_bundle_text(b, o->name));
        else hn_strbuf_printf(out, "output %u '%s' ", index++, hn_bundle_text(b, o->name));
        text_value(b, o->kind, o->dtype, o->rank, o->dims, o->expr, o->bits, o->text, out);
    }
}

static void text_bound(int64_t value, hn_strbuf *out) {
    if (value == INT64_MIN) hn_strbuf_puts(out, "-inf");
    else if (value == INT64_MAX) hn_strbuf_puts(out, "inf");
    else hn_strbuf_i64(out, value);
}

static void text_symbols(const hn_bundle *b, hn_strbuf *out) {
    for (uint32_t i = 0; i < b->symbols_count; i++) {
        const hnb_symbol *s = &b->symbols[i];
        hn_strbuf_printf(out, "symbol %s in ", hn_bundle_text(b, s->name));
        text_bound(s->lo, out);
        hn_strbuf_puts(out, "..");
        text_bound(s->hi, out);
        if (s->input == HNB_BY_STEP) {
            hn_strbuf_puts(out, " from the data\n");
            continue;
        }
        hn_strbuf_printf(out, " from input %u", s->input);
        if (s->dim != HNB_DIM_VALUE) hn_strbuf_printf(out, " dimension %u", s->dim);
        if (s->coeff != 1 || s->rest) {
            hn_strbuf_printf(out, " = %" PRId64 "*%s", s->coeff, hn_bundle_text(b, s->name));
            if (s->rest) hn_strbuf_puts(out, " + "), hn_bundle_expr_print(b, s->rest, out);
        }
        hn_strbuf_putc(out, '\n');
    }
    for (uint32_t i = 0; i < b->guards_count; i++) {
        const hnb_guard *g = &b->guards[i];
        hn_strbuf_puts(out, "guard ");
        hn_bundle_expr_print(b, g->lhs, out);
        hn_strbuf_printf(out, " %s ", relations[g->relation]);
        hn_bundle_expr_print(b, g->rhs, out);
        if (g->reason.len) hn_strbuf_printf(out, " (%s)", hn_bundle_text(b, g->reason));
        hn_strbuf_putc(out, '\n');
    }
}

static void text_buffer(const hn_bundle *b, uint32_t buffer, hn_strbuf *out) {
    const hnb_buffer *f = &b->buffers[buffer];
    hn_strbuf_printf(out, "b%u", buffer);
    if (f->name.len) hn_strbuf_printf(out, "'%s'", hn_bundle_text(b, f->name));
}

static void text_buffers(const hn_bundle *b, hn_strbuf *out) {
    for (uint32_t i = 1; i < b->buffers_count; i++) {
        const hnb_buffer *f = &b->buffers[i];
        hn_strbuf_puts(out, "buffer ");
        text_buffer(b, i, out);
        hn_strbuf_printf(out, " %s %s", buffer_kinds[f->kind], hn_bundle_dtype_name(f->dtype));
        if (f->kind == HNB_BUFFER_INPUT || f->kind == HNB_BUFFER_CONSTANT || f->kind == HNB_BUFFER_SLOT)
            hn_strbuf_printf(out, " %u", f->source);
        if (f->byte_offset) hn_strbuf_printf(out, " + %" PRIu64, f->byte_offset);
        if (f->bytes) hn_strbuf_puts(out, " bytes "), hn_bundle_expr_print(b, f->bytes, out);
        if (f->kind == HNB_BUFFER_TEMP) hn_strbuf_puts(out, " at "), hn_bundle_expr_print(b, f->offset, out);
        hn_strbuf_putc(out, '\n');
    }
}

static void text_operands(const hn_bundle *b, const hnb_step *s, hn_strbuf *out) {
    hn_strbuf_putc(out, '(');
    for (uint32_t k = 0; k < s->operand_count; k++) {
        const hnb_operand *o = &b->operands[s->operands + k];
        if (k) hn_strbuf_puts(out, ", ");
        if (!o->buffer) {
            hn_strbuf_putc(out, '-');
            continue;
        }
        if (o->written) hn_strbuf_puts(out, "out ");
        text_buffer(b, o->buffer, out);
        if (o->offset) hn_strbuf_putc(out, '+'), hn_bundle_expr_print(b, o->offset, out);
    }
    hn_strbuf_putc(out, ')');
}

static void text_params(const hn_bundle *b, const hnb_step *s, hn_strbuf *out) {
    if (!s->param_count) return;
    hn_strbuf_puts(out, " [");
    for (uint32_t k = 0; k < s->param_count; k++) {
        if (k) hn_strbuf_putc(out, ' ');
        hn_bundle_expr_print(b, b->params[s->params + k], out);
    }
    hn_strbuf_putc(out, ']');
}

static void text_step(const hn_bundle *b, uint32_t i, hn_strbuf *out) {
    const hnb_step *s = &b->steps[i];
    hn_strbuf_printf(out, "step %u ", i);
    switch (s->kind) {
    case HNB_STEP_KERNEL:
        hn_strbuf_printf(out, "kernel %s", hn_bundle_text(b, b->kernels[s->kernel].name));
        break;
    case HNB_STEP_EXTERN: hn_strbuf_puts(out, hn_bundle_extern_name(s->extern_kind)); break;
    case HNB_STEP_COPY:
        hn_strbuf_puts(out, "copy ");
        text_buffer(b, s->buffer, out);
        hn_strbuf_puts(out, " <- ");
        text_buffer(b, s->from, out);
        break;
    case HNB_STEP_ASSERT: hn_strbuf_puts(out, "assert"); break;
    case HNB_STEP_DEFINE: hn_strbuf_printf(out, "define %s", hn_bundle_text(b, b->symbols[s->symbol].name)); break;
    case HNB_STEP_COND:
        hn_strbuf_printf(out, "cond then %u otherwise %u", s->then_count, s->otherwise_count);
        break;
    default: break;
    }
    if (s->kind != HNB_STEP_COPY) text_operands(b, s, out);
    text_params(b, s, out);
    if (s->extent) {
        hn_strbuf_puts(out, " extent ");
        hn_bundle_expr_print(b, s->extent, out);
        hn_strbuf_printf(out, " grain %" PRId64, s->grain);
    }
    if (s->scratch) hn_strbuf_puts(out, " scratch "), hn_bundle_expr_print(b, s->scratch, out);
    if (s->text.len) hn_strbuf_putc(out, ' '), hn_strbuf_json(out, hn_bundle_str(b, s->text));
    if (b->origins[s->origin].node.len) hn_strbuf_puts(out, " ; "), text_str(b, b->origins[s->origin].node, out);
    hn_strbuf_putc(out, '\n');
}

static void text_files(const hn_bundle *b, hn_strbuf *out) {
    char hex[HN_DIGEST_HEX_BYTES];
    for (uint32_t i = 0; i < b->objects_count; i++) {
        const hnb_object *o = &b->objects[i];
        hn_digest digest;
        memcpy(digest.bytes, o->digest, sizeof digest.bytes);
        hn_digest_hex(&digest, hex);
        hn_strbuf_printf(out, "object %u '%s' %s %" PRIu64 " bytes %.16s\n", i, hn_bundle_text(b, o->name),
                         o->kind == HNB_OBJECT_EMBEDDED ? "embedded" : "reference", o->len, hex);
    }
    for (uint32_t i = 1; i < b->storages_count; i++) {
        const hnb_storage *s = &b->storages[i];
        hn_strbuf_printf(out, "storage %u '%s' %s at %" PRIu64 ", %" PRIu64 " bytes%s\n", i,
                         hn_bundle_text(b, s->name), places[s->where], s->offset, s->bytes,
                         s->is_mutable ? ", changed by the program" : "");
    }
    for (uint32_t i = 0; i < b->weight_files_count; i++)
        hn_strbuf_printf(out, "weights file '%s' %" PRIu64 " bytes\n",
                         hn_bundle_text(b, b->weight_files[i].path), b->weight_files[i].bytes);
}

void hn_bundle_describe_text(const hn_bundle *b, hn_strbuf *out) {
    hn_strbuf_printf(out, "bundle version %u by %s\nmodel '%s'\n", b->header->version,
                     hn_bundle_text(b, b->info->producer), hn_bundle_text(b, b->info->model));
    hn_strbuf_printf(out, "%" PRIu64 " bytes, weights %" PRIu64 " bytes embedded, %" PRIu64 " in all\n",
                     b->header->file_bytes, b->header->weights_bytes, storage_bytes(b));
    hn_strbuf_puts(out, "cpu features:");
    for (uint32_t i = 0; i < b->features_count; i++)
        hn_strbuf_printf(out, " %s", hn_bundle_text(b, b->features[i]));
    hn_strbuf_puts(out, b->features_count ? "\n" : " none\n");
    text_values(b, out);
    text_symbols(b, out);
    hn_strbuf_puts(out, "workspace ");
    hn_bundle_expr_print(b, b->info->workspace, out);
    hn_strbuf_puts(out, " bytes\n");
    text_buffers(b, out);
    for (uint32_t i = 0; i < b->steps_count; i++) text_step(b, i, out);
    text_files(b, out);
}

/* ---- JSON ---- */

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

static void json_dims(const hn_bundle *b, hn_strbuf *out, const char *key, uint32_t first, uint32_t count) {
    json_key(out, key);
    hn_strbuf_putc(out, '[');
    for (uint32_t k = 0; k < count; k++) json_item(out), json_expr(b, out, b->dims[first + k]);
    hn_strbuf_putc(out, ']');
}

static void json_value(const hn_bundle *b, hn_strbuf *out, uint32_t kind, uint32_t dtype, uint32_t rank,
                       uint32_t dims, uint32_t expr, uint64_t bits, hnb_str text) {
    json_text(out, "kind", hn_str_of(value_kinds[kind]));
    if (kind == HNB_VALUE_TENSOR) {
        json_text(out, "dtype", hn_str_of(hn_bundle_dtype_name(dtype)));
        json_dims(b, out, "shape", dims, rank);
        json_dims(b, out, "strides", dims + rank, rank);
    } else if (kind == HNB_VALUE_INT) {
        json_key(out, "value"), json_expr(b, out, expr);
    } else if (kind == HNB_VALUE_FLOAT) {
        double value = bits_to_double(bits);
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
static void json_list(hn_strbuf *out, const char *key) { json_key(out, key), hn_strbuf_putc(out, '['); }

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
            if (mutations) json_text(out, "target", hn_str_of(o->target_input >= 0 ? "input" : "buffer"));
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
        json_text(out, "relation", hn_str_of(relations[g->relation]));
        json_key(out, "rhs"), json_expr(b, out, g->rhs);
        json_str(b, out, "reason", g->reason);
        hn_strbuf_putc(out, '}');
    }
    hn_strbuf_putc(out, ']');
}

static void json_counts(const hn_bundle *b, hn_strbuf *out) {
    json_number(out, "steps", b->steps_count);
    json_number(out, "kernel_calls", count_steps(b, HNB_STEP_KERNEL, 0));
    json_list(out, "kernels");
    for (uint32_t i = 1; i < b->kernels_count; i++) {
        json_begin(out);
        json_str(b, out, "name", b->kernels[i].name);
        json_number(out, "object", b->kernels[i].object);
        hn_strbuf_putc(out, '}');
    }
    hn_strbuf_putc(out, ']');
    json_key(out, "externs");
    hn_strbuf_putc(out, '{');
    for (uint32_t kind = 1; kind < HN_EXTERN_KIND_COUNT; kind++)
        json_number(out, hn_bundle_extern_name(kind), count_steps(b, HNB_STEP_EXTERN, kind));
    hn_strbuf_putc(out, '}');
}

static void json_files(const hn_bundle *b, hn_strbuf *out) {
    json_list(out, "objects");
    for (uint32_t i = 0; i < b->objects_count; i++) {
        json_begin(out);
        json_str(b, out, "name", b->objects[i].name);
        json_key(out, "embedded"),
            hn_strbuf_puts(out, b->objects[i].kind == HNB_OBJECT_EMBEDDED ? "true" : "false");
        json_number(out, "bytes", b->objects[i].len);
        hn_strbuf_putc(out, '}');
    }
    hn_strbuf_putc(out, ']');
    json_list(out, "weights");
    for (uint32_t i = 1; i < b->storages_count; i++) {
        json_begin(out);
        json_str(b, out, "name", b->storages[i].name);
        json_text(out, "where", hn_str_of(places[b->storages[i].where]));
        json_number(out, "offset", b->storages[i].offset);
        json_number(out, "bytes", b->storages[i].bytes);
        json_key(out, "mutable"), hn_strbuf_puts(out, b->storages[i].is_mutable ? "true" : "false");
        hn_strbuf_putc(out, '}');
    }
    hn_strbuf_putc(out, ']');
    json_number(out, "weights_bytes", storage_bytes(b));
    if (b->weight_files_count) json_str(b, out, "weights_file", b->weight_files[0].path);
}

void hn_bundle_describe_json(const hn_bundle *b, hn_strbuf *out) {
    hn_strbuf_putc(out, '{');
    json_number(out, "version", b->header->version);
    json_str(b, out, "producer", b->info->producer);
    json_str(b, out, "model", b->info->model);
    json_number(out, "file_bytes", b->header->file_bytes);
    json_list(out, "cpu_features");
    for (uint32_t i = 0; i < b->features_count; i++)
        json_item(out), hn_strbuf_json(out, hn_bundle_str(b, b->features[i]));
    hn_strbuf_putc(out, ']');
    json_values(b, out);
    json_symbols(b, out);
    json_key(out, "workspace_bytes"), json_expr(b, out, b->info->workspace);
    json_counts(b, out);
    json_files(b, out);
    hn_strbuf_puts(out, "}\n");
}
