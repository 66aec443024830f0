/* gemm.c: the blocking and threading of matrix products over the register tiles of kernels.h.
 *
 * b is cut into panels of tile_cols columns, a into panels of up to tile_rows rows; both are laid
 * out along k, so a tile reads two streams. A pass over k takes k_step, so that the slice of a b
 * panel stays in L2 while all row panels go by, and the next slice is fetched meanwhile. Long
 * passes win: a tile's start and end, and the passes after the first, which read the result again,
 * cost 5 % with 256 values of k and 1 % with 1536.
 *
 * Each thread has its share of the panels, neighbours in memory, and takes a part of what is left
 * of it; when all is taken it helps another thread from the far end. A thread that the system
 * delays costs one such part, not half of the work. */
#include "ops/cpu/gemm/gemm.h"

#include <string.h>

enum {
    ROW = HN_EXTERN_BATCH,
    COL = HN_EXTERN_BATCH + 1,
    /* of a b panel in one pass: 96 KB of L2, from where a tile takes 11 bytes a cycle */
    SLICE_FLOATS = 24 << 10,
    PACKED_K = 8192,       /* of k, packed at a time */
    PACK_FLOATS = 4 << 20, /* packed at a time of a and of b: stays in L3 */
    /* of a for one group of tiles: comes in order, so L3 is near enough */
    A_GROUP_FLOATS = 192 << 10,
    OWN_GROUP_FLOATS = 48 << 10, /* of a that a thread packs for itself: 192 KB of L2 */
    /* at least, where tiles allow: what the last thread does alone is a few microseconds */
    UNITS_PER_THREAD = 384,
    /* of b for one group: its part of the result stays in cache between the passes over k */
    GROUP_PANELS = 4,
    OWN_ROWS_PANELS = 16,   /* up to here a thread packs the rows that it needs by itself */
    READ_FLOATS = 48 << 10, /* of b that is read once, at a time: 192 KB of L2 */
    /* of such a b whose columns are contiguous in k, packed at a time */
    READ_PANELS_FLOATS = 512 << 10,
    /* at least: below it, a call for each line costs more than the pages of the map */
    READ_LINE_FLOATS = 512,
    /* about 20 us on one thread: several times what starting a team costs */
    PARALLEL_FLOPS = 2 << 20,
    /* of a and b, likewise: 8 us when they come from L3, as for a vector times a matrix */
    PARALLEL_FLOATS = 32 << 10,
    /* a that so few panels of b read is not worth packing, and nor are rows for so few tiles, if
     * its rows are contiguous; nor is one row. Source, as of the next: bench_picks_calls */
    IN_PLACE_PANELS = 4,
    IN_PLACE_TILES = 2,
    /* Rows that are a multiple of so many floats apart, 4 KiB, have the same places in the first
     * cache, which a tile's rows then take from each other. Source: bench/README.md, "Rows 4 KiB
     * apart" */
    SAME_PLACES_FLOATS = 1024,
    /* of a, 8 MiB: one thread that packs more packs them group by group */
    ALONE_PACKED_FLOATS = 2 << 20
};

static int64_t ceil_div(int64_t x, int64_t by) { return (x + by - 1) / by; }
static int64_t min_i64(int64_t x, int64_t y) { return x < y ? x : y; }
static int64_t max_i64(int64_t x, int64_t y) { return x > y ? x : y; }

/* ---- planning ---- */

static void exchange(int64_t *x, int64_t *y) {
    int64_t t = *x;
    *x = *y;
    *y = t;
}

/* Batch dimension d continues the rows of `strides` (or both stand still). */
static bool continues(const int64_t *strides, int d, int64_t rows) {
    return strides[d] == strides[ROW] * rows;
}

/* Drops dimensions of size 1, and makes one matrix of a batch that shares b. */
static void merge_batch(hn_ext_gemm *g) {
    for (int d = HN_EXTERN_BATCH - 1; d >= 0; d--) {
        if (g->batch[d] == 1) continue;
        if (g->m == 1)
            g->a[ROW] = g->a[d], g->out[ROW] = g->out[d], g->bias[ROW] = g->bias[d],
            g->residual[ROW] = g->residual[d];
        if (g->b[d] != 0 || !continues(g->a, d, g->m) || !continues(g->out, d, g->m)) return;
        if (g->has_bias && !continues(g->bias, d, g->m)) return;
        if (g->has_residual && !continues(g->residual, d, g->m)) return;
        g->m *= g->batch[d];
        g->batch[d] = 1;
    }
}

