/* plan_gpu.c: how the rows and phases of a kernel are laid out over groups of threads.
 *
 * Three layouts:
 * - elements: a kernel of one phase without reductions. Threads take vectors of the elements of all
 *   rows side by side (gpu_vectors.c); or a group takes a square of two variables, where loads go along
 *   both: each is read along its own, and turned around in shared memory.
 * - rows: `width` threads share a row, and a group has `rows` of them. A reduction combines the
 *   registers of a row's threads (ACROSS).
 *       lanes along the row (HN_VECTOR_INNER):  thread = row in group * width + place
 *       lanes across rows   (HN_VECTOR_OUTER):  thread = place * rows + row in group, since rows
 *                                               are neighbours in memory
 *   Along the row each phase is taken in vectors, in steps of all threads; or registers keep the
 *   row, which is one step then. Across rows each thread takes single elements.
 *   Local buffers of the schedule lie in registers that keep the row; or in shared memory, or in
 *   scratch memory when they are too large. A barrier stands before a phase that reads what another
 *   thread of its row has written.
 * - scatters: see gpu_scatter.c.
 * A scan of a row is taken in steps by its threads (gpu_scan.c). gpu_layouts.c makes forms of them. */
#include "kernel/plan_gpu.h"

#include "base/compiler.h"
#include "kernel/gpu_costs.h"
#include "kernel/segments.h"

typedef hn_gpu_planner planner;
typedef hn_gpu_layout layout;
typedef hn_gpu_launch launch;

/* Sizes of groups that are compared, of equals the first is taken; and vectors that a thread takes in a step. */
static const uint32_t group_sizes[] = {256, 128, 512, 64, 1024};
static const uint32_t unrolls[] = {1, 2, 4, 8, 16};

/* A step of more than four vectors has at most so many elements; and of several vectors so many ops:
 * a compiler takes a second for 1,000 (NVRTC 13.0), and so long a body needs no more reads under way. */
enum { UNROLL_SHORT = 4, UNROLLED_MOST = 16, OPS_MOST = 1024 };

static uint32_t least_width(uint32_t a, uint32_t b) { return a < b ? a : b; }

static bool may_unroll(const planner *pl, uint32_t vector, uint32_t unroll) {
    uint32_t ops = 0;
    if (unroll == 1) return true;
    for (uint32_t f = 0; f < pl->k->phases.count; f++)
        if (pl->k->phases.items[f].body.count > ops) ops = pl->k->phases.items[f].body.count;
    if ((uint64_t)vector * unroll * ops > OPS_MOST) return false;
    return unroll <= UNROLL_SHORT || vector * unroll <= UNROLLED_MOST;
}

/* What a vector of a scan waits for, in times of a reduction: for two barriers. */
enum { WAITS_OF_SCAN = 2 };

/* For each element of a vector, what is combined up to it and what the threads before have. */
enum { SCAN_REGISTERS = 2 };

/* Registers of a thread beside what it keeps: addresses, and what an element of a vector takes while
 * it is computed. And the most vectors that it keeps: each is a copy of the loops' bodies. */
enum { OTHER_REGISTERS = 24, ELEMENT_REGISTERS = 1, KEPT_VECTORS_MOST = 8 };

/* Clusters keep a row that is read once, so need not be kept: what the sum of everything lost by them
 * on an H200. */
static const double needless_clusters = 1.06;

/* Of layouts that memory makes equal, that is best whose threads have so many bytes under way each:
 * of a row with fewer more threads wait for each other; with more the code is longer. A factor of
 * two is worth a hundredth. */
enum { BYTES_OF_ELEMENTS = 32, BYTES_OF_BUSY_ELEMENTS = 64, BYTES_OF_ROWS = 64 };

static int64_t hint(const planner *pl, hn_expr e) { return hn_sym_hint(pl->sym, e, 1024); }

static uint32_t power_of_two_from(int64_t value, uint32_t most) {
    uint32_t power = 1;
    while (power < most && power < value) power *= 2;
    return power;
}

