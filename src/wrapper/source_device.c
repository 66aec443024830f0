/* source_device.c: of an emitted project what a GPU has and does: calls of kernels and operations on
 * it, and tables that share/source/device.c reads. */
#include "wrapper/source_impl.h"

#include <inttypes.h>
#include <string.h>

#define PUTS(...) hn_strbuf_printf(p->out, __VA_ARGS__)

enum { WEIGHT_ALIGN = 256 }; /* bytes: as allocations of the device */

/* --- places --- */

bool hn_source_is_remote(const source_printer *p, hn_wbuf buffer) {
    return p->w->buffers.items[buffer].device != HN_DEVICE_CPU;
}

bool hn_source_output_is_remote(const source_printer *p, const hn_woutput *o) {
    if (o->kind == HN_WOUTPUT_SCALAR) return false;
    const hn_wbuf root = hn_wrapper_root(p->w, o->buffer);
    const hn_wplace *at = &p->numbering->places.buffers[root];
    if (at->kind == HNB_BUFFER_INPUT || (at->kind == HNB_BUFFER_CONSTANT && !p->owns[at->source]))
        return false;
    return hn_source_is_remote(p, root);
}

/* Whether the device has a storage. */
static bool has_storage(const source_printer *p, uint32_t storage) {
    for (hn_wbuf b = 1; b < p->w->buffers.count; b++) {
        const hn_wplace *at = &p->numbering->places.buffers[b];
        if (at->kind == HNB_BUFFER_CONSTANT && at->source == storage && hn_source_is_remote(p, b))
            return true;
    }
    return false;
}

void hn_source_device_count(source_printer *p) {
    if (p->device == HN_DEVICE_CPU) return;
    for (uint32_t k = 0; k < p->w->lines.count; k++) {
        const hn_line *line = &p->w->lines.items[k];
        p->operation_count += line->kind == HN_LINE_EXTERN && line->device == p->device;
    }
    for (uint32_t k = 1; k < p->numbering->places.storages.count; k++) {
        if (p->owns[k] || !has_storage(p, k)) continue;
        const size_t bytes = hn_wnumbering_storage(p->numbering, k)->size_bytes;
        p->device_offsets[k] = p->device_bytes;
        p->device_bytes += (bytes + WEIGHT_ALIGN - 1) / WEIGHT_ALIGN * WEIGHT_ALIGN;
    }
}

/* --- calls --- */

static bool takes_all(const hn_wlaunch *l, uint32_t count) {
    for (uint32_t k = 0; k < l->arg_count; k++)
        if (hn_wlaunch_operand(l, k) != k) return false;
    return l->arg_count == count;
}

static bool same_launch(const hn_line *line, const hn_wlaunch *a, const hn_wlaunch *b) {
    return takes_all(a, line->operand_count) && takes_all(b, line->operand_count) &&
           a->param_count == b->param_count &&
           (!a->param_count ||
            memcmp(a->params, b->params, a->param_count * sizeof *a->params) == 0) &&
           a->extent == b->extent && a->threads == b->threads &&
           a->shared_bytes == b->shared_bytes && a->scratch_bytes == b->scratch_bytes;
}

static bool is_same_for_all(const source_printer *p, const hn_line *line, uint32_t variant) {
    const hn_wlaunch first = hn_line_launch(line, variant, 0);
    for (uint32_t t = 1; t < p->w->target_count; t++) {
        const hn_wlaunch other = hn_line_launch(line, variant, t);
        if (!same_launch(line, &first, &other)) return false;
    }
    return true;
}

