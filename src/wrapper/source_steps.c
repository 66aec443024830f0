/* source_steps.c: the walk over the steps as C: calls of kernels and of operations, with addresses
 * and numbers in place. */
#include "wrapper/source_impl.h"

#include "henry/abi/extern_abi.h"
#include "wrapper/names.h"

enum { STEPS_A_FUNCTION = 40 }; /* compilers take more than linear time for very long functions */

#define PUTS(...) hn_strbuf_printf(p->out, __VA_ARGS__)

static void begin_line(source_printer *p) { hn_source_indent(p); }

/* The node that a step came from, as a comment. */
static void put_origin(source_printer *p, const hn_line *line) {
    const hn_origin o = hn_source_origin(p->w, line->origin);
    if (!o.node.len && !o.source.len) return;
    hn_strbuf_puts(p->out, " /* ");
    hn_source_comment(p->out, o.node);
    if (o.source.len) hn_strbuf_puts(p->out, o.node.len ? ", " : "");
    hn_source_comment(p->out, o.source);
    hn_strbuf_puts(p->out, " */");
}

/* What the lines that follow do: nodes that are fused. */
static void put_comment(source_printer *p, const hn_line *line) {
    begin_line(p);
    hn_strbuf_puts(p->out, "/* ");
    hn_source_comment(p->out, line->text);
    for (uint32_t k = 0; k < line->origin_count; k++) {
        if (k || line->text.len) hn_strbuf_puts(p->out, ", ");
        hn_source_comment(p->out, hn_source_origin(p->w, line->origins[k]).node);
    }
    hn_strbuf_puts(p->out, " */\n");
}

static void put_element(source_printer *p, const hn_woperand *o) {
    hn_source_address(p, hn_wrapper_root(p->w, o->buffer), hn_woperand_offset(p->w, o),
                      hn_dtype_facts(o->dtype)->size_bytes);
}

void hn_source_buffers(source_printer *p, const hn_line *line, const hn_wlaunch *launch) {
    begin_line(p);
    hn_strbuf_puts(p->out, "void *const b[] = {");
    for (uint32_t k = 0; k < launch->arg_count; k++) {
        const hn_woperand *o = &line->operands[hn_wlaunch_operand(launch, k)];
        if (k) hn_strbuf_puts(p->out, ", ");
        if (o->buffer) put_element(p, o);
        else hn_strbuf_puts(p->out, "NULL");
    }
    hn_strbuf_puts(p->out, launch->arg_count ? "};\n" : "NULL};\n");
}

static bool are_constant(const source_printer *p, const hn_expr *params, uint32_t count) {
    int64_t value;
    for (uint32_t k = 0; k < count; k++)
        if (!hn_source_const(p, params[k], &value)) return false;
    return true;
}

void hn_source_params(source_printer *p, const hn_expr *params, uint32_t count, const char *type) {
    if (!count) return;
    begin_line(p);
    PUTS("%sconst %s p[] = {", are_constant(p, params, count) ? "static " : "", type);
    for (uint32_t k = 0; k < count; k++) {
        if (k) hn_strbuf_puts(p->out, k % 24 ? ", " : ",\n                              ");
        hn_source_number(p, params[k]);
    }
    hn_strbuf_puts(p->out, "};\n");
}

static void put_variant(source_printer *p, const hn_line *line, uint32_t variant) {
    const hn_wlaunch l = hn_line_launch(line, variant, 0);
    hn_source_buffers(p, line, &l);
    hn_source_params(p, l.params, l.param_count, "long long");
    begin_line(p);
    PUTS("TRY(kernel_run(m, " HN_STR_FMT ", b, %s, %u, ",
         HN_STR_ARG(p->w->kernels.items[hn_line_kernel(line, variant)].name),
         l.param_count ? "p" : "NULL", l.param_count);
    hn_source_number(p, l.extent);
    hn_strbuf_puts(p->out, ", ");
    hn_source_int(p->out, hn_line_grain(l.grain));
    hn_strbuf_puts(p->out, ", ");
    hn_source_number(p, l.scratch_bytes);
    hn_strbuf_puts(p->out, ", ");
    hn_source_where(p, line->origin);
    hn_strbuf_puts(p->out, "));\n");
}

