/* prelude.c: see the header. Each function computes what its namesake of codegen/c/snippets.c
 * computes in a lane. Letters at the end of a name: f float, d double, i int, l long. Signed
 * integers wrap, so sums, products and shifts are of unsigned ones. */
#include "codegen/opencl/prelude.h"

#include "base/compiler.h"

#define FN   "static "
#define LONG "long"
#include "codegen/prelude_rows.h"

/* Of floats, by class and type. */
#define FLOATS(c, T, ZERO)                                                                         \
    {"sign_" c,                                                                                    \
     FN T " sign_" c "(" T " x) { return (" T ")((x > " ZERO ") - (x < " ZERO ")); }\n"},          \
        {"relu_" c, FN T " relu_" c "(" T " x) { return x < " ZERO " ? " ZERO " : x; }\n"},        \
        {"min_" c, FN T " min_" c "(" T " a, " T " b) { return a < b || a != a ? a : b; }\n"},     \
        {"max_" c, FN T " max_" c "(" T " a, " T " b) { return a > b || a != a ? a : b; }\n"},     \
        {"fmin_" c, FN T " fmin_" c "(" T " a, " T " b) { return a < b || b != b ? a : b; }\n"},   \
        {"fmax_" c, FN T " fmax_" c "(" T " a, " T " b) { return a > b || b != b ? a : b; }\n"},   \
        {"remainder_" c,                                                                           \
         FN T " remainder_" c "(" T " x, " T " y) {\n"                                             \
              "  " T " m = fmod(x, y);\n"                                                          \
              "  return m != " ZERO " && (m < " ZERO ") != (y < " ZERO ") ? m + y : m;\n}\n"},     \
        {"floordiv_" c, FN T " floordiv_" c "(" T " a, " T " b) {\n"                               \
                             "  if (b == " ZERO ") return a / b;\n"                                \
                             "  " T " m = fmod(a, b), q = (a - m) / b;\n"                          \
                             "  if (m != " ZERO " && (b < " ZERO ") != (m < " ZERO ")) q -= 1;\n"  \
                             "  if (q == " ZERO ") return copysign(" ZERO ", a / b);\n"            \
                             "  " T " f = floor(q);\n"                                             \
                             "  return q - f > (" T ")0.5f ? f + 1 : f;\n}\n"},                    \
    {                                                                                              \
        "lse_" c, FN T " lse_" c "(" T " a, " T " b) {\n"                                          \
                       "  " T " m = max_" c "(a, b);\n"                                            \
                       "  return fabs(m) == INFINITY ? m : m + log_" c "(exp_" c                   \
                       "(a - m) + exp_" c "(b - m));\n}\n"                                         \
    }

/* Whether *at was *seen, bit by bit, and is `next` now; else *seen is what it is. Nothing is to be
 * written where both are the same: the element was so at some time since the kernel began. Words; */
#define SWAPPED(c, T)                                                                              \
    {                                                                                              \
        "swapped_" c,                                                                              \
            FN "int swapped_" c "(__global " T " *at, " T " *seen, " T " next) {\n"                \
               "  const uint was = as_uint(*seen), to = as_uint(next);\n"                          \
               "  if (was == to) return 1;\n"                                                      \
               "  const uint is = atomic_cmpxchg((volatile __global uint *)at, was, to);\n"        \
               "  *seen = as_" T "(is);\n"                                                         \
               "  return is == was;\n}\n"                                                          \
    }
/* and parts of words, whose other parts may change in the meantime. A pointer to global memory has
 * the bits of its address. */
#define SWAPPED_PART(c, T, MASK)                                                                      \
    {                                                                                                 \
        "swapped_" c, FN                                                                              \
            "int swapped_" c "(__global " T " *at, " T " *seen, " T " next) {\n"                      \
            "  volatile __global uint *word = (volatile __global uint *)((size_t)at & ~(size_t)3);\n" \
            "  const uint shift = (uint)((size_t)at & 3) * 8, others = ~((uint)" MASK                 \
            " << shift);\n"                                                                           \
            "  const uint is = *word & others;\n"                                                     \
            "  const uint was = is | ((uint)*seen & " MASK " ) << shift;\n"                           \
            "  const uint to = is | ((uint)next & " MASK ") << shift;\n"                              \
            "  if (was == to) return 1;\n"                                                            \
            "  const uint found = atomic_cmpxchg(word, was, to);\n"                                   \
            "  *seen = (" T ")(found >> shift);\n"                                                    \
            "  return found == was;\n}\n"                                                             \
    }

