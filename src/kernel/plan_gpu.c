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
 * Here are the layouts of elements, and the choice; those of rows are in gpu_rows.c.
 * A scan of a row is taken in steps by its threads (gpu_scan.c). gpu_layouts.c makes forms of them. */
#include "kernel/plan_gpu.h"

#include "base/compiler.h"
#include "kernel/gpu_lists.h"
#include "kernel/gpu_names.h"
#include "kernel/segments.h"

#include <string.h>

typedef hn_gpu_planner planner;
typedef hn_gpu_layout layout;
typedef hn_gpu_launch launch;

/* A step of more than four vectors has at most so many elements; and of several vectors so many
 * ops: a compiler takes a second for 1,000 (NVRTC 13.0), and so long a body needs no more reads
 * under way. */
enum { UNROLL_SHORT = 4, UNROLLED_MOST = 16, OPS_MOST = 1024 };

bool hn_gpu_may_unroll(const planner *pl, uint32_t vector, uint32_t unroll) {
    uint32_t ops = 0;
    if (unroll == 1) return true;
    if (pl->facts->few_registers) return false;
    for (uint32_t f = 0; f < pl->k->phases.count; f++)
        if (pl->k->phases.items[f].body.count > ops) ops = pl->k->phases.items[f].body.count;
    if ((uint64_t)vector * unroll * ops > OPS_MOST) return false;
    return unroll <= UNROLL_SHORT || vector * unroll <= UNROLLED_MOST;
}

uint32_t hn_gpu_power_of_two(int64_t value, uint32_t most) {
    uint32_t power = 1;
    while (power < most && power < value) power *= 2;
    return power;
}

void hn_gpu_keep_both(const planner *pl, layout *items, uint32_t *count, layout l,
                      const launch *run, int64_t other_registers) {
    l.resident = hn_gpu_bound_groups(pl, *run, other_registers);
    hn_gpu_keep_layout(pl, items, count, l);
    if (!l.resident) return;
    l.resident = 0;
    hn_gpu_keep_layout(pl, items, count, l);
}

/* ---- elements ---- */

bool hn_gpu_is_elementwise(const planner *pl) {
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

/* Sides of squares, and the threads of groups that have one: the usual ones first. */
enum { TILE = 64, SHORT_TILE = 32, LONG_VECTOR = 4 };
static const uint32_t tile_threads[] = {512, 256, 128};

/* A square of `side` for each group of so many threads. */
static void try_tile(const planner *pl, hn_expr along, hn_expr last, uint32_t side,
                     uint32_t threads, layout *items, uint32_t *kept) {
    const uint32_t vector = hn_gpu_tile_vector(pl, along, last);
    const int64_t bytes = hn_gpu_transposed_bytes(pl, along, last) * side * (side + 1);
    if (bytes > pl->facts->shared_bytes || threads > pl->facts->threads_max) return;
    if (vector * threads > side * side) return;
    layout l = {.width = threads,
                .rows = 1,
                .vector = vector,
                .unroll = side * side / (vector * threads),
                .tile = side};
    hn_expr vars[2 * HN_MAX_RANK];
    double all = (double)hn_gpu_hint(pl, hn_gpu_extents(pl, vars, hn_gpu_list_variables(pl, vars)));
    launch run = {.groups = all / side / side,
                  .threads = threads,
                  .run_bytes = HN_GPU_LINE_BYTES,
                  .bytes = pl->work.bytes,
                  .flight_bytes =
                      hn_gpu_bytes_read(pl, &pl->k->phases.items[0], 0, last) * vector * l.unroll,
                  .steps = 1,
                  .acrosses = 1,
                  .registers = HN_GPU_OTHER_REGISTERS + vector * HN_GPU_ELEMENT_REGISTERS,
                  .shared_bytes = bytes};
    l.ns = hn_gpu_predicted_ns(pl, &run);
    hn_gpu_keep_layout(pl, items, kept, l);
}

/* Squares, where loads go along two variables: each is read in lines of its own direction. */
static void list_tiles(const planner *pl, hn_expr along, hn_expr last, layout *items,
                       uint32_t *kept) {
    const bool is_long = hn_gpu_tile_vector(pl, along, last) >= LONG_VECTOR;
    const int64_t down = hn_gpu_hint(pl, hn_gpu_extent(pl, along)),
                  across = hn_gpu_hint(pl, hn_gpu_extent(pl, last));
    if (pl->facts->few_registers) return;
    if (!hn_gpu_wished(pl) && (down < SHORT_TILE / 2 || across < SHORT_TILE / 2)) return;
    for (size_t t = 0; t < HN_COUNT_OF(tile_threads); t++) {
        try_tile(pl, along, last, is_long ? TILE : SHORT_TILE, tile_threads[t], items, kept);
        try_tile(pl, along, last, is_long ? SHORT_TILE : TILE, tile_threads[t], items, kept);
    }
}

planner hn_gpu_where_multiple(const planner *pl, hn_expr size, uint32_t vector) {
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
        const planner guarded = hn_gpu_where_multiple(pl, size, asked);
        vector = hn_gpu_vector(&guarded, &pl->k->phases.items[0], vars, count);
    } while (vector < asked);
    return vector;
}

