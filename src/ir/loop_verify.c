/* loop_verify.c: what must hold of loop IR: ids known, arguments before uses, dtypes that fit,
 * symbols in scope, buffers written before they are read, conditionals that nest. */
#include "ir/loop_text.h"
#include "ir/sop.h"

#include <stdlib.h>

static hn_status bad(hn_item item, const char *what, uint32_t id) {
    return HN_ERROR(HN_INTERNAL, "loop IR item %u: %s %u", item, what, id);
}

hn_status hn_loop_checker_init(hn_loop_checker *c, const hn_program *p) {
    *c = (hn_loop_checker){.p = p, .written = calloc(p->buffers.count + 1, 1)};
    if (!c->written) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory while verifying loop IR");
    for (hn_buf b = 1; b < p->buffers.count; b++)
        c->written[b] =
            p->buffers.items[b].kind == HN_BUFFER_INPUT ? HN_BUFFER_WRITTEN : HN_BUFFER_UNWRITTEN;
    return NULL;
}

void hn_loop_checker_deinit(hn_loop_checker *c) { free(c->written); }

static const hn_buffer *buffer_of(const hn_loop_checker *c, hn_buf b) {
    return b && b < c->p->buffers.count ? &c->p->buffers.items[b] : NULL;
}

static bool is_written(const hn_loop_checker *c, hn_buf b) {
    return c->written[b] == HN_BUFFER_WRITTEN;
}

/* --- symbols --- */

static bool is_var(const hn_loop *loop, hn_expr symbol, uint32_t count) {
    for (uint32_t k = 0; k < count; k++)
        if (loop->vars[k] == symbol) return true;
    return false;
}

static bool is_bound(const hn_loop *loop, hn_expr symbol, hn_sid before) {
    for (hn_sid s = 1; s < before; s++)
        if (loop->body.items[s].kind == HN_SOP_INDIRECT && loop->body.items[s].index == symbol)
            return true;
    return false;
}

/* Whether loop variables in `e` are among the first `vars` of the loop, and indirect symbols bound
 * in front of op `before`. */
static bool in_scope(const hn_loop_checker *c, const hn_loop *loop, hn_expr e, uint32_t vars,
                     hn_sid before) {
    enum { MOST = 64 };
    hn_expr symbols[MOST];
    uint32_t count = hn_sym_symbols(c->p->sym, e, symbols, MOST);
    if (count > MOST) return false; /* a rank, an indirect index for each, and sizes: far fewer */
    for (uint32_t k = 0; k < count; k++) {
        hn_symbol_kind kind = hn_sym_symbol_kind(c->p->sym, symbols[k]);
        if (kind == HN_SYMBOL_INDEX && !is_var(loop, symbols[k], vars)) return false;
        if (kind == HN_SYMBOL_INDIRECT && !is_bound(loop, symbols[k], before)) return false;
    }
    return true;
}

/* --- ops --- */

static hn_status find_arg_dtypes(hn_item item, const hn_body *body, hn_sid s, hn_dtype out[3]) {
    const hn_sop *op = &body->items[s];
    for (uint32_t a = 0; a < 3; a++) {
        if (op->args[a] >= s) return bad(item, "an argument does not come before op", s);
        out[a] = op->args[a] ? body->items[op->args[a]].dtype : HN_DTYPE_NONE;
    }
    return NULL;
}

static hn_status check_load(const hn_loop_checker *c, hn_item item, const hn_sop *op, hn_sid s) {
    const hn_buffer *buffer = buffer_of(c, op->buffer);
    if (!buffer) return bad(item, "unknown buffer at op", s);
    if (buffer->dtype != op->dtype) return bad(item, "load of another dtype at op", s);
    return is_written(c, op->buffer) ? NULL
                                     : bad(item, "read before it is written: buffer", op->buffer);
}

