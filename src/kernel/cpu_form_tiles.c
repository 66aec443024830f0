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
#include "kernel/cpu_former.h"

enum { SIDE = HN_CPU_WIDE_TILE, PITCH = HN_CPU_WIDE_TILE_PITCH, ARRAY = SIDE * PITCH };

/* A part of a matrix. It lies in the array from element `at` on. */
typedef struct square {
    hn_expr row, rows;       /* of the tile's variable: from `row` on */
    hn_expr column, columns; /* of the phase's variable */
    hn_expr at;
    hn_form_rest rest;       /* of the columns */
} square;

static hn_expr num(const hn_former *fm, int64_t value) { return hn_former_int(fm, value); }
static hn_expr plus(const hn_former *fm, hn_expr a, hn_expr b) { return hn_sym_add(fm->sym, a, b); }
static hn_expr minus(const hn_former *fm, hn_expr a, hn_expr b) {
    return hn_sym_sub(fm->sym, a, b);
}
static hn_expr times(const hn_former *fm, hn_expr a, int64_t b) {
    return hn_sym_mul(fm->sym, a, num(fm, b));
}
static hn_expr over(const hn_former *fm, hn_expr a, int64_t b) {
    return hn_sym_floordiv(fm->sym, a, num(fm, b));
}
static hn_expr rest_of(const hn_former *fm, hn_expr a, int64_t b) {
    return hn_sym_mod(fm->sym, a, num(fm, b));
}
/* `a` where `second` is 0, `b` where it is 1. */
static hn_expr either(const hn_former *fm, hn_expr second, hn_expr a, hn_expr b) {
    return plus(fm, a, hn_sym_mul(fm->sym, second, minus(fm, b, a)));
}

static hn_expr row_variable(const hn_former *fm) { return fm->plan->tiles.var; }
static hn_expr column_variable(const hn_former *fm) { return fm->ph->lane; }
static hn_expr all_rows(const hn_former *fm) { return hn_former_extent(fm, row_variable(fm)); }
static hn_expr all_columns(const hn_former *fm) {
    return hn_former_extent(fm, column_variable(fm));
}

static const hn_sop *op_of(const hn_former *fm, hn_sid s) { return &fm->ph->phase->body.items[s]; }
static bool is_transposed(const hn_former *fm, hn_sid s) {
    return fm->ph->ops[s].live && fm->ph->ops[s].transposed;
}
static uint32_t line_elems(const hn_former *fm, hn_dtype dtype) {
    return fm->plan->facts->line_bytes / (uint32_t)hn_dtype_facts(dtype)->size_bytes;
}

/* A symbol for the row or the column of a square's element. */
static hn_expr let_row(hn_former *fm, hn_expr e) { return hn_former_let(fm, e, all_rows(fm)); }
static hn_expr let_column(hn_former *fm, hn_expr e) {
    return hn_former_let(fm, e, all_columns(fm));
}

/* Where load `s` finds the element at (row, column); `index` in the memory. */
static hn_fmem place_at(hn_former *fm, hn_sid s, hn_expr row, hn_expr column, hn_expr *index) {
    *index = op_of(fm, s)->index;
    fm->renaming = (hn_former_renaming){
        .from = {row_variable(fm), column_variable(fm)}, .to = {row, column}, .count = 2};
    hn_fmem memory = hn_former_place(fm, op_of(fm, s)->buffer, false, index);
    fm->renaming.count = 0;
    return memory;
}

/* ---- parts ---- */

static hn_fmem add_array(hn_former *fm, hn_sid s, hn_space space, int64_t elems) {
    return hn_form_add_memory(fm->f, (hn_form_memory){.space = space,
                                                      .dtype = op_of(fm, s)->dtype,
                                                      .elems = num(fm, elems),
                                                      .padded = true,
                                                      .is_read = true,
                                                      .is_written = true});
}

/* What load `s` reads of the square, rows for columns. */
static void emit_transpose(hn_former *fm, hn_sid s, const square *sq) {
    hn_form_transpose t = {.rows = sq->rows, .columns = sq->columns};
    t.pitch = fm->plan->tiles.pitch;
    t.from = place_at(fm, s, sq->row, sq->column, &t.from_index);
    t.stride = fm->ph->ops[s].step;
    hn_form_transpose_into(fm->f, fm->tiles[s], sq->at, t);
}