/* Tiles write rows; a result with contiguous columns, or of one column, is computed as its
 * transpose. */
static void choose_roles(hn_ext_gemm *g) {
    if (g->prepack_b || g->swapped) return;
    bool columns = g->out[ROW] == 1 && g->out[COL] != 1 && g->m > 1;
    if (!columns && !(g->n == 1 && g->m > 1)) return;
    for (int d = 0; d < HN_EXT_GEMM_DIMS; d++) exchange(&g->a[d], &g->b[d]);
    exchange(&g->a[ROW], &g->a[COL]);
    exchange(&g->b[ROW], &g->b[COL]);
    exchange(&g->out[ROW], &g->out[COL]);
    exchange(&g->bias[ROW], &g->bias[COL]);
    exchange(&g->residual[ROW], &g->residual[COL]);
    exchange(&g->m, &g->n);
    g->swapped = true;
}

static int64_t panels_of(const hn_ext_gemm *g, int64_t n) {
    return ceil_div(n, g->kernels->tile_cols);
}
static int64_t tiles_of(const hn_ext_gemm *g, int64_t m) {
    return ceil_div(m, g->kernels->tile_rows);
}

/* One thread or all of them: see ext.h. */
static void choose_threads(hn_ext_gemm *g) {
    double item = 2.0 * (double)g->m * (double)g->n * (double)g->k,
           floats = ((double)g->m + (double)g->n) * (double)g->k;
    if (item * (double)g->items < PARALLEL_FLOPS && floats * (double)g->items < PARALLEL_FLOATS)
        g->threads = 1;
    g->by_batch = g->items > 1 &&
                  (g->threads == 1 || g->items >= 4 * g->threads || item < 2.0 * PARALLEL_FLOPS);
}

/* `size` cut into equal blocks of at most `most`, whole multiples of `unit` if there are
 * several. */
static int64_t block_size(int64_t size, int64_t most, int64_t unit) {
    if (size <= most) return size;
    return ceil_div(ceil_div(size, ceil_div(size, most)), unit) * unit;
}

static bool packing_pays(const hn_ext_gemm *g, int64_t panels) {
    const bool has_rows = g->a[COL] == 1;
    if (g->m == 1 || panels == 1) return false;
    if (!has_rows) return true;
    return tiles_of(g, g->m) > IN_PLACE_TILES &&
           (panels > IN_PLACE_PANELS || g->a[ROW] % SAME_PLACES_FLOATS == 0);
}

static void choose_blocks(hn_ext_gemm *g) {
    const int64_t rows = g->kernels->tile_rows, cols = g->kernels->tile_cols,
                  panels = panels_of(g, g->n);
    const hn_ext_form form = g->form ? *g->form : (hn_ext_form){.kind = NULL};
    const int64_t pass = form.pass > 0 ? form.pass : SLICE_FLOATS / cols;
    int64_t steps = max_i64(1, ceil_div(g->k, pass));
    g->k_step = max_i64(1, ceil_div(g->k, steps));
    g->pack_a = g->has_scale || packing_pays(g, panels);
    if (form.rows && !g->has_scale) g->pack_a = form.rows != HN_EXT_ROWS_IN_PLACE;
    g->k_block = g->prepack_b && !g->pack_a && (g->m == 1 || panels == 1)
                     ? max_i64(1, g->k)
                     : g->k_step * min_i64(steps, max_i64(1, PACKED_K / g->k_step));
    int64_t most = max_i64(PACK_FLOATS / g->k_block, 512);
    g->tile_group = max_i64(1, A_GROUP_FLOATS / (g->k_step * rows));
    int64_t own_group = max_i64(1, OWN_GROUP_FLOATS / (g->k_block * rows)),
            team = g->by_batch ? 1 : g->threads;
    g->own_rows = g->pack_a && panels <= OWN_ROWS_PANELS &&
                  (team == 1 ? g->m * g->k_block > ALONE_PACKED_FLOATS
                             : tiles_of(g, g->m) >= 3 * team * own_group);
    if (form.rows) g->own_rows = g->pack_a && form.rows == HN_EXT_ROWS_PACKED_BY_EACH;
    if (g->own_rows) g->tile_group = own_group;
    g->m_block = g->pack_a && !g->own_rows ? block_size(g->m, most, rows) : g->m;
    g->n_block = g->prepack_b ? g->n : block_size(g->n, most, cols);
    int64_t packed_tiles =
        min_i64(tiles_of(g, g->m_block), g->own_rows ? g->tile_group : INT64_MAX);
    g->a_floats = g->pack_a ? ceil_div(packed_tiles * rows * g->k_block, 16) * 16 : 0;
    g->b_floats = g->prepack_b ? 0 : panels_of(g, g->n_block) * cols * g->k_block;
}

