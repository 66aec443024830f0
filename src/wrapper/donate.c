/* donate.c: what lies in the memory of inputs that the caller gives up.
 *
 * Behind the last line that mentions such an input, its bytes are free: outputs and temporaries
 * that begin later may lie there, one beside and one after the other. A kernel's result may even
 * take them in the line of the last use, by a REUSE line (reuse.c); then it lies at the beginning.
 *
 * First come outputs that fill at least half of the input, as they save memory in any case and hold
 * little that they do not need; then temporaries that are alive when most bytes are, largest first;
 * then others. Constant sizes are packed; of symbolic ones each must be proved to fit, and only one
 * is there at a time.
 *
 * Nothing is lost when the caller keeps the input: the runtime has other memory of this size
 * then. */
#include "wrapper/plan_impl.h"

#include <stdlib.h>

static const hn_winput *input_of(const hn_wrapper *w, hn_wbuf b) {
    const hn_wbuffer *f = &w->buffers.items[b];
    if (!b || f->kind != HN_WBUF_INPUT || f->source >= w->inputs.count) return NULL;
    return &w->inputs.items[f->source];
}

bool hn_wrapper_is_donated(const hn_wrapper *w, hn_wbuf b) {
    const hn_winput *in = input_of(w, b);
    return in && in->is_donated && in->buffer == b;
}

hn_expr hn_wrapper_input_bytes(const hn_wrapper *w, hn_wbuf b) {
    const hn_winput *in = input_of(w, b);
    if (!in || in->is_scalar) return 0;
    hn_expr step = hn_sym_int(w->sym, 1);
    for (uint32_t d = in->rank; d-- > 0;) {
        if (in->strides[d] != step && !hn_sym_is_value(w->sym, in->sizes[d], 1)) return 0;
        step = hn_sym_mul(w->sym, step, in->sizes[d]);
    }
    return hn_sym_mul(w->sym, step, hn_sym_int(w->sym, hn_dtype_facts(in->dtype)->size_bytes));
}

const char *hn_wrapper_donate_objection(const hn_wrapper *w, uint32_t input) {
    const hn_winput *in = &w->inputs.items[input];
    if (in->is_scalar) return "it is no tensor";
    for (uint32_t k = 0; k < w->outputs.count; k++)
        if (w->outputs.items[k].kind == HN_WOUTPUT_MUTATION &&
            w->outputs.items[k].target_input == (int32_t)input)
            return "the program changes it";
    if (!in->buffer) return NULL; /* nothing reads it */
    for (hn_wbuf b = 1; b < w->buffers.count; b++)
        if (w->buffers.items[b].kind == HN_WBUF_INPUT && w->buffers.items[b].source == input &&
            b != in->buffer)
            return "two devices read it";
    if (!hn_wrapper_input_bytes(w, in->buffer)) return "it is not contiguous";
    return NULL;
}

hn_status hn_wrapper_donate(hn_wrapper *w, uint32_t input) {
    const char *why = hn_wrapper_donate_objection(w, input);
    if (why)
        return HN_ERROR(HN_UNSUPPORTED,
                        "the memory of input '" HN_STR_FMT "' cannot be given up: %s",
                        HN_STR_ARG(w->inputs.items[input].name), why);
    w->inputs.items[input].is_donated = true;
    return NULL;
}

/* ---- the choice ---- */

/* Memory of one input. */
typedef struct donation {
    hn_wbuf input;
    uint32_t space, free_from; /* line */
    hn_expr bytes;
    struct {
        hn_plan_item *items;
        uint32_t count, cap;
    } list; /* what lies in it */
} donation;

typedef struct candidate {
    hn_wbuf root;
    int rank; /* 0: outputs; 1: alive at the peak; 2: others */
    int64_t bytes;
} candidate;

typedef struct candidate_list {
    candidate *items;
    uint32_t count;
} candidate_list;

static int by_rank(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return x->root < y->root ? -1 : x->root > y->root;
}

