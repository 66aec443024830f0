/* source_debug.c: what the debugger of an emitted project (share/source/debug.c) knows of the
 * steps: marks around each, which are nothing unless the project is built with DEBUG=1, and a
 * table. */
#include "wrapper/names.h"
#include "wrapper/source_impl.h"

#define PUTS(...) hn_strbuf_printf(p->out, __VA_ARGS__)

static bool is_call(const hn_line *line) {
    return line->kind == HN_LINE_KERNEL || line->kind == HN_LINE_EXTERN;
}

/* The tensors of any step, in the order of the runtime's hooks. */
static uint32_t operand_count(const hn_line *line) {
    if (line->kind == HN_LINE_COPY) return 2;
    return line->kind == HN_LINE_ZERO ? 1 : line->operand_count;
}

static hn_woperand operand_at(const source_printer *p, const hn_line *line, uint32_t k) {
    if (line->kind != HN_LINE_COPY && line->kind != HN_LINE_ZERO) return line->operands[k];
    const hn_wbuf buffer = k ? line->from : line->buffer;
    return (hn_woperand){
        .buffer = buffer, .dtype = p->w->buffers.items[buffer].dtype, .written = k == 0};
}

/* The row of a step in the table: the variants of a line have one each. */
static void put_call(source_printer *p, const hn_line *line, uint32_t pick) {
    PUTS("%u", p->next_call);
    if (line->variant_count) PUTS(" + (uint32_t)n[%u]", pick);
}

/* The tensor in a buffer begins where its memory does, also when the call uses a part of it. */
void hn_source_debug_begin(source_printer *p, const hn_line *line) {
    hn_source_indent(p);
    hn_strbuf_puts(p->out, "STEP_BEGIN(");
    put_call(p, line, p->first_pick + p->next_pick);
    for (uint32_t k = 0; k < operand_count(line); k++) {
        const hn_wbuf buffer = operand_at(p, line, k).buffer;
        hn_strbuf_puts(p->out, ", ");
        if (buffer) hn_source_address(p, hn_wrapper_root(p->w, buffer), 0, 1);
        else hn_strbuf_puts(p->out, "NULL");
    }
    hn_strbuf_puts(p->out, operand_count(line) ? ");\n" : ", NULL);\n");
}

void hn_source_debug_end(source_printer *p, const hn_line *line, uint32_t pick) {
    hn_source_indent(p);
    hn_strbuf_puts(p->out, "STEP_END(");
    put_call(p, line, pick);
    hn_strbuf_puts(p->out, ");\n");
    p->next_call += hn_line_variants(line);
}

void hn_source_debug_mark(source_printer *p, const hn_line *line) {
    hn_source_indent(p);
    hn_strbuf_puts(p->out, "{\n");
    p->depth++;
    hn_source_debug_begin(p, line);
    hn_source_debug_end(p, line, 0);
    p->depth--;
    hn_source_indent(p);
    hn_strbuf_puts(p->out, "}\n");
}

/* ---- who writes what ---- */

/* Per buffer the last call that writes to its memory (a copy writes all of it, and leaves nothing
 * to others); per line the innermost conditional that it is in, plus 1. As src/runtime/writers.c
 * has it of steps. */
typedef struct writers {
    const hn_wrapper *w;
    uint32_t *last, *parents;
} writers;

static bool writes(const hn_wrapper *w, const hn_line *line, hn_wbuf root) {
    for (uint32_t k = 0; is_call(line) && k < line->operand_count; k++)
        if (line->operands[k].written && hn_wrapper_root(w, line->operands[k].buffer) == root)
            return true;
    return false;
}

static void note_line(writers *all, uint32_t at) {
    const hn_line *line = &all->w->lines.items[at];
    for (uint32_t k = 0; is_call(line) && k < line->operand_count; k++)
        if (line->operands[k].written)
            all->last[hn_wrapper_root(all->w, line->operands[k].buffer)] = at;
    if (line->kind != HN_LINE_COND) return;
    /* a conditional inside this one comes later, and has the last word */
    for (uint32_t i = 1; i <= line->then_count + line->otherwise_count; i++)
        all->parents[at + i] = at + 1;
}

