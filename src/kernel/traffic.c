/* traffic.c: see traffic.h.
 *
 * The elements of an access are a set: a first one, and for each dimension a stride and an extent.
 * Sets of one buffer are joined, so that what several of them have counts once. */
#include "kernel/traffic.h"

#include "ir/sop.h"
#include "kernel/quantity.h"

#include <stdlib.h>
#include <string.h>

enum { DIMS_MAX = 2 * HN_MAX_RANK + 1 };

typedef struct dim {
    int64_t stride, extent;
} dim;

/* Elements first + sum(k * stride) for all 0 <= k < extent. */
typedef struct region {
    int64_t first;
    uint32_t rank;
    dim dims[DIMS_MAX]; /* strides ascend, and each is larger than all dimensions below it span */
} region;

/* A load or store of a phase. */
typedef struct access {
    hn_buf buffer;
    hn_expr index;
    const hn_kernel_phase *phase;
    bool reads, writes;
    bool is_fixed;             /* the extents of its loops are numbers */
    bool is_column;            /* a reduction down columns: its index has no variable of rows, */
    int64_t slabs, slab_elems; /* and there is one of each slab; others: 1, 0 */
    int64_t points;            /* how often it happens */
    bool has_region, from_data;
    region region;            /* with has_region all of it, else one for each value of `rest` */
    hn_expr rest;             /* of the index: what is not in the dimensions of the region */
    hn_expr others[DIMS_MAX]; /* the variables of `rest` */
    uint32_t other_count;
    struct access *next; /* of the same buffer */
} access;

typedef struct moved_buffer {
    hn_buf buffer;
    access *first, *last; /* its accesses, in order */
} moved_buffer;

typedef struct sums {
    hn_quantity read, written; /* bytes */
    bool is_bound;
    bool is_empty; /* an access does not happen at the hints */
} sums;

typedef struct counter {
    const hn_program *program;
    const hn_kernel *kernel;
    hn_arena *arena;
    int64_t *points;
    struct {
        moved_buffer *items;
        uint32_t count, cap;
    } buffers; /* those that are accessed */
    sums *sums;
} counter;

/* ---- saturating arithmetic: hints may be anything ---- */

static int64_t times(int64_t a, int64_t b) {
    int64_t out;
    return hn_mul_i64(a, b, &out) ? out : INT64_MAX / 4;
}

static int64_t plus(int64_t a, int64_t b) {
    int64_t out;
    return hn_add_i64(a, b, &out) ? out : INT64_MAX / 4;
}

static int64_t extent_of(const counter *c, hn_expr var) {
    const int64_t extent =
        hn_sym_hint(c->program->sym, hn_sym_symbol_extent(c->program->sym, var), 1024);
    return extent > 0 ? extent : 0;
}

/* ---- regions ---- */

static int by_stride(const void *a, const void *b) {
    const dim *x = a, *y = b;
    return (x->stride > y->stride) - (x->stride < y->stride);
}

/* Neighbouring dimensions that go on, or overlap, where the next begins become one. */
static void merge(region *r) {
    uint32_t kept = 0;
    qsort(r->dims, r->rank, sizeof *r->dims, by_stride);
    for (uint32_t d = 0; d < r->rank; d++) {
        const dim next = r->dims[d];
        dim *last = kept ? &r->dims[kept - 1] : NULL;
        const bool goes_on = last && next.stride == times(last->stride, last->extent);
        /* only the lowest dimension may overlap: what it makes is without holes */
        const bool overlaps = kept == 1 && next.stride % last->stride == 0 &&
                              next.stride / last->stride <= last->extent;
        if (goes_on || overlaps)
            last->extent = plus(last->extent, times(next.stride / last->stride, next.extent - 1));
        else r->dims[kept++] = next;
    }
    r->rank = kept;
}

/* From the first to the last element. */
static int64_t span_of(const region *r, uint32_t rank) {
    int64_t span = 0;
    for (uint32_t d = 0; d < rank; d++)
        span = plus(span, times(r->dims[d].stride, r->dims[d].extent - 1));
    return span;
}

static bool has_no_doubles(const region *r) {
    for (uint32_t d = 1; d < r->rank; d++)
        if (r->dims[d].stride <= span_of(r, d)) return false;
    return true;
}