/* The line at which most bytes of temporaries of the device are alive, at the hints. */
static hn_status find_peak(const hn_planner *p, hn_device_kind device, uint32_t *out) {
    int64_t *delta, sum = 0, most = -1;
    HN_NEW(p->arena, delta, (size_t)p->w->lines.count + 2);
    for (hn_wbuf b = 1; b < p->w->buffers.count; b++) {
        const hn_wlife *life = &p->root_life[b];
        if (p->root_space[b] == HN_NO_SPACE || !life->used ||
            p->w->buffers.items[b].device != device)
            continue;
        const int64_t bytes = hn_sym_hint(p->sym, p->root_bytes[b], 0);
        delta[life->first] += bytes, delta[life->end + 1] -= bytes;
    }
    for (uint32_t i = 0; i <= p->w->lines.count; i++) {
        sum += delta[i];
        if (sum > most) most = sum, *out = i;
    }
    return NULL;
}

/* Outputs with memory of their own have no life yet. */
static hn_status note_outputs(hn_planner *p) {
    for (hn_wbuf b = 1; b < p->w->buffers.count; b++) {
        const hn_wbuffer *f = &p->w->buffers.items[b];
        if (f->kind != HN_WBUF_OUTPUT || p->root[b] != b || p->root_bytes[b] ||
            !p->lives.buffers[b].used || hn_wrapper_is_data(p->sym, f->bytes))
            continue;
        p->root_life[b] = p->lives.buffers[b];
        p->root_bytes[b] = f->bytes;
    }
    return NULL;
}

static hn_status list_candidates(hn_planner *p, candidate_list *out) {
    uint32_t peak[HN_DEVICE_KIND_COUNT] = {0}, count = 0;
    for (uint32_t d = 0; d < HN_DEVICE_KIND_COUNT; d++)
        HN_TRY(find_peak(p, (hn_device_kind)d, &peak[d]));
    HN_TRY(note_outputs(p));
    HN_NEW(p->arena, out->items, p->w->buffers.count);
    for (hn_wbuf b = 1; b < p->w->buffers.count; b++) {
        const hn_wlife *life = &p->root_life[b];
        const hn_wbuffer *f = &p->w->buffers.items[b];
        const bool is_output = f->kind == HN_WBUF_OUTPUT;
        if (!p->root_bytes[b] || !life->used || (!hn_wbuf_is_inner(f->kind) && !is_output))
            continue;
        const bool is_at_peak = life->first <= peak[f->device] && peak[f->device] <= life->end;
        const int rank = is_output ? 0 : is_at_peak ? 1 : 2;
        out->items[count++] = (candidate){b, rank, hn_sym_hint(p->sym, p->root_bytes[b], 0)};
    }
    if (count) qsort(out->items, count, sizeof *out->items, by_rank);
    out->count = count;
    return NULL;
}

static bool meets(const hn_plan_item *it, const hn_wlife *life) {
    return it->first <= life->end && life->first <= it->end;
}