void hn_ext_gemm_plan(hn_ext_gemm *g) {
    if (!g->kernels) g->kernels = hn_ext_kernels_get();
    merge_batch(g);
    choose_roles(g);
    g->items = 1;
    int64_t panel_floats = panels_of(g, g->n) * g->kernels->tile_cols * g->k, distinct = 1;
    for (int d = HN_EXTERN_BATCH - 1; d >= 0; d--) {
        g->items *= g->batch[d];
        g->packed_batch[d] = g->b[d] && g->batch[d] > 1 ? panel_floats * distinct : 0;
        if (g->packed_batch[d]) distinct *= g->batch[d];
    }
    choose_threads(g);
    choose_blocks(g);
}

/* b that is read once: in blocks that are long in the order of its memory, and no larger than that
 * takes. */
static void choose_reads(hn_ext_gemm *g) {
    const int64_t cols = g->kernels->tile_cols,
                  panels = max_i64(READ_PANELS_FLOATS / g->k_block, 512);
    const bool by_rows = g->b[COL] == 1 && g->n > 1;
    g->n_block = block_size(
        g->n, by_rows ? min_i64(max_i64(PACK_FLOATS / g->k_block, 512), READ_FLOATS) : panels,
        cols);
    g->b_floats = panels_of(g, g->n_block) * cols * g->k_block;
    g->read_floats = by_rows || g->b[ROW] == 1 ? READ_FLOATS : 0;
}

bool hn_ext_gemm_plan_unpacked(const hn_ext_gemm *packed, hn_ext_gemm *out) {
    *out = *packed;
    out->prepack_b = false;
    choose_blocks(out);
    choose_reads(out);
    return out->k_step == packed->k_step &&
           (out->k_block == packed->k_block || min_i64(out->k_block, packed->k_block) >= packed->k);
}

size_t hn_ext_gemm_scratch_bytes(const hn_ext_gemm *g) {
    int64_t teams = g->by_batch ? g->threads : 1,
            packs = g->by_batch || g->own_rows ? g->threads : 1;
    return (size_t)g->threads * 2 * 64 +
           (size_t)(packs * g->a_floats + teams * g->b_floats + g->threads * g->read_floats) *
               sizeof(float);
}

/* ---- packing ---- */

size_t hn_ext_gemm_packed_bytes(const hn_ext_gemm *g) {
    int64_t floats = panels_of(g, g->n) * g->kernels->tile_cols * g->k;
    for (int d = 0; d < HN_EXTERN_BATCH; d++)
        if (g->packed_batch[d]) floats *= g->batch[d];
    return (size_t)floats * sizeof(float);
}

/* Panels [from, to) of the n columns of b, for k values. */
static void pack_b_panels(const hn_ext_gemm *g, const float *b, const int64_t panels[2], int64_t n,
                          int64_t k, float *out) {
    const int64_t width = g->kernels->tile_cols, first = panels[0] * width;
    g->kernels->pack(&(hn_ext_pack){.in = b + first * g->b[COL],
                                    .in_k = g->b[ROW],
                                    .in_col = g->b[COL],
                                    .k = k,
                                    .cols = min_i64(panels[1] * width, n) - first,
                                    .width = width,
                                    .out = out + first * k,
                                    .out_panel = width * k});
}

