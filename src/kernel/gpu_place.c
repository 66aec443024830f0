/* gpu_place.c: where the vectors of a step lie, and the blocks in which they are there. */
#include "kernel/gpu_vectors.h"

hn_gpu_run hn_gpu_run_of(const hn_gpu_planner *pl, const hn_expr *vars, uint32_t count) {
    return (hn_gpu_run){
        .vars = vars,
        .count = count,
        .last = vars[count - 1],
        .vectors = hn_sym_floordiv(pl->sym, hn_gpu_assume(pl, hn_gpu_extents(pl, vars, count)),
                                   hn_gpu_num(pl, pl->layout->vector))};
}

/* Where the vector lies: all variables but the last one, and that of its first element. */
static void emit_place(hn_gpu_planner *pl, hn_gpu_vec *v, hn_expr at) {
    const hn_gpu_run *run = v->run;
    if (run->begin) {
        hn_gpu_emit_coordinates(pl, at, run->vars, run->count);
        v->begin = run->begin;
        return;
    }
    hn_expr all = hn_gpu_assume(pl, hn_gpu_extent(pl, run->last)),
            width = hn_gpu_num(pl, pl->layout->vector),
            parts = hn_sym_floordiv(pl->sym, all, width);
    if (hn_sym_is_value(pl->sym, parts, 0)) parts = hn_gpu_num(pl, 1);
    hn_expr part = at;
    if (run->count > 1) {
        part = hn_form_symbol(pl->f, parts);
        hn_form_let(pl->f, part, hn_sym_mod(pl->sym, at, parts));
        hn_gpu_emit_coordinates(pl, hn_sym_floordiv(pl->sym, at, parts), run->vars, run->count - 1);
    }
    v->begin = hn_sym_mul(pl->sym, part, width);
    if (run->count > 1 && !run->limit) v->first = hn_sym_mul(pl->sym, at, width);
    if (run->limit) v->begin = hn_sym_add(pl->sym, v->begin, pl->head);
}

/* Unless it is there for certain. */
static void open_if(hn_gpu_planner *pl, hn_gpu_vec *v, hn_expr at, hn_expr extent, int64_t size) {
    if (hn_sym_divisor(pl->sym, extent) % size == 0) return;
    hn_form_if(pl->f, at, extent);
    v->open++;
}

/* A vector of a square: along the last variable, or turned around along the other one. */
static void emit_square_place(hn_gpu_planner *pl, hn_gpu_vec *v, bool turned) {
    const hn_gpu_tile *t = v->run->tile;
    const uint32_t count = pl->layout->vector;
    if (!v->open) { /* names of its own */
        hn_form_block(pl->f);
        v->open++;
    }
    hn_expr width = hn_gpu_num(pl, count), side = hn_gpu_num(pl, t->size),
            parts = hn_gpu_num(pl, t->size / count), line = hn_form_symbol(pl->f, side),
            part = hn_form_symbol(pl->f, parts), pitch = hn_gpu_num(pl, t->pitch);
    hn_expr number = hn_sym_add(pl->sym, pl->f->thread,
                                hn_sym_mul(pl->sym, v->u, hn_gpu_num(pl, pl->layout->width)));
    hn_form_let(pl->f, line, hn_sym_floordiv(pl->sym, number, parts));
    hn_form_let(pl->f, part, hn_sym_mod(pl->sym, number, parts));
    hn_expr inner = hn_sym_mul(pl->sym, part, width), of_line = turned ? t->last : t->along,
            at = hn_sym_add(pl->sym, turned ? t->last_begin : t->along_begin, line);
    v->begin = hn_sym_add(pl->sym, turned ? t->along_begin : t->last_begin, inner);
    open_if(pl, v, at, hn_gpu_extent(pl, of_line), t->size);
    open_if(pl, v, v->begin, hn_gpu_extent(pl, turned ? t->along : t->last), t->size);
    hn_form_let(pl->f, of_line, at);
    v->square = hn_sym_add(pl->sym, turned ? inner : hn_sym_mul(pl->sym, inner, pitch),
                           turned ? hn_sym_mul(pl->sym, line, pitch) : line);
    v->step = turned ? hn_gpu_num(pl, 1) : pitch;
}

/* Opens the loop over the vectors of a step. */
hn_gpu_vec hn_gpu_begin_unrolled(hn_gpu_planner *pl, const hn_gpu_run *run) {
    const uint32_t unroll = pl->layout->unroll;
    hn_gpu_vec v = {.run = run, .u = hn_gpu_num(pl, 0)};
    if (unroll > 1) {
        v.u = hn_form_symbol(pl->f, hn_gpu_num(pl, unroll));
        hn_form_unrolled(pl->f, v.u, unroll);
        v.open++;
    }
    return v;
}

/* Opens the block of the vector at hand. */
void hn_gpu_begin_vector(hn_gpu_planner *pl, hn_gpu_vec *v) {
    const hn_gpu_run *run = v->run;
    hn_expr number =
        hn_sym_add(pl->sym, run->first, hn_sym_mul(pl->sym, v->u, hn_gpu_num(pl, run->width)));
    if (!run->is_whole) {
        hn_form_if(pl->f, number, run->limit ? run->limit : run->vectors);
        v->open++;
    }
    hn_expr at = hn_form_symbol(pl->f, run->vectors);
    hn_form_let(pl->f, at, number);
    emit_place(pl, v, at);
}

/* Opens the block of vector after vector. */
hn_gpu_vec hn_gpu_begin_vectors(hn_gpu_planner *pl, const hn_gpu_run *run, bool turned) {
    hn_gpu_vec v = hn_gpu_begin_unrolled(pl, run);
    if (run->tile) emit_square_place(pl, &v, turned);
    else hn_gpu_begin_vector(pl, &v);
    return v;
}

void hn_gpu_end_vectors(hn_gpu_planner *pl, const hn_gpu_vec *v) {
    for (uint32_t k = 0; k < v->open; k++) hn_form_close(pl->f);
}

/* The first of the vector's elements in an array. */
hn_expr hn_gpu_first_in(const hn_gpu_planner *pl, const hn_gpu_vec *v) {
    return hn_sym_mul(pl->sym, v->u, hn_gpu_num(pl, pl->layout->vector));
}

/* The number of an element among all of the variables, row-major. */
static hn_expr number_of_element(const hn_gpu_planner *pl, const hn_gpu_run *run) {
    hn_expr number = hn_gpu_num(pl, 0);
    for (uint32_t d = 0; d < run->count; d++) {
        hn_expr extent = hn_gpu_assume(pl, hn_gpu_extent(pl, run->vars[d]));
        number = hn_sym_add(pl->sym, hn_sym_mul(pl->sym, number, extent), run->vars[d]);
    }
    return number;
}

static bool uses_any(const hn_gpu_planner *pl, hn_expr e, const hn_gpu_run *run) {
    for (uint32_t d = 0; d < run->count; d++)
        if (hn_sym_uses(pl->sym, e, run->vars[d])) return true;
    return false;
}

/* What goes through all elements in their order needs no quotients. */
hn_expr hn_gpu_first_index(const hn_gpu_planner *pl, const hn_gpu_vec *v, hn_expr index) {
    hn_expr of_call = hn_gpu_assume(pl, index);
    if (v->first) {
        hn_expr rest = hn_sym_sub(pl->sym, of_call, number_of_element(pl, v->run));
        if (!uses_any(pl, rest, v->run)) return hn_sym_add(pl->sym, rest, v->first);
    }
    return hn_sym_subst(pl->sym, of_call, &v->run->last, &v->begin, 1);
}