static void put_launch(source_printer *p, const hn_line *line, hn_wkernel kernel,
                       const hn_wlaunch *l, uint32_t step) {
    hn_source_buffers(p, line, l);
    hn_source_params(p, l->params, l->param_count, "long long");
    hn_source_indent(p);
    PUTS("static const launch_facts f = {%u, %u, %u, %u, %u, %u, ", step, kernel - 1, l->arg_count,
         l->param_count, l->threads, l->shared_bytes);
    hn_source_where(p, line->origin);
    hn_strbuf_puts(p->out, "};\n");
    hn_source_indent(p);
    PUTS("TRY(device_launch(m, &f, b, %s, ", l->param_count ? "p" : "NULL");
    hn_source_number(p, l->extent);
    hn_strbuf_puts(p->out, ", ");
    if (line->workspace) hn_source_address(p, line->workspace, 0, 1);
    else hn_strbuf_puts(p->out, "NULL");
    hn_strbuf_puts(p->out, "));\n");
}

/* Of each target its own, where they are not the same. */
static void put_variant(source_printer *p, const hn_line *line, uint32_t variant, uint32_t step) {
    const uint32_t count = is_same_for_all(p, line, variant) ? 1 : p->w->target_count;
    for (uint32_t t = 0; t < count; t++) {
        const hn_wlaunch launch = hn_line_launch(line, variant, t);
        if (count > 1) {
            hn_source_indent(p);
            PUTS("if (device_target(m) == %u) {\n", t);
            p->depth++;
        }
        put_launch(p, line, hn_line_kernel(line, variant), &launch, step);
        if (count == 1) continue;
        p->depth--;
        hn_source_indent(p);
        hn_strbuf_puts(p->out, "}\n");
    }
}

void hn_source_device_kernel(source_printer *p, const hn_line *line) {
    const uint32_t step = p->next_launch++;
    for (uint32_t v = 0; v < hn_line_variants(line); v++) {
        hn_source_variant_begin(p, line, v);
        put_variant(p, line, v, step);
        hn_source_variant_end(p, line, v);
    }
}

void hn_source_device_extern(source_printer *p, const hn_line *line) {
    hn_source_extern_facts(p, line, p->next_operation++);
    hn_source_indent(p);
    if (!line->kernel) {
        hn_strbuf_puts(p->out, "TRY(device_operation(m, &f, b, p, NULL));\n");
        return;
    }
    hn_strbuf_puts(p->out, "bool for_kernel;\n");
    hn_source_indent(p);
    hn_strbuf_puts(p->out, "TRY(device_operation(m, &f, b, p, &for_kernel));\n");
    hn_source_indent(p);
    hn_strbuf_puts(p->out, "if (for_kernel) {\n");
    p->depth++;
    put_variant(p, line, 0, p->next_launch++); /* the kernel is the same in all forms */
    p->depth--;
    hn_source_indent(p);
    hn_strbuf_puts(p->out, "}\n");
}

/* --- tables --- */

static void put_targets(source_printer *p) {
    hn_strbuf_puts(p->out, "static const char *const targets[] = {");
    for (uint32_t t = 0; t < p->source->target_count; t++) {
        hn_source_string(p->out, p->source->targets[t]);
        hn_strbuf_puts(p->out, ", ");
    }
    hn_strbuf_puts(p->out, "NULL};\n");
}

static void put_kernels(source_printer *p) {
    hn_strbuf_puts(p->out, "static const device_kernel kernels[] = {\n");
    for (uint32_t t = 0; t < p->w->target_count; t++)
        for (hn_wkernel k = 1; k < p->w->kernels.count; k++) {
            const hn_wkernel_info *info = &p->w->kernels.items[k];
            if (t) info = &info->others[t - 1];
            hn_strbuf_puts(p->out, "    {");
            hn_source_string(p->out, info->name);
            PUTS(", %u},\n", info->object);
        }
    hn_strbuf_puts(p->out, "    {NULL, 0},\n};\n");
}

