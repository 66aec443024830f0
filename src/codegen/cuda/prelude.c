/* prelude.c: see the header. Each function computes what its namesake of codegen/c/snippets.c
 * computes in a lane. Letters behind the line in a name: f float, d double, i int, l long long. Signed
 * integers may not overflow, so sums, products and shifts are of unsigned ones. */
#include "codegen/cuda/prelude.h"

#include "base/compiler.h"

/* Inlined: a register whose address is taken stays a register. */
#define FN   "static __device__ __forceinline__ "
#define LONG "long long"
#include "codegen/prelude_rows.h"

/* Of floats, by class, type, and the letter that its functions of the library end in. */
#define FLOATS(c, T, ZERO, f)                                                                      \
    {"sign_" c,                                                                                    \
     FN T " sign_" c "(" T " x) { return (" T ")((x > " ZERO ") - (x < " ZERO ")); }\n"},          \
        {"relu_" c, FN T " relu_" c "(" T " x) { return x < " ZERO " ? " ZERO " : x; }\n"},        \
        {"min_" c, FN T " min_" c "(" T " a, " T " b) { return a < b || a != a ? a : b; }\n"},     \
        {"max_" c, FN T " max_" c "(" T " a, " T " b) { return a > b || a != a ? a : b; }\n"},     \
        {"remainder_" c,                                                                           \
         FN T " remainder_" c "(" T " x, " T " y) {\n"                                             \
              "  " T " m = fmod" f "(x, y);\n"                                                     \
              "  return m != " ZERO " && (m < " ZERO ") != (y < " ZERO ") ? m + y : m;\n}\n"},     \
        {"floordiv_" c, FN T " floordiv_" c "(" T " a, " T " b) {\n"                               \
                             "  if (b == " ZERO ") return a / b;\n"                                \
                             "  " T " m = fmod" f "(a, b), q = (a - m) / b;\n"                     \
                             "  if (m != " ZERO " && (b < " ZERO ") != (m < " ZERO ")) q -= 1;\n"  \
                             "  if (q == " ZERO ") return copysign" f "(" ZERO ", a / b);\n"       \
                             "  " T " r = floor" f "(q);\n"                                        \
                             "  return q - r > (" T ")0.5f ? r + 1 : r;\n}\n"},                    \
    {                                                                                              \
        "lse_" c, FN T " lse_" c "(" T " a, " T " b) {\n"                                          \
                       "  " T " m = max_" c "(a, b);\n"                                            \
                       "  return fabs" f "(m) == inf_" c "() ? m : m + log" f "(exp" f             \
                       "(a - m) + exp" f "(b - m));\n}\n"                                          \
    }

