/* describe.c: a bundle as text for people. The same as JSON: describe_json.c. */
#include "bundle/internal.h"

#include <inttypes.h>

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

static void text_tensor(const hn_bundle *b, uint32_t dtype, uint32_t rank, uint32_t dims,
                        hn_strbuf *out) {
    hn_strbuf_puts(out, hn_bundle_dtype_name(dtype));
    text_dims(b, dims, rank, out);
    hn_strbuf_puts(out, " strides ");
    text_dims(b, dims + rank, rank, out);
}

static void text_value(const hn_bundle *b, uint32_t kind, uint32_t dtype, uint32_t rank,
                       uint32_t dims, uint32_t expr, uint64_t bits, hnb_str text, hn_strbuf *out) {
    switch (kind) {
    case HNB_VALUE_TENSOR: text_tensor(b, dtype, rank, dims, out); break;
    case HNB_VALUE_INT: hn_strbuf_puts(out, "int "), hn_bundle_expr_print(b, expr, out); break;
    case HNB_VALUE_FLOAT: hn_strbuf_printf(out, "float %.17g", hn_bundle_double(bits)); break;
    case HNB_VALUE_BOOL: hn_strbuf_puts(out, bits ? "bool true" : "bool false"); break;
    case HNB_VALUE_STRING:
        hn_strbuf_puts(out, "string "), hn_strbuf_json(out, hn_bundle_str(b, text));
        break;
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

void hn_bundle_range_print(int64_t lo, int64_t hi, hn_strbuf *out) {
    text_bound(lo, out);
    hn_strbuf_puts(out, "..");
    text_bound(hi, out);
}

static void text_symbols(const hn_bundle *b, hn_strbuf *out) {
    for (uint32_t i = 0; i < b->symbols_count; i++) {
        const hnb_symbol *s = &b->symbols[i];
        hn_strbuf_printf(out, "symbol %s in ", hn_bundle_text(b, s->name));
        hn_bundle_range_print(s->lo, s->hi, out);
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
        hn_strbuf_printf(out, " %s ", hn_bundle_relations[g->relation]);
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
        hn_strbuf_printf(out, " %s ", hn_bundle_buffer_kinds[f->kind]);
        text_tensor(b, f->dtype, f->rank, f->dims, out);
        if (f->device != HN_DEVICE_CPU) hn_strbuf_printf(out, " on %s", hn_device_name(f->device));
        if (f->kind == HNB_BUFFER_INPUT || f->kind == HNB_BUFFER_CONSTANT ||
            f->kind == HNB_BUFFER_SLOT)
            hn_strbuf_printf(out, " %u", f->source);
        if (f->byte_offset) hn_strbuf_printf(out, " + %" PRIu64, f->byte_offset);
        if (f->bytes) hn_strbuf_puts(out, " bytes "), hn_bundle_expr_print(b, f->bytes, out);
        if (f->kind == HNB_BUFFER_OUTPUT && f->source) hn_strbuf_printf(out, " in b%u", f->source);
        if (f->kind == HNB_BUFFER_POOL && f->source)
            hn_strbuf_printf(out, " input %u", f->source - 1);
        if (f->kind == HNB_BUFFER_TEMP || (f->kind == HNB_BUFFER_OUTPUT && f->source))
            hn_strbuf_puts(out, " at "), hn_bundle_expr_print(b, f->offset, out);
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

static void text_params(const hn_bundle *b, uint32_t first, uint32_t count, hn_strbuf *out) {
    if (!count) return;
    hn_strbuf_puts(out, " [");
    for (uint32_t k = 0; k < count; k++) {
        if (k) hn_strbuf_putc(out, ' ');
        hn_bundle_expr_print(b, b->params[first + k], out);
    }
    hn_strbuf_putc(out, ']');
}

static void text_expr(const hn_bundle *b, const char *what, uint32_t node, hn_strbuf *out) {
    if (!node) return;
    hn_strbuf_puts(out, what);
    hn_bundle_expr_print(b, node, out);
}

void hn_bundle_launch_text(const hn_bundle *b, const hnb_launch *l, hn_strbuf *out) {
    text_params(b, l->params, l->param_count, out);
    text_expr(b, " extent ", l->extent, out);
    if (l->extent && !l->block[0]) hn_strbuf_printf(out, " grain %" PRId64, l->grain);
    text_expr(b, " scratch ", l->scratch, out);
    for (uint32_t k = 0; k < 3; k++) text_expr(b, k ? " x " : " grid ", l->grid[k], out);
    if (l->block[0])
        hn_strbuf_printf(out, " block %u x %u x %u", l->block[0], l->block[1], l->block[2]);
    text_expr(b, " shared ", l->shared, out);
}

/* The node that the step is named after, and all nodes that it does where these are others. */
static void text_origins(const hn_bundle *b, const hnb_step *s, hn_strbuf *out) {
    if (b->origins[s->origin].node.len)
        hn_strbuf_puts(out, " ; "), text_str(b, b->origins[s->origin].node, out);
    for (uint32_t k = 0; k < s->origin_count; k++) {
        hn_strbuf_puts(out, k ? ", " : " (");
        text_str(b, b->origins[b->step_origins[s->origins + k]].node, out);
    }
    if (s->origin_count) hn_strbuf_putc(out, ')');
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
    case HNB_STEP_ZERO:
        hn_strbuf_puts(out, "zero ");
        text_buffer(b, s->buffer, out);
        break;
    case HNB_STEP_ASSERT: hn_strbuf_puts(out, "assert"); break;
    case HNB_STEP_WAIT: hn_strbuf_printf(out, "wait %s", hn_device_name(s->device)); break;
    case HNB_STEP_DEFINE:
        hn_strbuf_printf(out, "define %s", hn_bundle_text(b, b->symbols[s->symbol].name));
        break;
    case HNB_STEP_COND:
        hn_strbuf_printf(out, "cond then %u otherwise %u", s->then_count, s->otherwise_count);
        break;
    case HNB_STEP_LOOP:
        hn_strbuf_puts(out, "loop");
        if (s->param_count) text_expr(b, " rounds ", b->params[s->params], out);
        else hn_strbuf_printf(out, " test %u", s->then_count);
        hn_strbuf_printf(out, " body %u", s->otherwise_count);
        break;
    default: break;
    }
    if (s->kind != HNB_STEP_COPY && s->kind != HNB_STEP_ZERO && s->kind != HNB_STEP_WAIT &&
        !(s->kind == HNB_STEP_LOOP && s->param_count))
        text_operands(b, s, out);
    if (s->kind != HNB_STEP_WAIT && s->device != HN_DEVICE_CPU)
        hn_strbuf_printf(out, " on %s", hn_device_name(s->device));
    if (s->kind == HNB_STEP_EXTERN) text_params(b, s->params, s->param_count, out);
    if (s->kind == HNB_STEP_KERNEL && !s->launch_count)
        hn_strbuf_printf(out, " in %u variants", hn_bundle_variant_count(b, i, 0));
    if (s->launch_count == 1) hn_bundle_launch_text(b, &b->launches[s->launches], out);
    if (s->kind == HNB_STEP_KERNEL && s->buffer)
        hn_strbuf_puts(out, " scratch in "), text_buffer(b, s->buffer, out);
    if (s->text.len) hn_strbuf_putc(out, ' '), hn_strbuf_json(out, hn_bundle_str(b, s->text));
    text_origins(b, s, out);
    hn_strbuf_putc(out, '\n');
    for (uint32_t t = 0; s->launch_count > 1 && t < s->launch_count; t++) {
        hn_strbuf_printf(out, "  on %s", hn_bundle_text(b, b->targets[t].name));
        hn_bundle_launch_text(b, &b->launches[s->launches + t], out);
        hn_strbuf_putc(out, '\n');
    }
    hn_bundle_variants_text(b, i, out);
}

static void text_targets(const hn_bundle *b, hn_strbuf *out) {
    for (uint32_t i = 0; i < b->targets_count; i++) {
        const hnb_target *t = &b->targets[i];
        uint64_t bytes = 0;
        for (uint32_t k = 0; k < b->objects_count; k++)
            bytes += b->objects[k].target == i ? b->objects[k].len : 0;
        hn_strbuf_printf(out, "target %u %s %s, %" PRIu64 " bytes of code", i,
                         hn_bundle_target_kinds[t->kind], hn_bundle_text(b, t->name), bytes);
        for (uint32_t k = 0; k < t->feature_count; k++)
            hn_strbuf_printf(out, "%s %s", k ? "" : ", needs",
                             hn_bundle_text(b, b->features[t->features + k]));
        hn_strbuf_putc(out, '\n');
    }
}

/* " (19 registers, 64 bytes shared)", of code for a GPU. */
static void text_use(const hn_bundle *b, const hnb_code *code, hn_strbuf *out) {
    hn_cubin_use use;
    if (!hn_bundle_code_use(b, code, &use)) return;
    hn_strbuf_printf(out, " (%u registers", use.registers);
    if (use.stack_bytes) hn_strbuf_printf(out, ", %u bytes of stack", use.stack_bytes);
    if (use.shared_bytes) hn_strbuf_printf(out, ", %u bytes shared", use.shared_bytes);
    hn_strbuf_putc(out, ')');
}

/* "kernel k_0123(f32, out f32) params 1: x86-64-v3 object 0, generic object 1 as k_4567". */
static void text_kernel(const hn_bundle *b, uint32_t kernel, hn_strbuf *out) {
    const hnb_kernel *k = &b->kernels[kernel];
    hn_strbuf_printf(out, "kernel %u %s(", kernel, hn_bundle_text(b, k->name));
    for (uint32_t i = 0; b->targets_count && i < k->arg_count; i++) {
        const hnb_arg *arg = &b->args[hn_bundle_code(b, kernel, 0)->args + i];
        hn_strbuf_printf(out, "%s%s%s", i ? ", " : "", arg->written ? "out " : "",
                         hn_bundle_dtype_name(arg->dtype));
    }
    hn_strbuf_putc(out, ')');
    for (uint32_t t = 0; t < b->targets_count; t++) {
        const hnb_code *c = hn_bundle_code(b, kernel, t);
        if (c->object == HNB_NO_OBJECT) continue;
        hn_strbuf_printf(out, "%s %s object %u", t ? "," : ":",
                         hn_bundle_text(b, b->targets[t].name), b->first_object + c->object);
        if (!hn_str_eq(hn_bundle_str(b, c->symbol), hn_bundle_str(b, k->name)))
            hn_strbuf_printf(out, " as %s", hn_bundle_text(b, c->symbol));
        text_use(b, c, out);
    }
    hn_strbuf_putc(out, '\n');
}

/* The numbers of the storages that a made one has bytes of. */
static void text_sources(const hn_bundle *b, uint32_t storage, hn_strbuf *out) {
    hn_strbuf_puts(out, " made of");
    for (uint64_t k = b->storages[storage].offset; hn_bundle_has_piece(b, storage, k); k++)
        hn_strbuf_printf(out, " %u", b->pieces[k].source);
}

static void text_storage(const hn_bundle *b, uint32_t i, hn_strbuf *out) {
    const hnb_storage *s = &b->storages[i];
    hn_strbuf_printf(out, "storage %u '%s'", i, hn_bundle_text(b, s->name));
    if (s->where == HNB_STORAGE_MADE) text_sources(b, i, out);
    else if (s->where == HNB_STORAGE_COMPUTED)
        hn_strbuf_printf(out, " computed, output %" PRIu64 " of the program of weights", s->offset);
    else if (s->where == HNB_STORAGE_OUTER)
        hn_strbuf_printf(out, " source %" PRIu64 " of the program of weights", s->offset);
    else hn_strbuf_printf(out, " %s at %" PRIu64, hn_bundle_places[s->where], s->offset);
    hn_strbuf_printf(out, ", %" PRIu64 " bytes%s\n", s->bytes,
                     s->is_mutable ? ", changed by the program" : "");
}

static void text_files(const hn_bundle *b, hn_strbuf *out) {
    char hex[HN_DIGEST_HEX_BYTES];
    for (uint32_t i = 0; i < b->objects_count; i++) {
        const hnb_object *o = &b->objects[i];
        hn_digest digest;
        memcpy(digest.bytes, o->digest, sizeof digest.bytes);
        hn_digest_hex(&digest, hex);
        hn_strbuf_printf(out, "object %u '%s' %s for %s %s %" PRIu64 " bytes %.16s\n",
                         b->first_object + i, hn_bundle_text(b, o->name),
                         hn_bundle_object_kind_name(o->kind),
                         hn_bundle_text(b, b->targets[o->target].name),
                         o->where == HNB_OBJECT_EMBEDDED ? "embedded" : "reference", o->len, hex);
    }
    for (uint32_t i = 1; i < b->storages_count; i++) text_storage(b, i, out);
    for (uint32_t i = 0; i < b->weight_files_count; i++)
        hn_strbuf_printf(
            out, "weights file '%s' %s %" PRIu64 " bytes, digest %s\n",
            hn_bundle_text(b, b->weight_files[i].path),
            b->weight_files[i].form == HNB_WEIGHTS_SAFETENSORS ? "safetensors" : "model",
            b->weight_files[i].bytes,
            hn_bundle_digest_is_unknown(b->weight_files[i].full_digest) ? "of its ends only"
                                                                        : "recorded");
}

static void text_signer(const hn_bundle *b, hn_strbuf *out) {
    char hex[HN_DIGEST_HEX_BYTES];
    hn_digest key;
    if (hn_bundle_digest_is_unknown(b->header->signer)) return;
    memcpy(key.bytes, b->header->signer, sizeof key.bytes);
    hn_digest_hex(&key, hex);
    hn_strbuf_printf(out, "signed with key %s (not verified here)\n", hex);
}

static void text_workspaces(const hn_bundle *b, hn_strbuf *out) {
    for (uint32_t k = 0; k < b->workspaces_count; k++) {
        const hnb_workspace *w = &b->workspaces[k];
        hn_strbuf_puts(out, "workspace ");
        if (w->device != HN_DEVICE_CPU) hn_strbuf_printf(out, "on %s ", hn_device_name(w->device));
        hn_bundle_expr_print(b, w->bytes, out);
        hn_strbuf_puts(out, " bytes\n");
    }
}

static void text_transfers(const hn_bundle *b, hn_strbuf *out) {
    hn_bundle_transfers t;
    hn_bundle_transfers_get(b, &t);
    if (!t.is_for_device) return;
    hn_strbuf_printf(out, "operations on the host %u, copies between host and device %u",
                     t.host_steps, t.copies);
    if (t.bytes < 0) hn_strbuf_puts(out, " of as many bytes as the data says\n");
    else hn_strbuf_printf(out, " of %" PRId64 " bytes\n", t.bytes);
}

static void text_steps(const hn_bundle *b, hn_strbuf *out) {
    text_buffers(b, out);
    for (uint32_t i = 1; i < b->kernels_count; i++) text_kernel(b, i, out);
    for (uint32_t i = 0; i < b->steps_count; i++) text_step(b, i, out);
    text_files(b, out);
}

/* Its targets are those of the program around it. */
static void text_weights_program(const hn_bundle *b, hn_strbuf *out) {
    hn_bundle program;
    if (!b->weights_program_count) return;
    hn_status status = hn_bundle_weights_program_open(b, false, &program);
    hn_strbuf_puts(out, "\nprogram of weights, which runs once for a set of weights\n");
    if (status) {
        hn_strbuf_printf(out, "damaged: %s\n", hn_status_message(status));
        hn_status_free(status);
        return;
    }
    hn_strbuf_puts(out, "sources");
    for (uint32_t k = 0; k < b->weights_sources_count; k++)
        hn_strbuf_printf(out, "%s %u '%s'", k ? "," : "", b->weights_sources[k],
                         hn_bundle_text(b, b->storages[b->weights_sources[k]].name));
    hn_strbuf_putc(out, '\n');
    text_values(&program, out);
    text_workspaces(&program, out);
    text_transfers(&program, out);
    text_steps(&program, out);
}

/* What each program of a file has of its own. */
static void text_program(const hn_bundle *b, hn_strbuf *out) {
    text_targets(b, out);
    text_values(b, out);
    text_symbols(b, out);
    text_workspaces(b, out);
    text_transfers(b, out);
    text_steps(b, out);
    text_weights_program(b, out);
    hn_bundle_tuning_text(b, out);
}

static void text_programs(const hn_bundle *b, hn_strbuf *out) {
    for (uint32_t k = 0; k < hn_bundle_program_count(b); k++) {
        hn_bundle program;
        hn_status status = hn_bundle_program_open(b, k, false, &program);
        if (b->programs_count)
            hn_strbuf_printf(out, "\nprogram %u for %s\n", k,
                             hn_device_name(hn_bundle_program_device(b, k)));
        if (status) hn_strbuf_printf(out, "damaged: %s\n", hn_status_message(status));
        else text_program(&program, out);
        hn_status_free(status);
    }
}

void hn_bundle_describe_text(const hn_bundle *b, hn_strbuf *out) {
    hn_strbuf_printf(out, "bundle version %u by %s\nmodel '%s'\n", b->header->version,
                     hn_bundle_text(b, b->info->producer), hn_bundle_text(b, b->info->model));
    hn_strbuf_printf(out,
                     "%" PRIu64 " bytes, weights %" PRIu64 " bytes embedded, %" PRIu64 " in all\n",
                     b->header->file_bytes, b->header->weights_bytes, hn_bundle_storage_bytes(b));
    text_signer(b, out);
    if (b->programs_count) {
        hn_strbuf_puts(out, "programs: ");
        hn_bundle_programs_print(b, out);
        hn_strbuf_putc(out, '\n');
    }
    text_programs(b, out);
}
