/* cpu_form_columns.c: narrow columns: a few vectors of rows go through all phases together. */
#include "kernel/cpu_emitter.h"

/* The number of the first row of a strip, and the variables around it. */
static hn_expr emit_strip(hn_emitter *em, hn_expr at, hn_expr rows) {
    uint32_t outer = em->k->rank - 1;
    hn_expr width = hn_emitter_int(em, em->plan->columns.width),
            strips = hn_sym_ceildiv(em->sym, rows, width);
    if (hn_sym_is_value(em->sym, strips, 0))
        strips = hn_emitter_int(em, 1); /* no strip is ever run */
    if (outer) hn_emitter_coordinates(em, hn_sym_floordiv(em->sym, at, strips), em->k->vars, outer);
    hn_expr first = hn_sym_mul(em->sym, hn_sym_mod(em->sym, at, strips), width),
            var = hn_form_symbol(em->f, rows);
    if (hn_sym_is_int(em->sym, first, NULL)) return first;
    hn_form_let(em->f, var, first);
    return var;
}

static hn_status emit_phases(hn_emitter *em) {
    for (uint32_t f = 0; f < em->k->phases.count; f++) HN_TRY(hn_emitter_column(em, f));
    return NULL;
}

/* A strip of `copies` vectors, or what is left of the rows. */
static hn_status emit_vectors(hn_emitter *em, hn_expr at) {
    const struct hn_cpu_columns *columns = &em->plan->columns;
    hn_expr lane = em->k->vars[em->k->rank - 1], rows = hn_emitter_extent(em, lane),
            begin = emit_strip(em, at, rows), width = hn_emitter_int(em, columns->width);
    hn_form_lanes lanes = {
        .whole = true, .rest = columns->is_whole ? HN_FORM_REST_NONE : HN_FORM_REST_MASKED_STEP};
    hn_expr end = columns->is_whole ? hn_sym_add(em->sym, begin, width) : rows;
    hn_form_lanes_in(em->f, lane, begin, end, columns->copies, lanes);
    HN_TRY(emit_phases(em));
    hn_form_close(em->f);
    return NULL;
}

hn_status hn_form_columns_narrow(hn_emitter *em) {
    bool serial = em->k->serial, has_strips = em->k->rank > 0;
    /* One more than there are strips, so that a strip's number is taken modulo the count of those
     * side by side even where these are all: a compiler knows no range of `at`, and sees by that of
     * the modulo what can be left of the last strip. */
    hn_expr at = hn_form_symbol(
        em->f, hn_sym_add(em->sym, em->plan->extent, hn_emitter_int(em, has_strips)));
    hn_form_for(em->f, at, serial ? hn_emitter_int(em, 0) : em->f->first,
                serial ? em->plan->extent : em->f->until, 1);
    HN_TRY(has_strips ? emit_vectors(em, at) : emit_phases(em));
    hn_form_close(em->f);
    return NULL;
}