/* The body for elements [from, until) of a row, number `u` in the square. */
static void emit_lanes(hn_former *fm, const square *sq, hn_expr u, hn_expr from, hn_expr until,
                       uint32_t unroll, hn_form_lanes lanes) {
    hn_expr begin = plus(fm, sq->at, times(fm, u, fm->plan->tiles.pitch));
    for (hn_sid s = 1; s < fm->ph->phase->body.count; s++)
        fm->tile_indices[s] = plus(fm, begin, minus(fm, column_variable(fm), sq->column));
    hn_form_lanes_in(fm->f, column_variable(fm), from, until, unroll, lanes);
    hn_form_vector(fm->f);
}

static void close_lanes(hn_former *fm) {
    hn_former_levels(fm, 0, fm->ph->phase->rank);
    hn_former_effects(fm);
    hn_form_close(fm->f);
    hn_form_close(fm->f);
}

/* While row u of a narrow square is written, the lines of what will be column u of the next one. */
static void emit_next_column(hn_former *fm, hn_sid s, const square *sq, hn_expr u) {
    hn_expr last = minus(fm, all_columns(fm), num(fm, 1)), index;
    hn_expr line = hn_form_symbol(fm->f, num(fm, HN_CPU_TILE));
    hn_expr column = plus(fm, plus(fm, sq->column, num(fm, HN_CPU_TILE)), u);
    column = let_column(fm, hn_sym_min(fm->sym, column, last));
    hn_fmem memory = place_at(fm, s, sq->row, column, &index);
    hn_form_for(fm->f, line, num(fm, 0), sq->rows, line_elems(fm, op_of(fm, s)->dtype));
    hn_form_prefetch(fm->f, memory, plus(fm, index, line), false, 1);
    hn_form_close(fm->f);
}

/* The body for a square, row by row. */
static void emit_rows(hn_former *fm, const square *sq) {
    hn_expr row = row_variable(fm), u = minus(fm, row, sq->row);
    hn_form_for(fm->f, row, sq->row, plus(fm, sq->row, sq->rows), 1);
    for (hn_sid s = 1; s < fm->ph->phase->body.count && fm->plan->tiles.prefetches; s++)
        if (is_transposed(fm, s)) emit_next_column(fm, s, sq, u);
    emit_lanes(fm, sq, u, sq->column, plus(fm, sq->column, sq->columns), 1,
               (hn_form_lanes){.single = true, .rest = sq->rest});
    close_lanes(fm);
    hn_form_close(fm->f);
}

/* The kernel's variables but the tile's. */
static void emit_outer(hn_former *fm, hn_expr number) {
    hn_expr vars[HN_MAX_RANK];
    uint32_t count = 0;
    for (uint32_t d = 0; d < fm->k->rank; d++)
        if (fm->k->vars[d] != row_variable(fm)) vars[count++] = fm->k->vars[d];
    hn_former_coordinates(fm, number, vars, count);
}

/* Rows of squares that a matrix has. Where it has none, none is ever asked for. */
static hn_expr block_rows(hn_former *fm) {
    hn_expr count = hn_sym_ceildiv(fm->sym, all_rows(fm), num(fm, fm->plan->tiles.block));
    return hn_sym_is_value(fm->sym, count, 0) ? num(fm, 1) : count;
}

/* ---- narrow tiles ---- */

hn_status hn_form_tiles(hn_former *fm) {
    HN_TRY(hn_former_phase(fm, 0));
    hn_expr number = hn_form_symbol(fm->f, fm->f->grid), blocks = block_rows(fm);
    hn_expr column = hn_form_symbol(fm->f, all_columns(fm));
    square sq = {.column = column, .at = num(fm, 0), .rest = HN_FORM_REST_MASKED};
    for (hn_sid s = 1; s < fm->ph->phase->body.count; s++)
        if (is_transposed(fm, s))
            fm->tiles[s] = add_array(fm, s, HN_SPACE_SHARED, HN_CPU_TILE * HN_CPU_TILE);
    hn_form_for(fm->f, number, fm->f->first, fm->f->until, 1);
    sq.row = let_row(fm, times(fm, hn_sym_mod(fm->sym, number, blocks), HN_CPU_TILE));
    sq.rows = hn_sym_min(fm->sym, minus(fm, all_rows(fm), sq.row), num(fm, HN_CPU_TILE));
    sq.rows = hn_former_let(fm, sq.rows, num(fm, HN_CPU_TILE + 1));
    emit_outer(fm, hn_sym_floordiv(fm->sym, number, blocks));
    hn_form_for(fm->f, column, num(fm, 0), all_columns(fm), HN_CPU_TILE);
    sq.columns = hn_sym_min(fm->sym, minus(fm, all_columns(fm), column), num(fm, HN_CPU_TILE));
    sq.columns = hn_former_let(fm, sq.columns, num(fm, HN_CPU_TILE + 1));
    for (hn_sid s = 1; s < fm->ph->phase->body.count; s++)
        if (is_transposed(fm, s)) emit_transpose(fm, s, &sq);
    emit_rows(fm, &sq);
    hn_form_close(fm->f);
    hn_form_close(fm->f);
    return NULL;
}

