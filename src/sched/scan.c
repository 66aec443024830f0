/* scan.c: a scan of few long rows becomes several loops, so that all threads have work: sums of
 * pieces, a scan of the sums, then the pieces. What is left behind the last whole piece is a scan of
 * its own.
 *
 *   y[p, n] = scan_n x[p, n]      ->      t[k, p] = sum_q x[p, k * Q + q]
 *                                         u[k, p] = scan_k t[k, p]
 *                                         y[p, k * Q + q] = scan_q (u[k - 1, p] +) x[p, k * Q + q]
 *                                         y[p, K * Q + r] = scan_r (u[K - 1, p] +) x[p, K * Q + r]
 *
 * The first element of a piece takes what comes before. Source: Blelloch, Prefix sums and their
 * applications, CMU-CS-90-190, section 1.3. */
#include <string.h>

#include "sched/internal.h"

/* Scans whose pieces may be combined: what combines the elements of one, and two of them. Those that
 * keep a position are none: it would be one within a piece. Nor are products of floats: that of a
 * piece may be infinite where the elements before have come to 0. */
static const struct {
    hn_op scan, reduce, both;
    bool of_floats;
} combined[] = {{HN_OP_CUMSUM, HN_OP_SUM, HN_OP_ADD, true},
                {HN_OP_CUMPROD, HN_OP_PROD, HN_OP_MUL, false}};
enum { COMBINED = sizeof combined / sizeof *combined };

/* The pieces of a scan, and memory for their sums and for the scan of these: [pieces, rows]. */
typedef struct pieces {
    uint32_t op; /* of `combined` */
    int64_t count, elems, rest;
    hn_buf sums, scanned;
    hn_expr strides[HN_MAX_RANK];
} pieces;

static int64_t extent_hint(const sched *s, hn_expr var) {
    return hn_sym_hint(s->sym, hn_sym_symbol_extent(s->sym, var), 1024);
}

/* Groups of threads that the whole scan would have: one a row, or a strip of neighbouring rows. */
static int64_t groups_of(sched *s, const hn_loop *loop, bool along) {
    int64_t rows = 1, last = loop->rank ? extent_hint(s, loop->vars[loop->rank - 1]) : 1;
    for (uint32_t d = 0; d < loop->rank; d++) rows *= extent_hint(s, loop->vars[d]);
    const int64_t strip = s->options->limits->column_strip;
    return along || !rows ? rows : rows / last * ((last + strip - 1) / strip);
}

/* Pieces begin at such multiples: vectors are aligned there. */
enum { PIECE_UNIT = 16, GROUPS_A_PROCESSOR = 4 };

/* Whether pieces of the scan may be combined; sums in 16 bits would be rounded once more. */
static bool combines(const hn_loop *loop, uint32_t *out_op) {
    const hn_dtype dtype = loop->body.items[loop->store.value].dtype;
    uint32_t op = 0;
    while (op < COMBINED && combined[op].scan != loop->reduce_op) op++;
    *out_op = op;
    if (op == COMBINED || dtype == HN_DTYPE_F16 || dtype == HN_DTYPE_BF16) return false;
    return combined[op].of_floats || !hn_dtype_is_float(dtype);
}

/* False: the scan stays whole. So do those of half as many groups as there are processors: pieces
 * read everything twice. */
static bool cut(sched *s, const hn_loop *loop, pieces *out) {
    const hn_sched_limits *limits = s->options->limits;
    int64_t elems;
    if (loop->kind != HN_LOOP_SCAN || loop->red_rank != 1 || loop->rank + 2 > HN_MAX_RANK ||
        !limits->scan_min_elems || !combines(loop, &out->op) ||
        !hn_sym_is_int(s->sym, hn_sym_symbol_extent(s->sym, loop->vars[loop->rank]), &elems))
        return false;
    const bool along = loop_goes_along(s, loop, loop->vars[loop->rank]);
    const int64_t groups = groups_of(s, loop, along), processors = s->options->threads,
                  least = along ? limits->scan_piece_elems : limits->column_min_steps;
    if (!groups || 2 * groups > processors || groups * elems < limits->scan_min_elems) return false;
    out->count = 1;
    while (out->count * groups < GROUPS_A_PROCESSOR * processors &&
           elems / (2 * out->count) >= least)
        out->count *= 2;
    out->elems = elems / out->count / PIECE_UNIT * PIECE_UNIT;
    out->rest = elems - out->count * out->elems;
    return out->count > 1 && out->elems > 0;
}

