/* cpu_costs.c: the model of costs of forms for CPUs.
 *
 * A call moves bytes and computes, and both go on at once: the longer of the two counts, and a part
 * of the shorter one. Bytes are those of each buffer once, at the rate of the smallest cache that
 * holds all of them. What is computed is counted in cycles of a vector: its ops, the loop around
 * it, the chain of a reduction whose vectors side by side are too few, and what a row begins and
 * ends with. Source: bench_picks. */
#include "kernel/cpu_costs.h"

static double least(double a, double b) { return a < b ? a : b; }
static double most(double a, double b) { return a > b ? a : b; }

static double product_of(const hn_cpu_plan *pl, const hn_expr *vars, uint32_t count) {
    double all = 1;
    for (uint32_t d = 0; d < count; d++) all *= (double)hn_cpu_hint(pl, vars[d], 1024);
    return all;
}

/* ---- bytes ---- */

typedef struct bytes {
    double read, written, streamed; /* each element once; streamed: of the written ones */
} bytes;

/* Elements of an access: the loops that its index goes along, and no more than the buffer has. */
static double elements_of(const hn_cpu_plan *pl, const hn_kernel_phase *phase, hn_buf b,
                          hn_expr index) {
    const hn_buffer *f = &pl->program->buffers.items[b];
    double elems = 1, all = 1;
    bool is_picked = false;
    for (uint32_t d = 0; d < pl->kernel->rank + phase->rank; d++) {
        const hn_expr var =
            d < pl->kernel->rank ? pl->kernel->vars[d] : phase->vars[d - pl->kernel->rank];
        if (hn_sym_uses(pl->sym, index, var)) elems *= (double)hn_cpu_hint(pl, var, 1024);
    }
    for (hn_sid s = 1; s < phase->body.count; s++)
        is_picked |= phase->body.items[s].kind == HN_SOP_INDIRECT &&
                     hn_sym_uses(pl->sym, index, phase->body.items[s].index);
    if (is_picked)
        elems = product_of(pl, pl->kernel->vars, pl->kernel->rank) *
                product_of(pl, phase->vars, phase->rank);
    for (uint32_t d = 0; d < f->rank; d++) all *= (double)hn_sym_hint(pl->sym, f->sizes[d], 1024);
    return least(elems, most(all, 1));
}

/* Whether an earlier load of the kernel is of the same buffer. */
static bool is_first(const hn_cpu_plan *pl, uint32_t phase, hn_sid at) {
    const hn_buf b = pl->kernel->phases.items[phase].body.items[at].buffer;
    for (uint32_t f = 0; f <= phase; f++) {
        const hn_body *body = &pl->kernel->phases.items[f].body;
        for (hn_sid s = 1; s < (f == phase ? at : body->count); s++)
            if (body->items[s].kind == HN_SOP_LOAD && body->items[s].buffer == b) return false;
    }
    return true;
}

static void add_phase(const hn_cpu_plan *pl, uint32_t f, bytes *out) {
    const hn_kernel_phase *phase = &pl->kernel->phases.items[f];
    for (hn_sid s = 1; s < phase->body.count; s++) {
        const hn_sop *op = &phase->body.items[s];
        if (op->kind != HN_SOP_LOAD || !pl->phases[f].ops[s].live ||
            hn_cpu_is_local(pl, op->buffer) || !is_first(pl, f, s))
            continue;
        out->read += elements_of(pl, phase, op->buffer, op->index) *
                     (double)hn_cpu_elem_bytes(pl, op->buffer);
    }
    for (uint32_t k = 0; k < phase->stores.count; k++) {
        const hn_kernel_store *store = &phase->stores.items[k];
        if (hn_cpu_is_local(pl, store->buffer)) continue;
        const double size = elements_of(pl, phase, store->buffer, store->index) *
                            (double)hn_cpu_elem_bytes(pl, store->buffer);
        out->written += size;
        if (pl->phases[f].stores[k].nontemporal) out->streamed += size;
    }
}

static bytes bytes_of(const hn_cpu_plan *pl) {
    bytes b = {0};
    for (uint32_t f = 0; f < pl->kernel->phases.count; f++) add_phase(pl, f, &b);
    return b;
}

/* Rates of one core, bytes a ns, from and to what holds so much. */
static double rate_of(const hn_cpu_plan *pl, double footprint) {
    const hn_cpu_facts *facts = pl->facts;
    if (footprint <= (double)facts->first_cache_bytes) return facts->first_cache_rate;
    if (footprint <= (double)facts->second_cache_bytes) return facts->second_cache_rate;
    if (footprint <= (double)facts->last_cache_bytes) return facts->last_cache_rate;
    return facts->memory_rate;
}

static double memory_ns(const hn_cpu_plan *pl, const bytes *b) {
    const hn_cpu_facts *facts = pl->facts;
    const double footprint = b->read + b->written, cached = b->written - b->streamed,
                 rate = rate_of(pl, footprint);
    const bool is_far = footprint > (double)facts->last_cache_bytes;
    /* a line that an ordinary store changes is read before, and written back */
    return b->read / rate + cached * (is_far ? 2 : 1) / rate + b->streamed / facts->stream_rate;
}

/* ---- cycles ---- */