/* ---- wide tiles ---- */

/* The part of a range that is in one matrix: rows of squares [begin, end). */
typedef struct wide {
    hn_sid load;           /* the one that goes through the arrays */
    hn_expr begin, end;
    hn_expr rows, columns; /* how many whole squares it has down, from `begin` on, and across */
    hn_expr divisor;       /* `rows`, or 1 */
    hn_expr steps;         /* whole squares */
} wide;

/* Where whole square `number` begins. What is down in memory that is written is along what is read:
 * squares go down first. */
static square whole_square(hn_former *fm, const wide *w, hn_expr number) {
    hn_sym *sym = fm->sym;
    number = hn_former_let(fm, number, plus(fm, w->steps, num(fm, 1)));
    hn_expr row = plus(fm, w->begin, hn_sym_mod(sym, number, w->divisor));
    hn_expr column = hn_sym_floordiv(sym, number, w->divisor);
    return (square){.row = let_row(fm, times(fm, row, SIDE)),
                    .column = let_column(fm, times(fm, column, SIDE)),
                    .rows = num(fm, SIDE),
                    .columns = num(fm, SIDE),
                    .at = times(fm, rest_of(fm, number, 2), ARRAY),
                    .rest = HN_FORM_REST_NONE};
}

/* Lines of the square after this one: those of the next `lanes` columns, a part at a time. Behind
 * the last column comes the first of the square that follows. Element e of the part is e mod SIDE
 * along one of its columns. */
static void emit_next_lines(hn_former *fm, const wide *w, const square *next, hn_expr part) {
    const int64_t elems = (int64_t)fm->plan->lanes * fm->plan->lanes;
    const int64_t line = line_elems(fm, op_of(fm, w->load)->dtype);
    hn_expr e = hn_form_symbol(fm->f, num(fm, elems)), index;
    hn_expr row = let_row(fm, plus(fm, next->row, rest_of(fm, times(fm, part, elems), SIDE)));
    hn_expr column = let_column(fm, plus(fm, next->column, over(fm, times(fm, part, elems), SIDE)));
    (void)hn_form_add(fm->f, (hn_form_stmt){.kind = HN_FORM_FOR,
                                            .var = e,
                                            .begin = num(fm, 0),
                                            .end = num(fm, elems),
                                            .step = line,
                                            .unroll = 16});
    hn_fmem memory = place_at(fm, w->load, plus(fm, row, rest_of(fm, e, SIDE)),
                              plus(fm, column, over(fm, e, SIDE)), &index);
    hn_form_prefetch(fm->f, memory, index, false, 1);
    hn_form_close(fm->f);
}

/* What is read along the rows, some of them on: those of the square that is written, then those of
 * `next`. */
static void emit_row_prefetches(hn_former *fm, hn_expr row, hn_expr columns_on) {
    hn_expr column = plus(fm, column_variable(fm), columns_on), index;
    for (hn_sid s = 1; s < fm->ph->phase->body.count; s++) {
        if (!fm->ph->ops[s].rows_ahead) continue;
        const uint32_t every = line_elems(fm, op_of(fm, s)->dtype) / fm->plan->lanes;
        hn_fmem memory = place_at(fm, s, row, column, &index);
        hn_form_prefetch(fm->f, memory, index, false, every ? every : 1);
    }
}

static bool asks_for_rows(const hn_former *fm) {
    bool any = false;
    for (hn_sid s = 1; s < fm->ph->phase->body.count; s++) any |= fm->ph->ops[s].rows_ahead;
    return any;
}

