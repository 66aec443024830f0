/* gpu_mixed.c: slabs of rows: rows and reductions down their columns in one kernel, or long rows alone.
 *
 * A group takes a slab of rows, `rows` of them at a time, each by `width` threads. A thread has the
 * same columns of every row: what it adds up stays in registers, and rows are read once. At the end
 * the threads that have the same columns combine what they have, and the slab's row of partial
 * results is stored.
 *
 *     m5[..] = nothing
 *     for rows of the slab { the phases of a row; m5[V*u + j] += %9 }
 *     move m4[slab * columns + ...] = m5[V*u] count V
 *
 * Registers keep a row over its phases, and what is the same for all rows over all of them. Where
 * they do not suffice each phase reads the row once more, which a cache has. Where there are some to
 * spare a group of one row reads the next one before it computes one: then reads are under way while
 * its threads wait for each other.
 *
 * Long rows that no column goes down take slabs, too, where staged memory has one of them: a group that
 * ends with its row has nothing under way while it computes. */
#include "kernel/gpu_costs.h"
#include "kernel/gpu_names.h"

typedef hn_gpu_planner planner;
typedef hn_gpu_layout layout;

/* ---- what a layout costs ---- */

static const uint32_t group_sizes[] = {256, 512, 128, 1024, 64};

/* Beside what a thread keeps: addresses, and what an element of a vector takes. And the most
 * vectors that it takes: each is a copy of the loops' bodies. */
enum { OTHER_REGISTERS = 28, ELEMENT_REGISTERS = 1, VECTORS_MOST = 64 };

/* Rows that are staged: addresses are simpler. Registers are better where they suffice. */
enum { STAGED_REGISTERS = 20, STAGES_MOST = 3 };
static const double staged_factor = 1.05;

/* A row asked for so many times the latency of memory before it is wanted is there in time; of
 * groups that take turns at memory there are to be so many times as many as it takes, since turns
 * are uneven. */
static const double early_factor = 2, turns_factor = 1.1;

/* A row that is read again from a cache takes so much of the time of memory. */
static const double part_of_again = 0.15, part_of_latency = 0.4;

/* Rows side by side exchange an element's partial results in so many ns. */
static const double combine_ns = 60;

/* A thread that has more bytes under way is a long text, and there are fewer threads: for each
 * factor of two so much. */
enum { BYTES_OF_ROWS = 64 };
static const double byte_factor = 0.02;

typedef struct mixed_info {
    int64_t rows, elems; /* of the kernel; of the longest phase, at the hints */
    int64_t columns;     /* of the longest phase that has some: a number for all calls */
    uint32_t vector, phases, acrosses; /* phases that read from memory */
    int64_t row_bytes, shared_bytes; /* read for 1024 elements: of the row; the same for all rows */
    int64_t column_bytes;            /* of an element's partial results */
    bool may_keep, may_stage;
} mixed_info;

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static double least(double a, double b) { return a < b ? a : b; }
static int64_t hint(const planner *pl, hn_expr e) { return hn_sym_hint(pl->sym, e, 1024); }

static void add_phase(const planner *pl, const hn_kernel_phase *phase, mixed_info *out) {
    int64_t elems = hint(pl, hn_gpu_extents(pl, phase->vars, phase->rank));
    out->acrosses += phase->reduces.count;
    for (uint32_t k = 0; k < phase->columns.count; k++)
        out->column_bytes += (int64_t)hn_dtype_facts(phase->columns.items[k].dtype)->size_bytes;
    if (!phase->rank) return;
    hn_expr last = phase->vars[phase->rank - 1];
    uint32_t vector = hn_gpu_vector(pl, phase, phase->vars, phase->rank);
    int64_t row = hn_gpu_bytes_read(pl, phase, pl->k->rank ? pl->k->vars[0] : 0, last),
            all = hn_gpu_bytes_read(pl, phase, 0, last);
    if (elems > out->elems) out->elems = elems;
    if (phase->columns.count && elems > out->columns) out->columns = elems;
    if (vector < out->vector) out->vector = vector;
    if ((all - row) * 1024 > out->shared_bytes) out->shared_bytes = (all - row) * 1024;
    out->phases += row > 0;
}

