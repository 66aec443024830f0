/* cpu_form_tiles.c: squares of kernels that read along another dimension than they write
 * (cpu_tile.c).
 *
 * A square has rows along the tile's variable and columns along the phase's, which is that of the
 * lanes. Strided loads of it are transposed into an array; then the body runs row by row, and these
 * loads read the array.
 *
 * Wide tiles are two loops over the squares of a range. The first one has the whole squares and
 * goes in steps: step t transposes square t into array t mod 2, a vector by a vector at a time, and
 * in between writes square t - 1 from the other array. The second one has the squares at the edges,
 * one after the other. */
#include "kernel/cpu_emitter.h"

enum { SIDE = HN_CPU_WIDE_TILE, PITCH = HN_CPU_WIDE_TILE_PITCH, ARRAY = SIDE * PITCH };

/* A part of a matrix. It lies in the array from element `at` on. */
typedef struct square {
    hn_expr row, rows;       /* of the tile's variable: from `row` on */
    hn_expr column, columns; /* of the phase's variable */
    hn_expr at;
    hn_form_rest rest; /* of the columns */
} square;

static hn_expr num(const hn_emitter *em, int64_t value) { return hn_emitter_int(em, value); }
static hn_expr plus(const hn_emitter *em, hn_expr a, hn_expr b) {
    return hn_sym_add(em->sym, a, b);
}
static hn_expr minus(const hn_emitter *em, hn_expr a, hn_expr b) {
    return hn_sym_sub(em->sym, a, b);
}
static hn_expr times(const hn_emitter *em, hn_expr a, int64_t b) {
    return hn_sym_mul(em->sym, a, num(em, b));
}
static hn_expr divided(const hn_emitter *em, hn_expr a, int64_t b) {
    return hn_sym_floordiv(em->sym, a, num(em, b));
}
static hn_expr remainder_of(const hn_emitter *em, hn_expr a, int64_t b) {
    return hn_sym_mod(em->sym, a, num(em, b));
}
/* `a` where `second` is 0, `b` where it is 1. */
static hn_expr either(const hn_emitter *em, hn_expr second, hn_expr a, hn_expr b) {
    return plus(em, a, hn_sym_mul(em->sym, second, minus(em, b, a)));
}

static hn_expr row_variable(const hn_emitter *em) { return em->plan->tiles.var; }
static hn_expr column_variable(const hn_emitter *em) { return em->ph->lane; }
static hn_expr all_rows(const hn_emitter *em) { return hn_emitter_extent(em, row_variable(em)); }
static hn_expr all_columns(const hn_emitter *em) {
    return hn_emitter_extent(em, column_variable(em));
}

static const hn_sop *op_of(const hn_emitter *em, hn_sid s) { return &em->ph->phase->body.items[s]; }
static bool is_transposed(const hn_emitter *em, hn_sid s) {
    return em->ph->ops[s].live && em->ph->ops[s].transposed;
}
static uint32_t line_elems(const hn_emitter *em, hn_dtype dtype) {
    return em->plan->facts->line_bytes / (uint32_t)hn_dtype_facts(dtype)->size_bytes;
}

/* A symbol for the row or the column of a square's element. */
static hn_expr let_row(hn_emitter *em, hn_expr e) { return hn_emitter_let(em, e, all_rows(em)); }
static hn_expr let_column(hn_emitter *em, hn_expr e) {
    return hn_emitter_let(em, e, all_columns(em));
}

/* Where load `s` finds the element at (row, column); `index` in the memory. */
static hn_fmem place_at(hn_emitter *em, hn_sid s, hn_expr row, hn_expr column, hn_expr *index) {
    *index = op_of(em, s)->index;
    em->renaming = (hn_emitter_renaming){
        .from = {row_variable(em), column_variable(em)}, .to = {row, column}, .count = 2};
    hn_fmem memory = hn_emitter_place(em, op_of(em, s)->buffer, false, index);
    em->renaming.count = 0;
    return memory;
}

/* ---- parts ---- */

static hn_fmem add_array(hn_emitter *em, hn_sid s, hn_space space, int64_t elems) {
    return hn_form_add_memory(em->f, (hn_form_memory){.space = space,
                                                      .dtype = op_of(em, s)->dtype,
                                                      .elems = num(em, elems),
                                                      .padded = true,
                                                      .is_read = true,
                                                      .is_written = true});
}