hn_status hn_loop_check_sop(const hn_loop_checker *c, hn_item item, const hn_loop *loop, hn_sid s) {
    const hn_sop *op = &loop->body.items[s];
    hn_dtype args[3];
    if (op->kind >= HN_SOP_RESULT) return bad(item, "an op of kernels only at", s);
    HN_TRY(find_arg_dtypes(item, &loop->body, s, args));
    const char *wrong = hn_sop_check(c->p->sym, op, args);
    if (wrong) return HN_ERROR(HN_INTERNAL, "loop IR item %u: %s at op %u", item, wrong, s);
    if (op->kind == HN_SOP_LOAD) HN_TRY(check_load(c, item, op, s));
    if (!hn_sop_has_index(op)) return NULL;
    return in_scope(c, loop, op->index, loop->rank + loop->red_rank, s)
               ? NULL
               : bad(item, "a symbol that is not in scope at op", s);
}

/* --- items --- */

static hn_status write_to(hn_loop_checker *c, hn_item item, hn_buf b) {
    if (c->written[b] == HN_BUFFER_INSIDE)
        return bad(item, "store to a temporary of a call: buffer", b);
    c->written[b] = HN_BUFFER_WRITTEN;
    return NULL;
}

static hn_status check_store(hn_loop_checker *c, hn_item item, const hn_loop *loop,
                             const hn_loop_store *store, bool any_dtype) {
    const hn_buffer *buffer = buffer_of(c, store->buffer);
    uint32_t vars = loop->kind == HN_LOOP_REDUCE ? loop->rank : loop->rank + loop->red_rank;
    if (!buffer) return bad(item, "store to unknown buffer", store->buffer);
    if (!store->value || store->value >= loop->body.count)
        return bad(item, "store of unknown op", store->value);
    if (buffer->kind == HN_BUFFER_INPUT) return bad(item, "store to input buffer", store->buffer);
    if (!any_dtype && buffer->dtype != loop->body.items[store->value].dtype)
        return bad(item, "store of another dtype to buffer", store->buffer);
    if (!store->index || !in_scope(c, loop, store->index, vars, loop->body.count))
        return bad(item, "no index, or a symbol that is not in scope, in the store to buffer",
                   store->buffer);
    return write_to(c, item, store->buffer);
}

static hn_status check_vars(const hn_loop_checker *c, hn_item item, const hn_loop *loop) {
    uint32_t count = loop->rank + loop->red_rank;
    for (uint32_t k = 0; k < count; k++) {
        if (hn_sym_symbol_kind(c->p->sym, loop->vars[k]) != HN_SYMBOL_INDEX)
            return bad(item, "no loop variable at dimension", k);
        for (uint32_t j = 0; j < k; j++)
            if (hn_sym_index_ordinal(c->p->sym, loop->vars[j]) ==
                hn_sym_index_ordinal(c->p->sym, loop->vars[k]))
                return bad(item, "two variables of one name at dimension", k);
    }
    return NULL;
}

static hn_status check_loop(hn_loop_checker *c, hn_item item, const hn_loop *loop) {
    static const hn_op_class combines[] = {
        [HN_LOOP_REDUCE] = HN_OPC_REDUCE, [HN_LOOP_SCAN] = HN_OPC_SCAN, [HN_LOOP_SCATTER] = 0};
    if (loop->rank + loop->red_rank > HN_MAX_RANK)
        return bad(item, "too many dimensions:", loop->rank + loop->red_rank);
    HN_TRY(check_vars(c, item, loop));
    if (loop->kind == HN_LOOP_SCAN && loop->red_rank > 1)
        return bad(item, "a scan of several dimensions:", loop->red_rank);
    if ((loop->kind == HN_LOOP_REDUCE || loop->kind == HN_LOOP_SCAN) &&
        hn_op_facts(loop->reduce_op)->op_class != combines[loop->kind])
        return bad(item, "op that does not combine:", loop->reduce_op);
    bool position = hn_op_has(loop->reduce_op, HN_TRAIT_POSITION);
    bool pairs = loop->kind == HN_LOOP_SCAN && hn_op_result_count(loop->reduce_op) == 2;
    if (loop->indices.buffer && !pairs)
        return bad(item, "positions of a loop that has none, to buffer", loop->indices.buffer);
    HN_TRY(check_store(c, item, loop, &loop->store, loop->kind == HN_LOOP_REDUCE && position));
    return loop->indices.buffer ? check_store(c, item, loop, &loop->indices, true) : NULL;
}

/* --- calls --- */

