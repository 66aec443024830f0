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
 * What moves are kernels, calls of operations and copies on the CPU. Everything else, such as a
 * conditional, an assertion or a line of a device, stays where it is, and nothing moves past it.
 * Comments move with the line below them. The order depends on the program only.
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

/* A line with the comments above it. */
typedef struct unit {
    uint32_t first, line;
    uint32_t succ_begin, pred_count;
    /* in the order that is made: linked, with labels that increase */
    uint32_t next, prev;
    uint64_t label;
} unit;

typedef struct edge {
    uint32_t from, to; /* units */
} edge;

/* What a buffer's last users are, while dependencies are found. */
typedef struct use {
    uint32_t unit, next; /* next: index + 1 of the same buffer's; 0: none */
} use;

typedef struct orderer {
    hn_wrapper *w;
    hn_arena *scratch;
    const hn_plan_options *options;
    int64_t *bytes; /* per buffer that the plan places, at the hints; 0: it costs nothing */
    bool *stays;    /* per buffer: it lives to the end */
    struct {
        unit *items;
        uint32_t count, cap;
    } units; /* of the run at hand */
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
    uint32_t *order;       /* of units, the result */
} orderer;

/* ---- what a line mentions ---- */

static uint32_t mention_count(const hn_line *line) {
    return line->operand_count + (line->kind == HN_LINE_COPY ? 2 : 0);
}
/* A view is a mention of its root. */
static hn_wbuf mention_of(const hn_wrapper *w, const hn_line *line, uint32_t k, bool *out_written) {
    if (k < line->operand_count) {
        *out_written = line->operands[k].written;
        return hn_wrapper_root(w, line->operands[k].buffer);
    }
    *out_written = k == line->operand_count;
    return hn_wrapper_root(w, *out_written ? line->buffer : line->from);
}
static const hn_line *line_of(const orderer *o, uint32_t u) {
    return &o->w->lines.items[o->units.items[u].line];
}