static const hn_snippet snippets[] = {
    SWAPPED("f", "float"),
    SWAPPED("i", "int"),
    SWAPPED_PART("s", "short", "0xffffu"),
    SWAPPED_PART("us", "ushort", "0xffffu"),
    SWAPPED_PART("c", "char", "0xffu"),
    SWAPPED_PART("uc", "uchar", "0xffu"),
    /* indices */
    {"fdiv", FN
     "long fdiv(long a, long b) { long q = a / b; return q - (a % b != 0 && (a < 0) != (b < 0)); }\n"},
    {"fmodl", FN
     "long fmodl(long a, long b) { long r = a % b; return r != 0 && (r < 0) != (b < 0) ? r + b : r; }\n"},
    {"imin", FN "long imin(long a, long b) { return a < b ? a : b; }\n"},
    {"imax", FN "long imax(long a, long b) { return a > b ? a : b; }\n"},
    {"checked", FN "long checked(long x, long e, __global int *status) {\n"
                   "  if (x >= 0 && x < e) return x;\n"
                   "  *status = 1;\n"
                   "  return 0;\n}\n"},
    /* casts: what does not fit becomes the least number, as in ir/interp_elementwise.c */
    {"f_i", FN "int f_i(float x) { return x >= -0x1p31f && x < 0x1p31f ? (int)x : INT_MIN; }\n"},
    {"f_l", FN "long f_l(float x) { return x >= -0x1p63f && x < 0x1p63f ? (long)x : LONG_MIN; }\n"},
    {"d_i", FN "int d_i(double x) { return x > -0x1p31 - 1 && x < 0x1p31 ? (int)x : INT_MIN; }\n"},
    {"d_l", FN "long d_l(double x) { return x >= -0x1p63 && x < 0x1p63 ? (long)x : LONG_MIN; }\n"},
    {"i_f", FN "float i_f(int x) { return (float)x; }\n"},
    /* 16-bit floats, in words of 16 bits */
    {"b_f", FN "float b_f(ushort b) { return as_float((uint)b << 16); }\n"},
    {"f_b",
     FN "ushort f_b(float x) {\n"
        "  const uint u = as_uint(x);\n"
        "  return (ushort)((x != x ? u | 0x400000u : u + 0x7fffu + (u >> 16 & 1u)) >> 16);\n}\n"},
    {"h_f", FN
     "float h_f(ushort h) {\n"
     "  const uint e = h >> 10 & 31u, m = h & 1023u, s = (uint)(h & 0x8000u) << 16;\n"
     "  const float small = (float)m * 0x1p-24f;\n"
     "  return as_float((e ? (e == 31u ? 0x7f800000u : (e + 112u) << 23) | m << 13 : as_uint(small)) | s);\n}\n"},
    {"f_h",
     FN "ushort f_h(float x) {\n"
        "  const uint a = as_uint(x) & 0x7fffffffu, s = as_uint(x) >> 16 & 0x8000u;\n"
        "  const uint normal = (a - 0x37fff001u + (a >> 13 & 1u)) >> 13;\n"
        "  const uint small = as_uint(as_float(a) + 0.5f) - as_uint(0.5f);\n"
        "  const uint big = 0x7c00u | (a > 0x7f800000u ? 0x200u : 0u);\n"
        "  return (ushort)((a >= 0x47800000u ? big : a < 0x38800000u ? small : normal) | s);\n}\n"},
    {"round_f16", FN "float round_f16(float x) { return h_f(f_h(x)); }\n"},
    {"round_bf16", FN "float round_bf16(float x) { return b_f(f_b(x)); }\n"},
    /* what math.def needs, and its functions */
    {"sel_f", FN "float sel_f(int m, float a, float b) { return m ? a : b; }\n"},
    {"upto_f", FN "float upto_f(float x, float c) { return x > c ? c : x; }\n"},
    {"from_f", FN "float from_f(float x, float c) { return x < c ? c : x; }\n"},
#define M_F              "float"
#define M_I              "int"
#define M_SF(c)          c
#define M_SI(c)          c
#define M_BITS(e)        "as_int(" e ")"
#define M_FLOAT(e)       "as_float(" e ")"
#define M_MASK(e)        "-(" e ")"
#define M_QUOTIENT(a, b) a " / " b
#define M_NAN            "NAN"
#define M_INF            "INFINITY"
#define M_NAN64          "(double)NAN"
#define M_INF64          "(double)INFINITY"
#define M_COPYSIGN       "copysign"
#define M_I64            "long"
#define M_U64            "ulong"
#define M_K64(c)         c "ul"
#define M_FN             FN
#define M_ONE            FN
#define M_DECLARE(text)
#define M_FAR_SINCOS "  if (!(fabs(x) <= 8192.0f)) y = quarter ? cos(x) : sin(x);\n"
#define M_FAR_ANGLE  ""
#include "codegen/math.def"
    {"exp_d", FN "double exp_d(double x) { return exp(x); }\n"},
    {"log_d", FN "double log_d(double x) { return log(x); }\n"},
    {"random_uniform_f",
     FN "float random_uniform_f(long seed, long at, long stream, int bits) {\n"
        "  const uint w = philox((ulong)seed, (ulong)at / 4, (ulong)stream, (int)(at % 4));\n"
        "  return (float)(w >> (32 - bits)) / (float)(1u << bits);\n}\n"},
    {"random_uniform_d", FN
     "double random_uniform_d(long seed, long at, long stream) {\n"
     "  return philox((ulong)seed, (ulong)at / 4, (ulong)stream, (int)(at % 4)) * 0x1p-32;\n}\n"},
    FLOATS("f", "float", "0.0f"),
    FLOATS("d", "double", "0.0"),
    INTS("i", "int", "uint", "32"),
    INTS("l", "long", "ulong", "64"),
    POSITIONS(FLOAT_POSITION, "f", "float"),
    POSITIONS(FLOAT_POSITION, "d", "double"),
    POSITIONS(INT_POSITION, "i", "int"),
    POSITIONS(INT_POSITION, "l", "long"),
};

static int find(const char *name, size_t len) {
    for (size_t k = 0; k < HN_COUNT_OF(snippets); k++)
        if (strncmp(snippets[k].name, name, len) == 0 && !snippets[k].name[len]) return (int)k;
    return -1;
}

static void expand(int number, hn_strbuf *out) { hn_strbuf_puts(out, snippets[number].text); }

void hn_opencl_prelude(hn_str text, hn_strbuf *out) {
    static const hn_snippet_source source = {find, expand};
    uint8_t done[HN_COUNT_OF(snippets)] = {0};
    hn_prelude_put(text, &source, done, out);
}