static int64_t size_of(const region *r) {
    int64_t size = 1;
    for (uint32_t d = 0; d < r->rank; d++) size = times(size, r->dims[d].extent);
    return size;
}

static void add_dim(region *r, int64_t stride, int64_t extent) {
    if (stride == 0 || extent <= 1) return;
    if (stride == INT64_MIN) return;
    if (stride < 0) r->first = plus(r->first, times(stride, extent - 1)), stride = -stride;
    r->dims[r->rank++] = (dim){stride, extent};
}

/* Is it one number in a run: sizes and constants? */
static bool is_fixed(const hn_sym *sym, hn_expr e) {
    hn_expr symbols[DIMS_MAX];
    const uint32_t count = hn_sym_symbols(sym, e, symbols, DIMS_MAX);
    for (uint32_t k = 0; k < count && k < DIMS_MAX; k++) {
        const hn_symbol_kind kind = hn_sym_symbol_kind(sym, symbols[k]);
        if (kind == HN_SYMBOL_INDEX || kind == HN_SYMBOL_INDIRECT) return false;
    }
    return count <= DIMS_MAX;
}

static bool is_from_data(const hn_sym *sym, hn_expr index) {
    hn_expr symbols[DIMS_MAX];
    const uint32_t count = hn_sym_symbols(sym, index, symbols, DIMS_MAX);
    if (count > DIMS_MAX) return true;
    for (uint32_t k = 0; k < count; k++)
        if (hn_sym_symbol_kind(sym, symbols[k]) == HN_SYMBOL_INDIRECT) return true;
    return false;
}

/* Takes those variables out of the index that it goes along in equal steps. */
static void take_vars(const counter *c, const hn_expr *vars, uint32_t count, access *a) {
    hn_sym *sym = c->program->sym;
    for (uint32_t d = 0; d < count; d++) {
        hn_expr step, rest;
        if (!hn_sym_uses(sym, a->rest, vars[d])) continue;
        if (hn_sym_affine(sym, a->rest, vars[d], &step, &rest) && is_fixed(sym, step)) {
            add_dim(&a->region, hn_sym_hint(sym, step, 0), extent_of(c, vars[d]));
            a->rest = rest;
        } else a->others[a->other_count++] = vars[d];
    }
}

/* Likewise, where it is a sum of variables times numbers, as most are: no expression is made. */
static bool take_plain_vars(const counter *c, access *a) {
    hn_sym *sym = c->program->sym;
    const hn_sum sum = hn_sym_sum(sym, a->index);
    for (uint32_t k = 0; k < sum.count; k++)
        if (hn_sym_kind(sym, sum.terms[k]) != HN_EXPR_SYMBOL ||
            hn_sym_symbol_kind(sym, sum.terms[k]) != HN_SYMBOL_INDEX)
            return false;
    for (uint32_t k = 0; k < sum.count; k++)
        add_dim(&a->region, sum.coeffs[k], extent_of(c, sum.terms[k]));
    a->rest = hn_sym_int(sym, sum.constant);
    return true;
}

static void find_region(const counter *c, access *a) {
    a->rest = a->index;
    if (!take_plain_vars(c, a)) {
        a->from_data = is_from_data(c->program->sym, a->index);
        if (!a->is_column) take_vars(c, c->kernel->vars, c->kernel->rank, a);
        take_vars(c, a->phase->vars, a->phase->rank, a);
    }
    add_dim(&a->region, a->slab_elems, a->slabs);
    merge(&a->region);
    a->has_region = !a->from_data && !a->other_count && has_no_doubles(&a->region);
    if (a->has_region)
        a->region.first = plus(a->region.first, hn_sym_hint(c->program->sym, a->rest, 0));
}

/* ---- the accesses ---- */

static bool is_local(const hn_kernel *k, hn_buf b) {
    for (uint32_t l = 0; l < k->locals.count; l++)
        if (k->locals.items[l].buffer == b) return true;
    return false;
}

static bool are_numbers(const counter *c, const hn_expr *vars, uint32_t count) {
    const hn_sym *sym = c->program->sym;
    bool all = true;
    for (uint32_t d = 0; d < count; d++)
        all &= hn_sym_is_int(sym, hn_sym_symbol_extent(sym, vars[d]), NULL);
    return all;
}

