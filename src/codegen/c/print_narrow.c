/* print_narrow.c: comparisons and casts of indices in lanes of 32 bits: twice as many in a register, and no detour to those of
 * floats. */
#include "codegen/c/internal.h"

#include "base/compiler.h"

static const hn_sop *sop(const printer *pr, hn_sid s) { return &pr->at->phase->body.items[s]; }

static const char *sign_of(hn_op op) {
    static const struct {
        hn_op op;
        const char *text;
    } signs[] = {{HN_OP_EQ, "=="}, {HN_OP_NE, "!="}, {HN_OP_LT, "<"}, {HN_OP_LE, "<="}, {HN_OP_GT, ">"}, {HN_OP_GE, ">="}};
    for (uint32_t k = 0; k < HN_COUNT_OF(signs); k++)
        if (signs[k].op == op) return signs[k].text;
    return NULL;
}

static void put_narrow(printer *pr, const hn_sop *op) {
    hn_expr step;
    const bool moves = op->kind == HN_SOP_INDEX && hn_cpu_walk_of(pr->at, op->index, &step) == HN_WALK_CONTIGUOUS;
    hn_strbuf_puts(&pr->out, moves ? "(sp_i(" : "sp_i(");
    if (op->kind == HN_SOP_CONST)
        hn_strbuf_i64(&pr->out, op->imm.i);
    else
        c_put_index(pr, op->index);
    hn_strbuf_puts(&pr->out, moves ? ") + IOTA_I)" : ")");
}

void c_put_of_indices(printer *pr, const hn_sop *op) {
    hn_strbuf_puts(&pr->out, op->kind == HN_SOP_CAST ? "i_f(" : "(vi)(");
    put_narrow(pr, sop(pr, op->args[0]));
    if (op->kind == HN_SOP_ELEM) {
        hn_strbuf_printf(&pr->out, " %s ", sign_of(op->op));
        put_narrow(pr, sop(pr, op->args[1]));
    }
    hn_strbuf_putc(&pr->out, ')');
}