/* What reads several vectors and then computes element by element: a compiler that is not told how many
 * groups there are at once saves registers, and reads a vector only where its elements are needed.
 * So it is told how many there is room for, some registers to spare. If they do not suffice,
 * the next best layout is the same without that. */
static void keep_both(const planner *pl, layout *items, uint32_t *count, layout l,
                      const launch *run, int64_t other_registers) {
    l.resident = hn_gpu_bound_groups(pl, *run, other_registers);
    hn_gpu_keep_layout(items, count, l);
    if (!l.resident) return;
    l.resident = 0;
    hn_gpu_keep_layout(items, count, l);
}

/* ---- elements ---- */

static bool is_elementwise(const planner *pl) {
    return pl->k->phases.count == 1 && !pl->k->phases.items[0].reduces.count &&
           !pl->k->locals.count && !pl->k->serial;
}

/* All variables, the one that is contiguous in memory last. */
uint32_t hn_gpu_list_variables(const planner *pl, hn_expr out[2 * HN_MAX_RANK]) {
    const hn_kernel *k = pl->k;
    const hn_kernel_phase *phase = &k->phases.items[0];
    bool across = k->mode == HN_VECTOR_OUTER && k->rank;
    uint32_t count = 0, outer = across ? k->rank - 1 : k->rank;
    for (uint32_t d = 0; d < outer; d++) out[count++] = k->vars[d];
    for (uint32_t d = 0; d < phase->rank; d++) out[count++] = phase->vars[d];
    if (across) out[count++] = k->vars[k->rank - 1];
    if (!count) out[count++] = hn_sym_index(pl->sym, 0, hn_gpu_num(pl, 1));
    return count;
}

/* Sides of squares, and the threads of a group that has one. */
enum { TILE = 64, SHORT_TILE = 32, TILE_THREADS = 256, LONG_VECTOR = 4 };

/* Squares, where loads go along two variables: each is read in lines of its own direction. */
static void list_tiles(const planner *pl, hn_expr along, hn_expr last, layout *items,
                       uint32_t *kept) {
    uint32_t vector = hn_gpu_tile_vector(pl, along, last),
             side = vector < LONG_VECTOR ? SHORT_TILE : TILE;
    int64_t bytes = hn_gpu_transposed_bytes(pl, along, last) * side * (side + 1);
    int64_t down = hint(pl, hn_gpu_extent(pl, along)), across = hint(pl, hn_gpu_extent(pl, last));
    if (bytes > pl->facts->shared_bytes || TILE_THREADS > pl->facts->threads_max) return;
    if (down < SHORT_TILE / 2 || across < SHORT_TILE / 2) return;
    layout l = {.width = TILE_THREADS,
                .rows = 1,
                .vector = vector,
                .unroll = side * side / (vector * TILE_THREADS),
                .tile = side};
    hn_expr vars[2 * HN_MAX_RANK];
    double all = (double)hint(pl, hn_gpu_extents(pl, vars, hn_gpu_list_variables(pl, vars)));
    launch run = {.groups = all / side / side,
                  .threads = TILE_THREADS,
                  .run_bytes = HN_GPU_LINE_BYTES,
                  .bytes = pl->work.bytes,
                  .flight_bytes =
                      hn_gpu_bytes_read(pl, &pl->k->phases.items[0], 0, last) * vector * l.unroll,
                  .steps = 1,
                  .acrosses = 1,
                  .registers = OTHER_REGISTERS + vector * ELEMENT_REGISTERS,
                  .shared_bytes = bytes};
    l.ns = hn_gpu_predicted_ns(pl, &run);
    hn_gpu_keep_layout(items, kept, l);
}

