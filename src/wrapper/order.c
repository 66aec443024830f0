/* order.c: puts lines that do not depend on each other into an order with a lower peak.
 *
 *   call k1(b1 f32, out b2 f32)                 call k2(b1 f32, out b3 f32)
 *   call k2(b1 f32, out b3 f32)           ->    ... lines that use b3, but not b2
 *   ... lines that use b3, but not b2           call k1(b1 f32, out b2 f32)
 *   call k4(b2 f32, out b9 f32)                 call k4(b2 f32, out b9 f32)
 *
 * Three orders of each run of lines are tried. In the first, a line moves down to right above the
 * first one that needs it, when what it writes is larger than what it would keep alive until there:
 * so the backward pass of a training step computes again what it needs, and not the forward pass in
 * advance. In the second it moves when that is as large, too, so that chains of lines move. The
 * third is list scheduling: of the lines that could be next, the one that adds least. An order is
 * taken only if its plan needs clearly less memory than that of the lines as they were:
 * a line far from those around it finds less of its operands in caches.
 *
 * What moves are kernels, calls of operations and copies, on the CPU and on a device, which works
 * through its lines in order. Everything else, such as a conditional, an assertion or a line that
 * waits for a device, stays where it is, and nothing moves past it. Comments move with the line below
 * them, and the kernels of one operation, which share a workspace, together. The order depends on
 * the program only.
 *
 * Requires: no memory lines yet. Preserves: the order of any two lines of which one writes what the
 * other reads or writes. */
#include "wrapper/order.h"

#include "wrapper/workspaces.h"

#include <stdlib.h>

enum {
    LOOK_AHEAD = 48,      /* lines that list scheduling chooses from */
    GAIN_PARTS = 32,      /* an order is taken if it saves one part of so many, */
    GAIN_BYTES = 64 << 10 /* and more than fits into a first-level cache */
};
#define NONE UINT32_MAX

/* In the order in which fewer lines move. */
typedef enum way_kind { WAY_DOWN, WAY_CHAINS, WAY_LIST, WAY_COUNT } way_kind;

/* A line, or several that share a workspace, with the comments above. */
typedef struct unit {
    uint32_t first, last; /* lines */
    uint32_t mention_begin, succ_begin, pred_count;
    /* in the order that is made: linked, with labels that increase */
    uint32_t next, prev;
    uint64_t label;
} unit;

typedef struct edge {
    uint32_t from, to; /* units */
} edge;

/* A buffer that a unit uses; once for each. */
typedef struct mention {
    hn_wbuf buffer; /* no view */
    bool is_read, is_written;
} mention;

/* What a buffer's last users are, while dependencies are found. */
typedef struct use {
    uint32_t unit, next; /* next: index + 1 of the same buffer's; 0: none */
} use;

typedef struct orderer {
    hn_wrapper *w;
    hn_arena *scratch;
    const hn_plan_options *options;
    hn_wlives lives;
    int64_t *bytes; /* per buffer that the plan places, at the hints; 0: it costs nothing */
    bool *stays;    /* per buffer: it lives to the end */
    struct {
        unit *items;
        uint32_t count, cap;
    } units; /* of the run at hand */
    struct {
        mention *items;
        uint32_t count, cap;
    } mentions;     /* of all runs so far; of unit u: from mention_begin to that of the next one */
    uint32_t *seen; /* per buffer: 1 + the last mention of it */
    struct {
        edge *items;
        uint32_t count, cap;
    } edges;
    struct {
        use *items;
        uint32_t count, cap;
    } uses;
    uint32_t *succs; /* of unit u: succs[u.succ_begin .. next one's) */
    uint32_t *writer, *readers;
    uint32_t *last_reader; /* per buffer: unit, of those placed */
    uint32_t *left;        /* per buffer: units that mention it and are not placed */
    bool *is_alive;        /* per buffer: a unit that is placed mentions it */
    uint32_t *order;       /* of units, the result */
} orderer;

/* ---- what a unit mentions ---- */

/* Of workspaces there is nothing to say: no other unit has them. */
static hn_status add_mention(orderer *o, const unit *u, hn_wbuf b, bool is_written) {
    const hn_wbuf buffer = hn_wrapper_root(o->w, b);
    if (!buffer || o->w->buffers.items[buffer].kind == HN_WBUF_WORKSPACE) return NULL;
    if (o->seen[buffer] <= u->mention_begin) {
        HN_PUSH(o->scratch, &o->mentions, ((mention){.buffer = buffer}));
        o->seen[buffer] = o->mentions.count;
    }
    mention *m = &o->mentions.items[o->seen[buffer] - 1];
    if (is_written) m->is_written = true;
    else m->is_read = true;
    return NULL;
}

