/* plan_gpu.c: how the rows and phases of a kernel are laid out over groups of threads.
 *
 * Three layouts:
 * - elements: a kernel of one phase without reductions. Threads take the elements of all rows side by side.
 * - rows: `width` threads share a row, and a group has `rows` of them. Each phase walks its row in steps of `width`. A reduction
 *   combines the registers of a row's threads (ACROSS).
 *       lanes along the row (HN_VECTOR_INNER):  thread = row in group * width + place
 *       lanes across rows   (HN_VECTOR_OUTER):  thread = place * rows + row in group, since rows are neighbours in memory
 *   Local buffers of the schedule lie in shared memory, or in scratch memory when they are too large. A barrier stands before a
 *   phase that reads what another thread of its row has written.
 * - one thread: scatters, which run in order.
 * A scan runs on one thread of its row. */
#include "kernel/plan_gpu.h"

#include "base/compiler.h"
#include "kernel/cost.h"

#include <string.h>

/* Sizes of groups that are compared; and what a group of the elements layout takes for each
 * thread. */
static const uint32_t group_sizes[] = {64, 128, 256, 512, 1024};
static const int64_t elems_a_thread[] = {1, 4};

/* Memory is read in sectors: threads that read less than one side by side waste the rest of it. */
enum { SECTOR_ELEMS = 8 };

/* A layout and what it is expected to cost. */
typedef struct layout {
    uint32_t width, rows; /* rows: threads of a row; rows of a group */
    int64_t block;        /* elements: of a group, which has `width` threads */
    double ns;
} layout;

typedef struct planner {
    const hn_program *p;
    hn_sym *sym;
    const hn_kernel *k;
    const hn_gpu_facts *facts;
    hn_arena *scratch;
    hn_form *f;

    hn_form_cost work; /* of the kernel, in whatever layout */

    /* the rows layout */
    uint32_t width, rows; /* as in `layout` */
    /* index symbols: which of the row's threads this is; the row's number in the group */
    hn_expr place, row;
    hn_expr number;     /* index symbol: the row's number in the kernel */
    hn_fmem *locals;    /* per local buffer of the kernel */
    hn_freg *registers; /* per slot */
    /* per slot: the combined value, or of ARGMIN and ARGMAX its position */
    hn_fid *results;
    bool *unseen; /* per buffer of the program: written since the last barrier */

    /* the phase at hand */
    const hn_kernel_phase *phase;
    bool *live;
    hn_fid *values; /* per op of its body */
} planner;

static hn_expr num(planner *pl, int64_t value) { return hn_sym_int(pl->sym, value); }
static hn_expr extent_of(planner *pl, hn_expr var) { return hn_sym_symbol_extent(pl->sym, var); }

static hn_expr extents_of(planner *pl, const hn_expr *vars, uint32_t count) {
    hn_expr all = num(pl, 1);
    for (uint32_t d = 0; d < count; d++) all = hn_sym_mul(pl->sym, all, extent_of(pl, vars[d]));
    return all;
}

static int64_t hint(planner *pl, hn_expr e) { return hn_sym_hint(pl->sym, e, 1024); }

static uint32_t power_of_two_from(int64_t value, uint32_t most) {
    uint32_t power = 1;
    while (power < most && power < value) power *= 2;
    return power;
}

/* ---- bodies ---- */

static void mark_live(planner *pl, hn_sid s);

/* The ops that bind checked indices of a live expression are live. */
static void mark_index(planner *pl, hn_expr e) {
    const hn_body *body = &pl->phase->body;
    for (hn_sid s = 1; e && s < body->count; s++)
        if (body->items[s].kind == HN_SOP_INDIRECT && hn_sym_uses(pl->sym, e, body->items[s].index))
            mark_live(pl, s);
}

static void mark_live(planner *pl, hn_sid s) {
    if (!s || pl->live[s]) return;
    const hn_sop *op = &pl->phase->body.items[s];
    pl->live[s] = true;
    for (uint32_t a = 0; a < 3; a++) mark_live(pl, op->args[a]);
    if (op->kind != HN_SOP_INDIRECT) mark_index(pl, op->index);
}

