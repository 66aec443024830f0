/* snippets.c: the text that generated kernels lean on. A snippet is emitted when its name occurs in
 * the text of a unit. Lane classes: f = float, d = double, i = int, l = long long, m = int mask (0
 * or -1); VF lanes each. What all languages share: math.def. */
#include "codegen/c/mathlib.h"

#include "base/compiler.h"

#define FN      "static inline __attribute__((always_inline)) "
#define LANES_U "_Pragma(\"GCC unroll 16\") for (int u = 0; u < VF; u++) "
#define LANES   "_Pragma(\"GCC unroll 16\") for (int k = 0; k < VF; k++) "
/* A function of libm, lane by lane: rare ops and f64, where inline polynomials would not pay. */
#define LIBM1(name, f, d)                                                                          \
    {name "_f", "float " f "(float); " FN "vf " name "_f(vf x) { vf r; " LANES "r[k] = " f         \
                "(x[k]); return r; }\n"},                                                          \
    {                                                                                              \
        name "_d", "double " d "(double); " FN "vd " name "_d(vd x) { vd r; " LANES "r[k] = " d    \
                   "(x[k]); return r; }\n"                                                         \
    }
#define LIBM1D(name, d)                                                                            \
    {                                                                                              \
        name "_d", "double " d "(double); " FN "vd " name "_d(vd x) { vd r; " LANES "r[k] = " d    \
                   "(x[k]); return r; }\n"                                                         \
    }
#define LIBM2(name, f, d)                                                                          \
    {name "_f", "float " f "(float, float); " FN "vf " name "_f(vf x, vf y) { vf r; " LANES        \
                "r[k] = " f "(x[k], y[k]); return r; }\n"},                                        \
    {                                                                                              \
        name "_d", "double " d "(double, double); " FN "vd " name "_d(vd x, vd y) { vd r; " LANES  \
                   "r[k] = " d "(x[k], y[k]); return r; }\n"                                       \
    }