/* For calls where the size is a multiple of `vector`. */
static planner where_multiple(const planner *pl, hn_expr size, uint32_t vector) {
    planner guarded = *pl;
    hn_expr all = hn_gpu_num(pl, vector), one = hn_gpu_num(pl, 1),
            count = hn_sym_add(pl->sym, hn_sym_floordiv(pl->sym, size, all), one);
    /* a symbol that stands for the number of vectors, in no form */
    hn_expr times = hn_sym_index(pl->sym, HN_FORM_FIRST_ORDINAL - 1, count);
    guarded.size = size;
    guarded.multiple = hn_sym_mul(pl->sym, times, all);
    return guarded;
}

/* The longest vectors that all may take where the size is a multiple of them: of half a size (the
 * columns of a convolution in steps of two) these are shorter than where it is one of more. */
static uint32_t vector_where_multiple(const planner *pl, hn_expr size, const hn_expr *vars,
                                      uint32_t count) {
    uint32_t vector = HN_FORM_MOVE_MOST, asked;
    do {
        asked = vector;
        const planner guarded = where_multiple(pl, size, asked);
        vector = hn_gpu_vector(&guarded, &pl->k->phases.items[0], vars, count);
    } while (vector < asked);
    return vector;
}

/* Longer vectors for calls where a size is a multiple of them, if it is expected to be; it is in the
 * last extent. The size, or 0. */
static hn_expr guard_elements(const planner *pl, const hn_expr *vars, uint32_t count,
                              uint32_t *vector) {
    hn_expr symbols[HN_MAX_RANK], size = 0;
    const uint32_t all =
        hn_sym_symbols(pl->sym, hn_gpu_extent(pl, vars[count - 1]), symbols, HN_MAX_RANK);
    for (uint32_t k = 0; k < all && k < HN_MAX_RANK; k++) {
        if (hn_sym_symbol_kind(pl->sym, symbols[k]) != HN_SYMBOL_SIZE) continue;
        const uint32_t own = vector_where_multiple(pl, symbols[k], vars, count);
        if (own <= *vector || hint(pl, symbols[k]) % own) continue;
        *vector = own;
        size = symbols[k];
    }
    return size;
}

/* Additions for an element. While a thread computes so much it reads nothing, so it reads more before.
 * On an H200 bias and GELU of bf16 take 142 us with 64 bytes and 150 with 32; a sum alone takes 133
 * with either. */
enum { BUSY_COST = 25 };

static int64_t bytes_of_elements(const hn_kernel_phase *phase, uint32_t vector) {
    uint32_t cost = 0;
    if (vector == 1) return BYTES_OF_ELEMENTS; /* each element is a copy of the body */
    for (hn_sid s = 1; s < phase->body.count; s++)
        if (phase->body.items[s].kind == HN_SOP_ELEM)
            cost += hn_op_facts(phase->body.items[s].op)->cost;
    return cost < BUSY_COST ? BYTES_OF_ELEMENTS : BYTES_OF_BUSY_ELEMENTS;
}