static int64_t points_of(const counter *c, const hn_kernel_phase *phase, bool with_rows) {
    int64_t points = 1;
    for (uint32_t d = 0; with_rows && d < c->kernel->rank; d++)
        points = times(points, extent_of(c, c->kernel->vars[d]));
    for (uint32_t d = 0; d < phase->rank; d++) points = times(points, extent_of(c, phase->vars[d]));
    return points;
}

static hn_status add(counter *c, const access *a) {
    access *own;
    uint32_t k = 0;
    if (is_local(c->kernel, a->buffer)) return NULL;
    c->sums->is_empty |= !a->points;
    if (!a->points) return NULL;
    HN_NEW(c->arena, own, 1);
    *own = *a;
    find_region(c, own);
    while (k < c->buffers.count && c->buffers.items[k].buffer != a->buffer) k++;
    if (k == c->buffers.count)
        HN_PUSH(c->arena, &c->buffers, ((moved_buffer){.buffer = a->buffer}));
    moved_buffer *b = &c->buffers.items[k];
    if (b->last) b->last->next = own;
    else b->first = own;
    b->last = own;
    return NULL;
}

/* ---- loads that are needed ---- */

static void need_index(const hn_sym *sym, const hn_kernel_phase *phase, hn_expr index,
                       bool *needed) {
    for (hn_sid s = 1; s < phase->body.count; s++) {
        const hn_sop *op = &phase->body.items[s];
        if (op->kind == HN_SOP_INDIRECT && hn_sym_uses(sym, index, op->index)) needed[s] = true;
    }
}

/* The ops whose values reach a store or a reduction. Arguments come before what uses them. */
static hn_status find_needed(const counter *c, const hn_kernel_phase *phase, bool **out) {
    const hn_sym *sym = c->program->sym;
    bool *needed;
    HN_NEW(c->arena, needed, phase->body.count);
    for (uint32_t s = 0; s < phase->stores.count; s++) {
        needed[phase->stores.items[s].value] = true;
        need_index(sym, phase, phase->stores.items[s].index, needed);
    }
    for (uint32_t s = 0; s < phase->columns.count; s++)
        needed[phase->columns.items[s].value] = true;
    for (uint32_t s = 0; s < phase->reduces.count; s++) {
        needed[phase->reduces.items[s].value] = true;
        if (phase->reduces.items[s].position)
            need_index(sym, phase, phase->reduces.items[s].position, needed);
    }
    for (hn_sid s = phase->body.count; s-- > 1;) {
        const hn_sop *op = &phase->body.items[s];
        if (!needed[s]) continue;
        for (int k = 0; k < 3; k++) needed[op->args[k]] = true;
        if (hn_sop_has_index(op)) need_index(sym, phase, op->index, needed);
    }
    *out = needed;
    return NULL;
}

static hn_status add_phase(counter *c, const hn_kernel_phase *phase) {
    bool *needed;
    HN_TRY(find_needed(c, phase, &needed));
    const bool has_inner = are_numbers(c, phase->vars, phase->rank);
    access a = {.phase = phase,
                .slabs = 1,
                .points = points_of(c, phase, true),
                .is_fixed = has_inner && are_numbers(c, c->kernel->vars, c->kernel->rank)};
    for (hn_sid s = 1; s < phase->body.count; s++) {
        const hn_sop *op = &phase->body.items[s];
        if (op->kind != HN_SOP_LOAD || !needed[s]) continue;
        a.buffer = op->buffer, a.index = op->index, a.reads = true;
        HN_TRY(add(c, &a));
    }
    for (uint32_t s = 0; s < phase->stores.count; s++) {
        const hn_kernel_store *store = &phase->stores.items[s];
        a.buffer = store->buffer, a.index = store->index, a.writes = true;
        a.reads = store->mode != HN_STORE_SET;
        HN_TRY(add(c, &a));
    }
    for (uint32_t s = 0; s < phase->columns.count; s++) {
        const hn_kernel_column *column = &phase->columns.items[s];
        a.buffer = column->buffer, a.index = column->index, a.writes = true, a.reads = false;
        a.slabs = c->kernel->slabs, a.is_column = true, a.is_fixed = has_inner;
        a.slab_elems = hn_sym_hint(c->program->sym, c->kernel->slab_elems, 0);
        a.points = times(a.slabs, points_of(c, phase, false));
        HN_TRY(add(c, &a)); /* also where there are no rows */
    }
    return NULL;
}

