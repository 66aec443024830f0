/* source_debug.c: what the debugger of an emitted project (share/source/debug.c) knows of the steps:
 * marks around each call, which are nothing unless the project is built with DEBUG=1, and a table. */
#include "wrapper/names.h"
#include "wrapper/source_impl.h"

#define PUTS(...) hn_strbuf_printf(p->out, __VA_ARGS__)

static bool is_call(const hn_line *line) {
    return line->kind == HN_LINE_KERNEL || line->kind == HN_LINE_EXTERN;
}

/* The tensor in a buffer begins where its memory does, also when the call uses a part of it. */
void hn_source_debug_begin(source_printer *p, const hn_line *line) {
    hn_source_indent(p);
    PUTS("STEP_BEGIN(%u", p->next_call);
    for (uint32_t k = 0; k < line->operand_count; k++) {
        const hn_wbuf buffer = line->operands[k].buffer;
        hn_strbuf_puts(p->out, ", ");
        if (buffer) hn_source_address(p, hn_wrapper_root(p->w, buffer), 0, 1);
        else hn_strbuf_puts(p->out, "NULL");
    }
    hn_strbuf_puts(p->out, line->operand_count ? ");\n" : ", NULL);\n");
}

void hn_source_debug_end(source_printer *p) {
    hn_source_indent(p);
    PUTS("STEP_END(%u);\n", p->next_call++);
}

/* Per buffer the last line that writes to its memory. */
static hn_status find_writers(const source_printer *p, uint32_t **out) {
    HN_NEW(p->source->arena, *out, p->w->buffers.count);
    for (uint32_t at = 0; at < p->w->lines.count; at++) {
        const hn_line *line = &p->w->lines.items[at];
        for (uint32_t k = 0; is_call(line) && k < line->operand_count; k++)
            if (line->operands[k].written)
                (*out)[hn_wrapper_root(p->w, line->operands[k].buffer)] = at;
    }
    return NULL;
}

/* {4, "node", type, rank, is_written, is_partial, {sizes, strides}}. It is partial when a later line
 * writes to it, too. */
static void put_operand(source_printer *p, const hn_woperand *o, bool is_partial) {
    const hn_wbuf root = hn_wrapper_root(p->w, o->buffer);
    const hn_wbuffer *b = &p->w->buffers.items[root];
    const hn_wplace *place = &p->numbering->places.buffers[root];
    PUTS("    {%u, ", root);
    hn_source_string(p->out, b->name.len ? b->name : b->node);
    PUTS(", %u, %u, %d, %d, {", (unsigned)b->dtype, place->rank, o->written, is_partial);
    for (uint32_t d = 0; d < 2 * place->rank; d++) {
        if (d) hn_strbuf_puts(p->out, ", ");
        hn_source_dim(p, d < place->rank ? place->sizes[d] : place->strides[d - place->rank]);
    }
    hn_strbuf_puts(p->out, place->rank ? "}},\n" : "{0, 0}}},\n");
}

static void put_name(source_printer *p, const hn_line *line) {
    if (line->kind == HN_LINE_KERNEL)
        hn_source_string(p->out, p->w->kernels.items[line->kernel].name);
    else hn_source_string(p->out, hn_str_of(hn_wextern_names[line->extern_kind]));
}

static const char none[] = "    {0, \"\", 0, 0, 0, 0, {{0, 0}}},\n";

hn_status hn_source_debug_table(source_printer *p) {
    uint32_t first = 0, *last;
    HN_TRY(find_writers(p, &last));
    hn_strbuf_puts(p->out, "#ifdef MODEL_DEBUG\nconst debug_operand debug_operands[] = {\n");
    for (uint32_t at = 0; at < p->w->lines.count; at++) {
        const hn_line *line = &p->w->lines.items[at];
        for (uint32_t k = 0; is_call(line) && k < line->operand_count; k++) {
            const hn_woperand *o = &line->operands[k];
            if (o->buffer) put_operand(p, o, last[hn_wrapper_root(p->w, o->buffer)] > at);
            else hn_strbuf_puts(p->out, none);
        }
    }
    hn_strbuf_puts(p->out, none);
    hn_strbuf_puts(p->out, "};\nconst debug_step debug_steps[] = {\n");
    for (uint32_t at = 0; at < p->w->lines.count; at++) {
        const hn_line *line = &p->w->lines.items[at];
        if (!is_call(line)) continue;
        hn_strbuf_puts(p->out, "    {");
        put_name(p, line);
        hn_strbuf_puts(p->out, ", ");
        hn_source_where(p, line->origin);
        PUTS(", %u, %u},\n", first, line->operand_count);
        first += line->operand_count;
    }
    hn_strbuf_puts(p->out, "    {\"\", \"\", 0, 0},\n};\n#endif\n\n");
    return NULL;
}