bool hn_gpu_may_guard(const planner *pl, hn_expr size, uint32_t vector, uint32_t number) {
    const layout *l = hn_gpu_wished(pl);
    return l ? l->guard == number : hn_gpu_hint(pl, size) % vector == 0;
}

/* What all runs of elements have in common. */
typedef struct elements_info {
    uint32_t vector; /* the longest */
    hn_expr size;    /* vectors are for calls where it is a multiple; 0: for all */
    uint32_t guard;
    int64_t elems, bytes,
        all_bytes; /* read for an element: of what goes along all, of everything */
    double wasted_bytes;
} elements_info;

/* Longer vectors for calls where a size is a multiple of them, if it is expected to be; it is in
 * the last extent. */
static void guard_elements(const planner *pl, const hn_expr *vars, uint32_t count,
                           elements_info *out) {
    hn_expr symbols[HN_MAX_RANK];
    const uint32_t all =
        hn_sym_symbols(pl->sym, hn_gpu_extent(pl, vars[count - 1]), symbols, HN_MAX_RANK);
    for (uint32_t k = 0; k < all && k < HN_MAX_RANK; k++) {
        if (hn_sym_symbol_kind(pl->sym, symbols[k]) != HN_SYMBOL_SIZE) continue;
        const uint32_t own = vector_where_multiple(pl, symbols[k], vars, count);
        if (own <= out->vector || !hn_gpu_may_guard(pl, symbols[k], own, k + 1)) continue;
        out->vector = own;
        out->size = symbols[k];
        out->guard = k + 1;
    }
}

/* Additions for an element. While a thread computes so much it reads nothing, so it reads more
 * before. On an H200 bias and GELU of bf16 take 142 us with 64 bytes and 150 with 32; a sum alone
 * takes 133 with either. */
enum { BUSY_COST = 25 };

static bool is_busy(const hn_kernel_phase *phase, uint32_t vector) {
    uint32_t cost = 0;
    if (vector == 1) return false; /* each element is a copy of the body */
    for (hn_sid s = 1; s < phase->body.count; s++)
        if (phase->body.items[s].kind == HN_SOP_ELEM)
            cost += hn_op_facts(phase->body.items[s].op)->cost;
    return cost >= BUSY_COST;
}

static elements_info elements_of(const planner *pl, const hn_expr *vars, uint32_t count) {
    const hn_kernel_phase *phase = &pl->k->phases.items[0];
    elements_info out = {.vector = hn_gpu_vector(pl, phase, vars, count),
                         .elems = hn_gpu_hint(pl, hn_gpu_extents(pl, vars, count)),
                         .bytes = hn_gpu_bytes_read(pl, phase, vars[0], vars[count - 1]),
                         .all_bytes = hn_gpu_bytes_read(pl, phase, 0, vars[count - 1])};
    guard_elements(pl, vars, count, &out);
    return out;
}

static void try_elements(const planner *pl, const elements_info *info, layout l, layout *items,
                         uint32_t *kept) {
    const int64_t vectors = hn_gpu_ceil_div(info->elems, l.vector), bytes = l.vector * info->bytes,
                  cached = l.vector * info->all_bytes - bytes;
    if (l.width > pl->facts->threads_max || !hn_gpu_may_unroll(pl, l.vector, l.unroll)) return;
    l.rows = 1;
    l.size = info->size;
    l.guard = info->guard;
    launch run = {.groups = (double)hn_gpu_ceil_div(vectors, l.width * l.unroll),
                  .threads = l.width,
                  .is_busy = is_busy(&pl->k->phases.items[0], l.vector),
                  .run_bytes = HN_GPU_LINE_BYTES,
                  .bytes = pl->work.bytes + info->wasted_bytes,
                  .flight_bytes = (bytes ? bytes : 4) * l.unroll,
                  .steps = 1,
                  .registers = HN_GPU_OTHER_REGISTERS + l.vector * HN_GPU_ELEMENT_REGISTERS +
                               bytes * l.unroll / 4};
    l.ns = hn_gpu_predicted_ns(pl, &run) *
           hn_gpu_balance(&run, run.is_busy ? HN_GPU_BYTES_BUSY_ELEMENTS : HN_GPU_BYTES_ELEMENTS);
    if (l.unroll > 1) hn_gpu_keep_both(pl, items, kept, l, &run, cached / 4);
    else hn_gpu_keep_layout(pl, items, kept, l);
}