/* ---- unions by formula ---- */

static bool same_dims(const region *a, const region *b) {
    return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}

/* Is `b` all of `a`, and maybe more? */
static bool covers(const region *b, const region *a) {
    const int64_t shift = a->first - b->first;
    if (same_dims(a, b)) return shift == 0;
    if (b->rank != 1 || shift < 0 || shift % b->dims[0].stride != 0)
        return b->rank == 0 && a->rank == 0 && !shift;
    for (uint32_t d = 0; d < a->rank; d++)
        if (a->dims[d].stride % b->dims[0].stride != 0) return false;
    return shift + span_of(a, a->rank) <= span_of(b, b->rank);
}

/* Divides all strides of both, and more than that: 0 for none. */
static int64_t common_step(const region *a, const region *b) {
    int64_t step = 0;
    for (uint32_t d = 0; d < a->rank; d++) step = hn_gcd(step, a->dims[d].stride);
    for (uint32_t d = 0; d < b->rank; d++) step = hn_gcd(step, b->dims[d].stride);
    return step;
}

static bool are_apart(const region *a, const region *b) {
    const int64_t step = common_step(a, b);
    return plus(a->first, span_of(a, a->rank)) < b->first ||
           plus(b->first, span_of(b, b->rank)) < a->first ||
           (step && (a->first - b->first) % step != 0); /* even and odd elements */
}

/* `a` becomes both, where `b` is `a` shifted along one of its dimensions. */
static bool extend(region *a, const region *b) {
    if (!same_dims(a, b)) return false;
    for (uint32_t d = 0; d < a->rank; d++) {
        dim *along = &a->dims[d];
        const int64_t shift = b->first - a->first, steps = shift / along->stride;
        const int64_t room = d + 1 < a->rank ? a->dims[d + 1].stride - span_of(a, d) : INT64_MAX;
        if (shift % along->stride != 0 || llabs(steps) > along->extent) continue;
        if (times(along->stride, along->extent - 1 + llabs(steps)) >= room) continue;
        along->extent += llabs(steps);
        if (shift < 0) a->first = b->first;
        return true;
    }
    return false;
}

/* Likewise, where it is shifted by a step between those of its dimensions: even and odd
 * elements. */
static bool interleave(region *a, const region *b) {
    const int64_t shift = b->first - a->first;
    region both = shift < 0 ? *b : *a;
    if (!same_dims(a, b) || both.rank == DIMS_MAX) return false;
    add_dim(&both, llabs(shift), 2);
    merge(&both);
    if (!has_no_doubles(&both)) return false;
    *a = both;
    return true;
}

/* `a` becomes both, where they are one region. */
static bool join(region *a, const region *b) {
    if (covers(a, b) || extend(a, b)) return true;
    if (!covers(b, a)) return interleave(a, b);
    *a = *b;
    return true;
}

/* One pass over all pairs. True: some became one. */
static bool join_pairs(region *list, uint32_t *count) {
    const uint32_t before = *count;
    for (uint32_t k = 0; k < *count; k++)
        for (uint32_t j = k + 1; j < *count;) {
            if (!join(&list[k], &list[j])) {
                j++;
                continue;
            }
            list[j] = list[--*count];
            j = k + 1; /* it has grown: look again */
        }
    return *count < before;
}

/* The union of `list`, in place, as regions that are apart. False: there is no formula for it. */
static bool unite(region *list, uint32_t *count) {
    while (join_pairs(list, count)) continue;
    for (uint32_t k = 0; k < *count; k++)
        for (uint32_t j = k + 1; j < *count; j++)
            if (!are_apart(&list[k], &list[j])) return false;
    return true;
}

/* ---- one by one ---- */

enum { IS_READ = 1, IS_WRITTEN = 2 };

/* To evaluate an index, in elements that are marked: callgrind, 100 instructions and 7. */
enum { COST_OF_INDEX = 15 };

/* The variables that an index does not go along in equal steps, and sizes at their hints. */
typedef struct walk {
    hn_expr symbols[DIMS_MAX];
    int64_t values[DIMS_MAX], extents[DIMS_MAX];
    uint32_t count;
} walk;

