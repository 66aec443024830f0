/* loops_body.h: the loops of loops.h for the instruction set of the including file.
 *
 * Before: LOOP_LANES (floats in a vector), LOOP_STREAM(to, vector): a store past the caches,
 * LOOP_FENCE: behind such stores, LOOPS_TABLE and LOOPS_NAME. */
#define LOOP_INLINE static inline __attribute__((always_inline))

typedef float vec __attribute__((vector_size(LOOP_LANES * 4), may_alias));
typedef double wide __attribute__((vector_size(LOOP_LANES * 4), may_alias));

/* Sums that do not wait for each other: more than twice the latency of an addition, fewer than the
 * fewest registers. */
enum { SUMS = 12, STEP = 8 * LOOP_LANES };
_Static_assert(HN_LOOP_ELEMS % (4 * STEP) == 0, "whole steps of each stream");

LOOP_INLINE vec loop_load(const float *p) { return *(const vec *)p; }

LOOP_INLINE float loop_sum(const vec *v, int count) {
    float sum = 0;
    for (int k = 0; k < count; k++)
        for (int l = 0; l < LOOP_LANES; l++) sum += v[k][l];
    return sum;
}

/* ---- memory ---- */

/* `streams` at equal distances: memory that is far apart is fetched side by side. Lines are asked
 * for `ahead` floats before. */
LOOP_INLINE void read_streams(hn_loop_part *p, const int streams, const int64_t ahead) {
    const int64_t part = p->elems / streams;
    vec sums[8] = {{0}};
    for (int64_t pass = 0; pass < p->passes; pass++)
        for (int64_t j = 0; j < part; j += STEP / streams)
#pragma GCC unroll 4
            for (int s = 0; s < streams; s++) {
                const float *x = p->from + s * part + j;
                for (int l = 0; l < STEP / streams && ahead; l += 16)
                    __builtin_prefetch(x + ahead + l);
#pragma GCC unroll 8
                for (int u = 0; u < 8 / streams; u++)
                    sums[s * (8 / streams) + u] += loop_load(x + u * LOOP_LANES);
            }
    p->sum = loop_sum(sums, 8);
}

static void read_1(hn_loop_part *p) { read_streams(p, 1, 0); }
static void read_ahead(hn_loop_part *p) { read_streams(p, 1, 1024); }
static void read_4(hn_loop_part *p) { read_streams(p, 4, 0); }

LOOP_INLINE void copy_ahead(hn_loop_part *p, const bool streams, const int64_t ahead) {
    for (int64_t pass = 0; pass < p->passes; pass++)
        for (int64_t j = 0; j < p->elems; j += STEP) {
            for (int l = 0; l < STEP && ahead; l += 16) __builtin_prefetch(p->from + j + ahead + l);
#pragma GCC unroll 8
            for (int u = 0; u < 8; u++) {
                const vec x = loop_load(p->from + j + u * LOOP_LANES);
                if (streams) LOOP_STREAM(p->to + j + u * LOOP_LANES, x);
                else *(vec *)(p->to + j + u * LOOP_LANES) = x;
            }
            /* or else passes are one for a compiler that looks through them */
            __asm__ volatile("" ::: "memory");
        }
    if (streams) LOOP_FENCE;
}

static void copy_plain(hn_loop_part *p) { copy_ahead(p, false, 0); }
static void copy_stream(hn_loop_part *p) { copy_ahead(p, true, 0); }
static void copy_stream_ahead(hn_loop_part *p) { copy_ahead(p, true, 1024); }

LOOP_INLINE void fill_with(hn_loop_part *p, const bool streams) {
    const vec x = {1};
    for (int64_t pass = 0; pass < p->passes; pass++)
        for (int64_t j = 0; j < p->elems; j += STEP) {
#pragma GCC unroll 8
            for (int u = 0; u < 8; u++)
                if (streams) LOOP_STREAM(p->to + j + u * LOOP_LANES, x);
                else *(vec *)(p->to + j + u * LOOP_LANES) = x;
            __asm__ volatile("" ::: "memory");
        }
    if (streams) LOOP_FENCE;
}

static void fill_plain(hn_loop_part *p) { fill_with(p, false); }
static void fill_stream(hn_loop_part *p) { fill_with(p, true); }

/* ---- registers ---- */

/* Steps of SUMS vectors: the number of results is that of the passes, rounded up to one step. They
 * begin with what memory has: equal ones a compiler would compute once. */
#define REGISTER_LOOP(name, type, lanes, next)                                                     \
    static void name(hn_loop_part *p) {                                                            \
        const int64_t results = p->passes * HN_LOOP_ELEMS;                                         \
        type x[SUMS], a = {0}, b = {0};                                                            \
        a += 0.5f, b += 0.25f;                                                                     \
        for (int u = 0; u < SUMS; u++) x[u] = ((const type *)p->from)[u];                          \
        for (int64_t k = 0; k < results; k += SUMS * (lanes)) {                                    \
            _Pragma("GCC unroll 12") for (int u = 0; u < SUMS; u++) x[u] = (next);                 \
        }                                                                                          \
        for (int u = 1; u < SUMS; u++) x[0] += x[u];                                               \
        p->sum = (float)(x[0][0] + b[0] * a[0]);                                                   \
    }
REGISTER_LOOP(add, vec, LOOP_LANES, x[u] + a)
REGISTER_LOOP(multiply_f32, vec, LOOP_LANES, x[u] * a + b)
REGISTER_LOOP(multiply_f64, wide, LOOP_LANES / 2, x[u] * a + b)

const hn_loops LOOPS_TABLE = {.name = LOOPS_NAME,
                              .read = {read_1, read_ahead, read_4},
                              .copy = {copy_plain, copy_stream, copy_stream_ahead},
                              .fill = {fill_plain, fill_stream},
                              .add = add,
                              .multiply_f32 = multiply_f32,
                              .multiply_f64 = multiply_f64};
