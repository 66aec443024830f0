/* foreach.c: kernels that do the same to other memory become one kernel of several segments.
 *
 * An optimiser updates each parameter by a kernel of its own, most of them too small for a launch
 * and for several threads. All of them do the same, to other buffers and, where memory is walked as
 * one row, of other lengths. One kernel does them all, and threads share the sum of the work.
 *
 * Steps are taken in order. A step joins the last ones that do the same if nothing from there on
 * makes what it reads or uses what it writes: then it runs earlier. So no step waits, and only
 * results may live longer, few of them (segment_waiting_bytes). One walk over the steps, with one
 * question of a map for each: linear.
 *
 * Requires planned steps. Establishes: segments do not depend on each other.
 *
 *     step 1: b5 = f(b1)   length 768         step 1: b5 = f(b1), b6 = f(b2)   lengths 768, 2304
 *     step 2: b6 = f(b2)   length 2304   ->   step 2: b7 = g(b5)
 *     step 3: b7 = g(b5) */
#include "sched/alike.h"

#include <string.h>

/* Steps that become one, at the place of the first. */
typedef struct batch {
    uint32_t arguments; /* of a member */
    hn_expr var;        /* of the first */
    struct {
        uint32_t *items;
        uint32_t count, cap;
    } steps;
} batch;

typedef struct joining {
    sched *s;
    alike *alike;       /* per step */
    uint32_t *batch_of; /* per step: 1 + the batch that it is the first of; */
    bool *has_joined;   /* it is another one of a batch */
    uint32_t *writer;   /* per buffer: 1 + the newest step that writes it, as it runs now, */
    uint32_t *reader;   /* and reads it */
    uint32_t barrier;   /* no step from here on may run earlier than this one */
    hn_strmap last;     /* alike.text -> the batch that steps may join */
    hn_step *kept;      /* the steps that are left */
    struct {
        batch *items;
        uint32_t count, cap;
    } batches;
} joining;

static const hn_kernel *kernel_of(const joining *x, uint32_t step) {
    return x->s->out->steps.items[step].kernel;
}

/* ---- what depends on what ---- */

/* Calls `use` for each access of memory by a step. */
typedef void (*use_fn)(joining *x, hn_buf b, bool writes, uint32_t *at);

static void use_kernel(joining *x, const hn_kernel *k, use_fn use, uint32_t *at) {
    for (uint32_t f = 0; f < k->phases.count; f++) {
        const hn_kernel_phase *phase = &k->phases.items[f];
        for (hn_sid s = 1; s < phase->body.count; s++)
            if (phase->body.items[s].kind == HN_SOP_LOAD)
                use(x, phase->body.items[s].buffer, false, at);
        for (uint32_t s = 0; s < phase->stores.count; s++)
            use(x, phase->stores.items[s].buffer, true, at);
        for (uint32_t s = 0; s < phase->columns.count; s++)
            use(x, phase->columns.items[s].buffer, true, at);
    }
}

static void use_item(joining *x, const hn_item_info *item, use_fn use, uint32_t *at) {
    if (item->cond) use(x, item->cond, false, at);
    if (item->to) use(x, item->to, true, at);
    for (uint32_t k = 0; item->kind == HN_ITEM_EXTERN && k < item->ext->operand_count; k++)
        if (item->ext->operands[k].buffer)
            use(x, item->ext->operands[k].buffer, item->ext->operands[k].written, at);
}

/* *at: 1 + the newest step that the access has to come after. */
static void need(joining *x, hn_buf b, bool writes, uint32_t *at) {
    if (x->writer[b] > *at) *at = x->writer[b];
    if (writes && x->reader[b] > *at) *at = x->reader[b];
}

/* The access is made by step *at. */
static void note(joining *x, hn_buf b, bool writes, uint32_t *at) {
    uint32_t *newest = &(writes ? x->writer : x->reader)[b];
    if (*newest <= *at) *newest = *at + 1;
}

/* Bytes of results that others read later. */
static int64_t waiting_bytes(const joining *x, const hn_kernel *k) {
    const hn_program *p = x->s->p;
    int64_t bytes = 0;
    for (uint32_t f = 0; f < k->phases.count; f++)
        for (uint32_t s = 0; s < k->phases.items[f].stores.count; s++) {
            const hn_buffer *b = &p->buffers.items[k->phases.items[f].stores.items[s].buffer];
            if (b->kind == HN_BUFFER_TEMP)
                bytes +=
                    hn_sym_hint(p->sym, b->extent, 1 << 20) * hn_dtype_facts(b->dtype)->size_bytes;
        }
    return bytes;
}