static void put_kernel(source_printer *p, const hn_line *line) {
    for (uint32_t v = 0; v < hn_line_variants(line); v++) {
        hn_source_variant_begin(p, line, v);
        put_variant(p, line, v);
        hn_source_variant_end(p, line, v);
    }
}

/* A weight that never changes may be packed. */
static bool is_constant(const source_printer *p, const hn_woperand *o) {
    const hn_wplace *at = &p->numbering->places.buffers[hn_wrapper_root(p->w, o->buffer)];
    return at->kind == HNB_BUFFER_CONSTANT &&
           !p->numbering->places.storages.items[at->source].is_mutable;
}

/* What the operation may be asked for, where that differs by sizes. */
static void put_forms(source_printer *p, const hn_line *line) {
    if (!line->variant_count) return;
    begin_line(p);
    hn_strbuf_puts(p->out, "static const char *const forms[] = {");
    for (uint32_t v = 0; v < hn_line_variants(line); v++) {
        if (v) hn_strbuf_puts(p->out, ", ");
        hn_source_string(p->out, hn_line_launch(line, v, 0).form);
    }
    hn_strbuf_puts(p->out, "};\n");
}

static void put_form(source_printer *p, const hn_line *line) {
    if (line->variant_count) PUTS("forms[n[%u]]", p->first_pick + p->next_pick++);
    else hn_source_string(p->out, line->form);
}

void hn_source_extern_facts(source_printer *p, const hn_line *line, uint32_t number) {
    const hn_wlaunch all = {.arg_count = line->operand_count};
    uint32_t constants = 0;
    hn_source_buffers(p, line, &all);
    hn_source_params(p, line->params, line->param_count, "int64_t");
    for (uint32_t k = 0; k < line->operand_count; k++)
        if (line->operands[k].buffer && is_constant(p, &line->operands[k])) constants |= 1u << k;
    put_forms(p, line);
    begin_line(p);
    PUTS("%sconst extern_facts f = {%u, %u /* %s */, %u, %u, 0x%x, {",
         line->variant_count ? "" : "static ", number, (unsigned)line->extern_kind,
         hn_wextern_names[line->extern_kind], line->operand_count, line->param_count, constants);
    for (uint32_t k = 0; k < line->operand_count; k++) {
        const hn_woperand *o = &line->operands[k];
        PUTS("%s%u", k ? ", " : "", o->buffer ? (unsigned)o->dtype : 0u);
    }
    hn_strbuf_puts(p->out, "}, ");
    hn_source_where(p, line->origin);
    hn_strbuf_puts(p->out, ", ");
    put_form(p, line);
    hn_strbuf_puts(p->out, "};\n");
}

static void put_extern(source_printer *p, const hn_line *line) {
    hn_source_extern_facts(p, line, p->next_extern++);
    begin_line(p);
    hn_strbuf_puts(p->out, "TRY(extern_run(m, &f, b, p));\n");
}

/* The bytes of a buffer; what they are in the runtime: bound.c. */
static void put_bytes(source_printer *p, hn_wbuf buffer) {
    const hn_wplace *at = &p->numbering->places.buffers[buffer];
    if (at->kind == HNB_BUFFER_INPUT) PUTS("m->input_bytes[%u]", at->source);
    else if (at->kind == HNB_BUFFER_CONSTANT)
        hn_source_int(p->out,
                      (int64_t)(hn_wnumbering_storage(p->numbering, at->source)->size_bytes -
                                at->byte_offset));
    else hn_source_number(p, at->bytes);
}