static bool is_read_alike(const planner *pl, const hn_sop *load) {
    bool alike = true;
    for (uint32_t f = 0; f < pl->k->phases.count; f++) {
        const hn_body *body = &pl->k->phases.items[f].body;
        for (hn_sid s = 1; s < body->count; s++)
            alike &= body->items[s].kind != HN_SOP_LOAD || body->items[s].buffer != load->buffer ||
                     body->items[s].index == load->index;
    }
    return alike;
}

/* What goes along a row is moved in pieces of 16 bytes, each once. */
static bool may_stage(const planner *pl, uint32_t vector) {
    for (uint32_t f = 0; f < pl->k->phases.count; f++) {
        const hn_kernel_phase *phase = &pl->k->phases.items[f];
        for (hn_sid s = 1; s < phase->body.count && phase->rank; s++) {
            const hn_sop *op = &phase->body.items[s];
            if (op->kind == HN_SOP_INDIRECT) return false;
            if (op->kind == HN_SOP_LOAD && hn_gpu_is_streamed(pl, op->index) &&
                hn_sym_uses(pl->sym, op->index, phase->vars[phase->rank - 1]) &&
                (vector * hn_gpu_size_of(pl, op->buffer) != HN_FORM_ACCESS_BYTES ||
                 !is_read_alike(pl, op)))
                return false;
        }
    }
    return true;
}

/* Registers and stages have room for rows of a length that is known. */
static bool is_known(const planner *pl) {
    bool known = true;
    for (uint32_t f = 0; f < pl->k->phases.count; f++) {
        const hn_kernel_phase *phase = &pl->k->phases.items[f];
        known &= hn_sym_is_int(pl->sym, hn_gpu_extents(pl, phase->vars, phase->rank), NULL);
    }
    return known;
}

static int64_t staged_bytes(const mixed_info *info, const layout *l) {
    return (int64_t)l->stages * l->unroll * l->vector * l->width * l->rows * info->row_bytes / 1024;
}

static mixed_info info_of(const planner *pl) {
    mixed_info out = {
        .elems = 1, .vector = HN_FORM_MOVE_MOST, .may_keep = hn_gpu_may_keep(pl) && is_known(pl)};
    out.rows = hint(pl, hn_gpu_extents(pl, pl->k->vars, pl->k->rank));
    for (uint32_t f = 0; f < pl->k->phases.count; f++) add_phase(pl, &pl->k->phases.items[f], &out);
    out.row_bytes = 4 * hn_gpu_kept_registers(pl, 1024);
    out.may_stage = out.may_keep && out.row_bytes && out.elems >= pl->facts->staged_row_elems &&
                    may_stage(pl, out.vector);
    return out;
}

static int64_t registers_of(const mixed_info *info, const layout *l) {
    int64_t taken = (int64_t)l->vector * l->unroll, kept = l->keeps ? taken : 2 * l->vector;
    if (l->stages)
        return STAGED_REGISTERS + l->vector * ELEMENT_REGISTERS + taken * info->column_bytes / 4 +
               (l->vector * info->row_bytes + taken * info->shared_bytes) / 4096;
    if (l->ahead) kept += taken;
    return OTHER_REGISTERS + l->vector * ELEMENT_REGISTERS + taken * info->column_bytes / 4 +
           kept * (info->row_bytes + info->shared_bytes) / 4096;
}

/* What memory takes for the rows of a group: its part of what one multiprocessor gets. */
static double memory_of_rows(const planner *pl, const mixed_info *info, const layout *l) {
    int64_t stored = 0;
    for (uint32_t f = 0; f < pl->k->phases.count; f++)
        for (uint32_t k = 0; k < pl->k->phases.items[f].stores.count; k++)
            stored += hn_gpu_size_of(pl, pl->k->phases.items[f].stores.items[k].buffer);
    const double bytes = (double)info->elems * ((double)info->row_bytes / 1024 + (double)stored);
    return l->rows * bytes * pl->facts->multiprocessors / pl->facts->bytes_per_ns;
}

/* What a group does with its rows when they are there. Each warp of a row reads what all of them
 * have added up: with 32 warps that took a row of 4096 f32 as long as its memory (H200: 0.81 of a
 * copy in place of 0.94 with 16). */