static const hn_snippet snippets[] = {
    /* before those of all floats: one instruction each */
    {"min_f", FN "float min_f(float a, float b) {\n"
                 "  float y;\n"
                 "  asm(\"min.NaN.f32 %0, %1, %2;\" : \"=f\"(y) : \"f\"(a), \"f\"(b));\n"
                 "  return y;\n}\n"},
    {"max_f", FN "float max_f(float a, float b) {\n"
                 "  float y;\n"
                 "  asm(\"max.NaN.f32 %0, %1, %2;\" : \"=f\"(y) : \"f\"(a), \"f\"(b));\n"
                 "  return y;\n}\n"},
    {"inf_f", FN "float inf_f() { return __int_as_float(0x7f800000); }\n"},
    {"nan_f", FN "float nan_f() { return __int_as_float(0x7fc00000); }\n"},
    {"inf_d", FN "double inf_d() { return __longlong_as_double(0x7ff0000000000000LL); }\n"},
    {"nan_d", FN "double nan_d() { return __longlong_as_double(0x7ff8000000000000LL); }\n"},
    /* indices */
    {"floor_div", FN "long long floor_div(long long a, long long b) {\n"
                     "  const long long q = a / b;\n"
                     "  return q - (a % b != 0 && (a < 0) != (b < 0));\n}\n"},
    {"floor_mod", FN "long long floor_mod(long long a, long long b) {\n"
                     "  const long long r = a % b;\n"
                     "  return r != 0 && (r < 0) != (b < 0) ? r + b : r;\n}\n"},
    {"least", FN "long long least(long long a, long long b) { return a < b ? a : b; }\n"},
    {"most", FN "long long most(long long a, long long b) { return a > b ? a : b; }\n"},
    {"checked", FN "long long checked(long long x, long long e, int *status) {\n"
                   "  if (x >= 0 && x < e) return x;\n"
                   "  *status = 1;\n"
                   "  return 0;\n}\n"},
    /* casts: what does not fit becomes the least number, as in ir/interp_elementwise.c */
    {"f_i",
     FN "int f_i(float x) { return x >= -0x1p31f && x < 0x1p31f ? (int)x : -0x7fffffff - 1; }\n"},
    {"f_l",
     FN "long long f_l(float x) {\n"
        "  return x >= -0x1p63f && x < 0x1p63f ? (long long)x : -0x7fffffffffffffffLL - 1;\n}\n"},
    {"d_i",
     FN "int d_i(double x) { return x > -0x1p31 - 1 && x < 0x1p31 ? (int)x : -0x7fffffff - 1; }\n"},
    {"d_l",
     FN "long long d_l(double x) {\n"
        "  return x >= -0x1p63 && x < 0x1p63 ? (long long)x : -0x7fffffffffffffffLL - 1;\n}\n"},
    {"i_f", FN "float i_f(int x) { return (float)x; }\n"},
    /* 16-bit floats, in words of 16 bits; conversions round to nearest, ties to even */
    {"b_f",
     FN "float b_f(unsigned short b) {\n"
        "  float x;\n"
        "  asm(\"mov.b32 %0, {%1, %2};\" : \"=f\"(x) : \"h\"((unsigned short)0), \"h\"(b));\n"
        "  return x;\n}\n"},
    {"f_b", FN "unsigned short f_b(float x) {\n"
               "  unsigned short b;\n"
               "  asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(b) : \"f\"(x));\n"
               "  return b;\n}\n"},
    {"h_f", FN "float h_f(unsigned short h) {\n"
               "  float x;\n"
               "  asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(x) : \"h\"(h));\n"
               "  return x;\n}\n"},
    {"f_h", FN "unsigned short f_h(float x) {\n"
               "  unsigned short h;\n"
               "  asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(h) : \"f\"(x));\n"
               "  return h;\n}\n"},
    {"round_f16", FN "float round_f16(float x) { return h_f(f_h(x)); }\n"},
    /* two numbers in a word, of which the low one is 0: these are the bits of a float */
    {"round_bf16",
     FN "float round_bf16(float x) {\n"
        "  unsigned y;\n"
        "  asm(\"cvt.rn.bf16x2.f32 %0, %1, %2;\" : \"=r\"(y) : \"f\"(x), \"f\"(0.0f));\n"
        "  return __uint_as_float(y);\n}\n"},
    /* groups of several blocks: all threads wait; and what lies in another block's shared memory */
    {"cluster_wait",
     FN "void cluster_wait() {\n"
        "  asm volatile(\"barrier.cluster.arrive.release;\\nbarrier.cluster.wait.acquire;\" ::: "
        "\"memory\");\n}\n"},
    /* ... at the end, where a thread has used what it read: it waits for no write of its own */
    {"cluster_leave",
     FN "void cluster_leave() {\n"
        "  asm volatile(\"barrier.cluster.arrive.relaxed;\\nbarrier.cluster.wait;\" ::: "
        "\"memory\");\n}\n"},
#define FAR(type, kind, letter)                                                                    \
    FN type " far(const " type " *x, int block) {\n"                                               \
            "  " type " y;\n"                                                                      \
            "  asm volatile(\"{ .reg .u64 p; .reg .u32 a; cvta.to.shared.u64 p, %1; "              \
            "cvt.u32.u64 a, p; mapa.shared::cluster.u32 a, a, %2; "                                \
            "ld.shared::cluster." kind " %0, [a]; }\" : \"=" letter                                \
            "\"(y) : \"l\"(x), \"r\"(block) : \"memory\");\n"                                      \
            "  return y;\n}\n"
    {"far", FAR("float", "f32", "f") FAR("double", "f64", "d") FAR("int", "b32", "r")
                FAR("long long", "b64", "l")},
#undef FAR
/* c += a b, of 16 x 8, 16 x 16 and 16 x 8 numbers that the threads of a warp hold together */
#define MMA(name, type)                                                                            \
    {                                                                                              \
        name, FN "void " name "(float *c, const unsigned *a, const unsigned *b) {\n"               \
                 "  asm(\"mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 "            \
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\" : "            \
                 "\"+f\"(c[0]), \"+f\"(c[1]), \"+f\"(c[2]), \"+f\"(c[3]) : "                       \
                 "\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), "                            \
                 "\"r\"(b[0]), \"r\"(b[1]));\n}\n"                                                 \
    }
    MMA("mma_b", "bf16"),
    MMA("mma_h", "f16"),
#undef MMA
/* Pieces for it: of four matrices of 8 x 8 numbers of 16 bits, each thread of a warp tells where
     * a row of 8 begins in shared memory: thread 8 k + r the row r of matrix k. Thread 4 g + t gets, in
     * register k, the numbers 2 t and 2 t + 1 of row g of matrix k; `across`: of column g. Addresses
     * are multiples of 16. */
#define PIECES(name, kind)                                                                         \
    {                                                                                              \
        name, FN "void " name "(unsigned *to, const void *row) {\n"                                \
                 "  asm volatile(\"ldmatrix.sync.aligned.m8n8.x4" kind ".shared.b16 "              \
                 "{%0, %1, %2, %3}, [%4];\" : \"=r\"(to[0]), \"=r\"(to[1]), \"=r\"(to[2]), "       \
                 "\"=r\"(to[3]) : \"r\"((unsigned)__cvta_generic_to_shared(row)) : "               \
                 "\"memory\");\n}\n"                                                               \
    }
    PIECES("pieces", ""),
    PIECES("pieces_across", ".trans"),
#undef PIECES
    /* two numbers in a word, the first one below */
    {"pair_b", FN "unsigned pair_b(float a, float b) {\n"
                  "  unsigned y;\n"
                  "  asm(\"cvt.rn.bf16x2.f32 %0, %1, %2;\" : \"=r\"(y) : \"f\"(b), \"f\"(a));\n"
                  "  return y;\n}\n"},
    {"pair_h", FN "unsigned pair_h(float a, float b) {\n"
                  "  unsigned y;\n"
                  "  asm(\"cvt.rn.f16x2.f32 %0, %1, %2;\" : \"=r\"(y) : \"f\"(b), \"f\"(a));\n"
                  "  return y;\n}\n"},
    /* 2 to the x, 2 ulp; less than 2^-126 is 0 */
    {"exp2_near_f", FN "float exp2_near_f(float x) {\n"
                       "  float y;\n"
                       "  asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(x));\n"
                       "  return y;\n}\n"},
    /* Copies of 16 bytes from memory to shared memory, under way while the thread goes on: of `bytes` of
     * them, and zeros behind. A thread closes a lot of its copies (copies_end), perhaps an empty one,
     * and waits until its lots are there (copies_wait), or all but the last one (copies_wait_but_one)
     * or two.
     * What other threads copied is there behind a barrier that comes after their wait. */
    {"copy_async", FN "void copy_async(void *to, const void *from, int bytes) {\n"
                      "  asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16, %2;\" : : "
                      "\"r\"((unsigned)__cvta_generic_to_shared(to)), \"l\"(from), \"r\"(bytes) : "
                      "\"memory\");\n}\n"},
    {"copies_end",
     FN "void copies_end() { asm volatile(\"cp.async.commit_group;\" : : : \"memory\"); }\n"},
    {"copies_wait",
     FN "void copies_wait() { asm volatile(\"cp.async.wait_group 0;\" : : : \"memory\"); }\n"},
    {"copies_wait_but_one", FN "void copies_wait_but_one() { asm "
                               "volatile(\"cp.async.wait_group 1;\" : : : \"memory\"); }\n"},
    {"copies_wait_but_two", FN "void copies_wait_but_two() { asm "
                               "volatile(\"cp.async.wait_group 2;\" : : : \"memory\"); }\n"},
    /* ROWS x COLUMNS numbers of 16 bits into shared memory, PITCH apart from row to row, by all THREADS;
     * `rows` and `columns` of them are there, the others are 0. The strides of `from` are `down` and
     * `across`. is_wide: copies of 16 bytes, for which columns lie side by side and rows begin at
     * multiples of 16. Otherwise the thread copies numbers one by one, side by side where they are so,
     * and is done behind the next barrier. */
    {"tile_async",
     "template <int ROWS, int COLUMNS, int PITCH, int THREADS> struct tile {};\n"
     "template <int R, int C, int P, int THREADS, class T> " FN
     "void tile_async(T *to, const T *from, long long down, long long across, long long rows, long long columns, bool is_wide, tile<R, C, P, THREADS>) {\n"
     "  const int thread = (int)threadIdx.x;\n"
     "  const int r_end = rows < R ? (int)rows : R, c_end = columns < C ? (int)columns : C;\n"
     "  if (is_wide && THREADS % (C / 8) == 0) {\n" /* a thread stays in its columns */
     "    enum { STEP = THREADS / (C / 8) };\n"
     "    const int r = thread / (C / 8), c = thread % (C / 8) * 8, left = c_end - c;\n"
     "    const int bytes = left < 0 ? 0 : left > 8 ? 16 : 2 * left;\n"
     "    from += r * down + c;\n"
     "    to += r * P + c;\n"
     "#pragma unroll\n"
     "    for (int k = 0; k < R; k += STEP, from += STEP * down) {\n"
     "      if (R % STEP && k + r >= R) break;\n"
     "      copy_async(to + k * P, from, k + r < r_end ? bytes : 0);\n"
     "    }\n"
     "  } else if (is_wide) {\n"
     "#pragma unroll 1\n"
     "    for (int at = thread; at < R * C / 8; at += THREADS) {\n"
     "      const int r = at / (C / 8), c = at % (C / 8) * 8, left = r < r_end ? c_end - c : 0;\n"
     "      copy_async(to + r * P + c, from + r * down + c, left < 0 ? 0 : left > 8 ? 16 : 2 * left);\n"
     "    }\n"
     "  } else if (down == 1) {\n"
     "#pragma unroll 1\n"
     "    for (int at = thread; at < R * C; at += THREADS) {\n"
     "      const int r = at % R, c = at / R;\n"
     "      to[r * P + c] = r < r_end && c < c_end ? from[r + c * across] : (T)0;\n"
     "    }\n"
     "  } else {\n"
     "#pragma unroll 2\n"
     "    for (int at = thread; at < R * C; at += THREADS) {\n"
     "      const int r = at / C, c = at % C;\n"
     "      to[r * P + c] = r < r_end && c < c_end ? from[r * down + c * across] : (T)0;\n"
     "    }\n"
     "  }\n}\n"},
    /* what math.def needs, and its functions */
    /* x = q * pi/2 + r, |r| <= pi/4, of |x| above 8192: x times 2/pi, of which as many bits are taken
     * as matter, as an integer. CUDA's own functions keep an array in slow memory for that. */
    {"far_angle_f", FN
     "float far_angle_f(float x, int *q) {\n"
     "  const unsigned u = __float_as_uint(x), m = u << 8 | 0x80000000u;\n"
     "  const int e = (int)(u >> 23 & 255) - 158, low = e < 34, high = e >= 66;\n"
     "  const unsigned w0 = low ? 0xa2f9836eu : high ? 0xfc2757d1u : 0x4e441529u;\n"
     "  const unsigned w1 = low ? 0x4e441529u : high ? 0xf534ddc0u : 0xfc2757d1u;\n"
     "  const unsigned w2 = low ? 0xfc2757d1u : high ? 0xdb629599u : 0xf534ddc0u;\n"
     "  const unsigned w3 = low ? 0xf534ddc0u : high ? 0x3c439041u : 0xdb629599u;\n"
     "  const unsigned long long c = (unsigned long long)m * w2 + ((unsigned long long)m * w3 >> 32);\n"
     "  const unsigned long long b = (unsigned long long)m * w1 + (c >> 32);\n"
     "  const unsigned long long a = (unsigned long long)m * w0 + (b >> 32);\n"
     "  const int shift = (low ? 34 : high ? 98 : 66) - e;\n"
     "  const unsigned long long turns = a << (64 - shift) | (b << 32 | (unsigned)c) >> shift;\n"
     "  const int n = (int)((turns + (1ull << 61)) >> 62);\n"
     "  const float r = (float)((double)(long long)(turns << 2) * 8.5153039502163869e-20);\n"
     "  *q = x < 0 ? -n : n;\n"
     "  return x - x != 0 ? x - x : x < 0 ? -r : r;\n}\n"},
    /* of a number from 2^-126 to 2^126; 1 ulp, and 0 of larger ones */
    {"inverse_f", FN "float inverse_f(float x) {\n"
                     "  float y;\n"
                     "  asm(\"rcp.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(x));\n"
                     "  return y;\n}\n"},
    {"sel_f", FN "float sel_f(int m, float a, float b) { return m ? a : b; }\n"},
    {"upto_f", FN "float upto_f(float x, float c) { return x > c ? c : x; }\n"},
    {"from_f", FN "float from_f(float x, float c) { return x < c ? c : x; }\n"},
    /* in place of that of math.def: x P(x^2) / Q(x^2), at most 1, of which x^2 alone is limited, and
     * the coefficients suit contracted products and inverse_f. Above 4 that is exactly 1. */
    {"erf_f", FN "float erf_f(float x) {\n"
                 "  const float t = upto_f(x * x, 13.8384f);\n"
                 "  float p = 1.795359367e-06f;\n"
                 "  p = p * t + 2.522936848e-04f;\n"
                 "  p = p * t + 3.374882508e-03f;\n"
                 "  p = p * t + 4.685963690e-02f;\n"
                 "  p = p * t + 1.697571874e-01f;\n"
                 "  p = p * t + 9.999999404e-01f;\n"
                 "  float q = 3.352681597e-05f;\n"
                 "  q = q * t + 1.037517795e-03f;\n"
                 "  q = q * t + 1.334220730e-02f;\n"
                 "  q = q * t + 1.015259326e-01f;\n"
                 "  q = q * t + 4.458517134e-01f;\n"
                 "  q = q * t + 8.862268925e-01f;\n"
                 "  return from_f(upto_f(x * p * inverse_f(q), 1.0f), -1.0f);\n"
                 "}\n"},
    /* 1 + erf(x), as 2 / (1 + 2^(x Q(x^2))): two special instructions and no quotient of polynomials.
     * Error below 4e-7, which is that of the sum; and of results from 0.003 on below 1.4e-5 of them,
     * where a sum of 1 and nearly -1 has fewer digits. */
    {"one_plus_erf_f", FN "float one_plus_erf_f(float x) {\n"
                          "  const float t = upto_f(x * x, 14.0625f);\n"
                          "  float q = 1.242958270e-08f;\n"
                          "  q = q * t - 8.162652989e-07f;\n"
                          "  q = q * t + 2.100511665e-05f;\n"
                          "  q = q * t - 2.768765262e-04f;\n"
                          "  q = q * t + 1.847608946e-03f;\n"
                          "  q = q * t + 4.863678187e-04f;\n"
                          "  q = q * t - 2.964989543e-01f;\n"
                          "  q = q * t - 3.255817890e+00f;\n"
                          "  return inverse_f(0.5f + 0.5f * exp2_near_f(x * q));\n"
                          "}\n"},
#define M_F              "float"
#define M_I              "int"
#define M_SF(c)          c
#define M_SI(c)          c
#define M_BITS(e)        "__float_as_int(" e ")"
#define M_FLOAT(e)       "__int_as_float(" e ")"
#define M_MASK(e)        "-(" e ")"
#define M_QUOTIENT(a, b) a " * inverse_f(" b ")"
#define M_NAN            "nan_f()"
#define M_INF            "inf_f()"
#define M_NAN64          "nan_d()"
#define M_INF64          "inf_d()"
#define M_COPYSIGN       "copysign"
#define M_I64            "long long"
#define M_U64            "unsigned long long"
#define M_K64(c)         c "ull"
#define M_FN             FN
#define M_ONE            FN
#define M_DECLARE(text)
#define M_FAR_SINCOS ""
#define M_FAR_ANGLE  "  if (!(fabsf(x) <= 8192.0f)) { r = far_angle_f(x, &q); q += quarter; }\n"
#include "codegen/math.def"
    /* Whether *at was *seen, bit by bit, and is `next` now; else *seen is what it is. Nothing is to be
     * written where both are the same: the element was so at some time since the kernel began. */
    {"swapped", "template <int BYTES> struct bits {};\n"
                "template <> struct bits<2> { typedef unsigned short of; };\n"
                "template <> struct bits<4> { typedef unsigned of; };\n"
                "template <> struct bits<8> { typedef unsigned long long of; };\n"
                "template <class T> " FN "int swapped(T *at, T *seen, T next) {\n"
                "  typedef typename bits<sizeof(T)>::of B;\n"
                "  union { T x; B b; } was, to, is;\n"
                "  was.x = *seen, to.x = next;\n"
                "  if (was.b == to.b) return 1;\n"
                "  is.b = atomicCAS((B *)at, was.b, to.b);\n"
                "  *seen = is.x;\n"
                "  return is.b == was.b;\n}\n"},
    /* by the word around it, whose other bytes may change in the meantime */
    {"swapped_byte",
     "template <class T> " FN "int swapped_byte(T *at, T *seen, T next) {\n"
     "  unsigned *word = (unsigned *)((unsigned long long)at & ~3ull);\n"
     "  const unsigned shift = ((unsigned long long)at & 3) * 8, others = ~(255u << shift);\n"
     "  const unsigned is = *(volatile unsigned *)word & others;\n"
     "  const unsigned was = is | (*seen & 255u) << shift, to = is | (next & 255u) << shift;\n"
     "  if (was == to) return 1;\n"
     "  const unsigned found = atomicCAS(word, was, to);\n"
     "  *seen = (T)(found >> shift);\n"
     "  return found == was;\n}\n"},
    /* so many elements in one access: both pointers are aligned */
    /* x |= 0, which no compiler knows */
    {"settle", FN "void settle(void *x, int words) {\n"
                  "  #pragma unroll\n"
                  "  for (int k = 0; k < words; k++) ((unsigned *)x)[k] |= blockIdx.y;\n}\n"},
    {"move",
     "template <class T, int N> struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) pack { T of[N]; };\n"
     "template <class P> " FN
     "void move(void *to, const void *from, P) { *(P *)to = *(const P *)from; }\n"},
    {"random_uniform_f", FN
     "float random_uniform_f(long long seed, long long at, long long stream, int bits) {\n"
     "  const unsigned w = philox((unsigned long long)seed, (unsigned long long)at / 4, (unsigned long long)stream, (int)(at % 4));\n"
     "  return (float)(w >> (32 - bits)) / (float)(1u << bits);\n}\n"},
    {"random_uniform_d", FN
     "double random_uniform_d(long long seed, long long at, long long stream) {\n"
     "  return philox((unsigned long long)seed, (unsigned long long)at / 4, (unsigned long long)stream, (int)(at % 4)) * 0x1p-32;\n}\n"},
    FLOATS("f", "float", "0.0f", "f"),
    FLOATS("d", "double", "0.0", ""),
    INTS("i", "int", "unsigned", "32"),
    INTS("l", "long long", "unsigned long long", "64"),
    POSITIONS(FLOAT_POSITION, "f", "float"),
    POSITIONS(FLOAT_POSITION, "d", "double"),
    POSITIONS(INT_POSITION, "i", "int"),
    POSITIONS(INT_POSITION, "l", "long long"),
};

static int find(const char *name, size_t len) {
    for (size_t k = 0; k < HN_COUNT_OF(snippets); k++)
        if (strncmp(snippets[k].name, name, len) == 0 && !snippets[k].name[len]) return (int)k;
    return -1;
}

static void expand(int number, hn_strbuf *out) { hn_strbuf_puts(out, snippets[number].text); }

void hn_cuda_prelude(hn_str text, hn_strbuf *out) {
    static const hn_snippet_source source = {find, expand};
    uint8_t done[HN_COUNT_OF(snippets)] = {0};
    hn_prelude_put(text, &source, done, out);
}
