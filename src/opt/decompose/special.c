/* special.c: special functions that are formulas over primitives. The coefficients of Bessel's
 * functions are Chebyshev fits of e^-x I(x) on [0, 8] and, times sqrt(x), beyond, computed with 40
 * digits. Checked by tests/ops/cases/special.txt. */
#include "opt/decompose/math.h"
#include "opt/decompose/operands.h"

#include "base/compiler.h"

#include <math.h>

/* --- Bessel's functions --- */

static const double i0_low[] = {
    0.338397637204738042,     -0.304682672343198399,    0.171620901522208775,
    -0.0949010970480476444,   0.0493052842396707085,    -0.0237374148058994688,
    0.0105464603945949983,    -0.00432430999505057594,  0.0016394756169413358,
    -0.000576375574538582366, 0.000188502885095841656,  -0.000057541950100821037,
    0.0000164484480707288971, -4.41673835845875056e-6,  1.11738753912010372e-6,
    -2.67079385394061173e-7,  6.04699502254191895e-8,   -1.30002500998624804e-8,
    2.65982372468238665e-9,   -5.18979560163526291e-10, 9.67580903537323691e-11,
    -1.72682629144155571e-11, 2.95505266312963983e-12,  -4.85644678311192946e-13,
    7.67618549860493562e-14,  -1.16853328779934517e-14, 1.71539128555513303e-15,
    -2.43127984654795469e-16, 3.3307945188222381e-17,   -4.41534164647933938e-18};
static const double i0_high[] = {
    0.402245205507054416,     0.00336911647825569409,   0.0000688975834691682398,
    2.89137052083475648e-6,   2.04891858946906374e-7,   2.26666899049817806e-8,
    3.39623202570838635e-9,   4.94060238822496959e-10,  1.18891471078464383e-11,
    -3.14991652796324136e-11, -1.32158118404477131e-11, -1.79417853150680612e-12,
    7.18012445138366623e-13,  3.8527783827421427e-13,   1.54008621752140983e-14,
    -4.15056934728722209e-14, -9.55484669882830765e-15, 3.81168066935262242e-15,
    1.77256013305652638e-15,  -3.42548561967721913e-16, -2.82762398051658348e-16,
    3.46122286769746109e-17,  4.46562142029676e-17,     -4.83050448594418207e-18,
    -7.23318048787475395e-18};
static const double i1_low[] = {
    0.126293593221816827,     -0.176416518357834055,    0.102643658689847095,
    -0.0529459812080949914,   0.0247264490306265168,    -0.0105640848946261982,
    0.00415642294431288816,   -0.00151357245063125315,  0.000512285956168575773,
    -0.000161760815825896746, 0.0000478156510755005423, -0.0000132731636560394358,
    3.47025130813767848e-6,   -8.56872026469545474e-7,  2.00329475355213526e-7,
    -4.44505912879632808e-8,  9.38153738649577178e-9,   -1.88724975172282929e-9,
    3.62559028155211704e-10,  -6.66348972350202774e-11, 1.17361862988909016e-11,
    -1.98397439776494372e-12, 3.22379336594557471e-13,  -5.04218550472791169e-14,
    7.60068429473540693e-15,  -1.10559694773538631e-15, 1.55363195773620047e-16,
    -2.11142121435816608e-17, 2.77791411276104637e-18};
static const double i1_high[] = {
    0.38928811750914006,      -0.00976109749136146841,  -0.000110588938762623716,
    -3.88256480887769039e-6,  -2.51223623787020893e-7,  -2.63146884688951951e-8,
    -3.83538038596423702e-9,  -5.58974346219658381e-10, -1.89749581235054123e-11,
    3.25260358301548824e-11,  1.41258074366137813e-11,  2.03562854414708951e-12,
    -7.19855177624590851e-13, -4.08355111109219732e-13, -2.10154184277266431e-14,
    4.27244001671195135e-14,  1.04202769841288028e-14,  -3.8144030724370078e-15,
    -1.88035477551078245e-15, 3.30820231092092828e-16,  2.96262899764595014e-16,
    -3.20952592199342396e-17, -4.65030536848935833e-17, 4.41434832307170795e-18,
    7.51729631084210481e-18};

/* Clenshaw's sum of c[k] T_k(t); terms that the dtype cannot show are left out. */
static hn_value chebyshev(hn_dec *d, hn_value t, const double *c, size_t count) {
    double least = m_dtype(d, t) == HN_DTYPE_F64 ? 0 : 1e-10 * fabs(c[0]);
    while (count > 3 && fabs(c[count - 1]) < least) count--;
    hn_value b = m_c(d, t, c[count - 1]), before = m_c(d, t, 0), twice = m_mul_c(d, t, 2);
    for (size_t k = count - 1; k-- > 1;) {
        hn_value next = m_add_c(d, m_sub(d, m_mul(d, twice, b), before), c[k]);
        before = b;
        b = next;
    }
    return m_add_c(d, m_sub(d, m_mul(d, t, b), before), c[0]);
}