static double work_of_rows(const planner *pl, const mixed_info *info, const layout *l,
                           double resident) {
    const hn_gpu_facts *facts = pl->facts;
    const double room = facts->resident / 4, /* enough for arithmetic */
        ops_per_ns = facts->ops_per_ns / facts->multiprocessors *
                     least(1, resident * l->width * l->rows / room),
                 computes = l->rows * pl->work.operations / (double)info->rows / ops_per_ns;
    const uint32_t warps = l->width / facts->shuffle;
    uint32_t levels = 0;
    if (l->width == 1) return computes;
    for (uint32_t half = l->width; half > facts->shuffle; half /= 2) levels++;
    /* without shuffles numbers go up a tree, which the levels are */
    const double exchanges =
        levels && facts->shuffle > 1 ? (double)l->rows * warps * warps * hn_gpu_exchanged_ns : 0;
    return computes + info->acrosses * (exchanges + (1.0 + levels) * facts->barrier_ns);
}

/* Groups that are on a multiprocessor at once. */
static double resident_groups(const planner *pl, const mixed_info *info, const layout *l,
                              int64_t registers) {
    const hn_gpu_facts *facts = pl->facts;
    const uint32_t threads = l->width * l->rows;
    int64_t groups = facts->registers / (registers * threads);
    if (groups > facts->groups) groups = facts->groups;
    if (groups > facts->resident / threads) groups = facts->resident / threads;
    const int64_t shared = hn_gpu_shared_bytes(pl, l) + (l->stages ? staged_bytes(info, l) : 0);
    if (shared && groups > facts->shared_all_bytes / shared)
        groups = facts->shared_all_bytes / shared;
    return groups < 1 ? 1 : (double)groups;
}

/* Memory is busy when enough reads are under way: see hn_gpu_predicted_ns. And when some group
 * wants it at any time: one that reads ahead wants it while it computes, another one does not. */
static double predicted_ns(const planner *pl, const mixed_info *info, const layout *l,
                           int64_t registers) {
    const hn_gpu_facts *facts = pl->facts;
    const uint32_t threads = l->width * l->rows;
    /* there are no more groups than slabs */
    const double busy = (double)l->slabs / facts->multiprocessors;
    double resident = least(resident_groups(pl, info, l, registers), busy);
    if (resident < 1) resident = 1;
    const int64_t walked = ceil_div(ceil_div(info->elems, l->vector), l->width);
    double taken = l->vector * (l->keeps ? l->unroll : 2), slabs = l->slabs,
           filled = (double)info->elems / ((double)l->width * l->vector * (double)walked),
           flight =
               least(resident, busy) * threads * taken * filled * (double)info->row_bytes / 1024,
           works = work_of_rows(pl, info, l, resident), moves = memory_of_rows(pl, info, l),
           steps = l->keeps ? 1 : (double)ceil_div(walked, 2), reads = facts->latency_ns * steps,
           again = l->keeps ? 0 : reads * (info->phases - 1) * part_of_latency,
           life = reads + again + works,
           share = least(1, flight / facts->flight_bytes * (l->ahead ? 1 : reads / life));
    share = least(share, resident * moves / (l->ahead ? works : turns_factor * (life + moves)));
    /* the place of a row is free when half of the work on it is done */
    if (l->stages)
        share = least(share, (l->stages - 0.5) * moves / (early_factor * facts->latency_ns));
    double all = least(resident * facts->multiprocessors, slabs), waves = slabs / all,
           tail = (double)ceil_div(l->slabs, (int64_t)all) / waves,
           /* written, and read by what combines them */
        columns = 2 * (double)info->elems * (double)info->column_bytes * slabs,
           memory = (hn_gpu_bytes_once(pl) + columns) / (facts->bytes_per_ns * share);
    if (!l->keeps) memory *= 1 + part_of_again * (info->phases - 1);
    /* the rows of a group that went side by side, element by element */
    double combined = l->rows > 1
                          ? (double)l->vector * l->unroll * combine_ns *
                                (double)(info->column_bytes / 4 + 1) * (waves < 1 ? 1 : waves)
                          : 0,
           factor = 1;
    if (l->ahead) taken *= 2;
    for (double bytes = taken * (double)info->row_bytes / 1024; bytes > BYTES_OF_ROWS; bytes /= 2)
        factor += byte_factor;
    if (l->stages) factor = staged_factor; /* no registers wait for what is under way */
    return facts->launch_ns + memory * tail * factor + life + combined;
}