static hn_status find_writers(const source_printer *p, writers *out) {
    out->w = p->w;
    HN_NEW(p->source->arena, out->last, p->w->buffers.count);
    HN_NEW(p->source->arena, out->parents, p->w->lines.count);
    for (uint32_t at = 0; at < p->w->lines.count; at++) note_line(out, at);
    return NULL;
}

/* Whether the two lines are in different branches of a conditional. */
static bool exclude(const writers *all, uint32_t at, uint32_t later) {
    for (uint32_t p = all->parents[at]; p; p = all->parents[p - 1]) {
        const hn_line *cond = &all->w->lines.items[p - 1];
        const uint32_t otherwise = p + cond->then_count;
        if (at < otherwise && later >= otherwise && later < otherwise + cond->otherwise_count)
            return true;
    }
    return false;
}

/* Whether a later line writes to the buffer, too: then the tensor is not complete. */
static bool follow(const writers *all, hn_wbuf root, uint32_t at) {
    for (uint32_t k = at + 1; k <= all->last[root]; k++)
        if (writes(all->w, &all->w->lines.items[k], root) && !exclude(all, at, k)) return true;
    return false;
}

/* ---- the table ---- */

static const hn_wplace *place_of(const source_printer *p, hn_wbuf buffer) {
    return &p->numbering->places.buffers[buffer];
}

/* What the caller knows a result by; "" for others. */
static hn_str output_name(const source_printer *p, hn_wbuf buffer) {
    if (place_of(p, buffer)->kind != HNB_BUFFER_OUTPUT) return HN_STR("");
    for (uint32_t k = 0; k < p->w->outputs.count; k++) {
        const hn_woutput *o = &p->w->outputs.items[k];
        if (o->kind == HN_WOUTPUT_TENSOR && hn_wrapper_root(p->w, o->buffer) == buffer)
            return o->name;
    }
    return HN_STR("");
}

static bool is_weight(const source_printer *p, hn_wbuf buffer) {
    const hn_wplace *at = place_of(p, buffer);
    return at->kind == HNB_BUFFER_CONSTANT &&
           !p->numbering->places.storages.items[at->source].is_mutable;
}

/* Names as the runtime gives them to hooks (hn_step_operand). */
static void put_names(source_printer *p, hn_wbuf root) {
    const hn_wbuffer *b = &p->w->buffers.items[root];
    const bool is_result = b->kind != HN_WBUF_INPUT && b->kind != HN_WBUF_CONSTANT;
    const hn_str own = b->name.len ? b->name : b->node;
    hn_source_string(p->out, is_result ? output_name(p, root) : own);
    hn_strbuf_puts(p->out, ", ");
    hn_source_string(p->out, is_result ? own : HN_STR(""));
}

/* {4, "name", "node", type, rank, is_written, is_partial, is_weight, is_remote, {sizes,
 * strides}}. It is partial when a later line writes to it, too. */
static void put_operand(source_printer *p, const hn_woperand *o, bool is_partial) {
    const hn_wbuf root = hn_wrapper_root(p->w, o->buffer);
    const hn_wplace *place = place_of(p, root);
    PUTS("    {%u, ", root);
    put_names(p, root);
    PUTS(", %u, %u, %d, %d, %d, %d, {", (unsigned)p->w->buffers.items[root].dtype, place->rank,
         o->written, is_partial, is_weight(p, root), hn_source_is_remote(p, root));
    for (uint32_t d = 0; d < 2 * place->rank; d++) {
        if (d) hn_strbuf_puts(p->out, ", ");
        hn_source_dim(p, d < place->rank ? place->sizes[d] : place->strides[d - place->rank]);
    }
    hn_strbuf_puts(p->out, place->rank ? "}},\n" : "{0, 0}}},\n");
}

static void put_name(source_printer *p, const hn_line *line, uint32_t variant) {
    if (line->kind == HN_LINE_KERNEL)
        hn_source_string(p->out, p->w->kernels.items[hn_line_kernel(line, variant)].name);
    else if (line->kind == HN_LINE_EXTERN)
        hn_source_string(p->out, hn_str_of(hn_wextern_names[line->extern_kind]));
    else hn_source_string(p->out, hn_str_of(hn_wline_kind_name(line->kind)));
}

/* A line of a call: which step it is, and where its operands and nodes begin. */
typedef struct step_place {
    uint32_t number, operand, node;
} step_place;