/* Between which memories: of the host, to and from the device, on it. */
static const char *copy_words(const source_printer *p, const hn_line *line) {
    const bool to = hn_source_is_remote(p, line->buffer), from = hn_source_is_remote(p, line->from);
    if (!to && !from) return "memmove(";
    return to && from ? "TRY(device_copy(m, "
           : to       ? "TRY(device_copy_in(m, "
                      : "TRY(device_copy_out(m, ";
}

static void put_copy(source_printer *p, const hn_line *line) {
    const bool is_of_host = hn_line_device(p->w, line) == HN_DEVICE_CPU;
    begin_line(p);
    hn_strbuf_puts(p->out, copy_words(p, line));
    hn_source_address(p, line->buffer, 0, 1);
    hn_strbuf_puts(p->out, ", ");
    hn_source_address(p, line->from, 0, 1);
    hn_strbuf_puts(p->out, is_of_host ? ", (size_t)n_min(" : ", n_min(");
    put_bytes(p, line->buffer);
    hn_strbuf_puts(p->out, ", ");
    put_bytes(p, line->from);
    hn_strbuf_puts(p->out, is_of_host ? "));\n" : ")));\n");
}

/* Brings the element that a line decides by to the host, if the device has it: then it has a
 * name. */
static uint32_t fetch_element(source_printer *p, const hn_woperand *o) {
    if (!hn_source_is_remote(p, hn_wrapper_root(p->w, o->buffer))) return 0;
    const uint32_t number = ++p->next_element;
    begin_line(p);
    PUTS("uint8_t e%u[8] = {0};\n", number);
    begin_line(p);
    PUTS("TRY(device_read(m, e%u, ", number);
    put_element(p, o);
    PUTS(", %u));\n", hn_dtype_facts(o->dtype)->size_bytes);
    return number;
}

/* The address of the element, from fetch_element. */
static void put_fetched(source_printer *p, const hn_woperand *o, uint32_t number) {
    if (number) PUTS("e%u", number);
    else put_element(p, o);
}

static void put_zero(source_printer *p, const hn_line *line) {
    const bool is_of_host = hn_line_device(p->w, line) == HN_DEVICE_CPU;
    begin_line(p);
    hn_strbuf_puts(p->out, is_of_host ? "memset(" : "TRY(device_zero(m, ");
    hn_source_address(p, line->buffer, 0, 1);
    hn_strbuf_puts(p->out, is_of_host ? ", 0, (size_t)" : ", ");
    put_bytes(p, line->buffer);
    hn_strbuf_puts(p->out, is_of_host ? ");\n" : "));\n");
}

static void put_memory(source_printer *p, const hn_line *line) {
    begin_line(p);
    hn_strbuf_puts(p->out, "{\n");
    p->depth++;
    hn_source_debug_begin(p, line);
    if (line->kind == HN_LINE_COPY) put_copy(p, line);
    else put_zero(p, line);
    hn_source_debug_end(p, line, 0);
    p->depth--;
    begin_line(p);
    hn_strbuf_puts(p->out, "}\n");
}

static void put_assert(source_printer *p, const hn_line *line) {
    hn_source_debug_mark(p, line);
    const uint32_t element = fetch_element(p, &line->operands[0]);
    begin_line(p);
    hn_strbuf_puts(p->out, "if (!*(");
    put_fetched(p, &line->operands[0], element);
    hn_strbuf_puts(p->out, ")) return fail(m, \"%s: assertion failed: %s\", ");
    hn_source_where(p, line->origin);
    hn_strbuf_puts(p->out, ", ");
    hn_source_string(p->out, line->text);
    hn_strbuf_puts(p->out, ");\n");
}

static hn_status put_define(source_printer *p, const hn_line *line) {
    uint32_t symbol;
    if (!hn_wsymbols_find(&p->numbering->symbols, line->symbol, &symbol))
        return HN_ERROR(HN_INTERNAL, "a line defines a symbol that nobody has listed");
    hn_source_debug_mark(p, line);
    const uint32_t element = fetch_element(p, &line->operands[0]);
    begin_line(p);
    PUTS("TRY(define_%u(m, number_at(", symbol - p->first_late);
    put_fetched(p, &line->operands[0], element);
    PUTS(", (model_type)%u), ", (unsigned)line->operands[0].dtype);
    hn_source_where(p, line->origin);
    hn_strbuf_puts(p->out, "));\n");
    return NULL;
}