static hn_status begin_phase(planner *pl, const hn_kernel_phase *phase) {
    pl->phase = phase;
    HN_NEW(pl->scratch, pl->live, phase->body.count + 1);
    HN_NEW(pl->scratch, pl->values, phase->body.count + 1);
    for (uint32_t k = 0; k < phase->stores.count; k++) {
        mark_live(pl, phase->stores.items[k].value);
        mark_index(pl, phase->stores.items[k].index);
    }
    for (uint32_t k = 0; k < phase->reduces.count; k++) {
        mark_live(pl, phase->reduces.items[k].value);
        mark_index(pl, phase->reduces.items[k].position);
    }
    return NULL;
}

static uint32_t local_of(const planner *pl, hn_buf b) {
    uint32_t k = 0;
    while (k < pl->k->locals.count && pl->k->locals.items[k].buffer != b) k++;
    return k;
}

/* Where an access of a buffer of the schedule goes: to an argument, or to this row's part of a
 * local buffer. */
static hn_fmem place_of(planner *pl, hn_buf b, bool is_written, hn_expr *index) {
    uint32_t k = local_of(pl, b);
    if (k == pl->k->locals.count) return hn_form_argument(pl->f, b, 0, is_written);
    *index = hn_sym_add(pl->sym, hn_sym_mul(pl->sym, pl->row, pl->k->locals.items[k].extent_elems),
                        *index);
    hn_form_memory *memory = &pl->f->memories.items[pl->locals[k]];
    *(is_written ? &memory->is_written : &memory->is_read) = true;
    return pl->locals[k];
}

/* Of a scan: so far. */
static hn_fid emit_result(planner *pl, const hn_sop *op) {
    hn_fid value = pl->phase->scan
                       ? hn_form_result(pl->f, pl->registers[op->imm.i], op->op == HN_OP_ARGMAX)
                       : pl->results[op->imm.i];
    if (!value || pl->f->stmts.items[value].op.dtype == op->dtype) return value;
    return hn_form_value(pl->f, (hn_sop){.kind = HN_SOP_CAST, .dtype = op->dtype, .args = {value}});
}

static void emit_sop(planner *pl, hn_sid s) {
    hn_sop op = pl->phase->body.items[s];
    for (uint32_t a = 0; a < 3; a++) op.args[a] = pl->values[op.args[a]];
    if (op.kind == HN_SOP_LOAD) op.buffer = place_of(pl, op.buffer, false, &op.index);
    pl->values[s] = op.kind == HN_SOP_RESULT ? emit_result(pl, &op) : hn_form_value(pl->f, op);
}

/* The body for one element; `registers` of its reductions take a step. */
static void emit_body(planner *pl) {
    const hn_kernel_phase *phase = pl->phase;
    for (hn_sid s = 1; s < phase->body.count; s++)
        if (pl->live[s] && !(phase->scan && phase->body.items[s].kind == HN_SOP_RESULT))
            emit_sop(pl, s);
    for (uint32_t k = 0; k < phase->reduces.count; k++) {
        const hn_kernel_reduce *r = &phase->reduces.items[k];
        hn_fid position = 0;
        if (hn_op_keeps_position(r->op))
            position = hn_form_value(
                pl->f, (hn_sop){.kind = HN_SOP_INDEX, .dtype = HN_DTYPE_I64, .index = r->position});
        hn_form_step(pl->f, pl->registers[r->slot], pl->values[r->value], position);
    }
    for (hn_sid s = 1; s < phase->body.count && phase->scan; s++)
        if (pl->live[s] && phase->body.items[s].kind == HN_SOP_RESULT) emit_sop(pl, s);
    for (uint32_t k = 0; k < phase->stores.count; k++) {
        const hn_kernel_store *store = &phase->stores.items[k];
        hn_expr index = store->index;
        hn_fmem memory = place_of(pl, store->buffer, true, &index);
        hn_form_store(pl->f, memory, index, pl->values[store->value], store->mode);
    }
}

/* Row-major coordinates of element `at` of the space of `vars`. Where an extent is 0 no element is
 * ever asked for. */
static void emit_coordinates(planner *pl, hn_expr at, const hn_expr *vars, uint32_t count) {
    hn_expr rest = at;
    for (uint32_t d = count; d-- > 0;) {
        hn_expr extent = extent_of(pl, vars[d]);
        if (hn_sym_is_value(pl->sym, extent, 0)) extent = num(pl, 1);
        hn_form_let(pl->f, vars[d], d ? hn_sym_mod(pl->sym, rest, extent) : rest);
        if (d) rest = hn_sym_floordiv(pl->sym, rest, extent);
    }
}

