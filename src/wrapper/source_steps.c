/* source_steps.c: the walk over the steps as C: calls of kernels and of operations, with addresses and numbers in place. */
#include "wrapper/source_impl.h"

#include "henry/abi/extern_abi.h"

enum {
    STEPS_A_FUNCTION = 40, /* compilers take more than linear time for very long functions */
    MAX_OPERANDS = 64
};

#define PUTS(...) hn_strbuf_printf(p->out, __VA_ARGS__)

static void begin_line(source_printer *p) { hn_source_indent(p); }

/* The node that a step came from, as a comment. */
static void put_origin(source_printer *p, const hnb_step *s) {
    const hnb_origin *o = &p->b->origins[s->origin];
    hn_str node = hn_bundle_str(p->b, o->node), place = hn_bundle_str(p->b, o->source);
    if (!node.len && !place.len) return;
    hn_strbuf_puts(p->out, " /* ");
    hn_source_comment(p->out, node);
    if (place.len) hn_strbuf_puts(p->out, node.len ? ", " : "");
    hn_source_comment(p->out, place);
    hn_strbuf_puts(p->out, " */");
}

static void put_buffers(source_printer *p, const hnb_step *s) {
    begin_line(p);
    hn_strbuf_puts(p->out, "void *const b[] = {");
    for (uint32_t k = 0; k < s->operand_count; k++) {
        const hnb_operand *o = &p->b->operands[s->operands + k];
        if (k) hn_strbuf_puts(p->out, ", ");
        if (o->buffer) hn_source_address(p, o->buffer, o->offset, hn_bundle_dtype_bytes(o->dtype));
        else hn_strbuf_puts(p->out, "NULL");
    }
    hn_strbuf_puts(p->out, s->operand_count ? "};\n" : "NULL};\n");
}

static bool params_are_constant(const source_printer *p, const uint32_t *params, uint32_t count) {
    int64_t value;
    for (uint32_t k = 0; k < count; k++)
        if (!hn_bundle_expr_const(p->b, params[k], &value)) return false;
    return true;
}

static void put_params(source_printer *p, uint32_t first, uint32_t count, const char *type) {
    if (!count) return;
    begin_line(p);
    PUTS("%sconst %s p[] = {", params_are_constant(p, p->b->params + first, count) ? "static " : "", type);
    for (uint32_t k = 0; k < count; k++) {
        if (k) hn_strbuf_puts(p->out, k % 24 ? ", " : ",\n                              ");
        hn_source_number(p, p->b->params[first + k]);
    }
    hn_strbuf_puts(p->out, "};\n");
}

static void put_kernel(source_printer *p, const hnb_step *s) {
    const hnb_launch *l = hn_bundle_launch(p->b, s, 0); /* a project is for one target */
    put_buffers(p, s);
    put_params(p, l->params, l->param_count, "long long");
    begin_line(p);
    PUTS("TRY(kernel_run(m, %s, b, %s, %u, ", hn_bundle_text(p->b, p->b->kernels[s->kernel].name), l->param_count ? "p" : "NULL",
         l->param_count);
    hn_source_number(p, l->extent);
    hn_strbuf_puts(p->out, ", ");
    hn_source_int(p->out, l->grain);
    hn_strbuf_puts(p->out, ", ");
    hn_source_number(p, l->scratch);
    hn_strbuf_puts(p->out, ", ");
    hn_source_where(p, s->origin);
    hn_strbuf_puts(p->out, "));\n");
}

/* A weight that never changes may be packed. */
static bool is_constant(const source_printer *p, const hnb_operand *o) {
    const hnb_buffer *f = &p->b->buffers[o->buffer];
    return f->kind == HNB_BUFFER_CONSTANT && !p->b->storages[f->source].is_mutable;
}

static void put_extern(source_printer *p, const hnb_step *s) {
    uint32_t constants = 0;
    put_buffers(p, s);
    put_params(p, s->params, s->param_count, "int64_t");
    for (uint32_t k = 0; k < s->operand_count; k++)
        if (p->b->operands[s->operands + k].buffer && is_constant(p, &p->b->operands[s->operands + k])) constants |= 1u << k;
    begin_line(p);
    PUTS("static const extern_facts f = {%u, %u /* %s */, %u, %u, 0x%x, {", p->next_extern++, s->extern_kind,
         hn_bundle_extern_name(s->extern_kind), s->operand_count, s->param_count, constants);
    for (uint32_t k = 0; k < s->operand_count; k++) {
        const hnb_operand *o = &p->b->operands[s->operands + k];
        PUTS("%s%u", k ? ", " : "", o->buffer ? o->dtype : 0u);
    }
    hn_strbuf_puts(p->out, "}, ");
    hn_source_where(p, s->origin);
    hn_strbuf_puts(p->out, "};\n");
    begin_line(p);
    hn_strbuf_puts(p->out, "TRY(extern_run(m, &f, b, p));\n");
}

/* The bytes of a buffer; what they are in the runtime: bound.c. */
static void put_bytes(source_printer *p, uint32_t buffer) {
    const hnb_buffer *f = &p->b->buffers[buffer];
    if (f->kind == HNB_BUFFER_INPUT) PUTS("m->input_bytes[%u]", f->source);
    else if (f->kind == HNB_BUFFER_CONSTANT) hn_source_int(p->out, (int64_t)(p->b->storages[f->source].bytes - f->byte_offset));
    else hn_source_number(p, f->bytes);
}