typedef struct pack_job {
    const hn_ext_gemm *g;
    const float *b;
    float *packed;
} pack_job;

/* The task's part of the panels of each item. */
static void pack_b_task(void *context, int rank) {
    const pack_job *j = context;
    const hn_ext_gemm *g = j->g;
    const int64_t panels = panels_of(g, g->n);
    int64_t size[HN_EXTERN_BATCH], items = 1;
    for (int d = 0; d < HN_EXTERN_BATCH; d++) {
        size[d] = g->packed_batch[d] ? g->batch[d] : 1;
        items *= size[d];
    }
    for (int64_t item = 0; item < items; item++) {
        int64_t rest = item;
        const float *from = j->b;
        for (int d = HN_EXTERN_BATCH - 1; d >= 0; d--) {
            from += rest % size[d] * g->b[d];
            rest /= size[d];
        }
        pack_b_panels(g, from,
                      (int64_t[]){panels * rank / g->threads, panels * (rank + 1) / g->threads},
                      g->n, g->k, j->packed + item * panels * g->kernels->tile_cols * g->k);
    }
}

void hn_ext_gemm_pack_b(const hn_ext_gemm *g, hn_team *team, const float *b, float *packed) {
    hn_team_run(team, g->threads, pack_b_task, &(pack_job){.g = g, .b = b, .packed = packed});
}

/* ---- running ---- */

/* Units of work [begin, end) that belong to one task, which takes them from the front; others take
 * from the end. */
typedef struct share {
    _Alignas(64) uint64_t range; /* begin in the low half, end in the high one */
} share;

/* One of the tasks that work on an item together. */
typedef struct team {
    const hn_ext_gemm *g;
    int size, rank;
    share *shares, *reads; /* of the tasks: tiles; chunks of b to be packed */
    float *a_pack, *b_pack, *read_buffer;
} team;

/* One block of one item: what is packed, and then multiplied. A unit is a part of the row tiles of
 * one panel; those of a panel follow each other, then those of the next panel, then those of the
 * next row group. */
typedef struct block {
    const float *a, *bias, *residual; /* at the block's first row (and column) */
    const float *scale;               /* at its first k; NULL: none */
    float *out;
    const float *b;  /* panels of this block, at its first k */
    int64_t b_panel; /* floats from panel to panel */
    int64_t m, n, k;
    bool first, last;                         /* along k */
    int64_t tiles, panels, row_groups, parts; /* parts: of a row group, for one panel */
} block;

/* Row panels differ by at most one row: a last one of one or two rows would run at half speed. */
static int64_t tile_start(int64_t m, int64_t tiles, int64_t t) {
    return t * (m / tiles) + min_i64(t, m % tiles);
}

/* Row tiles [tiles[0], tiles[1]) to the start of a_pack + the place of tile `origin`. */
static void pack_rows(const team *t, const block *b, const int64_t tiles[2], int64_t origin) {
    const hn_ext_gemm *g = t->g;
    const int64_t width = g->kernels->tile_rows;
    for (int64_t i = tiles[0]; i < tiles[1]; i++) {
        int64_t first = tile_start(b->m, b->tiles, i), end = tile_start(b->m, b->tiles, i + 1);
        g->kernels->pack(&(hn_ext_pack){.in = b->a + first * g->a[ROW],
                                        .in_k = g->a[COL],
                                        .in_col = g->a[ROW],
                                        .k = b->k,
                                        .cols = end - first,
                                        .width = width,
                                        .out = t->a_pack + (i - origin) * width * b->k,
                                        .out_panel = width * b->k,
                                        .scale = b->scale,
                                        .scale_k = g->scale_k});
    }
}

/* One pass over k of row tiles [tiles[0], tiles[1]) and panel p. `ahead`: the slice that comes
 * next, to be fetched. */