/* ---- elements ---- */

static bool is_elementwise(const planner *pl) {
    return pl->k->phases.count == 1 && !pl->k->phases.items[0].reduces.count &&
           !pl->k->locals.count && !pl->k->serial;
}

/* All variables, the one that is contiguous in memory last. */
static uint32_t list_variables(const planner *pl, hn_expr out[2 * HN_MAX_RANK]) {
    const hn_kernel *k = pl->k;
    const hn_kernel_phase *phase = &k->phases.items[0];
    bool across = k->mode == HN_VECTOR_OUTER && k->rank;
    uint32_t count = 0, outer = across ? k->rank - 1 : k->rank;
    for (uint32_t d = 0; d < outer; d++) out[count++] = k->vars[d];
    for (uint32_t d = 0; d < phase->rank; d++) out[count++] = phase->vars[d];
    if (across) out[count++] = k->vars[k->rank - 1];
    return count;
}

static hn_status plan_elements(planner *pl, const layout *l, hn_arena *arena) {
    hn_expr vars[2 * HN_MAX_RANK];
    uint32_t count = list_variables(pl, vars);
    hn_expr elems = extents_of(pl, vars, count), block = num(pl, l->block);
    HN_TRY(hn_form_create(pl->p, arena, l->width, hn_sym_ceildiv(pl->sym, elems, block), &pl->f));
    hn_expr first = hn_sym_mul(pl->sym, pl->f->group, block), at = hn_form_symbol(pl->f, elems);
    HN_TRY(begin_phase(pl, &pl->k->phases.items[0]));
    hn_form_for(pl->f, at, hn_sym_add(pl->sym, first, pl->f->thread),
                hn_sym_min(pl->sym, elems, hn_sym_add(pl->sym, first, block)), l->width);
    emit_coordinates(pl, at, vars, count);
    emit_body(pl);
    hn_form_close(pl->f);
    return NULL;
}

/* ---- one thread ---- */

static hn_status plan_serial(planner *pl, hn_arena *arena) {
    HN_TRY(hn_form_create(pl->p, arena, 1, num(pl, 1), &pl->f));
    uint32_t open = 0;
    for (uint32_t d = 0; d < pl->k->rank; d++, open++)
        hn_form_for(pl->f, pl->k->vars[d], num(pl, 0), extent_of(pl, pl->k->vars[d]), 1);
    for (uint32_t f = 0; f < pl->k->phases.count; f++) {
        const hn_kernel_phase *phase = &pl->k->phases.items[f];
        HN_TRY(begin_phase(pl, phase));
        for (uint32_t d = 0; d < phase->rank; d++)
            hn_form_for(pl->f, phase->vars[d], num(pl, 0), extent_of(pl, phase->vars[d]), 1);
        emit_body(pl);
        for (uint32_t d = 0; d < phase->rank; d++) hn_form_close(pl->f);
    }
    while (open--) hn_form_close(pl->f);
    return NULL;
}

/* ---- rows ---- */

static bool has_scan(const hn_kernel *k) {
    for (uint32_t f = 0; f < k->phases.count; f++)
        if (k->phases.items[f].scan) return true;
    return false;
}

static int64_t size_of(hn_dtype d) { return (int64_t)hn_dtype_facts(d)->size_bytes; }

static int64_t number_of(const planner *pl, hn_expr e) {
    int64_t value;
    return hn_sym_is_int(pl->sym, e, &value) ? value : 0; /* extents of local buffers are numbers */
}

/* Numbers are exchanged as they are computed, in 4 bytes at least. */
static int64_t exchange_bytes(hn_dtype d) { return size_of(d) < 4 ? 4 : size_of(d); }

/* How far thread numbers of neighbouring places of a row are apart. */
static uint32_t pitch_of(const planner *pl) {
    return pl->k->mode == HN_VECTOR_OUTER ? pl->rows : 1;
}