/* e^-|x| I0(x), or I1 when `odd`; without the factor when `grown`. */
static void bessel_i(hn_dec *d, bool odd, bool grown) {
    hn_operands o = hn_dec_first_operands(d, 1, HN_OPERANDS_TO_FLOAT | HN_OPERANDS_COMPOSITE);
    hn_value x = o.v[0], a = m_abs(d, x), small = m_min_c(d, a, 8), large = m_max_c(d, a, 8);
    hn_value low_t = m_sub_c(d, m_mul_c(d, small, 0.25), 1),
             high_t = m_sub_c(d, m_bin(d, HN_OP_DIV, m_c(d, a, 16), large), 1);
    hn_value low = odd ? m_mul(d, chebyshev(d, low_t, i1_low, HN_COUNT_OF(i1_low)), a)
                       : chebyshev(d, low_t, i0_low, HN_COUNT_OF(i0_low));
    hn_value high = odd ? chebyshev(d, high_t, i1_high, HN_COUNT_OF(i1_high))
                        : chebyshev(d, high_t, i0_high, HN_COUNT_OF(i0_high));
    hn_value y =
        m_where(d, m_bin_c(d, HN_OP_LE, a, 8), low, m_div(d, high, m_un(d, HN_OP_SQRT, large)));
    if (grown) y = m_mul(d, y, m_exp(d, a));
    if (odd) y = m_where(d, m_bin_c(d, HN_OP_LT, x, 0), m_neg(d, y), y);
    hn_dec_finish(d, 0, y, &o);
}
void hn_dec_i0(hn_dec *d) { bessel_i(d, false, true); }
void hn_dec_i0e(hn_dec *d) { bessel_i(d, false, false); }
void hn_dec_i1(hn_dec *d) { bessel_i(d, true, true); }
void hn_dec_i1e(hn_dec *d) { bessel_i(d, true, false); }

/* --- the normal distribution: computed in f64, because tails cancel --- */

/* e^(x x) erfc(x): beyond 20 its asymptotic series, where erfc is soon too small to hold. */
static hn_value erfcx(hn_dec *d, hn_value x) {
    hn_value inner = m_min_c(d, x, 20),
             near = m_mul(d, m_exp(d, m_square(d, inner)), m_un(d, HN_OP_ERFC, inner));
    hn_value outer = m_max_c(d, x, 20),
             step = m_un(d, HN_OP_RECIPROCAL, m_mul_c(d, m_square(d, outer), -2));
    hn_value sum = m_c(d, x, 1);
    for (int k = 7; k > 0; k--) sum = m_add_c(d, m_mul(d, m_mul_c(d, step, 2 * k - 1), sum), 1);
    hn_value far = m_div(d, m_mul_c(d, sum, M_2_SQRTPI / 2), outer);
    return m_where(d, m_bin_c(d, HN_OP_GT, x, 20), far, near);
}

/* log of the distribution function */
static hn_value log_ndtr(hn_dec *d, hn_value x) {
    hn_value scaled = m_mul_c(d, x, M_SQRT1_2), low = m_min_c(d, scaled, 0);
    hn_value tail = m_sub(d, m_log(d, m_mul_c(d, erfcx(d, m_neg(d, low)), 0.5)), m_square(d, low));
    hn_value body = m_un(d, HN_OP_LOG1P, m_mul_c(d, m_un(d, HN_OP_ERFC, scaled), -0.5));
    return m_where(d, m_bin_c(d, HN_OP_LT, x, -1), tail, body);
}

static void in_double(hn_dec *d, hn_value (*formula)(hn_dec *d, hn_value x)) {
    hn_operands o = hn_dec_first_operands(d, 1, HN_OPERANDS_TO_FLOAT);
    hn_dec_finish(d, 0, formula(d, m_cast(d, o.v[0], HN_DTYPE_F64)), &o);
}
void hn_dec_erfcx(hn_dec *d) { in_double(d, erfcx); }
void hn_dec_log_ndtr(hn_dec *d) { in_double(d, log_ndtr); }

/* The inverse: sqrt(2) erfinv(2 p - 1), which has no digits left for small p; there Newton's steps
 * on the logarithm. */