/* What load `s` reads of the square, rows for columns. */
static void emit_transpose(hn_emitter *em, hn_sid s, const square *sq) {
    hn_form_transpose t = {.rows = sq->rows, .columns = sq->columns};
    t.pitch = em->plan->tiles.pitch;
    t.from = place_at(em, s, sq->row, sq->column, &t.from_index);
    t.stride = em->ph->ops[s].step;
    hn_form_transpose_into(em->f, em->tiles[s], sq->at, t);
}

/* The body for elements [from, until) of a row, number `u` in the square. */
static void emit_lanes(hn_emitter *em, const square *sq, hn_expr u, hn_expr from, hn_expr until,
                       uint32_t unroll, hn_form_lanes lanes) {
    hn_expr begin = plus(em, sq->at, times(em, u, em->plan->tiles.pitch));
    for (hn_sid s = 1; s < em->ph->phase->body.count; s++)
        em->tile_indices[s] = plus(em, begin, minus(em, column_variable(em), sq->column));
    hn_form_lanes_in(em->f, column_variable(em), from, until, unroll, lanes);
    hn_form_vector(em->f);
}

static void close_lanes(hn_emitter *em) {
    hn_emitter_levels(em, 0, em->ph->phase->rank);
    hn_emitter_effects(em);
    hn_form_close(em->f);
    hn_form_close(em->f);
}

/* While row u of a narrow square is written, the lines of what will be column u of the next one. */
static void emit_next_column(hn_emitter *em, hn_sid s, const square *sq, hn_expr u) {
    hn_expr last = minus(em, all_columns(em), num(em, 1)), index;
    hn_expr line = hn_form_symbol(em->f, num(em, HN_CPU_TILE));
    hn_expr column = plus(em, plus(em, sq->column, num(em, HN_CPU_TILE)), u);
    column = let_column(em, hn_sym_min(em->sym, column, last));
    hn_fmem memory = place_at(em, s, sq->row, column, &index);
    hn_form_for(em->f, line, num(em, 0), sq->rows, line_elems(em, op_of(em, s)->dtype));
    hn_form_prefetch(em->f, memory, plus(em, index, line), HN_FETCH_READ, 1);
    hn_form_close(em->f);
}

/* The body for a square, row by row. */
static void emit_rows(hn_emitter *em, const square *sq) {
    hn_expr row = row_variable(em), u = minus(em, row, sq->row);
    hn_form_for(em->f, row, sq->row, plus(em, sq->row, sq->rows), 1);
    for (hn_sid s = 1; s < em->ph->phase->body.count && em->plan->tiles.prefetches; s++)
        if (is_transposed(em, s)) emit_next_column(em, s, sq, u);
    emit_lanes(em, sq, u, sq->column, plus(em, sq->column, sq->columns), 1,
               (hn_form_lanes){.single = true, .rest = sq->rest});
    close_lanes(em);
    hn_form_close(em->f);
}

/* The kernel's variables but the tile's. */
static void emit_outer(hn_emitter *em, hn_expr number) {
    hn_expr vars[HN_MAX_RANK];
    uint32_t count = 0;
    for (uint32_t d = 0; d < em->k->rank; d++)
        if (em->k->vars[d] != row_variable(em)) vars[count++] = em->k->vars[d];
    hn_emitter_coordinates(em, number, vars, count);
}

/* Rows of squares that a matrix has. Where it has none, none is ever run. */
static hn_expr block_rows(hn_emitter *em) {
    hn_expr count = hn_sym_ceildiv(em->sym, all_rows(em), num(em, em->plan->tiles.block));
    return hn_sym_is_value(em->sym, count, 0) ? num(em, 1) : count;
}

/* ---- narrow tiles ---- */

hn_status hn_form_tiles(hn_emitter *em) {
    HN_TRY(hn_emitter_phase(em, 0));
    hn_expr number = hn_form_symbol(em->f, em->f->grid), blocks = block_rows(em);
    hn_expr column = hn_form_symbol(em->f, all_columns(em));
    square sq = {.column = column, .at = num(em, 0), .rest = HN_FORM_REST_MASKED};
    for (hn_sid s = 1; s < em->ph->phase->body.count; s++)
        if (is_transposed(em, s))
            em->tiles[s] = add_array(em, s, HN_SPACE_SHARED, HN_CPU_TILE * HN_CPU_TILE);
    hn_form_for(em->f, number, em->f->first, em->f->until, 1);
    sq.row = let_row(em, times(em, hn_sym_mod(em->sym, number, blocks), HN_CPU_TILE));
    sq.rows = hn_sym_min(em->sym, minus(em, all_rows(em), sq.row), num(em, HN_CPU_TILE));
    sq.rows = hn_emitter_let(em, sq.rows, num(em, HN_CPU_TILE + 1));
    emit_outer(em, hn_sym_floordiv(em->sym, number, blocks));
    hn_form_for(em->f, column, num(em, 0), all_columns(em), HN_CPU_TILE);
    sq.columns = hn_sym_min(em->sym, minus(em, all_columns(em), column), num(em, HN_CPU_TILE));
    sq.columns = hn_emitter_let(em, sq.columns, num(em, HN_CPU_TILE + 1));
    for (hn_sid s = 1; s < em->ph->phase->body.count; s++)
        if (is_transposed(em, s)) emit_transpose(em, s, &sq);
    emit_rows(em, &sq);
    hn_form_close(em->f);
    hn_form_close(em->f);
    return NULL;
}