const hn_snippet c_snippets[] = {
    /* splats, masks, selects */
    {"sp_f", FN "vf sp_f(float c) { return (vf){RL(c)}; }\n"},
    {"sp_d", FN "vd sp_d(double c) { return (vd){RL(c)}; }\n"},
    {"sp_i", FN "vi sp_i(int c) { return (vi){RL(c)}; }\n"},
    {"sp_l", FN "vl sp_l(ll c) { return (vl){RL(c)}; }\n"},
    {"mask_l", FN "vi mask_l(vl m) { return __builtin_convertvector(m, vi); }\n"},
    {"mask_i", FN "vi mask_i(vi m) { return m; }\n"},
    {"wide", FN "vl wide(vi m) { return __builtin_convertvector(m, vl); }\n"},
    {"sel_f", FN "vf sel_f(vi m, vf a, vf b) { return (vf)((m & (vi)a) | (~m & (vi)b)); }\n"},
    {"sel_i", FN "vi sel_i(vi m, vi a, vi b) { return (m & a) | (~m & b); }\n"},
    {"sel_d", FN
     "vd sel_d(vi m, vd a, vd b) { vl w = wide(m); return (vd)((w & (vl)a) | (~w & (vl)b)); }\n"},
    {"sel_l", FN "vl sel_l(vi m, vl a, vl b) { vl w = wide(m); return (w & a) | (~w & b); }\n"},
    {"any_m",
     "#if defined(__AVX__) && VF == 8 && !defined(__clang__)\n" FN
     "int any_m(vi m) { return __builtin_ia32_movmskps256((vf)m); }\n"
     "#elif defined(__AVX512F__) && VF == 16 && !defined(__clang__)\n" FN
     "int any_m(vi m) { return __builtin_ia32_ptestmd512(m, m, -1); }\n"
     "#else\n" FN "int any_m(vi m) { int r = 0; " LANES "r |= m[k]; return r; }\n#endif\n"},
    {"lanes_below", FN "vi lanes_below(ll n) { return (vi)(IOTA_I < sp_i((int)n)); }\n"},
    {"fdiv", FN
     "ll fdiv(ll a, ll b) { ll q = a / b; return q - ((a % b != 0) & ((a < 0) != (b < 0))); }\n"},
    {"fmodll", FN
     "ll fmodll(ll a, ll b) { ll r = a % b; return r + (((r != 0) & ((r < 0) != (b < 0))) ? b : 0); }\n"},
    {"imin", FN "ll imin(ll a, ll b) { return a < b ? a : b; }\n"},
    {"bounded", FN
     "ll bounded(ll x, ll e) { x += x < 0 ? e : 0; return (unsigned long long)x < (unsigned long long)e ? x : 0; }\n"},
    {"imax", FN "ll imax(ll a, ll b) { return a > b ? a : b; }\n"},
    /* a product to which something is added: rounded first. clang adds to products of the same
     * expression only. gcc 12 takes floats apart for its builtin where there is AVX-512, and before
     * gcc 12 there is none: a register that a statement might change is as good */
    {"rounded_f", "#if defined(__clang__)\n#define rounded_f(e) (e)\n"
                  "#elif defined(__x86_64__) && (__GNUC__ < 12 || defined(__AVX512F__))\n" FN
                  "vf rounded_f(vf x) { __asm__(\"\" : \"+v\"(x)); return x; }\n"
                  "#elif __GNUC__ >= 12\n#define rounded_f(e) __builtin_assoc_barrier(e)\n"
                  "#else\n#define rounded_f(e) (e)\n#endif\n"},
    {"rounded_d",
     "#if __GNUC__ >= 12 && !defined(__clang__)\n#define rounded_d(e) __builtin_assoc_barrier(e)\n"
     "#else\n#define rounded_d(e) (e)\n#endif\n"},
    /* casts: x86's float to int conversion; out of range is undefined in PyTorch too */
    {"f_l", FN "vl f_l(vf x) { return __builtin_convertvector(x, vl); }\n"},
    {"f_i", FN "vi f_i(vf x) { return __builtin_convertvector(x, vi); }\n"},
    /* not __builtin_convertvector: gcc 12 fails on it for vectors wider than the machine's */
    {"f_d", FN "vd f_d(vf x) { vd r; " LANES "r[k] = x[k]; return r; }\n"},
    {"f_m", FN "vi f_m(vf x) { return (vi)(x != sp_f(0)); }\n"},
    {"d_f", FN "vf d_f(vd x) { return __builtin_convertvector(x, vf); }\n"},
    {"d_l", FN "vl d_l(vd x) { return __builtin_convertvector(x, vl); }\n"},
    {"d_i",
     FN "vi d_i(vd x) { return __builtin_convertvector(__builtin_convertvector(x, vl), vi); }\n"},
    {"d_m", FN "vi d_m(vd x) { return mask_l((vl)(x != sp_d(0))); }\n"},
    {"i_f", FN "vf i_f(vi x) { return __builtin_convertvector(x, vf); }\n"},
    {"i_d", FN "vd i_d(vi x) { return __builtin_convertvector(x, vd); }\n"},
    {"i_l", FN "vl i_l(vi x) { return __builtin_convertvector(x, vl); }\n"},
    {"i_m", FN "vi i_m(vi x) { return (vi)(x != sp_i(0)); }\n"},
    {"l_f", FN "vf l_f(vl x) { return __builtin_convertvector(x, vf); }\n"},
    {"l_d", FN "vd l_d(vl x) { return __builtin_convertvector(x, vd); }\n"},
    {"l_i", FN "vi l_i(vl x) { return __builtin_convertvector(x, vi); }\n"},
    {"l_m", FN "vi l_m(vl x) { return mask_l((vl)(x != sp_l(0))); }\n"},
    {"m_f", FN "vf m_f(vi m) { return __builtin_convertvector(-m, vf); }\n"},
    {"m_d", FN "vd m_d(vi m) { return __builtin_convertvector(-m, vd); }\n"},
    {"m_i", FN "vi m_i(vi m) { return -m; }\n"},
    {"m_l", FN "vl m_l(vi m) { return __builtin_convertvector(-m, vl); }\n"},
    {"wrap_i16", FN "vi wrap_i16(vi x) { return (x << 16) >> 16; }\n"},
    {"wrap_i8", FN "vi wrap_i8(vi x) { return (x << 24) >> 24; }\n"},
    {"wrap_u8", FN "vi wrap_u8(vi x) { return x & 255; }\n"},
    /* to the nearest, ties to even; the high half of a word is all zeros or ones */
    {"bits_bf16",
     "#if defined(__AVX512F__) && VF == 16 && !defined(__clang__)\n" FN
     "vi bits_bf16(vf x) { vi u = (vi)x, half = (vi)__builtin_ia32_blendmd_512_mask(sp_i(0x7fff), sp_i(0x8000),\n"
     "  __builtin_ia32_ptestmd512(u, sp_i(0x10000), -1));\n"
     "  return (vi)__builtin_ia32_pord512_mask(u, sp_i(0x400000), u + half, __builtin_ia32_cmpps512_mask(x, x, 3, -1, 4)) >> 16; }\n"
     "#else\n" FN
     "vi bits_bf16(vf x) { vi u = (vi)x, h = u >> 16, r = (u + ((h & 1) + sp_i(0x7fff))) >> 16;\n"
     "  return sel_i((vi)(x == x), r, h | sp_i(0x40)); }\n#endif\n"},
    {"round_bf16", FN "vf round_bf16(vf x) { return (vf)(bits_bf16(x) << 16); }\n"},
    {"f_h",
     FN "vi f_h(vf x) { vi u = (vi)x, a = u & sp_i(0x7fffffff), s = (u >> 16) & sp_i(0x8000);\n"
        "  vi normal = (a - sp_i(0x37fff001) + ((a >> 13) & 1)) >> 13;\n"
        "  vi small = (vi)((vf)a + sp_f(0.5f)) - (vi)sp_f(0.5f);\n"
        "  vi big = sp_i(0x7c00) | ((vi)(a > sp_i(0x7f800000)) & 0x200);\n"
        "  vi r = sel_i((vi)(a < sp_i(0x38800000)), small, normal);\n"
        "  return sel_i((vi)(a >= sp_i(0x47800000)), big, r) | s; }\n"},
    {"h_f", FN "vf h_f(vi h) { vi e = (h & 0x7fff) << 13, s = (h & 0x8000) << 16;\n"
               "  vf r = (vf)e * sp_f(0x1p112f);\n"
               "  vi inf = (vi)(e >= sp_i(0x0f800000)) & 0x7f800000;\n"
               "  return (vf)((vi)r | inf | s); }\n"},
    {"round_f16", FN "vf round_f16(vf x) { return h_f(f_h(x)); }\n"},
    /* f32 arithmetic */
    {"abs_f", FN "vf abs_f(vf x) { return (vf)((vi)x & sp_i(0x7fffffff)); }\n"},
    {"abs_d", FN "vd abs_d(vd x) { return (vd)((vl)x & sp_l(0x7fffffffffffffffLL)); }\n"},
    {"sign_f", FN "vf sign_f(vf x) { return i_f((vi)(x < sp_f(0)) - (vi)(x > sp_f(0))); }\n"},
    {"sign_d", FN "vd sign_d(vd x) { return l_d((vl)(x < sp_d(0)) - (vl)(x > sp_d(0))); }\n"},
    {"copysign_f", FN
     "vf copysign_f(vf x, vf y) { return (vf)(((vi)x & sp_i(0x7fffffff)) | ((vi)y & ~sp_i(0x7fffffff))); }\n"},
    {"copysign_d", FN
     "vd copysign_d(vd x, vd y) { vl s = sp_l(0x7fffffffffffffffLL); return (vd)(((vl)x & s) | ((vl)y & ~s)); }\n"},
    {"relu_f", FN "vf relu_f(vf x) { return (vf)((vi)x & ~(vi)(x < sp_f(0))); }\n"},
    {"relu_d", FN "vd relu_d(vd x) { return (vd)((vl)x & ~(vl)(x < sp_d(0))); }\n"},
    /* minps and maxps give the second operand when one is NaN; the or makes a NaN of the first one
     * last */
    {"min_f", "#if defined(MIN_PS)\n" FN
              "vf min_f(vf a, vf b) { return (vf)((vi)MIN_PS(a, b) | (vi)(a != a)); }\n"
              "#else\n" FN
              "vf min_f(vf a, vf b) { return sel_f((vi)(a < b) | (vi)(a != a), a, b); }\n#endif\n"},
    {"max_f", "#if defined(MAX_PS)\n" FN
              "vf max_f(vf a, vf b) { return (vf)((vi)MAX_PS(a, b) | (vi)(a != a)); }\n"
              "#else\n" FN
              "vf max_f(vf a, vf b) { return sel_f((vi)(a > b) | (vi)(a != a), a, b); }\n#endif\n"},
    /* of two that may lose a NaN */
    {"larger_f",
     "#if defined(MAX_PS)\n" FN "vf larger_f(vf a, vf b) { return MAX_PS(a, b); }\n"
     "#else\n" FN "vf larger_f(vf a, vf b) { return sel_f((vi)(a > b), a, b); }\n#endif\n"},
    {"min_d", FN
     "vd min_d(vd a, vd b) { vl m = (vl)(a < b) | (vl)(a != a); return (vd)((m & (vl)a) | (~m & (vl)b)); }\n"},
    {"max_d", FN
     "vd max_d(vd a, vd b) { vl m = (vl)(a > b) | (vl)(a != a); return (vd)((m & (vl)a) | (~m & (vl)b)); }\n"},
    {"fmin_f", FN "vf fmin_f(vf a, vf b) { return sel_f((vi)(a < b) | (vi)(b != b), a, b); }\n"},
    {"fmax_f", FN "vf fmax_f(vf a, vf b) { return sel_f((vi)(a > b) | (vi)(b != b), a, b); }\n"},
    {"fmin_d",
     FN "vd fmin_d(vd a, vd b) { return sel_d(mask_l((vl)(a < b) | (vl)(b != b)), a, b); }\n"},
    {"fmax_d",
     FN "vd fmax_d(vd a, vd b) { return sel_d(mask_l((vl)(a > b) | (vl)(b != b)), a, b); }\n"},
    {"sqrt_f", "#if defined(__AVX512F__) && VF == 16 && !defined(__clang__)\n" FN
               "vf sqrt_f(vf x) { return (vf)__builtin_ia32_sqrtps512_mask(x, x, -1, 4); }\n"
               "#elif defined(__AVX__) && VF == 8 && !defined(__clang__)\n" FN
               "vf sqrt_f(vf x) { return (vf)__builtin_ia32_sqrtps256(x); }\n"
               "#else\n" FN "vf sqrt_f(vf x) { vf r; " LANES
               "r[k] = __builtin_sqrtf(x[k]); return r; }\n#endif\n"},
    {"sqrt_d", FN "vd sqrt_d(vd x) { vd r; " LANES "r[k] = __builtin_sqrt(x[k]); return r; }\n"},
#define ROUNDING(name, builtin, mode)                                                              \
    {name "_f",                                                                                    \
     "#if defined(__AVX__) && VF == 8 && !defined(__clang__)\n" FN "vf " name                      \
     "_f(vf x) { return (vf)__builtin_ia32_roundps256(x, " mode "); }\n"                           \
     "#elif defined(__AVX512F__) && VF == 16 && !defined(__clang__)\n" FN "vf " name               \
     "_f(vf x) { return (vf)__builtin_ia32_rndscaleps_mask(x, " mode ", x, -1, 4); }\n#else\n" FN  \
     "vf " name "_f(vf x) { vf r; " LANES "r[k] = " builtin "f(x[k]); return r; }\n#endif\n"},     \
    {                                                                                              \
        name "_d",                                                                                 \
            FN "vd " name "_d(vd x) { vd r; " LANES "r[k] = " builtin "(x[k]); return r; }\n"      \
    }
    ROUNDING("floor", "__builtin_floor", "9"),
    ROUNDING("ceil", "__builtin_ceil", "10"),
    ROUNDING("trunc", "__builtin_trunc", "11"),
    ROUNDING("round", "__builtin_rint", "8"),
    /* x limited to c from above or below; NaN stays. minps gives its second operand when one is
     * NaN. */
    {"upto_f",
     "#if defined(MIN_PS)\n" FN "vf upto_f(vf x, float c) { return MIN_PS(sp_f(c), x); }\n"
     "#else\n" FN
     "vf upto_f(vf x, float c) { return sel_f((vi)(x > sp_f(c)), sp_f(c), x); }\n#endif\n"},
    {"from_f",
     "#if defined(MAX_PS)\n" FN "vf from_f(vf x, float c) { return MAX_PS(sp_f(c), x); }\n"
     "#else\n" FN
     "vf from_f(vf x, float c) { return sel_f((vi)(x < sp_f(c)), sp_f(c), x); }\n#endif\n"},
/* the functions of math.def on vectors */
#define M_F              "vf"
#define M_I              "vi"
#define M_SF(c)          "sp_f(" c ")"
#define M_SI(c)          "sp_i(" c ")"
#define M_BITS(e)        "(vi)" e
#define M_FLOAT(e)       "(vf)(" e ")"
#define M_MASK(e)        "(vi)(" e ")"
#define M_QUOTIENT(a, b) a " / " b
#define M_NAN            "__builtin_nanf(\"\")"
#define M_INF            "__builtin_inff()"
#define M_NAN64          "__builtin_nan(\"\")"
#define M_INF64          "__builtin_inf()"
#define M_COPYSIGN       "__builtin_copysign"
#define M_I64            "ll"
#define M_U64            "unsigned long long"
#define M_K64(c)         c "ull"
#define M_FN             FN
#define M_ONE            "static "
#define M_DECLARE(text)  text
#define M_FAR_SINCOS                                                                               \
    "  if (any_m((vi)(abs_f(x) > sp_f(8192.0f)))) " LANES                                          \
    "if (!(__builtin_fabsf(x[k]) <= 8192.0f)) y[k] = quarter ? cosf(x[k]) : sinf(x[k]);\n"
#define M_FAR_ANGLE ""
#include "codegen/math.def"
    LIBM1D("exp", "exp"),
    LIBM1D("log", "log"),
    LIBM1D("tanh", "tanh"),
    LIBM1D("erf", "erf"),
    LIBM1D("sin", "sin"),
    LIBM1D("cos", "cos"),
    LIBM1("exp2", "exp2f", "exp2"),
    LIBM1("expm1", "expm1f", "expm1"),
    LIBM1("log2", "log2f", "log2"),
    LIBM1("log10", "log10f", "log10"),
    LIBM1("log1p", "log1pf", "log1p"),
    LIBM1("tan", "tanf", "tan"),
    LIBM1("asin", "asinf", "asin"),
    LIBM1("acos", "acosf", "acos"),
    LIBM1("atan", "atanf", "atan"),
    LIBM1("sinh", "sinhf", "sinh"),
    LIBM1("cosh", "coshf", "cosh"),
    LIBM1("asinh", "asinhf", "asinh"),
    LIBM1("acosh", "acoshf", "acosh"),
    LIBM1("atanh", "atanhf", "atanh"),
    LIBM1("erfc", "erfcf", "erfc"),
    LIBM1("lgamma", "lgammaf", "lgamma"),
    LIBM2("pow", "powf", "pow"),
    LIBM2("atan2", "atan2f", "atan2"),
    LIBM2("hypot", "hypotf", "hypot"),
    LIBM2("fmod", "fmodf", "fmod"),
    {"erfinv_f",
     FN "vf erfinv_f(vf x) { vf r; " LANES "r[k] = (float)erfinv1(x[k]); return r; }\n"},
    {"erfinv_d", FN "vd erfinv_d(vd x) { vd r; " LANES "r[k] = erfinv1(x[k]); return r; }\n"},
    {"digamma_f",
     FN "vf digamma_f(vf x) { vf r; " LANES "r[k] = (float)digamma1(x[k]); return r; }\n"},
    {"digamma_d", FN "vd digamma_d(vd x) { vd r; " LANES "r[k] = digamma1(x[k]); return r; }\n"},
    {"zeta_f",
     FN "vf zeta_f(vf x, vf y) { vf r; " LANES "r[k] = (float)zeta1(x[k], y[k]); return r; }\n"},
    {"zeta_d", FN "vd zeta_d(vd x, vd y) { vd r; " LANES "r[k] = zeta1(x[k], y[k]); return r; }\n"},
/* floor division and remainder as eager PyTorch rounds them: through fmod */
#define FLOORDIV(c, T, sfx)                                                                        \
    {"remainder_" c,                                                                               \
     T " fmod" sfx "(" T ", " T "); " FN "v" c " remainder_" c "(v" c " x, v" c " y) { v" c        \
       " r; " LANES "{ " T " m = fmod" sfx                                                         \
       "(x[k], y[k]); r[k] = m != 0 && (m < 0) != (y[k] < 0) ? m + y[k] : m; } return r; }\n"},    \
    {                                                                                              \
        "floordiv_" c,                                                                             \
            T " fmod" sfx "(" T ", " T "); " FN "v" c " floordiv_" c "(v" c " x, v" c " y) { v" c  \
              " r; " LANES "{ " T " a = x[k], b = y[k], m = fmod" sfx "(a, b), q = (a - m) / b;"   \
              " if (b == 0) { r[k] = a / b; continue; } if (m != 0 && (b < 0) != (m < 0)) q -= 1;" \
              " " T " f = __builtin_floor" sfx "(q); if (q != 0) { if (q - f > (" T                \
              ")0.5) f += 1; }"                                                                    \
              " else f = __builtin_copysign" sfx "(0, a / b); r[k] = f; } return r; }\n"           \
    }
    FLOORDIV("f", "float", "f"),
    FLOORDIV("d", "double", ""),
/* ints */
#define INTS(c, T, U)                                                                              \
    {"abs_" c, FN "v" c " abs_" c "(v" c " x) { v" c " m = x >> (8 * (int)sizeof(" T               \
                  ") - 1); return (x ^ m) - m; }\n"},                                              \
        {"sign_" c, FN "v" c " sign_" c "(v" c " x) { return (v" c ")(x < sp_" c "(0)) - (v" c     \
                       ")(x > sp_" c "(0)); }\n"},                                                 \
        {"relu_" c,                                                                                \
         FN "v" c " relu_" c "(v" c " x) { return x & ~(v" c ")(x < sp_" c "(0)); }\n"},           \
        {"min_" c, FN "v" c " min_" c "(v" c " a, v" c " b) { v" c " m = (v" c                     \
                      ")(a < b); return (m & a) | (~m & b); }\n"},                                 \
        {"max_" c, FN "v" c " max_" c "(v" c " a, v" c " b) { v" c " m = (v" c                     \
                      ")(a > b); return (m & a) | (~m & b); }\n"},                                 \
        {"div_" c, FN "v" c " div_" c "(v" c " a, v" c " b) { v" c " r; " LANES                    \
                      "r[k] = b[k] == 0 ? 0 : b[k] == -1 ? (" T ")(0 - (" U                        \
                      ")a[k]) : a[k] / b[k]; return r; }\n"},                                      \
        {"floordiv_" c, FN                                                                         \
         "v" c " floordiv_" c "(v" c " a, v" c " b) { v" c " q = div_" c "(a, b), m = a - q * b;"  \
         " return q + ((v" c ")(m != sp_" c "(0)) & (v" c ")((m < sp_" c "(0)) != (b < sp_" c      \
         "(0))) & (v" c ")(b != sp_" c "(0))); }\n"},                                              \
        {"fmod_" c, FN "v" c " fmod_" c "(v" c " a, v" c " b) { return (a - div_" c                \
                       "(a, b) * b) & (v" c ")(b != sp_" c "(0)); }\n"},                           \
        {"remainder_" c,                                                                           \
         FN "v" c " remainder_" c "(v" c " a, v" c " b) { v" c " m = fmod_" c "(a, b);"            \
            " return m + (b & (v" c ")(m != sp_" c "(0)) & (v" c ")((m < sp_" c                    \
            "(0)) != (b < sp_" c "(0)))); }\n"},                                                   \
        {"pow_" c,                                                                                 \
         FN "v" c " pow_" c "(v" c " a, v" c " b) { v" c " r; " LANES "{ " U " x = (" U            \
            ")a[k], y = 1; " T                                                                     \
            " e = b[k]; if (e < 0) { y = a[k] == 1 ? 1 : a[k] == -1 ? ((e & 1) ? (" U              \
            ")-1 : 1) : 0; e = 0; }"                                                               \
            " for (; e; e >>= 1, x *= x) if (e & 1) y *= x; r[k] = (" T ")y; } return r; }\n"},    \
        {"gcd_" c, FN "v" c " gcd_" c "(v" c " a, v" c " b) { v" c " r; " LANES "{ " T             \
                      " x = a[k], y = b[k]; while (x) { " T                                        \
                      " t = x == -1 ? 0 : y % x; y = x; x = t; } r[k] = y; }"                      \
                      " return r; }\n"},                                                           \
        {"shl_" c, FN "v" c " shl_" c "(v" c " a, v" c " b) { v" c " r; " LANES                    \
                      "r[k] = b[k] < 0 || b[k] >= 8 * (int)sizeof(" T ") ? 0 : (" T ")((" U        \
                      ")a[k] << b[k]); return r; }\n"},                                            \
    {                                                                                              \
        "shr_" c, FN "v" c " shr_" c "(v" c " a, v" c " b) { v" c " r; " LANES                     \
                     "r[k] = a[k] >> (b[k] < 0 || b[k] >= 8 * (int)sizeof(" T                      \
                     ") ? 8 * (int)sizeof(" T ") - 1 : b[k]); return r; }\n"                       \
    }
    INTS("i", "int", "unsigned"),
    INTS("l", "ll", "unsigned long long"),
/* across lanes */
#define ACROSS(c, T)                                                                               \
    {"hsum_" c, FN T " hsum_" c "(v" c " a) { TREE(a, a + b) return a[0]; }\n"},                   \
        {"hprod_" c, FN T " hprod_" c "(v" c " a) { TREE(a, a * b) return a[0]; }\n"},             \
        {"hmin_" c, FN T " hmin_" c "(v" c " a) { TREE(a, min_" c "(a, b)) return a[0]; }\n"},     \
        {"hmax_" c, FN T " hmax_" c "(v" c " a) { TREE(a, max_" c "(a, b)) return a[0]; }\n"},     \
        {"argmax_" c, FN "void argmax_" c "(v" c " *a, vl *x, v" c " v, vl p) {\n"                 \
                         "  vi first = mask_l(p < *x), nan = nan_" c "(v);\n"                      \
                         "  vi take = (mask_" c "x(v > *a) & ~nan_" c "(*a)) | (mask_" c           \
                         "x(v == *a) & first) | (nan & (~nan_" c "(*a) | first));\n"               \
                         "  *a = sel_" c "(take, v, *a); *x = sel_l(take, p, *x); }\n"},           \
        {"argmin_" c, FN "void argmin_" c "(v" c " *a, vl *x, v" c " v, vl p) {\n"                 \
                         "  vi first = mask_l(p < *x), nan = nan_" c "(v);\n"                      \
                         "  vi take = (mask_" c "x(v < *a) & ~nan_" c "(*a)) | (mask_" c           \
                         "x(v == *a) & first) | (nan & (~nan_" c "(*a) | first));\n"               \
                         "  *a = sel_" c "(take, v, *a); *x = sel_l(take, p, *x); }\n"},           \
        {"hargmax_" c,                                                                             \
         FN "ll hargmax_" c "(v" c " a, vl x) { for (int k = 1; k < VF; k++) argmax_" c            \
            "(&a, &x, sp_" c "(a[k]), sp_l(x[k])); return x[0]; }\n"},                             \
        {"hargmin_" c,                                                                             \
         FN "ll hargmin_" c "(v" c " a, vl x) { for (int k = 1; k < VF; k++) argmin_" c            \
            "(&a, &x, sp_" c "(a[k]), sp_l(x[k])); return x[0]; }\n"},                             \
        {"cummax_" c, FN "void cummax_" c "(v" c " *a, vl *x, v" c " v, vl p) {\n"                 \
                         "  vi take = nan_" c "(v) | (mask_" c "x(v >= *a) & ~nan_" c              \
                         "(*a)); *a = sel_" c "(take, v, *a); *x = sel_l(take, p, *x); }\n"},      \
    {                                                                                              \
        "cummin_" c, FN "void cummin_" c "(v" c " *a, vl *x, v" c " v, vl p) {\n"                  \
                        "  vi take = nan_" c "(v) | (mask_" c "x(v <= *a) & ~nan_" c               \
                        "(*a)); *a = sel_" c "(take, v, *a); *x = sel_l(take, p, *x); }\n"         \
    }
    ACROSS("f", "float"),
    ACROSS("d", "double"),
    ACROSS("i", "int"),
    ACROSS("l", "ll"),
    {"nan_f", FN "vi nan_f(vf x) { return (vi)(x != x); }\n"},
    {"nan_d", FN "vi nan_d(vd x) { return mask_l((vl)(x != x)); }\n"},
    {"nan_i", FN "vi nan_i(vi x) { return x ^ x; }\n"},
    {"nan_l", FN "vi nan_l(vl x) { return mask_l(x ^ x); }\n"},
    {"mask_fx", FN "vi mask_fx(vi m) { return m; }\n"},
    {"mask_ix", FN "vi mask_ix(vi m) { return m; }\n"},
    {"mask_dx", FN "vi mask_dx(vl m) { return mask_l(m); }\n"},
    {"mask_lx", FN "vi mask_lx(vl m) { return mask_l(m); }\n"},
    {"hor_m", FN "int hor_m(vi m) { int r = 0; " LANES "r |= m[k]; return r; }\n"},
    {"hand_m", FN "int hand_m(vi m) { int r = -1; " LANES "r &= m[k]; return r; }\n"},
    {"lse_f",
     FN "vf lse_f(vf a, vf b) { vf m = max_f(a, b); vf r = m + log_f(exp_f(a - m) + exp_f(b - m));"
        " return sel_f((vi)(abs_f(m) == sp_f(__builtin_inff())), m, r); }\n"},
    {"lse_d",
     FN "vd lse_d(vd a, vd b) { vd m = max_d(a, b); vd r = m + log_d(exp_d(a - m) + exp_d(b - m));"
        " return sel_d(mask_l((vl)(abs_d(m) == sp_d(__builtin_inf()))), m, r); }\n"},
/* VF narrow integers in a row as ints. gcc 12 widens halves where a vector has 64 bytes */
#define WIDEN(name, type, vector, instruction, from)                                               \
    {                                                                                              \
        "widen_" name,                                                                             \
            "#if defined(__AVX512F__) && VF == 16 && !defined(__clang__)\n" FN "vi widen_" name    \
            "(const " type " *p) { return (vi)__builtin_ia32_" instruction "((" from               \
            ")*(const " vector " *)p, (vi){0}, -1); }\n#else\n" FN "vi widen_" name "(const " type \
            " *p) { return __builtin_convertvector(*(const " vector " *)p, vi); }\n#endif\n"       \
    }
    WIDEN("u16", "unsigned short", "vwu", "pmovzxwd512_mask", "vsu"),
    WIDEN("i16", "short", "vsu", "pmovsxwd512_mask", "vsu"),
    WIDEN("u8", "unsigned char", "vbu", "pmovzxbd512_mask",
          "char __attribute__((vector_size(16)))"),
    WIDEN("i8", "signed char", "vcu", "pmovsxbd512_mask", "char __attribute__((vector_size(16)))"),
    /* one element in all lanes; set lane by lane, a load would wait for the stores */
    {"lp_f32", FN "vf lp_f32(const float *p) { return sp_f(*p); }\n"},
    {"lp_f64", FN "vd lp_f64(const double *p) { return sp_d(*p); }\n"},
    {"lp_i64", FN "vl lp_i64(const ll *p) { return sp_l(*p); }\n"},
    {"lp_i32", FN "vi lp_i32(const int *p) { return sp_i(*p); }\n"},
    {"lp_i16", FN "vi lp_i16(const short *p) { return sp_i(*p); }\n"},
    {"lp_i8", FN "vi lp_i8(const signed char *p) { return sp_i(*p); }\n"},
    {"lp_u8", FN "vi lp_u8(const unsigned char *p) { return sp_i(*p); }\n"},
    {"lp_bool", FN "vi lp_bool(const unsigned char *p) { return sp_i(-(*p != 0)); }\n"},
    {"lp_bf16", FN "vf lp_bf16(const unsigned short *p) { return (vf)(sp_i(*p) << 16); }\n"},
    {"lp_f16", FN "vf lp_f16(const unsigned short *p) { return h_f(sp_i(*p)); }\n"},
    /* loads and stores of VF elements in a row */
    {"ld_f32", FN "vf ld_f32(const float *p) { return *(const vfu *)p; }\n"},
    {"ld_f64", FN "vd ld_f64(const double *p) { return *(const vdu *)p; }\n"},
    {"ld_i64", FN "vl ld_i64(const ll *p) { return *(const vlu *)p; }\n"},
    {"ld_i32", FN "vi ld_i32(const int *p) { return *(const viu *)p; }\n"},
    {"ld_i16", FN "vi ld_i16(const short *p) { return widen_i16(p); }\n"},
    {"ld_i8", FN "vi ld_i8(const signed char *p) { return widen_i8(p); }\n"},
    {"ld_u8", FN "vi ld_u8(const unsigned char *p) { return widen_u8(p); }\n"},
    {"ld_bool", FN "vi ld_bool(const unsigned char *p) { return (vi)(widen_u8(p) != sp_i(0)); }\n"},
    {"ld_bf16", FN "vf ld_bf16(const unsigned short *p) { return (vf)(widen_u16(p) << 16); }\n"},
    {"ld_f16", FN "vf ld_f16(const unsigned short *p) { return h_f(widen_u16(p)); }\n"},
    {"st_f32", FN "void st_f32(float *p, vf v) { *(vfu *)p = v; }\n"},
    {"st_f64", FN "void st_f64(double *p, vd v) { *(vdu *)p = v; }\n"},
    {"st_i64", FN "void st_i64(ll *p, vl v) { *(vlu *)p = v; }\n"},
    {"st_i32", FN "void st_i32(int *p, vi v) { *(viu *)p = v; }\n"},
    {"st_i16", FN "void st_i16(short *p, vi v) { *(vsu *)p = (vsu)narrow_16(v); }\n"},
    {"st_i8",
     FN "void st_i8(signed char *p, vi v) { *(vcu *)p = __builtin_convertvector(v, vcu); }\n"},
    {"st_u8",
     FN "void st_u8(unsigned char *p, vi v) { *(vbu *)p = __builtin_convertvector(v, vbu); }\n"},
    {"st_bool",
     FN "void st_bool(unsigned char *p, vi v) { *(vbu *)p = __builtin_convertvector(-v, vbu); }\n"},
    {"narrow_16",
     "#if defined(__AVX512F__) && VF == 16 && !defined(__clang__)\n" FN
     "vwu narrow_16(vi v) { return (vwu)__builtin_ia32_pmovdw512_mask(v, (vsu){0}, -1); }\n"
     "#else\n" FN "vwu narrow_16(vi v) { return __builtin_convertvector(v, vwu); }\n#endif\n"},
    {"st_bf16",
     FN "void st_bf16(unsigned short *p, vf v) { *(vwu *)p = narrow_16(bits_bf16(v)); }\n"},
    /* past the caches, for results much larger than they; an address that is not aligned takes the
     * plain way */
    {"nt_f32",
     "#if defined(STREAM_PS)\n" FN
     "void nt_f32(float *p, vf v) { if (((unsigned long long)p & (4 * VF - 1)) == 0) STREAM_PS(p, v); else *(vfu *)p = v; }\n"
     "#else\n" FN "void nt_f32(float *p, vf v) { *(vfu *)p = v; }\n#endif\n"},
    {"na_f32", "#if defined(STREAM_PS)\n" FN "void na_f32(float *p, vf v) { STREAM_PS(p, v); }\n"
               "#else\n" FN "void na_f32(float *p, vf v) { *(vfu *)p = v; }\n#endif\n"},
    {"nt_i32", FN "void nt_i32(int *p, vi v) { nt_f32((float *)p, (vf)v); }\n"},
    {"nt_f64",
     "#if defined(STREAM_PS)\n" FN
     "void nt_f64(double *p, vd v) { union { vd v; vf h[2]; } u = {v};"
     " if (((unsigned long long)p & (4 * VF - 1)) == 0) { STREAM_PS((float *)p, u.h[0]); STREAM_PS((float *)p + VF, u.h[1]); } else *(vdu *)p = v; }\n"
     "#else\n" FN "void nt_f64(double *p, vd v) { *(vdu *)p = v; }\n#endif\n"},
    {"nt_i64", FN "void nt_i64(ll *p, vl v) { nt_f64((double *)p, (vd)v); }\n"},
    {"nt_16",
     "#if defined(__AVX512F__) && VF == 16 && !defined(__clang__)\n"
     "typedef ll v4l __attribute__((vector_size(32)));\n#define STREAM_16(p, v) __builtin_ia32_movntdq256((v4l *)(p), (v4l)(v))\n"
     "#elif defined(__SSE2__) && VF == 8 && !defined(__clang__)\n"
     "typedef ll v2l __attribute__((vector_size(16)));\n#define STREAM_16(p, v) __builtin_ia32_movntdq((v2l *)(p), (v2l)(v))\n"
     "#endif\n"
     "#if defined(STREAM_16)\n" FN
     "void nt_16(void *p, vwu v) { if (((unsigned long long)p & (2 * VF - 1)) == 0) STREAM_16(p, v); else *(vwu *)p = v; }\n"
     "#else\n" FN "void nt_16(void *p, vwu v) { *(vwu *)p = v; }\n#endif\n"},
    {"nt_bf16",
     FN "void nt_bf16(unsigned short *p, vf v) { nt_16(p, narrow_16(bits_bf16(v))); }\n"},
    {"nt_f16", FN "void nt_f16(unsigned short *p, vf v) { nt_16(p, narrow_16(f_h(v))); }\n"},
    {"nt_i16", FN "void nt_i16(short *p, vi v) { nt_16(p, narrow_16(v)); }\n"},
    {"nt_fence", "#if defined(STREAM_PS)\n" FN "void nt_fence(void) { __builtin_ia32_sfence(); }\n"
                 "#else\n" FN "void nt_fence(void) {}\n#endif\n"},
    {"st_f16", FN "void st_f16(unsigned short *p, vf v) { *(vwu *)p = narrow_16(f_h(v)); }\n"},
    /* a VF x VF square: rows of p are s elements apart, those of t w; t[u * w + k] = p[k * s + u].
     * Of 8 x 8, or four of these. */
    {"tile8",
     "#if VF >= 8\ntypedef float v8 __attribute__((vector_size(32)));\n"
     "typedef float v8u __attribute__((vector_size(32), aligned(4), may_alias));\n" FN
     "void tile8(const float *p, ll s, float *t, ll w) {\n"
     "  v8 a = *(const v8u *)p, b = *(const v8u *)(p + s), c = *(const v8u *)(p + 2 * s), d = *(const v8u *)(p + 3 * s);\n"
     "  v8 e = *(const v8u *)(p + 4 * s), f = *(const v8u *)(p + 5 * s), g = *(const v8u *)(p + 6 * s), h = *(const v8u *)(p + 7 * s);\n"
     "#define LO(x, y) __builtin_shufflevector(x, y, 0, 8, 1, 9, 4, 12, 5, 13)\n"
     "#define HI(x, y) __builtin_shufflevector(x, y, 2, 10, 3, 11, 6, 14, 7, 15)\n"
     "#define P0(x, y) __builtin_shufflevector(x, y, 0, 1, 8, 9, 4, 5, 12, 13)\n"
     "#define P1(x, y) __builtin_shufflevector(x, y, 2, 3, 10, 11, 6, 7, 14, 15)\n"
     "#define H0(x, y) __builtin_shufflevector(x, y, 0, 1, 2, 3, 8, 9, 10, 11)\n"
     "#define H1(x, y) __builtin_shufflevector(x, y, 4, 5, 6, 7, 12, 13, 14, 15)\n"
     "  v8 ab = LO(a, b), AB = HI(a, b), cd = LO(c, d), CD = HI(c, d), ef = LO(e, f), EF = HI(e, f), gh = LO(g, h), GH = HI(g, h);\n"
     "  v8 w0 = P0(ab, cd), w1 = P1(ab, cd), w2 = P0(AB, CD), w3 = P1(AB, CD);\n"
     "  v8 z0 = P0(ef, gh), z1 = P1(ef, gh), z2 = P0(EF, GH), z3 = P1(EF, GH);\n"
     "#define ROW(u, v) *(v8 *)(t + u * w) = v;\n"
     "  ROW(0, H0(w0, z0)) ROW(1, H0(w1, z1)) ROW(2, H0(w2, z2)) ROW(3, H0(w3, z3))\n"
     "  ROW(4, H1(w0, z0)) ROW(5, H1(w1, z1)) ROW(6, H1(w2, z2)) ROW(7, H1(w3, z3))\n}\n#endif\n"},
    {"tile_f32",
     "#if VF >= 8\n" FN "void tile_f32(const float *p, ll s, float *t, ll w) {\n"
     "  for (int y = 0; y < VF; y += 8) for (int x = 0; x < VF; x += 8) tile8(p + y * s + x, s, t + x * w + y, w);\n}\n"
     "#else\n" FN
     "void tile_f32(const float *p, ll s, float *t, ll w) { for (int k = 0; k < VF; k++) " LANES_U
     "t[u * w + k] = p[k * s + u]; }\n#endif\n"},
    /* every second element of 8 or 16 lanes: by two loads and a shuffle, which read nothing behind
     * the last one. A detour over memory waits for its stores */
    {"lds_f32",
     "#if VF == 16\n#define SECOND(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31)\n"
     "#elif VF == 8\n#define SECOND(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 9, 11, 13, 15)\n"
     "#endif\n" FN "vf lds_f32(const float *p, ll s) {\n"
     "#if VF >= 8\n"
     "  if (__builtin_constant_p(s) && s == 2) { vf a = ld_f32(p), b = ld_f32(p + VF - 1); return SECOND(a, b); }\n"
     "#endif\n"
     "  float t[VF]; " LANES "t[k] = p[k * s]; return ld_f32(t); }\n"},
    /* the first n lanes, in one instruction. A detour over memory waits for its stores: rows of 10
     * took 100 ns longer than rows of 16 */
    {"ldn_f32",
     "#if defined(__AVX512F__) && VF == 16 && !defined(__clang__)\n" FN
     "vf ldn_f32(const float *p, ll n) { return (vf)__builtin_ia32_loadups512_mask(p, (vf){0}, (unsigned short)((1u << n) - 1)); }\n"
     "#elif defined(__AVX__) && VF == 8 && !defined(__clang__)\n" FN
     "vf ldn_f32(const float *p, ll n) { return (vf)__builtin_ia32_maskloadps256((const vf *)p, lanes_below(n)); }\n"
     "#else\n" FN
     "vf ldn_f32(const float *p, ll n) { float t[VF] = {0}; for (ll k = 0; k < n; k++) t[k] = p[k]; return ld_f32(t); }\n"
     "#endif\n"},
    {"stn_f32",
     "#if defined(__AVX512F__) && VF == 16 && !defined(__clang__)\n" FN
     "void stn_f32(float *p, vf v, ll n) { __builtin_ia32_storeups512_mask(p, v, (unsigned short)((1u << n) - 1)); }\n"
     "#elif defined(__AVX__) && VF == 8 && !defined(__clang__)\n" FN
     "void stn_f32(float *p, vf v, ll n) { __builtin_ia32_maskstoreps256((vf *)p, lanes_below(n), v); }\n"
     "#else\n" FN
     "void stn_f32(float *p, vf v, ll n) { float t[VF]; st_f32(t, v); for (ll k = 0; k < n; k++) p[k] = t[k]; }\n"
     "#endif\n"},
    {"few_16",
     "#if defined(__AVX512BW__) && defined(__AVX512VL__) && VF == 16 && !defined(__clang__)\n" FN
     "vi few_16(const unsigned short *p, ll n) { return (vi)__builtin_ia32_pmovzxwd512_mask(__builtin_ia32_loaddquhi256_mask((const short *)p, (short __attribute__((vector_size(32)))){0}, (unsigned short)((1u << n) - 1)), (vi){0}, -1); }\n"
     "#else\n" FN
     "vi few_16(const unsigned short *p, ll n) { unsigned short t[VF] = {0}; for (ll k = 0; k < n; k++) t[k] = p[k]; return widen_u16(t); }\n"
     "#endif\n"},
    {"put_16",
     "#if defined(__AVX512BW__) && defined(__AVX512VL__) && VF == 16 && !defined(__clang__)\n" FN
     "void put_16(unsigned short *p, vwu v, ll n) { __builtin_ia32_storedquhi256_mask((short *)p, (vsu)v, (unsigned short)((1u << n) - 1)); }\n"
     "#else\n" FN
     "void put_16(unsigned short *p, vwu v, ll n) { unsigned short t[VF]; *(vwu *)t = v; for (ll k = 0; k < n; k++) p[k] = t[k]; }\n"
     "#endif\n"},
    {"ldn_bf16",
     FN "vf ldn_bf16(const unsigned short *p, ll n) { return (vf)(few_16(p, n) << 16); }\n"},
    {"ldn_f16", FN "vf ldn_f16(const unsigned short *p, ll n) { return h_f(few_16(p, n)); }\n"},
    {"stn_bf16", FN
     "void stn_bf16(unsigned short *p, vf v, ll n) { put_16(p, narrow_16(bits_bf16(v)), n); }\n"},
    {"stn_f16",
     FN "void stn_f16(unsigned short *p, vf v, ll n) { put_16(p, narrow_16(f_h(v)), n); }\n"},
    {"random_uniform",
     "static double random_uniform(ll seed, ll at, ll stream, int bits) {\n"
     "  unsigned w = philox((unsigned long long)seed, (unsigned long long)at / 4, (unsigned long long)stream, (int)(at % 4));\n"
     "  return (w >> (32 - bits)) / (double)(1ull << bits);\n}\n"},
};

