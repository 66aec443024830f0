/* snippets.c: the text that generated kernels lean on. A snippet is emitted when its name occurs in the text of a unit.
 * Lane classes: f = float, d = double, i = int, l = long long, m = int mask (0 or -1); VF lanes each.
 * Polynomials: tools/fit_math.py. */
#include "codegen/c/mathlib.h"

#include "base/compiler.h"

#define FN "static inline __attribute__((always_inline)) "
#define LANES_U "_Pragma(\"GCC unroll 16\") for (int u = 0; u < VF; u++) "
#define LANES "_Pragma(\"GCC unroll 16\") for (int k = 0; k < VF; k++) "
/* A function of libm, lane by lane: rare ops and f64, where inline polynomials would not pay. */
#define LIBM1(name, f, d)                                                                                              \
    {name "_f", "float " f "(float); " FN "vf " name "_f(vf x) { vf r; " LANES "r[k] = " f "(x[k]); return r; }\n"},  \
    {name "_d", "double " d "(double); " FN "vd " name "_d(vd x) { vd r; " LANES "r[k] = " d "(x[k]); return r; }\n"}
#define LIBM1D(name, d)                                                                                                \
    {name "_d", "double " d "(double); " FN "vd " name "_d(vd x) { vd r; " LANES "r[k] = " d "(x[k]); return r; }\n"}
#define LIBM2(name, f, d)                                                                                              \
    {name "_f", "float " f "(float, float); " FN "vf " name "_f(vf x, vf y) { vf r; " LANES                            \
                "r[k] = " f "(x[k], y[k]); return r; }\n"},                                                            \
    {name "_d", "double " d "(double, double); " FN "vd " name "_d(vd x, vd y) { vd r; " LANES                         \
                "r[k] = " d "(x[k], y[k]); return r; }\n"}