static bool begin_walk(const counter *c, const access *a, walk *w) {
    const hn_sym *sym = c->program->sym;
    hn_expr all[DIMS_MAX];
    const uint32_t used = hn_sym_symbols(sym, a->rest, all, DIMS_MAX);
    if (used > DIMS_MAX) return false;
    for (uint32_t k = 0; k < used; k++) {
        const bool is_size = hn_sym_symbol_kind(sym, all[k]) != HN_SYMBOL_INDEX;
        w->symbols[k] = all[k];
        w->extents[k] = is_size ? 1 : extent_of(c, all[k]);
        w->values[k] = is_size ? hn_sym_hint(sym, all[k], 1024) : 0;
    }
    w->count = used;
    return true;
}

static bool next_point(walk *w) {
    for (uint32_t d = w->count; d-- > 0;) {
        if (w->extents[d] == 1) continue;
        if (++w->values[d] < w->extents[d]) return true;
        w->values[d] = 0;
    }
    return false;
}

/* What an element becomes by an access. */
static uint8_t marked(uint8_t is, bool reads, bool writes) {
    if (reads && !(is & IS_WRITTEN)) is |= IS_READ;
    return writes ? is | IS_WRITTEN : is;
}

static void mark_region(const access *a, const region *r, uint32_t rank, uint8_t *is) {
    if (!rank) {
        *is = marked(*is, a->reads, a->writes);
        return;
    }
    const dim d = r->dims[rank - 1];
    if (rank > 1)
        for (int64_t k = 0; k < d.extent; k++) mark_region(a, r, rank - 1, is + k * d.stride);
    else
        for (int64_t k = 0; k < d.extent; k++)
            is[k * d.stride] = marked(is[k * d.stride], a->reads, a->writes);
}

static bool mark_at(const access *a, int64_t first, uint8_t *is, int64_t elems) {
    const region *r = &a->region;
    if (first < 0 || plus(first, span_of(r, r->rank)) >= elems) return false;
    mark_region(a, r, r->rank, is + first);
    return true;
}

/* Marks the elements of an access. False: its index has no value. */
static bool mark_all(const counter *c, const access *a, uint8_t *is, int64_t elems) {
    walk w;
    if (a->has_region) return mark_at(a, a->region.first, is, elems);
    if (!begin_walk(c, a, &w)) return false;
    do {
        int64_t at;
        if (!hn_sym_eval(c->program->sym, a->rest, w.symbols, w.values, w.count, &at) ||
            !mark_at(a, plus(at, a->region.first), is, elems))
            return false;
    } while (next_point(&w));
    return true;
}

/* In elements that are marked. */
static int64_t cost_of(const counter *c, const access *a) {
    const int64_t each = size_of(&a->region);
    int64_t walked = 1;
    if (!a->other_count) return each;
    for (uint32_t k = 0; k < a->other_count; k++)
        walked = times(walked, extent_of(c, a->others[k]));
    return times(walked, plus(each, COST_OF_INDEX));
}

/* The extent of an input is not recorded: it follows from sizes and strides. */
static int64_t elements_of(const counter *c, hn_buf b) {
    const hn_sym *sym = c->program->sym;
    const hn_buffer *buffer = &c->program->buffers.items[b];
    int64_t elems = 1;
    if (buffer->kind != HN_BUFFER_INPUT) return hn_sym_hint(sym, buffer->extent, 1024);
    for (uint32_t d = 0; d < buffer->rank; d++) {
        const int64_t size = hn_sym_hint(sym, buffer->sizes[d], 1024);
        if (size <= 0) return 0;
        elems = plus(elems, times(size - 1, hn_sym_hint(sym, buffer->strides[d], 1)));
    }
    return elems;
}

/* False: an index comes from data, or there are too many accesses. */
static bool count_each(counter *c, const moved_buffer *b, int64_t *out_read, int64_t *out_written) {
    const int64_t elems = elements_of(c, b->buffer);
    int64_t cost = elems / 16;
    for (const access *a = b->first; a; a = a->next) {
        if (a->from_data) return false;
        cost = plus(cost, cost_of(c, a));
    }
    if (cost > *c->points || elems < 0) return false;
    *c->points -= cost;
    uint8_t *is = calloc((size_t)elems + 1, 1);
    bool good = is != NULL;
    for (const access *a = b->first; a && good; a = a->next) good = mark_all(c, a, is, elems);
    *out_read = *out_written = 0;
    for (int64_t e = 0; good && e < elems; e++)
        *out_read += is[e] & IS_READ, *out_written += (is[e] & IS_WRITTEN) != 0;
    free(is);
    return good;
}