static hn_status list_mentions(orderer *o, const unit *u) {
    for (uint32_t i = u->first; i <= u->last; i++) {
        const hn_line *line = &o->w->lines.items[i];
        for (uint32_t k = 0; k < line->operand_count; k++)
            HN_TRY(add_mention(o, u, line->operands[k].buffer, line->operands[k].written));
        if (line->kind != HN_LINE_COPY) continue;
        HN_TRY(add_mention(o, u, line->buffer, true));
        HN_TRY(add_mention(o, u, line->from, false));
    }
    return NULL;
}

static const mention *mentions_of(const orderer *o, uint32_t u, uint32_t *out_count) {
    const unit *units = o->units.items;
    *out_count = units[u + 1].mention_begin - units[u].mention_begin;
    return o->mentions.items + units[u].mention_begin;
}

/* ---- dependencies ---- */

static hn_status add_edge(orderer *o, uint32_t from, uint32_t to) {
    if (from == NONE || from == to) return NULL;
    HN_PUSH(o->scratch, &o->edges, ((edge){from, to}));
    return NULL;
}

static hn_status note_read(orderer *o, hn_wbuf b, uint32_t u) {
    HN_TRY(add_edge(o, o->writer[b], u));
    HN_PUSH(o->scratch, &o->uses, ((use){u, o->readers[b]}));
    o->readers[b] = o->uses.count;
    return NULL;
}

static hn_status note_write(orderer *o, hn_wbuf b, uint32_t u) {
    HN_TRY(add_edge(o, o->writer[b], u));
    for (uint32_t k = o->readers[b]; k; k = o->uses.items[k - 1].next)
        HN_TRY(add_edge(o, o->uses.items[k - 1].unit, u));
    o->readers[b] = 0;
    o->writer[b] = u;
    return NULL;
}

static hn_status find_edges(orderer *o) {
    uint32_t count;
    o->edges.count = o->uses.count = 0;
    for (uint32_t k = o->units.items[0].mention_begin; k < o->mentions.count; k++) {
        const hn_wbuf b = o->mentions.items[k].buffer;
        o->writer[b] = o->last_reader[b] = NONE, o->readers[b] = 0;
        o->left[b] = 0, o->is_alive[b] = false;
    }
    for (uint32_t u = 0; u < o->units.count; u++) {
        const mention *m = mentions_of(o, u, &count);
        for (uint32_t k = 0; k < count; k++) o->left[m[k].buffer]++;
        for (uint32_t k = 0; k < count; k++)
            if (m[k].is_read) HN_TRY(note_read(o, m[k].buffer, u));
        for (uint32_t k = 0; k < count; k++)
            if (m[k].is_written) HN_TRY(note_write(o, m[k].buffer, u));
    }
    return NULL;
}