const c_snippet c_snippets[] = {
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
    {"sel_d", FN "vd sel_d(vi m, vd a, vd b) { vl w = wide(m); return (vd)((w & (vl)a) | (~w & (vl)b)); }\n"},
    {"sel_l", FN "vl sel_l(vi m, vl a, vl b) { vl w = wide(m); return (w & a) | (~w & b); }\n"},
    {"any_m", "#if defined(__AVX__) && VF == 8 && !defined(__clang__)\n" FN
              "int any_m(vi m) { return __builtin_ia32_movmskps256((vf)m); }\n"
              "#elif defined(__AVX512F__) && VF == 16 && !defined(__clang__)\n" FN
              "int any_m(vi m) { return __builtin_ia32_ptestmd512(m, m, -1); }\n"
              "#else\n" FN "int any_m(vi m) { int r = 0; " LANES "r |= m[k]; return r; }\n#endif\n"},
    {"lanes_below", FN "vi lanes_below(ll n) { return (vi)(IOTA_I < sp_i((int)n)); }\n"},
    {"fdiv", FN "ll fdiv(ll a, ll b) { ll q = a / b; return q - ((a % b != 0) & ((a < 0) != (b < 0))); }\n"},
    {"fmodll", FN "ll fmodll(ll a, ll b) { ll r = a % b; return r + (((r != 0) & ((r < 0) != (b < 0))) ? b : 0); }\n"},
    {"imin", FN "ll imin(ll a, ll b) { return a < b ? a : b; }\n"},
    {"bounded", FN "ll bounded(ll x, ll e) { x += x < 0 ? e : 0; return (unsigned long long)x < (unsigned long long)e ? x : 0; }\n"},
    {"imax", FN "ll imax(ll a, ll b) { return a > b ? a : b; }\n"},
    /* a product to which something is added: rounded first. clang adds to products of the same expression only. gcc 12 takes floats
     * apart for its builtin where there is AVX-512, and before gcc 12 there is none: a register that a statement might change is as good */
    {"rounded_f", "#if defined(__clang__)\n#define rounded_f(e) (e)\n"
                  "#elif defined(__x86_64__) && (__GNUC__ < 12 || defined(__AVX512F__))\n" FN
                  "vf rounded_f(vf x) { __asm__(\"\" : \"+v\"(x)); return x; }\n"
                  "#elif __GNUC__ >= 12\n#define rounded_f(e) __builtin_assoc_barrier(e)\n"
                  "#else\n#define rounded_f(e) (e)\n#endif\n"},
    {"rounded_d", "#if __GNUC__ >= 12 && !defined(__clang__)\n#define rounded_d(e) __builtin_assoc_barrier(e)\n"
                  "#else\n#define rounded_d(e) (e)\n#endif\n"},
    /* casts: x86's float to int conversion; out of range is undefined in PyTorch too */
    {"f_l", FN "vl f_l(vf x) { return __builtin_convertvector(x, vl); }\n"},
    {"f_i", FN "vi f_i(vf x) { return __builtin_convertvector(x, vi); }\n"},
    /* not __builtin_convertvector: gcc 12 fails on it for vectors wider than the machine's */
    {"f_d", FN "vd f_d(vf x) { vd r; " LANES "r[k] = x[k]; return r; }\n"},
    {"f_m", FN "vi f_m(vf x) { return (vi)(x != sp_f(0)); }\n"},
    {"d_f", FN "vf d_f(vd x) { return __builtin_convertvector(x, vf); }\n"},
    {"d_l", FN "vl d_l(vd x) { return __builtin_convertvector(x, vl); }\n"},
    {"d_i", FN "vi d_i(vd x) { return __builtin_convertvector(__builtin_convertvector(x, vl), vi); }\n"},
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
    {"round_bf16", FN "vf round_bf16(vf x) { vi u = (vi)x; vi r = (u + sp_i(0x7fff) + ((u >> 16) & 1)) & sp_i(0xffff0000);"
                   " return (vf)sel_i((vi)(x == x), r, u | sp_i(0x400000)); }\n"},
    {"f_h", FN "vi f_h(vf x) { vi u = (vi)x, a = u & sp_i(0x7fffffff), s = (u >> 16) & sp_i(0x8000);\n"
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
    {"copysign_f", FN "vf copysign_f(vf x, vf y) { return (vf)(((vi)x & sp_i(0x7fffffff)) | ((vi)y & ~sp_i(0x7fffffff))); }\n"},
    {"copysign_d", FN "vd copysign_d(vd x, vd y) { vl s = sp_l(0x7fffffffffffffffLL); return (vd)(((vl)x & s) | ((vl)y & ~s)); }\n"},
    {"relu_f", FN "vf relu_f(vf x) { return (vf)((vi)x & ~(vi)(x < sp_f(0))); }\n"},
    {"relu_d", FN "vd relu_d(vd x) { return (vd)((vl)x & ~(vl)(x < sp_d(0))); }\n"},
    /* minps and maxps give the second operand when one is NaN; the or makes a NaN of the first one last */
    {"min_f", "#if defined(MIN_PS)\n" FN "vf min_f(vf a, vf b) { return (vf)((vi)MIN_PS(a, b) | (vi)(a != a)); }\n"
              "#else\n" FN "vf min_f(vf a, vf b) { return sel_f((vi)(a < b) | (vi)(a != a), a, b); }\n#endif\n"},
    {"max_f", "#if defined(MAX_PS)\n" FN "vf max_f(vf a, vf b) { return (vf)((vi)MAX_PS(a, b) | (vi)(a != a)); }\n"
              "#else\n" FN "vf max_f(vf a, vf b) { return sel_f((vi)(a > b) | (vi)(a != a), a, b); }\n#endif\n"},
    /* of two that may lose a NaN */
    {"larger_f", "#if defined(MAX_PS)\n" FN "vf larger_f(vf a, vf b) { return MAX_PS(a, b); }\n"
                 "#else\n" FN "vf larger_f(vf a, vf b) { return sel_f((vi)(a > b), a, b); }\n#endif\n"},
    {"min_d", FN "vd min_d(vd a, vd b) { vl m = (vl)(a < b) | (vl)(a != a); return (vd)((m & (vl)a) | (~m & (vl)b)); }\n"},
    {"max_d", FN "vd max_d(vd a, vd b) { vl m = (vl)(a > b) | (vl)(a != a); return (vd)((m & (vl)a) | (~m & (vl)b)); }\n"},
    {"fmin_f", FN "vf fmin_f(vf a, vf b) { return sel_f((vi)(a < b) | (vi)(b != b), a, b); }\n"},
    {"fmax_f", FN "vf fmax_f(vf a, vf b) { return sel_f((vi)(a > b) | (vi)(b != b), a, b); }\n"},
    {"fmin_d", FN "vd fmin_d(vd a, vd b) { return sel_d(mask_l((vl)(a < b) | (vl)(b != b)), a, b); }\n"},
    {"fmax_d", FN "vd fmax_d(vd a, vd b) { return sel_d(mask_l((vl)(a > b) | (vl)(b != b)), a, b); }\n"},
    {"sqrt_f", "#if defined(__AVX512F__) && VF == 16 && !defined(__clang__)\n" FN
               "vf sqrt_f(vf x) { return (vf)__builtin_ia32_sqrtps512_mask(x, x, -1, 4); }\n"
               "#elif defined(__AVX__) && VF == 8 && !defined(__clang__)\n" FN
               "vf sqrt_f(vf x) { return (vf)__builtin_ia32_sqrtps256(x); }\n"
               "#else\n" FN "vf sqrt_f(vf x) { vf r; " LANES "r[k] = __builtin_sqrtf(x[k]); return r; }\n#endif\n"},
    {"sqrt_d", FN "vd sqrt_d(vd x) { vd r; " LANES "r[k] = __builtin_sqrt(x[k]); return r; }\n"},
#define ROUNDING(name, builtin, mode)                                                                                  \
    {name "_f", "#if defined(__AVX__) && VF == 8 && !defined(__clang__)\n" FN "vf " name                               \
                "_f(vf x) { return (vf)__builtin_ia32_roundps256(x, " mode "); }\n"                                    \
                "#elif defined(__AVX512F__) && VF == 16 && !defined(__clang__)\n" FN "vf " name                        \
                "_f(vf x) { return (vf)__builtin_ia32_rndscaleps_mask(x, " mode ", x, -1, 4); }\n#else\n" FN "vf " name \
                "_f(vf x) { vf r; " LANES "r[k] = " builtin "f(x[k]); return r; }\n#endif\n"},                         \
    {name "_d", FN "vd " name "_d(vd x) { vd r; " LANES "r[k] = " builtin "(x[k]); return r; }\n"}
    ROUNDING("floor", "__builtin_floor", "9"),
    ROUNDING("ceil", "__builtin_ceil", "10"),
    ROUNDING("trunc", "__builtin_trunc", "11"),
    ROUNDING("round", "__builtin_rint", "8"),
    /* x limited to c from above or below; NaN stays. minps gives its second operand when one is NaN. */
    {"upto_f", "#if defined(MIN_PS)\n" FN "vf upto_f(vf x, float c) { return MIN_PS(sp_f(c), x); }\n"
               "#else\n" FN "vf upto_f(vf x, float c) { return sel_f((vi)(x > sp_f(c)), sp_f(c), x); }\n#endif\n"},
    {"from_f", "#if defined(MAX_PS)\n" FN "vf from_f(vf x, float c) { return MAX_PS(sp_f(c), x); }\n"
               "#else\n" FN "vf from_f(vf x, float c) { return sel_f((vi)(x < sp_f(c)), sp_f(c), x); }\n#endif\n"},
    /* e^x of x <= 89.5: 2^(n-1) * 2e^r, |r| <= ln2/2: the scale stays finite where the product becomes infinite, and is 0 for the
     * lowest n, so that results below 2^-125.5 become 0. ln 2 in two pieces: in one, the error grows to 5 ulp at e^-87. */
    {"exp0_f", FN "vf exp0_f(vf x) {\n"
               "  x = from_f(x, -87.3f);\n"
               "  vf n = x * sp_f(1.44269504f) + sp_f(12582912.0f);\n"
               "  vf scale = (vf)(((vi)n << 23) + sp_i(0x3f000000));\n"
               "  n = n - sp_f(12582912.0f);\n"
               "  vf r = x - n * sp_f(0.693359375f);\n"
               "  r = r - n * sp_f(-2.12194440e-4f);\n"
               "  vf p = sp_f(2.762775868e-03f);\n"
               "  p = p * r + sp_f(1.673812792e-02f);\n"
               "  p = p * r + sp_f(8.333684504e-02f);\n"
               "  p = p * r + sp_f(3.333303630e-01f);\n"
               "  p = p * r + sp_f(9.999998808e-01f);\n"
               "  p = p * r + sp_f(2.0f);\n"
               "  return (p * r + sp_f(2.0f)) * scale;\n"
               "}\n"},
    {"exp_f", FN "vf exp_f(vf x) { return exp0_f(upto_f(x, 89.5f)); }\n"},
    /* ln x: x = 2^e * (1+f), sqrt(1/2) <= 1+f < sqrt(2). Error < 1.5 ulp. */
    {"log_f", FN "vf log_f(vf x) {\n"
              "  vi tiny = (vi)(x < sp_f(1.17549435e-38f));\n"
              "  vf y = sel_f(tiny, x * sp_f(8388608.0f), x);\n"
              "  vi u = (vi)y - sp_i(0x3f3504f3);\n"
              "  vi e = u >> 23;\n"
              "  vf f = (vf)((u & sp_i(0x007fffff)) + sp_i(0x3f3504f3)) - sp_f(1.0f);\n"
              "  vf n = i_f(e - (tiny & sp_i(23)));\n"
              "  vf p = sp_f(7.037585588e-02f);\n"
              "  p = p * f + sp_f(-1.151455635e-01f);\n"
              "  p = p * f + sp_f(1.167701015e-01f);\n"
              "  p = p * f + sp_f(-1.242014946e-01f);\n"
              "  p = p * f + sp_f(1.424932260e-01f);\n"
              "  p = p * f + sp_f(-1.666805726e-01f);\n"
              "  p = p * f + sp_f(2.000071476e-01f);\n"
              "  p = p * f + sp_f(-2.499999400e-01f);\n"
              "  p = p * f + sp_f(3.333333117e-01f);\n"
              "  vf ff = f * f;\n"
              "  vf r = p * f * ff + n * sp_f(-2.12194440e-4f) - sp_f(0.5f) * ff + f + n * sp_f(0.693359375f);\n"
              "  r = sel_f((vi)(x == sp_f(__builtin_inff())), x, r);\n"
              "  r = sel_f((vi)(x == sp_f(0)), sp_f(-__builtin_inff()), r);\n"
              "  return sel_f((vi)(x < sp_f(0)) | (vi)(x != x), sp_f(__builtin_nanf(\"\")), r);\n"
              "}\n"},
    /* tanh: x P(x^2) / Q(x^2), at most 1. From 9.4 on, where the quotient is above 1, that is exactly 1. Error < 6 ulp. */
    {"tanh_f", FN "vf tanh_f(vf x) {\n"
               "  x = from_f(upto_f(x, 9.4f), -9.4f);\n"
               "  vf t = x * x;\n"
               "  vf p = sp_f(1.335486852e-08f);\n"
               "  p = p * t + sp_f(2.060926296e-05f);\n"
               "  p = p * t + sp_f(3.495600540e-03f);\n"
               "  p = p * t + sp_f(1.338103659e-01f);\n"
               "  p = p * t + sp_f(9.999999795e-01f);\n"
               "  vf q = sp_f(7.776652130e-07f);\n"
               "  q = q * t + sp_f(3.285654091e-04f);\n"
               "  q = q * t + sp_f(2.587703097e-02f);\n"
               "  q = q * t + sp_f(4.671435221e-01f);\n"
               "  q = q * t + sp_f(1.0f);\n"
               "  return from_f(upto_f(x * p / q, 1.0f), -1.0f);\n"
               "}\n"},
    /* erf: x P(x^2) / Q(x^2), at most 1. From 4.08 on, where the quotient is above 1, that is exactly 1. Error < 6.5 ulp. */
    {"erf_f", FN "vf erf_f(vf x) {\n"
              "  x = from_f(upto_f(x, 4.08f), -4.08f);\n"
              "  vf t = x * x;\n"
              "  vf p = sp_f(2.025851611e-06f);\n"
              "  p = p * t + sp_f(2.846829623e-04f);\n"
              "  p = p * t + sp_f(3.808147121e-03f);\n"
              "  p = p * t + sp_f(5.287540829e-02f);\n"
              "  p = p * t + sp_f(1.915505902e-01f);\n"
              "  p = p * t + sp_f(1.128379144e+00f);\n"
              "  vf q = sp_f(3.783095840e-05f);\n"
              "  q = q * t + sp_f(1.170713490e-03f);\n"
              "  q = q * t + sp_f(1.505507226e-02f);\n"
              "  q = q * t + sp_f(1.145596689e-01f);\n"
              "  q = q * t + sp_f(5.030899673e-01f);\n"
              "  q = q * t + sp_f(1.0f);\n"
              "  return from_f(upto_f(x * p / q, 1.0f), -1.0f);\n"
              "}\n"},
    /* sin and cos: three-part reduction by pi/2 up to 8192, libm beyond. Error < 2 ulp, beside their zeros of 2^-10. */
    {"sincos_f", "float sinf(float); float cosf(float);\n" FN "vf sincos_f(vf x, int quarter) {\n"
                 "  vf n = x * sp_f(0.636619772f) + sp_f(12582912.0f);\n"
                 "  vi q = (vi)n - sp_i(0x4b400000) + sp_i(quarter);\n"
                 "  n = n - sp_f(12582912.0f);\n"
                 "  vf r = x - n * sp_f(1.5703125f);\n"
                 "  r = r - n * sp_f(4.83751297e-4f);\n"
                 "  r = r - n * sp_f(7.54978942e-8f);\n"
                 "  vf t = r * r;\n"
                 "  vf s = sp_f(2.724323819e-06f);\n"
                 "  s = s * t + sp_f(-1.984003373e-04f);\n"
                 "  s = s * t + sp_f(8.333331773e-03f);\n"
                 "  s = s * t + sp_f(-1.666666666e-01f);\n"
                 "  s = s * t * r + r;\n"
                 "  vf c = sp_f(-2.678166043e-07f);\n"
                 "  c = c * t + sp_f(2.479608990e-05f);\n"
                 "  c = c * t + sp_f(-1.388887901e-03f);\n"
                 "  c = c * t + sp_f(4.166666666e-02f);\n"
                 "  c = c * t * t - sp_f(0.5f) * t + sp_f(1.0f);\n"
                 "  vf y = sel_f((vi)((q & 1) != sp_i(0)), c, s);\n"
                 "  y = (vf)((vi)y ^ ((q & 2) << 30));\n"
                 "  if (!quarter) y = sel_f((vi)(x == sp_f(0)), x, y); /* -0 */\n"
                 "  if (any_m((vi)(abs_f(x) > sp_f(8192.0f)))) " LANES
                 "if (!(__builtin_fabsf(x[k]) <= 8192.0f)) y[k] = quarter ? cosf(x[k]) : sinf(x[k]);\n"
                 "  return y;\n}\n"},
    {"sin_f", FN "vf sin_f(vf x) { return sincos_f(x, 0); }\n"},
    {"cos_f", FN "vf cos_f(vf x) { return sincos_f(x, 1); }\n"},
    LIBM1D("exp", "exp"), LIBM1D("log", "log"), LIBM1D("tanh", "tanh"), LIBM1D("erf", "erf"), LIBM1D("sin", "sin"),
    LIBM1D("cos", "cos"),
    LIBM1("exp2", "exp2f", "exp2"), LIBM1("expm1", "expm1f", "expm1"), LIBM1("log2", "log2f", "log2"),
    LIBM1("log10", "log10f", "log10"), LIBM1("log1p", "log1pf", "log1p"), LIBM1("tan", "tanf", "tan"),
    LIBM1("asin", "asinf", "asin"), LIBM1("acos", "acosf", "acos"), LIBM1("atan", "atanf", "atan"),
    LIBM1("sinh", "sinhf", "sinh"), LIBM1("cosh", "coshf", "cosh"), LIBM1("asinh", "asinhf", "asinh"),
    LIBM1("acosh", "acoshf", "acosh"), LIBM1("atanh", "atanhf", "atanh"), LIBM1("erfc", "erfcf", "erfc"),
    LIBM1("lgamma", "lgammaf", "lgamma"),
    LIBM2("pow", "powf", "pow"), LIBM2("atan2", "atan2f", "atan2"), LIBM2("hypot", "hypotf", "hypot"),
    LIBM2("fmod", "fmodf", "fmod"),
    /* inverse erf: Winitzki's start, then two Newton steps in double */
    {"erfinv1", "double erf(double); double erfc(double); double exp(double); double log(double); double sqrt(double);\n" FN
                "double erfinv1(double y) {\n"
                "  double a = y < 0 ? -y : y;\n"
                "  if (!(a < 1)) return a == 1 ? y * __builtin_inf() : __builtin_nan(\"\");\n"
                "  double w = log((1 - a) * (1 + a)), s = 4.3307467508 + w / 2;\n"
                "  double x = sqrt(sqrt(s * s - w / 0.147) - s);\n"
                "  for (int k = 0; k < 3; k++) {\n"
                "    double e = a < 0.5 ? erf(x) - a : (1 - a) - erfc(x);\n"
                "    x -= e / (1.1283791670955126 * exp(-x * x) + 0 * x);\n"
                "  }\n"
                "  return y < 0 ? -x : x;\n}\n"},
    {"erfinv_f", FN "vf erfinv_f(vf x) { vf r; " LANES "r[k] = (float)erfinv1(x[k]); return r; }\n"},
    {"erfinv_d", FN "vd erfinv_d(vd x) { vd r; " LANES "r[k] = erfinv1(x[k]); return r; }\n"},
    /* digamma: recurrence up to 10, then the asymptotic series; reflection below 0 */
    {"digamma1", "double log(double); double tan(double); double floor(double); double trunc(double);\n"
                 "static double digamma1(double x) {\n"
                 "  double shift = 0;\n"
                 "  if (x == 0) return __builtin_copysign(__builtin_inf(), -x);\n"
                 "  if (x < 0) {\n"
                 "    if (x == floor(x)) return __builtin_nan(\"\");\n"
                 "    shift = -3.14159265358979323846 / tan(3.14159265358979323846 * (x - trunc(x)));\n"
                 "    x = 1 - x;\n"
                 "  }\n"
                 "  for (; x < 10; x += 1) shift -= 1 / x;\n"
                 "  double t = 1 / (x * x);\n"
                 "  return shift + log(x) - 0.5 / x - t * (1.0 / 12 - t * (1.0 / 120 - t * (1.0 / 252 - t * (1.0 / 240 - t * (1.0 / 132 - t * (691.0 / 32760 - t * (1.0 / 12)))))));\n"
                 "}\n"},
    {"digamma_f", FN "vf digamma_f(vf x) { vf r; " LANES "r[k] = (float)digamma1(x[k]); return r; }\n"},
    {"digamma_d", FN "vd digamma_d(vd x) { vd r; " LANES "r[k] = digamma1(x[k]); return r; }\n"},
    /* Hurwitz zeta: nine terms or more until k + q > 9, then Euler's and Maclaurin's formula */
    {"zeta1", "double pow(double, double); double floor(double);\n"
              "static double zeta1(double x, double q) {\n"
              "  const double b[12] = {1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6, -3617.0 / 510,\n"
              "                        43867.0 / 798, -174611.0 / 330, 854513.0 / 138, -236364091.0 / 2730};\n"
              "  if (x == 1) return __builtin_inf();\n"
              "  if (q != q || !(x > 1)) return __builtin_nan(\"\");\n"
              "  if (q <= 0 && q == floor(q)) return __builtin_inf();\n"
              "  if ((q <= 0 && x != floor(x)) || q < -1e6) return __builtin_nan(\"\");\n"
              "  double sum = 0, f = x;\n"
              "  for (int k = 0; k < 9 || q <= 9; k++, q += 1) sum += pow(q, -x);\n"
              "  double t = pow(q, -x);\n"
              "  sum += t * q / (x - 1) + t / 2;\n"
              "  t /= q;\n"
              "  for (int k = 0; k < 12; k++) {\n"
              "    f /= k ? (2 * k + 1) * (2 * k + 2) : 2;\n"
              "    sum += b[k] * f * t;\n"
              "    f *= (x + 2 * k + 1) * (x + 2 * k + 2);\n"
              "    t /= q * q;\n"
              "  }\n"
              "  return sum;\n"
              "}\n"},
    {"zeta_f", FN "vf zeta_f(vf x, vf y) { vf r; " LANES "r[k] = (float)zeta1(x[k], y[k]); return r; }\n"},
    {"zeta_d", FN "vd zeta_d(vd x, vd y) { vd r; " LANES "r[k] = zeta1(x[k], y[k]); return r; }\n"},
    /* floor division and remainder as eager PyTorch rounds them: through fmod */
#define FLOORDIV(c, T, sfx)                                                                                            \
    {"remainder_" c, T " fmod" sfx "(" T ", " T "); " FN "v" c " remainder_" c "(v" c " x, v" c " y) { v" c " r; " LANES \
                     "{ " T " m = fmod" sfx "(x[k], y[k]); r[k] = m != 0 && (m < 0) != (y[k] < 0) ? m + y[k] : m; } return r; }\n"}, \
    {"floordiv_" c, T " fmod" sfx "(" T ", " T "); " FN "v" c " floordiv_" c "(v" c " x, v" c " y) { v" c " r; " LANES \
                    "{ " T " a = x[k], b = y[k], m = fmod" sfx "(a, b), q = (a - m) / b;"                             \
                    " if (b == 0) { r[k] = a / b; continue; } if (m != 0 && (b < 0) != (m < 0)) q -= 1;"               \
                    " " T " f = __builtin_floor" sfx "(q); if (q != 0) { if (q - f > (" T ")0.5) f += 1; }"           \
                    " else f = __builtin_copysign" sfx "(0, a / b); r[k] = f; } return r; }\n"}
    FLOORDIV("f", "float", "f"), FLOORDIV("d", "double", ""),
    /* ints */
#define INTS(c, T, U)                                                                                                  \
    {"abs_" c, FN "v" c " abs_" c "(v" c " x) { v" c " m = x >> (8 * (int)sizeof(" T ") - 1); return (x ^ m) - m; }\n"}, \
    {"sign_" c, FN "v" c " sign_" c "(v" c " x) { return (v" c ")(x < sp_" c "(0)) - (v" c ")(x > sp_" c "(0)); }\n"}, \
    {"relu_" c, FN "v" c " relu_" c "(v" c " x) { return x & ~(v" c ")(x < sp_" c "(0)); }\n"},                        \
    {"min_" c, FN "v" c " min_" c "(v" c " a, v" c " b) { v" c " m = (v" c ")(a < b); return (m & a) | (~m & b); }\n"}, \
    {"max_" c, FN "v" c " max_" c "(v" c " a, v" c " b) { v" c " m = (v" c ")(a > b); return (m & a) | (~m & b); }\n"}, \
    {"div_" c, FN "v" c " div_" c "(v" c " a, v" c " b) { v" c " r; " LANES                                            \
               "r[k] = b[k] == 0 ? 0 : b[k] == -1 ? (" T ")(0 - (" U ")a[k]) : a[k] / b[k]; return r; }\n"},           \
    {"floordiv_" c, FN "v" c " floordiv_" c "(v" c " a, v" c " b) { v" c " q = div_" c "(a, b), m = a - q * b;"        \
                    " return q + ((v" c ")(m != sp_" c "(0)) & (v" c ")((m < sp_" c "(0)) != (b < sp_" c "(0))) & (v" c ")(b != sp_" c "(0))); }\n"}, \
    {"fmod_" c, FN "v" c " fmod_" c "(v" c " a, v" c " b) { return (a - div_" c "(a, b) * b) & (v" c ")(b != sp_" c "(0)); }\n"}, \
    {"remainder_" c, FN "v" c " remainder_" c "(v" c " a, v" c " b) { v" c " m = fmod_" c "(a, b);"                   \
                     " return m + (b & (v" c ")(m != sp_" c "(0)) & (v" c ")((m < sp_" c "(0)) != (b < sp_" c "(0)))); }\n"}, \
    {"pow_" c, FN "v" c " pow_" c "(v" c " a, v" c " b) { v" c " r; " LANES                                            \
               "{ " U " x = (" U ")a[k], y = 1; " T " e = b[k]; if (e < 0) { y = a[k] == 1 ? 1 : a[k] == -1 ? ((e & 1) ? (" U ")-1 : 1) : 0; e = 0; }" \
               " for (; e; e >>= 1, x *= x) if (e & 1) y *= x; r[k] = (" T ")y; } return r; }\n"},                     \
    {"gcd_" c, FN "v" c " gcd_" c "(v" c " a, v" c " b) { v" c " r; " LANES                                            \
               "{ " T " x = a[k], y = b[k]; while (x) { " T " t = x == -1 ? 0 : y % x; y = x; x = t; } r[k] = y; }"     \
               " return r; }\n"},                                                                                     \
    {"shl_" c, FN "v" c " shl_" c "(v" c " a, v" c " b) { v" c " r; " LANES                                            \
               "r[k] = b[k] < 0 || b[k] >= 8 * (int)sizeof(" T ") ? 0 : (" T ")((" U ")a[k] << b[k]); return r; }\n"}, \
    {"shr_" c, FN "v" c " shr_" c "(v" c " a, v" c " b) { v" c " r; " LANES                                            \
               "r[k] = a[k] >> (b[k] < 0 || b[k] >= 8 * (int)sizeof(" T ") ? 8 * (int)sizeof(" T ") - 1 : b[k]); return r; }\n"}
    INTS("i", "int", "unsigned"), INTS("l", "ll", "unsigned long long"),
    /* across lanes */
#define ACROSS(c, T)                                                                                                   \
    {"hsum_" c, FN T " hsum_" c "(v" c " a) { TREE(a, a + b) return a[0]; }\n"},                                       \
    {"hprod_" c, FN T " hprod_" c "(v" c " a) { TREE(a, a * b) return a[0]; }\n"},                                     \
    {"hmin_" c, FN T " hmin_" c "(v" c " a) { TREE(a, min_" c "(a, b)) return a[0]; }\n"},                             \
    {"hmax_" c, FN T " hmax_" c "(v" c " a) { TREE(a, max_" c "(a, b)) return a[0]; }\n"},                             \
    {"argmax_" c, FN "void argmax_" c "(v" c " *a, vl *x, v" c " v, vl p) {\n"                                         \
                  "  vi first = mask_l(p < *x), nan = nan_" c "(v);\n"                                                 \
                  "  vi take = (mask_" c "x(v > *a) & ~nan_" c "(*a)) | (mask_" c "x(v == *a) & first) | (nan & (~nan_" c "(*a) | first));\n" \
                  "  *a = sel_" c "(take, v, *a); *x = sel_l(take, p, *x); }\n"},                                      \
    {"argmin_" c, FN "void argmin_" c "(v" c " *a, vl *x, v" c " v, vl p) {\n"                                         \
                  "  vi first = mask_l(p < *x), nan = nan_" c "(v);\n"                                                 \
                  "  vi take = (mask_" c "x(v < *a) & ~nan_" c "(*a)) | (mask_" c "x(v == *a) & first) | (nan & (~nan_" c "(*a) | first));\n" \
                  "  *a = sel_" c "(take, v, *a); *x = sel_l(take, p, *x); }\n"},                                      \
    {"hargmax_" c, FN "ll hargmax_" c "(v" c " a, vl x) { for (int k = 1; k < VF; k++) argmax_" c "(&a, &x, sp_" c "(a[k]), sp_l(x[k])); return x[0]; }\n"}, \
    {"hargmin_" c, FN "ll hargmin_" c "(v" c " a, vl x) { for (int k = 1; k < VF; k++) argmin_" c "(&a, &x, sp_" c "(a[k]), sp_l(x[k])); return x[0]; }\n"}, \
    {"cummax_" c, FN "void cummax_" c "(v" c " *a, vl *x, v" c " v, vl p) {\n"                                         \
                  "  vi take = nan_" c "(v) | (mask_" c "x(v >= *a) & ~nan_" c "(*a)); *a = sel_" c "(take, v, *a); *x = sel_l(take, p, *x); }\n"}, \
    {"cummin_" c, FN "void cummin_" c "(v" c " *a, vl *x, v" c " v, vl p) {\n"                                         \
                  "  vi take = nan_" c "(v) | (mask_" c "x(v <= *a) & ~nan_" c "(*a)); *a = sel_" c "(take, v, *a); *x = sel_l(take, p, *x); }\n"}
    ACROSS("f", "float"), ACROSS("d", "double"), ACROSS("i", "int"), ACROSS("l", "ll"),
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
    {"lse_f", FN "vf lse_f(vf a, vf b) { vf m = max_f(a, b); vf r = m + log_f(exp_f(a - m) + exp_f(b - m));"
              " return sel_f((vi)(abs_f(m) == sp_f(__builtin_inff())), m, r); }\n"},
    {"lse_d", FN "vd lse_d(vd a, vd b) { vd m = max_d(a, b); vd r = m + log_d(exp_d(a - m) + exp_d(b - m));"
              " return sel_d(mask_l((vl)(abs_d(m) == sp_d(__builtin_inf()))), m, r); }\n"},
    /* loads and stores of VF elements in a row */
    {"ld_f32", FN "vf ld_f32(const float *p) { return *(const vfu *)p; }\n"},
    {"ld_f64", FN "vd ld_f64(const double *p) { return *(const vdu *)p; }\n"},
    {"ld_i64", FN "vl ld_i64(const ll *p) { return *(const vlu *)p; }\n"},
    {"ld_i32", FN "vi ld_i32(const int *p) { return *(const viu *)p; }\n"},
    {"ld_i16", FN "vi ld_i16(const short *p) { return __builtin_convertvector(*(const vsu *)p, vi); }\n"},
    {"ld_i8", FN "vi ld_i8(const signed char *p) { return __builtin_convertvector(*(const vcu *)p, vi); }\n"},
    {"ld_u8", FN "vi ld_u8(const unsigned char *p) { return __builtin_convertvector(*(const vbu *)p, vi); }\n"},
    {"ld_bool", FN "vi ld_bool(const unsigned char *p) { return (vi)(__builtin_convertvector(*(const vbu *)p, vi) != sp_i(0)); }\n"},
    {"ld_bf16", FN "vf ld_bf16(const unsigned short *p) { return (vf)(__builtin_convertvector(*(const vwu *)p, vi) << 16); }\n"},
    {"ld_f16", FN "vf ld_f16(const unsigned short *p) { return h_f(__builtin_convertvector(*(const vwu *)p, vi)); }\n"},
    {"st_f32", FN "void st_f32(float *p, vf v) { *(vfu *)p = v; }\n"},
    {"st_f64", FN "void st_f64(double *p, vd v) { *(vdu *)p = v; }\n"},
    {"st_i64", FN "void st_i64(ll *p, vl v) { *(vlu *)p = v; }\n"},
    {"st_i32", FN "void st_i32(int *p, vi v) { *(viu *)p = v; }\n"},
    {"st_i16", FN "void st_i16(short *p, vi v) { *(vsu *)p = __builtin_convertvector(v, vsu); }\n"},
    {"st_i8", FN "void st_i8(signed char *p, vi v) { *(vcu *)p = __builtin_convertvector(v, vcu); }\n"},
    {"st_u8", FN "void st_u8(unsigned char *p, vi v) { *(vbu *)p = __builtin_convertvector(v, vbu); }\n"},
    {"st_bool", FN "void st_bool(unsigned char *p, vi v) { *(vbu *)p = __builtin_convertvector(-v, vbu); }\n"},
    {"st_bf16", FN "void st_bf16(unsigned short *p, vf v) { *(vwu *)p = __builtin_convertvector((vi)round_bf16(v) >> 16, vwu); }\n"},
    /* past the caches, for results much larger than they; an address that is not aligned takes the plain way */
    {"nt_f32", "#if defined(STREAM_PS)\n" FN "void nt_f32(float *p, vf v) { if (((unsigned long long)p & (4 * VF - 1)) == 0) STREAM_PS(p, v); else *(vfu *)p = v; }\n"
               "#else\n" FN "void nt_f32(float *p, vf v) { *(vfu *)p = v; }\n#endif\n"},
    {"na_f32", "#if defined(STREAM_PS)\n" FN "void na_f32(float *p, vf v) { STREAM_PS(p, v); }\n"
               "#else\n" FN "void na_f32(float *p, vf v) { *(vfu *)p = v; }\n#endif\n"},
    {"nt_i32", FN "void nt_i32(int *p, vi v) { nt_f32((float *)p, (vf)v); }\n"},
    {"nt_f64", "#if defined(STREAM_PS)\n" FN "void nt_f64(double *p, vd v) { union { vd v; vf h[2]; } u = {v};"
               " if (((unsigned long long)p & (4 * VF - 1)) == 0) { STREAM_PS((float *)p, u.h[0]); STREAM_PS((float *)p + VF, u.h[1]); } else *(vdu *)p = v; }\n"
               "#else\n" FN "void nt_f64(double *p, vd v) { *(vdu *)p = v; }\n#endif\n"},
    {"nt_i64", FN "void nt_i64(ll *p, vl v) { nt_f64((double *)p, (vd)v); }\n"},
    {"nt_fence", "#if defined(STREAM_PS)\n" FN "void nt_fence(void) { __builtin_ia32_sfence(); }\n"
                 "#else\n" FN "void nt_fence(void) {}\n#endif\n"},
    {"st_f16", FN "void st_f16(unsigned short *p, vf v) { *(vwu *)p = __builtin_convertvector(f_h(v), vwu); }\n"},
    /* a VF x VF square: rows of p are s elements apart, those of t w; t[u * w + k] = p[k * s + u]. Of 8 x 8, or four of these. */
    {"tile8", "#if VF >= 8\ntypedef float v8 __attribute__((vector_size(32)));\n"
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
    {"tile_f32", "#if VF >= 8\n" FN "void tile_f32(const float *p, ll s, float *t, ll w) {\n"
                 "  for (int y = 0; y < VF; y += 8) for (int x = 0; x < VF; x += 8) tile8(p + y * s + x, s, t + x * w + y, w);\n}\n"
                 "#else\n" FN "void tile_f32(const float *p, ll s, float *t, ll w) { for (int k = 0; k < VF; k++) " LANES_U
                 "t[u * w + k] = p[k * s + u]; }\n#endif\n"},
    /* philox 4x32-10: key = seed, counter = (element / 4, stream); word element % 4. The same as the interpreter's. */
    {"philox", "static unsigned philox(unsigned long long key, unsigned long long block, unsigned long long stream, int word) {\n"
               "  unsigned c0 = (unsigned)block, c1 = (unsigned)(block >> 32), c2 = (unsigned)stream, c3 = (unsigned)(stream >> 32);\n"
               "  unsigned k0 = (unsigned)key, k1 = (unsigned)(key >> 32);\n"
               "  for (int r = 0; r < 10; r++) {\n"
               "    unsigned long long p = 0xD2511F53ull * c0, q = 0xCD9E8D57ull * c2;\n"
               "    c0 = (unsigned)(q >> 32) ^ c1 ^ k0; c2 = (unsigned)(p >> 32) ^ c3 ^ k1; c1 = (unsigned)q; c3 = (unsigned)p;\n"
               "    k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;\n"
               "  }\n"
               "  return word == 0 ? c0 : word == 1 ? c1 : word == 2 ? c2 : c3;\n}\n"},
    {"random_uniform", "static double random_uniform(ll seed, ll at, ll stream, int bits) {\n"
                       "  unsigned w = philox((unsigned long long)seed, (unsigned long long)at / 4, (unsigned long long)stream, (int)(at % 4));\n"
                       "  return (w >> (32 - bits)) / (double)(1ull << bits);\n}\n"},
    {"random_bits", "static ll random_bits(ll seed, ll at, ll stream) {\n"
                    "  return philox((unsigned long long)seed, (unsigned long long)at / 4, (unsigned long long)stream, (int)(at % 4));\n}\n"},
    {"random_normal", "double log(double); double sqrt(double); double sin(double); double cos(double);\n"
                      "static double random_normal(ll seed, ll at, ll stream) {\n"
                      "  unsigned long long b = (unsigned long long)at / 4; int w = (int)(at % 4) & ~1;\n"
                      "  double u = (philox((unsigned long long)seed, b, (unsigned long long)stream, w) + 1.0) * 0x1p-32;\n"
                      "  double v = philox((unsigned long long)seed, b, (unsigned long long)stream, w + 1) * 0x1p-32;\n"
                      "  double r = sqrt(-2 * log(u)), t = 6.28318530717958647692 * v;\n"
                      "  return at % 2 ? r * sin(t) : r * cos(t);\n}\n"},
};

#define BLOCK(name, width)                                                                                             \
    {name, "static void " name "@N(const @T *p, ll s, ll iw, ll jw, @T *q) {\n"                                        \
           "  ll v = 0;\n"                                                                                             \
           "  for (; v + VF <= jw; v += VF) {\n"                                                                       \
           "    ll u = 0;\n"                                                                                           \
           "    for (; u + VF <= iw; u += VF) tile_@N(p + v * s + u, s, q + u * " width " + v, " width ");\n"           \
           "    for (; u < iw; u++) " LANES "q[u * " width " + v + k] = p[(v + k) * s + u];\n"                         \
           "  }\n"                                                                                                     \
           "  for (; v < jw; v++) for (ll u = 0; u < iw; u++) q[u * " width " + v] = p[v * s + u];\n}\n"}

/* Access patterns over every dtype: @T element type, @V vector type, @N dtype name. */
const c_snippet c_patterns[] = {
    {"ldn_", FN "@V ldn_@N(const @T *p, ll n) { @T t[VF] = {0}; for (ll k = 0; k < n; k++) t[k] = p[k]; return ld_@N(t); }\n"},
    {"lds_", FN "@V lds_@N(const @T *p, ll s) { @T t[VF]; " LANES "t[k] = p[k * s]; return ld_@N(t); }\n"},
    /* 8 or 16 lanes, every second element: nothing behind the last one is read */
    {"lds2_", FN "@V lds2_@N(const @T *p) { @V a = ld_@N(p), b = ld_@N(p + VF - 1);\n"
              "#if VF == 16\n"
              "  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31);\n"
              "#else\n"
              "  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 9, 11, 13, 15);\n"
              "#endif\n}\n"},
    {"ldsn_", FN "@V ldsn_@N(const @T *p, ll s, ll n) { @T t[VF] = {0}; for (ll k = 0; k < n; k++) t[k] = p[k * s]; return ld_@N(t); }\n"},
    {"lp_", FN "@V lp_@N(const @T *p) { @T t[VF]; " LANES "t[k] = *p; return ld_@N(t); }\n"},
    {"stn_", FN "void stn_@N(@T *p, @V v, ll n) { @T t[VF]; st_@N(t, v); for (ll k = 0; k < n; k++) p[k] = t[k]; }\n"},
    {"sts_", FN "void sts_@N(@T *p, ll s, @V v, ll n) { @T t[VF]; st_@N(t, v); for (ll k = 0; k < n; k++) p[k * s] = t[k]; }\n"},
    {"stg_", FN "void stg_@N(@T *p, vl o, @V v, ll n) { @T t[VF]; st_@N(t, v); for (ll k = 0; k < n; k++) p[o[k]] = t[k]; }\n"},
    {"tile_", FN "void tile_@N(const @T *p, ll s, @T *t, ll w) { for (int k = 0; k < VF; k++) " LANES_U "t[u * w + k] = p[k * s + u]; }\n"},
    /* a block of at most 64 x 64: q[u * 64 + v] = p[v * s + u] for u < iw, v < jw */
    BLOCK("block_", "64"),
    /* of words, at most 128 x 128, rows of q 144 apart */
    BLOCK("wide_", "144"),
    {"s1_", FN "void s1_@N(@T *p, @V v) { @T t[VF]; st_@N(t, v); *p = t[0]; }\n"},
};

const uint32_t c_snippet_count = HN_COUNT_OF(c_snippets), c_pattern_count = HN_COUNT_OF(c_patterns);