static uint32_t list_elements(planner *pl, layout *items) {
    hn_expr vars[2 * HN_MAX_RANK];
    const hn_kernel_phase *phase = &pl->k->phases.items[0];
    uint32_t kept = 0, count = hn_gpu_list_variables(pl, vars),
             vector = hn_gpu_vector(pl, phase, vars, count);
    const hn_expr size = guard_elements(pl, vars, count, &vector);
    int64_t elems = hint(pl, hn_gpu_extents(pl, vars, count)),
            vectors = hn_gpu_ceil_div(elems, vector),
            bytes = vector * hn_gpu_bytes_read(pl, phase, vars[0], vars[count - 1]),
            cached = vector * hn_gpu_bytes_read(pl, phase, 0, vars[count - 1]) - bytes;
    hn_expr along = hn_gpu_transposed(pl, vars, count);
    /* a sector for each element that goes along another variable, some of it found again */
    double wasted = along ? (double)elems * (HN_GPU_SECTOR_BYTES / 2) : 0;
    if (along) list_tiles(pl, along, vars[count - 1], items, &kept);
    for (size_t t = 0; t < HN_COUNT_OF(group_sizes); t++)
        for (size_t u = 0; u < HN_COUNT_OF(unrolls); u++) {
            uint32_t threads = power_of_two_from(vectors, group_sizes[t]);
            if (threads > pl->facts->threads_max || !may_unroll(pl, vector, unrolls[u])) continue;
            layout l = {
                .width = threads, .rows = 1, .vector = vector, .unroll = unrolls[u], .size = size};
            launch run = {.groups = (double)hn_gpu_ceil_div(vectors, threads * l.unroll),
                          .threads = threads,
                          .run_bytes = HN_GPU_LINE_BYTES,
                          .bytes = pl->work.bytes + wasted,
                          .flight_bytes = (bytes ? bytes : 4) * l.unroll,
                          .steps = 1,
                          .registers =
                              OTHER_REGISTERS + vector * ELEMENT_REGISTERS + bytes * l.unroll / 4};
            l.ns = hn_gpu_predicted_ns(pl, &run) *
                   hn_gpu_balance(&run, bytes_of_elements(phase, vector));
            if (l.unroll > 1) keep_both(pl, items, &kept, l, &run, cached / 4);
            else hn_gpu_keep_layout(items, &kept, l);
        }
    return kept;
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

/* Of a reduction; or of a scan: one of each warp, or of each row, or where neighbours have other rows
 * of each thread. */
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
    int64_t elems = hint(pl, hn_gpu_extents(pl, phase->vars, phase->rank));
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
        const planner guarded = where_multiple(pl, size, asked);
        for (uint32_t f = 0; f < pl->k->phases.count; f++) {
            const hn_kernel_phase *phase = &pl->k->phases.items[f];
            uint32_t own = hn_gpu_vector(&guarded, phase, phase->vars, phase->rank);
            if (phase->rank && own < vector) vector = own;
        }
    } while (vector < asked);
    if (vector <= out->vector || hint(pl, size) % vector) return;
    out->vector = vector;
    out->size = size;
}

/* What one walk for two phases saves. */
static void count_online(const planner *pl, uint32_t f, rows_info *out) {
    if (!hn_gpu_is_online(pl, f)) return;
    const hn_kernel_phase *phase = &pl->k->phases.items[f + 1];
    out->online++;
    out->online_bytes += hint(pl, hn_gpu_extents(pl, phase->vars, phase->rank)) *
                         hn_gpu_bytes_read(pl, phase, 0, phase->vars[phase->rank - 1]);
}