static bool fits(const planner *pl, const layout *l, int64_t registers) {
    return registers <= pl->facts->registers_thread &&
           registers * l->width * l->rows <= pl->facts->registers;
}

/* A layout that keeps rows, or not; reads ahead; has stages. */
static const struct {
    bool keeps, ahead;
    uint32_t stages;
} kept_rows[] = {{true, true, 0}, {true, false, 0}, {false, false, 0},
                 {true, true, 3}, {true, true, 2},  {true, true, 1}};

static bool may_take(const planner *pl, const mixed_info *info, bool any, const layout *l) {
    if (l->ahead && (l->rows > 1 || l->width <= pl->facts->shuffle)) return false;
    if (l->keeps && !info->may_keep) return false;
    if (l->stages && (any || !info->may_stage || staged_bytes(info, l) > pl->facts->staged_bytes))
        return false;
    return (any || fits(pl, l, registers_of(info, l))) &&
           hn_gpu_shared_bytes(pl, l) <= pl->facts->shared_bytes;
}

static void try_layout(const planner *pl, const mixed_info *info, bool any, layout l, layout *items,
                       uint32_t *kept) {
    if (!may_take(pl, info, any, &l)) return;
    l.ns = predicted_ns(pl, info, &l, registers_of(info, &l));
    hn_gpu_keep_layout(pl, items, kept, l);
}

/* What is kept of a row has its vectors in registers; else a thread has those of the columns, and
 * takes longer phases in several steps. */
static void try_width(const planner *pl, const mixed_info *info, bool any, layout l, layout *items,
                      uint32_t *kept) {
    for (size_t k = 0; k < sizeof kept_rows / sizeof *kept_rows; k++) {
        const int64_t elems = kept_rows[k].keeps ? info->elems : info->columns,
                      vectors = ceil_div(ceil_div(elems, info->vector), l.width);
        if (vectors > VECTORS_MOST) continue;
        l.unroll = (uint32_t)vectors;
        l.keeps = kept_rows[k].keeps;
        l.ahead = kept_rows[k].ahead;
        l.stages = kept_rows[k].stages;
        try_layout(pl, info, any, l, items, kept);
    }
}

/* `any`: also with more registers than there are, which a compiler puts into memory. */
static uint32_t list(const planner *pl, const mixed_info *info, bool any, layout *items) {
    const uint32_t most = pl->facts->threads_max;
    const int64_t vectors = ceil_div(info->elems, info->vector);
    uint32_t kept = 0;
    for (size_t t = 0; t < sizeof group_sizes / sizeof *group_sizes; t++) {
        const uint32_t threads = group_sizes[t];
        for (uint32_t width = 1; width <= threads && threads <= most; width *= 2) {
            if (width > 1 && width / 2 >= vectors) continue;
            const layout l = {.width = width,
                              .rows = threads / width,
                              .vector = info->vector,
                              .slabs = pl->k->slabs};
            try_width(pl, info, any, l, items, &kept);
        }
    }
    return kept;
}

/* That fits, or may have more registers than there are where nothing else is there. */
static bool has_any(const planner *pl, const mixed_info *info) {
    planner all = *pl;
    layout items[HN_GPU_PLANS_MAX];
    all.wish = NULL;
    return list(&all, info, false, items) > 0;
}

/* A layout that somebody names, whatever sizes are expected. */
static uint32_t list_wished(const planner *pl, const mixed_info *info, const layout *l,
                            layout *items) {
    uint32_t kept = 0;
    if (!hn_gpu_is_power_of_two(l->width) || !hn_gpu_is_power_of_two(l->rows) ||
        l->width * l->rows > pl->facts->threads_max)
        return 0;
    try_width(
        pl, info, !has_any(pl, info),
        (layout){.width = l->width, .rows = l->rows, .vector = info->vector, .slabs = pl->k->slabs},
        items, &kept);
    return kept;
}

