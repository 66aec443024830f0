/* cpu_form_columns.c: narrow columns: a few vectors of rows go through all phases together. */
#include "kernel/cpu_former.h"

/* The number of the first row of a strip, and the variables around it. */
static hn_expr emit_strip(hn_former *fm, hn_expr at, hn_expr rows) {
    uint32_t outer = fm->k->rank - 1;
    hn_expr width = hn_former_int(fm, fm->plan->columns.width),
            strips = hn_sym_ceildiv(fm->sym, rows, width);
    if (hn_sym_is_value(fm->sym, strips, 0))
        strips = hn_former_int(fm, 1); /* no strip is ever asked for */
    if (outer) hn_former_coordinates(fm, hn_sym_floordiv(fm->sym, at, strips), fm->k->vars, outer);
    hn_expr first = hn_sym_mul(fm->sym, hn_sym_mod(fm->sym, at, strips), width),
            var = hn_form_symbol(fm->f, rows);
    if (hn_sym_is_int(fm->sym, first, NULL)) return first;
    hn_form_let(fm->f, var, first);
    return var;
}

static hn_status emit_phases(hn_former *fm) {
    for (uint32_t f = 0; f < fm->k->phases.count; f++) HN_TRY(hn_former_column(fm, f));
    return NULL;
}

/* A strip of `copies` vectors, or what is left of the rows. */
static hn_status emit_vectors(hn_former *fm, hn_expr at) {
    const struct hn_cpu_columns *columns = &fm->plan->columns;
    hn_expr lane = fm->k->vars[fm->k->rank - 1], rows = hn_former_extent(fm, lane),
            begin = emit_strip(fm, at, rows), width = hn_former_int(fm, columns->width);
    hn_form_lanes lanes = {
        .whole = true, .rest = columns->is_whole ? HN_FORM_REST_NONE : HN_FORM_REST_MASKED_STEP};
    hn_expr end = columns->is_whole ? hn_sym_add(fm->sym, begin, width) : rows;
    hn_form_lanes_in(fm->f, lane, begin, end, columns->copies, lanes);
    HN_TRY(emit_phases(fm));
    hn_form_close(fm->f);
    return NULL;
}

hn_status hn_form_columns_narrow(hn_former *fm) {
    bool serial = fm->k->serial, has_strips = fm->k->rank > 0;
    /* One more than there are strips, so that a strip's number is taken modulo the count of those
     * side by side even where these are all: a compiler knows no range of `at`, and sees by that of
     * the modulo what can be left of the last strip. */
    hn_expr at =
        hn_form_symbol(fm->f, hn_sym_add(fm->sym, fm->plan->extent, hn_former_int(fm, has_strips)));
    hn_form_for(fm->f, at, serial ? hn_former_int(fm, 0) : fm->f->first,
                serial ? fm->plan->extent : fm->f->until, 1);
    HN_TRY(has_strips ? emit_vectors(fm, at) : emit_phases(fm));
    hn_form_close(fm->f);
    return NULL;
}
