/* loop_verify.c: what must hold of loop IR: ids known, arguments before uses, dtypes that fit, buffers
 * written before they are read. */
#include "ir/loop.h"

#include <stdlib.h>

typedef struct checker {
    const hn_program *p;
    uint8_t *written; /* per buffer */
} checker;

static hn_status bad(hn_item item, const char *what, uint32_t id) {
    return HN_ERROR(HN_INTERNAL, "loop IR item %u: %s %u", item, what, id);
}

static hn_status check_sop(const checker *c, hn_item item, const hn_body *body, hn_sid s) {
    const hn_sop *op = &body->items[s];
    for (uint32_t a = 0; a < 3; a++)
        if (op->args[a] >= s) return bad(item, "an argument does not come before op", s);
    if (op->dtype == HN_DTYPE_NONE || op->dtype >= HN_DTYPE_COUNT) return bad(item, "no dtype at op", s);
    if (op->kind == HN_SOP_LOAD) {
        if (!op->buffer || op->buffer >= c->p->buffers.count) return bad(item, "unknown buffer at op", s);
        if (c->p->buffers.items[op->buffer].dtype != op->dtype) return bad(item, "load of another dtype at op", s);
        if (!c->written[op->buffer]) return bad(item, "read before it is written: buffer", op->buffer);
    }
    if ((op->kind == HN_SOP_LOAD || op->kind == HN_SOP_INDEX || op->kind == HN_SOP_RANDOM) && !op->index)
        return bad(item, "no index at op", s);
    if (op->kind == HN_SOP_ELEM && !hn_op_is_elementwise(op->op)) return bad(item, "not an element-wise op at", s);
    if (op->kind == HN_SOP_INDIRECT && body->items[op->args[0]].dtype != HN_DTYPE_I64) return bad(item, "an index that is no i64 at op", s);
    return NULL;
}

static hn_status check_store(checker *c, hn_item item, const hn_body *body, const hn_loop_store *store, bool any_dtype) {
    if (!store->buffer || store->buffer >= c->p->buffers.count) return bad(item, "store to unknown buffer", store->buffer);
    if (!store->value || store->value >= body->count) return bad(item, "store of unknown op", store->value);
    const hn_buffer *buffer = &c->p->buffers.items[store->buffer];
    if (buffer->kind == HN_BUFFER_INPUT) return bad(item, "store to input buffer", store->buffer);
    if (!any_dtype && buffer->dtype != body->items[store->value].dtype) return bad(item, "store of another dtype to buffer", store->buffer);
    c->written[store->buffer] = 1;
    return NULL;
}

static hn_status check_loop(checker *c, hn_item item, const hn_loop *loop) {
    if (loop->rank + loop->red_rank > HN_MAX_RANK) return bad(item, "too many dimensions:", loop->rank + loop->red_rank);
    for (hn_sid s = 1; s < loop->body.count; s++) HN_TRY(check_sop(c, item, &loop->body, s));
    bool position = loop->reduce_op == HN_OP_ARGMAX || loop->reduce_op == HN_OP_ARGMIN;
    HN_TRY(check_store(c, item, &loop->body, &loop->store, loop->kind == HN_LOOP_REDUCE && position));
    return loop->indices.buffer ? check_store(c, item, &loop->body, &loop->indices, true) : NULL;
}

static hn_status check_extern(checker *c, hn_item item, const hn_extern *ext) {
    for (uint32_t k = 0; k < ext->operand_count; k++) {
        hn_buf b = ext->operands[k].buffer;
        if (b >= c->p->buffers.count) return bad(item, "unknown operand", k);
        if (ext->operands[k].written)
            c->written[b] = 1;
        else if (b && !c->written[b])
            return bad(item, "operand read before it is written:", k);
    }
    return NULL;
}

hn_status hn_program_verify(const hn_program *p) {
    checker c = {.p = p, .written = calloc(p->buffers.count + 1, 1)};
    if (!c.written) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory while verifying loop IR");
    for (hn_buf b = 1; b < p->buffers.count; b++) c.written[b] = p->buffers.items[b].kind == HN_BUFFER_INPUT;
    hn_status status = NULL;
    for (hn_item i = 1; i < p->items.count && !status; i++) {
        const hn_item_info *item = &p->items.items[i];
        if (item->kind == HN_ITEM_LOOP)
            status = check_loop(&c, i, item->loop);
        else if (item->kind == HN_ITEM_EXTERN)
            status = check_extern(&c, i, item->ext);
        else if (item->cond && !c.written[item->cond])
            status = bad(i, "condition read before it is written: buffer", item->cond);
    }
    for (uint32_t k = 0; k < p->results.count && !status; k++)
        if (!c.written[p->results.items[k].buffer]) status = HN_ERROR(HN_INTERNAL, "loop IR: result %u is never written", k);
    free(c.written);
    return status;
}