/* Shared memory of a group: what its rows exchange values, and perhaps positions, through. */
static int64_t reduction_bytes(const planner *pl) {
    int64_t bytes = 0, exchanged = hn_form_exchanged(pl->width * pl->rows, pl->facts->shuffle,
                                                     pl->width, pitch_of(pl));
    for (uint32_t f = 0; f < pl->k->phases.count && pl->width > 1; f++)
        for (uint32_t k = 0; k < pl->k->phases.items[f].reduces.count; k++) {
            const hn_kernel_reduce *r = &pl->k->phases.items[f].reduces.items[k];
            bytes += (exchange_bytes(r->dtype) + (hn_op_keeps_position(r->op) ? 8 : 0)) * exchanged;
        }
    return bytes;
}

static int64_t local_bytes(const planner *pl) {
    int64_t bytes = 0;
    for (uint32_t k = 0; k < pl->k->locals.count; k++)
        bytes += number_of(pl, pl->k->locals.items[k].extent_elems) *
                 size_of(pl->p->buffers.items[pl->k->locals.items[k].buffer].dtype) * pl->rows;
    return bytes;
}

static hn_status begin_rows(planner *pl, const layout *l, hn_arena *arena) {
    const hn_kernel *k = pl->k;
    pl->width = l->width;
    pl->rows = l->rows;
    hn_expr all = extents_of(pl, k->vars, k->rank), rows = num(pl, pl->rows),
            width = num(pl, pl->width);
    HN_TRY(hn_form_create(pl->p, arena, pl->rows * pl->width, hn_sym_ceildiv(pl->sym, all, rows),
                          &pl->f));
    bool across = k->mode == HN_VECTOR_OUTER;
    hn_expr thread = pl->f->thread;
    pl->place = hn_form_symbol(pl->f, width);
    pl->row = hn_form_symbol(pl->f, rows);
    pl->number = hn_form_symbol(pl->f, hn_sym_mul(pl->sym, pl->f->grid, rows));
    hn_form_let(pl->f, pl->place,
                across ? hn_sym_floordiv(pl->sym, thread, rows)
                       : hn_sym_mod(pl->sym, thread, width));
    hn_form_let(pl->f, pl->row,
                across ? hn_sym_mod(pl->sym, thread, rows)
                       : hn_sym_floordiv(pl->sym, thread, width));
    hn_form_let(pl->f, pl->number,
                hn_sym_add(pl->sym, hn_sym_mul(pl->sym, pl->f->group, rows), pl->row));
    HN_NEW(pl->scratch, pl->locals, k->locals.count + 1);
    HN_NEW(pl->scratch, pl->registers, k->slots + 1);
    HN_NEW(pl->scratch, pl->results, k->slots + 1);
    HN_NEW(pl->scratch, pl->unseen, pl->p->buffers.count);
    bool fits = reduction_bytes(pl) + local_bytes(pl) <= pl->facts->shared_bytes;
    for (uint32_t b = 0; b < k->locals.count; b++) {
        hn_expr elems = hn_sym_mul(pl->sym, k->locals.items[b].extent_elems, rows);
        pl->locals[b] = hn_form_add_memory(
            pl->f,
            (hn_form_memory){.space = fits ? HN_SPACE_SHARED : HN_SPACE_SCRATCH,
                             .elems = elems,
                             .dtype = pl->p->buffers.items[k->locals.items[b].buffer].dtype});
    }
    return NULL;
}

/* Whether the phase reads what another phase has written since the last barrier. */
static bool reads_unseen(const planner *pl) {
    for (hn_sid s = 1; s < pl->phase->body.count; s++)
        if (pl->live[s] && pl->phase->body.items[s].kind == HN_SOP_LOAD &&
            pl->unseen[pl->phase->body.items[s].buffer])
            return true;
    return false;
}

static void emit_barrier(planner *pl) {
    hn_form_barrier(pl->f);
    memset(pl->unseen, 0, pl->p->buffers.count * sizeof *pl->unseen);
}

/* The threads of rows that the kernel has; those of a last group that is not full do nothing. */
static void open_row(planner *pl) {
    hn_form_if(pl->f, pl->number, extents_of(pl, pl->k->vars, pl->k->rank));
    emit_coordinates(pl, pl->number, pl->k->vars, pl->k->rank);
}

/* The row's elements, shared out over its threads. A phase without dimensions is one element. */
static void emit_row(planner *pl) {
    const hn_kernel_phase *phase = pl->phase;
    hn_expr elems = extents_of(pl, phase->vars, phase->rank), at = hn_form_symbol(pl->f, elems);
    open_row(pl);
    hn_form_for(pl->f, at, pl->place, elems, pl->width);
    emit_coordinates(pl, at, phase->vars, phase->rank);
    emit_body(pl);
    hn_form_close(pl->f);
    hn_form_close(pl->f);
}