static bool reads_operand(const hn_extern *ext, hn_buf b) {
    for (uint32_t k = 0; k < ext->operand_count; k++)
        if (ext->operands[k].buffer == b && !ext->operands[k].written) return true;
    return false;
}

static bool is_stored_before(const hn_extern *ext, uint32_t k, hn_buf b) {
    while (k-- > 0)
        if (ext->loops[k].store.buffer == b) return true;
    return false;
}

hn_status hn_loop_check_of_call(hn_loop_checker *c, hn_item item, const hn_extern *ext,
                                uint32_t k) {
    const hn_loop *loop = &ext->loops[k];
    hn_buf to = loop->store.buffer;
    for (hn_sid s = 1; s < loop->body.count; s++) {
        const hn_sop *op = &loop->body.items[s];
        if (op->kind == HN_SOP_LOAD && !reads_operand(ext, op->buffer) &&
            !is_stored_before(ext, k, op->buffer))
            return bad(item, "a loop of a call reads what is no operand: buffer", op->buffer);
    }
    bool is_result = ext->operands[0].written && to == ext->operands[0].buffer;
    bool is_free = buffer_of(c, to) && c->p->buffers.items[to].kind == HN_BUFFER_TEMP &&
                   c->written[to] == HN_BUFFER_UNWRITTEN;
    if (!is_result && !is_free)
        return bad(item, "a loop of a call stores to what is no temporary of its own: buffer", to);
    return check_loop(c, item, loop);
}

static hn_status check_operands(hn_loop_checker *c, hn_item item, const hn_extern *ext) {
    for (uint32_t k = 0; k < ext->operand_count; k++) {
        hn_buf b = ext->operands[k].buffer;
        if (b >= c->p->buffers.count) return bad(item, "unknown operand", k);
        if (b && ext->operands[k].written) HN_TRY(write_to(c, item, b));
        else if (b && !is_written(c, b)) return bad(item, "operand read before it is written:", k);
    }
    return NULL;
}

static hn_status check_extern(hn_loop_checker *c, hn_item item, const hn_extern *ext) {
    HN_TRY(check_operands(c, item, ext));
    for (uint32_t k = 0; k < ext->loop_count; k++) {
        hn_buf to = ext->loops[k].store.buffer;
        bool is_last = k + 1 == ext->loop_count, is_result = to == ext->operands[0].buffer;
        if (is_last != is_result)
            return bad(item, "not the last loop alone stores the result of a call: loop", k);
        if (!is_last) c->written[to] = HN_BUFFER_INSIDE;
    }
    return NULL;
}

/* Conditionals: `then` opens, one `else`, `end` closes. */
static hn_status check_bracket(hn_loop_checker *c, hn_item item, hn_item_kind kind) {
    uint64_t bit = c->depth ? 1ull << (c->depth - 1) : 0;
    if (kind == HN_ITEM_BRANCH_THEN) {
        if (c->depth == 64) return bad(item, "conditionals are nested too deep:", c->depth);
        c->else_seen &= ~(1ull << c->depth);
        c->is_loop &= ~(1ull << c->depth++);
        return NULL;
    }
    if (!bit || c->is_loop & bit) return bad(item, "'else' or 'end' without 'then' at item", item);
    if (kind == HN_ITEM_BRANCH_END) c->depth--;
    else if (c->else_seen & bit) return bad(item, "a second 'else' at item", item);
    else c->else_seen |= bit;
    return NULL;
}

/* Loops: `repeat` opens, one `while` unless the rounds are known, `again` closes. `else_seen` says
 * that a `while` was there, or that there is none. */
static hn_status check_repeat(hn_loop_checker *c, hn_item i, const hn_item_info *item) {
    uint64_t bit = c->depth ? 1ull << (c->depth - 1) : 0;
    if (item->kind == HN_ITEM_REPEAT) {
        if (c->depth == 64) return bad(i, "loops are nested too deep:", c->depth);
        c->is_loop |= 1ull << c->depth;
        c->else_seen &= ~(1ull << c->depth);
        if (item->rounds) c->else_seen |= 1ull << c->depth;
        c->depth++;
        return NULL;
    }
    if (!(c->is_loop & bit)) return bad(i, "'while' or 'again' without 'repeat' at item", i);
    if (item->kind == HN_ITEM_WHILE) {
        if (c->else_seen & bit)
            return bad(i, "a 'while' of a loop that has one or counts, item", i);
        c->else_seen |= bit;
        return NULL;
    }
    if (!(c->else_seen & bit)) return bad(i, "a loop without rounds or 'while' ends at item", i);
    c->depth--;
    return NULL;
}

