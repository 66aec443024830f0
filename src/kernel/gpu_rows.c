/* gpu_rows.c: the layouts that there are for rows: how many threads share one, how many vectors a
 * thread takes in a step, whether registers keep the row; what they cost. */
#include "base/compiler.h"
#include "kernel/gpu_lists.h"
#include "kernel/gpu_names.h"

typedef hn_gpu_planner planner;
typedef hn_gpu_layout layout;
typedef hn_gpu_launch launch;

/* What a vector of a scan waits for, in times of a reduction: for two barriers. */
enum { WAITS_OF_SCAN = 2 };

/* For each element of a vector, what is combined up to it and what the threads before have. */
enum { SCAN_REGISTERS = 2 };

/* The most vectors that a thread keeps: each is a copy of the loops' bodies. */
enum { KEPT_VECTORS_MOST = 8 };

/* Clusters keep a row that is read once, so need not be kept: what the sum of everything lost by
 * them on an H200. */
static const double needless_clusters = 1.06;

static uint32_t least_width(uint32_t a, uint32_t b) { return a < b ? a : b; }

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

/* Of a reduction; or of a scan: one of each warp, or of each row, or where neighbours have other
 * rows of each thread. */
static int64_t exchanged(const planner *pl, const layout *l, const hn_kernel_phase *phase) {
    const uint32_t threads = l->width * l->rows, pitch = hn_gpu_pitch(pl, l->rows);
    if (l->width == 1) return 0;
    if (!phase->scan) return hn_form_exchanged(threads, pl->facts->shuffle, l->width, pitch);
    return pitch > 1 ? threads : threads / least_width(l->width, pl->facts->shuffle);
}

/* What its rows exchange values, and perhaps positions, through. Each statement has memory of its
 * own, and a form for some sizes of the call has all of them twice. */
static int64_t exchanged_bytes(const planner *pl, const layout *l) {
    int64_t bytes = 0;
    for (uint32_t f = 0; f < pl->k->phases.count; f++) {
        const hn_kernel_phase *phase = &pl->k->phases.items[f];
        const int64_t count = exchanged(pl, l, phase);
        for (uint32_t k = 0; k < phase->reduces.count; k++) {
            const hn_kernel_reduce *r = &phase->reduces.items[k];
            bytes += (exchange_bytes(r->dtype) + (hn_op_keeps_position(r->op) ? 8 : 0)) * count;
        }
        if (!l->slabs || l->rows == 1) continue;
        const uint32_t threads = l->width * l->rows; /* sums of its rows, down the columns */
        for (uint32_t k = 0; k < phase->columns.count; k++)
            bytes += exchange_bytes(phase->columns.items[k].dtype) *
                     hn_form_exchanged(threads, pl->facts->shuffle, l->rows, l->width);
    }
    return l->size ? 2 * bytes : bytes;
}

static int64_t local_bytes(const planner *pl, const layout *l) {
    int64_t bytes = 0;
    for (uint32_t k = 0; k < pl->k->locals.count; k++) {
        const hn_local *local = &pl->k->locals.items[k];
        if (!l->keeps || !hn_gpu_fits_registers(pl, local->buffer))
            bytes +=
                number_of(pl, local->extent_elems) * hn_gpu_size_of(pl, local->buffer) * l->rows;
    }
    return bytes;
}

int64_t hn_gpu_shared_bytes(const planner *pl, const layout *l) {
    return exchanged_bytes(pl, l) + local_bytes(pl, l);
}

/* Shared memory holds what the layout needs; local buffers that are too large for it even with one
 * row go to scratch memory. */
static bool fits_shared(const planner *pl, const layout *l) {
    int64_t room = pl->facts->shared_bytes;
    return exchanged_bytes(pl, l) <= room && (l->rows == 1 || hn_gpu_shared_bytes(pl, l) <= room);
}

/* What is the same of all layouts of a kernel's rows. */
typedef struct rows_info {
    int64_t rows, elems;                  /* of the longest phase */
    uint32_t vector, reductions, reading; /* phases that read from memory */
    uint32_t last_reads;   /* reads of phases without variables, one after the other */
    int64_t element_bytes; /* that the phase reads that reads most */
    uint32_t online;       /* phases that go in the walk of another one, */
    int64_t online_bytes;  /* and what they would read of a row */
    bool may_keep;
    bool peels; /* vectors begin where the row's elements are aligned */
    /* the same where registers keep a row */
    uint32_t kept_vector;
    bool kept_peels;
    hn_expr size; /* vectors are for calls where it is a multiple; 0: for all */
} rows_info;

