/* cpu_form_strips.c: wide columns: the sums of a strip of them in scratch memory (cpu_column.c).
 *
 * The rows that are added up are streams, as many as strip_step of the facts, each of `stream_rows`
 * rows. A step takes row q of each of them: for p from 0 to stream_rows by block_steps: for q from
 * p to p + block_steps: for vectors of the strip: register = q is p ? 0 : block sums for each
 * stream s: register += row q + s * stream_rows block sums = register all sums += block sums Then
 * the phases after the sums read all sums. */
#include "kernel/cpu_emitter.h"

#include "base/checked.h"

typedef struct strip {
    hn_expr lane;                   /* the kernel's last variable: columns */
    hn_expr begin, end;             /* its columns: [begin, end) */
    hn_expr columns;                /* how many these are */
    hn_expr rows, stream_rows;      /* rows of the sums; of a stream */
    hn_fmem *block_sums, *all_sums; /* per reduction */
} strip;

static hn_expr num(const hn_emitter *em, int64_t value) { return hn_emitter_int(em, value); }

static const struct hn_cpu_columns *columns_of(const hn_emitter *em) { return &em->plan->columns; }

static const hn_kernel_phase *sums_of(const hn_emitter *em) { return &em->k->phases.items[0]; }

/* ---- parts ---- */

/* For whole vectors. */
static hn_fmem add_sums(hn_emitter *em, const hn_kernel_reduce *r) {
    const int64_t elems = (int64_t)hn_align_up(columns_of(em)->width, em->plan->lanes);
    return hn_form_add_memory(em->f, (hn_form_memory){.space = HN_SPACE_SCRATCH,
                                                      .dtype = r->dtype,
                                                      .elems = num(em, elems),
                                                      .padded = true,
                                                      .is_read = true,
                                                      .is_written = true});
}

static hn_status add_memories(hn_emitter *em, strip *s) {
    const hn_kernel_phase *sums = sums_of(em);
    HN_NEW(em->scratch, s->block_sums, sums->reduces.count);
    HN_NEW(em->scratch, s->all_sums, sums->reduces.count);
    for (uint32_t r = 0; r < sums->reduces.count; r++) {
        s->block_sums[r] = add_sums(em, &sums->reduces.items[r]);
        s->all_sums[r] = add_sums(em, &sums->reduces.items[r]);
    }
    return NULL;
}

/* LANES over [begin, end), whole steps of `copies` vectors first. */
static void open_lanes(hn_emitter *em, hn_expr var, hn_expr begin, hn_expr end, uint32_t copies) {
    const bool is_whole = columns_of(em)->is_whole;
    const hn_form_lanes lanes = {.whole = copies > 1,
                                 .single = copies == 1 || !is_whole,
                                 .rest = is_whole ? HN_FORM_REST_NONE : HN_FORM_REST_MASKED};
    hn_form_lanes_in(em->f, var, begin, end, copies, lanes);
}

static hn_fid load(hn_emitter *em, hn_fmem memory, hn_expr index) {
    const hn_dtype dtype = em->f->memories.items[memory].dtype;
    const hn_sop op = {.kind = HN_SOP_LOAD, .dtype = dtype, .buffer = memory, .index = index};
    return hn_form_value(em->f, op);
}

/* All sums of the strip are 0. */
static void emit_zeros(hn_emitter *em, const strip *s) {
    for (uint32_t r = 0; r < sums_of(em)->reduces.count; r++) {
        hn_expr at = hn_form_symbol(em->f, num(em, columns_of(em)->width));
        open_lanes(em, at, num(em, 0), s->columns, 1);
        hn_form_vector(em->f);
        const hn_dtype dtype = sums_of(em)->reduces.items[r].dtype;
        hn_fid zero = hn_form_value(em->f, (hn_sop){.kind = HN_SOP_CONST, .dtype = dtype});
        hn_form_store(em->f, s->all_sums[r], at, zero, HN_STORE_SET);
        hn_form_close(em->f);
        hn_form_close(em->f);
    }
}

/* All sums += block sums. */
static void emit_carry(hn_emitter *em, const strip *s) {
    for (uint32_t r = 0; r < sums_of(em)->reduces.count; r++) {
        hn_expr at = hn_form_symbol(em->f, num(em, columns_of(em)->width));
        open_lanes(em, at, num(em, 0), s->columns, 1);
        hn_form_vector(em->f);
        hn_fid all = load(em, s->all_sums[r], at), block = load(em, s->block_sums[r], at);
        hn_sop add = {.kind = HN_SOP_ELEM, .op = HN_OP_ADD, .args = {all, block}};
        add.dtype = sums_of(em)->reduces.items[r].dtype;
        hn_fid sum = hn_form_value(em->f, add);
        hn_form_store(em->f, s->all_sums[r], at, sum, HN_STORE_SET);
        hn_form_close(em->f);
        hn_form_close(em->f);
    }
}

/* ---- the sums ---- */

/* The registers at the beginning of step q of the block that begins at p. */
static void emit_begin(hn_emitter *em, const strip *s, hn_expr p, hn_expr q, hn_expr at) {
    const hn_kernel_phase *sums = sums_of(em);
    hn_emitter_inits(em);
    hn_form_if(em->f, p, q);
    hn_form_vector(em->f);
    for (uint32_t r = 0; r < sums->reduces.count; r++) {
        hn_fid sum = load(em, s->block_sums[r], at);
        hn_form_set(em->f, em->registers[sums->reduces.items[r].slot], sum, 0);
    }
    hn_form_close(em->f);
    hn_form_close(em->f);
}