/* The threads of a row combine their registers: then all of them have the result. */
static void emit_combine(planner *pl, const hn_kernel_reduce *r) {
    hn_freg reg = pl->registers[r->slot];
    if (pl->width > 1) hn_form_across_threads(pl->f, reg, pl->width, pitch_of(pl));
    pl->results[r->slot] = hn_form_result(pl->f, reg, hn_op_keeps_position(r->op));
}

static hn_status emit_phase(planner *pl, const hn_kernel_phase *phase) {
    HN_TRY(begin_phase(pl, phase));
    if (pl->width > 1 && reads_unseen(pl)) emit_barrier(pl);
    for (uint32_t k = 0; k < phase->reduces.count; k++) {
        const hn_kernel_reduce *r = &phase->reduces.items[k];
        pl->registers[r->slot] = hn_form_add_register(pl->f, r->op, r->dtype);
        hn_form_init(pl->f, pl->registers[r->slot]);
    }
    emit_row(pl);
    for (uint32_t k = 0; k < phase->stores.count; k++)
        pl->unseen[phase->stores.items[k].buffer] = true;
    for (uint32_t k = 0; k < phase->reduces.count && !phase->scan; k++)
        emit_combine(pl, &phase->reduces.items[k]);
    return NULL;
}

static hn_status plan_rows(planner *pl, const layout *l, hn_arena *arena) {
    HN_TRY(begin_rows(pl, l, arena));
    for (uint32_t f = 0; f < pl->k->phases.count; f++)
        HN_TRY(emit_phase(pl, &pl->k->phases.items[f]));
    return NULL;
}

/* ---- the choice ---- */

/* Of the longest phase. */
static int64_t row_elems(planner *pl) {
    int64_t longest = 1;
    for (uint32_t f = 0; f < pl->k->phases.count; f++) {
        int64_t elems =
            hint(pl, extents_of(pl, pl->k->phases.items[f].vars, pl->k->phases.items[f].rank));
        if (elems > longest) longest = elems;
    }
    return longest;
}

static uint32_t reduction_count(const hn_kernel *k) {
    uint32_t count = 0;
    for (uint32_t f = 0; f < k->phases.count; f++) count += k->phases.items[f].reduces.count;
    return count;
}

/* A launch of `groups` groups of `threads` threads that read `run` elements side by side, with
 * `levels` barriers each: memory and arithmetic go on at once, slower where the processor is not
 * full; barriers come on top. */
static double predicted_ns(const planner *pl, double groups, uint32_t threads, int64_t run,
                           uint32_t levels) {
    const hn_gpu_facts *facts = pl->facts;
    double room = (double)facts->multiprocessors * facts->resident,
           busy = groups * threads < room ? groups * threads : room;
    /* half of the threads keep memory busy */
    double share = busy / (room / 2) < 1 ? busy / (room / 2) : 1;
    double waste = run >= SECTOR_ELEMS ? 1 : (double)SECTOR_ELEMS / (double)run;
    double memory = pl->work.bytes * waste / (facts->bytes_per_ns * share),
           compute = pl->work.operations / (facts->ops_per_ns * share);
    double waves = groups * threads > room ? groups * threads / room : 1;
    return facts->launch_ns + (memory > compute ? memory : compute) +
           levels * facts->barrier_ns * waves;
}

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Best first, each once. */
static void keep_layout(layout *items, uint32_t *count, layout l) {
    for (uint32_t k = 0; k < *count; k++)
        if (items[k].width == l.width && items[k].rows == l.rows && items[k].block == l.block)
            return;
    uint32_t at = *count;
    if (at < HN_GPU_PLANS_MAX) ++*count;
    else if (items[--at].ns <= l.ns) return;
    for (; at > 0 && items[at - 1].ns > l.ns; at--) items[at] = items[at - 1];
    items[at] = l;
}

