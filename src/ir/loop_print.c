/* loop_print.c: the text of loop IR and of bodies: --dump-after, `henry opt`, messages. It parses
 * back, loop_parse.c.
 * Grammar: docs/ir.md. */
#include "ir/facts.h"
#include "ir/layout_text.h"
#include "ir/loop.h"
#include "ir/loop_text.h"
#include "ir/sop_text.h"
#include "ir/text.h"

static void put_expr(const hn_program *p, hn_expr e, hn_strbuf *out) {
    hn_text_print_expr(p->sym, e, out);
}

static void put_exprs(const hn_program *p, const hn_expr *list, uint32_t count, hn_strbuf *out) {
    hn_strbuf_putc(out, '[');
    for (uint32_t k = 0; k < count; k++) {
        hn_strbuf_puts(out, k ? ", " : "");
        put_expr(p, list[k], out);
    }
    hn_strbuf_putc(out, ']');
}

const char *const hn_loop_kind_names[] = {"pointwise", "reduce", "scan", "scatter"};
const char *const hn_buffer_kind_names[] = {"input", "temp", "output"};
#define NAME(kind, name, operands, needed, written, params) [kind] = name,
const char *const hn_extern_kind_names[] = {[HN_EXTERN_NONE] = "extern", HN_EXTERN_KINDS(NAME)};
#undef NAME

static void put_access(const hn_program *p, hn_buf buffer, hn_expr index, hn_strbuf *out) {
    hn_sop_print_access(p->sym, 'b', buffer, index, out);
}

static void put_sop(const hn_program *p, int indent, hn_sid s, const hn_sop *op, hn_strbuf *out) {
    hn_strbuf_printf(out, "%*s%%%u = ", indent, "", s);
    hn_sop_print(p->sym, 'b', op, out);
    hn_strbuf_putc(out, '\n');
}

static void put_origin(const hn_program *p, uint32_t origin, hn_strbuf *out) {
    if (!origin || origin >= p->graph->origins.count) return;
    const hn_origin *at = &p->graph->origins.items[origin];
    if (!at->node.len && !at->source.len) return;
    hn_strbuf_puts(out, " at ");
    hn_text_print_string(at->node, out);
    hn_strbuf_putc(out, ' ');
    hn_text_print_string(at->source, out);
}

static void put_vars(const hn_program *p, const hn_expr *vars, uint32_t count, hn_strbuf *out) {
    for (uint32_t k = 0; k < count; k++) {
        hn_strbuf_puts(out, k ? ", " : "");
        put_expr(p, vars[k], out);
        hn_strbuf_puts(out, " < ");
        put_expr(p, hn_sym_symbol_extent(p->sym, vars[k]), out);
    }
}

/* `indent` spaces in front of each line. */
static void put_loop(const hn_program *p, const hn_loop *loop, uint32_t origin, int indent,
                     hn_strbuf *out) {
    hn_strbuf_printf(out, "%*s%s", indent, "", hn_loop_kind_names[loop->kind]);
    if (loop->kind == HN_LOOP_REDUCE || loop->kind == HN_LOOP_SCAN)
        hn_strbuf_printf(out, " %s", hn_op_facts(loop->reduce_op)->name);
    hn_strbuf_puts(out, " (");
    put_vars(p, loop->vars, loop->rank, out);
    hn_strbuf_puts(out, "; ");
    put_vars(p, loop->vars + loop->rank, loop->red_rank, out);
    hn_strbuf_putc(out, ')');
    put_origin(p, origin, out);
    hn_strbuf_puts(out, " {\n");
    for (hn_sid s = 1; s < loop->body.count; s++)
        put_sop(p, indent + 2, s, &loop->body.items[s], out);
    hn_strbuf_printf(out, "%*s", indent + 2, "");
    hn_sop_print_store(p->sym, 'b', &loop->store, out);
    hn_strbuf_putc(out, '\n');
    if (loop->indices.buffer) {
        hn_strbuf_printf(out, "%*s", indent + 2, "");
        put_access(p, loop->indices.buffer, loop->indices.index, out);
        hn_strbuf_printf(out, " = position %%%u\n", loop->indices.value);
    }
    hn_strbuf_printf(out, "%*s}\n", indent, "");
}