uint32_t hn_gpu_list_mixed(const planner *pl, layout items[HN_GPU_PLANS_MAX]) {
    const mixed_info info = info_of(pl);
    if (hn_gpu_wished(pl)) return list_wished(pl, &info, hn_gpu_wished(pl), items);
    const uint32_t count = list(pl, &info, false, items);
    return count || has_any(pl, &info) ? count : list(pl, &info, true, items);
}

/* Long rows by way of staged memory go best by 512 threads, and with a second row on its way.
 * Softmax of 32,768 columns of bf16 takes 78 us on an H200; with 256 or 1024 threads 82 to 89, with
 * one row on its way 85. */
enum { STAGED_WIDTH = 512 };
static const double other_width = 1.03, one_stage = 1.02;

/* As many slabs as groups at once, or fewer that have as many rows. A call may have more rows than
 * are expected: where they are no number, nothing is saved. */
static uint32_t slabs_of_rows(const planner *pl, const mixed_info *info, const layout *l) {
    const int64_t most =
        pl->facts->multiprocessors * (int64_t)resident_groups(pl, info, l, registers_of(info, l));
    if (!hn_sym_is_int(pl->sym, hn_gpu_extents(pl, pl->k->vars, pl->k->rank), NULL))
        return (uint32_t)most;
    return (uint32_t)ceil_div(info->rows, ceil_div(info->rows, most));
}

static void try_staged(const planner *pl, const mixed_info *info, uint32_t width, uint32_t stages,
                       layout *items, uint32_t *count) {
    const int64_t vectors = ceil_div(info->elems, info->vector);
    layout l = {.width = width,
                .rows = 1,
                .vector = info->vector,
                .unroll = (uint32_t)ceil_div(vectors, width),
                .keeps = true,
                .ahead = true,
                .stages = stages};
    if (width > pl->facts->threads_max || width / 2 >= vectors || l.unroll > VECTORS_MOST) return;
    const layout *wished = hn_gpu_wished(pl);
    l.slabs = wished ? wished->slabs : slabs_of_rows(pl, info, &l);
    if (!may_take(pl, info, false, &l)) return;
    l.ns = predicted_ns(pl, info, &l, registers_of(info, &l));
    if (width != STAGED_WIDTH) l.ns *= other_width;
    if (stages == 1) l.ns *= one_stage;
    hn_gpu_keep_layout(pl, items, count, l);
}

void hn_gpu_list_staged(const planner *pl, layout items[HN_GPU_PLANS_MAX], uint32_t *count) {
    const mixed_info info = info_of(pl);
    if (!info.may_stage || info.rows < 1) return;
    for (size_t t = 0; t < sizeof group_sizes / sizeof *group_sizes; t++)
        for (uint32_t stages = 1; stages <= STAGES_MOST; stages++)
            try_staged(pl, &info, group_sizes[t], stages, items, count);
}

/* ---- the form ---- */

/* The elements of a phase that the thread has: the same in each row. */
static hn_gpu_run elements_of(const planner *pl, const hn_kernel_phase *phase) {
    hn_gpu_run run = hn_gpu_run_of(pl, phase->vars, phase->rank);
    run.first = pl->place;
    run.width = pl->layout->width;
    run.is_whole =
        hn_sym_is_value(pl->sym, run.vectors, (int64_t)pl->layout->width * pl->layout->unroll);
    return run;
}

static hn_fmem add_columns(planner *pl, hn_dtype dtype) {
    const hn_gpu_layout *l = pl->layout;
    hn_form_memory memory = {.space = HN_SPACE_PRIVATE,
                             .dtype = dtype,
                             .elems = hn_gpu_num(pl, (int64_t)l->vector * l->unroll),
                             .is_read = true,
                             .is_written = true};
    return hn_form_add_memory(pl->f, memory);
}

static hn_expr open_unrolled(planner *pl, uint32_t count) {
    hn_expr var = hn_form_symbol(pl->f, hn_gpu_num(pl, count));
    hn_form_unrolled(pl->f, var, count);
    return var;
}