/* ---- all of it ---- */

/* Has an earlier store written all that a load reads? False: `*out_some`, whether a part of it. */
static bool is_written_before(const moved_buffer *b, const access *load, bool *out_some) {
    *out_some = false;
    for (const access *store = b->first; store != load; store = store->next) {
        if (!store->writes) continue;
        if (covers(&store->region, &load->region)) return true;
        *out_some |= !are_apart(&store->region, &load->region);
    }
    return false;
}

/* Regions that are read from memory, or written. False: one has no formula. */
static bool list_regions(const moved_buffer *b, bool writes, region *list, uint32_t *count) {
    *count = 0;
    for (const access *a = b->first; a; a = a->next) {
        bool some = false;
        if (!a->has_region) return false;
        if (!(writes ? a->writes : a->reads)) continue;
        if (!writes && is_written_before(b, a, &some)) continue;
        if (some) return false;
        list[(*count)++] = a->region;
    }
    return true;
}

static int64_t sizes_of(const region *list, uint32_t count) {
    int64_t sum = 0;
    for (uint32_t k = 0; k < count; k++) sum = plus(sum, size_of(&list[k]));
    return sum;
}

static uint32_t accesses_of(const moved_buffer *b) {
    uint32_t count = 0;
    for (const access *a = b->first; a; a = a->next) count++;
    return count;
}

static hn_status count_by_formula(counter *c, const moved_buffer *b, int64_t *out_read,
                                  int64_t *out_written, bool *out_done) {
    region *list;
    uint32_t count;
    *out_done = false;
    HN_NEW(c->arena, list, accesses_of(b));
    if (!list_regions(b, false, list, &count) || !unite(list, &count)) return NULL;
    *out_read = sizes_of(list, count);
    if (!list_regions(b, true, list, &count) || !unite(list, &count)) return NULL;
    *out_written = sizes_of(list, count);
    *out_done = true;
    return NULL;
}

static void bound(counter *c, const moved_buffer *b, int64_t *out_read, int64_t *out_written) {
    const int64_t elems = elements_of(c, b->buffer);
    *out_read = *out_written = 0;
    c->sums->is_bound = true;
    for (const access *a = b->first; a; a = a->next) {
        const int64_t points = a->has_region ? size_of(&a->region) : a->points;
        if (a->reads) *out_read = plus(*out_read, points);
        if (a->writes) *out_written = plus(*out_written, points);
    }
    if (*out_read > elems) *out_read = elems;
    if (*out_written > elems) *out_written = elems;
}

/* ---- for other sizes ---- */

typedef struct factors {
    hn_sym *sym;
    hn_expr items[DIMS_MAX + 1];
    uint32_t count;
    bool is_fixed; /* all are numbers */
} factors;

static void add_factor(factors *f, hn_expr factor) {
    f->is_fixed &= hn_sym_is_int(f->sym, factor, NULL);
    f->items[f->count++] = factor;
}

/* The extents of the loops around an access; of those alone along which its index moves. */
static factors extents_of(const counter *c, const access *a, bool all) {
    hn_sym *sym = c->program->sym;
    factors f = {.sym = sym, .is_fixed = true};
    for (uint32_t d = 0; d < c->kernel->rank && !a->is_column; d++)
        if (all || hn_sym_uses(sym, a->index, c->kernel->vars[d]))
            add_factor(&f, hn_sym_symbol_extent(sym, c->kernel->vars[d]));
    for (uint32_t d = 0; d < a->phase->rank; d++)
        if (all || hn_sym_uses(sym, a->index, a->phase->vars[d]))
            add_factor(&f, hn_sym_symbol_extent(sym, a->phase->vars[d]));
    if (a->is_column) add_factor(&f, hn_sym_int(sym, a->slabs));
    return f;
}

static factors sizes_of_tensor(const counter *c, hn_buf b) {
    const hn_buffer *buffer = &c->program->buffers.items[b];
    factors f = {.sym = c->program->sym, .is_fixed = true};
    for (uint32_t d = 0; d < buffer->rank; d++) add_factor(&f, buffer->sizes[d]);
    return f;
}

