/* gpu_costs.c: how long a launch takes, by the facts of the processor. */
#include "kernel/gpu_costs.h"

#include "kernel/gpu_names.h"

static const double part_of_line = 1.1;

/* Groups that come one after the other end at different times: with so many nobody waits. */
enum { MANY_WAVES = 8 };

/* A factor of two in bytes under way is worth a hundredth. */
static const double byte_factor = 0.01;

/* An op takes so many additions at most: there is one unit for special functions for 8 others. */
enum { SPECIAL_COST = 8 };

/* So many groups, of which each reads a row and then computes it, are enough for some to read at
 * any time. With fewer the arithmetic goes on beside that of others only in part. On an H200
 * softmax of 16,384 columns of bf16 takes 75 us with 2 groups of 512 threads, 70 with 4 of 256; of
 * 32,768 columns 104 us with one. Bias and GELU of elements gain beyond that: 142 us with 4 groups
 * of 256 threads, 137.5 with 8 of 128. */
enum { ENOUGH_GROUPS = 4, ENOUGH_BUSY_GROUPS = 8 };

/* Blocks of a cluster wait for each other: a barrier, and what the last one of them takes longer.
 * What the rows of RMS and layer norm of 32,768 to 131,072 columns lost on an H200. */
static const double cluster_wait_ns = 1500;

/* Rows next to each other whose threads read runs of 128 bytes take longer by this part, with
 * longer runs by less. 576,000 rows of 384 on an H200: 215.5, 213 and 211 us with runs of 128 to
 * 512 bytes. */
static const double part_of_runs = 0.02;

static double least(double a, double b) { return a < b ? a : b; }

static double additions_of(const hn_gpu_planner *pl) {
    double all = 0;
    const double rows =
        (double)hn_sym_hint(pl->sym, hn_gpu_extents(pl, pl->k->vars, pl->k->rank), 1024);
    for (uint32_t f = 0; f < pl->k->phases.count; f++) {
        const hn_kernel_phase *phase = &pl->k->phases.items[f];
        const double elems =
            rows * (double)hn_sym_hint(pl->sym, hn_gpu_extents(pl, phase->vars, phase->rank), 1024);
        for (hn_sid s = 1; s < phase->body.count; s++)
            if (phase->body.items[s].kind == HN_SOP_ELEM)
                all += elems * least(SPECIAL_COST, hn_op_facts(phase->body.items[s].op)->cost);
    }
    return all;
}

/* Groups that are on a multiprocessor at once. */
static double resident_groups(const hn_gpu_facts *facts, const hn_gpu_launch *l) {
    double groups = (double)(facts->resident / l->threads);
    if (groups > facts->groups) groups = facts->groups;
    if (l->registers)
        groups = least(groups, (double)(facts->registers / (l->registers * l->threads)));
    if (l->shared_bytes)
        groups = least(groups, (double)(facts->shared_all_bytes / l->shared_bytes));
    return groups < 1 ? 1 : groups;
}

static uint32_t enough_groups(const hn_gpu_launch *l) {
    if (l->is_busy) return ENOUGH_BUSY_GROUPS;
    return l->keeps ? ENOUGH_GROUPS : 0;
}