/* Row q of each stream; the last ones may have fewer rows. */
static void emit_rows(hn_emitter *em, const strip *s, hn_expr q) {
    const uint32_t streams = em->plan->facts->strip_step;
    hn_expr stream = hn_form_symbol(em->f, num(em, streams));
    hn_expr row = hn_sym_add(em->sym, q, hn_sym_mul(em->sym, stream, s->stream_rows));
    (void)hn_form_add(em->f, (hn_form_stmt){.kind = HN_FORM_FOR,
                                            .var = stream,
                                            .begin = num(em, 0),
                                            .end = num(em, streams),
                                            .step = 1,
                                            .unroll = streams});
    if (!columns_of(em)->even_steps) hn_form_if(em->f, row, s->rows);
    hn_form_let(em->f, sums_of(em)->vars[0], row);
    hn_emitter_vector(em, 0);
    if (!columns_of(em)->even_steps) hn_form_close(em->f);
    hn_form_close(em->f);
}

static void emit_end(hn_emitter *em, const strip *s, hn_expr at) {
    const hn_kernel_phase *sums = sums_of(em);
    hn_form_vector(em->f);
    for (uint32_t r = 0; r < sums->reduces.count; r++) {
        hn_fid sum = hn_form_result(em->f, em->registers[sums->reduces.items[r].slot], false);
        hn_form_store(em->f, s->block_sums[r], at, sum, HN_STORE_SET);
    }
    hn_form_close(em->f);
}

static hn_status emit_sums(hn_emitter *em, const strip *s) {
    const uint32_t steps = columns_of(em)->block_steps;
    const hn_expr at = hn_sym_sub(em->sym, s->lane, s->begin);
    hn_expr p = hn_form_symbol(em->f, s->stream_rows), q = hn_form_symbol(em->f, s->stream_rows);
    hn_expr end = hn_sym_min(em->sym, hn_sym_add(em->sym, p, num(em, steps)), s->stream_rows);
    HN_TRY(hn_emitter_phase(em, 0));
    hn_form_for(em->f, p, num(em, 0), s->stream_rows, steps);
    hn_form_for(em->f, q, p, end, 1);
    open_lanes(em, s->lane, s->begin, s->end, columns_of(em)->copies);
    emit_begin(em, s, p, q, at);
    emit_rows(em, s, q);
    emit_end(em, s, at);
    hn_form_close(em->f);
    hn_form_close(em->f);
    emit_carry(em, s);
    hn_form_close(em->f);
    return NULL;
}

/* ---- the whole ---- */

static hn_status emit_results(hn_emitter *em, const strip *s) {
    const hn_kernel_phase *sums = sums_of(em);
    for (uint32_t r = 0; r < sums->reduces.count; r++)
        em->result_memories[sums->reduces.items[r].slot] = s->all_sums[r];
    em->result_index = hn_sym_sub(em->sym, s->lane, s->begin);
    open_lanes(em, s->lane, s->begin, s->end, columns_of(em)->copies);
    for (uint32_t f = 1; f < em->k->phases.count; f++) HN_TRY(hn_emitter_column(em, f));
    hn_form_close(em->f);
    return NULL;
}

/* The strip with number `number` of the kernel, and the outer variables. */
static void emit_place(hn_emitter *em, strip *s, hn_expr number) {
    hn_sym *sym = em->sym;
    const uint32_t outer = em->k->rank - 1;
    const hn_expr width = num(em, columns_of(em)->width), all = hn_emitter_extent(em, s->lane);
    hn_expr strips = hn_sym_ceildiv(sym, all, width);
    if (hn_sym_is_value(sym, strips, 0)) strips = num(em, 1); /* none is ever run */
    s->begin = hn_emitter_let(em, hn_sym_mul(sym, hn_sym_mod(sym, number, strips), width), all);
    s->columns = hn_sym_min(sym, hn_sym_sub(sym, all, s->begin), width);
    s->columns = hn_emitter_let(em, s->columns, num(em, columns_of(em)->width + 1));
    s->end = hn_sym_add(sym, s->begin, s->columns);
    hn_emitter_coordinates(em, hn_sym_floordiv(sym, number, strips), em->k->vars, outer);
}

hn_status hn_form_columns_wide(hn_emitter *em) {
    strip s = {.lane = em->k->vars[em->k->rank - 1],
               .rows = hn_emitter_extent(em, sums_of(em)->vars[0])};
    const bool serial = em->k->serial;
    hn_expr number = hn_form_symbol(em->f, em->plan->extent);
    HN_TRY(add_memories(em, &s));
    hn_expr stream_rows = hn_sym_ceildiv(em->sym, s.rows, num(em, em->plan->facts->strip_step));
    s.stream_rows = hn_emitter_let(em, stream_rows, hn_sym_add(em->sym, stream_rows, num(em, 1)));
    hn_form_for(em->f, number, serial ? num(em, 0) : em->f->first,
                serial ? em->plan->extent : em->f->until, 1);
    emit_place(em, &s, number);
    emit_zeros(em, &s);
    HN_TRY(emit_sums(em, &s));
    HN_TRY(emit_results(em, &s));
    hn_form_close(em->f);
    return NULL;
}