static void begin_columns(planner *pl, const hn_kernel_phase *phase) {
    for (uint32_t k = 0; k < phase->columns.count; k++) {
        const hn_kernel_column *c = &phase->columns.items[k];
        hn_freg reg = hn_form_add_register(pl->f, c->op, c->dtype);
        hn_fmem m = pl->columns[pl->first_column + k] = add_columns(pl, c->dtype);
        hn_expr at = open_unrolled(pl, pl->layout->vector * pl->layout->unroll);
        hn_form_init(pl->f, reg);
        hn_form_store(pl->f, m, at, hn_form_result(pl->f, reg, false), HN_STORE_SET);
        hn_form_close(pl->f);
    }
}

/* The rows of a group that have gone side by side. */
static void combine_rows(planner *pl, const hn_kernel_column *c, hn_fmem m) {
    const hn_gpu_layout *l = pl->layout;
    hn_freg reg = hn_form_add_register(pl->f, c->op, c->dtype);
    hn_expr at = open_unrolled(pl, l->vector * l->unroll);
    hn_sop load = {.kind = HN_SOP_LOAD, .dtype = c->dtype, .buffer = m, .index = at};
    hn_form_init(pl->f, reg);
    hn_form_set(pl->f, reg, hn_form_value(pl->f, load), 0);
    hn_form_across_threads(pl->f, reg, l->rows, l->width);
    hn_form_store(pl->f, m, at, hn_form_result(pl->f, reg, false), HN_STORE_SET);
    hn_form_close(pl->f);
}

static void store_columns(planner *pl, const hn_kernel_phase *phase) {
    hn_gpu_run run = elements_of(pl, phase);
    hn_expr at, begin, slab = hn_sym_mul(pl->sym, pl->f->group, pl->k->slab_elems);
    for (uint32_t k = 0; k < phase->columns.count && pl->layout->rows > 1; k++)
        combine_rows(pl, &phase->columns.items[k], pl->columns[pl->first_column + k]);
    hn_form_if(pl->f, pl->row, hn_gpu_num(pl, 1));
    uint32_t open = hn_gpu_open_vectors(pl, &run, &at, &begin);
    for (uint32_t k = 0; k < phase->columns.count; k++) {
        const hn_kernel_column *c = &phase->columns.items[k];
        hn_expr to = hn_sym_subst(pl->sym, c->index, &run.last, &begin, 1);
        hn_form_move(pl->f, hn_form_argument(pl->f, c->buffer, 0, true),
                     hn_sym_add(pl->sym, slab, to), pl->columns[pl->first_column + k], at,
                     pl->layout->vector);
    }
    while (open--) hn_form_close(pl->f);
    hn_form_close(pl->f);
}

/* The row of that number, if the slab has it, into registers: as the next one or the first. */
static void read_row(planner *pl, const hn_gpu_run *run, hn_expr number, bool is_next) {
    hn_form_if(pl->f, number, pl->rows_end);
    hn_gpu_emit_coordinates(pl, number, pl->k->vars, pl->k->rank);
    hn_gpu_emit_row_reads(pl, run, is_next);
    hn_form_close(pl->f);
}

/* Stages are filled in turns: the row that is `behind` the slab's first one is in one of them. */
static void take_turn(planner *pl, hn_expr behind) {
    hn_expr stages = hn_gpu_num(pl, pl->layout->stages);
    pl->turn = hn_form_symbol(pl->f, stages);
    hn_form_let(pl->f, pl->turn,
                hn_sym_mod(pl->sym,
                           hn_sym_floordiv(pl->sym, behind, hn_gpu_num(pl, pl->layout->rows)),
                           stages));
    hn_form_await(pl->f, pl->layout->stages - 1);
}

/* Opens the loop over the rows of the group's slab: pl->number is that of the thread. `ahead`: what
 * is read of a row ahead, or NULL. */
