/* alike.c: see alike.h. Two kernels are alike when all that planners look at is equal but for the
 * names of buffers and, of a flat kernel whose indices go along its one dimension, the extent. */
#include "sched/alike.h"

typedef struct writer {
    sched *s;
    alike *out;
    struct {
        uint32_t *items;
        uint32_t count, cap;
    } words;
    /* different ones, few in most kernels: accesses, at each of which an argument may begin; and
     * symbols of sizes */
    struct {
        uint64_t *items;
        uint32_t count, cap;
    } accesses, symbols;
} writer;

static hn_status put(writer *w, uint32_t word) {
    HN_PUSH(w->s->scratch, &w->words, word);
    return NULL;
}

static hn_status put_long(writer *w, int64_t number) {
    HN_TRY(put(w, (uint32_t)(uint64_t)number));
    return put(w, (uint32_t)((uint64_t)number >> 32));
}

/* What planners know of a buffer beside its number. */
static hn_status put_buffer_facts(writer *w, hn_buf b) {
    const hn_program *p = w->s->p;
    const hn_buffer *buffer = &p->buffers.items[b];
    HN_TRY(put(w, buffer->dtype));
    HN_TRY(put(w, buffer->device));
    HN_TRY(put(w, buffer->kind == HN_BUFFER_INPUT));
    return put_long(w, buffer->kind == HN_BUFFER_INPUT ? hn_program_begin_of(p, b) : 0);
}

static hn_status put_buffer(writer *w, hn_buf b) {
    uint32_t number = 0;
    while (number < w->out->buffers.count && w->out->buffers.items[number] != b) number++;
    HN_TRY(put(w, number));
    if (number < w->out->buffers.count) return NULL;
    HN_PUSH(w->s->scratch, &w->out->buffers, b);
    return put_buffer_facts(w, b);
}

static hn_status note_symbols(writer *w, hn_expr e) {
    enum { MOST = 16 };
    hn_expr symbols[MOST];
    const uint32_t count = hn_sym_symbols(w->s->sym, e, symbols, MOST);
    for (uint32_t k = 0; k < count && k < MOST; k++) {
        uint32_t at = 0;
        if (hn_sym_symbol_kind(w->s->sym, symbols[k]) != HN_SYMBOL_SIZE) continue;
        while (at < w->symbols.count && w->symbols.items[at] != symbols[k]) at++;
        if (at == w->symbols.count) HN_PUSH(w->s->scratch, &w->symbols, symbols[k]);
    }
    return NULL;
}

enum { INDEX_NONE, INDEX_ITSELF, INDEX_VARIABLE, INDEX_ALONG };

/* An index along the one dimension without its extent; any other as it is. */
static hn_status put_index(writer *w, hn_expr e) {
    hn_expr var = w->out->var, step, rest;
    if (!e) return put(w, INDEX_NONE);
    if (e == var) return put(w, INDEX_VARIABLE);
    HN_TRY(note_symbols(w, e));
    const bool goes_along = var && hn_sym_uses(w->s->sym, e, var);
    if (!goes_along || !hn_sym_affine(w->s->sym, e, var, &step, &rest)) {
        HN_TRY(put(w, INDEX_ITSELF));
        return put(w, e);
    }
    HN_TRY(put(w, INDEX_ALONG));
    HN_TRY(put(w, step));
    return put(w, rest);
}

static hn_status put_access(writer *w, hn_buf b, hn_expr index) {
    const uint64_t access = (uint64_t)b << 32 | index;
    uint32_t at = 0;
    while (at < w->accesses.count && w->accesses.items[at] != access) at++;
    if (at == w->accesses.count) HN_PUSH(w->s->scratch, &w->accesses, access);
    HN_TRY(put_buffer(w, b));
    return put_index(w, index);
}

static hn_status put_op(writer *w, const hn_sop *op) {
    HN_TRY(put(w, op->kind));
    HN_TRY(put(w, op->op));
    HN_TRY(put(w, op->dtype));
    for (uint32_t k = 0; k < 3; k++) HN_TRY(put(w, op->args[k]));
    HN_TRY(put_long(w, op->imm.i));
    return op->kind == HN_SOP_LOAD ? put_access(w, op->buffer, op->index) : put_index(w, op->index);
}

static hn_status put_reduce(writer *w, const hn_kernel_reduce *r) {
    HN_TRY(put(w, r->op));
    HN_TRY(put(w, r->dtype));
    HN_TRY(put(w, r->value));
    HN_TRY(put_index(w, r->position));
    return put(w, r->slot);
}

static hn_status put_vars(writer *w, const hn_expr *vars, uint32_t count) {
    HN_TRY(put(w, count));
    for (uint32_t k = 0; k < count; k++) {
        HN_TRY(note_symbols(w, hn_sym_symbol_extent(w->s->sym, vars[k])));
        if (vars[k] != w->out->var) HN_TRY(put_index(w, vars[k]));
    }
    return NULL;
}

static hn_status put_phase(writer *w, const hn_kernel_phase *phase) {
    HN_TRY(put_vars(w, phase->vars, phase->rank));
    HN_TRY(put(w, phase->scan));
    HN_TRY(put(w, phase->body.count));
    for (hn_sid k = 1; k < phase->body.count; k++) HN_TRY(put_op(w, &phase->body.items[k]));
    HN_TRY(put(w, phase->stores.count));
    for (uint32_t k = 0; k < phase->stores.count; k++) {
        const hn_kernel_store *store = &phase->stores.items[k];
        HN_TRY(put_access(w, store->buffer, store->index));
        HN_TRY(put(w, store->value));
        HN_TRY(put(w, store->mode));
    }
    HN_TRY(put(w, phase->reduces.count));
    for (uint32_t k = 0; k < phase->reduces.count; k++)
        HN_TRY(put_reduce(w, &phase->reduces.items[k]));
    return NULL;
}

static bool is_of_vectors(const writer *w) {
    const int64_t elems = w->s->options->limits->segment_vector_elems;
    if (!elems || !w->out->var) return false;
    const hn_expr length = hn_sym_symbol_extent(w->s->sym, w->out->var);
    return hn_sym_divisor(w->s->sym, length) % elems == 0;
}

static hn_status put_kernel(writer *w, const hn_kernel *k) {
    HN_TRY(put(w, k->mode));
    HN_TRY(put(w, is_of_vectors(w)));
    HN_TRY(put_vars(w, k->vars, k->rank));
    HN_TRY(put(w, k->phases.count));
    for (uint32_t f = 0; f < k->phases.count; f++) HN_TRY(put_phase(w, &k->phases.items[f]));
    return NULL;
}

/* Not kernels whose threads may meet, or have memory of their own, nor those that check indices: an
 * error names the step. */
static bool may_be_segment(const hn_kernel *k) {
    if (k->serial || k->slabs || k->locals.count) return false;
    for (uint32_t f = 0; f < k->phases.count; f++) {
        const hn_body *body = &k->phases.items[f].body;
        for (hn_sid s = 1; s < body->count; s++)
            if (body->items[s].kind == HN_SOP_INDIRECT) return false;
    }
    return true;
}

hn_status alike_of(sched *s, const hn_kernel *k, alike *out) {
    writer w = {.s = s, .out = out};
    *out = (alike){0};
    if (!may_be_segment(k)) return NULL;
    if (k->mode == HN_VECTOR_FLAT) out->var = k->phases.items[0].vars[0];
    HN_TRY(put_kernel(&w, k));
    out->arguments = w.accesses.count + w.symbols.count + (out->var != 0);
    out->text = (hn_str){(const char *)w.words.items, w.words.count * sizeof *w.words.items};
    return NULL;
}
