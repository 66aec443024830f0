/* interp_math.c: the functions of ops.def that libm lacks. */
#include "ir/interp_impl.h"

/* Inverse error function. A rough start (Winitzki's formula, 2 digits), then Halley's method on erf
 * near 0 and on erfc elsewhere, where 1 - |x| is exact and erf would lose all digits. */
double hn_ref_erfinv(double x) {
    const double a = 0.147, half_sqrt_pi = 0.88622692545275801365;
    double ax = fabs(x);
    if (isnan(x) || ax > 1) return NAN;
    if (ax == 1) return copysign(INFINITY, x);
    if (x == 0) return x;
    double log_part = log1p(-ax * ax), b = 2 / (M_PI * a) + log_part / 2;
    double y = sqrt(sqrt(b * b - log_part / a) - b);
    for (int step = 0; step < 4; step++) {
        double error = ax < 0.5 ? erf(y) - ax : (1 - ax) - erfc(y);
        double newton = error * half_sqrt_pi * exp(y * y); /* error over the derivative of erf */
        y -= newton / (1 + y * newton);
    }
    return copysign(y, x);
}

/* Derivative of lgamma. Reflection for x <= 0, recurrence up to 10, then the asymptotic series in
 * 1/x^2. At 0 the pole's side follows the sign of zero; at negative integers there is none, so NaN
 * (as PyTorch). */
double hn_ref_digamma(double x) {
    static const double series[] = {1.0 / 12,  -1.0 / 120,     1.0 / 252, -1.0 / 240,
                                    1.0 / 132, -691.0 / 32760, 1.0 / 12}; /* B(2k) / 2k */
    double below = 0;
    if (x == 0) return copysign(INFINITY, -x);
    if (x < 0) {
        if (x == floor(x)) return NAN;
        /* tan(pi x) has period 1: reducing first keeps the digits of large x */
        double part = x - trunc(x);
        return hn_ref_digamma(1 - x) - M_PI / tan(M_PI * part);
    }
    for (; x < 10; x += 1) below += 1 / x;
    if (isinf(x)) return x;
    double inverse = 1 / (x * x), power = inverse, sum = 0;
    for (size_t k = 0; k < sizeof series / sizeof series[0]; k++, power *= inverse)
        sum += series[k] * power;
    return log(x) - 0.5 / x - sum - below;
}

/* Hurwitz zeta by Euler's and Maclaurin's formula: nine terms or more until k + q > 9, then the
 * integral, half a term and twelve corrections with Bernoulli's numbers. Where q is not positive
 * there is a value for whole x only. */
double hn_ref_zeta(double x, double q) {
    static const double series[] = {1.0 / 6,         -1.0 / 30,      1.0 / 42,
                                    -1.0 / 30,       5.0 / 66,       -691.0 / 2730,
                                    7.0 / 6,         -3617.0 / 510,  43867.0 / 798,
                                    -174611.0 / 330, 854513.0 / 138, -236364091.0 / 2730};
    if (x == 1) return INFINITY;
    if (isnan(q) || !(x > 1)) return NAN;
    if (q <= 0 && q == floor(q)) return INFINITY;
    if (q <= 0 && x != floor(x)) return NAN;
    if (q < -1e6) return NAN; /* more terms than anyone waits for */
    double sum = 0, at = q, factor = x;
    for (int k = 0; k < 9 || at <= 9; k++, at += 1) sum += pow(at, -x);
    double term = pow(at, -x);
    sum += term * at / (x - 1) + term / 2;
    term /= at;
    for (int k = 0; k < 12; k++) { /* B(2k) / (2k)! x (x + 1) .. (x + 2k - 2) at^(1 - x - 2k) */
        factor /= k ? (2 * k + 1) * (2 * k + 2) : 2;
        sum += series[k] * factor * term;
        factor *= (x + 2 * k + 1) * (x + 2 * k + 2);
        term /= at * at;
    }
    return sum;
}
