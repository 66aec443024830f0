/* cpu_form_strips.c: wide columns: the sums of a strip of them in scratch memory (cpu_column.c).
 *
 * The rows that are added up are streams, as many as strip_step of the facts, each of `far` rows. A
 * step takes row q of each of them:
 *     for p from 0 to far by block_steps:
 *         for q from p to p + block_steps:
 *             for vectors of the strip:
 *                 register = q is p ? 0 : block sums
 *                 for each stream s: register += row q + s * far
 *                 block sums = register
 *         all sums += block sums
 * Then the phases after the sums read all sums. */
#include "kernel/cpu_former.h"

#include "base/checked.h"

typedef struct strip {
    hn_expr lane;                   /* the kernel's last variable: columns */
    hn_expr begin, end;             /* its columns: [begin, end) */
    hn_expr columns;                /* how many these are */
    hn_expr rows, far;              /* rows of the sums; of a stream */
    hn_fmem *block_sums, *all_sums; /* per reduction */
} strip;

static hn_expr num(const hn_former *fm, int64_t value) { return hn_former_int(fm, value); }

static const struct hn_cpu_columns *columns_of(const hn_former *fm) { return &fm->plan->columns; }

static const hn_kernel_phase *sums_of(const hn_former *fm) { return &fm->k->phases.items[0]; }

/* ---- parts ---- */

/* For whole vectors. */
static hn_fmem add_sums(hn_former *fm, const hn_kernel_reduce *r) {
    const int64_t elems = (int64_t)hn_align_up(columns_of(fm)->width, fm->plan->lanes);
    return hn_form_add_memory(fm->f, (hn_form_memory){.space = HN_SPACE_SCRATCH,
                                                      .dtype = r->dtype,
                                                      .elems = num(fm, elems),
                                                      .padded = true,
                                                      .is_read = true,
                                                      .is_written = true});
}

static hn_status add_memories(hn_former *fm, strip *s) {
    const hn_kernel_phase *sums = sums_of(fm);
    HN_NEW(fm->scratch, s->block_sums, sums->reduces.count);
    HN_NEW(fm->scratch, s->all_sums, sums->reduces.count);
    for (uint32_t r = 0; r < sums->reduces.count; r++) {
        s->block_sums[r] = add_sums(fm, &sums->reduces.items[r]);
        s->all_sums[r] = add_sums(fm, &sums->reduces.items[r]);
    }
    return NULL;
}

/* LANES over [begin, end), whole steps of `copies` vectors first. */
static void open_lanes(hn_former *fm, hn_expr var, hn_expr begin, hn_expr end, uint32_t copies) {
    const bool is_whole = columns_of(fm)->is_whole;
    const hn_form_lanes lanes = {.whole = copies > 1,
                                 .single = copies == 1 || !is_whole,
                                 .rest = is_whole ? HN_FORM_REST_NONE : HN_FORM_REST_MASKED};
    hn_form_lanes_in(fm->f, var, begin, end, copies, lanes);
}

static hn_fid load(hn_former *fm, hn_fmem memory, hn_expr index) {
    const hn_dtype dtype = fm->f->memories.items[memory].dtype;
    const hn_sop op = {.kind = HN_SOP_LOAD, .dtype = dtype, .buffer = memory, .index = index};
    return hn_form_value(fm->f, op);
}

/* All sums of the strip are 0. */
static void emit_zeros(hn_former *fm, const strip *s) {
    for (uint32_t r = 0; r < sums_of(fm)->reduces.count; r++) {
        hn_expr at = hn_form_symbol(fm->f, num(fm, columns_of(fm)->width));
        open_lanes(fm, at, num(fm, 0), s->columns, 1);
        hn_form_vector(fm->f);
        const hn_dtype dtype = sums_of(fm)->reduces.items[r].dtype;
        hn_fid zero = hn_form_value(fm->f, (hn_sop){.kind = HN_SOP_CONST, .dtype = dtype});
        hn_form_store(fm->f, s->all_sums[r], at, zero, HN_STORE_SET);
        hn_form_close(fm->f);
        hn_form_close(fm->f);
    }
}

/* All sums += block sums. */
static void emit_carry(hn_former *fm, const strip *s) {
    for (uint32_t r = 0; r < sums_of(fm)->reduces.count; r++) {
        hn_expr at = hn_form_symbol(fm->f, num(fm, columns_of(fm)->width));
        open_lanes(fm, at, num(fm, 0), s->columns, 1);
        hn_form_vector(fm->f);
        hn_fid all = load(fm, s->all_sums[r], at), block = load(fm, s->block_sums[r], at);
        hn_sop add = {.kind = HN_SOP_ELEM, .op = HN_OP_ADD, .args = {all, block}};
        add.dtype = sums_of(fm)->reduces.items[r].dtype;
        hn_fid sum = hn_form_value(fm->f, add);
        hn_form_store(fm->f, s->all_sums[r], at, sum, HN_STORE_SET);
        hn_form_close(fm->f);
        hn_form_close(fm->f);
    }
}

/* ---- the sums ---- */

/* The registers at the beginning of step q of the block that begins at p. */
static void emit_begin(hn_former *fm, const strip *s, hn_expr p, hn_expr q, hn_expr at) {
    const hn_kernel_phase *sums = sums_of(fm);
    hn_former_inits(fm);
    hn_form_if(fm->f, p, q);
    hn_form_vector(fm->f);
    for (uint32_t r = 0; r < sums->reduces.count; r++) {
        hn_fid sum = load(fm, s->block_sums[r], at);
        hn_form_set(fm->f, fm->registers[sums->reduces.items[r].slot], sum, 0);
    }
    hn_form_close(fm->f);
    hn_form_close(fm->f);
}