static void open_slab(planner *pl, const hn_gpu_run *ahead) {
    hn_expr rows = hn_gpu_extents(pl, pl->k->vars, pl->k->rank),
            step = hn_gpu_num(pl, pl->layout->rows),
            each = hn_sym_ceildiv(pl->sym, rows, hn_gpu_num(pl, pl->layout->slabs)),
            begin = hn_sym_mul(pl->sym, pl->f->group, each), first = hn_form_symbol(pl->f, rows);
    pl->rows_end = hn_sym_min(pl->sym, hn_sym_add(pl->sym, begin, each), rows);
    hn_expr own = hn_sym_add(pl->sym, begin, pl->row);
    if (pl->layout->stages) hn_gpu_emit_first_stages(pl, ahead, own);
    if (ahead) {
        read_row(pl, ahead, own, false);
        hn_form_await(pl->f, 0);
    }
    pl->number = hn_form_symbol(pl->f, hn_sym_add(pl->sym, rows, step));
    hn_form_for(pl->f, first, begin, pl->rows_end, pl->layout->rows);
    hn_form_let(pl->f, pl->number, hn_sym_add(pl->sym, first, pl->row));
    if (ahead) read_row(pl, ahead, hn_sym_add(pl->sym, pl->number, step), true);
    if (pl->layout->stages) take_turn(pl, hn_sym_sub(pl->sym, first, begin));
}

static void close_slab(planner *pl, const hn_gpu_run *ahead) {
    if (ahead) {
        hn_form_if(pl->f, hn_sym_add(pl->sym, pl->number, hn_gpu_num(pl, pl->layout->rows)),
                   pl->rows_end);
        hn_gpu_emit_next_row(pl, ahead);
        hn_form_close(pl->f);
    }
    hn_form_close(pl->f);
}

static hn_status each_phase(planner *pl, void (*act)(planner *, const hn_kernel_phase *)) {
    pl->first_column = 0;
    for (uint32_t f = 0; f < pl->k->phases.count; f++) {
        const hn_kernel_phase *phase = &pl->k->phases.items[f];
        HN_TRY(hn_gpu_begin_phase(pl, phase));
        if (phase->rank) act(pl, phase);
        pl->first_column += phase->columns.count;
    }
    return NULL;
}

static void read_shared(planner *pl, const hn_kernel_phase *phase) {
    hn_gpu_run run = elements_of(pl, phase);
    if (pl->layout->keeps) hn_gpu_emit_shared_reads(pl, &run);
}

static void prepare_ahead(planner *pl, const hn_kernel_phase *phase) {
    hn_gpu_run run = elements_of(pl, phase);
    if (pl->layout->ahead) hn_gpu_prepare_ahead(pl, &run);
}

/* The elements of a row: all phases go over the same. */
static hn_gpu_run elements_of_row(const planner *pl) {
    for (uint32_t f = 0; f < pl->k->phases.count; f++)
        if (pl->k->phases.items[f].rank) return elements_of(pl, &pl->k->phases.items[f]);
    return (hn_gpu_run){0};
}

static void store_phase_columns(planner *pl, const hn_kernel_phase *phase) {
    if (phase->columns.count) store_columns(pl, phase);
}

static bool has_locals(const planner *pl) {
    for (uint32_t b = 0; b < pl->k->locals.count; b++)
        if (pl->locals[b]) return true;
    return false;
}

hn_status hn_gpu_plan_mixed(planner *pl, hn_arena *arena) {
    uint32_t columns = 0;
    for (uint32_t f = 0; f < pl->k->phases.count; f++)
        columns += pl->k->phases.items[f].columns.count;
    HN_TRY(hn_form_create(pl->p, arena, pl->layout->width * pl->layout->rows,
                          hn_gpu_num(pl, pl->layout->slabs), &pl->f));
    HN_NEW(pl->scratch, pl->columns, columns + 1);
    HN_TRY(hn_gpu_begin_rows(pl));
    pl->last_read = NULL;
    HN_TRY(each_phase(pl, begin_columns));
    HN_TRY(each_phase(pl, read_shared));
    HN_TRY(each_phase(pl, prepare_ahead));
    const hn_gpu_run row = elements_of_row(pl);
    open_slab(pl, pl->layout->ahead ? &row : NULL);
    pl->first_column = 0;
    for (uint32_t f = 0; f < pl->k->phases.count; f++) {
        HN_TRY(hn_gpu_emit_phase(pl, &pl->k->phases.items[f]));
        pl->first_column += pl->k->phases.items[f].columns.count;
    }
    if (has_locals(pl)) hn_form_barrier(pl->f); /* the next row is written where this one is read */
    close_slab(pl, pl->layout->ahead ? &row : NULL);
    HN_TRY(each_phase(pl, store_phase_columns));
    pl->rows_end = 0;
    return NULL;
}