static hn_status put_range(source_printer *p, uint32_t first, uint32_t end);

static hn_status put_cond(source_printer *p, uint32_t at) {
    const hn_line *line = &p->w->lines.items[at];
    const uint32_t otherwise = at + 1 + line->then_count;
    const bool has_otherwise = hn_wrapper_count_steps(p->w, otherwise, line->otherwise_count) > 0;
    hn_source_debug_mark(p, line);
    const uint32_t element = fetch_element(p, &line->operands[0]);
    begin_line(p);
    hn_strbuf_puts(p->out, "if (*(");
    put_fetched(p, &line->operands[0], element);
    hn_strbuf_puts(p->out, ")) {");
    put_origin(p, line);
    hn_strbuf_putc(p->out, '\n');
    p->depth++;
    HN_TRY(put_range(p, at + 1, otherwise));
    p->depth--;
    begin_line(p);
    hn_strbuf_puts(p->out, has_otherwise ? "} else {\n" : "}\n");
    if (!has_otherwise) return NULL;
    p->depth++;
    HN_TRY(put_range(p, otherwise, otherwise + line->otherwise_count));
    p->depth--;
    begin_line(p);
    hn_strbuf_puts(p->out, "}\n");
    return NULL;
}

/* What lines [first, end), the test or the body of a loop, define is not known when they begin, nor
 * behind the loop. */
static hn_status put_forget(source_printer *p, uint32_t first, uint32_t end) {
    for (uint32_t at = first; at < end; at++) {
        const hn_line *line = &p->w->lines.items[at];
        uint32_t symbol;
        if (line->kind != HN_LINE_DEFINE) continue;
        if (!hn_wsymbols_find(&p->numbering->symbols, line->symbol, &symbol))
            return HN_ERROR(HN_INTERNAL, "a line defines a symbol that nobody has listed");
        begin_line(p);
        PUTS("n[%u] = UNDEFINED;\n", p->symbol_numbers[symbol]);
    }
    return NULL;
}

/* Counters are named by depth: loops nest. */
static hn_status put_loop(source_printer *p, uint32_t at) {
    const hn_line *line = &p->w->lines.items[at];
    const uint32_t body = at + 1 + line->then_count, end = body + line->otherwise_count;
    const uint32_t depth = p->depth;
    hn_source_debug_mark(p, line);
    begin_line(p);
    if (line->rounds) {
        PUTS("for (int64_t r%u = 0, r%u_end = ", depth, depth);
        hn_source_number(p, line->rounds);
        PUTS("; r%u < r%u_end; r%u++) {", depth, depth, depth);
    } else {
        hn_strbuf_puts(p->out, "for (;;) {");
    }
    put_origin(p, line);
    hn_strbuf_putc(p->out, '\n');
    p->depth++;
    HN_TRY(put_forget(p, at + 1, body));
    HN_TRY(put_range(p, at + 1, body));
    if (!line->rounds) {
        const uint32_t element = fetch_element(p, &line->operands[0]);
        begin_line(p);
        hn_strbuf_puts(p->out, "if (!*(");
        put_fetched(p, &line->operands[0], element);
        hn_strbuf_puts(p->out, ")) break;\n");
    }
    HN_TRY(put_forget(p, body, end));
    HN_TRY(put_range(p, body, end));
    p->depth--;
    begin_line(p);
    hn_strbuf_puts(p->out, "}\n");
    return put_forget(p, at + 1, end);
}