/* The loops that compute what a call does. */
static void put_loops_of_call(const hn_program *p, const hn_extern *ext, hn_strbuf *out) {
    hn_strbuf_puts(out, " as {\n");
    for (uint32_t k = 0; k < ext->loop_count; k++) put_loop(p, &ext->loops[k], 0, 4, out);
    hn_strbuf_puts(out, "  }");
}

static void put_extern(const hn_program *p, const hn_extern *ext, hn_strbuf *out) {
    hn_strbuf_printf(out, "  %s(", hn_extern_kind_names[ext->kind]);
    for (uint32_t k = 0; k < ext->operand_count; k++) {
        hn_strbuf_puts(out, k ? ", " : "");
        if (ext->operands[k].buffer) {
            hn_strbuf_puts(out, ext->operands[k].written ? "out " : "");
            put_access(p, ext->operands[k].buffer, ext->operands[k].offset_elems, out);
        } else {
            hn_strbuf_puts(out, "none");
        }
    }
    hn_strbuf_puts(out, ") params ");
    put_exprs(p, ext->params, ext->param_count, out);
}

static void put_buffer(const hn_program *p, hn_buf b, hn_strbuf *out) {
    const hn_buffer *buffer = &p->buffers.items[b];
    hn_strbuf_printf(out, "  b%u : %s ", b, hn_buffer_kind_names[buffer->kind]);
    if (buffer->kind == HN_BUFFER_INPUT) hn_strbuf_printf(out, "%u ", buffer->input);
    hn_strbuf_puts(out, hn_dtype_facts(buffer->dtype)->name);
    hn_text_print_layout(p->sym, buffer->rank, buffer->sizes, buffer->strides, out);
    hn_text_print_device(buffer->device, out);
    if (buffer->kind != HN_BUFFER_INPUT) {
        hn_strbuf_puts(out, " extent ");
        put_expr(p, buffer->extent, out);
    }
    hn_strbuf_putc(out, '\n');
}

static void put_item(const hn_program *p, const hn_item_info *item, hn_strbuf *out) {
    switch (item->kind) {
    case HN_ITEM_LOOP: put_loop(p, item->loop, item->origin, 2, out); return;
    case HN_ITEM_EXTERN: put_extern(p, item->ext, out); break;
    case HN_ITEM_ASSERT:
        hn_strbuf_printf(out, "  assert b%u ", item->cond);
        hn_text_print_string(item->message, out);
        break;
    case HN_ITEM_BRANCH_THEN: hn_strbuf_printf(out, "  then b%u", item->cond); break;
    case HN_ITEM_BRANCH_ELSE: hn_strbuf_puts(out, "  else"); break;
    case HN_ITEM_BRANCH_END: hn_strbuf_puts(out, "  end"); break;
    case HN_ITEM_REPEAT:
        hn_strbuf_puts(out, "  repeat");
        if (item->rounds) hn_strbuf_putc(out, ' '), put_expr(p, item->rounds, out);
        else hn_strbuf_puts(out, " *");
        break;
    case HN_ITEM_WHILE: hn_strbuf_printf(out, "  while b%u", item->cond); break;
    case HN_ITEM_AGAIN: hn_strbuf_puts(out, "  again"); break;
    case HN_ITEM_COPY: hn_strbuf_printf(out, "  copy b%u = b%u", item->to, item->cond); break;
    case HN_ITEM_DEFINE:
        hn_strbuf_puts(out, "  define ");
        put_expr(p, item->symbol, out);
        hn_strbuf_printf(out, " = b%u", item->cond);
        break;
    }
    put_origin(p, item->origin, out);
    if (item->kind == HN_ITEM_EXTERN && item->ext->loop_count) put_loops_of_call(p, item->ext, out);
    hn_strbuf_putc(out, '\n');
}