static void run_panel(const team *t, const block *b, const int64_t tiles[2], int64_t p, int64_t k0,
                      const float *ahead) {
    const hn_ext_gemm *g = t->g;
    const int64_t rows = g->kernels->tile_rows, cols = g->kernels->tile_cols;
    const int64_t k = min_i64(g->k_step, b->k - k0), origin = g->own_rows ? tiles[0] : 0;
    const int64_t least = b->m / b->tiles, more = b->m % b->tiles,
                  step = ahead ? ceil_div(cols, tiles[1] - tiles[0]) : 0;
    const bool last = b->last && k0 + k == b->k;
    const float *slice = b->b + p * b->b_panel + k0 * cols;
    hn_ext_tile tile = {.k = k,
                        .b = slice,
                        .b_k = cols,
                        .c_row = g->out[ROW],
                        .c_col = g->out[COL],
                        .cols = (int)min_i64(cols, b->n - p * cols),
                        .accumulate = !b->first || k0 > 0,
                        .epilogue = last ? g->epilogue : HN_EPILOGUE_NONE,
                        .a_row = g->pack_a ? 1 : g->a[ROW],
                        .a_k = g->pack_a ? rows : g->a[COL],
                        .bias_row = g->bias[ROW],
                        .bias_col = g->bias[COL],
                        .residual_row = g->residual[ROW],
                        .residual_col = g->residual[COL],
                        .prefetch = ahead ? ahead : slice,
                        .prefetch_step = step};
    int64_t first = tile_start(b->m, b->tiles, tiles[0]);
    const float *bias = last && b->bias ? b->bias + p * cols * g->bias[COL] : NULL;
    const float *residual = last && b->residual ? b->residual + p * cols * g->residual[COL] : NULL;
    for (int64_t i = tiles[0]; i < tiles[1]; i++) {
        tile.rows = (int)(least + (i < more));
        tile.a = g->pack_a ? t->a_pack + (i - origin) * rows * b->k + k0 * rows
                           : b->a + first * g->a[ROW] + k0 * g->a[COL];
        tile.c = b->out + first * g->out[ROW] + p * cols * g->out[COL];
        if (bias) tile.bias = bias + first * g->bias[ROW];
        if (residual) tile.residual = residual + first * g->residual[ROW];
        g->kernels->tile(&tile);
        tile.prefetch += step * k;
        first += tile.rows;
    }
}

/* Passes over k of some panels: their part of a, and of the result, stay in cache meanwhile. */
static void run_group(const team *t, const block *b, const int64_t tiles[2],
                      const int64_t panels[2]) {
    const hn_ext_gemm *g = t->g;
    if (g->own_rows) pack_rows(t, b, tiles, tiles[0]);
    for (int64_t p0 = panels[0]; p0 < panels[1]; p0 += GROUP_PANELS) {
        int64_t p1 = min_i64(p0 + GROUP_PANELS, panels[1]), k0 = 0;
        do {
            int64_t next_k = k0 + g->k_step;
            for (int64_t p = p0; p < p1; p++) {
                const float *ahead = NULL;
                if (p + 1 < p1) ahead = b->b + (p + 1) * b->b_panel + k0 * g->kernels->tile_cols;
                else if (next_k < b->k)
                    ahead = b->b + p0 * b->b_panel + next_k * g->kernels->tile_cols;
                else if (p1 < b->panels) ahead = b->b + p1 * b->b_panel;
                run_panel(t, b, tiles, p, k0, ahead);
            }
            k0 = next_k;
        } while (k0 < b->k);
    }
}

static void run_units(const team *t, const block *b, int64_t begin, int64_t end) {
    while (begin < end) {
        int64_t unit = begin % (b->panels * b->parts), r = begin / (b->panels * b->parts);
        int64_t tiles[2] = {b->tiles * r / b->row_groups, b->tiles * (r + 1) / b->row_groups};
        int64_t p = unit / b->parts, part = unit % b->parts, count = tiles[1] - tiles[0];
        if (part == 0 && end - begin >= b->parts) {
            int64_t whole = min_i64((end - begin) / b->parts, b->panels - p);
            run_group(t, b, tiles, (int64_t[]){p, p + whole});
            begin += whole * b->parts;
            continue;
        }
        int64_t to = min_i64(part + end - begin, b->parts);
        run_group(t, b,
                  (int64_t[]){tiles[0] + count * part / b->parts, tiles[0] + count * to / b->parts},
                  (int64_t[]){p, p + 1});
        begin += to - part;
    }
}

