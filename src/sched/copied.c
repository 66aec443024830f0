/* copied.c: a call writes its result where a loop would copy it to: heads beside each other, a part
 * of a concatenation.
 *
 *   matmul(out b4, b1, b2)                        matmul(out b5 + 8, b1, b2)
 *   pointwise: b5[8 + i0] = b4[i0]           ->
 *
 * The loop must walk the whole result, and memory by strides that the call has parameters for. */
#include "sched/calls.h"

#include "base/compiler.h"

static hn_sym *sym_of(const calls *c) { return c->s->sym; }

/* ---- places ---- */

static bool is_known(const calls *c, hn_item i, hn_expr e, hn_item reader) {
    for (hn_item k = i + 1; k < reader; k++) {
        const hn_item_info *item = calls_item(c, k);
        if (item->kind == HN_ITEM_DEFINE && hn_sym_uses(sym_of(c), e, item->symbol)) return false;
    }
    return true;
}

bool calls_knows_place(const calls *c, hn_item i, const call_space *space, const call_side *side,
                       hn_item reader) {
    bool known = is_known(c, i, side->offset, reader);
    for (uint32_t d = 0; d < space->count; d++)
        known = known && is_known(c, i, side->strides[d], reader);
    return known;
}

void calls_put_strides(const calls *c, const call_space *space, const hn_expr *strides,
                       hn_expr *out) {
    for (uint32_t d = 0; d < space->count; d++)
        out[d] = hn_sym_is_value(sym_of(c), space->extents[d], 1) ? space->strides[d] : strides[d];
}

/* Whether elements that are neighbours in memory are so in the new place as well. */
static bool keeps_rows(const calls *c, const call_space *space, const hn_expr *strides) {
    for (uint32_t d = 0; d < space->count; d++)
        if (hn_sym_is_value(sym_of(c), space->strides[d], 1) &&
            !hn_sym_is_value(sym_of(c), space->extents[d], 1) &&
            !hn_sym_is_value(sym_of(c), strides[d], 1))
            return false;
    return true;
}

/* ---- the copy ---- */

static hn_buf buffer_of(const calls *c, const call_result *r) {
    return calls_item(c, r->i)->ext->operands[r->operand].buffer;
}

/* The loop that alone reads the result, and only copies it; NULL: there is none. */
static const hn_loop *copy_of(const calls *c, const call_result *r) {
    const use *u = &c->uses[buffer_of(c, r)];
    if (u->readers != 1 || u->writers != 1 || c->region[u->reader[0]] != c->region[r->i])
        return NULL;
    const hn_item_info *item = calls_item(c, u->reader[0]);
    const bool is_copy = item->kind == HN_ITEM_LOOP && item->loop->kind == HN_LOOP_POINTWISE &&
                         item->loop->store.mode == HN_STORE_SET && item->loop->body.count == 2 &&
                         item->loop->body.items[1].kind == HN_SOP_LOAD;
    return is_copy ? item->loop : NULL;
}

static bool reads(const hn_extern *call, hn_buf b) {
    for (uint32_t k = 0; k < call->operand_count; k++)
        if (call->operands[k].buffer == b && !call->operands[k].written) return true;
    return false;
}

static bool loop_touches(const hn_loop *loop, hn_buf b) {
    if (loop->store.buffer == b || loop->indices.buffer == b) return true;
    for (hn_sid k = 1; k < loop->body.count; k++)
        if (loop->body.items[k].kind == HN_SOP_LOAD && loop->body.items[k].buffer == b) return true;
    return false;
}

static bool touches(const hn_item_info *item, hn_buf b) {
    if (item->to == b || item->cond == b) return true;
    if (item->kind == HN_ITEM_LOOP) return loop_touches(item->loop, b);
    for (uint32_t k = 0; item->kind == HN_ITEM_EXTERN && k < item->ext->operand_count; k++)
        if (item->ext->operands[k].buffer == b) return true;
    return false;
}

/* The call does not read `to`, and nothing touches it between the call and the copy. */
static bool is_next_writer(const calls *c, hn_item i, hn_buf to, hn_item copy) {
    enum { ITEMS_MAX = 64 }; /* so far apart they are not looked at */
    if (reads(calls_item(c, i)->ext, to)) return false;
    if (c->uses[to].writers == 1) return true;
    if (copy - i > ITEMS_MAX) return false;
    for (hn_item k = i + 1; k < copy; k++)
        if (!c->dead[k] && touches(calls_item(c, k), to)) return false;
    return true;
}