static void put_copy(source_printer *p, const hnb_step *s) {
    begin_line(p);
    hn_strbuf_puts(p->out, "memmove(");
    hn_source_address(p, s->buffer, 0, 1);
    hn_strbuf_puts(p->out, ", ");
    hn_source_address(p, s->from, 0, 1);
    hn_strbuf_puts(p->out, ", (size_t)n_min(");
    put_bytes(p, s->buffer);
    hn_strbuf_puts(p->out, ", ");
    put_bytes(p, s->from);
    hn_strbuf_puts(p->out, "));\n");
}

static void put_first_operand(source_printer *p, const hnb_step *s) {
    const hnb_operand *o = &p->b->operands[s->operands];
    hn_source_address(p, o->buffer, o->offset, hn_bundle_dtype_bytes(o->dtype));
}

static void put_assert(source_printer *p, const hnb_step *s) {
    begin_line(p);
    hn_strbuf_puts(p->out, "if (!*(");
    put_first_operand(p, s);
    hn_strbuf_puts(p->out, ")) return fail(m, \"%s: assertion failed: %s\", ");
    hn_source_where(p, s->origin);
    hn_strbuf_puts(p->out, ", ");
    hn_source_string(p->out, hn_bundle_str(p->b, s->text));
    hn_strbuf_puts(p->out, ");\n");
}

static void put_define(source_printer *p, const hnb_step *s) {
    begin_line(p);
    PUTS("TRY(define_%u(m, number_at(", s->symbol - p->first_late);
    put_first_operand(p, s);
    PUTS(", (model_type)%u), ", p->b->operands[s->operands].dtype);
    hn_source_where(p, s->origin);
    hn_strbuf_puts(p->out, "));\n");
}

static hn_status put_range(source_printer *p, uint32_t first, uint32_t end);

static hn_status put_cond(source_printer *p, uint32_t at) {
    const hnb_step *s = &p->b->steps[at];
    uint32_t otherwise = at + 1 + s->then_count;
    begin_line(p);
    hn_strbuf_puts(p->out, "if (*(");
    put_first_operand(p, s);
    hn_strbuf_puts(p->out, ")) {");
    put_origin(p, s);
    hn_strbuf_putc(p->out, '\n');
    p->depth++;
    HN_TRY(put_range(p, at + 1, otherwise));
    p->depth--;
    begin_line(p);
    hn_strbuf_puts(p->out, s->otherwise_count ? "} else {\n" : "}\n");
    if (!s->otherwise_count) return NULL;
    p->depth++;
    HN_TRY(put_range(p, otherwise, otherwise + s->otherwise_count));
    p->depth--;
    begin_line(p);
    hn_strbuf_puts(p->out, "}\n");
    return NULL;
}

/* Kernels and operations have arrays of their own: a block each. */
static void put_call(source_printer *p, const hnb_step *s) {
    begin_line(p);
    hn_strbuf_putc(p->out, '{');
    put_origin(p, s);
    hn_strbuf_putc(p->out, '\n');
    p->depth++;
    if (s->kind == HNB_STEP_KERNEL) put_kernel(p, s);
    else put_extern(p, s);
    p->depth--;
    begin_line(p);
    hn_strbuf_puts(p->out, "}\n");
}

/* One step, with the steps inside it; how many that were. Recursion is bounded by the depth that a bundle may have. */
static hn_status put_step(source_printer *p, uint32_t at, uint32_t *out_count) {
    const hnb_step *s = &p->b->steps[at];
    *out_count = 1;
    switch (s->kind) {
    case HNB_STEP_KERNEL:
    case HNB_STEP_EXTERN: put_call(p, s); return NULL;
    case HNB_STEP_COPY: put_copy(p, s); return NULL;
    case HNB_STEP_ASSERT: put_assert(p, s); return NULL;
    case HNB_STEP_DEFINE: put_define(p, s); return NULL;
    case HNB_STEP_COND: *out_count += s->then_count + s->otherwise_count; return put_cond(p, at);
    default: return HN_ERROR(HN_UNSUPPORTED, "a step of kind %u has no form in C yet", s->kind);
    }
}

static hn_status put_range(source_printer *p, uint32_t first, uint32_t end) {
    for (uint32_t at = first, count; at < end; at += count) HN_TRY(put_step(p, at, &count));
    return NULL;
}

hn_status hn_source_steps(source_printer *p) {
    uint32_t functions = 0, in_function = 0;
    for (uint32_t at = 0, count; at < p->b->steps_count; at += count) {
        if (!in_function) PUTS("static int steps_%u(model *m) {\n    int64_t *const n = m->numbers;\n    (void)n;\n", functions++);
        p->depth = 1;
        HN_TRY(put_step(p, at, &count));
        in_function += count;
        if (in_function < STEPS_A_FUNCTION && at + count < p->b->steps_count) continue;
        hn_strbuf_puts(p->out, "    return 0;\n}\n\n");
        in_function = 0;
    }
    hn_strbuf_puts(p->out, "static int steps(model *m) {\n    (void)m;\n");
    for (uint32_t k = 0; k < functions; k++) PUTS("    TRY(steps_%u(m));\n", k);
    hn_strbuf_puts(p->out, "    return 0;\n}\n\n");
    return NULL;
}