/* Whatever sizes are expected. */
static void try_wished_elements(const planner *pl, const elements_info *info, const layout *wished,
                                layout *items, uint32_t *kept) {
    const uint32_t most = hn_gpu_unrolls[HN_COUNT_OF(hn_gpu_unrolls) - 1];
    if (hn_gpu_is_power_of_two(wished->width) && hn_gpu_is_power_of_two(wished->vector) &&
        hn_gpu_is_power_of_two(wished->unroll) && wished->vector <= info->vector &&
        wished->unroll <= most)
        try_elements(
            pl, info,
            (layout){.width = wished->width, .vector = wished->vector, .unroll = wished->unroll},
            items, kept);
}

static uint32_t list_elements(planner *pl, layout *items) {
    hn_expr vars[2 * HN_MAX_RANK];
    uint32_t kept = 0;
    const uint32_t count = hn_gpu_list_variables(pl, vars);
    const layout *wished = hn_gpu_wished(pl);
    elements_info info = elements_of(pl, vars, count);
    const int64_t vectors = hn_gpu_ceil_div(info.elems, info.vector);
    hn_expr along = hn_gpu_transposed(pl, vars, count);
    /* a sector for each element that goes along another variable, some of it found again */
    if (along) info.wasted_bytes = (double)info.elems * (HN_GPU_SECTOR_BYTES / 2);
    if (along) list_tiles(pl, along, vars[count - 1], items, &kept);
    if (wished && !wished->tile) try_wished_elements(pl, &info, wished, items, &kept);
    for (size_t t = 0; t < HN_COUNT_OF(hn_gpu_group_sizes) && !wished; t++)
        for (size_t u = 0; u < HN_COUNT_OF(hn_gpu_unrolls); u++)
            try_elements(pl, &info,
                         (layout){.width = hn_gpu_power_of_two(vectors, hn_gpu_group_sizes[t]),
                                  .vector = info.vector,
                                  .unroll = hn_gpu_unrolls[u]},
                         items, &kept);
    return kept;
}

/* ---- the choice ---- */

static hn_status plan_layout(planner *pl, const layout *l, hn_arena *arena, hn_form **out) {
    pl->layout = l;
    pl->arrays.count = pl->singles.count = 0;
    if (pl->k->serial) HN_TRY(hn_gpu_plan_scatter(pl, arena));
    else if (l->slabs) HN_TRY(hn_gpu_plan_mixed(pl, arena));
    else if (l->tile) HN_TRY(hn_gpu_plan_tiles(pl, arena));
    else if (hn_gpu_is_elementwise(pl)) HN_TRY(hn_gpu_plan_elements(pl, arena));
    else HN_TRY(hn_gpu_plan_rows(pl, arena));
    pl->f->cost = pl->work;
    pl->f->cost.ns = l->ns;
    pl->f->shape = hn_gpu_shape(pl, l);
    pl->f->parameters = hn_gpu_parameters(pl, l, arena);
    if (!pl->f->parameters) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for the name of a form");
    pl->f->resident = l->resident;
    pl->f->is_narrow = hn_form_fits_words(pl->f);
    *out = pl->f;
    hn_status failed = pl->failed;
    pl->failed = NULL;
    HN_TRY(failed);
    HN_TRY(hn_form_set_segments(pl->f, pl->k));
    return hn_form_end(pl->f);
}

static planner planner_of(const hn_program *program, const hn_kernel *kernel,
                          const hn_gpu_facts *facts, hn_arena *scratch) {
    planner pl = {
        .p = program, .sym = program->sym, .k = kernel, .facts = facts, .scratch = scratch};
    pl.work = hn_kernel_work(program, kernel);
    pl.is_across = kernel->mode == HN_VECTOR_OUTER && !hn_gpu_scans_along(&pl);
    return pl;
}

static uint32_t list_layouts(planner *pl, layout items[HN_GPU_PLANS_MAX]) {
    memset(items, 0, HN_GPU_PLANS_MAX * sizeof *items);
    return pl->k->serial               ? hn_gpu_list_scatter(pl, items)
           : pl->k->slabs              ? hn_gpu_list_mixed(pl, items)
           : hn_gpu_is_elementwise(pl) ? list_elements(pl, items)
                                       : hn_gpu_list_rows(pl, items);
}

hn_status hn_form_plans_gpu(const hn_program *program, const hn_kernel *kernel,
                            const hn_gpu_facts *facts, uint32_t most, hn_arena *arena,
                            hn_arena *scratch, hn_form **out, uint32_t *out_count) {
    planner pl = planner_of(program, kernel, facts, scratch);
    layout items[HN_GPU_PLANS_MAX];
    const uint32_t count = list_layouts(&pl, items);
    *out_count = count < most ? count : most;
    for (uint32_t k = 0; k < *out_count; k++) HN_TRY(plan_layout(&pl, &items[k], arena, &out[k]));
    return NULL;
}