double hn_gpu_predicted_ns(const hn_gpu_planner *pl, const hn_gpu_launch *l) {
    const hn_gpu_facts *facts = pl->facts;
    double resident = resident_groups(facts, l), all = resident * facts->multiprocessors,
           groups = l->groups < 1 ? 1 : l->groups, busy = least(groups, all),
           read_bytes = (double)(l->flight_bytes * l->threads),
           flight = busy / facts->multiprocessors * read_bytes, wanted = facts->flight_bytes,
           share = least(1, flight / wanted);
    double across = l->blocks > 1 ? facts->blocks_ns : (1 + (double)l->levels) * facts->barrier_ns,
           life = (double)(l->steps + l->last_reads) * facts->latency_ns + l->acrosses * across;
    share = least(share, flight / wanted * (double)l->steps * facts->latency_ns / life);
    double waste = l->run_bytes >= HN_GPU_SECTOR_BYTES
                       ? 1
                       : (double)HN_GPU_SECTOR_BYTES / (double)l->run_bytes;
    if (l->run_bytes < HN_GPU_LINE_BYTES) waste *= part_of_line;
    else if (l->keeps) waste *= 1 + part_of_runs * HN_GPU_LINE_BYTES / (double)l->run_bytes;
    double memory = l->bytes * waste / (facts->bytes_per_ns * share) +
                    l->again * waste / (facts->cache_bytes_per_ns * share);
    double threads = busy * l->threads,
           room = (double)facts->multiprocessors * facts->resident / 4; /* enough for arithmetic */
    double compute = pl->work.operations / (facts->ops_per_ns * least(1, threads / room)) +
                     groups / facts->multiprocessors * l->exchange_ns;
    double waves = groups / all, whole = waves < 1 ? 1 : waves;
    /* the last groups leave part of the processor idle */
    double tail = waves > 1 && waves < MANY_WAVES
                      ? (double)hn_gpu_ceil_div((int64_t)groups, (int64_t)all) / whole
                      : 1;
    double drained = 1 + (tail - 1) / 2;
    double both = memory > compute ? memory : compute;
    const double exposed = additions_of(pl) / facts->ops_per_ns;
    if (l->blocks > 1) both = memory + exposed + waves * l->acrosses * cluster_wait_ns;
    else if (resident < enough_groups(l)) both += exposed / (resident * resident);
    if (l->waits) life -= (double)(l->steps - l->waits) * facts->latency_ns;
    return facts->launch_ns + both * drained + life;
}

double hn_gpu_balance(const hn_gpu_launch *l, int64_t best) {
    double factor = 1;
    for (int64_t bytes = l->flight_bytes; bytes > best; bytes /= 2) factor += byte_factor;
    for (int64_t bytes = l->flight_bytes; bytes < best; bytes *= 2) factor += byte_factor;
    return factor;
}

enum { BOUND_MOST = 16 }; /* more groups need no more registers than any compiler takes */

uint32_t hn_gpu_bound_groups(const hn_gpu_planner *pl, hn_gpu_launch run, int64_t other_registers) {
    run.registers += other_registers + HN_GPU_SPARE_REGISTERS;
    double groups = resident_groups(pl->facts, &run);
    return groups > BOUND_MOST ? 0 : (uint32_t)groups;
}

static bool is_same(const hn_gpu_layout *a, const hn_gpu_layout *b) {
    return a->width == b->width && a->rows == b->rows && a->blocks == b->blocks &&
           a->vector == b->vector && a->unroll == b->unroll && a->keeps == b->keeps &&
           a->ahead == b->ahead && a->stages == b->stages && a->slabs == b->slabs &&
           a->tile == b->tile && a->resident == b->resident && a->online == b->online &&
           a->parts == b->parts;
}

void hn_gpu_keep_layout(const hn_gpu_planner *pl, hn_gpu_layout items[HN_GPU_PLANS_MAX],
                        uint32_t *count, hn_gpu_layout l) {
    const uint32_t threads = l.width * (l.rows ? l.rows : 1);
    if (hn_gpu_wished(pl)) l.resident = hn_gpu_wished(pl)->resident;
    if (!hn_gpu_is_wished(pl, &l) || (l.resident > 1 && l.resident * threads > pl->facts->resident))
        return;
    for (uint32_t k = 0; k < *count; k++)
        if (is_same(&items[k], &l)) return;
    uint32_t at = *count;
    if (at < HN_GPU_PLANS_MAX) ++*count;
    else if (items[--at].ns <= l.ns) return;
    for (; at > 0 && items[at - 1].ns > l.ns; at--) items[at] = items[at - 1];
    items[at] = l;
}