/* A read, and one whose index is read. */
static uint32_t chained_reads(const hn_body *body) {
    uint32_t reads = 0, indirect = 0;
    for (hn_sid s = 1; s < body->count; s++) {
        if (body->items[s].kind == HN_SOP_LOAD) reads = 1;
        if (body->items[s].kind == HN_SOP_INDIRECT) indirect = 1;
    }
    return reads + indirect;
}

static void add_phase(const planner *pl, const hn_kernel_phase *phase, rows_info *out) {
    int64_t elems = hn_gpu_hint(pl, hn_gpu_extents(pl, phase->vars, phase->rank));
    if (elems > out->elems) out->elems = elems;
    out->reductions += phase->reduces.count;
    if (!phase->rank) {
        out->last_reads += chained_reads(&phase->body);
        return;
    }
    int64_t bytes = hn_gpu_bytes_read(pl, phase, pl->k->rank ? pl->k->vars[0] : 0,
                                      phase->vars[phase->rank - 1]);
    uint32_t vector = hn_gpu_vector(pl, phase, phase->vars, phase->rank);
    if (bytes > out->element_bytes) out->element_bytes = bytes;
    if (vector < out->vector) out->vector = vector;
    out->reading += bytes > 0;
}

/* Vectors of rows count as rows. */
static void across_rows(const planner *pl, rows_info *out) {
    out->vector = hn_gpu_row_vector(pl);
    out->rows = hn_gpu_ceil_div(out->rows, out->vector);
    out->element_bytes = 0;
    for (uint32_t f = 0; f < pl->k->phases.count && pl->k->rank; f++) {
        const hn_kernel_phase *phase = &pl->k->phases.items[f];
        hn_expr down = phase->rank ? phase->vars[0] : 0;
        int64_t bytes = hn_gpu_bytes_read(pl, phase, down, pl->k->vars[pl->k->rank - 1]);
        if (phase->rank && bytes > out->element_bytes) out->element_bytes = bytes;
    }
}

/* The size that is the length of all rows; 0: there is none. */
static hn_expr size_of_rows(const planner *pl) {
    hn_expr size = 0;
    for (uint32_t f = 0; f < pl->k->phases.count; f++) {
        const hn_kernel_phase *phase = &pl->k->phases.items[f];
        if (!phase->rank) continue;
        hn_expr extent = hn_gpu_extent(pl, phase->vars[phase->rank - 1]);
        bool is_size = hn_sym_kind(pl->sym, extent) == HN_EXPR_SYMBOL &&
                       hn_sym_symbol_kind(pl->sym, extent) == HN_SYMBOL_SIZE;
        if (!is_size || phase->scan || (size && size != extent)) return 0;
        size = extent;
    }
    return size;
}

/* Longer vectors for calls where the length of the rows is a multiple of them, if it is expected
 * to be. */
static void guard_vectors(const planner *pl, rows_info *out) {
    uint32_t vector = HN_FORM_MOVE_MOST, asked;
    const hn_expr size = pl->is_across ? 0 : size_of_rows(pl);
    if (!size) return;
    do {
        asked = vector;
        const planner guarded = hn_gpu_where_multiple(pl, size, asked);
        for (uint32_t f = 0; f < pl->k->phases.count; f++) {
            const hn_kernel_phase *phase = &pl->k->phases.items[f];
            uint32_t own = hn_gpu_vector(&guarded, phase, phase->vars, phase->rank);
            if (phase->rank && own < vector) vector = own;
        }
    } while (vector < asked);
    if (vector <= out->vector || !hn_gpu_may_guard(pl, size, vector, 1)) return;
    out->vector = vector;
    out->size = size;
}

/* What one walk for two phases saves. */
static void count_online(const planner *pl, uint32_t f, rows_info *out) {
    if (!hn_gpu_is_online(pl, f)) return;
    const hn_kernel_phase *phase = &pl->k->phases.items[f + 1];
    out->online++;
    out->online_bytes += hn_gpu_hint(pl, hn_gpu_extents(pl, phase->vars, phase->rank)) *
                         hn_gpu_bytes_read(pl, phase, 0, phase->vars[phase->rank - 1]);
}