/* Takes up to `most` units, and fewer the fewer are left, so that all threads end at about the same
 * time. */
static bool take(share *s, int64_t most, bool from_end, int64_t out[2]) {
    uint64_t old = __atomic_load_n(&s->range, __ATOMIC_RELAXED), next;
    do {
        int64_t begin = (int64_t)(old & UINT32_MAX), end = (int64_t)(old >> 32);
        if (begin == end) return false;
        int64_t count = min_i64(most, ceil_div(end - begin, 4));
        out[0] = from_end ? end - count : begin;
        out[1] = out[0] + count;
        next = from_end ? (uint64_t)out[0] << 32 | (uint64_t)begin
                        : (uint64_t)end << 32 | (uint64_t)out[1];
    } while (!__atomic_compare_exchange_n(&s->range, &old, next, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    return true;
}

static void run_tiles(const team *t, const block *b) {
    const int64_t most = GROUP_PANELS * b->parts;
    int64_t units[2];
    while (take(&t->shares[t->rank], most, false, units)) run_units(t, b, units[0], units[1]);
    for (int i = 1; i < t->size; i++)
        while (take(&t->shares[(t->rank + i) % t->size], most, true, units))
            run_units(t, b, units[0], units[1]);
}

/* Gives each task its part of `count` units, before the tasks run. */
static void set_shares(const team *t, share *shares, int64_t count) {
    for (int rank = 0; rank < t->size; rank++) {
        const int64_t begin = count * rank / t->size, end = count * (rank + 1) / t->size;
        __atomic_store_n(&shares[rank].range, (uint64_t)end << 32 | (uint64_t)begin,
                         __ATOMIC_RELAXED);
    }
}

/* The task's share of `count` things. */
static void cut(const team *t, int64_t count, int64_t out[2]) {
    out[0] = count * t->rank / t->size;
    out[1] = count * (t->rank + 1) / t->size;
}

/* How the block is cut into units, and which ones are whose. */
static void plan_units(const team *t, block *b) {
    const hn_ext_gemm *g = t->g;
    b->tiles = tiles_of(g, b->m);
    b->panels = panels_of(g, b->n);
    b->row_groups = ceil_div(b->tiles, g->tile_group);
    b->parts = 1;
    if (t->size > 1 && !g->own_rows) {
        int64_t whole = b->panels * b->row_groups;
        b->parts = max_i64(
            1, min_i64(ceil_div(t->size * UNITS_PER_THREAD, whole), b->tiles / b->row_groups));
    }
    set_shares(t, t->shares, b->panels * b->row_groups * b->parts);
}

/* A block of b that is read once, in chunks along the order of its memory: `lines` of them, each of
 * `len` floats, `step` floats apart. They are rows of b or, with columns, columns. */
typedef struct read_job {
    const hn_ext_gemm_reader *reader;
    const float *b;
    bool columns;
    int64_t n, k, lines, len, step;
    int64_t chunk_lines, chunk_len; /* of one chunk, at most */
} read_job;

static read_job plan_reads(const team *t, const hn_ext_gemm_reader *reader, const float *b,
                           int64_t n, int64_t k) {
    const hn_ext_gemm *g = t->g;
    const int64_t width = g->kernels->tile_cols;
    const bool columns = g->b[COL] != 1 || g->n == 1;
    if (!g->read_floats) return (read_job){.b = b, .n = n, .k = k};
    read_job j = {.reader = reader,
                  .b = b,
                  .columns = columns,
                  .n = n,
                  .k = k,
                  .lines = columns ? n : k,
                  .len = columns ? k : n,
                  .step = columns ? g->b[COL] : g->b[ROW]};
    j.chunk_len = columns ? min_i64(k, g->read_floats / width / 8 * 8) : n;
    j.chunk_lines = max_i64(1, g->read_floats / max_i64(1, j.chunk_len));
    if (columns) j.chunk_lines = j.chunk_lines / width * width;
    set_shares(t, t->reads, ceil_div(j.lines, j.chunk_lines) * ceil_div(j.len, j.chunk_len));
    return j;
}

/* The chunk, wherever it is now; its lines are *step floats apart. */
static const float *read_chunk(const read_job *j, const float *from, int64_t lines, int64_t len,
                               float *buffer, int64_t *step) {
    const hn_ext_gemm_reader *r = j->reader;
    *step = j->step;
    if (!r->read) return from;
    if (len == j->step || lines == 1) return r->read(r->user, from, lines * len, buffer);
    if (len < READ_LINE_FLOATS) return from;
    for (int64_t i = 0; i < lines; i++)
        if (r->read(r->user, from + i * j->step, len, buffer + i * len) != buffer + i * len)
            return from;
    *step = len;
    return buffer;
}

static void pack_chunk(const team *t, const read_job *j, int64_t chunk) {
    const int64_t width = t->g->kernels->tile_cols, across = ceil_div(j->len, j->chunk_len);
    const int64_t line = chunk / across * j->chunk_lines, at = chunk % across * j->chunk_len;
    const int64_t lines = min_i64(j->chunk_lines, j->lines - line),
                  len = min_i64(j->chunk_len, j->len - at);
    int64_t step;
    const float *near =
        read_chunk(j, j->b + line * j->step + at, lines, len, t->read_buffer, &step);
    hn_ext_pack p = {.in = near,
                     .in_k = step,
                     .in_col = 1,
                     .k = lines,
                     .cols = len,
                     .width = width,
                     .out = t->b_pack + line * width,
                     .out_panel = width * j->k};
    if (j->columns)
        p.in_k = 1, p.in_col = step, p.k = len, p.cols = lines,
        p.out = t->b_pack + line * j->k + at * width;
    t->g->kernels->pack(&p);
}

/* The task's part of a block of b, into panels. */
static void pack_block(const team *t, const read_job *job) {
    int64_t part[2];
    if (!t->g->read_floats) {
        cut(t, panels_of(t->g, job->n), part);
        pack_b_panels(t->g, job->b, part, job->n, job->k, t->b_pack);
        return;
    }
    for (int i = 0; i < t->size; i++)
        while (take(&t->reads[(t->rank + i) % t->size], 1, i > 0, part))
            pack_chunk(t, job, part[0]);
}

/* What the tasks of one phase have in common. */
typedef struct phase {
    const team *all; /* of rank 0 */
    const block *b;
    const read_job *reads; /* of b, which is to be packed; NULL: it is packed already */
    bool packs_rows;
} phase;

/* The memory of one rank. */
static team team_of(const team *first, int rank) {
    const hn_ext_gemm *g = first->g;
    team t = *first;
    t.rank = rank;
    t.read_buffer += rank * g->read_floats;
    if (g->own_rows) t.a_pack += rank * g->a_floats;
    return t;
}

static void pack_task(void *context, int rank) {
    const phase *p = context;
    const team t = team_of(p->all, rank);
    int64_t part[2];
    if (p->reads) pack_block(&t, p->reads);
    if (!p->packs_rows) return;
    cut(&t, p->b->tiles, part);
    pack_rows(&t, p->b, part, 0);
}

static void tiles_task(void *context, int rank) {
    const phase *p = context;
    const team t = team_of(p->all, rank);
    run_tiles(&t, p->b);
}

static void run_tasks(const team *t, const hn_ext_gemm_args *at, hn_task_fn fn, phase *p) {
    if (t->size > 1) hn_team_run(at->team, t->size, fn, p);
    else fn(p, 0);
}

/* Two phases for each block: what is packed is read by all tasks. */
static void run_item(const team *t, const hn_ext_gemm_args *at) {
    const hn_ext_gemm *g = t->g;
    const int64_t cols = g->kernels->tile_cols;
    for (int64_t n0 = 0; n0 < g->n; n0 += g->n_block) {
        int64_t k0 = 0;
        do {
            block x = {.n = min_i64(g->n_block, g->n - n0),
                       .k = min_i64(g->k_block, g->k - k0),
                       .first = k0 == 0};
            x.last = k0 + x.k == g->k;
            x.b = g->prepack_b ? at->b + n0 * g->k + k0 * cols : t->b_pack;
            x.b_panel = (g->prepack_b ? g->k : x.k) * cols;
            read_job reads;
            if (!g->prepack_b)
                reads =
                    plan_reads(t, &at->reader, at->b + k0 * g->b[ROW] + n0 * g->b[COL], x.n, x.k);
            for (int64_t m0 = 0; m0 < g->m; m0 += g->m_block) {
                x.m = min_i64(g->m_block, g->m - m0);
                x.a = at->a + m0 * g->a[ROW] + k0 * g->a[COL];
                x.out = at->out + m0 * g->out[ROW] + n0 * g->out[COL];
                x.bias = g->has_bias ? at->bias + m0 * g->bias[ROW] + n0 * g->bias[COL] : NULL;
                x.scale = g->has_scale ? at->scale + k0 * g->scale_k : NULL;
                x.residual = g->has_residual
                                 ? at->residual + m0 * g->residual[ROW] + n0 * g->residual[COL]
                                 : NULL;
                plan_units(t, &x);
                phase p = {.all = t, .b = &x, .reads = m0 == 0 && !g->prepack_b ? &reads : NULL};
                /* else it still is */
                p.packs_rows = g->pack_a && !g->own_rows && (n0 == 0 || x.m < g->m || x.k < g->k);
                if (p.reads || p.packs_rows) run_tasks(t, at, pack_task, &p);
                run_tasks(t, at, tiles_task, &p);
            }
            k0 += x.k;
        } while (k0 < g->k);
    }
}

static void run_batch(const team *t, int64_t item, const hn_ext_gemm_args *args) {
    const hn_ext_gemm *g = t->g;
    const int64_t *b_stride = g->prepack_b ? g->packed_batch : g->b;
    hn_ext_gemm_args at = *args;
    for (int d = HN_EXTERN_BATCH - 1; d >= 0; d--) {
        int64_t i = item % g->batch[d];
        item /= g->batch[d];
        at.out += i * g->out[d];
        at.a += i * g->a[d];
        at.b += i * b_stride[d];
        if (g->has_bias) at.bias += i * g->bias[d];
        if (g->has_residual) at.residual += i * g->residual[d];
    }
    run_item(t, &at);
}

/* Where the parts of scratch memory are: shares and reads of all tasks, packed rows and columns,
 * buffers of the reads. */
typedef struct item_job {
    const hn_ext_gemm *g;
    const hn_ext_gemm_args *args;
    share *shares;
    float *a_packs, *reads;
    int64_t next_item;
} item_job;

/* Whole items of the batch, as long as there are any. */
static void items_task(void *context, int rank) {
    item_job *j = context;
    const hn_ext_gemm *g = j->g;
    const team t = {.g = g,
                    .size = 1,
                    .shares = j->shares + rank,
                    .reads = j->shares + g->threads + rank,
                    .read_buffer = j->reads + rank * g->read_floats,
                    .a_pack = j->a_packs + rank * g->a_floats,
                    .b_pack = j->a_packs + g->threads * g->a_floats + rank * g->b_floats};
    for (int64_t item; (item = __atomic_fetch_add(&j->next_item, 1, __ATOMIC_RELAXED)) < g->items;)
        run_batch(&t, item, j->args);
}

void hn_ext_gemm_run(const hn_ext_gemm *g, const hn_ext_gemm_args *args, void *scratch) {
    if (g->items == 0 || g->m == 0 || g->n == 0) return;
    hn_ext_gemm_args at = *args;
    if (g->swapped) at.a = args->b, at.b = args->a;
    /* nothing to take */
    item_job j = {
        .g = g, .args = &at, .shares = memset(scratch, 0, 2 * (size_t)g->threads * sizeof(share))};
    j.a_packs = (float *)(j.shares + 2 * g->threads);
    j.reads =
        (float *)((char *)scratch + hn_ext_gemm_scratch_bytes(g)) - g->threads * g->read_floats;
    if (g->by_batch) {
        hn_team_run(at.team, g->threads, items_task, &j);
        return;
    }
    const team t = {.g = g,
                    .size = g->threads,
                    .shares = j.shares,
                    .reads = j.shares + g->threads,
                    .read_buffer = j.reads,
                    .a_pack = j.a_packs,
                    .b_pack = j.a_packs + (g->own_rows ? g->threads : 1) * g->a_floats};
    for (int64_t item = 0; item < g->items; item++) run_batch(&t, item, &at);
}