/* Where the copy lies, by the dimensions of the call; false: it has no parameters for that. */
static hn_status find_place(const calls *c, const call_result *r, const hn_loop *copy,
                            call_side *out, bool *out_found) {
    loop_access by, what;
    hn_loop cut;
    *out_found = false;
    HN_TRY(loop_cut(c->s, copy, r->space.extents, r->space.count, &cut));
    if (!loop_access_of(c->s, &cut, cut.body.items[1].index, &by) ||
        !loop_access_of(c->s, &cut, cut.store.index, &what) ||
        !loop_strides_of(c->s, &r->space, &cut, &by, &what, out->strides, NULL))
        return NULL;
    out->buffer = copy->store.buffer;
    out->offset = what.rest;
    *out_found = !r->keeps_rows || keeps_rows(c, &r->space, out->strides);
    return NULL;
}

static hn_status take(calls *c, const call_result *r, const call_side *place) {
    hn_extern *call = calls_item(c, r->i)->ext;
    use *u = &c->uses[buffer_of(c, r)];
    const hn_item copy = u->reader[0];
    const uint32_t origin = calls_item(c, copy)->loop->body.items[1].origin;
    calls_put_strides(c, &r->space, place->strides, &call->params[r->strides]);
    call->operands[r->operand] = (struct hn_extern_operand){
        .buffer = place->buffer, .offset_elems = place->offset, .written = true};
    c->dead[copy] = true;
    if (c->uses[place->buffer].writers == 1) c->uses[place->buffer].writer = r->i;
    *u = (use){0};
    return hn_origins_add(c->s->arena, &call->origins, origin);
}

hn_status calls_take_copy(calls *c, const call_result *r, bool *out_taken) {
    const hn_loop *copy = copy_of(c, r);
    const hn_buffer *buffers = c->s->p->buffers.items, *result = &buffers[buffer_of(c, r)];
    call_side place = {0};
    *out_taken = false;
    if (!copy || buffers[copy->store.buffer].dtype != result->dtype) return NULL;
    const hn_item at = c->uses[buffer_of(c, r)].reader[0];
    if (!is_next_writer(c, r->i, copy->store.buffer, at)) return NULL;
    HN_TRY(find_place(c, r, copy, &place, out_taken));
    *out_taken =
        *out_taken && calls_knows_place(c, r->i, &r->space, &place, at) &&
        sched_allows(c->s, HN_SCHED_COPIED, calls_item(c, r->i)->origin, calls_item(c, at)->origin);
    if (!*out_taken) return NULL;
    sched_done(c->s, HN_SCHED_COPIED);
    return take(c, r, &place);
}

/* ---- calls without epilogues ---- */

/* Results of attention and of its gradients: the parameters that are their sizes and strides. */
static const struct {
    hn_extern_kind kind;
    uint32_t operand, heads, rows, columns, strides;
} results[] = {
    {HN_EXTERN_ATTENTION, 0, HN_ATTENTION_BATCH + 1, HN_ATTENTION_M, HN_ATTENTION_DV,
     HN_ATTENTION_OUT},
    {HN_EXTERN_ATTENTION_BACKWARD, 0, HN_ATTENTION_BATCH + 1, HN_ATTENTION_M, HN_ATTENTION_D,
     HN_ATTENTION_BACKWARD_D_Q},
    {HN_EXTERN_ATTENTION_BACKWARD, 1, HN_ATTENTION_KV_HEADS, HN_ATTENTION_N, HN_ATTENTION_D,
     HN_ATTENTION_BACKWARD_D_K},
    {HN_EXTERN_ATTENTION_BACKWARD, 2, HN_ATTENTION_KV_HEADS, HN_ATTENTION_N, HN_ATTENTION_DV,
     HN_ATTENTION_BACKWARD_D_V},
};

hn_status calls_take_copies(calls *c, hn_item i, const hn_operation *o) {
    const hn_extern *call = calls_item(c, i)->ext;
    const hn_expr *p = call->params;
    bool ignored;
    if (!(o->does & HN_DOES_STRIDES)) return NULL;
    for (size_t k = 0; k < HN_COUNT_OF(results); k++) {
        if (results[k].kind != call->kind) continue;
        call_result r = {.i = i,
                         .operand = results[k].operand,
                         .strides = results[k].strides,
                         .keeps_rows = true,
                         .space = {.count = 4,
                                   .extents = {p[HN_ATTENTION_BATCH], p[results[k].heads],
                                               p[results[k].rows], p[results[k].columns]},
                                   .offset = call->operands[results[k].operand].offset_elems}};
        for (uint32_t d = 0; d < 4; d++) r.space.strides[d] = p[results[k].strides + d];
        if (c->s->p->buffers.items[buffer_of(c, &r)].kind == HN_BUFFER_TEMP)
            HN_TRY(calls_take_copy(c, &r, &ignored));
    }
    return NULL;
}