static rows_info info_of(const planner *pl) {
    rows_info out = {.elems = 1, .vector = HN_FORM_MOVE_MOST, .may_keep = hn_gpu_may_keep(pl)};
    out.rows = hn_gpu_hint(pl, hn_gpu_extents(pl, pl->k->vars, pl->k->rank));
    for (uint32_t f = 0; f < pl->k->phases.count; f++) add_phase(pl, &pl->k->phases.items[f], &out);
    guard_vectors(pl, &out);
    if (pl->is_across) across_rows(pl, &out);
    for (uint32_t f = 0; f < pl->k->phases.count && out.may_keep; f++) {
        const hn_kernel_phase *phase = &pl->k->phases.items[f];
        out.may_keep = hn_sym_is_int(pl->sym, hn_gpu_extents(pl, phase->vars, phase->rank), NULL);
    }
    for (uint32_t f = 0; f < pl->k->phases.count; f++) count_online(pl, f, &out);
    const uint32_t peeled = hn_gpu_peeled_vector(pl);
    out.kept_vector = out.vector;
    if (peeled > out.vector && !out.size) {
        out.kept_vector = peeled;
        out.kept_peels = true;
    }
    if (!pl->k->locals.count) { /* shared memory has vectors from the row's beginning on only */
        out.vector = out.kept_vector;
        out.peels = out.kept_peels;
    }
    return out;
}

/* What a warp reads one after the other: numbers of its rows, of each thread or of each warp, which
 * its lanes share out. */
static void count_exchanges(const planner *pl, const layout *l, hn_gpu_launch *out) {
    const uint32_t warp = pl->facts->shuffle, warps = (out->threads + warp - 1) / warp;
    uint32_t numbers = l->width;
    if (has_scan(pl->k)) {
        /* of each step, whose reads have to wait */
        if (l->width > 1)
            out->exchange_ns = (double)out->steps * numbers * warps * hn_gpu_exchanged_ns;
        return;
    }
    if (l->rows < warp) {
        const uint32_t all = l->width * l->rows / warp * l->rows;
        numbers = all > warp ? all / warp : 1;
        for (uint32_t k = l->rows; k < warp; k *= 2) numbers += 2; /* before and after */
    }
    out->exchange_ns = (double)out->acrosses * numbers * warps * hn_gpu_exchanged_ns;
    out->waits = 1;
}

/* Elements that a thread reads at once: of a row that is shorter than the vectors of its threads
 * some have fewer. */
static int64_t taken_of(const rows_info *info, const layout *l, bool along) {
    const int64_t taken = (int64_t)l->vector * l->unroll;
    if (!along || info->elems >= l->width * taken) return taken;
    return hn_gpu_ceil_div(info->elems, l->width);
}

static launch launch_of(const planner *pl, const rows_info *info, const layout *l) {
    const uint32_t taken = l->vector * l->unroll;
    bool along = !pl->is_across;
    int64_t element = info->element_bytes ? info->element_bytes : 4,
            next = along ? (l->width * l->vector < info->elems ? l->width * l->vector
                                                               : info->elems * l->rows)
                         : l->rows * l->vector;
    const uint32_t blocks = l->blocks ? l->blocks : 1,
                   reading = info->reading - (l->online ? info->online : 0);
    uint32_t levels = 0;
    for (uint32_t half = l->width; half > pl->facts->shuffle; half /= 2) levels++;
    launch out = {
        .groups = (double)hn_gpu_ceil_div(info->rows, l->rows) * blocks,
        .threads = l->width * l->rows / blocks,
        .blocks = blocks,
        .run_bytes = next * element,
        .bytes = pl->work.bytes,
        .flight_bytes = element * taken_of(info, l, along),
        .steps = hn_gpu_ceil_div(info->elems, (int64_t)l->width * (along ? taken : l->unroll)) *
                 (reading ? reading : 1),
        .last_reads = info->last_reads,
        .acrosses = (l->width > 1 ? info->reductions : 0) * (along ? 1 : l->vector),
        .levels = levels,
        .registers = HN_GPU_OTHER_REGISTERS + l->vector * HN_GPU_ELEMENT_REGISTERS,
        .shared_bytes = hn_gpu_shared_bytes(pl, l)};
    if (has_scan(pl->k)) {
        const uint32_t befores = l->width > 1 || along ? (uint32_t)out.steps : 0;
        out.acrosses = WAITS_OF_SCAN * befores * (along ? l->unroll : 1);
        if (!along) out.registers += SCAN_REGISTERS * l->unroll;
    }
    double once = hn_gpu_bytes_once(pl);
    if (once > pl->work.bytes) once = pl->work.bytes;
    if (!along) count_exchanges(pl, l, &out);
    if (l->keeps) {
        out.keeps = true;
        out.bytes = once;
        out.steps = 1;
        out.registers += hn_gpu_kept_registers(pl, taken);
    } else {
        out.again = out.bytes - once;
        if (l->online) out.again -= (double)info->rows * (double)info->online_bytes;
        out.bytes = once;
        out.registers += element * taken / 4;
    }
    return out;
}