static int by_place(const void *a, const void *b) {
    const hn_plan_item *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

/* The lowest place among items of constant sizes; -1: there is none below `limit`. */
static int64_t find_room(donation *d, const hn_wlife *life, int64_t bytes, int64_t limit) {
    int64_t at = 0;
    if (d->list.count) qsort(d->list.items, d->list.count, sizeof(hn_plan_item), by_place);
    for (uint32_t k = 0; k < d->list.count; k++) {
        const hn_plan_item *it = &d->list.items[k];
        if (!meets(it, life) || it->at + it->units <= at) continue;
        if (it->at >= at + bytes) break;
        at = it->at + it->units;
    }
    return at + bytes <= limit ? at : -1;
}

/* Where a buffer of `need` bytes lies in the memory; -1: nowhere. */
static int64_t find_place(const hn_planner *p, donation *d, const hn_wlife *life, hn_expr need,
                          int64_t *out_units) {
    int64_t bytes, have;
    if (life->first <= d->free_from) return -1;
    if (hn_sym_is_int(p->sym, need, &bytes) && hn_sym_is_int(p->sym, d->bytes, &have)) {
        if (!hn_plan_round_up(bytes, out_units)) return -1;
        const int64_t at = find_room(d, life, *out_units, have + HN_PLAN_ALIGN - 1);
        return at >= 0 && at + bytes <= have ? at : -1;
    }
    if (need != d->bytes && !hn_sym_prove_le(p->sym, need, d->bytes)) return -1;
    for (uint32_t k = 0; k < d->list.count; k++)
        if (meets(&d->list.items[k], life)) return -1;
    *out_units = INT64_MAX / 2;
    return 0;
}

static hn_status put(hn_planner *p, donation *d, hn_wbuf root, int64_t at, int64_t units) {
    const hn_wlife *life = &p->root_life[root];
    const hn_plan_item it = {
        .buffer = root, .first = life->first, .end = life->end, .units = units, .at = at};
    HN_PUSH(p->arena, &d->list, it);
    p->root_at[root] = hn_sym_int(p->sym, at);
    p->root_space[root] = d->space;
    return NULL;
}

/* The last line that may read an input: a body that mentions it may run again. */
uint32_t hn_wrapper_input_end(const hn_wlives *lives, hn_wbuf input) {
    const hn_wlife *life = &lives->buffers[input];
    uint32_t end = life->end;
    if (!life->used) return 0;
    for (uint32_t b = life->block; b; b = lives->blocks.items[b].parent)
        end = lives->line_end[lives->blocks.items[b].line];
    return end;
}

static hn_status open_donation(hn_planner *p, hn_wbuf input, donation *out) {
    *out = (donation){.input = input,
                      .space = p->spaces.count,
                      .free_from = hn_wrapper_input_end(&p->lives, input),
                      .bytes = hn_wrapper_input_bytes(p->w, input)};
    HN_PUSH(p->arena, &p->spaces,
            ((hn_plan_space){
                .bytes = out->bytes, .device = p->w->buffers.items[input].device, .input = input}));
    if (p->root_life[input].used) /* what REUSE lines have joined with it */
        HN_TRY(put(p, out, input, 0, INT64_MAX / 2));
    return NULL;
}

static hn_status fill(hn_planner *p, donation *d, const candidate_list *list) {
    const int64_t have = hn_sym_hint(p->sym, d->bytes, 0);
    const hn_device_kind device = p->spaces.items[d->space].device;
    for (uint32_t k = 0; k < list->count; k++) {
        const candidate *c = &list->items[k];
        const hn_wbuf root = c->root;
        int64_t units = 0;
        if (p->root_at[root] || p->w->buffers.items[root].device != device ||
            (c->rank == 0 && c->bytes < have / 2))
            continue;
        const int64_t at = find_place(p, d, &p->root_life[root], p->root_bytes[root], &units);
        if (at >= 0) HN_TRY(put(p, d, root, at, units));
    }
    return NULL;
}

hn_status hn_plan_donate(hn_planner *p) {
    candidate_list list = {0};
    bool is_listed = false;
    for (uint32_t k = 0; k < p->w->inputs.count; k++) {
        const hn_wbuf input = p->w->inputs.items[k].buffer;
        donation d;
        if (!hn_wrapper_is_donated(p->w, input) || !hn_wrapper_input_bytes(p->w, input)) continue;
        if (!is_listed) HN_TRY(list_candidates(p, &list));
        is_listed = true;
        HN_TRY(open_donation(p, input, &d));
        if (p->options->pool != HN_POOL_NONE) HN_TRY(fill(p, &d, &list));
    }
    /* Outputs that found no place have memory of their own. */
    for (hn_wbuf b = 1; is_listed && b < p->w->buffers.count; b++)
        if (!p->root_at[b] && p->root_space[b] == HN_NO_SPACE) p->root_life[b].used = false;
    return NULL;
}