/* ---- wide tiles ---- */

/* The part of a range that is in one matrix: rows of squares [begin, end). */
typedef struct wide {
    hn_sid load; /* the one that goes through the arrays */
    hn_expr begin, end;
    hn_expr rows, columns; /* how many whole squares it has down, from `begin` on, and across */
    hn_expr divisor;       /* `rows`, or 1 */
    hn_expr steps;         /* whole squares */
} wide;

/* Where whole square `number` begins. What is down in memory that is written is along what is read:
 * squares go down first. */
static square whole_square(hn_emitter *em, const wide *w, hn_expr number) {
    hn_sym *sym = em->sym;
    number = hn_emitter_let(em, number, plus(em, w->steps, num(em, 1)));
    hn_expr row = plus(em, w->begin, hn_sym_mod(sym, number, w->divisor));
    hn_expr column = hn_sym_floordiv(sym, number, w->divisor);
    return (square){.row = let_row(em, times(em, row, SIDE)),
                    .column = let_column(em, times(em, column, SIDE)),
                    .rows = num(em, SIDE),
                    .columns = num(em, SIDE),
                    .at = times(em, remainder_of(em, number, 2), ARRAY),
                    .rest = HN_FORM_REST_NONE};
}

/* Lines of the square after this one: those of the next `lanes` columns, a part at a time. Behind
 * the last column comes the first of the square that follows. Element e of the part is e mod SIDE
 * along one of its columns. */
static void emit_next_lines(hn_emitter *em, const wide *w, const square *next, hn_expr part) {
    const int64_t elems = (int64_t)em->plan->lanes * em->plan->lanes;
    const int64_t line = line_elems(em, op_of(em, w->load)->dtype);
    hn_expr e = hn_form_symbol(em->f, num(em, elems)), index;
    hn_expr row = let_row(em, plus(em, next->row, remainder_of(em, times(em, part, elems), SIDE)));
    hn_expr column =
        let_column(em, plus(em, next->column, divided(em, times(em, part, elems), SIDE)));
    (void)hn_form_add(em->f, (hn_form_stmt){.kind = HN_FORM_FOR,
                                            .var = e,
                                            .begin = num(em, 0),
                                            .end = num(em, elems),
                                            .step = line,
                                            .unroll = 16});
    hn_fmem memory = place_at(em, w->load, plus(em, row, remainder_of(em, e, SIDE)),
                              plus(em, column, divided(em, e, SIDE)), &index);
    hn_form_prefetch(em->f, memory, index, HN_FETCH_FAR, 1);
    hn_form_close(em->f);
}

/* What is read along the rows, some of them on: those of the square that is written, then those of
 * `next`. */
static void emit_row_prefetches(hn_emitter *em, hn_expr row, hn_expr columns_on) {
    hn_expr column = plus(em, column_variable(em), columns_on), index;
    for (hn_sid s = 1; s < em->ph->phase->body.count; s++) {
        if (!em->ph->ops[s].rows_ahead) continue;
        const uint32_t every = line_elems(em, op_of(em, s)->dtype) / em->plan->lanes;
        hn_fmem memory = place_at(em, s, row, column, &index);
        hn_form_prefetch(em->f, memory, index, HN_FETCH_FAR, every ? every : 1);
    }
}

static bool prefetches_rows(const hn_emitter *em) {
    bool any = false;
    for (hn_sid s = 1; s < em->ph->phase->body.count; s++) any |= em->ph->ops[s].rows_ahead;
    return any;
}