/* A group must fit, with registers for all of its threads, and some to spare: a compiler that has
 * just enough uses memory. */
static bool fits_registers(const planner *pl, const launch *run) {
    return run->registers <= pl->facts->registers_thread &&
           (run->registers + HN_GPU_SPARE_REGISTERS) * run->threads <= pl->facts->registers;
}

static void try_layout(const planner *pl, const rows_info *info, layout l, layout *items,
                       uint32_t *kept) {
    while (!fits_shared(pl, &l) && l.rows > 1) l.rows /= 2;
    if (!fits_shared(pl, &l)) return;
    const launch run = launch_of(pl, info, &l);
    if (!fits_registers(pl, &run)) return;
    l.guard = l.size != 0;
    l.ns = hn_gpu_predicted_ns(pl, &run) * hn_gpu_balance(&run, HN_GPU_BYTES_ROWS);
    if (l.blocks > 1 && info->reading < 2 && !pl->k->locals.count) l.ns *= needless_clusters;
    if (has_scan(pl->k) && l.unroll > 1)
        hn_gpu_keep_both(pl, items, kept, l, &run, pl->is_across ? 0 : SCAN_REGISTERS * l.vector);
    else hn_gpu_keep_layout(pl, items, kept, l);
}

/* Of a row that registers keep. One that begins anywhere may have a vector less. */
static int64_t kept_vectors(const rows_info *info) {
    return info->kept_peels ? info->elems / info->kept_vector
                            : hn_gpu_ceil_div(info->elems, info->kept_vector);
}

/* ... by registers that keep a row. */
static void try_kept(const planner *pl, const rows_info *info, layout l, layout *items,
                     uint32_t *kept) {
    const int64_t all = kept_vectors(info), vectors = hn_gpu_ceil_div(all, l.width);
    l.vector = info->kept_vector;
    l.peels = info->kept_peels;
    if (!info->may_keep || vectors > KEPT_VECTORS_MOST) return;
    if (l.peels && pl->k->locals.count && !hn_gpu_has_one_edge(&l)) return;
    if (l.vector > info->vector && l.width >= 2 * all) return; /* some threads have nothing */
    l.unroll = (uint32_t)vectors;
    l.keeps = true;
    try_layout(pl, info, l, items, kept);
}

/* Of so many threads a row, in groups of `threads`. */
static void try_width(const planner *pl, const rows_info *info, uint32_t width, uint32_t threads,
                      layout *items, uint32_t *kept) {
    layout l = {.width = width,
                .rows = hn_gpu_power_of_two(info->rows, threads / width),
                .vector = info->vector,
                .unroll = 1,
                .size = info->size,
                .peels = info->peels};
    bool along = !pl->is_across, steps = along || has_scan(pl->k) || info->vector > 1;
    int64_t vectors =
        hn_gpu_ceil_div(hn_gpu_ceil_div(info->elems, along ? info->vector : 1), width);
    for (size_t u = 0; u < HN_COUNT_OF(hn_gpu_unrolls) && (steps || !u); u++) {
        l.unroll = hn_gpu_unrolls[u];
        if (!hn_gpu_may_unroll(pl, l.vector, l.unroll) || (u && l.unroll > vectors)) continue;
        l.online = false;
        try_layout(pl, info, l, items, kept);
        l.online = info->online > 0;
        if (l.online) try_layout(pl, info, l, items, kept);
    }
    l.online = false;
    try_kept(pl, info, l, items, kept);
}

/* Registers of several multiprocessors keep a row that those of one do not. What is local must fit
 * them, too. */
static void list_clusters(const planner *pl, const rows_info *info, layout *items, uint32_t *kept) {
    const int64_t vectors = kept_vectors(info);
    if (!info->may_keep || info->size || info->elems < pl->facts->blocks_row_elems) return;
    if (pl->k->segments.count) return; /* their groups are one block each */
    for (uint32_t blocks = 2; blocks <= pl->facts->blocks_max; blocks *= 2)
        for (size_t t = 0; t < HN_COUNT_OF(hn_gpu_group_sizes); t++) {
            const uint32_t threads = hn_gpu_group_sizes[t];
            layout l = {.width = blocks * threads,
                        .rows = 1,
                        .blocks = blocks,
                        .vector = info->kept_vector,
                        .unroll = (uint32_t)hn_gpu_ceil_div(vectors, blocks * threads),
                        .keeps = true,
                        .peels = info->kept_peels};
            if (threads <= pl->facts->threads_max && l.width <= vectors &&
                l.unroll <= KEPT_VECTORS_MOST && !local_bytes(pl, &l))
                try_layout(pl, info, l, items, kept);
        }
}