static void put_result(const hn_program *p, const hn_result *result, hn_strbuf *out) {
    hn_strbuf_printf(out, "  result %u = ", result->output);
    put_access(p, result->buffer, result->offset, out);
    hn_strbuf_putc(out, ' ');
    hn_text_print_layout(p->sym, result->rank, result->sizes, result->strides, out);
    hn_strbuf_putc(out, '\n');
}

/* --- symbols --- */

static hn_status collect_loop(hn_text_facts *facts, const hn_loop *loop) {
    HN_TRY(hn_text_facts_collect_list(facts, loop->vars, loop->rank + loop->red_rank));
    for (hn_sid s = 1; s < loop->body.count; s++)
        HN_TRY(hn_text_facts_collect(facts, loop->body.items[s].index));
    HN_TRY(hn_text_facts_collect(facts, loop->store.index));
    return hn_text_facts_collect(facts, loop->indices.index);
}

static hn_status collect_extern(hn_text_facts *facts, const hn_extern *ext) {
    for (uint32_t k = 0; k < ext->operand_count; k++)
        HN_TRY(hn_text_facts_collect(facts, ext->operands[k].offset_elems));
    HN_TRY(hn_text_facts_collect_list(facts, ext->params, ext->param_count));
    for (uint32_t k = 0; k < ext->loop_count; k++) HN_TRY(collect_loop(facts, &ext->loops[k]));
    return NULL;
}

static hn_status collect(const hn_program *p, hn_text_facts *facts) {
    for (hn_buf b = 1; b < p->buffers.count; b++) {
        const hn_buffer *buffer = &p->buffers.items[b];
        HN_TRY(hn_text_facts_collect_list(facts, buffer->sizes, buffer->rank));
        HN_TRY(hn_text_facts_collect_list(facts, buffer->strides, buffer->rank));
        if (buffer->kind != HN_BUFFER_INPUT) HN_TRY(hn_text_facts_collect(facts, buffer->extent));
    }
    for (hn_item i = 1; i < p->items.count; i++) {
        const hn_item_info *item = &p->items.items[i];
        if (item->kind == HN_ITEM_LOOP) HN_TRY(collect_loop(facts, item->loop));
        if (item->kind == HN_ITEM_EXTERN) HN_TRY(collect_extern(facts, item->ext));
        if (item->kind == HN_ITEM_REPEAT) HN_TRY(hn_text_facts_collect(facts, item->rounds));
        if (item->kind == HN_ITEM_DEFINE) HN_TRY(hn_text_facts_collect(facts, item->symbol));
    }
    for (uint32_t k = 0; k < p->results.count; k++) {
        const hn_result *result = &p->results.items[k];
        HN_TRY(hn_text_facts_collect(facts, result->offset));
        HN_TRY(hn_text_facts_collect_list(facts, result->sizes, result->rank));
        HN_TRY(hn_text_facts_collect_list(facts, result->strides, result->rank));
    }
    return NULL;
}

static hn_status print(const hn_program *p, hn_arena *scratch, hn_strbuf *out) {
    hn_text_facts facts;
    hn_text_facts_init(&facts, p->sym, scratch);
    HN_TRY(collect(p, &facts));
    hn_strbuf_puts(out, "program {\n");
    HN_TRY(hn_text_facts_print(&facts, p->graph, 1, out));
    for (hn_buf b = 1; b < p->buffers.count; b++) put_buffer(p, b, out);
    for (hn_item i = 1; i < p->items.count; i++) put_item(p, &p->items.items[i], out);
    for (uint32_t k = 0; k < p->results.count; k++) put_result(p, &p->results.items[k], out);
    hn_strbuf_puts(out, "}\n");
    return NULL;
}

void hn_program_print(const hn_program *p, hn_strbuf *out) {
    hn_arena scratch;
    hn_arena_init(&scratch);
    hn_status status = print(p, &scratch, out);
    if (status) out->failed = true; /* only memory can fail here, and the buffer reports that */
    hn_status_free(status);
    hn_arena_deinit(&scratch);
}