/* A run of row u of square `sq`, from element v on; `next` is written after it. */
static void emit_run(hn_emitter *em, const square *sq, const square *next, hn_expr u, hn_expr v,
                     uint32_t elems) {
    const hn_expr ahead = plus(em, u, num(em, em->plan->facts->tile_rows_ahead));
    hn_expr row = 0, columns_on = 0;
    hn_form_let(em->f, row_variable(em), plus(em, sq->row, u));
    if (prefetches_rows(em)) {
        hn_expr is_next = hn_emitter_let(em, divided(em, ahead, SIDE), num(em, 2));
        hn_expr of_next = plus(em, next->row, minus(em, ahead, num(em, SIDE)));
        row = let_row(em, either(em, is_next, plus(em, sq->row, ahead), of_next));
        columns_on = either(em, is_next, num(em, 0), minus(em, next->column, sq->column));
        columns_on = let_column(em, columns_on);
    }
    const hn_expr from = plus(em, sq->column, v), until = plus(em, from, num(em, elems));
    emit_lanes(em, sq, u, from, until, elems / em->plan->lanes, (hn_form_lanes){.whole = true});
    if (row) emit_row_prefetches(em, row, columns_on);
    close_lanes(em);
}

/* As many elements of the previous square as one of lanes by lanes has: a run of a row, or whole
 * rows. */
static void emit_share(hn_emitter *em, const square *previous, const square *next, hn_expr x,
                       hn_expr part) {
    const uint32_t elems = em->plan->lanes * em->plan->lanes;
    const uint32_t run = elems < SIDE ? elems : SIDE, runs = elems / run;
    hn_expr k = runs > 1 ? hn_form_symbol(em->f, num(em, runs)) : num(em, 0);
    hn_expr e = plus(em, plus(em, times(em, x, SIDE), times(em, part, elems)), times(em, k, run));
    if (runs > 1) hn_form_for(em->f, k, num(em, 0), num(em, runs), 1);
    hn_expr u = hn_emitter_let(em, divided(em, e, SIDE), num(em, SIDE));
    emit_run(em, previous, next, u, remainder_of(em, e, SIDE), run);
    if (runs > 1) hn_form_close(em->f);
}

/* What comes after the columns of `current` from x on: `lanes` columns further, or the first of
 * `following`. */
static square next_columns(hn_emitter *em, const square *current, const square *following,
                           hn_expr x) {
    const hn_expr on = plus(em, x, num(em, em->plan->lanes));
    const hn_expr is_following = hn_emitter_let(em, divided(em, on, SIDE), num(em, 2));
    const hn_expr here = plus(em, current->column, on);
    const hn_expr there = plus(em, following->column, minus(em, on, num(em, SIDE)));
    square next = {.row = let_row(em, either(em, is_following, current->row, following->row))};
    next.column = let_column(em, either(em, is_following, here, there));
    return next;
}

/* Whole square `current`, lanes by lanes: lines of the next columns, the transposition, and a share
 * of square `previous`. */
static void emit_step(hn_emitter *em, const wide *w, hn_expr t, const square *previous,
                      const square *current, const square *following) {
    const uint32_t lanes = em->plan->lanes;
    hn_expr x = hn_form_symbol(em->f, num(em, SIDE));
    hn_expr part = hn_form_symbol(em->f, num(em, SIDE / lanes)), y = times(em, part, lanes);
    hn_form_for(em->f, x, num(em, 0), num(em, SIDE), lanes);
    square next = next_columns(em, current, following, x);
    hn_form_for(em->f, part, num(em, 0), num(em, SIDE / lanes), 1);
    emit_next_lines(em, w, &next, part);
    square piece = {.row = plus(em, current->row, y),
                    .column = plus(em, current->column, x),
                    .rows = num(em, lanes),
                    .columns = num(em, lanes),
                    .at = plus(em, current->at, plus(em, times(em, y, PITCH), x))};
    emit_transpose(em, w->load, &piece);
    hn_form_if(em->f, num(em, 0), t);
    emit_share(em, previous, current, x, part);
    hn_form_close(em->f);
    hn_form_close(em->f);
    hn_form_close(em->f);
}

static void emit_whole_squares(hn_emitter *em, const wide *w) {
    hn_sym *sym = em->sym;
    const hn_expr zero = num(em, 0), one = num(em, 1), count = plus(em, w->steps, one);
    if (hn_sym_is_value(sym, w->steps, 0)) return;
    const hn_expr t = hn_form_symbol(em->f, count), before = minus(em, t, one);
    const hn_expr after = hn_sym_min(sym, plus(em, t, one), minus(em, w->steps, one));
    hn_form_for(em->f, t, zero, count, 1);
    hn_form_if(em->f, t, w->steps);
    square previous = whole_square(em, w, hn_sym_max(sym, before, zero));
    square current = whole_square(em, w, t), following = whole_square(em, w, after);
    emit_step(em, w, t, &previous, &current, &following);
    hn_form_else(em->f);
    hn_form_if(em->f, zero, t);
    square last = whole_square(em, w, before);
    emit_rows(em, &last);
    hn_form_close(em->f);
    hn_form_close(em->f);
    hn_form_close(em->f);
}