/* `*out` is their product, if that is `count` at the hints. */
static bool explains(const factors *f, int64_t count, hn_expr *out) {
    int64_t product = 1;
    for (uint32_t k = 0; k < f->count; k++)
        product = times(product, hn_sym_hint(f->sym, f->items[k], 1024));
    if (product != count) return false;
    *out = f->is_fixed ? hn_sym_int(f->sym, count) : hn_sym_product(f->sym, f->items, f->count);
    return true;
}

/* How many elements of a buffer are read, or written, which at the hints are `count`. */
static hn_quantity elements_moved(const counter *c, const moved_buffer *b, bool writes,
                                  int64_t count) {
    const factors tensor = sizes_of_tensor(c, b->buffer);
    hn_quantity moved = {.hint = count};
    bool is_fixed = true;
    for (const access *a = b->first; a; a = a->next) is_fixed &= a->is_fixed;
    if (is_fixed) return hn_quantity_int(count);
    for (int all = 0; all < 2; all++)
        for (const access *a = b->first; a; a = a->next) {
            const factors f = extents_of(c, a, all);
            if (!(writes ? a->writes : a->reads) || !explains(&f, count, &moved.expr)) continue;
            if (a->from_data)
                moved.expr = hn_sym_min(f.sym, moved.expr,
                                        hn_sym_product(f.sym, tensor.items, tensor.count));
            return moved;
        }
    (void)explains(&tensor, count, &moved.expr);
    return moved;
}

static void add_bytes(const counter *c, const moved_buffer *b, bool writes, int64_t count,
                      hn_quantity *sum) {
    const int64_t each = hn_dtype_facts(c->program->buffers.items[b->buffer].dtype)->size_bytes;
    hn_quantity bytes = {.hint = times(count, each)};
    if (!count) return;
    if (bytes.hint < HN_QUANTITY_MAX)
        bytes = hn_quantity_mul(c->program->sym, elements_moved(c, b, writes, count),
                                hn_quantity_int(each));
    *sum = hn_quantity_add(c->program->sym, *sum, bytes);
}

static hn_status count_buffer(counter *c, const moved_buffer *b) {
    int64_t read = 0, written = 0;
    bool is_done;
    HN_TRY(count_by_formula(c, b, &read, &written, &is_done));
    if (!is_done && !count_each(c, b, &read, &written)) bound(c, b, &read, &written);
    add_bytes(c, b, false, read, &c->sums->read);
    add_bytes(c, b, true, written, &c->sums->written);
    return NULL;
}

static hn_status count_kernel(const hn_program *program, const hn_kernel *kernel, hn_arena *scratch,
                              int64_t *points, sums *out) {
    counter c = {
        .program = program, .kernel = kernel, .arena = scratch, .points = points, .sums = out};
    for (uint32_t f = 0; f < kernel->phases.count; f++)
        HN_TRY(add_phase(&c, &kernel->phases.items[f]));
    for (uint32_t k = 0; k < c.buffers.count; k++) HN_TRY(count_buffer(&c, &c.buffers.items[k]));
    return hn_sym_status(program->sym);
}

static hn_status count_segments(const hn_program *program, const hn_kernel *kernel,
                                hn_arena *scratch, int64_t *points, sums *out) {
    for (uint32_t s = 0; s < kernel->segments.count; s++)
        HN_TRY(count_kernel(program, kernel->segments.items[s].alone, scratch, points, out));
    return NULL;
}

hn_status hn_kernel_traffic(const hn_program *program, const hn_kernel *kernel, hn_arena *scratch,
                            int64_t *points, hn_traffic *out) {
    sums all = {.read = hn_quantity_int(0), .written = hn_quantity_int(0)};
    HN_TRY(kernel->segments.count ? count_segments(program, kernel, scratch, points, &all)
                                  : count_kernel(program, kernel, scratch, points, &all));
    *out = (hn_traffic){
        .read_bytes = all.read.hint, .written_bytes = all.written.hint, .is_bound = all.is_bound};
    if (!all.is_empty) {
        out->read_expr = hn_quantity_expr(program->sym, all.read);
        out->written_expr = hn_quantity_expr(program->sym, all.written);
    }
    return hn_sym_status(program->sym);
}