/* Threads of a row that may scan it: few where all that they combine goes through shared memory,
 * since each reads what those before it have. */
static uint32_t scan_width(const planner *pl) {
    if (pl->facts->shuffle == 1) return 16;
    return pl->is_across ? pl->facts->shuffle : pl->facts->threads_max;
}

/* ---- a layout that somebody names, whatever sizes are expected ---- */

/* Of registers that keep a row: as many vectors as a row has. */
static bool may_be_kept(const planner *pl, const rows_info *info, const layout *l) {
    const int64_t vectors = kept_vectors(info);
    if (!info->may_keep || l->unroll != hn_gpu_ceil_div(vectors, l->width)) return false;
    if (l->peels && pl->k->locals.count && !hn_gpu_has_one_edge(l)) return false;
    if (l->blocks <= 1) return l->unroll <= KEPT_VECTORS_MOST;
    return hn_gpu_is_power_of_two(l->blocks) && l->blocks <= pl->facts->blocks_max &&
           l->rows == 1 && !info->size && !pl->k->segments.count && l->width <= vectors &&
           info->elems >= pl->facts->blocks_row_elems && l->unroll <= KEPT_VECTORS_MOST &&
           !local_bytes(pl, l);
}

static bool may_step(const planner *pl, const rows_info *info, const layout *l) {
    const bool steps = !pl->is_across || has_scan(pl->k) || info->vector > 1;
    return hn_gpu_is_power_of_two(l->unroll) && (steps || l->unroll == 1) && l->blocks <= 1 &&
           l->unroll <= hn_gpu_unrolls[HN_COUNT_OF(hn_gpu_unrolls) - 1] &&
           hn_gpu_may_unroll(pl, l->vector, l->unroll) && (!l->online || info->online);
}

static bool may_be(const planner *pl, const rows_info *info, const layout *l) {
    const uint32_t blocks = l->blocks > 1 ? l->blocks : 1,
                   widest = has_scan(pl->k) ? scan_width(pl) : blocks * pl->facts->threads_max;
    if (!hn_gpu_is_power_of_two(l->width) || !hn_gpu_is_power_of_two(l->rows) ||
        l->width > widest || l->width * l->rows / blocks > pl->facts->threads_max)
        return false;
    if (l->peels != (l->keeps ? info->kept_peels : info->peels)) return false;
    if (l->ahead || l->stages || l->tile || l->parts || (l->keeps && l->online)) return false;
    return l->keeps ? may_be_kept(pl, info, l) : may_step(pl, info, l);
}

/* Shorter vectors than there may be, where these begin with the row. */
static uint32_t list_wished(const planner *pl, rows_info info, layout l, layout *items) {
    const uint32_t most = l.keeps ? info.kept_vector : info.vector;
    const bool is_fixed = pl->is_across || l.peels;
    uint32_t kept = 0;
    if (l.slabs) {
        if (!info.size) hn_gpu_list_staged(pl, items, &kept);
        return kept;
    }
    if (!hn_gpu_is_power_of_two(l.vector) || (is_fixed ? l.vector != most : l.vector > most))
        return 0;
    info.vector = info.kept_vector = l.vector;
    l.size = info.size;
    if (may_be(pl, &info, &l)) try_layout(pl, &info, l, items, &kept);
    return kept;
}

uint32_t hn_gpu_list_rows(const planner *pl, layout items[HN_GPU_PLANS_MAX]) {
    const rows_info info = info_of(pl);
    const uint32_t most = pl->facts->threads_max;
    if (hn_gpu_wished(pl)) return list_wished(pl, info, *hn_gpu_wished(pl), items);
    int64_t vectors = pl->is_across ? info.elems : hn_gpu_ceil_div(info.elems, info.vector);
    uint32_t kept = 0, widest = hn_gpu_power_of_two(vectors, most);
    if (has_scan(pl->k)) widest = least_width(widest, scan_width(pl));
    for (size_t t = 0; t < HN_COUNT_OF(hn_gpu_group_sizes); t++) {
        uint32_t threads = hn_gpu_group_sizes[t] < most ? hn_gpu_group_sizes[t] : most;
        for (uint32_t width = 1; width <= widest && width <= threads; width *= 2)
            try_width(pl, &info, width, threads, items, &kept);
    }
    list_clusters(pl, &info, items, &kept);
    if (!info.size) hn_gpu_list_staged(pl, items, &kept);
    return kept;
}