static hn_status add_buffer(sched *s, const hn_loop *loop, pieces *x, hn_buf *out) {
    const uint32_t rank = loop->rank + 1;
    hn_expr *sizes, *own;
    HN_NEW(s->arena, sizes, rank);
    HN_NEW(s->arena, own, rank);
    sizes[0] = hn_sym_int(s->sym, x->count);
    for (uint32_t d = 0; d < loop->rank; d++)
        sizes[d + 1] = hn_sym_symbol_extent(s->sym, loop->vars[d]);
    hn_contiguous_strides(s->sym, sizes, rank, own);
    memcpy(x->strides, own, rank * sizeof *own);
    return hn_program_add_buffer(s->p,
                                 (hn_buffer){.kind = HN_BUFFER_TEMP,
                                             .dtype = loop->body.items[loop->store.value].dtype,
                                             .rank = rank,
                                             .sizes = sizes,
                                             .strides = own,
                                             .extent = hn_sym_product(s->sym, sizes, rank)},
                                 out);
}

/* Where the sums of a row's piece lie. */
static hn_expr place_of(sched *s, const pieces *x, hn_expr piece, const hn_expr *rows,
                        uint32_t count) {
    hn_expr at = hn_sym_mul(s->sym, x->strides[0], piece);
    for (uint32_t d = 0; d < count; d++)
        at = hn_sym_add(s->sym, at, hn_sym_mul(s->sym, x->strides[d + 1], rows[d]));
    return at;
}

/* The loop over the pieces: first their number, then the old variables, the last one shortened. */
static void go_over_pieces(sched *s, const pieces *x, hn_loop *loop) {
    hn_expr fresh[HN_MAX_RANK], to[HN_MAX_RANK], elems = hn_sym_int(s->sym, x->elems);
    const uint32_t all = loop->rank + 1;
    fresh[0] = hn_sym_index(s->sym, 0, hn_sym_int(s->sym, x->count));
    for (uint32_t d = 0; d < loop->rank; d++)
        to[d] = fresh[d + 1] =
            hn_sym_index(s->sym, d + 1, hn_sym_symbol_extent(s->sym, loop->vars[d]));
    fresh[all] = hn_sym_index(s->sym, all, elems);
    to[loop->rank] = hn_sym_add(s->sym, hn_sym_mul(s->sym, fresh[0], elems), fresh[all]);
    loop_subst(s, loop, loop->vars, to, all);
    memcpy(loop->vars, fresh, (all + 1) * sizeof *fresh);
    loop->rank++;
}

static hn_sid add(sched *s, hn_loop *loop, hn_sop op) {
    return hn_body_add(s->arena, &loop->body, &op);
}

/* Whether an index compares so with 0. */
static hn_sid compare(sched *s, hn_loop *loop, hn_op op, hn_expr index) {
    const hn_sid at = add(s, loop,
                          (hn_sop){.kind = HN_SOP_INDEX, .dtype = HN_DTYPE_I64, .index = index}),
                 zero = add(s, loop, (hn_sop){.kind = HN_SOP_CONST, .dtype = HN_DTYPE_I64});
    return add(s, loop,
               (hn_sop){.kind = HN_SOP_ELEM, .op = op, .dtype = HN_DTYPE_BOOL, .args = {at, zero}});
}

/* The element at which `is_first` holds takes what the pieces before have. */
static hn_status take_before(sched *s, const pieces *x, hn_loop *loop, hn_sid is_first,
                             hn_expr before) {
    const hn_sid own = loop->store.value;
    const hn_dtype dtype = loop->body.items[own].dtype;
    const hn_sid load =
        add(s, loop,
            (hn_sop){.kind = HN_SOP_LOAD, .dtype = dtype, .buffer = x->scanned, .index = before});
    const hn_sid both = add(
        s, loop,
        (hn_sop){
            .kind = HN_SOP_ELEM, .op = combined[x->op].both, .dtype = dtype, .args = {load, own}});
    loop->store.value = add(
        s, loop,
        (hn_sop){
            .kind = HN_SOP_ELEM, .op = HN_OP_WHERE, .dtype = dtype, .args = {is_first, both, own}});
    return loop->store.value ? NULL
                             : HN_ERROR(HN_OUT_OF_MEMORY, "out of memory while splitting a scan");
}