/* ---- by name ---- */

/* The kinds that the kernel has. */
static hn_status refuse_kind(planner *pl, hn_str name) {
    char known[160] = "";
    layout items[HN_GPU_PLANS_MAX];
    for (uint32_t k = 0; k < HN_GPU_SHAPES; k++) {
        const hn_gpu_wish any = {.shape = k};
        const size_t at = strlen(known);
        pl->wish = &any;
        if (list_layouts(pl, items))
            snprintf(known + at, sizeof known - at, "%s%s", at ? ", " : "", hn_gpu_shape_name(k));
    }
    pl->wish = NULL;
    return HN_ERROR(HN_NOT_FOUND, "the kernel has no form '" HN_STR_FMT "'; it has %s",
                    HN_STR_ARG(name), known);
}

/* The best layout of that name, with what is expected of it; pl->wish is `wish`. */
static hn_status find_layout(planner *pl, hn_str name, hn_str parameters, hn_gpu_wish *wish,
                             layout *out) {
    layout items[HN_GPU_PLANS_MAX];
    const hn_gpu_wish any = {.shape = hn_gpu_shape_named(name)};
    if (any.shape == HN_GPU_SHAPES) return refuse_kind(pl, name);
    HN_TRY(hn_gpu_wish_parse(any.shape, parameters, wish));
    pl->wish = wish;
    const bool is_found = list_layouts(pl, items);
    *out = items[0];
    if (is_found) return NULL;
    pl->wish = &any;
    if (!list_layouts(pl, items)) return refuse_kind(pl, name);
    return HN_ERROR(HN_NOT_FOUND,
                    "a form '" HN_STR_FMT "' with '" HN_STR_FMT
                    "' does not fit the kernel, or the processor's threads, registers and memory",
                    HN_STR_ARG(name), HN_STR_ARG(parameters));
}

hn_status hn_form_plan_gpu_as(const hn_program *program, const hn_kernel *kernel,
                              const hn_gpu_facts *facts, hn_str name, hn_str parameters,
                              hn_arena *arena, hn_arena *scratch, hn_form **out) {
    planner pl = planner_of(program, kernel, facts, scratch);
    hn_gpu_wish wish;
    layout l;
    HN_TRY(find_layout(&pl, name, parameters, &wish, &l));
    return plan_layout(&pl, &l, arena, out);
}

hn_status hn_form_expect_gpu(const hn_program *program, const hn_kernel *kernel,
                             const hn_gpu_facts *facts, hn_str name, hn_str parameters,
                             hn_arena *scratch, double *out_ns) {
    planner pl = planner_of(program, kernel, facts, scratch);
    hn_gpu_wish wish;
    layout l;
    HN_TRY(find_layout(&pl, name, parameters, &wish, &l));
    *out_ns = l.ns;
    return NULL;
}

static hn_status add_near(planner *pl, uint32_t shape, const layout *l, hn_arena *arena,
                          hn_str *out, uint32_t *count) {
    layout items[HN_GPU_PLANS_MAX];
    hn_gpu_wish wish;
    hn_gpu_wish_of(shape, l, &wish);
    pl->wish = &wish;
    const bool fits = list_layouts(pl, items) > 0;
    pl->wish = NULL;
    if (!fits) return NULL;
    out[*count] = hn_str_of(hn_gpu_parameters(pl, &items[0], arena));
    if (!out[*count].ptr) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for the name of a form");
    ++*count;
    return NULL;
}

hn_status hn_form_near_gpu(const hn_program *program, const hn_kernel *kernel,
                           const hn_gpu_facts *facts, hn_str name, hn_str parameters,
                           hn_arena *arena, hn_arena *scratch, hn_str **out, uint32_t *out_count) {
    planner pl = planner_of(program, kernel, facts, scratch);
    hn_gpu_wish wish;
    layout l, near[HN_GPU_NEAR_MAX];
    *out_count = 0;
    HN_TRY(find_layout(&pl, name, parameters, &wish, &l));
    const uint32_t count = hn_gpu_layouts_near(&l, near);
    HN_NEW(arena, *out, count + 1u);
    for (uint32_t k = 0; k < count; k++)
        HN_TRY(add_near(&pl, wish.shape, &near[k], arena, *out, out_count));
    return NULL;
}

hn_status hn_form_plan_gpu(const hn_program *program, const hn_kernel *kernel,
                           const hn_gpu_facts *facts, hn_arena *arena, hn_arena *scratch,
                           hn_form **out) {
    uint32_t count;
    HN_TRY(hn_form_plans_gpu(program, kernel, facts, 1, arena, scratch, out, &count));
    return count ? NULL : HN_ERROR(HN_INTERNAL, "no layout of a kernel fits the processor");
}