/* Kernels and operations have arrays of their own: a block each. */
static void put_call(source_printer *p, const hn_line *line) {
    begin_line(p);
    hn_strbuf_putc(p->out, '{');
    put_origin(p, line);
    hn_strbuf_putc(p->out, '\n');
    p->depth++;
    const uint32_t pick = p->first_pick + p->next_pick;
    hn_source_debug_begin(p, line);
    const bool is_of_host = line->device == HN_DEVICE_CPU;
    if (line->kind == HN_LINE_KERNEL && is_of_host) put_kernel(p, line);
    else if (line->kind == HN_LINE_KERNEL) hn_source_device_kernel(p, line);
    else if (is_of_host) put_extern(p, line);
    else hn_source_device_extern(p, line);
    hn_source_debug_end(p, line, pick);
    p->depth--;
    begin_line(p);
    hn_strbuf_puts(p->out, "}\n");
}

static void put_wait(source_printer *p, const hn_line *line) {
    hn_source_debug_mark(p, line);
    begin_line(p);
    hn_strbuf_puts(p->out, "TRY(device_wait(m));\n");
}

/* A line, with the lines inside it. Recursion is bounded by the depth that the verifier accepts. */
static hn_status put_line(source_printer *p, uint32_t at) {
    const hn_line *line = &p->w->lines.items[at];
    switch (line->kind) {
    case HN_LINE_COMMENT: put_comment(p, line); return NULL;
    case HN_LINE_ALLOCATE:
    case HN_LINE_REUSE:
    case HN_LINE_FREE:
    case HN_LINE_VIEW: return NULL;
    case HN_LINE_KERNEL:
    case HN_LINE_EXTERN: put_call(p, line); return NULL;
    case HN_LINE_COPY:
    case HN_LINE_ZERO: put_memory(p, line); return NULL;
    case HN_LINE_ASSERT: put_assert(p, line); return NULL;
    case HN_LINE_DEFINE: return put_define(p, line);
    case HN_LINE_COND: return put_cond(p, at);
    case HN_LINE_LOOP: return put_loop(p, at);
    case HN_LINE_WAIT: put_wait(p, line); return NULL;
    }
    return HN_ERROR(HN_UNSUPPORTED, "a line of kind %d has no form in C yet", (int)line->kind);
}

/* The line behind a line and what is inside it. */
static uint32_t behind(const source_printer *p, uint32_t at) {
    const hn_line *line = &p->w->lines.items[at];
    return at + 1 + (hn_line_has_bodies(line->kind) ? line->then_count + line->otherwise_count : 0);
}

static hn_status put_range(source_printer *p, uint32_t first, uint32_t end) {
    for (uint32_t at = first; at < end; at = behind(p, at)) HN_TRY(put_line(p, at));
    return NULL;
}

hn_status hn_source_steps(source_printer *p) {
    uint32_t functions = 0, in_function = 0,
             left = hn_wrapper_count_steps(p->w, 0, p->w->lines.count);
    bool is_open = false;
    for (uint32_t at = 0, next; at < p->w->lines.count; at = next) {
        const uint32_t steps = hn_wrapper_count_steps(p->w, at, (next = behind(p, at)) - at);
        const bool is_comment = p->w->lines.items[at].kind == HN_LINE_COMMENT;
        if (!steps && (!is_comment || !left)) continue; /* what is said is about a step behind it */
        if (!is_open)
            PUTS(
                "static int steps_%u(model *m) {\n    int64_t *const n = m->numbers;\n    (void)n;\n",
                functions++);
        is_open = true;
        p->depth = 1;
        HN_TRY(put_line(p, at));
        in_function += steps;
        left -= steps;
        if (in_function < STEPS_A_FUNCTION && left) continue;
        hn_strbuf_puts(p->out, "    return 0;\n}\n\n");
        in_function = 0;
        is_open = false;
    }
    hn_strbuf_puts(p->out, "static int steps(model *m) {\n    (void)m;\n");
    for (uint32_t k = 0; k < functions; k++) PUTS("    TRY(steps_%u(m));\n", k);
    hn_strbuf_puts(p->out, "    return 0;\n}\n\n");
    return NULL;
}
