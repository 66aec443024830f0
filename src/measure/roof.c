/* roof.c: see roof.h. */
#include "measure/roof.h"

static double sum_of(const double *bytes) {
    double sum = 0;
    for (int l = 0; l < HN_CEILING_LEVELS; l++) sum += bytes[l];
    return sum;
}

/* Shares of the levels, in what is read or written; of nothing, those of the other. */
static void shares_of(const hn_ceilings *c, const double *own, const double *other, double *out) {
    const double *from = sum_of(own) > 0 ? own : other, all = sum_of(from);
    for (uint32_t l = 0; l < c->level_count; l++)
        out[l] = all > 0 ? from[l] / all : l + 1 == c->level_count;
}

static const char *farthest(const hn_ceilings *c, const double *times) {
    uint32_t most = 0;
    for (uint32_t l = 1; l < c->level_count; l++)
        if (times[l] > times[most]) most = l;
    return c->levels[most].name;
}

static hn_roof nearer(double move_ns, const char *where, double math_ns) {
    const double ns = move_ns > math_ns ? move_ns : math_ns;
    return (hn_roof){.move_ns = move_ns,
                     .math_ns = math_ns,
                     .ns = ns,
                     .limit = ns <= 0             ? ""
                              : move_ns > math_ns ? where
                                                  : "compute"};
}

hn_roof hn_roof_of(const hn_ceilings *c, const hn_roof_work *work, const hn_reuse *reuse) {
    double read[HN_CEILING_LEVELS], written[HN_CEILING_LEVELS], times[HN_CEILING_LEVELS], move = 0;
    const double rate = c->math[work->math];
    shares_of(c, reuse->read, reuse->written, read);
    shares_of(c, reuse->written, reuse->read, written);
    for (uint32_t l = 0; l < c->level_count; l++) {
        times[l] = hn_ceiling_move_ns(&c->levels[l], read[l] * work->read_bytes,
                                      written[l] * work->written_bytes);
        move += times[l];
    }
    return nearer(move, farthest(c, times), rate > 0 ? work->operations / rate : 0);
}

hn_roof hn_roof_of_run(const hn_ceilings *c, double given_bytes, double made_bytes,
                       double operations_ns) {
    uint32_t l = 0;
    while (l + 1 < c->level_count && given_bytes + made_bytes > (double)c->levels[l].bytes) l++;
    return nearer(hn_ceiling_move_ns(&c->levels[l], given_bytes, made_bytes), c->levels[l].name,
                  operations_ns);
}