static hn_status sum_pieces(sched *s, const pieces *x, hn_loop *loop) {
    go_over_pieces(s, x, loop);
    loop->kind = HN_LOOP_REDUCE;
    loop->reduce_op = combined[x->op].reduce;
    loop->store =
        (hn_loop_store){.buffer = x->sums,
                        .index = place_of(s, x, loop->vars[0], loop->vars + 1, loop->rank - 1),
                        .value = loop->store.value};
    return NULL;
}

static hn_status scan_sums(sched *s, const pieces *x, hn_loop *loop) {
    const hn_dtype dtype = loop->body.items[loop->store.value].dtype;
    hn_expr *piece = &loop->vars[loop->rank];
    *piece = hn_sym_index(s->sym, loop->rank, hn_sym_int(s->sym, x->count));
    const hn_expr at = place_of(s, x, *piece, loop->vars, loop->rank);
    loop->body = (hn_body){0};
    loop->store = (hn_loop_store){.buffer = x->scanned, .index = at};
    loop->store.value =
        add(s, loop, (hn_sop){.kind = HN_SOP_LOAD, .dtype = dtype, .buffer = x->sums, .index = at});
    return loop->store.value ? NULL
                             : HN_ERROR(HN_OUT_OF_MEMORY, "out of memory while splitting a scan");
}

static hn_status scan_pieces(sched *s, const pieces *x, hn_loop *loop) {
    go_over_pieces(s, x, loop);
    hn_expr zero = hn_sym_int(s->sym, 0), one = hn_sym_int(s->sym, 1), piece = loop->vars[0],
            before = hn_sym_max(s->sym, hn_sym_sub(s->sym, piece, one), zero);
    const hn_sid begins = compare(s, loop, HN_OP_EQ, loop->vars[loop->rank]),
                 follows = compare(s, loop, HN_OP_GT, piece),
                 both = add(s, loop,
                            (hn_sop){.kind = HN_SOP_ELEM,
                                     .op = HN_OP_AND,
                                     .dtype = HN_DTYPE_BOOL,
                                     .args = {begins, follows}});
    return take_before(s, x, loop, both, place_of(s, x, before, loop->vars + 1, loop->rank - 1));
}

static hn_status scan_rest(sched *s, const pieces *x, hn_loop *loop) {
    hn_expr *own = &loop->vars[loop->rank],
            rest = hn_sym_index(s->sym, loop->rank, hn_sym_int(s->sym, x->rest)),
            to = hn_sym_add(s->sym, hn_sym_int(s->sym, x->count * x->elems), rest);
    loop_subst(s, loop, own, &to, 1);
    *own = rest;
    hn_expr last = hn_sym_int(s->sym, x->count - 1);
    return take_before(s, x, loop, compare(s, loop, HN_OP_EQ, rest),
                       place_of(s, x, last, loop->vars, loop->rank));
}

hn_status scan_split(sched *s, const hn_loop *loop, uint32_t origin, hn_loop *out[SCAN_STAGES],
                     uint32_t *out_count) {
    static hn_status (*const stages[SCAN_STAGES])(sched *, const pieces *, hn_loop *) = {
        sum_pieces, scan_sums, scan_pieces, scan_rest};
    pieces x = {0};
    *out_count = 0;
    if (!cut(s, loop, &x) || !sched_allows(s, HN_SCHED_SCAN, origin, 0)) return NULL;
    HN_TRY(add_buffer(s, loop, &x, &x.sums));
    HN_TRY(add_buffer(s, loop, &x, &x.scanned));
    const uint32_t count = x.rest ? SCAN_STAGES : SCAN_STAGES - 1;
    for (uint32_t k = 0; k < count; k++) {
        HN_NEW(s->arena, out[k], 1);
        HN_TRY(loop_copy(s, loop, out[k]));
        HN_TRY(stages[k](s, &x, out[k]));
    }
    *out_count = count;
    sched_done(s, HN_SCHED_SCAN);
    return NULL;
}