/* ---- joining ---- */

/* One more argument for each: where the segment ends. */
static bool has_room(const joining *x, const batch *b) {
    const uint64_t all = (uint64_t)(b->steps.count + 1) * (b->arguments + 1);
    return all <= x->s->options->limits->segment_arguments_max;
}

static hn_status start_batch(joining *x, uint32_t step) {
    const alike *own = &x->alike[step];
    batch b = {.arguments = own->arguments, .var = own->var};
    HN_PUSH(x->s->scratch, &b.steps, step);
    HN_PUSH(x->s->scratch, &x->batches, b);
    x->batch_of[step] = x->batches.count;
    return hn_strmap_put(&x->last, own->text, x->batches.count - 1);
}

/* `*step` becomes the one with which it runs now. */
static hn_status place_kernel(joining *x, uint32_t *step) {
    const hn_kernel *k = kernel_of(x, *step);
    HN_TRY(alike_of(x->s, k, &x->alike[*step]));
    const hn_str text = x->alike[*step].text;
    if (!text.len) return NULL;
    const uint64_t *known = hn_strmap_get(&x->last, text);
    batch *b = known ? &x->batches.items[*known] : NULL;
    uint32_t needed = x->barrier;
    use_kernel(x, k, need, &needed);
    if (!b || needed > b->steps.items[0] || !has_room(x, b) ||
        waiting_bytes(x, k) > x->s->options->limits->segment_waiting_bytes ||
        !sched_allows(x->s, HN_SCHED_ALIKE, k->origin, kernel_of(x, b->steps.items[0])->origin))
        return start_batch(x, *step);
    HN_PUSH(x->s->scratch, &b->steps, *step);
    x->has_joined[*step] = true;
    sched_done(x->s, HN_SCHED_ALIKE);
    *step = b->steps.items[0];
    return NULL;
}

static hn_status place_step(joining *x, uint32_t k) {
    const hn_step *step = &x->s->out->steps.items[k];
    if (step->kind == HN_STEP_KERNEL) {
        uint32_t at = k;
        HN_TRY(place_kernel(x, &at));
        use_kernel(x, step->kernel, note, &at);
        return NULL;
    }
    const hn_item_info *item = &x->s->p->items.items[step->item];
    use_item(x, item, note, &k);
    if (item->kind != HN_ITEM_EXTERN) x->barrier = k + 1;
    return NULL;
}

/* ---- the kernel of a batch ---- */