/* A run of row u of square `sq`, from element v on; `next` is written after it. */
static void emit_run(hn_former *fm, const square *sq, const square *next, hn_expr u, hn_expr v,
                     uint32_t elems) {
    const hn_expr ahead = plus(fm, u, num(fm, fm->plan->facts->tile_rows_ahead));
    hn_expr row = 0, columns_on = 0;
    hn_form_let(fm->f, row_variable(fm), plus(fm, sq->row, u));
    if (asks_for_rows(fm)) {
        hn_expr is_next = hn_former_let(fm, over(fm, ahead, SIDE), num(fm, 2));
        hn_expr of_next = plus(fm, next->row, minus(fm, ahead, num(fm, SIDE)));
        row = let_row(fm, either(fm, is_next, plus(fm, sq->row, ahead), of_next));
        columns_on = either(fm, is_next, num(fm, 0), minus(fm, next->column, sq->column));
        columns_on = let_column(fm, columns_on);
    }
    const hn_expr from = plus(fm, sq->column, v), until = plus(fm, from, num(fm, elems));
    emit_lanes(fm, sq, u, from, until, elems / fm->plan->lanes, (hn_form_lanes){.whole = true});
    if (row) emit_row_prefetches(fm, row, columns_on);
    close_lanes(fm);
}

/* As many elements of the square that waits as one of lanes by lanes has: a run of a row, or whole
 * rows. */
static void emit_share(hn_former *fm, const square *waiting, const square *next, hn_expr x,
                       hn_expr part) {
    const uint32_t elems = fm->plan->lanes * fm->plan->lanes;
    const uint32_t run = elems < SIDE ? elems : SIDE, runs = elems / run;
    hn_expr k = runs > 1 ? hn_form_symbol(fm->f, num(fm, runs)) : num(fm, 0);
    hn_expr e = plus(fm, plus(fm, times(fm, x, SIDE), times(fm, part, elems)), times(fm, k, run));
    if (runs > 1) hn_form_for(fm->f, k, num(fm, 0), num(fm, runs), 1);
    hn_expr u = hn_former_let(fm, over(fm, e, SIDE), num(fm, SIDE));
    emit_run(fm, waiting, next, u, rest_of(fm, e, SIDE), run);
    if (runs > 1) hn_form_close(fm->f);
}

/* What comes after the columns of `now` from x on: `lanes` columns further, or the first of
 * `following`. */
static square next_columns(hn_former *fm, const square *now, const square *following, hn_expr x) {
    const hn_expr on = plus(fm, x, num(fm, fm->plan->lanes));
    const hn_expr is_following = hn_former_let(fm, over(fm, on, SIDE), num(fm, 2));
    const hn_expr here = plus(fm, now->column, on);
    const hn_expr there = plus(fm, following->column, minus(fm, on, num(fm, SIDE)));
    square next = {.row = let_row(fm, either(fm, is_following, now->row, following->row))};
    next.column = let_column(fm, either(fm, is_following, here, there));
    return next;
}

/* Whole square `now`, lanes by lanes: lines of the next columns, the transposition, and a share of
 * square `waiting`. */
static void emit_step(hn_former *fm, const wide *w, hn_expr t, const square *waiting,
                      const square *now, const square *following) {
    const uint32_t lanes = fm->plan->lanes;
    hn_expr x = hn_form_symbol(fm->f, num(fm, SIDE));
    hn_expr part = hn_form_symbol(fm->f, num(fm, SIDE / lanes)), y = times(fm, part, lanes);
    hn_form_for(fm->f, x, num(fm, 0), num(fm, SIDE), lanes);
    square next = next_columns(fm, now, following, x);
    hn_form_for(fm->f, part, num(fm, 0), num(fm, SIDE / lanes), 1);
    emit_next_lines(fm, w, &next, part);
    square piece = {.row = plus(fm, now->row, y),
                    .column = plus(fm, now->column, x),
                    .rows = num(fm, lanes),
                    .columns = num(fm, lanes),
                    .at = plus(fm, now->at, plus(fm, times(fm, y, PITCH), x))};
    emit_transpose(fm, w->load, &piece);
    hn_form_if(fm->f, num(fm, 0), t);
    emit_share(fm, waiting, now, x, part);
    hn_form_close(fm->f);
    hn_form_close(fm->f);
    hn_form_close(fm->f);
}

static void emit_whole_squares(hn_former *fm, const wide *w) {
    hn_sym *sym = fm->sym;
    const hn_expr zero = num(fm, 0), one = num(fm, 1), count = plus(fm, w->steps, one);
    if (hn_sym_is_value(sym, w->steps, 0)) return;
    const hn_expr t = hn_form_symbol(fm->f, count), before = minus(fm, t, one);
    const hn_expr after = hn_sym_min(sym, plus(fm, t, one), minus(fm, w->steps, one));
    hn_form_for(fm->f, t, zero, count, 1);
    hn_form_if(fm->f, t, w->steps);
    square waiting = whole_square(fm, w, hn_sym_max(sym, before, zero));
    square now = whole_square(fm, w, t), following = whole_square(fm, w, after);
    emit_step(fm, w, t, &waiting, &now, &following);
    hn_form_else(fm->f);
    hn_form_if(fm->f, zero, t);
    square last = whole_square(fm, w, before);
    emit_rows(fm, &last);
    hn_form_close(fm->f);
    hn_form_close(fm->f);
    hn_form_close(fm->f);
}

