/* gpu_costs.c: how long a launch takes, by the facts of the processor. */
#include "kernel/gpu_costs.h"

static const double part_of_line = 1.1;

/* Groups that come one after the other end at different times: with so many nobody waits. */
enum { MANY_WAVES = 8 };

/* A factor of two in bytes under way is worth a hundredth. */
static const double byte_factor = 0.01;

static double least(double a, double b) { return a < b ? a : b; }

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
    if (l->keeps && resident < 2) both = memory + compute; /* nobody reads in the meantime */
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