static hn_status check_copy(hn_loop_checker *c, hn_item i, const hn_item_info *item) {
    if (!buffer_of(c, item->to)) return bad(i, "unknown buffer", item->to);
    const hn_buffer *to = &c->p->buffers.items[item->to], *from = &c->p->buffers.items[item->cond];
    if (to->dtype != from->dtype || to->extent != from->extent)
        return bad(i, "a copy between buffers that differ, item", i);
    return write_to(c, i, item->to);
}

static bool is_of_repeat(hn_item_kind kind) {
    return kind == HN_ITEM_REPEAT || kind == HN_ITEM_WHILE || kind == HN_ITEM_AGAIN;
}

hn_status hn_loop_check_item(hn_loop_checker *c, hn_item i) {
    const hn_item_info *item = &c->p->items.items[i];
    if (item->kind == HN_ITEM_LOOP) return check_loop(c, i, item->loop);
    if (item->kind == HN_ITEM_EXTERN) return check_extern(c, i, item->ext);
    bool bracket = item->kind == HN_ITEM_BRANCH_ELSE || item->kind == HN_ITEM_BRANCH_END ||
                   item->kind == HN_ITEM_REPEAT || item->kind == HN_ITEM_AGAIN;
    if (!bracket) {
        if (!buffer_of(c, item->cond)) return bad(i, "unknown buffer", item->cond);
        if (!is_written(c, item->cond))
            return bad(i, "condition read before it is written: buffer", item->cond);
    }
    if (item->kind == HN_ITEM_DEFINE && !item->symbol)
        return bad(i, "a definition without a symbol at", i);
    if (item->kind == HN_ITEM_COPY) return check_copy(c, i, item);
    if (is_of_repeat(item->kind)) return check_repeat(c, i, item);
    return bracket || item->kind == HN_ITEM_BRANCH_THEN ? check_bracket(c, i, item->kind) : NULL;
}

hn_status hn_loop_check_end(const hn_loop_checker *c) {
    if (c->depth) return HN_ERROR(HN_INTERNAL, "loop IR: a conditional or loop has no end");
    for (hn_buf b = 1; b < c->p->buffers.count; b++)
        if ((uint32_t)c->p->buffers.items[b].device >= HN_DEVICE_KIND_COUNT)
            return HN_ERROR(HN_INTERNAL, "loop IR: buffer %u is on no known device", b);
    for (uint32_t k = 0; k < c->p->results.count; k++) {
        hn_buf b = c->p->results.items[k].buffer;
        if (!buffer_of(c, b) || !is_written(c, b))
            return HN_ERROR(HN_INTERNAL, "loop IR: result %u is never written", k);
    }
    return NULL;
}

static hn_status verify_body(const hn_loop_checker *c, hn_item i, const hn_loop *loop) {
    for (hn_sid s = 1; s < loop->body.count; s++) HN_TRY(hn_loop_check_sop(c, i, loop, s));
    return NULL;
}

static hn_status verify_item(hn_loop_checker *c, hn_item i) {
    const hn_item_info *item = &c->p->items.items[i];
    if (item->kind == HN_ITEM_LOOP) HN_TRY(verify_body(c, i, item->loop));
    for (uint32_t k = 0; item->kind == HN_ITEM_EXTERN && k < item->ext->loop_count; k++) {
        HN_TRY(verify_body(c, i, &item->ext->loops[k]));
        HN_TRY(hn_loop_check_of_call(c, i, item->ext, k));
    }
    return hn_loop_check_item(c, i);
}

hn_status hn_program_verify(const hn_program *p) {
    hn_loop_checker c;
    hn_status status = hn_loop_checker_init(&c, p);
    for (hn_item i = 1; i < p->items.count && !status; i++) status = verify_item(&c, i);
    if (!status) status = hn_loop_check_end(&c);
    hn_loop_checker_deinit(&c);
    return status;
}