/* In rows of whole squares the last column, in those that are not whole all of them. */
static void emit_edges(hn_emitter *em, const wide *w) {
    hn_sym *sym = em->sym;
    const hn_expr side = num(em, SIDE), rows = all_rows(em), columns = all_columns(em);
    if (hn_sym_is_value(sym, remainder_of(em, rows, SIDE), 0) &&
        hn_sym_is_value(sym, remainder_of(em, columns, SIDE), 0))
        return;
    hn_expr number = hn_form_symbol(em->f, block_rows(em)), column = hn_form_symbol(em->f, columns);
    hn_form_for(em->f, number, w->begin, w->end, 1);
    square sq = {.row = let_row(em, times(em, number, SIDE)),
                 .column = column,
                 .at = num(em, 0),
                 .rest = HN_FORM_REST_MASKED};
    sq.rows = hn_emitter_let(em, hn_sym_min(sym, minus(em, rows, sq.row), side), num(em, SIDE + 1));
    hn_expr whole_columns = hn_sym_mul(sym, divided(em, sq.rows, SIDE), w->columns);
    hn_form_for(em->f, column, times(em, whole_columns, SIDE), columns, SIDE);
    sq.columns = hn_sym_min(sym, minus(em, columns, column), side);
    sq.columns = hn_emitter_let(em, sq.columns, num(em, SIDE + 1));
    emit_transpose(em, w->load, &sq);
    emit_rows(em, &sq);
    hn_form_close(em->f);
    hn_form_close(em->f);
}

/* The rows of squares of matrix `number` that are in the range. */
static wide part_of(hn_emitter *em, hn_expr number, hn_expr blocks) {
    hn_sym *sym = em->sym;
    wide w = {.load = 1};
    while (!is_transposed(em, w.load)) w.load++;
    hn_expr first = hn_sym_mul(sym, number, blocks), zero = num(em, 0), one = num(em, 1);
    w.begin = hn_emitter_let(em, hn_sym_max(sym, minus(em, em->f->first, first), zero), blocks);
    w.end = hn_sym_min(sym, minus(em, em->f->until, first), blocks);
    w.end = hn_emitter_let(em, w.end, plus(em, blocks, one));
    hn_expr rows = divided(em, all_rows(em), SIDE), columns = divided(em, all_columns(em), SIDE);
    const bool none = hn_sym_is_value(sym, rows, 0);
    w.rows = none ? zero : minus(em, hn_sym_min(sym, w.end, rows), w.begin);
    w.rows = hn_emitter_let(em, w.rows, plus(em, rows, one));
    w.divisor = hn_emitter_let(em, hn_sym_max(sym, w.rows, one), plus(em, rows, num(em, 2)));
    w.columns = hn_emitter_let(em, columns, plus(em, columns, one));
    w.steps = hn_sym_mul(sym, w.rows, w.columns);
    return w;
}

static hn_expr matrices_of(hn_emitter *em) {
    hn_expr count = num(em, 1);
    for (uint32_t d = 0; d < em->k->rank; d++)
        if (em->k->vars[d] != row_variable(em))
            count = hn_sym_mul(em->sym, count, hn_emitter_extent(em, em->k->vars[d]));
    return count;
}

hn_status hn_form_tiles_wide(hn_emitter *em) {
    HN_TRY(hn_emitter_phase(em, 0));
    hn_expr blocks = block_rows(em), matrices = matrices_of(em), number = num(em, 0);
    const bool is_one = hn_sym_is_value(em->sym, matrices, 1);
    if (!is_one) number = hn_form_symbol(em->f, matrices);
    if (!is_one)
        hn_form_for(em->f, number, hn_sym_floordiv(em->sym, em->f->first, blocks),
                    hn_sym_ceildiv(em->sym, em->f->until, blocks), 1);
    wide w = part_of(em, number, blocks);
    em->tiles[w.load] = add_array(em, w.load, HN_SPACE_SCRATCH, 2 * ARRAY);
    emit_outer(em, number);
    emit_whole_squares(em, &w);
    emit_edges(em, &w);
    if (!is_one) hn_form_close(em->f);
    return NULL;
}