static int by_from(const void *a, const void *b) {
    const edge *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

/* Equal edges count once. */
static hn_status list_edges(orderer *o) {
    uint32_t kept = 0;
    if (o->edges.count) qsort(o->edges.items, o->edges.count, sizeof(edge), by_from);
    HN_NEW(o->scratch, o->succs, (size_t)o->edges.count + 1);
    for (uint32_t u = 0, k = 0; u < o->units.count; u++) {
        o->units.items[u].succ_begin = kept;
        for (; k < o->edges.count && o->edges.items[k].from == u; k++) {
            const uint32_t to = o->edges.items[k].to;
            if (kept > o->units.items[u].succ_begin && o->succs[kept - 1] == to) continue;
            o->succs[kept++] = to;
            o->units.items[to].pred_count++;
        }
    }
    o->units.items[o->units.count].succ_begin = kept; /* the one behind the last */
    return NULL;
}

/* ---- lines move down ---- */

static void relabel(orderer *o, uint32_t head) {
    uint64_t label = (uint64_t)1 << 40;
    for (uint32_t u = head; u != NONE; u = o->units.items[u].next, label += (uint64_t)1 << 40)
        o->units.items[u].label = label;
}

static void insert_before(orderer *o, uint32_t *head, uint32_t u, uint32_t at) {
    unit *units = o->units.items;
    const uint32_t prev = at == NONE ? NONE : units[at].prev;
    units[u].next = at, units[u].prev = prev;
    if (at != NONE) units[at].prev = u;
    if (prev != NONE) units[prev].next = u;
    else *head = u;
    const uint64_t low = prev == NONE ? 0 : units[prev].label;
    const uint64_t high = at == NONE ? (uint64_t)1 << 41 : units[at].label;
    units[u].label = low + (high - low) / 2;
    if (high - low < 2) relabel(o, *head);
}

static uint32_t first_successor(const orderer *o, uint32_t u) {
    const unit *units = o->units.items;
    uint32_t first = NONE;
    for (uint32_t k = units[u].succ_begin; k < units[u + 1].succ_begin; k++)
        if (first == NONE || units[o->succs[k]].label < units[first].label) first = o->succs[k];
    return first;
}

/* What moving unit u to right above `at` saves: the bytes that it writes, less those that only it
 * would keep alive until there. */
static int64_t gain_of(const orderer *o, uint32_t u, uint32_t at) {
    const unit *units = o->units.items;
    uint32_t count;
    const mention *m = mentions_of(o, u, &count);
    int64_t gain = 0;
    for (uint32_t k = 0; k < count; k++) {
        const hn_wbuf b = m[k].buffer;
        if (!m[k].is_read) gain += o->bytes[b];
        else if (!o->stays[b] &&
                 (o->last_reader[b] == NONE || units[o->last_reader[b]].label < units[at].label))
            gain -= o->bytes[b];
    }
    return gain;
}

static void note_placed(orderer *o, uint32_t u) {
    const unit *units = o->units.items;
    uint32_t count;
    const mention *m = mentions_of(o, u, &count);
    for (uint32_t k = 0; k < count; k++) {
        uint32_t *last = &o->last_reader[m[k].buffer];
        if (*last == NONE || units[*last].label < units[u].label) *last = u;
    }
}

/* From the last unit to the first; those behind are in the list. */
static void move_down(orderer *o, int64_t least_gain) {
    uint32_t head = NONE, count = 0;
    for (uint32_t u = o->units.count; u-- > 0;) {
        uint32_t at = first_successor(o, u);
        if (at == NONE || at == head || gain_of(o, u, at) < least_gain) at = head;
        insert_before(o, &head, u, at);
        note_placed(o, u);
    }
    for (uint32_t u = head; u != NONE; u = o->units.items[u].next) o->order[count++] = u;
}

/* ---- list scheduling ---- */

typedef struct scheduler {
    orderer *o;
    uint32_t *waits; /* per unit: predecessors that are left */
    uint32_t *ready; /* units, in the order of the program */
    uint32_t ready_count;
} scheduler;

static int64_t growth_of(const scheduler *s, uint32_t u) {
    uint32_t count;
    const mention *m = mentions_of(s->o, u, &count);
    int64_t growth = 0;
    for (uint32_t k = 0; k < count; k++) {
        const hn_wbuf b = m[k].buffer;
        if (!s->o->is_alive[b]) growth += s->o->bytes[b];
        if (s->o->left[b] == 1 && !s->o->stays[b]) growth -= s->o->bytes[b];
    }
    return growth;
}

static void add_ready(scheduler *s, uint32_t u) {
    uint32_t k = s->ready_count++;
    for (; k > 0 && s->ready[k - 1] > u; k--) s->ready[k] = s->ready[k - 1];
    s->ready[k] = u;
}

static uint32_t take_best(scheduler *s) {
    uint32_t best = 0;
    int64_t least = INT64_MAX;
    for (uint32_t k = 0; k < s->ready_count && k < LOOK_AHEAD; k++) {
        const int64_t growth = growth_of(s, s->ready[k]);
        if (growth < least) least = growth, best = k;
    }
    const uint32_t u = s->ready[best];
    memmove(&s->ready[best], &s->ready[best + 1], (--s->ready_count - best) * sizeof *s->ready);
    return u;
}

static void finish(scheduler *s, uint32_t u) {
    orderer *o = s->o;
    uint32_t count;
    const mention *m = mentions_of(o, u, &count);
    for (uint32_t k = 0; k < count; k++) {
        o->left[m[k].buffer]--;
        o->is_alive[m[k].buffer] = true;
    }
    for (uint32_t k = o->units.items[u].succ_begin; k < o->units.items[u + 1].succ_begin; k++)
        if (--s->waits[o->succs[k]] == 0) add_ready(s, o->succs[k]);
}

static hn_status schedule(orderer *o) {
    scheduler s = {.o = o};
    HN_NEW(o->scratch, s.waits, o->units.count);
    HN_NEW(o->scratch, s.ready, o->units.count);
    for (uint32_t u = 0; u < o->units.count; u++) {
        s.waits[u] = o->units.items[u].pred_count;
        if (!s.waits[u]) add_ready(&s, u);
    }
    for (uint32_t count = 0; s.ready_count; count++) {
        o->order[count] = take_best(&s);
        finish(&s, o->order[count]);
    }
    return NULL;
}

/* ---- runs of lines ---- */

static bool can_move(hn_line_kind kind) {
    return kind == HN_LINE_KERNEL || kind == HN_LINE_EXTERN || kind == HN_LINE_COPY;
}

/* The last line that shares a workspace with line `i`, with one between, and so on; of what is
 * zeroed once, all calls leave the same. */
static uint32_t last_of_group(const orderer *o, uint32_t i) {
    const hn_wrapper *w = o->w;
    uint32_t last = i;
    for (; i <= last; i++) {
        const hn_line *line = &w->lines.items[i];
        for (uint32_t k = 0; k <= line->operand_count; k++) {
            const hn_wbuf b = hn_line_workspace(w, line, k);
            if (b && w->buffers.items[b].zeroed != HN_WZEROED_ONCE &&
                o->lives.buffers[b].last > last)
                last = o->lives.buffers[b].last;
        }
    }
    return last;
}

/* What is in [first, last] stays where it is. */
static bool has_fixed(const hn_wrapper *w, uint32_t first, uint32_t last) {
    for (uint32_t i = first; i <= last; i++)
        if (!can_move(w->lines.items[i].kind) && w->lines.items[i].kind != HN_LINE_COMMENT)
            return true;
    return false;
}

/* The units from line `i` on that may move, up to what stays. Gives the line behind that, with its
 * bodies. */
static hn_status find_units(orderer *o, uint32_t i, uint32_t *out_next) {
    const hn_wrapper *w = o->w;
    uint32_t first = i;
    o->units.count = 0;
    for (*out_next = w->lines.count; i < w->lines.count; i++) {
        if (w->lines.items[i].kind == HN_LINE_COMMENT) continue;
        const uint32_t last = last_of_group(o, i);
        if (has_fixed(w, i, last)) {
            *out_next = o->lives.line_end[last] + 1;
            break;
        }
        const unit u = {.first = first, .last = last, .mention_begin = o->mentions.count};
        HN_TRY(list_mentions(o, &u));
        HN_PUSH(o->scratch, &o->units, u);
        i = last;
        first = last + 1;
    }
    /* where the lists end */
    HN_PUSH(o->scratch, &o->units, ((unit){.mention_begin = o->mentions.count}));
    o->units.count--;
    return NULL;
}

static void write_units(const orderer *o, hn_line *lines, uint32_t at) {
    for (uint32_t k = 0; k < o->units.count; k++) {
        const unit *u = &o->units.items[o->order[k]];
        for (uint32_t i = u->first; i <= u->last; i++) lines[at++] = o->w->lines.items[i];
    }
}

static hn_status order_run(orderer *o, way_kind way, uint32_t at, hn_line *lines) {
    HN_TRY(find_edges(o));
    HN_TRY(list_edges(o));
    HN_NEW(o->scratch, o->order, o->units.count);
    if (way == WAY_LIST) HN_TRY(schedule(o));
    else move_down(o, way == WAY_DOWN ? 1 : 0);
    write_units(o, lines, at);
    return NULL;
}

/* The bodies of what stays are left as they are. */
static hn_status order_lines(orderer *o, way_kind way, hn_line *lines) {
    const hn_wrapper *w = o->w;
    o->mentions.count = 0;
    memset(o->seen, 0, w->buffers.count * sizeof *o->seen);
    memcpy(lines, w->lines.items, w->lines.count * sizeof *lines);
    for (uint32_t i = 0, next; i < w->lines.count; i = next) {
        HN_TRY(find_units(o, i, &next));
        if (o->units.count > 2) HN_TRY(order_run(o, way, i, lines));
    }
    return NULL;
}

/* ---- what an order is worth ---- */

/* What buffers cost. Outputs cost from their first line on when they lie in a pool with
 * temporaries; else they are there all the time. */
static hn_status find_bytes(orderer *o) {
    const hn_wrapper *w = o->w;
    HN_NEW(o->scratch, o->bytes, w->buffers.count);
    HN_NEW(o->scratch, o->stays, w->buffers.count);
    HN_NEW(o->scratch, o->seen, w->buffers.count);
    HN_NEW(o->scratch, o->left, w->buffers.count);
    HN_NEW(o->scratch, o->is_alive, w->buffers.count);
    HN_NEW(o->scratch, o->writer, w->buffers.count);
    HN_NEW(o->scratch, o->readers, w->buffers.count);
    HN_NEW(o->scratch, o->last_reader, w->buffers.count);
    for (uint32_t k = 0; k < w->outputs.count; k++)
        o->stays[hn_wrapper_root(w, w->outputs.items[k].buffer)] = true;
    for (hn_wbuf b = 1; b < w->buffers.count; b++) {
        const hn_wbuffer *f = &w->buffers.items[b];
        const bool counts = hn_wbuf_is_inner(f->kind) ||
                            (f->kind == HN_WBUF_OUTPUT && o->options->pool == HN_POOL_COMBINED);
        if (counts) o->bytes[b] = hn_sym_hint(w->sym, f->bytes, 0);
        if (o->bytes[b] < 0) o->bytes[b] = 0;
    }
    return NULL;
}

/* Another wrapper with the same buffers, whose lines and kinds may be changed. */
static hn_status copy_wrapper(const hn_wrapper *w, const hn_line *lines, hn_arena *arena,
                              hn_wrapper *out) {
    hn_wbuffer *buffers;
    hn_line *own;
    HN_NEW(arena, buffers, w->buffers.count);
    HN_NEW(arena, own, w->lines.count);
    memcpy(buffers, w->buffers.items, w->buffers.count * sizeof *buffers);
    memcpy(own, lines, w->lines.count * sizeof *own);
    *out = *w;
    out->arena = arena;
    out->limit = NULL; /* a trial */
    out->buffers.items = buffers;
    out->lines.items = own;
    out->lines.cap = w->lines.count;
    return NULL;
}

static hn_status planned_bytes(const orderer *o, const hn_line *lines, int64_t *out) {
    hn_wrapper copy;
    hn_memory_plan plan;
    HN_TRY(copy_wrapper(o->w, lines, o->scratch, &copy));
    HN_TRY(hn_wrapper_reuse(&copy));
    HN_TRY(hn_wrapper_plan_with(&copy, o->options, &plan));
    *out = hn_memory_plan_bytes(&copy, &plan);
    return NULL;
}

static hn_status run(orderer *o) {
    hn_wrapper *w = o->w;
    int64_t before, best = 0, bytes;
    hn_line *lines, *best_lines = NULL;
    HN_TRY(find_bytes(o));
    HN_TRY(hn_wrapper_lives(w, o->scratch, &o->lives));
    HN_TRY(planned_bytes(o, w->lines.items, &before));
    if (before <= GAIN_BYTES) return NULL;
    /* One that moves more lines has to be clearly better than those before, too. */
    best = before;
    for (int way = 0; way < WAY_COUNT; way++) {
        HN_NEW(o->scratch, lines, w->lines.count);
        HN_TRY(order_lines(o, (way_kind)way, lines));
        HN_TRY(planned_bytes(o, lines, &bytes));
        if (best - bytes < best / GAIN_PARTS || best - bytes < GAIN_BYTES) continue;
        best = bytes, best_lines = lines;
    }
    if (best_lines &&
        hn_limit_allows(w->limit, "lines have another order for less memory (order.c)", 0, 0))
        memcpy(w->lines.items, best_lines, w->lines.count * sizeof *w->lines.items);
    return NULL;
}

hn_status hn_wrapper_order(hn_wrapper *w, const hn_plan_options *options) {
    hn_arena scratch;
    if (options->pool == HN_POOL_NONE || w->lines.count < 3 || w->lines.count > HN_ORDER_LINES_MAX)
        return NULL;
    hn_arena_init(&scratch);
    orderer o = {.w = w, .scratch = &scratch, .options = options};
    hn_status status = run(&o);
    hn_arena_deinit(&scratch);
    return hn_status_annotate(status, "cannot order lines");
}