static bool can_move(const hn_wrapper *w, const hn_line *line) {
    const bool is_work =
        line->kind == HN_LINE_KERNEL || line->kind == HN_LINE_EXTERN || line->kind == HN_LINE_COPY;
    for (uint32_t k = 0; k <= line->operand_count; k++)
        if (hn_line_workspace(w, line, k)) return false; /* its kernels stay together */
    return is_work && hn_line_device(w, line) == HN_DEVICE_CPU;
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
    bool is_written;
    o->edges.count = o->uses.count = 0;
    for (hn_wbuf b = 0; b < o->w->buffers.count; b++) o->writer[b] = NONE, o->readers[b] = 0;
    for (uint32_t u = 0; u < o->units.count; u++) {
        const hn_line *line = line_of(o, u);
        for (int writes = 0; writes < 2; writes++) {
            for (uint32_t k = 0; k < mention_count(line); k++) {
                const hn_wbuf b = mention_of(o->w, line, k, &is_written);
                if (!b || is_written != (writes == 1)) continue;
                HN_TRY(is_written ? note_write(o, b, u) : note_read(o, b, u));
            }
        }
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

/* Whether a mention of the same buffer comes before number `k`. */
static bool is_repeated(const hn_wrapper *w, const hn_line *line, uint32_t k, hn_wbuf b) {
    bool ignored;
    for (uint32_t i = 0; i < k; i++)
        if (mention_of(w, line, i, &ignored) == b) return true;
    return false;
}

/* What moving unit u to right above `at` saves: the bytes that it writes, less those that only it
 * would keep alive until there. */
static int64_t gain_of(const orderer *o, uint32_t u, uint32_t at) {
    const hn_line *line = line_of(o, u);
    const unit *units = o->units.items;
    int64_t gain = 0;
    bool is_written;
    for (uint32_t k = 0; k < mention_count(line); k++) {
        const hn_wbuf b = mention_of(o->w, line, k, &is_written);
        if (!b || is_repeated(o->w, line, k, b)) continue;
        if (is_written) gain += o->bytes[b];
        else if (!o->stays[b] &&
                 (o->last_reader[b] == NONE || units[o->last_reader[b]].label < units[at].label))
            gain -= o->bytes[b];
    }
    return gain;
}

static void note_placed(orderer *o, uint32_t u) {
    const hn_line *line = line_of(o, u);
    const unit *units = o->units.items;
    bool ignored;
    for (uint32_t k = 0; k < mention_count(line); k++) {
        uint32_t *last = &o->last_reader[mention_of(o->w, line, k, &ignored)];
        if (*last == NONE || units[*last].label < units[u].label) *last = u;
    }
}

/* From the last unit to the first; those behind are in the list. */
static void move_down(orderer *o, int64_t least_gain) {
    uint32_t head = NONE, count = 0;
    for (hn_wbuf b = 0; b < o->w->buffers.count; b++) o->last_reader[b] = NONE;
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
    uint32_t *uses;  /* per buffer: units that mention it and are left */
    uint32_t *waits; /* per unit: predecessors that are left */
    bool *is_alive;  /* per buffer */
    uint32_t *ready; /* units, in the order of the program */
    uint32_t ready_count;
} scheduler;

static int64_t growth_of(const scheduler *s, uint32_t u) {
    const hn_line *line = line_of(s->o, u);
    int64_t growth = 0;
    bool is_written;
    for (uint32_t k = 0; k < mention_count(line); k++) {
        const hn_wbuf b = mention_of(s->o->w, line, k, &is_written);
        if (!b || is_repeated(s->o->w, line, k, b)) continue;
        if (!s->is_alive[b]) growth += s->o->bytes[b];
        if (s->uses[b] == 1 && !s->o->stays[b]) growth -= s->o->bytes[b];
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
    const orderer *o = s->o;
    const hn_line *line = line_of(o, u);
    bool ignored;
    for (uint32_t k = 0; k < mention_count(line); k++) {
        const hn_wbuf b = mention_of(o->w, line, k, &ignored);
        if (!b || is_repeated(o->w, line, k, b)) continue;
        s->uses[b]--;
        s->is_alive[b] = true;
    }
    for (uint32_t k = o->units.items[u].succ_begin; k < o->units.items[u + 1].succ_begin; k++)
        if (--s->waits[o->succs[k]] == 0) add_ready(s, o->succs[k]);
}

static hn_status schedule(orderer *o) {
    scheduler s = {.o = o};
    bool ignored;
    HN_NEW(o->scratch, s.uses, o->w->buffers.count);
    HN_NEW(o->scratch, s.is_alive, o->w->buffers.count);
    HN_NEW(o->scratch, s.waits, o->units.count);
    HN_NEW(o->scratch, s.ready, o->units.count);
    for (uint32_t u = 0; u < o->units.count; u++) {
        const hn_line *line = line_of(o, u);
        s.waits[u] = o->units.items[u].pred_count;
        for (uint32_t k = 0; k < mention_count(line); k++) {
            const hn_wbuf b = mention_of(o->w, line, k, &ignored);
            if (b && !is_repeated(o->w, line, k, b)) s.uses[b]++;
        }
        if (!s.waits[u]) add_ready(&s, u);
    }
    for (uint32_t count = 0; s.ready_count; count++) {
        o->order[count] = take_best(&s);
        finish(&s, o->order[count]);
    }
    return NULL;
}

/* ---- runs of lines ---- */

/* The units from line `i` on that may move; the result is behind the last. */
static hn_status find_units(orderer *o, uint32_t i, uint32_t *out_end) {
    const hn_wrapper *w = o->w;
    uint32_t first = i;
    o->units.count = 0;
    *out_end = i;
    for (; i < w->lines.count; i++) {
        if (w->lines.items[i].kind == HN_LINE_COMMENT) continue;
        if (!can_move(w, &w->lines.items[i])) break;
        HN_PUSH(o->scratch, &o->units, ((unit){.first = first, .line = i}));
        *out_end = first = i + 1;
    }
    HN_PUSH(o->scratch, &o->units, ((unit){0})); /* where the list of successors ends */
    o->units.count--;
    return NULL;
}

static void write_units(const orderer *o, hn_line *lines, uint32_t at) {
    for (uint32_t k = 0; k < o->units.count; k++) {
        const unit *u = &o->units.items[o->order[k]];
        for (uint32_t i = u->first; i <= u->line; i++) lines[at++] = o->w->lines.items[i];
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
    hn_wlives lives;
    HN_TRY(hn_wrapper_lives(w, o->scratch, &lives));
    memcpy(lines, w->lines.items, w->lines.count * sizeof *lines);
    for (uint32_t i = 0, end; i < w->lines.count;) {
        HN_TRY(find_units(o, i, &end));
        if (o->units.count > 2) HN_TRY(order_run(o, way, i, lines));
        if (end < w->lines.count) end = lives.line_end[end] + 1;
        i = end;
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
    if (best_lines) memcpy(w->lines.items, best_lines, w->lines.count * sizeof *w->lines.items);
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
