/* host.c: the ceilings of the CPU.
 *
 * Each level is measured with data that fill half of it, cut into a part for each thread as kernels
 * cut theirs. Of several ways to do the same, and of all rounds, the fastest counts: other work on
 * the machine only takes away. */
#include "measure/ceilings.h"

#include "base/cpu.h"
#include "base/file.h"
#include "base/pages.h"
#include "base/team.h"
#include "base/trace.h"
#include "measure/loops.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define MIB ((int64_t)1 << 20)
enum { ELEM_BYTES = 4, UNIT_BYTES = HN_LOOP_ELEMS * ELEM_BYTES };
/* A round is long beside the time that threads take to come; some rounds of each way. */
enum { ROUND_NS = 1000000, WAY_NS = 20000000, ROUNDS_MIN = 3 };

/* ---- the machine ---- */

/* A number that the system does not know is -1 or 0. */
static int64_t asked(int name, int64_t otherwise) {
    const long n = sysconf(name);
    return n > 0 ? n : otherwise;
}

int64_t hn_ceilings_host_memory(void) {
    return asked(_SC_PHYS_PAGES, MIB) * asked(_SC_PAGESIZE, 4096);
}

int64_t hn_ceilings_limit_read(const char *path) {
    hn_strbuf text;
    char *end;
    hn_strbuf_init(&text);
    hn_status status = hn_file_read(path, &text);
    const char *digits = status ? "" : hn_strbuf_str(&text).ptr;
    const long long bytes = strtoll(digits, &end, 10);
    const bool is_limit = end != digits && bytes > 0;
    hn_status_free(status);
    hn_strbuf_deinit(&text);
    return is_limit ? bytes : INT64_MAX;
}