static uint32_t list_elements(planner *pl, layout *items) {
    hn_expr vars[2 * HN_MAX_RANK];
    uint32_t kept = 0, count = list_variables(pl, vars);
    int64_t elems = hint(pl, extents_of(pl, vars, count));
    for (size_t t = 0; t < HN_COUNT_OF(group_sizes); t++)
        for (size_t e = 0; e < HN_COUNT_OF(elems_a_thread); e++) {
            uint32_t threads = power_of_two_from(elems, group_sizes[t]);
            if (threads > pl->facts->threads_max) continue;
            layout l = {.width = threads, .block = threads * elems_a_thread[e]};
            l.ns = predicted_ns(pl, (double)ceil_div(elems, l.block), threads, threads, 0);
            keep_layout(items, &kept, l);
        }
    return kept;
}

/* Shared memory holds what the layout needs; local buffers that are too large for it even with one
 * row go to scratch memory. */
static bool fits_shared(planner *pl, const layout *l) {
    pl->width = l->width;
    pl->rows = l->rows;
    int64_t room = pl->facts->shared_bytes, reductions = reduction_bytes(pl);
    return reductions <= room && (l->rows == 1 || reductions + local_bytes(pl) <= room);
}

static uint32_t list_rows(planner *pl, layout *items) {
    const hn_kernel *k = pl->k;
    int64_t elems = row_elems(pl), rows = hint(pl, extents_of(pl, k->vars, k->rank));
    bool across = k->mode == HN_VECTOR_OUTER;
    uint32_t kept = 0, widest = has_scan(k) ? 1 : power_of_two_from(elems, pl->facts->threads_max);
    for (size_t t = 0; t < HN_COUNT_OF(group_sizes); t++)
        for (uint32_t width = 1;
             width <= widest && width <= group_sizes[t] && width <= pl->facts->threads_max;
             width *= 2) {
            uint32_t threads =
                group_sizes[t] < pl->facts->threads_max ? group_sizes[t] : pl->facts->threads_max;
            layout l = {.width = width, .rows = power_of_two_from(rows, threads / width)};
            while (!fits_shared(pl, &l) && l.rows > 1) l.rows /= 2;
            if (!fits_shared(pl, &l)) continue;
            uint32_t levels = width > 1 ? reduction_count(k) : 0;
            for (uint32_t half = width; half > 1; half /= 2) levels += reduction_count(k);
            int64_t run = across ? l.rows : width * (elems <= width ? l.rows : 1);
            l.ns = predicted_ns(pl, (double)ceil_div(rows, l.rows), width * l.rows, run, levels);
            keep_layout(items, &kept, l);
        }
    return kept;
}

static hn_status plan_layout(planner *pl, const layout *l, hn_arena *arena, hn_form **out) {
    if (pl->k->serial) HN_TRY(plan_serial(pl, arena));
    else if (is_elementwise(pl)) HN_TRY(plan_elements(pl, l, arena));
    else HN_TRY(plan_rows(pl, l, arena));
    pl->f->cost = pl->work;
    pl->f->cost.ns = l->ns;
    *out = pl->f;
    return hn_form_end(pl->f);
}

hn_status hn_form_plans_gpu(const hn_program *program, const hn_kernel *kernel,
                            const hn_gpu_facts *facts, uint32_t most, hn_arena *arena,
                            hn_arena *scratch, hn_form **out, uint32_t *out_count) {
    planner pl = {
        .p = program, .sym = program->sym, .k = kernel, .facts = facts, .scratch = scratch};
    layout items[HN_GPU_PLANS_MAX] = {{0}};
    pl.work = hn_kernel_work(program, kernel);
    uint32_t count = kernel->serial        ? 1
                     : is_elementwise(&pl) ? list_elements(&pl, items)
                                           : list_rows(&pl, items);
    if (kernel->serial) items[0].ns = predicted_ns(&pl, 1, 1, 1, 0);
    *out_count = count < most ? count : most;
    for (uint32_t k = 0; k < *out_count; k++) HN_TRY(plan_layout(&pl, &items[k], arena, &out[k]));
    return NULL;
}

hn_status hn_form_plan_gpu(const hn_program *program, const hn_kernel *kernel,
                           const hn_gpu_facts *facts, hn_arena *arena, hn_arena *scratch,
                           hn_form **out) {
    uint32_t count;
    HN_TRY(hn_form_plans_gpu(program, kernel, facts, 1, arena, scratch, out, &count));
    return count ? NULL : HN_ERROR(HN_INTERNAL, "no layout of a kernel fits the processor");
}