static uint32_t node_count(const hn_line *line) {
    uint32_t count;
    hn_line_origins(line, &count);
    return count;
}

static const char *kind_of(const hn_line *line) {
    if (line->kind == HN_LINE_KERNEL) return "kernel ";
    return line->kind == HN_LINE_EXTERN ? "extern " : "";
}

static void put_step(source_printer *p, uint32_t at, uint32_t variant, const step_place *place) {
    const hn_line *line = &p->w->lines.items[at];
    const hn_origin origin = hn_source_origin(p->w, line->origin);
    hn_strbuf_puts(p->out, "    {");
    put_name(p, line, variant);
    hn_strbuf_puts(p->out, ", ");
    hn_source_string(p->out, origin.node);
    hn_strbuf_puts(p->out, ", ");
    hn_source_string(p->out, origin.source);
    PUTS(", %u, %u, %u, %u, %u, \"%s\", ", place->number, place->operand, operand_count(line),
         place->node, node_count(line), kind_of(line));
    hn_source_string(p->out,
                     line->variant_count ? hn_line_launch(line, variant, 0).form : HN_STR(""));
    PUTS(", %d},\n", hn_line_device(p->w, line) != HN_DEVICE_CPU);
}

/* The nodes of all steps, one behind the other. */
static void put_nodes(source_printer *p) {
    hn_strbuf_puts(p->out, "const char *const debug_nodes[] = {");
    for (uint32_t at = 0; at < p->w->lines.count; at++) {
        const hn_line *line = &p->w->lines.items[at];
        uint32_t count;
        const uint32_t *origins = hn_line_origins(line, &count);
        for (uint32_t k = 0; hn_line_is_step(line->kind) && k < count; k++) {
            hn_strbuf_puts(p->out, k ? ", " : "\n    ");
            hn_source_string(p->out, hn_source_origin(p->w, origins[k]).node);
            if (k + 1 == count) hn_strbuf_putc(p->out, ',');
        }
    }
    hn_strbuf_puts(p->out, "\n    \"\",\n};\n");
}

static void put_inputs(source_printer *p) {
    hn_strbuf_puts(p->out, "const uint32_t debug_inputs[] = {");
    for (uint32_t k = 0; k < p->w->inputs.count; k++)
        PUTS("%u, ", p->w->inputs.items[k].is_scalar ? 0 : p->w->inputs.items[k].buffer);
    hn_strbuf_puts(p->out, "0};\n");
}

static const char none[] = "    {0, \"\", \"\", 0, 0, 0, 0, 0, 0, {{0, 0}}},\n";

hn_status hn_source_debug_table(source_printer *p) {
    step_place place = {0};
    writers all;
    HN_TRY(find_writers(p, &all));
    hn_strbuf_puts(p->out, "#ifdef MODEL_DEBUG\nconst debug_operand debug_operands[] = {\n");
    for (uint32_t at = 0; at < p->w->lines.count; at++) {
        const hn_line *line = &p->w->lines.items[at];
        for (uint32_t k = 0; hn_line_is_step(line->kind) && k < operand_count(line); k++) {
            const hn_woperand o = operand_at(p, line, k);
            if (o.buffer) put_operand(p, &o, follow(&all, hn_wrapper_root(p->w, o.buffer), at));
            else hn_strbuf_puts(p->out, none);
        }
    }
    hn_strbuf_puts(p->out, none);
    hn_strbuf_puts(p->out, "};\nconst debug_step debug_steps[] = {\n");
    for (uint32_t at = 0; at < p->w->lines.count; at++) {
        const hn_line *line = &p->w->lines.items[at];
        if (hn_line_is_step(line->kind)) {
            for (uint32_t v = 0; v < hn_line_variants(line); v++) put_step(p, at, v, &place);
            place.operand += operand_count(line);
            place.node += node_count(line);
            place.number++;
        }
    }
    hn_strbuf_puts(p->out, "    {\"\", \"\", \"\", 0, 0, 0, 0, 0, \"\", \"\", 0},\n};\n");
    put_nodes(p);
    put_inputs(p);
    PUTS("const uint32_t debug_buffers = %u;\n#endif\n\n", (unsigned)p->w->buffers.count);
    return NULL;
}