/* Of a vector of the phase, without its loop. */
static double vector_cycles(const hn_cpu_plan *pl, const hn_cpu_phase *ph) {
    const hn_cpu_facts *facts = pl->facts;
    double cycles = ph->cost * facts->op_cycles;
    for (hn_sid s = 1; s < ph->phase->body.count; s++) {
        const hn_sop *op = &ph->phase->body.items[s];
        if (op->kind != HN_SOP_LOAD || !ph->ops[s].live || ph->ops[s].level < ph->phase->rank)
            continue;
        if (ph->ops[s].access >= HN_ACCESS_STRIDED && !ph->ops[s].transposed)
            cycles += pl->lanes * facts->lane_cycles;
    }
    return cycles;
}

/* A phase whose lanes run along its last variable. */
static double row_phase_cycles(const hn_cpu_plan *pl, const hn_cpu_phase *ph) {
    const hn_cpu_facts *facts = pl->facts;
    const hn_kernel_phase *phase = ph->phase;
    const double rows = product_of(pl, pl->kernel->vars, pl->kernel->rank);
    if (!phase->rank) return rows * ph->cost * facts->op_cycles;
    const double outer = rows * product_of(pl, phase->vars, phase->rank - 1),
                 elems = (double)hn_cpu_hint(pl, phase->vars[phase->rank - 1], 1024);
    const double unroll = ph->loop.unroll > 1 && ph->loop.has_unrolled ? ph->loop.unroll : 1,
                 vectors = (double)(int64_t)(elems / pl->lanes),
                 whole = (double)(int64_t)(vectors / unroll) * unroll, single = vectors - whole,
                 rest = elems - vectors * pl->lanes;
    double each = vector_cycles(pl, ph), chain = 0;
    if (phase->reduces.count) chain = facts->chain_cycles;
    double row = whole * (most(each, chain / unroll) + facts->loop_cycles / unroll) +
                 single * (most(each, chain) + facts->loop_cycles) +
                 (rest > 0 ? most(each, chain) * facts->rest_factor + facts->loop_cycles : 0);
    row += facts->phase_cycles + phase->reduces.count * unroll * facts->combine_cycles;
    return outer * row;
}

/* Lanes are rows: `copies` vectors of them go down each phase. */
static double column_phase_cycles(const hn_cpu_plan *pl, const hn_cpu_phase *ph) {
    const hn_cpu_facts *facts = pl->facts;
    const hn_kernel_phase *phase = ph->phase;
    const uint32_t rank = pl->kernel->rank;
    const double outer = rank ? product_of(pl, pl->kernel->vars, rank - 1) : 1,
                 rows = rank ? (double)hn_cpu_hint(pl, pl->kernel->vars[rank - 1], 1024) : 1,
                 steps = product_of(pl, phase->vars, phase->rank), copies = pl->columns.copies,
                 vectors = (double)(int64_t)((rows + pl->lanes - 1) / pl->lanes),
                 groups = (double)(int64_t)((vectors + copies - 1) / copies);
    const double chain = phase->reduces.count ? facts->chain_cycles : 0;
    const double step = most(copies * vector_cycles(pl, ph), chain) + facts->loop_cycles;
    return outer * groups * (steps * step + facts->phase_cycles);
}

static double cycles_of(const hn_cpu_plan *pl) {
    double cycles = 0;
    for (uint32_t f = 0; f < pl->kernel->phases.count; f++)
        cycles += pl->lanes_are_rows ? column_phase_cycles(pl, &pl->phases[f])
                                     : row_phase_cycles(pl, &pl->phases[f]);
    return cycles;
}

/* ---- forms ---- */

/* How many times as fast as the plain form of its mode it is expected to be. */
static double gain_of(const hn_cpu_plan *pl) {
    double plain = 1;
    for (uint32_t k = 0; k < pl->candidate_count; k++)
        if (pl->candidates[k].form == pl->form) plain = pl->candidates[k].speed;
    return plain;
}

/* ---- threads ---- */

static double threads_of(const hn_cpu_plan *pl, uint32_t threads) {
    const double chunks = pl->grain == INT64_MAX ? 1
                                                 : (double)hn_sym_hint(pl->sym, pl->extent, 1) /
                                                       (double)most(1, (double)pl->grain);
    return most(1, least(threads ? threads : 1, (double)(int64_t)chunks));
}

/* Numbers that the planner would not choose: its rules come from measurements. */
static double doubt_of(const hn_cpu_plan *pl) {
    const bool is_usual =
        pl->lanes_are_rows
            ? pl->columns.is_usual
            : !pl->choice.vectors &&
                  (pl->form != HN_CPU_FLAT || pl->flat_block_elems == pl->facts->flat_block_elems);
    return is_usual ? 1 : pl->facts->doubt;
}

double hn_cpu_predicted_ns(const hn_cpu_plan *pl, uint32_t threads) {
    const hn_cpu_facts *facts = pl->facts;
    const bytes b = bytes_of(pl);
    const double memory = memory_ns(pl, &b), compute = cycles_of(pl) / facts->cycles_per_ns,
                 used = threads_of(pl, threads);
    const double alone = most(memory, compute) + facts->overlap_loss * least(memory, compute);
    return facts->call_ns + alone * doubt_of(pl) / gain_of(pl) / used +
           (used > 1 ? facts->team_ns : 0);
}
