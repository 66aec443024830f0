/* loop_print.c: the text of loop IR and of bodies, for --dump-after and messages. Grammar: docs/ir.md. */
#include "ir/loop.h"

#include <inttypes.h>

static void put_expr(const hn_program *p, hn_expr e, hn_strbuf *out) { hn_sym_print(p->sym, e, out); }

static void put_access(const hn_program *p, hn_buf buffer, hn_expr index, hn_strbuf *out) {
    hn_strbuf_printf(out, "b%u[", buffer);
    put_expr(p, index, out);
    hn_strbuf_putc(out, ']');
}

static void put_args(const hn_sop *op, hn_strbuf *out) {
    for (uint32_t a = 0; a < 3 && op->args[a]; a++) hn_strbuf_printf(out, a ? ", %%%u" : "%%%u", op->args[a]);
}

static void put_sop(const hn_program *p, hn_sid s, const hn_sop *op, hn_strbuf *out) {
    hn_strbuf_printf(out, "    %%%u = ", s);
    switch (op->kind) {
    case HN_SOP_ELEM:
        hn_strbuf_printf(out, "%s(", hn_op_facts(op->op)->name);
        put_args(op, out);
        hn_strbuf_putc(out, ')');
        break;
    case HN_SOP_CAST: hn_strbuf_printf(out, "cast(%%%u)", op->args[0]); break;
    case HN_SOP_CONST:
        if (hn_dtype_is_float(op->dtype))
            hn_strbuf_printf(out, "const %.17g", op->imm.f);
        else
            hn_strbuf_printf(out, "const %" PRId64, op->imm.i);
        break;
    case HN_SOP_LOAD: put_access(p, op->buffer, op->index, out); break;
    case HN_SOP_INDEX:
        hn_strbuf_puts(out, "index ");
        put_expr(p, op->index, out);
        break;
    case HN_SOP_INDIRECT:
        put_expr(p, op->index, out);
        hn_strbuf_printf(out, " := check(%%%u, %s < ", op->args[0], op->imm.i & 1 ? "wrap" : "0 <=");
        put_expr(p, hn_sym_symbol_extent(p->sym, op->index), out);
        hn_strbuf_putc(out, ')');
        break;
    case HN_SOP_RANDOM:
        hn_strbuf_printf(out, "random(%%%u, ", op->args[0]);
        put_expr(p, op->index, out);
        hn_strbuf_printf(out, ", stream %" PRId64 ")", op->imm.i);
        break;
    case HN_SOP_RESULT: hn_strbuf_printf(out, "result %" PRId64, op->imm.i); break;
    }
    hn_strbuf_printf(out, " : %s\n", hn_dtype_facts(op->dtype)->name);
}

static void put_vars(const hn_program *p, const hn_expr *vars, uint32_t count, hn_strbuf *out) {
    for (uint32_t k = 0; k < count; k++) {
        hn_strbuf_puts(out, k ? ", " : "");
        put_expr(p, vars[k], out);
        hn_strbuf_puts(out, " < ");
        put_expr(p, hn_sym_symbol_extent(p->sym, vars[k]), out);
    }
}

static void put_loop(const hn_program *p, const hn_loop *loop, hn_strbuf *out) {
    static const char *const kinds[] = {"pointwise", "reduce", "scan", "scatter"};
    static const char *const modes[] = {"=", "+=", "*=", "min=", "max="};
    hn_strbuf_printf(out, "  %s", kinds[loop->kind]);
    if (loop->kind == HN_LOOP_REDUCE || loop->kind == HN_LOOP_SCAN) hn_strbuf_printf(out, " %s", hn_op_facts(loop->reduce_op)->name);
    hn_strbuf_puts(out, " (");
    put_vars(p, loop->vars, loop->rank, out);
    hn_strbuf_puts(out, "; ");
    put_vars(p, loop->vars + loop->rank, loop->red_rank, out);
    hn_strbuf_puts(out, ") {\n");
    for (hn_sid s = 1; s < loop->body.count; s++) put_sop(p, s, &loop->body.items[s], out);
    hn_strbuf_puts(out, "    ");
    put_access(p, loop->store.buffer, loop->store.index, out);
    hn_strbuf_printf(out, " %s %%%u\n", modes[loop->store.mode], loop->store.value);
    if (loop->indices.buffer) {
        hn_strbuf_puts(out, "    ");
        put_access(p, loop->indices.buffer, loop->indices.index, out);
        hn_strbuf_puts(out, " = position\n");
    }
    hn_strbuf_puts(out, "  }\n");
}

static void put_extern(const hn_program *p, const hn_extern *ext, hn_strbuf *out) {
    static const char *const kinds[HN_EXTERN_KIND_COUNT] = {"none", "matmul", "conv", "attention", "sort", "topk"};
    hn_strbuf_printf(out, "  %s(", kinds[ext->kind]);
    for (uint32_t k = 0; k < ext->operand_count; k++) {
        hn_strbuf_puts(out, k ? ", " : "");
        if (ext->operands[k].buffer)
            put_access(p, ext->operands[k].buffer, ext->operands[k].offset_elems, out);
        else
            hn_strbuf_puts(out, "none");
    }
    hn_strbuf_puts(out, ") params [");
    for (uint32_t k = 0; k < ext->param_count; k++) {
        hn_strbuf_puts(out, k ? ", " : "");
        put_expr(p, ext->params[k], out);
    }
    hn_strbuf_puts(out, "]\n");
}

static void put_buffer(const hn_program *p, hn_buf b, hn_strbuf *out) {
    static const char *const kinds[] = {"input", "temp", "output"};
    const hn_buffer *buffer = &p->buffers.items[b];
    hn_strbuf_printf(out, "  b%u : %s %s[", b, kinds[buffer->kind], hn_dtype_facts(buffer->dtype)->name);
    for (uint32_t d = 0; d < buffer->rank; d++) {
        hn_strbuf_puts(out, d ? ", " : "");
        put_expr(p, buffer->sizes[d], out);
    }
    hn_strbuf_puts(out, "]\n");
}

void hn_program_print(const hn_program *p, hn_strbuf *out) {
    static const char *const others[] = {[HN_ITEM_ASSERT] = "assert", [HN_ITEM_BRANCH_THEN] = "then", [HN_ITEM_BRANCH_ELSE] = "else",
                                         [HN_ITEM_BRANCH_END] = "end"};
    hn_strbuf_puts(out, "program {\n");
    for (hn_buf b = 1; b < p->buffers.count; b++) put_buffer(p, b, out);
    for (hn_item i = 1; i < p->items.count; i++) {
        const hn_item_info *item = &p->items.items[i];
        if (item->kind == HN_ITEM_LOOP)
            put_loop(p, item->loop, out);
        else if (item->kind == HN_ITEM_EXTERN)
            put_extern(p, item->ext, out);
        else
            hn_strbuf_printf(out, item->cond ? "  %s b%u\n" : "  %s\n", others[item->kind], item->cond);
    }
    hn_strbuf_puts(out, "}\n");
}