static void put_storages(source_printer *p) {
    hn_strbuf_puts(p->out, "static const device_storage storages[] = {\n");
    for (uint32_t k = 1; k < p->numbering->places.storages.count; k++) {
        const size_t bytes = hn_wnumbering_storage(p->numbering, k)->size_bytes;
        if (p->owns[k] || !has_storage(p, k) || !bytes) continue;
        PUTS("    {%" PRIu64 ", %" PRIu64 ", %zu},\n", p->source->weight_offsets[k],
             p->device_offsets[k], bytes);
    }
    hn_strbuf_puts(p->out, "    {0, 0, 0},\n};\n");
}

static void put_input_flags(source_printer *p) {
    hn_strbuf_puts(p->out, "static const uint8_t remote_inputs[] = {");
    for (uint32_t k = 0; k < p->w->inputs.count; k++) {
        bool is_remote = false;
        for (hn_wbuf b = 1; b < p->w->buffers.count; b++) {
            const hn_wplace *at = &p->numbering->places.buffers[b];
            is_remote |=
                at->kind == HNB_BUFFER_INPUT && at->source == k && hn_source_is_remote(p, b);
        }
        PUTS("%d, ", is_remote);
    }
    hn_strbuf_puts(p->out, "0};\n");
}

/* Of the buffers of a kind, which are numbered as they come. */
static void put_block_flags(source_printer *p) {
    const hn_memory_plan *plan = p->numbering->plan;
    hn_strbuf_puts(p->out, "static const uint8_t remote_blocks[] = {");
    for (uint32_t k = 0; k < plan->pool_list.count; k++)
        PUTS("%d, ", plan->pool_list.items[k].device != HN_DEVICE_CPU);
    for (hn_wbuf b = 1; b < p->w->buffers.count; b++)
        if (p->numbering->places.buffers[b].kind == HNB_BUFFER_OUTPUT)
            PUTS("%d, ", hn_source_is_remote(p, b));
    hn_strbuf_puts(p->out, "0};\n");
}

static void put_slot_flags(source_printer *p) {
    hn_strbuf_puts(p->out, "static const uint8_t remote_slots[] = {");
    for (uint32_t slot = 0; slot < p->slot_count; slot++) {
        bool is_remote = false;
        for (hn_wbuf b = 1; b < p->w->buffers.count; b++) {
            const hn_wplace *at = &p->numbering->places.buffers[b];
            is_remote |=
                at->kind == HNB_BUFFER_SLOT && at->source == slot && hn_source_is_remote(p, b);
        }
        PUTS("%d, ", is_remote);
    }
    hn_strbuf_puts(p->out, "0};\n");
}

static void put_output_flags(source_printer *p) {
    hn_strbuf_puts(p->out, "static const uint8_t remote_owns[] = {");
    for (uint32_t k = 1; k < p->numbering->places.storages.count; k++)
        if (p->owns[k]) PUTS("%d, ", has_storage(p, k));
    hn_strbuf_puts(p->out, "0};\nstatic const uint8_t remote_outputs[] = {");
    for (uint32_t k = 0; k < p->w->outputs.count; k++)
        PUTS("%d, ", hn_source_output_is_remote(p, &p->w->outputs.items[k]));
    hn_strbuf_puts(p->out, "0};\n");
}

void hn_source_device_tables(source_printer *p) {
    put_targets(p);
    put_kernels(p);
    put_storages(p);
    put_input_flags(p);
    put_block_flags(p);
    put_slot_flags(p);
    put_output_flags(p);
    hn_strbuf_puts(p->out, "static const device_places places = {\n"
                           "    .targets = targets, .kernels = kernels, .storages = storages,\n");
    PUTS("    .kernel_count = %u, .code_count = %u, .steps = %u, .operations = %u,\n"
         "    .weights_bytes = UINT64_C(%" PRIu64 "),\n",
         p->w->kernels.count - 1, p->source->code_count, p->next_launch, p->operation_count,
         p->device_bytes);
    hn_strbuf_puts(p->out,
                   "    .inputs = remote_inputs, .blocks = remote_blocks, .slots = remote_slots,\n"
                   "    .owns = remote_owns, .outputs = remote_outputs,\n};\n\n");
}
