/* interp_random.c: the random rows. This text is the contract that generated kernels follow too.
 *
 * Generator: Philox 4x32 with 10 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2,
 * 3", SC 2011). A block is 4 words of 32 bits, a function of key and counter alone:
 *   key     = (low 32 bits of seed, high 32 bits of seed)
 *   counter = (low 32 bits of b, high 32 bits of b, low 32 bits of stream, high 32 bits of stream),
 *             b = i / 4
 * Element i (row-major position in the result) owns word w = block(i / 4)[i % 4], so a result does
 * not depend on how it is split over threads or vectors. seed and stream are taken as 64-bit two's
 * complement.
 *
 *   bits     w as an integer: wrapped to the width of an int dtype (sign included for i32),
 *            zero-extended for i64, its lowest bit for bool
 *   uniform  in [0, 1), the high bits that the dtype can hold, so that nothing rounds up to 1:
 *            f64 w * 2^-32, f32 (w >> 8) * 2^-24, f16 (w >> 21) * 2^-11, bf16 (w >> 24) * 2^-8
 *   normal   Box-Muller on the pairs (0, 1) and (2, 3) of a block, in double, rounded once:
 *            u = (first + 1) * 2^-32 in (0, 1], v = second * 2^-32, r = sqrt(-2 ln u);
 *            the first element is r cos(2 pi v), the second r sin(2 pi v) */
#include "ir/interp_impl.h"
#include "ir/loop_interp.h"

typedef struct block {
    uint32_t words[4];
} block;

static block philox(uint64_t seed, uint64_t index, uint64_t stream) {
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    block c = {
        {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)}};
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = 0xD2511F53ull * c.words[0], p1 = 0xCD9E8D57ull * c.words[2];
        c = (block){{(uint32_t)(p1 >> 32) ^ c.words[1] ^ key0, (uint32_t)p1,
                     (uint32_t)(p0 >> 32) ^ c.words[3] ^ key1, (uint32_t)p0}};
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return c;
}

static hn_ref_elem random_bits(const block *b, unsigned at, hn_dtype dtype) {
    /* wrapped by the caller */
    return (hn_ref_elem){.i = dtype == HN_DTYPE_BOOL ? b->words[at] & 1 : b->words[at]};
}

static hn_ref_elem random_uniform(const block *b, unsigned at, hn_dtype dtype) {
    static const unsigned kept_bits[HN_DTYPE_COUNT] = {
        [HN_DTYPE_F64] = 32, [HN_DTYPE_F32] = 24, [HN_DTYPE_F16] = 11, [HN_DTYPE_BF16] = 8};
    unsigned kept = kept_bits[dtype];
    return (hn_ref_elem){.f = ldexp(b->words[at] >> (32 - kept), -(int)kept)};
}

static hn_ref_elem random_normal(const block *b, unsigned at, hn_dtype dtype) {
    (void)dtype;
    const uint32_t *pair = &b->words[at & ~1u];
    double u = (pair[0] + 1.0) * 0x1p-32, angle = 2 * M_PI * (pair[1] * 0x1p-32),
           r = sqrt(-2 * log(u));
    return (hn_ref_elem){.f = at & 1 ? r * sin(angle) : r * cos(angle)};
}

typedef hn_ref_elem (*random_fn)(const block *b, unsigned at, hn_dtype dtype);

static const struct {
    const char *name;
    random_fn fn;
    bool floats;
} kinds[] = {[HN_RANDOM_BITS] = {"bits", random_bits, false},
             [HN_RANDOM_UNIFORM] = {"uniform", random_uniform, true},
             [HN_RANDOM_NORMAL] = {"normal", random_normal, true}};

static hn_status kind_find(hn_str name, hn_random_kind *out) {
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        if (!hn_str_eq(name, hn_str_of(kinds[k].name))) continue;
        *out = (hn_random_kind)k;
        return NULL;
    }
    return HN_ERROR(HN_INTERNAL, "unknown kind of random numbers '" HN_STR_FMT "'",
                    HN_STR_ARG(name));
}

static hn_status kind_check(hn_random_kind kind, hn_dtype dtype) {
    if (kinds[kind].floats == hn_dtype_is_float(dtype)) return NULL;
    return HN_ERROR(HN_UNSUPPORTED, "random '%s' has no meaning for %s", kinds[kind].name,
                    hn_dtype_facts(dtype)->name);
}

hn_status hn_ref_random_element(hn_random_kind kind, hn_dtype dtype, int64_t seed, int64_t index,
                                int64_t stream, hn_ref_elem *out) {
    HN_TRY(kind_check(kind, dtype));
    block b = philox((uint64_t)seed, (uint64_t)index / 4, (uint64_t)stream);
    hn_ref_elem e = kinds[kind].fn(&b, (unsigned)((uint64_t)index % 4), dtype);
    if (kinds[kind].floats) out->f = hn_ref_round_f(dtype, e.f);
    else out->i = hn_ref_narrow_i(dtype, e.i);
    return NULL;
}

hn_status hn_ref_random(hn_ref_run *run) {
    hn_str kind;
    hn_dtype dtype;
    int64_t sizes[HN_MAX_RANK], stream;
    uint32_t rank;
    const hn_ref_tensor *seed;
    hn_ref_tensor *out;
    hn_random_kind which = HN_RANDOM_UNIFORM;
    HN_TRY(hn_ref_arg_string(run, "kind", &kind));
    HN_TRY(hn_ref_arg_ints(run, "sizes", sizes, &rank));
    HN_TRY(hn_ref_arg_dtype(run, "dtype", &dtype));
    HN_TRY(hn_ref_arg_tensor(run, "seed", &seed));
    HN_TRY(hn_ref_arg_int(run, "stream", &stream));
    HN_TRY(hn_ref_need_dtype(seed, HN_DTYPE_I64, "seed"));
    if (seed->numel != 1) return HN_ERROR(HN_INTERNAL, "the seed is not one number");
    HN_TRY(kind_find(kind, &which));
    HN_TRY(kind_check(which, dtype)); /* also for no elements */
    HN_TRY(hn_ref_result(run, 0, dtype, rank, sizes, &out));
    for (int64_t n = 0; n < out->numel; n++) {
        hn_ref_elem e;
        HN_TRY(hn_ref_random_element(which, dtype, seed->data.i[0], n, stream, &e));
        hn_ref_set(out, n, e);
    }
    return NULL;
}