static hn_value ndtri(hn_dec *d, hn_value p) {
    hn_value body = m_mul_c(d, m_un(d, HN_OP_ERFINV, m_sub_c(d, m_mul_c(d, p, 2), 1)), M_SQRT2);
    hn_value small = m_min_c(d, p, 1e-3), log_p = m_log(d, small);
    hn_value x = m_neg(d, m_un(d, HN_OP_SQRT, m_mul_c(d, log_p, -2)));
    for (int k = 0; k < 6; k++) {
        hn_value at = log_ndtr(d, x),
                 slope = m_exp(d, m_sub(d, m_mul_c(d, m_square(d, x), -0.5), at));
        x = m_sub(d, x, m_div(d, m_sub(d, at, log_p), m_mul_c(d, slope, 0.3989422804014326779)));
    }
    hn_value tail = m_where(d, m_bin_c(d, HN_OP_EQ, p, 0), m_c(d, p, -INFINITY), x);
    hn_value is_tail = m_and(d, m_bin_c(d, HN_OP_LT, p, 1e-3), m_bin_c(d, HN_OP_GE, p, 0));
    return m_where(d, is_tail, tail, body);
}
void hn_dec_ndtri(hn_dec *d) { in_double(d, ndtri); }

/* --- others --- */

/* x log1p(y) with 0 where x = 0, unless y is NaN */
void hn_dec_xlog1py(hn_dec *d) {
    hn_operands o = hn_dec_first_operands(d, 2, HN_OPERANDS_TO_FLOAT | HN_OPERANDS_COMPOSITE);
    hn_value x = o.v[0], y = o.v[1];
    hn_value v =
        m_where(d, m_bin_c(d, HN_OP_EQ, x, 0), m_c(d, x, 0), m_mul(d, x, m_un(d, HN_OP_LOG1P, y)));
    hn_dec_finish(d, 0, m_where(d, m_un(d, HN_OP_ISNAN, y), m_c(d, y, NAN), v), &o);
}

void hn_dec_zeta(hn_dec *d) {
    hn_operands o = hn_dec_first_operands(d, 2, HN_OPERANDS_TO_FLOAT | HN_OPERANDS_COMPOSITE);
    hn_dec_finish(d, 0, m_bin(d, HN_OP_ZETA, o.v[0], o.v[1]), &o);
}

/* The n-th derivative of digamma: (-1)^(n+1) n! zeta(n + 1, x); `n` and `x` are argument
 * positions. */
static void derivative(hn_dec *d, uint32_t n_arg, uint32_t x_arg) {
    hn_operands o = hn_dec_operands(d, &x_arg, 1, HN_OPERANDS_TO_FLOAT | HN_OPERANDS_COMPOSITE);
    int64_t n = hn_dec_int(d, n_arg);
    if (!m_require(d, n >= 0 && n <= 170, "polygamma wants an order of 0 to 170")) return;
    if (n == 0) {
        hn_dec_finish(d, 0, m_un(d, HN_OP_DIGAMMA, o.v[0]), &o);
        return;
    }
    double factor = n % 2 ? 1 : -1;
    for (int64_t k = 2; k <= n; k++) factor *= (double)k;
    hn_value z = m_bin(d, HN_OP_ZETA, m_c(d, o.v[0], (double)n + 1), o.v[0]);
    hn_dec_finish(d, 0, m_mul_c(d, z, factor), &o);
}
/* aten.polygamma(n, self), aten.polygamma_(self, n) as its functional form has them */
void hn_dec_polygamma(hn_dec *d) { derivative(d, 0, 1); }

/* The angle of a real number: pi below 0. */
void hn_dec_angle(hn_dec *d) {
    hn_operands o = hn_dec_first_operands(d, 1, HN_OPERANDS_TO_FLOAT);
    hn_value x = o.v[0],
             angle = m_where(d, m_bin_c(d, HN_OP_LT, x, 0), m_c(d, x, M_PI), m_c(d, x, 0));
    hn_dec_finish(d, 0, m_where(d, m_un(d, HN_OP_ISNAN, x), x, angle), &o);
}

/* Of absolute values in the operands' dtype, where the smallest integer keeps its sign. */
static hn_value divisor(hn_dec *d, const hn_operands *o) {
    return m_bin(d, HN_OP_GCD, m_abs(d, o->v[0]), m_abs(d, o->v[1]));
}

void hn_dec_gcd(hn_dec *d) {
    hn_operands o = hn_dec_first_operands(d, 2, HN_OPERANDS_PLAIN);
    if (m_require(d, hn_dtype_is_int(o.compute), "gcd wants integers"))
        hn_dec_finish(d, 0, divisor(d, &o), &o);
}

/* |x / gcd y|; 0 where both are 0, since 0 / 0 is 0 for integers */
void hn_dec_lcm(hn_dec *d) {
    hn_operands o = hn_dec_first_operands(d, 2, HN_OPERANDS_PLAIN);
    if (!m_require(d, hn_dtype_is_int(o.compute), "lcm wants integers")) return;
    /* narrow products lose their high bits at the end */
    hn_dtype wide = o.compute == HN_DTYPE_I64 ? HN_DTYPE_I64 : HN_DTYPE_I32;
    hn_value x = m_cast(d, o.v[0], wide), y = m_cast(d, o.v[1], wide);
    hn_dec_finish(d, 0, m_abs(d, m_mul(d, m_div(d, x, m_cast(d, divisor(d, &o), wide)), y)), &o);
}