static int64_t common_divisor(int64_t a, int64_t b) {
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static hn_expr length_of(const joining *x, uint32_t step) {
    const hn_expr var = x->alike[step].var;
    return var ? hn_sym_symbol_extent(x->s->sym, var) : 0;
}

/* A symbol for the lengths of all segments; 0: they are the same. Its hint is the sum, so that plans
 * are those of a kernel that does all of the work. */
static hn_expr common_length(const joining *x, const batch *b) {
    enum { LINE_ELEMS = 64 }; /* a larger divisor helps nobody, and makes more texts */
    hn_sym *sym = x->s->sym;
    int64_t lo = INT64_MAX, hi = 0, divisor = LINE_ELEMS, hint = 0;
    bool differ = false;
    for (uint32_t k = 0; k < b->steps.count && b->var; k++) {
        const hn_expr length = length_of(x, b->steps.items[k]);
        int64_t least, most;
        hn_sym_range(sym, length, &least, &most);
        if (least < lo) lo = least;
        if (most > hi) hi = most;
        divisor = common_divisor(divisor, hn_sym_divisor(sym, length));
        const int64_t likely = hn_sym_hint(sym, length, 1024);
        hint = likely > INT64_MAX - hint ? INT64_MAX : hint + likely;
        differ |= length != length_of(x, b->steps.items[0]);
    }
    if (!differ) return 0;
    const hn_expr symbol = hn_sym_fresh(sym, "length", HN_SYMBOL_SIZE, lo < 0 ? 0 : lo, hi);
    if (divisor > 1) hn_sym_assume_divisor(sym, symbol, divisor);
    hn_sym_set_hint(sym, symbol, hint);
    return symbol;
}

/* The one phase over another variable. */
static hn_status renamed(sched *s, const hn_kernel_phase *from, hn_expr var, hn_expr to,
                         hn_kernel_phase *out) {
    *out = *from;
    out->vars[0] = to;
    HN_NEW(s->arena, out->body.items, from->body.count);
    HN_NEW(s->arena, out->stores.items, from->stores.count);
    for (hn_sid k = 1; k < from->body.count; k++) {
        hn_sop *op = &out->body.items[k];
        *op = from->body.items[k];
        if (op->index) op->index = hn_sym_subst(s->sym, op->index, &var, &to, 1);
    }
    for (uint32_t k = 0; k < from->stores.count; k++) {
        hn_kernel_store *store = &out->stores.items[k];
        *store = from->stores.items[k];
        store->index = hn_sym_subst(s->sym, store->index, &var, &to, 1);
    }
    return NULL;
}

static hn_status set_length(joining *x, const batch *b, hn_kernel *k) {
    hn_sym *sym = x->s->sym;
    const hn_kernel_phase *from = &k->phases.items[0];
    k->segment_length = common_length(x, b);
    if (!k->segment_length) return NULL;
    const hn_expr to = hn_sym_index(sym, hn_sym_index_ordinal(sym, b->var), k->segment_length);
    HN_NEW(x->s->arena, k->phases.items, 1);
    k->phases.cap = 1;
    return renamed(x->s, from, b->var, to, &k->phases.items[0]);
}

static hn_status add_segment(joining *x, uint32_t step, hn_kernel *k) {
    const alike *own = &x->alike[step];
    const hn_kernel *alone = kernel_of(x, step);
    hn_kernel_segment segment = {.length = length_of(x, step), .alone = alone};
    hn_buf *buffers;
    HN_NEW(x->s->arena, buffers, own->buffers.count);
    if (own->buffers.count)
        memcpy(buffers, own->buffers.items, own->buffers.count * sizeof *buffers);
    segment.buffers = buffers;
    HN_PUSH(x->s->arena, &k->segments, segment);
    memcpy(&k->loops[k->loop_count], alone->loops, alone->loop_count * sizeof *alone->loops);
    k->loop_count += alone->loop_count;
    for (uint32_t o = 0; o < alone->origins.count; o++)
        HN_TRY(hn_origins_add(x->s->arena, &k->origins, alone->origins.items[o]));
    return NULL;
}

/* What its members have in common, then each of them. */
static hn_status make_kernel(joining *x, const batch *b, hn_kernel **out) {
    const hn_kernel *first = kernel_of(x, b->steps.items[0]);
    uint32_t loops = 0;
    hn_kernel *k;
    HN_NEW(x->s->arena, k, 1);
    *k = *first;
    k->origins.items = NULL;
    k->origins.count = k->origins.cap = 0;
    HN_TRY(set_length(x, b, k));
    for (uint32_t m = 0; m < b->steps.count; m++)
        loops += kernel_of(x, b->steps.items[m])->loop_count;
    HN_NEW(x->s->arena, k->loops, loops);
    k->loop_count = 0;
    for (uint32_t m = 0; m < b->steps.count; m++) HN_TRY(add_segment(x, b->steps.items[m], k));
    k->segment_buffers = k->segments.items[0].buffers;
    k->segment_buffer_count = x->alike[b->steps.items[0]].buffers.count;
    *out = k;
    return NULL;
}

/* ---- the whole ---- */

static hn_status rewrite_steps(joining *x) {
    hn_schedule *out = x->s->out;
    uint32_t count = 0;
    for (uint32_t k = 0; k < out->steps.count; k++) {
        hn_step step = out->steps.items[k];
        const batch *b = x->batch_of[k] ? &x->batches.items[x->batch_of[k] - 1] : NULL;
        if (b && b->steps.count > 1) HN_TRY(make_kernel(x, b, &step.kernel));
        if (!x->has_joined[k]) x->kept[count++] = step;
    }
    memcpy(out->steps.items, x->kept, count * sizeof *x->kept);
    out->steps.count = count;
    return NULL;
}

hn_status sched_foreach(sched *s) {
    const uint32_t steps = s->out->steps.count, buffers = s->p->buffers.count;
    joining x = {.s = s};
    if (!s->options->limits->segment_arguments_max || s->options->no_fusion || steps < 2)
        return NULL;
    HN_NEW(s->scratch, x.alike, steps);
    HN_NEW(s->scratch, x.batch_of, steps);
    HN_NEW(s->scratch, x.has_joined, steps);
    HN_NEW(s->scratch, x.kept, steps);
    HN_NEW(s->scratch, x.writer, buffers);
    HN_NEW(s->scratch, x.reader, buffers);
    hn_strmap_init(&x.last, s->scratch);
    for (uint32_t k = 0; k < steps; k++) HN_TRY(place_step(&x, k));
    HN_TRY(rewrite_steps(&x));
    return hn_sym_status(s->sym);
}