/* Row q of each stream; the last ones may have fewer rows. */
static void emit_rows(hn_former *fm, const strip *s, hn_expr q) {
    const uint32_t streams = fm->plan->facts->strip_step;
    hn_expr stream = hn_form_symbol(fm->f, num(fm, streams));
    hn_expr row = hn_sym_add(fm->sym, q, hn_sym_mul(fm->sym, stream, s->far));
    (void)hn_form_add(fm->f, (hn_form_stmt){.kind = HN_FORM_FOR,
                                            .var = stream,
                                            .begin = num(fm, 0),
                                            .end = num(fm, streams),
                                            .step = 1,
                                            .unroll = streams});
    if (!columns_of(fm)->even_steps) hn_form_if(fm->f, row, s->rows);
    hn_form_let(fm->f, sums_of(fm)->vars[0], row);
    hn_former_vector(fm, 0);
    if (!columns_of(fm)->even_steps) hn_form_close(fm->f);
    hn_form_close(fm->f);
}

static void emit_end(hn_former *fm, const strip *s, hn_expr at) {
    const hn_kernel_phase *sums = sums_of(fm);
    hn_form_vector(fm->f);
    for (uint32_t r = 0; r < sums->reduces.count; r++) {
        hn_fid sum = hn_form_result(fm->f, fm->registers[sums->reduces.items[r].slot], false);
        hn_form_store(fm->f, s->block_sums[r], at, sum, HN_STORE_SET);
    }
    hn_form_close(fm->f);
}

static hn_status emit_sums(hn_former *fm, const strip *s) {
    const uint32_t steps = columns_of(fm)->block_steps;
    const hn_expr at = hn_sym_sub(fm->sym, s->lane, s->begin);
    hn_expr p = hn_form_symbol(fm->f, s->far), q = hn_form_symbol(fm->f, s->far);
    hn_expr end = hn_sym_min(fm->sym, hn_sym_add(fm->sym, p, num(fm, steps)), s->far);
    HN_TRY(hn_former_phase(fm, 0));
    hn_form_for(fm->f, p, num(fm, 0), s->far, steps);
    hn_form_for(fm->f, q, p, end, 1);
    open_lanes(fm, s->lane, s->begin, s->end, columns_of(fm)->copies);
    emit_begin(fm, s, p, q, at);
    emit_rows(fm, s, q);
    emit_end(fm, s, at);
    hn_form_close(fm->f);
    hn_form_close(fm->f);
    emit_carry(fm, s);
    hn_form_close(fm->f);
    return NULL;
}

/* ---- the whole ---- */

static hn_status emit_results(hn_former *fm, const strip *s) {
    const hn_kernel_phase *sums = sums_of(fm);
    for (uint32_t r = 0; r < sums->reduces.count; r++)
        fm->result_memories[sums->reduces.items[r].slot] = s->all_sums[r];
    fm->result_index = hn_sym_sub(fm->sym, s->lane, s->begin);
    open_lanes(fm, s->lane, s->begin, s->end, columns_of(fm)->copies);
    for (uint32_t f = 1; f < fm->k->phases.count; f++) HN_TRY(hn_former_column(fm, f));
    hn_form_close(fm->f);
    return NULL;
}

/* The strip with number `number` of the kernel, and the outer variables. */
static void emit_place(hn_former *fm, strip *s, hn_expr number) {
    hn_sym *sym = fm->sym;
    const uint32_t outer = fm->k->rank - 1;
    const hn_expr width = num(fm, columns_of(fm)->width), all = hn_former_extent(fm, s->lane);
    hn_expr strips = hn_sym_ceildiv(sym, all, width);
    if (hn_sym_is_value(sym, strips, 0)) strips = num(fm, 1); /* none is ever asked for */
    s->begin = hn_former_let(fm, hn_sym_mul(sym, hn_sym_mod(sym, number, strips), width), all);
    s->columns = hn_sym_min(sym, hn_sym_sub(sym, all, s->begin), width);
    s->columns = hn_former_let(fm, s->columns, num(fm, columns_of(fm)->width + 1));
    s->end = hn_sym_add(sym, s->begin, s->columns);
    hn_former_coordinates(fm, hn_sym_floordiv(sym, number, strips), fm->k->vars, outer);
}

hn_status hn_form_columns_wide(hn_former *fm) {
    strip s = {.lane = fm->k->vars[fm->k->rank - 1],
               .rows = hn_former_extent(fm, sums_of(fm)->vars[0])};
    const bool serial = fm->k->serial;
    hn_expr number = hn_form_symbol(fm->f, fm->plan->extent);
    HN_TRY(add_memories(fm, &s));
    hn_expr far = hn_sym_ceildiv(fm->sym, s.rows, num(fm, fm->plan->facts->strip_step));
    s.far = hn_former_let(fm, far, hn_sym_add(fm->sym, far, num(fm, 1)));
    hn_form_for(fm->f, number, serial ? num(fm, 0) : fm->f->first,
                serial ? fm->plan->extent : fm->f->until, 1);
    emit_place(fm, &s, number);
    emit_zeros(fm, &s);
    HN_TRY(emit_sums(fm, &s));
    HN_TRY(emit_results(fm, &s));
    hn_form_close(fm->f);
    return NULL;
}