static rows_info info_of(const planner *pl) {
    rows_info out = {.elems = 1, .vector = HN_FORM_MOVE_MOST, .may_keep = hn_gpu_may_keep(pl)};
    out.rows = hint(pl, hn_gpu_extents(pl, pl->k->vars, pl->k->rank));
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
        .flight_bytes = element * taken,
        .steps = hn_gpu_ceil_div(info->elems, (int64_t)l->width * (along ? taken : l->unroll)) *
                 (reading ? reading : 1),
        .last_reads = info->last_reads,
        .acrosses = (l->width > 1 ? info->reductions : 0) * (along ? 1 : l->vector),
        .levels = levels,
        .registers = OTHER_REGISTERS + l->vector * ELEMENT_REGISTERS,
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
    l.ns = hn_gpu_predicted_ns(pl, &run) * hn_gpu_balance(&run, BYTES_OF_ROWS);
    if (l.blocks > 1 && info->reading < 2 && !pl->k->locals.count) l.ns *= needless_clusters;
    if (has_scan(pl->k) && l.unroll > 1)
        keep_both(pl, items, kept, l, &run, pl->is_across ? 0 : SCAN_REGISTERS * l.vector);
    else hn_gpu_keep_layout(items, kept, l);
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
                .rows = power_of_two_from(info->rows, threads / width),
                .vector = info->vector,
                .unroll = 1,
                .size = info->size,
                .peels = info->peels};
    bool along = !pl->is_across, steps = along || has_scan(pl->k) || info->vector > 1;
    int64_t vectors =
        hn_gpu_ceil_div(hn_gpu_ceil_div(info->elems, along ? info->vector : 1), width);
    for (size_t u = 0; u < HN_COUNT_OF(unrolls) && (steps || !u); u++) {
        l.unroll = unrolls[u];
        if (!may_unroll(pl, l.vector, l.unroll) || (u && l.unroll > vectors)) continue;
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
        for (size_t t = 0; t < HN_COUNT_OF(group_sizes); t++) {
            const uint32_t threads = group_sizes[t];
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

static uint32_t list_rows(const planner *pl, layout *items) {
    const rows_info info = info_of(pl);
    const uint32_t most = pl->facts->threads_max;
    int64_t vectors = pl->is_across ? info.elems : hn_gpu_ceil_div(info.elems, info.vector);
    uint32_t kept = 0, widest = power_of_two_from(vectors, most);
    if (has_scan(pl->k)) widest = least_width(widest, scan_width(pl));
    for (size_t t = 0; t < HN_COUNT_OF(group_sizes); t++) {
        uint32_t threads = group_sizes[t] < most ? group_sizes[t] : most;
        for (uint32_t width = 1; width <= widest && width <= threads; width *= 2)
            try_width(pl, &info, width, threads, items, &kept);
    }
    list_clusters(pl, &info, items, &kept);
    if (!info.size) hn_gpu_list_staged(pl, items, &kept);
    return kept;
}

/* ---- the choice ---- */

static const char *shape_of(const planner *pl, const layout *l) {
    if (pl->k->serial) return "scatter";
    if (pl->k->slabs) return "slabs of rows";
    if (l->tile) return "tiles";
    if (is_elementwise(pl)) return "elements";
    if (l->blocks > 1) return "rows over blocks";
    return l->keeps ? "rows, kept" : "rows";
}

static hn_status plan_layout(planner *pl, const layout *l, hn_arena *arena, hn_form **out) {
    pl->layout = l;
    pl->arrays.count = pl->singles.count = 0;
    if (pl->k->serial) HN_TRY(hn_gpu_plan_scatter(pl, arena));
    else if (l->slabs) HN_TRY(hn_gpu_plan_mixed(pl, arena));
    else if (l->tile) HN_TRY(hn_gpu_plan_tiles(pl, arena));
    else if (is_elementwise(pl)) HN_TRY(hn_gpu_plan_elements(pl, arena));
    else HN_TRY(hn_gpu_plan_rows(pl, arena));
    pl->f->cost = pl->work;
    pl->f->cost.ns = l->ns;
    pl->f->shape = shape_of(pl, l);
    pl->f->resident = l->resident;
    pl->f->is_narrow = hn_form_fits_words(pl->f);
    *out = pl->f;
    hn_status failed = pl->failed;
    pl->failed = NULL;
    HN_TRY(failed);
    HN_TRY(hn_form_set_segments(pl->f, pl->k));
    return hn_form_end(pl->f);
}

hn_status hn_form_plans_gpu(const hn_program *program, const hn_kernel *kernel,
                            const hn_gpu_facts *facts, uint32_t most, hn_arena *arena,
                            hn_arena *scratch, hn_form **out, uint32_t *out_count) {
    planner pl = {
        .p = program, .sym = program->sym, .k = kernel, .facts = facts, .scratch = scratch};
    layout items[HN_GPU_PLANS_MAX] = {{0}};
    pl.work = hn_kernel_work(program, kernel);
    pl.is_across = kernel->mode == HN_VECTOR_OUTER && !hn_gpu_scans_along(&pl);
    uint32_t count = kernel->serial        ? hn_gpu_list_scatter(&pl, items)
                     : kernel->slabs       ? hn_gpu_list_mixed(&pl, items)
                     : is_elementwise(&pl) ? list_elements(&pl, items)
                                           : list_rows(&pl, items);
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