/* In rows of whole squares the last column, in those that are not whole all of them. */
static void emit_edges(hn_former *fm, const wide *w) {
    hn_sym *sym = fm->sym;
    const hn_expr side = num(fm, SIDE), rows = all_rows(fm), columns = all_columns(fm);
    if (hn_sym_is_value(sym, rest_of(fm, rows, SIDE), 0) &&
        hn_sym_is_value(sym, rest_of(fm, columns, SIDE), 0))
        return;
    hn_expr number = hn_form_symbol(fm->f, block_rows(fm)), column = hn_form_symbol(fm->f, columns);
    hn_form_for(fm->f, number, w->begin, w->end, 1);
    square sq = {.row = let_row(fm, times(fm, number, SIDE)),
                 .column = column,
                 .at = num(fm, 0),
                 .rest = HN_FORM_REST_MASKED};
    sq.rows = hn_former_let(fm, hn_sym_min(sym, minus(fm, rows, sq.row), side), num(fm, SIDE + 1));
    hn_expr whole_columns = hn_sym_mul(sym, over(fm, sq.rows, SIDE), w->columns);
    hn_form_for(fm->f, column, times(fm, whole_columns, SIDE), columns, SIDE);
    sq.columns = hn_sym_min(sym, minus(fm, columns, column), side);
    sq.columns = hn_former_let(fm, sq.columns, num(fm, SIDE + 1));
    emit_transpose(fm, w->load, &sq);
    emit_rows(fm, &sq);
    hn_form_close(fm->f);
    hn_form_close(fm->f);
}

/* The rows of squares of matrix `number` that are in the range. */
static wide part_of(hn_former *fm, hn_expr number, hn_expr blocks) {
    hn_sym *sym = fm->sym;
    wide w = {.load = 1};
    while (!is_transposed(fm, w.load)) w.load++;
    hn_expr first = hn_sym_mul(sym, number, blocks), zero = num(fm, 0), one = num(fm, 1);
    w.begin = hn_former_let(fm, hn_sym_max(sym, minus(fm, fm->f->first, first), zero), blocks);
    w.end = hn_sym_min(sym, minus(fm, fm->f->until, first), blocks);
    w.end = hn_former_let(fm, w.end, plus(fm, blocks, one));
    hn_expr rows = over(fm, all_rows(fm), SIDE), columns = over(fm, all_columns(fm), SIDE);
    const bool none = hn_sym_is_value(sym, rows, 0);
    w.rows = none ? zero : minus(fm, hn_sym_min(sym, w.end, rows), w.begin);
    w.rows = hn_former_let(fm, w.rows, plus(fm, rows, one));
    w.divisor = hn_former_let(fm, hn_sym_max(sym, w.rows, one), plus(fm, rows, num(fm, 2)));
    w.columns = hn_former_let(fm, columns, plus(fm, columns, one));
    w.steps = hn_sym_mul(sym, w.rows, w.columns);
    return w;
}

static hn_expr matrices_of(hn_former *fm) {
    hn_expr count = num(fm, 1);
    for (uint32_t d = 0; d < fm->k->rank; d++)
        if (fm->k->vars[d] != row_variable(fm))
            count = hn_sym_mul(fm->sym, count, hn_former_extent(fm, fm->k->vars[d]));
    return count;
}

hn_status hn_form_tiles_wide(hn_former *fm) {
    HN_TRY(hn_former_phase(fm, 0));
    hn_expr blocks = block_rows(fm), matrices = matrices_of(fm), number = num(fm, 0);
    const bool is_one = hn_sym_is_value(fm->sym, matrices, 1);
    if (!is_one) number = hn_form_symbol(fm->f, matrices);
    if (!is_one)
        hn_form_for(fm->f, number, hn_sym_floordiv(fm->sym, fm->f->first, blocks),
                    hn_sym_ceildiv(fm->sym, fm->f->until, blocks), 1);
    wide w = part_of(fm, number, blocks);
    fm->tiles[w.load] = add_array(fm, w.load, HN_SPACE_SCRATCH, 2 * ARRAY);
    emit_outer(fm, number);
    emit_whole_squares(fm, &w);
    emit_edges(fm, &w);
    if (!is_one) hn_form_close(fm->f);
    return NULL;
}