/* More than its limit, and the system ends the process: a quarter leaves room for a model. */
int64_t hn_ceilings_host_room(void) {
    const int64_t second = hn_ceilings_limit_read("/sys/fs/cgroup/memory.max"),
                  first = hn_ceilings_limit_read("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
                  limit = second < first ? second : first, machine = hn_ceilings_host_memory() / 16;
    return machine < limit / 4 ? machine : limit / 4;
}

/* ---- one loop ---- */

typedef struct bench {
    hn_team team;
    int threads;
    float *memory;
    int64_t bytes; /* of it, without room for APART_BYTES */
    hn_loop_part parts[HN_THREADS_MAX];
} bench;

typedef struct job {
    bench *b;
    hn_loop_fn fn;
} job;

static void run_part(void *context, int task) {
    const job *j = context;
    j->fn(&j->b->parts[task]);
}

/* What a copy reads and what it writes begin at other places of a page: a store would seem to hit a
 * later load. */
enum { APART_BYTES = 33 * 64 };

/* Parts of `elems` floats that are read, those that are written `behind` floats on. */
static int64_t time_of(bench *b, hn_loop_fn fn, int64_t elems, int64_t behind, int64_t passes) {
    for (int t = 0; t < b->threads; t++)
        b->parts[t] = (hn_loop_part){.from = b->memory + t * elems,
                                     .to = b->memory + t * elems + behind,
                                     .elems = elems,
                                     .passes = passes};
    const int64_t begin = hn_now_ns();
    hn_team_run(&b->team, b->threads, run_part, &(job){b, fn});
    const int64_t ns = hn_now_ns() - begin;
    return ns > 0 ? ns : 1;
}

/* The least time of a pass of all threads, in ns. The first run is for pages and clocks. */
static double best_of(bench *b, hn_loop_fn fn, int64_t elems, int64_t behind) {
    const int64_t first = time_of(b, fn, elems, behind, 1), once = time_of(b, fn, elems, behind, 1),
                  one = once < first ? once : first;
    const int64_t passes = one < ROUND_NS ? ROUND_NS / one + 1 : 1;
    double best = (double)one;
    const int64_t begin = hn_now_ns();
    for (int round = 0; round < ROUNDS_MIN || hn_now_ns() - begin < WAY_NS; round++) {
        const double ns = (double)time_of(b, fn, elems, behind, passes) / (double)passes;
        best = ns < best ? ns : best;
    }
    return best;
}

static double best_way(bench *b, const hn_loop_fn *ways, int64_t elems, int64_t behind) {
    double best = 0;
    for (int k = 0; k < HN_LOOP_WAYS && ways[k]; k++) {
        const double ns = best_of(b, ways[k], elems, behind);
        best = k == 0 || ns < best ? ns : best;
    }
    return best;
}

/* ---- levels ---- */

static int64_t floats_of(const bench *b, int64_t bytes) {
    const int64_t units = bytes / b->threads / UNIT_BYTES;
    return (units ? units : 1) * HN_LOOP_ELEMS;
}

/* With `bytes` of data in all, or as much as there is. */
static void measure_level(bench *b, const hn_loops *loops, int64_t bytes, hn_ceiling_level *out) {
    if (bytes > b->bytes) bytes = b->bytes;
    const int64_t all = floats_of(b, bytes), half = floats_of(b, bytes / 2),
                  behind = half * b->threads + APART_BYTES / ELEM_BYTES;
    const double factor = (double)(b->threads * ELEM_BYTES);
    out->read = factor * (double)all / best_way(b, loops->read, all, 0);
    out->copy = 2 * factor * (double)half / best_way(b, loops->copy, half, behind);
    out->fill = factor * (double)all / best_way(b, loops->fill, all, 0);
}

static hn_ceiling_level *add_level(hn_ceilings *out, const char *name, int64_t bytes) {
    hn_ceiling_level *level = &out->levels[out->level_count++];
    *level = (hn_ceiling_level){.bytes = bytes};
    snprintf(level->name, sizeof level->name, "%s", name);
    return level;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* The caches of all threads together. Of a cache that all cores share, and guests of other machines
 * perhaps, no more counts than twice what was measured. */
static void measure_caches(bench *b, const hn_loops *loops, hn_ceilings *out) {
    int64_t caches[3];
    hn_cpu_caches(caches);
    for (int k = 0; k < 2; k++) {
        const int64_t bytes = caches[k] * b->threads;
        if (caches[k]) measure_level(b, loops, bytes / 2, add_level(out, k ? "L2" : "L1", bytes));
    }
    const int64_t own = caches[1] * b->threads,
                  bytes = most(least(caches[2] / 2, 32 * MIB), 2 * own);
    if (bytes <= caches[2] / 2) measure_level(b, loops, bytes, add_level(out, "L3", 2 * bytes));
}

/* Far more than the caches hold, but no more than there is room for. Of a shared cache that is very
 * large, a guest has a part. */
static int64_t memory_bytes(int threads, int64_t room) {
    int64_t caches[3];
    hn_cpu_caches(caches);
    const int64_t shared = most(256 * MIB, least(4 * caches[2], 512 * MIB)),
                  bytes = most(shared, 4 * caches[1] * threads);
    return most(least(bytes, room), 16 * MIB);
}

/* ---- arithmetic ---- */

static double results_per_ns(bench *b, hn_loop_fn fn) {
    return (double)b->threads * HN_LOOP_ELEMS / best_of(b, fn, HN_LOOP_ELEMS, 0);
}

static void measure_math(bench *b, const hn_loops *loops, hn_ceilings *out) {
    out->math[HN_CEILING_ADD] = results_per_ns(b, loops->add);
    out->math[HN_CEILING_PRODUCTS] = 2 * results_per_ns(b, loops->multiply_f32);
    out->math[HN_CEILING_PRODUCTS_F64] = 2 * results_per_ns(b, loops->multiply_f64);
    /* products of 16 bits are computed in f32 */
    out->math[HN_CEILING_PRODUCTS_HALF] = out->math[HN_CEILING_PRODUCTS];
}

/* ---- all ---- */

/* Processor time of this process so far, in ns. */
static int64_t used_ns(void) {
    struct rusage use;
    if (getrusage(RUSAGE_SELF, &use)) return 0;
    return (use.ru_utime.tv_sec + use.ru_stime.tv_sec) * INT64_C(1000000000) +
           (use.ru_utime.tv_usec + use.ru_stime.tv_usec) * INT64_C(1000);
}

static void measure_all(bench *b, hn_ceilings *out) {
    const hn_loops *loops = hn_loops_get();
    const int64_t begin = hn_now_ns(), used = used_ns();
    (void)time_of(b, loops->fill[0], floats_of(b, b->bytes), 0, 1);
    measure_math(b, loops, out);
    measure_caches(b, loops, out);
    measure_level(b, loops, b->bytes, add_level(out, "memory", INT64_MAX));
    const double wall = (double)(hn_now_ns() - begin) * b->threads;
    out->own_share = wall > 0 ? (double)(used_ns() - used) / wall : 1;
    if (out->own_share > 1) out->own_share = 1;
}

hn_status hn_ceilings_measure_host(int threads, int64_t room, hn_ceilings *out) {
    /* the least part of each thread is a unit, and a copy has two */
    const int64_t bytes = most(memory_bytes(threads, room), 2 * UNIT_BYTES * (int64_t)threads);
    const size_t mapped = (size_t)(bytes + APART_BYTES);
    bench *b = calloc(1, sizeof *b);
    float *memory = hn_pages_map(mapped);
    *out = (hn_ceilings){
        .device = {.kind = HN_DEVICE_CPU}, .threads = threads, .measured_s = (int64_t)time(NULL)};
    hn_cpu_name(out->name, sizeof out->name);
    if (b && memory) {
        *b = (bench){.threads = threads, .memory = memory, .bytes = bytes};
        (void)madvise(memory, mapped, MADV_HUGEPAGE);
        measure_all(b, out);
        hn_team_end(&b->team);
    }
    hn_pages_unmap(memory, mapped);
    const bool is_done = b && memory;
    free(b);
    return is_done ? NULL : HN_ERROR(HN_OUT_OF_MEMORY, "no memory to measure this machine");
}