/* Access patterns over every dtype: @T element type, @V vector type, @N dtype name. */
const hn_snippet c_patterns[] = {
    {"ldn_", FN
     "@V ldn_@N(const @T *p, ll n) { @T t[VF] = {0}; for (ll k = 0; k < n; k++) t[k] = p[k]; return ld_@N(t); }\n"},
    {"lds_",
     FN "@V lds_@N(const @T *p, ll s) { @T t[VF]; " LANES "t[k] = p[k * s]; return ld_@N(t); }\n"},
    {"ldsn_", FN
     "@V ldsn_@N(const @T *p, ll s, ll n) { @T t[VF] = {0}; for (ll k = 0; k < n; k++) t[k] = p[k * s]; return ld_@N(t); }\n"},
    {"stn_", FN
     "void stn_@N(@T *p, @V v, ll n) { @T t[VF]; st_@N(t, v); for (ll k = 0; k < n; k++) p[k] = t[k]; }\n"},
    {"sts_", FN
     "void sts_@N(@T *p, ll s, @V v, ll n) { @T t[VF]; st_@N(t, v); for (ll k = 0; k < n; k++) p[k * s] = t[k]; }\n"},
    {"stg_", FN
     "void stg_@N(@T *p, vl o, @V v, ll n) { @T t[VF]; st_@N(t, v); for (ll k = 0; k < n; k++) p[o[k]] = t[k]; }\n"},
    {"tile_",
     FN "void tile_@N(const @T *p, ll s, @T *t, ll w) { for (int k = 0; k < VF; k++) " LANES_U
        "t[u * w + k] = p[k * s + u]; }\n"},
    /* q[u * w + v] = p[v * s + u] for u < rows, v < columns */
    {"block_",
     "static void block_@N(const @T *p, ll s, ll rows, ll columns, @T *q, ll w) {\n"
     "  ll v = 0;\n"
     "  for (; v + VF <= columns; v += VF) {\n"
     "    ll u = 0;\n"
     "    for (; u + VF <= rows; u += VF) tile_@N(p + v * s + u, s, q + u * w + v, w);\n"
     "    for (; u < rows; u++) " LANES "q[u * w + v + k] = p[(v + k) * s + u];\n"
     "  }\n"
     "  for (; v < columns; v++) for (ll u = 0; u < rows; u++) q[u * w + v] = p[v * s + u];\n}\n"},
    {"s1_", FN "void s1_@N(@T *p, @V v) { @T t[VF]; st_@N(t, v); *p = t[0]; }\n"},
};

const uint32_t c_snippet_count = HN_COUNT_OF(c_snippets), c_pattern_count = HN_COUNT_OF(c_patterns);
